//! What a module declares that it needs of a device.
//!
//! Drivers are not obliged to refuse a module that needs what was not enabled, and some crash. So every capability is
//! looked up here, and one that is not in the table is refused.

use super::index::Index;
use super::parse::{id_at, string_at};
use crate::code::Code;
use crate::error::Fault;
use crate::failure::{MAX_NAME, cut};
use rspirv::dr::Operand;
use rspirv::spirv::{AddressingModel, Capability, ExecutionMode, Op, StorageClass};
use std::collections::HashSet;
use std::fmt;

/// A device feature, named as Vulkan names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Feature {
    ShaderFloat64,
    ShaderInt64,
    ShaderInt16,
    ShaderFloat16,
    ShaderInt8,
    StorageBuffer16BitAccess,
    UniformAndStorageBuffer16BitAccess,
    StoragePushConstant16,
    StorageBuffer8BitAccess,
    UniformAndStorageBuffer8BitAccess,
    StoragePushConstant8,
    ShaderBufferInt64Atomics,
    ShaderSharedInt64Atomics,
    VariablePointersStorageBuffer,
    VariablePointers,
    VulkanMemoryModel,
    VulkanMemoryModelDeviceScope,
    ShaderIntegerDotProduct,
    BufferDeviceAddress,
    ShaderStorageBufferArrayDynamicIndexing,
    ShaderStorageBufferArrayNonUniformIndexing,
    RuntimeDescriptorArray,
    /// `VK_SUBGROUP_FEATURE_BASIC_BIT` for compute; the other operations follow.
    SubgroupBasic,
    SubgroupVote,
    SubgroupArithmetic,
    SubgroupBallot,
    SubgroupShuffle,
    SubgroupShuffleRelative,
    SubgroupClustered,
    SubgroupQuad,
    /// One of the float controls, for floats of this many bits.
    FloatControl(FloatControl, u32),
}

/// The float controls of `VkPhysicalDeviceFloatControlsProperties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum FloatControl {
    DenormPreserve,
    DenormFlushToZero,
    SignedZeroInfNanPreserve,
    RoundingModeRTE,
    RoundingModeRTZ,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Feature::FloatControl(control, width) = self {
            return write!(f, "shader{control:?}Float{width}");
        }
        let name = format!("{self:?}");
        if let Some(operation) = name.strip_prefix("Subgroup") {
            return write!(f, "subgroup operations of the kind {}", operation.to_lowercase());
        }
        let (first, rest) = name.split_at(1);
        write!(f, "{}{rest}", first.to_lowercase())
    }
}

/// One capability of a module, and a feature that a device must have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The capability, as SPIR-V names it.
    pub capability: &'static str,
    /// What it takes.
    pub feature: Feature,
}

/// Everything a module needs beyond what every device has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs(pub Vec<Need>);

impl Needs {
    /// Fails on the first need the device does not meet, naming the capability.
    pub fn check(&self, enabled: impl Fn(Feature) -> bool) -> Result<(), Fault> {
        match self.0.iter().find(|need| !enabled(need.feature)) {
            None => Ok(()),
            Some(Need { capability, feature }) => Err(Fault::new(
                Code::Unsupported,
                format!("the module needs the capability {capability}, and this device has no {feature}"),
            )),
        }
    }
}

