//! Random kernels: what a module proves is compared with the kernel run through one invocation after the other.

use proptest::prelude::*;
use rspirv::binary::Assemble;
use rspirv::dr::{Builder, Operand};
use rspirv::spirv::{
    AddressingModel, BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel, FunctionControl, LoopControl,
    MemoryModel, SelectionControl, StorageClass, Word,
};
use tidegate::failure::Access;
use tidegate::stream::backend::{KernelInfo, KernelSource};
use tidegate::stream::coverage::LaunchFacts;
use tidegate::vulkan::spirv::{ModuleLimits, inspect};

const GROUP: [u32; 3] = [4, 2, 1];
const VARIABLES: usize = 2;
const OUTPUTS: usize = 2;

#[derive(Clone, Debug)]
enum Int {
    Constant(u32),
    Push(usize),
    Global(usize),
    Group(usize),
    Local(usize),
    /// Elements of an output.
    Length(usize),
    Variable(usize),
    /// What the source holds at an invocation's place.
    Data,
    Binary(&'static str, Box<Int>, Box<Int>),
    Choice(Box<Bool>, Box<Int>, Box<Int>),
}

#[derive(Clone, Debug)]
enum Bool {
    Compare(&'static str, Box<Int>, Box<Int>),
    And(Box<Bool>, Box<Bool>),
    Or(Box<Bool>, Box<Bool>),
    /// As a compiler spells `&&`, which looks at the right side only if it must.
    AndThen(Box<Bool>, Box<Bool>),
    Not(Box<Bool>),
}

#[derive(Clone, Debug)]
enum Statement {
    Store(usize, Int),
    /// Loads an output's element into a variable.
    Load(usize, Int, usize),
    Set(usize, Int),
    If(Bool, Vec<Statement>, Vec<Statement>),
    /// Up to three times; the flag says that the test comes last.
    Loop(bool, Int, Vec<Statement>),
    Break,
    Return,
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % end
    }

    fn int(&mut self, depth: usize) -> Int {
        let half = |random: &mut Random| Box::new(random.int(depth.saturating_sub(1)));
        match self.below(if depth == 0 { 14 } else { 24 }) {
            0..4 => Int::Global(0),
            4 => Int::Global(1),
            5 | 6 => Int::Constant(self.below(5) as u32),
            7 | 8 => Int::Push(self.below(3)),
            9 => Int::Group(self.below(2)),
            10 => Int::Local(self.below(2)),
            11 => Int::Length(self.below(OUTPUTS)),
            12 => Int::Variable(self.below(VARIABLES)),
            13 => Int::Data,
            14..17 => Int::Binary("+", half(self), half(self)),
            17 => Int::Binary("-", half(self), half(self)),
            18..21 => Int::Binary("*", half(self), half(self)),
            21 => Int::Binary("min", half(self), half(self)),
            22 => Int::Binary("max", half(self), half(self)),
            _ => Int::Choice(Box::new(self.bool(depth - 1)), half(self), half(self)),
        }
    }

    /// The index of a usual kernel, more often than chance would have it.
    fn index(&mut self) -> Int {
        let add = |a, b| Int::Binary("+", Box::new(a), Box::new(b));
        let multiply = |a, b| Int::Binary("*", Box::new(a), Box::new(b));
        match self.below(8) {
            0 | 1 => Int::Global(0),
            2 => add(Int::Global(0), Int::Push(1)),
            3 => add(multiply(Int::Global(1), Int::Push(0)), Int::Global(0)),
            4 => add(multiply(Int::Group(0), Int::Constant(GROUP[0])), Int::Local(0)),
            5 => Int::Variable(0),
            _ => self.int(2),
        }
    }

    fn bool(&mut self, depth: usize) -> Bool {
        let half = |random: &mut Random| Box::new(random.bool(depth.saturating_sub(1)));
        match self.below(if depth == 0 { 4 } else { 8 }) {
            0..4 => {
                let compare = ["<", "<=", ">", ">=", "==", "!="][self.below(6)];
                Bool::Compare(compare, Box::new(self.index()), Box::new(self.int(1)))
            }
            4 => Bool::And(half(self), half(self)),
            5 => Bool::Or(half(self), half(self)),
            6 => Bool::AndThen(half(self), half(self)),
            _ => Bool::Not(half(self)),
        }
    }

