//! One walk over the graph, which learns what every value is as far as it is a sum or a truth of sums.
//!
//! Each node is visited once, after its predecessors. What a loop changes is opaque inside it. Local variables are
//! followed by the paths that lead to a use, as compilers leave parameters and plain variables in them.

use super::super::constants::Constants;
use super::super::index::Index;
use super::super::parse::{id_at, literal_at, string_at};
use super::graph::{End, Graph};
use super::layout::{Footprint, Layout, Matrix, integer, matrix_of};
use super::terms::{Assumed, Condition, Sum, Term, TermId, Terms, Truth};
use crate::stream::coverage::{Compare, Operation};
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{BuiltIn, Decoration, Op, StorageClass};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// Members of a value that are followed one by one.
const MAX_PARTS: usize = 16;
/// Levels of members that are followed.
const MAX_PATH: usize = 4;
/// Blocks between a choice and the place where both its sides meet again.
const MAX_MEETING: usize = 64;

#[derive(Clone, PartialEq, Debug)]
enum Value {
    Sum(Sum),
    Truth(Rc<Truth>),
    Pointer(Rc<Pointer>),
    Parts(Rc<[Value]>),
    /// What lies behind a pointer to push constants.
    Pushed(Rc<Pointer>),
    /// Anything else; the same number is the same value.
    Opaque(TermId),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Root {
    Input(BuiltIn),
    Push,
    /// The binding with this number.
    Buffer(usize),
    /// A variable of one call, or of all.
    Local(u32),
    /// Memory that no binding of one buffer shares.
    Elsewhere,
}

/// An index: the bytes of an element, the sum without its constant, the constant, and whether it is signed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Index32 {
    pub(super) stride: u32,
    pub(super) sum: Sum,
    pub(super) constant: i32,
    pub(super) signed: bool,
}

#[derive(Clone, PartialEq, Debug)]
struct Pointer {
    root: Root,
    /// What the variable holds.
    root_type: u32,
    ty: u32,
    /// In a buffer or push constants: bytes before what is pointed at, but for the indices.
    start: u64,
    steps: Vec<Index32>,
    /// What keeps the indices inside arrays.
    within: Assumed,
    matrix: Option<Matrix>,
    /// Members, in a local variable or an input.
    path: Vec<u32>,
    /// Where in the variable it points is not known.
    lost: bool,
}

/// A load from a buffer or a store to it.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) place: usize,
    pub(super) node: usize,
    /// Sites of a node are in order.
    pub(super) order: usize,
    pub(super) start: u64,
    pub(super) steps: Vec<Index32>,
    pub(super) within: Assumed,
    pub(super) pieces: Footprint,
}

/// Values of local variables, as far as they are known.
type State = BTreeMap<u32, Value>;

/// What is learnt.
pub(super) struct Walk<'i, 'a> {
    index: &'i Index<'a>,
    constants: &'i Constants,
    group_size: [u32; 3],
    layout: Layout,
    /// Variables of buffers, and the numbers of their bindings.
    places: &'i HashMap<u32, usize>,
    pub(super) graph: Graph,
    pub(super) terms: Terms,
    values: HashMap<(u32, u32), Value>,
    globals: HashMap<u32, Value>,
    conditions: Vec<Option<Truth>>,
    walked: Vec<bool>,
    /// What local variables hold where a node ends, as long as a node after it is not walked.
    states: Vec<Option<Rc<State>>>,
    /// How many nodes after each one are not walked.
    waiting: Vec<usize>,
    /// The local variable behind a pointer, by instance and id.
    roots: HashMap<(u32, u32), u32>,
    private: HashMap<u32, u32>,
    locals: u32,
    /// For nodes that lead to each other: the local variables that any of them may change.
    changed_in_loop: Vec<Rc<Vec<u32>>>,
    glsl: HashSet<u32>,
    pub(super) stores: Vec<Site>,
    pub(super) loads: Vec<Site>,
    /// Bindings that are used in a way that is neither.
    pub(super) strange: Vec<bool>,
    /// Something is loaded from an unknown place.
    pub(super) unseen: bool,
}

impl<'i, 'a> Walk<'i, 'a> {
    /// Walks the whole graph; nothing if it is too large, or does what is not understood.
    pub(super) fn new(
        index: &'i Index<'a>,
        constants: &'i Constants,
        entry: u32,
        group_size: [u32; 3],
        places: &'i HashMap<u32, usize>,
        bindings: usize,
    ) -> Option<Walk<'i, 'a>> {
        let graph = Graph::new(index, entry)?;
        let nodes = graph.nodes.len();
        let imports = index.global.iter().filter(|i| i.class.opcode == Op::ExtInstImport);
        let glsl = imports.filter(|i| string_at(i, 0) == Some("GLSL.std.450")).filter_map(|i| i.result_id).collect();
        let mut walk = Walk {
            index,
            constants,
            group_size,
            layout: Layout::new(index, constants),
            places,
            graph,
            terms: Terms::new(),
            values: HashMap::new(),
            globals: HashMap::new(),
            conditions: vec![None; nodes],
            walked: vec![false; nodes],
            states: vec![None; nodes],
            waiting: vec![0; nodes],
            roots: HashMap::new(),
            private: HashMap::new(),
            locals: 0,
            changed_in_loop: Vec::new(),
            glsl,
            stores: Vec::new(),
            loads: Vec::new(),
            strange: vec![false; bindings],
            unseen: false,
        };
        walk.find_changes()?;
        for &node in &walk.graph.order {
            for &before in walk.graph.predecessors[node]
                .iter()
                .filter(|&&before| walk.graph.place[before] < walk.graph.place[node])
            {
                walk.waiting[before] += 1;
            }
        }
        for at in 0..walk.graph.order.len() {
            walk.visit(walk.graph.order[at])?;
            if walk.terms.is_spent() {
                return None;
            }
        }
        Some(walk)
    }

