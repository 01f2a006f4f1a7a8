//! What the threads of the stress test drive: the C API on lavapipe, or a device over the host backend. The same calls
//! with the same answers.

use crate::c::words::{GROUP, Words};
use crate::c::{self, Answer, DeviceOptions, Refused, shim};
use crate::host::Rng;
use crate::host::backend::{Call, HostBackend, HostDevice, Options, Pace, fault};
use crate::host::model::Stores;
use crate::host::program::{Operation, Program, Window};
use crate::host::rig::{error, kernel_desc};
use ash::vk;
use tidegate::code::Code;
use tidegate::device::{
    BufferDesc, BufferMemory, Device, Handle, KernelDesc, LaunchDesc, LaunchGrid, Scheduling, ScopeDesc, Settings,
    Slice, SliceUse,
};
use tidegate::error::Error;
use tidegate::failure::Access;
use tidegate::ffi::*;
use tidegate::memory::MemoryKind;

/// A slice, by the number in a buffer's handle.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub buffer: u64,
    pub start: u64,
    pub size: u64,
}

/// A kernel that a target can run, and the same for the model.
pub struct Module {
    pub code: Vec<u8>,
    pub program: Box<dyn Stores + Send + Sync>,
    pub accesses: Vec<Access>,
}

/// What a round of the test asks of a device.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub scheduling: Scheduling,
    pub slots: u32,
    pub max_recorded: u32,
    pub max_pending: u32,
    pub staging_size: u64,
    pub isolate: bool,
    /// Under the validation layer, where there is one.
    pub validate: bool,
}

/// A device. Handles are numbers; every function may be called from any thread.
pub trait Target: Sync + Sized {
    fn open(wanted: &Wanted, rng: &mut Rng) -> Self;
    /// Waits for its work and destroys it: what was wrong with all it did.
    fn close(self) -> Vec<String>;
    fn modules() -> Vec<Module>;
    fn alignment(&self) -> u64;

    fn create(&self, stream: u64, size: u64, unallocated: bool) -> (u64, Answer);
    fn destroy(&self, buffer: u64) -> Answer;
    fn allocate(&self, buffer: u64, size: u64) -> Answer;
    fn write(&self, stream: u64, to: Part, bytes: &[u8]) -> Answer;
    fn fill(&self, stream: u64, to: Part, pattern: u32, size: u32) -> Answer;
    fn copy(&self, stream: u64, to: Part, from: Part) -> Answer;
    fn read(&self, stream: u64, out: &mut [u8], from: Part, timeout_ns: u64) -> Answer;
    fn read_begin(&self, stream: u64, from: Part) -> (u64, Answer);
    fn read_finish(&self, read: u64, timeout_ns: u64) -> Answer<Vec<u8>>;
    fn read_release(&self, read: u64) -> Answer;

    fn kernel(&self, code: &[u8], accesses: &[Access]) -> (u64, Answer);
    fn kernel_destroy(&self, kernel: u64) -> Answer;
    /// Without a number of invocations the grid is larger than any device has.
    fn launch(
        &self,
        stream: u64,
        kernel: u64,
        bindings: &[(Part, Access)],
        threads: Option<u32>,
        push: [u32; 2],
    ) -> Answer;

    fn taint(&self, part: Part) -> Answer;
    fn first_failure(&self, part: Part) -> Answer<u64>;
    fn check_written(&self, part: Part, timeout_ns: u64) -> Answer;
    fn scope_begin(&self, stream: u64, uses: &[(Part, Access)]) -> Answer<u64>;
    fn scope_end(&self, scope: u64) -> Answer;
    fn scope_fail(&self, scope: u64) -> Answer;

    fn event_record(&self, stream: u64, event: u64) -> (u64, Answer);
    fn event_wait(&self, event: u64, timeout_ns: u64) -> Answer;
    fn event_status(&self, event: u64) -> Answer;
    fn event_destroy(&self, event: u64) -> Answer;
    fn stream_wait_event(&self, stream: u64, event: u64) -> Answer;
    fn flush(&self, stream: u64) -> Answer;
    fn stream_wait(&self, stream: u64, timeout_ns: u64) -> Answer;
    fn wait(&self, timeout_ns: u64) -> Answer;
    fn trim(&self) -> Answer;
    fn failures(&self) -> u64;

