//! vulkan

pub mod spirv;
