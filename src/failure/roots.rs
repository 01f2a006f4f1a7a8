//! Roots and the sets of them that claims hold: interned, counted, gone when nothing holds them (R1, R3).
//!
//! A claim holds a set, never a root, so handing a claim on copies one key and adds one to one count. Every set of
//! one root is made with its root; larger ones are made once and found again by their content.

use super::interval::Holds;
use super::skips::Skips;
use crate::error::{Fault, MAX_ROOTS, Roots};
use hashbrown::{DefaultHashBuilder, HashTable};
use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;
use std::hash::BuildHasher;
use std::sync::Arc;

new_key_type! {
    /// A live root.
    pub struct RootKey;
    /// A live set of roots.
    pub struct SetKey;
}

/// What is known of a first cause beside the fault itself.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The C function, or what else was going on.
    pub operation: &'static str,
    /// The kernel, or empty.
    pub kernel: Arc<str>,
    /// The stream the work was for, if it was for one.
    pub stream: Option<u64>,
    /// The caller's name for the work or the buffer, or empty.
    pub label: Arc<str>,
    /// The caller's number for it.
    pub tag: u64,
}

/// Why bytes were left unwritten.
#[derive(Clone, Debug)]
pub struct Cause {
    /// What was answered.
    pub fault: Fault,
    /// What was going on.
    pub context: Context,
}

/// One recorded first cause.
#[derive(Debug)]
pub struct Root {
    /// The id callers know it by; from a counter, never used again.
    pub id: u64,
    /// Nothing while it is provisional: the outcome of an open scope is not known yet.
    pub cause: Option<Box<Cause>>,
    /// Serials of what it claimed first: where its paths begin.
    pub origin: SmallVec<[u64; 4]>,
    /// The work that did not run because of it.
    pub skips: Skips,
    /// Sets that contain it and are held.
    sets: u32,
    single: SetKey,
}

#[derive(Debug, Default)]
struct Set {
    /// Sorted by id, so that equal sets are equal lists.
    roots: SmallVec<[RootKey; 2]>,
    /// At least this many roots more.
    more: u32,
    holds: u32,
}

/// All roots and sets of a device.
#[derive(Default)]
pub struct RootTable {
    roots: SlotMap<RootKey, Root>,
    sets: SlotMap<SetKey, Set>,
    /// Sets of two and more, by content.
    interned: HashTable<SetKey>,
    hasher: DefaultHashBuilder,
    last_id: u64,
}

impl RootTable {
    /// A new root, held once by the caller through the set of it alone.
    pub fn mint(&mut self, cause: Option<Box<Cause>>) -> SetKey {
        self.last_id += 1;
        let id = self.last_id;
        let root = self.roots.insert(Root {
            id,
            cause,
            origin: SmallVec::new(),
            skips: Skips::default(),
            sets: 1,
            single: SetKey::default(),
        });
        let single = self.sets.insert(Set { roots: SmallVec::from_slice(&[root]), more: 0, holds: 1 });
        self.roots[root].single = single;
        single
    }

    /// How many roots there are.
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// The root of a set of one, or the oldest of a larger one.
    pub fn oldest(&self, set: SetKey) -> &Root {
        &self.roots[self.sets[set].roots[0]]
    }

    /// The roots of a set, oldest first.
    pub fn members(&self, set: SetKey) -> impl Iterator<Item = (RootKey, &Root)> {
        self.sets[set].roots.iter().map(|key| (*key, &self.roots[*key]))
    }

    /// How many roots a set has, those beyond the named ones included as far as they are known.
    pub fn size(&self, set: SetKey) -> u32 {
        self.sets[set].roots.len() as u32 + self.sets[set].more
    }

    /// Whether a root is in a set.
    pub fn contains(&self, set: SetKey, root: RootKey) -> bool {
        self.sets[set].roots.contains(&root)
    }

    /// A root, if it still lives.
    pub fn get(&self, root: RootKey) -> Option<&Root> {
        self.roots.get(root)
    }

    /// A root, to change it.
    pub fn get_mut(&mut self, root: RootKey) -> Option<&mut Root> {
        self.roots.get_mut(root)
    }