/// Capabilities to features; without a feature where every device of Vulkan 1.2 has the capability.
const TABLE: &[(Capability, &str, Option<Feature>)] = {
    use Feature::*;
    &[
        (Capability::Matrix, "Matrix", None),
        (Capability::Shader, "Shader", None),
        (Capability::InputAttachment, "InputAttachment", None),
        (Capability::Sampled1D, "Sampled1D", None),
        (Capability::Image1D, "Image1D", None),
        (Capability::SampledBuffer, "SampledBuffer", None),
        (Capability::ImageBuffer, "ImageBuffer", None),
        (Capability::ImageQuery, "ImageQuery", None),
        (Capability::DerivativeControl, "DerivativeControl", None),
        // What these take depends on where they are used; see below.
        (Capability::Int64Atomics, "Int64Atomics", None),
        (Capability::DenormPreserve, "DenormPreserve", None),
        (Capability::DenormFlushToZero, "DenormFlushToZero", None),
        (Capability::SignedZeroInfNanPreserve, "SignedZeroInfNanPreserve", None),
        (Capability::RoundingModeRTE, "RoundingModeRTE", None),
        (Capability::RoundingModeRTZ, "RoundingModeRTZ", None),
        (Capability::Float64, "Float64", Some(ShaderFloat64)),
        (Capability::Int64, "Int64", Some(ShaderInt64)),
        (Capability::Int16, "Int16", Some(ShaderInt16)),
        (Capability::Float16, "Float16", Some(ShaderFloat16)),
        (Capability::Int8, "Int8", Some(ShaderInt8)),
        (Capability::StorageBuffer16BitAccess, "StorageBuffer16BitAccess", Some(StorageBuffer16BitAccess)),
        (
            Capability::UniformAndStorageBuffer16BitAccess,
            "UniformAndStorageBuffer16BitAccess",
            Some(UniformAndStorageBuffer16BitAccess),
        ),
        (Capability::StoragePushConstant16, "StoragePushConstant16", Some(StoragePushConstant16)),
        (Capability::StorageBuffer8BitAccess, "StorageBuffer8BitAccess", Some(StorageBuffer8BitAccess)),
        (
            Capability::UniformAndStorageBuffer8BitAccess,
            "UniformAndStorageBuffer8BitAccess",
            Some(UniformAndStorageBuffer8BitAccess),
        ),
        (Capability::StoragePushConstant8, "StoragePushConstant8", Some(StoragePushConstant8)),
        (
            Capability::VariablePointersStorageBuffer,
            "VariablePointersStorageBuffer",
            Some(VariablePointersStorageBuffer),
        ),
        (Capability::VariablePointers, "VariablePointers", Some(VariablePointers)),
        (Capability::VulkanMemoryModel, "VulkanMemoryModel", Some(VulkanMemoryModel)),
        (Capability::VulkanMemoryModelDeviceScope, "VulkanMemoryModelDeviceScope", Some(VulkanMemoryModelDeviceScope)),
        (Capability::DotProduct, "DotProduct", Some(ShaderIntegerDotProduct)),
        (Capability::DotProductInputAll, "DotProductInputAll", Some(ShaderIntegerDotProduct)),
        (Capability::DotProductInput4x8Bit, "DotProductInput4x8Bit", Some(ShaderIntegerDotProduct)),
        (Capability::DotProductInput4x8BitPacked, "DotProductInput4x8BitPacked", Some(ShaderIntegerDotProduct)),
        (Capability::GroupNonUniform, "GroupNonUniform", Some(SubgroupBasic)),
        (Capability::GroupNonUniformVote, "GroupNonUniformVote", Some(SubgroupVote)),
        (Capability::GroupNonUniformArithmetic, "GroupNonUniformArithmetic", Some(SubgroupArithmetic)),
        (Capability::GroupNonUniformBallot, "GroupNonUniformBallot", Some(SubgroupBallot)),
        (Capability::GroupNonUniformShuffle, "GroupNonUniformShuffle", Some(SubgroupShuffle)),
        (Capability::GroupNonUniformShuffleRelative, "GroupNonUniformShuffleRelative", Some(SubgroupShuffleRelative)),
        (Capability::GroupNonUniformClustered, "GroupNonUniformClustered", Some(SubgroupClustered)),
        (Capability::GroupNonUniformQuad, "GroupNonUniformQuad", Some(SubgroupQuad)),
    ]
};

