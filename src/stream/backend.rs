//! What a driver needs from a device, and nothing more: pages, recordings, submissions, completion.
//!
//! `vulkan/` implements it for real devices; the tests implement it on the host, where every command is also
//! recorded so that a checker can prove the order a driver emitted. A backend holds no rule of its own: it is told
//! what to record, in which order, and says what the device answered.

use super::coverage::Coverage;
use crate::error::Fault;
use crate::failure::{Access, Point};
use crate::memory::PageSource;
use std::sync::Arc;

/// Limits that decide before the driver is asked.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Queues of the compute family that slots are spread over; at least 1.
    pub queues: usize,
    /// The largest buffer and the largest allocation the device can ever hold, in bytes.
    pub max_buffer_size: u64,
    /// Bytes of the heap each kind of memory comes from: device, upload, readback.
    pub heap_size: [u64; 3],
    /// `maxStorageBufferRange`.
    pub max_binding_size: u64,
    /// `minStorageBufferOffsetAlignment`, a power of two.
    pub binding_alignment: u64,
    /// Blocks are aligned and padded to this (a power of two, a multiple of `binding_alignment` and of
    /// `nonCoherentAtomSize`), so that offset 0 of every buffer is bindable.
    pub block_alignment: u64,
    /// What the host writes where it lies, in memory of each kind, goes in whole multiples of this from the start of a
    /// block: `nonCoherentAtomSize`, or 1 where the memory is coherent.
    pub map_alignment: [u64; 3],
    /// `maxComputeWorkGroupCount`.
    pub max_groups: [u32; 3],
    /// `maxPushConstantsSize`.
    pub max_push_size: u32,
    /// `maxPerStageDescriptorStorageBuffers` (and what a pipeline layout allows).
    pub max_bindings: u32,
}

/// A device's part of a page: one buffer of Vulkan's, bound to memory.
pub struct Binding<'a, P> {
    /// The page the block lies in.
    pub page: &'a Arc<P>,
    /// Where the slice begins in the page, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub size: u64,
}

impl<P> Clone for Binding<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Binding<'_, P> {}

/// How many work groups run.
pub enum Grid<'a, P> {
    /// Counted by the caller.
    Groups([u32; 3]),
    /// Three `u32` in device memory; the backend makes sure that counts past the limits run nothing. It has as many bytes
    /// of its own to check them in, where a descriptor can begin; nothing else uses those until the launch is over.
    Indirect(Binding<'a, P>, Binding<'a, P>),
}

impl<P> Clone for Grid<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Grid<'_, P> {}

/// One launch, ready to be recorded.
pub struct Launch<'a, B: Backend> {
    /// The pipeline and its layout.
    pub kernel: &'a Arc<B::Kernel>,
    /// In the order the kernel reports its bindings.
    pub bindings: &'a [Binding<'a, B::Page>],
    /// Push constants, as long as the kernel says.
    pub push: &'a [u8],
    /// The grid.
    pub grid: Grid<'a, B::Page>,
    /// Shown by debug tools; empty for none.
    pub label: &'a str,
}

/// A semaphore of the caller's that work waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct External {
    /// The timeline semaphore, as the backend knows it.
    pub semaphore: u64,
    /// The value it has to reach.
    pub value: u64,
    /// The device may wait for it: what signals it was submitted, or it was reached.
    pub submitted: bool,
}

/// What a kernel is, as the module and the device say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelInfo {
    /// Bindings ordered by (set, binding, element); a launch passes its uses in this order.
    pub bindings: Vec<BindingInfo>,
    /// Work group size after specialization.
    pub group_size: [u32; 3],
    /// Bytes of push constants a launch must pass.
    pub push_size: u32,
}

/// One binding of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingInfo {
    /// Descriptor set.
    pub set: u32,
    /// Binding number in the set.
    pub binding: u32,
    /// Which element of an array of buffers; 0 where the binding is one buffer.
    pub element: u32,
    /// What the module does with it.
    pub access: Access,
    /// Where `access` is `MayWrite`: the bytes that each launch is proven to write. Nothing else makes bytes `Write`
    /// that nobody declared.
    pub coverage: Option<Arc<Coverage>>,
    /// The variable's name in the module, or empty; the elements of an array share one.
    pub name: Arc<str>,
}

