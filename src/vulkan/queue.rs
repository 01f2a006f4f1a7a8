//! A queue and the one call that goes to it.

use super::device::Gpu;
use crate::error::Fault;
use crate::failure::Point;
use ash::vk;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};

/// More waits than this in one submit allocate.
const INLINE_WAITS: usize = 8;

/// A queue; submits to it are one at a time.
pub(super) struct Queue {
    raw: vk::Queue,
    lock: Mutex<()>,
    submits: AtomicU64,
}

impl Queue {
    pub(super) fn new(raw: vk::Queue) -> Queue {
        Queue { raw, lock: Mutex::new(()), submits: AtomicU64::new(0) }
    }

    /// How many submits there were.
    pub(super) fn submits(&self) -> u64 {
        self.submits.load(Ordering::SeqCst)
    }

    pub(super) fn raw(&self) -> vk::Queue {
        self.raw
    }

    /// Waits until the queue has nothing to do. Blocks for as long as that takes, and holds every submit up meanwhile.
    pub(super) fn wait_idle(&self, gpu: &Gpu) -> vk::Result {
        let _one_at_a_time = self.lock.lock();
        // SAFETY: the queue is locked and the device alive.
        unsafe { (gpu.raw.fp_v1_0().queue_wait_idle)(self.raw) }
    }

    /// Submits one command buffer behind the timeline values of `waits`, to signal a value when it is done.
    pub(super) fn submit(
        &self,
        gpu: &Gpu,
        commands: vk::CommandBuffer,
        waits: impl Iterator<Item = (vk::Semaphore, u64)>,
        signal: (vk::Semaphore, u64),
        batch: Point,
    ) -> Result<(), Fault> {
        self.submits.fetch_add(1, Ordering::SeqCst);
        let (result, function) = match gpu.synchronization2 {
            Some(synchronization2) => {
                let info = |(semaphore, value)| {
                    vk::SemaphoreSubmitInfo::default()
                        .semaphore(semaphore)
                        .value(value)
                        .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
                };
                // In place: collecting would move the whole array once more.
                let mut infos: SmallVec<[vk::SemaphoreSubmitInfo<'_>; INLINE_WAITS]> = SmallVec::new();
                for wait in waits {
                    infos.push(info(wait));
                }
                let signals = [info(signal)];
                let commands = [vk::CommandBufferSubmitInfo::default().command_buffer(commands)];
                let submit = vk::SubmitInfo2::default()
                    .wait_semaphore_infos(&infos)
                    .command_buffer_infos(&commands)
                    .signal_semaphore_infos(&signals);
                let _one_at_a_time = self.lock.lock();
                // SAFETY: the queue is locked, the command buffer is closed and not pending, and the semaphores are
                // timelines of this device.
                let result = unsafe { (synchronization2.submit)(self.raw, 1, &submit, vk::Fence::null()) };
                (result, "vkQueueSubmit2")
            }
            None => {
                let (semaphores, values): (SmallVec<[vk::Semaphore; INLINE_WAITS]>, SmallVec<[u64; INLINE_WAITS]>) =
                    waits.unzip();
                let stages: SmallVec<[vk::PipelineStageFlags; INLINE_WAITS]> =
                    semaphores.iter().map(|_| vk::PipelineStageFlags::ALL_COMMANDS).collect();
                let signals = [signal.0];
                let signal_values = [signal.1];
                let commands = [commands];
                let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
                    .wait_semaphore_values(&values)
                    .signal_semaphore_values(&signal_values);
                let submit = vk::SubmitInfo::default()
                    .wait_semaphores(&semaphores)
                    .wait_dst_stage_mask(&stages)
                    .command_buffers(&commands)
                    .signal_semaphores(&signals)
                    .push_next(&mut timeline);
                let _one_at_a_time = self.lock.lock();
                // SAFETY: as above.
                let result = unsafe { (gpu.raw.fp_v1_0().queue_submit)(self.raw, 1, &submit, vk::Fence::null()) };
                (result, "vkQueueSubmit")
            }
        };
        if result == vk::Result::SUCCESS {
            return Ok(());
        }
        Err(gpu.fault(result, function, format_args!("for batch {} of slot {}", batch.batch, batch.slot)))
    }
}
