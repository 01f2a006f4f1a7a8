//! Real devices: what [`crate::stream::backend`] asks for, done with Vulkan.
//!
//! No rule of claims lives here. This module records what it is told in the order it is told, and turns whatever
//! Vulkan answers into faults. Vulkan 1.2 with timeline semaphores and `robustBufferAccess` is the floor; everything
//! else is probed, and each optional feature can be kept off to run the path without it.

mod descriptors;
mod device;
mod entries;
mod fault;
#[cfg(test)]
mod fault_tests;
mod handles;
mod idle;
mod indirect;
mod instance;
mod kernel;
mod loader;
mod memory;
mod messages;
mod modules;
mod own_stack;
mod physical;
mod pipelines;
mod queue;
pub mod spirv;
mod stream;

pub use ash::vk::Handle;
pub use device::Disabled;
pub use handles::Handles;
pub use kernel::Kernel;
pub use memory::Page;
pub use messages::validation_message_count;
pub use physical::{DeviceDescription, DeviceType, Heap, Select};
pub use stream::Recording;

use crate::code::Code;
use crate::error::Fault;
use crate::failure::Point;
use crate::memory::{MemoryKind, PageSource};
use crate::stream::backend::{self, Binding, External, KernelInfo, KernelSource, Launch, Limits, Rejected};
use ash::vk;
use device::Gpu;
use idle::IdleWait;
use indirect::CountCheck;
use instance::{Instance, InstanceOptions};
use kernel::Build;
use memory::Memory;
use physical::Probed;
use pipelines::Pipelines;
use std::sync::Arc;
use std::time::Duration;
use stream::Slots;
use tracing::Dispatch;

/// The caller's own way into Vulkan, in place of the platform's loader.
pub type GetInstanceProcAddr = vk::PFN_vkGetInstanceProcAddr;

/// What a device is made with.
#[derive(Clone)]
pub struct Options {
    /// Which device; `TIDEGATE_DEVICE` says when this does not.
    pub select: Select,
    /// Switch on the validation layer; a machine without it is an error.
    pub validation: bool,
    /// Label launches for debug tools; on with `validation`.
    pub debug_labels: bool,
    /// Optional features to keep off.
    pub disabled: Disabled,
    /// Every buffer will have a page of its own, which contains its accesses where nothing better does.
    pub isolate_buffers: bool,
    /// Trust every module: none is validated.
    pub trust_modules: bool,
    /// In place of the platform's loader.
    pub get_instance_proc_addr: Option<GetInstanceProcAddr>,
    /// Where messages go.
    pub dispatch: Dispatch,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            select: Select::default(),
            validation: false,
            debug_labels: false,
            disabled: Disabled::default(),
            isolate_buffers: false,
            trust_modules: false,
            get_instance_proc_addr: None,
            dispatch: Dispatch::none(),
        }
    }
}

/// How far a kernel that runs past its slice can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containment {
    /// To the end of the bound range, rounded up to at most 4 bytes (`robustBufferAccess2`).
    DescriptorRange,
    /// To the end of its buffer, which shares no page with another.
    OwnBuffers,
    /// To the end of the page its buffer lies in, and into its neighbours there (`robustBufferAccess` alone).
    Page,
}

/// What a device turned out to be and which of its features are in use.
#[derive(Clone, Debug)]
pub struct BackendInfo {
    /// The device.
    pub description: DeviceDescription,
    /// Vulkan version it is used at.
    pub api_version: u32,
    /// How far a stray access reaches.
    pub containment: Containment,
    /// Descriptors are pushed, not bound from a cache.
    pub push_descriptors: bool,
    /// Barriers and submits are those of synchronization2.
    pub synchronization2: bool,
    /// `robustBufferAccess2` is on.
    pub robustness2: bool,
    /// The driver tells how much memory is left.
    pub memory_budget: bool,
    /// The driver tells about device losses.
    pub device_fault: bool,
    /// The validation layer is on.
    pub validation: bool,
    /// Launches are labelled.
    pub debug_labels: bool,
    /// Buffers have addresses that shaders can reach them by.
    pub buffer_addresses: bool,
    /// This build has a validator that modules pass before the driver sees them.
    pub shader_validator: bool,
}

