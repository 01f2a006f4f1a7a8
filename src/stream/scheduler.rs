//! The scheduler driver: slots queue tasks on the host, and all that is queued runs as one batch onto one queue.
//!
//! Tasks of different slots in one batch share no bytes that one of them writes, because a task that would depend on
//! another slot's queued work has everything flushed first. So a batch may hold them in any order that keeps each slot's
//! own: slot by slot, or interleaved, where one barrier serves a step of every slot. What a task comes after in its own
//! slot is remembered with it, and a barrier is recorded only where none since serves.

use super::answers::Answers;
use super::backend::{Backend, Binding, External, Grid, Launch};
use super::driver::{Command, Driver, Need, OrderStats, Progress, Submission, Told, add_point};
use super::pool::StreamPool;
use crate::code::Code;
use crate::error::Fault;
use crate::failure::{Point, panic_message};
use crate::memory::{Hazards, Mark, hazard};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The slot of the backend that every batch is recorded for.
const EXECUTOR: u32 = 0;

/// In which order a batch holds the tasks of several slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One task of each slot in turn.
    Interleave,
    /// All of one slot's, then the next's.
    Sequence,
}

/// A place that keeps its page.
struct Kept<P> {
    page: Arc<P>,
    offset: u64,
    size: u64,
}

impl<P> Kept<P> {
    fn of(binding: &Binding<'_, P>) -> Kept<P> {
        Kept { page: binding.page.clone(), offset: binding.offset, size: binding.size }
    }

    fn binding(&self) -> Binding<'_, P> {
        Binding { page: &self.page, offset: self.offset, size: self.size }
    }
}

/// A command that keeps what it needs until it is recorded.
enum KeptCommand<B: Backend> {
    Launch {
        kernel: Arc<B::Kernel>,
        /// Where its bindings begin in the slot's, and how many there are; so its push constants and its label.
        bindings: (usize, usize),
        push: (usize, usize),
        label: (usize, usize),
        groups: [u32; 3],
        counts: Option<Kept<B::Page>>,
    },
    Copy {
        to: Kept<B::Page>,
        from: Kept<B::Page>,
    },
    Fill {
        to: Kept<B::Page>,
        pattern: u32,
    },
}

/// One piece of work, queued.
struct Task {
    sequence: u64,
    /// Work of its slot in this batch, up to here, comes before a barrier before it.
    own: u64,
    /// A barrier of this batch comes before it.
    prior: bool,
    for_host: bool,
    /// Where its commands begin in the slot's, and how many there are.
    commands: (usize, usize),
}

struct Slot<B: Backend> {
    sequence: u64,
    tasks: VecDeque<Task>,
    kept: KeptWork<B>,
    /// The batch of this slot being queued.
    open: u64,
    /// Work comes after everything there was before the caller said so.
    told: Option<Told>,
    /// What the queued tasks must not overtake: batches that are held back.
    after: SmallVec<[Point; 2]>,
    /// Semaphores of the caller's that were not reached when last asked.
    externals: SmallVec<[External; 1]>,
    /// What the device answered.
    answers: Answers,
    /// The last batch known to be complete.
    complete: u64,
    /// While a batch is recorded: the work that is in it, and the work that is before its last barrier.
    emitted: u64,
    covered: u64,
    included: bool,
}

impl<B: Backend> Slot<B> {
    fn new() -> Slot<B> {
        Slot {
            sequence: 0,
            tasks: VecDeque::new(),
            kept: KeptWork { commands: Vec::new(), bindings: Vec::new(), push: Vec::new(), labels: String::new() },
            open: 1,
            told: None,
            after: SmallVec::new(),
            externals: SmallVec::new(),
            answers: Answers::default(),
            complete: 0,
            emitted: 0,
            covered: 0,
            included: false,
        }
    }

    /// Nothing is queued any more.
    fn forget(&mut self) {
        self.included = false;
        self.after.clear();
        self.tasks.clear();
        self.kept.commands.clear();
        self.kept.bindings.clear();
        self.kept.push.clear();
        self.kept.labels.clear();
    }

