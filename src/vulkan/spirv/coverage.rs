//! What a kernel is proven to write of each binding, whatever its data (R9).
//!
//! The proof is a formula ([`Coverage`](crate::stream::coverage::Coverage)) that each launch evaluates. In doubt
//! nothing is proven, and every bound on work ends in nothing proven.
//!
//! **Proven is** a store that every invocation of the grid executes, or every one that passes the guards:
//!
//! - *The index* is a sum of coordinates of the invocation, each times a number, plus a number. Coordinates are the
//!   global invocation id, the work group id, the local invocation id and the local invocation index. Numbers are
//!   constants, specialization constants, push constants of 32 bits, group counts, lengths of arrays, and what integer
//!   arithmetic makes of those. So it may be one-dimensional, row-major over two or three dimensions, reversed, or
//!   counted in groups. A launch covers it if the coordinates leave no gap between elements: two dimensions whose rows
//!   are longer than the grid is wide prove nothing, unless there is one row. A constant index proves its element.
//! - *Guards* compare one coordinate, or a sum over several that moves in step with the index, with a number: `<`,
//!   `<=`, `>`, `>=`, `==`, and `!=` at an end. They may be a branch around the store, a return before it, or both; may be
//!   joined by `&&`, `||`, `!`, `any`, `all`; may be in a function; may be on indices clamped by `min`, `max`, `clamp`
//!   or chosen by `?:`. A guard on numbers only, such as a flag in a push constant, counts by its value in the launch.
//! - *Every path* after the guards passes the store or another of the same bytes: both sides of a branch on data count
//!   together. A loop before the store is passed, as a launch that succeeds has left it. A store in a loop counts if the loop
//!   cannot be entered without it, as in `do`.
//! - *Every byte*: stores of members, of components and of neighbouring elements by one invocation are put together.
//!   What they leave out, padding above all, is a gap.
//! - *Wrapping around*: an index that passes 2^32 (2^31 if it is signed), an index past the end of an array of fixed length
//!   or an element that does not fit in the slice as a whole is not written.
//!
//! It makes no difference whether values pass through local variables, parameters or results of functions, vectors,
//! structures or bit casts between signed and unsigned.
//!
//! **Not proven is** what depends on data: an index or a branch that does, and a store in the body of a loop, which may
//! not be entered; indices of other widths than 32 bits, `x / w` and `x % w` of a coordinate; arrays of buffers; pointers that are
//! chosen.
//!
//! A binding that is loaded as well **is no reader** if each load is dominated by stores to the same bytes by the same
//! invocation: at an index that is the same value, data or not. Another invocation, another variable over the same memory or
//! a missing barrier cannot bring the old bytes back: they may only put newer ones in their place.

mod graph;
mod layout;
mod terms;
mod walk;

use self::terms::{Assumed, Condition, Sum, Term, TermId, Terms};
use self::walk::{Index32, Site, Walk};
use super::constants::Constants;
use super::index::Index;
use crate::stream::coverage::{Affine, Coverage, Guard, MAX_GUARDS, MAX_NUMBERS, MAX_STORES, Number, Step, Store};
use std::collections::HashMap;
use std::rc::Rc;

/// Stores with one form of index that are looked at.
const MAX_SITES: usize = 256;
/// Sets of stores of which it is asked for all of the module whether every path passes one.
const MAX_QUESTIONS: usize = 256;

/// Where a binding is: its descriptor set and its number there.
pub(super) type Place = (u32, u32);

/// What was found of one binding.
#[derive(Default)]
struct Proof {
    stores: Vec<Proven>,
    /// Loads see only what the same invocation stored before.
    sees_own_stores: bool,
}

/// Bytes that are stored where the condition holds.
struct Proven {
    start: i64,
    size: u64,
    /// Indices, with the smallest and largest constant.
    steps: Vec<(Index32, i32, i32)>,
    within: Assumed,
    condition: Condition,
}

/// What was found of all bindings.
pub(super) struct Proofs {
    group_size: [u32; 3],
    terms: Terms,
    places: Vec<Place>,
    proofs: HashMap<Place, Proof>,
}