/// The same, for what reaches memory that nobody sees in the module: only where launches declare their uses.
const REACH: &[(Capability, &str, Option<Feature>)] = &[
    (Capability::PhysicalStorageBufferAddresses, "PhysicalStorageBufferAddresses", Some(Feature::BufferDeviceAddress)),
    (
        Capability::StorageBufferArrayDynamicIndexing,
        "StorageBufferArrayDynamicIndexing",
        Some(Feature::ShaderStorageBufferArrayDynamicIndexing),
    ),
    (
        Capability::StorageBufferArrayNonUniformIndexing,
        "StorageBufferArrayNonUniformIndexing",
        Some(Feature::ShaderStorageBufferArrayNonUniformIndexing),
    ),
    (Capability::ShaderNonUniform, "ShaderNonUniform", None),
    // Compilers ask for it where a buffer ends in addresses, too. Whether descriptors have no length is seen at each array.
    (Capability::RuntimeDescriptorArray, "RuntimeDescriptorArray", Some(Feature::RuntimeDescriptorArray)),
];

/// Extensions without which no module of Vulkan 1.2 is written, whose capabilities are in the tables, or that say nothing
/// about what runs. One that is not here may bring an instruction, a mode or a decoration that no capability stands for.
const EXTENSIONS: &[&str] = &[
    "SPV_EXT_descriptor_indexing",
    "SPV_EXT_physical_storage_buffer",
    "SPV_EXT_shader_viewport_index_layer",
    "SPV_GOOGLE_decorate_string",
    "SPV_GOOGLE_hlsl_functionality1",
    "SPV_GOOGLE_user_type",
    "SPV_KHR_16bit_storage",
    "SPV_KHR_8bit_storage",
    "SPV_KHR_device_group",
    "SPV_KHR_float_controls",
    "SPV_KHR_integer_dot_product",
    "SPV_KHR_multiview",
    "SPV_KHR_no_integer_wrap_decoration",
    "SPV_KHR_non_semantic_info",
    "SPV_KHR_physical_storage_buffer",
    "SPV_KHR_shader_draw_parameters",
    "SPV_KHR_storage_buffer_storage_class",
    "SPV_KHR_variable_pointers",
    "SPV_KHR_vulkan_memory_model",
];

/// The first extension or set of extended instructions that no capability stands for and no device of ours is asked
/// about.
pub(super) fn extensions(index: &Index<'_>) -> Option<Fault> {
    index.global.iter().find_map(|instruction| {
        let name = string_at(instruction, 0);
        match instruction.class.opcode {
            Op::Extension if !EXTENSIONS.contains(&name?) => {
                let message = format!("the module needs the extension {}: it is not supported", cut(name?, MAX_NAME));
                Some(Fault::new(Code::Unsupported, message))
            }
            Op::ExtInstImport if name? != "GLSL.std.450" && !index.debug_sets.contains(&instruction.result_id?) => {
                let name = cut(name?, MAX_NAME);
                let message = format!("the module uses the set of instructions \"{name}\": it is not supported");
                Some(Fault::new(Code::Unsupported, message))
            }
            _ => None,
        }
    })
}

/// The first execution mode of the entry point that no capability stands for and no device of ours is asked about.
pub(super) fn modes(index: &Index<'_>, entry: u32, local_size_id: bool) -> Option<Fault> {
    let modes = index.global.iter().filter(|i| matches!(i.class.opcode, Op::ExecutionMode | Op::ExecutionModeId));
    modes.filter(|instruction| id_at(instruction, 0) == Some(entry)).find_map(|instruction| {
        let Some(&Operand::ExecutionMode(mode)) = instruction.operands.get(1) else { return None };
        let known = match mode {
            ExecutionMode::LocalSize => true,
            ExecutionMode::LocalSizeId => local_size_id,
            // By their capabilities, which depend on the width.
            ExecutionMode::DenormPreserve
            | ExecutionMode::DenormFlushToZero
            | ExecutionMode::SignedZeroInfNanPreserve
            | ExecutionMode::RoundingModeRTE
            | ExecutionMode::RoundingModeRTZ => true,
            _ => false,
        };
        let message = || format!("the module has the execution mode {mode:?}: it is not supported");
        (!known).then(|| Fault::new(Code::Unsupported, message()))
    })
}

