//! What a module costs its readers, counted before any of them reads it.
//!
//! The validator and drivers recurse, and some of their work grows with the square of what they read, or doubles with
//! every line of it. A module of a few hundred bytes can so take all stack, memory or time there is. So one pass over
//! the words counts what each of them would do, and a module beyond a limit is refused unread. The pass follows no
//! reference more than once, does not recurse, and asks for its memory fallibly.
//!
//! The table of limits is [`MOST_BYTES`] and what follows it. They lie far above what compilers make of the kernels of
//! published engines, and are measured to keep Mesa's software driver and SPIRV-Tools within seconds. A caller who
//! vouches for a module is held to the first three only: what it does to the driver is then the caller's affair.

use super::constants::fold;
use super::parse::HEADER_WORDS;
use crate::code::Code;
use crate::error::Fault;
use rspirv::spirv::{Decoration, Op, StorageClass};
use std::collections::HashMap;

/// Bytes of a module.
pub(super) const MOST_BYTES: usize = 16 << 20;
/// Instructions of a module, those that do nothing included: each is an object of its own to a parser.
pub(super) const MOST_INSTRUCTIONS: u64 = 1 << 18;
/// Steps of looking at what the kernel does: see [`super::index::Index::spend`].
pub(super) const MOST_STEPS: u64 = 1 << 26;

/// Entry points times functions: the validator walks the calls of each entry point.
const MOST_ENTRIES: u64 = 1 << 20;
/// Types inside types, in each other.
const MOST_DEPTH: u64 = 255;
/// Members of all types, where each type is written out wherever it is named; those of an array's element count once.
const MOST_MEMBERS: u64 = 1 << 18;
/// The same, summed over the types of the variables outside functions.
const MOST_VARIABLES: u64 = 1 << 18;
/// Scalars and vectors of all constants, where each is written out wherever it is named.
const MOST_CONSTANTS: u64 = 1 << 18;
/// Pairs of a decoration and a target that groups of decorations come to.
const MOST_GROUPED: u64 = 1 << 20;
/// Instructions of a function after each call is replaced by the function it calls, as drivers do. What handles a
/// composite value counts once for each of its scalars and vectors.
const MOST_INLINED: u64 = 1 << 17;
/// The same, summed over all functions: drivers do so for each.
const MOST_INLINED_IN_ALL: u64 = 1 << 22;
/// Loads, stores and atomic operations of a function on memory that it shares with others, counted like that: drivers
/// look at each pair of them.
const MOST_ACCESSES: u64 = 1 << 13;
/// Elements of the variables in a function, after each call is replaced by the function it calls.
const MOST_LOCALS: u64 = 1 << 20;
/// Blocks of a function times half of what is in it, as each use of a value and each construct is looked up along the
/// blocks before it; a block counts as [`NESTING`] instructions for each construct that it is in.
const MOST_CONTROL_FLOW: u64 = 1 << 27;
const NESTING: u64 = 8;

/// What an array counts for whose length cannot be evaluated, where a value is of it. A variable of it is refused later.
const UNKNOWN_LENGTH: u64 = 1 << 16;

fn exceeded(subject: &str, count: u64, what: &str, most: u64) -> Fault {
    let message = format!("{subject} {count} {what}; {most} are the most for a kernel that is not trusted");
    Fault::new(Code::LimitExceeded, message)
}

fn no_memory() -> Fault {
    Fault::new(Code::OutOfHostMemory, "no host memory for what a module is measured with")
}

/// Checks that the lengths of the instructions add up to the module, and that there are not too many of them.
pub(super) fn check_lengths(words: &[u32]) -> Result<u64, Fault> {
    let invalid = |message: String| Fault::new(Code::InvalidShader, message);
    let (mut at, mut count) = (HEADER_WORDS, 0);
    while let Some(head) = words.get(at) {
        let (length, left) = ((head >> 16) as usize, words.len() - at);
        if length == 0 {
            return Err(invalid(format!("the instruction at word {at} has no length")));
        }
        if length > left {
            return Err(invalid(format!(
                "the module ends inside the instruction at word {at}, which is {length} words long: {left} are there"
            )));
        }
        at += length;
        count += 1;
    }
    if count > MOST_INSTRUCTIONS {
        let message = format!("the module has {count} instructions; {MOST_INSTRUCTIONS} are the most");
        return Err(Fault::new(Code::LimitExceeded, message));
    }
    Ok(count)
}

