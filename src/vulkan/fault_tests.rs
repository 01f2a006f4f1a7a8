//! Makes the n-th call of each Vulkan entry point fail, and looks at what the backend makes of it.
//!
//! The calls go through the caller's own `vkGetInstanceProcAddr`, which the backend takes in place of the loader's.
//! For every entry point and code, n counts up until a run meets no fault. In each run the fault must come back with
//! the code, the `VkResult` and the entry point's name, nothing may panic or hang, and everything must be destroyed
//! without a validation message.

use super::{Backend, Disabled, Options};
use crate::code::Code;
use crate::error::Fault;
use crate::failure::Point;
use crate::memory::{MemoryKind, PageSource};
use crate::stream::backend::{Backend as _, Binding, Grid, KernelSource, Launch, Rejected};
use ash::vk;
use parking_lot::Mutex;
use std::ffi::{CStr, c_char};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Tests that set the table or count messages go one at a time.
pub(super) static ONE_TEST: Mutex<()> = Mutex::new(());
static PLAN: Mutex<Plan> = Mutex::new(Plan { function: "", code: 0, nth: 0, for_ever: false, seen: 0 });
static INCOHERENT: AtomicU32 = AtomicU32::new(0);

struct Plan {
    function: &'static str,
    code: i32,
    nth: u32,
    for_ever: bool,
    seen: u32,
}

fn injected(function: &str) -> Option<vk::Result> {
    let mut plan = PLAN.lock();
    if plan.function != function {
        return None;
    }
    plan.seen += 1;
    let now = plan.seen == plan.nth || (plan.for_ever && plan.seen > plan.nth);
    now.then(|| vk::Result::from_raw(plan.code))
}

/// Sets the plan, runs, and says how the run ended and whether the plan came into play.
fn with_plan<T>(plan: Plan, run: impl FnOnce() -> T) -> (T, bool) {
    let nth = plan.nth;
    *PLAN.lock() = plan;
    let result = run();
    let mut plan = PLAN.lock();
    let met = plan.seen >= nth;
    plan.function = "";
    (result, met)
}

fn loader() -> &'static ash::Entry {
    static ENTRY: OnceLock<ash::Entry> = OnceLock::new();
    // SAFETY: opening the platform's Vulkan loader runs its initializers, which are made for that.
    ENTRY.get_or_init(|| unsafe { ash::Entry::load() }.expect("a Vulkan loader"))
}

macro_rules! table {
    ($($name:literal $shim:ident $type:ident ($($arg:ident: $arg_type:ty),*);)*) => {
        /// The entry points that can be made to fail.
        const FUNCTIONS: &[&str] = &[$($name),*];

        $(
            #[allow(clippy::too_many_arguments)]
            mod $shim {
                use super::*;
                pub(super) static REAL: AtomicUsize = AtomicUsize::new(0);
                pub(super) unsafe extern "system" fn call($($arg: $arg_type),*) -> vk::Result {
                    if let Some(result) = injected($name) {
                        return result;
                    }
                    // SAFETY: only reached through the table, which stored the real function of this type first.
                    let real: vk::$type = unsafe { std::mem::transmute(REAL.load(Ordering::Acquire)) };
                    // SAFETY: the caller's arguments, unchanged.
                    unsafe { real($($arg),*) }
                }
            }
        )*

        fn shimmed(name: &str, real: vk::PFN_vkVoidFunction) -> vk::PFN_vkVoidFunction {
            let real_function = real?;
            match name {
                $($name => {
                    $shim::REAL.store(real_function as usize, Ordering::Release);
                    let call: vk::$type = $shim::call;
                    // SAFETY: function pointers are handed out untyped here and typed again by the caller.
                    Some(unsafe { std::mem::transmute::<vk::$type, unsafe extern "system" fn()>(call) })
                })*
                _ => special(name, real),
            }
        }
    };
}

