//! What every launch of a kernel is proven to write of one binding, as a formula of the launch (R9).
//!
//! A backend that can look into its kernels makes the formula when the kernel is made; each launch evaluates it with
//! its grid, its push constants and the sizes of its slices. Evaluation allocates nothing, and whatever it cannot
//! answer without doubt it answers with nothing.

use std::ops::Range;

/// What a launch knows that the kernel did not.
pub struct LaunchFacts<'a> {
    /// Work groups in each dimension.
    pub groups: [u32; 3],
    /// The push constants, as long as the kernel says.
    pub push: &'a [u8],
    /// Bytes of the slice that is bound.
    pub slice_size: u64,
    /// Bytes of the slice at a place of [`KernelInfo::bindings`](super::backend::KernelInfo::bindings), for guards
    /// that ask for the length of an array in another binding.
    pub sizes: &'a dyn Fn(usize) -> Option<u64>,
}

/// The bytes of a binding that every launch writes, whatever its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    formula: Formula,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Formula {
    Whole,
}

impl Coverage {
    /// Every byte of whatever slice is bound.
    pub fn whole() -> Coverage {
        Coverage { formula: Formula::Whole }
    }

    /// The bytes that the launch writes for certain, relative to the start of the slice and inside it; empty if
    /// nothing is proven.
    pub fn covered(&self, facts: &LaunchFacts<'_>) -> Range<u64> {
        if facts.groups.contains(&0) {
            return 0..0;
        }
        match self.formula {
            Formula::Whole => 0..facts.slice_size,
        }
    }
}