    fn statements(&mut self, depth: usize, in_loop: bool) -> Vec<Statement> {
        let count = 1 + self.below(if depth == 3 { 5 } else { 2 });
        let mut made = Vec::new();
        for _ in 0..count {
            made.push(match self.below(if depth == 0 { 6 } else { 11 }) {
                0..3 => Statement::Store(self.below(OUTPUTS), self.index()),
                3 => Statement::Set(self.below(VARIABLES), self.index()),
                4 => Statement::Load(self.below(OUTPUTS), self.index(), self.below(VARIABLES)),
                5 if self.below(3) > 0 => Statement::Store(0, Int::Global(0)),
                5 if in_loop && self.below(2) > 0 => Statement::Break,
                5 => Statement::Return,
                6..10 => {
                    let otherwise = if self.below(2) == 0 { vec![] } else { self.statements(depth - 1, in_loop) };
                    Statement::If(self.bool(1), self.statements(depth - 1, in_loop), otherwise)
                }
                _ => Statement::Loop(self.below(2) == 0, self.int(1), self.statements(depth - 1, true)),
            });
            if matches!(made.last(), Some(Statement::Break | Statement::Return)) {
                break;
            }
        }
        made
    }
}

/// Writes a kernel as a module.
struct Writer {
    b: Builder,
    int: Word,
    bool: Word,
    glsl: Word,
    element: Word,
    pushed: Word,
    push: Word,
    source: Word,
    outputs: Vec<Word>,
    variables: Vec<Word>,
    counters: Vec<Word>,
    inputs: [Word; 3],
    vector: Word,
    /// The block that is open.
    block: Word,
    /// Where the innermost loop is left to.
    leave: Option<Word>,
}

fn loops(statements: &[Statement]) -> usize {
    let count = |statement: &Statement| match statement {
        Statement::If(_, yes, no) => loops(yes) + loops(no),
        Statement::Loop(_, _, body) => 1 + loops(body),
        _ => 0,
    };
    statements.iter().map(count).sum()
}

impl Writer {
    fn module(statements: &[Statement]) -> Vec<u8> {
        let mut b = Builder::new();
        b.set_version(1, 3);
        b.capability(Capability::Shader);
        let glsl = b.ext_inst_import("GLSL.std.450");
        b.memory_model(AddressingModel::Logical, MemoryModel::GLSL450);
        let (void, int, bool) = (b.type_void(), b.type_int(32, 0), b.type_bool());
        let vector = b.type_vector(int, 3);
        let array = b.type_runtime_array(int);
        b.decorate(array, Decoration::ArrayStride, [Operand::LiteralBit32(4)]);
        let block = b.type_struct([array]);
        b.decorate(block, Decoration::Block, []);
        b.member_decorate(block, 0, Decoration::Offset, [Operand::LiteralBit32(0)]);
        let buffer = b.type_pointer(None, StorageClass::StorageBuffer, block);
        let element = b.type_pointer(None, StorageClass::StorageBuffer, int);
        let mut buffers = Vec::new();
        for binding in 0..=OUTPUTS as u32 {
            let variable = b.variable(buffer, None, StorageClass::StorageBuffer, None);
            b.decorate(variable, Decoration::DescriptorSet, [Operand::LiteralBit32(0)]);
            b.decorate(variable, Decoration::Binding, [Operand::LiteralBit32(binding)]);
            buffers.push(variable);
        }
        let input = b.type_pointer(None, StorageClass::Input, vector);
        let builtins = [BuiltIn::GlobalInvocationId, BuiltIn::WorkgroupId, BuiltIn::LocalInvocationId];
        let inputs = builtins.map(|builtin| {
            let variable = b.variable(input, None, StorageClass::Input, None);
            b.decorate(variable, Decoration::BuiltIn, [Operand::BuiltIn(builtin)]);
            variable
        });
        let constants = b.type_struct([int, int, int]);
        b.decorate(constants, Decoration::Block, []);
        for member in 0..3 {
            b.member_decorate(constants, member, Decoration::Offset, [Operand::LiteralBit32(4 * member)]);
        }
        let constants = b.type_pointer(None, StorageClass::PushConstant, constants);
        let pushed = b.type_pointer(None, StorageClass::PushConstant, int);
        let push = b.variable(constants, None, StorageClass::PushConstant, None);
        let function = b.type_function(void, []);
        let local = b.type_pointer(None, StorageClass::Function, int);
        let zero = b.constant_bit32(int, 0);
        let main = b.begin_function(void, None, FunctionControl::NONE, function).unwrap();
        b.entry_point(ExecutionModel::GLCompute, main, "main", inputs);
        b.execution_mode(main, ExecutionMode::LocalSize, GROUP);
        let first = b.begin_block(None).unwrap();
        let mut all = Vec::new();
        for _ in 0..VARIABLES + loops(statements) {
            all.push(b.variable(local, None, StorageClass::Function, None));
        }
        for &variable in &all {
            b.store(variable, zero, None, []).unwrap();
        }
        let mut writer = Writer {
            b,
            int,
            bool,
            glsl,
            element,
            pushed,
            push,
            source: buffers.remove(0),
            outputs: buffers,
            counters: all.split_off(VARIABLES),
            variables: all,
            inputs,
            vector,
            block: first,
            leave: None,
        };
        if writer.statements(statements) {
            writer.b.ret().unwrap();
        }
        writer.b.end_function().unwrap();
        writer.b.module().assemble().iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn constant(&mut self, value: u32) -> Word {
        self.b.constant_bit32(self.int, value)
    }

    fn begin(&mut self, block: Word) {
        self.b.begin_block(Some(block)).unwrap();
        self.block = block;
    }

    fn input(&mut self, which: usize, axis: usize) -> Word {
        let value = self.b.load(self.vector, None, self.inputs[which], None, []).unwrap();
        self.b.composite_extract(self.int, None, value, [axis as u32]).unwrap()
    }

    fn at(&mut self, buffer: Word, index: Word) -> Word {
        let zero = self.constant(0);
        self.b.access_chain(self.element, None, buffer, [zero, index]).unwrap()
    }

    fn int(&mut self, value: &Int) -> Word {
        match value {
            Int::Constant(value) => self.constant(*value),
            Int::Push(member) => {
                let member = self.constant(*member as u32);
                let pointer = self.b.access_chain(self.pushed, None, self.push, [member]).unwrap();
                self.b.load(self.int, None, pointer, None, []).unwrap()
            }
            Int::Global(axis) => self.input(0, *axis),
            Int::Group(axis) => self.input(1, *axis),
            Int::Local(axis) => self.input(2, *axis),
            Int::Length(output) => self.b.array_length(self.int, None, self.outputs[*output], 0).unwrap(),
            Int::Variable(variable) => self.b.load(self.int, None, self.variables[*variable], None, []).unwrap(),
            Int::Data => {
                let index = self.input(0, 0);
                let pointer = self.at(self.source, index);
                self.b.load(self.int, None, pointer, None, []).unwrap()
            }
            Int::Binary(operation, a, b) => {
                let (a, b) = (self.int(a), self.int(b));
                match *operation {
                    "+" => self.b.i_add(self.int, None, a, b).unwrap(),
                    "-" => self.b.i_sub(self.int, None, a, b).unwrap(),
                    "*" => self.b.i_mul(self.int, None, a, b).unwrap(),
                    other => {
                        let number = if other == "min" { 38 } else { 41 };
                        let operands = [Operand::IdRef(a), Operand::IdRef(b)];
                        self.b.ext_inst(self.int, None, self.glsl, number, operands).unwrap()
                    }
                }
            }
            Int::Choice(condition, a, b) => {
                let (condition, a, b) = (self.bool(condition), self.int(a), self.int(b));
                self.b.select(self.int, None, condition, a, b).unwrap()
            }
        }
    }

    fn bool(&mut self, value: &Bool) -> Word {
        match value {
            Bool::Compare(compare, a, b) => {
                let (a, b) = (self.int(a), self.int(b));
                match *compare {
                    "<" => self.b.u_less_than(self.bool, None, a, b),
                    "<=" => self.b.u_less_than_equal(self.bool, None, a, b),
                    ">" => self.b.u_greater_than(self.bool, None, a, b),
                    ">=" => self.b.u_greater_than_equal(self.bool, None, a, b),
                    "==" => self.b.i_equal(self.bool, None, a, b),
                    _ => self.b.i_not_equal(self.bool, None, a, b),
                }
                .unwrap()
            }
            Bool::And(a, b) => {
                let (a, b) = (self.bool(a), self.bool(b));
                self.b.logical_and(self.bool, None, a, b).unwrap()
            }
            Bool::Or(a, b) => {
                let (a, b) = (self.bool(a), self.bool(b));
                self.b.logical_or(self.bool, None, a, b).unwrap()
            }
            Bool::Not(a) => {
                let a = self.bool(a);
                self.b.logical_not(self.bool, None, a).unwrap()
            }
            Bool::AndThen(a, b) => {
                let a = self.bool(a);
                let (from, right, merge) = (self.block, self.b.id(), self.b.id());
                self.b.selection_merge(merge, SelectionControl::NONE).unwrap();
                self.b.branch_conditional(a, right, merge, []).unwrap();
                self.begin(right);
                let b = self.bool(b);
                let right = self.block;
                self.b.branch(merge).unwrap();
                self.begin(merge);
                self.b.phi(self.bool, None, [(a, from), (b, right)]).unwrap()
            }
        }
    }

    /// Whether control goes on after them.
    fn statements(&mut self, statements: &[Statement]) -> bool {
        for statement in statements {
            match statement {
                Statement::Store(output, index) => {
                    let index = self.int(index);
                    let pointer = self.at(self.outputs[*output], index);
                    let value = self.constant(1);
                    self.b.store(pointer, value, None, []).unwrap();
                }
                Statement::Load(output, index, variable) => {
                    let index = self.int(index);
                    let pointer = self.at(self.outputs[*output], index);
                    let value = self.b.load(self.int, None, pointer, None, []).unwrap();
                    self.b.store(self.variables[*variable], value, None, []).unwrap();
                }
                Statement::Set(variable, value) => {
                    let value = self.int(value);
                    self.b.store(self.variables[*variable], value, None, []).unwrap();
                }
                Statement::If(condition, yes, no) => {
                    let condition = self.bool(condition);
                    let (first, second, merge) = (self.b.id(), self.b.id(), self.b.id());
                    self.b.selection_merge(merge, SelectionControl::NONE).unwrap();
                    self.b.branch_conditional(condition, first, second, []).unwrap();
                    let mut goes_on = false;
                    for (block, statements) in [(first, yes), (second, no)] {
                        self.begin(block);
                        if self.statements(statements) {
                            self.b.branch(merge).unwrap();
                            goes_on = true;
                        }
                    }
                    self.begin(merge);
                    if !goes_on {
                        self.b.unreachable().unwrap();
                        return false;
                    }
                }
                Statement::Loop(test_last, count, body) => {
                    let (count, three, one) = (self.int(count), self.constant(3), self.constant(1));
                    let count = self.b.bitwise_and(self.int, None, count, three).unwrap();
                    let counter = self.counters.pop().unwrap();
                    let zero = self.constant(0);
                    self.b.store(counter, zero, None, []).unwrap();
                    let [header, inside, next, merge] = [(); 4].map(|()| self.b.id());
                    let outer = self.leave.replace(merge);
                    self.b.branch(header).unwrap();
                    self.begin(header);
                    let test = |writer: &mut Writer| {
                        let at = writer.b.load(writer.int, None, counter, None, []).unwrap();
                        writer.b.u_less_than(writer.bool, None, at, count).unwrap()
                    };
                    match test_last {
                        true => {
                            self.b.loop_merge(merge, next, LoopControl::NONE, []).unwrap();
                            self.b.branch(inside).unwrap();
                        }
                        false => {
                            let more = test(self);
                            self.b.loop_merge(merge, next, LoopControl::NONE, []).unwrap();
                            self.b.branch_conditional(more, inside, merge, []).unwrap();
                        }
                    }
                    self.begin(inside);
                    if self.statements(body) {
                        self.b.branch(next).unwrap();
                    }
                    self.begin(next);
                    let at = self.b.load(self.int, None, counter, None, []).unwrap();
                    let at = self.b.i_add(self.int, None, at, one).unwrap();
                    self.b.store(counter, at, None, []).unwrap();
                    match test_last {
                        true => {
                            let more = test(self);
                            self.b.branch_conditional(more, header, merge, []).unwrap();
                        }
                        false => self.b.branch(header).unwrap(),
                    }
                    self.leave = outer;
                    self.begin(merge);
                }
                Statement::Break => {
                    self.b.branch(self.leave.unwrap()).unwrap();
                    return false;
                }
                Statement::Return => {
                    self.b.ret().unwrap();
                    return false;
                }
            }
        }
        true
    }
}

/// A launch in the terms of the model.
#[derive(Clone, Debug)]
struct Launch {
    groups: [u32; 3],
    push: [u32; 3],
    /// Words of each output.
    lengths: [usize; OUTPUTS],
    data: Vec<u32>,
}

/// One invocation.
struct Invocation<'a> {
    launch: &'a Launch,
    group: [u32; 3],
    local: [u32; 3],
    variables: [u32; VARIABLES],
    /// What it stored itself, and what any invocation did.
    own: [Vec<bool>; OUTPUTS],
    written: &'a mut [Vec<bool>; OUTPUTS],
    /// Outputs of which it loaded what it had not stored.
    foreign: &'a mut [bool; OUTPUTS],
}

enum Flow {
    On,
    Break,
    Return,
}

impl Invocation<'_> {
    fn int(&self, value: &Int) -> u32 {
        match value {
            Int::Constant(value) => *value,
            Int::Push(member) => self.launch.push[*member],
            Int::Global(axis) => self.group[*axis] * GROUP[*axis] + self.local[*axis],
            Int::Group(axis) => self.group[*axis],
            Int::Local(axis) => self.local[*axis],
            Int::Length(output) => self.launch.lengths[*output] as u32,
            Int::Variable(variable) => self.variables[*variable],
            Int::Data => self.launch.data[self.int(&Int::Global(0)) as usize % self.launch.data.len()],
            Int::Binary(operation, a, b) => {
                let (a, b) = (self.int(a), self.int(b));
                match *operation {
                    "+" => a.wrapping_add(b),
                    "-" => a.wrapping_sub(b),
                    "*" => a.wrapping_mul(b),
                    "min" => a.min(b),
                    _ => a.max(b),
                }
            }
            Int::Choice(condition, a, b) => self.int(if self.bool(condition) { a } else { b }),
        }
    }

