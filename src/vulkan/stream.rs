//! Slots and the recordings of their batches.
//!
//! Every recording has a command pool of its own: Vulkan forbids touching a pool from two threads, and a recording may
//! be taken back on one thread while its slot's next one is being recorded on another.

use super::Backend;
use super::descriptors::DescriptorCache;
use super::device::{Gpu, c_str, terminated};
use super::kernel::Kernel;
use super::memory::Page;
use crate::code::Code;
use crate::error::Fault;
use crate::stream::backend::{Binding, Grid, Launch};
use ash::vk;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Recordings a slot keeps for later; more than that were needed by a burst.
const KEPT_RECORDINGS: usize = 1024;

/// What a slot has on the device.
pub(super) struct Slot {
    timeline: vk::Semaphore,
    /// The last value a submit was asked to signal; a counter beyond it can only come from a lost device.
    submitted: AtomicU64,
    // They go out as they are kept.
    #[allow(clippy::vec_box)]
    free: Mutex<Vec<Box<Recording>>>,
    gpu: Arc<Gpu>,
}

impl Slot {
    pub(super) fn create(gpu: &Arc<Gpu>) -> Result<Slot, Fault> {
        let mut timeline = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut timeline);
        // SAFETY: the device is alive and has timeline semaphores.
        let timeline = unsafe { gpu.raw.create_semaphore(&info, None) }
            .map_err(|result| gpu.fault(result, "vkCreateSemaphore", "for a slot's timeline"))?;
        Ok(Slot { timeline, submitted: AtomicU64::new(0), free: Mutex::new(Vec::new()), gpu: Arc::clone(gpu) })
    }

    /// The timeline's point, as a submit takes it.
    pub(super) fn value(&self, batch: u64) -> (vk::Semaphore, u64) {
        (self.timeline, batch)
    }

    /// Notes that a submit will ask for this value; before the submit, because the device may be quick.
    pub(super) fn will_signal(&self, batch: u64) {
        // A slot's batches are submitted one after another, in order.
        self.submitted.store(batch, Ordering::Release);
    }

    pub(super) fn begin(&self) -> Result<Box<Recording>, Fault> {
        let kept = self.free.lock().pop();
        let mut recording = match kept {
            Some(recording) => recording,
            None => Box::new(Recording::create(&self.gpu)?),
        };
        recording.begin()?;
        Ok(recording)
    }

    pub(super) fn recycle(&self, mut recording: Box<Recording>) {
        // A recording that cannot be reset is not used again.
        if recording.reset() {
            let mut free = self.free.lock();
            if free.len() < KEPT_RECORDINGS {
                free.push(recording);
            }
        }
    }

    pub(super) fn completed(&self) -> Result<u64, Fault> {
        let mut value = 0;
        let gpu = &self.gpu;
        let function = "vkGetSemaphoreCounterValue";
        // SAFETY: the timeline is alive.
        let result =
            unsafe { (gpu.raw.fp_v1_2().get_semaphore_counter_value)(gpu.raw.handle(), self.timeline, &mut value) };
        if result != vk::Result::SUCCESS {
            return Err(gpu.fault(result, function, "for a slot's timeline"));
        }
        let submitted = self.submitted.load(Ordering::Acquire);
        if value > submitted {
            return Err(gpu.lost(Fault {
                code: Code::DeviceLost,
                vk_result: 0,
                vk_function: function,
                message: format!("a timeline reached {value}, beyond the last submitted {submitted}").into(),
            }));
        }
        Ok(value)
    }

    pub(super) fn wait(&self, batch: u64, timeout_ns: u64) -> Result<bool, Fault> {
        let semaphores = [self.timeline];
        let values = [batch];
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let gpu = &self.gpu;
        // SAFETY: the timeline is alive.
        let result = unsafe { (gpu.raw.fp_v1_2().wait_semaphores)(gpu.raw.handle(), &info, timeout_ns) };
        match result {
            vk::Result::SUCCESS => Ok(true),
            vk::Result::TIMEOUT => Ok(false),
            result => Err(gpu.fault(result, "vkWaitSemaphores", format_args!("for batch {batch}"))),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: no unfinished work signals or waits for the timeline.
        unsafe { self.gpu.raw.destroy_semaphore(self.timeline, None) };
    }
}

