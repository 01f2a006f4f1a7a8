//! What this device allows a module, in the terms in which modules are inspected.

use super::device::Gpu;
use super::spirv::{Feature, FloatControl, ModuleLimits};
use ash::vk;

/// Drivers allocate set layouts by the highest binding number, so a number is kept within reason.
const MAX_BINDING_NUMBER: u32 = 1023;

pub(super) fn limits(gpu: &Gpu, max_bindings: u32) -> ModuleLimits {
    let limits = &gpu.probed.limits;
    ModuleLimits {
        max_sets: limits.max_bound_descriptor_sets,
        max_bindings,
        max_binding_number: MAX_BINDING_NUMBER,
        max_push_size: limits.max_push_constants_size,
        max_group_size: limits.max_compute_work_group_size,
        max_group_invocations: limits.max_compute_work_group_invocations,
        max_shared_size: limits.max_compute_shared_memory_size,
        scalar_block_layout: gpu.probed.shader.scalar_block_layout,
        local_size_id: gpu.probed.maintenance4,
        ..ModuleLimits::default()
    }
}

/// Whether a feature is switched on; all that a device has and a module can use are.
pub(super) fn has(gpu: &Gpu, feature: Feature) -> bool {
    let shader = &gpu.probed.shader;
    let subgroup = |operation| gpu.probed.subgroup_operations.contains(operation);
    match feature {
        Feature::ShaderFloat64 => shader.float64,
        Feature::ShaderInt64 => shader.int64,
        Feature::ShaderInt16 => shader.int16,
        Feature::ShaderFloat16 => shader.float16,
        Feature::ShaderInt8 => shader.int8,
        Feature::StorageBuffer16BitAccess => shader.storage16,
        Feature::UniformAndStorageBuffer16BitAccess => shader.uniform_and_storage16,
        Feature::StoragePushConstant16 => shader.push16,
        Feature::StorageBuffer8BitAccess => shader.storage8,
        Feature::UniformAndStorageBuffer8BitAccess => shader.uniform_and_storage8,
        Feature::StoragePushConstant8 => shader.push8,
        Feature::ShaderBufferInt64Atomics => shader.buffer_int64_atomics,
        Feature::ShaderSharedInt64Atomics => shader.shared_int64_atomics,
        Feature::VariablePointersStorageBuffer => shader.variable_pointers_storage,
        Feature::VariablePointers => shader.variable_pointers,
        Feature::VulkanMemoryModel => shader.memory_model,
        Feature::VulkanMemoryModelDeviceScope => shader.memory_model_device_scope,
        Feature::ShaderIntegerDotProduct => shader.integer_dot_product,
        Feature::BufferDeviceAddress => shader.buffer_device_address,
        Feature::ShaderStorageBufferArrayDynamicIndexing => shader.buffer_arrays,
        Feature::ShaderStorageBufferArrayNonUniformIndexing => shader.buffer_arrays_non_uniform,
        Feature::RuntimeDescriptorArray => shader.runtime_descriptor_array,
        Feature::SubgroupBasic => subgroup(vk::SubgroupFeatureFlags::BASIC),
        Feature::SubgroupVote => subgroup(vk::SubgroupFeatureFlags::VOTE),
        Feature::SubgroupArithmetic => subgroup(vk::SubgroupFeatureFlags::ARITHMETIC),
        Feature::SubgroupBallot => subgroup(vk::SubgroupFeatureFlags::BALLOT),
        Feature::SubgroupShuffle => subgroup(vk::SubgroupFeatureFlags::SHUFFLE),
        Feature::SubgroupShuffleRelative => subgroup(vk::SubgroupFeatureFlags::SHUFFLE_RELATIVE),
        Feature::SubgroupClustered => subgroup(vk::SubgroupFeatureFlags::CLUSTERED),
        Feature::SubgroupQuad => subgroup(vk::SubgroupFeatureFlags::QUAD),
        Feature::FloatControl(control, width) => gpu.probed.float_controls.has(control, width),
    }
}

/// Which float controls a device has, for floats of 16, 32 and 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FloatControls {
    denorm_preserve: [bool; 3],
    denorm_flush: [bool; 3],
    special_values: [bool; 3],
    round_to_even: [bool; 3],
    round_to_zero: [bool; 3],
}

impl FloatControls {
    pub(super) fn new(p: &vk::PhysicalDeviceFloatControlsProperties<'_>) -> FloatControls {
        let on = |flags: [vk::Bool32; 3]| flags.map(|flag| flag != vk::FALSE);
        FloatControls {
            denorm_preserve: on([
                p.shader_denorm_preserve_float16,
                p.shader_denorm_preserve_float32,
                p.shader_denorm_preserve_float64,
            ]),
            denorm_flush: on([
                p.shader_denorm_flush_to_zero_float16,
                p.shader_denorm_flush_to_zero_float32,
                p.shader_denorm_flush_to_zero_float64,
            ]),
            special_values: on([
                p.shader_signed_zero_inf_nan_preserve_float16,
                p.shader_signed_zero_inf_nan_preserve_float32,
                p.shader_signed_zero_inf_nan_preserve_float64,
            ]),
            round_to_even: on([
                p.shader_rounding_mode_rte_float16,
                p.shader_rounding_mode_rte_float32,
                p.shader_rounding_mode_rte_float64,
            ]),
            round_to_zero: on([
                p.shader_rounding_mode_rtz_float16,
                p.shader_rounding_mode_rtz_float32,
                p.shader_rounding_mode_rtz_float64,
            ]),
        }
    }

    fn has(&self, control: FloatControl, width: u32) -> bool {
        let by_width = match control {
            FloatControl::DenormPreserve => self.denorm_preserve,
            FloatControl::DenormFlushToZero => self.denorm_flush,
            FloatControl::SignedZeroInfNanPreserve => self.special_values,
            FloatControl::RoundingModeRTE => self.round_to_even,
            FloatControl::RoundingModeRTZ => self.round_to_zero,
        };
        match width {
            16 => by_width[0],
            32 => by_width[1],
            64 => by_width[2],
            _ => false,
        }
    }
}
