//! What can be asked before there is a device.

use super::boundary::{call, value};
use super::results::tg_result;
use super::runtime;
use super::strings::{Lent, lend, tg_str};
use super::structs::{Info, Out, versioned};
use crate::code::Code;
use std::ffi::c_char;
use std::sync::LazyLock;

/// The major version of this header. Below 1, a minor version may change the ABI (and then the soname).
pub const TG_VERSION_MAJOR: u32 = 0;
/// The minor version of this header.
pub const TG_VERSION_MINOR: u32 = 1;
/// The patch version of this header.
pub const TG_VERSION_PATCH: u32 = 0;

/// A device that is none of the others.
pub const TG_DEVICE_TYPE_OTHER: u32 = 0;
/// A device that shares memory with the host.
pub const TG_DEVICE_TYPE_INTEGRATED: u32 = 1;
/// A device with memory of its own.
pub const TG_DEVICE_TYPE_DISCRETE: u32 = 2;
/// A part of a device, handed to a virtual machine.
pub const TG_DEVICE_TYPE_VIRTUAL: u32 = 3;
/// Software that runs on the host.
pub const TG_DEVICE_TYPE_CPU: u32 = 4;

/// Bytes of the names in tg_device_info, the NUL included.
pub const TG_NAME_CAPACITY: usize = 256;

/// A kernel that runs past its slice may reach other buffers in the same page, as robustBufferAccess allows.
pub const TG_CONTAINMENT_PAGE: u32 = 1;
/// A kernel that runs past its slice stays inside its buffer (TG_DEVICE_ISOLATE_BUFFERS).
pub const TG_CONTAINMENT_BUFFER: u32 = 2;
/// A kernel that runs past its slice reaches nothing beyond it, rounded up to 4 bytes (robustBufferAccess2).
pub const TG_CONTAINMENT_SLICE: u32 = 3;

/// The validation layer is on.
pub const TG_FEATURE_VALIDATION: u64 = 1 << 0;
/// Shaders are validated before the driver sees them: this build has SPIRV-Tools.
pub const TG_FEATURE_SHADER_VALIDATOR: u64 = 1 << 1;
/// VK_KHR_synchronization2 is used.
pub const TG_FEATURE_SYNCHRONIZATION2: u64 = 1 << 2;
/// VK_KHR_push_descriptor is used.
pub const TG_FEATURE_PUSH_DESCRIPTORS: u64 = 1 << 3;
/// VK_EXT_robustness2 is used.
pub const TG_FEATURE_ROBUSTNESS2: u64 = 1 << 4;
/// VK_EXT_memory_budget is used.
pub const TG_FEATURE_MEMORY_BUDGET: u64 = 1 << 5;
/// VK_EXT_device_fault is used.
pub const TG_FEATURE_DEVICE_FAULT: u64 = 1 << 6;
/// Labels of launches show in debug tools (VK_EXT_debug_utils).
pub const TG_FEATURE_DEBUG_LABELS: u64 = 1 << 7;
/// Buffers have addresses (bufferDeviceAddress): tg_buffer_info::address tells them, and kernels with
/// TG_KERNEL_DECLARES_USES may reach memory by them.
pub const TG_FEATURE_BUFFER_ADDRESSES: u64 = 1 << 8;

/// What a device is. From tg_device_describe, the members from `features` on are 0: they depend on the descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_device_info {
    /// sizeof(tg_device_info).
    pub struct_size: usize,
    /// The index tg_device_describe takes.
    pub index: u32,
    /// One of TG_DEVICE_TYPE_*.
    pub r#type: u32,
    /// PCI or Khronos vendor id.
    pub vendor_id: u32,
    /// The vendor's id for the device.
    pub device_id: u32,
    /// The Vulkan version of the device: major * 2^22 + minor * 2^12 + patch.
    pub api_version: u32,
    /// The driver's version, encoded as the vendor likes.
    pub driver_version: u32,
    /// VkPhysicalDeviceIDProperties::deviceUUID.
    pub uuid: [u8; 16],
    /// Bytes of `name`, the NUL not counted.
    pub name_size: usize,
    /// The name the driver gives the device.
    pub name: [c_char; TG_NAME_CAPACITY],
    /// Bytes of `driver`, the NUL not counted.
    pub driver_size: usize,
    /// The driver's name and version for a person, where it gives them.
    pub driver: [c_char; TG_NAME_CAPACITY],
    /// Bytes of `lacking`, the NUL not counted; 0: tg_device_create can use the device.
    pub lacking_size: usize,
    /// What the device lacks, for a person.
    pub lacking: [c_char; TG_NAME_CAPACITY],
    /// Bytes of memory that only the device sees fast, all heaps together.
    pub local_heap_size: u64,
    /// Bytes of all other heaps together.
    pub other_heap_size: u64,
    /// TG_FEATURE_* added together.
    pub features: u64,
    /// One of TG_CONTAINMENT_*: what a kernel that runs past its slice can spoil. It says nothing of kernels with
    /// TG_KERNEL_DECLARES_USES, nor of memory that is not bound. Shared memory of a work group and arrays of an
    /// invocation are outside containment: an index past their end may spoil memory of the process or end it. Kernels
    /// that index them by data must check the index. If the index and the length are constants of the module, and no
    /// specialization constants, tg_kernel_create refuses an index past the end (not for TG_KERNEL_TRUSTED).
    pub containment: u32,
    /// Queues that the slots are spread over.
    pub queues: u32,
    /// The largest number of work groups in each direction (maxComputeWorkGroupCount).
    pub max_groups: [u32; 3],
    /// Bytes of push constants a kernel may have (maxPushConstantsSize).
    pub max_push_size: u32,
    /// Bindings a kernel may have (maxPerStageDescriptorStorageBuffers, and what else bounds it).
    pub max_bindings: u32,
    /// Bytes of the largest buffer; a larger one is TG_ERROR_OUT_OF_DEVICE_MEMORY without asking the driver.
    pub max_buffer_size: u64,
    /// Bytes of the largest slice that can be bound to a kernel (maxStorageBufferRange).
    pub max_binding_size: u64,
    /// The offset of a bound slice must be a multiple of it; a power of two (minStorageBufferOffsetAlignment).
    pub binding_alignment: u64,
    /// Slices that are mapped to be written begin and end at multiples of this: 1 where all memory the host sees is
    /// coherent. Known once the device is made; else 0.
    pub map_alignment: u64,
}

