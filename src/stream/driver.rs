//! What the device needs from a driver: to say what work comes after, to take it, and to get it to the queues.
//!
//! Two drivers give the same answers. They differ in when commands are recorded and in what a batch is; neither knows
//! which bytes can be trusted.

use super::answers::Answers;
use super::backend::{Backend, Binding, External, Launch};
use crate::error::Fault;
use crate::failure::Point;
use crate::memory::{Hazards, Mark, hazard::Hazard};
use smallvec::SmallVec;

/// Something to record. Commands handed over together touch disjoint bytes.
pub enum Command<'a, B: Backend> {
    /// A kernel over its bindings.
    Launch(Launch<'a, B>),
    /// `to.size` bytes from one place to another.
    Copy {
        /// Where to.
        to: Binding<'a, B::Page>,
        /// Where from.
        from: Binding<'a, B::Page>,
    },
    /// A 4-byte pattern over a multiple of four bytes at a multiple of four.
    Fill {
        /// Where.
        to: Binding<'a, B::Page>,
        /// With what.
        pattern: u32,
    },
}

impl<B: Backend> Command<'_, B> {
    /// Records it.
    pub fn record(&self, backend: &B, recording: &mut B::Recording) -> Result<(), Fault> {
        match self {
            Command::Launch(launch) => return backend.launch(recording, launch),
            Command::Copy { to, from } => backend.copy(recording, *to, *from),
            Command::Fill { to, pattern } => backend.fill(recording, *to, *pattern),
        }
        Ok(())
    }
}

/// What has to happen before work can be taken.
///
/// Filled in place, because it is long to move and every launch has one.
#[derive(Clone, Debug, Default)]
pub struct Need {
    /// Slots whose queued or pending work has to be submitted first.
    pub flush: SmallVec<[u32; 8]>,
    /// A barrier before it.
    pub(super) barrier: bool,
    /// Order after everything there is: what stood for it never ran.
    pub(super) everything: bool,
    /// Batches on other queues to wait for.
    pub(super) waits: SmallVec<[Point; 4]>,
    /// Batches that are held back, and that this work's batch must not overtake.
    pub(super) after: SmallVec<[Point; 2]>,
    /// Work of the same slot and batch, up to this one, that a barrier has to come after.
    pub(super) own: u64,
    /// How often it was forgotten before what had run on memory.
    pub(super) forgotten: u64,
    /// What spares most work from asking the driver at all, if the driver says so.
    pub(super) own_work: Option<OwnWork>,
}

/// What is known of the slot's own work.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnWork {
    pub(super) slot: u32,
    /// The last batch that never ran.
    pub(super) refused: u64,
    /// Work up to here is before a barrier.
    pub(super) covered: u64,
}

impl Need {
    /// Adds what a use of bytes in the slot comes after.
    #[inline]
    pub fn depend<B: Backend>(
        &mut self,
        streams: &dyn Driver<B>,
        slot: u32,
        hazards: &Hazards,
        bytes: (u64, u64),
        writes: bool,
    ) {
        hazards.visit(bytes.0, bytes.1, |_, _, hazard| {
            // Most work comes after work of its own stream.
            if !hazard.before(writes).all(|mark| self.is_own_work(mark)) {
                self.ask(streams, slot, hazard, writes);
            }
        });
    }

    #[cold]
    #[inline(never)]
    fn ask<B: Backend>(&mut self, streams: &dyn Driver<B>, slot: u32, hazard: &Hazard, writes: bool) {
        hazard.before(writes).for_each(|mark| streams.come_after(slot, *mark, self));
    }

    /// Whether the driver need not be asked what comes of having to come after this: at most a barrier.
    fn is_own_work(&mut self, mark: &Mark) -> bool {
        let Some(own) = self.own_work else { return false };
        self.barrier |= mark.point.slot == own.slot && mark.sequence > own.covered;
        mark.point.slot == own.slot && mark.point.batch > own.refused
    }

    pub(super) fn flush(&mut self, slot: u32) {
        if !self.flush.contains(&slot) {
            self.flush.push(slot);
        }
    }
}

/// A barrier after all that was forgotten of memory up to then. It is as good as the batch it is in: refused, that one
/// has ordered nothing, and not yet answered, it may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cleared {
    forgotten: u64,
    batch: u64,
}

impl Cleared {
    pub(super) fn covers(self, forgotten: u64, open: u64, answers: &Answers) -> bool {
        let stands = self.batch == open || (self.batch > answers.refused() && self.batch <= answers.settled());
        forgotten == 0 || (self.forgotten >= forgotten && stands)
    }

