//! What every launch of a kernel is proven to write of one binding, as a formula of the launch (R9).
//!
//! A backend that can look into its kernels makes the formula when the kernel is made; each launch evaluates it with
//! its grid, its push constants and the sizes of its slices. Evaluation allocates nothing, and whatever it cannot
//! answer without doubt it answers with nothing.
//!
//! A formula is a list of [`Store`]s. Each stands for the invocations of the whole grid that pass all of its guards,
//! and for the bytes that every one of them stores. The byte is an affine function of the invocation: its work group
//! and its place in the group, each in three dimensions, times numbers that the launch decides. Numbers are computed
//! like the kernel computes them, modulo 2^32. A sum over invocations that passes 2^32 would land elsewhere, so it
//! proves nothing.

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
    /// that ask for the length of an array, be it in this binding or in another.
    pub sizes: &'a dyn Fn(usize) -> Option<u64>,
}

/// The bytes of a binding that every launch writes, whatever its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage(Formula);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Formula {
    Whole,
    Stores { group_size: [u32; 3], numbers: Box<[Number]>, stores: Box<[Store]> },
}

/// A number that is the same for all invocations of a launch. Others name it by its place in the formula's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// Known when the kernel is made.
    Constant(u32),
    /// Four bytes of the push constants, from this one on.
    Push(u32),
    /// Work groups in a dimension.
    Groups(u8),
    /// Elements of the array that ends a binding.
    Length {
        /// The place of the binding in the kernel's list.
        binding: u32,
        /// Bytes before the array.
        offset: u32,
        /// Bytes from one element to the next.
        stride: u32,
    },
    /// An operation on two numbers before this one.
    Compute(Operation, u8, u8),
}

/// What is computed with numbers of 32 bits, modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Operation {
    Add,
    Subtract,
    Multiply,
    UnsignedDivide,
    SignedDivide,
    UnsignedRemainder,
    SignedRemainder,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    And,
    Or,
    Xor,
    UnsignedMin,
    UnsignedMax,
    SignedMin,
    SignedMax,
}

/// A sum over an invocation's coordinates, by places in the list of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Affine {
    /// What the coordinates are multiplied by: work group x, y, z, then the invocation in its group x, y, z.
    pub factors: [u8; 6],
    /// What is added.
    pub offset: u8,
}

/// How a guard compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Compare {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// A condition that an invocation must meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// What is compared.
    pub value: Affine,
    /// How.
    pub compare: Compare,
    /// The number it is compared with.
    pub bound: u8,
    /// Both sides are read as signed.
    pub signed: bool,
}

/// An index into an array, which counts elements of `stride` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The index, but for a constant that differs between the bytes of one [`Store`].
    pub index: Affine,
    /// Bytes of an element.
    pub stride: u32,
    /// The smallest constant that an index adds.
    pub low: i32,
    /// The largest.
    pub high: i32,
    /// The index is signed, so it ends before 2^31.
    pub signed: bool,
}

/// Bytes that every invocation stores that meets the guards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Where the bytes begin if every index is zero. The constants of the indices count in here.
    pub start: i64,
    /// How many bytes, without a gap.
    pub size: u64,
    /// The indices.
    pub steps: Vec<Step>,
    /// What an invocation must meet, all of it.
    pub guards: Vec<Guard>,
}

/// The most numbers of one formula.
pub const MAX_NUMBERS: usize = 64;
/// The most stores of one formula.
pub const MAX_STORES: usize = 16;
/// The most guards of one store.
pub const MAX_GUARDS: usize = 16;
/// The most indices of one store.
pub const MAX_STEPS: usize = 4;

impl Coverage {
    /// Every byte of whatever slice is bound.
    pub fn whole() -> Coverage {
        Coverage(Formula::Whole)
    }

