//! Work on its way: enqueued under the device's lock, and handed to its queue without it, in order.

use super::shortage::is_short;
use super::waits::Deadline;
use super::{Core, Device, FOREVER, Guard, Refusal, Turn};
use crate::code::Code;
use crate::error::{Error, Fault, Result};
use crate::failure::Point;
use crate::room::SPARE;
use crate::stream::Backend;
use crate::stream::caught::caught;
use crate::stream::driver::{Answer, Submission};
use parking_lot::MutexGuard;
use smallvec::SmallVec;

impl<B: Backend> Core<B> {
    fn is_full(&self) -> bool {
        self.failures.ledger().len() >= self.settings.max_pending as usize
    }

    /// Whether work that is decided to run has to wait for room first (R15).
    pub(super) fn lacks_room(&self) -> bool {
        self.no_room.is_none() && self.is_full()
    }
}

/// How long a submission that failed, and may run all the same, is waited for.
const IN_DOUBT_NS: u64 = 2_000_000_000;

/// Flushes after which the device is asked how far it came.
const MAX_UNASKED: u32 = 8;

impl<B: Backend> Device<B> {
    /// Enqueues work: repeats the attempt until nothing has to be submitted first. If its slot is to be flushed now, the
    /// point of the work.
    pub(super) fn enqueue<T>(
        &self,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut Core<B>, &B) -> Result<Turn<T>>,
    ) -> Result<(T, Option<Point>)> {
        let mut no_room = None;
        loop {
            if let Some(done) = self.enqueue_once(deadline, &mut no_room, &mut attempt)? {
                return Ok(done);
            }
        }
    }

    /// One attempt; nothing where other work had to be submitted first, and was.
    // Were this part of the loop, all that an attempt reads would be copied before the first one.
    #[inline(never)]
    fn enqueue_once<T>(
        &self,
        deadline: Deadline,
        no_room: &mut Option<Box<Fault>>,
        attempt: &mut impl FnMut(&mut Core<B>, &B) -> Result<Turn<T>>,
    ) -> Result<Option<(T, Option<Point>)>> {
        let mut core = self.lock();
        if no_room.is_some() {
            core.no_room = no_room.take();
        }
        if let Err(fault) = core.failures.make_room(SPARE).and_then(|()| core.memory.make_room(SPARE)) {
            core.no_room = Some(Box::new(fault));
        }
        let answer = attempt(&mut core, &self.backend);
        core.no_room = None;
        match answer {
            Ok(Turn::Done(value)) => {
                let due = core.streams.due().and_then(|slot| core.streams.last(slot));
                self.unlock_and_log(core);
                Ok(Some((value, due)))
            }
            Ok(Turn::Flush(slots)) => {
                self.submit_first(core, &slots);
                Ok(None)
            }
            Ok(Turn::Room) => self.room_first(core, deadline, no_room).map(|()| None),
            Err(error) => {
                // Work that failed is not to flush a slot at the next call.
                core.streams.due();
                self.unlock_and_log(core);
                Err(error)
            }
        }
    }

    /// Waits for room. If the wait fails, the work fails for the same reason, and its next attempt claims its write set.
    #[cold]
    fn room_first(&self, mut core: Guard<'_, B>, deadline: Deadline, no_room: &mut Option<Box<Fault>>) -> Result {
        let waited = match self.wait_for_room(&mut core, deadline) {
            Err(Error::Failed(fault, _)) => {
                *no_room = Some(fault);
                Ok(())
            }
            waited => waited,
        };
        self.unlock_and_log(core);
        waited
    }

    #[cold]
    fn submit_first(&self, mut core: Guard<'_, B>, slots: &[u32]) {
        for slot in slots {
            core.close_slot(&self.backend, *slot);
        }
        let mut queues: SmallVec<[usize; 8]> = slots.iter().map(|slot| core.streams.queue_of(*slot)).collect();
        self.unlock_and_log(core);
        queues.sort_unstable();
        queues.dedup();
        for queue in queues {
            self.submit_pending(queue);
        }
    }

    /// Enqueues work, and flushes its slot when that has taken enough.
    pub(super) fn enqueue_and_flush(&self, attempt: impl FnMut(&mut Core<B>, &B) -> Result<Turn<()>>) -> Result {
        match self.enqueue(Deadline::after(FOREVER), attempt)? {
            ((), Some(own)) => self.flush_own(own, own),
            ((), None) => Ok(()),
        }
    }

    /// Unfinished work is bounded (R15): past the bound the oldest has to complete first. Work that only the caller can
    /// let go on is not waited for: that is `NotReady`, and nothing changed.
    #[cold]
    fn wait_for_room(&self, core: &mut Guard<'_, B>, deadline: Deadline) -> Result {
        while core.is_full() {
            // What was held back may be free by now.
            core.refresh(&self.backend)?;
            if !core.is_full() {
                break;
            }
            core.unlocked(|| {
                self.send_off();
                self.wait_for_some(deadline)
            })?;
        }
        Ok(())
    }

    /// Submits whatever may go, of every slot.
    pub(super) fn send_off(&self) {
        self.with(|core| {
            for slot in core.streams.slots() {
                core.close_slot(&self.backend, slot);
            }
        });
        (0..self.queues.len()).for_each(|queue| drop(self.submit_pending(queue)));
        self.submit_freed();
    }

    /// Submits everything that was closed for a queue, in order, without the lock. The refusals.
    pub(super) fn submit_pending(&self, queue: usize) -> SmallVec<[Refusal; 1]> {
        let in_order = self.queues[queue].lock();
        let core = self.lock();
        self.submit_all(queue, in_order, core).0
    }

    /// The same for a caller that has both locks. Nothing waits for the queue's with the device's in hand, and the log is told
    /// when both are free. Also whether something is no longer held back on whichever queue.
    fn submit_all<'a>(
        &'a self,
        queue: usize,
        in_order: MutexGuard<'a, ()>,
        mut core: Guard<'a, B>,
    ) -> (SmallVec<[Refusal; 1]>, bool) {
        let mut refusals = SmallVec::new();
        while let Some(mut submission) = core.streams.next(queue) {
            drop(core);
            // No other code has it now: however this ends, it is answered.
            let answered = caught(|| self.hand_over(queue, &mut submission)).and_then(|answer| answer);
            if answered.as_ref().is_err_and(|fault| !is_short(fault) && fault.code != Code::DeviceLost) {
                // It may run all the same. What comes next may be a host write, or work on another queue.
                let _ = self.backend.wait_idle(IN_DOUBT_NS);
            }
            core = self.lock();
            let answer = match &answered {
                Ok(()) => Answer::Accepted,
                // Only of these it is promised that nothing of it happened.
                Err(fault) if is_short(fault) => Answer::Refused,
                Err(_) => Answer::InDoubt,
            };
            let refused = answered.err().map(|fault| (submission.points.clone(), fault));
            let lost = core.streams.submitted(&self.backend, submission, answer);
            if !lost.is_empty() {
                let fault = Fault::new(Code::Internal, "a submission was lost on its way");
                refusals.push(core.refuse(&self.backend, lost, fault));
            }
            if let Some((points, fault)) = refused {
                refusals.push(core.refuse(&self.backend, points, fault));
            }
        }
        drop(in_order);
        let freed = core.streams.freed().is_some();
        self.unlock_and_log(core);
        (refusals, freed)
    }

    /// Hands a submission to its queue; once more if that ran short.
    fn hand_over(&self, queue: usize, submission: &mut Submission<B::Recording>) -> std::result::Result<(), Fault> {
        let Submission { recording, waits, externals, signal, .. } = submission;
        let answer = self.backend.submit(queue, recording, waits, externals, *signal);
        if !answer.as_ref().is_err_and(is_short) {
            return answer;
        }
        // The specification leaves everything as it was, so once more after giving back what is idle.
        let mut core = self.lock();
        let _ = core.refresh(&self.backend);
        core.give_back_idle(&self.backend);
        drop(core);
        self.backend.submit(queue, recording, waits, externals, *signal)
    }

    /// Submits what was held back and need not be any more, whichever slot it is of.
    pub(super) fn submit_freed(&self) {
        loop {
            let freed = self.lock().streams.freed();
            match freed {
                Some(queue) => drop(self.submit_pending(queue)),
                None => return,
            }
        }
    }

    /// Submits what a slot recorded. Fails if the device refused anything of it.
    pub(super) fn flush_slot(&self, slot: u32) -> Result {
        self.flush_locked(self.lock(), slot)
    }

    /// The same for a caller that has the lock.
    pub(super) fn flush_locked(&self, core: Guard<'_, B>, slot: u32) -> Result {
        self.flush_and_hear(core, slot, |refusal| refusal.points.iter().any(|point| point.slot == slot))
    }

    /// The same for a call that enqueued `first` to `last` of the slot, and answers for those alone: the same flush may
    /// refuse work of other calls (R2). A loss is the answer of every call.
    pub(super) fn flush_own(&self, first: Point, last: Point) -> Result {
        let is_own = |point: &Point| point.slot == first.slot && (first.batch..=last.batch).contains(&point.batch);
        self.flush_and_hear(self.lock(), first.slot, |refusal| {
            refusal.fault.code == Code::DeviceLost || refusal.points.iter().any(is_own)
        })
    }

    fn flush_and_hear(&self, mut core: Guard<'_, B>, slot: u32, concerns: impl Fn(&Refusal) -> bool) -> Result {
        let queue = core.streams.queue_of(slot);
        // Completed work is looked for here and not at each launch: once in a few batches is often enough, unless
        // something is held back; what a semaphore of the caller's let go goes along.
        core.unasked += 1;
        if core.unasked >= MAX_UNASKED || core.streams.holds_back() {
            let _ = core.refresh(&self.backend);
        }
        let closed = core.close_slot(&self.backend, slot);
        let (refusals, freed) = match self.queues[queue].try_lock() {
            Some(in_order) => self.submit_all(queue, in_order, core),
            None => {
                self.unlock_and_log(core);
                (self.submit_pending(queue), true)
            }
        };
        if freed {
            self.submit_freed();
        }
        if closed.is_empty() && refusals.is_empty() {
            return Ok(());
        }
        match closed.into_iter().chain(refusals).find(concerns) {
            Some(refusal) => Err(Error::Failed(Box::new(refusal.fault), refusal.roots)),
            None => Ok(()),
        }
    }
}
