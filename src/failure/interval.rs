//! One interval map for everything that is known per byte range: claims, hazards, late sets.
//!
//! Ranges are disjoint and not empty; neighbours with equal values are one range. The one-range case is inline and
//! allocates nothing; a fragmented map is a B-tree, so that every operation is logarithmic, and it stays one: a map
//! that was fragmented once is likely to be again, and its nodes are kept for that.

use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Counts how many ranges hold a value. A range owns one hold; splitting it takes another.
pub trait Holds<V> {
    /// One more range holds it.
    fn hold(&mut self, value: &V);
    /// One range less holds it.
    fn release(&mut self, value: V);
}

/// For values without a reference count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uncounted;

impl<V> Holds<V> for Uncounted {
    fn hold(&mut self, _: &V) {}
    fn release(&mut self, _: V) {}
}

/// Releases when the map is whole again: what counts may panic, and then the map still has all it had.
struct Later<'a, V, H: Holds<V>> {
    holds: &'a mut H,
    released: SmallVec<[V; 4]>,
}

impl<'a, V, H: Holds<V>> Later<'a, V, H> {
    fn new(holds: &'a mut H) -> Later<'a, V, H> {
        Later { holds, released: SmallVec::new() }
    }

    fn done(self) {
        let Later { holds, released } = self;
        released.into_iter().for_each(|value| holds.release(value));
    }
}

impl<V, H: Holds<V>> Holds<V> for Later<'_, V, H> {
    fn hold(&mut self, value: &V) {
        self.holds.hold(value);
    }

    fn release(&mut self, value: V) {
        self.released.push(value);
    }
}

#[derive(Clone, Debug)]
enum Ranges<V> {
    Empty,
    One(u64, u64, V),
    Many(BTreeMap<u64, (u64, V)>),
}

/// A map from byte ranges to values.
#[derive(Clone, Debug)]
pub struct IntervalMap<V> {
    ranges: Ranges<V>,
}

impl<V> Default for IntervalMap<V> {
    fn default() -> Self {
        IntervalMap { ranges: Ranges::Empty }
    }
}

impl<V: Clone + PartialEq> IntervalMap<V> {
    /// Whether no range has a value.
    pub fn is_empty(&self) -> bool {
        match &self.ranges {
            Ranges::Empty => true,
            Ranges::One(..) => false,
            Ranges::Many(map) => map.is_empty(),
        }
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        match &self.ranges {
            Ranges::Empty => 0,
            Ranges::One(..) => 1,
            Ranges::Many(map) => map.len(),
        }
    }

    /// Calls `see` for each range that overlaps `start..end`, cut to it, in order.
    pub fn visit<'a>(&'a self, start: u64, end: u64, mut see: impl FnMut(u64, u64, &'a V)) {
        match &self.ranges {
            Ranges::Empty => {}
            Ranges::One(s, e, value) => {
                if start < end && *s < end && start < *e {
                    see(start.max(*s), end.min(*e), value);
                }
            }
            Ranges::Many(map) => visit_many(map, start, end, &mut see),
        }
    }

    /// Calls `see` for each range from `start` on, the first one cut to it, for as long as it says so.
    pub fn visit_while<'a>(&'a self, start: u64, mut see: impl FnMut(u64, u64, &'a V) -> bool) {
        match &self.ranges {
            Ranges::Empty => {}
            Ranges::One(s, e, value) => {
                if start < *e {
                    see(start.max(*s), *e, value);
                }
            }
            Ranges::Many(map) => {
                let before = map.range(..start).next_back().filter(|(_, (e, _))| *e > start);
                let before = before.map(|(_, (e, value))| (start, *e, value));
                let behind = map.range(start..).map(|(s, (e, value))| (*s, *e, value));
                let mut ranges = before.into_iter().chain(behind);
                while ranges.next().is_some_and(|(start, end, value)| see(start, end, value)) {}
            }
        }
    }