    /// What these stores write in groups of this size; nothing if the formula is not well-formed, or proves nothing.
    pub fn new(group_size: [u32; 3], numbers: Vec<Number>, stores: Vec<Store>) -> Option<Coverage> {
        let count = numbers.len();
        let sum = |sum: &Affine| sum.factors.iter().chain([&sum.offset]).all(|&place| usize::from(place) < count);
        let store = |store: &Store| {
            store.size > 0
                && store.steps.len() <= MAX_STEPS
                && store.guards.len() <= MAX_GUARDS
                && store.steps.iter().all(|step| sum(&step.index) && step.stride > 0)
                && store.guards.iter().all(|guard| sum(&guard.value) && usize::from(guard.bound) < count)
        };
        let number = |(place, number): (usize, &Number)| match *number {
            Number::Compute(_, a, b) => usize::from(a.max(b)) < place,
            Number::Groups(dimension) => dimension < 3,
            Number::Length { stride, .. } => stride > 0,
            Number::Constant(_) | Number::Push(_) => true,
        };
        let fits = count <= MAX_NUMBERS && !stores.is_empty() && stores.len() <= MAX_STORES;
        let fine = fits && !group_size.contains(&0) && numbers.iter().enumerate().all(number);
        (fine && stores.iter().all(store))
            .then(|| Coverage(Formula::Stores { group_size, numbers: numbers.into(), stores: stores.into() }))
    }

    /// The usual kernel: invocation `i` of one dimension stores element `i`, if it is less than the push constant at
    /// the byte `count`.
    pub fn elements(group_size: u32, bytes: u32, count: Option<u32>) -> Option<Coverage> {
        let mut numbers = vec![Number::Constant(0), Number::Constant(1), Number::Constant(group_size)];
        let index = Affine { factors: [2, 0, 0, 1, 0, 0], offset: 0 };
        let guard = |_| Guard { value: index, compare: Compare::Less, bound: 3, signed: false };
        numbers.extend(count.map(Number::Push));
        let step = Step { index, stride: bytes, low: 0, high: 0, signed: false };
        let guards = count.map(guard).into_iter().collect();
        let store = Store { start: 0, size: u64::from(bytes), steps: vec![step], guards };
        Coverage::new([group_size, 1, 1], numbers, vec![store])
    }

    /// The bytes that the launch writes for certain, relative to the start of the slice and inside it; empty if
    /// nothing is proven.
    pub fn covered(&self, facts: &LaunchFacts<'_>) -> Range<u64> {
        if facts.groups.contains(&0) {
            return 0..0;
        }
        match &self.0 {
            Formula::Whole => 0..facts.slice_size,
            Formula::Stores { group_size, numbers, stores } => {
                let numbers = Numbers::new(numbers, facts);
                if let [store] = &**stores {
                    return store.written(&numbers, *group_size, facts).unwrap_or(0..0);
                }
                let mut found = [(0, 0); MAX_STORES];
                let mut count = 0;
                for range in stores.iter().filter_map(|store| store.written(&numbers, *group_size, facts)) {
                    if let Some(place) = found.get_mut(count) {
                        *place = (range.start, range.end);
                        count += 1;
                    }
                }
                longest(found.get_mut(..count).unwrap_or_default())
            }
        }
    }
}

/// The longest range without a gap that ranges cover together.
fn longest(ranges: &mut [(u64, u64)]) -> Range<u64> {
    ranges.sort_unstable();
    let (mut best, mut open) = (0..0, 0..0);
    for &mut (start, end) in ranges {
        match start <= open.end && open.start < open.end {
            true => open.end = open.end.max(end),
            false => open = start..end,
        }
        if open.end - open.start > best.end - best.start {
            best = open.clone();
        }
    }
    best
}

/// The numbers of a formula for one launch.
struct Numbers {
    values: [u32; MAX_NUMBERS],
    /// A bit for each that could be computed.
    known: u64,
}

