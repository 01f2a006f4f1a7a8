//! Roots and the sets of them that claims hold: interned, counted, gone when nothing holds them (R1, R3).
//!
//! A claim holds a set, never a root, so handing a claim on copies one key and adds one to one count. Every set of
//! one root is made with its root; larger ones are made once and found again by their content.

use super::claims::BlockKey;
use super::interval::Holds;
use super::skips::Skips;
use crate::error::{Fault, MAX_ROOTS, Roots};
use crate::room::{Room, no_memory};
use arrayvec::ArrayVec;
use hashbrown::{DefaultHashBuilder, HashTable};
use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
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

/// The most buffers that a root remembers as those it claimed first.
pub const MAX_ORIGIN: usize = 16;

/// The buffers that a root claimed first: where its paths begin. A loss begins in every buffer there is, so only the
/// first few are kept.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    first: SmallVec<[u64; 4]>,
    more: u64,
}

impl Origin {
    /// A buffer is claimed first, by its serial.
    pub fn add(&mut self, serial: u64) {
        if self.first.contains(&serial) {
            return;
        }
        if self.first.len() < MAX_ORIGIN {
            self.first.push(serial);
        } else {
            self.more += 1;
        }
    }

    /// Whether the buffer is known to have been claimed first.
    pub fn contains(&self, serial: u64) -> bool {
        self.first.contains(&serial)
    }

    /// How many buffers were claimed first, beyond those that are kept.
    pub fn more(&self) -> u64 {
        self.more
    }
}

/// One recorded first cause.
#[derive(Debug)]
pub struct Root {
    /// The id callers know it by; from a counter, never used again.
    pub id: u64,
    /// Nothing while it is provisional: the outcome of an open scope is not known yet.
    pub cause: Option<Arc<Cause>>,
    /// What it claimed first.
    pub origin: Origin,
    /// The work that did not run because of it.
    pub skips: Skips,
    /// Sets that contain it and are held.
    sets: u32,
    single: SetKey,
}

#[derive(Debug, Default)]
struct Set {
    /// Sorted by id, so that equal sets are equal lists.
    roots: Members,
    /// There are more roots than these.
    more: bool,
    holds: u32,
}

/// As many as most sets have lie in the set itself.
type Members = SmallVec<[RootKey; 8]>;

/// The most lists of gone sets whose memory is kept for new ones.
const MAX_SPARE: usize = 16;

/// Roots gathered from several sets, each once and oldest first, with what was said of each when it was first met. Past
/// 32 roots the oldest are kept.
#[derive(Debug)]
pub struct Gathered<T> {
    roots: ArrayVec<(RootKey, T), MAX_ROOTS>,
    more: bool,
    last: Option<SetKey>,
}

impl<T> Default for Gathered<T> {
    fn default() -> Self {
        Gathered { roots: ArrayVec::new(), more: false, last: None }
    }
}

impl<T> Gathered<T> {
    /// The roots, and what was said of them.
    pub fn roots(&self) -> &[(RootKey, T)] {
        &self.roots
    }
}

/// All roots and sets of a device.
#[derive(Default)]
pub struct RootTable {
    roots: SlotMap<RootKey, Root>,
    /// By id, which is also by age.
    by_id: BTreeMap<u64, RootKey>,
    sets: SlotMap<SetKey, Set>,
    spare: Vec<Members>,
    /// The blocks that carry claims, by the serials of their buffers.
    claimed: BTreeSet<(u64, BlockKey)>,
    /// Sets of two and more, by content.
    interned: HashTable<SetKey>,
    hasher: DefaultHashBuilder,
    last_id: u64,
}

impl RootTable {
    /// A new root, held once by the caller through the set of it alone.
    pub fn mint(&mut self, cause: Option<Arc<Cause>>) -> SetKey {
        if self.make_room(1).is_err()
            && let Some((_, newest)) = self.by_id.last_key_value()
        {
            // Better a root that also stands for another failure than bytes without one.
            let single = self.roots[*newest].single;
            self.hold(&single);
            return single;
        }
        self.last_id += 1;
        let id = self.last_id;
        let root = self.roots.insert(Root {
            id,
            cause,
            origin: Origin::default(),
            skips: Skips::default(),
            sets: 1,
            single: SetKey::default(),
        });
        self.by_id.insert(id, root);
        let single = self.sets.insert(Set { roots: SmallVec::from_slice(&[root]), more: false, holds: 1 });
        self.roots[root].single = single;
        single
    }