    fn waits_for_host(&self) -> bool {
        self.externals.iter().any(|external| !external.submitted)
    }
}

/// What a slot's queued tasks need, kept together so that they allocate nothing once the memory is there.
struct KeptWork<B: Backend> {
    commands: Vec<KeptCommand<B>>,
    bindings: Vec<Kept<B::Page>>,
    push: Vec<u8>,
    labels: String,
}

/// The streams of a device under a scheduler.
pub struct SchedulerStreams<B: Backend> {
    pool: StreamPool<Slot<B>>,
    queued: usize,
    /// The slot that took the last task: whoever enqueued it hears what becomes of it.
    latest: u32,
    strategy: Strategy,
    max_tasks: u32,
    /// Whether the executor's slot was made.
    made: bool,
    /// Batches of the executor that were closed.
    closed: u64,
    pending: VecDeque<Submission<B::Recording>>,
    in_flight: VecDeque<Submission<B::Recording>>,
    stats: OrderStats,
}

impl<B: Backend> SchedulerStreams<B> {
    /// Streams folded onto `slots`; everything is due when `max_tasks` are queued.
    pub fn new(slots: u32, strategy: Strategy, max_tasks: u32) -> SchedulerStreams<B> {
        SchedulerStreams {
            pool: StreamPool::new(slots),
            queued: 0,
            latest: EXECUTOR,
            strategy,
            max_tasks,
            made: false,
            closed: 0,
            pending: VecDeque::new(),
            in_flight: VecDeque::new(),
            stats: OrderStats::default(),
        }
    }

    fn make(&mut self, backend: &B, slot: u32) -> Result<(), Fault> {
        if !self.made {
            backend.slot_create(EXECUTOR)?;
            self.made = true;
        }
        self.pool.get_or_make(slot, || Ok::<_, Fault>(Slot::new())).map(drop)
    }

    /// Whether a slot's queued tasks have to stay queued.
    fn is_held(&self, own: &Slot<B>) -> bool {
        own.waits_for_host()
            || own
                .after
                .iter()
                .any(|point| self.pool.try_get(point.slot).is_some_and(|t| point.batch > t.answers.settled()))
    }

    fn come_after(&self, slot: u32, mark: Mark, need: &mut Need) {
        let Point { slot: other, batch } = mark.point;
        let Some(theirs) = self.pool.try_get(other) else { return };
        if other == slot && batch == theirs.open {
            need.own = need.own.max(mark.sequence);
        } else if batch > theirs.answers.settled() && self.is_held(theirs) {
            need.after.push(mark.point);
            need.barrier = true;
            // What this slot queued before need not wait with it.
            if self.pool.try_get(slot).is_some_and(|own| !own.tasks.is_empty() && !self.is_held(own)) {
                need.flush(slot);
            }
        } else if batch > theirs.answers.settled() {
            need.flush(other);
        } else {
            need.barrier = true;
        }
    }

    fn settle(&mut self, points: &[Point], accepted: bool) {
        for point in points {
            if let Some(own) = self.pool.try_get_mut(point.slot) {
                match accepted {
                    true => own.answers.accept(point.batch),
                    false => own.answers.refuse(point.batch),
                }
            }
        }
    }

    /// Records everything that is queued.
    fn record(&mut self, backend: &B, recording: &mut B::Recording) -> Result<(), Fault> {
        let mut for_host = false;
        let mut any_barrier = false;
        let mut left = 0;
        for (_, own) in self.pool.iter_mut().filter(|(_, own)| own.included) {
            left += own.tasks.len();
            own.emitted = own.tasks.front().map_or(own.sequence, |task| task.sequence - 1);
            own.covered = own.emitted;
        }
        let slots = self.pool.count() as u32;
        let mut slot = 0;
        while left > 0 {
            let own = self.pool.try_get_mut(slot).filter(|own| own.included);
            let Some((task, covered)) = own.and_then(|own| Some((own.tasks.pop_front()?, own.covered))) else {
                slot = (slot + 1) % slots;
                continue;
            };
            if (task.prior && !any_barrier) || task.own > covered {
                backend.barrier(recording);
                self.stats.barriers += 1;
                any_barrier = true;
                self.pool.iter_mut().for_each(|(_, own)| own.covered = own.emitted);
            }
            if let Some(own) = self.pool.try_get_mut(slot) {
                let (first, count) = task.commands;
                for command in &own.kept.commands[first..first + count] {
                    own.kept.record(backend, recording, command)?;
                }
                own.emitted = task.sequence;
            }
            for_host |= task.for_host;
            left -= 1;
            if self.strategy == Strategy::Interleave {
                slot = (slot + 1) % slots;
            }
        }
        if for_host {
            backend.host_barrier(recording);
        }
        backend.end(recording)
    }

