//! Kernels: a pipeline, its layout, and how bindings reach it.

use super::device::Gpu;
use super::fault;
use super::memory::Page;
use crate::code::Code;
use crate::error::Fault;
use crate::stream::backend::{Binding, KernelInfo};
use ash::vk;
use smallvec::SmallVec;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kernel serials never repeat, so a descriptor set cached for one is never taken for another's.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

/// Bindings beyond this many allocate while a launch is recorded.
const INLINE_BINDINGS: usize = 16;

/// Bindings with consecutive numbers in one set, each with all its elements: a single write covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) set: u32,
    first_binding: u32,
    first: usize,
    count: usize,
}

/// The shape of a kernel's bindings; one that has several buffers is there as often, one after another.
fn runs(bindings: &[(u32, u32)]) -> SmallVec<[Run; 4]> {
    let mut runs: SmallVec<[Run; 4]> = SmallVec::new();
    let mut before = None;
    for (i, &(set, binding)) in bindings.iter().enumerate() {
        let goes_on = before.is_some_and(|(s, b)| s == set && (b == binding || u64::from(b) + 1 == u64::from(binding)));
        before = Some((set, binding));
        match runs.last_mut() {
            Some(run) if goes_on => run.count += 1,
            _ => runs.push(Run { set, first_binding: binding, first: i, count: 1 }),
        }
    }
    runs
}

/// A compiled kernel.
pub struct Kernel {
    pipeline: vk::Pipeline,
    layout: vk::PipelineLayout,
    /// One for each set number up to the last one used; those between hold nothing.
    set_layouts: SmallVec<[vk::DescriptorSetLayout; 2]>,
    runs: SmallVec<[Run; 4]>,
    binding_count: usize,
    push_size: u32,
    /// The one set whose descriptors are pushed.
    pushed_set: Option<u32>,
    serial: u64,
    gpu: Arc<Gpu>,
}

/// What a kernel is built from once its module is known to be good.
pub(super) struct Build<'a> {
    pub(super) words: &'a [u32],
    pub(super) entry: &'a str,
    pub(super) info: &'a KernelInfo,
    pub(super) constants: &'a [(u32, u32)],
    pub(super) label: &'a str,
}

impl Kernel {
    pub(super) fn create(gpu: &Arc<Gpu>, cache: vk::PipelineCache, build: &Build<'_>) -> Result<Kernel, Fault> {
        let entry = CString::new(build.entry)
            .map_err(|_| Fault::new(Code::InvalidShader, "the entry point's name contains a NUL"))?;
        let numbers: SmallVec<[(u32, u32); INLINE_BINDINGS]> =
            build.info.bindings.iter().map(|binding| (binding.set, binding.binding)).collect();
        let one_set = numbers.first().map(|first| first.0).filter(|set| numbers.iter().all(|n| n.0 == *set));
        let pushed_set =
            one_set.filter(|_| gpu.push.is_some() && numbers.len() <= gpu.probed.max_push_descriptors as usize);
        // Whatever fails below, dropping this destroys what was made.
        let mut kernel = Kernel {
            pipeline: vk::Pipeline::null(),
            layout: vk::PipelineLayout::null(),
            set_layouts: SmallVec::new(),
            runs: runs(&numbers),
            binding_count: numbers.len(),
            push_size: build.info.push_size,
            pushed_set,
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            gpu: Arc::clone(gpu),
        };
        let sets = numbers.iter().map(|n| n.0 + 1).max().unwrap_or(0);
        for set in 0..sets {
            kernel.add_set_layout(set, &numbers)?;
        }
        kernel.make_layout()?;
        kernel.make_pipeline(cache, build, &entry)?;
        Ok(kernel)
    }

    fn add_set_layout(&mut self, set: u32, numbers: &[(u32, u32)]) -> Result<(), Fault> {
        let bindings: SmallVec<[vk::DescriptorSetLayoutBinding<'_>; INLINE_BINDINGS]> = numbers
            .chunk_by(|one, next| one == next)
            .filter(|elements| elements[0].0 == set)
            .map(|elements| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(elements[0].1)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(elements.len() as u32)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let flags = if self.pushed_set == Some(set) {
            vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR
        } else {
            vk::DescriptorSetLayoutCreateFlags::empty()
        };
        let info = vk::DescriptorSetLayoutCreateInfo::default().flags(flags).bindings(&bindings);
        // SAFETY: the device is alive.
        let layout = unsafe { self.gpu.raw.create_descriptor_set_layout(&info, None) }
            .map_err(|result| self.gpu.fault(result, "vkCreateDescriptorSetLayout", format_args!("for set {set}")))?;
        self.set_layouts.push(layout);
        Ok(())
    }

    fn make_layout(&mut self) -> Result<(), Fault> {
        let push = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(self.push_size)];
        let ranges = if self.push_size > 0 { &push[..] } else { &[] };
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&self.set_layouts).push_constant_ranges(ranges);
        // SAFETY: the device and the set layouts are alive.
        self.layout = unsafe { self.gpu.raw.create_pipeline_layout(&info, None) }
            .map_err(|result| self.gpu.fault(result, "vkCreatePipelineLayout", "for a kernel"))?;
        Ok(())
    }