    /// Which local variables each loop may change, before anything is known of values.
    fn find_changes(&mut self) -> Option<()> {
        let index = self.index;
        for &variable in &index.variables {
            if let Some((StorageClass::Private, _)) = index.points_to(variable) {
                self.private.insert(variable, self.locals);
                self.locals += 1;
            }
        }
        for instance in 0..self.graph.instances.len() as u32 {
            let (function, call) =
                (self.graph.instances[instance as usize].function, self.graph.instances[instance as usize].call);
            if let Some((caller, place)) = call {
                let call = index.parsed.instructions.get(place)?;
                for (position, &parameter) in index.functions.get(&function)?.parameters.iter().enumerate() {
                    if let Some(root) = id_at(call, position + 1).and_then(|given| self.root(caller, given)) {
                        self.roots.insert((instance, parameter), root);
                    }
                }
            }
            for instruction in index.body(function) {
                let Some(result) = instruction.result_id else { continue };
                let root = match instruction.class.opcode {
                    Op::Variable => {
                        self.locals += 1;
                        Some(self.locals - 1)
                    }
                    Op::AccessChain | Op::InBoundsAccessChain | Op::CopyObject => {
                        id_at(instruction, 0).and_then(|base| self.root(instance, base))
                    }
                    _ => None,
                };
                if let Some(root) = root {
                    self.roots.insert((instance, result), root);
                }
            }
        }
        let mut changes: Vec<Vec<u32>> = vec![Vec::new(); self.graph.nodes.len()];
        for &node in &self.graph.order {
            let instance = self.graph.nodes[node].instance;
            for instruction in index.parsed.instructions.get(self.graph.nodes[node].body.clone())? {
                use Op::{AccessChain, CopyObject, InBoundsAccessChain, Load};
                if !matches!(instruction.class.opcode, Load | AccessChain | InBoundsAccessChain | CopyObject) {
                    let named = instruction.operands.iter().filter_map(Operand::id_ref_any);
                    changes[node].extend(named.filter_map(|id| self.root(instance, id)));
                }
                if let (Op::Variable, Some(id)) = (instruction.class.opcode, instruction.result_id) {
                    changes[node].extend(self.root(instance, id));
                }
            }
        }
        let nothing = Rc::new(Vec::new());
        let mut changed: Vec<Rc<Vec<u32>>> = self.graph.nodes.iter().map(|_| Rc::clone(&nothing)).collect();
        self.graph.backwards(&|_| false, &mut |together| {
            if together.len() > 1 || self.graph.nodes[together[0]].successors.contains(&together[0]) {
                let mut all: Vec<u32> = together.iter().flat_map(|&node| changes[node].iter().copied()).collect();
                all.sort_unstable();
                all.dedup();
                let all = Rc::new(all);
                together.iter().for_each(|&node| changed[node] = Rc::clone(&all));
            }
            Some(())
        })?;
        self.changed_in_loop = changed;
        Some(())
    }

    fn root(&self, instance: u32, id: u32) -> Option<u32> {
        self.roots.get(&(instance, id)).or_else(|| self.private.get(&id)).copied()
    }

    fn visit(&mut self, node: usize) -> Option<()> {
        let mut state = self.enter(node);
        let instance = self.graph.nodes[node].instance;
        if self.graph.nodes[node].first {
            self.bind_parameters(instance)?;
        }
        if let Some((child, place)) = self.graph.nodes[node].after {
            let returned: Vec<(usize, Option<u32>)> = self.graph.predecessors[node]
                .iter()
                .map(|&from| match self.graph.nodes[from].end {
                    End::Return(value) => (from, value),
                    _ => (from, None),
                })
                .collect();
            let mut values = Vec::new();
            for (from, value) in returned {
                let value = match value {
                    Some(value) if self.walked[from] => Some(self.value(child, value)),
                    _ => None,
                };
                values.push((from, value));
            }
            let result = self.index.parsed.instructions.get(place)?.result_id?;
            let value = self.merge(node, &values)?;
            self.values.insert((instance, result), value);
        }
        let index = self.index;
        for (order, place) in self.graph.nodes[node].body.clone().enumerate() {
            let instruction = index.parsed.instructions.get(place)?;
            self.terms.spend(1 + instruction.operands.len() / 8);
            self.step(node, instance, order, instruction, &mut state)?;
            if self.terms.is_spent() {
                return None;
            }
        }
        match self.graph.nodes[node].end {
            End::Branch(condition) => {
                let value = self.value(instance, condition);
                self.conditions[node] = Some(self.truth(&value));
            }
            // Pointers that are returned are not followed.
            End::Return(Some(value)) => {
                let value = self.value(instance, value);
                self.escapes(&value)?;
            }
            _ => {}
        }
        self.walked[node] = true;
        self.states[node] = Some(Rc::new(state)).filter(|_| self.waiting[node] > 0);
        Some(())
    }

    /// What is known of local variables where a node begins.
    fn enter(&mut self, node: usize) -> State {
        let before: Vec<usize> = self.graph.predecessors[node].clone();
        let done: Vec<(usize, Rc<State>)> =
            before.iter().filter_map(|&from| Some((from, self.states[from].clone()?))).collect();
        for &(from, _) in &done {
            self.waiting[from] -= 1;
            if self.waiting[from] == 0 {
                self.states[from] = None;
            }
        }
        let Some((_, first)) = done.first() else { return State::new() };
        self.terms.spend(first.len() * done.len());
        let mut state = (**first).clone();
        for (variable, value) in first.iter().filter(|_| done.len() > 1) {
            let others: Option<Vec<(usize, Option<Value>)>> =
                done.iter().map(|(from, state)| Some((*from, Some(state.get(variable)?.clone())))).collect();
            let merged = match others {
                None => None,
                Some(others) if others.iter().all(|(_, other)| other.as_ref() == Some(value)) => continue,
                Some(others) if others.iter().all(|(_, v)| matches!(v, Some(Value::Truth(_) | Value::Sum(_)))) => {
                    self.merge(node, &others)
                }
                Some(_) => None,
            };
            match merged {
                Some(merged) => state.insert(*variable, merged),
                None => state.remove(variable),
            };
        }
        if done.len() < before.len() {
            for &variable in self.changed_in_loop[node].clone().iter() {
                // A number of its own, so that it is the same wherever the loop has not changed it since.
                if let Some(value) = state.get_mut(&variable) {
                    *value = Value::Opaque(self.terms.fresh().offset);
                }
            }
        }
        state
    }