    pub(super) fn carried(&mut self, forgotten: u64, batch: u64) {
        *self = Cleared { forgotten, batch };
    }
}

/// What the caller told a slot to come after: every batch does, until one that did was accepted. A batch that is refused
/// has ordered nothing, and its successors may be recorded by then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// The first batch that came after it, and the last so far; 0: none.
    first: u64,
    last: u64,
}

impl Told {
    /// Whether work in the batch that is open has yet to come after it.
    pub(super) fn is_due(self, open: u64) -> bool {
        self.last < open
    }

    /// Work in the open batch comes after it now.
    pub(super) fn carried(&mut self, open: u64) {
        self.last = open;
        if self.first == 0 {
            self.first = open;
        }
    }

    /// Whether an accepted batch came after it.
    pub(super) fn is_done(self, accepted: u64) -> bool {
        self.first != 0 && self.first <= accepted
    }
}

/// Adds a point to come after; of one slot the latest says it all.
pub(super) fn add_point(points: &mut SmallVec<[Point; 2]>, point: Point) {
    match points.iter_mut().find(|known| known.slot == point.slot) {
        Some(known) => known.batch = known.batch.max(point.batch),
        None => points.push(point),
    }
}

/// Adds a semaphore to wait for; of one semaphore the highest value says it all.
pub(super) fn add_external(externals: &mut SmallVec<[External; 1]>, external: External) {
    match externals.iter_mut().find(|known| known.semaphore == external.semaphore) {
        Some(known) if known.value < external.value => *known = external,
        Some(known) => known.submitted |= external.submitted && known.value == external.value,
        None => externals.push(external),
    }
}

/// What the device says of semaphores of the caller's, asked no more often than one look at them needs.
pub(super) struct Look<'a, B> {
    backend: &'a B,
    reached: SmallVec<[External; 4]>,
    unreached: SmallVec<[External; 4]>,
    pub(super) answer: Result<(), Fault>,
}

impl<'a, B: Backend> Look<'a, B> {
    pub(super) fn new(backend: &'a B) -> Look<'a, B> {
        Look { backend, reached: SmallVec::new(), unreached: SmallVec::new(), answer: Ok(()) }
    }

    pub(super) fn is_reached(&mut self, external: External) -> bool {
        let External { semaphore, value, .. } = external;
        if self.reached.iter().any(|known| known.semaphore == semaphore && known.value >= value) {
            return true;
        }
        if self.unreached.iter().any(|known| known.semaphore == semaphore && known.value <= value) {
            return false;
        }
        let reached = self.backend.external_reached(external).unwrap_or_else(|fault| {
            self.answer = Err(fault);
            false
        });
        if reached { &mut self.reached } else { &mut self.unreached }.push(external);
        reached
    }
}

/// A closed recording on its way to a queue.
pub struct Submission<R> {
    /// What it holds: a batch of one slot, or of several.
    pub points: SmallVec<[Point; 4]>,
    /// What it signals.
    pub signal: Point,
    /// Its commands.
    pub recording: R,
    /// What it waits for on other queues.
    pub waits: SmallVec<[Point; 4]>,
    /// What it waits for of the caller's.
    pub externals: SmallVec<[External; 1]>,
    /// What it must not overtake.
    pub(super) after: SmallVec<[Point; 2]>,
    /// The refusals, counted over all slots, that were known when its first work was taken.
    pub(super) refusals: u64,
}

/// What the device made of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It runs, or will.
    Accepted,
    /// It never runs.
    Refused,
    /// It failed, and nothing promises that none of it runs: what it uses stays until that is over.
    InDoubt,
}

/// A recording that could not be closed, and fails as a whole.
pub struct Unclosed {
    /// What it held: a batch of one slot, or of several.
    pub points: SmallVec<[Point; 4]>,
    /// Why.
    pub fault: Fault,
}

/// How often a driver ordered anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderStats {
    /// Barriers recorded.
    pub barriers: u64,
    /// Waits on other slots' timelines.
    pub waits: u64,
    /// Batches submitted.
    pub submissions: u64,
}

/// The streams of a device.
pub trait Driver<B: Backend>: Send {
    /// How often it ordered anything.
    fn stats(&self) -> OrderStats;
    /// The slot of a stream.
    fn slot_of(&self, stream: u64) -> u32;
    /// The queue of a slot.
    fn queue_of(&self, slot: u32) -> usize;
    /// The slots that were made.
    fn slots(&self) -> SmallVec<[u32; 16]>;