/// How many devices the loader enumerates, usable or not.
pub fn device_count(get_instance_proc_addr: Option<GetInstanceProcAddr>) -> Result<u32, Fault> {
    physical::count(&plain_instance(get_instance_proc_addr)?)
}

/// The device at a place of the enumeration.
pub fn describe(get_instance_proc_addr: Option<GetInstanceProcAddr>, index: u32) -> Result<DeviceDescription, Fault> {
    let devices = physical::enumerate_devices(&plain_instance(get_instance_proc_addr)?)?;
    let count = devices.len();
    devices
        .into_iter()
        .nth(index as usize)
        .map(|device| device.description)
        .ok_or_else(|| Fault::new(Code::NoDevice, format!("there is no device {index}; {count} were found")))
}

fn plain_instance(get_instance_proc_addr: Option<GetInstanceProcAddr>) -> Result<Instance, Fault> {
    Instance::create(&InstanceOptions {
        get_instance_proc_addr,
        validation: false,
        debug_labels: false,
        dispatch: Dispatch::none(),
    })
}

/// A Vulkan device that streams record for.
///
/// Dropping it waits for nothing: no work may be unfinished. Everything made on it holds the `VkDevice`, so the order
/// in which pages, kernels, recordings and the backend go does not matter.
pub struct Backend {
    slots: Slots,
    idle: IdleWait,
    counts: CountCheck,
    pipelines: Pipelines,
    memory: Arc<Memory>,
    limits: Limits,
    info: BackendInfo,
    trust_modules: bool,
    gpu: Arc<Gpu>,
}

impl Backend {
    /// Opens Vulkan, selects a device and makes it ready.
    pub fn create(options: &Options) -> Result<Backend, Fault> {
        let instance = Instance::create(&InstanceOptions {
            get_instance_proc_addr: options.get_instance_proc_addr,
            validation: options.validation,
            debug_labels: options.debug_labels,
            dispatch: options.dispatch.clone(),
        })?;
        let probed = physical::select(physical::enumerate_devices(&instance)?, &options.select)?;
        let gpu = Arc::new(Gpu::create(instance, probed, options.disabled)?);
        let mut limits = limits(&gpu.probed, gpu.queues.len());
        let memory = Arc::new(Memory::create(Arc::clone(&gpu), limits.max_buffer_size)?);
        limits.heap_size = memory.heap_sizes();
        limits.map_alignment = memory.map_alignments();
        let largest_heap = limits.heap_size.iter().copied().max().unwrap_or(0);
        limits.max_buffer_size = limits.max_buffer_size.min(largest_heap);

        let info = BackendInfo {
            description: gpu.probed.description.clone(),
            api_version: gpu.probed.api_version,
            containment: if gpu.robustness2 && gpu.probed.storage_access_alignment <= 4 {
                Containment::DescriptorRange
            } else if options.isolate_buffers {
                Containment::OwnBuffers
            } else {
                Containment::Page
            },
            push_descriptors: gpu.push.is_some(),
            synchronization2: gpu.synchronization2.is_some(),
            robustness2: gpu.robustness2,
            memory_budget: gpu.probed.memory_budget,
            device_fault: gpu.probed.device_fault,
            validation: options.validation,
            debug_labels: gpu.debug.is_some(),
            buffer_addresses: gpu.probed.shader.buffer_device_address,
            shader_validator: spirv::validator_available(),
        };
        gpu.instance.messages.flush();
        crate::log::tell(Some(&options.dispatch), || {
            tracing::info!(
                target: "tidegate::vulkan",
                "using {:?} ({}), containment {:?}",
                info.description.name,
                info.description.driver,
                info.containment
            );
        });
        let pipelines = Pipelines::create(Arc::clone(&gpu));
        if let Some(loss) = gpu.loss() {
            return Err(loss.clone());
        }
        Ok(Backend {
            slots: Slots::new(),
            idle: IdleWait::default(),
            counts: CountCheck::default(),
            pipelines,
            memory,
            limits,
            info,
            trust_modules: options.trust_modules,
            gpu,
        })
    }

