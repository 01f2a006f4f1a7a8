//! The entry point's bindings, group size, push constants and limits.

use super::ModuleLimits;
use super::access::{Accesses, Touch, infer, named, promises};
use super::budget::MOST_STEPS;
use super::constants::Constants;
use super::coverage::{Place, Proofs};
use super::index::Index;
use super::needs::{Needs, extensions, modes, needs};
use super::parse::{Parsed, id_at, literal_at};
use crate::code::Code;
use crate::error::Fault;
use crate::failure::{Access, MAX_NAME, cut};
use crate::stream::backend::{BindingInfo, KernelInfo, KernelSource};
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{AddressingModel, BuiltIn, Decoration, Dim, ExecutionMode, ExecutionModel, Op, StorageClass};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

pub(super) struct Reflection {
    pub(super) info: Option<KernelInfo>,
    /// For each binding, whether the module promises not to write it.
    pub(super) promised_read: Vec<bool>,
    pub(super) needs: Needs,
    /// Why no device of ours can run it.
    pub(super) unsupported: Option<Fault>,
    /// Why it is wrong otherwise.
    pub(super) fault: Option<Fault>,
}

/// Keeps the first fault; what comes after it is often only its consequence.
#[derive(Default)]
struct Faults(Option<Fault>);

impl Faults {
    fn add(&mut self, code: Code, message: String) {
        self.0.get_or_insert_with(|| Fault::new(code, message));
    }
}

/// The most entry points that a message lists.
const MAX_LISTED: usize = 8;

/// Of a module that is `refused` already only its bindings are looked at, and what it needs.
pub(super) fn reflect(parsed: &Parsed, source: &KernelSource<'_>, limits: &ModuleLimits, refused: bool) -> Reflection {
    let index = Index::new(parsed);
    let (needs, mut unsupported) = needs(&index, source.declares_uses);
    let seen = match index.addressing {
        None | Some(AddressingModel::Logical) => true,
        Some(addressing) => addressing == AddressingModel::PhysicalStorageBuffer64 && source.declares_uses,
    };
    if unsupported.is_none() && !seen {
        unsupported = Some(Fault::new(
            Code::Unsupported,
            "the module reaches memory by address, and what it touches cannot be seen",
        ));
    }
    if unsupported.is_none() {
        unsupported = extensions(&index);
    }
    let mut faults = Faults::default();
    if index.addressing.is_none() {
        faults.add(Code::InvalidShader, "the module names no memory model".into());
    }
    let entry = match find_entry(&index, source.entry) {
        Ok(entry) => entry,
        Err((fault, only)) => {
            faults.0.get_or_insert(fault);
            match only {
                Some(entry) => entry,
                None => {
                    return Reflection { info: None, promised_read: Vec::new(), needs, unsupported, fault: faults.0 };
                }
            }
        }
    };
    if unsupported.is_none() {
        unsupported = modes(&index, entry, limits.local_size_id);
    }
    let mut constants = Constants::new(&index, source.constants);
    if let Some(fault) = constants.fault.take() {
        faults.0.get_or_insert(fault);
    }

    let functions = index.reachable([entry]);
    let buffers: Vec<u32> = index.variables.iter().copied().filter(|&id| is_storage_buffer(&index, id)).collect();
    let accesses = if refused { named(&index, &functions) } else { infer(&index, &functions, &buffers) };
    let mine = owned(&index, &accesses);
    let array = source.declares_uses.then_some(&constants);
    let mut info = KernelInfo::default();
    let mut proofs = None;
    if !refused {
        check_layout(&index, &accesses, array, limits, &mut faults);
        info.push_size = push_size(&index, &constants, &mine, limits, &mut faults);
        let group_size = group_size(&index, &constants, entry, limits, &mut faults);
        let places = places(&index, &mine, &buffers);
        proofs = group_size.map(|size| Proofs::new(&index, &constants, entry, size, &places));
        info.group_size = group_size.unwrap_or_default();
    }
    let (bindings, promised_read, count) =
        bindings(&index, &accesses, &constants, &mine, &buffers, proofs.as_ref(), limits);
    info.bindings = bindings;
    if !refused {
        if count > u64::from(limits.max_bindings) {
            let most = limits.max_bindings;
            faults.add(Code::LimitExceeded, format!("the module binds {count} buffers; the device binds {most}"));
        }
        if constants.empty_array {
            faults.add(Code::InvalidShader, "an array of the module has no elements after specialization".into());
        }
        if !source.trusted {
            check_indices(&index, &constants, &functions, &mut faults);
        }
        check_memory(&index, &constants, &accesses, &functions, limits, &mut faults);
    }
    if index.exhausted() {
        let message = format!("finding out what the module does takes more than {MOST_STEPS} steps");
        let fault = Some(Fault::new(Code::LimitExceeded, message));
        return Reflection { info: None, promised_read: Vec::new(), needs, unsupported, fault };
    }
    Reflection { info: Some(info), promised_read, needs, unsupported, fault: faults.0 }
}

