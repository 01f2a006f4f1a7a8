//! Numbers, sums and conditions as the kernel computes them, each kept once.
//!
//! A number is the same for every invocation, or it is opaque: data, a loop's counter, anything that is not understood.
//! Opaque numbers prove nothing, but two uses of one are known to be equal. A sum is a number for each coordinate of
//! an invocation and one more. Sums are exact modulo 2^32, as all of the kernel's arithmetic is. None of them changes
//! while an invocation runs, so they mean the same wherever they are used.

use crate::stream::coverage::{Compare, Operation, compute};
use std::collections::HashMap;
use std::rc::Rc;

/// A number's place in [`Terms`].
pub(super) type TermId = u32;
pub(super) const ZERO: TermId = 0;
pub(super) const ONE: TermId = 1;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Term {
    Constant(u32),
    Push(u32),
    Groups(u8),
    /// Elements of the array that ends the binding with this number in the analysis.
    Length {
        place: u32,
        offset: u32,
        stride: u32,
    },
    Compute(Operation, TermId, TermId),
    Opaque(u32),
    /// An operation on two sums that gives no sum; by its number in SPIR-V and the places of the sums.
    Mixed(u32, u32, u32),
}

/// A set of guards that must be met for what is known of a value; the empty one is 0.
pub(super) type Assumed = u32;

/// A sum over an invocation's coordinates: group x, y, z, place in the group x, y, z.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Sum {
    pub(super) factors: [TermId; 6],
    pub(super) offset: TermId,
    pub(super) constant: u32,
    pub(super) assumed: Assumed,
}

impl Sum {
    pub(super) fn constant(value: u32) -> Sum {
        Sum { factors: [ZERO; 6], offset: ZERO, constant: value, assumed: 0 }
    }

    pub(super) fn term(term: TermId) -> Sum {
        Sum { offset: term, ..Sum::constant(0) }
    }

    /// The same for every invocation, or opaque.
    pub(super) fn is_number(&self) -> bool {
        self.factors == [ZERO; 6]
    }

    /// Its value, if that holds in every invocation and not only where something is assumed.
    pub(super) fn as_constant(&self) -> Option<u32> {
        (self.assumed == 0 && self.is_number() && self.offset == ZERO).then_some(self.constant)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Guard {
    pub(super) value: Sum,
    pub(super) compare: Compare,
    pub(super) bound: TermId,
    pub(super) signed: bool,
}

/// Guards by their places, ascending; all must be met.
type All = Vec<u32>;

/// Invocations that meet all guards of one of these lists: an empty list of lists is none of them, one empty list all.
/// Where not everything is known these are fewer than there really are, never more.
pub(super) type Condition = Rc<Vec<All>>;

/// When a truth value is known to be true, and when false.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Truth {
    pub(super) yes: Condition,
    pub(super) no: Condition,
}

/// More alternatives than this are dropped.
const MAX_ALTERNATIVES: usize = 8;
/// Alternatives with more guards than this are dropped.
const MAX_TOGETHER: usize = 12;
/// What all operations together may take; counted in guards looked at.
const MAX_WORK: usize = 1 << 24;

pub(super) struct Terms {
    terms: Vec<Term>,
    opaque: Vec<bool>,
    term_ids: HashMap<Term, TermId>,
    sums: Vec<Sum>,
    sum_ids: HashMap<Sum, u32>,
    guards: Vec<Guard>,
    guard_ids: HashMap<Guard, u32>,
    assumed: Vec<Rc<All>>,
    assumed_ids: HashMap<Rc<All>, Assumed>,
    never: Condition,
    always: Condition,
    next_opaque: u32,
    work: usize,
}

impl Terms {
    pub(super) fn new() -> Terms {
        let mut terms = Terms {
            terms: Vec::new(),
            opaque: Vec::new(),
            term_ids: HashMap::new(),
            sums: Vec::new(),
            sum_ids: HashMap::new(),
            guards: Vec::new(),
            guard_ids: HashMap::new(),
            assumed: Vec::new(),
            assumed_ids: HashMap::new(),
            never: Rc::new(Vec::new()),
            always: Rc::new(vec![Vec::new()]),
            next_opaque: 0,
            work: MAX_WORK,
        };
        terms.constant(0);
        terms.constant(1);
        terms.assume(Vec::new());
        terms
    }

