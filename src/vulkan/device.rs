//! The `VkDevice` and what was switched on for it. Everything made on it holds it, so it goes last.

use super::instance::Instance;
use super::physical::{Probed, ShaderFeatures};
use super::queue::Queue;
use super::{entries, fault};
use crate::error::Fault;
use ash::{ext, khr, vk};
use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::OnceLock;

/// Optional features that the caller keeps off although the device has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disabled {
    /// Bind descriptor sets from a cache.
    pub push_descriptors: bool,
    /// Record barriers and submit the classic way.
    pub synchronization2: bool,
    /// Bound accesses by `robustBufferAccess` alone.
    pub robustness2: bool,
}

/// The two entry points of synchronization2, under whichever name the device has them.
#[derive(Clone, Copy)]
pub(super) struct Synchronization2 {
    pub(super) barrier: vk::PFN_vkCmdPipelineBarrier2,
    pub(super) submit: vk::PFN_vkQueueSubmit2,
}

/// More queues than this buy nothing that slots could use.
const MAX_QUEUES: u32 = 4;

/// A device and its entry points.
pub(super) struct Gpu {
    pub(super) raw: ash::Device,
    pub(super) probed: Probed,
    pub(super) queues: Vec<Queue>,
    pub(super) push: Option<khr::push_descriptor::Device>,
    pub(super) synchronization2: Option<Synchronization2>,
    pub(super) debug: Option<ext::debug_utils::Device>,
    pub(super) robustness2: bool,
    device_fault: Option<ext::device_fault::Device>,
    /// The first answer that said the device is lost.
    loss: OnceLock<Fault>,
    /// Last, because the instance must outlive the device.
    pub(super) instance: Instance,
}