impl Numbers {
    #[inline]
    fn new(list: &[Number], facts: &LaunchFacts<'_>) -> Numbers {
        let mut numbers = Numbers { values: [0; MAX_NUMBERS], known: 0 };
        for (place, number) in list.iter().enumerate().take(MAX_NUMBERS) {
            let value = match *number {
                Number::Constant(value) => Some(value),
                Number::Push(offset) => {
                    facts.push.get(offset as usize..).and_then(<[u8]>::first_chunk).copied().map(u32::from_le_bytes)
                }
                Number::Groups(dimension) => facts.groups.get(usize::from(dimension)).copied(),
                Number::Length { binding, offset, stride } => (facts.sizes)(binding as usize)
                    .and_then(|size| size.checked_sub(u64::from(offset))?.checked_div(u64::from(stride)))
                    .and_then(|count| u32::try_from(count).ok()),
                Number::Compute(operation, a, b) => {
                    numbers.get(a).zip(numbers.get(b)).and_then(|(a, b)| compute(operation, a, b))
                }
            };
            if let Some(value) = value {
                numbers.values[place] = value;
                numbers.known |= 1 << place;
            }
        }
        numbers
    }

    #[inline]
    fn get(&self, place: u8) -> Option<u32> {
        let value = *self.values.get(usize::from(place))?;
        (self.known >> place & 1 == 1).then_some(value)
    }
}

/// An operation as a kernel does it; nothing where its result is undefined.
pub fn compute(operation: Operation, a: u32, b: u32) -> Option<u32> {
    let (signed_a, signed_b) = (a as i32, b as i32);
    Some(match operation {
        Operation::Add => a.wrapping_add(b),
        Operation::Subtract => a.wrapping_sub(b),
        Operation::Multiply => a.wrapping_mul(b),
        Operation::UnsignedDivide => a.checked_div(b)?,
        Operation::SignedDivide => signed_a.checked_div(signed_b)? as u32,
        Operation::UnsignedRemainder => a.checked_rem(b)?,
        // What a negative operand gives, drivers do not agree on.
        Operation::SignedRemainder if signed_a < 0 || signed_b <= 0 => return None,
        Operation::SignedRemainder => a % b,
        Operation::ShiftLeft => a.checked_shl(b)?,
        Operation::ShiftRight => a.checked_shr(b)?,
        Operation::ShiftRightSigned => signed_a.checked_shr(b)? as u32,
        Operation::And => a & b,
        Operation::Or => a | b,
        Operation::Xor => a ^ b,
        Operation::UnsignedMin => a.min(b),
        Operation::UnsignedMax => a.max(b),
        Operation::SignedMin => signed_a.min(signed_b) as u32,
        Operation::SignedMax => signed_a.max(signed_b) as u32,
    })
}

/// The coordinates of the invocations that are left: first and last in each of six dimensions. Where the work group
/// and the place in it count only together, the first of the two stands for both.
struct Grid {
    low: [i64; 6],
    high: [i64; 6],
    joined: [bool; 3],
}

/// What a launch makes of an [`Affine`].
#[derive(Clone, Copy)]
struct Sum {
    factors: [i64; 6],
    offset: u32,
}

/// The values that lie between two, both included.
#[derive(Clone, Copy)]
struct Span {
    low: i64,
    high: i64,
}

impl Grid {
    fn new(
        groups: [u32; 3],
        size: [u32; 3],
        sums: impl Iterator<Item = Affine> + Clone,
        numbers: &Numbers,
    ) -> Option<Grid> {
        let mut grid = Grid { low: [0; 6], high: [0; 6], joined: [false; 3] };
        for axis in 0..3 {
            let (count, size) = (groups[axis], size[axis]);
            grid.high[axis] = i64::from(count) - 1;
            grid.high[axis + 3] = i64::from(size) - 1;
            if count == 1 || size == 1 {
                continue;
            }
            let mut joined = true;
            for sum in sums.clone() {
                let (group, local) = (numbers.get(sum.factors[axis])?, numbers.get(sum.factors[axis + 3])?);
                joined &= group == local.wrapping_mul(size);
            }
            if joined {
                let together = u64::from(count) * u64::from(size);
                grid.high[axis] = i64::from(u32::try_from(together - 1).ok()?);
                grid.high[axis + 3] = 0;
                grid.joined[axis] = true;
            }
        }
        Some(grid)
    }