/// Fails where the host has no memory for what the parser and the validator will take: neither of them survives that.
/// Measured are 450 to 800 bytes for an instruction and 60 for a word.
pub(super) fn check_memory(words: &[u32], instructions: u64) -> Result<(), Fault> {
    let bytes = (instructions as usize).saturating_mul(1024).saturating_add(words.len().saturating_mul(96));
    let mut probe: Vec<u8> = Vec::new();
    probe.try_reserve_exact(bytes).map_err(|_| {
        let message = format!("no host memory for the {bytes} bytes that looking at the module may take");
        Fault::new(Code::OutOfHostMemory, message)
    })
}

/// What an id stands for.
#[derive(Clone, Copy)]
enum Id {
    Unknown,
    /// Not defined yet, but with this number for specialization.
    Specialized(u32),
    /// By its place in the list of types.
    Type(u32),
    /// A constant of one number.
    Scalar(u32),
    /// A constant that is written out to so many.
    Composite {
        ty: u32,
        size: u32,
    },
    /// Any other value, by its type.
    Value(u32),
    Function(u32),
    Block(u32),
}

/// A type, with counts that stop at the largest number.
#[derive(Clone, Copy)]
struct Type {
    /// Scalars and vectors of a value of it; where it is a variable, an array of unknown length counts once.
    values: u64,
    elements: u64,
    /// Types in it, itself included, where that of an array's element counts once.
    members: u64,
    depth: u64,
    /// What a pointer points to, and whether others can see it.
    pointee: u32,
    shared: bool,
}

/// A function and, once its calls are resolved, what it comes to with them.
#[derive(Clone, Copy, Default)]
struct Function {
    calls: (u32, u32),
    instructions: u64,
    accesses: u64,
    blocks: u64,
    /// Constructs that the blocks are in, summed over them.
    nesting: u64,
    locals: u64,
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unresolved,
    Open,
    Resolved,
}

struct Call {
    callee: u32,
    nesting: u64,
}

/// One block of the function that is being read.
struct Block {
    /// Where it says how it goes on: its merge, if there is one, and its end.
    merge: usize,
    end: usize,
    /// Constructs that it is in.
    nesting: Option<u32>,
    calls: (u32, u32),
}

struct Measure<'a> {
    words: &'a [u32],
    given: HashMap<u32, u32>,
    ids: Vec<Id>,
    types: Vec<Type>,
    functions: Vec<Function>,
    calls: Vec<Call>,
    blocks: Vec<Block>,
    open: Vec<u32>,
    members: u64,
    variables: u64,
    constants: u64,
    entries: u64,
    decorations: u64,
    grouped: u64,
}

/// Counts what the module, whose header and lengths were checked, costs whoever reads it with these constants.
pub(super) fn check(words: &[u32], constants: &[(u32, u32)]) -> Result<(), Fault> {
    let bound = words.get(3).copied().unwrap_or(0) as usize;
    let mut ids = Vec::new();
    ids.try_reserve_exact(bound).map_err(|_| no_memory())?;
    ids.resize(bound, Id::Unknown);
    let mut given = HashMap::new();
    given.try_reserve(constants.len()).map_err(|_| no_memory())?;
    given.extend(constants.iter().copied());
    let mut measure = Measure {
        words,
        given,
        ids,
        types: Vec::new(),
        functions: Vec::new(),
        calls: Vec::new(),
        blocks: Vec::new(),
        open: Vec::new(),
        members: 0,
        variables: 0,
        constants: 0,
        entries: 0,
        decorations: 0,
        grouped: 0,
    };
    measure.read()?;
    measure.resolve()
}