    fn bool(&self, value: &Bool) -> bool {
        match value {
            Bool::Compare(compare, a, b) => {
                let (a, b) = (self.int(a), self.int(b));
                match *compare {
                    "<" => a < b,
                    "<=" => a <= b,
                    ">" => a > b,
                    ">=" => a >= b,
                    "==" => a == b,
                    _ => a != b,
                }
            }
            Bool::And(a, b) | Bool::AndThen(a, b) => self.bool(a) && self.bool(b),
            Bool::Or(a, b) => self.bool(a) || self.bool(b),
            Bool::Not(a) => !self.bool(a),
        }
    }

    fn run(&mut self, statements: &[Statement]) -> Flow {
        for statement in statements {
            let flow = match statement {
                Statement::Store(output, index) => {
                    let index = self.int(index) as usize;
                    if index < self.launch.lengths[*output] {
                        self.own[*output][index] = true;
                        self.written[*output][index] = true;
                    }
                    Flow::On
                }
                Statement::Load(output, index, variable) => {
                    let index = self.int(index) as usize;
                    // What the element holds is data.
                    self.variables[*variable] = self.launch.data[index % self.launch.data.len()];
                    if self.own[*output].get(index) == Some(&false) {
                        self.foreign[*output] = true;
                    }
                    Flow::On
                }
                Statement::Set(variable, value) => {
                    self.variables[*variable] = self.int(value);
                    Flow::On
                }
                Statement::If(condition, yes, no) => self.run(if self.bool(condition) { yes } else { no }),
                Statement::Loop(test_last, count, body) => {
                    let count = self.int(count) & 3;
                    let count = if *test_last { count.max(1) } else { count };
                    let mut flow = Flow::On;
                    for _ in 0..count {
                        match self.run(body) {
                            Flow::On => {}
                            Flow::Break => break,
                            Flow::Return => {
                                flow = Flow::Return;
                                break;
                            }
                        }
                    }
                    flow
                }
                Statement::Break => Flow::Break,
                Statement::Return => Flow::Return,
            };
            if !matches!(flow, Flow::On) {
                return flow;
            }
        }
        Flow::On
    }
}