/// The function of the compute entry point, or why there is none, and then the only other one that could be meant.
fn find_entry(index: &Index<'_>, name: &str) -> Result<u32, (Fault, Option<u32>)> {
    let compute = || index.entry_points.iter().filter(|entry| entry.model == ExecutionModel::GLCompute);
    if let Some(entry) = compute().find(|entry| entry.name == name) {
        return match index.functions.contains_key(&entry.function) {
            true => Ok(entry.function),
            false => {
                let message = format!("the entry point \"{name}\" is no function of the module");
                Err((Fault::new(Code::InvalidShader, message), None))
            }
        };
    }
    let mut message = match index.entry_points.iter().find(|entry| entry.name == name) {
        Some(entry) => format!("the entry point \"{name}\" is of the kind {:?}, not GLCompute", entry.model),
        None => format!("the module has no entry point \"{name}\""),
    };
    let mut names = compute().map(|entry| format!("\"{}\"", entry.name));
    let listed: Vec<String> = names.by_ref().take(MAX_LISTED).collect();
    message += &match (listed.len(), names.count()) {
        (0, _) => "; it has none for compute".to_owned(),
        (_, 0) => format!("; for compute it has {}", listed.join(", ")),
        (_, more) => format!("; for compute it has {} and {more} more", listed.join(", ")),
    };
    let mut all = compute();
    let only = all.next().filter(|_| all.next().is_none()).map(|entry| entry.function);
    Err((Fault::new(Code::InvalidShader, message), only))
}

/// Variables that belong to the kernel: all but those that only other entry points use.
fn owned(index: &Index<'_>, accesses: &Accesses) -> HashSet<u32> {
    let mut others = HashSet::new();
    for function in index.reachable(index.entry_points.iter().map(|entry| entry.function)) {
        for instruction in index.body(function) {
            others.extend(instruction.operands.iter().filter_map(Operand::id_ref_any));
        }
    }
    let mine = |id: &u32| accesses.used.contains(id) || !others.contains(id);
    index.variables.iter().copied().filter(mine).collect()
}

/// Where the kernel's buffers are bound, but for arrays of them.
fn places(index: &Index<'_>, mine: &HashSet<u32>, buffers: &[u32]) -> Vec<(u32, Place)> {
    let place = |&variable: &u32| {
        let place =
            index.literal(variable, Decoration::DescriptorSet).zip(index.literal(variable, Decoration::Binding))?;
        let (_, pointee) = index.points_to(variable)?;
        index.block_of(pointee).1.is_none().then_some((variable, place))
    };
    buffers.iter().filter(|&variable| mine.contains(variable)).filter_map(place).collect()
}

fn is_storage_buffer(index: &Index<'_>, variable: u32) -> bool {
    match index.points_to(variable) {
        Some((StorageClass::StorageBuffer, _)) => true,
        // The way before SPIR-V 1.3.
        Some((StorageClass::Uniform, pointee)) => index.has(index.block_of(pointee).0, Decoration::BufferBlock),
        _ => false,
    }
}

/// The variable for a message: its name, else that of its type, else its id.
fn describe(index: &Index<'_>, variable: u32) -> String {
    match name_of(index, variable) {
        "" => format!("the variable %{variable}"),
        name => format!("the variable \"{name}\""),
    }
}

fn name_of<'a>(index: &Index<'a>, variable: u32) -> &'a str {
    let name = match index.name(variable) {
        "" => index.points_to(variable).map_or("", |(_, pointee)| index.name(index.block_of(pointee).0)),
        name => name,
    };
    cut(name, MAX_NAME)
}