    fn bind_parameters(&mut self, instance: u32) -> Option<()> {
        let index = self.index;
        let Some((caller, place)) = self.graph.instances[instance as usize].call else { return Some(()) };
        let call = index.parsed.instructions.get(place)?;
        let function = self.graph.instances[instance as usize].function;
        for (position, &parameter) in index.functions.get(&function)?.parameters.iter().enumerate() {
            let value = match id_at(call, position + 1) {
                Some(given) => self.value(caller, given),
                None => self.opaque(),
            };
            self.values.insert((instance, parameter), value);
        }
        Some(())
    }

    fn opaque(&mut self) -> Value {
        Value::Opaque(self.terms.fresh().offset)
    }

    /// What an id stands for in a call.
    fn value(&mut self, instance: u32, id: u32) -> Value {
        if let Some(value) = self.values.get(&(instance, id)) {
            return value.clone();
        }
        if let Some(value) = self.globals.get(&id) {
            return value.clone();
        }
        let value = self.global(id).unwrap_or_else(|| self.opaque());
        self.globals.insert(id, value.clone());
        value
    }

    /// What an id stands for outside functions.
    fn global(&mut self, id: u32) -> Option<Value> {
        let index = self.index;
        let definition = index.definition(id)?;
        match definition.class.opcode {
            Op::Variable => {
                let (class, pointee) = index.points_to(id)?;
                let root = match class {
                    StorageClass::Input => Root::Input(index.builtin(id)?),
                    StorageClass::PushConstant => Root::Push,
                    StorageClass::Private => Root::Local(*self.private.get(&id)?),
                    _ => self.places.get(&id).map_or(Root::Elsewhere, |&place| Root::Buffer(place)),
                };
                Some(Value::Pointer(Rc::new(Pointer::new(root, pointee))))
            }
            Op::ConstantComposite | Op::SpecConstantComposite => {
                if index.builtin(id) == Some(BuiltIn::WorkgroupSize) {
                    return Some(Value::Parts(self.group_size.map(|size| Value::Sum(Sum::constant(size))).into()));
                }
                if definition.operands.len() > MAX_PARTS {
                    return None;
                }
                let mut parts = Vec::new();
                for part in definition.operands.iter().filter_map(Operand::id_ref_any) {
                    parts.push(self.scalar_constant(part).unwrap_or_else(|| self.opaque()));
                }
                Some(Value::Parts(parts.into()))
            }
            _ => self.scalar_constant(id),
        }
    }

    fn scalar_constant(&mut self, id: u32) -> Option<Value> {
        let ty = self.index.definition(id)?.result_type?;
        let value = self.constants.scalar(id)?;
        if self.index.defined_by(ty, Op::TypeBool).is_some() {
            return Some(Value::Truth(Rc::new(self.terms.certain(value != 0))));
        }
        let (32, _) = integer(self.index, ty)? else { return None };
        Some(Value::Sum(Sum::constant(value as u32)))
    }

    fn sum(&mut self, value: &Value) -> Sum {
        match *value {
            Value::Sum(sum) => sum,
            Value::Opaque(term) => Sum::term(term),
            _ => self.terms.fresh(),
        }
    }

    fn truth(&mut self, value: &Value) -> Truth {
        match value {
            Value::Truth(truth) => (**truth).clone(),
            _ => self.terms.unknown(),
        }
    }

    /// One part of a value.
    fn part(&mut self, value: &Value, at: u32) -> Value {
        const PART: u32 = 1 << 16;
        match value {
            Value::Parts(parts) => parts.get(at as usize).cloned().unwrap_or_else(|| self.opaque()),
            Value::Pushed(pointer) => match self.indexed(pointer, &[(Sum::constant(at), false)]) {
                Some(pointer) => self.pushed(&pointer),
                None => self.opaque(),
            },
            &Value::Opaque(term) => Value::Opaque(self.terms.mixed(PART, &Sum::term(term), &Sum::constant(at)).offset),
            _ => self.opaque(),
        }
    }

    /// A value of parts, unless it has too many of them or on too many levels.
    fn composite(&mut self, parts: Vec<Value>) -> Value {
        fn weight(value: &Value) -> (usize, usize) {
            match value {
                Value::Parts(parts) => {
                    parts.iter().map(weight).fold((1, 1), |sum, part| (sum.0.max(part.0 + 1), sum.1 + part.1))
                }
                _ => (0, 1),
            }
        }
        let value = Value::Parts(parts.into());
        match weight(&value) {
            (depth, size) if depth <= MAX_PATH && size <= MAX_MEETING => value,
            _ => self.opaque(),
        }
    }

    /// The value of a type: a sum, a truth or a vector of them are followed, everything else is not.
    fn lanes(&self, ty: u32) -> Option<(u32, usize)> {
        match self.index.defined_by(ty, Op::TypeVector) {
            Some(vector) => {
                let count = literal_at(&vector.operands, 1)? as usize;
                (count <= MAX_PARTS).then_some((id_at(vector, 0)?, count))
            }
            None => Some((ty, 1)),
        }
    }