fn push<T>(list: &mut Vec<T>, value: T) -> Result<(), Fault> {
    list.try_reserve(1).map_err(|_| no_memory())?;
    list.push(value);
    Ok(())
}

/// The operands of the instruction at `at`, and where the next one is.
fn instruction(words: &[u32], at: usize) -> Option<(u32, &[u32], usize)> {
    let head = *words.get(at)?;
    let end = at + ((head >> 16) as usize).max(1);
    Some((head & 0xFFFF, words.get(at + 1..end)?, end))
}

macro_rules! ops {
    ($($name:ident = $op:ident),* $(,)?) => { $(const $name: u32 = Op::$op as u32;)* };
}

ops! {
    UNDEF = Undef, ENTRY_POINT = EntryPoint, TYPE_VOID = TypeVoid, TYPE_MATRIX = TypeMatrix, TYPE_ARRAY = TypeArray,
    TYPE_RUNTIME_ARRAY = TypeRuntimeArray, TYPE_STRUCT = TypeStruct, TYPE_POINTER = TypePointer,
    TYPE_PIPE = TypePipe, SPEC_CONSTANT_TRUE = SpecConstantTrue, SPEC_CONSTANT_FALSE = SpecConstantFalse,
    SPEC_CONSTANT = SpecConstant, CONSTANT_FALSE = ConstantFalse, CONSTANT_TRUE = ConstantTrue, CONSTANT = Constant, CONSTANT_COMPOSITE = ConstantComposite,
    CONSTANT_NULL = ConstantNull, SPEC_CONSTANT_COMPOSITE = SpecConstantComposite, SPEC_CONSTANT_OP = SpecConstantOp, FUNCTION = Function,
    FUNCTION_PARAMETER = FunctionParameter, FUNCTION_END = FunctionEnd, FUNCTION_CALL = FunctionCall,
    VARIABLE = Variable, LOAD = Load, STORE = Store, COPY_MEMORY = CopyMemory, ATOMIC_LOAD = AtomicLoad, ATOMIC_STORE = AtomicStore,
    ATOMIC_XOR = AtomicXor, DECORATE = Decorate, GROUP_DECORATE = GroupDecorate,
    GROUP_MEMBER_DECORATE = GroupMemberDecorate, LOOP_MERGE = LoopMerge, SELECTION_MERGE = SelectionMerge,
    LABEL = Label, BRANCH = Branch, BRANCH_CONDITIONAL = BranchConditional, SWITCH = Switch,
}

const SPEC_ID: u32 = Decoration::SpecId as u32;