    /// Whether any range overlaps `start..end`.
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        #[cfg(test)]
        SEEN.set(SEEN.get() + 1);
        match &self.ranges {
            Ranges::Empty => false,
            Ranges::One(s, e, _) => start < end && *s < end && start < *e,
            Ranges::Many(map) => start < end && map.range(..end).next_back().is_some_and(|(_, (e, _))| *e > start),
        }
    }

    /// Replaces the value of every part of `start..end`, gaps included, by what `change` makes of it. If `change` panics,
    /// what it was called for last stays as it is, and no other range has lost its value.
    pub fn update(
        &mut self,
        start: u64,
        end: u64,
        holds: &mut impl Holds<V>,
        mut change: impl FnMut(&mut dyn Holds<V>, u64, u64, Option<V>) -> Option<V>,
    ) {
        if start >= end {
            return;
        }
        match &mut self.ranges {
            Ranges::Empty => {
                if let Some(value) = change(holds, start, end, None) {
                    self.ranges = Ranges::One(start, end, value);
                }
                return;
            }
            Ranges::One(s, e, value) if *s == start && *e == end => {
                let old = value.clone();
                match change(holds, start, end, Some(old)) {
                    Some(new) => *value = new,
                    None => self.ranges = Ranges::Empty,
                }
                return;
            }
            Ranges::One(..) => self.spread(),
            Ranges::Many(_) => {}
        }
        let Ranges::Many(map) = &mut self.ranges else { unreachable!("spread above") };
        update_many(map, start, end, holds, &mut change);
    }

    /// The value of exactly `start..end`, where that is one range. Changing it in place may leave it equal to that of a
    /// neighbour: two ranges where one would do, which is harmless.
    pub fn exactly(&mut self, start: u64, end: u64) -> Option<&mut V> {
        match &mut self.ranges {
            Ranges::One(s, e, value) if *s == start && *e == end => Some(value),
            Ranges::Many(map) => map.get_mut(&start).filter(|(e, _)| *e == end).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Gives every byte of `start..end` the value, which the caller holds once; the map takes that hold over.
    pub fn set(&mut self, start: u64, end: u64, value: V, holds: &mut impl Holds<V>) {
        if start >= end {
            holds.release(value);
            return;
        }
        let mut later = Later::new(holds);
        // Clearing first makes it one insertion however many ranges there were.
        self.clear_range(start, end, &mut later);
        let mut value = Some(value);
        self.update(start, end, &mut later, |_, _, _, _| value.take());
        later.done();
    }

    /// Leaves no byte of `start..end` with a value.
    pub fn remove(&mut self, start: u64, end: u64, holds: &mut impl Holds<V>) {
        let mut later = Later::new(holds);
        self.clear_range(start, end, &mut later);
        later.done();
    }

    /// The releases are to come later.
    fn clear_range<H: Holds<V>>(&mut self, start: u64, end: u64, later: &mut Later<'_, V, H>) {
        if !self.overlaps(start, end) {
            return;
        }
        self.update(start, end, later, |holds, _, _, old| {
            if let Some(old) = old {
                holds.release(old);
            }
            None
        });
    }

    /// Leaves only the ranges whose values are to be kept, for values without a reference count.
    pub fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        match &mut self.ranges {
            Ranges::Empty => {}
            Ranges::One(_, _, value) => {
                if !keep(value) {
                    self.ranges = Ranges::Empty;
                }
            }
            Ranges::Many(map) => map.retain(|_, (_, value)| keep(value)),
        }
    }

    /// Leaves nothing.
    pub fn clear(&mut self, holds: &mut impl Holds<V>) {
        match std::mem::replace(&mut self.ranges, Ranges::Empty) {
            Ranges::Empty => {}
            Ranges::One(_, _, value) => holds.release(value),
            Ranges::Many(map) => map.into_values().for_each(|(_, value)| holds.release(value)),
        }
    }

    fn spread(&mut self) {
        let mut map = BTreeMap::new();
        if let Ranges::One(s, e, value) = std::mem::replace(&mut self.ranges, Ranges::Empty) {
            map.insert(s, (e, value));
        }
        self.ranges = Ranges::Many(map);
    }
}