    /// A pointer to a part.
    fn indexed(&mut self, pointer: &Pointer, indices: &[(Sum, bool)]) -> Option<Pointer> {
        let index = self.index;
        let mut pointer = pointer.clone();
        for &(sum, signed) in indices {
            match pointer.root {
                Root::Elsewhere => continue,
                Root::Local(_) | Root::Input(_) => {
                    match sum.as_constant() {
                        Some(member) if pointer.path.len() < MAX_PATH => pointer.path.push(member),
                        _ => pointer.lost = true,
                    }
                    continue;
                }
                Root::Push | Root::Buffer(_) => {}
            }
            if pointer.lost {
                continue;
            }
            let definition = index.definition(pointer.ty)?;
            let (stride, count, part) = match definition.class.opcode {
                Op::TypeStruct => {
                    let Some(member) = sum.as_constant() else {
                        pointer.lost = true;
                        continue;
                    };
                    let (Some(part), Some(offset)) = (
                        id_at(definition, member as usize),
                        index.member_literal(pointer.ty, member, Decoration::Offset),
                    ) else {
                        pointer.lost = true;
                        continue;
                    };
                    pointer.matrix = matrix_of(index, pointer.ty, member);
                    pointer.start = pointer.start.saturating_add(u64::from(offset));
                    pointer.ty = part;
                    continue;
                }
                Op::TypeArray => {
                    let count = id_at(definition, 1).and_then(|count| self.constants.scalar(count));
                    (index.literal(pointer.ty, Decoration::ArrayStride), count, id_at(definition, 0))
                }
                Op::TypeRuntimeArray => {
                    (index.literal(pointer.ty, Decoration::ArrayStride), Some(u64::MAX), id_at(definition, 0))
                }
                Op::TypeVector => {
                    let part = id_at(definition, 0);
                    let size =
                        part.and_then(|part| self.layout.footprint(index, part, None)).map(|pieces| pieces[0].1 as u32);
                    (size, literal_at(&definition.operands, 1).map(u64::from), part)
                }
                Op::TypeMatrix => {
                    let stride = pointer.matrix.filter(|matrix| !matrix.by_rows).map(|matrix| matrix.stride);
                    (stride, literal_at(&definition.operands, 1).map(u64::from), id_at(definition, 0))
                }
                _ => (None, None, None),
            };
            let (Some(stride), Some(count), Some(part)) = (stride.filter(|&stride| stride > 0), count, part) else {
                pointer.lost = true;
                continue;
            };
            pointer.ty = part;
            match sum.as_constant() {
                Some(at) if u64::from(at) < count && !(signed && at > i32::MAX as u32) && sum.assumed == 0 => {
                    pointer.start = pointer.start.saturating_add(u64::from(at) * u64::from(stride));
                }
                Some(_) => pointer.lost = true,
                None => {
                    if let Ok(count) = u32::try_from(count)
                        && !self.terms.is_opaque(&sum)
                    {
                        let inside =
                            self.terms.compare(Compare::Less, &Sum { assumed: 0, ..sum }, &Sum::constant(count), false);
                        let within = Sum { assumed: pointer.within, ..Sum::constant(0) };
                        match self.terms.assuming(within, &inside) {
                            Some(within) => pointer.within = within.assumed,
                            None => pointer.lost = true,
                        }
                    }
                    let constant = sum.constant as i32;
                    pointer.steps.push(Index32 { stride, sum: Sum { constant: 0, ..sum }, constant, signed });
                    pointer.lost |= pointer.steps.len() > MAX_PATH;
                }
            }
        }
        Some(pointer)
    }

    /// What push constants hold.
    fn pushed(&mut self, pointer: &Pointer) -> Value {
        if pointer.lost || !pointer.steps.is_empty() {
            return self.opaque();
        }
        let index = self.index;
        match index.definition(pointer.ty).map(|definition| definition.class.opcode) {
            Some(Op::TypeInt) => match (integer(index, pointer.ty), u32::try_from(pointer.start)) {
                (Some((32, _)), Ok(start)) => {
                    let term = self.terms.term(Term::Push(start));
                    Value::Sum(Sum::term(term))
                }
                _ => self.opaque(),
            },
            Some(Op::TypeVector | Op::TypeStruct | Op::TypeArray | Op::TypeMatrix) => {
                Value::Pushed(Rc::new(pointer.clone()))
            }
            _ => self.opaque(),
        }
    }

    fn input(&mut self, builtin: BuiltIn, pointer: &Pointer) -> Value {
        use super::terms::{ONE, ZERO};
        let size = self.group_size;
        let mut axes = |make: &mut dyn FnMut(&mut Terms, usize) -> Sum| {
            Value::Parts([0, 1, 2].map(|axis| Value::Sum(make(&mut self.terms, axis))).into())
        };
        let sum = |factors: [TermId; 6]| Sum { factors, ..Sum::constant(0) };
        let value = match builtin {
            BuiltIn::WorkgroupId => axes(&mut |_, axis| {
                let mut factors = [ZERO; 6];
                factors[axis] = ONE;
                sum(factors)
            }),
            BuiltIn::LocalInvocationId => axes(&mut |_, axis| {
                let mut factors = [ZERO; 6];
                factors[axis + 3] = ONE;
                sum(factors)
            }),
            BuiltIn::GlobalInvocationId => axes(&mut |terms, axis| {
                let mut factors = [ZERO; 6];
                factors[axis] = terms.constant(size[axis]);
                factors[axis + 3] = ONE;
                sum(factors)
            }),
            BuiltIn::NumWorkgroups => axes(&mut |terms, axis| Sum::term(terms.term(Term::Groups(axis as u8)))),
            BuiltIn::LocalInvocationIndex => {
                let row = self.terms.constant(size[0]);
                let layer = self.terms.constant(size[0].saturating_mul(size[1]));
                Value::Sum(sum([ZERO, ZERO, ZERO, ONE, row, layer]))
            }
            _ => self.opaque(),
        };
        self.along(value, pointer)
    }

    /// The part of a variable's value that a pointer names.
    fn along(&mut self, value: Value, pointer: &Pointer) -> Value {
        if pointer.lost {
            return self.opaque();
        }
        pointer.path.iter().fold(value, |value, &member| self.part(&value, member))
    }

