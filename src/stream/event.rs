//! The event-ordered driver: each slot records its own batches, and the device orders them.
//!
//! Ordering is exact. Work waits for work of its own slot, or of another slot on the same queue, by a barrier; for work
//! on another queue by a wait on that slot's timeline; and only if they share bytes that one of them writes. A barrier
//! orders everything before it on its queue, so one serves all hazards known when it is recorded. Work of another slot
//! is submitted before anything that depends on it is recorded, so no submission ever waits for a later one. Only work
//! that is held back for a semaphore of the caller's is not: what depends on it is held back behind it, in a batch that
//! holds nothing else. A batch names only batches that were closed before it, so batches never wait for each other.
//!
//! Work after a batch is also after everything that the batch came after. If the batch is refused, that no longer holds:
//! neither the batch nor its waits reached the device. If a predecessor is refused while a command buffer is open, the
//! next dispatch is preceded by a full barrier, and by a wait for the other queues. If the command buffer was closed by
//! then, the same is done when it is submitted. That orders more than it must, but every wait of it ends.
//!
//! Work that is held back is different, because the caller may never release it. A batch is after such work only if the
//! batch names it. All of that was answered before the batch was submitted. If the batch could not be closed, the names
//! are remembered.

use super::answers::Answers;
use super::backend::{Backend, External};
use super::driver::{
    Answer, Cleared, Command, Driver, Look, Need, OrderStats, OwnWork, Progress, Submission, Told, Unclosed,
    add_external, add_point,
};
use super::pool::StreamPool;
use crate::error::Fault;
use crate::failure::Point;
use crate::memory::Mark;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A slot's own recordings and how far they came.
struct Slot<R> {
    recording: Option<R>,
    /// Something panicked while it recorded: what is in the recording is not known.
    broken_off: bool,
    /// Work in the open recording.
    recorded: u32,
    /// The batch being recorded, or the next.
    open: u64,
    /// Work recorded so far, over all batches.
    sequence: u64,
    /// Work of this slot up to here is before a barrier of the open recording.
    covered: u64,
    /// By slot, the batch up to which its work is before a barrier, or a wait, of the open recording.
    seen: SmallVec<[u64; 16]>,
    /// The answers, counted over all slots, that the last barrier of the open recording knew of.
    seen_answers: Option<u64>,
    /// What the open batch waits for on other queues.
    waits: SmallVec<[Point; 4]>,
    /// What the open batch must not overtake.
    after: SmallVec<[Point; 2]>,
    /// What work comes after because the caller says so.
    told: SmallVec<[(Point, Told); 2]>,
    /// Semaphores of the caller's that the open batch waits for. Those behind it come after it.
    externals: SmallVec<[External; 1]>,
    /// The open recording writes memory that the host reads.
    for_host: bool,
    /// What the device answered.
    answers: Answers,
    /// The last batch the device accepted.
    accepted: u64,
    /// The last batch known to be complete.
    complete: u64,
    /// The refusals, counted over all slots, that the open recording is ordered after.
    after_refusals: u64,
    cleared: Cleared,
    /// The refusals, counted over all slots, that were known when the open recording took its first work.
    known_refusals: u64,
    /// The refusals, counted over all slots, when the last one of this slot was known; 0: none.
    last_refusal: u64,
    /// By slot, what the device had accepted when the last batch of this slot was refused.
    stood_for: SmallVec<[u64; 16]>,
    /// What the device may be working on: accepted, or in doubt. Its timeline passes the number of each when that is over,
    /// because it signals in the order of submission.
    in_flight: VecDeque<(u64, R)>,
}

impl<R> Slot<R> {
    fn new(slots: usize) -> Slot<R> {
        Slot {
            recording: None,
            broken_off: false,
            recorded: 0,
            open: 1,
            sequence: 0,
            covered: 0,
            seen: SmallVec::from_elem(0, slots),
            seen_answers: None,
            waits: SmallVec::new(),
            after: SmallVec::new(),
            told: SmallVec::new(),
            externals: SmallVec::new(),
            for_host: false,
            answers: Answers::default(),
            accepted: 0,
            complete: 0,
            after_refusals: 0,
            cleared: Cleared::default(),
            known_refusals: 0,
            last_refusal: 0,
            stood_for: SmallVec::new(),
            in_flight: VecDeque::new(),
        }
    }

