//! What callers pass in and get back, in Rust; `ffi/` turns the C structs into these.

use crate::error::Text;
use crate::failure::Access;
pub use crate::memory::Handle;

/// The unit of every read, write and claim. `WHOLE` as size means "to the end".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Slice {
    /// A buffer.
    pub buffer: Handle,
    /// First byte.
    pub offset: u64,
    /// Bytes, or [`WHOLE`].
    pub size: u64,
}

/// As a slice's size: to the end of the buffer.
pub const WHOLE: u64 = u64::MAX;
/// As a timeout: until it is over.
pub const FOREVER: u64 = u64::MAX;

/// A slice with an access; `None` as access: as the kernel descriptor, else the module, says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceUse {
    /// The bytes.
    pub slice: Slice,
    /// What is done with them.
    pub access: Option<Access>,
}

/// The memory a buffer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferMemory {
    /// Memory taken from the device.
    Managed(crate::memory::MemoryKind),
    /// No memory of ours: something the caller owns, tracked like a buffer.
    Token,
}

/// What a new buffer is to be.
#[derive(Clone, Copy, Debug)]
pub struct BufferDesc<'a> {
    /// Bytes; at least 1.
    pub size: u64,
    /// Where they lie.
    pub memory: BufferMemory,
    /// The stream it is created on.
    pub stream: u64,
    /// Name for reports; cut at 128 bytes.
    pub label: &'a str,
    /// The caller's number for it.
    pub tag: u64,
    /// Do not allocate yet: `buffer_allocate` or `fail_unallocated` follows.
    pub unallocated: bool,
}

/// A failure the caller declares.
#[derive(Clone, Copy, Debug)]
pub struct ErrorDesc<'a> {
    /// The caller's code, any number; reports show it as the tag of the root.
    pub code: i64,
    /// The caller's words; cut at 1 KiB.
    pub message: &'a str,
    /// Name of what failed; cut at 128 bytes.
    pub label: &'a str,
}

/// What a new kernel is made from.
#[derive(Clone, Copy, Debug)]
pub struct KernelDesc<'a> {
    /// SPIR-V bytes, in whatever state.
    pub code: &'a [u8],
    /// Entry point; empty means "main".
    pub entry: &'a str,
    /// Accesses by binding, in the order the kernel reports; `None` entries and missing ones are inferred.
    pub accesses: &'a [Option<Access>],
    /// Specialization constants.
    pub constants: &'a [(u32, u32)],
    /// Name for reports; cut at 128 bytes.
    pub label: &'a str,
    /// The caller's number for it.
    pub tag: u64,
    /// Skip validation.
    pub trusted: bool,
    /// Its launches declare as `extra` what it reaches without binding it.
    pub declares_uses: bool,
}

/// How many work groups a launch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchGrid {
    /// Work groups.
    Groups([u32; 3]),
    /// Invocations; divided by the group size, rounded up.
    Threads([u32; 3]),
    /// Three `u32` group counts in a buffer.
    Indirect(Slice),
}

/// A launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchDesc<'a> {
    /// Where it is enqueued.
    pub stream: u64,
    /// What runs.
    pub kernel: Handle,
    /// In the order the kernel reports.
    pub bindings: &'a [SliceUse],
    /// Uses of bytes the kernel reaches but does not bind.
    pub extra: &'a [SliceUse],
    /// How much of it.
    pub grid: LaunchGrid,
    /// Push constants.
    pub push: &'a [u8],
    /// Name for reports; the kernel's when empty.
    pub label: &'a str,
    /// The caller's number for it.
    pub tag: u64,
}

/// A write scope the caller opens around work of its own.
#[derive(Clone, Copy, Debug)]
pub struct ScopeDesc<'a> {
    /// Where the work belongs.
    pub stream: u64,
    /// What it reads and writes; every access is given.
    pub uses: &'a [SliceUse],
    /// Name for reports.
    pub label: &'a str,
    /// The caller's number for it.
    pub tag: u64,
}

/// What a buffer is.
#[derive(Clone, Debug)]
pub struct BufferInfo {
    /// Bytes.
    pub size: u64,
    /// Where they lie.
    pub memory: BufferMemory,
    /// The stream it was created on.
    pub stream: u64,
    /// False while the allocation failed or was not asked for.
    pub allocated: bool,
    /// Some byte is claimed, as far as is known without waiting.
    pub claimed: bool,
    /// Where kernels that are handed an address find it; 0 when there is no such place.
    pub address: u64,
    /// The caller's name.
    pub label: Text,
    /// The caller's number.
    pub tag: u64,
}

/// A claimed sub-range of a slice, relative to its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// First claimed byte.
    pub offset: u64,
    /// Claimed bytes.
    pub size: u64,
    /// The oldest root of the claim.
    pub failure: u64,
    /// How many roots it names.
    pub failures: u32,
    /// There are more roots than these.
    pub more: bool,
}

/// Which driver orders the work of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// Each slot records its own batches; the device orders them.
    Event,
    /// Slots queue tasks; a batch takes one of each slot in turn.
    Interleave,
    /// Slots queue tasks; a batch takes all of one slot, then the next.
    Sequence,
}

/// What the device and this build can do, as far as the streams know; `ffi/` adds what the backend says.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Backend streams; ids below are their own slot, others are hashed.
    pub slots: u32,
    /// Which driver orders the work.
    pub scheduling: Scheduling,
    /// Launches after which a slot flushes by itself.
    pub max_recorded: u32,
    /// Tasks after which a scheduler flushes by itself.
    pub max_tasks: u32,
    /// Unfinished pieces of work, at the most.
    pub max_pending: u32,
    /// Bytes of managed memory, at the most; 0: what the driver's budget or heap allows.
    pub memory_cap: u64,
    /// Bytes of the upload staging ring.
    pub staging_size: u64,
    /// Fresh bytes carry a "never written" root.
    pub track_uninitialized: bool,
    /// Each buffer gets a page of its own, so that the driver's robustness contains it.
    pub isolate_buffers: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            slots: 8,
            scheduling: Scheduling::Event,
            max_recorded: 1024,
            max_tasks: 256,
            max_pending: 65_536,
            memory_cap: 0,
            staging_size: 64 << 20,
            track_uninitialized: false,
            isolate_buffers: false,
        }
    }
}

/// Memory in use, by kind: device, upload, readback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes taken from the device.
    pub reserved: [u64; 3],
    /// Bytes of live blocks.
    pub used: [u64; 3],
    /// The most `used` ever was.
    pub peak: [u64; 3],
    /// The largest block that fits without taking a page.
    pub largest_free: [u64; 3],
}