    /// Counts work; when there has been too much of it, everything is given up.
    pub(super) fn spend(&mut self, amount: usize) {
        self.work = self.work.saturating_sub(amount);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.work == 0
    }

    pub(super) fn get(&self, term: TermId) -> Term {
        self.terms[term as usize]
    }

    pub(super) fn guard(&self, guard: u32) -> Guard {
        self.guards[guard as usize]
    }

    pub(super) fn assumptions(&self, assumed: Assumed) -> Rc<Vec<u32>> {
        Rc::clone(&self.assumed[assumed as usize])
    }

    pub(super) fn term(&mut self, term: Term) -> TermId {
        if let Some(&id) = self.term_ids.get(&term) {
            return id;
        }
        self.spend(8);
        let id = self.terms.len() as TermId;
        let opaque = match term {
            Term::Opaque(_) | Term::Mixed(..) => true,
            Term::Compute(_, a, b) => self.opaque[a as usize] || self.opaque[b as usize],
            _ => false,
        };
        self.terms.push(term);
        self.opaque.push(opaque);
        self.term_ids.insert(term, id);
        id
    }

    pub(super) fn constant(&mut self, value: u32) -> TermId {
        self.term(Term::Constant(value))
    }

    /// A number of which nothing is known.
    pub(super) fn fresh(&mut self) -> Sum {
        self.next_opaque += 1;
        let term = self.term(Term::Opaque(self.next_opaque));
        Sum::term(term)
    }

    fn known(&self, term: TermId) -> Option<u32> {
        match self.terms[term as usize] {
            Term::Constant(value) => Some(value),
            _ => None,
        }
    }

    fn compute(&mut self, operation: Operation, a: TermId, b: TermId) -> TermId {
        use Operation::{Add, Multiply, ShiftLeft, Subtract};
        let folded = self.known(a).zip(self.known(b)).and_then(|(a, b)| compute(operation, a, b));
        match (operation, self.known(a), self.known(b)) {
            _ if folded.is_some() => self.constant(folded.unwrap_or(0)),
            (Add, Some(0), _) | (Multiply, Some(1), _) => b,
            (Add | Subtract | ShiftLeft, _, Some(0)) | (Multiply, _, Some(1)) => a,
            (Multiply, Some(0), _) | (Multiply, _, Some(0)) => ZERO,
            (Add | Multiply, ..) => self.term(Term::Compute(operation, a.min(b), a.max(b))),
            _ => self.term(Term::Compute(operation, a, b)),
        }
    }

    /// A sum that is no more than a number, as one.
    pub(super) fn number(&mut self, sum: &Sum) -> TermId {
        let constant = self.constant(sum.constant);
        self.compute(Operation::Add, sum.offset, constant)
    }

    /// Brings what is constant of the offset to where constants are.
    fn settled(&self, mut sum: Sum) -> Sum {
        if let Some(value) = self.known(sum.offset) {
            sum.constant = sum.constant.wrapping_add(value);
            sum.offset = ZERO;
        }
        sum
    }

    /// Whether any number of the sum is opaque.
    pub(super) fn is_opaque(&self, sum: &Sum) -> bool {
        sum.factors.iter().chain([&sum.offset]).any(|&term| self.opaque[term as usize])
    }

    pub(super) fn add(&mut self, a: &Sum, b: &Sum, operation: Operation) -> Sum {
        let mut sum = Sum::constant(compute(operation, a.constant, b.constant).unwrap_or(0));
        for axis in 0..6 {
            sum.factors[axis] = self.compute(operation, a.factors[axis], b.factors[axis]);
        }
        sum.offset = self.compute(operation, a.offset, b.offset);
        sum.assumed = self.assume_both(a.assumed, b.assumed);
        self.settled(sum)
    }

    pub(super) fn multiply(&mut self, a: &Sum, b: &Sum) -> Option<Sum> {
        let (varying, number) = match (a.is_number(), b.is_number()) {
            (_, true) => (a, b),
            (true, false) => (b, a),
            (false, false) => return None,
        };
        let by = self.number(number);
        let constant = self.constant(varying.constant);
        let constant = self.compute(Operation::Multiply, constant, by);
        let offset = self.compute(Operation::Multiply, varying.offset, by);
        let mut sum = Sum::constant(0);
        sum.offset = self.compute(Operation::Add, offset, constant);
        for axis in 0..6 {
            sum.factors[axis] = self.compute(Operation::Multiply, varying.factors[axis], by);
        }
        sum.assumed = self.assume_both(a.assumed, b.assumed);
        Some(self.settled(sum))
    }