/// Slots by number, made on first use and never moved, so that finding one takes no lock.
pub(super) struct Slots {
    /// The n-th holds `2^n` slots.
    chunks: [OnceLock<Box<[OnceLock<Slot>]>>; 32],
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots { chunks: [const { OnceLock::new() }; 32] }
    }

    fn place(slot: u32) -> (usize, usize) {
        let number = u64::from(slot) + 1;
        let chunk = number.ilog2();
        (chunk as usize, (number - (1 << chunk)) as usize)
    }

    pub(super) fn get(&self, slot: u32) -> Result<&Slot, Fault> {
        let (chunk, at) = Slots::place(slot);
        self.chunks
            .get(chunk)
            .and_then(OnceLock::get)
            .and_then(|chunk| chunk[at].get())
            .ok_or_else(|| Fault::new(Code::Internal, format!("slot {slot} was never made")))
    }

    pub(super) fn create(&self, slot: u32, gpu: &Arc<Gpu>) -> Result<(), Fault> {
        let (chunk, at) = Slots::place(slot);
        let Some(chunk_cell) = self.chunks.get(chunk) else {
            return Err(Fault::new(Code::LimitExceeded, format!("no slot can have the number {slot}")));
        };
        let cell = &chunk_cell.get_or_init(|| (0..1_usize << chunk).map(|_| OnceLock::new()).collect())[at];
        if cell.get().is_none() {
            let made = Slot::create(gpu)?;
            // Of two that make the same slot at once, one throws its own away.
            let _ = cell.set(made);
        }
        Ok(())
    }
}

/// Commands of one batch, being recorded or done with recording.
pub struct Recording {
    pool: vk::CommandPool,
    pub(super) commands: vk::CommandBuffer,
    /// Serial of the kernel whose pipeline is bound.
    bound: u64,
    descriptors: DescriptorCache,
    gpu: Arc<Gpu>,
}

impl Recording {
    fn create(gpu: &Arc<Gpu>) -> Result<Recording, Fault> {
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(gpu.probed.family)
            .flags(vk::CommandPoolCreateFlags::TRANSIENT);
        // SAFETY: the device is alive.
        let pool = unsafe { gpu.raw.create_command_pool(&info, None) }
            .map_err(|result| gpu.fault(result, "vkCreateCommandPool", "for a batch"))?;
        let mut recording = Recording {
            pool,
            commands: vk::CommandBuffer::null(),
            bound: 0,
            descriptors: DescriptorCache::default(),
            gpu: Arc::clone(gpu),
        };
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: there is room for the one command buffer.
        let result =
            unsafe { (gpu.raw.fp_v1_0().allocate_command_buffers)(gpu.raw.handle(), &info, &mut recording.commands) };
        if result != vk::Result::SUCCESS {
            return Err(gpu.fault(result, "vkAllocateCommandBuffers", "for a batch"));
        }
        Ok(recording)
    }

    fn begin(&mut self) -> Result<(), Fault> {
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the command buffer is new or was reset with its pool.
        unsafe { self.gpu.raw.begin_command_buffer(self.commands, &info) }
            .map_err(|result| self.gpu.fault(result, "vkBeginCommandBuffer", "for a batch"))
    }

    pub(super) fn end(&mut self) -> Result<(), Fault> {
        // SAFETY: the command buffer is being recorded.
        unsafe { self.gpu.raw.end_command_buffer(self.commands) }
            .map_err(|result| self.gpu.fault(result, "vkEndCommandBuffer", "for a batch"))
    }

