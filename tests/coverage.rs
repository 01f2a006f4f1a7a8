//! What a formula says is written is compared with the grid run through one invocation after the other.

use proptest::prelude::*;
use std::ops::Range;
use tidegate::stream::coverage::{
    Affine, Compare, Coverage, Guard, LaunchFacts, Number, Operation, Step, Store, compute,
};

/// A formula in the terms of the model.
#[derive(Clone, Debug)]
struct Formula {
    group_size: [u32; 3],
    numbers: Vec<Number>,
    stores: Vec<Store>,
}

#[derive(Clone, Debug)]
struct Facts {
    groups: [u32; 3],
    push: Vec<u8>,
    slice_size: u64,
    other: u64,
}

fn covered(formula: &Formula, facts: &Facts) -> Range<u64> {
    let coverage = Coverage::new(formula.group_size, formula.numbers.clone(), formula.stores.clone()).unwrap();
    let sizes = |binding: usize| [Some(facts.slice_size), Some(facts.other)].get(binding).copied().flatten();
    let Facts { groups, ref push, slice_size, .. } = *facts;
    coverage.covered(&LaunchFacts { groups, push, slice_size, sizes: &sizes })
}

/// The bytes of the slice that the grid writes.
fn model(formula: &Formula, facts: &Facts) -> Vec<bool> {
    let mut bytes = vec![false; facts.slice_size as usize];
    let mut numbers: Vec<Option<u32>> = Vec::new();
    for number in &formula.numbers {
        numbers.push(match *number {
            Number::Constant(value) => Some(value),
            Number::Push(at) => {
                facts.push.get(at as usize..at as usize + 4).map(|four| u32::from_le_bytes(four.try_into().unwrap()))
            }
            Number::Groups(axis) => Some(facts.groups[axis as usize]),
            Number::Length { binding, offset, stride } => {
                let size = if binding == 0 { facts.slice_size } else { facts.other };
                Some((size.saturating_sub(offset.into()) / u64::from(stride)) as u32)
            }
            Number::Compute(operation, a, b) => {
                numbers[a as usize].zip(numbers[b as usize]).and_then(|(a, b)| compute(operation, a, b))
            }
        });
    }
    let coordinates = |extent: [u32; 3]| {
        (0..extent[2]).flat_map(move |z| (0..extent[1]).flat_map(move |y| (0..extent[0]).map(move |x| [x, y, z])))
    };
    for group in coordinates(facts.groups) {
        for local in coordinates(formula.group_size) {
            let at = [group[0], group[1], group[2], local[0], local[1], local[2]];
            let sum = |affine: &Affine| {
                affine.factors.iter().zip(at).try_fold(numbers[affine.offset as usize]?, |sum, (&factor, at)| {
                    Some(sum.wrapping_add(numbers[factor as usize]?.wrapping_mul(at)))
                })
            };
            let meets = |guard: &Guard| {
                let (a, b) = (sum(&guard.value)?, numbers[guard.bound as usize]?);
                let (a, b) = match guard.signed {
                    true => (i64::from(a as i32), i64::from(b as i32)),
                    false => (i64::from(a), i64::from(b)),
                };
                Some(match guard.compare {
                    Compare::Less => a < b,
                    Compare::LessOrEqual => a <= b,
                    Compare::Greater => a > b,
                    Compare::GreaterOrEqual => a >= b,
                    Compare::Equal => a == b,
                    Compare::NotEqual => a != b,
                })
            };
            for store in &formula.stores {
                if store.guards.iter().all(|guard| meets(guard) == Some(true)) {
                    let place = store.steps.iter().try_fold(i128::from(store.start), |place, step| {
                        Some(place + i128::from(sum(&step.index)?) * i128::from(step.stride))
                    });
                    let Some(place) = place.filter(|&place| place >= 0) else { continue };
                    // What does not fit is left out as a whole.
                    if place + i128::from(store.size) <= i128::from(facts.slice_size) {
                        bytes[place as usize..place as usize + store.size as usize].fill(true);
                    }
                }
            }
        }
    }
    bytes
}

fn longest_run(bytes: &[bool]) -> usize {
    bytes.split(|&byte| !byte).map(<[bool]>::len).max().unwrap_or(0)
}

fn any_compare() -> impl Strategy<Value = Compare> {
    use Compare::*;
    prop::sample::select(vec![Less, LessOrEqual, Greater, GreaterOrEqual, Equal, NotEqual])
}