    /// Whatever is submitted next is refused.
    fn refuse(&self);
    /// Lets go of what a long run would pile up.
    fn tidy(&self) {}
}

/// Lavapipe through the C API.
pub struct Lavapipe {
    device: c::Device,
    alignment: u64,
    messages: u64,
}

fn slice(part: Part) -> tg_slice {
    tg_slice { buffer: tg_buffer { id: part.buffer }, offset: part.start, size: part.size }
}

fn number_of(access: Access) -> u32 {
    match access {
        Access::None => TG_ACCESS_NONE,
        Access::Read => TG_ACCESS_READ,
        Access::Write => TG_ACCESS_WRITE,
        Access::MayWrite => TG_ACCESS_MAY_WRITE,
        Access::ReadWrite => TG_ACCESS_READ_WRITE,
    }
}

fn given(uses: &[(Part, Access)]) -> Vec<tg_use> {
    uses.iter().map(|&(part, access)| tg_use { slice: slice(part), access: number_of(access), reserved: 0 }).collect()
}

impl Target for Lavapipe {
    fn open(wanted: &Wanted, _: &mut Rng) -> Lavapipe {
        let mut flags = if wanted.isolate { TG_DEVICE_ISOLATE_BUFFERS } else { 0 };
        flags |= if wanted.validate { TG_DEVICE_VALIDATION } else { 0 };
        let options = DeviceOptions {
            scheduling: match wanted.scheduling {
                Scheduling::Event => TG_SCHEDULING_EVENT,
                Scheduling::Interleave => TG_SCHEDULING_INTERLEAVE,
                Scheduling::Sequence => TG_SCHEDULING_SEQUENCE,
            },
            flags,
            slots: wanted.slots,
            max_recorded: wanted.max_recorded,
            max_tasks: wanted.max_recorded,
            max_pending: wanted.max_pending,
            staging_size: wanted.staging_size,
        };
        let messages = tidegate::vulkan::validation_message_count();
        let device = c::Device::create(options).expect("a device");
        let (alignment, _) = device.limits();
        Lavapipe { device, alignment, messages }
    }

    fn close(self) -> Vec<String> {
        shim::stop_refusing();
        let mut wrong = Vec::new();
        if let Err(refused) = self.device.destroy() {
            wrong.push(format!("the device was not destroyed: {refused:?}"));
        }
        let said = tidegate::vulkan::validation_message_count() - self.messages;
        if said > 0 {
            wrong.push(format!("{said} validation messages"));
        }
        wrong
    }