    /// The open recording is over, one way or another; the next one starts from nothing. A barrier of an earlier batch
    /// would say nothing if that batch were refused, so each batch has its own.
    fn finish(&mut self) -> u64 {
        self.open += 1;
        self.start_over();
        self.open - 1
    }

    fn start_over(&mut self) {
        self.recorded = 0;
        self.covered = 0;
        self.seen.fill(0);
        self.seen_answers = None;
        self.after_refusals = 0;
        self.for_host = false;
    }

    /// The open batch waits for a batch on another queue.
    fn wait_for(&mut self, point: Point) {
        let seen = &mut self.seen[point.slot as usize];
        *seen = point.batch.max(*seen);
        match self.waits.iter_mut().find(|known| known.slot == point.slot) {
            Some(known) => known.batch = known.batch.max(point.batch),
            None => self.waits.push(point),
        }
    }

    fn accept(&mut self, batch: u64) {
        self.accepted = batch;
        self.answers.accept(batch);
    }

    /// Work comes after a point from now on.
    fn tell(&mut self, point: Point) {
        match self.told.iter_mut().find(|(known, _)| known.slot == point.slot) {
            // Of one slot the latest says it all.
            Some((known, told)) => {
                known.batch = known.batch.max(point.batch);
                *told = Told::default();
            }
            None => self.told.push((point, Told::default())),
        }
    }

    fn progress(&self, point: Point) -> Progress {
        if point.batch > self.answers.settled() {
            return Progress::Waiting;
        }
        // What was refused never runs; what was accepted before it may be running still.
        let batch = point.batch.min(self.accepted);
        if batch <= self.complete { Progress::Over } else { Progress::Running(Point { batch, ..point }) }
    }
}

/// A batch that never ran, and one that it was to come after and that was not answered then.
struct Lost {
    refused: Point,
    behind: Point,
}

/// The streams of a device under event ordering.
pub struct EventStreams<B: Backend> {
    pool: StreamPool<Slot<B::Recording>>,
    pending: Vec<VecDeque<Submission<B::Recording>>>,
    stats: OrderStats,
    refusals: u64,
    /// What batches that could not be closed named, until it is over.
    lost: Vec<Lost>,
    /// Batches that were answered, of whichever slot.
    answers: u64,
    max_recorded: u32,
    due: Option<u32>,
    /// Whether the next batch of some slot may have a semaphore of the caller's to wait for.
    externals: bool,
}

impl<B: Backend> EventStreams<B> {
    /// Streams folded onto `slots`, spread over the queues; a slot is due when it recorded `max_recorded` launches.
    pub fn new(slots: u32, queues: usize, max_recorded: u32) -> EventStreams<B> {
        EventStreams {
            pool: StreamPool::new(slots),
            pending: (0..queues.max(1)).map(|_| VecDeque::new()).collect(),
            stats: OrderStats::default(),
            refusals: 0,
            lost: Vec::new(),
            answers: 0,
            max_recorded,
            due: None,
            externals: false,
        }
    }

    /// Opens the slot's recording if none is open.
    fn open(&mut self, backend: &B, slot: u32) -> Result<(), Fault> {
        let count = self.pool.count();
        let own = self.pool.get_or_make(slot, || {
            backend.slot_create(slot)?;
            Ok::<_, Fault>(Slot::new(count))
        })?;
        if own.recording.is_none() {
            own.recording = Some(backend.begin(slot)?);
        }
        Ok(())
    }

    /// Adds a batch that is held back. What the slot recorded before need not wait with this work.
    fn come_behind(&self, slot: u32, point: Point, need: &mut Need) {
        add_point(&mut need.after, point);
        let is_behind = |own: &Slot<B::Recording>| {
            own.after.iter().any(|known| known.slot == point.slot && known.batch >= point.batch)
        };
        if self.pool.try_get(slot).is_some_and(|own| own.recorded > 0 && !is_behind(own)) {
            need.flush(slot);
        }
    }

