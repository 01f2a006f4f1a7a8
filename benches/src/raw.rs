//! The baseline: what a program that knows its work in advance writes against Vulkan by hand, as fast as we know how.
//!
//! One command buffer for many launches, the pipeline bound once, `vkCmdPipelineBarrier2`, a timeline semaphore, and
//! descriptors pushed or made beforehand, whichever this driver does faster.

use crate::table::nanoseconds_each;
use ash::{khr, vk};
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};

/// What both sides run: `to[i] = from[i] + 1`, one group of 64.
pub(crate) static INCREMENT: &[u8] = include_bytes!("../shaders/increment.spv");
/// Bytes of the buffers that one group reads and writes.
pub(crate) const CELL: u64 = 256;

/// A buffer with memory of its own.
pub(crate) struct Buffer {
    pub(crate) raw: vk::Buffer,
    memory: Allocation,
}

impl Buffer {
    /// Where the host sees it.
    pub(crate) fn mapped(&self) -> *mut u8 {
        self.memory.mapped_ptr().expect("the buffer was made host-visible").as_ptr().cast()
    }
}

/// How descriptors reach the command buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bind {
    Pushed,
    Made,
}

/// The bindings of launches, taken in turn: for each a pair of slices, and a descriptor set that holds it.
pub(crate) struct Launches {
    pairs: Vec<[vk::DescriptorBufferInfo; 2]>,
    sets: Vec<vk::DescriptorSet>,
}

pub(crate) struct Raw {
    _entry: ash::Entry,
    _instance: ash::Instance,
    pub(crate) device: ash::Device,
    pub(crate) queue: vk::Queue,
    push: Option<khr::push_descriptor::Device>,
    allocator: Allocator,
    timeline: vk::Semaphore,
    signalled: u64,
    set_layout: vk::DescriptorSetLayout,
    made: (vk::Pipeline, vk::PipelineLayout),
    pushed: (vk::Pipeline, vk::PipelineLayout),
    /// One for each launch that is submitted by itself.
    pub(crate) commands: Vec<vk::CommandBuffer>,
}