versioned!(tg_device_info to index);

/// Tells the version of the library that is loaded.
///
/// Compare it with TG_VERSION, the version of the header the program was compiled with; TG_MAKE_VERSION orders
/// versions.
///
/// \returns major * 2^22 + minor * 2^12 + patch.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub extern "C" fn tg_version() -> u32 {
    value("tg_version", 0, || TG_VERSION_MAJOR << 22 | TG_VERSION_MINOR << 12 | TG_VERSION_PATCH)
}

/// Tells the name of a result, as this header spells it.
///
/// \param result Any number.
/// \returns The name, static; "unknown result" for a number this version does not know.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub extern "C" fn tg_result_name(result: tg_result) -> tg_str {
    value("tg_result_name", lend("unknown result\0"), || {
        let known = NAMES.iter().find(|(number, _)| *number == result);
        known.map_or(lend("unknown result\0"), |(_, name)| name.borrow())
    })
}

/// The names of the table, each with a NUL to lend it with.
static NAMES: LazyLock<Vec<(tg_result, Lent)>> =
    LazyLock::new(|| Code::ALL.iter().map(|code| (*code as tg_result, Lent::new(code.name()))).collect());

/// Counts the Vulkan devices of the system, usable or not.
///
/// Opens the system's Vulkan loader for the time of the call. tg_device_info::lacking says why a device cannot be used:
/// Vulkan 1.2, a compute queue, timeline semaphores and robustBufferAccess are needed.
///
/// \param out The count; 0 when there is a loader but no device. Written on TG_OK only.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT when out is NULL; TG_ERROR_INITIALIZATION_FAILED when there is no
///          loader or it has no usable instance (the report says what was looked for);
///          TG_ERROR_OUT_OF_HOST_MEMORY.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_device_count(out: *mut u32) -> tg_result {
    call("tg_device_count", || {
        // SAFETY: the header asks for NULL or a writable uint32_t.
        let out = unsafe { Out::new(out, "out") }?;
        out.set(runtime::device_count()?);
        Ok(())
    })
}

/// Describes one of the devices that tg_device_count counted, without creating it.
///
/// The order is that of the loader and stays the same while the process sees the same devices; the index is what
/// TG_SELECT_INDEX takes.
///
/// \param index Which, from 0 to the count less 1.
/// \param out Filled on TG_OK, up to its struct_size. Members that only a created device has are 0.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT when out is NULL or its struct_size is not one; TG_ERROR_NO_DEVICE when
///          there is no device of that index; otherwise as tg_device_count.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_device_describe(index: u32, out: *mut tg_device_info) -> tg_result {
    call("tg_device_describe", || {
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let out = unsafe { Info::new(out, "out") }?;
        out.fill(runtime::describe(index)?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_name() {
        let text = |name: tg_str| {
            // SAFETY: names are static and sized.
            let bytes = unsafe { std::slice::from_raw_parts(name.data.cast::<u8>(), name.size + 1) };
            std::str::from_utf8(bytes).expect("names are ASCII").to_owned()
        };
        for code in Code::ALL {
            assert_eq!(text(tg_result_name(*code as tg_result)), format!("{}\0", code.name()));
        }
        assert_eq!(text(tg_result_name(-99)), "unknown result\0");
    }

    #[test]
    fn the_version_is_that_of_the_package() {
        let version = tg_version();
        let parts = [version >> 22, version >> 12 & 0x3FF, version & 0xFFF].map(|part| part.to_string());
        let package =
            [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")];
        assert_eq!(parts, package);
    }
}
