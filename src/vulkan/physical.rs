//! Which devices there are, what each can do, and which one is meant.

use super::fault::fault;
use super::instance::{Instance, Version, enumerate, has};
use super::loader;
use super::modules::FloatControls;
use crate::code::Code;
use crate::error::Fault;
use ash::{ext, khr, vk};
use std::fmt::{self, Write};

/// What kind of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceType {
    /// None of the others.
    Other,
    /// Shares memory with the host.
    Integrated,
    /// Has memory of its own.
    Discrete,
    /// A part of a device, handed to a virtual machine.
    Virtual,
    /// Software.
    Cpu,
}

/// A memory heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Bytes.
    pub size: u64,
    /// Local to the device.
    pub device_local: bool,
}

/// What can be said about a device before anything is made on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDescription {
    /// Place in the loader's enumeration.
    pub index: u32,
    /// Name the driver gives it.
    pub name: String,
    /// `deviceUUID`; zero where the device is too old to have one.
    pub uuid: [u8; 16],
    /// PCI or Khronos vendor id.
    pub vendor_id: u32,
    /// The vendor's id for the device.
    pub device_id: u32,
    /// What kind of device it is.
    pub device_type: DeviceType,
    /// Vulkan version it supports.
    pub api_version: u32,
    /// Driver's version, encoded as the vendor likes.
    pub driver_version: u32,
    /// Driver's name and version for people, where it gives them.
    pub driver: String,
    /// Memory heaps.
    pub heaps: Vec<Heap>,
    /// What it lacks to be used; empty when it can be used.
    pub lacking: String,
}

/// Which device is meant; every criterion given must hold.
#[derive(Clone, Debug, Default)]
pub struct Select {
    /// Place in the loader's enumeration.
    pub index: Option<u32>,
    /// Part of the name, whatever the case.
    pub name: Option<String>,
    /// `deviceUUID`.
    pub uuid: Option<[u8; 16]>,
    /// What kind of device.
    pub device_type: Option<DeviceType>,
}

impl Select {
    fn is_empty(&self) -> bool {
        self.index.is_none() && self.name.is_none() && self.uuid.is_none() && self.device_type.is_none()
    }

    fn matches(&self, device: &DeviceDescription) -> bool {
        self.index.is_none_or(|index| index == device.index)
            && self.uuid.is_none_or(|uuid| uuid == device.uuid)
            && self.device_type.is_none_or(|device_type| device_type == device.device_type)
            && self.name.as_ref().is_none_or(|name| device.name.to_lowercase().contains(&name.to_lowercase()))
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut part = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            let result = write!(f, "{separator}{text}");
            separator = ", ";
            result
        };
        if let Some(index) = self.index {
            part(f, format_args!("index {index}"))?;
        }
        if let Some(name) = &self.name {
            part(f, format_args!("name containing {name:?}"))?;
        }
        if let Some(uuid) = self.uuid {
            part(f, format_args!("UUID {}", Uuid(uuid)))?;
        }
        if let Some(device_type) = self.device_type {
            part(f, format_args!("type {device_type:?}"))?;
        }
        if self.is_empty() {
            f.write_str("any device")?;
        }
        Ok(())
    }
}

