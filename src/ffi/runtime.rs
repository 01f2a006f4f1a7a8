//! Where the C API meets Vulkan: the one place that knows which backend is behind a device.

use super::device::{
    TG_DEVICE_ISOLATE_BUFFERS, TG_DEVICE_NO_PUSH_DESCRIPTORS, TG_DEVICE_NO_ROBUSTNESS2, TG_DEVICE_NO_SYNCHRONIZATION2,
    TG_DEVICE_TRUST_SHADERS, TG_DEVICE_VALIDATION, TG_SELECT_INDEX, TG_SELECT_NAME, TG_SELECT_TYPE, TG_SELECT_UUID,
    tg_device_desc,
};
use super::devices;
use super::library::*;
use super::strings;
use super::structs::misuse;
use super::vulkan::tg_vk_handles;
use crate::device::Settings;
use crate::error::Result;
use crate::stream::{Backend, Caught};
use crate::vulkan::{self, BackendInfo, Containment, DeviceDescription, DeviceType, Disabled, Handle, Options, Select};

use std::ffi::c_void;

/// A device as C programs know it.
pub(super) type Device = crate::device::Device<Caught<vulkan::Backend>>;

/// How many devices the system's loader knows.
pub(super) fn device_count() -> Result<u32> {
    devices::opening(|| Ok(vulkan::device_count(None)?))
}

/// One of them.
pub(super) fn describe(index: u32) -> Result<tg_device_info> {
    devices::opening(|| Ok(described(&vulkan::describe(None, index)?)))
}

/// What the descriptor asks of Vulkan.
pub(super) fn options(desc: &tg_device_desc, flags: u64, name: &str) -> Result<Options> {
    let criteria = TG_SELECT_INDEX | TG_SELECT_NAME | TG_SELECT_UUID | TG_SELECT_TYPE;
    if desc.select & !criteria != 0 {
        return Err(misuse(
            "desc.select",
            format_args!("{:#x} has criteria that this version does not know", desc.select),
        ));
    }
    let by = |criterion: u32| desc.select & criterion != 0;
    if by(TG_SELECT_NAME) && name.is_empty() {
        return Err(misuse("desc.name", format_args!("an empty name selects nothing")));
    }
    let device_type = match desc.r#type {
        TG_DEVICE_TYPE_OTHER => DeviceType::Other,
        TG_DEVICE_TYPE_INTEGRATED => DeviceType::Integrated,
        TG_DEVICE_TYPE_DISCRETE => DeviceType::Discrete,
        TG_DEVICE_TYPE_VIRTUAL => DeviceType::Virtual,
        TG_DEVICE_TYPE_CPU => DeviceType::Cpu,
        other => return Err(misuse("desc.type", format_args!("{other} is no type of device"))),
    };
    // SAFETY: the header asks for vkGetInstanceProcAddr cast to tg_proc; casting a function pointer back to its own
    // type is what makes it callable again.
    let get_instance_proc_addr = desc
        .get_instance_proc_addr
        .map(|proc| unsafe { std::mem::transmute::<unsafe extern "C" fn(), vulkan::GetInstanceProcAddr>(proc) });
    let flag = |flag: u64| flags & flag != 0;
    Ok(Options {
        select: Select {
            index: by(TG_SELECT_INDEX).then_some(desc.index),
            name: by(TG_SELECT_NAME).then(|| name.to_owned()),
            uuid: by(TG_SELECT_UUID).then_some(desc.uuid),
            device_type: by(TG_SELECT_TYPE).then_some(device_type),
        },
        validation: flag(TG_DEVICE_VALIDATION),
        debug_labels: flag(TG_DEVICE_VALIDATION),
        disabled: Disabled {
            push_descriptors: flag(TG_DEVICE_NO_PUSH_DESCRIPTORS),
            synchronization2: flag(TG_DEVICE_NO_SYNCHRONIZATION2),
            robustness2: flag(TG_DEVICE_NO_ROBUSTNESS2),
        },
        isolate_buffers: flag(TG_DEVICE_ISOLATE_BUFFERS),
        trust_modules: flag(TG_DEVICE_TRUST_SHADERS),
        get_instance_proc_addr,
        ..Options::default()
    })
}

/// Opens Vulkan and makes a device on it, which takes its serial last.
pub(super) fn create(
    options: Options,
    settings: Settings,
    dispatch: tracing::Dispatch,
) -> Result<impl FnOnce(u32) -> Device> {
    let backend = vulkan::Backend::create(&Options { dispatch: dispatch.clone(), ..options })?;
    Ok(move |serial| Device::new(backend, serial, settings, Some(dispatch)))
}

