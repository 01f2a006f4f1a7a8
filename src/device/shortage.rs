//! When memory is short: a full device can still be written and read, one after the other.
//!
//! Copies give their staging memory back when they are over, and work on destroyed buffers gives back theirs. If a call
//! finds no memory, it looks for work that is over and tries again. Then it waits for the oldest such work, of whichever
//! slot; a new buffer waits once for everything in flight. No call waits for work that only the caller can release.

use super::buffers::KINDS;
use super::waits::Deadline;
use super::{Core, Device};
use crate::code::Code;
use crate::error::{Error, Fault, Result};
use crate::failure::Point;
use crate::stream::{Backend, Progress};
use smallvec::SmallVec;
use std::time::Duration;

/// How often it is looked whether another call gave back what it has in hand.
const STEP: Duration = Duration::from_micros(200);

/// No memory for staging now.
pub(super) enum Shortage {
    /// Some comes back when this work is over.
    Until(Point),
    /// Other calls give some back.
    Calls,
    /// Only the caller can let go on what has it.
    HeldBack,
    /// None comes back.
    For(Fault),
}

/// Memory ran out, and may be there again later.
pub(super) fn is_short(fault: &Fault) -> bool {
    matches!(fault.code, Code::OutOfDeviceMemory | Code::OutOfHostMemory)
}

impl<B: Backend> Core<B> {
    /// Takes memory for staging; after a look at what is over, if there is none at first.
    pub(super) fn take_staging<T>(
        &mut self,
        backend: &B,
        take: impl Fn(&mut Self, &B) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Shortage> {
        let mut taken = take(self, backend);
        if taken.as_ref().is_err_and(is_short) && self.reclaim(backend) {
            taken = take(self, backend);
        }
        taken.map_err(|fault| match self.shortage() {
            Some(shortage) if is_short(&fault) => shortage,
            _ => Shortage::For(fault),
        })
    }

    /// Takes back what is over. Whether there is more memory than there was: if not, no driver call is repeated.
    pub(super) fn reclaim(&mut self, backend: &B) -> bool {
        let held = |core: &Self| {
            let usage = |kind| core.memory.pages.usage(kind);
            KINDS.map(usage).iter().map(|usage| usage.used + usage.reserved).sum::<u64>()
        };
        let before = held(self);
        let _ = self.refresh(backend);
        self.forget_copies(0);
        self.give_back_idle(backend);
        held(self) < before
    }

    /// What some comes back from, if any does.
    fn shortage(&self) -> Option<Shortage> {
        let streams = &self.streams;
        let points = || {
            let up = self.staging.iter().map(|(point, _)| *point);
            up.chain(self.copies.points()).chain(self.reads_under_way())
        };
        if let Some(point) = self.giving_back().first() {
            Some(Shortage::Until(*point))
        } else if self.in_hand > 0 || points().any(|point| streams.is_complete(point)) {
            Some(Shortage::Calls)
        } else {
            points().next().map(|_| Shortage::HeldBack)
        }
    }

    /// The work that gives memory back when it is over, and goes on by itself.
    pub(super) fn giving_back(&self) -> SmallVec<[Point; 8]> {
        let streams = &self.streams;
        let mut points: SmallVec<[Point; 8]> = self.staging.iter().map(|(point, _)| *point).collect();
        points.extend(self.copies.points().chain(self.reads_under_way()));
        self.memory.pages.behind_idle(|mark| points.push(mark.point));
        let is_held = |point: &Point| streams.is_held_back(point.slot) && streams.progress(*point) == Progress::Waiting;
        points.retain(|point| !streams.is_complete(*point) && !is_held(point));
        points
    }
}

impl<B: Backend> Device<B> {
    /// Waits until a shortage may be over. `NotReady` if only the caller can end it.
    pub(super) fn wait_out(&self, shortage: Shortage, deadline: Deadline) -> Result {
        match shortage {
            Shortage::Until(point) => {
                // The batch may still be open; and a refusal frees its staging as well.
                let _ = self.flush_slot(point.slot);
                self.wait_for(point, deadline)?;
                self.fetch_reads();
                Ok(())
            }
            Shortage::Calls if self.fetch_reads() => Ok(()),
            Shortage::Calls if deadline.is_over() => Err(Error::Timeout),
            Shortage::Calls => {
                std::thread::sleep(deadline.step().min(STEP));
                Ok(())
            }
            Shortage::HeldBack => {
                // The caller may have released it by now, and no call has submitted it since.
                self.send_off();
                let is_held = self.with(|core| {
                    let _ = core.refresh(&self.backend);
                    matches!(core.shortage(), Some(Shortage::HeldBack))
                });
                if is_held { Err(Error::NotReady) } else { Ok(()) }
            }
            Shortage::For(fault) => Err(fault.into()),
        }
    }
}