    /// Sees to room for so many more roots, and as many sets.
    pub fn make_room(&mut self, more: usize) -> Result<(), Fault> {
        self.roots.make_room(more)?;
        self.sets.make_room(more)?;
        if self.interned.capacity() - self.interned.len() >= more {
            return Ok(());
        }
        let (sets, hasher) = (&self.sets, &self.hasher);
        let rehash = |key: &SetKey| hasher.hash_one(&sets[*key].roots[..]);
        self.interned.try_reserve(more, rehash).map_err(|_| no_memory())
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

    /// How many roots a set names, and whether there are more.
    pub fn size(&self, set: SetKey) -> (u32, bool) {
        let set = &self.sets[set];
        (set.roots.len() as u32, set.more)
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

    /// The roots younger than an id, oldest first.
    pub fn since(&self, id: u64) -> impl Iterator<Item = (RootKey, &Root)> {
        self.by_id.range(id + 1..).map(|(_, key)| (*key, &self.roots[*key]))
    }

    /// The blocks that carry claims, from a place on, in the order of their buffers' creation.
    pub fn claimed_since(&self, from: (u64, BlockKey)) -> impl Iterator<Item = (u64, BlockKey)> {
        self.claimed.range(from..).copied()
    }

    /// A block carries claims now, or no longer.
    pub(super) fn list(&mut self, serial: u64, block: BlockKey, claimed: bool) {
        if claimed {
            self.claimed.insert((serial, block));
        } else {
            self.claimed.remove(&(serial, block));
        }
    }

    /// The id of the youngest root there ever was.
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    /// The root of an id, if it still lives.
    pub fn find(&self, id: u64) -> Option<RootKey> {
        self.by_id.get(&id).copied()
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
    pub fn replace(&mut self, set: SetKey, cause: Arc<Cause>) {
        let key = self.sets[set].roots[0];
        self.roots[key].cause = Some(cause);
    }

    /// Adds what is not there yet to an answer, which stays sorted and within its bounds.
    pub fn name(&self, set: SetKey, answer: &mut Roots) {
        let members = &self.sets[set];
        answer.more |= members.more;
        for key in &members.roots {
            let id = self.roots[*key].id;
            if let Err(at) = answer.ids.binary_search(&id) {
                if answer.ids.is_full() {
                    answer.more = true;
                    if at == MAX_ROOTS {
                        continue;
                    }
                    answer.ids.pop();
                }
                answer.ids.insert(at, id);
            }
        }
    }

    /// Adds the roots of a set to those gathered so far; `said` stays with those that are new.
    pub fn gather<T: Copy>(&self, set: SetKey, said: T, into: &mut Gathered<T>) {
        if into.last.replace(set) == Some(set) {
            return;
        }
        let members = &self.sets[set];
        into.more |= members.more;
        for key in &members.roots {
            let id = self.roots[*key].id;
            let Err(at) = into.roots.binary_search_by_key(&id, |(known, _)| self.roots[*known].id) else { continue };
            if into.roots.is_full() {
                into.more = true;
                if at == MAX_ROOTS {
                    continue;
                }
                into.roots.pop();
            }
            into.roots.insert(at, (*key, said));
        }
    }

    /// Names the roots gathered, for an answer.
    pub fn name_gathered<T>(&self, gathered: &Gathered<T>, answer: &mut Roots) {
        answer.more = gathered.more;
        answer.ids.extend(gathered.roots.iter().map(|(key, _)| self.roots[*key].id));
    }

    /// The set of the roots gathered, of which there is at least one, held once more for the caller.
    pub fn intern<T>(&mut self, gathered: &Gathered<T>) -> SetKey {
        let more = gathered.more;
        let keys: ArrayVec<RootKey, MAX_ROOTS> = gathered.roots.iter().map(|(key, _)| *key).collect();
        if let ([only], false) = (&keys[..], more) {
            let single = self.roots[*only].single;
            self.hold(&single);
            return single;
        }
        let hash = self.hasher.hash_one(&keys[..]);
        let same = |key: &SetKey| self.sets[*key].more == more && self.sets[*key].roots[..] == keys[..];
        if let Some(found) = self.interned.find(hash, same) {
            let found = *found;
            self.hold(&found);
            return found;
        }
        for key in &keys {
            self.roots[*key].sets += 1;
        }
        let mut roots = if keys.len() > 8 { self.spare.pop().unwrap_or_default() } else { Members::new() };
        roots.extend_from_slice(&keys);
        let set = self.sets.insert(Set { roots, more, holds: 1 });
        let (sets, hasher) = (&self.sets, &self.hasher);
        self.interned.insert_unique(hash, set, |key| hasher.hash_one(&sets[*key].roots[..]));
        set
    }

    /// The set of the roots of both, held once more for the caller. Past 32 roots there is only a flag.
    pub fn union(&mut self, a: SetKey, b: SetKey) -> SetKey {
        if a == b {
            self.hold(&a);
            return a;
        }
        let mut both = Gathered::default();
        self.gather(a, (), &mut both);
        self.gather(b, (), &mut both);
        self.intern(&both)
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
        let is_single = self.roots[entry.roots[0]].single == set;
        let mut roots = if is_single { entry.roots.clone() } else { std::mem::take(&mut entry.roots) };
        if !is_single {
            let hash = self.hasher.hash_one(&roots[..]);
            if let Ok(found) = self.interned.find_entry(hash, |key| *key == set) {
                found.remove();
            }
            self.sets.remove(set);
        }
        for key in roots.drain(..) {
            let root = &mut self.roots[key];
            root.sets -= 1;
            if root.sets == 0 {
                let (single, id) = (root.single, root.id);
                self.roots.remove(key);
                self.sets.remove(single);
                self.by_id.remove(&id);
            }
        }
        if roots.spilled() && self.spare.len() < MAX_SPARE {
            self.spare.push(roots);
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
    fn past_the_bound_a_flag_says_so_and_a_union_repeated_changes_nothing() {
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
        assert_eq!(table.size(set), (MAX_ROOTS as u32, true));
        let again = table.union(set, singles[39]);
        assert_eq!(again, set);
        table.release(again);
        let mut answer = Roots::default();
        table.name(set, &mut answer);
        assert_eq!(answer.ids.len(), MAX_ROOTS);
        assert!(answer.more);
        table.release(set);
        singles.into_iter().for_each(|one| table.release(one));
        assert!(table.is_empty() && table.sets.is_empty() && table.by_id.is_empty());
    }

    #[test]
    fn of_what_was_claimed_first_the_first_few_are_kept_and_a_count() {
        let mut origin = Origin::default();
        (1..=100_000).for_each(|serial| origin.add(serial));
        assert_eq!((origin.first.len(), origin.more()), (MAX_ORIGIN, 100_000 - MAX_ORIGIN as u64));
        assert!(origin.contains(1) && !origin.contains(100_000));
    }
}
