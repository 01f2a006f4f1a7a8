//! Modules that grow on request: each kind is small to write down and large, deep or long for whatever reads it.

/// A module under construction: a kernel over one buffer of integers.
pub struct Module {
    next: u32,
    head: Vec<u32>,
    decorations: Vec<u32>,
    globals: Vec<u32>,
    functions: Vec<u32>,
    pub void: u32,
    pub returns_void: u32,
    pub int: u32,
    pub zero: u32,
    pub one: u32,
    pub element: u32,
    pub bool: u32,
    pub buffer: u32,
    pub block: u32,
    pub pointer: u32,
    pub main: u32,
}

const WORKGROUP: u32 = 4;
const PRIVATE: u32 = 6;
const FUNCTION: u32 = 7;

mod op {
    pub const NAME: u32 = 5;
    pub const EXECUTION_MODE: u32 = 16;
    pub const TYPE_VOID: u32 = 19;
    pub const TYPE_BOOL: u32 = 20;
    pub const TYPE_INT: u32 = 21;
    pub const TYPE_ARRAY: u32 = 28;
    pub const TYPE_RUNTIME_ARRAY: u32 = 29;
    pub const TYPE_STRUCT: u32 = 30;
    pub const TYPE_POINTER: u32 = 32;
    pub const TYPE_FUNCTION: u32 = 33;
    pub const CONSTANT: u32 = 43;
    pub const CONSTANT_COMPOSITE: u32 = 44;
    pub const CONSTANT_NULL: u32 = 46;
    pub const SPEC_CONSTANT: u32 = 50;
    pub const SPEC_CONSTANT_OP: u32 = 52;
    pub const FUNCTION: u32 = 54;
    pub const FUNCTION_END: u32 = 56;
    pub const FUNCTION_CALL: u32 = 57;
    pub const VARIABLE: u32 = 59;
    pub const LOAD: u32 = 61;
    pub const STORE: u32 = 62;
    pub const ACCESS_CHAIN: u32 = 65;
    pub const DECORATE: u32 = 71;
    pub const MEMBER_DECORATE: u32 = 72;
    pub const I_ADD: u32 = 128;
    pub const I_MUL: u32 = 132;
    pub const SELECT: u32 = 169;
    pub const U_LESS_THAN: u32 = 176;
    pub const LOOP_MERGE: u32 = 246;
    pub const SELECTION_MERGE: u32 = 247;
    pub const LABEL: u32 = 248;
    pub const BRANCH: u32 = 249;
    pub const BRANCH_CONDITIONAL: u32 = 250;
    pub const SWITCH: u32 = 251;
    pub const RETURN: u32 = 253;
}

fn put(words: &mut Vec<u32>, op: u32, operands: &[u32]) {
    words.push((operands.len() as u32 + 1) << 16 | op);
    words.extend_from_slice(operands);
}

impl Module {
    pub fn new() -> Module {
        let mut m = Module {
            next: 1,
            head: Vec::new(),
            decorations: Vec::new(),
            globals: Vec::new(),
            functions: Vec::new(),
            void: 0,
            returns_void: 0,
            int: 0,
            zero: 0,
            one: 0,
            element: 0,
            bool: 0,
            buffer: 0,
            block: 0,
            pointer: 0,
            main: 0,
        };
        m.main = m.id();
        put(&mut m.head, 17, &[1]); // Shader
        put(&mut m.head, 14, &[0, 1]); // Logical GLSL450
        let name = [u32::from_le_bytes(*b"main"), 0];
        put(&mut m.head, 15, &[5, m.main, name[0], name[1]]);
        put(&mut m.head, op::EXECUTION_MODE, &[m.main, 17, 1, 1, 1]);
        m.void = m.global(op::TYPE_VOID, &[]);
        m.returns_void = m.global(op::TYPE_FUNCTION, &[m.void]);
        m.bool = m.global(op::TYPE_BOOL, &[]);
        m.int = m.global(op::TYPE_INT, &[32, 0]);
        m.zero = m.constant(0);
        m.one = m.constant(1);
        let array = m.global(op::TYPE_RUNTIME_ARRAY, &[m.int]);
        m.decorate(array, 6, &[4]);
        let block = m.global(op::TYPE_STRUCT, &[array]);
        m.decorate(block, 3, &[]); // BufferBlock
        put(&mut m.decorations, op::MEMBER_DECORATE, &[block, 0, 35, 0]);
        let pointer = m.global(op::TYPE_POINTER, &[2, block]); // Uniform
        (m.block, m.pointer) = (block, pointer);
        m.element = m.global(op::TYPE_POINTER, &[2, m.int]);
        m.buffer = m.global_of(op::VARIABLE, pointer, &[2]);
        m.decorate(m.buffer, 34, &[0]);
        m.decorate(m.buffer, 33, &[0]);
        m
    }