    /// An operation that two numbers make another of.
    pub(super) fn operate(&mut self, operation: Operation, a: &Sum, b: &Sum) -> Option<Sum> {
        if !a.is_number() || !b.is_number() {
            return None;
        }
        let (left, right) = (self.number(a), self.number(b));
        let term = self.compute(operation, left, right);
        let mut sum = self.settled(Sum::term(term));
        sum.assumed = self.assume_both(a.assumed, b.assumed);
        Some(sum)
    }

    /// The result of an operation that gives no sum. The same operation on the same sums gives the same, unless what
    /// the sums are is only assumed.
    pub(super) fn mixed(&mut self, operation: u32, a: &Sum, b: &Sum) -> Sum {
        if a.assumed != 0 || b.assumed != 0 {
            return self.fresh();
        }
        let places = [a, b].map(|sum| match self.sum_ids.get(sum) {
            Some(&id) => id,
            None => {
                let id = self.sums.len() as u32;
                self.sums.push(*sum);
                self.sum_ids.insert(*sum, id);
                id
            }
        });
        Sum::term(self.term(Term::Mixed(operation, places[0], places[1])))
    }

    fn assume(&mut self, guards: All) -> Assumed {
        if let Some(&id) = self.assumed_ids.get(&guards) {
            return id;
        }
        self.spend(guards.len() + 8);
        let (id, guards) = (self.assumed.len() as Assumed, Rc::new(guards));
        self.assumed.push(Rc::clone(&guards));
        self.assumed_ids.insert(guards, id);
        id
    }

    fn assume_both(&mut self, a: Assumed, b: Assumed) -> Assumed {
        match (a, b) {
            (0, other) | (other, 0) => other,
            _ if a == b => a,
            _ => {
                let both = union(&self.assumed[a as usize], &self.assumed[b as usize]);
                self.assume(both)
            }
        }
    }

    /// The sum where the truth holds; nothing if that takes alternatives.
    pub(super) fn assuming(&mut self, sum: Sum, truth: &Truth) -> Option<Sum> {
        let [guards] = truth.yes.as_slice() else { return None };
        let guards = self.assume(guards.clone());
        Some(Sum { assumed: self.assume_both(sum.assumed, guards), ..sum })
    }

    fn guard_id(&mut self, guard: Guard) -> u32 {
        if let Some(&id) = self.guard_ids.get(&guard) {
            return id;
        }
        self.spend(8);
        let id = self.guards.len() as u32;
        self.guards.push(guard);
        self.guard_ids.insert(guard, id);
        id
    }

    /// What a comparison of two sums says, if one of them is a number.
    pub(super) fn compare(&mut self, compare: Compare, a: &Sum, b: &Sum, signed: bool) -> Truth {
        let (value, number, compare) = match (a.is_number(), b.is_number()) {
            (_, true) => (a, b, compare),
            (true, false) => (b, a, mirrored(compare)),
            (false, false) => return self.unknown(),
        };
        if self.is_opaque(a) || self.is_opaque(b) {
            return self.unknown();
        }
        let bound = self.number(number);
        let assumed = self.assume_both(a.assumed, b.assumed);
        let assumed = Rc::new(vec![self.assumptions(assumed).to_vec()]);
        let value = Sum { assumed: 0, ..*value };
        if let Some((a, b)) = value.as_constant().zip(self.known(bound)) {
            let truth = self.certain(holds(compare, a, b, signed));
            return Truth { yes: self.both(&truth.yes, &assumed), no: self.both(&truth.no, &assumed) };
        }
        let yes = self.guard_id(Guard { value, compare, bound, signed });
        let no = self.guard_id(Guard { value, compare: opposite(compare), bound, signed });
        let [yes, no] = [yes, no].map(|guard| Rc::new(vec![vec![guard]]));
        Truth { yes: self.both(&yes, &assumed), no: self.both(&no, &assumed) }
    }

    pub(super) fn never(&self) -> Condition {
        Rc::clone(&self.never)
    }

    pub(super) fn always(&self) -> Condition {
        Rc::clone(&self.always)
    }

    pub(super) fn unknown(&self) -> Truth {
        Truth { yes: self.never(), no: self.never() }
    }