    /// All roots, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (RootKey, &Root)> {
        self.roots.iter()
    }

    /// The root of an id, if it still lives.
    pub fn find(&self, id: u64) -> Option<RootKey> {
        self.roots.iter().find(|(_, root)| root.id == id).map(|(key, _)| key)
    }

    /// The set of a root alone.
    pub fn single(&self, root: RootKey) -> Option<SetKey> {
        self.roots.get(root).map(|root| root.single)
    }

    /// Calls `see` with each root of a set.
    pub fn for_each_mut(&mut self, set: SetKey, mut see: impl FnMut(&mut Root)) {
        for key in &self.sets[set].roots {
            see(&mut self.roots[*key]);
        }
    }

    /// Gives a provisional root its cause, for all its carriers at once.
    pub fn replace(&mut self, set: SetKey, cause: Box<Cause>) {
        let key = self.sets[set].roots[0];
        self.roots[key].cause = Some(cause);
    }

    /// Adds what is not there yet to an answer, which stays sorted and within its bounds.
    pub fn name(&self, set: SetKey, answer: &mut Roots) {
        let members = &self.sets[set];
        answer.more = answer.more.max(members.more);
        for key in &members.roots {
            let id = self.roots[*key].id;
            if let Err(at) = answer.ids.binary_search(&id) {
                if answer.ids.is_full() {
                    answer.more = answer.more.max(1);
                    if at == MAX_ROOTS {
                        continue;
                    }
                    answer.ids.pop();
                }
                answer.ids.insert(at, id);
            }
        }
    }

    /// The set of the roots of both, held once more for the caller. Past 32 roots the newest are only counted.
    pub fn union(&mut self, a: SetKey, b: SetKey) -> SetKey {
        if a == b {
            self.hold(&a);
            return a;
        }
        let (left, right) = (&self.sets[a], &self.sets[b]);
        let mut roots: SmallVec<[RootKey; 2 * MAX_ROOTS]> = SmallVec::new();
        let (mut i, mut j) = (0, 0);
        loop {
            let next = match (left.roots.get(i), right.roots.get(j)) {
                (None, None) => break,
                (Some(l), None) => (*l, 1, 0),
                (None, Some(r)) => (*r, 0, 1),
                (Some(l), Some(r)) if l == r => (*l, 1, 1),
                (Some(l), Some(r)) if self.roots[*l].id < self.roots[*r].id => (*l, 1, 0),
                (Some(_), Some(r)) => (*r, 0, 1),
            };
            roots.push(next.0);
            i += next.1;
            j += next.2;
        }
        // A lower bound that a union with a part of the set leaves as it is: repeating a union changes nothing.
        let cut = roots.len().saturating_sub(MAX_ROOTS) as u32;
        let more = left.more.max(right.more).max(cut);
        roots.truncate(MAX_ROOTS);
        let same = |set: &Set| set.more == more && set.roots[..] == roots[..];
        if same(left) {
            self.hold(&a);
            return a;
        }
        if same(right) {
            self.hold(&b);
            return b;
        }
        let hash = self.hasher.hash_one(&roots[..]);
        if let Some(found) = self.interned.find(hash, |key| same(&self.sets[*key])) {
            let found = *found;
            self.hold(&found);
            return found;
        }
        for key in &roots {
            self.roots[*key].sets += 1;
        }
        let set = self.sets.insert(Set { roots: SmallVec::from_slice(&roots), more, holds: 1 });
        let (sets, hasher) = (&self.sets, &self.hasher);
        self.interned.insert_unique(hash, set, |key| hasher.hash_one(&sets[*key].roots[..]));
        set
    }
}

impl Holds<SetKey> for RootTable {
    fn hold(&mut self, set: &SetKey) {
        let entry = &mut self.sets[*set];
        entry.holds += 1;
        if entry.holds == 1 {
            // Only a single waits unheld, for as long as larger sets keep its root.
            let root = entry.roots[0];
            self.roots[root].sets += 1;
        }
    }

    fn release(&mut self, set: SetKey) {
        let entry = &mut self.sets[set];
        entry.holds -= 1;
        if entry.holds > 0 {
            return;
        }
        let roots = entry.roots.clone();
        if self.roots[roots[0]].single != set {
            let hash = self.hasher.hash_one(&roots[..]);
            if let Ok(found) = self.interned.find_entry(hash, |key| *key == set) {
                found.remove();
            }
            self.sets.remove(set);
        }
        for key in roots {
            let root = &mut self.roots[key];
            root.sets -= 1;
            if root.sets == 0 {
                let single = root.single;
                self.roots.remove(key);
                self.sets.remove(single);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_lives_as_long_as_a_set_with_it_is_held() {
        let mut table = RootTable::default();
        let (a, b) = (table.mint(None), table.mint(None));
        let both = table.union(a, b);
        assert_eq!(table.union(b, a), both, "found again by content");
        table.release(both);
        table.release(a);
        table.release(b);
        assert_eq!(table.len(), 2);
        table.hold(&a);
        table.release(a);
        assert_eq!(table.len(), 2);
        table.release(both);
        assert!(table.is_empty());
        assert!(table.sets.is_empty() && table.interned.is_empty());
    }

    #[test]
    fn past_the_bound_roots_are_counted_and_a_union_repeated_changes_nothing() {
        let mut table = RootTable::default();
        let singles: Vec<_> = (0..40).map(|_| table.mint(None)).collect();
        let mut set = singles[0];
        table.hold(&set);
        for one in &singles[1..] {
            let wider = table.union(set, *one);
            table.release(set);
            set = wider;
        }
        assert_eq!(table.members(set).count(), MAX_ROOTS);
        assert!(table.size(set) > MAX_ROOTS as u32);
        let again = table.union(set, singles[39]);
        assert_eq!(again, set);
        table.release(again);
        let mut answer = Roots::default();
        table.name(set, &mut answer);
        assert_eq!(answer.ids.len(), MAX_ROOTS);
        assert!(answer.more >= 1);
        table.release(set);
        singles.into_iter().for_each(|one| table.release(one));
        assert!(table.is_empty() && table.sets.is_empty());
    }
}