    #[inline]
    fn sum(&self, affine: Affine, numbers: &Numbers) -> Option<Sum> {
        let mut sum = Sum { factors: [0; 6], offset: numbers.get(affine.offset)? };
        for axis in 0..3 {
            let (group, local) = (numbers.get(affine.factors[axis])?, numbers.get(affine.factors[axis + 3])?);
            let group = if self.joined[axis] { local } else { group };
            sum.factors[axis] = i64::from(group as i32);
            sum.factors[axis + 3] = i64::from(local as i32);
        }
        Some(sum)
    }

    /// The values of a sum without its offset.
    #[inline]
    fn span(&self, sum: &Sum) -> Option<Span> {
        let mut span = Span { low: 0, high: 0 };
        for axis in 0..6 {
            let factor = sum.factors[axis];
            if factor != 0 {
                let ends = (factor.checked_mul(self.low[axis])?, factor.checked_mul(self.high[axis])?);
                span.low = span.low.checked_add(ends.0.min(ends.1))?;
                span.high = span.high.checked_add(ends.0.max(ends.1))?;
            }
        }
        Some(span)
    }

    /// The offset of a sum, read in the way that keeps all its values between two.
    #[inline]
    fn offset(&self, sum: &Sum, window: (i64, i64)) -> Option<(i64, Span)> {
        within(sum.offset, self.span(sum)?, window)
    }

    /// Dimensions in which a sum varies, and one of them.
    #[inline]
    fn varies(&self, sum: &Sum) -> (u32, usize) {
        (0..6).fold((0, 0), |found, axis| match sum.factors[axis] != 0 && self.low[axis] < self.high[axis] {
            true => (found.0 + 1, axis),
            false => found,
        })
    }
}

/// An offset, read as unsigned or else as signed, so that what it is added to stays between two values.
#[inline]
fn within(offset: u32, span: Span, (least, most): (i64, i64)) -> Option<(i64, Span)> {
    [i64::from(offset), i64::from(offset as i32)].into_iter().find_map(|offset| {
        let values = Span { low: span.low.checked_add(offset)?, high: span.high.checked_add(offset)? };
        (least <= values.low && values.high <= most).then_some((offset, values))
    })
}

/// What becomes of a guard.
enum Meeting {
    /// The grid has only invocations that meet it.
    Met,
    /// No invocation meets it.
    Never,
    /// It cannot be understood, or not yet.
    Unclear,
    /// It compares a sum over several dimensions.
    Several,
}

impl Guard {
    /// The values that meet the guard.
    fn allowed(&self, bound: i64) -> Option<Span> {
        let (least, most) = (i64::MIN / 4, i64::MAX / 4);
        let (low, high) = match self.compare {
            Compare::Less => (least, bound - 1),
            Compare::LessOrEqual => (least, bound),
            Compare::Greater => (bound + 1, most),
            Compare::GreaterOrEqual => (bound, most),
            Compare::Equal => (bound, bound),
            Compare::NotEqual => return None,
        };
        Some(Span { low, high })
    }

    /// What the values lie between.
    fn window(&self) -> (i64, i64) {
        match self.signed {
            true => (i64::from(i32::MIN), i64::from(i32::MAX)),
            false => (0, i64::from(u32::MAX)),
        }
    }

    fn bound(&self, numbers: &Numbers) -> Option<i64> {
        let bound = numbers.get(self.bound)?;
        Some(if self.signed { i64::from(bound as i32) } else { i64::from(bound) })
    }