    pub(super) fn certain(&self, value: bool) -> Truth {
        match value {
            true => Truth { yes: self.always(), no: self.never() },
            false => Truth { yes: self.never(), no: self.always() },
        }
    }

    pub(super) fn not(&self, a: &Truth) -> Truth {
        Truth { yes: Rc::clone(&a.no), no: Rc::clone(&a.yes) }
    }

    pub(super) fn and(&mut self, a: &Truth, b: &Truth) -> Truth {
        Truth { yes: self.both(&a.yes, &b.yes), no: self.either(&a.no, &b.no) }
    }

    pub(super) fn or(&mut self, a: &Truth, b: &Truth) -> Truth {
        Truth { yes: self.either(&a.yes, &b.yes), no: self.both(&a.no, &b.no) }
    }

    pub(super) fn equal(&mut self, a: &Truth, b: &Truth) -> Truth {
        let not_b = self.not(b);
        self.choose(a, b, &not_b)
    }

    /// `yes` where the condition holds, else `no`.
    pub(super) fn choose(&mut self, condition: &Truth, yes: &Truth, no: &Truth) -> Truth {
        Truth { yes: self.branch(condition, &yes.yes, &no.yes), no: self.branch(condition, &yes.no, &no.no) }
    }

    /// What holds after a choice of which one side leads to `yes`, the other to `no`; where the condition is not
    /// known, what both lead to.
    pub(super) fn branch(&mut self, condition: &Truth, yes: &Condition, no: &Condition) -> Condition {
        if yes == no {
            return Rc::clone(yes);
        }
        let first = self.both(&condition.yes, yes);
        let second = self.both(&condition.no, no);
        let both = self.both(yes, no);
        let either = self.either(&first, &second);
        self.either(&either, &both)
    }

    pub(super) fn both(&mut self, a: &Condition, b: &Condition) -> Condition {
        if a.is_empty() || **b == *self.always {
            return Rc::clone(a);
        }
        if b.is_empty() || **a == *self.always || a == b {
            return Rc::clone(b);
        }
        let mut made = Vec::new();
        for first in a.iter() {
            for second in b.iter() {
                made.push(union(first, second));
            }
        }
        self.reduced(made)
    }

    pub(super) fn either(&mut self, a: &Condition, b: &Condition) -> Condition {
        if a.is_empty() || a == b || **b == *self.always {
            return Rc::clone(b);
        }
        if b.is_empty() || **a == *self.always {
            return Rc::clone(a);
        }
        self.reduced(a.iter().chain(b.iter()).cloned().collect())
    }

    /// Without alternatives that others include, and without those that are too many.
    fn reduced(&mut self, mut all: Vec<All>) -> Condition {
        all.sort_unstable_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        let mut kept: Vec<All> = Vec::new();
        for one in all {
            self.spend(1 + one.len() * (1 + kept.len()));
            let included = kept.iter().any(|other| other.iter().all(|guard| one.binary_search(guard).is_ok()));
            if !included && one.len() <= MAX_TOGETHER && kept.len() < MAX_ALTERNATIVES {
                kept.push(one);
            }
        }
        Rc::new(kept)
    }
}

fn union(a: &[u32], b: &[u32]) -> All {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    all
}

fn mirrored(compare: Compare) -> Compare {
    match compare {
        Compare::Less => Compare::Greater,
        Compare::LessOrEqual => Compare::GreaterOrEqual,
        Compare::Greater => Compare::Less,
        Compare::GreaterOrEqual => Compare::LessOrEqual,
        same => same,
    }
}

fn opposite(compare: Compare) -> Compare {
    match compare {
        Compare::Less => Compare::GreaterOrEqual,
        Compare::LessOrEqual => Compare::Greater,
        Compare::Greater => Compare::LessOrEqual,
        Compare::GreaterOrEqual => Compare::Less,
        Compare::Equal => Compare::NotEqual,
        Compare::NotEqual => Compare::Equal,
    }
}

fn holds(compare: Compare, a: u32, b: u32, signed: bool) -> bool {
    let (a, b) = match signed {
        true => (i64::from(a as i32), i64::from(b as i32)),
        false => (i64::from(a), i64::from(b)),
    };
    match compare {
        Compare::Less => a < b,
        Compare::LessOrEqual => a <= b,
        Compare::Greater => a > b,
        Compare::GreaterOrEqual => a >= b,
        Compare::Equal => a == b,
        Compare::NotEqual => a != b,
    }
}