/// Step 6 of the module's checks.
fn check_layout(
    index: &Index<'_>,
    accesses: &Accesses,
    lengths: Option<&Constants>,
    limits: &ModuleLimits,
    faults: &mut Faults,
) {
    for &variable in &index.variables {
        let used = accesses.used.contains(&variable);
        let Some((class, pointee)) = index.points_to(variable) else {
            if used {
                faults.add(Code::InvalidShader, format!("{} is no pointer", describe(index, variable)));
            }
            continue;
        };
        match class {
            StorageClass::Uniform | StorageClass::StorageBuffer | StorageClass::UniformConstant => {
                check_resource(index, variable, class, pointee, used, lengths, limits, faults);
            }
            StorageClass::Input if used => check_input(index, variable, pointee, faults),
            StorageClass::Input | StorageClass::Workgroup | StorageClass::Private | StorageClass::PushConstant => {}
            _ if used => {
                let name = describe(index, variable);
                faults.add(
                    Code::Unsupported,
                    format!("{name} is of the storage class {class:?}, which is not supported"),
                );
            }
            _ => {}
        }
    }
}

/// Drivers build the value of a built-in without looking at the type that the module gives it, and the validator does
/// not look at all of them.
fn check_input(index: &Index<'_>, variable: u32, pointee: u32, faults: &mut Faults) {
    let Some(builtin) = index.builtin(variable) else {
        let name = describe(index, variable);
        faults.add(Code::InvalidShader, format!("{name} is an input, and a kernel has built-in ones only"));
        return;
    };
    let parts = match builtin {
        BuiltIn::NumWorkgroups | BuiltIn::WorkgroupId | BuiltIn::LocalInvocationId | BuiltIn::GlobalInvocationId => 3,
        BuiltIn::LocalInvocationIndex
        | BuiltIn::SubgroupId
        | BuiltIn::NumSubgroups
        | BuiltIn::SubgroupSize
        | BuiltIn::SubgroupLocalInvocationId => 1,
        BuiltIn::SubgroupEqMask
        | BuiltIn::SubgroupGeMask
        | BuiltIn::SubgroupGtMask
        | BuiltIn::SubgroupLeMask
        | BuiltIn::SubgroupLtMask => 4,
        _ => {
            faults.add(Code::Unsupported, format!("the module reads the built-in {builtin:?}, which is not supported"));
            return;
        }
    };
    let (scalar, count) = match index.defined_by(pointee, Op::TypeVector) {
        Some(vector) => (id_at(vector, 0).unwrap_or(0), literal_at(&vector.operands, 1)),
        None => (pointee, Some(1)),
    };
    let int = index.defined_by(scalar, Op::TypeInt).and_then(|int| literal_at(&int.operands, 0));
    if (int, count) != (Some(32), Some(parts)) {
        let message = format!("the built-in {builtin:?} is not declared as {parts} integers of 32 bits");
        faults.add(Code::InvalidShader, message);
    }
}

