//! A program that uses every call of a backend, whatever becomes of it, and what must hold afterwards.
//!
//! Its oracle is small because its program is fixed: a byte that can be read was last written by work that succeeded over
//! bytes that could be read, so it is what it would be had nothing failed at all. Everything else is claimed.

use super::backend::{HostBackend, HostDevice, Options, Pace};
use super::program::Program;
use super::rig::{add, increment, nine, part, silent, triple, whole, with};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate::code::Code;
use tidegate::device::{
    BufferDesc, BufferMemory, Device, FOREVER, Handle, KernelDesc, LaunchDesc, LaunchGrid, Scheduling, ScopeDesc,
    Settings, SliceUse,
};
use tidegate::error::{Error, Fault, Result as Answer};
use tidegate::failure::{Access, Failure};
use tidegate::memory::MemoryKind;
use tidegate::stream::backend::External;

pub const SCHEDULINGS: [Scheduling; 3] = [Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence];
const SIZE: u64 = 64;

/// A buffer, and what its bytes are if nothing fails; nothing while they are undefined.
struct Tracked {
    handle: Handle,
    bytes: Vec<Option<u8>>,
}

pub struct Scenario {
    pub device: HostDevice,
    buffers: Vec<Tracked>,
    kernels: Vec<(Handle, Program)>,
    bystander: Option<Handle>,
    /// Calls that panicked, and calls that failed.
    pub panics: u32,
    pub failures: u32,
    /// Bytes that could be read at the end, and bytes that could not.
    pub readable: usize,
    pub unreadable: usize,
}

pub fn settings(scheduling: Scheduling) -> Settings {
    Settings {
        scheduling,
        slots: 3,
        max_recorded: 3,
        max_tasks: 4,
        staging_size: 4096,
        memory_cap: 4 << 20,
        ..Settings::default()
    }
}

pub fn device(scheduling: Scheduling) -> HostDevice {
    let mut options = Options::new(7, 2).pace(Pace::Lazy);
    options.patience = 200;
    options.tells_budget = true;
    Device::new(HostBackend::new(options), 1, settings(scheduling), Some(tracing::Dispatch::none()))
}

/// Panics that a test asked for are not worth a page each.
pub fn hush() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let otherwise = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let words = info.payload_as_str().unwrap_or("");
            if !words.starts_with("the backend panics") && !words.starts_with("the driver panics") {
                otherwise(info);
            }
        }));
    });
}

impl Scenario {
    pub fn new(device: HostDevice) -> Scenario {
        Scenario {
            device,
            buffers: Vec::new(),
            kernels: Vec::new(),
            bystander: None,
            panics: 0,
            failures: 0,
            readable: 0,
            unreadable: 0,
        }
    }

    /// A buffer that nothing of the program touches.
    pub fn with_bystander(mut self) -> Scenario {
        let buffer = self.buffer(MemoryKind::Device);
        self.write(0, buffer, 0, &[0xB5; SIZE as usize]);
        self.device.wait(FOREVER).expect("a wait");
        self.bystander = Some(self.buffers.remove(buffer).handle);
        self
    }

    /// A call that may panic, as calls from C do.
    fn call<T>(&mut self, f: impl FnOnce(&HostDevice) -> Answer<T>) -> Answer<T> {
        catch_unwind(AssertUnwindSafe(|| f(&self.device))).unwrap_or_else(|_| {
            self.panics += 1;
            Err(Fault::new(Code::Internal, "the call panicked").into())
        })
    }

    /// Work that writes: unless nothing changed, its bytes are what it was to write, or claimed.
    fn wrote(&mut self, buffer: usize, start: u64, bytes: Vec<Option<u8>>, panics: u32, answer: &Answer) {
        let (handle, size) = (self.buffers[buffer].handle, bytes.len() as u64);
        match answer {
            Ok(()) => {}
            Err(Error::Failed(..) | Error::Skipped(_)) => {
                self.failures += 1;
                if self.panics == panics {
                    let root = self.device.first_failure(&[part(handle, start, size)]).expect("a question");
                    assert_ne!(root, 0, "{answer:?} claims nothing");
                }
            }
            other => panic!("the program answers {other:?}"),
        }
        self.buffers[buffer].bytes[start as usize..][..size as usize].copy_from_slice(&bytes);
    }

