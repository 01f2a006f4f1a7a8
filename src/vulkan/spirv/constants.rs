//! Constants after specialization, and the sizes of types that depend on them.
//!
//! Everything is defined before it is used, so one pass in order suffices and nothing recurses, however a module is
//! made. What cannot be evaluated is simply unknown; it matters only where a size depends on it.

use super::index::Index;
use super::parse::{SpecOp, id_at, literal_at};
use crate::code::Code;
use crate::error::Fault;
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Decoration, Op};
use std::collections::HashMap;
use std::rc::Rc;

/// Larger composites are constant data, from which no size is computed.
const MAX_COMPOSITE: usize = 16;
/// So are deeper ones, and dropping one takes as much stack as it is deep.
const MAX_DEPTH: u32 = 8;

#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// A number or truth value, zero-extended.
    Scalar(u64),
    /// How deep it is, and its parts.
    Composite(u32, Rc<[Option<Value>]>),
}

impl Value {
    /// A composite of these, if it is not too deep.
    fn composite(parts: impl IntoIterator<Item = Option<Value>>) -> Option<Value> {
        let parts: Rc<[Option<Value>]> = parts.into_iter().collect();
        let depth = parts.iter().flatten().map(|part| match part {
            Value::Scalar(_) => 1,
            &Value::Composite(depth, _) => depth + 1,
        });
        let depth = depth.max().unwrap_or(1);
        (depth <= MAX_DEPTH).then_some(Value::Composite(depth, parts))
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Bool,
    Int { width: u32, signed: bool },
    Float { width: u32 },
}

/// A type's size in bytes, as far as it has one.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Without a layout: in shared and private memory.
    plain: Option<u64>,
    /// By the offsets and strides the module states.
    stated: Option<u64>,
}

const POINTER: Size = Size { plain: Some(8), stated: Some(8) };

pub(super) struct Constants {
    values: HashMap<u32, Value>,
    /// What a value is, or what a vector of values is made of.
    value_shapes: HashMap<u32, Shape>,
    sizes: HashMap<u32, Size>,
    shapes: HashMap<u32, Shape>,
    /// Why the constants that were given cannot be.
    pub(super) fault: Option<Fault>,
    /// An array has a length that is zero or less.
    pub(super) empty_array: bool,
}

impl Constants {
    pub(super) fn new(index: &Index<'_>, given: &[(u32, u32)]) -> Constants {
        let mut constants = Constants {
            values: HashMap::new(),
            value_shapes: HashMap::new(),
            sizes: HashMap::new(),
            shapes: HashMap::new(),
            fault: None,
            empty_array: false,
        };
        let mut overrides = HashMap::new();
        if overrides.try_reserve(given.len()).is_err() {
            let message = format!("no host memory for the {} constants that are given", given.len());
            constants.fail(Code::OutOfHostMemory, message);
            return constants;
        }
        for &(id, value) in given {
            if overrides.insert(id, value).is_some() {
                constants.fail(Code::InvalidShader, format!("the constant {id} is given twice"));
            }
        }
        for instruction in &index.global {
            if let Some(id) = instruction.result_id {
                constants.add(index, instruction, id, &overrides);
            }
            // A pointer may be named before what it points to is known; its size is.
            if let (Op::TypeForwardPointer, Some(id)) = (instruction.class.opcode, id_at(instruction, 0)) {
                constants.sizes.insert(id, POINTER);
            }
        }
        constants
    }

    /// A number, if it is known.
    pub(super) fn scalar(&self, id: u32) -> Option<u64> {
        match self.values.get(&id)? {
            &Value::Scalar(value) => Some(value),
            Value::Composite(..) => None,
        }
    }

    /// The numbers of a vector of three integers of 32 bits.
    pub(super) fn triple(&self, id: u32) -> Option<[u64; 3]> {
        let Some(Shape::Int { width: 32, .. }) = self.value_shapes.get(&id) else { return None };
        let Value::Composite(_, parts) = self.values.get(&id)? else { return None };
        let [Some(Value::Scalar(x)), Some(Value::Scalar(y)), Some(Value::Scalar(z))] = **parts else { return None };
        Some([x, y, z])
    }

    /// Bytes of a type that has no layout, such as shared memory; padding is not counted.
    pub(super) fn plain_size(&self, ty: u32) -> Option<u64> {
        self.sizes.get(&ty)?.plain
    }

    /// Bytes of a type by its offsets and strides.
    pub(super) fn stated_size(&self, ty: u32) -> Option<u64> {
        self.sizes.get(&ty)?.stated
    }

