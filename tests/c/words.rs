//! The kernels of the tests that run random programs, and the same in Rust for their models.

use crate::host::model::Stores;
use tidegate::failure::Access;

/// A kernel's work groups are so large.
pub const GROUP: u64 = 16;

/// The kernels; what each does is in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    Affine,
    Mix,
    InPlace,
    Store,
    Scatter,
    Split,
    Guarded,
    Picked,
    Row,
}

pub const ALL: [Words; 9] = [
    Words::Affine,
    Words::Mix,
    Words::InPlace,
    Words::Store,
    Words::Scatter,
    Words::Split,
    Words::Guarded,
    Words::Picked,
    Words::Row,
];

impl Words {
    pub fn code(self) -> &'static [u8] {
        match self {
            Words::Affine => include_bytes!("../data/oracle/affine.spv"),
            Words::Mix => include_bytes!("../data/oracle/mix.spv"),
            Words::InPlace => include_bytes!("../data/oracle/in_place.spv"),
            Words::Store => include_bytes!("../data/oracle/store.spv"),
            Words::Scatter => include_bytes!("../data/oracle/scatter.spv"),
            Words::Split => include_bytes!("../data/oracle/split.spv"),
            Words::Guarded => include_bytes!("../data/oracle/guarded.spv"),
            Words::Picked => include_bytes!("../data/oracle/picked.spv"),
            Words::Row => include_bytes!("../data/oracle/row.spv"),
        }
    }

    /// What the module says of each binding; of a write it proves which bytes a launch writes.
    pub fn inferred(self) -> &'static [Access] {
        match self {
            Words::Affine | Words::Guarded => &[Access::Read, Access::Write],
            Words::Picked => &[Access::Read, Access::MayWrite],
            Words::Mix => &[Access::Read, Access::Read, Access::Write],
            Words::InPlace => &[Access::ReadWrite],
            Words::Store | Words::Scatter | Words::Row => &[Access::Write],
            Words::Split => &[Access::Read, Access::Write, Access::Write],
        }
    }

    /// What it does with each binding; nothing where `extra` says it.
    pub fn truth(self) -> &'static [Access] {
        match self {
            Words::Scatter => &[Access::MayWrite],
            Words::Row => &[Access::None],
            other => other.inferred(),
        }
    }

    /// Bytes from the start of a slice of so many that a launch writes for certain, if it writes the binding.
    pub fn proven(self, size: u64, groups: [u32; 3], push: [u32; 2]) -> u64 {
        let guard = if self == Words::Guarded { u64::from(push[0]) } else { u64::MAX };
        (size / 4).min(u64::from(groups[0]) * GROUP).min(guard) * 4
    }
}

impl Stores for Words {
    fn run(
        &self,
        sizes: &[u64],
        push: &[u8],
        groups: [u32; 3],
        load: &mut dyn FnMut(usize, u64) -> Option<u8>,
    ) -> Vec<(usize, u64, Option<u8>)> {
        let pushed = |at: usize| u32::from_le_bytes([push[at], push[at + 1], push[at + 2], push[at + 3]]);
        let (k, b) = (pushed(0), pushed(4));
        let length = |binding: usize| sizes[binding] / 4;
        // Invocation i has the word i, where there are so many.
        let reached = |binding: usize| length(binding).min(u64::from(groups[0]) * GROUP);
        let mut word = |binding: usize, at: u64| -> Option<u32> {
            let at = at % length(binding) * 4;
            let bytes: Option<Vec<u8>> = (at..at + 4).map(|at| load(binding, at)).collect();
            bytes.map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        let scaled = |word: Option<u32>| word.map(|word| word.wrapping_mul(k));
        let added = |word: Option<u32>, more: u32| word.map(|word| word.wrapping_add(more));
        let mut stores: Vec<(usize, u64, Option<u32>)> = Vec::new();
        match self {
            Words::Affine => (0..reached(1)).for_each(|i| stores.push((1, i, added(scaled(word(0, i)), b)))),
            Words::Guarded => {
                (0..reached(1).min(u64::from(k))).for_each(|i| stores.push((1, i, added(word(0, i), b))));
            }
            Words::Picked => {
                for i in 0..reached(0) {
                    match word(0, i) {
                        Some(at) => stores.push((1, u64::from(at) % length(1), Some(b))),
                        // It may be any of them.
                        None => (0..length(1)).for_each(|at| stores.push((1, at, None))),
                    }
                }
            }
            Words::Mix => {
                for i in 0..reached(2) {
                    let sum = scaled(word(0, i)).zip(word(1, i)).map(|(x, y)| x.wrapping_add(y));
                    stores.push((2, i, added(sum, b)));
                }
            }
            Words::InPlace => (0..reached(0)).for_each(|i| stores.push((0, i, added(scaled(word(0, i)), b)))),
            Words::Store => (0..reached(0)).for_each(|i| stores.push((0, i, Some(b)))),
            Words::Scatter => {
                let strided = (0..length(0)).step_by(k as usize).take((u64::from(groups[0]) * GROUP) as usize);
                strided.for_each(|i| stores.push((0, i, Some(b))));
            }
            Words::Split => {
                (0..reached(1)).for_each(|i| stores.push((1, i, scaled(word(0, i)))));
                (0..reached(2)).for_each(|i| stores.push((2, i, added(word(0, i), b))));
            }
            Words::Row => {
                let row = (0..4).filter(|i| u64::from(k) + i < length(0));
                row.for_each(|i| stores.push((0, u64::from(k) + i, Some(b.wrapping_add(i as u32)))));
            }
        }
        let bytes = |(binding, at, word): (usize, u64, Option<u32>)| {
            (0..4).map(move |i| (binding, at * 4 + i, word.map(|word| word.to_le_bytes()[i as usize])))
        };
        stores.into_iter().flat_map(bytes).collect()
    }
}
