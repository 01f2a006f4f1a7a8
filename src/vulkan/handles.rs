//! The Vulkan objects behind a device, for callers that work with Vulkan themselves.

use super::GetInstanceProcAddr;
use super::device::Gpu;
use ash::vk;

/// What a device is made of.
#[derive(Clone, Copy)]
pub struct Handles<'a> {
    gpu: &'a Gpu,
}

impl<'a> Handles<'a> {
    pub(super) fn of(gpu: &'a Gpu) -> Handles<'a> {
        Handles { gpu }
    }

    /// The instance.
    pub fn instance(self) -> vk::Instance {
        self.gpu.instance.raw.handle()
    }

    /// The physical device.
    pub fn physical_device(self) -> vk::PhysicalDevice {
        self.gpu.probed.physical
    }

    /// The device.
    pub fn device(self) -> vk::Device {
        self.gpu.raw.handle()
    }

    /// The family its queues are of.
    pub fn queue_family(self) -> u32 {
        self.gpu.probed.family
    }

    /// The queues in use, by their number in the family.
    pub fn queues(self) -> impl Iterator<Item = vk::Queue> + 'a {
        self.gpu.queues.iter().map(|queue| queue.raw())
    }

    /// Where every function comes from.
    pub fn get_instance_proc_addr(self) -> GetInstanceProcAddr {
        self.gpu.instance.get_instance_proc_addr()
    }
}