    fn fail(&mut self, code: Code, message: String) {
        self.fault.get_or_insert_with(|| Fault::new(code, message));
    }

    fn add(&mut self, index: &Index<'_>, instruction: &Instruction, id: u32, overrides: &HashMap<u32, u32>) {
        let given = || index.literal(id, Decoration::SpecId).and_then(|spec| overrides.get_key_value(&spec));
        let value = match instruction.class.opcode {
            Op::ConstantTrue => Some(Value::Scalar(1)),
            Op::ConstantFalse => Some(Value::Scalar(0)),
            Op::SpecConstantTrue => Some(Value::Scalar(given().map_or(1, |(_, &value)| u64::from(value != 0)))),
            Op::SpecConstantFalse => Some(Value::Scalar(given().map_or(0, |(_, &value)| u64::from(value != 0)))),
            Op::ConstantNull => self.null(index, instruction.result_type),
            Op::Constant => self.literal(instruction),
            Op::SpecConstant => {
                let width = instruction.result_type.and_then(|ty| self.shapes.get(&ty)).map(|shape| shape.width());
                match given() {
                    Some((spec, _)) if width != Some(32) => {
                        let width = width.unwrap_or(0);
                        self.fail(
                            Code::Unsupported,
                            format!("the constant {spec} has {width} bits; only those of 32 bits can be given a value"),
                        );
                        None
                    }
                    Some((_, &value)) => Some(Value::Scalar(u64::from(value))),
                    None => self.literal(instruction),
                }
            }
            Op::ConstantComposite | Op::SpecConstantComposite if instruction.operands.len() <= MAX_COMPOSITE => {
                let parts = instruction.operands.iter().map(|part| self.values.get(&part.id_ref_any()?).cloned());
                Value::composite(parts)
            }
            Op::Undef => {
                let operation = index.parsed.spec_ops.get(&id);
                operation.and_then(|operation| self.operate(operation, instruction.result_type?))
            }
            _ => {
                self.add_type(index, instruction, id);
                None
            }
        };
        if let Some(value) = value {
            self.values.insert(id, value);
        }
        if let Some(&shape) = instruction.result_type.and_then(|ty| self.shapes.get(&ty)) {
            self.value_shapes.insert(id, shape);
        }
    }

    /// Zero of a scalar or small vector; nothing else is computed with.
    fn null(&self, index: &Index<'_>, ty: Option<u32>) -> Option<Value> {
        let ty = ty?;
        if self.shapes.contains_key(&ty) && index.defined_by(ty, Op::TypeVector).is_none() {
            return Some(Value::Scalar(0));
        }
        let count = literal_at(&index.defined_by(ty, Op::TypeVector)?.operands, 1)? as usize;
        if count <= MAX_COMPOSITE { Value::composite(vec![Some(Value::Scalar(0)); count]) } else { None }
    }

    fn add_type(&mut self, index: &Index<'_>, instruction: &Instruction, id: u32) {
        let operands = instruction.operands.as_slice();
        let size_of = |position: usize| id_at(instruction, position).and_then(|ty| self.sizes.get(&ty)).copied();
        let both = |size: u64| Size { plain: Some(size), stated: Some(size) };
        let size = match instruction.class.opcode {
            Op::TypeBool => {
                self.shapes.insert(id, Shape::Bool);
                Size { plain: Some(4), stated: None }
            }
            Op::TypeInt => {
                let (Some(width), Some(sign)) = (literal_at(operands, 0), literal_at(operands, 1)) else { return };
                self.shapes.insert(id, Shape::Int { width, signed: sign != 0 });
                both(u64::from(width.div_ceil(8)))
            }
            Op::TypeFloat => {
                let Some(width) = literal_at(operands, 0) else { return };
                self.shapes.insert(id, Shape::Float { width });
                both(u64::from(width.div_ceil(8)))
            }
            Op::TypeVector | Op::TypeMatrix => {
                let (Some(part), Some(count)) = (size_of(0), literal_at(operands, 1)) else { return };
                if let (Op::TypeVector, Some(&shape)) =
                    (instruction.class.opcode, id_at(instruction, 0).and_then(|part| self.shapes.get(&part)))
                {
                    self.shapes.insert(id, shape);
                }
                let times = |size: Option<u64>| size.map(|size| size.saturating_mul(u64::from(count)));
                Size { plain: times(part.plain), stated: times(part.stated) }
            }
            Op::TypeArray => {
                let Some(length_id) = id_at(instruction, 1) else { return };
                let length = self.scalar(length_id);
                let shape = self.value_shapes.get(&length_id).copied();
                let negative = shape.zip(length).is_some_and(|(shape, length)| shape.signed(length) < 0);
                self.empty_array |= length == Some(0) || negative;
                let part = id_at(instruction, 0).and_then(|ty| self.sizes.get(&ty)).copied().unwrap_or_default();
                let stride = index.literal(id, Decoration::ArrayStride).map(u64::from);
                let times = |size: Option<u64>| Some(size?.saturating_mul(length?));
                Size { plain: times(part.plain), stated: times(stride) }
            }
            Op::TypeStruct => {
                let (mut plain, mut stated) = (Some(0u64), Some(0u64));
                for (member, ty) in operands.iter().enumerate() {
                    let ty = ty.id_ref_any().unwrap_or(0);
                    let part = self.sizes.get(&ty).copied().unwrap_or_default();
                    plain = plain.zip(part.plain).map(|(sum, size)| sum.saturating_add(size));
                    let end = member_end(index, id, member as u32, ty, part.stated);
                    stated = stated.zip(end).map(|(so_far, end)| so_far.max(end));
                }
                Size { plain, stated }
            }
            Op::TypePointer => POINTER,
            _ => return,
        };
        self.sizes.insert(id, size);
    }

