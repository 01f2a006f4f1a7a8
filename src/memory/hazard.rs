//! Hazards: who last wrote each byte of memory, and who read it since.
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

/// Who has to be waited for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hazard {
    /// The last work that wrote the bytes; several where ranges were collapsed into one.
    pub writers: SmallVec<[Mark; 1]>,
    /// The work that read them since, the latest of each slot.
    pub readers: SmallVec<[Mark; 2]>,
}

/// The hazards of a block, or of what freed blocks left in a page.
pub type Hazards = IntervalMap<Hazard>;

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
pub fn record(hazards: &mut Hazards, start: u64, end: u64, writes: bool, mark: Mark) {
    // Work mostly uses the ranges that earlier work used.
    match hazards.exactly(start, end) {
        Some(hazard) => hazard.record(writes, mark),
        None => record_anew(hazards, start, end, writes, mark),
    }
}

#[cold]
fn record_anew(hazards: &mut Hazards, start: u64, end: u64, writes: bool, mark: Mark) {
    hazards.update(start, end, &mut Uncounted, |_, _, _, old| {
        let mut hazard = old.unwrap_or_default();
        hazard.record(writes, mark);
        Some(hazard)
    });
}

/// Moves the hazards of `start..end` to another map, `to` being where `start` goes.
pub fn transfer(from: &mut Hazards, start: u64, end: u64, into: &mut Hazards, to: u64) {
    from.update(start, end, &mut Uncounted, |_, s, e, old| {
        if let Some(hazard) = old {
            into.set(to + (s - start), to + (e - start), hazard, &mut Uncounted);
        }
        None
    });
}

/// More ranges than this say more about memory that nobody owns than anybody will ask.
const MANY: usize = 16;

/// Makes one range of many: whoever comes after all of it comes after the latest of each slot.
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
    hazards.set(first, last, Hazard { writers: latest, readers: SmallVec::new() }, &mut Uncounted);
}

#[cfg(test)]
mod tests {
    use super::*;

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