    /// What a pointer is used for is not understood.
    fn escapes(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::Pointer(pointer) => match pointer.root {
                Root::Buffer(place) => self.strange[place] = true,
                // What is changed through it could not be followed.
                Root::Local(_) => return None,
                Root::Input(_) | Root::Push | Root::Elsewhere => {}
            },
            Value::Parts(parts) => {
                for part in parts.iter() {
                    if let Value::Pointer(_) = part {
                        return None;
                    }
                }
            }
            _ => {}
        }
        Some(())
    }

    fn site(&mut self, pointer: &Pointer, node: usize, order: usize) -> Option<Site> {
        let Root::Buffer(place) = pointer.root else { return None };
        let pieces = self.layout.footprint(self.index, pointer.ty, pointer.matrix).filter(|_| !pointer.lost)?;
        let (start, within) = (pointer.start, pointer.within);
        Some(Site { place, node, order, start, steps: pointer.steps.clone(), within, pieces })
    }

    fn load(&mut self, value: &Value, node: usize, order: usize, state: &mut State) -> Value {
        let Value::Pointer(pointer) = value else {
            self.unseen = true;
            return self.opaque();
        };
        match pointer.root {
            Root::Input(builtin) => self.input(builtin, pointer),
            Root::Push => self.pushed(pointer),
            Root::Local(variable) => {
                let value = match state.get(&variable) {
                    Some(value) => value.clone(),
                    None => {
                        let value = self.opaque();
                        state.insert(variable, value.clone());
                        value
                    }
                };
                self.along(value, pointer)
            }
            Root::Buffer(place) => {
                match self.site(pointer, node, order) {
                    Some(site) => self.loads.push(site),
                    None => self.strange[place] = true,
                }
                self.opaque()
            }
            Root::Elsewhere => self.opaque(),
        }
    }

    fn store(&mut self, to: &Value, value: Value, node: usize, order: usize, state: &mut State) {
        let Value::Pointer(pointer) = to else { return };
        match pointer.root {
            Root::Buffer(_) => {
                let site = self.site(pointer, node, order);
                self.stores.extend(site);
            }
            Root::Local(variable) => {
                let updated = match pointer.lost {
                    true => None,
                    false => {
                        let before = state.get(&variable).cloned();
                        self.updated(before, pointer.root_type, &pointer.path, value)
                    }
                };
                match updated {
                    Some(updated) => state.insert(variable, updated),
                    None => state.remove(&variable),
                };
            }
            Root::Input(_) | Root::Push | Root::Elsewhere => {}
        }
    }

    /// A variable's value with one part replaced.
    fn updated(&mut self, before: Option<Value>, ty: u32, path: &[u32], value: Value) -> Option<Value> {
        // From the whole to the part, keeping what is beside it; then back.
        let mut levels: Vec<Vec<Value>> = Vec::new();
        let (mut ty, mut whole) = (ty, before);
        for &member in path {
            let definition = self.index.definition(ty)?;
            let count = match definition.class.opcode {
                Op::TypeVector | Op::TypeMatrix => literal_at(&definition.operands, 1)? as usize,
                Op::TypeArray => self.constants.scalar(id_at(definition, 1)?)?.try_into().ok()?,
                Op::TypeStruct => definition.operands.len(),
                _ => return None,
            };
            if count > MAX_PARTS || member as usize >= count {
                return None;
            }
            let whole_value = match whole.take() {
                Some(value) => value,
                None => self.opaque(),
            };
            let mut parts = Vec::new();
            for at in 0..count as u32 {
                parts.push(self.part(&whole_value, at));
            }
            whole = Some(parts[member as usize].clone());
            levels.push(parts);
            ty = match definition.class.opcode {
                Op::TypeStruct => id_at(definition, member as usize)?,
                _ => id_at(definition, 0)?,
            };
        }
        let mut value = value;
        for (mut parts, &member) in levels.into_iter().rev().zip(path.iter().rev()) {
            parts[member as usize] = value;
            value = self.composite(parts);
        }
        Some(value)
    }

    /// The value where several ways meet; none for a way that is not walked yet.
    fn merge(&mut self, node: usize, values: &[(usize, Option<Value>)]) -> Option<Value> {
        for (_, value) in values {
            if let Some(value @ (Value::Pointer(_) | Value::Parts(_))) = value
                && values.len() > 1
            {
                self.escapes(value)?;
            }
        }
        let Some((_, Some(first))) = values.first() else { return Some(self.opaque()) };
        if values.iter().all(|(_, value)| value.as_ref() == Some(first)) {
            return Some(first.clone());
        }
        let mut truths = HashMap::new();
        for (from, value) in values {
            match value {
                Some(Value::Truth(truth)) => {
                    truths.insert(*from, (**truth).clone());
                }
                _ => return Some(self.opaque()),
            }
        }
        match self.met(node, truths) {
            Some(truth) => Some(Value::Truth(Rc::new(truth))),
            None => Some(self.opaque()),
        }
    }

    /// A truth that differs by the way that led to `node`: what can be told of it where these ways part.
    fn met(&mut self, node: usize, truths: HashMap<usize, Truth>) -> Option<Truth> {
        let parting = self.graph.dominator[node];
        let mut between: Vec<usize> = truths.keys().copied().filter(|&from| from != parting).collect();
        let mut seen: HashSet<usize> = between.iter().copied().collect();
        let mut at = 0;
        while at < between.len() {
            for &from in &self.graph.predecessors[between[at]] {
                if from != parting && seen.insert(from) {
                    between.push(from);
                }
            }
            at += 1;
            if between.len() > MAX_MEETING {
                return None;
            }
        }
        between.sort_unstable_by_key(|&node| std::cmp::Reverse(self.graph.place[node]));
        between.push(parting);
        let mut known: HashMap<usize, Truth> = HashMap::new();
        // A way that does not lead to the node says nothing about what is true there.
        let anything = Truth { yes: self.terms.always(), no: self.terms.always() };
        for &one in &between {
            let mut next = Vec::new();
            for &successor in &self.graph.nodes[one].successors {
                // No loop: what comes after is later in the order.
                if self.graph.place[successor] <= self.graph.place[one] {
                    return None;
                }
                next.push(match successor == node {
                    true => truths.get(&one)?.clone(),
                    false if successor != parting && seen.contains(&successor) => known.get(&successor)?.clone(),
                    false => anything.clone(),
                });
            }
            let truth = match (&self.graph.nodes[one].end, next.as_slice()) {
                (End::Branch(_), [yes, no]) => {
                    let condition = self.conditions[one].clone()?;
                    self.terms.choose(&condition, yes, no)
                }
                (_, [first, rest @ ..]) => {
                    let mut truth = first.clone();
                    for other in rest {
                        truth = Truth {
                            yes: self.terms.both(&truth.yes, &other.yes),
                            no: self.terms.both(&truth.no, &other.no),
                        };
                    }
                    truth
                }
                (_, []) => anything.clone(),
            };
            known.insert(one, truth);
        }
        known.remove(&parting)
    }

    /// Invocations that pass, sooner or later, through one of the nodes.
    pub(super) fn reach(&mut self, targets: &[usize]) -> Option<Condition> {
        let Walk { graph, terms, conditions, .. } = self;
        let mut reached: Vec<Option<Condition>> = vec![None; graph.nodes.len()];
        terms.spend(graph.nodes.len());
        graph.backwards(&|node| targets.binary_search(&node).is_ok(), &mut |together| {
            terms.spend(together.len());
            if terms.is_spent() {
                return None;
            }
            let condition = match *together {
                [node] if targets.binary_search(&node).is_ok() => terms.always(),
                [node] if !graph.nodes[node].successors.contains(&node) => {
                    let next: Option<Vec<Condition>> =
                        graph.nodes[node].successors.iter().map(|&successor| reached[successor].clone()).collect();
                    match (&conditions[node], next?.as_slice()) {
                        (Some(condition), [yes, no]) => terms.branch(condition, yes, no),
                        (_, []) => terms.never(),
                        (_, [first, rest @ ..]) => {
                            let mut all = Rc::clone(first);
                            for other in rest {
                                all = terms.both(&all, other);
                            }
                            all
                        }
                    }
                }
                // A loop: whichever way it is left. One that is never left is no way to anything.
                _ => {
                    let inside: HashSet<usize> = together.iter().copied().collect();
                    let ways = together.iter().flat_map(|&node| &graph.nodes[node].successors);
                    let mut all: Option<Condition> = None;
                    for way in ways.filter(|way| !inside.contains(way)) {
                        let condition = reached[*way].as_ref()?;
                        all = Some(match &all {
                            Some(all) => terms.both(all, condition),
                            None => Rc::clone(condition),
                        });
                    }
                    all.unwrap_or_else(|| terms.never())
                }
            };
            for &node in together {
                reached[node] = Some(Rc::clone(&condition));
            }
            Some(())
        })?;
        reached.first()?.clone()
    }

    /// What one instruction does.
    fn step(
        &mut self,
        node: usize,
        instance: u32,
        order: usize,
        instruction: &Instruction,
        state: &mut State,
    ) -> Option<()> {
        let op = instruction.class.opcode;
        let given = |position: usize| id_at(instruction, position);
        let value = match op {
            Op::SelectionMerge | Op::LoopMerge | Op::Line | Op::NoLine | Op::Nop => return Some(()),
            Op::Variable => {
                let root = *self.roots.get(&(instance, instruction.result_id?))?;
                match given(1) {
                    Some(initial) => {
                        let initial = self.value(instance, initial);
                        self.escapes(&initial)?;
                        state.insert(root, initial);
                    }
                    None => {
                        state.remove(&root);
                    }
                }
                let (_, pointee) = self.index.pointer(instruction.result_type?)?;
                Value::Pointer(Rc::new(Pointer::new(Root::Local(root), pointee)))
            }
            Op::AccessChain | Op::InBoundsAccessChain => {
                let base = self.value(instance, given(0)?);
                let mut indices = Vec::new();
                for position in 1..instruction.operands.len() {
                    let id = given(position)?;
                    let value = self.value(instance, id);
                    let signed =
                        self.type_of(id).and_then(|ty| integer(self.index, ty)).is_none_or(|(_, signed)| signed);
                    indices.push((self.sum(&value), signed));
                }
                match &base {
                    Value::Pointer(pointer) => match self.indexed(pointer, &indices) {
                        Some(pointer) => Value::Pointer(Rc::new(pointer)),
                        None => {
                            self.escapes(&base)?;
                            self.opaque()
                        }
                    },
                    _ => self.opaque(),
                }
            }
            Op::Load | Op::AtomicLoad => {
                let from = self.value(instance, given(0)?);
                self.load(&from, node, order, state)
            }
            Op::Store | Op::AtomicStore => {
                let to = self.value(instance, given(0)?);
                let value = self.value(instance, given(if op == Op::Store { 1 } else { 3 })?);
                self.escapes(&value)?;
                self.store(&to, value, node, order, state);
                return Some(());
            }
            Op::CopyMemory => {
                let (to, from) = (self.value(instance, given(0)?), self.value(instance, given(1)?));
                let value = self.load(&from, node, order, state);
                self.store(&to, value, node, order, state);
                return Some(());
            }
            Op::ArrayLength => {
                let pointer = self.value(instance, given(0)?);
                self.length(&pointer, literal_at(&instruction.operands, 1)?)
            }
            Op::CopyObject => self.value(instance, given(0)?),
            Op::Phi => {
                let mut values = Vec::new();
                for position in (0..instruction.operands.len()).step_by(2) {
                    let (value, label) = (given(position)?, given(position + 1)?);
                    let Some(from) = self.graph.last(instance, label) else { continue };
                    // A way that is never taken brings no value, and a value that comes back is no other.
                    if self.graph.place[from] == usize::MAX || Some(value) == instruction.result_id {
                        continue;
                    }
                    let value = self.walked[from].then(|| self.value(instance, value));
                    values.push((from, value));
                }
                self.merge(node, &values)?
            }
            Op::CompositeExtract => {
                let mut value = self.value(instance, given(0)?);
                for position in 1..instruction.operands.len() {
                    let at = literal_at(&instruction.operands, position)?;
                    value = self.part(&value, at);
                }
                value
            }
            Op::CompositeConstruct if instruction.operands.len() <= MAX_PARTS => {
                let (_, count) = self.lanes(instruction.result_type?)?;
                let vector = count > 1;
                let mut parts = Vec::new();
                for position in 0..instruction.operands.len() {
                    let id = given(position)?;
                    let value = self.value(instance, id);
                    self.escapes(&value)?;
                    let inner = self.type_of(id).and_then(|ty| self.lanes(ty)).map_or(1, |(_, count)| count);
                    match vector && inner > 1 {
                        true => {
                            for at in 0..inner as u32 {
                                parts.push(self.part(&value, at));
                            }
                        }
                        false => parts.push(value),
                    }
                }
                self.composite(parts)
            }
            Op::CompositeInsert if instruction.operands.len() == 3 => {
                let (part, whole) = (self.value(instance, given(0)?), self.value(instance, given(1)?));
                self.escapes(&part)?;
                let path = [literal_at(&instruction.operands, 2)?];
                match self.updated(Some(whole), instruction.result_type?, &path, part) {
                    Some(value) => value,
                    None => self.opaque(),
                }
            }
            Op::VectorShuffle => {
                let (first, second) = (self.value(instance, given(0)?), self.value(instance, given(1)?));
                let count = self.type_of(given(0)?).and_then(|ty| self.lanes(ty)).map_or(0, |(_, count)| count as u32);
                let mut parts = Vec::new();
                for position in 2..instruction.operands.len().min(2 + MAX_PARTS) {
                    let at = literal_at(&instruction.operands, position)?;
                    parts.push(match at < count {
                        true => self.part(&first, at),
                        false => self.part(&second, at.wrapping_sub(count)),
                    });
                }
                Value::Parts(parts.into())
            }
            Op::Any | Op::All => {
                let id = given(0)?;
                let value = self.value(instance, id);
                let count = self.type_of(id).and_then(|ty| self.lanes(ty)).map_or(0, |(_, count)| count as u32);
                let mut all = self.terms.certain(op == Op::All);
                for at in 0..count {
                    let part = self.part(&value, at);
                    let part = self.truth(&part);
                    all = if op == Op::All { self.terms.and(&all, &part) } else { self.terms.or(&all, &part) };
                }
                Value::Truth(Rc::new(all))
            }
            Op::ExtInst if given(0).is_some_and(|set| self.index.debug_sets.contains(&set)) => return Some(()),
            _ => match self.arithmetic(instance, instruction) {
                Some(value) => value,
                None => {
                    for id in instruction.operands.iter().filter_map(Operand::id_ref_any) {
                        if self.values.contains_key(&(instance, id)) || self.index.points_to(id).is_some() {
                            let value = self.value(instance, id);
                            self.other_use(op, id, &value, state)?;
                        }
                    }
                    self.opaque()
                }
            },
        };
        if let Some(result) = instruction.result_id {
            self.values.insert((instance, result), value);
        }
        Some(())
    }

    /// An instruction that is not understood may do anything with a pointer, but in the shaders of Vulkan it keeps
    /// none unless it has a result.
    fn other_use(&mut self, op: Op, id: u32, value: &Value, state: &mut State) -> Option<()> {
        match value {
            Value::Pointer(pointer) => match pointer.root {
                Root::Local(variable)
                    if !matches!(op, Op::Select | Op::PtrAccessChain | Op::InBoundsPtrAccessChain) =>
                {
                    state.remove(&variable);
                    Some(())
                }
                _ => self.escapes(value),
            },
            Value::Opaque(_) => {
                self.unseen |= self.index.points_to(id).is_some();
                Some(())
            }
            _ => self.escapes(value),
        }
    }

    fn type_of(&self, id: u32) -> Option<u32> {
        self.index.definition(id)?.result_type
    }

    fn length(&mut self, pointer: &Value, member: u32) -> Value {
        let found = match pointer {
            Value::Pointer(pointer) => match pointer.root {
                Root::Buffer(place) if !pointer.lost && pointer.steps.is_empty() && pointer.ty == pointer.root_type => {
                    let array = self
                        .index
                        .defined_by(pointer.ty, Op::TypeStruct)
                        .and_then(|block| id_at(block, member as usize));
                    let offset = self.index.member_literal(pointer.ty, member, Decoration::Offset);
                    let stride = array.and_then(|array| self.index.literal(array, Decoration::ArrayStride));
                    offset.zip(stride).map(|(offset, stride)| Term::Length { place: place as u32, offset, stride })
                }
                _ => None,
            },
            _ => None,
        };
        match found {
            Some(length) => {
                let term = self.terms.term(length);
                Value::Sum(Sum::term(term))
            }
            None => self.opaque(),
        }
    }

    /// Operations on numbers and truths, one by one or in vectors; nothing if the instruction is none.
    fn arithmetic(&mut self, instance: u32, instruction: &Instruction) -> Option<Value> {
        let op = instruction.class.opcode;
        let first = match op {
            Op::ExtInst => {
                let set = id_at(instruction, 0)?;
                let Operand::LiteralExtInstInteger(number) = *instruction.operands.get(1)? else { return None };
                if !self.glsl.contains(&set) || !matches!(number, 38 | 39 | 41 | 42 | 44 | 45) {
                    return None;
                }
                2
            }
            _ if is_arithmetic(op) => 0,
            _ => return None,
        };
        let (scalar, count) = self.lanes(instruction.result_type?)?;
        let truth = self.index.defined_by(scalar, Op::TypeBool).is_some();
        if !truth && !matches!(integer(self.index, scalar), Some((32, _))) {
            return None;
        }
        let mut operands = Vec::new();
        for position in first..instruction.operands.len() {
            operands.push(self.value(instance, id_at(instruction, position)?));
        }
        if operands.iter().any(|operand| matches!(operand, Value::Pointer(_))) {
            return None;
        }
        // What has another width has no sum.
        if matches!(op, Op::Bitcast | Op::UConvert | Op::SConvert) {
            let from = self.type_of(id_at(instruction, 0)?).and_then(|ty| self.lanes(ty));
            let (from, lanes) = from?;
            if lanes != count || !matches!(integer(self.index, from), Some((32, _))) {
                return None;
            }
        }
        let mut made = Vec::new();
        for at in 0..count as u32 {
            let mut lane = Vec::new();
            for operand in &operands {
                lane.push(match (count, operand) {
                    (1, operand) => operand.clone(),
                    // A choice between vectors may have one condition for all.
                    (_, operand @ Value::Truth(_)) => operand.clone(),
                    (_, operand) => self.part(operand, at),
                });
            }
            made.push(match truth {
                true => Value::Truth(Rc::new(self.truth_operation(op, &lane)?)),
                false => Value::Sum(self.sum_operation(op, instruction, &lane)?),
            });
        }
        match made.len() {
            1 => made.pop(),
            _ => Some(Value::Parts(made.into())),
        }
    }

    fn truth_operation(&mut self, op: Op, operands: &[Value]) -> Option<Truth> {
        let compared = match op {
            Op::IEqual => Some((Compare::Equal, false)),
            Op::INotEqual => Some((Compare::NotEqual, false)),
            Op::ULessThan => Some((Compare::Less, false)),
            Op::ULessThanEqual => Some((Compare::LessOrEqual, false)),
            Op::UGreaterThan => Some((Compare::Greater, false)),
            Op::UGreaterThanEqual => Some((Compare::GreaterOrEqual, false)),
            Op::SLessThan => Some((Compare::Less, true)),
            Op::SLessThanEqual => Some((Compare::LessOrEqual, true)),
            Op::SGreaterThan => Some((Compare::Greater, true)),
            Op::SGreaterThanEqual => Some((Compare::GreaterOrEqual, true)),
            _ => None,
        };
        if let Some((compare, signed)) = compared {
            let [a, b] = operands else { return None };
            let (a, b) = (self.sum(a), self.sum(b));
            return Some(self.terms.compare(compare, &a, &b, signed));
        }
        let mut truths = Vec::new();
        for operand in operands {
            truths.push(self.truth(operand));
        }
        let terms = &mut self.terms;
        Some(match (op, truths.as_slice()) {
            (Op::LogicalNot, [a]) => terms.not(a),
            (Op::LogicalAnd, [a, b]) => terms.and(a, b),
            (Op::LogicalOr, [a, b]) => terms.or(a, b),
            (Op::LogicalEqual, [a, b]) => terms.equal(a, b),
            (Op::LogicalNotEqual, [a, b]) => {
                let equal = terms.equal(a, b);
                terms.not(&equal)
            }
            (Op::Select, [condition, a, b]) => terms.choose(condition, a, b),
            _ => return None,
        })
    }

    fn sum_operation(&mut self, op: Op, instruction: &Instruction, operands: &[Value]) -> Option<Sum> {
        if let (Op::Select, [condition, a, b]) = (op, operands) {
            let condition = self.truth(condition);
            let (a, b) = (self.sum(a), self.sum(b));
            if a == b {
                return Some(a);
            }
            let otherwise = self.terms.not(&condition);
            let sides = match a.is_number() && !b.is_number() {
                true => [(b, otherwise), (a, condition)],
                false => [(a, condition), (b, otherwise)],
            };
            let chosen = sides.iter().find_map(|(sum, truth)| self.terms.assuming(*sum, truth));
            return Some(chosen.unwrap_or_else(|| self.terms.fresh()));
        }
        let mut sums = Vec::new();
        for operand in operands {
            sums.push(self.sum(operand));
        }
        let terms = &mut self.terms;
        let zero = Sum::constant(0);
        let sum = match (op, sums.as_slice()) {
            (Op::Bitcast | Op::UConvert | Op::SConvert, &[a]) => a,
            (Op::IAdd, [a, b]) => terms.add(a, b, Operation::Add),
            (Op::ISub, [a, b]) => terms.add(a, b, Operation::Subtract),
            (Op::SNegate, [a]) => terms.add(&zero, a, Operation::Subtract),
            (Op::IMul, [a, b]) => match terms.multiply(a, b) {
                Some(product) => product,
                None => terms.mixed(op as u32, a, b),
            },
            (Op::ShiftLeftLogical, [a, b]) => {
                let factor = terms.operate(Operation::ShiftLeft, &Sum::constant(1), b);
                match factor.and_then(|factor| terms.multiply(a, &factor)) {
                    Some(product) => product,
                    None => terms.mixed(op as u32, a, b),
                }
            }
            (Op::Not, [a]) => {
                let negative = terms.add(&zero, a, Operation::Subtract);
                terms.add(&negative, &Sum::constant(1), Operation::Subtract)
            }
            (Op::ExtInst, [a, bounds @ ..]) => {
                let Some(&Operand::LiteralExtInstInteger(number)) = instruction.operands.get(1) else { return None };
                let signed = matches!(number, 39 | 42 | 45);
                match (number, bounds) {
                    (38 | 39, [most]) => self.bounded(*a, None, Some(most), signed),
                    (41 | 42, [least]) => self.bounded(*a, Some(least), None, signed),
                    (44 | 45, [least, most]) => self.bounded(*a, Some(least), Some(most), signed),
                    _ => return None,
                }
            }
            (_, [a, b]) => {
                let operation = match op {
                    Op::UDiv => Some(Operation::UnsignedDivide),
                    Op::SDiv => Some(Operation::SignedDivide),
                    Op::UMod => Some(Operation::UnsignedRemainder),
                    Op::SRem | Op::SMod => Some(Operation::SignedRemainder),
                    Op::ShiftRightLogical => Some(Operation::ShiftRight),
                    Op::ShiftRightArithmetic => Some(Operation::ShiftRightSigned),
                    Op::BitwiseAnd => Some(Operation::And),
                    Op::BitwiseOr => Some(Operation::Or),
                    Op::BitwiseXor => Some(Operation::Xor),
                    _ => None,
                }?;
                match terms.operate(operation, a, b) {
                    Some(number) => number,
                    None => terms.mixed(op as u32, a, b),
                }
            }
            _ => return None,
        };
        Some(sum)
    }

    /// A sum that is held between bounds: itself, where it is between them.
    fn bounded(&mut self, mut sum: Sum, least: Option<&Sum>, most: Option<&Sum>, signed: bool) -> Sum {
        for (bound, below) in [(least, false), (most, true)] {
            let Some(&bound) = bound else { continue };
            let (operation, compare) = match (below, signed) {
                (true, false) => (Operation::UnsignedMin, Compare::LessOrEqual),
                (true, true) => (Operation::SignedMin, Compare::LessOrEqual),
                (false, false) => (Operation::UnsignedMax, Compare::GreaterOrEqual),
                (false, true) => (Operation::SignedMax, Compare::GreaterOrEqual),
            };
            if let Some(number) = self.terms.operate(operation, &sum, &bound) {
                sum = number;
                continue;
            }
            let (varying, bound) = if sum.is_number() { (bound, sum) } else { (sum, bound) };
            let inside = self.terms.compare(compare, &varying, &bound, signed);
            sum = match self.terms.assuming(varying, &inside) {
                Some(sum) => sum,
                None => self.terms.fresh(),
            };
        }
        sum
    }
}

fn is_arithmetic(op: Op) -> bool {
    use Op::*;
    matches!(
        op,
        IAdd | ISub
            | IMul
            | SNegate
            | Not
            | UDiv
            | SDiv
            | UMod
            | SRem
            | SMod
            | ShiftLeftLogical
            | ShiftRightLogical
            | ShiftRightArithmetic
            | BitwiseAnd
            | BitwiseOr
            | BitwiseXor
            | Bitcast
            | UConvert
            | SConvert
            | IEqual
            | INotEqual
            | ULessThan
            | ULessThanEqual
            | UGreaterThan
            | UGreaterThanEqual
            | SLessThan
            | SLessThanEqual
            | SGreaterThan
            | SGreaterThanEqual
            | LogicalNot
            | LogicalAnd
            | LogicalOr
            | LogicalEqual
            | LogicalNotEqual
            | Select
    )
}

impl Pointer {
    fn new(root: Root, pointee: u32) -> Pointer {
        Pointer {
            root,
            root_type: pointee,
            ty: pointee,
            start: 0,
            steps: Vec::new(),
            within: 0,
            matrix: None,
            path: Vec::new(),
            lost: false,
        }
    }
}