    /// What the device is and which of its features are in use.
    pub fn info(&self) -> &BackendInfo {
        &self.info
    }

    /// The Vulkan objects it is made of.
    pub fn handles(&self) -> Handles<'_> {
        Handles::of(&self.gpu)
    }

    /// Hands the validation messages that wait to the log. Cheap when there are none; to be called without any lock.
    pub fn flush_messages(&self) {
        self.gpu.instance.messages.flush();
    }

    /// Checks a module and compiles it.
    fn compile(&self, source: &KernelSource<'_>) -> Result<(Kernel, KernelInfo), Rejected> {
        messages::begin_operation();
        let source = KernelSource { trusted: source.trusted || self.trust_modules, ..*source };
        let spirv::Module { words, info, needs } =
            spirv::inspect(&source, &modules::limits(&self.gpu, self.limits.max_bindings))
                .map_err(|rejected| Rejected { fault: rejected.fault, info: rejected.info })?;
        let built =
            needs.check(|feature| modules::has(&self.gpu, feature)).and_then(|()| self.build(&source, &words, &info));
        match built {
            Ok(kernel) => Ok((kernel, info)),
            Err(fault) => Err(Rejected { fault, info: Some(info) }),
        }
    }

    fn build(&self, source: &KernelSource<'_>, words: &[u32], info: &KernelInfo) -> Result<Kernel, Fault> {
        self.pipelines.build(&Build {
            words,
            entry: source.entry,
            info,
            constants: source.constants,
            label: source.label,
        })
    }
}

/// The limits that do not depend on the memory types chosen.
fn limits(probed: &Probed, queues: usize) -> Limits {
    let l = &probed.limits;
    let binding_alignment = l.min_storage_buffer_offset_alignment.max(4).next_power_of_two();
    let max_bindings = l
        .max_per_stage_descriptor_storage_buffers
        .min(l.max_descriptor_set_storage_buffers)
        .min(l.max_per_stage_resources);
    Limits {
        queues,
        max_buffer_size: probed.max_allocation_size.min(probed.max_buffer_size.unwrap_or(u64::MAX)),
        heap_size: [0; 3],
        max_binding_size: u64::from(l.max_storage_buffer_range),
        binding_alignment,
        block_alignment: binding_alignment
            .max(l.non_coherent_atom_size.max(1).next_power_of_two())
            .max(memory::ADDRESS_ALIGNMENT),
        map_alignment: [1; 3],
        max_groups: l.max_compute_work_group_count,
        max_push_size: l.max_push_constants_size,
        max_bindings,
    }
}

impl PageSource for Backend {
    type Page = Page;

    fn page_create(&self, kind: MemoryKind, size: u64) -> Result<Page, Fault> {
        self.memory.create_page(kind, size)
    }

    fn page_destroy(&self, page: Page) {
        drop(page);
    }

    fn page_write(&self, page: &Page, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.memory.write(page, offset, bytes)
    }

    fn page_read(&self, page: &Page, offset: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(page, offset, bytes)
    }

    fn page_address(&self, page: &Page, offset: u64, size: u64) -> Result<*mut u8, Fault> {
        self.memory.address(page, offset, size)
    }

    fn page_device_address(&self, page: &Page) -> u64 {
        page.device_address()
    }

    fn page_invalidate(&self, page: &Page, offset: u64, size: u64) -> Result<(), Fault> {
        messages::begin_operation();
        self.memory.invalidate(page, offset, size)
    }

    fn page_flush(&self, page: &Page, offset: u64, size: u64) -> Result<(), Fault> {
        messages::begin_operation();
        self.memory.flush(page, offset, size)
    }