fn any_operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop::sample::select(vec![Add, Subtract, Multiply, UnsignedDivide, UnsignedMin, UnsignedRemainder, ShiftLeft, Or])
}

fn any_value() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0u32..9, 1 => Just(u32::MAX), 1 => Just(1 << 31), 1 => (-5i32..0).prop_map(|v| v as u32), 1 => any::<u32>()]
}

fn any_facts() -> impl Strategy<Value = Facts> {
    (prop::array::uniform3(1u32..5), prop::collection::vec(any_value(), 4), 0u64..200, 0u64..100).prop_map(
        |(groups, push, slice_size, other)| Facts {
            groups,
            push: push.iter().flat_map(|value| value.to_le_bytes()).collect(),
            slice_size,
            other,
        },
    )
}

/// Formulas of every form, most of which no kernel has. Half of the sums are the same one, or join groups and places.
fn any_formula() -> impl Strategy<Value = Formula> {
    let number = (0u8..6, any_value(), any_operation(), any::<[prop::sample::Index; 2]>());
    let numbers = prop::collection::vec(number, 1..8).prop_map(|made| {
        let mut numbers = vec![Number::Constant(0), Number::Constant(1)];
        for (kind, value, operation, at) in made {
            let at = at.map(|at| at.index(numbers.len()) as u8);
            numbers.push(match kind {
                0 | 1 => Number::Constant(value),
                2 => Number::Push(value % 4 * 4),
                3 => Number::Groups((value % 3) as u8),
                4 => Number::Length { binding: value & 1, offset: value % 4, stride: 1 + value % 5 },
                _ => Number::Compute(operation, at[0], at[1]),
            });
        }
        numbers
    });
    let sum = || (prop::array::uniform6(any::<prop::sample::Index>()), any::<prop::sample::Index>(), 0u8..64);
    let step = (sum(), 1u32..9, any::<bool>());
    let guard = (sum(), any_compare(), any::<prop::sample::Index>(), any::<bool>(), any::<bool>());
    let store = (0i64..8, 1u64..9, prop::collection::vec(step, 0..3), prop::collection::vec(guard, 0..4));
    (prop::array::uniform3(1u32..5), numbers, prop::collection::vec(store, 1..4)).prop_map(
        |(group_size, mut numbers, stores)| {
            let base = numbers.len();
            let sizes = numbers.len() as u8;
            numbers.extend(group_size.map(Number::Constant));
            let sum = |(factors, offset, shape): ([prop::sample::Index; 6], prop::sample::Index, u8)| {
                let mut sum = Affine {
                    factors: factors.map(|factor| factor.index(base) as u8),
                    offset: offset.index(base) as u8,
                };
                for axis in 0..3 {
                    match shape >> (2 * axis) & 3 {
                        0 => (sum.factors[axis], sum.factors[axis + 3]) = (0, 0),
                        1 => (sum.factors[axis], sum.factors[axis + 3]) = (sizes + axis as u8, 1),
                        2 => sum.factors[axis] = 0,
                        _ => {}
                    }
                }
                sum
            };
            let stores = stores.into_iter().map(|(start, size, steps, guards)| {
                let steps: Vec<Step> = steps
                    .into_iter()
                    .map(|(index, stride, signed)| Step { index: sum(index), stride, low: 0, high: 0, signed })
                    .collect();
                let guards = guards.into_iter().map(|(value, compare, bound, signed, same)| {
                    let bound = bound.index(base) as u8;
                    let value = match steps.first() {
                        Some(step) if same => step.index,
                        _ => sum(value),
                    };
                    Guard { value, compare, bound, signed }
                });
                Store { start, size, guards: guards.collect(), steps }
            });
            Formula { group_size, stores: stores.collect(), numbers }
        },
    )
}

/// Row-major stores over three dimensions as kernels have them: extents `w` and `h`, guards on each coordinate or on
/// the index.
#[derive(Clone, Debug)]
struct Rows {
    formula: Formula,
    facts: Facts,
}