struct Uuid([u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_char('-')?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The environment variable that selects when the caller does not: an index, or part of a name.
pub(super) const DEVICE_VARIABLE: &str = "TIDEGATE_DEVICE";

fn select_from_environment() -> Option<Select> {
    let value = std::env::var(DEVICE_VARIABLE).ok().filter(|value| !value.is_empty())?;
    Some(match value.parse() {
        Ok(index) => Select { index: Some(index), ..Select::default() },
        Err(_) => Select { name: Some(value), ..Select::default() },
    })
}

/// The shader features a module may use, all switched on where the device has them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShaderFeatures {
    pub(super) float64: bool,
    pub(super) int64: bool,
    pub(super) int16: bool,
    pub(super) float16: bool,
    pub(super) int8: bool,
    pub(super) storage16: bool,
    pub(super) uniform_and_storage16: bool,
    pub(super) push16: bool,
    pub(super) storage8: bool,
    pub(super) uniform_and_storage8: bool,
    pub(super) push8: bool,
    pub(super) variable_pointers_storage: bool,
    pub(super) variable_pointers: bool,
    pub(super) buffer_int64_atomics: bool,
    pub(super) shared_int64_atomics: bool,
    pub(super) scalar_block_layout: bool,
    pub(super) buffer_device_address: bool,
    pub(super) buffer_arrays: bool,
    pub(super) buffer_arrays_non_uniform: bool,
    pub(super) runtime_descriptor_array: bool,
    pub(super) subgroup_extended_types: bool,
    pub(super) memory_model: bool,
    pub(super) memory_model_device_scope: bool,
    pub(super) integer_dot_product: bool,
    pub(super) terminate_invocation: bool,
    pub(super) demote_to_helper: bool,
    pub(super) zero_initialize_workgroup: bool,
}

/// What a device was found to have, in the terms this backend cares about.
#[derive(Clone)]
pub(super) struct Probed {
    pub(super) physical: vk::PhysicalDevice,
    pub(super) description: DeviceDescription,
    /// Version to use it at: the device's, no newer than the instance's.
    pub(super) api_version: u32,
    pub(super) limits: vk::PhysicalDeviceLimits,
    pub(super) max_allocation_size: u64,
    /// `maxBufferSize`, where the device is new enough to tell.
    pub(super) max_buffer_size: Option<u64>,
    pub(super) max_push_descriptors: u32,
    pub(super) storage_access_alignment: u64,
    pub(super) family: u32,
    pub(super) family_queues: u32,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    pub(super) shader: ShaderFeatures,
    pub(super) subgroup_operations: vk::SubgroupFeatureFlags,
    pub(super) float_controls: FloatControls,
    pub(super) synchronization2: bool,
    pub(super) maintenance4: bool,
    pub(super) push_descriptor: bool,
    pub(super) robustness2: bool,
    pub(super) memory_budget: bool,
    pub(super) device_fault: bool,
    pub(super) portability_subset: bool,
}

impl Probed {
    /// The 1.3 entry points may be called under their own names.
    pub(super) fn is_1_3(&self) -> bool {
        self.api_version >= vk::API_VERSION_1_3
    }
}

/// Every device the loader enumerates, in its order.
pub(super) fn enumerate_devices(instance: &Instance) -> Result<Vec<Probed>, Fault> {
    let fp = instance.raw.fp_v1_0();
    let devices: Vec<vk::PhysicalDevice> = enumerate("vkEnumeratePhysicalDevices", |count, list| {
        // SAFETY: the instance is alive; `list` is null or has room for `count` elements.
        unsafe { (fp.enumerate_physical_devices)(instance.raw.handle(), count, list) }
    })?;
    devices.iter().enumerate().map(|(index, &physical)| probe(instance, index as u32, physical)).collect()
}

fn probe(instance: &Instance, index: u32, physical: vk::PhysicalDevice) -> Result<Probed, Fault> {
    let raw = &instance.raw;
    let mut lacking: Vec<String> = Vec::new();

    // SAFETY: `physical` comes from this instance.
    let basic = unsafe { raw.get_physical_device_properties(physical) };
    let api_version = basic.api_version.min(instance.api_version);
    let recent = api_version >= vk::API_VERSION_1_2;
    if !recent {
        lacking.push(format!("Vulkan 1.2 (it has {})", Version(basic.api_version)));
    }
    let is_1_3 = api_version >= vk::API_VERSION_1_3;

    let extensions: Vec<vk::ExtensionProperties> = enumerate("vkEnumerateDeviceExtensionProperties", |count, list| {
        // SAFETY: `list` is null or has room for `count` elements.
        unsafe { (raw.fp_v1_0().enumerate_device_extension_properties)(physical, std::ptr::null(), count, list) }
    })?;
    let push_descriptor = has(&extensions, khr::push_descriptor::NAME);
    let listed_robustness2 = has(&extensions, ext::robustness2::NAME);
    let listed_fault = has(&extensions, ext::device_fault::NAME);
    let listed_sync2 = is_1_3 || has(&extensions, khr::synchronization2::NAME);

    let mut id = vk::PhysicalDeviceIDProperties::default();
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut maintenance3 = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut maintenance4 = vk::PhysicalDeviceMaintenance4Properties::default();
    let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
    let mut floats = vk::PhysicalDeviceFloatControlsProperties::default();
    let mut push = vk::PhysicalDevicePushDescriptorPropertiesKHR::default();
    let mut robust = vk::PhysicalDeviceRobustness2PropertiesEXT::default();
    if recent {
        let mut properties = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut id)
            .push_next(&mut driver)
            .push_next(&mut maintenance3)
            .push_next(&mut subgroup)
            .push_next(&mut floats);
        if is_1_3 {
            properties = properties.push_next(&mut maintenance4);
        }
        if push_descriptor {
            properties = properties.push_next(&mut push);
        }
        if listed_robustness2 {
            properties = properties.push_next(&mut robust);
        }
        // SAFETY: instance and device are at least 1.1; every chained structure is of a version or extension it has.
        unsafe { raw.get_physical_device_properties2(physical, &mut properties) };
    }

    let mut f11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut f12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut f13 = vk::PhysicalDeviceVulkan13Features::default();
    let mut sync2 = vk::PhysicalDeviceSynchronization2Features::default();
    let mut robust_features = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
    let mut fault_features = vk::PhysicalDeviceFaultFeaturesEXT::default();
    let core = if recent {
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut f11).push_next(&mut f12);
        if is_1_3 {
            features = features.push_next(&mut f13);
        } else if listed_sync2 {
            features = features.push_next(&mut sync2);
        }
        if listed_robustness2 {
            features = features.push_next(&mut robust_features);
        }
        if listed_fault {
            features = features.push_next(&mut fault_features);
        }
        // SAFETY: as above.
        unsafe { raw.get_physical_device_features2(physical, &mut features) };
        features.features
    } else {
        // SAFETY: `physical` comes from this instance.
        unsafe { raw.get_physical_device_features(physical) }
    };
    let on = |flag: vk::Bool32| flag != vk::FALSE;
    if recent && !on(f12.timeline_semaphore) {
        lacking.push("timeline semaphores".into());
    }
    if !on(core.robust_buffer_access) {
        lacking.push("robustBufferAccess".into());
    }

    // SAFETY: `physical` comes from this instance.
    let families = unsafe { raw.get_physical_device_queue_family_properties(physical) };
    let computes = |family: &vk::QueueFamilyProperties| {
        family.queue_count > 0 && family.queue_flags.contains(vk::QueueFlags::COMPUTE)
    };
    // A family without graphics leaves the engine's own frames alone.
    let family = families
        .iter()
        .position(|family| computes(family) && !family.queue_flags.contains(vk::QueueFlags::GRAPHICS))
        .or_else(|| families.iter().position(computes));
    if family.is_none() {
        lacking.push("a compute queue".into());
    }
    // SAFETY: `physical` comes from this instance.
    let memory = unsafe { raw.get_physical_device_memory_properties(physical) };

    let text =
        |name: Result<&std::ffi::CStr, _>| name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let description = DeviceDescription {
        index,
        name: text(basic.device_name_as_c_str()),
        uuid: id.device_uuid,
        vendor_id: basic.vendor_id,
        device_id: basic.device_id,
        device_type: match basic.device_type {
            vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceType::Integrated,
            vk::PhysicalDeviceType::DISCRETE_GPU => DeviceType::Discrete,
            vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceType::Virtual,
            vk::PhysicalDeviceType::CPU => DeviceType::Cpu,
            _ => DeviceType::Other,
        },
        api_version: basic.api_version,
        driver_version: basic.driver_version,
        driver: format!("{} {}", text(driver.driver_name_as_c_str()), text(driver.driver_info_as_c_str()))
            .trim()
            .to_string(),
        heaps: memory
            .memory_heaps_as_slice()
            .iter()
            .map(|heap| Heap { size: heap.size, device_local: heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL) })
            .collect(),
        lacking: lacking.join(", "),
    };

    Ok(Probed {
        physical,
        description,
        api_version,
        limits: basic.limits,
        max_allocation_size: maintenance3.max_memory_allocation_size,
        max_buffer_size: (is_1_3 && maintenance4.max_buffer_size > 0).then_some(maintenance4.max_buffer_size),
        max_push_descriptors: push.max_push_descriptors,
        storage_access_alignment: robust.robust_storage_buffer_access_size_alignment.max(1),
        family: family.unwrap_or(0) as u32,
        family_queues: family.map_or(0, |family| families[family].queue_count),
        memory,
        shader: ShaderFeatures {
            float64: on(core.shader_float64),
            int64: on(core.shader_int64),
            int16: on(core.shader_int16),
            float16: on(f12.shader_float16),
            int8: on(f12.shader_int8),
            storage16: on(f11.storage_buffer16_bit_access),
            uniform_and_storage16: on(f11.uniform_and_storage_buffer16_bit_access),
            push16: on(f11.storage_push_constant16),
            storage8: on(f12.storage_buffer8_bit_access),
            uniform_and_storage8: on(f12.uniform_and_storage_buffer8_bit_access),
            push8: on(f12.storage_push_constant8),
            variable_pointers_storage: on(f11.variable_pointers_storage_buffer),
            variable_pointers: on(f11.variable_pointers),
            buffer_int64_atomics: on(f12.shader_buffer_int64_atomics),
            shared_int64_atomics: on(f12.shader_shared_int64_atomics),
            scalar_block_layout: on(f12.scalar_block_layout),
            buffer_device_address: on(f12.buffer_device_address),
            buffer_arrays: on(core.shader_storage_buffer_array_dynamic_indexing),
            buffer_arrays_non_uniform: on(f12.shader_storage_buffer_array_non_uniform_indexing),
            runtime_descriptor_array: on(f12.runtime_descriptor_array),
            subgroup_extended_types: on(f12.shader_subgroup_extended_types),
            memory_model: on(f12.vulkan_memory_model),
            memory_model_device_scope: on(f12.vulkan_memory_model_device_scope),
            integer_dot_product: on(f13.shader_integer_dot_product),
            terminate_invocation: on(f13.shader_terminate_invocation),
            demote_to_helper: on(f13.shader_demote_to_helper_invocation),
            zero_initialize_workgroup: on(f13.shader_zero_initialize_workgroup_memory),
        },
        subgroup_operations: if subgroup.supported_stages.contains(vk::ShaderStageFlags::COMPUTE) {
            subgroup.supported_operations
        } else {
            vk::SubgroupFeatureFlags::empty()
        },
        float_controls: FloatControls::new(&floats),
        synchronization2: listed_sync2 && (on(f13.synchronization2) || on(sync2.synchronization2)),
        maintenance4: on(f13.maintenance4),
        push_descriptor: push_descriptor && push.max_push_descriptors > 0,
        robustness2: on(robust_features.robust_buffer_access2),
        memory_budget: has(&extensions, ext::memory_budget::NAME),
        device_fault: on(fault_features.device_fault),
        portability_subset: has(&extensions, khr::portability_subset::NAME),
    })
}