/// Tells the log what the validation layer had to say during a call, now that no lock is held.
pub(super) fn after_call(device: &Device) {
    device.backend().flush_messages();
}

/// What a device is.
pub(super) fn info(device: &Device) -> tg_device_info {
    let info = device.backend().info();
    let limits = device.backend().limits();
    tg_device_info {
        features: features(info),
        containment: match info.containment {
            Containment::Page => TG_CONTAINMENT_PAGE,
            Containment::OwnBuffers => TG_CONTAINMENT_BUFFER,
            Containment::DescriptorRange => TG_CONTAINMENT_SLICE,
        },
        queues: limits.queues as u32,
        max_groups: limits.max_groups,
        max_push_size: limits.max_push_size,
        max_bindings: limits.max_bindings,
        max_buffer_size: limits.max_buffer_size,
        max_binding_size: limits.max_binding_size,
        binding_alignment: limits.binding_alignment,
        map_alignment: limits.map_alignment[1..].iter().copied().max().unwrap_or(1),
        ..described(&info.description)
    }
}

/// What a device is made of.
pub(super) fn handles(device: &Device) -> tg_vk_handles {
    let handles = device.backend().handles();
    let mut queues = [std::ptr::null_mut(); 4];
    queues.iter_mut().zip(handles.queues()).for_each(|(out, queue)| *out = object(queue));
    tg_vk_handles {
        struct_size: 0,
        instance: object(handles.instance()),
        physical_device: object(handles.physical_device()),
        device: object(handles.device()),
        get_instance_proc_addr: Some(handles.get_instance_proc_addr()),
        api_version: device.backend().info().api_version,
        queue_family: handles.queue_family(),
        queue_count: handles.queues().count() as u32,
        reserved: 0,
        queues,
    }
}

/// A dispatchable object of Vulkan's is a pointer to something of the loader's.
fn object<T: Handle>(handle: T) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(handle.as_raw() as usize)
}

fn features(info: &BackendInfo) -> u64 {
    [
        (info.validation, TG_FEATURE_VALIDATION),
        (info.shader_validator, TG_FEATURE_SHADER_VALIDATOR),
        (info.synchronization2, TG_FEATURE_SYNCHRONIZATION2),
        (info.push_descriptors, TG_FEATURE_PUSH_DESCRIPTORS),
        (info.robustness2, TG_FEATURE_ROBUSTNESS2),
        (info.memory_budget, TG_FEATURE_MEMORY_BUDGET),
        (info.device_fault, TG_FEATURE_DEVICE_FAULT),
        (info.debug_labels, TG_FEATURE_DEBUG_LABELS),
        (info.buffer_addresses, TG_FEATURE_BUFFER_ADDRESSES),
    ]
    .into_iter()
    .filter_map(|(on, feature)| on.then_some(feature))
    .sum()
}

fn described(description: &DeviceDescription) -> tg_device_info {
    let text = |text: &str| {
        let mut array = [0; TG_NAME_CAPACITY];
        let size = strings::fill(&mut array, text);
        (array, size)
    };
    let (name, name_size) = text(&description.name);
    let (driver, driver_size) = text(&description.driver);
    let (lacking, lacking_size) = text(&description.lacking);
    let heaps = |local| description.heaps.iter().filter(|heap| heap.device_local == local).map(|heap| heap.size).sum();
    tg_device_info {
        struct_size: 0,
        index: description.index,
        r#type: match description.device_type {
            DeviceType::Other => TG_DEVICE_TYPE_OTHER,
            DeviceType::Integrated => TG_DEVICE_TYPE_INTEGRATED,
            DeviceType::Discrete => TG_DEVICE_TYPE_DISCRETE,
            DeviceType::Virtual => TG_DEVICE_TYPE_VIRTUAL,
            DeviceType::Cpu => TG_DEVICE_TYPE_CPU,
        },
        vendor_id: description.vendor_id,
        device_id: description.device_id,
        api_version: description.api_version,
        driver_version: description.driver_version,
        uuid: description.uuid,
        name_size,
        name,
        driver_size,
        driver,
        lacking_size,
        lacking,
        local_heap_size: heaps(true),
        other_heap_size: heaps(false),
        features: 0,
        containment: 0,
        queues: 0,
        max_groups: [0; 3],
        max_push_size: 0,
        max_bindings: 0,
        max_buffer_size: 0,
        max_binding_size: 0,
        binding_alignment: 0,
        map_alignment: 0,
    }
}
