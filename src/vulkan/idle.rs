//! Waiting for queues to be idle, which Vulkan does without a timeout: a thread of its own waits, and whoever asked waits
//! for that thread.

use super::device::Gpu;
use crate::code::Code;
use crate::error::Fault;
use ash::vk;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

struct Waiting {
    thread: JoinHandle<()>,
    /// Submits before it began: of later ones it says nothing.
    submits: u64,
    answer: Receiver<vk::Result>,
}

/// The wait under way, if there is one.
#[derive(Default)]
pub(super) struct IdleWait {
    waiting: Mutex<Option<Waiting>>,
}

impl IdleWait {
    /// Whether the queues are idle; false when the time is up first. The wait goes on then, and the next call takes it up.
    pub(super) fn wait(&self, gpu: &Arc<Gpu>, timeout: Duration) -> Result<bool, Fault> {
        let mut waiting = self.waiting.lock();
        let mut is_second = false;
        let result = loop {
            let Waiting { thread, submits: before, answer } = match waiting.take() {
                Some(under_way) => under_way,
                None => begin(gpu)?,
            };
            let result = match answer.recv_timeout(timeout) {
                Ok(result) => result,
                Err(RecvTimeoutError::Timeout) => {
                    *waiting = Some(Waiting { thread, submits: before, answer });
                    return Ok(false);
                }
                Err(RecvTimeoutError::Disconnected) => vk::Result::ERROR_UNKNOWN,
            };
            // It holds the device.
            let _ = thread.join();
            // An answer that began before the last submit is not about all of it; the next one is.
            if before == submits(gpu) {
                break result;
            }
            if std::mem::replace(&mut is_second, true) {
                return Ok(false);
            }
        };
        match result {
            vk::Result::SUCCESS => Ok(true),
            // A wait on a lost device ends when the device is done with what it had.
            vk::Result::ERROR_DEVICE_LOST => {
                gpu.fault(result, "vkQueueWaitIdle", "for a device to be idle");
                Ok(true)
            }
            result => Err(gpu.fault(result, "vkQueueWaitIdle", "for a device to be idle")),
        }
    }
}

fn submits(gpu: &Gpu) -> u64 {
    gpu.queues.iter().map(|queue| queue.submits()).sum()
}

fn begin(gpu: &Arc<Gpu>) -> Result<Waiting, Fault> {
    let (done, answer) = sync_channel(1);
    let submits = submits(gpu);
    let gpu = Arc::clone(gpu);
    let wait = move || {
        let result = gpu.queues.iter().map(|queue| queue.wait_idle(&gpu)).fold(vk::Result::SUCCESS, worse);
        let _ = done.send(result);
    };
    let thread = std::thread::Builder::new()
        .name("tidegate idle".into())
        .spawn(wait)
        .map_err(|error| Fault::new(Code::OutOfHostMemory, format!("no thread that waits for a device: {error}")))?;
    Ok(Waiting { thread, submits, answer })
}

/// Of two answers the one that says less: idle is what every queue is.
fn worse(one: vk::Result, other: vk::Result) -> vk::Result {
    match (one, other) {
        (vk::Result::SUCCESS, other) => other,
        (vk::Result::ERROR_DEVICE_LOST, other) if other != vk::Result::SUCCESS => other,
        (one, _) => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk::Result as R;

    #[test]
    fn a_queue_that_cannot_be_waited_for_is_not_made_up_for_by_another() {
        let all = |results: &[R]| results.iter().copied().fold(R::SUCCESS, worse);
        assert_eq!(all(&[R::SUCCESS, R::SUCCESS]), R::SUCCESS);
        assert_eq!(all(&[R::SUCCESS, R::ERROR_DEVICE_LOST, R::SUCCESS]), R::ERROR_DEVICE_LOST);
        assert_eq!(all(&[R::ERROR_DEVICE_LOST, R::ERROR_OUT_OF_HOST_MEMORY]), R::ERROR_OUT_OF_HOST_MEMORY);
        assert_eq!(all(&[R::ERROR_OUT_OF_HOST_MEMORY, R::ERROR_DEVICE_LOST]), R::ERROR_OUT_OF_HOST_MEMORY);
    }
}