fn run(statements: &[Statement], launch: &Launch) -> ([Vec<bool>; OUTPUTS], [bool; OUTPUTS]) {
    let mut written = launch.lengths.map(|length| vec![false; length]);
    let mut foreign = [false; OUTPUTS];
    let [across, down, _] = launch.groups;
    for group in (0..down).flat_map(|y| (0..across).map(move |x| [x, y, 0])) {
        for local in (0..GROUP[1]).flat_map(|y| (0..GROUP[0]).map(move |x| [x, y, 0])) {
            let own = launch.lengths.map(|length| vec![false; length]);
            let (written, foreign) = (&mut written, &mut foreign);
            let variables = [0; VARIABLES];
            let mut invocation = Invocation { launch, group, local, variables, own, written, foreign };
            let _ = invocation.run(statements);
        }
    }
    (written, foreign)
}

fn info(statements: &[Statement], trusted: bool) -> Result<KernelInfo, String> {
    let code = Writer::module(statements);
    let source = KernelSource { code: &code, entry: "main", constants: &[], label: "", trusted, declares_uses: false };
    match inspect(&source, &ModuleLimits::default()) {
        Ok(module) => Ok(module.info),
        Err(rejected) => Err(rejected.fault.message.into()),
    }
}

/// A caller who vouches for a module is held to no limit of the control flow: the proof has its own.
#[test]
fn a_kernel_too_large_to_look_at_proves_nothing() {
    let found = |branches: usize| {
        let mut statements = vec![Statement::Store(0, Int::Global(0)), Statement::Load(0, Int::Global(0), 0)];
        let compare = || Bool::Compare("<", Box::new(Int::Data), Box::new(Int::Variable(0)));
        statements.extend((0..branches).map(|_| Statement::If(compare(), vec![Statement::Set(1, Int::Data)], vec![])));
        let info = info(&statements, true).unwrap();
        (info.bindings[1].access, info.bindings[1].coverage.is_some())
    };
    assert_eq!(found(100), (Access::MayWrite, true));
    assert_eq!(found(6000), (Access::ReadWrite, false));
}