    fn budget(&self, kind: MemoryKind) -> Option<u64> {
        self.memory.budget(kind)
    }
}

impl backend::Backend for Backend {
    type Kernel = Kernel;
    /// Boxed, because it is handed from the free ones to the slot, to the queue and back.
    type Recording = Box<Recording>;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn loss(&self) -> Option<&Fault> {
        self.gpu.loss()
    }

    fn slot_create(&self, slot: u32) -> Result<(), Fault> {
        messages::begin_operation();
        self.slots.create(slot, &self.gpu)
    }

    fn kernel_create(&self, source: &KernelSource<'_>) -> Result<(Kernel, KernelInfo), Rejected> {
        own_stack::on_own_stack(|| self.compile(source)).map_err(|fault| Rejected { fault, info: None }).flatten()
    }

    fn begin(&self, slot: u32) -> Result<Box<Recording>, Fault> {
        messages::begin_operation();
        self.slots.get(slot)?.begin()
    }

    fn barrier(&self, recording: &mut Box<Recording>) {
        recording.barrier();
    }

    fn host_barrier(&self, recording: &mut Box<Recording>) {
        recording.host_barrier();
    }

    fn launch(&self, recording: &mut Box<Recording>, launch: &Launch<'_, Backend>) -> Result<(), Fault> {
        recording.launch(self, launch)
    }

    fn copy(&self, recording: &mut Box<Recording>, to: Binding<'_, Page>, from: Binding<'_, Page>) {
        recording.copy(&to, &from);
    }

    fn fill(&self, recording: &mut Box<Recording>, to: Binding<'_, Page>, pattern: u32) {
        recording.fill(&to, pattern);
    }

    fn end(&self, recording: &mut Box<Recording>) -> Result<(), Fault> {
        messages::begin_operation();
        recording.end()
    }

    fn recycle(&self, slot: u32, recording: Box<Recording>) {
        if let Ok(slot) = self.slots.get(slot) {
            slot.recycle(recording);
        }
    }

    fn submit(
        &self,
        queue: usize,
        recording: &mut Box<Recording>,
        waits: &[Point],
        externals: &[External],
        signal: Point,
    ) -> Result<(), Fault> {
        messages::begin_operation();
        let Some(queue) = self.gpu.queues.get(queue) else {
            return Err(Fault::new(Code::Internal, format!("there is no queue {queue}")));
        };
        for wait in waits {
            self.slots.get(wait.slot)?;
        }
        let slot = self.slots.get(signal.slot)?;
        slot.will_signal(signal.batch);
        let waits = waits.iter().filter_map(|wait| Some(self.slots.get(wait.slot).ok()?.value(wait.batch)));
        let externals = externals.iter().map(|e| (vk::Semaphore::from_raw(e.semaphore), e.value));
        let waits = waits.chain(externals);
        queue.submit(&self.gpu, recording.commands, waits, slot.value(signal.batch), signal)
    }

    fn external_reached(&self, external: External) -> Result<bool, Fault> {
        let semaphore = vk::Semaphore::from_raw(external.semaphore);
        // SAFETY: the caller keeps the semaphore alive, and it is a timeline of this device.
        match unsafe { self.gpu.raw.get_semaphore_counter_value(semaphore) } {
            Ok(value) => Ok(value >= external.value),
            Err(result) => Err(self.gpu.fault(result, "vkGetSemaphoreCounterValue", "for a semaphore of the caller's")),
        }
    }

    fn completed(&self, slot: u32) -> Result<u64, Fault> {
        self.slots.get(slot)?.completed()
    }

    fn wait(&self, point: Point, timeout_ns: u64) -> Result<bool, Fault> {
        messages::begin_operation();
        self.slots.get(point.slot)?.wait(point.batch, timeout_ns)
    }

    fn wait_idle(&self, timeout_ns: u64) -> Result<bool, Fault> {
        messages::begin_operation();
        self.idle.wait(&self.gpu, Duration::from_nanos(timeout_ns))
    }
}