/// Looks up every capability; the fault is about the first one that no device of ours is asked for.
pub(super) fn needs(index: &Index<'_>, declares_uses: bool) -> (Needs, Option<Fault>) {
    let reach = if declares_uses { REACH } else { &[] };
    let mut needs = Needs::default();
    let mut fault = None;
    let mut seen = HashSet::new();
    for &capability in index.capabilities.iter().filter(|&&capability| seen.insert(capability)) {
        match TABLE.iter().chain(reach).find(|entry| entry.0 == capability) {
            Some(&(_, capability, feature)) => {
                needs.0.extend(feature.map(|feature| Need { capability, feature }));
            }
            None => fault = fault.or_else(|| Some(refuse(capability))),
        }
    }
    if index.capabilities.contains(&Capability::Int64Atomics) {
        int64_atomics(index, &mut needs);
    }
    float_controls(index, &mut needs);
    // Without a validator nothing says that the addressing model comes with its capability.
    if index.addressing == Some(AddressingModel::PhysicalStorageBuffer64) {
        needs.0.push(Need { capability: "PhysicalStorageBufferAddresses", feature: Feature::BufferDeviceAddress });
    }
    (needs, fault)
}

fn refuse(capability: Capability) -> Fault {
    let name = format!("{capability:?}");
    let why = match capability {
        Capability::PhysicalStorageBufferAddresses => {
            "it reaches memory by address, and what it touches cannot be seen unless its launches declare their uses"
        }
        Capability::Addresses => "it reaches memory by address, and what it touches cannot be seen",
        Capability::RuntimeDescriptorArray => {
            "it binds arrays of descriptors without a length, or reaches memory through a list of addresses, and what it \
             touches cannot be seen unless its launches declare their uses"
        }
        Capability::StorageBufferArrayDynamicIndexing
        | Capability::StorageBufferArrayNonUniformIndexing
        | Capability::ShaderNonUniform => {
            "it chooses from arrays of descriptors, and which it touches cannot be seen unless its launches declare \
             their uses"
        }
        _ => "it is not supported",
    };
    Fault::new(Code::Unsupported, format!("the module needs the capability {name}: {why}"))
}

/// Devices may have 64-bit atomics on buffers only.
fn int64_atomics(index: &Index<'_>, needs: &mut Needs) {
    for instruction in index.parsed.instructions.iter().filter(|i| i.class.opname.starts_with("Atomic")) {
        let Some((class, pointee)) = id_at(instruction, 0).and_then(|pointer| index.points_to(pointer)) else {
            continue;
        };
        let int = index.defined_by(pointee, Op::TypeInt);
        if int.is_none_or(|int| int.operands.first() != Some(&Operand::LiteralBit32(64))) {
            continue;
        }
        let shared = class == StorageClass::Workgroup;
        let feature = if shared { Feature::ShaderSharedInt64Atomics } else { Feature::ShaderBufferInt64Atomics };
        let need = Need { capability: "Int64Atomics", feature };
        if !needs.0.contains(&need) {
            needs.0.push(need);
        }
    }
}

/// Devices may have a float control for some widths only; the execution mode says which.
fn float_controls(index: &Index<'_>, needs: &mut Needs) {
    for instruction in index.global.iter().filter(|i| i.class.opcode == Op::ExecutionMode) {
        let [_, Operand::ExecutionMode(mode), Operand::LiteralBit32(width)] = *instruction.operands.as_slice() else {
            continue;
        };
        let (capability, control) = match mode {
            ExecutionMode::DenormPreserve => ("DenormPreserve", FloatControl::DenormPreserve),
            ExecutionMode::DenormFlushToZero => ("DenormFlushToZero", FloatControl::DenormFlushToZero),
            ExecutionMode::SignedZeroInfNanPreserve => {
                ("SignedZeroInfNanPreserve", FloatControl::SignedZeroInfNanPreserve)
            }
            ExecutionMode::RoundingModeRTE => ("RoundingModeRTE", FloatControl::RoundingModeRTE),
            ExecutionMode::RoundingModeRTZ => ("RoundingModeRTZ", FloatControl::RoundingModeRTZ),
            _ => continue,
        };
        needs.0.push(Need { capability, feature: Feature::FloatControl(control, width) });
    }
}