    /// The tasks of the slots in a batch are gone.
    fn forget_tasks(&mut self) {
        self.queued = 0;
        for (_, own) in self.pool.iter_mut() {
            if own.included {
                own.forget();
            }
            self.queued += own.tasks.len();
        }
    }
}

impl<B: Backend> KeptWork<B> {
    fn keep(&mut self, command: &Command<'_, B>) {
        let kept = match command {
            Command::Copy { to, from } => KeptCommand::Copy { to: Kept::of(to), from: Kept::of(from) },
            Command::Fill { to, pattern } => KeptCommand::Fill { to: Kept::of(to), pattern: *pattern },
            Command::Launch(launch) => {
                let bindings = (self.bindings.len(), launch.bindings.len());
                self.bindings.extend(launch.bindings.iter().map(Kept::of));
                let push = (self.push.len(), launch.push.len());
                self.push.extend_from_slice(launch.push);
                let label = (self.labels.len(), launch.label.len());
                self.labels.push_str(launch.label);
                let (groups, counts) = match &launch.grid {
                    Grid::Groups(groups) => (*groups, None),
                    Grid::Indirect(counts) => ([0; 3], Some(Kept::of(counts))),
                };
                KeptCommand::Launch { kernel: launch.kernel.clone(), bindings, push, label, groups, counts }
            }
        };
        self.commands.push(kept);
    }

    fn record(&self, backend: &B, recording: &mut B::Recording, command: &KeptCommand<B>) -> Result<(), Fault> {
        match command {
            KeptCommand::Copy { to, from } => backend.copy(recording, to.binding(), from.binding()),
            KeptCommand::Fill { to, pattern } => backend.fill(recording, to.binding(), *pattern),
            KeptCommand::Launch { kernel, bindings, push, label, groups, counts } => {
                let bindings: SmallVec<[Binding<'_, B::Page>; 16]> =
                    self.bindings[bindings.0..bindings.0 + bindings.1].iter().map(Kept::binding).collect();
                let launch = Launch {
                    kernel,
                    bindings: &bindings,
                    push: &self.push[push.0..push.0 + push.1],
                    grid: counts.as_ref().map_or(Grid::Groups(*groups), |counts| Grid::Indirect(counts.binding())),
                    label: &self.labels[label.0..label.0 + label.1],
                };
                return backend.launch(recording, &launch);
            }
        }
        Ok(())
    }
}

impl<B: Backend> Driver<B> for SchedulerStreams<B> {
    fn stats(&self) -> OrderStats {
        self.stats
    }

    fn slot_of(&self, stream: u64) -> u32 {
        self.pool.slot_of(stream)
    }

    fn queue_of(&self, _: u32) -> usize {
        0
    }

    fn slots(&self) -> SmallVec<[u32; 16]> {
        self.pool.iter().map(|(slot, _)| slot).collect()
    }

    fn after(&mut self, backend: &B, slot: u32, points: &[Point]) -> Result<(), Fault> {
        self.make(backend, slot)?;
        let held: SmallVec<[Point; 2]> = points
            .iter()
            .filter(|point| self.pool.try_get(point.slot).is_some_and(|theirs| point.batch > theirs.answers.settled()))
            .copied()
            .collect();
        if let (Some(own), false) = (self.pool.try_get_mut(slot), points.is_empty()) {
            own.told = Some(Told::default());
            held.into_iter().for_each(|point| add_point(&mut own.after, point));
        }
        Ok(())
    }

