//! What a kernel does to the memory behind each variable, by what it can be seen to do with pointers into it.
//!
//! Only the functions that the entry point calls are looked at. A pointer belongs to every variable it may come from:
//! through access chains, copies, choices, parameters and returns. What a pointer is used for counts for all of them,
//! and a use that is not understood counts as a load and a store: better too much than one stale byte. The decorations
//! `NonWritable` and `NonReadable` take back only what is not certain. They are a promise; what is seen weighs more.

use super::index::Index;
use super::parse::id_at;
use crate::failure::Access;
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Decoration, Op};
use std::collections::{HashMap, HashSet};

/// Pointers settle in as many rounds as the longest chain of calls made in reverse order; more than this is no
/// program, and then every variable counts as loaded and stored.
const MAX_ROUNDS: usize = 64;
/// With more variables than any device binds, sets of them would be most of the work.
const MAX_VARIABLES: usize = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touch {
    load: bool,
    store: bool,
    may_load: bool,
    may_store: bool,
}

const LOAD: Touch = Touch { load: true, store: false, may_load: false, may_store: false };
const STORE: Touch = Touch { load: false, store: true, may_load: false, may_store: false };
const BOTH: Touch = Touch { load: true, store: true, may_load: false, may_store: false };
const UNKNOWN: Touch = Touch { load: false, store: false, may_load: true, may_store: true };

impl Touch {
    pub(super) fn add(&mut self, other: Touch) {
        self.load |= other.load;
        self.store |= other.store;
        self.may_load |= other.may_load;
        self.may_store |= other.may_store;
    }

    /// The same, where the pointer may come from elsewhere.
    fn uncertain(self) -> Touch {
        Touch {
            load: false,
            store: false,
            may_load: self.load || self.may_load,
            may_store: self.store || self.may_store,
        }
    }

    /// What is loaded does not matter: it was stored before by the same invocation.
    pub(super) fn forget_loads(&mut self) {
        self.load = false;
        self.may_load = false;
    }

    pub(super) fn access(self) -> Access {
        match (self.load || self.may_load, self.store || self.may_store) {
            (false, false) => Access::None,
            (true, false) => Access::Read,
            // Which bytes are stored is not seen here.
            (false, true) => Access::MayWrite,
            (true, true) => Access::ReadWrite,
        }
    }
}

/// What an entry point does with the variables outside functions.
pub(super) struct Accesses {
    /// Variables that any instruction names.
    pub(super) used: HashSet<u32>,
    touches: HashMap<u32, Touch>,
}

impl Accesses {
    /// What was seen, refined by what the module promises.
    pub(super) fn touch(&self, index: &Index<'_>, variable: u32) -> Touch {
        let mut touch = self.touches.get(&variable).copied().unwrap_or_default();
        touch.may_store &= !promises(index, variable, Decoration::NonWritable);
        touch.may_load &= !promises(index, variable, Decoration::NonReadable);
        touch
    }
}

/// Whether the variable, or every member of its block or of the blocks in its array, carries the decoration.
pub(super) fn promises(index: &Index<'_>, variable: u32, decoration: Decoration) -> bool {
    let members = || {
        let (_, pointee) = index.points_to(variable)?;
        let (block, _) = index.block_of(pointee);
        let members = index.defined_by(block, Op::TypeStruct)?.operands.len();
        Some(
            members > 0
                && (0..members).all(|member| index.spend(1) && index.member_has(block, member as u32, decoration)),
        )
    };
    index.has(variable, decoration) || members() == Some(true)
}

/// The variables a pointer may come from, ascending.
type Origins = Vec<u32>;

/// What copying an origin counts for: it is kept.
const ORIGIN: usize = 16;

/// The variables that the functions name, where it matters no further what is done with them.
pub(super) fn named(index: &Index<'_>, functions: &[u32]) -> Accesses {
    let everything: HashSet<u32> = index.variables.iter().copied().collect();
    let named = functions.iter().flat_map(|&function| index.body(function));
    let named = named.flat_map(|instruction| instruction.operands.iter().filter_map(Operand::id_ref_any));
    Accesses { used: named.filter(|id| everything.contains(id)).collect(), touches: HashMap::new() }
}

/// Follows every pointer from `variables` through `functions`.
pub(super) fn infer(index: &Index<'_>, functions: &[u32], variables: &[u32]) -> Accesses {
    let buffers: HashSet<u32> = variables.iter().copied().collect();
    let mut walk = Walk { index, origins: HashMap::new(), returns: HashMap::new(), changed: true };
    let mut rounds = MAX_ROUNDS;
    if buffers.len() <= MAX_VARIABLES {
        rounds = 0;
        walk.origins.extend(variables.iter().map(|&variable| (variable, vec![variable])));
    }
    while rounds < MAX_ROUNDS && std::mem::take(&mut walk.changed) {
        for &function in functions {
            for instruction in index.body(function) {
                if !index.spend(1) {
                    break;
                }
                walk.flow(function, instruction);
            }
        }
        rounds += 1;
    }

    let mut accesses = Accesses { used: HashSet::new(), touches: HashMap::new() };
    let everything: HashSet<u32> = index.variables.iter().copied().collect();
    for &function in functions {
        for instruction in index.body(function) {
            let named = instruction.operands.iter().filter_map(Operand::id_ref_any);
            accesses.used.extend(named.filter(|id| everything.contains(id)));
            walk.touches(instruction, &mut |pointer, touch| {
                let origins = walk.origins.get(&pointer).map(Vec::as_slice).unwrap_or_default();
                if !index.spend(origins.len()) {
                    return;
                }
                let touch = if origins.len() == 1 { touch } else { touch.uncertain() };
                for &variable in origins {
                    accesses.touches.entry(variable).or_default().add(touch);
                }
            });
        }
    }
    // A constant or another variable can hold a pointer from the start.
    let holders = [Op::Variable, Op::ConstantComposite, Op::SpecConstantComposite];
    for instruction in index.global.iter().filter(|i| holders.contains(&i.class.opcode)) {
        for held in instruction.operands.iter().filter_map(Operand::id_ref_any).filter(|id| buffers.contains(id)) {
            accesses.used.insert(held);
            accesses.touches.entry(held).or_default().add(UNKNOWN);
        }
    }
    if walk.changed {
        for &variable in variables.iter().filter(|&variable| accesses.used.contains(variable)) {
            accesses.touches.entry(variable).or_default().add(UNKNOWN);
        }
    }
    accesses
}