/// `lengths` are those of arrays of buffers, where the kernel may have some.
#[allow(clippy::too_many_arguments)]
fn check_resource(
    index: &Index<'_>,
    variable: u32,
    class: StorageClass,
    pointee: u32,
    used: bool,
    lengths: Option<&Constants>,
    limits: &ModuleLimits,
    faults: &mut Faults,
) {
    let name = describe(index, variable);
    let (block, array) = index.block_of(pointee);
    let set = index.literal(variable, Decoration::DescriptorSet);
    let binding = index.literal(variable, Decoration::Binding);
    // Not only where it is used: drivers look at what is declared before they know what is used.
    let (Some(set), Some(binding)) = (set, binding) else {
        let lacks = if set.is_none() { "DescriptorSet" } else { "Binding" };
        faults.add(
            Code::InvalidShader,
            format!("{name} uses a descriptor outside the layout: it is not decorated with {lacks}"),
        );
        return;
    };
    let structure = index.defined_by(block, Op::TypeStruct).is_some();
    let kind = match class {
        StorageClass::UniformConstant => resource_kind(index, block),
        _ if !structure => {
            faults.add(Code::InvalidShader, format!("{name} uses a descriptor outside the layout: it is no block"));
            return;
        }
        StorageClass::StorageBuffer if index.has(block, Decoration::Block) => "",
        StorageClass::Uniform if index.has(block, Decoration::BufferBlock) => "",
        StorageClass::Uniform if index.has(block, Decoration::Block) => "a uniform buffer",
        _ => {
            faults.add(
                Code::InvalidShader,
                format!("{name} uses a descriptor outside the layout: its type is not decorated as a block"),
            );
            return;
        }
    };
    if used && !kind.is_empty() {
        let message = format!("{name} is {kind}; only storage buffers are supported");
        faults.add(Code::Unsupported, message);
    } else if let Some(array) = array.filter(|_| used || kind.is_empty()) {
        let nested = array.result_id != Some(pointee);
        let why = match lengths {
            None => Some("which touches what cannot be seen unless the kernel's launches declare their uses"),
            Some(_) if nested => Some("in more than one dimension"),
            Some(_) if array.class.opcode == Op::TypeRuntimeArray => Some("without a length, which is not supported"),
            Some(lengths) if length(lengths, array).is_none() => Some("whose length cannot be evaluated"),
            Some(_) => None,
        };
        if let Some(why) = why {
            faults.add(Code::Unsupported, format!("{name} is an array of descriptors {why}"));
        }
    }
    if !used && !kind.is_empty() {
        return;
    }
    if set >= limits.max_sets {
        let most = limits.max_sets;
        let message = format!(
            "{name} uses a descriptor outside the layout: it is in set {set}, and the device binds {most} sets"
        );
        faults.add(Code::LimitExceeded, message);
    }
    if binding > limits.max_binding_number {
        let most = limits.max_binding_number;
        let message =
            format!("{name} uses a descriptor outside the layout: its binding is {binding}, and the highest is {most}");
        faults.add(Code::InvalidShader, message);
    }
}

fn resource_kind(index: &Index<'_>, ty: u32) -> &'static str {
    let Some(definition) = index.definition(ty) else { return "a resource of no type" };
    let image = match definition.class.opcode {
        Op::TypeSampledImage => id_at(definition, 0).and_then(|image| index.definition(image)),
        _ => Some(definition),
    };
    let dim = image.and_then(|image| image.operands.get(1));
    match definition.class.opcode {
        Op::TypeImage | Op::TypeSampledImage if dim == Some(&Operand::Dim(Dim::DimBuffer)) => "a texel buffer",
        Op::TypeImage => "an image",
        Op::TypeSampler => "a sampler",
        Op::TypeSampledImage => "an image with a sampler",
        Op::TypeAccelerationStructureKHR => "an acceleration structure",
        _ => "a resource of a kind of its own",
    }
}

/// Elements of an array of descriptors, if it is known how many.
fn length(constants: &Constants, array: &Instruction) -> Option<u64> {
    id_at(array, 1).filter(|_| array.class.opcode == Op::TypeArray).and_then(|length| constants.scalar(length))
}

/// What the variables that share a binding come to.
struct Found<'a> {
    touch: Touch,
    promised_read: bool,
    name: &'a str,
    /// Buffers it binds.
    count: u64,
    is_array: bool,
}

