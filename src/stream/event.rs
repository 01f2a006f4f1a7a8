//! The event-ordered driver: each slot records its own batches, and the device orders them.
//!
//! Ordering is exact. Work waits for work of its own slot, or of another slot on the same queue, by a barrier; for work
//! on another queue by a wait on that slot's timeline; and only if they share bytes that one of them writes. A barrier
//! orders everything before it on its queue, so one serves all hazards known when it is recorded. Work of another slot
//! is submitted before anything that depends on it is recorded, so no submission ever waits for a later one.

use super::backend::Backend;
use super::pool::StreamPool;
use crate::error::Fault;
use crate::failure::Point;
use crate::memory::{Hazards, Mark, hazard};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A slot's own recordings and how far they came.
struct Slot<R> {
    recording: Option<R>,
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
    /// What the open batch waits for on other queues.
    waits: SmallVec<[Point; 4]>,
    /// The open recording writes memory that the host reads.
    for_host: bool,
    /// Up to here every submission was answered.
    settled: u64,
    /// The last batch the device accepted.
    accepted: u64,
    /// The last batch known to be complete.
    complete: u64,
    /// The last batch that never ran.
    refused: u64,
    /// The refusals, counted over all slots, that the open recording is ordered after.
    after_refusals: u64,
    in_flight: VecDeque<(u64, R)>,
}

impl<R> Slot<R> {
    /// The open recording is over, one way or another; the next one starts from nothing. A barrier of an earlier batch
    /// would say nothing if that batch were refused, so each batch has its own. Its point, and what it waits for.
    fn finish(&mut self, slot: u32) -> (Point, SmallVec<[Point; 4]>) {
        let point = Point { slot, batch: self.open };
        self.open += 1;
        self.recorded = 0;
        self.covered = 0;
        self.seen.fill(0);
        self.after_refusals = 0;
        self.for_host = false;
        (point, std::mem::take(&mut self.waits))
    }
}

/// A closed recording on its way to a queue.
pub struct Submission<R> {
    /// The batch.
    pub point: Point,
    /// Its commands.
    pub recording: R,
    /// What it waits for.
    pub waits: SmallVec<[Point; 4]>,
}

/// What has to happen before work can be recorded.
#[derive(Debug, Default)]
pub struct Need {
    /// Slots whose open or pending batches come first.
    pub flush: SmallVec<[u32; 8]>,
    barrier: bool,
    everything: bool,
    waits: SmallVec<[Point; 4]>,
}

/// How often the driver ordered anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderStats {
    /// Barriers recorded.
    pub barriers: u64,
    /// Waits on other slots' timelines.
    pub waits: u64,
    /// Batches submitted.
    pub submissions: u64,
}

/// The streams of a device under event ordering.
pub struct EventStreams<B: Backend> {
    pool: StreamPool<Slot<B::Recording>>,
    pending: Vec<VecDeque<Submission<B::Recording>>>,
    stats: OrderStats,
    refusals: u64,
}

impl<B: Backend> EventStreams<B> {
    /// Streams folded onto `slots`, spread over the queues.
    pub fn new(slots: u32, queues: usize) -> EventStreams<B> {
        EventStreams {
            pool: StreamPool::new(slots),
            pending: (0..queues.max(1)).map(|_| VecDeque::new()).collect(),
            stats: OrderStats::default(),
            refusals: 0,
        }
    }

    /// How often the driver ordered anything.
    pub fn stats(&self) -> OrderStats {
        self.stats
    }

    /// The slot of a stream.
    pub fn slot_of(&self, stream: u64) -> u32 {
        self.pool.slot_of(stream)
    }

    /// The queue of a slot.
    pub fn queue_of(&self, slot: u32) -> usize {
        slot as usize % self.pending.len()
    }

    /// How many queues there are.
    pub fn queues(&self) -> usize {
        self.pending.len()
    }

