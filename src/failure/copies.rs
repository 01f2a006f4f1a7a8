//! Copies of host reads that may be taken up: by another call that waits for the same bytes, or by the next one when a
//! call's time was up (R12).
//!
//! A copy holds the bytes of its place in the order. Once anything is enqueued that changes one of them, or what is known
//! of one, a read that comes later must not be given it.

use super::claims::{BlockKey, Bytes};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// A copy that still holds what its source does.
#[derive(Debug)]
struct Standing {
    start: u64,
    end: u64,
    /// The slot it was enqueued on: another slot's read must not wait for it.
    slot: u32,
    copy: BlockKey,
}

/// Copies that still hold what their sources do, by source.
#[derive(Debug, Default)]
pub struct Copies {
    by_source: HashMap<BlockKey, SmallVec<[Standing; 1]>>,
}

impl Copies {
    /// `copy` holds the bytes from now on.
    pub fn add(&mut self, from: Bytes, slot: u32, copy: BlockKey) {
        let standing = Standing { start: from.start, end: from.end, slot, copy };
        self.by_source.entry(from.block).or_default().push(standing);
    }

    /// The copy of exactly these bytes that the slot has, if it has one.
    pub fn of(&self, from: Bytes, slot: u32) -> Option<BlockKey> {
        let standing = self.by_source.get(&from.block)?;
        let same = |one: &&Standing| one.start == from.start && one.end == from.end && one.slot == slot;
        standing.iter().find(same).map(|one| one.copy)
    }

    /// Whether a copy still holds what its source does.
    pub fn has(&self, from: Bytes, copy: BlockKey) -> bool {
        self.by_source.get(&from.block).is_some_and(|standing| standing.iter().any(|one| one.copy == copy))
    }

    /// No read may take up the copy any more.
    pub fn remove(&mut self, from: Bytes, copy: BlockKey) {
        self.retain(from.block, |one| one.copy != copy);
    }

    /// Something was enqueued that changes the bytes.
    pub(super) fn changed(&mut self, bytes: impl Iterator<Item = Bytes>) {
        if self.by_source.is_empty() {
            return;
        }
        for Bytes { block, start, end } in bytes {
            self.retain(block, |one| one.end <= start || end <= one.start);
        }
    }

    /// A source is gone.
    pub(super) fn forget(&mut self, source: BlockKey) {
        self.by_source.remove(&source);
    }

    /// Every source is gone.
    pub(super) fn clear(&mut self) {
        self.by_source.clear();
    }

    fn retain(&mut self, source: BlockKey, stands: impl Fn(&Standing) -> bool) {
        if let Some(standing) = self.by_source.get_mut(&source) {
            standing.retain(|one| stands(one));
            if standing.is_empty() {
                self.by_source.remove(&source);
            }
        }
    }
}