// Whatever is made here lives until the process ends.
impl Raw {
    pub(crate) fn new(command_buffers: u32) -> Raw {
        // SAFETY: plain Vulkan by its specification; nothing made here is destroyed.
        unsafe {
            let entry = ash::Entry::load().expect("a Vulkan loader");
            let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
            let info = vk::InstanceCreateInfo::default().application_info(&application);
            let instance = entry.create_instance(&info, None).expect("an instance");
            let physical = instance.enumerate_physical_devices().expect("devices")[0];
            let extensions = instance.enumerate_device_extension_properties(physical).expect("extensions");
            let can_push = extensions.iter().any(|one| one.extension_name_as_c_str() == Ok(khr::push_descriptor::NAME));
            let names = if can_push { vec![khr::push_descriptor::NAME.as_ptr()] } else { vec![] };
            let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
            let mut features_12 = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
            let mut features_13 = vk::PhysicalDeviceVulkan13Features::default().synchronization2(true);
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&names)
                .push_next(&mut features_12)
                .push_next(&mut features_13);
            let device = instance.create_device(physical, &info, None).expect("a device");
            let queue = device.get_device_queue(0, 0);
            let push = can_push.then(|| khr::push_descriptor::Device::new(&instance, &device));
            let allocator = Allocator::new(&AllocatorCreateDesc {
                instance: instance.clone(),
                device: device.clone(),
                physical_device: physical,
                debug_settings: Default::default(),
                buffer_device_address: false,
                allocation_sizes: Default::default(),
            })
            .expect("an allocator");
            let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
            let timeline = device.create_semaphore(&info, None).expect("a timeline");

            let bindings = [0, 1].map(|binding| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding)
                    .descriptor_count(1)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            });
            let layout = |flags| {
                let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings).flags(flags);
                device.create_descriptor_set_layout(&info, None).expect("a set layout")
            };
            let set_layout = layout(vk::DescriptorSetLayoutCreateFlags::empty());
            let code = ash::util::read_spv(&mut std::io::Cursor::new(INCREMENT)).expect("words");
            let info = vk::ShaderModuleCreateInfo::default().code(&code);
            let module = device.create_shader_module(&info, None).expect("a module");
            let pipeline = |set_layout| {
                let set_layouts = [set_layout];
                let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&set_layouts);
                let layout = device.create_pipeline_layout(&info, None).expect("a layout");
                let stage = vk::PipelineShaderStageCreateInfo::default()
                    .stage(vk::ShaderStageFlags::COMPUTE)
                    .module(module)
                    .name(c"main");
                let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
                let made = device.create_compute_pipelines(vk::PipelineCache::null(), &info, None);
                (made.expect("a pipeline")[0], layout)
            };
            let made = pipeline(set_layout);
            let pushed = match can_push {
                true => pipeline(layout(vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR)),
                false => made,
            };

            let info = vk::CommandPoolCreateInfo::default()
                .queue_family_index(0)
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
            let pool = device.create_command_pool(&info, None).expect("a pool");
            let info =
                vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(command_buffers);
            let commands = device.allocate_command_buffers(&info).expect("command buffers");
            Raw {
                _entry: entry,
                _instance: instance,
                device,
                queue,
                push,
                allocator,
                timeline,
                signalled: 0,
                set_layout,
                made,
                pushed,
                commands,
            }
        }
    }

    pub(crate) fn buffer(&mut self, size: u64, location: MemoryLocation) -> Buffer {
        use vk::BufferUsageFlags as Usage;
        let usage = Usage::STORAGE_BUFFER | Usage::TRANSFER_SRC | Usage::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        // SAFETY: the device is alive; the memory is as the buffer asks.
        unsafe {
            let raw = self.device.create_buffer(&info, None).expect("a buffer");
            let requirements = self.device.get_buffer_memory_requirements(raw);
            let memory = self
                .allocator
                .allocate(&AllocationCreateDesc {
                    name: "",
                    requirements,
                    location,
                    linear: true,
                    allocation_scheme: AllocationScheme::GpuAllocatorManaged,
                })
                .expect("memory");
            self.device.bind_buffer_memory(raw, memory.memory(), memory.offset()).expect("bound");
            Buffer { raw, memory }
        }
    }

    pub(crate) fn free(&mut self, buffer: Buffer) {
        // SAFETY: callers wait for whatever uses it.
        unsafe { self.device.destroy_buffer(buffer.raw, None) };
        self.allocator.free(buffer.memory).expect("freed");
    }

    /// Descriptors for launches that read one slice and write another.
    pub(crate) fn launches(&self, pairs: &[[(vk::Buffer, u64); 2]]) -> Launches {
        let pairs: Vec<[vk::DescriptorBufferInfo; 2]> = pairs
            .iter()
            .map(|pair| pair.map(|(buffer, offset)| vk::DescriptorBufferInfo { buffer, offset, range: CELL }))
            .collect();
        let count = pairs.len() as u32;
        let sizes = [vk::DescriptorPoolSize { ty: vk::DescriptorType::STORAGE_BUFFER, descriptor_count: 2 * count }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(count).pool_sizes(&sizes);
        // SAFETY: the device and the layout are alive; the sets are used by nothing yet.
        unsafe {
            let pool = self.device.create_descriptor_pool(&info, None).expect("a pool");
            let layouts = vec![self.set_layout; pairs.len()];
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
            let sets = self.device.allocate_descriptor_sets(&info).expect("sets");
            for (set, pair) in sets.iter().zip(&pairs) {
                self.device.update_descriptor_sets(&writes(*set, pair), &[]);
            }
            Launches { pairs, sets }
        }
    }

    /// Opens a command buffer that nothing uses any more.
    pub(crate) fn begin(&self, commands: vk::CommandBuffer) {
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: callers wait for its last use.
        unsafe {
            self.device.reset_command_buffer(commands, vk::CommandBufferResetFlags::empty()).expect("reset");
            self.device.begin_command_buffer(commands, &info).expect("begun");
        }
    }

    pub(crate) fn end(&self, commands: vk::CommandBuffer) {
        // SAFETY: it is being recorded.
        unsafe { self.device.end_command_buffer(commands) }.expect("ended");
    }

    /// Records launches, with a barrier after each if they depend on each other.
    pub(crate) fn record(
        &self,
        commands: vk::CommandBuffer,
        launches: &Launches,
        count: usize,
        bind: Bind,
        barriers: bool,
    ) {
        let barrier = [vk::MemoryBarrier2::default()
            .src_stage_mask(vk::PipelineStageFlags2::COMPUTE_SHADER)
            .src_access_mask(vk::AccessFlags2::SHADER_WRITE)
            .dst_stage_mask(vk::PipelineStageFlags2::COMPUTE_SHADER)
            .dst_access_mask(vk::AccessFlags2::SHADER_READ | vk::AccessFlags2::SHADER_WRITE)];
        let barrier = vk::DependencyInfo::default().memory_barriers(&barrier);
        let (pipeline, layout) = if bind == Bind::Pushed { self.pushed } else { self.made };
        let mut at = 0;
        // SAFETY: the command buffer is being recorded; everything bound is alive and fits the layout.
        unsafe {
            self.device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline);
            for _ in 0..count {
                match (bind, &self.push) {
                    (Bind::Pushed, Some(push)) => push.cmd_push_descriptor_set(
                        commands,
                        vk::PipelineBindPoint::COMPUTE,
                        layout,
                        0,
                        &writes(vk::DescriptorSet::null(), &launches.pairs[at]),
                    ),
                    _ => self.device.cmd_bind_descriptor_sets(
                        commands,
                        vk::PipelineBindPoint::COMPUTE,
                        layout,
                        0,
                        &launches.sets[at..=at],
                        &[],
                    ),
                }
                at = if at + 1 == launches.pairs.len() { 0 } else { at + 1 };
                self.device.cmd_dispatch(commands, 1, 1, 1);
                if barriers {
                    self.device.cmd_pipeline_barrier2(commands, &barrier);
                }
            }
        }
    }

    pub(crate) fn copy(&self, commands: vk::CommandBuffer, to: &Buffer, from: &Buffer, size: u64) {
        let region = [vk::BufferCopy { src_offset: 0, dst_offset: 0, size }];
        // SAFETY: the command buffer is being recorded and both buffers are as long.
        unsafe { self.device.cmd_copy_buffer(commands, from.raw, to.raw, &region) };
    }

    /// Submits, and says which value of the timeline stands for it.
    pub(crate) fn submit(&mut self, commands: vk::CommandBuffer) -> u64 {
        self.signalled += 1;
        let (commands, semaphores, values) = ([commands], [self.timeline], [self.signalled]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info = [vk::SubmitInfo::default()
            .command_buffers(&commands)
            .signal_semaphores(&semaphores)
            .push_next(&mut timeline)];
        // SAFETY: the command buffer is closed and used by nothing.
        unsafe { self.device.queue_submit(self.queue, &info, vk::Fence::null()) }.expect("submitted");
        self.signalled
    }

    pub(crate) fn wait(&self, value: u64) {
        let (semaphores, values) = ([self.timeline], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the timeline is alive.
        unsafe { self.device.wait_semaphores(&info, u64::MAX) }.expect("waited");
    }

    /// One command buffer with the launches, from its reset to the end of the wait.
    pub(crate) fn run(&mut self, launches: &Launches, count: usize, bind: Bind, barriers: bool) {
        let commands = self.commands[0];
        self.begin(commands);
        self.record(commands, launches, count, bind, barriers);
        self.end(commands);
        let value = self.submit(commands);
        self.wait(value);
    }

    /// How the library binds on this driver.
    pub(crate) fn pushed_if_possible(&self) -> Bind {
        if self.push.is_some() { Bind::Pushed } else { Bind::Made }
    }

    /// The faster way to bind on this driver, for these launches.
    pub(crate) fn faster(&mut self, launches: &Launches, count: usize, barriers: bool) -> Bind {
        if self.push.is_none() {
            return Bind::Made;
        }
        let mut best = [f64::INFINITY; 2];
        for _ in 0..5 {
            for (best, bind) in best.iter_mut().zip([Bind::Pushed, Bind::Made]) {
                *best = best.min(nanoseconds_each(count, || self.run(launches, count, bind, barriers)));
            }
        }
        let faster = if best[0] < best[1] { Bind::Pushed } else { Bind::Made };
        eprintln!("# baseline: {:.0} ns each with pushed descriptors, {:.0} with sets: {faster:?}", best[0], best[1]);
        faster
    }
}

fn writes(set: vk::DescriptorSet, pair: &[vk::DescriptorBufferInfo; 2]) -> [vk::WriteDescriptorSet<'_>; 2] {
    [0, 1].map(|binding| {
        vk::WriteDescriptorSet::default()
            .dst_set(set)
            .dst_binding(binding as u32)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(std::slice::from_ref(&pair[binding]))
    })
}