    /// Adds what a use of bytes in `slot` has to come after.
    pub fn depend(&self, slot: u32, hazards: &Hazards, start: u64, end: u64, writes: bool, need: &mut Need) {
        if hazards.is_empty() {
            return;
        }
        let own = self.pool.try_get(slot);
        hazard::conflicts(hazards, start, end, writes, |mark| {
            let other = mark.point.slot;
            let Some(theirs) = self.pool.try_get(other) else {
                return;
            };
            // Work that never ran cannot stand for what it was to come after.
            if mark.point.batch <= theirs.refused {
                need.everything |= own.is_none_or(|own| own.recording.is_none() || own.after_refusals < self.refusals);
            }
            if other == slot {
                need.barrier |= mark.sequence > theirs.covered;
                return;
            }
            if mark.point.batch > theirs.settled {
                if !need.flush.contains(&other) {
                    need.flush.push(other);
                }
                return;
            }
            let seen = own.and_then(|own| own.seen.get(other as usize)).copied().unwrap_or(0);
            // What was refused never runs; there is nothing to come after.
            let batch = mark.point.batch.min(theirs.accepted);
            if seen >= batch {
                return;
            }
            if self.queue_of(other) == self.queue_of(slot) {
                need.barrier = true;
            } else {
                match need.waits.iter_mut().find(|wait| wait.slot == other) {
                    Some(wait) => wait.batch = wait.batch.max(batch),
                    None => need.waits.push(Point { slot: other, batch }),
                }
            }
        });
    }

    /// Opens the slot's recording if none is open.
    pub fn open(&mut self, backend: &B, slot: u32) -> Result<(), Fault> {
        let count = self.pool.count();
        let own = self.pool.get_or_make(slot, || {
            backend.slot_create(slot)?;
            Ok::<_, Fault>(Slot {
                recording: None,
                recorded: 0,
                open: 1,
                sequence: 0,
                covered: 0,
                seen: SmallVec::from_elem(0, count),
                waits: SmallVec::new(),
                for_host: false,
                settled: 0,
                accepted: 0,
                complete: 0,
                refused: 0,
                after_refusals: 0,
                in_flight: VecDeque::new(),
            })
        })?;
        if own.recording.is_none() {
            own.recording = Some(backend.begin(slot)?);
        }
        Ok(())
    }

    /// Records one piece of work after what it needs. `record` gets the recording; if it panics, the recording is lost
    /// with everything in it, which [`discarded`](Self::discarded) tells.
    pub fn record(
        &mut self,
        backend: &B,
        slot: u32,
        need: &Need,
        for_host: bool,
        record: impl FnOnce(&mut B::Recording) -> Result<(), Fault>,
    ) -> Result<Mark, Fault> {
        self.open(backend, slot)?;
        let queue = self.queue_of(slot);
        let barrier = need.barrier || need.everything;
        let mut waits = need.waits.clone();
        let mut seen = match self.pool.try_get_mut(slot) {
            Some(own) if barrier => std::mem::take(&mut own.seen),
            _ => SmallVec::new(),
        };
        if barrier {
            for (other, theirs) in self.pool.iter() {
                if self.queue_of(other) == queue {
                    seen[other as usize] = theirs.settled;
                } else if need.everything && theirs.accepted > theirs.complete {
                    waits.push(Point { slot: other, batch: theirs.accepted });
                }
            }
        }
        let refusals = self.refusals;
        let Some(own) = self.pool.try_get_mut(slot) else { unreachable!("opened above") };
        let Some(mut recording) = own.recording.take() else { unreachable!("opened above") };
        if barrier {
            own.seen = seen;
            own.covered = own.sequence;
            backend.barrier(&mut recording);
            self.stats.barriers += 1;
        }
        if need.everything {
            own.after_refusals = refusals;
        }
        for wait in &waits {
            own.seen[wait.slot as usize] = own.seen[wait.slot as usize].max(wait.batch);
            match own.waits.iter_mut().find(|known| known.slot == wait.slot) {
                Some(known) => known.batch = known.batch.max(wait.batch),
                None => own.waits.push(*wait),
            }
            self.stats.waits += 1;
        }
        let result = record(&mut recording);
        own.recording = Some(recording);
        result?;
        own.for_host |= for_host;
        own.recorded += 1;
        own.sequence += 1;
        Ok(Mark { point: Point { slot, batch: own.open }, sequence: own.sequence })
    }

    /// After a panic while recording: the point whose earlier work is gone with the recording.
    pub fn discarded(&mut self, slot: u32) -> Option<Point> {
        let own = self.pool.try_get_mut(slot)?;
        if own.recording.is_some() || own.recorded == 0 {
            return None;
        }
        let (point, _) = own.finish(slot);
        own.settled = point.batch;
        own.refused = point.batch;
        self.refusals += 1;
        Some(point)
    }

    /// Work in the slot's open recording.
    pub fn recorded(&self, slot: u32) -> u32 {
        self.pool.try_get(slot).map_or(0, |own| own.recorded)
    }