impl Measure<'_> {
    fn id(&self, id: u32) -> Id {
        self.ids.get(id as usize).copied().unwrap_or(Id::Unknown)
    }

    fn set(&mut self, id: u32, to: Id) {
        if let Some(place) = self.ids.get_mut(id as usize) {
            *place = to;
        }
    }

    fn ty(&self, id: u32) -> Type {
        let simple = Type { values: 1, elements: 1, members: 1, depth: 0, pointee: u32::MAX, shared: false };
        match self.id(id) {
            Id::Type(ty) => self.types.get(ty as usize).copied().unwrap_or(simple),
            _ => simple,
        }
    }

    /// The type of a value, by its place in the list.
    fn type_of(&self, id: u32) -> Option<Type> {
        match self.id(id) {
            Id::Value(ty) | Id::Composite { ty, .. } => self.types.get(ty as usize).copied(),
            _ => None,
        }
    }

    fn place_of_type(&self, id: u32) -> u32 {
        match self.id(id) {
            Id::Type(ty) => ty,
            _ => u32::MAX,
        }
    }

    /// What a constant is written out to.
    fn size(&self, id: u32) -> u64 {
        match self.id(id) {
            Id::Composite { size, .. } => u64::from(size),
            _ => 1,
        }
    }

    fn read(&mut self) -> Result<(), Fault> {
        let mut at = HEADER_WORDS;
        let mut inside = false;
        while let Some((op, operands, next)) = instruction(self.words, at) {
            if op == FUNCTION {
                self.end_function()?;
                inside = true;
                let number = self.functions.len() as u32;
                if let &[_, id, ..] = operands {
                    self.set(id, Id::Function(number));
                }
                let calls = self.calls.len() as u32;
                push(&mut self.functions, Function { calls: (calls, calls), instructions: 1, ..Function::default() })?;
            } else if op == FUNCTION_END {
                self.end_function()?;
                inside = false;
            } else if inside {
                self.read_in_function(op, operands, at)?;
            } else {
                self.read_outside(op, operands)?;
            }
            at = next;
        }
        self.end_function()?;
        let entries = self.entries.saturating_mul(self.functions.len() as u64);
        let grouped = self.grouped.saturating_mul(self.decorations);
        for (subject, count, what, most) in [
            ("the module has", entries, "pairs of an entry point and a function", MOST_ENTRIES),
            (
                "the module's types have",
                self.members,
                "members, where each is written out wherever it is named",
                MOST_MEMBERS,
            ),
            ("the module's variables have", self.variables, "members", MOST_VARIABLES),
            (
                "the module's constants have",
                self.constants,
                "parts, where each is written out wherever it is named",
                MOST_CONSTANTS,
            ),
            ("the module's groups of decorations come to", grouped, "decorations", MOST_GROUPED),
        ] {
            if count > most {
                return Err(exceeded(subject, count, what, most));
            }
        }
        Ok(())
    }

    fn read_outside(&mut self, op: u32, operands: &[u32]) -> Result<(), Fault> {
        match (op, operands) {
            (ENTRY_POINT, _) => self.entries += 1,
            (DECORATE, _) => {
                self.decorations += 1;
                if let &[id, SPEC_ID, number] = operands {
                    self.set(id, Id::Specialized(number));
                }
            }
            (GROUP_DECORATE | GROUP_MEMBER_DECORATE, _) => self.grouped += operands.len() as u64,
            (TYPE_VOID..=TYPE_PIPE, &[id, ref of @ ..]) => self.read_type(op, id, of)?,
            (VARIABLE, &[ty, id, ..]) => {
                let pointer = self.ty(ty);
                let pointee = self.types.get(pointer.pointee as usize).map_or(1, |pointee| pointee.members);
                self.variables = self.variables.saturating_add(pointee);
                self.set(id, Id::Value(self.place_of_type(ty)));
            }
            (CONSTANT, &[_, id, value]) => {
                self.set(id, Id::Scalar(value));
                self.constants += 1;
            }
            (SPEC_CONSTANT, &[_, id, value]) => {
                self.set(id, Id::Scalar(self.given(id).unwrap_or(value)));
                self.constants += 1;
            }
            (CONSTANT_TRUE | CONSTANT_FALSE | SPEC_CONSTANT_TRUE | SPEC_CONSTANT_FALSE, &[_, id]) => {
                let value = u32::from(matches!(op, CONSTANT_TRUE | SPEC_CONSTANT_TRUE));
                self.set(id, Id::Scalar(self.given(id).map_or(value, |given| u32::from(given != 0))));
                self.constants += 1;
            }
            (SPEC_CONSTANT_OP, &[_, id, operation, ref of @ ..]) if self.fold(operation, of).is_some() => {
                self.set(id, self.fold(operation, of).map_or(Id::Unknown, Id::Scalar));
                self.constants += 1;
            }
            (CONSTANT_COMPOSITE | SPEC_CONSTANT_COMPOSITE, &[ty, id, ref parts @ ..]) => {
                let size = parts.iter().fold(1u64, |sum, &part| sum.saturating_add(self.size(part)));
                self.add_constant(ty, id, size);
            }
            (CONSTANT_NULL | UNDEF | SPEC_CONSTANT_OP, &[ty, id, ..]) => {
                let size = self.ty(ty).values;
                self.add_constant(ty, id, size);
            }
            (CONSTANT_TRUE..=SPEC_CONSTANT_OP, &[ty, id, ..]) => {
                self.constants += 1;
                self.set(id, Id::Value(self.place_of_type(ty)));
            }
            _ => {}
        }
        Ok(())
    }

    /// The value that the caller gives a constant.
    fn given(&self, id: u32) -> Option<u32> {
        match self.id(id) {
            Id::Specialized(number) => self.given.get(&number).copied(),
            _ => None,
        }
    }

    /// A constant operation on numbers.
    fn fold(&self, operation: u32, of: &[u32]) -> Option<u32> {
        let mut numbers = [0; 3];
        for (number, &id) in numbers.get_mut(..of.len())?.iter_mut().zip(of) {
            let Id::Scalar(value) = self.id(id) else { return None };
            *number = value;
        }
        fold(operation, numbers.get(..of.len())?)
    }

    fn add_constant(&mut self, ty: u32, id: u32, size: u64) {
        self.constants = self.constants.saturating_add(size);
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.set(id, Id::Composite { ty: self.place_of_type(ty), size });
    }

    fn read_type(&mut self, op: u32, id: u32, of: &[u32]) -> Result<(), Fault> {
        let mut made = Type { values: 1, elements: 1, members: 1, depth: 0, pointee: u32::MAX, shared: false };
        match (op, of) {
            (TYPE_MATRIX, &[_, columns, ..]) => {
                made.values = u64::from(columns);
                made.elements = made.values;
            }
            (TYPE_ARRAY | TYPE_RUNTIME_ARRAY, &[part, ref length @ ..]) => {
                let length = match length.first().map(|&length| self.id(length)) {
                    Some(Id::Scalar(length)) => Some(u64::from(length)),
                    _ => None,
                };
                let part = self.ty(part);
                made.values = part.values.saturating_mul(length.unwrap_or(UNKNOWN_LENGTH));
                made.elements = part.elements.saturating_mul(length.unwrap_or(1));
                made.members = part.members.saturating_add(1);
                made.depth = part.depth + 1;
            }
            (TYPE_STRUCT, parts) => {
                for &part in parts {
                    let part = self.ty(part);
                    made.values = made.values.saturating_add(part.values);
                    made.elements = made.elements.saturating_add(part.elements);
                    made.members = made.members.saturating_add(part.members);
                    made.depth = made.depth.max(part.depth + 1);
                }
            }
            (TYPE_POINTER, &[class, to, ..]) => {
                made.pointee = self.place_of_type(to);
                made.shared = ![StorageClass::Function, StorageClass::Private, StorageClass::Input]
                    .iter()
                    .any(|&own| own as u32 == class);
            }
            _ => {}
        }
        if made.depth > MOST_DEPTH {
            return Err(exceeded("a type of the module has", made.depth, "types around another", MOST_DEPTH));
        }
        self.members = self.members.saturating_add(made.members);
        self.set(id, Id::Type(self.types.len() as u32));
        push(&mut self.types, made)
    }

    fn read_in_function(&mut self, op: u32, operands: &[u32], at: usize) -> Result<(), Fault> {
        let calls = self.calls.len() as u32;
        let (mut weight, mut shared) = (1u64, false);
        match (op, operands) {
            (LABEL, &[id, ..]) => {
                self.set(id, Id::Block(self.blocks.len() as u32));
                push(&mut self.blocks, Block { merge: 0, end: at, nesting: None, calls: (calls, calls) })?;
            }
            (LOOP_MERGE | SELECTION_MERGE, _) => {
                if let Some(block) = self.blocks.last_mut() {
                    block.merge = at;
                }
            }
            (BRANCH | BRANCH_CONDITIONAL, _) => self.end_block(at),
            (SWITCH, _) => {
                self.end_block(at);
                weight = operands.len() as u64;
            }
            (VARIABLE, &[ty, id, ..]) => {
                let pointee = self.types.get(self.ty(ty).pointee as usize).map_or(1, |pointee| pointee.elements);
                self.set(id, Id::Value(self.place_of_type(ty)));
                if let Some(function) = self.functions.last_mut() {
                    function.locals = function.locals.saturating_add(pointee);
                }
            }
            (STORE | ATOMIC_STORE | COPY_MEMORY, &[to, ..]) => {
                let to = self.type_of(to);
                let pointee = to.and_then(|to| self.types.get(to.pointee as usize));
                weight = pointee.map_or(1, |pointee| pointee.values);
                shared = to.is_some_and(|to| to.shared);
            }
            // Whatever else makes a value has its type and its id first.
            (_, &[ty, id, ..]) if matches!(self.id(ty), Id::Type(_)) => {
                let place = self.place_of_type(ty);
                weight = self.types.get(place as usize).map_or(1, |ty| ty.values);
                if matches!(self.id(id), Id::Unknown | Id::Specialized(_)) {
                    self.set(id, Id::Value(place));
                }
                if matches!(op, LOAD | ATOMIC_LOAD..=ATOMIC_XOR)
                    && let Some(&from) = operands.get(2)
                {
                    shared = self.type_of(from).is_some_and(|from| from.shared);
                }
                if op == FUNCTION_CALL
                    && let Some(&callee) = operands.get(2)
                {
                    push(&mut self.calls, Call { callee, nesting: 0 })?;
                    if let Some(block) = self.blocks.last_mut() {
                        block.calls.1 = calls + 1;
                    }
                }
            }
            _ => {}
        }
        if op != FUNCTION_PARAMETER
            && let Some(function) = self.functions.last_mut()
        {
            function.instructions = function.instructions.saturating_add(weight.max(1));
            if shared {
                function.accesses = function.accesses.saturating_add(weight.max(1));
            }
        }
        Ok(())
    }

    fn end_block(&mut self, at: usize) {
        if let Some(block) = self.blocks.last_mut() {
            block.end = at;
        }
    }

    /// Finds out how many constructs each block of the function is in, and adds the function up.
    fn end_function(&mut self) -> Result<(), Fault> {
        let mut nesting = 0u64;
        for root in 0..self.blocks.len() as u32 {
            self.reach(root, 0)?;
            while let Some(block) = self.open.pop() {
                let block = block as usize;
                let Some(&Block { merge, end, nesting: Some(depth), calls: (from, to) }) = self.blocks.get(block)
                else {
                    continue;
                };
                nesting += u64::from(depth);
                for call in self.calls.get_mut(from as usize..to as usize).into_iter().flatten() {
                    call.nesting = u64::from(depth);
                }
                let mut inside = depth;
                if merge != 0
                    && let Some((op, operands, _)) = instruction(self.words, merge)
                {
                    inside += 1;
                    // The block where the construct ends lies outside of it.
                    if let Some(&merge) = operands.first() {
                        self.reach_id(merge, depth)?;
                    }
                    if let (LOOP_MERGE, Some(&resume)) = (op, operands.get(1)) {
                        self.reach_id(resume, inside)?;
                    }
                }
                match instruction(self.words, end) {
                    Some((BRANCH, &[to, ..], _)) => self.reach_id(to, inside)?,
                    Some((BRANCH_CONDITIONAL, &[_, yes, no, ..], _)) => {
                        self.reach_id(yes, inside)?;
                        self.reach_id(no, inside)?;
                    }
                    Some((SWITCH, &[_, other, ref cases @ ..], _)) => {
                        self.reach_id(other, inside)?;
                        // A literal of 32 bits is one word; of longer ones some words are no blocks of this function.
                        for &case in cases {
                            self.reach_id(case, inside)?;
                        }
                    }
                    _ => {}
                }
            }
        }
        if let Some(function) = self.functions.last_mut().filter(|_| !self.blocks.is_empty()) {
            function.nesting = nesting;
            function.blocks = self.blocks.len() as u64;
        }
        if let Some(function) = self.functions.last_mut() {
            function.calls.1 = self.calls.len() as u32;
        }
        self.blocks.clear();
        Ok(())
    }

    fn reach_id(&mut self, id: u32, nesting: u32) -> Result<(), Fault> {
        match self.id(id) {
            Id::Block(block) => self.reach(block, nesting),
            _ => Ok(()),
        }
    }

    fn reach(&mut self, block: u32, nesting: u32) -> Result<(), Fault> {
        match self.blocks.get_mut(block as usize) {
            Some(Block { nesting: place @ None, .. }) => {
                *place = Some(nesting);
                push(&mut self.open, block)
            }
            _ => Ok(()),
        }
    }

    /// Replaces calls by what they call, the called functions first.
    fn resolve(&mut self) -> Result<(), Fault> {
        let mut all = 0u64;
        for root in 0..self.functions.len() as u32 {
            self.open.clear();
            push(&mut self.open, root)?;
            while let Some(&number) = self.open.last() {
                let Some(&function) = self.functions.get(number as usize) else { break };
                match function.state {
                    State::Resolved => {
                        self.open.pop();
                        continue;
                    }
                    State::Unresolved => {
                        self.functions[number as usize].state = State::Open;
                        for call in function.calls.0..function.calls.1 {
                            let Some(callee) = self.callee(call) else { continue };
                            match self.functions.get(callee as usize).map(|callee| callee.state) {
                                Some(State::Unresolved) => push(&mut self.open, callee)?,
                                Some(State::Open) => {
                                    let message = "a function of the module calls itself, or one that calls it";
                                    return Err(Fault::new(Code::InvalidShader, message));
                                }
                                _ => {}
                            }
                        }
                    }
                    State::Open => {
                        self.open.pop();
                        all = all.saturating_add(self.add_up(number)?);
                    }
                }
            }
        }
        if all > MOST_INLINED_IN_ALL {
            let what = "instructions together, with those of what they call for each call";
            return Err(exceeded("the module's functions have", all, what, MOST_INLINED_IN_ALL));
        }
        Ok(())
    }

    fn callee(&self, call: u32) -> Option<u32> {
        match self.id(self.calls.get(call as usize)?.callee) {
            Id::Function(callee) => Some(callee),
            _ => None,
        }
    }

    /// Adds what it calls to a function, and checks what that comes to. Its instructions.
    fn add_up(&mut self, number: u32) -> Result<u64, Fault> {
        let mut sum = self.functions[number as usize];
        for call in sum.calls.0..sum.calls.1 {
            let Some(callee) = self.callee(call) else { continue };
            let callee = self.functions[callee as usize];
            let nesting = self.calls[call as usize].nesting;
            sum.instructions = sum.instructions.saturating_add(callee.instructions);
            sum.accesses = sum.accesses.saturating_add(callee.accesses);
            sum.locals = sum.locals.saturating_add(callee.locals);
            sum.nesting =
                sum.nesting.saturating_add(callee.nesting).saturating_add(nesting.saturating_mul(callee.blocks));
            // Its first block goes on in that of the call.
            sum.blocks = sum.blocks.saturating_add(callee.blocks.saturating_sub(1));
        }
        sum.state = State::Resolved;
        self.functions[number as usize] = sum;
        let control_flow =
            (sum.blocks / 2).saturating_mul(sum.instructions.saturating_add(sum.nesting.saturating_mul(NESTING)));
        for (count, what, most) in [
            (sum.instructions, "instructions, with those of what it calls for each call", MOST_INLINED),
            (sum.accesses, "accesses to memory, with those of what it calls for each call", MOST_ACCESSES),
            (sum.locals, "elements of variables, with those of what it calls for each call", MOST_LOCALS),
            (control_flow, "steps of control flow, which grow with its blocks, nesting and calls", MOST_CONTROL_FLOW),
        ] {
            if count > most {
                return Err(exceeded("a function of the module has", count, what, most));
            }
        }
        Ok(sum.instructions)
    }
}
