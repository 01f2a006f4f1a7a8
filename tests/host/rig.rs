//! A device with the few calls a test of one fact needs, in one line each.

use super::backend::{HostBackend, HostDevice, Options, Pace};
use super::program::Program;
use tidegate::code::Code;
use tidegate::device::{
    BufferDesc, BufferMemory, Device, ErrorDesc, FOREVER, Handle, KernelDesc, LaunchDesc, LaunchGrid, Scheduling,
    Settings, Slice, SliceUse, WHOLE,
};
use tidegate::error::{Error, Result as Answer};
use tidegate::failure::Access;
use tidegate::memory::MemoryKind;

pub struct Rig {
    pub device: HostDevice,
}

/// The whole of a buffer.
pub fn whole(buffer: Handle) -> Slice {
    Slice { buffer, offset: 0, size: WHOLE }
}

/// Some of it.
pub fn part(buffer: Handle, offset: u64, size: u64) -> Slice {
    Slice { buffer, offset, size }
}

/// Used as the kernel says.
pub fn silent(slice: Slice) -> SliceUse {
    SliceUse { slice, access: None }
}

pub fn with(slice: Slice, access: Access) -> SliceUse {
    SliceUse { slice, access: Some(access) }
}

/// The scheduling that a module of tests is named after.
pub fn scheduling_of(module: &str) -> Scheduling {
    match module.rsplit("::").next() {
        Some("event") => Scheduling::Event,
        Some("interleave") => Scheduling::Interleave,
        Some("sequence") => Scheduling::Sequence,
        other => panic!("{other:?} is no scheduling"),
    }
}

pub fn settings() -> Settings {
    Settings { staging_size: 1 << 16, ..Settings::default() }
}