/// What a kernel is made from.
pub struct KernelSource<'a> {
    /// SPIR-V bytes, in whatever state the caller has them.
    pub code: &'a [u8],
    /// Name of the entry point.
    pub entry: &'a str,
    /// Specialization constants: id and the 4 bytes of its value.
    pub constants: &'a [(u32, u32)],
    /// Name for messages and debug tools.
    pub label: &'a str,
    /// The caller vouches for the module: it is parsed and reflected but not validated.
    pub trusted: bool,
    /// Launches declare what the kernel reaches without binding it, so it may reach memory that cannot be seen.
    pub declares_uses: bool,
}

/// Why a kernel cannot run, and what its module still says of its bindings (R8).
#[derive(Clone, Debug)]
pub struct Rejected {
    /// What was answered.
    pub fault: Fault,
    /// What could be reflected before it failed.
    pub info: Option<KernelInfo>,
}

impl From<Fault> for Rejected {
    fn from(fault: Fault) -> Rejected {
        Rejected { fault, info: None }
    }
}

/// A device that streams record for.
///
/// Calls with the same `Recording` are never concurrent; all others may be.
pub trait Backend: PageSource + Send + Sync + Sized + 'static {
    /// A compiled kernel. Dropped only when no recording that uses it is unfinished.
    type Kernel: Send + Sync;
    /// Commands of one batch, being recorded or done with recording.
    type Recording: Send;

    /// What the device can hold and do.
    fn limits(&self) -> &Limits;
    /// The first answer of the device's that said it is lost, whichever call it was an answer to. Asked often, and from
    /// any thread.
    fn loss(&self) -> Option<&Fault>;

    /// Makes the slot's timeline and whatever else it records with. Called once for each slot, on first use.
    fn slot_create(&self, slot: u32) -> Result<(), Fault>;

    /// Validates, reflects and compiles. Takes no lock of the device's; may be slow.
    fn kernel_create(&self, source: &KernelSource<'_>) -> Result<(Self::Kernel, KernelInfo), Rejected>;

    /// Opens the recording of a batch of `slot`.
    fn begin(&self, slot: u32) -> Result<Self::Recording, Fault>;
    /// Orders everything submitted to the queue or recorded before against everything recorded after: execution and
    /// memory, for compute, transfer and indirect reads.
    fn barrier(&self, recording: &mut Self::Recording);
    /// Makes what was recorded before visible to the host once the batch completes.
    fn host_barrier(&self, recording: &mut Self::Recording);
    /// What broke the recording off, if a panic left it half made: nothing more can be done with it than to recycle it,
    /// and what is in it never runs.
    fn broken(&self, _: &Self::Recording) -> Option<Fault> {
        None
    }
    /// Records a launch.
    fn launch(&self, recording: &mut Self::Recording, launch: &Launch<'_, Self>) -> Result<(), Fault>;
    /// Records a copy of `to.size` bytes; the ranges do not overlap.
    fn copy(&self, recording: &mut Self::Recording, to: Binding<'_, Self::Page>, from: Binding<'_, Self::Page>);
    /// Records a fill with a 4-byte pattern; offset and size are multiples of 4.
    fn fill(&self, recording: &mut Self::Recording, to: Binding<'_, Self::Page>, pattern: u32);
    /// Closes the recording.
    fn end(&self, recording: &mut Self::Recording) -> Result<(), Fault>;
    /// Forgets a recording that will not be submitted, or takes back one whose batch completed or was refused.
    fn recycle(&self, slot: u32, recording: Self::Recording);

    /// Hands a closed recording to `queue`, to run after `waits` and `externals`, and to signal `signal`. Never blocks
    /// on the device. Called without the device lock; calls for one queue are serialized by the driver.
    fn submit(
        &self,
        queue: usize,
        recording: &mut Self::Recording,
        waits: &[Point],
        externals: &[External],
        signal: Point,
    ) -> Result<(), Fault>;
    /// Whether a semaphore of the caller's has reached its value.
    fn external_reached(&self, external: External) -> Result<bool, Fault>;
    /// The last batch of `slot` that completed.
    fn completed(&self, slot: u32) -> Result<u64, Fault>;
    /// Waits until the slot's timeline reaches the batch; false when `timeout_ns` passes first.
    fn wait(&self, point: Point, timeout_ns: u64) -> Result<bool, Fault>;
    /// Waits until the device works on nothing any more, whatever its counters say, without submitting anything; false
    /// when `timeout_ns` passes first. Where counters cannot be read, and on a lost device, nothing else tells that what
    /// was submitted is over. What is submitted meanwhile may make it answer false.
    fn wait_idle(&self, timeout_ns: u64) -> Result<bool, Fault>;
}