    /// Forgets what was recorded; false when the driver refuses.
    fn reset(&mut self) -> bool {
        self.bound = 0;
        self.descriptors.recycle(&self.gpu);
        // SAFETY: the batch is not pending and no other code uses the pool.
        let result = unsafe {
            (self.gpu.raw.fp_v1_0().reset_command_pool)(
                self.gpu.raw.handle(),
                self.pool,
                vk::CommandPoolResetFlags::empty(),
            )
        };
        self.gpu.is_ok(result, "vkResetCommandPool")
    }

    fn memory_barrier(&self, from: Half, to: Half) {
        match self.gpu.synchronization2 {
            Some(synchronization2) => {
                let barrier = [vk::MemoryBarrier2::default()
                    .src_stage_mask(from.stages)
                    .src_access_mask(from.access)
                    .dst_stage_mask(to.stages)
                    .dst_access_mask(to.access)];
                let info = vk::DependencyInfo::default().memory_barriers(&barrier);
                // SAFETY: the command buffer is being recorded.
                unsafe { (synchronization2.barrier)(self.commands, &info) };
            }
            None => {
                let barrier = vk::MemoryBarrier::default()
                    .src_access_mask(from.classic_access())
                    .dst_access_mask(to.classic_access());
                // SAFETY: the command buffer is being recorded.
                unsafe {
                    (self.gpu.raw.fp_v1_0().cmd_pipeline_barrier)(
                        self.commands,
                        from.classic_stages(),
                        to.classic_stages(),
                        vk::DependencyFlags::empty(),
                        1,
                        &barrier,
                        0,
                        std::ptr::null(),
                        0,
                        std::ptr::null(),
                    );
                }
            }
        }
    }

    pub(super) fn barrier(&self) {
        self.memory_barrier(WRITES, EVERYTHING);
    }

    pub(super) fn host_barrier(&self) {
        self.memory_barrier(WRITES, HOST);
    }

    pub(super) fn copy(&self, to: &Binding<'_, Page>, from: &Binding<'_, Page>) {
        let region = vk::BufferCopy { src_offset: from.offset, dst_offset: to.offset, size: to.size };
        // SAFETY: both ranges lie in their buffers and do not overlap.
        unsafe {
            self.gpu.raw.cmd_copy_buffer(self.commands, from.page.buffer(), to.page.buffer(), &[region]);
        }
    }

    pub(super) fn fill(&self, to: &Binding<'_, Page>, pattern: u32) {
        // SAFETY: offset and size are multiples of 4 and lie in the buffer.
        unsafe { self.gpu.raw.cmd_fill_buffer(self.commands, to.page.buffer(), to.offset, to.size, pattern) };
    }