fn loaded(statements: &[Statement], output: usize) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Load(of, ..) => *of == output,
        Statement::If(_, yes, no) => loaded(yes, output) || loaded(no, output),
        Statement::Loop(_, _, body) => loaded(body, output),
        _ => false,
    })
}

/// The comparison says something only if there is something to compare.
#[test]
fn random_kernels_prove_enough_to_be_worth_comparing() {
    let (mut proven, mut no_readers) = (0, 0);
    for seed in 1..200u64 {
        let statements = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)).statements(3, false);
        for binding in &info(&statements, false).unwrap().bindings[1..] {
            let facts = LaunchFacts { groups: [3, 1, 1], push: &[1; 12], slice_size: 48, sizes: &|_| Some(48) };
            proven +=
                usize::from(binding.coverage.as_ref().is_some_and(|coverage| !coverage.covered(&facts).is_empty()));
            let own = binding.access == Access::MayWrite && loaded(&statements, binding.binding as usize - 1);
            no_readers += usize::from(own);
        }
    }
    assert!(proven >= 60 && no_readers >= 5, "{proven} bindings are covered, {no_readers} see their own stores only");
}

fn any_launch() -> impl Strategy<Value = Launch> {
    let value = prop_oneof![6 => 0u32..20, 1 => any::<u32>(), 1 => Just(u32::MAX)];
    (
        1u32..5,
        1u32..4,
        prop::array::uniform3(value),
        prop::array::uniform2(0usize..60),
        prop::collection::vec(0u32..20, 8),
    )
        .prop_map(|(x, y, push, lengths, data)| Launch { groups: [x, y, 1], push, lengths, data })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_proven_is_what_the_kernel_does(seed in 1u64.., launches in prop::collection::vec(any_launch(), 3)) {
        let statements = Random(seed).statements(3, false);
        let info = info(&statements, false).map_err(TestCaseError::fail)?;
        for launch in &launches {
            let (written, foreign) = run(&statements, launch);
            for output in 0..OUTPUTS {
                let at = info.bindings.iter().position(|binding| binding.binding == output as u32 + 1).unwrap();
                let binding = &info.bindings[at];
                prop_assert!(
                    !foreign[output] || matches!(binding.access, Access::Read | Access::ReadWrite),
                    "output {output} is loaded, but is {:?}: {statements:#?} {launch:?}", binding.access
                );
                let size = |at: usize| match info.bindings[at].binding as usize {
                    0 => 4 * launch.data.len() as u64,
                    output => 4 * launch.lengths[output - 1] as u64,
                };
                let push: Vec<u8> = launch.push.iter().flat_map(|word| word.to_le_bytes()).collect();
                let facts = LaunchFacts {
                    groups: launch.groups,
                    push: &push[..info.push_size as usize],
                    slice_size: size(at),
                    sizes: &|at| Some(size(at)),
                };
                let covered = binding.coverage.as_ref().map_or(0..0, |coverage| coverage.covered(&facts));
                prop_assert!(
                    covered.end <= size(at)
                        && (covered.start..covered.end).all(|byte| written[output][byte as usize / 4]),
                    "output {output} is covered in {covered:?}: {statements:#?} {launch:?}"
                );
            }
        }
    }
}
