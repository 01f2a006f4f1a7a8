//! The scheduler driver: slots queue tasks on the host, and all that is queued runs as one batch onto one queue.
//!
//! Tasks of different slots in one batch share no bytes that one of them writes, because a task that would depend on
//! another slot's queued work has everything flushed first. So a batch may hold them in any order that keeps each slot's
//! own: slot by slot, or interleaved, where one barrier serves a step of every slot. What a task comes after in its own
//! slot is remembered with it, and a barrier is recorded only where none since serves.
//!
//! Tasks that are held back for a semaphore of the caller's stay queued, and so does what depends on them. A slot's
//! queue is cut into batches for that: tasks of one batch are held back by the same things, and a batch that others
//! come behind takes no more tasks, so batches never wait for each other.

use super::answers::Answers;
use super::backend::{Backend, Binding, External, Grid, Launch};
use super::caught::caught;
use super::driver::{
    Answer, Cleared, Command, Driver, Look, Need, OrderStats, Progress, Submission, Told, Unclosed, add_external,
    add_point,
};
use super::pool::StreamPool;
use crate::error::Fault;
use crate::failure::Point;
use crate::memory::Mark;
use smallvec::SmallVec;
use std::collections::VecDeque;
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
        /// Of an indirect launch: its counts, and the bytes to check them in.
        counts: Option<[Kept<B::Page>; 2]>,
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

/// Tasks of one slot that run together.
struct Batch<B: Backend> {
    number: u64,
    tasks: VecDeque<Task>,
    kept: KeptWork<B>,
    /// What the tasks must not overtake: batches that are held back.
    after: SmallVec<[Point; 2]>,
    /// Semaphores of the caller's that the tasks wait for.
    externals: SmallVec<[External; 1]>,
}

impl<B: Backend> Batch<B> {
    fn new(number: u64) -> Batch<B> {
        Batch {
            number,
            tasks: VecDeque::new(),
            kept: KeptWork { commands: Vec::new(), bindings: Vec::new(), push: Vec::new(), labels: String::new() },
            after: SmallVec::new(),
            externals: SmallVec::new(),
        }
    }

    /// It is over, one way or another; the next one has its memory.
    fn start_over(&mut self) {
        self.number += 1;
        self.after.clear();
        self.tasks.clear();
        self.kept.commands.clear();
        self.kept.bindings.clear();
        self.kept.push.clear();
        self.kept.labels.clear();
    }

    fn is_behind(&self, point: Point) -> bool {
        self.after.iter().any(|known| known.slot == point.slot && known.batch >= point.batch)
    }
}

struct Slot<B: Backend> {
    sequence: u64,
    /// Batches that take no more tasks, in order.
    sealed: VecDeque<Batch<B>>,
    /// The batch being queued.
    open: Batch<B>,
    /// Work comes after everything there was before the caller said so.
    told: Option<Told>,
    /// Semaphores of the caller's that batches on their way wait for, with the executor's batch they are in: a refused
    /// one has waited for nothing, and then the slot's next has to. No other slot's, or the caller could not know when
    /// it may destroy them.
    handed: SmallVec<[(u64, External); 1]>,
    /// What the device answered.
    answers: Answers,
    /// The last batch known to be complete.
    complete: u64,
    cleared: Cleared,
    /// While a batch is recorded: the work that is in it, and the work that is before its last barrier.
    emitted: u64,
    covered: u64,
    included: bool,
}

impl<B: Backend> Slot<B> {
    fn new() -> Slot<B> {
        Slot {
            sequence: 0,
            sealed: VecDeque::new(),
            open: Batch::new(1),
            told: None,
            handed: SmallVec::new(),
            answers: Answers::default(),
            complete: 0,
            cleared: Cleared::default(),
            emitted: 0,
            covered: 0,
            included: false,
        }
    }

    /// The batch that is next to run.
    fn front(&self) -> &Batch<B> {
        self.sealed.front().unwrap_or(&self.open)
    }

    fn front_mut(&mut self) -> &mut Batch<B> {
        self.sealed.front_mut().unwrap_or(&mut self.open)
    }

    /// What is queued takes no more tasks.
    fn seal(&mut self) {
        if !self.open.tasks.is_empty() {
            let next = Batch::new(self.open.number + 1);
            self.sealed.push_back(std::mem::replace(&mut self.open, next));
        }
    }