/// Whether neighbours in a work group leave bytes between them unwritten, in every launch: such a store proves nothing, and
/// a kernel must not be called proven for it.
fn leaves_gaps(store: &Store, numbers: &[Number], group_size: [u32; 3]) -> bool {
    let [step] = &store.steps[..] else { return false };
    (0..3).any(|axis| {
        let others = (0..6).filter(|&other| other != axis + 3 && other != axis);
        let factor = |place: usize| numbers.get(usize::from(step.index.factors[place]));
        let alone = others.map(factor).all(|number| number == Some(&Number::Constant(0)));
        match factor(axis + 3) {
            Some(&Number::Constant(by)) if alone && group_size[axis] > 1 => {
                u64::from((by as i32).unsigned_abs()).saturating_mul(u64::from(step.stride)) > store.size
            }
            _ => false,
        }
    })
}

impl Proofs {
    /// Looks at the kernel. `variables` are its buffers and where they are bound, without arrays of buffers; a place
    /// may have more than one.
    pub(super) fn new(
        index: &Index<'_>,
        constants: &Constants,
        entry: u32,
        group_size: [u32; 3],
        variables: &[(u32, Place)],
    ) -> Proofs {
        let mut places: Vec<Place> = variables.iter().map(|&(_, place)| place).collect();
        places.sort_unstable();
        places.dedup();
        let numbers: HashMap<u32, usize> = variables
            .iter()
            .filter_map(|&(variable, place)| Some((variable, places.binary_search(&place).ok()?)))
            .collect();
        let mut proofs = Proofs { group_size, terms: Terms::new(), places, proofs: HashMap::new() };
        let walk = Walk::new(index, constants, entry, group_size, &numbers, proofs.places.len());
        if let Some(mut walk) = walk {
            let found = Proofs::look(&mut walk, proofs.places.len());
            for (place, proof) in found.into_iter().enumerate() {
                proofs.proofs.insert(proofs.places[place], proof);
            }
            proofs.terms = walk.terms;
        }
        proofs
    }

    /// Whether all that the kernel loads from the binding it has stored before.
    pub(super) fn sees_own_stores(&self, place: Place) -> bool {
        self.proofs.get(&place).is_some_and(|proof| proof.sees_own_stores)
    }

    /// The formula of a binding; `position` says where a binding is in the kernel's list.
    pub(super) fn coverage(&self, place: Place, position: &dyn Fn(Place) -> Option<u32>) -> Option<Coverage> {
        let proof = self.proofs.get(&place)?;
        let mut writer = Writer { proofs: self, position, numbers: Vec::new(), known: HashMap::new() };
        let mut stores = Vec::new();
        for proven in &proof.stores {
            for guards in proven.condition.iter() {
                let (numbers, fits) = (writer.numbers.len(), stores.len() < MAX_STORES);
                match writer.store(proven, guards).filter(|_| fits) {
                    Some(store) => stores.push(store),
                    None => {
                        writer.numbers.truncate(numbers);
                        writer.known.retain(|_, number| usize::from(*number) < numbers);
                    }
                }
            }
        }
        stores.retain(|store| !leaves_gaps(store, &writer.numbers, self.group_size));
        Coverage::new(self.group_size, writer.numbers, stores)
    }

    fn look(walk: &mut Walk<'_, '_>, places: usize) -> Vec<Proof> {
        let mut answers: HashMap<Vec<usize>, Condition> = HashMap::new();
        let stores = std::mem::take(&mut walk.stores);
        let loads = std::mem::take(&mut walk.loads);
        let mut by_form: HashMap<(usize, Form), Vec<&Site>> = HashMap::new();
        for site in &stores {
            by_form.entry((site.place, form(site))).or_default().push(site);
        }
        let mut proofs: Vec<Proof> = (0..places)
            .map(|place| Proof { stores: Vec::new(), sees_own_stores: !walk.unseen && !walk.strange[place] })
            .collect();
        for load in &loads {
            let same = by_form.get(&(load.place, form(load))).map(Vec::as_slice).unwrap_or_default();
            proofs[load.place].sees_own_stores &= same.len() <= MAX_SITES && was_stored(walk, load, same);
        }
        // In the order of the module, so that the same module has the same proof.
        let mut forms: Vec<(usize, Vec<&Site>)> =
            by_form.into_iter().map(|((place, _), sites)| (place, sites)).collect();
        forms.sort_by_key(|(_, sites)| sites.first().map(|site| (walk.graph.place[site.node], site.order)));
        for (place, sites) in forms {
            let opaque = sites[0].steps.iter().any(|step| walk.terms.is_opaque(&step.sum));
            if !opaque && sites.len() <= MAX_SITES {
                prove(walk, &sites, &mut answers, &mut proofs[place].stores);
            }
        }
        proofs
    }
}

/// What stores have in common that can be put together: the indices but for their constants.
type Form = (Vec<(u32, Sum, bool)>, Assumed);

