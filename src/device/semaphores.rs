//! Semaphores of the caller's: a stream waits until one of them reaches a value.
//!
//! Work that waits for a value nobody is known to signal stays on the host: handed to a queue it would hold up
//! everything behind it there, and a device that waits for ever cannot be destroyed. Nobody tells us that a value was
//! reached; the next flush or wait finds out.

use super::Device;
use crate::error::{Error, Result};
use crate::stream::Backend;
use crate::stream::backend::External;

impl<B: Backend> Device<B> {
    /// Work enqueued on the stream from now on waits for the semaphore; what it has so far is submitted. A refusal of
    /// that is told, and the stream waits all the same.
    pub fn stream_wait_external(&self, stream: u64, external: External) -> Result {
        self.usable()?;
        let begun = self.with(|core| {
            let slot = core.streams.slot_of(stream);
            let refused = core.close_slot(&self.backend, slot);
            core.streams.after_external(&self.backend, slot, external)?;
            Ok::<_, Error>((slot, refused))
        });
        let (slot, refused) = self.naming_loss(begun)?;
        let flushed = self.flush_slot(slot);
        match refused.into_iter().find(|refusal| refusal.points.iter().any(|point| point.slot == slot)) {
            Some(refusal) => Err(Error::Failed(Box::new(refusal.fault), refusal.roots)),
            None => flushed,
        }
    }
}
