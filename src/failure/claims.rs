//! What is known of the bytes of one block: which are claimed, which are held, and whether there are any at all.

use super::interval::{Holds, IntervalMap};
use super::name::Name;
use super::roots::{RootTable, SetKey};
use slotmap::new_key_type;
use smallvec::SmallVec;

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

/// Bytes that an open scope or mapping keeps to itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    start: u64,
    end: u64,
    writes: bool,
    scope: ScopeKey,
}

/// The claims on one block. Its owner must [`shed`](super::FailureStore::shed) it before dropping it.
#[derive(Debug)]
pub struct Claims {
    /// What paths call it.
    pub name: Name,
    /// Bytes it has, or would have.
    pub size: u64,
    pub(super) map: IntervalMap<SetKey>,
    /// Why it has no bytes (R7).
    pub(super) unallocated: Option<SetKey>,
    pub(super) held: SmallVec<[Held; 1]>,
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
        start < end && self.held.iter().any(|held| held.start < end && start < held.end && (writes || held.writes))
    }

    pub(super) fn hold(&mut self, scope: ScopeKey, start: u64, end: u64, writes: bool) {
        self.held.push(Held { start, end, writes, scope });
    }

    pub(super) fn let_go(&mut self, scope: ScopeKey) {
        self.held.retain(|held| held.scope != scope);
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

    /// The roots of `set` take over the bytes; they must be held by somebody while this runs.
    pub(super) fn claim(&mut self, start: u64, end: u64, set: SetKey, roots: &mut RootTable) {
        if self.unallocated.is_none() {
            roots.hold(&set);
            self.map.set(start, end, set, roots);
        }
    }

    pub(super) fn release(&mut self, start: u64, end: u64, roots: &mut RootTable) {
        if !self.map.is_empty() {
            self.map.remove(start, end, roots);
        }
    }
}