fn form(site: &Site) -> Form {
    (site.steps.iter().map(|step| (step.stride, step.sum, step.signed)).collect(), site.within)
}

/// Where the first byte of a site is if the sums are zero.
fn offset(site: &Site) -> Option<i64> {
    site.steps.iter().try_fold(i64::try_from(site.start).ok()?, |sum, step| {
        sum.checked_add(i64::from(step.constant).checked_mul(i64::from(step.stride))?)
    })
}

/// Whether stores of the same form that every path to the load passes wrote all that it loads.
fn was_stored(walk: &mut Walk<'_, '_>, load: &Site, stores: &[&Site]) -> bool {
    // Of an index that was clamped it is only known what it is where it was not.
    if load.steps.iter().any(|step| step.sum.assumed != 0) {
        return false;
    }
    walk.terms.spend(stores.len());
    if walk.terms.is_spent() {
        return false;
    }
    let Some(at) = offset(load) else { return false };
    let before = |store: &&&Site| match store.node == load.node {
        true => store.order < load.order,
        false => walk.graph.dominates(store.node, load.node),
    };
    // Equal constants only: the indices wrap around, each for itself.
    let same = |store: &&&Site| store.steps.iter().map(|s| s.constant).eq(load.steps.iter().map(|s| s.constant));
    let mut written: Vec<(i64, i64)> = Vec::new();
    for store in stores.iter().filter(before).filter(same) {
        let Some(at) = offset(store) else { return false };
        written.extend(store.pieces.iter().map(|&(start, end)| (at + start as i64, at + end as i64)));
    }
    written.sort_unstable();
    load.pieces.iter().all(|&(start, end)| {
        let (mut reached, end) = (at + start as i64, at + end as i64);
        for &(from, to) in &written {
            if from <= reached {
                reached = reached.max(to);
            }
        }
        reached >= end
    })
}

