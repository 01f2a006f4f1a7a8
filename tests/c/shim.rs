//! Between the library and the loader: submissions that are refused when a test asks for it.

use ash::vk;
use std::ffi::{CStr, c_char};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// How many submissions are still to be refused, and with what.
static LEFT: AtomicU32 = AtomicU32::new(0);
static ANSWER: AtomicI32 = AtomicI32::new(0);

/// The next `times` submissions are refused. The library tries again once when memory is short.
pub fn refuse(times: u32, answer: vk::Result) {
    ANSWER.store(answer.as_raw(), Ordering::SeqCst);
    LEFT.store(times, Ordering::SeqCst);
}

/// No more refusals; how many were not met.
pub fn stop_refusing() -> u32 {
    LEFT.swap(0, Ordering::SeqCst)
}

fn refused() -> Option<vk::Result> {
    let met = LEFT.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    met.is_ok().then(|| vk::Result::from_raw(ANSWER.load(Ordering::SeqCst)))
}

/// The caller's own vkGetInstanceProcAddr, as the library takes it.
pub fn proc_addr() -> unsafe extern "C" fn() {
    // SAFETY: on the platforms of these tests "system" is "C", and the library casts it back to the type it is.
    unsafe { std::mem::transmute::<vk::PFN_vkGetInstanceProcAddr, unsafe extern "C" fn()>(instance_proc) }
}

fn loader() -> &'static ash::Entry {
    static ENTRY: OnceLock<ash::Entry> = OnceLock::new();
    // SAFETY: opening the platform's Vulkan loader runs its initializers, which are made for that.
    ENTRY.get_or_init(|| unsafe { ash::Entry::load() }.expect("a Vulkan loader"))
}

static DEVICE_PROC: AtomicUsize = AtomicUsize::new(0);
static SUBMIT: AtomicUsize = AtomicUsize::new(0);
static SUBMIT2: AtomicUsize = AtomicUsize::new(0);

unsafe extern "system" fn instance_proc(instance: vk::Instance, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller's arguments, unchanged.
    let real = unsafe { (loader().static_fn().get_instance_proc_addr)(instance, name) };
    // SAFETY: Vulkan's names are C strings.
    shimmed(unsafe { CStr::from_ptr(name) }, real)
}

unsafe extern "system" fn device_proc(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: stored before this function was handed out.
    let real: vk::PFN_vkGetDeviceProcAddr = unsafe { std::mem::transmute(DEVICE_PROC.load(Ordering::Acquire)) };
    // SAFETY: the caller's arguments, unchanged.
    let real = unsafe { real(device, name) };
    // SAFETY: Vulkan's names are C strings.
    shimmed(unsafe { CStr::from_ptr(name) }, real)
}

fn shimmed(name: &CStr, real: vk::PFN_vkVoidFunction) -> vk::PFN_vkVoidFunction {
    let address = real? as usize;
    match name.to_bytes() {
        b"vkGetInstanceProcAddr" => {
            // SAFETY: handed out untyped, typed again by whoever asked.
            Some(unsafe {
                std::mem::transmute::<vk::PFN_vkGetInstanceProcAddr, unsafe extern "system" fn()>(instance_proc)
            })
        }
        b"vkGetDeviceProcAddr" => {
            DEVICE_PROC.store(address, Ordering::Release);
            // SAFETY: handed out untyped, typed again by whoever asked.
            Some(unsafe {
                std::mem::transmute::<vk::PFN_vkGetDeviceProcAddr, unsafe extern "system" fn()>(device_proc)
            })
        }
        b"vkQueueSubmit" => {
            SUBMIT.store(address, Ordering::Release);
            // SAFETY: handed out untyped, typed again by whoever asked.
            Some(unsafe { std::mem::transmute::<vk::PFN_vkQueueSubmit, unsafe extern "system" fn()>(submit) })
        }
        b"vkQueueSubmit2" | b"vkQueueSubmit2KHR" => {
            SUBMIT2.store(address, Ordering::Release);
            // SAFETY: handed out untyped, typed again by whoever asked.
            Some(unsafe { std::mem::transmute::<vk::PFN_vkQueueSubmit2, unsafe extern "system" fn()>(submit2) })
        }
        _ => real,
    }
}

unsafe extern "system" fn submit(
    queue: vk::Queue,
    count: u32,
    infos: *const vk::SubmitInfo<'_>,
    fence: vk::Fence,
) -> vk::Result {
    if let Some(answer) = refused() {
        return answer;
    }
    // SAFETY: stored before this function was handed out.
    let real: vk::PFN_vkQueueSubmit = unsafe { std::mem::transmute(SUBMIT.load(Ordering::Acquire)) };
    // SAFETY: the caller's arguments, unchanged.
    unsafe { real(queue, count, infos, fence) }
}

unsafe extern "system" fn submit2(
    queue: vk::Queue,
    count: u32,
    infos: *const vk::SubmitInfo2<'_>,
    fence: vk::Fence,
) -> vk::Result {
    if let Some(answer) = refused() {
        return answer;
    }
    // SAFETY: stored before this function was handed out.
    let real: vk::PFN_vkQueueSubmit2 = unsafe { std::mem::transmute(SUBMIT2.load(Ordering::Acquire)) };
    // SAFETY: the caller's arguments, unchanged.
    unsafe { real(queue, count, infos, fence) }
}