    pub fn id(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    pub fn decorate(&mut self, id: u32, decoration: u32, operands: &[u32]) {
        put(&mut self.decorations, op::DECORATE, &[&[id, decoration], operands].concat());
    }

    pub fn global(&mut self, op: u32, operands: &[u32]) -> u32 {
        let id = self.id();
        put(&mut self.globals, op, &[&[id], operands].concat());
        id
    }

    pub fn global_of(&mut self, op: u32, ty: u32, operands: &[u32]) -> u32 {
        let id = self.id();
        put(&mut self.globals, op, &[&[ty, id], operands].concat());
        id
    }

    /// Each of `n` structs holds the one before `times` times; the last.
    pub fn structs(&mut self, n: u32, times: u32) -> u32 {
        (0..n).fold(self.int, |ty, _| self.global(op::TYPE_STRUCT, &vec![ty; times as usize]))
    }

    pub fn constant(&mut self, value: u32) -> u32 {
        self.global_of(op::CONSTANT, self.int, &[value])
    }

    /// A function of no parameters that returns nothing; the caller adds to its first block.
    pub fn begin(&mut self, id: u32) {
        put(&mut self.functions, op::FUNCTION, &[self.void, id, 0, self.returns_void]);
        let label = self.id();
        self.add(op::LABEL, &[label]);
    }

    pub fn end(&mut self) {
        self.add(op::RETURN, &[]);
        self.add(op::FUNCTION_END, &[]);
    }

    pub fn add(&mut self, op: u32, operands: &[u32]) {
        put(&mut self.functions, op, operands);
    }

    pub fn value(&mut self, op: u32, ty: u32, operands: &[u32]) -> u32 {
        let id = self.id();
        put(&mut self.functions, op, &[&[ty, id], operands].concat());
        id
    }

    pub fn load(&mut self, index: u32) -> u32 {
        let pointer = self.value(op::ACCESS_CHAIN, self.element, &[self.buffer, self.zero, index]);
        self.value(op::LOAD, self.int, &[pointer])
    }

    pub fn store(&mut self, index: u32, value: u32) {
        let pointer = self.value(op::ACCESS_CHAIN, self.element, &[self.buffer, self.zero, index]);
        self.add(op::STORE, &[pointer, value]);
    }

    pub fn finish(self) -> Vec<u8> {
        let header = [0x0723_0203, 0x0001_0300, 0, self.next, 0];
        let parts = [&header[..], &self.head, &self.decorations, &self.globals, &self.functions];
        parts.iter().flat_map(|words| words.iter()).flat_map(|word| word.to_le_bytes()).collect()
    }

    /// A kernel that stores 1 to the first element.
    pub fn finish_small(mut self) -> Vec<u8> {
        self.begin(self.main);
        self.store(self.zero, self.one);
        self.end();
        self.finish()
    }
}

/// Each of `n` functions calls the next `times` times.
pub fn calls(n: u32, times: u32) -> Vec<u8> {
    let mut m = Module::new();
    let ids: Vec<u32> = std::iter::once(m.main).chain((0..n).map(|_| m.id())).collect();
    for (i, &id) in ids.iter().enumerate() {
        m.begin(id);
        match ids.get(i + 1) {
            Some(&next) => (0..times).for_each(|_| {
                m.value(op::FUNCTION_CALL, m.void, &[next]);
            }),
            None => m.store(m.zero, m.one),
        }
        m.end();
    }
    m.finish()
}

/// Each of `n` structs holds the one before `times` times; a variable of the class is of the last.
pub fn structs(n: u32, times: u32, class: Option<u32>) -> Vec<u8> {
    let mut m = Module::new();
    let ty = m.structs(n, times);
    if let Some(class) = class {
        let pointer = m.global(op::TYPE_POINTER, &[class, ty]);
        m.global_of(op::VARIABLE, pointer, &[class]);
    }
    m.finish_small()
}

/// As many variables of the last of such structs.
pub fn variables_of_structs(n: u32, times: u32, variables: u32) -> Vec<u8> {
    let mut m = Module::new();
    let ty = m.structs(n, times);
    let pointer = m.global(op::TYPE_POINTER, &[PRIVATE, ty]);
    for _ in 0..variables {
        m.global_of(op::VARIABLE, pointer, &[PRIVATE]);
    }
    m.finish_small()
}

/// Each of `n` arrays holds the one before `length` times; a null constant is of the last.
pub fn arrays(n: u32, length: u32) -> Vec<u8> {
    let mut m = Module::new();
    let length = m.constant(length);
    let mut ty = m.int;
    for _ in 0..n {
        ty = m.global(op::TYPE_ARRAY, &[ty, length]);
    }
    m.global_of(op::CONSTANT_NULL, ty, &[]);
    m.finish_small()
}

/// A composite constant of `n` members.
pub fn wide(n: u32) -> Vec<u8> {
    let mut m = Module::new();
    let ty = m.global(op::TYPE_STRUCT, &vec![m.int; n as usize]);
    m.global_of(op::CONSTANT_COMPOSITE, ty, &vec![m.one; n as usize]);
    m.finish_small()
}

/// Each of `n` constants holds the one before `times` times.
pub fn constants(n: u32, times: u32) -> Vec<u8> {
    let mut m = Module::new();
    let (mut ty, mut value) = (m.int, m.one);
    for _ in 0..n {
        ty = m.global(op::TYPE_STRUCT, &vec![ty; times as usize]);
        value = m.global_of(op::CONSTANT_COMPOSITE, ty, &vec![value; times as usize]);
    }
    m.finish_small()
}

/// Constants that each hold the one before, all of one type: the validator refuses them.
pub fn constant_chain(n: u32) -> Vec<u8> {
    let mut m = Module::new();
    let ty = m.global(op::TYPE_STRUCT, &[m.int]);
    let mut value = m.one;
    for _ in 0..n {
        value = m.global_of(op::CONSTANT_COMPOSITE, ty, &[value]);
    }
    m.finish_small()
}

/// Specialization operations that each add the one before to itself.
pub fn spec_chain(n: u32) -> Vec<u8> {
    let mut m = Module::new();
    let mut value = m.global_of(op::SPEC_CONSTANT, m.int, &[1]);
    m.decorate(value, 1, &[0]);
    for _ in 0..n {
        value = m.global_of(op::SPEC_CONSTANT_OP, m.int, &[op::I_ADD, value, value]);
    }
    m.begin(m.main);
    m.store(m.zero, value);
    m.end();
    m.finish()
}

/// `n` loops, each in the one before.
pub fn loops(n: u32) -> Vec<u8> {
    let mut m = Module::new();
    m.begin(m.main);
    let x = m.load(m.zero);
    let condition = m.value(op::U_LESS_THAN, m.bool, &[x, m.one]);
    let mut merges = Vec::new();
    for _ in 0..n {
        let [header, body, resume, merge] = [(); 4].map(|()| m.id());
        m.add(op::BRANCH, &[header]);
        m.add(op::LABEL, &[header]);
        m.add(op::LOOP_MERGE, &[merge, resume, 0]);
        m.add(op::BRANCH_CONDITIONAL, &[condition, body, merge]);
        m.add(op::LABEL, &[body]);
        merges.push((header, resume, merge));
    }
    m.store(m.zero, m.one);
    for (header, resume, merge) in merges.into_iter().rev() {
        m.add(op::BRANCH, &[resume]);
        m.add(op::LABEL, &[resume]);
        m.add(op::BRANCH, &[header]);
        m.add(op::LABEL, &[merge]);
    }
    m.end();
    m.finish()
}

/// `n` selections, each in the one before; or one after another.
pub fn selections(n: u32, nested: bool) -> Vec<u8> {
    let mut m = Module::new();
    m.begin(m.main);
    let mut merges = Vec::new();
    for _ in 0..n {
        let x = m.load(m.zero);
        let condition = m.value(op::U_LESS_THAN, m.bool, &[x, m.one]);
        let [body, merge] = [(); 2].map(|()| m.id());
        m.add(op::SELECTION_MERGE, &[merge, 0]);
        m.add(op::BRANCH_CONDITIONAL, &[condition, body, merge]);
        m.add(op::LABEL, &[body]);
        m.store(m.zero, x);
        if nested {
            merges.push(merge);
        } else {
            m.add(op::BRANCH, &[merge]);
            m.add(op::LABEL, &[merge]);
        }
    }
    for merge in merges.into_iter().rev() {
        m.add(op::BRANCH, &[merge]);
        m.add(op::LABEL, &[merge]);
    }
    m.end();
    m.finish()
}

/// `n` times a load and a store, each of an element of its own.
pub fn loads_and_stores(n: u32) -> Vec<u8> {
    let mut m = Module::new();
    let indices: Vec<u32> = (0..n).map(|i| m.constant(i + 2)).collect();
    m.begin(m.main);
    for index in indices {
        let x = m.load(index);
        let y = m.value(op::I_ADD, m.int, &[x, m.one]);
        m.store(index, y);
    }
    m.end();
    m.finish()
}

/// `n` additions, each of the one before.
pub fn additions(n: u32) -> Vec<u8> {
    let mut m = Module::new();
    m.begin(m.main);
    let first = m.load(m.zero);
    let mut x = first;
    for _ in 0..n {
        x = m.value(op::I_ADD, m.int, &[x, first]);
    }
    m.store(m.zero, x);
    m.end();
    m.finish()
}

/// A switch of `n` cases.
pub fn switch(n: u32) -> Vec<u8> {
    let mut m = Module::new();
    m.begin(m.main);
    let x = m.load(m.zero);
    let merge = m.id();
    let cases: Vec<u32> = (0..n).map(|_| m.id()).collect();
    m.add(op::SELECTION_MERGE, &[merge, 0]);
    let operands: Vec<u32> = [x, merge].into_iter().chain(cases.iter().zip(0..).flat_map(|(&c, i)| [i, c])).collect();
    m.add(op::SWITCH, &operands);
    for case in cases {
        m.add(op::LABEL, &[case]);
        m.store(m.zero, m.one);
        m.add(op::BRANCH, &[merge]);
    }
    m.add(op::LABEL, &[merge]);
    m.end();
    m.finish()
}

/// `n` functions that nothing calls.
pub fn functions(n: u32) -> Vec<u8> {
    let mut m = Module::new();
    for _ in 0..n {
        let id = m.id();
        m.begin(id);
        m.end();
    }
    m.finish_small()
}

/// Instructions that do nothing, up to `bytes`.
pub fn no_ops(bytes: usize) -> Vec<u8> {
    let mut code = Module::new().finish_small();
    let end = bytes / 4 * 4;
    code.reserve_exact(end - code.len());
    while code.len() < end {
        let room = (end - code.len()).min(NO_OPS.len());
        code.extend_from_slice(&NO_OPS[..room]);
    }
    code
}

/// A thousand instructions that do nothing.
static NO_OPS: [u8; 4000] = {
    let mut bytes = [0; 4000];
    let mut at = 2;
    while at < bytes.len() {
        bytes[at] = 1;
        at += 4;
    }
    bytes
};

/// `n` decorations of the block that all of so many variables are of.
pub fn decorations(n: u32, variables: u32) -> Vec<u8> {
    let mut m = Module::new();
    let rest = std::mem::take(&mut m.decorations);
    for _ in 0..n {
        m.decorate(m.block, 19, &[]);
    }
    m.decorations.extend(rest);
    for i in 0..variables {
        let id = m.global_of(op::VARIABLE, m.pointer, &[2]);
        m.decorate(id, 34, &[0]);
        m.decorate(id, 33, &[i % 8]);
    }
    m.finish_small()
}

/// A group of `n` decorations for so many targets.
pub fn decoration_groups(n: u32, targets: u32) -> Vec<u8> {
    let mut m = Module::new();
    let group = m.id();
    for _ in 0..n {
        m.decorate(group, 0, &[]);
    }
    put(&mut m.decorations, 73, &[group]);
    let all = vec![m.buffer; targets as usize];
    for some in all.chunks(60000) {
        put(&mut m.decorations, 74, &[&[group], some].concat());
    }
    m.finish_small()
}

/// `n` entry points of one function, beside as many functions that it calls one after another.
pub fn entries(n: u32, functions: u32) -> Vec<u8> {
    let mut m = Module::new();
    for i in 0..n {
        let name = [0x6161_6161 + (i & 15) + ((i >> 4 & 15) << 8) + ((i >> 8 & 15) << 16), 0];
        put(&mut m.head, 15, &[5, m.main, name[0], name[1]]);
    }
    // Entry points come before execution modes.
    let at = m.head.iter().position(|&word| word == 6 << 16 | op::EXECUTION_MODE).unwrap();
    let mode: Vec<u32> = m.head.drain(at..at + 6).collect();
    m.head.extend(mode);
    let called: Vec<u32> = (0..functions).map(|_| m.id()).collect();
    for &id in &called {
        m.begin(id);
        m.end();
    }
    m.begin(m.main);
    for id in called {
        m.value(op::FUNCTION_CALL, m.void, &[id]);
    }
    m.store(m.zero, m.one);
    m.end();
    m.finish()
}

/// A small module that may use ids below `n`.
pub fn bound(n: u32) -> Vec<u8> {
    let mut code = Module::new().finish_small();
    code[12..16].copy_from_slice(&n.to_le_bytes());
    code
}

/// Two functions that call each other.
pub fn recursion() -> Vec<u8> {
    let mut m = Module::new();
    let other = m.id();
    for (id, calls) in [(m.main, other), (other, m.main)] {
        m.begin(id);
        m.value(op::FUNCTION_CALL, m.void, &[calls]);
        m.end();
    }
    m.finish()
}

/// A buffer with a name of `n` bytes.
pub fn long_name(n: usize) -> Vec<u8> {
    let mut m = Module::new();
    let name = vec![u32::from_le_bytes(*b"name"); n / 4];
    put(&mut m.head, op::NAME, &[&[m.buffer], &name[..], &[0]].concat());
    m.finish_small()
}

/// Stores to one element of a shared array of `length`.
pub fn shared_array(length: u32, index: u32) -> Vec<u8> {
    let mut m = Module::new();
    let (length, index) = (m.constant(length), m.constant(index));
    let array = m.global(op::TYPE_ARRAY, &[m.int, length]);
    let (pointer, element) =
        (m.global(op::TYPE_POINTER, &[WORKGROUP, array]), m.global(op::TYPE_POINTER, &[WORKGROUP, m.int]));
    let shared = m.global_of(op::VARIABLE, pointer, &[WORKGROUP]);
    m.begin(m.main);
    let at = m.value(op::ACCESS_CHAIN, element, &[shared, index]);
    m.add(op::STORE, &[at, m.one]);
    m.end();
    m.finish()
}

/// Each of `n` functions selects around two calls of the next.
pub fn selecting_calls(n: u32) -> Vec<u8> {
    let mut m = Module::new();
    let ids: Vec<u32> = std::iter::once(m.main).chain((0..n).map(|_| m.id())).collect();
    for (i, &id) in ids.iter().enumerate() {
        m.begin(id);
        let x = m.load(m.zero);
        let condition = m.value(op::U_LESS_THAN, m.bool, &[x, m.one]);
        let [body, merge] = [(); 2].map(|()| m.id());
        m.add(op::SELECTION_MERGE, &[merge, 0]);
        m.add(op::BRANCH_CONDITIONAL, &[condition, body, merge]);
        m.add(op::LABEL, &[body]);
        match ids.get(i + 1) {
            Some(&next) => (0..2).for_each(|_| {
                m.value(op::FUNCTION_CALL, m.void, &[next]);
            }),
            None => m.store(m.zero, m.one),
        }
        m.add(op::BRANCH, &[merge]);
        m.add(op::LABEL, &[merge]);
        m.end();
    }
    m.finish()
}

/// An array of `n` in the kernel's own memory, which nothing uses.
pub fn unused_array(n: u32) -> Vec<u8> {
    let mut m = Module::new();
    let length = m.constant(n);
    let array = m.global(op::TYPE_ARRAY, &[m.int, length]);
    let pointer = m.global(op::TYPE_POINTER, &[PRIVATE, array]);
    m.global_of(op::VARIABLE, pointer, &[PRIVATE]);
    m.finish_small()
}

/// Loads an array of `n` as one value and stores it.
pub fn large_value(n: u32) -> Vec<u8> {
    let mut m = Module::new();
    let length = m.constant(n);
    let array = m.global(op::TYPE_ARRAY, &[m.int, length]);
    m.decorate(array, 6, &[4]);
    let block = m.global(op::TYPE_STRUCT, &[array]);
    m.decorate(block, 3, &[]);
    put(&mut m.decorations, op::MEMBER_DECORATE, &[block, 0, 35, 0]);
    let pointer = m.global(op::TYPE_POINTER, &[2, block]);
    let part = m.global(op::TYPE_POINTER, &[2, array]);
    let variable = m.global_of(op::VARIABLE, pointer, &[2]);
    m.decorate(variable, 34, &[0]);
    m.decorate(variable, 33, &[1]);
    m.begin(m.main);
    let at = m.value(op::ACCESS_CHAIN, part, &[variable, m.zero]);
    let value = m.value(op::LOAD, array, &[at]);
    m.add(op::STORE, &[at, value]);
    m.end();
    m.finish()
}

/// `n` choices of a pointer, each between the one before and another of `buffers`.
pub fn pointers(n: u32, buffers: u32) -> Vec<u8> {
    let mut m = Module::new();
    // VariablePointersStorageBuffer
    m.head.splice(0..0, [2 << 16 | 17, 4441]);
    let array = m.global(op::TYPE_RUNTIME_ARRAY, &[m.int]);
    m.decorate(array, 6, &[4]);
    let block = m.global(op::TYPE_STRUCT, &[array]);
    m.decorate(block, 2, &[]);
    put(&mut m.decorations, op::MEMBER_DECORATE, &[block, 0, 35, 0]);
    let pointer = m.global(op::TYPE_POINTER, &[12, block]);
    let element = m.global(op::TYPE_POINTER, &[12, m.int]);
    let condition = m.global_of(41, m.bool, &[]);
    let mut all = Vec::new();
    for i in 0..buffers {
        let variable = m.global_of(op::VARIABLE, pointer, &[12]);
        m.decorate(variable, 34, &[1]);
        m.decorate(variable, 33, &[i]);
        all.push(variable);
    }
    m.begin(m.main);
    let all: Vec<u32> =
        all.into_iter().map(|variable| m.value(op::ACCESS_CHAIN, element, &[variable, m.zero, m.zero])).collect();
    let mut at = all[0];
    for i in 0..n as usize {
        at = m.value(op::SELECT, element, &[condition, at, all[i % all.len()]]);
    }
    m.add(op::STORE, &[at, m.one]);
    m.end();
    m.finish()
}

/// An array whose length is four times the specialization constant 0, and is 8 if nothing is given, loaded as one value.
pub fn specialized_array() -> Vec<u8> {
    let mut m = Module::new();
    let (two, four) = (m.id(), m.constant(4));
    m.decorate(two, 1, &[0]);
    put(&mut m.globals, op::SPEC_CONSTANT, &[m.int, two, 2]);
    let length = m.global_of(op::SPEC_CONSTANT_OP, m.int, &[op::I_MUL, two, four]);
    let array = m.global(op::TYPE_ARRAY, &[m.int, length]);
    let pointer = m.global(op::TYPE_POINTER, &[FUNCTION, array]);
    m.begin(m.main);
    let variable = m.value(op::VARIABLE, pointer, &[FUNCTION]);
    for _ in 0..20 {
        let value = m.value(op::LOAD, array, &[variable]);
        m.add(op::STORE, &[variable, value]);
    }
    m.end();
    m.finish()
}

/// So many calls of a function that has an array of `length`.
pub fn local_arrays(calls: u32, length: u32) -> Vec<u8> {
    let mut m = Module::new();
    let length = m.constant(length);
    let array = m.global(op::TYPE_ARRAY, &[m.int, length]);
    let pointer = m.global(op::TYPE_POINTER, &[FUNCTION, array]);
    let called = m.id();
    m.begin(called);
    m.value(op::VARIABLE, pointer, &[FUNCTION]);
    m.end();
    m.begin(m.main);
    for _ in 0..calls {
        m.value(op::FUNCTION_CALL, m.void, &[called]);
    }
    m.end();
    m.finish()
}