    /// Closes the slot's recording and puts it on its way. A recording that cannot be closed fails as a whole.
    pub fn close(&mut self, backend: &B, slot: u32) -> Result<(), (Point, Fault)> {
        let queue = self.queue_of(slot);
        let Some(own) = self.pool.try_get_mut(slot) else {
            return Ok(());
        };
        if own.recorded == 0 {
            return Ok(());
        }
        let Some(mut recording) = own.recording.take() else {
            return Ok(());
        };
        if own.for_host {
            backend.host_barrier(&mut recording);
        }
        let (point, waits) = own.finish(slot);
        match backend.end(&mut recording) {
            Ok(()) => {
                self.pending[queue].push_back(Submission { point, recording, waits });
                Ok(())
            }
            Err(fault) => {
                // Earlier batches of the slot may still be pending; they settle on their own.
                if own.settled + 1 == point.batch {
                    own.settled = point.batch;
                }
                own.refused = point.batch;
                self.refusals += 1;
                backend.recycle(slot, recording);
                Err((point, fault))
            }
        }
    }

    /// The slots that were made.
    pub fn slots(&self) -> SmallVec<[u32; 16]> {
        self.pool.iter().map(|(slot, _)| slot).collect()
    }

    /// The next submission of a queue. Whoever takes it holds that queue's lock until [`submitted`](Self::submitted).
    pub fn next(&mut self, queue: usize) -> Option<Submission<B::Recording>> {
        self.pending[queue].pop_front()
    }

    /// What the device answered.
    pub fn submitted(&mut self, backend: &B, submission: Submission<B::Recording>, accepted: bool) {
        let Point { slot, batch } = submission.point;
        let Some(own) = self.pool.try_get_mut(slot) else {
            return;
        };
        own.settled = own.settled.max(batch);
        if accepted {
            own.accepted = batch;
            own.in_flight.push_back((batch, submission.recording));
            self.stats.submissions += 1;
        } else {
            own.refused = own.refused.max(batch);
            self.refusals += 1;
            backend.recycle(slot, submission.recording);
        }
    }

    /// The batch to wait for so that everything submitted to a slot is over.
    pub fn last(&self, slot: u32) -> Option<Point> {
        let own = self.pool.try_get(slot)?;
        (own.accepted > own.complete).then_some(Point { slot, batch: own.accepted })
    }

    /// The batch to wait for so that a batch is over, whether it was accepted or not; nothing if it is over.
    pub fn waitable(&self, point: Point) -> Option<Point> {
        let own = self.pool.try_get(point.slot)?;
        let batch = point.batch.min(own.accepted);
        (batch > own.complete).then_some(Point { batch, ..point })
    }

    /// Whether a batch is over: complete, or refused with everything before it complete.
    pub fn is_complete(&self, point: Point) -> bool {
        self.pool
            .try_get(point.slot)
            .is_none_or(|own| point.batch <= own.settled && point.batch.min(own.accepted) <= own.complete)
    }

    /// Asks the device how far it came, and takes back what is over.
    pub fn refresh(&mut self, backend: &B) -> Result<(), Fault> {
        for (slot, own) in self.pool.iter_mut() {
            if own.accepted == own.complete {
                continue;
            }
            own.complete = backend.completed(slot)?.min(own.accepted);
            while own.in_flight.front().is_some_and(|(batch, _)| *batch <= own.complete) {
                if let Some((_, recording)) = own.in_flight.pop_front() {
                    backend.recycle(slot, recording);
                }
            }
        }
        Ok(())
    }

    /// Nothing will complete any more: what was in flight is over (the device is lost, or going away).
    pub fn abandon(&mut self, backend: &B) {
        for queue in &mut self.pending {
            for submission in queue.drain(..) {
                backend.recycle(submission.point.slot, submission.recording);
            }
        }
        for (slot, own) in self.pool.iter_mut() {
            for (_, recording) in own.in_flight.drain(..) {
                backend.recycle(slot, recording);
            }
            if let Some(recording) = own.recording.take() {
                backend.recycle(slot, recording);
            }
            let (point, _) = own.finish(slot);
            own.settled = point.batch;
            own.complete = own.accepted;
        }
    }

    /// A snapshot of every slot's open batch: a resource used up to now is free once [`passed`](Self::passed).
    pub fn now(&self) -> SmallVec<[Point; 8]> {
        self.pool
            .iter()
            .filter(|(_, own)| own.recorded > 0 || own.open - 1 > own.complete)
            .map(|(slot, own)| Point { slot, batch: if own.recorded > 0 { own.open } else { own.open - 1 } })
            .collect()
    }

    /// Whether everything up to a snapshot is over.
    pub fn passed(&self, snapshot: &[Point]) -> bool {
        snapshot.iter().all(|point| self.is_complete(*point))
    }
}
