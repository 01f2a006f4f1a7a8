//! For callers that work with Vulkan themselves: what a device is made of, and streams that wait for their semaphores.

use super::boundary::on_device;
use super::results::tg_result;
use super::runtime;
use super::slices::tg_device;
use super::structs::{self, Info, misuse, versioned};
use super::vk::{PFN_vkGetInstanceProcAddr, VkDevice, VkInstance, VkPhysicalDevice, VkQueue, VkSemaphore};
use crate::stream::backend::External;

/// The signal of the value was made or submitted before the call, so the device may wait for it: nothing is held back
/// on the host. What is queued behind such a wait on the same VkQueue, other streams' work too, waits with it.
pub const TG_VK_SIGNAL_SUBMITTED: u64 = 1 << 0;

/// The Vulkan objects behind a device. They belong to it.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_vk_handles {
    /// sizeof(tg_vk_handles).
    pub struct_size: usize,
    /// The instance.
    pub instance: VkInstance,
    /// The physical device.
    pub physical_device: VkPhysicalDevice,
    /// The device. Features and extensions beyond what the library itself uses are not enabled.
    pub device: VkDevice,
    /// Where every function comes from: the caller's own, if the device was made with one.
    pub get_instance_proc_addr: PFN_vkGetInstanceProcAddr,
    /// The version of Vulkan the device is used at, as VK_MAKE_API_VERSION.
    pub api_version: u32,
    /// The family of the queues.
    pub queue_family: u32,
    /// How many queues the library uses: 0 to queue_count - 1 of the family.
    pub queue_count: u32,
    /// Always 0.
    pub reserved: u32,
    /// Those queues; VK_NULL_HANDLE beyond queue_count.
    pub queues: [VkQueue; 4],
}

versioned!(tg_vk_handles to device);

/// Tells which Vulkan objects a device is made of.
///
/// They are for looking and for objects of the caller's own on the same VkDevice: creating and destroying them,
/// vkSignalSemaphore, vkWaitSemaphores, vkGetSemaphoreCounterValue and whatever else asks for no external
/// synchronization of the VkDevice or of a queue. The queues are the library's, which locks them only for itself: the
/// caller must not submit to them and must not call vkQueueWaitIdle or vkDeviceWaitIdle. Nothing of the library's may
/// be destroyed. What the caller made on the device must be gone before tg_device_destroy.
///
/// \param dev The device. The objects live as long as it does.
/// \param out Filled on TG_OK, up to its struct_size.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_vk_device_handles(dev: tg_device, out: *mut tg_vk_handles) -> tg_result {
    on_device("tg_vk_device_handles", dev, |device| {
        // SAFETY: the header asks for NULL or a writable struct that begins with its size.
        let out = unsafe { Info::new(out, "out") }?;
        out.fill(runtime::handles(device));
        Ok(())
    })
}

/// Makes what is enqueued on a stream from now on wait until a timeline semaphore of the caller's has reached a value.
///
/// What the stream has so far is submitted first, and does not wait. What comes later stays on the host until the value
/// is reached: no queue stands still for it, so other streams go on, and it may be the host that signals. What shares
/// bytes with it stays back behind it, whichever stream it is on, and so does what those streams enqueue afterwards, a
/// read that ended by its timeout too. Nothing blocks meanwhile. Waits end by their timeout, and a call answers
/// TG_NOT_READY, with nothing changed, where only the held work could make room: tg_device_desc::max_pending pieces are
/// unfinished, or the stream's staging memory or the device's memory is full of it. Nobody tells the library of a
/// signal; the next call that flushes or waits, on any stream, sends off what it let go.
///
/// \param dev The device.
/// \param stream The stream that waits; any number. Streams that share its backend stream wait too.
/// \param semaphore A timeline semaphore of the VkDevice in tg_vk_handles; not VK_NULL_HANDLE. It must live until it has
///        reached the value and a tg_stream_wait for the stream, or a tg_device_wait, that began afterwards has
///        returned TG_OK; on a lost device, until no call but tg_device_destroy follows.
/// \param value What it has to reach. A value that was reached already holds nothing up.
/// \param flags TG_VK_SIGNAL_* added together.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND,
///          TG_ERROR_STALE_HANDLE; TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER when
///          the backend stream cannot be made, and then nothing waits, or when the driver refuses what the stream had
///          so far, and then what comes later waits all the same; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread.
/// \claims As tg_stream_flush.
#[unsafe(no_mangle)]
pub extern "C" fn tg_vk_stream_wait_semaphore(
    dev: tg_device,
    stream: u64,
    semaphore: VkSemaphore,
    value: u64,
    flags: u64,
) -> tg_result {
    on_device("tg_vk_stream_wait_semaphore", dev, |device| {
        let flags = structs::flags(flags, TG_VK_SIGNAL_SUBMITTED, "flags")?;
        if semaphore == 0 {
            return Err(misuse("semaphore", format_args!("the semaphore is VK_NULL_HANDLE")));
        }
        let submitted = flags & TG_VK_SIGNAL_SUBMITTED != 0;
        device.stream_wait_external(stream, External { semaphore, value, submitted })
    })
}
