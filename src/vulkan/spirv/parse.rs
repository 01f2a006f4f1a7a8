//! Bytes to words to instructions, for bytes in whatever state the caller has them.
//!
//! `rspirv` decodes the instructions. Two things are done here because it does not do them: a walk over the lengths of
//! the instructions, as it slices past the end of a module that is cut off, and constant operations, as it reads only
//! one of a list of literals.

use super::budget::MOST_BYTES;
use crate::code::Code;
use crate::error::Fault;
use rspirv::binary::{Consumer, ParseAction, ParseState};
use rspirv::dr::{Instruction, ModuleHeader, Operand};
use rspirv::spirv::{self, Op};
use std::collections::HashMap;

pub(super) const HEADER_WORDS: usize = 5;
/// The most ids a module may use by SPIR-V's own limits; drivers allocate by this number before they read on.
const MAX_BOUND: u32 = 0x3F_FFFF;
/// What a Vulkan 1.2 driver reads.
const MAX_VERSION: (u8, u8) = (1, 5);

/// One constant operation, undecoded: the operands are ids, and literals where the operation says so.
pub(super) struct SpecOp {
    pub(super) operation: u32,
    pub(super) operands: Vec<u32>,
}

/// A module as a flat list; order means what SPIR-V says it means.
#[derive(Default)]
pub(super) struct Parsed {
    pub(super) instructions: Vec<Instruction>,
    /// Constant operations by result id; in `instructions` an `OpUndef` stands for each.
    pub(super) spec_ops: HashMap<u32, SpecOp>,
}

fn invalid(message: String) -> Fault {
    Fault::new(Code::InvalidShader, message)
}

/// The module's words in the host's order.
pub(super) fn to_words(code: &[u8]) -> Result<Vec<u32>, Fault> {
    if code.len() > MOST_BYTES {
        let message = format!("the module is {} bytes long; {MOST_BYTES} are the most", code.len());
        return Err(Fault::new(Code::LimitExceeded, message));
    }
    if code.is_empty() {
        return Err(invalid("the module is empty".into()));
    }
    let (chunks, rest) = code.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(invalid(format!("the module is {} bytes long, which is no whole number of words", code.len())));
    }
    if chunks.len() < HEADER_WORDS {
        return Err(invalid(format!("the module is {} bytes long, which is shorter than its header", code.len())));
    }
    let decode = match u32::from_le_bytes(chunks[0]) {
        spirv::MAGIC_NUMBER => u32::from_le_bytes,
        first if first.swap_bytes() == spirv::MAGIC_NUMBER => u32::from_be_bytes,
        first => {
            let magic = spirv::MAGIC_NUMBER;
            return Err(invalid(format!(
                "the module begins with {first:#010x} where SPIR-V begins with {magic:#010x}"
            )));
        }
    };
    let mut words = Vec::new();
    words.try_reserve_exact(chunks.len()).map_err(|_| {
        Fault::new(Code::OutOfHostMemory, format!("no host memory for the {} bytes of a module", code.len()))
    })?;
    words.extend(chunks.iter().map(|&chunk| decode(chunk)));
    Ok(words)
}

/// What the header must say before anything reads on.
pub(super) fn check_header(words: &[u32]) -> Result<(), Fault> {
    let [_, version, _, bound, reserved, ..] = *words else {
        return Err(invalid("the module is shorter than its header".into()));
    };
    let [zero, major, minor, zero_too] = version.to_be_bytes();
    if zero != 0 || zero_too != 0 || major != 1 {
        return Err(invalid(format!("the module's version {version:#010x} is none of SPIR-V's")));
    }
    if (major, minor) > MAX_VERSION {
        let message = format!("the module is SPIR-V {major}.{minor}; Vulkan 1.2 reads up to 1.5");
        return Err(Fault::new(Code::Unsupported, message));
    }
    if bound == 0 || bound > MAX_BOUND {
        return Err(invalid(format!("the module's id bound {bound} is outside 1 to {MAX_BOUND}")));
    }
    if reserved != 0 {
        return Err(invalid(format!("the module's reserved header word is {reserved:#x} where SPIR-V has zero")));
    }
    Ok(())
}