    /// Work of the slot comes after these points from now on, whether it shares bytes with them or not.
    fn after(&mut self, backend: &B, slot: u32, points: &[Point]) -> Result<(), Fault>;
    /// What the slot takes from now on waits for a semaphore of the caller's. What it took before has to be closed.
    fn after_external(&mut self, backend: &B, slot: u32, external: External) -> Result<(), Fault>;
    /// Adds what work of the slot comes after, whatever it does. `forgotten` times so far it was forgotten what had run
    /// on some memory. That is over, but nothing orders the next work on that memory after it: a barrier does.
    fn need(&self, slot: u32, forgotten: u64, need: &mut Need);
    /// Adds what comes of having to come after earlier work, of the same slot or another.
    fn come_after(&self, slot: u32, mark: Mark, need: &mut Need);
    /// Takes one piece of work. If recording it panics, its recording is lost with everything in it, which
    /// [`discarded`](Self::discarded) tells.
    fn take(
        &mut self,
        backend: &B,
        slot: u32,
        need: &Need,
        for_host: bool,
        commands: &[Command<'_, B>],
    ) -> Result<Mark, Fault>;
    /// After a panic while recording: the point whose earlier work is gone with the recording.
    fn discarded(&mut self, backend: &B, slot: u32) -> Option<Point>;
    /// The slot that is to be flushed because it took enough, if the last work it took made it so.
    fn due(&mut self) -> Option<u32>;

    /// Puts what the slot took on its way. What could not be closed: each is a failure of its own.
    fn close(&mut self, backend: &B, slot: u32) -> Vec<Unclosed>;
    /// The next submission of a queue that nothing holds back. Whoever takes it holds that queue's lock until
    /// [`submitted`](Self::submitted).
    fn next(&mut self, queue: usize) -> Option<Submission<B::Recording>>;
    /// What the device answered. The points before it that were never answered, and now never will be: they fail.
    fn submitted(&mut self, backend: &B, submission: Submission<B::Recording>, answer: Answer) -> SmallVec<[Point; 4]>;
    /// Whether the slot has work, or would have if it took some, that is held back: by a semaphore of the caller's, or
    /// behind such work.
    fn is_held_back(&self, slot: u32) -> bool;
    /// Whether a point is held back, or never ran and was to come after one that is.
    fn hides_held(&self, point: Point) -> bool {
        self.is_held_back(point.slot) && self.progress(point) == Progress::Waiting
    }
    /// Whether anything at all waits for a semaphore of the caller's, or behind such work.
    fn holds_back(&self) -> bool;
    /// A queue with a submission that was held back and need not be any more.
    fn freed(&self) -> Option<usize>;

    /// The point of everything the slot took.
    fn last(&self, slot: u32) -> Option<Point>;
    /// What to wait for so that a point is over.
    fn progress(&self, point: Point) -> Progress;
    /// Whether a point is over: complete, or refused with everything before it complete.
    fn is_complete(&self, point: Point) -> bool;
    /// Whether everything that was ever taken is over, and nothing runs that failed.
    fn is_idle(&self) -> bool {
        self.slots().into_iter().filter_map(|slot| self.last(slot)).all(|point| self.is_complete(point))
    }
    /// Whether nothing that had to be waited for before a point can still run, or the point itself: a point that never
    /// ran stands for nothing, so then nothing at all may be running.
    fn is_past(&self, point: Point) -> bool;
    /// Whether a point that is over failed, and may run all the same.
    fn may_run(&self, point: Point) -> bool;
    /// Whether what a point used can go.
    fn is_done_with(&self, point: Point) -> bool {
        self.is_past(point) && !self.may_run(point)
    }
    /// Asks the device how far it came, and takes back what is over.
    fn refresh(&mut self, backend: &B) -> Result<(), Fault>;
    /// The device is lost: what was not handed to it never will be, and keeps nothing any more, nor is anything of the
    /// caller's waited for. What was handed to it may still be running.
    fn lose(&mut self, backend: &B);
    /// Everything that was handed to the device is over, whatever its counters say.
    fn all_over(&mut self, backend: &B);
    /// Nothing will complete any more: what was in flight is over (the device is lost and idle, or going away).
    fn abandon(&mut self, backend: &B);
    /// A point for each slot with unfinished work: a resource used up to now is free once they are all complete.
    fn now(&self) -> SmallVec<[Point; 8]>;
}

/// How far a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is over.
    Over,
    /// The device is working on it: wait for this point.
    Running(Point),
    /// It is not submitted yet, or held back.
    Waiting,
}
