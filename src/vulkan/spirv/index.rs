//! A parsed module, looked at by what its instructions define.

use super::budget::MOST_STEPS;
use super::parse::{Parsed, id_at, literal_at, string_at};
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{AddressingModel, BuiltIn, Capability, Decoration, ExecutionModel, Op, StorageClass};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What can be called, by any stage.
pub(super) struct EntryPoint<'a> {
    pub(super) model: ExecutionModel,
    pub(super) function: u32,
    pub(super) name: &'a str,
}

pub(super) struct Function {
    pub(super) parameters: Vec<u32>,
    /// Instructions between `OpFunction` and `OpFunctionEnd`.
    pub(super) body: Range<usize>,
}

/// One decoration and what belongs to it.
pub(super) type Decorated<'a> = (Decoration, &'a [Operand]);

pub(super) struct Index<'a> {
    pub(super) parsed: &'a Parsed,
    pub(super) capabilities: Vec<Capability>,
    pub(super) addressing: Option<AddressingModel>,
    pub(super) entry_points: Vec<EntryPoint<'a>>,
    pub(super) functions: HashMap<u32, Function>,
    /// Variables outside functions, in order.
    pub(super) variables: Vec<u32>,
    /// Sets of extended instructions that say nothing about what runs.
    pub(super) debug_sets: HashSet<u32>,
    /// Everything outside functions.
    pub(super) global: Vec<&'a Instruction>,
    definitions: HashMap<u32, &'a Instruction>,
    names: HashMap<u32, &'a str>,
    decorations: HashMap<u32, Vec<Decorated<'a>>>,
    member_decorations: HashMap<(u32, u32), Vec<Decorated<'a>>>,
    groups: HashMap<u32, Vec<u32>>,
    member_groups: HashMap<(u32, u32), Vec<u32>>,
    /// What may still be spent on looking at the module.
    steps: Cell<u64>,
}

impl<'a> Index<'a> {
    pub(super) fn new(parsed: &'a Parsed) -> Index<'a> {
        let mut index = Index {
            parsed,
            capabilities: Vec::new(),
            addressing: None,
            entry_points: Vec::new(),
            functions: HashMap::new(),
            variables: Vec::new(),
            debug_sets: HashSet::new(),
            global: Vec::new(),
            definitions: HashMap::new(),
            names: HashMap::new(),
            decorations: HashMap::new(),
            member_decorations: HashMap::new(),
            groups: HashMap::new(),
            member_groups: HashMap::new(),
            steps: Cell::new(MOST_STEPS),
        };
        let mut open: Option<(u32, Function)> = None;
        for (at, instruction) in parsed.instructions.iter().enumerate() {
            if let Some(id) = instruction.result_id {
                index.definitions.insert(id, instruction);
            }
            match (instruction.class.opcode, &mut open) {
                (Op::Function, _) => {
                    let function = Function { parameters: Vec::new(), body: at + 1..parsed.instructions.len() };
                    if let Some((id, unfinished)) = open.replace((instruction.result_id.unwrap_or(0), function)) {
                        index.functions.insert(id, Function { body: unfinished.body.start..at, ..unfinished });
                    }
                }
                (Op::FunctionEnd, open) => {
                    if let Some((id, function)) = open.take() {
                        index.functions.insert(id, Function { body: function.body.start..at, ..function });
                    }
                }
                (Op::FunctionParameter, Some((_, function))) => function.parameters.extend(instruction.result_id),
                (_, Some(_)) => {}
                (_, None) => index.add_global(instruction),
            }
        }
        index.functions.extend(open);
        index
    }

    fn add_global(&mut self, instruction: &'a Instruction) {
        self.global.push(instruction);
        let operands = instruction.operands.as_slice();
        match (instruction.class.opcode, operands) {
            (Op::Capability, &[Operand::Capability(capability)]) => self.capabilities.push(capability),
            (Op::MemoryModel, &[Operand::AddressingModel(addressing), ..]) => self.addressing = Some(addressing),
            (Op::EntryPoint, &[Operand::ExecutionModel(model), Operand::IdRef(function), ..]) => {
                let name = string_at(instruction, 2).unwrap_or("");
                self.entry_points.push(EntryPoint { model, function, name });
            }
            (Op::ExtInstImport, _) => {
                let debug = string_at(instruction, 0)
                    .is_some_and(|name| name.starts_with("NonSemantic.") || name == "OpenCL.DebugInfo.100");
                self.debug_sets.extend(instruction.result_id.filter(|_| debug));
            }
            (Op::Name, &[Operand::IdRef(id), Operand::LiteralString(ref name)]) => {
                self.names.insert(id, name);
            }
            (
                Op::Decorate | Op::DecorateId | Op::DecorateString,
                &[Operand::IdRef(id), Operand::Decoration(decoration), ref rest @ ..],
            ) => self.decorations.entry(id).or_default().push((decoration, rest)),
            (
                Op::MemberDecorate | Op::MemberDecorateString,
                &[Operand::IdRef(id), Operand::LiteralBit32(member), Operand::Decoration(decoration), ref rest @ ..],
            ) => self.member_decorations.entry((id, member)).or_default().push((decoration, rest)),
            (Op::GroupDecorate, &[Operand::IdRef(group), ref targets @ ..]) => {
                for target in targets.iter().filter_map(Operand::id_ref_any) {
                    self.groups.entry(target).or_default().push(group);
                }
            }
            (Op::GroupMemberDecorate, &[Operand::IdRef(group), ref targets @ ..]) => {
                for pair in targets.chunks_exact(2) {
                    if let (Some(id), Some(member)) = (pair[0].id_ref_any(), literal_at(pair, 1)) {
                        self.member_groups.entry((id, member)).or_default().push(group);
                    }
                }
            }
            (Op::Variable, _) => self.variables.extend(instruction.result_id),
            _ => {}
        }
    }

    /// Counts steps of work that a module can ask for in less than as many words. Whether there are some left; after
    /// that nothing that was found out about the module can be relied on.
    pub(super) fn spend(&self, steps: usize) -> bool {
        let left = self.steps.get().saturating_sub(steps as u64);
        self.steps.set(left);
        left > 0
    }

    pub(super) fn exhausted(&self) -> bool {
        self.steps.get() == 0
    }

    pub(super) fn definition(&self, id: u32) -> Option<&'a Instruction> {
        self.definitions.get(&id).copied()
    }

