//! The free bytes of a page.
//!
//! A block comes from the smallest gap that holds it, and joins its neighbours when it comes back. Both take logarithmic
//! time. Every node of the two trees is small, however many gaps there are: so a host that has no memory left for large
//! allocations still divides its pages.

use std::collections::{BTreeMap, BTreeSet};

/// Gaps of a page: no two of them overlap or touch.
#[derive(Debug)]
pub(super) struct FreeList {
    /// First byte and end of the gap at the end of the page, which may be empty. It is in no tree: in most pages it is the
    /// only gap that blocks come from and go back to.
    last: (u64, u64),
    /// The first byte of each other gap by its end: a block is cut off the front of a gap, whose end stays.
    by_end: BTreeMap<u64, u64>,
    /// Size and end of each other gap.
    by_size: BTreeSet<(u64, u64)>,
}

impl FreeList {
    /// One gap, from byte 0.
    pub(super) fn new(size: u64) -> FreeList {
        FreeList { last: (0, size), by_end: BTreeMap::new(), by_size: BTreeSet::new() }
    }

    /// The size of the largest gap; 0 if there is none.
    pub(super) fn largest(&self) -> u64 {
        let last = self.last.1 - self.last.0;
        self.by_size.last().map_or(last, |(size, _)| last.max(*size))
    }

    /// Cuts a block off the smallest gap that holds it. Its first byte.
    pub(super) fn take(&mut self, size: u64) -> Option<u64> {
        let (start, end) = self.last;
        let room = end - start;
        match self.by_size.range((size, 0)..).next().copied() {
            Some((gap, end)) if gap <= room || room < size => {
                self.by_size.remove(&(gap, end));
                let start = end - gap;
                if gap > size {
                    self.by_end.insert(end, start + size);
                    self.by_size.insert((gap - size, end));
                } else {
                    self.by_end.remove(&end);
                }
                Some(start)
            }
            _ if room >= size => {
                self.last.0 += size;
                Some(start)
            }
            _ => None,
        }
    }

    /// Takes a block back.
    pub(super) fn give(&mut self, offset: u64, size: u64) {
        let (mut start, mut end) = (offset, offset + size);
        if let Some(before) = self.by_end.remove(&start) {
            self.by_size.remove(&(start - before, start));
            start = before;
        }
        if end == self.last.0 {
            self.last.0 = start;
            return;
        }
        if let Some((after, from)) = self.by_end.range(end..).next()
            && *from == end
        {
            self.by_size.remove(&(after - from, *after));
            end = *after;
        }
        self.by_end.insert(end, start);
        self.by_size.insert((end - start, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: usize = 96;

    /// Runs of free bytes, as offset and size.
    fn gaps(is_free: &[bool]) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        for at in (0..is_free.len()).filter(|at| is_free[*at]) {
            match gaps.last_mut() {
                Some((start, size)) if *start + *size == at as u64 => *size += 1,
                _ => gaps.push((at as u64, 1)),
            }
        }
        gaps
    }

    #[test]
    fn a_block_comes_from_the_smallest_gap_that_holds_it() {
        let mut list = FreeList::new(100);
        let blocks: Vec<u64> = [10, 5, 20, 5, 60].into_iter().filter_map(|size| list.take(size)).collect();
        assert_eq!(blocks, [0, 10, 15, 35, 40]);
        assert_eq!((list.take(1), list.largest()), (None, 0));
        list.give(0, 10);
        list.give(15, 20);
        assert_eq!((list.take(8), list.take(12), list.take(9)), (Some(0), Some(15), None));
    }

    #[test]
    fn a_block_between_two_gaps_joins_both() {
        let mut list = FreeList::new(30);
        assert!((0..3).all(|_| list.take(10).is_some()));
        list.give(0, 10);
        list.give(20, 10);
        assert_eq!(list.largest(), 10);
        list.give(10, 10);
        assert_eq!((list.largest(), list.by_end.len(), list.by_size.len()), (30, 0, 0));
        assert_eq!(FreeList::new(0).largest(), 0);
    }

    proptest! {
        #[test]
        fn equals_a_list_of_bytes(ops in proptest::collection::vec((any::<bool>(), 1usize..24, any::<prop::sample::Index>()), 1..200)) {
            let mut list = FreeList::new(SIZE as u64);
            let mut is_free = [true; SIZE];
            let mut live: Vec<(usize, usize)> = Vec::new();
            for (takes, size, which) in ops {
                if takes || live.is_empty() {
                    let fits = gaps(&is_free).iter().map(|(_, gap)| *gap).filter(|gap| *gap >= size as u64).min();
                    match list.take(size as u64) {
                        Some(offset) => {
                            let offset = offset as usize;
                            let from = gaps(&is_free).into_iter().find(|(start, _)| *start == offset as u64);
                            prop_assert_eq!(from.map(|(_, gap)| gap), fits, "not the smallest gap");
                            prop_assert!(is_free[offset..offset + size].iter().all(|free| *free), "blocks overlap");
                            is_free[offset..offset + size].fill(false);
                            live.push((offset, size));
                        }
                        None => prop_assert_eq!(fits, None, "there was room"),
                    }
                } else {
                    let (offset, size) = live.swap_remove(which.index(live.len()));
                    list.give(offset as u64, size as u64);
                    is_free[offset..offset + size].fill(true);
                }
                let mut known: Vec<(u64, u64)> = list.by_end.iter().map(|(end, start)| (*start, end - start)).collect();
                let by_size: BTreeSet<(u64, u64)> = known.iter().map(|(start, size)| (*size, start + size)).collect();
                prop_assert_eq!(&by_size, &list.by_size);
                let (start, end) = list.last;
                known.extend((start < end).then_some((start, end - start)));
                prop_assert_eq!(&known, &gaps(&is_free));
                prop_assert_eq!(list.largest(), known.iter().map(|(_, size)| *size).max().unwrap_or(0));
            }
        }
    }
}
