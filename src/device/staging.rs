//! Staging: host bytes on their way to the device, in memory of a bounded size.

use super::shortage::Shortage;
use super::waits::Deadline;
use super::{Core, Device, FOREVER};
use crate::code::Code;
use crate::error::{Error, Fault, Result};
use crate::failure::{BlockKey, Bytes, Point};
use crate::memory::{Mark, Place, Purpose};
use crate::stream::Backend;

/// Host bytes on their way to the device.
pub(super) enum Staged {
    /// They lie here.
    At(Place),
    /// There is no room for them, which is the failure of the work.
    Failed(Fault),
    /// Nothing is staged for work that will not run anyway.
    Needless,
}

impl Staged {
    /// Where they lie, or why nowhere.
    pub(super) fn place(&self) -> std::result::Result<Place, Fault> {
        match self {
            Staged::At(place) => Ok(*place),
            Staged::Failed(fault) => Err(fault.clone()),
            Staged::Needless => Err(Fault::new(Code::Internal, "nothing was staged for work that runs")),
        }
    }
}

impl<B: Backend> Device<B> {
    /// Staging of work that was not enqueued is free at once.
    pub(super) fn unstage(&self, staged: Staged, enqueued: bool) {
        if let Staged::At(place) = staged {
            self.with(|core| {
                core.in_hand -= 1;
                if !enqueued {
                    core.memory.pages.free(&place);
                }
            });
        }
    }

    /// Takes staging for bytes and copies them in; waits for the slot's own earlier staging while there is none, and for
    /// any that goes on by itself where memory is short.
    pub(super) fn stage(&self, slot: u32, to: Bytes, piece: &[u8], no_wait: bool) -> Result<Staged> {
        let size = piece.len() as u64;
        loop {
            let shortage = {
                let mut core = self.lock();
                if !core.can_write(to.block) {
                    return Ok(Staged::Needless);
                }
                if core.staging_room(slot) < size {
                    let _ = core.refresh(&self.backend);
                }
                // What is held back gives nothing back: the little that is staged behind it comes on top.
                let waits = core.staging_room(slot) < size && !core.streams.is_held_back(slot);
                let oldest = if waits { core.oldest_staging(slot) } else { None };
                let taken = match oldest {
                    Some(point) => Err(Shortage::Until(point)),
                    None => core.take_staging(&self.backend, |core, backend| {
                        let Core { memory, streams, .. } = core;
                        let is_past = |mark: Mark| streams.is_done_with(mark.point);
                        memory.pages.allocate(backend, Purpose::StagingUp, size, is_past)
                    }),
                };
                match taken {
                    Ok(place) => {
                        let page = core.memory.pages.page(place.page).clone();
                        core.in_hand += 1;
                        self.unlock_and_log(core);
                        return Ok(self.fill_staging(&page, place, piece));
                    }
                    Err(Shortage::For(fault)) => {
                        self.unlock_and_log(core);
                        return Ok(Staged::Failed(fault));
                    }
                    Err(shortage) => {
                        self.unlock_and_log(core);
                        shortage
                    }
                }
            };
            match shortage {
                Shortage::Until(point) if no_wait => {
                    // A call that is repeated succeeds once this work is over.
                    let _ = self.flush_slot(point.slot);
                    return Err(Error::NotReady);
                }
                Shortage::Calls if no_wait => return Err(Error::NotReady),
                _ => {}
            }
            match self.wait_out(shortage, Deadline::after(FOREVER)) {
                Err(Error::Failed(fault, _)) => return Ok(Staged::Failed(*fault)),
                waited => waited?,
            }
        }
    }

    fn fill_staging(&self, page: &B::Page, place: Place, piece: &[u8]) -> Staged {
        match self.backend.page_write(page, place.offset, piece) {
            Ok(()) => Staged::At(place),
            Err(fault) => {
                self.unstage(Staged::At(place), false);
                Staged::Failed(fault)
            }
        }
    }
}

impl<B: Backend> Core<B> {
    /// Whether work that writes the block may run, for all that is known of the block.
    pub(super) fn can_write(&self, block: BlockKey) -> bool {
        !self.failures.is_lost() && self.memory.blocks.get(block).is_some_and(|block| block.place.is_some())
    }

    /// Nothing was staged, and now the work could run: another thread allocated the buffer meanwhile.
    pub(super) fn lacks(&self, staged: &Staged, block: BlockKey) -> bool {
        matches!(staged, Staged::Needless) && self.can_write(block)
    }

    /// Bytes the slot may still stage before its own earlier staging has to be over.
    pub(super) fn staging_room(&self, slot: u32) -> u64 {
        let used: u64 = self.staging.iter().filter(|(point, _)| point.slot == slot).map(|(_, place)| place.size).sum();
        self.settings.staging_size.saturating_sub(used)
    }

    fn oldest_staging(&self, slot: u32) -> Option<Point> {
        self.staging.iter().find(|(point, _)| point.slot == slot).map(|(point, _)| *point)
    }
}
