//! The pool: many stream ids of the caller's, folded onto few slots that are made on first use.

/// Slots by number, made lazily.
#[derive(Debug)]
pub struct StreamPool<S> {
    slots: Vec<Option<S>>,
}

impl<S> StreamPool<S> {
    /// A pool of `count` slots, at least one, none of them made yet.
    pub fn new(count: u32) -> StreamPool<S> {
        StreamPool { slots: (0..count.max(1)).map(|_| None).collect() }
    }

    /// How many slots it folds onto.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The slot of a stream: an id below the slot count is its own, a larger one is hashed.
    pub fn slot_of(&self, stream: u64) -> u32 {
        let count = self.slots.len() as u64;
        if stream < count {
            return stream as u32;
        }
        // The finalizer of SplitMix64: every bit of the id reaches every bit of the hash.
        let mut hash = stream;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((hash ^ (hash >> 31)) % count) as u32
    }

    /// A slot, if it was made; never makes one.
    pub fn try_get(&self, slot: u32) -> Option<&S> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// The same, to change it.
    pub fn try_get_mut(&mut self, slot: u32) -> Option<&mut S> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// A slot, made now if it was not.
    pub fn get_or_make<E>(&mut self, slot: u32, make: impl FnOnce() -> Result<S, E>) -> Result<&mut S, E> {
        let entry = &mut self.slots[slot as usize];
        match entry {
            Some(made) => Ok(made),
            None => Ok(entry.insert(make()?)),
        }
    }

    /// The slots that were made.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &S)> {
        self.slots.iter().enumerate().filter_map(|(slot, made)| Some((slot as u32, made.as_ref()?)))
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut S)> {
        self.slots.iter_mut().enumerate().filter_map(|(slot, made)| Some((slot as u32, made.as_mut()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ids_are_their_own_slot_and_large_ones_spread() {
        let pool = StreamPool::<()>::new(8);
        assert!((0..8).all(|id| pool.slot_of(id) == id as u32));
        let mut hits = [0; 8];
        (8..8008).for_each(|id| hits[pool.slot_of(id) as usize] += 1);
        assert!(hits.iter().all(|n| (800..1200).contains(n)), "{hits:?}");
    }

    #[test]
    fn looking_up_never_makes_a_slot() {
        let mut pool = StreamPool::new(2);
        assert!(pool.try_get(1).is_none());
        pool.get_or_make(1, || Ok::<_, ()>("made")).unwrap();
        assert_eq!(pool.iter().count(), 1);
        assert!(pool.get_or_make(0, || Err::<&str, _>("no")).is_err());
        assert!(pool.try_get(0).is_none());
    }
}