    /// Evaluates a constant operation, component by component where it is one on vectors.
    fn operate(&self, spec: &SpecOp, result: u32) -> Option<Value> {
        let operation = Op::from_u32(spec.operation)?;
        let value = |position: usize| self.values.get(spec.operands.get(position)?).cloned();
        match operation {
            Op::CompositeExtract => {
                let mut found = value(0)?;
                for &step in spec.operands.get(1..)? {
                    let Value::Composite(_, parts) = found else { return None };
                    found = parts.get(step as usize)?.clone()?;
                }
                Some(found)
            }
            Op::CompositeInsert => {
                let (Value::Composite(_, parts), &[_, _, step]) = (value(1)?, spec.operands.as_slice()) else {
                    return None;
                };
                let mut parts = parts.to_vec();
                *parts.get_mut(step as usize)? = value(0);
                Value::composite(parts)
            }
            Op::VectorShuffle => {
                let (Value::Composite(_, first), Value::Composite(_, second)) = (value(0)?, value(1)?) else {
                    return None;
                };
                let pick = |&step: &u32| first.iter().chain(second.iter()).nth(step as usize).cloned().flatten();
                let steps = spec.operands.get(2..).filter(|steps| steps.len() <= MAX_COMPOSITE)?;
                Value::composite(steps.iter().map(pick))
            }
            _ => {
                let values = (0..spec.operands.len()).map(value).collect::<Option<Vec<_>>>()?;
                let from = self.value_shapes.get(spec.operands.first()?).copied()?;
                let to = self.shapes.get(&result).copied()?;
                map(&values, &|scalars| scalar_operation(operation, from, to, scalars))
            }
        }
    }

    fn literal(&self, instruction: &Instruction) -> Option<Value> {
        let shape = self.shapes.get(&instruction.result_type?)?;
        match *instruction.operands.first()? {
            Operand::LiteralBit32(value) => Some(Value::Scalar(shape.mask(u64::from(value)))),
            Operand::LiteralBit64(value) => Some(Value::Scalar(value)),
            _ => None,
        }
    }
}

impl Shape {
    fn width(self) -> u32 {
        match self {
            Shape::Bool => 1,
            Shape::Int { width, .. } | Shape::Float { width } => width,
        }
    }

    fn mask(self, value: u64) -> u64 {
        match self.width() {
            width @ 1..64 => value & ((1 << width) - 1),
            _ => value,
        }
    }

    /// The value as the type reads it.
    fn signed(self, value: u64) -> i128 {
        match self {
            Shape::Int { signed: true, .. } => self.sign_extended(value),
            _ => i128::from(value),
        }
    }

    /// The value as a signed operation reads it, whatever the type says.
    fn sign_extended(self, value: u64) -> i128 {
        let unused = 64 - self.width().clamp(1, 64);
        i128::from((value << unused) as i64 >> unused)
    }
}

/// Where a member ends by its offset, or nothing if it states too little.
fn member_end(index: &Index<'_>, ty: u32, member: u32, member_type: u32, size: Option<u64>) -> Option<u64> {
    let offset = u64::from(index.member_literal(ty, member, Decoration::Offset)?);
    let size = match index.defined_by(member_type, Op::TypeMatrix) {
        None => size?,
        Some(matrix) => {
            let columns = literal_at(&matrix.operands, 1)?;
            let column = index.defined_by(id_at(matrix, 0)?, Op::TypeVector)?;
            let rows = literal_at(&column.operands, 1)?;
            let by_rows = index.member_has(ty, member, Decoration::RowMajor);
            let stride = index.member_literal(ty, member, Decoration::MatrixStride)?;
            u64::from(stride).saturating_mul(u64::from(if by_rows { rows } else { columns }))
        }
    };
    Some(offset.saturating_add(size))
}