    fn modules() -> Vec<Module> {
        [Words::Affine, Words::Mix, Words::InPlace, Words::Store, Words::Scatter, Words::Split]
            .into_iter()
            .map(|words| Module {
                code: words.code().to_vec(),
                program: Box::new(words),
                accesses: words.truth().to_vec(),
            })
            .collect()
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn create(&self, stream: u64, size: u64, unallocated: bool) -> (u64, Answer) {
        let (buffer, answer) = self.device.buffer_create(size, TG_MEMORY_DEVICE, stream, unallocated);
        (buffer.id, answer)
    }
    fn destroy(&self, buffer: u64) -> Answer {
        self.device.buffer_destroy(tg_buffer { id: buffer })
    }
    fn allocate(&self, buffer: u64, size: u64) -> Answer {
        self.device.buffer_allocate(tg_buffer { id: buffer }, size)
    }
    fn write(&self, stream: u64, to: Part, bytes: &[u8]) -> Answer {
        self.device.write(stream, slice(to), bytes)
    }
    fn fill(&self, stream: u64, to: Part, pattern: u32, size: u32) -> Answer {
        self.device.fill(stream, slice(to), pattern, size)
    }
    fn copy(&self, stream: u64, to: Part, from: Part) -> Answer {
        self.device.copy(stream, slice(to), slice(from))
    }
    fn read(&self, stream: u64, out: &mut [u8], from: Part, timeout_ns: u64) -> Answer {
        self.device.read(stream, out, slice(from), timeout_ns)
    }
    fn read_begin(&self, stream: u64, from: Part) -> (u64, Answer) {
        let (read, answer) = self.device.read_begin(stream, slice(from));
        (read.id, answer)
    }
    fn read_finish(&self, read: u64, timeout_ns: u64) -> Answer<Vec<u8>> {
        self.device.read_wait(tg_read { id: read }, timeout_ns)?;
        self.device.read_finish(tg_read { id: read })
    }
    fn read_release(&self, read: u64) -> Answer {
        self.device.read_release(tg_read { id: read })
    }

    fn kernel(&self, code: &[u8], accesses: &[Access]) -> (u64, Answer) {
        let accesses: Vec<u32> = accesses.iter().map(|access| number_of(*access)).collect();
        let (kernel, answer) = self.device.kernel_create(code, &accesses);
        (kernel.id, answer)
    }
    fn kernel_destroy(&self, kernel: u64) -> Answer {
        self.device.kernel_destroy(tg_kernel { id: kernel })
    }
    fn launch(
        &self,
        stream: u64,
        kernel: u64,
        bindings: &[(Part, Access)],
        threads: Option<u32>,
        push: [u32; 2],
    ) -> Answer {
        let groups = threads.map_or(u32::MAX, |threads| threads.div_ceil(GROUP as u32));
        self.device.launch(&c::Launch {
            stream,
            kernel: tg_kernel { id: kernel },
            bindings: &given(bindings),
            extra: &[],
            grid: c::Grid::Groups([groups, 1, 1]),
            push: &push,
        })
    }

    fn taint(&self, part: Part) -> Answer {
        self.device.taint(&[slice(part)])
    }
    fn first_failure(&self, part: Part) -> Answer<u64> {
        self.device.first_failure(&[slice(part)])
    }
    fn check_written(&self, part: Part, timeout_ns: u64) -> Answer {
        self.device.check_written(&[slice(part)], timeout_ns)
    }
    fn scope_begin(&self, stream: u64, uses: &[(Part, Access)]) -> Answer<u64> {
        Ok(self.device.scope_begin(stream, &given(uses))?.id)
    }
    fn scope_end(&self, scope: u64) -> Answer {
        self.device.scope_end(tg_scope { id: scope })
    }
    fn scope_fail(&self, scope: u64) -> Answer {
        self.device.scope_fail(tg_scope { id: scope }, scope.is_multiple_of(2))
    }

    fn event_record(&self, stream: u64, event: u64) -> (u64, Answer) {
        let (event, answer) = self.device.event_record(stream, tg_event { id: event });
        (event.id, answer)
    }
    fn event_wait(&self, event: u64, timeout_ns: u64) -> Answer {
        self.device.event_wait(tg_event { id: event }, timeout_ns)
    }
    fn event_status(&self, event: u64) -> Answer {
        self.device.event_status(tg_event { id: event })
    }
    fn event_destroy(&self, event: u64) -> Answer {
        self.device.event_destroy(tg_event { id: event })
    }
    fn stream_wait_event(&self, stream: u64, event: u64) -> Answer {
        self.device.stream_wait_event(stream, tg_event { id: event })
    }
    fn flush(&self, stream: u64) -> Answer {
        self.device.stream_flush(stream)
    }
    fn stream_wait(&self, stream: u64, timeout_ns: u64) -> Answer {
        self.device.stream_wait(stream, timeout_ns)
    }
    fn wait(&self, timeout_ns: u64) -> Answer {
        self.device.wait(timeout_ns)
    }
    fn trim(&self) -> Answer {
        self.device.trim()
    }
    fn failures(&self) -> u64 {
        self.device.failure_count()
    }

    fn refuse(&self) {
        // When memory is short the library tries once more.
        shim::refuse(2, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
    }
}

/// The host backend. What conflicts is proven to be ordered, too.
pub struct Host {
    device: HostDevice,
}

fn told<T>(answer: tidegate::error::Result<T>) -> Answer<T> {
    answer.map_err(|error| {
        let roots = match &error {
            Error::Skipped(roots) | Error::Unwritten(roots) | Error::Failed(_, roots) => roots.clone(),
            _ => Default::default(),
        };
        let (code, message) = (error.code() as i32, format!("{error:?}"));
        Refused { code, roots: roots.ids.to_vec(), more: u32::from(roots.more), message }
    })
}

fn host_slice(part: Part) -> Slice {
    Slice { buffer: Handle(part.buffer), offset: part.start, size: part.size }
}

fn host_uses(uses: &[(Part, Access)]) -> Vec<SliceUse> {
    uses.iter().map(|&(part, access)| SliceUse { slice: host_slice(part), access: Some(access) }).collect()
}

impl Target for Host {
    fn open(wanted: &Wanted, rng: &mut Rng) -> Host {
        let mut options = Options::new(rng.next(), rng.between(1, 3) as usize).pace(*rng.pick(&[
            Pace::Lazy,
            Pace::Random,
            Pace::Random,
            Pace::Eager,
        ]));
        // A thread may be kept from submitting for as long as it pleases the system; whoever hangs is found otherwise.
        options.patience = u64::MAX;
        let settings = Settings {
            slots: wanted.slots,
            scheduling: wanted.scheduling,
            max_recorded: wanted.max_recorded,
            max_tasks: wanted.max_recorded,
            max_pending: wanted.max_pending,
            staging_size: wanted.staging_size,
            isolate_buffers: wanted.isolate,
            ..Settings::default()
        };
        Host { device: Device::new(HostBackend::new(options), 1, settings, Some(tracing::Dispatch::none())) }
    }

    fn close(mut self) -> Vec<String> {
        self.device.backend().heal();
        let closed = self.device.close(tidegate::device::FOREVER);
        let mut wrong = self.device.backend().check();
        let (pages, open) = (self.device.backend().live_pages(), self.device.backend().open_recordings());
        if closed.is_err() || pages + open > 0 {
            wrong.push(format!("closed: {closed:?}, pages left: {pages}, recordings left: {open}"));
        }
        wrong
    }

    fn modules() -> Vec<Module> {
        use Access::{MayWrite, Read, ReadWrite, Write};
        let mut scatter = Program::new(&[MayWrite]);
        scatter.operations.push(Operation {
            out: 0,
            window: Window::ALL,
            step: 3,
            start: 0,
            add: 7,
            terms: Vec::new(),
        });
        [
            Program::new(&[Read, Write]).map(1, 1, &[(0, 3)]),
            Program::new(&[Read, Read, Write]).map(2, 0, &[(0, 1), (1, 5)]),
            Program::new(&[ReadWrite]).map(0, 1, &[(0, 3)]),
            Program::new(&[Write]).map(0, 9, &[]),
            scatter,
            Program::new(&[Read, Write, Write]).map(1, 0, &[(0, 3)]).map(2, 5, &[(0, 1)]),
        ]
        .into_iter()
        .map(|mut program| {
            program.push = 8;
            Module { code: program.encode(), accesses: program.bindings.clone(), program: Box::new(program) }
        })
        .collect()
    }

    fn alignment(&self) -> u64 {
        4
    }

    fn create(&self, stream: u64, size: u64, unallocated: bool) -> (u64, Answer) {
        let memory = BufferMemory::Managed(MemoryKind::Device);
        let desc = BufferDesc { size, memory, stream, label: "", tag: 0, unallocated };
        let (handle, answer) = self.device.buffer_create(&desc);
        (handle.0, told(answer))
    }
    fn destroy(&self, buffer: u64) -> Answer {
        told(self.device.buffer_destroy(Handle(buffer)))
    }
    fn allocate(&self, buffer: u64, size: u64) -> Answer {
        told(self.device.buffer_allocate(Handle(buffer), size))
    }
    fn write(&self, stream: u64, to: Part, bytes: &[u8]) -> Answer {
        told(self.device.buffer_write(stream, host_slice(to), bytes, false))
    }
    fn fill(&self, stream: u64, to: Part, pattern: u32, size: u32) -> Answer {
        told(self.device.buffer_fill(stream, host_slice(to), pattern, size))
    }
    fn copy(&self, stream: u64, to: Part, from: Part) -> Answer {
        told(self.device.buffer_copy(stream, host_slice(to), host_slice(from)))
    }
    fn read(&self, stream: u64, out: &mut [u8], from: Part, timeout_ns: u64) -> Answer {
        told(self.device.buffer_read(stream, out, host_slice(from), timeout_ns))
    }
    fn read_begin(&self, stream: u64, from: Part) -> (u64, Answer) {
        let (read, answer) = self.device.read_begin(stream, host_slice(from));
        (read.0, told(answer))
    }
    fn read_finish(&self, read: u64, timeout_ns: u64) -> Answer<Vec<u8>> {
        told(self.device.read_wait(Handle(read), timeout_ns))?;
        Ok(told(self.device.read_data(Handle(read)))?.to_vec())
    }
    fn read_release(&self, read: u64) -> Answer {
        told(self.device.read_release(Handle(read)))
    }

    fn kernel(&self, code: &[u8], accesses: &[Access]) -> (u64, Answer) {
        let accesses: Vec<Option<Access>> = accesses.iter().copied().map(Some).collect();
        let (kernel, answer) = self.device.kernel_create(&KernelDesc { ..kernel_desc(code, &accesses, "") });
        (kernel.0, told(answer))
    }
    fn kernel_destroy(&self, kernel: u64) -> Answer {
        told(self.device.kernel_destroy(Handle(kernel)))
    }
    fn launch(
        &self,
        stream: u64,
        kernel: u64,
        bindings: &[(Part, Access)],
        threads: Option<u32>,
        push: [u32; 2],
    ) -> Answer {
        let push: Vec<u8> = push.iter().flat_map(|word| word.to_le_bytes()).collect();
        told(self.device.launch(&LaunchDesc {
            stream,
            kernel: Handle(kernel),
            bindings: &host_uses(bindings),
            extra: &[],
            grid: LaunchGrid::Groups([threads.map_or(u32::MAX, |_| 1), 1, 1]),
            push: &push,
            label: "",
            tag: 0,
        }))
    }

    fn taint(&self, part: Part) -> Answer {
        told(self.device.taint(&[host_slice(part)], &error("declared by the test"))).map(drop)
    }
    fn first_failure(&self, part: Part) -> Answer<u64> {
        told(self.device.first_failure(&[host_slice(part)]))
    }
    fn check_written(&self, part: Part, timeout_ns: u64) -> Answer {
        told(self.device.check_written(&[host_slice(part)], timeout_ns))
    }
    fn scope_begin(&self, stream: u64, uses: &[(Part, Access)]) -> Answer<u64> {
        let desc = ScopeDesc { stream, uses: &host_uses(uses), label: "", tag: 0 };
        told(self.device.scope_begin(&desc)).map(|scope| scope.0)
    }
    fn scope_end(&self, scope: u64) -> Answer {
        told(self.device.scope_end(Handle(scope)))
    }
    fn scope_fail(&self, scope: u64) -> Answer {
        let error = error("the scope failed");
        told(self.device.scope_fail(Handle(scope), scope.is_multiple_of(2).then_some(&error)))
    }

    fn event_record(&self, stream: u64, event: u64) -> (u64, Answer) {
        let (event, answer) = self.device.event_record(stream, Handle(event));
        (event.0, told(answer))
    }
    fn event_wait(&self, event: u64, timeout_ns: u64) -> Answer {
        told(self.device.event_wait(Handle(event), timeout_ns))
    }
    fn event_status(&self, event: u64) -> Answer {
        told(self.device.event_status(Handle(event)))
    }
    fn event_destroy(&self, event: u64) -> Answer {
        told(self.device.event_destroy(Handle(event)))
    }
    fn stream_wait_event(&self, stream: u64, event: u64) -> Answer {
        told(self.device.stream_wait_event(stream, Handle(event)))
    }
    fn flush(&self, stream: u64) -> Answer {
        told(self.device.stream_flush(stream))
    }
    fn stream_wait(&self, stream: u64, timeout_ns: u64) -> Answer {
        told(self.device.stream_wait(stream, timeout_ns))
    }
    fn wait(&self, timeout_ns: u64) -> Answer {
        told(self.device.wait(timeout_ns))
    }
    fn trim(&self) -> Answer {
        told(self.device.trim()).map(drop)
    }
    fn failures(&self) -> u64 {
        self.device.failure_count()
    }

    fn refuse(&self) {
        // When memory is short the library tries once more.
        for _ in 0..2 {
            self.device.backend().inject(Call::Submit, 1, fault(Code::OutOfDeviceMemory, "refused"), false);
        }
    }

    fn tidy(&self) {
        self.device.backend().check();
        self.device.backend().take_news();
    }
}