    /// The definition of `id` if it is made by `op`.
    pub(super) fn defined_by(&self, id: u32, op: Op) -> Option<&'a Instruction> {
        self.definition(id).filter(|definition| definition.class.opcode == op)
    }

    /// The name the module gives `id`, or empty.
    pub(super) fn name(&self, id: u32) -> &'a str {
        self.names.get(&id).copied().unwrap_or("")
    }

    pub(super) fn decorations(&self, id: u32) -> impl Iterator<Item = Decorated<'a>> {
        self.all(self.decorations.get(&id), self.groups.get(&id))
    }

    pub(super) fn member_decorations(&self, id: u32, member: u32) -> impl Iterator<Item = Decorated<'a>> {
        self.all(self.member_decorations.get(&(id, member)), self.member_groups.get(&(id, member)))
    }

    /// Decorations of its own and of its groups. Each is a step.
    fn all<'s>(
        &'s self,
        own: Option<&'s Vec<Decorated<'a>>>,
        groups: Option<&'s Vec<u32>>,
    ) -> impl Iterator<Item = Decorated<'a>> {
        let grouped = groups.into_iter().flatten().take_while(|_| self.spend(1));
        let grouped = grouped.filter_map(|group| self.decorations.get(group));
        own.into_iter().chain(grouped).flatten().take_while(|_| self.spend(1)).copied()
    }

    pub(super) fn has(&self, id: u32, decoration: Decoration) -> bool {
        self.decorations(id).any(|(found, _)| found == decoration)
    }

    pub(super) fn member_has(&self, id: u32, member: u32, decoration: Decoration) -> bool {
        self.member_decorations(id, member).any(|(found, _)| found == decoration)
    }

    /// The literal that belongs to a decoration of `id`.
    pub(super) fn literal(&self, id: u32, decoration: Decoration) -> Option<u32> {
        self.decorations(id).find(|&(found, _)| found == decoration).and_then(|(_, rest)| literal_at(rest, 0))
    }

    pub(super) fn member_literal(&self, id: u32, member: u32, decoration: Decoration) -> Option<u32> {
        let mut all = self.member_decorations(id, member);
        all.find(|&(found, _)| found == decoration).and_then(|(_, rest)| literal_at(rest, 0))
    }

    pub(super) fn builtin(&self, id: u32) -> Option<BuiltIn> {
        self.decorations(id).find_map(|(decoration, rest)| match (decoration, rest) {
            (Decoration::BuiltIn, &[Operand::BuiltIn(builtin)]) => Some(builtin),
            _ => None,
        })
    }

    /// The block behind a variable, through arrays of descriptors, and the innermost of those.
    pub(super) fn block_of(&self, pointee: u32) -> (u32, Option<&'a Instruction>) {
        let (mut ty, mut array) = (pointee, None);
        // Descriptors are arrays of one dimension in Vulkan; more than a few are no module's.
        for _ in 0..4 {
            let Some(definition) = self.definition(ty) else { break };
            if !matches!(definition.class.opcode, Op::TypeArray | Op::TypeRuntimeArray) {
                break;
            }
            array = Some(definition);
            ty = id_at(definition, 0).unwrap_or(0);
        }
        (ty, array)
    }

    /// Storage class and pointee of a pointer type.
    pub(super) fn pointer(&self, ty: u32) -> Option<(StorageClass, u32)> {
        match self.defined_by(ty, Op::TypePointer)?.operands.as_slice() {
            &[Operand::StorageClass(class), Operand::IdRef(pointee)] => Some((class, pointee)),
            _ => None,
        }
    }

    /// Storage class and pointee of the type of `id`.
    pub(super) fn points_to(&self, id: u32) -> Option<(StorageClass, u32)> {
        self.pointer(self.definition(id)?.result_type?)
    }

    pub(super) fn body(&self, function: u32) -> &'a [Instruction] {
        self.functions.get(&function).and_then(|f| self.parsed.instructions.get(f.body.clone())).unwrap_or(&[])
    }

    /// The functions reached from `roots`, each once.
    pub(super) fn reachable(&self, roots: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut seen = HashSet::new();
        let mut order = Vec::new();
        let mut open: Vec<u32> = roots.into_iter().collect();
        while let Some(function) = open.pop() {
            if !self.functions.contains_key(&function) || !seen.insert(function) {
                continue;
            }
            order.push(function);
            let calls = self.body(function).iter().filter(|i| i.class.opcode == Op::FunctionCall);
            open.extend(calls.filter_map(|call| id_at(call, 0)));
        }
        order
    }
}