/// A failure of the caller's.
pub fn error(message: &'static str) -> ErrorDesc<'static> {
    ErrorDesc { code: 1, message, label: "" }
}

/// `out = in * 3 + 1`.
pub fn triple() -> Program {
    Program::new(&[Access::Read, Access::Write]).map(1, 1, &[(0, 3)])
}

/// `out = a + b`.
pub fn add() -> Program {
    Program::new(&[Access::Read, Access::Read, Access::Write]).map(2, 0, &[(0, 1), (1, 1)])
}

/// `io = io + 1`.
pub fn increment() -> Program {
    Program::new(&[Access::ReadWrite]).map(0, 1, &[(0, 1)])
}

/// `out = 9`.
pub fn nine() -> Program {
    Program::new(&[Access::Write]).map(0, 9, &[])
}

impl Default for Rig {
    fn default() -> Rig {
        Rig::new(Options::new(1, 1), settings())
    }
}

impl Rig {
    pub fn new(options: Options, settings: Settings) -> Rig {
        Rig::logged(options, settings, tracing::Dispatch::none())
    }

    pub fn logged(options: Options, settings: Settings, dispatch: tracing::Dispatch) -> Rig {
        Rig { device: Device::new(HostBackend::new(options), 1, settings, Some(dispatch)) }
    }

    /// Nothing runs before it is waited for.
    pub fn lazy() -> Rig {
        Rig::new(Options::new(1, 1).pace(Pace::Lazy), settings())
    }

    pub fn backend(&self) -> &HostBackend {
        self.device.backend()
    }

    pub fn try_buffer(&self, size: u64, memory: BufferMemory, label: &str) -> (Handle, Answer) {
        self.device.buffer_create(&BufferDesc { size, memory, stream: 0, label, tag: 0, unallocated: false })
    }

    pub fn named(&self, size: u64, label: &str) -> Handle {
        let (handle, answer) = self.try_buffer(size, BufferMemory::Managed(MemoryKind::Device), label);
        answer.expect("a buffer");
        handle
    }

    pub fn buffer(&self, size: u64) -> Handle {
        self.named(size, "")
    }

    /// A buffer with bytes in it.
    pub fn filled(&self, size: u64, byte: u8) -> Handle {
        let buffer = self.buffer(size);
        self.write(whole(buffer), &vec![byte; size as usize]).expect("a write");
        buffer
    }

    /// A buffer that can never be allocated, and its root.
    pub fn huge(&self) -> (Handle, u64) {
        let (handle, answer) = self.try_buffer(64 << 30, BufferMemory::Managed(MemoryKind::Device), "huge");
        let (code, roots) = failed(answer);
        assert_eq!((code, roots.len()), (Code::OutOfDeviceMemory, 1));
        assert_ne!(handle.0, 0);
        (handle, roots[0])
    }

    pub fn token(&self) -> Handle {
        let (handle, answer) = self.try_buffer(64, BufferMemory::Token, "token");
        answer.expect("a token");
        handle
    }

    pub fn write(&self, slice: Slice, bytes: &[u8]) -> Answer {
        self.device.buffer_write(0, slice, bytes, false)
    }

    pub fn read(&self, slice: Slice) -> Result<Vec<u8>, Error> {
        let size = match slice.size {
            WHOLE => self.device.buffer_info(slice.buffer)?.size - slice.offset,
            size => size,
        };
        let mut bytes = vec![0xEE; size as usize];
        match self.device.buffer_read(0, &mut bytes, slice, FOREVER) {
            Ok(()) => Ok(bytes),
            Err(error) => {
                assert!(bytes.iter().all(|byte| *byte == 0xEE), "a failed read touched its destination (R12)");
                Err(error)
            }
        }
    }

    /// The roots that keep a slice from being read; none: it can be read.
    pub fn unreadable(&self, slice: Slice) -> Vec<u64> {
        match self.read(slice) {
            Ok(_) => Vec::new(),
            Err(Error::Unwritten(roots)) => roots.ids.to_vec(),
            Err(other) => panic!("a read answered {other:?}"),
        }
    }

    pub fn taint(&self, slice: Slice) -> u64 {
        self.device.taint(&[slice], &error("tainted by the test")).expect("a taint")
    }

    pub fn try_kernel(&self, code: &[u8], accesses: &[Option<Access>], label: &str) -> (Handle, Answer) {
        self.device.kernel_create(&kernel_desc(code, accesses, label))
    }

    pub fn kernel(&self, program: &Program) -> Handle {
        let (handle, answer) = self.try_kernel(&program.encode(), &[], "kernel");
        answer.expect("a kernel");
        handle
    }

    /// A kernel of no module, and its root.
    pub fn broken(&self, accesses: &[Option<Access>]) -> (Handle, u64) {
        let (handle, answer) = self.try_kernel(b"host kernel 1\nnonsense", accesses, "broken");
        let (code, roots) = failed(answer);
        assert_eq!((code, roots.len()), (Code::InvalidShader, 1));
        assert_ne!(handle.0, 0);
        (handle, roots[0])
    }

    pub fn launch_on(&self, stream: u64, kernel: Handle, bindings: &[SliceUse], extra: &[SliceUse]) -> Answer {
        self.device.launch(&launch_desc(stream, kernel, bindings, extra))
    }

    pub fn launch(&self, kernel: Handle, bindings: &[Slice]) -> Answer {
        let bindings: Vec<SliceUse> = bindings.iter().map(|slice| silent(*slice)).collect();
        self.launch_on(0, kernel, &bindings, &[])
    }

    pub fn failures(&self) -> u64 {
        self.device.failure_count()
    }

    /// How many failures live once nothing is unfinished.
    pub fn settled_failures(&self) -> u64 {
        self.device.wait(FOREVER).expect("a wait");
        self.device.failure_count()
    }

    /// Everything conflicting was ordered.
    pub fn assert_ordered(&self) {
        assert_eq!(self.backend().check(), [""; 0]);
    }
}

pub fn kernel_desc<'a>(code: &'a [u8], accesses: &'a [Option<Access>], label: &'a str) -> KernelDesc<'a> {
    KernelDesc { code, entry: "", accesses, constants: &[], label, tag: 0, trusted: false, declares_uses: false }
}

pub fn launch_desc<'a>(stream: u64, kernel: Handle, bindings: &'a [SliceUse], extra: &'a [SliceUse]) -> LaunchDesc<'a> {
    LaunchDesc { stream, kernel, bindings, extra, grid: LaunchGrid::Groups([1; 3]), push: &[], label: "", tag: 0 }
}

/// The code and the roots of a failure.
pub fn failed<T>(answer: Answer<T>) -> (Code, Vec<u64>) {
    match answer.err() {
        Some(Error::Failed(fault, roots)) => (fault.code, roots.ids.to_vec()),
        other => panic!("no failure but {other:?}"),
    }
}

/// The roots of a skip.
pub fn skipped(answer: Answer) -> Vec<u64> {
    match answer {
        Err(Error::Skipped(roots)) => roots.ids.to_vec(),
        other => panic!("no skip but {other:?}"),
    }
}

/// The code and the field of a misuse.
pub fn misused<T>(answer: Answer<T>) -> (Code, &'static str) {
    match answer.err() {
        Some(Error::Misuse(misuse)) => (misuse.code, misuse.field),
        other => panic!("no misuse but {other:?}"),
    }
}
