//! The pipeline cache all kernels of a device share.

use super::device::Gpu;
use super::kernel::{Build, Kernel};
use crate::error::Fault;
use ash::vk;
use std::sync::Arc;

/// Builds kernels through one cache. Vulkan synchronizes the cache itself.
pub(super) struct Pipelines {
    cache: vk::PipelineCache,
    gpu: Arc<Gpu>,
}

impl Pipelines {
    /// Without a cache kernels compile all the same, so a failure to make one is none.
    pub(super) fn create(gpu: Arc<Gpu>) -> Pipelines {
        let info = vk::PipelineCacheCreateInfo::default();
        // SAFETY: the device is alive.
        let cache = unsafe { gpu.raw.create_pipeline_cache(&info, None) };
        if let Err(result) = cache {
            gpu.is_ok(result, "vkCreatePipelineCache");
        }
        let cache = cache.unwrap_or_default();
        Pipelines { cache, gpu }
    }

    pub(super) fn build(&self, build: &Build<'_>) -> Result<Kernel, Fault> {
        Kernel::create(&self.gpu, self.cache, build)
    }
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        // SAFETY: nothing is being built; a null cache is ignored.
        unsafe { self.gpu.raw.destroy_pipeline_cache(self.cache, None) };
    }
}