    fn after_external(&mut self, backend: &B, slot: u32, external: External) -> Result<(), Fault> {
        self.make(backend, slot)?;
        if let Some(own) = self.pool.try_get_mut(slot) {
            own.externals.push(external);
        }
        Ok(())
    }

    fn need(&self, slot: u32) -> Need {
        let own = self.pool.try_get(slot).filter(|own| own.told.is_some_and(|told| told.is_due(own.open)));
        own.map_or_else(Need::default, |own| Need { barrier: true, own: own.sequence, ..Need::default() })
    }

    fn depend(&self, slot: u32, hazards: &Hazards, start: u64, end: u64, writes: bool, need: &mut Need) {
        if !hazards.is_empty() {
            hazard::conflicts(hazards, start, end, writes, |mark| self.come_after(slot, mark, need));
        }
    }

    fn take(
        &mut self,
        backend: &B,
        slot: u32,
        need: &Need,
        for_host: bool,
        commands: &[Command<'_, B>],
    ) -> Result<Mark, Fault> {
        self.make(backend, slot)?;
        self.queued += 1;
        self.latest = slot;
        let Some(own) = self.pool.try_get_mut(slot) else { unreachable!("made above") };
        let first = own.kept.commands.len();
        commands.iter().for_each(|command| own.kept.keep(command));
        own.sequence += 1;
        if let Some(told) = &mut own.told {
            told.carried(own.open);
        }
        for point in &need.after {
            if !own.after.contains(point) {
                own.after.push(*point);
            }
        }
        let point = Point { slot, batch: own.open };
        let sequence = own.sequence;
        own.tasks.push_back(Task {
            sequence,
            own: need.own,
            prior: need.barrier,
            for_host,
            commands: (first, commands.len()),
        });
        Ok(Mark { point, sequence })
    }

    fn discarded(&mut self, _: u32) -> Option<Point> {
        // Nothing is recorded while work is taken.
        None
    }

    fn due(&mut self) -> Option<u32> {
        // What is held back cannot be flushed, however much it is.
        let most = self.max_tasks as usize;
        if self.queued < most {
            return None;
        }
        let free: usize = self.pool.iter().filter(|(_, own)| !self.is_held(own)).map(|(_, own)| own.tasks.len()).sum();
        (free >= most).then_some(self.latest)
    }

    fn close(&mut self, backend: &B, _: u32) -> Result<(), (SmallVec<[Point; 4]>, Fault)> {
        let ready: SmallVec<[u32; 16]> = self
            .pool
            .iter()
            .filter(|(_, own)| !own.tasks.is_empty() && !self.is_held(own))
            .map(|(slot, _)| slot)
            .collect();
        if ready.is_empty() {
            return Ok(());
        }
        let mut points: SmallVec<[Point; 4]> = SmallVec::new();
        let mut externals: SmallVec<[External; 1]> = SmallVec::new();
        for slot in ready {
            let Some(own) = self.pool.try_get_mut(slot) else { continue };
            own.included = true;
            externals.extend_from_slice(&own.externals);
            points.push(Point { slot, batch: own.open });
            own.open += 1;
        }
        let answer = backend.begin(EXECUTOR).and_then(|mut recording| {
            match catch_unwind(AssertUnwindSafe(|| self.record(backend, &mut recording))) {
                Ok(Ok(())) => Ok(recording),
                Ok(Err(fault)) => {
                    backend.recycle(EXECUTOR, recording);
                    Err(fault)
                }
                // What a panic left half recorded is dropped, not used again.
                Err(panic) => Err(Fault::new(Code::Internal, panic_message(&*panic))),
            }
        });
        self.forget_tasks();
        match answer {
            Ok(recording) => {
                self.closed += 1;
                let signal = Point { slot: EXECUTOR, batch: self.closed };
                let (waits, after) = (SmallVec::new(), SmallVec::new());
                self.pending.push_back(Submission { points, signal, recording, waits, externals, after });
                Ok(())
            }
            Err(fault) => {
                self.settle(&points, false);
                Err((points, fault))
            }
        }
    }

    fn next(&mut self, queue: usize) -> Option<Submission<B::Recording>> {
        // Whoever holds another queue's lock may be beside one who is submitting.
        if queue == 0 { self.pending.pop_front() } else { None }
    }

    fn submitted(&mut self, backend: &B, submission: Submission<B::Recording>, accepted: bool) {
        self.settle(&submission.points, accepted);
        if accepted {
            for point in &submission.points {
                if let Some(own) = self.pool.try_get_mut(point.slot) {
                    own.told = own.told.filter(|told| !told.is_done(point.batch));
                }
            }
            self.in_flight.push_back(submission);
            self.stats.submissions += 1;
        } else {
            backend.recycle(EXECUTOR, submission.recording);
        }
    }

    fn is_held_back(&self, slot: u32) -> bool {
        self.pool.try_get(slot).is_some_and(|own| !own.tasks.is_empty() && self.is_held(own))
    }

    fn last(&self, slot: u32) -> Option<Point> {
        let own = self.pool.try_get(slot)?;
        Some(Point { slot, batch: if own.tasks.is_empty() { own.open - 1 } else { own.open } })
    }

    fn progress(&self, point: Point) -> Progress {
        let Some(own) = self.pool.try_get(point.slot) else { return Progress::Over };
        if point.batch > own.answers.settled() {
            return Progress::Waiting;
        }
        // The last batch in flight that holds any of the slot's work up to the point.
        let holds = |submission: &&Submission<B::Recording>| {
            submission.points.iter().any(|other| other.slot == point.slot && other.batch <= point.batch)
        };
        self.in_flight
            .iter()
            .rev()
            .find(holds)
            .map_or(Progress::Over, |submission| Progress::Running(submission.signal))
    }

    fn is_complete(&self, point: Point) -> bool {
        self.pool.try_get(point.slot).is_none_or(|own| point.batch <= own.complete)
            || self.progress(point) == Progress::Over
    }

    fn is_past(&self, point: Point) -> bool {
        let refused = self.pool.try_get(point.slot).is_some_and(|own| point.batch <= own.answers.refused());
        self.is_complete(point) && (!refused || (self.in_flight.is_empty() && self.pending.is_empty()))
    }

    fn refresh(&mut self, backend: &B) -> Result<(), Fault> {
        let mut answer = Ok(());
        for (_, own) in self.pool.iter_mut() {
            own.externals.retain(|external| match backend.external_reached(*external) {
                Ok(reached) => !reached,
                Err(fault) => {
                    answer = Err(fault);
                    true
                }
            });
        }
        if !self.in_flight.is_empty() {
            match backend.completed(EXECUTOR) {
                Ok(complete) => {
                    while self.in_flight.front().is_some_and(|submission| submission.signal.batch <= complete) {
                        let Some(submission) = self.in_flight.pop_front() else { break };
                        for point in &submission.points {
                            if let Some(own) = self.pool.try_get_mut(point.slot) {
                                own.complete = own.complete.max(point.batch);
                            }
                        }
                        backend.recycle(EXECUTOR, submission.recording);
                    }
                }
                Err(fault) => answer = Err(fault),
            }
        }
        answer
    }

    fn abandon(&mut self, backend: &B) {
        for submission in self.pending.drain(..).chain(self.in_flight.drain(..)) {
            backend.recycle(EXECUTOR, submission.recording);
        }
        for (_, own) in self.pool.iter_mut() {
            own.included = true;
            own.answers.give_up(own.open);
            own.complete = own.open;
            own.open += 1;
            own.externals.clear();
            own.told = None;
        }
        self.forget_tasks();
    }

    fn now(&self) -> SmallVec<[Point; 8]> {
        self.slots().into_iter().filter_map(|slot| self.last(slot)).filter(|point| !self.is_complete(*point)).collect()
    }
}