impl Gpu {
    pub(super) fn create(instance: Instance, mut probed: Probed, disabled: Disabled) -> Result<Gpu, Fault> {
        let push = probed.push_descriptor && !disabled.push_descriptors;
        let sync2 = probed.synchronization2 && !disabled.synchronization2;
        let robustness2 = probed.robustness2 && !disabled.robustness2;

        let mut wanted: Vec<&CStr> = Vec::new();
        if push {
            wanted.push(khr::push_descriptor::NAME);
        }
        if robustness2 {
            wanted.push(ext::robustness2::NAME);
        }
        if sync2 && !probed.is_1_3() {
            wanted.push(khr::synchronization2::NAME);
        }
        if probed.memory_budget {
            wanted.push(ext::memory_budget::NAME);
        }
        if probed.device_fault {
            wanted.push(ext::device_fault::NAME);
        }
        if probed.portability_subset {
            wanted.push(khr::portability_subset::NAME);
        }
        let wanted: Vec<*const c_char> = wanted.iter().map(|name| name.as_ptr()).collect();

        let s: &ShaderFeatures = &probed.shader;
        let core = vk::PhysicalDeviceFeatures::default()
            .robust_buffer_access(true)
            .shader_storage_buffer_array_dynamic_indexing(s.buffer_arrays)
            .shader_float64(s.float64)
            .shader_int64(s.int64)
            .shader_int16(s.int16);
        let mut f11 = vk::PhysicalDeviceVulkan11Features::default()
            .storage_buffer16_bit_access(s.storage16)
            .uniform_and_storage_buffer16_bit_access(s.uniform_and_storage16)
            .storage_push_constant16(s.push16)
            .variable_pointers_storage_buffer(s.variable_pointers_storage)
            .variable_pointers(s.variable_pointers);
        let mut f12 = vk::PhysicalDeviceVulkan12Features::default()
            .timeline_semaphore(true)
            .storage_buffer8_bit_access(s.storage8)
            .uniform_and_storage_buffer8_bit_access(s.uniform_and_storage8)
            .storage_push_constant8(s.push8)
            .shader_buffer_int64_atomics(s.buffer_int64_atomics)
            .shader_shared_int64_atomics(s.shared_int64_atomics)
            .shader_float16(s.float16)
            .shader_int8(s.int8)
            .scalar_block_layout(s.scalar_block_layout)
            .buffer_device_address(s.buffer_device_address)
            .shader_storage_buffer_array_non_uniform_indexing(s.buffer_arrays_non_uniform)
            .runtime_descriptor_array(s.runtime_descriptor_array)
            .shader_subgroup_extended_types(s.subgroup_extended_types)
            .vulkan_memory_model(s.memory_model)
            .vulkan_memory_model_device_scope(s.memory_model_device_scope);
        let mut f13 = vk::PhysicalDeviceVulkan13Features::default()
            .synchronization2(sync2)
            .maintenance4(probed.maintenance4)
            .shader_integer_dot_product(s.integer_dot_product)
            .shader_terminate_invocation(s.terminate_invocation)
            .shader_demote_to_helper_invocation(s.demote_to_helper)
            .shader_zero_initialize_workgroup_memory(s.zero_initialize_workgroup);
        let mut f_sync2 = vk::PhysicalDeviceSynchronization2Features::default().synchronization2(true);
        let mut f_robust = vk::PhysicalDeviceRobustness2FeaturesEXT::default().robust_buffer_access2(true);
        let mut f_fault = vk::PhysicalDeviceFaultFeaturesEXT::default().device_fault(true);
        let mut features =
            vk::PhysicalDeviceFeatures2::default().features(core).push_next(&mut f11).push_next(&mut f12);
        if probed.is_1_3() {
            features = features.push_next(&mut f13);
        } else if sync2 {
            features = features.push_next(&mut f_sync2);
        }
        if robustness2 {
            features = features.push_next(&mut f_robust);
        }
        if probed.device_fault {
            features = features.push_next(&mut f_fault);
        }

        let count = probed.family_queues.clamp(1, MAX_QUEUES);
        let priorities = [1.0; MAX_QUEUES as usize];
        let families = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(probed.family)
            .queue_priorities(&priorities[..count as usize])];
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&families)
            .enabled_extension_names(&wanted)
            .push_next(&mut features);
        // SAFETY: everything asked for was probed on this very device, and every pointer outlives the call.
        let raw = unsafe { instance.raw.create_device(probed.physical, &info, None) }.map_err(|result| {
            let code = match fault::code(result) {
                crate::code::Code::Unsupported | crate::code::Code::Driver => crate::code::Code::InitializationFailed,
                code => code,
            };
            let doing = format!("for {:?}", probed.description.name);
            fault::with_code(code, result, "vkCreateDevice", doing)
        })?;

        let get = instance.raw.fp_v1_0().get_device_proc_addr;
        // SAFETY: the device is alive and the name NUL-terminated.
        let has = |name: &CStr| unsafe { get(raw.handle(), name.as_ptr()) }.is_some();
        if let Err(fault) = entries::require(entries::DEVICE, has) {
            match has(c"vkDestroyDevice") {
                // SAFETY: nothing was made on the device.
                true => unsafe { raw.destroy_device(None) },
                // What cannot be destroyed stays, and so does what it needs.
                false => std::mem::forget(instance),
            }
            return Err(fault);
        }
        // An optional feature without its entry points is not used.
        let push = push && entries::are_there(entries::PUSH, has);
        let sync2 = sync2 && entries::are_there(entries::SYNCHRONIZATION2[usize::from(!probed.is_1_3())], has);
        let labels = instance.debug_utils && entries::are_there(entries::LABELS, has);
        probed.device_fault &= entries::are_there(entries::DEVICE_FAULT, has);
        probed.shader.buffer_device_address &= entries::are_there(entries::ADDRESSES, has);

        let queues = (0..count)
            // SAFETY: the device was made with `count` queues of this family.
            .map(|index| Queue::new(unsafe { raw.get_device_queue(probed.family, index) }))
            .collect();
        let synchronization2 = sync2.then(|| {
            if probed.is_1_3() {
                let fp = raw.fp_v1_3();
                Synchronization2 { barrier: fp.cmd_pipeline_barrier2, submit: fp.queue_submit2 }
            } else {
                let loaded = khr::synchronization2::Device::new(&instance.raw, &raw);
                let fp = loaded.fp();
                Synchronization2 { barrier: fp.cmd_pipeline_barrier2_khr, submit: fp.queue_submit2_khr }
            }
        });
        Ok(Gpu {
            push: push.then(|| khr::push_descriptor::Device::new(&instance.raw, &raw)),
            debug: labels.then(|| ext::debug_utils::Device::new(&instance.raw, &raw)),
            device_fault: probed.device_fault.then(|| ext::device_fault::Device::new(&instance.raw, &raw)),
            synchronization2,
            robustness2,
            queues,
            loss: OnceLock::new(),
            probed,
            raw,
            instance,
        })
    }

    /// A fault that a call on this device raised. A loss is noted, with what the driver tells about it, whichever call it
    /// was: there is no other way from an answer of the device's to a fault.
    pub(super) fn fault(&self, result: vk::Result, function: &'static str, doing: impl fmt::Display) -> Fault {
        let fault = fault::fault(result, function, doing);
        if fault.code == crate::code::Code::DeviceLost { self.lost(fault) } else { fault }
    }

    /// The device is lost.
    #[cold]
    pub(super) fn lost(&self, mut fault: Fault) -> Fault {
        if self.loss.get().is_none() {
            if let Some(told) = self.loss_told() {
                fault.message = format!("{}; the driver says: {told}", fault.message).into();
            }
            // Of two that find it out at once, one is the first.
            let _ = self.loss.set(fault.clone());
        }
        fault
    }

    /// The first answer that said the device is lost.
    pub(super) fn loss(&self) -> Option<&Fault> {
        self.loss.get()
    }

    /// For calls whose failure changes nothing: whether it went well. A loss is noted all the same.
    pub(super) fn is_ok(&self, result: vk::Result, function: &'static str) -> bool {
        if result == vk::Result::ERROR_DEVICE_LOST {
            self.fault(result, function, "");
        }
        result == vk::Result::SUCCESS
    }

    /// `Err` for everything but success.
    pub(super) fn check(
        &self,
        result: vk::Result,
        function: &'static str,
        doing: impl FnOnce() -> fmt::Arguments<'static>,
    ) -> Result<(), Fault> {
        if result == vk::Result::SUCCESS { Ok(()) } else { Err(self.fault(result, function, doing())) }
    }

    fn loss_told(&self) -> Option<String> {
        let loaded = self.device_fault.as_ref()?;
        let mut counts = vk::DeviceFaultCountsEXT::default();
        let mut info = vk::DeviceFaultInfoEXT::default();
        let query = loaded.fp().get_device_fault_info_ext;
        // SAFETY: the extension is enabled; a null info asks for the counts alone.
        let result = unsafe { query(self.raw.handle(), &mut counts, std::ptr::null_mut()) };
        if result != vk::Result::SUCCESS {
            return None;
        }
        let addresses = counts.address_info_count;
        // The description is all a person can use; asking for no elements may answer INCOMPLETE, with it filled in.
        let mut none = vk::DeviceFaultCountsEXT::default();
        // SAFETY: with all counts zero the driver writes the description alone.
        let result = unsafe { query(self.raw.handle(), &mut none, &mut info) };
        if result != vk::Result::SUCCESS && result != vk::Result::INCOMPLETE {
            return None;
        }
        let description = info.description_as_c_str().ok()?.to_string_lossy();
        Some(format!("{description} ({addresses} faulting addresses)"))
    }

    /// Gives an object a name that debug tools and validation messages show.
    pub(super) fn name<T: vk::Handle>(&self, object: T, name: &str) {
        if let Some(debug) = &self.debug {
            let name = terminated(name);
            let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(c_str(&name));
            // A missing name is no reason to fail.
            // SAFETY: the object is alive and used by no other thread yet.
            if let Err(result) = unsafe { debug.set_debug_utils_object_name(&info) } {
                self.is_ok(result, "vkSetDebugUtilsObjectNameEXT");
            }
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: whatever was made on the device holds this `Gpu`, so all of it is gone; the instance still lives.
        unsafe { self.raw.destroy_device(None) };
    }
}

/// Names are cut at this many bytes (R15); one more for the NUL.
pub(super) type Label = arrayvec::ArrayVec<u8, 129>;

/// A label for Vulkan, without allocating: cut at 128 bytes or at its first NUL.
pub(super) fn terminated(label: &str) -> Label {
    let mut end = label.len().min(128);
    while !label.is_char_boundary(end) {
        end -= 1;
    }
    let bytes = &label.as_bytes()[..end];
    let mut text: Label = bytes.iter().copied().take_while(|&byte| byte != 0).collect();
    text.push(0);
    text
}

/// What [`terminated`] made, as Vulkan takes it.
pub(super) fn c_str(label: &Label) -> &CStr {
    CStr::from_bytes_until_nul(label).unwrap_or(c"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_cut_between_characters_and_at_nul() {
        assert_eq!(c_str(&terminated("blur")), c"blur");
        assert_eq!(c_str(&terminated("")), c"");
        assert_eq!(c_str(&terminated("a\0b")), c"a");
        let long = "é".repeat(100);
        assert_eq!(c_str(&terminated(&long)).to_bytes().len(), 128);
        let odd = format!("x{long}");
        assert_eq!(c_str(&terminated(&odd)).to_bytes().len(), 127);
    }
}
