//! Vulkan's own types as its C headers have them. The header names them and takes them from there, so this file is none
//! of those it is made from.

#![allow(non_camel_case_types)]

use std::ffi::c_void;

pub(super) type VkInstance = *mut c_void;
pub(super) type VkPhysicalDevice = *mut c_void;
pub(super) type VkDevice = *mut c_void;
pub(super) type VkQueue = *mut c_void;
/// A number on every platform, so that it can be checked without Vulkan.
pub(super) type VkSemaphore = u64;
pub(super) type PFN_vkGetInstanceProcAddr = Option<crate::vulkan::GetInstanceProcAddr>;