/// Adds what stores of one form prove together.
fn prove(
    walk: &mut Walk<'_, '_>,
    sites: &[&Site],
    answers: &mut HashMap<Vec<usize>, Condition>,
    proven: &mut Vec<Proven>,
) {
    // Cut at every end of any piece, the bytes between two cuts are stored by some of the sites as a whole.
    let mut pieces: Vec<(i64, i64, usize)> = Vec::new();
    let mut cuts: Vec<i64> = Vec::new();
    for (number, site) in sites.iter().enumerate() {
        let Some(at) = offset(site) else { return };
        for &(start, end) in site.pieces.iter() {
            let (Some(start), Some(end)) = (at.checked_add_unsigned(start), at.checked_add_unsigned(end)) else {
                return;
            };
            pieces.push((start, end, number));
            cuts.extend([start, end]);
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    walk.terms.spend(cuts.len() * pieces.len());
    if walk.terms.is_spent() {
        return;
    }
    let mut runs: Vec<Run> = Vec::new();
    for pair in cuts.windows(2) {
        let &[start, end] = pair else { continue };
        let here: Vec<usize> =
            pieces.iter().filter(|piece| piece.0 <= start && end <= piece.1).map(|piece| piece.2).collect();
        let mut nodes: Vec<usize> = here.iter().map(|&number| sites[number].node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let condition = match answers.get(&nodes) {
            _ if nodes.is_empty() => continue,
            Some(condition) => Rc::clone(condition),
            None if answers.len() >= MAX_QUESTIONS => continue,
            None => {
                let condition = walk.reach(&nodes).unwrap_or_else(|| walk.terms.never());
                answers.insert(nodes, Rc::clone(&condition));
                condition
            }
        };
        if condition.is_empty() {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == start => run.extend(end, condition, &here),
            _ => runs.push(Run { start, end, parts: vec![(start, end, condition)], sites: here }),
        }
    }
    for run in runs {
        let mut all = walk.terms.always();
        for (_, _, condition) in &run.parts {
            all = walk.terms.both(&all, condition);
        }
        let several = run.parts.iter().any(|(_, _, condition)| *condition != all);
        let parts = run.parts.iter().filter(|_| several);
        for (start, end, condition) in [(run.start, run.end, all)].iter().chain(parts) {
            if let Some(proof) = run.proven(sites, *start, *end, condition) {
                proven.push(proof);
            }
        }
    }
}

/// Bytes without a gap, and the parts of it that are stored under one condition.
struct Run {
    start: i64,
    end: i64,
    parts: Vec<(i64, i64, Condition)>,
    sites: Vec<usize>,
}

impl Run {
    fn extend(&mut self, end: i64, condition: Condition, sites: &[usize]) {
        match self.parts.last_mut() {
            Some(last) if last.2 == condition => last.1 = end,
            _ => self.parts.push((self.end, end, condition)),
        }
        self.end = end;
        self.sites.extend(sites);
    }

    fn proven(&self, sites: &[&Site], start: i64, end: i64, condition: &Condition) -> Option<Proven> {
        let mut steps: Vec<(Index32, i32, i32)> =
            sites[*self.sites.first()?].steps.iter().map(|step| (*step, i32::MAX, i32::MIN)).collect();
        for &site in &self.sites {
            for (step, (_, low, high)) in sites[site].steps.iter().zip(&mut steps) {
                *low = (*low).min(step.constant);
                *high = (*high).max(step.constant);
            }
        }
        let size = u64::try_from(end.checked_sub(start)?).ok()?;
        Some(Proven { start, size, steps, within: sites[*self.sites.first()?].within, condition: Rc::clone(condition) })
    }
}

/// Writes what was proven as a formula.
struct Writer<'a> {
    proofs: &'a Proofs,
    position: &'a dyn Fn(Place) -> Option<u32>,
    numbers: Vec<Number>,
    known: HashMap<TermId, u8>,
}

impl Writer<'_> {
    fn store(&mut self, proven: &Proven, guards: &[u32]) -> Option<Store> {
        let terms = &self.proofs.terms;
        let mut all = guards.to_vec();
        all.extend(terms.assumptions(proven.within).iter());
        for (step, _, _) in &proven.steps {
            all.extend(terms.assumptions(step.sum.assumed).iter());
        }
        all.sort_unstable();
        all.dedup();
        if all.len() > MAX_GUARDS {
            return None;
        }
        let mut store = Store { start: proven.start, size: proven.size, steps: Vec::new(), guards: Vec::new() };
        for (step, low, high) in &proven.steps {
            let index = self.affine(&step.sum)?;
            store.steps.push(Step { index, stride: step.stride, low: *low, high: *high, signed: step.signed });
        }
        for guard in all {
            let guard = terms.guard(guard);
            let (value, bound) = (self.affine(&guard.value)?, self.number(guard.bound)?);
            store.guards.push(Guard { value, compare: guard.compare, bound, signed: guard.signed });
        }
        Some(store)
    }

    fn affine(&mut self, sum: &Sum) -> Option<Affine> {
        let mut affine = Affine { factors: [0; 6], offset: 0 };
        for (factor, &term) in affine.factors.iter_mut().zip(&sum.factors) {
            *factor = self.number(term)?;
        }
        affine.offset = self.number(sum.offset)?;
        if sum.constant != 0 {
            let constant = self.add(Number::Constant(sum.constant))?;
            affine.offset = match sum.offset {
                terms::ZERO => constant,
                _ => self.add(Number::Compute(crate::stream::coverage::Operation::Add, affine.offset, constant))?,
            };
        }
        Some(affine)
    }

    fn add(&mut self, number: Number) -> Option<u8> {
        let place = self.numbers.iter().position(|&other| other == number).unwrap_or(self.numbers.len());
        if place == self.numbers.len() {
            if place >= MAX_NUMBERS {
                return None;
            }
            self.numbers.push(number);
        }
        u8::try_from(place).ok()
    }

    /// A number's place, after those it is made of.
    fn number(&mut self, term: TermId) -> Option<u8> {
        let mut open = vec![term];
        while let Some(&next) = open.last() {
            if self.known.contains_key(&next) {
                open.pop();
                continue;
            }
            let number = match self.proofs.terms.get(next) {
                Term::Constant(value) => Number::Constant(value),
                Term::Push(at) => Number::Push(at),
                Term::Groups(axis) => Number::Groups(axis),
                Term::Length { place, offset, stride } => {
                    let binding = (self.position)(*self.proofs.places.get(place as usize)?)?;
                    Number::Length { binding, offset, stride }
                }
                Term::Compute(operation, a, b) => match (self.known.get(&a), self.known.get(&b)) {
                    (Some(&a), Some(&b)) => Number::Compute(operation, a, b),
                    // One path down is no longer than the numbers that fit.
                    _ if open.len() > 2 * MAX_NUMBERS => return None,
                    _ => {
                        open.extend([a, b]);
                        continue;
                    }
                },
                Term::Opaque(_) | Term::Mixed(..) => return None,
            };
            let place = self.add(number)?;
            self.known.insert(next, place);
            open.pop();
        }
        self.known.get(&term).copied()
    }
}