    /// Leaves only the invocations that meet the guard, if they are those between two coordinates.
    fn narrow(&self, grid: &mut Grid, numbers: &Numbers) -> Option<Meeting> {
        let sum = grid.sum(self.value, numbers)?;
        let bound = self.bound(numbers)?;
        let (count, axis) = grid.varies(&sum);
        let Some((_, values)) = grid.offset(&sum, self.window()) else { return Some(Meeting::Unclear) };
        if count > 1 {
            return Some(self.narrow_several(grid, &sum, values, bound));
        }
        let Some(allowed) = self.allowed(bound) else {
            // Only an end can be left out.
            if bound < values.low || bound > values.high {
                return Some(Meeting::Met);
            }
            if count == 0 {
                return Some(Meeting::Never);
            }
            let ascending = sum.factors[axis] > 0;
            match bound {
                _ if bound == values.low && ascending || bound == values.high && !ascending => grid.low[axis] += 1,
                _ if bound == values.low || bound == values.high => grid.high[axis] -= 1,
                _ if (bound - values.low) % sum.factors[axis] != 0 => {}
                _ => return Some(Meeting::Unclear),
            }
            return Some(Meeting::Met);
        };
        if count == 0 {
            let met = allowed.low <= values.low && values.low <= allowed.high;
            return Some(if met { Meeting::Met } else { Meeting::Never });
        }
        // What the other dimensions add, which is one value.
        let factor = sum.factors[axis];
        let rest = match factor > 0 {
            true => values.low - factor * grid.low[axis],
            false => values.low - factor * grid.high[axis],
        };
        let (first, last) = match factor > 0 {
            true => (ceiling(allowed.low - rest, factor), floor(allowed.high - rest, factor)),
            false => (ceiling(rest - allowed.high, -factor), floor(rest - allowed.low, -factor)),
        };
        grid.low[axis] = grid.low[axis].max(first);
        grid.high[axis] = grid.high[axis].min(last);
        Some(if grid.low[axis] <= grid.high[axis] { Meeting::Met } else { Meeting::Never })
    }
}

impl Guard {
    /// The same for a sum over several dimensions, of which only the first and the last value name one invocation.
    fn narrow_several(&self, grid: &mut Grid, sum: &Sum, values: Span, bound: i64) -> Meeting {
        let Some(allowed) = self.allowed(bound) else {
            let outside = bound < values.low || bound > values.high;
            return if outside { Meeting::Met } else { Meeting::Several };
        };
        let (low, high) = (allowed.low.max(values.low), allowed.high.min(values.high));
        if low > high {
            return Meeting::Never;
        }
        if (low, high) == (values.low, values.high) {
            return Meeting::Met;
        }
        if low != high || (low != values.low && low != values.high) {
            return Meeting::Several;
        }
        for axis in (0..6).filter(|&axis| sum.factors[axis] != 0) {
            match (sum.factors[axis] > 0) == (low == values.low) {
                true => grid.high[axis] = grid.low[axis],
                false => grid.low[axis] = grid.high[axis],
            }
        }
        Meeting::Met
    }
}

#[inline]
fn floor(a: i64, b: i64) -> i64 {
    a.div_euclid(b)
}

#[inline]
fn ceiling(a: i64, b: i64) -> i64 {
    -(-a).div_euclid(b)
}

