//! Room in what grows, made before anything is changed.
//!
//! A list that grows in the middle of a change ends the process when the host has no memory for it. So each call begins
//! by seeing to some room in every list that it may add to. Where there is none the call fails, and the room that is
//! left is for that failure.

use crate::code::Code;
use crate::error::Fault;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// How many elements there is always to be room for, beyond what a call brings along: roots of what one flush refuses,
/// and the like.
pub const SPARE: usize = 64;

/// What can be asked for room.
pub trait Room {
    /// Sees to room for so many more elements.
    fn make_room(&mut self, more: usize) -> Result<(), Fault>;
}

/// The host has no memory.
#[cold]
pub fn no_memory() -> Fault {
    Fault::new(Code::OutOfHostMemory, "the host has no memory for what the library has to remember")
}

macro_rules! room {
    ($(($($generic:tt)*) $type:ty;)*) => { $(
        impl<$($generic)*> Room for $type {
            #[inline]
            fn make_room(&mut self, more: usize) -> Result<(), Fault> {
                if self.capacity() - self.len() >= more { Ok(()) } else { self.try_reserve(more).map_err(|_| no_memory()) }
            }
        }
    )* };
}

room! {
    (T) Vec<T>;
    (T) VecDeque<T>;
    (A: smallvec::Array) SmallVec<A>;
    (K: slotmap::Key, V) slotmap::SlotMap<K, V>;
}

/// Collects as far as the host has memory.
pub fn collect<A: smallvec::Array, E: From<Fault>>(
    items: impl ExactSizeIterator<Item = Result<A::Item, E>>,
) -> Result<SmallVec<A>, E> {
    let mut list = SmallVec::new();
    list.make_room(items.len())?;
    for item in items {
        list.push(item?);
    }
    Ok(list)
}