    fn buffer(&mut self, kind: MemoryKind) -> usize {
        let memory = BufferMemory::Managed(kind);
        let desc = BufferDesc { size: SIZE, memory, stream: 0, label: "", tag: 0, unallocated: false };
        let mut handle = Handle(0);
        let answer = self.call(|device| {
            let (made, answer) = device.buffer_create(&desc);
            handle = made;
            answer
        });
        self.failures += u32::from(answer.is_err());
        self.buffers.push(Tracked { handle, bytes: vec![None; SIZE as usize] });
        self.buffers.len() - 1
    }

    fn kernel(&mut self, program: Program) -> usize {
        let code = program.encode();
        let mut handle = Handle(0);
        let answer = self.call(|device| {
            let (made, answer) = device.kernel_create(&kernel_desc(&code));
            handle = made;
            answer
        });
        self.failures += u32::from(answer.is_err());
        self.kernels.push((handle, program));
        self.kernels.len() - 1
    }

    pub fn write(&mut self, stream: u64, buffer: usize, start: u64, bytes: &[u8]) {
        let (slice, panics) = (part(self.buffers[buffer].handle, start, bytes.len() as u64), self.panics);
        let answer = self.call(|device| device.buffer_write(stream, slice, bytes, false));
        self.wrote(buffer, start, bytes.iter().map(|byte| Some(*byte)).collect(), panics, &answer);
    }

    fn fill(&mut self, stream: u64, buffer: usize, start: u64, end: u64, byte: u8) {
        let (slice, panics) = (part(self.buffers[buffer].handle, start, end - start), self.panics);
        let answer = self.call(|device| device.buffer_fill(stream, slice, u32::from(byte), 1));
        self.wrote(buffer, start, vec![Some(byte); (end - start) as usize], panics, &answer);
    }

    fn copy(&mut self, stream: u64, to: usize, from: usize) {
        let (dst, src) = (whole(self.buffers[to].handle), whole(self.buffers[from].handle));
        let (bytes, panics) = (self.buffers[from].bytes.clone(), self.panics);
        let answer = self.call(|device| device.buffer_copy(stream, dst, src));
        self.wrote(to, 0, bytes, panics, &answer);
    }

    /// Runs a kernel whose last binding is its output.
    fn launch(&mut self, stream: u64, kernel: usize, buffers: &[usize]) {
        use super::model::Stores;
        let (handle, program) = self.kernels[kernel].clone();
        let Some(&out) = buffers.last() else { return };
        let bindings: Vec<SliceUse> = buffers.iter().map(|b| silent(whole(self.buffers[*b].handle))).collect();
        // A broken kernel has no module that says what is written.
        let accesses = program.bindings.clone();
        let bindings: Vec<SliceUse> =
            bindings.into_iter().zip(accesses).map(|(u, access)| with(u.slice, access)).collect();
        let sizes = vec![SIZE; buffers.len()];
        let mut bytes = self.buffers[out].bytes.clone();
        let stores = program.run(&sizes, &[], [1; 3], &mut |b, at| self.buffers[buffers[b]].bytes[at as usize]);
        stores.into_iter().for_each(|(_, at, value)| bytes[at as usize] = value);
        let panics = self.panics;
        let desc = LaunchDesc {
            stream,
            kernel: handle,
            bindings: &bindings,
            extra: &[],
            grid: LaunchGrid::Groups([1; 3]),
            push: &[],
            label: "",
            tag: 0,
        };
        let answer = self.call(|device| device.launch(&desc));
        self.wrote(out, 0, bytes, panics, &answer);
    }

    /// Bytes that were read are what the program makes of them.
    fn is_right(&self, buffer: usize, start: u64, read: &[u8]) {
        for (at, (byte, right)) in (start..).zip(read.iter().zip(&self.buffers[buffer].bytes[start as usize..])) {
            assert!(right.is_none_or(|right| right == *byte), "byte {at} of {buffer} is {byte}, not {right:?}");
        }
    }

    fn read(&mut self, stream: u64, buffer: usize) -> Answer {
        let slice = whole(self.buffers[buffer].handle);
        let mut read = vec![0xEE; SIZE as usize];
        let answer = self.call(|device| device.buffer_read(stream, &mut read, slice, FOREVER));
        match &answer {
            Ok(()) => self.is_right(buffer, 0, &read),
            Err(_) => {
                assert!(read.iter().all(|byte| *byte == 0xEE), "a failed read touched its destination");
                self.failures += 1;
            }
        }
        answer
    }