/// The device the caller means: its own criteria, else the environment's, else the most capable kind there is.
pub(super) fn select(devices: Vec<Probed>, select: &Select) -> Result<Probed, Fault> {
    let mut source = "";
    let chosen = if select.is_empty() {
        select_from_environment().inspect(|_| source = " (from TIDEGATE_DEVICE)").unwrap_or_default()
    } else {
        select.clone()
    };
    let rank = |device: &Probed| match device.description.device_type {
        DeviceType::Discrete => 0,
        DeviceType::Integrated => 1,
        DeviceType::Virtual => 2,
        DeviceType::Cpu => 3,
        DeviceType::Other => 4,
    };
    let best = devices
        .iter()
        .filter(|device| chosen.matches(&device.description) && device.description.lacking.is_empty())
        .min_by_key(|device| rank(device));
    if let Some(best) = best {
        return Ok(best.clone());
    }

    let mut message = format!("no Vulkan device is usable as {chosen}{source}; found: ");
    if devices.is_empty() {
        message.push_str("none");
    }
    for (i, device) in devices.iter().enumerate() {
        let device = &device.description;
        let _ = write!(
            message,
            "{}{} {:?} ({:?}, UUID {})",
            if i == 0 { "" } else { ", " },
            device.index,
            device.name,
            device.device_type,
            Uuid(device.uuid)
        );
        if !device.lacking.is_empty() {
            let _ = write!(message, " lacking {}", device.lacking);
        }
    }
    let _ = write!(message, "; {}", loader::drivers_looked_for());
    Err(Fault::new(Code::NoDevice, message))
}

/// Bytes of a heap that the driver says are still to be had.
pub(super) fn heap_budget(instance: &Instance, physical: vk::PhysicalDevice, heap: usize) -> Option<u64> {
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut memory = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    // SAFETY: only called for devices that list the budget extension.
    unsafe { instance.raw.get_physical_device_memory_properties2(physical, &mut memory) };
    let total = *budget.heap_budget.get(heap)?;
    Some(total.saturating_sub(budget.heap_usage[heap]))
}

/// How many devices the loader enumerates.
pub(super) fn count(instance: &Instance) -> Result<u32, Fault> {
    let mut count = 0;
    // SAFETY: the instance is alive; a null list asks for the count alone.
    let result = unsafe {
        (instance.raw.fp_v1_0().enumerate_physical_devices)(instance.raw.handle(), &mut count, std::ptr::null_mut())
    };
    match result {
        vk::Result::SUCCESS => Ok(count),
        result => Err(fault(result, "vkEnumeratePhysicalDevices", "while counting devices")),
    }
}