    /// Work that never ran cannot stand for what it was to come after. What of that the device accepted is not known,
    /// so all is come after; what was held back is.
    #[cold]
    fn come_after_lost(&self, slot: u32, point: Point, need: &mut Need) {
        let own = self.pool.try_get(slot);
        need.everything |= own.is_none_or(|own| own.recording.is_none() || own.after_refusals < self.refusals);
        for Lost { behind, .. } in self.lost_by(point) {
            // In this slot itself it is in an earlier batch, and any barrier of the open one serves.
            self.come_after(slot, Mark { point: *behind, sequence: 1 }, need);
        }
    }

    /// What a batch named, or an earlier one of its slot, for which it stands too. A batch only names what was closed
    /// before it, so a walk from there comes to an end.
    fn lost_by(&self, point: Point) -> impl Iterator<Item = &Lost> {
        self.lost.iter().filter(move |lost| lost.refused.slot == point.slot && lost.refused.batch <= point.batch)
    }

    /// A batch never runs, and was to come after these.
    #[cold]
    fn refuse(&mut self, point: Point, after: &[Point]) {
        self.refusals += 1;
        self.answers += 1;
        let accepted = (0..self.pool.count() as u32).map(|slot| self.pool.try_get(slot).map_or(0, |own| own.accepted));
        let accepted = accepted.collect();
        for behind in after {
            let is_answered = |theirs: &Slot<_>| behind.batch <= theirs.answers.settled();
            let is_known = |lost: &Lost| {
                lost.refused.slot == point.slot && lost.behind.slot == behind.slot && lost.behind.batch >= behind.batch
            };
            if !self.pool.try_get(behind.slot).is_none_or(is_answered) && !self.lost.iter().any(is_known) {
                self.lost.push(Lost { refused: point, behind: *behind });
            }
        }
        if let Some(own) = self.pool.try_get_mut(point.slot) {
            own.last_refusal = self.refusals;
            own.stood_for = accepted;
            own.answers.refuse(point.batch);
        }
    }

    /// What is over need not be remembered.
    #[cold]
    fn forget_lost(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        let known = lost.len();
        self.lost = lost.into_iter().filter(|lost| !self.is_over(lost.behind)).collect();
        // What is recorded may not have come after it, and what it wrote has to be seen: as after a refusal.
        self.refusals += u64::from(self.lost.len() < known);
    }

    /// Whether a point is complete, and, if it was refused, what the device had accepted until then. What it was to come
    /// after besides is among the lost.
    fn is_over(&self, point: Point) -> bool {
        let Some(own) = self.pool.try_get(point.slot) else { return true };
        let is_complete = |(slot, batch): (u32, &u64)| self.pool.try_get(slot).is_none_or(|own| *batch <= own.complete);
        own.progress(point) == Progress::Over
            && (point.batch > own.answers.refused() || (0..).zip(&own.stood_for).all(is_complete))
    }

    /// A barrier is about to be recorded: it comes after all that was submitted to the queue, and, where nothing else
    /// is known to be enough, the batch comes after the other queues too.
    fn see_all(&mut self, slot: u32, need: &Need) {
        let (queue, answers) = (self.queue_of(slot), self.answers);
        let Some(own) = self.pool.try_get_mut(slot) else { return };
        // The usual case: nothing was submitted since this recording's last barrier.
        if own.seen_answers == Some(answers) && need.after.is_empty() && !need.everything {
            return;
        }
        own.seen_answers = Some(answers);
        let mut seen = std::mem::take(&mut own.seen);
        let mut waits: SmallVec<[Point; 4]> = SmallVec::new();
        for (other, theirs) in self.pool.iter() {
            if self.queue_of(other) == queue {
                // What is held back is submitted before this batch as well: it must not overtake it.
                let held = need.after.iter().filter(|point| point.slot == other).map(|point| point.batch).max();
                seen[other as usize] = theirs.answers.settled().max(held.unwrap_or(0));
            } else if need.everything && theirs.accepted > theirs.complete {
                waits.push(Point { slot: other, batch: theirs.accepted });
            }
        }
        if let Some(own) = self.pool.try_get_mut(slot) {
            own.seen = seen;
            waits.iter().for_each(|wait| own.wait_for(*wait));
        }
        self.stats.waits += waits.len() as u64;
    }

