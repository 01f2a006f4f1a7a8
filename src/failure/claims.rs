//! What is known of the bytes of one block: which are claimed, which are held, and whether there are any at all.

use super::interval::{Holds, IntervalMap, Uncounted};
use super::name::Name;
use super::roots::{RootTable, SetKey};
use slotmap::new_key_type;

new_key_type! {
    /// The block of one buffer, in the memory that the store's owner keeps.
    pub struct BlockKey;
    /// An open write scope.
    pub struct ScopeKey;
}

/// Bytes of a block: a slice after its handle was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// The block.
    pub block: BlockKey,
    /// First byte, from the start of the block.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

/// Bytes with what is done to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Which.
    pub bytes: Bytes,
    /// How.
    pub access: super::Access,
}

/// The claims on one block. Its owner must [`shed`](super::FailureStore::shed) it before dropping it.
#[derive(Debug)]
pub struct Claims {
    /// What paths call it.
    pub name: Name,
    /// Bytes it has, or would have.
    pub size: u64,
    pub(super) key: BlockKey,
    pub(super) map: IntervalMap<SetKey>,
    /// Why it has no bytes (R7).
    pub(super) unallocated: Option<SetKey>,
    /// Whether it is listed among the blocks that carry claims.
    pub(super) is_listed: bool,
    /// Bytes that open scopes and mappings keep to themselves, by how many uses, and those of them that they write.
    pub(super) held: IntervalMap<u32>,
    pub(super) held_to_write: IntervalMap<u32>,
    /// Whether a device loss takes its bytes; not so for tokens.
    pub(super) device_memory: bool,
    /// The loss count it was last reconciled with (R14).
    pub(super) losses: u32,
}

impl Claims {
    /// Whether the block has bytes.
    pub fn is_allocated(&self) -> bool {
        self.unallocated.is_none()
    }

    /// Whether any byte is claimed, or there are none.
    pub fn is_claimed(&self) -> bool {
        self.unallocated.is_some() || !self.map.is_empty()
    }

    /// Whether an open scope or mapping holds any of its bytes.
    pub fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether a scope holds bytes against such a use of them: everything it writes, and against writes also what it
    /// reads.
    pub fn held_against(&self, start: u64, end: u64, writes: bool) -> bool {
        let held = if writes { &self.held } else { &self.held_to_write };
        held.overlaps(start, end)
    }

    pub(super) fn hold(&mut self, start: u64, end: u64, writes: bool) {
        let add = |map: &mut IntervalMap<u32>| {
            map.update(start, end, &mut Uncounted, |_, _, _, uses| Some(uses.unwrap_or(0) + 1));
        };
        add(&mut self.held);
        if writes {
            add(&mut self.held_to_write);
        }
    }

    pub(super) fn let_go(&mut self, start: u64, end: u64, writes: bool) {
        let remove = |map: &mut IntervalMap<u32>| {
            map.update(start, end, &mut Uncounted, |_, _, _, uses| uses.filter(|uses| *uses > 1).map(|uses| uses - 1));
        };
        remove(&mut self.held);
        if writes {
            remove(&mut self.held_to_write);
        }
    }

    /// Lists it among the blocks that carry claims, or no longer. Memory that belongs to no buffer is never listed.
    pub(super) fn list(&mut self, roots: &mut RootTable) {
        let claimed = self.is_claimed() && self.name.serial != 0;
        if claimed != self.is_listed {
            self.is_listed = claimed;
            roots.list(self.name.serial, self.key, claimed);
        }
    }

    /// Calls `see` with each set that claims any of the bytes.
    pub(super) fn sets(&self, start: u64, end: u64, mut see: impl FnMut(SetKey)) {
        if let (Some(set), true) = (self.unallocated, start < end) {
            see(set);
        }
        if !self.map.is_empty() {
            self.map.visit(start, end, |_, _, set| see(*set));
        }
    }

    /// Calls `see` with each claimed range of `start..end`; memory that was never allocated is claimed as a whole.
    pub fn visit(&self, start: u64, end: u64, mut see: impl FnMut(u64, u64, SetKey)) {
        match self.unallocated {
            Some(set) if start < end => see(start, end, set),
            Some(_) => {}
            None => self.map.visit(start, end, |start, end, set| see(start, end, *set)),
        }
    }

    /// The roots of `set` take over the bytes; the caller holds them while this runs.
    pub(super) fn claim(&mut self, start: u64, end: u64, set: SetKey, roots: &mut RootTable) {
        if self.unallocated.is_none() {
            // What the same roots hold already stays as it is.
            if self.map.exactly(start, end).is_some_and(|known| *known == set) {
                return;
            }
            roots.hold(&set);
            self.map.set(start, end, set, roots);
            self.list(roots);
        }
    }

    pub(super) fn release(&mut self, start: u64, end: u64, roots: &mut RootTable) {
        if !self.map.is_empty() {
            self.map.remove(start, end, roots);
            self.list(roots);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::interval::ranges_seen;
    use super::*;
    use crate::failure::Failures;
    use slotmap::Key;

    #[test]
    fn ten_thousand_scopes_on_one_block_cost_a_call_beside_them_nothing() {
        let name = Name { noun: "buffer", serial: 1, label: "".into() };
        let mut claims = Failures::default().new_block(BlockKey::null(), name, 1 << 20, false, None);
        for at in 0..10_000 {
            claims.hold(at * 16, at * 16 + 8, at % 2 == 0);
            claims.hold(at * 16, at * 16 + 8, false);
        }
        let (held, seen) = ranges_seen(|| claims.held_against(80_008, 80_016, true));
        assert!(!held && seen <= 1, "{seen} ranges");
        let (held, seen) = ranges_seen(|| claims.held_against(80_000, 80_001, false));
        assert!(held && seen <= 1, "{seen} ranges");
        assert!(!claims.held_against(80_016, 80_017, false) && claims.held_against(80_016, 80_017, true));
        for at in 0..10_000 {
            claims.let_go(at * 16, at * 16 + 8, at % 2 == 0);
            assert!(
                claims.held_against(at * 16, at * 16 + 8, true) && !claims.held_against(at * 16, at * 16 + 8, false)
            );
            claims.let_go(at * 16, at * 16 + 8, false);
        }
        assert!(!claims.is_held() && claims.held_to_write.is_empty());
    }
}
