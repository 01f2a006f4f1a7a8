//! Boxes that are used again.
//!
//! What an error carries is too long to be moved through every layer, so it lies in a box; and each thread keeps the last
//! box of a kind that was dropped on it, so that a loop that skips or fails for ever allocates nothing.

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// Where a thread keeps a box that is not in use.
pub type Kept<T> = Cell<Option<Box<T>>>;

/// What can lie in such a box.
pub trait Reused: Default + Clone + 'static {
    /// The box this thread keeps.
    fn kept() -> &'static LocalKey<Kept<Self>>;
    /// Makes it as good as new.
    fn clear(&mut self);
}

/// A box that goes to its thread when it is dropped.
pub struct Spare<T: Reused> {
    /// Nothing only while it is dropped.
    value: Option<Box<T>>,
}

impl<T: Reused> Default for Spare<T> {
    fn default() -> Self {
        let kept = T::kept().try_with(Cell::take).ok().flatten();
        Spare { value: Some(kept.unwrap_or_default()) }
    }
}

impl<T: Reused> Drop for Spare<T> {
    fn drop(&mut self) {
        if let Some(mut value) = self.value.take() {
            value.clear();
            // A thread that is ending keeps nothing.
            let _ = T::kept().try_with(|kept| kept.set(Some(value)));
        }
    }
}

impl<T: Reused> Deref for Spare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("only a dropped one is empty"),
        }
    }
}

impl<T: Reused> DerefMut for Spare<T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("only a dropped one is empty"),
        }
    }
}

impl<T: Reused> Clone for Spare<T> {
    fn clone(&self) -> Self {
        let mut copy = Spare::default();
        T::clone_from(&mut copy, self);
        copy
    }
}

impl<T: Reused + PartialEq> PartialEq for Spare<T> {
    fn eq(&self, other: &Self) -> bool {
        T::eq(self, other)
    }
}

impl<T: Reused + Eq> Eq for Spare<T> {}

impl<T: Reused + fmt::Debug> fmt::Debug for Spare<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Sample(u32);

    thread_local! { static KEPT: Kept<Sample> = const { Cell::new(None) }; }

    impl Reused for Sample {
        fn kept() -> &'static LocalKey<Kept<Sample>> {
            &KEPT
        }
        fn clear(&mut self) {
            self.0 = 0;
        }
    }

    #[test]
    fn a_box_is_used_again_and_as_good_as_new() {
        let mut first = Spare::<Sample>::default();
        first.0 = 7;
        let at = std::ptr::from_ref::<Sample>(&first);
        let copy = first.clone();
        assert_eq!(copy, first);
        drop(first);
        let again = Spare::<Sample>::default();
        assert_eq!((std::ptr::from_ref::<Sample>(&again), &*again), (at, &Sample(0)));
        assert_ne!(copy, again);
    }
}