fn any_rows() -> impl Strategy<Value = Rows> {
    let shape = (prop::array::uniform3(1u32..5), prop::array::uniform3(1u32..5), 1u32..9, 1u32..7, 0u32..4, 0u32..200);
    (shape, 1u32..5, 0u64..400, 0u8..4, any::<bool>()).prop_map(
        |((group_size, groups, w, h, offset, n), bytes, slice_size, guarded, signed)| {
            let push = [w, h, offset, n];
            let [size_x, size_y, size_z] = group_size.map(Number::Constant);
            use Operation::Multiply;
            let numbers = vec![
                Number::Constant(0),
                Number::Constant(1),
                Number::Push(0),
                Number::Push(4),
                Number::Push(8),
                Number::Push(12),
                size_x,
                size_y,
                size_z,
                Number::Compute(Multiply, 2, 3),
                Number::Compute(Multiply, 2, 7),
                Number::Compute(Multiply, 9, 8),
            ];
            let index = Affine { factors: [6, 10, 11, 1, 2, 9], offset: 0 };
            let x = Affine { factors: [6, 0, 0, 1, 0, 0], offset: 0 };
            let y = Affine { factors: [0, 7, 0, 0, 1, 0], offset: 0 };
            let less = |value, bound| Guard { value, compare: Compare::Less, bound, signed };
            let guards = match guarded {
                0 => vec![],
                1 => vec![less(index, 5)],
                2 => vec![less(x, 2), less(y, 3)],
                _ => vec![less(y, 3), less(index, 5), less(x, 2)],
            };
            let step = Step { index: Affine { offset: 4, ..index }, stride: bytes, low: 0, high: 0, signed };
            let store = Store { start: 3, size: bytes.into(), steps: vec![step], guards };
            Rows {
                formula: Formula { group_size, numbers, stores: vec![store] },
                facts: Facts {
                    groups,
                    push: push.iter().flat_map(|value| value.to_le_bytes()).collect(),
                    slice_size,
                    other: 0,
                },
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn nothing_is_covered_that_the_grid_does_not_write(formula in any_formula(), facts in any_facts()) {
        let range = covered(&formula, &facts);
        let bytes = model(&formula, &facts);
        prop_assert!(range.start <= range.end && range.end <= facts.slice_size);
        let written = &bytes[range.start as usize..range.end as usize];
        prop_assert!(written.iter().all(|&byte| byte), "{range:?} of {bytes:?}");
    }

    #[test]
    fn all_is_covered_that_the_grid_writes_row_by_row(Rows { formula, facts } in any_rows()) {
        let range = covered(&formula, &facts);
        let bytes = model(&formula, &facts);
        prop_assert!(bytes[range.start as usize..range.end as usize].iter().all(|&byte| byte));
        // With a gap nothing is covered, and without one all.
        let written = bytes.iter().filter(|&&byte| byte).count();
        let exact = if longest_run(&bytes) == written { written } else { 0 };
        let length = (range.end - range.start) as usize;
        // Rows that the end of the slice or a guard cuts away may have had the only gap.
        prop_assert!(length == exact || length == 0 && written <= longest_run(&model(&formula, &Facts { slice_size: 4000, ..facts.clone() })), "{} of {}", length, exact);
    }
}

/// The bytes that the usual kernel covers: groups of 64, elements of 4 bytes, as many as a push constant says.
#[track_caller]
fn usual(groups: u32, count: u32, slice_size: u64, expected: Range<u64>) {
    let coverage = Coverage::elements(64, 4, Some(0)).unwrap();
    let facts = LaunchFacts { groups: [groups, 1, 1], push: &count.to_le_bytes(), slice_size, sizes: &|_| None };
    assert_eq!(coverage.covered(&facts), expected);
}

#[test]
fn the_usual_kernel_covers_what_grid_guard_and_slice_leave() {
    usual(2, 1000, 4096, 0..512);
    usual(16, 1000, 4096, 0..4000);
    usual(16, 2000, 4096, 0..4096);
    usual(16, 2000, 4095, 0..4092);
    usual(16, 0, 4096, 0..0);
    usual(0, 1000, 4096, 0..0);
    usual(16, 1000, 3, 0..0);
}

#[test]
fn hostile_numbers_cover_nothing() {
    let coverage = Coverage::elements(64, 4, None).unwrap();
    let covered =
        |groups, slice_size| coverage.covered(&LaunchFacts { groups, push: &[], slice_size, sizes: &|_| None });
    // The id itself wraps around.
    assert_eq!(covered([1 << 27, 1, 1], u64::MAX), 0..0);
    assert_eq!(covered([u32::MAX; 3], u64::MAX), 0..0);
    assert_eq!(covered([(1 << 26) - 1, 1, 1], u64::MAX), 0..(1 << 34) - 256);
    // Push constants that are missing.
    let coverage = Coverage::elements(64, 4, Some(u32::MAX)).unwrap();
    let facts = LaunchFacts { groups: [1; 3], push: &[0; 3], slice_size: 4, sizes: &|_| None };
    assert_eq!(coverage.covered(&facts), 0..0);
}