struct Walk<'i, 'a> {
    index: &'i Index<'a>,
    origins: HashMap<u32, Origins>,
    /// What a function may return.
    returns: HashMap<u32, Origins>,
    changed: bool,
}

impl Walk<'_, '_> {
    /// Hands the origins of one id on to another.
    fn pass(&mut self, from: Option<u32>, to: Option<u32>) {
        let (Some(from), Some(to)) = (from, to) else { return };
        if let Some(origins) =
            self.origins.get(&from).filter(|origins| self.index.spend(origins.len() * ORIGIN)).cloned()
        {
            self.changed |= merge(self.origins.entry(to).or_default(), &origins);
        }
    }

    /// One instruction's part in where pointers come from.
    fn flow(&mut self, function: u32, instruction: &Instruction) {
        let result = instruction.result_id;
        match instruction.class.opcode {
            Op::AccessChain
            | Op::InBoundsAccessChain
            | Op::PtrAccessChain
            | Op::InBoundsPtrAccessChain
            | Op::CopyObject => self.pass(id_at(instruction, 0), result),
            Op::Select => {
                self.pass(id_at(instruction, 1), result);
                self.pass(id_at(instruction, 2), result);
            }
            Op::Phi => {
                for position in (0..instruction.operands.len()).step_by(2) {
                    self.pass(id_at(instruction, position), result);
                }
            }
            Op::FunctionCall => {
                let Some(called) = id_at(instruction, 0) else { return };
                let index = self.index;
                if let Some(called) = index.functions.get(&called) {
                    for (position, &parameter) in called.parameters.iter().enumerate() {
                        self.pass(id_at(instruction, position + 1), Some(parameter));
                    }
                }
                if let (Some(origins), Some(result)) = (self.returns.get(&called), result)
                    && index.spend(origins.len() * ORIGIN)
                {
                    self.changed |= merge(self.origins.entry(result).or_default(), origins);
                }
            }
            Op::ReturnValue => {
                if let Some(origins) = id_at(instruction, 0).and_then(|value| self.origins.get(&value))
                    && self.index.spend(origins.len() * ORIGIN)
                {
                    self.changed |= merge(self.returns.entry(function).or_default(), origins);
                }
            }
            _ => {}
        }
    }

    /// What one instruction does to the memory behind its operands.
    fn touches(&self, instruction: &Instruction, touch: &mut dyn FnMut(u32, Touch)) {
        let mut at = |position: usize, what: Touch| {
            if let Some(pointer) = id_at(instruction, position) {
                touch(pointer, what);
            }
        };
        // The operands that are understood; the others, where they are pointers, are not.
        let understood = match instruction.class.opcode {
            Op::Load | Op::AtomicLoad => {
                at(0, LOAD);
                1
            }
            Op::Store | Op::AtomicStore => {
                at(0, STORE);
                1
            }
            Op::CopyMemory | Op::CopyMemorySized => {
                at(0, STORE);
                at(1, LOAD);
                2
            }
            Op::AtomicExchange
            | Op::AtomicCompareExchange
            | Op::AtomicIIncrement
            | Op::AtomicIDecrement
            | Op::AtomicIAdd
            | Op::AtomicISub
            | Op::AtomicSMin
            | Op::AtomicUMin
            | Op::AtomicSMax
            | Op::AtomicUMax
            | Op::AtomicAnd
            | Op::AtomicOr
            | Op::AtomicXor => {
                at(0, BOTH);
                1
            }
            // The length is the descriptor's; no byte is loaded for it.
            Op::ArrayLength => 1,
            Op::AccessChain
            | Op::InBoundsAccessChain
            | Op::PtrAccessChain
            | Op::InBoundsPtrAccessChain
            | Op::CopyObject => 1,
            Op::Select | Op::Phi | Op::ReturnValue | Op::PtrEqual | Op::PtrNotEqual | Op::PtrDiff => usize::MAX,
            Op::FunctionCall => {
                let called = id_at(instruction, 0).and_then(|called| self.index.functions.get(&called));
                called.map_or(0, |called| called.parameters.len() + 1)
            }
            Op::ExtInst if id_at(instruction, 0).is_some_and(|set| self.index.debug_sets.contains(&set)) => usize::MAX,
            _ => 0,
        };
        for position in understood..instruction.operands.len() {
            at(position, UNKNOWN);
        }
    }
}

/// Adds `more` to `origins`; whether that changed anything.
fn merge(origins: &mut Origins, more: &[u32]) -> bool {
    let before = origins.len();
    for &variable in more {
        if let Err(place) = origins.binary_search(&variable) {
            origins.insert(place, variable);
        }
    }
    origins.len() != before
}