/// Takes apart a module whose header and lengths were checked.
pub(super) fn parse(words: &[u32], instructions: u64) -> Result<Parsed, Fault> {
    let mut parsed = Parsed::default();
    let bytes = set_spec_ops_aside(words, &mut parsed.spec_ops)?;
    let bound = words.get(3).copied().unwrap_or(0);
    let mut collector = Collector { instructions: Vec::new() };
    collector.instructions.try_reserve_exact(instructions as usize).map_err(|_| no_memory(words))?;
    rspirv::binary::Parser::new(&bytes, &mut collector).parse().map_err(explain)?;
    parsed.instructions = collector.instructions;
    for instruction in &parsed.instructions {
        if let Some(id) = instruction.result_id.filter(|&id| id == 0 || id >= bound) {
            return Err(invalid(format!("the module defines the id {id}, which is not below its bound {bound}")));
        }
    }
    Ok(parsed)
}

fn explain(state: ParseState) -> Fault {
    invalid(format!("the module cannot be parsed: {state}"))
}

fn no_memory(words: &[u32]) -> Fault {
    let message = format!("no host memory for the instructions of a module of {} words", words.len());
    Fault::new(Code::OutOfHostMemory, message)
}

/// The module's bytes as the parser wants them, with an `OpUndef` in place of each constant operation.
fn set_spec_ops_aside(words: &[u32], spec_ops: &mut HashMap<u32, SpecOp>) -> Result<Vec<u8>, Fault> {
    const UNDEF_HEAD: u32 = 3 << 16 | Op::Undef as u32;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(words.len() * 4).map_err(|_| no_memory(words))?;
    let mut keep = |words: &[u32]| bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let (header, mut rest) = words.split_at(HEADER_WORDS.min(words.len()));
    keep(header);
    while let Some(&head) = rest.first() {
        let (instruction, after) = rest.split_at(((head >> 16) as usize).clamp(1, rest.len()));
        match *instruction {
            [_, ty, id, operation, ref operands @ ..] if head & 0xFFFF == Op::SpecConstantOp as u32 => {
                keep(&[UNDEF_HEAD, ty, id]);
                spec_ops.insert(id, SpecOp { operation, operands: operands.to_vec() });
            }
            _ => keep(instruction),
        }
        rest = after;
    }
    Ok(bytes)
}

struct Collector {
    instructions: Vec<Instruction>,
}

impl Consumer for Collector {
    fn initialize(&mut self) -> ParseAction {
        ParseAction::Continue
    }
    fn finalize(&mut self) -> ParseAction {
        ParseAction::Continue
    }
    fn consume_header(&mut self, _: ModuleHeader) -> ParseAction {
        ParseAction::Continue
    }
    fn consume_instruction(&mut self, instruction: Instruction) -> ParseAction {
        self.instructions.push(instruction);
        ParseAction::Continue
    }
}

/// The id at an operand position, if an id is there.
pub(super) fn id_at(instruction: &Instruction, position: usize) -> Option<u32> {
    instruction.operands.get(position).and_then(Operand::id_ref_any)
}

/// The literal word at an operand position, if one is there.
pub(super) fn literal_at(operands: &[Operand], position: usize) -> Option<u32> {
    match operands.get(position) {
        Some(&Operand::LiteralBit32(value)) => Some(value),
        _ => None,
    }
}

/// The text at an operand position, if text is there.
pub(super) fn string_at(instruction: &Instruction, position: usize) -> Option<&str> {
    match instruction.operands.get(position) {
        Some(Operand::LiteralString(text)) => Some(text),
        _ => None,
    }
}
