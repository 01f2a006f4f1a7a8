//! Which bytes a value of a type takes where its layout is stated.

use super::super::constants::Constants;
use super::super::index::Index;
use super::super::parse::{id_at, literal_at};
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Decoration, Op};
use std::collections::HashMap;
use std::rc::Rc;

/// Bytes that a store of a value writes, ascending, with nothing between two that touch.
pub(super) type Footprint = Rc<[(u64, u64)]>;

/// A type of more pieces proves nothing.
const MAX_PIECES: usize = 64;
const MAX_MADE: usize = 1 << 16;
/// Types that are looked at.
const MAX_TYPES: usize = 1 << 14;

/// How the columns of a matrix lie, which the member says that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Matrix {
    pub(super) stride: u32,
    pub(super) by_rows: bool,
}

pub(super) struct Layout {
    footprints: HashMap<u32, Footprint>,
}

impl Layout {
    /// Types are stated before those that are made of them, so one pass does.
    pub(super) fn new(index: &Index<'_>, constants: &Constants) -> Layout {
        let mut layout = Layout { footprints: HashMap::new() };
        let mut made = MAX_MADE;
        let types = index.global.iter().filter(|instruction| is_type(instruction)).take(MAX_TYPES);
        for instruction in types {
            let Some(id) = instruction.result_id else { continue };
            if let Some(footprint) = layout.of(index, constants, instruction, id, &mut made) {
                layout.footprints.insert(id, footprint);
            }
        }
        layout
    }

    /// What a store of a value of the type writes.
    pub(super) fn footprint(&self, index: &Index<'_>, ty: u32, matrix: Option<Matrix>) -> Option<Footprint> {
        match index.defined_by(ty, Op::TypeMatrix) {
            Some(definition) => pieces(self.matrix(index, definition, matrix?)?),
            None => self.footprints.get(&ty).cloned(),
        }
    }

    fn matrix(&self, index: &Index<'_>, definition: &Instruction, matrix: Matrix) -> Option<Vec<(u64, u64)>> {
        let column = id_at(definition, 0)?;
        let columns = literal_at(&definition.operands, 1)?;
        let vector = index.defined_by(column, Op::TypeVector)?;
        let rows = literal_at(&vector.operands, 1)?;
        let [(0, scalar)] = **self.footprints.get(&id_at(vector, 0)?)? else { return None };
        let (count, each) = if matrix.by_rows { (rows, columns) } else { (columns, rows) };
        let size = scalar * u64::from(each.min(16));
        Some(
            (0..u64::from(count.min(16)))
                .map(|at| (at * u64::from(matrix.stride), at * u64::from(matrix.stride) + size))
                .collect(),
        )
    }

    fn of(
        &self,
        index: &Index<'_>,
        constants: &Constants,
        instruction: &Instruction,
        id: u32,
        made: &mut usize,
    ) -> Option<Footprint> {
        let part = || self.footprints.get(&id_at(instruction, 0)?);
        match instruction.class.opcode {
            Op::TypeInt | Op::TypeFloat => {
                let bits = literal_at(&instruction.operands, 0).filter(|bits| matches!(bits, 8 | 16 | 32 | 64))?;
                pieces(vec![(0, u64::from(bits / 8))])
            }
            Op::TypeVector => {
                let [(0, size)] = **part()? else { return None };
                let count = literal_at(&instruction.operands, 1).filter(|count| (2..=16).contains(count))?;
                pieces(vec![(0, size * u64::from(count))])
            }
            Op::TypeArray => {
                let part = part()?;
                let count = constants.scalar(id_at(instruction, 1)?)?;
                let stride = u64::from(index.literal(id, Decoration::ArrayStride)?);
                if let [(0, size)] = **part
                    && size == stride
                {
                    return pieces(vec![(0, size.checked_mul(count)?)]);
                }
                if count > MAX_PIECES as u64 {
                    return None;
                }
                let places =
                    (0..count).flat_map(|at| part.iter().map(move |&(a, b)| (a + at * stride, b + at * stride)));
                pieces(places.collect())
            }
            Op::TypeStruct => {
                let mut all = Vec::new();
                for (member, ty) in instruction.operands.iter().enumerate() {
                    let ty = ty.id_ref_any()?;
                    let member = u32::try_from(member).ok()?;
                    let offset = u64::from(index.member_literal(id, member, Decoration::Offset)?);
                    let footprint = self.footprint(index, ty, matrix_of(index, id, member))?;
                    *made = made.checked_sub(footprint.len())?;
                    all.extend(footprint.iter().map(|&(a, b)| (a + offset, b + offset)));
                }
                pieces(all)
            }
            _ => None,
        }
    }
}

fn is_type(instruction: &Instruction) -> bool {
    use Op::{TypeArray, TypeFloat, TypeInt, TypeStruct, TypeVector};
    matches!(instruction.class.opcode, TypeInt | TypeFloat | TypeVector | TypeArray | TypeStruct)
}

/// How the matrices of a member lie.
pub(super) fn matrix_of(index: &Index<'_>, block: u32, member: u32) -> Option<Matrix> {
    let stride = index.member_literal(block, member, Decoration::MatrixStride)?;
    Some(Matrix { stride, by_rows: index.member_has(block, member, Decoration::RowMajor) })
}

/// Sorted and joined.
fn pieces(mut all: Vec<(u64, u64)>) -> Option<Footprint> {
    all.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in all {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    (!joined.is_empty() && joined.len() <= MAX_PIECES).then(|| joined.into())
}

/// The width of an integer type, and whether it is signed.
pub(super) fn integer(index: &Index<'_>, ty: u32) -> Option<(u32, bool)> {
    match index.defined_by(ty, Op::TypeInt)?.operands.as_slice() {
        &[Operand::LiteralBit32(width), Operand::LiteralBit32(sign)] => Some((width, sign != 0)),
        _ => None,
    }
}