fn visit_many<'a, V>(map: &'a BTreeMap<u64, (u64, V)>, start: u64, end: u64, see: &mut dyn FnMut(u64, u64, &'a V)) {
    if start >= end || map.is_empty() {
        return;
    }
    // Most questions are about ranges that were used before as they are: one descent answers those.
    if let Some((e, value)) = map.get(&start)
        && *e >= end
    {
        see(start, end, value);
        return;
    }
    if let Some((_, (e, value))) = map.range(..start).next_back()
        && *e > start
    {
        see(start, end.min(*e), value);
    }
    for (s, (e, value)) in map.range(start..end) {
        see(*s, end.min(*e), value);
    }
}

type Change<'a, V> = dyn FnMut(&mut dyn Holds<V>, u64, u64, Option<V>) -> Option<V> + 'a;

fn update_many<V: Clone + PartialEq>(
    map: &mut BTreeMap<u64, (u64, V)>,
    start: u64,
    end: u64,
    holds: &mut impl Holds<V>,
    change: &mut Change<'_, V>,
) {
    split_at(map, start, holds);
    split_at(map, end, holds);
    // What a pass over the existing ranges cannot do in place: ranges that lose their value, gaps that gain one.
    let mut gone: SmallVec<[u64; 8]> = SmallVec::new();
    let mut fresh: SmallVec<[(u64, u64, V); 4]> = SmallVec::new();
    let mut at = start;
    for (s, (e, slot)) in map.range_mut(start..end) {
        if at < *s
            && let Some(value) = change(holds, at, *s, None)
        {
            fresh.push((at, *s, value));
        }
        match change(holds, *s, *e, Some(slot.clone())) {
            Some(value) => *slot = value,
            None => gone.push(*s),
        }
        at = *e;
    }
    if at < end
        && let Some(value) = change(holds, at, end, None)
    {
        fresh.push((at, end, value));
    }
    for s in gone {
        map.remove(&s);
    }
    for (s, e, value) in fresh {
        map.insert(s, (e, value));
    }
    join(map, start, end, holds);
}

fn split_at<V: Clone>(map: &mut BTreeMap<u64, (u64, V)>, at: u64, holds: &mut impl Holds<V>) {
    if let Some((_, (e, value))) = map.range_mut(..at).next_back()
        && *e > at
    {
        let tail = (*e, value.clone());
        holds.hold(&tail.1);
        *e = at;
        map.insert(at, tail);
    }
}

/// Joins equal neighbours that meet anywhere from `start` to `end`, both included.
fn join<V: Clone + PartialEq>(map: &mut BTreeMap<u64, (u64, V)>, start: u64, end: u64, holds: &mut impl Holds<V>) {
    let first = map.range(..start).next_back().map_or(start, |(s, _)| *s);
    let mut joined: SmallVec<[u64; 8]> = SmallVec::new();
    let mut longer: SmallVec<[(u64, u64); 4]> = SmallVec::new();
    {
        let mut head: Option<(u64, u64, &V)> = None;
        let mut grew = false;
        for (s, (e, value)) in map.range(first..=end) {
            match head {
                Some((hs, he, hv)) if he == *s && hv == value => {
                    joined.push(*s);
                    head = Some((hs, *e, hv));
                    grew = true;
                }
                _ => {
                    if let (Some((hs, he, _)), true) = (head, grew) {
                        longer.push((hs, he));
                    }
                    head = Some((*s, *e, value));
                    grew = false;
                }
            }
        }
        if let (Some((hs, he, _)), true) = (head, grew) {
            longer.push((hs, he));
        }
    }
    for (s, e) in longer {
        if let Some(entry) = map.get_mut(&s) {
            entry.0 = e;
        }
    }
    let joined: SmallVec<[V; 4]> = joined.iter().filter_map(|s| Some(map.remove(s)?.1)).collect();
    joined.into_iter().for_each(|value| holds.release(value));
}