    /// Whether a batch that this one was ordered after was refused since: a named one, or an earlier one of its slot.
    fn has_lost_order(&self, submission: &Submission<B::Recording>) -> bool {
        let is_refused = |slot| self.pool.try_get(slot).is_some_and(|own| own.last_refusal > submission.refusals);
        submission.refusals < self.refusals
            && (is_refused(submission.signal.slot) || submission.after.iter().any(|point| is_refused(point.slot)))
    }

    fn is_ready(&self, submission: &Submission<B::Recording>) -> bool {
        self.are_ready(&submission.externals, &submission.after)
    }

    fn are_ready(&self, externals: &[External], after: &[Point]) -> bool {
        externals.iter().all(|external| external.submitted)
            && after
                .iter()
                .all(|point| self.pool.try_get(point.slot).is_none_or(|theirs| point.batch <= theirs.answers.settled()))
    }

    /// The first submission of a queue that nothing holds back, neither itself nor an earlier one of its slot.
    fn first_ready(&self, queue: usize, wanted: impl Fn(&Submission<B::Recording>) -> bool) -> Option<usize> {
        let pending = &self.pending[queue];
        // Most often there is one, and nothing holds it back, or there is none.
        let first = pending.front()?;
        if self.is_ready(first) && wanted(first) {
            return Some(0);
        }
        let mut held: SmallVec<[u32; 8]> = SmallVec::new();
        pending.iter().position(|submission| {
            let slot = submission.signal.slot;
            let ready = !held.contains(&slot) && self.is_ready(submission);
            if !ready {
                held.push(slot);
            }
            ready && wanted(submission)
        })
    }

    /// Asks which semaphores of the caller's were reached.
    fn look(&mut self, backend: &B) -> Result<(), Fault> {
        if !self.holds_back() {
            return Ok(());
        }
        let mut look = Look::new(backend);
        for (slot, own) in self.pool.iter_mut().filter(|(_, own)| !own.externals.is_empty()) {
            if own.recorded > 0 {
                own.externals.iter_mut().for_each(|external| external.submitted |= look.is_reached(*external));
                continue;
            }
            let waits = own.externals.len();
            own.externals.retain(|external| !look.is_reached(*external));
            if own.externals.len() < waits {
                // The semaphore may be gone by the time there is work: a barrier shows it what was written before.
                own.tell(Point { slot, batch: own.open });
            }
        }
        for external in self.pending.iter_mut().flatten().flat_map(|submission| &mut submission.externals) {
            external.submitted = external.submitted || look.is_reached(*external);
        }
        self.externals = self.pool.iter().any(|(_, own)| !own.externals.is_empty());
        look.answer
    }
}

impl<B: Backend> Driver<B> for EventStreams<B> {
    fn stats(&self) -> OrderStats {
        self.stats
    }

    fn slot_of(&self, stream: u64) -> u32 {
        self.pool.slot_of(stream)
    }

    fn queue_of(&self, slot: u32) -> usize {
        slot as usize % self.pending.len()
    }

    fn slots(&self) -> SmallVec<[u32; 16]> {
        self.pool.iter().map(|(slot, _)| slot).collect()
    }

    fn after(&mut self, backend: &B, slot: u32, points: &[Point]) -> Result<(), Fault> {
        self.open(backend, slot)?;
        if let Some(own) = self.pool.try_get_mut(slot) {
            points.iter().for_each(|point| own.tell(*point));
        }
        Ok(())
    }

    fn after_external(&mut self, backend: &B, slot: u32, external: External) -> Result<(), Fault> {
        self.open(backend, slot)?;
        if let Some(own) = self.pool.try_get_mut(slot) {
            add_external(&mut own.externals, external);
            self.externals = true;
        }
        Ok(())
    }