    pub(super) fn launch(&mut self, backend: &Backend, launch: &Launch<'_, Backend>) -> Result<(), Fault> {
        launch.kernel.accepts(launch.bindings.len(), launch.push.len())?;
        let labelled = !launch.label.is_empty() && self.begin_label(launch.label);
        let result = match &launch.grid {
            Grid::Groups(groups) => self.launch_direct(launch, *groups),
            Grid::Indirect(counts, words) => self.launch_indirect(backend, launch, counts, words),
        };
        if labelled {
            self.end_label();
        }
        // Passing the whole of it on would read it back from where the driver's own stores have to go first.
        match result {
            Ok(()) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    fn launch_direct(&mut self, launch: &Launch<'_, Backend>, [x, y, z]: [u32; 3]) -> Result<(), Fault> {
        self.prepare(launch.kernel, launch.bindings, launch.push)?;
        // SAFETY: pipeline, descriptors and push constants are set.
        unsafe { self.gpu.raw.cmd_dispatch(self.commands, x, y, z) };
        Ok(())
    }

    fn launch_indirect(
        &mut self,
        backend: &Backend,
        launch: &Launch<'_, Backend>,
        counts: &Binding<'_, Page>,
        words: &Binding<'_, Page>,
    ) -> Result<(), Fault> {
        let check = backend.counts.kernel(&backend.pipelines, backend.limits.max_groups)?;
        self.copy(words, counts);
        self.memory_barrier(COPY_WRITES, COMPUTE_ACCESS);
        self.prepare(check, &[*words], &[])?;
        // SAFETY: pipeline, descriptors and push constants are set.
        unsafe { self.gpu.raw.cmd_dispatch(self.commands, 1, 1, 1) };
        self.memory_barrier(COMPUTE_ACCESS, INDIRECT_READS);
        self.prepare(launch.kernel, launch.bindings, launch.push)?;
        // SAFETY: as above; the counts are three checked words in a buffer made for indirect reads.
        unsafe { self.gpu.raw.cmd_dispatch_indirect(self.commands, words.page.buffer(), words.offset) };
        Ok(())
    }

    /// Everything a dispatch needs but the dispatch.
    fn prepare(&mut self, kernel: &Kernel, bindings: &[Binding<'_, Page>], push: &[u8]) -> Result<(), Fault> {
        let gpu = &*self.gpu;
        let fp = gpu.raw.fp_v1_0();
        match (kernel.pushed_set(), &gpu.push) {
            _ if bindings.is_empty() => {}
            (Some(set), Some(loaded)) => kernel.with_writes(bindings, |writes| {
                // SAFETY: the command buffer is being recorded; the writes match the layout.
                unsafe {
                    (loaded.fp().cmd_push_descriptor_set_khr)(
                        self.commands,
                        vk::PipelineBindPoint::COMPUTE,
                        kernel.layout(),
                        set,
                        writes.len() as u32,
                        writes.as_ptr(),
                    );
                }
            }),
            _ => {
                let sets = self.descriptors.sets(gpu, kernel, bindings)?;
                // SAFETY: as above; the sets were made with the layout's set layouts.
                unsafe {
                    (fp.cmd_bind_descriptor_sets)(
                        self.commands,
                        vk::PipelineBindPoint::COMPUTE,
                        kernel.layout(),
                        0,
                        sets.len() as u32,
                        sets.as_ptr(),
                        0,
                        std::ptr::null(),
                    );
                }
            }
        }
        if self.bound != kernel.serial() {
            // SAFETY: as above; the pipeline is alive until the batch completes.
            unsafe {
                (fp.cmd_bind_pipeline)(self.commands, vk::PipelineBindPoint::COMPUTE, kernel.pipeline());
            }
            self.bound = kernel.serial();
        }
        if !push.is_empty() {
            // SAFETY: as above; the layout has one range of exactly this size.
            unsafe {
                (fp.cmd_push_constants)(
                    self.commands,
                    kernel.layout(),
                    vk::ShaderStageFlags::COMPUTE,
                    0,
                    push.len() as u32,
                    push.as_ptr().cast(),
                );
            }
        }
        Ok(())
    }

    fn begin_label(&self, label: &str) -> bool {
        let Some(debug) = &self.gpu.debug else { return false };
        let name = terminated(label);
        let info = vk::DebugUtilsLabelEXT::default().label_name(c_str(&name));
        // SAFETY: the command buffer is being recorded; the driver copies the name.
        unsafe { debug.cmd_begin_debug_utils_label(self.commands, &info) };
        true
    }

    fn end_label(&self) {
        if let Some(debug) = &self.gpu.debug {
            // SAFETY: a label was begun in this command buffer.
            unsafe { debug.cmd_end_debug_utils_label(self.commands) };
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.descriptors.destroy(&self.gpu);
        // SAFETY: the batch is not pending; the command buffer goes with its pool.
        unsafe { self.gpu.raw.destroy_command_pool(self.pool, None) };
    }
}

/// One side of a barrier. The bits used here have the same values in the classic calls.
#[derive(Clone, Copy)]
struct Half {
    stages: vk::PipelineStageFlags2,
    access: vk::AccessFlags2,
}

impl Half {
    const fn new(stages: &[vk::PipelineStageFlags2], access: &[vk::AccessFlags2]) -> Half {
        let (mut stage_bits, mut access_bits, mut i) = (0, 0, 0);
        while i < stages.len() {
            stage_bits |= stages[i].as_raw();
            i += 1;
        }
        i = 0;
        while i < access.len() {
            access_bits |= access[i].as_raw();
            i += 1;
        }
        Half { stages: vk::PipelineStageFlags2::from_raw(stage_bits), access: vk::AccessFlags2::from_raw(access_bits) }
    }

    fn classic_stages(self) -> vk::PipelineStageFlags {
        vk::PipelineStageFlags::from_raw(self.stages.as_raw() as u32)
    }

    fn classic_access(self) -> vk::AccessFlags {
        vk::AccessFlags::from_raw(self.access.as_raw() as u32)
    }
}

/// All that was written before. The stages name what read before, too, so that later writes come after it; a launch's
/// indirect read is of scratch, which the launch itself orders.
const WRITES: Half = Half::new(
    &[vk::PipelineStageFlags2::COMPUTE_SHADER, vk::PipelineStageFlags2::ALL_TRANSFER],
    &[vk::AccessFlags2::SHADER_WRITE, vk::AccessFlags2::TRANSFER_WRITE],
);
/// All that may come after.
const EVERYTHING: Half = Half::new(
    &[
        vk::PipelineStageFlags2::COMPUTE_SHADER,
        vk::PipelineStageFlags2::ALL_TRANSFER,
        vk::PipelineStageFlags2::DRAW_INDIRECT,
    ],
    &[
        vk::AccessFlags2::SHADER_READ,
        vk::AccessFlags2::SHADER_WRITE,
        vk::AccessFlags2::TRANSFER_READ,
        vk::AccessFlags2::TRANSFER_WRITE,
        vk::AccessFlags2::INDIRECT_COMMAND_READ,
    ],
);
const HOST: Half = Half::new(&[vk::PipelineStageFlags2::HOST], &[vk::AccessFlags2::HOST_READ]);
const COPY_WRITES: Half = Half::new(&[vk::PipelineStageFlags2::ALL_TRANSFER], &[vk::AccessFlags2::TRANSFER_WRITE]);
const COMPUTE_ACCESS: Half = Half::new(
    &[vk::PipelineStageFlags2::COMPUTE_SHADER],
    &[vk::AccessFlags2::SHADER_READ, vk::AccessFlags2::SHADER_WRITE],
);
const INDIRECT_READS: Half =
    Half::new(&[vk::PipelineStageFlags2::DRAW_INDIRECT], &[vk::AccessFlags2::INDIRECT_COMMAND_READ]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_number_has_its_own_place() {
        let mut seen = std::collections::HashSet::new();
        for slot in (0..100).chain([u32::MAX - 1]) {
            let (chunk, at) = Slots::place(slot);
            assert!(chunk < 32 && (at as u64) < 1 << chunk, "{slot}");
            assert!(seen.insert((chunk, at)), "{slot}");
        }
        assert_eq!(Slots::place(u32::MAX), (32, 0));
    }

    #[test]
    fn classic_barriers_mean_what_the_new_ones_do() {
        assert_eq!(
            EVERYTHING.classic_stages(),
            vk::PipelineStageFlags::COMPUTE_SHADER
                | vk::PipelineStageFlags::TRANSFER
                | vk::PipelineStageFlags::DRAW_INDIRECT
        );
        assert_eq!(WRITES.classic_access(), vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE);
        assert_eq!(HOST.classic_stages(), vk::PipelineStageFlags::HOST);
        assert_eq!(HOST.classic_access(), vk::AccessFlags::HOST_READ);
    }
}