#[cfg(test)]
thread_local! { static SEEN: std::cell::Cell<usize> = const { std::cell::Cell::new(0) }; }

/// What something answers, and how many ranges it looked at for that.
#[cfg(test)]
pub(super) fn ranges_seen<T>(ask: impl FnOnce() -> T) -> (T, usize) {
    let before = SEEN.get();
    (ask(), SEEN.get() - before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[derive(Default)]
    struct Count(HashMap<u8, i64>);
    impl Holds<u8> for Count {
        fn hold(&mut self, value: &u8) {
            *self.0.entry(*value).or_default() += 1;
        }
        fn release(&mut self, value: u8) {
            *self.0.entry(value).or_default() -= 1;
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Set(u64, u64, u8),
        Remove(u64, u64),
        Bump(u64, u64),
        Clear,
    }

    fn op() -> impl Strategy<Value = Op> {
        let range = (0u64..40, 0u64..12).prop_map(|(s, n)| (s, s + n));
        prop_oneof![
            8 => (range.clone(), 0u8..3).prop_map(|((s, e), v)| Op::Set(s, e, v)),
            4 => range.clone().prop_map(|(s, e)| Op::Remove(s, e)),
            4 => range.prop_map(|(s, e)| Op::Bump(s, e)),
            1 => Just(Op::Clear),
        ]
    }

    /// Panics at the n-th call.
    struct Panicky {
        count: Count,
        left: u64,
    }
    impl Panicky {
        fn trip(&mut self) {
            self.left -= 1;
            assert!(self.left > 0, "counting panics");
        }
    }
    impl Holds<u8> for Panicky {
        fn hold(&mut self, value: &u8) {
            self.trip();
            self.count.hold(value);
        }
        fn release(&mut self, value: u8) {
            self.trip();
            self.count.release(value);
        }
    }

    fn bytes_of(map: &IntervalMap<u8>) -> [Option<u8>; 64] {
        let mut bytes = [None; 64];
        map.visit(0, 64, |s, e, v| bytes[s as usize..e as usize].fill(Some(*v)));
        bytes
    }

    /// Runs an operation with a panic at its n-th count, for n = 1, 2, ... until there is none. `check` hears of the bytes
    /// before and after.
    fn panics(
        ranges: &[(u64, u64, u8)],
        operation: impl Fn(&mut IntervalMap<u8>, &mut Panicky),
        check: impl Fn(usize, Option<u8>, Option<u8>),
    ) {
        for n in 1.. {
            let mut holds = Panicky { count: Count::default(), left: u64::MAX };
            let mut map = IntervalMap::default();
            for (s, e, v) in ranges {
                holds.count.hold(v);
                map.set(*s, *e, *v, &mut holds);
            }
            let before = bytes_of(&map);
            holds.left = n;
            let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| operation(&mut map, &mut holds)));
            let after = bytes_of(&map);
            for at in 0..64 {
                check(at, before[at], after[at]);
            }
            // Nothing in it is held less often than it is there, or it would be gone while it claims bytes.
            let mut there = HashMap::<u8, i64>::new();
            map.visit(0, 64, |_, _, v| *there.entry(*v).or_default() += 1);
            there.iter().for_each(|(v, ranges)| assert!(holds.count.0[v] >= *ranges, "{n}: {v}"));
            if broken.is_ok() {
                assert!(n > 1, "it never counted");
                return;
            }
        }
    }

    #[test]
    fn a_panic_while_a_value_is_set_leaves_the_old_one_or_the_new_one() {
        for ranges in [&[(8, 16, 1)][..], &[(8, 10, 1), (12, 14, 2), (15, 20, 1)], &[(0, 64, 1)], &[(0, 8, 0)]] {
            for (start, end) in [(8, 16), (9, 13), (0, 30)] {
                let set = |map: &mut IntervalMap<u8>, holds: &mut Panicky| {
                    holds.hold(&0);
                    map.set(start, end, 0, holds);
                };
                panics(ranges, set, |at, before, after| {
                    let is_new = (start..end).contains(&(at as u64)) && after == Some(0);
                    assert!(is_new || after == before, "byte {at}: {before:?}, {after:?}");
                });
            }
        }
    }

    #[test]
    fn a_panic_while_values_change_leaves_no_range_without_its_own() {
        for ranges in [&[(8, 16, 1)][..], &[(8, 10, 1), (12, 14, 2), (15, 20, 1)]] {
            for (start, end) in [(8, 16), (9, 13), (0, 30)] {
                let bump = |map: &mut IntervalMap<u8>, holds: &mut Panicky| {
                    map.update(start, end, holds, |holds, _, _, old| {
                        let new = old.map_or(3, |old| old + 1);
                        holds.hold(&new);
                        if let Some(old) = old {
                            holds.hold(&old);
                        }
                        Some(new)
                    });
                };
                panics(ranges, bump, |at, before, after| {
                    assert!(before.is_none() || after.is_some(), "byte {at}: {before:?}, {after:?}");
                });
            }
        }
    }

    #[test]
    fn a_panic_while_ranges_are_removed_takes_no_other() {
        for ranges in [&[(8, 16, 1)][..], &[(8, 10, 1), (12, 14, 2), (15, 20, 1)]] {
            for (start, end) in [(8, 16), (9, 13), (0, 30)] {
                let remove = |map: &mut IntervalMap<u8>, holds: &mut Panicky| map.remove(start, end, holds);
                panics(ranges, remove, |at, before, after| {
                    let is_named = (start..end).contains(&(at as u64)) && after.is_none();
                    assert!(is_named || after == before, "byte {at}: {before:?}, {after:?}");
                });
            }
        }
    }

    proptest! {
        #[test]
        fn equals_a_map_of_bytes_and_counts_its_ranges(ops in proptest::collection::vec(op(), 1..60)) {
            let mut map = IntervalMap::default();
            let mut bytes = [None::<u8>; 64];
            let mut count = Count::default();
            for op in ops {
                match op {
                    Op::Set(s, e, v) => {
                        count.hold(&v);
                        map.set(s, e, v, &mut count);
                        bytes[s as usize..e as usize].fill(Some(v));
                    }
                    Op::Remove(s, e) => {
                        map.remove(s, e, &mut count);
                        bytes[s as usize..e as usize].fill(None);
                    }
                    Op::Bump(s, e) => {
                        map.update(s, e, &mut count, |holds, _, _, old| {
                            let new = old.map_or(0, |v| (v + 1) % 3);
                            holds.hold(&new);
                            if let Some(old) = old { holds.release(old) }
                            Some(new)
                        });
                        for b in &mut bytes[s as usize..e as usize] {
                            *b = Some(b.map_or(0, |v| (v + 1) % 3));
                        }
                    }
                    Op::Clear => {
                        map.clear(&mut count);
                        bytes.fill(None);
                    }
                }
                let mut seen = [None; 64];
                let mut ranges = HashMap::<u8, i64>::new();
                let mut last: Option<(u64, u8)> = None;
                map.visit(0, 64, |s, e, v| {
                    assert!(s < e);
                    assert!(last.is_none_or(|(end, value)| end < s || (end == s && value != *v)), "not joined");
                    seen[s as usize..e as usize].fill(Some(*v));
                    *ranges.entry(*v).or_default() += 1;
                    last = Some((e, *v));
                });
                prop_assert_eq!(seen, bytes);
                prop_assert_eq!(ranges.values().sum::<i64>() as usize, map.len());
                for v in 0..3 {
                    prop_assert_eq!(count.0.get(&v).copied().unwrap_or(0), ranges.get(&v).copied().unwrap_or(0));
                }
                for at in 0..63 {
                    prop_assert_eq!(map.overlaps(at, at + 1), bytes[at as usize].is_some());
                }
                prop_assert!(!map.overlaps(5, 5));
            }
        }
    }
}