impl Store {
    /// The bytes that the store writes, if they are known and without a gap.
    fn written(&self, numbers: &Numbers, group_size: [u32; 3], facts: &LaunchFacts<'_>) -> Option<Range<u64>> {
        let sums = self.steps.iter().map(|step| step.index).chain(self.guards.iter().map(|guard| guard.value));
        let mut grid = Grid::new(facts.groups, group_size, sums, numbers)?;

        let mut open = (1u32 << self.guards.len()) - 1;
        let mut several = 0u32;
        // A guard may be clear only after another has left out what it would wrap around for.
        let mut before = 0;
        while open != before {
            before = open;
            several = 0;
            for (place, guard) in self.guards.iter().enumerate().filter(|&(place, _)| before >> place & 1 == 1) {
                match guard.narrow(&mut grid, numbers)? {
                    Meeting::Met => open &= !(1 << place),
                    Meeting::Never => return None,
                    Meeting::Unclear => {}
                    Meeting::Several => several |= 1 << place,
                }
            }
        }
        if open != several {
            return None;
        }

        // By how many bytes each dimension moves the store.
        let mut moves = [0i64; 6];
        for step in &self.steps {
            let index = grid.sum(step.index, numbers)?;
            for (by, factor) in moves.iter_mut().zip(index.factors) {
                *by = by.checked_add(factor.checked_mul(i64::from(step.stride))?)?;
            }
        }
        let mut dimensions = [(0i64, 0i64); 6];
        let mut used = 0;
        for axis in (0..6).filter(|&axis| moves[axis] != 0 && grid.low[axis] < grid.high[axis]) {
            dimensions[used] = (moves[axis].checked_abs()?, grid.high[axis] - grid.low[axis]);
            used += 1;
        }
        let dimensions = &mut dimensions[..used];
        if used > 1 {
            dimensions.sort_unstable();
        }

        // Together the dimensions must count without a gap, each in units of the smallest.
        let size = i64::try_from(self.size).ok()?;
        let unit = dimensions.first().map_or(size, |&(by, _)| by);
        if unit > size {
            return None;
        }
        let mut count = 1i64;
        for &(by, more) in &*dimensions {
            if by % unit != 0 || by / unit > count {
                return None;
            }
            count = count.checked_add((by / unit).checked_mul(more)?)?;
        }
        let mut kept = Span { low: 0, high: count - 1 };
        for (_, guard) in self.guards.iter().enumerate().filter(|&(place, _)| several >> place & 1 == 1) {
            let allowed = self.positions(guard, &grid, &moves, unit, numbers)?;
            kept = Span { low: kept.low.max(allowed.low), high: kept.high.min(allowed.high) };
        }
        if kept.low > kept.high {
            return None;
        }

        // Where the first position is; no index of a position that is kept may wrap around.
        let mut first = self.start;
        for step in &self.steps {
            let index = grid.sum(step.index, numbers)?;
            let stride = i64::from(step.stride);
            let span = grid.span(&index)?;
            // The index of a lone step moves with the position.
            let indices = match self.steps.len() == 1 && unit % stride == 0 {
                true => Span {
                    low: span.low.checked_add(kept.low.checked_mul(unit / stride)?)?,
                    high: span.low.checked_add(kept.high.checked_mul(unit / stride)?)?,
                },
                false => span,
            };
            let most = if step.signed { i64::from(i32::MAX) } else { i64::from(u32::MAX) };
            let room = (-i64::from(step.low), most - i64::from(step.high));
            let offset = within(index.offset, indices, room)?.0;
            first = first.checked_add(offset.checked_mul(stride)?)?;
        }
        for (by, (low, high)) in moves.iter().zip(grid.low.iter().zip(grid.high)) {
            first = first.checked_add(by.checked_mul(if *by < 0 { high } else { *low })?)?;
        }

        // A store that does not fit in the slice as a whole may be left out as a whole.
        let room = i64::try_from(facts.slice_size).unwrap_or(i64::MAX).checked_sub(first)?.checked_sub(size)?;
        kept.high = kept.high.min(floor(room, unit));
        let start = first.checked_add(kept.low.checked_mul(unit)?)?;
        if start < 0 || kept.low > kept.high {
            return None;
        }
        let end = first.checked_add(kept.high.checked_mul(unit)?)?.checked_add(size)?;
        Some(u64::try_from(start).ok()?..u64::try_from(end).ok()?)
    }

    /// The positions, counted in units from the first byte, that a guard over several dimensions lets through. It can
    /// be told from the position only if it moves in step with it.
    fn positions(&self, guard: &Guard, grid: &Grid, moves: &[i64; 6], unit: i64, numbers: &Numbers) -> Option<Span> {
        let sum = grid.sum(guard.value, numbers)?;
        let (_, values) = grid.offset(&sum, guard.window())?;
        let varying = || (0..6).filter(|&axis| grid.low[axis] < grid.high[axis]);
        let axis = varying().find(|&axis| sum.factors[axis] != 0)?;
        // One step of the guard's sum, in bytes.
        let (by, factor) = (moves[axis], sum.factors[axis]);
        if by == 0 || by % factor != 0 {
            return None;
        }
        let stride = by / factor;
        if !varying().all(|axis| sum.factors[axis].checked_mul(stride) == Some(moves[axis])) || unit % stride != 0 {
            return None;
        }
        let each = unit / stride.abs();
        let allowed = guard.allowed(guard.bound(numbers)?)?;
        Some(match stride > 0 {
            true => Span { low: ceiling(allowed.low - values.low, each), high: floor(allowed.high - values.low, each) },
            // The first byte belongs to the largest sum.
            false => {
                Span { low: ceiling(values.high - allowed.high, each), high: floor(values.high - allowed.low, each) }
            }
        })
    }
}