table! {
    "vkCreateInstance" create_instance PFN_vkCreateInstance (info: *const vk::InstanceCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::Instance);
    "vkEnumerateInstanceExtensionProperties" instance_extensions PFN_vkEnumerateInstanceExtensionProperties (layer: *const c_char, count: *mut u32, out: *mut vk::ExtensionProperties);
    "vkEnumerateInstanceLayerProperties" instance_layers PFN_vkEnumerateInstanceLayerProperties (count: *mut u32, out: *mut vk::LayerProperties);
    "vkCreateDebugUtilsMessengerEXT" messenger PFN_vkCreateDebugUtilsMessengerEXT (instance: vk::Instance, info: *const vk::DebugUtilsMessengerCreateInfoEXT<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::DebugUtilsMessengerEXT);
    "vkEnumeratePhysicalDevices" devices PFN_vkEnumeratePhysicalDevices (instance: vk::Instance, count: *mut u32, out: *mut vk::PhysicalDevice);
    "vkEnumerateDeviceExtensionProperties" device_extensions PFN_vkEnumerateDeviceExtensionProperties (device: vk::PhysicalDevice, layer: *const c_char, count: *mut u32, out: *mut vk::ExtensionProperties);
    "vkCreateDevice" create_device PFN_vkCreateDevice (device: vk::PhysicalDevice, info: *const vk::DeviceCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::Device);
    "vkCreatePipelineCache" pipeline_cache PFN_vkCreatePipelineCache (device: vk::Device, info: *const vk::PipelineCacheCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::PipelineCache);
    "vkCreateBuffer" create_buffer PFN_vkCreateBuffer (device: vk::Device, info: *const vk::BufferCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::Buffer);
    "vkAllocateMemory" allocate_memory PFN_vkAllocateMemory (device: vk::Device, info: *const vk::MemoryAllocateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::DeviceMemory);
    "vkMapMemory" map_memory PFN_vkMapMemory (device: vk::Device, memory: vk::DeviceMemory, offset: u64, size: u64, flags: vk::MemoryMapFlags, out: *mut *mut std::ffi::c_void);
    "vkBindBufferMemory" bind_memory PFN_vkBindBufferMemory (device: vk::Device, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: u64);
    "vkFlushMappedMemoryRanges" flush PFN_vkFlushMappedMemoryRanges (device: vk::Device, count: u32, ranges: *const vk::MappedMemoryRange<'_>);
    "vkInvalidateMappedMemoryRanges" invalidate PFN_vkInvalidateMappedMemoryRanges (device: vk::Device, count: u32, ranges: *const vk::MappedMemoryRange<'_>);
    "vkCreateSemaphore" create_semaphore PFN_vkCreateSemaphore (device: vk::Device, info: *const vk::SemaphoreCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::Semaphore);
    "vkCreateShaderModule" shader_module PFN_vkCreateShaderModule (device: vk::Device, info: *const vk::ShaderModuleCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::ShaderModule);
    "vkCreateDescriptorSetLayout" set_layout PFN_vkCreateDescriptorSetLayout (device: vk::Device, info: *const vk::DescriptorSetLayoutCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::DescriptorSetLayout);
    "vkCreatePipelineLayout" pipeline_layout PFN_vkCreatePipelineLayout (device: vk::Device, info: *const vk::PipelineLayoutCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::PipelineLayout);
    "vkCreateComputePipelines" pipelines PFN_vkCreateComputePipelines (device: vk::Device, cache: vk::PipelineCache, count: u32, infos: *const vk::ComputePipelineCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::Pipeline);
    "vkCreateCommandPool" command_pool PFN_vkCreateCommandPool (device: vk::Device, info: *const vk::CommandPoolCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::CommandPool);
    "vkAllocateCommandBuffers" command_buffers PFN_vkAllocateCommandBuffers (device: vk::Device, info: *const vk::CommandBufferAllocateInfo<'_>, out: *mut vk::CommandBuffer);
    "vkResetCommandPool" reset_pool PFN_vkResetCommandPool (device: vk::Device, pool: vk::CommandPool, flags: vk::CommandPoolResetFlags);
    "vkBeginCommandBuffer" begin_commands PFN_vkBeginCommandBuffer (commands: vk::CommandBuffer, info: *const vk::CommandBufferBeginInfo<'_>);
    "vkEndCommandBuffer" end_commands PFN_vkEndCommandBuffer (commands: vk::CommandBuffer);
    "vkCreateDescriptorPool" descriptor_pool PFN_vkCreateDescriptorPool (device: vk::Device, info: *const vk::DescriptorPoolCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::DescriptorPool);
    "vkAllocateDescriptorSets" descriptor_sets PFN_vkAllocateDescriptorSets (device: vk::Device, info: *const vk::DescriptorSetAllocateInfo<'_>, out: *mut vk::DescriptorSet);
    "vkQueueSubmit" submit PFN_vkQueueSubmit (queue: vk::Queue, count: u32, infos: *const vk::SubmitInfo<'_>, fence: vk::Fence);
    "vkQueueSubmit2" submit2 PFN_vkQueueSubmit2 (queue: vk::Queue, count: u32, infos: *const vk::SubmitInfo2<'_>, fence: vk::Fence);
    "vkWaitSemaphores" wait_semaphores PFN_vkWaitSemaphores (device: vk::Device, info: *const vk::SemaphoreWaitInfo<'_>, timeout: u64);
    "vkGetSemaphoreCounterValue" counter PFN_vkGetSemaphoreCounterValue (device: vk::Device, semaphore: vk::Semaphore, out: *mut u64);
}

/// What is not made to fail but presented otherwise.
fn special(name: &str, real: vk::PFN_vkVoidFunction) -> vk::PFN_vkVoidFunction {
    let real_function = real?;
    match name {
        "vkGetInstanceProcAddr" => {
            // SAFETY: handed out untyped, typed again by the caller.
            Some(unsafe {
                std::mem::transmute::<vk::PFN_vkGetInstanceProcAddr, unsafe extern "system" fn()>(instance_proc)
            })
        }
        "vkGetDeviceProcAddr" => {
            DEVICE_PROC.store(real_function as usize, Ordering::Release);
            // SAFETY: as above.
            Some(unsafe {
                std::mem::transmute::<vk::PFN_vkGetDeviceProcAddr, unsafe extern "system" fn()>(device_proc)
            })
        }
        "vkGetPhysicalDeviceMemoryProperties" => {
            MEMORY_PROPERTIES.store(real_function as usize, Ordering::Release);
            // SAFETY: as above.
            Some(unsafe {
                std::mem::transmute::<vk::PFN_vkGetPhysicalDeviceMemoryProperties, unsafe extern "system" fn()>(
                    memory_properties,
                )
            })
        }
        _ => real,
    }
}

static DEVICE_PROC: AtomicUsize = AtomicUsize::new(0);
static MEMORY_PROPERTIES: AtomicUsize = AtomicUsize::new(0);

unsafe extern "system" fn instance_proc(instance: vk::Instance, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller's arguments, unchanged.
    let real = unsafe { (loader().static_fn().get_instance_proc_addr)(instance, name) };
    // SAFETY: names asked for are NUL-terminated.
    shimmed(unsafe { CStr::from_ptr(name) }.to_str().unwrap_or(""), real)
}

unsafe extern "system" fn device_proc(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: stored before this function was handed out.
    let get: vk::PFN_vkGetDeviceProcAddr = unsafe { std::mem::transmute(DEVICE_PROC.load(Ordering::Acquire)) };
    // SAFETY: the caller's arguments, unchanged.
    let real = unsafe { get(device, name) };
    // SAFETY: names asked for are NUL-terminated.
    shimmed(unsafe { CStr::from_ptr(name) }.to_str().unwrap_or(""), real)
}

/// With `INCOHERENT` set, host memory has to be flushed and invalidated.
unsafe extern "system" fn memory_properties(device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceMemoryProperties) {
    // SAFETY: stored before this function was handed out.
    let get: vk::PFN_vkGetPhysicalDeviceMemoryProperties =
        unsafe { std::mem::transmute(MEMORY_PROPERTIES.load(Ordering::Acquire)) };
    // SAFETY: the caller's arguments, unchanged.
    unsafe { get(device, out) };
    if INCOHERENT.load(Ordering::Acquire) != 0 {
        // SAFETY: the call above filled it in.
        for memory_type in unsafe { &mut (*out).memory_types } {
            memory_type.property_flags &= !vk::MemoryPropertyFlags::HOST_COHERENT;
        }
    }
}

fn plain(rejected: Rejected) -> Fault {
    rejected.fault
}

/// Everything a backend does, from the loader to the bytes read back.
fn whole_run(disabled: Disabled) -> Result<(), Fault> {
    let backend = Backend::create(&Options {
        validation: true,
        disabled,
        get_instance_proc_addr: Some(instance_proc),
        ..Options::default()
    })?;
    backend.slot_create(0)?;
    let upload = Arc::new(backend.page_create(MemoryKind::Upload, 2 << 20)?);
    let back = Arc::new(backend.page_create(MemoryKind::Readback, 4096)?);
    let (kernel, _) = backend
        .kernel_create(&KernelSource {
            code: include_bytes!("../../tests/vulkan_backend/stray.spv"),
            entry: "main",
            constants: &[],
            label: "stray",
            trusted: false,
            declares_uses: false,
        })
        .map_err(plain)?;
    let kernel = Arc::new(kernel);
    backend.page_write(&upload, 100, &1_u32.to_ne_bytes().repeat(3))?;
    for batch in 1..=2 {
        let mut recording = backend.begin(0)?;
        let at = |page, offset, size| Binding { page, offset, size };
        let launch = Launch {
            kernel: &kernel,
            bindings: &[at(&back, 0, 256)],
            push: &3_u32.to_ne_bytes(),
            grid: Grid::Indirect(at(&upload, 100, 12), at(&upload, 256, 12)),
            label: "stray",
        };
        backend.barrier(&mut recording);
        backend.launch(&mut recording, &launch)?;
        backend.host_barrier(&mut recording);
        backend.end(&mut recording)?;
        let point = Point { slot: 0, batch };
        backend.submit(0, &mut recording, &[], &[], point)?;
        // A fault here leaves the batch running; whoever drives the backend waits again before taking anything back.
        let waited = backend.wait(point, 20_000_000_000);
        if waited != Ok(true) {
            while backend.wait(point, 20_000_000_000) != Ok(true) {}
        }
        assert!(waited?, "the batch completes");
        let completed = backend.completed(0)?;
        assert_eq!(completed, batch);
        backend.recycle(0, recording);
    }
    let mut word = [0; 4];
    backend.page_read(&back, 12, &mut word)?;
    assert_eq!(u32::from_ne_bytes(word), 0xdead_beef);
    drop(upload);
    drop(back);
    Ok(())
}

fn expected_code(function: &str, code: i32) -> Code {
    let creation = matches!(function, "vkCreateInstance" | "vkCreateDevice");
    match code {
        -2 => Code::OutOfDeviceMemory,
        -4 => Code::DeviceLost,
        _ if creation => Code::InitializationFailed,
        _ => Code::Driver,
    }
}

/// Fails each call of each function in turn, in the driver's own code, in one it must not return, and in one that is
/// no error and still leaves nothing behind.
fn matrix(disabled: Disabled, must_meet: &[&str]) {
    let _one = ONE_TEST.lock();
    INCOHERENT.store(1, Ordering::Release);
    let messages = super::validation_message_count();
    assert_eq!(whole_run(disabled), Ok(()));
    for &function in FUNCTIONS {
        let mut met_once = false;
        for code in [-2, -4, -7777, 1_000_297_000] {
            for nth in 1.. {
                assert!(nth < 100, "{function} is called without end");
                let plan = Plan { function, code, nth, for_ever: false, seen: 0 };
                let (result, met) = with_plan(plan, || whole_run(disabled));
                if !met {
                    assert_eq!(result, Ok(()), "{function} {code} #{nth}");
                    break;
                }
                met_once = true;
                match result {
                    // Nothing needs the cache, and what cannot be reset is not used again.
                    Ok(()) => assert!(
                        matches!(function, "vkCreatePipelineCache" | "vkResetCommandPool"),
                        "{function} {code} #{nth} went unnoticed"
                    ),
                    Err(fault) => {
                        assert_eq!(fault.vk_function, function, "{fault:?}");
                        assert_eq!(fault.vk_result, code, "{fault:?}");
                        assert_eq!(fault.code, expected_code(function, code), "{fault:?}");
                        assert!(fault.message.contains(&code.to_string()), "{fault:?}");
                    }
                }
            }
        }
        assert_eq!(met_once, must_meet.contains(&function) || !OPTIONAL.contains(&function), "{function}");
    }
    INCOHERENT.store(0, Ordering::Release);
    assert_eq!(super::validation_message_count(), messages);
}

/// Entry points that depend on what the device is allowed to use.
const OPTIONAL: &[&str] = &["vkQueueSubmit", "vkQueueSubmit2", "vkCreateDescriptorPool", "vkAllocateDescriptorSets"];

#[test]
fn every_failing_call_is_told_with_all_features() {
    matrix(Disabled::default(), &["vkQueueSubmit2"]);
}

#[test]
fn every_failing_call_is_told_with_no_features() {
    matrix(
        Disabled { push_descriptors: true, synchronization2: true, robustness2: true },
        &["vkQueueSubmit", "vkCreateDescriptorPool", "vkAllocateDescriptorSets"],
    );
}

#[test]
fn an_enumeration_that_never_ends_is_given_up() {
    let _one = ONE_TEST.lock();
    for function in ["vkEnumeratePhysicalDevices", "vkEnumerateDeviceExtensionProperties"] {
        let plan = Plan { function, code: vk::Result::INCOMPLETE.as_raw(), nth: 2, for_ever: true, seen: 0 };
        let (result, met) = with_plan(plan, || whole_run(Disabled::default()));
        assert!(met);
        assert_eq!(result.map_err(|fault| (fault.vk_function, fault.code)), Err((function, Code::Driver)));
    }
}

#[test]
fn a_pool_that_is_full_too_soon_is_replaced_once() {
    let _one = ONE_TEST.lock();
    let function = "vkAllocateDescriptorSets";
    let no_push = Disabled { push_descriptors: true, ..Disabled::default() };
    for code in [vk::Result::ERROR_OUT_OF_POOL_MEMORY, vk::Result::ERROR_FRAGMENTED_POOL] {
        let plan = |for_ever| Plan { function, code: code.as_raw(), nth: 1, for_ever, seen: 0 };
        assert_eq!(with_plan(plan(false), || whole_run(no_push)), (Ok(()), true));
        let (result, _) = with_plan(plan(true), || whole_run(no_push));
        assert_eq!(result.map_err(|fault| fault.vk_result), Err(code.as_raw()));
    }
}

#[test]
fn a_loader_without_vulkan_is_told() {
    unsafe extern "system" fn nothing(_: vk::Instance, _: *const c_char) -> vk::PFN_vkVoidFunction {
        None
    }
    let options = Options { get_instance_proc_addr: Some(nothing), ..Options::default() };
    let fault = Backend::create(&options).err().expect("no Vulkan there");
    assert_eq!(fault.code, Code::InitializationFailed);
    assert_eq!(super::device_count(Some(nothing)).map_err(|fault| fault.code), Err(Code::InitializationFailed));
}