    /// Writes, or reads, bytes where they lie.
    fn map(&mut self, buffer: usize, bytes: Option<&[u8]>) {
        let slice = whole(self.buffers[buffer].handle);
        let access = if bytes.is_some() { Access::Write } else { Access::Read };
        let panics = self.panics;
        let mut address = std::ptr::null_mut();
        let mut answer = self.call(|device| {
            address = device.buffer_map(slice, access, FOREVER)?;
            Ok(())
        });
        if answer.is_ok() {
            match bytes {
                Some(bytes) => self.device.backend().poke(address, bytes),
                None => self.is_right(buffer, 0, &self.device.backend().peek(address, SIZE as usize)),
            }
            answer = self.call(|device| device.buffer_unmap(slice));
        }
        match bytes {
            Some(bytes) => self.wrote(buffer, 0, bytes.iter().map(|byte| Some(*byte)).collect(), panics, &answer),
            None => self.failures += u32::from(answer.is_err()),
        }
    }

    fn begin_read(&mut self, stream: u64, buffer: usize) -> Handle {
        let slice = whole(self.buffers[buffer].handle);
        let mut handle = Handle(0);
        let answer = self.call(|device| {
            let (read, answer) = device.read_begin(stream, slice);
            handle = read;
            answer
        });
        self.failures += u32::from(answer.is_err());
        handle
    }

    fn end_read(&mut self, read: Handle, buffer: usize) {
        if read.is_null() {
            return;
        }
        let mut bytes = None;
        let answer = self.call(|device| {
            device.read_wait(read, FOREVER)?;
            bytes = Some(device.read_data(read)?);
            Ok(())
        });
        self.failures += u32::from(answer.is_err());
        if let Some(bytes) = bytes {
            self.is_right(buffer, 0, &bytes);
        }
        let _ = self.call(|device| device.read_release(read));
    }

    /// The program.
    pub fn run(&mut self) {
        let [a, b, c, d, e, f, g, h] = std::array::from_fn(|_| self.buffer(MemoryKind::Device));
        let (up, down) = (self.buffer(MemoryKind::Upload), self.buffer(MemoryKind::Readback));
        let [triple, add, increment, nine] = [triple(), add(), increment(), nine()].map(|kernel| self.kernel(kernel));
        let pattern: Vec<u8> = (0..SIZE as u8).collect();
        self.write(0, a, 0, &pattern);
        self.write(1, b, 0, &[3; SIZE as usize]);
        self.launch(1, triple, &[a, c]);
        self.launch(2, add, &[a, b, d]);
        self.launch(2, increment, &[d]);
        self.launch(0, nine, &[e]);
        let read = self.begin_read(0, c);
        self.copy(0, f, c);
        self.fill(1, f, 3, 50, 0x77);
        let mut event = Handle(0);
        let recorded = self.call(|device| {
            let (made, answer) = device.event_record(1, Handle(0));
            event = made;
            answer
        });
        self.failures += u32::from(recorded.is_err());
        if !event.is_null() {
            let _ = self.call(|device| device.stream_wait_event(2, event));
            let _ = self.call(|device| device.event_destroy(event));
        }
        let external = External { semaphore: 1, value: 1, submitted: false };
        let _ = self.call(|device| device.stream_wait_external(2, external));
        self.launch(2, triple, &[d, g]);
        self.launch(0, increment, &[g]);
        self.map(up, Some(&[0x42; SIZE as usize]));
        self.copy(1, h, up);
        self.copy(1, down, h);
        self.device.backend().signal(1, 1);
        self.map(down, None);
        let code = self.kernels[triple].1.encode();
        let handle = self.kernels[nine].0;
        let again = self.call(|device| device.kernel_rebuild(handle, &kernel_desc(&code)));
        self.failures += u32::from(again.is_err());
        self.kernels[nine].1 = self.kernels[triple].1.clone();
        self.launch(0, nine, &[e, a]);
        let _ = self.read(2, f);
        self.destroy(e);
        let fresh = self.buffer(MemoryKind::Device);
        self.write(2, fresh, 8, &[5; 40]);
        self.copy(1, b, fresh);
        self.end_read(read, c);
        let _ = self.call(|device| device.trim());
        let info = self.buffers[a].handle;
        let _ = self.call(|device| device.buffer_info(info));
        self.scope();
        let _ = self.call(|device| device.stream_flush(1));
        let _ = self.call(|device| device.wait(FOREVER));
        let _ = self.read(0, g);
    }