    /// The front batch is recorded, or given up.
    fn forget_front(&mut self) {
        self.included = false;
        if self.sealed.pop_front().is_none() {
            self.open.start_over();
        }
    }

    fn batches(&self) -> impl Iterator<Item = &Batch<B>> {
        self.sealed.iter().chain([&self.open])
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
    /// The slot that took a task since it was last asked what is due: whoever enqueued it hears what becomes of it.
    latest: Option<u32>,
    strategy: Strategy,
    max_tasks: u32,
    /// Whether the executor's slot was made.
    made: bool,
    /// Batches of the executor that were closed.
    closed: u64,
    pending: VecDeque<Submission<B::Recording>>,
    in_flight: VecDeque<Submission<B::Recording>>,
    /// What failed and may run all the same. The executor's timeline passes its number when that is over, because it
    /// signals in the order of submission.
    in_doubt: VecDeque<Submission<B::Recording>>,
    stats: OrderStats,
}

impl<B: Backend> SchedulerStreams<B> {
    /// Streams folded onto `slots`; everything is due when `max_tasks` are queued.
    pub fn new(slots: u32, strategy: Strategy, max_tasks: u32) -> SchedulerStreams<B> {
        SchedulerStreams {
            pool: StreamPool::new(slots),
            queued: 0,
            latest: None,
            strategy,
            max_tasks,
            made: false,
            closed: 0,
            pending: VecDeque::new(),
            in_flight: VecDeque::new(),
            in_doubt: VecDeque::new(),
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

    /// Whether the tasks of a batch have to stay queued. What comes behind a batch that was closed is submitted after
    /// it.
    fn is_held(&self, batch: &Batch<B>) -> bool {
        let is_queued =
            |point: &Point| self.pool.try_get(point.slot).is_some_and(|theirs| point.batch >= theirs.front().number);
        batch.externals.iter().any(|external| !external.submitted) || batch.after.iter().any(is_queued)
    }

    fn is_ready(&self, own: &Slot<B>) -> bool {
        !own.front().tasks.is_empty() && !self.is_held(own.front())
    }

    /// What a slot queued and cannot be closed now takes no more tasks.
    fn seal(&mut self, slot: u32) {
        if self.pool.try_get(slot).is_some_and(|own| !own.sealed.is_empty() || self.is_held(&own.open))
            && let Some(own) = self.pool.try_get_mut(slot)
        {
            own.seal();
        }
    }

    /// Asks which semaphores of the caller's were reached.
    fn look(&mut self, backend: &B) -> Result<(), Fault> {
        let mut look = Look::new(backend);
        for (_, own) in self.pool.iter_mut() {
            let Slot { sealed, open, told, .. } = own;
            for external in sealed.iter_mut().flat_map(|batch| &mut batch.externals) {
                external.submitted = external.submitted || look.is_reached(*external);
            }
            if !open.tasks.is_empty() {
                open.externals.iter_mut().for_each(|external| external.submitted |= look.is_reached(*external));
                continue;
            }
            let waits = open.externals.len();
            open.externals.retain(|external| !look.is_reached(*external));
            if open.externals.len() < waits {
                // The semaphore may be gone by the time there is work: a barrier shows it what was written before.
                *told = Some(Told::default());
            }
        }
        look.answer
    }

    /// What comes before these points in their slots and was never answered.
    fn unanswered(&self, points: &[Point]) -> SmallVec<[Point; 4]> {
        let mut lost = SmallVec::new();
        for Point { slot, batch } in points.iter().copied() {
            if let Some(own) = self.pool.try_get(slot) {
                lost.extend(own.answers.unanswered(batch).map(|batch| Point { slot, batch }));
            }
        }
        lost
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

    /// A batch of the executor is refused: what it was to wait for the slots' next ones do.
    #[cold]
    fn give_back(&mut self, points: &[Point], signal: Point) {
        for slot in points.iter().map(|point| point.slot) {
            let Some(own) = self.pool.try_get_mut(slot) else { continue };
            let behind = self.pending.iter_mut().find(|behind| {
                behind.signal.batch > signal.batch && behind.points.iter().any(|point| point.slot == slot)
            });
            let next = behind.as_ref().map(|behind| behind.signal.batch);
            let mut externals = SmallVec::<[External; 1]>::new();
            own.handed.retain(|(batch, external)| {
                let is_ours = *batch == signal.batch;
                if is_ours {
                    externals.push(*external);
                }
                !is_ours
            });
            own.handed
                .extend(next.into_iter().flat_map(|next| externals.iter().map(move |external| (next, *external))));
            let waits = match behind {
                Some(behind) => &mut behind.externals,
                None => &mut own.front_mut().externals,
            };
            externals.into_iter().for_each(|external| add_external(waits, external));
        }
    }

    /// Records everything that is queued.
    fn record(&mut self, backend: &B, recording: &mut B::Recording) -> Result<(), Fault> {
        let mut for_host = false;
        let mut any_barrier = false;
        let mut left = 0;
        for (_, own) in self.pool.iter_mut().filter(|(_, own)| own.included) {
            let tasks = &own.front().tasks;
            left += tasks.len();
            own.emitted = tasks.front().map_or(own.sequence, |task| task.sequence - 1);
            own.covered = own.emitted;
        }
        let slots = self.pool.count() as u32;
        let mut slot = 0;
        while left > 0 {
            let own = self.pool.try_get_mut(slot).filter(|own| own.included);
            let Some((task, covered)) = own.and_then(|own| Some((own.front_mut().tasks.pop_front()?, own.covered)))
            else {
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
                let kept = &own.front().kept;
                for command in &kept.commands[first..first + count] {
                    kept.record(backend, recording, command)?;
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

    /// Closes what is queued and ready, one batch of each slot; false if nothing is.
    fn close_ready(&mut self, backend: &B) -> Result<bool, Unclosed> {
        let ready: SmallVec<[u32; 16]> =
            self.pool.iter().filter(|(_, own)| self.is_ready(own)).map(|(slot, _)| slot).collect();
        if ready.is_empty() {
            return Ok(false);
        }
        let mut points: SmallVec<[Point; 4]> = SmallVec::new();
        let mut externals = SmallVec::new();
        let signal = Point { slot: EXECUTOR, batch: self.closed + 1 };
        for slot in ready {
            let Some(own) = self.pool.try_get_mut(slot) else { continue };
            own.included = true;
            let front = own.front_mut();
            points.push(Point { slot, batch: front.number });
            for external in std::mem::take(&mut front.externals) {
                add_external(&mut externals, external);
                own.handed.push((signal.batch, external));
            }
        }
        let answer = backend.begin(EXECUTOR).and_then(|mut recording| {
            match caught(|| self.record(backend, &mut recording)) {
                Ok(Ok(())) => Ok(recording),
                Ok(Err(fault)) => {
                    backend.recycle(EXECUTOR, recording);
                    Err(fault)
                }
                // What a panic left half recorded is dropped, not used again.
                Err(fault) => Err(fault),
            }
        });
        self.forget_tasks();
        match answer {
            Ok(recording) => {
                self.closed = signal.batch;
                let (waits, after) = (SmallVec::new(), SmallVec::new());
                // All there is runs on one queue: what was refused left no wait behind.
                let refusals = 0;
                self.pending.push_back(Submission { points, signal, recording, waits, externals, after, refusals });
                Ok(true)
            }
            Err(fault) => {
                self.settle(&points, false);
                self.give_back(&points, signal);
                Err(Unclosed { points, fault })
            }
        }
    }

    /// The tasks of the slots in a batch are gone.
    fn forget_tasks(&mut self) {
        self.queued = 0;
        for (_, own) in self.pool.iter_mut() {
            if own.included {
                own.forget_front();
            }
            self.queued += own.batches().map(|batch| batch.tasks.len()).sum::<usize>();
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
                    Grid::Indirect(counts, scratch) => ([0; 3], Some([Kept::of(counts), Kept::of(scratch)])),
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
                let grid = counts.as_ref().map_or(Grid::Groups(*groups), |[counts, scratch]| {
                    Grid::Indirect(counts.binding(), scratch.binding())
                });
                let launch = Launch {
                    kernel,
                    bindings: &bindings,
                    push: &self.push[push.0..push.0 + push.1],
                    grid,
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
            .filter(|point| self.pool.try_get(point.slot).is_some_and(|theirs| point.batch >= theirs.front().number))
            .copied()
            .collect();
        if let (Some(own), false) = (self.pool.try_get_mut(slot), points.is_empty()) {
            own.told = Some(Told::default());
            if !held.is_empty() {
                own.seal();
            }
            held.into_iter().for_each(|point| add_point(&mut own.open.after, point));
        }
        Ok(())
    }

    fn after_external(&mut self, backend: &B, slot: u32, external: External) -> Result<(), Fault> {
        self.make(backend, slot)?;
        if let Some(own) = self.pool.try_get_mut(slot) {
            own.seal();
            add_external(&mut own.open.externals, external);
        }
        Ok(())
    }

    fn need(&self, slot: u32, forgotten: u64, need: &mut Need) {
        let own = self.pool.try_get(slot);
        need.forgotten = forgotten;
        need.barrier |= own.map_or(forgotten > 0, |own| !own.cleared.covers(forgotten, own.open.number, &own.answers));
        if let Some(own) =
            self.pool.try_get(slot).filter(|own| own.told.is_some_and(|told| told.is_due(own.open.number)))
        {
            need.barrier = true;
            need.own = need.own.max(own.sequence);
        }
    }

    fn come_after(&self, slot: u32, mark: Mark, need: &mut Need) {
        let Point { slot: other, batch } = mark.point;
        let Some(theirs) = self.pool.try_get(other) else { return };
        if other == slot && batch == theirs.open.number {
            need.own = need.own.max(mark.sequence);
        } else if batch <= theirs.answers.settled() {
            need.barrier = true;
        } else if other == slot && batch >= theirs.front().number {
            // Batches of one slot run in order.
            need.barrier = true;
        } else if batch < theirs.open.number
            && theirs.sealed.iter().take_while(|sealed| sealed.number <= batch).any(|sealed| self.is_held(sealed))
        {
            add_point(&mut need.after, mark.point);
            need.barrier = true;
            // What this slot queued before need not wait with it.
            let apart = |own: &Slot<B>| !own.open.tasks.is_empty() && !own.open.is_behind(mark.point);
            if self.pool.try_get(slot).is_some_and(apart) {
                need.flush(slot);
            }
        } else {
            // Submitted, or, if it is held back, sealed.
            need.flush(other);
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
        self.latest = Some(slot);
        let Some(own) = self.pool.try_get_mut(slot) else { unreachable!("made above") };
        let open = &mut own.open;
        let first = open.kept.commands.len();
        commands.iter().for_each(|command| open.kept.keep(command));
        own.sequence += 1;
        if need.barrier {
            own.cleared.carried(need.forgotten, open.number);
        }
        if let Some(told) = &mut own.told {
            told.carried(open.number);
        }
        need.after.iter().for_each(|point| add_point(&mut open.after, *point));
        let point = Point { slot, batch: open.number };
        let sequence = own.sequence;
        open.tasks.push_back(Task {
            sequence,
            own: need.own,
            prior: need.barrier,
            for_host,
            commands: (first, commands.len()),
        });
        Ok(Mark { point, sequence })
    }

    fn discarded(&mut self, _: &B, _: u32) -> Option<Point> {
        // Nothing is recorded while work is taken.
        None
    }

    fn due(&mut self) -> Option<u32> {
        let latest = self.latest.take()?;
        // What is held back cannot be flushed, however much it is.
        let most = self.max_tasks as usize;
        if self.queued < most {
            return None;
        }
        let ready = self.pool.iter().filter(|(_, own)| self.is_ready(own));
        let free: usize = ready.map(|(_, own)| own.front().tasks.len()).sum();
        (free >= most).then_some(latest)
    }

    fn close(&mut self, backend: &B, slot: u32) -> Vec<Unclosed> {
        self.seal(slot);
        let mut failed = Vec::new();
        // Closing one batch may free another one behind it; so may its failure, and a flush hears only of its own
        // slot.
        loop {
            match self.close_ready(backend) {
                Ok(true) => {}
                Ok(false) => return failed,
                Err(unclosed) => failed.push(unclosed),
            }
        }
    }

    fn next(&mut self, queue: usize) -> Option<Submission<B::Recording>> {
        // All batches go to queue 0: a thread with the lock of another queue may run beside a thread that submits.
        if queue == 0 { self.pending.pop_front() } else { None }
    }

    fn submitted(&mut self, backend: &B, submission: Submission<B::Recording>, answer: Answer) -> SmallVec<[Point; 4]> {
        let lost = self.unanswered(&submission.points);
        self.settle(&lost, false);
        let accepted = answer == Answer::Accepted;
        self.settle(&submission.points, accepted);
        if accepted {
            for point in &submission.points {
                if let Some(own) = self.pool.try_get_mut(point.slot) {
                    own.told = own.told.filter(|told| !told.is_done(point.batch));
                    own.handed.retain(|(batch, _)| *batch != submission.signal.batch);
                }
            }
            self.in_flight.push_back(submission);
            self.stats.submissions += 1;
        } else {
            self.give_back(&submission.points, submission.signal);
            match answer {
                Answer::InDoubt => self.in_doubt.push_back(submission),
                _ => backend.recycle(EXECUTOR, submission.recording),
            }
        }
        lost
    }

    fn is_held_back(&self, slot: u32) -> bool {
        self.pool.try_get(slot).is_some_and(|own| own.batches().any(|batch| self.is_held(batch)))
    }

    fn holds_back(&self) -> bool {
        let waits = |own: &Slot<B>| !own.sealed.is_empty() || !own.open.externals.is_empty();
        !self.pending.is_empty() || self.pool.iter().any(|(_, own)| waits(own))
    }

    fn freed(&self) -> Option<usize> {
        // Batches leave one queue in the order in which they were closed.
        None
    }

    fn last(&self, slot: u32) -> Option<Point> {
        let own = self.pool.try_get(slot)?;
        Some(Point { slot, batch: own.open.number - u64::from(own.open.tasks.is_empty()) })
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
        // What is being submitted right now is neither pending nor in flight.
        let answered = |own: &Slot<B>| own.answers.settled() + 1 >= own.front().number;
        self.is_complete(point)
            && (!refused || (self.in_flight.is_empty() && self.pool.iter().all(|(_, own)| answered(own))))
    }

    fn refresh(&mut self, backend: &B) -> Result<(), Fault> {
        let mut answer = self.look(backend);
        if !self.in_flight.is_empty() || !self.in_doubt.is_empty() {
            match backend.completed(EXECUTOR) {
                Ok(complete) => {
                    while self.in_doubt.front().is_some_and(|submission| submission.signal.batch <= complete) {
                        let Some(submission) = self.in_doubt.pop_front() else { break };
                        backend.recycle(EXECUTOR, submission.recording);
                    }
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

    fn lose(&mut self, backend: &B) {
        for submission in self.pending.drain(..) {
            backend.recycle(EXECUTOR, submission.recording);
        }
        for (_, own) in self.pool.iter_mut() {
            own.sealed.clear();
            own.open.externals.clear();
            own.handed.clear();
            // No answer will come for what it queued.
            if !own.open.tasks.is_empty() {
                own.open.start_over();
            }
            own.told = None;
        }
        self.queued = 0;
    }

    fn all_over(&mut self, backend: &B) {
        for submission in std::mem::take(&mut self.in_flight) {
            for point in &submission.points {
                if let Some(own) = self.pool.try_get_mut(point.slot) {
                    own.complete = own.complete.max(point.batch);
                }
            }
            backend.recycle(EXECUTOR, submission.recording);
        }
        for submission in self.in_doubt.drain(..) {
            backend.recycle(EXECUTOR, submission.recording);
        }
    }

    fn abandon(&mut self, backend: &B) {
        self.lose(backend);
        self.all_over(backend);
        for (_, own) in self.pool.iter_mut() {
            own.answers.give_up(own.open.number - 1);
            own.complete = own.open.number - 1;
        }
    }

    fn may_run(&self, point: Point) -> bool {
        let reaches = |other: &Point| other.slot == point.slot && other.batch <= point.batch;
        self.in_doubt.iter().any(|submission| submission.points.iter().any(reaches))
    }

    fn is_idle(&self) -> bool {
        self.in_doubt.is_empty()
            && self.slots().into_iter().filter_map(|slot| self.last(slot)).all(|point| self.is_complete(point))
    }

    fn now(&self) -> SmallVec<[Point; 8]> {
        self.slots().into_iter().filter_map(|slot| self.last(slot)).filter(|point| !self.is_complete(*point)).collect()
    }
}