/// Applies an operation on scalars to scalars, or to the components of vectors of one length.
fn map(values: &[Value], operation: &dyn Fn(&[u64]) -> Option<u64>) -> Option<Value> {
    let length = values.iter().find_map(|value| match value {
        Value::Composite(_, parts) => Some(parts.len()),
        Value::Scalar(_) => None,
    });
    let at = |position: usize| {
        let scalars = values.iter().map(|value| match value {
            &Value::Scalar(value) => Some(value),
            Value::Composite(_, parts) => match parts.get(position)?.as_ref()? {
                &Value::Scalar(value) => Some(value),
                Value::Composite(..) => None,
            },
        });
        Some(Value::Scalar(operation(&scalars.collect::<Option<Vec<_>>>()?)?))
    };
    match length {
        None => at(0),
        Some(length) => Value::composite((0..length).map(at)),
    }
}

/// Evaluates one operation on integers of 32 bits and truth values, as [`Constants`] does.
pub(super) fn fold(operation: u32, operands: &[u32]) -> Option<u32> {
    let int = Shape::Int { width: 32, signed: false };
    let mut wide = [0; 3];
    for (to, &from) in wide.get_mut(..operands.len())?.iter_mut().zip(operands) {
        *to = u64::from(from);
    }
    Some(scalar_operation(Op::from_u32(operation)?, int, int, wide.get(..operands.len())?)? as u32)
}

/// Evaluates one operation; nothing where SPIR-V leaves the result undefined, and for floats.
fn scalar_operation(operation: Op, from: Shape, to: Shape, operands: &[u64]) -> Option<u64> {
    if operation == Op::Select {
        let &[condition, yes, no] = operands else { return None };
        return Some(if condition != 0 { yes } else { no });
    }
    if matches!(from, Shape::Float { .. }) || matches!(to, Shape::Float { .. }) {
        return None;
    }
    let signed = |value: u64| from.sign_extended(value);
    let back = |value: i128| value as u64;
    let truth = u64::from;
    let result = match *operands {
        [a] => match operation {
            Op::UConvert => a,
            Op::SConvert => back(signed(a)),
            Op::SNegate => back(-signed(a)),
            Op::Not => !a,
            Op::LogicalNot => truth(a == 0),
            _ => return None,
        },
        [a, b] => match operation {
            Op::IAdd => a.wrapping_add(b),
            Op::ISub => a.wrapping_sub(b),
            Op::IMul => a.wrapping_mul(b),
            Op::UDiv => a.checked_div(b)?,
            Op::UMod => a.checked_rem(b)?,
            Op::SDiv => back(signed(a).checked_div(signed(b))?),
            Op::SRem => back(signed(a).checked_rem(signed(b))?),
            Op::SMod => {
                let remainder = signed(a).checked_rem(signed(b))?;
                let other_sign = remainder != 0 && (remainder < 0) != (signed(b) < 0);
                back(if other_sign { remainder + signed(b) } else { remainder })
            }
            Op::ShiftLeftLogical if b < u64::from(from.width()) => a << b,
            Op::ShiftRightLogical if b < u64::from(from.width()) => a >> b,
            Op::ShiftRightArithmetic if b < u64::from(from.width()) => back(signed(a) >> b),
            Op::BitwiseOr => a | b,
            Op::BitwiseAnd => a & b,
            Op::BitwiseXor => a ^ b,
            Op::LogicalOr => a | b,
            Op::LogicalAnd => a & b,
            Op::LogicalEqual | Op::IEqual => truth(a == b),
            Op::LogicalNotEqual | Op::INotEqual => truth(a != b),
            Op::ULessThan => truth(a < b),
            Op::ULessThanEqual => truth(a <= b),
            Op::UGreaterThan => truth(a > b),
            Op::UGreaterThanEqual => truth(a >= b),
            Op::SLessThan => truth(signed(a) < signed(b)),
            Op::SLessThanEqual => truth(signed(a) <= signed(b)),
            Op::SGreaterThan => truth(signed(a) > signed(b)),
            Op::SGreaterThanEqual => truth(signed(a) >= signed(b)),
            _ => return None,
        },
        _ => return None,
    };
    Some(to.mask(result))
}
