//! Hazards: the work that last wrote each byte of memory, and the work that read it since.
//!
//! Kept per byte range, with the memory and not with the buffer: work on memory that a destroyed buffer left behind is
//! just one more thing a new buffer's first write comes after (R17).

use crate::failure::{IntervalMap, Point, Uncounted};
use smallvec::SmallVec;

/// One piece of work of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its slot and batch.
    pub point: Point,
    /// Its number in its slot, counted over all batches.
    pub sequence: u64,
}

/// The work that has to be waited for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hazard {
    /// The last work that wrote the bytes; several where ranges were collapsed into one.
    pub writers: SmallVec<[Mark; 1]>,
    /// The work that read them since, the latest of each slot.
    pub readers: SmallVec<[Mark; 2]>,
}

/// The hazards of a block, or of what freed blocks left in a page.
#[derive(Clone, Debug, Default)]
pub struct Hazards {
    map: IntervalMap<Hazard>,
    /// With more ranges than this it is time to look which of them are finished; 0: as many as are [`MANY`].
    watermark: usize,
    is_crowded: bool,
    is_due: bool,
}

/// What a record makes of hazards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Nothing that matters.
    Little,
    /// There are many ranges for the first time.
    Crowded,
    /// There are so many ranges that it is time to look which of them are finished.
    Due,
}

impl Hazards {
    /// Whether nothing is on record.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// How many ranges are on record.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Calls `see` for each range of `start..end` that is on record, in order.
    #[inline]
    pub fn visit<'a>(&'a self, start: u64, end: u64, see: impl FnMut(u64, u64, &'a Hazard)) {
        self.map.visit(start, end, see);
    }

    /// Whether there came to be many ranges since it was last asked.
    pub fn grown(&mut self) -> Growth {
        let count = self.map.len();
        if !self.is_due && count > self.watermark.max(2 * MANY) {
            (self.is_due, self.is_crowded) = (true, true);
            Growth::Due
        } else if !self.is_crowded && count > MANY {
            self.is_crowded = true;
            Growth::Crowded
        } else {
            Growth::Little
        }
    }

    /// Forgets the ranges on which nothing can still run; says whether there were any. What is left may grow to twice as
    /// many before it is looked through again, so that looking costs next to nothing.
    pub fn prune(&mut self, mut is_past: impl FnMut(Point) -> bool) -> bool {
        let before = self.map.len();
        // Neighbours mostly have the same work.
        let mut last: Option<(Point, bool)> = None;
        let mut is_past = |point: Point| match last {
            Some((known, past)) if known == point => past,
            _ => {
                let past = is_past(point);
                last = Some((point, past));
                past
            }
        };
        self.map.retain(|hazard| !hazard.before(true).all(|mark| is_past(mark.point)));
        self.watermark = 2 * self.map.len();
        (self.is_due, self.is_crowded) = (false, self.map.len() > MANY);
        self.map.len() < before
    }

    /// Whether there are many ranges still.
    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }
}

/// Calls `see` with everything that has to be over before bytes are read, or written.
pub fn conflicts(hazards: &Hazards, start: u64, end: u64, writes: bool, mut see: impl FnMut(Mark)) {
    hazards.visit(start, end, |_, _, hazard| hazard.before(writes).for_each(|mark| see(*mark)));
}

impl Hazard {
    /// What has to be over before the bytes are read, or written.
    #[inline]
    pub fn before(&self, writes: bool) -> impl Iterator<Item = &Mark> {
        let readers: &[Mark] = if writes { &self.readers } else { &[] };
        self.writers.iter().chain(readers)
    }

    fn record(&mut self, writes: bool, mark: Mark) {
        if writes {
            self.writers = SmallVec::from_buf([mark]);
            self.readers.clear();
        } else if let Some(reader) = self.readers.iter_mut().find(|reader| reader.point.slot == mark.point.slot) {
            *reader = mark;
        } else {
            self.readers.push(mark);
        }
    }
}