    fn make_pipeline(
        &mut self,
        cache: vk::PipelineCache,
        build: &Build<'_>,
        entry: &std::ffi::CStr,
    ) -> Result<(), Fault> {
        let gpu = &self.gpu;
        let info = vk::ShaderModuleCreateInfo::default().code(build.words);
        // SAFETY: the device is alive; the words were checked to be a module.
        let module = unsafe { gpu.raw.create_shader_module(&info, None) }
            .map_err(|result| gpu.fault(result, "vkCreateShaderModule", "for a kernel"))?;

        let (mut entries, mut values) = (SmallVec::<[_; 8]>::new(), SmallVec::<[u8; 32]>::new());
        let count = build.constants.len();
        let room = entries.try_reserve_exact(count).and_then(|()| values.try_reserve_exact(count.saturating_mul(4)));
        if room.is_err() || u32::try_from(count.saturating_mul(4)).is_err() {
            // SAFETY: made above, and no pipeline uses it.
            unsafe { gpu.raw.destroy_shader_module(module, None) };
            let message = format!("no host memory for the {count} constants that are given");
            return Err(Fault::new(Code::OutOfHostMemory, message));
        }
        for &(id, value) in build.constants {
            let offset = values.len() as u32;
            entries.push(vk::SpecializationMapEntry::default().constant_id(id).offset(offset).size(4));
            values.extend_from_slice(&value.to_ne_bytes());
        }
        let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&values);
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(entry)
            .specialization_info(&specialization);
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout);
        let mut pipeline = vk::Pipeline::null();
        // SAFETY: everything the info names is alive; there is room for the one pipeline.
        let result = unsafe {
            (gpu.raw.fp_v1_0().create_compute_pipelines)(
                gpu.raw.handle(),
                cache,
                1,
                &info,
                std::ptr::null(),
                &mut pipeline,
            )
        };
        // SAFETY: the pipeline keeps what it needs of the module.
        unsafe { gpu.raw.destroy_shader_module(module, None) };
        self.pipeline = pipeline;
        if result != vk::Result::SUCCESS {
            return Err(gpu.fault(result, "vkCreateComputePipelines", "for a kernel"));
        }
        if pipeline == vk::Pipeline::null() {
            return Err(fault::with_code(Code::Driver, result, "vkCreateComputePipelines", "but no pipeline"));
        }
        gpu.name(pipeline, build.label);
        Ok(())
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    pub(super) fn set_layouts(&self) -> &[vk::DescriptorSetLayout] {
        &self.set_layouts
    }

    pub(super) fn pipeline(&self) -> vk::Pipeline {
        self.pipeline
    }

    pub(super) fn layout(&self) -> vk::PipelineLayout {
        self.layout
    }

    pub(super) fn pushed_set(&self) -> Option<u32> {
        self.pushed_set
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Whether a launch passes what the pipeline's layout takes; anything else would be undefined.
    pub(super) fn accepts(&self, bindings: usize, push: usize) -> Result<(), Fault> {
        if bindings == self.binding_count && push == self.push_size as usize {
            return Ok(());
        }
        Err(Fault::new(
            Code::Internal,
            format!(
                "a launch with {bindings} bindings and {push} bytes of push constants for a kernel with {} and {}",
                self.binding_count, self.push_size
            ),
        ))
    }

    /// Calls with one write for each run of bindings; their sets are for the caller to fill in.
    pub(super) fn with_writes(&self, bindings: &[Binding<'_, Page>], then: impl FnOnce(&[vk::WriteDescriptorSet<'_>])) {
        // Pushed one by one: collecting would move the whole array once more, for every launch.
        let mut infos: SmallVec<[vk::DescriptorBufferInfo; INLINE_BINDINGS]> = SmallVec::new();
        for Binding { page, offset, size } in bindings {
            infos.push(vk::DescriptorBufferInfo { buffer: page.buffer(), offset: *offset, range: *size });
        }
        let write = |run: &Run| {
            vk::WriteDescriptorSet::default()
                .dst_binding(run.first_binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(&infos[run.first..run.first + run.count])
        };
        match &self.runs[..] {
            // Almost every kernel numbers its bindings without a gap.
            [run] => then(&[write(run)]),
            runs => then(&runs.iter().map(write).collect::<SmallVec<[vk::WriteDescriptorSet<'_>; 4]>>()),
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let raw = &self.gpu.raw;
        // SAFETY: no unfinished recording uses the kernel; null handles are ignored.
        unsafe { raw.destroy_pipeline(self.pipeline, None) };
        // SAFETY: as above.
        unsafe { raw.destroy_pipeline_layout(self.layout, None) };
        for &layout in &self.set_layouts {
            // SAFETY: as above; sets made with it are never written again.
            unsafe { raw.destroy_descriptor_set_layout(layout, None) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_bindings_of_a_set_make_one_run() {
        let run = |set, first_binding, first, count| Run { set, first_binding, first, count };
        assert_eq!(runs(&[])[..], []);
        assert_eq!(runs(&[(0, 0), (0, 1), (0, 2)])[..], [run(0, 0, 0, 3)]);
        assert_eq!(runs(&[(0, 1), (0, 3), (0, 4), (2, 5)])[..], [run(0, 1, 0, 1), run(0, 3, 1, 2), run(2, 5, 3, 1)]);
        assert_eq!(runs(&[(0, u32::MAX), (1, 0)])[..], [run(0, u32::MAX, 0, 1), run(1, 0, 1, 1)]);
    }

    #[test]
    fn the_elements_of_a_binding_stay_in_one_run() {
        let run = |set, first_binding, first, count| Run { set, first_binding, first, count };
        assert_eq!(runs(&[(0, 0), (0, 1), (0, 1), (0, 1), (0, 2)])[..], [run(0, 0, 0, 5)]);
        assert_eq!(
            runs(&[(0, 1), (0, 1), (0, 3), (1, 3), (1, 3)])[..],
            [run(0, 1, 0, 2), run(0, 3, 2, 1), run(1, 3, 3, 2)]
        );
    }
}
