//! Finds Vulkan at run time, so that a program using the library starts on machines without it.

use super::entries;
use crate::code::Code;
use crate::error::Fault;
use ash::vk;
use std::ffi::CStr;

/// The name the loader library goes by on this platform; only for messages, `ash` opens it.
const LIBRARY: &str = if cfg!(target_os = "windows") {
    "vulkan-1.dll"
} else if cfg!(target_vendor = "apple") {
    "libvulkan.dylib"
} else if cfg!(target_os = "android") {
    "libvulkan.so"
} else {
    "libvulkan.so.1"
};

/// Opens the loader, or takes the caller's own entry point in its place.
pub(super) fn open(get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>) -> Result<ash::Entry, Fault> {
    let entry = match get_instance_proc_addr {
        // SAFETY: the caller vouches that its function behaves as `vkGetInstanceProcAddr`.
        Some(get_instance_proc_addr) => unsafe { ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr }) },
        // SAFETY: opening the platform's Vulkan loader runs its initializers, which are made for that.
        None => unsafe { ash::Entry::load() }.map_err(|error| {
            Fault::new(
                Code::InitializationFailed,
                format!("the Vulkan loader {LIBRARY} could not be opened: {error}; {}", drivers_looked_for()),
            )
        })?,
    };
    entries::require(entries::GLOBAL, |name| has(&entry, vk::Instance::null(), name))?;
    Ok(entry)
}

/// Whether there is an entry point of an instance, or without one.
pub(super) fn has(entry: &ash::Entry, instance: vk::Instance, name: &CStr) -> bool {
    // SAFETY: the instance is null or alive, and the name NUL-terminated.
    unsafe { entry.get_instance_proc_addr(instance, name.as_ptr()) }.is_some()
}

/// Which drivers the loader was told to use, for messages that say what was looked for.
pub(super) fn drivers_looked_for() -> String {
    let mut text = String::from("drivers: ");
    let mut any = false;
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"] {
        if let Some(value) = std::env::var_os(name) {
            if any {
                text.push_str(", ");
            }
            text.push_str(&format!("{name}={}", value.to_string_lossy()));
            any = true;
        }
    }
    if !any {
        text.push_str("those installed (neither VK_DRIVER_FILES nor VK_ICD_FILENAMES is set)");
    }
    text
}