    fn need(&self, slot: u32, forgotten: u64, need: &mut Need) {
        let own = self.pool.try_get(slot);
        need.forgotten = forgotten;
        need.barrier |= own.map_or(forgotten > 0, |own| !own.cleared.covers(forgotten, own.open, &own.answers));
        if let Some(own) = own {
            need.own_work = Some(OwnWork { slot, refused: own.answers.refused(), covered: own.covered });
            for (point, _) in own.told.iter().filter(|(_, told)| told.is_due(own.open)) {
                self.come_after(slot, Mark { point: *point, sequence: u64::MAX }, need);
            }
        }
    }

    fn come_after(&self, slot: u32, Mark { point, sequence }: Mark, need: &mut Need) {
        let Some(theirs) = self.pool.try_get(point.slot) else { return };
        let own = self.pool.try_get(slot);
        if point.batch <= theirs.answers.refused() {
            self.come_after_lost(slot, point, need);
        }
        if point.slot == slot {
            need.barrier |= sequence > theirs.covered;
            return;
        }
        let same_queue = self.queue_of(point.slot) == self.queue_of(slot);
        let seen = own.and_then(|own| own.seen.get(point.slot as usize)).copied().unwrap_or(0);
        let mut batch = point.batch;
        if point.batch > theirs.answers.settled() {
            if point.batch >= theirs.open || !self.is_held_back(point.slot) {
                need.flush(point.slot);
                return;
            }
            self.come_behind(slot, point, need);
            // Should it be refused, all that it stood for may be on this queue.
            need.barrier |= seen < batch;
        } else {
            // What was refused never runs; there is nothing to come after.
            batch = batch.min(theirs.accepted);
        }
        if seen >= batch {
            return;
        }
        if same_queue {
            need.barrier = true;
        } else {
            let point = Point { batch, ..point };
            match need.waits.iter_mut().find(|wait| wait.slot == point.slot) {
                Some(wait) => wait.batch = wait.batch.max(batch),
                None => need.waits.push(point),
            }
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
        if self.pool.try_get(slot).is_none_or(|own| own.recording.is_none()) {
            self.open(backend, slot)?;
        }
        let barrier = need.barrier || need.everything;
        if barrier {
            self.see_all(slot, need);
        }
        let refusals = self.refusals;
        let Some(own) = self.pool.try_get_mut(slot) else { unreachable!("opened above") };
        need.waits.iter().for_each(|wait| own.wait_for(*wait));
        self.stats.waits += need.waits.len() as u64;
        // In place and not taken out: a recording is large, and this is the path of every launch.
        let Some(recording) = &mut own.recording else { unreachable!("opened above") };
        own.broken_off = true;
        if own.recorded == 0 {
            own.known_refusals = refusals;
        }
        if barrier {
            own.cleared.carried(need.forgotten, own.open);
            own.covered = own.sequence;
            backend.barrier(recording);
            self.stats.barriers += 1;
        }
        if need.everything {
            own.after_refusals = refusals;
        }
        need.after.iter().for_each(|point| add_point(&mut own.after, *point));
        let result = commands.iter().try_for_each(|command| command.record(backend, recording));
        if let Some(fault) = backend.broken(recording) {
            return Err(fault);
        }
        own.broken_off = false;
        result?;
        own.told.iter_mut().for_each(|(_, told)| told.carried(own.open));
        own.for_host |= for_host;
        own.recorded += 1;
        own.sequence += 1;
        if own.recorded >= self.max_recorded {
            self.due = Some(slot);
        }
        Ok(Mark { point: Point { slot, batch: own.open }, sequence: own.sequence })
    }

    fn discarded(&mut self, backend: &B, slot: u32) -> Option<Point> {
        let own = self.pool.try_get_mut(slot)?;
        if !std::mem::take(&mut own.broken_off) {
            return None;
        }
        if let Some(recording) = own.recording.take().filter(|recording| backend.broken(recording).is_some()) {
            backend.recycle(slot, recording);
        }
        own.waits.clear();
        let after = std::mem::take(&mut own.after);
        if own.recorded == 0 {
            own.start_over();
            return None;
        }
        let point = Point { slot, batch: own.finish() };
        self.refuse(point, &after);
        Some(point)
    }

    fn due(&mut self) -> Option<u32> {
        self.due.take()
    }

    fn close(&mut self, backend: &B, slot: u32) -> Vec<Unclosed> {
        let queue = self.queue_of(slot);
        let Some(own) = self.pool.try_get_mut(slot) else { return Vec::new() };
        if own.recorded == 0 {
            return Vec::new();
        }
        let Some(mut recording) = own.recording.take() else { return Vec::new() };
        if own.for_host {
            backend.host_barrier(&mut recording);
        }
        let refusals = own.known_refusals;
        let signal = Point { slot, batch: own.finish() };
        let points = SmallVec::from_slice(&[signal]);
        match backend.end(&mut recording) {
            Ok(()) => {
                self.pending[queue].push_back(Submission {
                    points,
                    signal,
                    recording,
                    waits: std::mem::take(&mut own.waits),
                    externals: std::mem::take(&mut own.externals),
                    after: std::mem::take(&mut own.after),
                    refusals,
                });
                Vec::new()
            }
            Err(fault) => {
                let after = std::mem::take(&mut own.after);
                own.waits.clear();
                self.refuse(signal, &after);
                backend.recycle(slot, recording);
                vec![Unclosed { points, fault }]
            }
        }
    }

    fn next(&mut self, queue: usize) -> Option<Submission<B::Recording>> {
        let at = self.first_ready(queue, |_| true)?;
        let (queues, has_lost_order) = (self.pending.len(), self.has_lost_order(&self.pending[queue][at]));
        // Where it lies, because it is long to move.
        let waits = &mut self.pending[queue][at].waits;
        // A batch that was held back when it was named may have been refused since: nothing will ever signal it.
        for wait in &mut *waits {
            wait.batch = wait.batch.min(self.pool.try_get(wait.slot).map_or(0, |theirs| theirs.accepted));
        }
        waits.retain(|wait| wait.batch > 0);
        if has_lost_order {
            // All that the refused batch stood for was answered before it was, so this waits for nothing that is later.
            for (slot, theirs) in self.pool.iter() {
                if slot as usize % queues == queue || theirs.accepted == theirs.complete {
                    continue;
                }
                let point = Point { slot, batch: theirs.accepted };
                match waits.iter_mut().find(|wait| wait.slot == slot) {
                    Some(wait) => *wait = point,
                    None => waits.push(point),
                }
            }
        }
        match at {
            0 => self.pending[queue].pop_front(),
            _ => self.pending[queue].remove(at),
        }
    }

    fn submitted(&mut self, backend: &B, submission: Submission<B::Recording>, answer: Answer) -> SmallVec<[Point; 4]> {
        let Point { slot, batch } = submission.signal;
        let Some(own) = self.pool.try_get_mut(slot) else { return SmallVec::new() };
        let lost: SmallVec<[Point; 4]> = own.answers.unanswered(batch).map(|batch| Point { slot, batch }).collect();
        lost.iter().for_each(|point| self.refuse(*point, &[]));
        let Some(own) = self.pool.try_get_mut(slot) else { return lost };
        if answer == Answer::Accepted {
            self.answers += 1;
            own.accept(batch);
            own.told.retain(|(_, told)| !told.is_done(batch));
            own.in_flight.push_back((batch, submission.recording));
            self.stats.submissions += 1;
        } else {
            match answer {
                Answer::InDoubt => own.in_flight.push_back((batch, submission.recording)),
                _ => backend.recycle(slot, submission.recording),
            }
            self.refuse(submission.signal, &submission.after);
            // It waited for nothing: the slot's next batch has to.
            let queue = self.queue_of(slot);
            let behind = self.pending[queue].iter_mut().find(|behind| behind.signal.slot == slot);
            let next = match behind {
                Some(behind) => Some(&mut behind.externals),
                None => self.pool.try_get_mut(slot).map(|own| &mut own.externals),
            };
            if let Some(next) = next {
                self.externals |= !submission.externals.is_empty();
                submission.externals.into_iter().for_each(|external| add_external(next, external));
            }
        }
        lost
    }

    fn is_held_back(&self, slot: u32) -> bool {
        let pending = &self.pending[self.queue_of(slot)];
        pending.iter().any(|submission| submission.signal.slot == slot && !self.is_ready(submission))
            || self.pool.try_get(slot).is_some_and(|own| !self.are_ready(&own.externals, &own.after))
    }

    fn hides_held(&self, point: Point) -> bool {
        (self.is_held_back(point.slot) && self.progress(point) == Progress::Waiting)
            || self.lost_by(point).any(|lost| self.hides_held(lost.behind))
    }

    fn holds_back(&self) -> bool {
        self.externals || self.pending.iter().any(|pending| !pending.is_empty())
    }

    fn freed(&self) -> Option<usize> {
        // After almost every submission nothing is left.
        if self.pending.iter().all(VecDeque::is_empty) {
            return None;
        }
        let was_held =
            |submission: &Submission<B::Recording>| !submission.externals.is_empty() || !submission.after.is_empty();
        (0..self.pending.len()).find(|queue| self.first_ready(*queue, was_held).is_some())
    }

    fn last(&self, slot: u32) -> Option<Point> {
        let own = self.pool.try_get(slot)?;
        Some(Point { slot, batch: if own.recorded > 0 { own.open } else { own.open - 1 } })
    }

    fn progress(&self, point: Point) -> Progress {
        self.pool.try_get(point.slot).map_or(Progress::Over, |own| own.progress(point))
    }

    fn is_complete(&self, point: Point) -> bool {
        self.progress(point) == Progress::Over
    }

    fn is_past(&self, point: Point) -> bool {
        self.is_over(point) && self.lost_by(point).next().is_none()
    }

    fn refresh(&mut self, backend: &B) -> Result<(), Fault> {
        let mut answer = self.look(backend);
        for (slot, own) in self.pool.iter_mut() {
            if own.in_flight.is_empty() {
                continue;
            }
            let reached = match backend.completed(slot) {
                Ok(reached) => reached,
                Err(fault) => {
                    answer = Err(fault);
                    continue;
                }
            };
            own.complete = reached.min(own.accepted);
            while own.in_flight.front().is_some_and(|(batch, _)| *batch <= reached) {
                if let Some((_, recording)) = own.in_flight.pop_front() {
                    backend.recycle(slot, recording);
                }
            }
        }
        if !self.lost.is_empty() {
            self.forget_lost();
        }
        answer
    }

    fn lose(&mut self, backend: &B) {
        for queue in &mut self.pending {
            for submission in queue.drain(..) {
                backend.recycle(submission.signal.slot, submission.recording);
            }
        }
        self.lost.clear();
        self.externals = false;
        for (slot, own) in self.pool.iter_mut() {
            if let Some(recording) = own.recording.take() {
                backend.recycle(slot, recording);
            }
            // No answer will come for what it recorded.
            if own.recorded > 0 {
                own.finish();
            }
            own.externals.clear();
            own.told.clear();
            own.waits.clear();
            own.after.clear();
        }
    }

    fn all_over(&mut self, backend: &B) {
        for (slot, own) in self.pool.iter_mut() {
            own.complete = own.accepted;
            for (_, recording) in own.in_flight.drain(..) {
                backend.recycle(slot, recording);
            }
        }
    }

    fn abandon(&mut self, backend: &B) {
        self.lose(backend);
        self.all_over(backend);
        for (_, own) in self.pool.iter_mut() {
            own.answers.give_up(own.open - 1);
        }
    }

    fn may_run(&self, point: Point) -> bool {
        let reaches = |(batch, _): &(u64, _)| *batch <= point.batch;
        self.pool.try_get(point.slot).is_some_and(|own| own.in_flight.front().is_some_and(reaches))
    }

    fn is_idle(&self) -> bool {
        let is_over = |(slot, own): (u32, &Slot<_>)| {
            own.in_flight.is_empty() && self.last(slot).is_none_or(|point| self.is_complete(point))
        };
        self.pool.iter().all(is_over)
    }

    fn now(&self) -> SmallVec<[Point; 8]> {
        self.slots().into_iter().filter_map(|slot| self.last(slot)).filter(|point| !self.is_complete(*point)).collect()
    }
}
