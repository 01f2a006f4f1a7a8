//! The entry points that the library cannot do without. A call of one that a loader or layer lacks would end the
//! process, so each is looked for as soon as there is something to ask.

use crate::code::Code;
use crate::error::Fault;
use std::ffi::CStr;

/// Before there is an instance.
pub(super) const GLOBAL: &[&CStr] =
    &[c"vkCreateInstance", c"vkEnumerateInstanceVersion", c"vkEnumerateInstanceExtensionProperties"];

/// Of an instance that validates.
pub(super) const LAYERS: &[&CStr] = &[c"vkEnumerateInstanceLayerProperties"];

/// Of an instance.
pub(super) const INSTANCE: &[&CStr] = &[
    c"vkDestroyInstance",
    c"vkEnumeratePhysicalDevices",
    c"vkEnumerateDeviceExtensionProperties",
    c"vkGetPhysicalDeviceProperties",
    c"vkGetPhysicalDeviceProperties2",
    c"vkGetPhysicalDeviceFeatures",
    c"vkGetPhysicalDeviceFeatures2",
    c"vkGetPhysicalDeviceQueueFamilyProperties",
    c"vkGetPhysicalDeviceMemoryProperties",
    c"vkGetPhysicalDeviceMemoryProperties2",
    c"vkCreateDevice",
    c"vkGetDeviceProcAddr",
];

/// Of a device.
pub(super) const DEVICE: &[&CStr] = &[
    c"vkDestroyDevice",
    c"vkGetDeviceQueue",
    c"vkQueueSubmit",
    c"vkQueueWaitIdle",
    c"vkDeviceWaitIdle",
    c"vkCreateSemaphore",
    c"vkDestroySemaphore",
    c"vkGetSemaphoreCounterValue",
    c"vkWaitSemaphores",
    c"vkAllocateMemory",
    c"vkFreeMemory",
    c"vkMapMemory",
    c"vkUnmapMemory",
    c"vkFlushMappedMemoryRanges",
    c"vkInvalidateMappedMemoryRanges",
    c"vkCreateBuffer",
    c"vkDestroyBuffer",
    c"vkGetBufferMemoryRequirements",
    c"vkBindBufferMemory",
    c"vkCreateShaderModule",
    c"vkDestroyShaderModule",
    c"vkCreatePipelineCache",
    c"vkDestroyPipelineCache",
    c"vkCreatePipelineLayout",
    c"vkDestroyPipelineLayout",
    c"vkCreateComputePipelines",
    c"vkDestroyPipeline",
    c"vkCreateDescriptorSetLayout",
    c"vkDestroyDescriptorSetLayout",
    c"vkCreateDescriptorPool",
    c"vkResetDescriptorPool",
    c"vkDestroyDescriptorPool",
    c"vkAllocateDescriptorSets",
    c"vkUpdateDescriptorSets",
    c"vkCreateCommandPool",
    c"vkResetCommandPool",
    c"vkDestroyCommandPool",
    c"vkAllocateCommandBuffers",
    c"vkBeginCommandBuffer",
    c"vkEndCommandBuffer",
    c"vkCmdBindPipeline",
    c"vkCmdBindDescriptorSets",
    c"vkCmdPushConstants",
    c"vkCmdDispatch",
    c"vkCmdDispatchIndirect",
    c"vkCmdCopyBuffer",
    c"vkCmdFillBuffer",
    c"vkCmdPipelineBarrier",
];

/// What messages need.
pub(super) const MESSENGER: &[&CStr] = &[c"vkCreateDebugUtilsMessengerEXT", c"vkDestroyDebugUtilsMessengerEXT"];
/// What labels need.
pub(super) const LABELS: &[&CStr] =
    &[c"vkSetDebugUtilsObjectNameEXT", c"vkCmdBeginDebugUtilsLabelEXT", c"vkCmdEndDebugUtilsLabelEXT"];
/// What push descriptors need.
pub(super) const PUSH: &[&CStr] = &[c"vkCmdPushDescriptorSetKHR"];
/// What synchronization2 needs, in core and as an extension.
pub(super) const SYNCHRONIZATION2: [&[&CStr]; 2] =
    [&[c"vkCmdPipelineBarrier2", c"vkQueueSubmit2"], &[c"vkCmdPipelineBarrier2KHR", c"vkQueueSubmit2KHR"]];
/// What addresses of buffers need.
pub(super) const ADDRESSES: &[&CStr] = &[c"vkGetBufferDeviceAddress"];
/// What the driver tells of a loss needs.
pub(super) const DEVICE_FAULT: &[&CStr] = &[c"vkGetDeviceFaultInfoEXT"];

/// All of these are there, or which one is not.
pub(super) fn require(names: &[&'static CStr], has: impl Fn(&CStr) -> bool) -> Result<(), Fault> {
    match names.iter().find(|name| !has(name)) {
        None => Ok(()),
        Some(name) => {
            let name = name.to_str().unwrap_or_default();
            Err(Fault {
                vk_function: name,
                ..Fault::new(Code::InitializationFailed, format!("the Vulkan loader, driver or a layer has no {name}"))
            })
        }
    }
}

/// Whether all of these are there.
pub(super) fn are_there(names: &[&CStr], has: impl Fn(&CStr) -> bool) -> bool {
    names.iter().all(|name| has(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_missing_is_named() {
        assert_eq!(require(DEVICE, |_| true), Ok(()));
        let fault = require(DEVICE, |name| name != c"vkCmdDispatch").expect_err("one is missing");
        assert_eq!((fault.code, fault.vk_function), (Code::InitializationFailed, "vkCmdDispatch"));
    }

    /// `cmd_dispatch` as Vulkan spells it.
    fn spelt(method: &str) -> String {
        let words = method.split('_').map(|word| word[..1].to_ascii_uppercase() + &word[1..]);
        format!("vk{}", words.collect::<String>())
    }

    #[test]
    fn every_entry_point_that_is_called_is_looked_for() {
        let optional = [LAYERS, MESSENGER, LABELS, PUSH, SYNCHRONIZATION2[0], SYNCHRONIZATION2[1], ADDRESSES];
        let listed: Vec<&str> = [GLOBAL, INSTANCE, DEVICE, DEVICE_FAULT]
            .into_iter()
            .chain(optional)
            .flatten()
            .map(|name| name.to_str().expect("ASCII"))
            .collect();
        let folder =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/vulkan")).expect("the sources are there");
        let mut called = 0;
        for file in folder {
            let path = file.expect("a file").path();
            if path.is_dir() || path.ends_with("fault_tests.rs") {
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("text");
            for at in ["raw.", "fp.", "fp_v1_0().", "fp_v1_1().", "fp_v1_2().", "fp_v1_3()."] {
                for (found, _) in source.match_indices(at) {
                    let rest = &source[found + at.len()..];
                    let method: String = rest
                        .chars()
                        .take_while(|c| c.is_ascii_lowercase() || *c == '_' || c.is_ascii_digit())
                        .collect();
                    // A call, or a function that is called through the table.
                    let is_call = rest[method.len()..].starts_with('(') || rest[method.len()..].starts_with(")(");
                    let own =
                        ["handle", "fp_v", "clone", "wrapping", "is_", "to_"].iter().any(|own| method.starts_with(own));
                    if is_call && !own && method.contains('_') {
                        called += 1;
                        let name = spelt(&method);
                        assert!(listed.contains(&name.as_str()), "{} calls {name}", path.display());
                    }
                }
            }
        }
        assert!(called > 40, "{called} calls were found");
    }
}