/// Records that `mark` reads, or writes, the bytes.
#[inline]
pub fn record(hazards: &mut Hazards, start: u64, end: u64, writes: bool, mark: Mark) -> Growth {
    // Work mostly uses the ranges that earlier work used.
    match hazards.map.exactly(start, end) {
        Some(hazard) => {
            hazard.record(writes, mark);
            Growth::Little
        }
        None => record_anew(hazards, start, end, writes, mark),
    }
}

#[cold]
fn record_anew(hazards: &mut Hazards, start: u64, end: u64, writes: bool, mark: Mark) -> Growth {
    hazards.map.update(start, end, &mut Uncounted, |_, _, _, old| {
        let mut hazard = old.unwrap_or_default();
        hazard.record(writes, mark);
        Some(hazard)
    });
    hazards.grown()
}

/// Moves the hazards of `start..end` to another map, `to` being where `start` goes.
pub fn transfer(from: &mut Hazards, start: u64, end: u64, into: &mut Hazards, to: u64) {
    from.map.update(start, end, &mut Uncounted, |_, s, e, old| {
        if let Some(hazard) = old {
            into.map.set(to + (s - start), to + (e - start), hazard, &mut Uncounted);
        }
        None
    });
}

/// More ranges than this tell more about memory without an owner than any call asks.
const MANY: usize = 16;

/// Makes one range of many: work after all of it comes after the latest of each slot.
pub fn collapse(hazards: &mut Hazards) {
    if hazards.len() <= MANY {
        return;
    }
    let mut latest: SmallVec<[Mark; 1]> = SmallVec::new();
    let (mut first, mut last) = (u64::MAX, 0);
    hazards.visit(0, u64::MAX, |start, end, hazard| {
        (first, last) = (first.min(start), end);
        for mark in hazard.writers.iter().chain(&hazard.readers) {
            match latest.iter_mut().find(|other| other.point.slot == mark.point.slot) {
                Some(other) if other.sequence >= mark.sequence => {}
                Some(other) => *other = *mark,
                None => latest.push(*mark),
            }
        }
    });
    hazards.map.set(first, last, Hazard { writers: latest, readers: SmallVec::new() }, &mut Uncounted);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_finished_is_forgotten_and_what_is_not_is_looked_through_seldom() {
        let mark = |batch| Mark { point: Point { slot: 0, batch }, sequence: batch };
        let mut hazards = Hazards::default();
        let (mut looked_at, mut most) = (0, 0);
        for at in 0..100_000 {
            // Every tenth is never finished.
            let growth = record(&mut hazards, at * 2, at * 2 + 1, true, mark(u64::from(at % 10 > 0)));
            if growth == Growth::Due {
                looked_at += hazards.len();
                assert!(hazards.prune(|point| point.batch > 0));
            }
            most = most.max(hazards.len() as u64);
            assert!(most <= 2 * (at / 10 + 1) + 4 * MANY as u64, "{at}: {most}");
        }
        assert!(looked_at <= 300_000, "{looked_at}");
        assert!(hazards.prune(|_| true) && hazards.is_empty() && !hazards.is_crowded());
        assert!(!hazards.prune(|_| true));
    }

    #[test]
    fn many_ranges_become_one_that_names_the_latest_of_each_slot() {
        let mark = |slot, sequence| Mark { point: Point { slot, batch: 1 }, sequence };
        let mut hazards = Hazards::default();
        for at in 0..100 {
            record(&mut hazards, at * 2, at * 2 + 1, at % 3 == 0, mark((at % 2) as u32, at));
        }
        collapse(&mut hazards);
        assert_eq!(hazards.len(), 1);
        let mut seen = Vec::new();
        conflicts(&hazards, 50, 51, false, |mark| seen.push(mark.sequence));
        seen.sort_unstable();
        assert_eq!(seen, [98, 99]);
    }
}