    /// Work of the caller's over a token.
    fn scope(&mut self) {
        let desc =
            BufferDesc { size: SIZE, memory: BufferMemory::Token, stream: 0, label: "", tag: 0, unallocated: false };
        let mut token = Handle(0);
        let _ = self.call(|device| {
            let (made, answer) = device.buffer_create(&desc);
            token = made;
            answer
        });
        let uses = [with(whole(token), Access::Write)];
        let desc = ScopeDesc { stream: 0, uses: &uses, label: "", tag: 0 };
        let scope = self.call(|device| device.scope_begin(&desc));
        if let Ok(scope) = scope {
            let _ = self.call(|device| device.scope_end(scope));
        }
        if !token.is_null() {
            let _ = self.call(|device| device.buffer_destroy(token));
        }
    }

    fn destroy(&mut self, buffer: usize) {
        let handle = std::mem::take(&mut self.buffers[buffer].handle);
        if !handle.is_null() {
            let _ = self.call(|device| device.buffer_destroy(handle));
        }
        self.buffers[buffer].bytes.clear();
    }

    fn live(&self) -> Vec<usize> {
        (0..self.buffers.len()).filter(|b| !self.buffers[*b].handle.is_null()).collect()
    }

    /// Nothing fails any more: every byte can be read as it should be, or is claimed. The failures that claim any.
    pub fn look(&mut self) -> Vec<Failure> {
        // What was refused meanwhile is told once.
        let _ = self.device.wait(FOREVER);
        self.device.wait(FOREVER).expect("a wait that nothing disturbs");
        for buffer in self.live() {
            match self.read(0, buffer) {
                Ok(()) => self.readable += 1,
                Err(Error::Unwritten(_)) => self.unreadable += 1,
                other => panic!("a read answered {other:?}"),
            }
        }
        if let Some(bystander) = self.bystander {
            let mut read = vec![0; SIZE as usize];
            self.device.buffer_read(0, &mut read, whole(bystander), FOREVER).expect("bytes that nothing touched");
            assert_eq!(read, [0xB5; SIZE as usize]);
        }
        self.device.report_device().failures.clone()
    }

    /// A device that was given up: no byte comes out, and no wait waits.
    pub fn nothing_is_readable(&mut self) {
        for buffer in self.live() {
            self.read(0, buffer).expect_err("bytes of a device that was given up");
            let handle = self.buffers[buffer].handle;
            assert_ne!(self.device.first_failure(&[whole(handle)]).expect("a question"), 0, "buffer {buffer}");
        }
        self.device.wait(FOREVER).expect_err("a wait on a device that was given up");
    }

    pub fn two_written_buffers(&mut self) -> [usize; 2] {
        let buffers = std::array::from_fn(|_| self.buffer(MemoryKind::Device));
        buffers.into_iter().for_each(|buffer| self.write(0, buffer, 0, &[0xAA; SIZE as usize]));
        self.device.wait(FOREVER).expect("a wait");
        buffers
    }

    /// Writing the bytes again is the whole recovery, and with everything gone nothing is left.
    pub fn repair_and_end(&mut self) {
        for (handle, program) in self.kernels.clone().into_iter().filter(|(handle, _)| !handle.is_null()) {
            self.device.kernel_rebuild(handle, &kernel_desc(&program.encode())).expect("a kernel");
        }
        for buffer in self.live() {
            let handle = self.buffers[buffer].handle;
            if !self.device.buffer_info(handle).expect("a buffer").allocated {
                self.device.buffer_allocate(handle, SIZE).expect("memory");
            }
            self.write(buffer as u64 % 3, buffer, 0, &[buffer as u8; SIZE as usize]);
            self.read(0, buffer).expect("bytes that were written again");
        }
        self.end();
        assert_eq!(self.device.failure_count(), 0, "{:?}", self.device.report_device().text());
    }

    /// Destroys everything that is left.
    pub fn end(&mut self) {
        self.live().into_iter().for_each(|buffer| self.destroy(buffer));
        for (handle, _) in std::mem::take(&mut self.kernels).into_iter().filter(|(handle, _)| !handle.is_null()) {
            let _ = self.call(|device| device.kernel_destroy(handle));
        }
        if let Some(bystander) = self.bystander.take() {
            let _ = self.call(|device| device.buffer_destroy(bystander));
        }
        let _ = self.call(|device| device.wait(FOREVER));
    }
}

fn kernel_desc(code: &[u8]) -> KernelDesc<'_> {
    KernelDesc {
        code,
        entry: "",
        accesses: &[],
        constants: &[],
        label: "kernel",
        tag: 0,
        trusted: false,
        declares_uses: false,
    }
}