/// The storage buffers of the kernel by (set, binding, element), whether the module promises not to write them, and
/// how many there are. Variables that share a place are one binding. Of more than the device binds only the first are
/// listed: a module can claim any number.
fn bindings(
    index: &Index<'_>,
    accesses: &Accesses,
    constants: &Constants,
    mine: &HashSet<u32>,
    buffers: &[u32],
    proofs: Option<&Proofs>,
    limits: &ModuleLimits,
) -> (Vec<BindingInfo>, Vec<bool>, u64) {
    let mut found: BTreeMap<(u32, u32), Found<'_>> = BTreeMap::new();
    for &variable in buffers.iter().filter(|&variable| mine.contains(variable)) {
        let set = index.literal(variable, Decoration::DescriptorSet);
        let Some(place) = set.zip(index.literal(variable, Decoration::Binding)) else { continue };
        let array = index.points_to(variable).and_then(|(_, pointee)| index.block_of(pointee).1);
        let nothing = Found { touch: Touch::default(), promised_read: true, name: "", count: 1, is_array: false };
        let here = found.entry(place).or_insert(nothing);
        here.touch.add(accesses.touch(index, variable));
        here.promised_read &= promises(index, variable, Decoration::NonWritable);
        here.is_array |= array.is_some();
        here.count = here.count.max(array.and_then(|array| length(constants, array)).unwrap_or(1));
        if here.name.is_empty() {
            here.name = name_of(index, variable);
        }
    }
    let most = found.len().max(limits.max_bindings as usize);
    let (mut list, mut promised_read) = (Vec::new(), Vec::new());
    let positions: BTreeMap<Place, u64> = found
        .iter()
        .scan(0u64, |next, (&place, here)| {
            let position = *next;
            *next = next.saturating_add(here.count);
            Some((place, position))
        })
        .collect();
    let position = |place: Place| positions.get(&place).and_then(|&position| u32::try_from(position).ok());
    for (&(set, binding), here) in &found {
        let place = (set, binding);
        let mut touch = here.touch;
        if !here.is_array && proofs.is_some_and(|proofs| proofs.sees_own_stores(place)) {
            touch.forget_loads();
        }
        let access = touch.access();
        // Which elements of an array are stored is not known.
        let proofs = proofs.filter(|_| access == Access::MayWrite && !here.is_array);
        let coverage = proofs.and_then(|proofs| proofs.coverage(place, &position)).map(Arc::new);
        let name: Arc<str> = here.name.into();
        for element in 0..here.count.min((most - list.len()) as u64) as u32 {
            list.push(BindingInfo {
                set,
                binding,
                element,
                access,
                coverage: coverage.clone(),
                name: Arc::clone(&name),
            });
            promised_read.push(here.promised_read);
        }
    }
    let count = found.values().fold(0, |sum: u64, here| sum.saturating_add(here.count));
    (list, promised_read, count)
}

/// Bytes up to the end of the last push constant, in whole words as Vulkan passes them.
fn push_size(
    index: &Index<'_>,
    constants: &Constants,
    mine: &HashSet<u32>,
    limits: &ModuleLimits,
    faults: &mut Faults,
) -> u32 {
    let mut size = 0;
    for &variable in index.variables.iter().filter(|&variable| mine.contains(variable)) {
        let Some((StorageClass::PushConstant, block)) = index.points_to(variable) else { continue };
        match constants.stated_size(block) {
            Some(bytes) => size = size.max(bytes),
            None => {
                let name = describe(index, variable);
                faults.add(Code::InvalidShader, format!("{name} has push constants whose layout is not stated"));
            }
        }
    }
    let most = limits.max_push_size;
    if size > u64::from(most) {
        let message = format!("the module has {size} bytes of push constants; the device has {most}");
        faults.add(Code::LimitExceeded, message);
    }
    u32::try_from(size).unwrap_or(u32::MAX).checked_next_multiple_of(4).unwrap_or(u32::MAX)
}

/// The group size after specialization, if it is known and one a device has.
fn group_size(
    index: &Index<'_>,
    constants: &Constants,
    entry: u32,
    limits: &ModuleLimits,
    faults: &mut Faults,
) -> Option<[u32; 3]> {
    let mut modes = index.global.iter().filter(|instruction| id_at(instruction, 0) == Some(entry));
    let sized = index
        .global
        .iter()
        .filter_map(|instruction| instruction.result_id)
        .find(|&id| index.builtin(id) == Some(BuiltIn::WorkgroupSize));
    // The built-in takes the place of the execution mode.
    let size = match sized {
        Some(id) => constants.triple(id),
        None => modes
            .find_map(|instruction| match (instruction.class.opcode, instruction.operands.get(1)) {
                (Op::ExecutionMode, Some(Operand::ExecutionMode(ExecutionMode::LocalSize))) => {
                    let part = |position| literal_at(&instruction.operands, position).map(u64::from);
                    Some(part(2).zip(part(3)).zip(part(4)).map(|((x, y), z)| [x, y, z]))
                }
                (Op::ExecutionModeId, Some(Operand::ExecutionMode(ExecutionMode::LocalSizeId))) => {
                    let part = |position| constants.scalar(id_at(instruction, position)?);
                    Some(part(2).zip(part(3)).zip(part(4)).map(|((x, y), z)| [x, y, z]))
                }
                _ => None,
            })
            .unwrap_or_else(|| {
                faults.add(Code::InvalidShader, "the entry point states no group size".into());
                None
            }),
    };
    let Some(size) = size else {
        faults.add(Code::Unsupported, "the group size depends on constants that cannot be evaluated".into());
        return None;
    };
    let [x, y, z] = size;
    if size.contains(&0) {
        faults.add(Code::InvalidShader, format!("the group size is {x} x {y} x {z}; none may be zero"));
        return None;
    }
    let [most_x, most_y, most_z] = limits.max_group_size;
    let most = limits.max_group_invocations;
    let together = x.saturating_mul(y).saturating_mul(z);
    let beyond = size.iter().zip(limits.max_group_size).any(|(&size, most)| size > u64::from(most));
    if beyond || together > u64::from(most) {
        let message = format!(
            "the group size is {x} x {y} x {z}; the device has {most_x} x {most_y} x {most_z}, {most} together"
        );
        faults.add(Code::LimitExceeded, message);
        return None;
    }
    Some(size.map(|part| part as u32))
}

/// Constant indices into memory that no robust access of the driver bounds. What depends on specialization is left
/// alone: a branch that specialization turns off may hold any index.
fn check_indices(index: &Index<'_>, constants: &Constants, functions: &[u32], faults: &mut Faults) {
    let plain = |id: u32| index.defined_by(id, Op::Constant).and_then(|_| constants.scalar(id));
    for chain in functions.iter().flat_map(|&function| index.body(function)) {
        if !matches!(chain.class.opcode, Op::AccessChain | Op::InBoundsAccessChain) {
            continue;
        }
        let Some(base) = id_at(chain, 0) else { continue };
        let Some((StorageClass::Workgroup | StorageClass::Private | StorageClass::Function, mut ty)) =
            index.points_to(base)
        else {
            continue;
        };
        for at in chain.operands.iter().skip(1).filter_map(Operand::id_ref_any).map(plain) {
            let Some(definition) = index.definition(ty) else { break };
            let part = match (definition.class.opcode, at) {
                (Op::TypeStruct, Some(at)) => usize::try_from(at).ok().and_then(|at| id_at(definition, at)),
                (Op::TypeArray | Op::TypeVector | Op::TypeMatrix, _) => {
                    let length = match definition.class.opcode {
                        Op::TypeArray => id_at(definition, 1).and_then(plain),
                        _ => literal_at(&definition.operands, 1).map(u64::from),
                    };
                    if let Some((at, length)) = at.zip(length).filter(|(at, length)| at >= length) {
                        let name = describe(index, base);
                        let message = format!("{name} is indexed at {at}, where it has {length} elements");
                        faults.add(Code::InvalidShader, message);
                    }
                    id_at(definition, 0)
                }
                _ => None,
            };
            let Some(part) = part else { break };
            ty = part;
        }
    }
}

/// Shared memory of a group and private memory of an invocation.
fn check_memory(
    index: &Index<'_>,
    constants: &Constants,
    accesses: &Accesses,
    functions: &[u32],
    limits: &ModuleLimits,
    faults: &mut Faults,
) {
    let (mut shared, mut private) = (0u64, 0u64);
    let local = functions.iter().flat_map(|&function| index.body(function)).filter(|i| i.class.opcode == Op::Variable);
    let global = index.variables.iter().filter(|variable| accesses.used.contains(variable)).copied();
    for variable in global.chain(local.filter_map(|instruction| instruction.result_id)) {
        let Some((class, pointee)) = index.points_to(variable) else { continue };
        let total = match class {
            StorageClass::Workgroup => &mut shared,
            StorageClass::Private | StorageClass::Function => &mut private,
            _ => continue,
        };
        match constants.plain_size(pointee) {
            Some(size) => *total = total.saturating_add(size),
            None => {
                let name = describe(index, variable);
                faults.add(Code::Unsupported, format!("{name} is of a size that cannot be evaluated"));
            }
        }
    }
    for (what, size, most) in
        [("shared", shared, limits.max_shared_size), ("private", private, limits.max_private_size)]
    {
        if size > u64::from(most) {
            let message = format!("the kernel has {size} bytes of {what} variables; the device has {most}");
            faults.add(Code::LimitExceeded, message);
        }
    }
}
