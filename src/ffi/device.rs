//! Devices: made, asked, waited for and destroyed.

use super::boundary::{call, making, on_device};
use super::devices;
use super::library::{TG_NAME_CAPACITY, tg_device_info};
use super::log::{Sink, tg_finalizer_fn, tg_log_fn};
use super::reports;
use super::results::tg_result;
use super::runtime;
use super::slices::tg_report;
use super::slices::{listed, tg_claim, tg_device};
use super::strings::{self, LABEL, tg_str};
use super::structs::{self, Info, Out, array_mut, flags, misuse, reserved, versioned};

use crate::device::{Claim, DeviceClaim, Handle, Scheduling, Settings};
use crate::error::Result;
use std::ffi::c_void;

/// Choose by `index`, the one tg_device_describe takes.
pub const TG_SELECT_INDEX: u32 = 1 << 0;
/// Choose by `name`: a part of the device's name, in whatever case.
pub const TG_SELECT_NAME: u32 = 1 << 1;
/// Choose by `uuid`.
pub const TG_SELECT_UUID: u32 = 1 << 2;
/// Choose by `type`.
pub const TG_SELECT_TYPE: u32 = 1 << 3;

/// Each slot records its own command buffers; slots are ordered by the device only where they share bytes.
pub const TG_SCHEDULING_EVENT: u32 = 0;
/// Slots queue tasks on the host, which run in batches on one queue, one task of each slot in turn.
pub const TG_SCHEDULING_INTERLEAVE: u32 = 1;
/// Slots queue tasks on the host, which run in batches on one queue, one slot after another.
pub const TG_SCHEDULING_SEQUENCE: u32 = 2;

/// Turns the Vulkan validation layer on; its messages go to the log and onto the failure of the call that raised
/// them. TG_ERROR_INITIALIZATION_FAILED where there is no such layer.
pub const TG_DEVICE_VALIDATION: u64 = 1 << 0;
/// Fresh bytes carry a root of code TG_ERROR_NEVER_WRITTEN until something writes them. Otherwise they are undefined
/// but readable.
pub const TG_DEVICE_TRACK_UNINITIALIZED: u64 = 1 << 1;
/// Gives each buffer a VkBuffer of its own, so that the driver's robustness keeps a kernel that runs past its slice
/// inside its buffer. Costs memory and time for each buffer.
pub const TG_DEVICE_ISOLATE_BUFFERS: u64 = 1 << 2;
/// As if every kernel had TG_KERNEL_TRUSTED.
pub const TG_DEVICE_TRUST_SHADERS: u64 = 1 << 3;
/// For tests: as if the device had no VK_KHR_synchronization2.
pub const TG_DEVICE_NO_SYNCHRONIZATION2: u64 = 1 << 8;
/// For tests: as if the device had no VK_KHR_push_descriptor.
pub const TG_DEVICE_NO_PUSH_DESCRIPTORS: u64 = 1 << 9;
/// For tests: as if the device had no VK_EXT_robustness2.
pub const TG_DEVICE_NO_ROBUSTNESS2: u64 = 1 << 10;

const FLAGS: u64 = TG_DEVICE_VALIDATION
    | TG_DEVICE_TRACK_UNINITIALIZED
    | TG_DEVICE_ISOLATE_BUFFERS
    | TG_DEVICE_TRUST_SHADERS
    | TG_DEVICE_NO_SYNCHRONIZATION2
    | TG_DEVICE_NO_PUSH_DESCRIPTORS
    | TG_DEVICE_NO_ROBUSTNESS2;

/// Any function, as vkGetInstanceProcAddr is cast to it and the library casts it back.
#[allow(non_camel_case_types)]
pub type tg_proc = Option<unsafe extern "C" fn()>;

/// What a new device is to be. Zero in every member but `struct_size` is a device with the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_device_desc {
    /// sizeof(tg_device_desc).
    pub struct_size: usize,
    /// Which of the four criteria below hold: TG_SELECT_* added together, every one of which must match. 0: the best
    /// device there is (discrete before integrated before the rest), or the one that the environment variable
    /// TIDEGATE_DEVICE names by index or by a part of its name.
    pub select: u32,
    /// With TG_SELECT_INDEX: the index.
    pub index: u32,
    /// With TG_SELECT_NAME: a part of the name, 1 to 255 bytes.
    pub name: tg_str,
    /// With TG_SELECT_UUID: VkPhysicalDeviceIDProperties::deviceUUID.
    pub uuid: [u8; 16],
    /// With TG_SELECT_TYPE: one of TG_DEVICE_TYPE_*.
    pub r#type: u32,
    /// One of TG_SCHEDULING_*; 0 is TG_SCHEDULING_EVENT.
    pub scheduling: u32,
    /// TG_DEVICE_* added together.
    pub flags: u64,
    /// Streams that the ids of the caller fold onto, 1 to 1024; 0: 8. An id below it is its own slot.
    pub slots: u32,
    /// Launches after which a slot flushes by itself, 1 to 1048576; 0: 1024.
    pub max_recorded: u32,
    /// Unfinished pieces of work at the most, 1 to 16777216; 0: 65536. A call that would add one more waits, or answers
    /// TG_NOT_READY where only a semaphore of the caller's could let some finish (tg_vk_stream_wait_semaphore). What was
    /// enqueued behind an unfinished piece may count for a while after it is finished. Work that is skipped never
    /// waits.
    pub max_pending: u32,
    /// With a scheduler: tasks that are queued before everything is flushed by itself, 1 to 1048576; 0: 256.
    pub max_tasks: u32,
    /// Bytes of device memory at the most; 0: what the driver's budget, else the heap, allows. Buffers leave a sixteenth of
    /// it, or 16 MiB where that is less, to what goes up and as much to what comes down, so that a full device can still
    /// be written and read, up to that size at a time. Who finds it all in use waits for it, or answers TG_NOT_READY where
    /// only a semaphore of the caller's could give some back.
    pub memory_cap: u64,
    /// Bytes of staging memory that writes and reads go through, up to 2^32; 0: 67108864.
    pub staging_size: u64,
    /// Where events go, or NULL.
    pub log: tg_log_fn,
    /// Handed to `log` as it is.
    pub log_user_data: *mut c_void,
    /// Frees `log_user_data`, or NULL. Runs once unless tg_device_create returns a misuse: when the device and every
    /// call that used it are gone, or before tg_device_create returns a failure.
    pub log_finalizer: tg_finalizer_fn,
    /// The least urgent level that `log` wants, one of TG_LOG_*; 0 is TG_LOG_INFO.
    pub log_level: u32,
    /// Must be 0.
    pub reserved: u32,
    /// The caller's vkGetInstanceProcAddr, cast to tg_proc; NULL: the system's loader is opened. It must stay loaded
    /// as long as the device.
    pub get_instance_proc_addr: tg_proc,
    /// The name of the device in the lines that the environment variable TIDEGATE_LOG puts on stderr; cut at 128
    /// bytes.
    pub label: tg_str,
}

/// Memory of one kind, in bytes. Never grows.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_memory_usage {
    /// Taken from Vulkan.
    pub reserved: u64,
    /// Of live blocks.
    pub used: u64,
    /// The most `used` ever was.
    pub peak: u64,
    /// The largest block that fits without taking a page.
    pub largest_free: u64,
}

/// The memory of a device.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_memory_info {
    /// sizeof(tg_memory_info).
    pub struct_size: usize,
    /// TG_MEMORY_DEVICE.
    pub device: tg_memory_usage,
    /// TG_MEMORY_UPLOAD.
    pub upload: tg_memory_usage,
    /// TG_MEMORY_READBACK.
    pub readback: tg_memory_usage,
}

versioned!(tg_device_desc to struct_size, tg_memory_info to device);

/// Where the descriptor's numbers end; beyond are values nobody means.
const MOST_SLOTS: u32 = 1024;
const MOST_RECORDED: u32 = 1 << 20;
const MOST_PENDING: u32 = 1 << 24;
const MOST_STAGING: u64 = 1 << 32;

/// Makes a device.
///
/// Opens Vulkan, chooses a device and sets it up. Nothing of Vulkan is needed to build or start a program: a machine
/// without a loader, driver or device gives a failure here, and tg_last_report says what was looked for.
///
/// \param desc What it is to be; must not be NULL.
/// \param out The device; the null handle unless TG_OK is returned. Must not be NULL.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NO_DEVICE when no device matches or none of those that match
///          can be used; TG_ERROR_INITIALIZATION_FAILED when loader, instance or device cannot be set up, when one of
///          them lacks an entry point, or when the process is ending or was forked while it had a device;
///          TG_ERROR_UNSUPPORTED when validation is asked for and not installed, or the device has no memory that fits;
///          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DEVICE_LOST, TG_ERROR_DRIVER as the
///          driver says; TG_ERROR_LIMIT_EXCEEDED after 1048575 devices in one process: handles are never reused.
/// \threadsafety Any thread.
/// \claims Nothing: there is no byte yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_device_create(desc: *const tg_device_desc, out: *mut tg_device) -> tg_result {
    call("tg_device_create", || {
        // SAFETY: the header asks for NULL or a writable handle.
        let out = unsafe { Out::new(out, "out") }?.preset(tg_device::NULL);
        // SAFETY: the header asks for NULL or a struct that begins with its size, and for strings that are what they
        // say.
        out.set(unsafe { create(desc) }?);
        Ok(())
    })
}

/// # Safety
/// As [`structs::read`], and the strings of the descriptor are what they say.
unsafe fn create(desc: *const tg_device_desc) -> Result<tg_device> {
    // SAFETY: the same contract.
    let desc = unsafe { structs::read(desc, "desc") }?;
    reserved(desc.reserved, "desc.reserved")?;
    let flags = flags(desc.flags, FLAGS, "desc.flags")?;
    let settings = Settings {
        slots: number(desc.slots, MOST_SLOTS, Settings::default().slots, "desc.slots")?,
        scheduling: match desc.scheduling {
            TG_SCHEDULING_EVENT => Scheduling::Event,
            TG_SCHEDULING_INTERLEAVE => Scheduling::Interleave,
            TG_SCHEDULING_SEQUENCE => Scheduling::Sequence,
            other => return Err(misuse("desc.scheduling", format_args!("{other} is no scheduling"))),
        },
        max_tasks: number(desc.max_tasks, MOST_RECORDED, Settings::default().max_tasks, "desc.max_tasks")?,
        max_recorded: number(desc.max_recorded, MOST_RECORDED, Settings::default().max_recorded, "desc.max_recorded")?,
        max_pending: number(desc.max_pending, MOST_PENDING, Settings::default().max_pending, "desc.max_pending")?,
        memory_cap: desc.memory_cap,
        staging_size: number(desc.staging_size, MOST_STAGING, Settings::default().staging_size, "desc.staging_size")?,
        track_uninitialized: flags & TG_DEVICE_TRACK_UNINITIALIZED != 0,
        isolate_buffers: flags & TG_DEVICE_ISOLATE_BUFFERS != 0,
    };
    // SAFETY: the contract covers the descriptor's strings.
    let (name, label) = unsafe {
        (strings::read::<TG_NAME_CAPACITY>(desc.name, "desc.name")?, strings::read::<LABEL>(desc.label, "desc.label")?)
    };
    let options = runtime::options(&desc, flags, name.as_str())?;
    let sink = Sink::new(desc.log, desc.log_user_data, desc.log_finalizer, desc.log_level, label.as_str())?;
    // Every argument is in order: from here on there are only failures, and the caller's log data is ours to free.
    let dispatch = sink.dispatch();
    devices::add(|| runtime::create(options, settings, dispatch))
}

/// A number of the descriptor's: 0 is the default.
fn number<T: Copy + PartialOrd + Default + std::fmt::Display>(
    given: T,
    most: T,
    default: T,
    field: &'static str,
) -> Result<T> {
    if given > most {
        return Err(misuse(field, format_args!("{given} is more than {most}")));
    }
    Ok(if given == T::default() { default } else { given })
}

/// Destroys a device and everything on it.
///
/// Waits for its work, or for its loss; then frees everything, tells the log what was alive by label, and turns the
/// handle and every child of it stale. When the time is up first, nothing has changed and the device can be used. A
/// report outlives its device.
///
/// A device that is lost, or whose waits and counters fail, is destroyed when its queues are idle. If nothing tells that
/// they are before the time is up, or within ten seconds, the device is parked: the handle is stale and the answer TG_OK,
/// but what the device may be working on stays until the process ends, and the log is told.
///
/// \param dev The device; the null handle is fine and does nothing.
/// \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER.
/// \returns TG_OK; TG_TIMEOUT; TG_ERROR_WRONG_STATE inside a log callback; TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread. Calls that other threads are in finish first, within the timeout; calls that begin once the
///         work is over answer TG_ERROR_STALE_HANDLE, until the device is gone or TG_TIMEOUT gives it back.
/// \claims Releases everything: no byte is left to claim.
#[unsafe(no_mangle)]
pub extern "C" fn tg_device_destroy(dev: tg_device, timeout_ns: u64) -> tg_result {
    call("tg_device_destroy", || {
        if dev == tg_device::NULL {
            return Ok(());
        }
        devices::close(dev, timeout_ns)
    })
}

/// Tells what a device is and what it can do.
///
/// \param dev The device.
/// \param out Filled on TG_OK, up to its struct_size.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_device_get_info(dev: tg_device, out: *mut tg_device_info) -> tg_result {
    on_device("tg_device_get_info", dev, |device| {
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let out = unsafe { Info::new(out, "out") }?;
        out.fill(runtime::info(device));
        Ok(())
    })
}

/// Tells whether a device can be used, without waiting.
///
/// \param dev The device.
/// \returns TG_OK; TG_ERROR_DEVICE_LOST when a loss is known; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
///          TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub extern "C" fn tg_device_status(dev: tg_device) -> tg_result {
    on_device("tg_device_status", dev, |device| device.status())
}

/// Flushes every stream and waits until everything enqueued before has completed.
///
/// Says nothing about claims: work that was skipped or failed is as complete as any other (tg_check_written).
///
/// \param dev The device.
/// \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER.
/// \returns TG_OK; TG_TIMEOUT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE;
///          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER when the driver refuses work;
///          TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread. Holds no other thread up.
/// \claims Nothing of its own. Work that a flush cannot hand to the driver claims what it was to write.
#[unsafe(no_mangle)]
pub extern "C" fn tg_device_wait(dev: tg_device, timeout_ns: u64) -> tg_result {
    on_device("tg_device_wait", dev, |device| device.wait(timeout_ns))
}

/// Gives memory that no block uses back to Vulkan.
///
/// Idle pages go back by themselves, all but one of each kind: of device, upload and readback memory, the last one that
/// small buffers share, that larger ones share, and that one buffer had to itself. Staging for writes stays for a while.
/// This function gives the rest back too, and lets go of the copies that reads which timed out left.
///
/// \param dev The device.
/// \param freed The bytes given back; may be NULL. Written on TG_OK only.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE;
///          TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread.
/// \claims Nothing. Whatever still claimed bytes of those pages is released with them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_device_trim(dev: tg_device, freed: *mut u64) -> tg_result {
    on_device("tg_device_trim", dev, |device| {
        let freed = match freed.is_null() {
            true => None,
            // SAFETY: the header asks for NULL or a writable uint64_t.
            false => Some(unsafe { Out::new(freed, "freed") }?),
        };
        let bytes = device.trim()?;
        if let Some(freed) = freed {
            freed.set(bytes);
        }
        Ok(())
    })
}

/// Tells how much memory a device has and uses.
///
/// \param dev The device.
/// \param out Filled on TG_OK, up to its struct_size; every number is in bytes.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_device_memory_stats(dev: tg_device, out: *mut tg_memory_info) -> tg_result {
    on_device("tg_device_memory_stats", dev, |device| {
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let out = unsafe { Info::new(out, "out") }?;
        let stats = device.memory_stats();
        let usage = |kind: usize| tg_memory_usage {
            reserved: stats.reserved[kind],
            used: stats.used[kind],
            peak: stats.peak[kind],
            largest_free: stats.largest_free[kind],
        };
        out.fill(tg_memory_info { struct_size: 0, device: usage(0), upload: usage(1), readback: usage(2) });
        Ok(())
    })
}

/// Counts the roots that are alive on a device, without waiting.
///
/// A root lives as long as something carries it: claimed bytes, an unallocated buffer, a broken kernel, an open
/// scope. A program that destroys everything it made is left with 0.
///
/// \param dev The device.
/// \param out The count. Written on TG_OK only.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_device_failure_count(dev: tg_device, out: *mut u64) -> tg_result {
    on_device("tg_device_failure_count", dev, |device| {
        // SAFETY: the header asks for NULL or a writable uint64_t.
        let out = unsafe { Out::new(out, "out") }?;
        out.set(device.failure_count());
        Ok(())
    })
}

/// Makes a report on every root that is alive on a device, without waiting. It asks about no byte, so the code of the
/// report is TG_OK, whatever roots it has.
///
/// A long report is taken in pieces, between which calls of other threads go on. It tells every root that there was when
/// the call began and that there still is, and every claim of those that stayed as it was. A claim that another thread
/// makes or releases meanwhile is told or not.
///
/// \param dev The device.
/// \param out The report; the caller releases it. The null handle unless TG_OK is returned.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE;
///          TG_ERROR_LIMIT_EXCEEDED when a million reports are not released.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_device_report(dev: tg_device, out: *mut tg_report) -> tg_result {
    // SAFETY: the header asks for NULL or a writable handle.
    unsafe {
        making("tg_device_report", dev, out, tg_report::NULL, |device, made| {
            *made = reports::add(device.report_device(), "")?;
            Ok(())
        })
    }
}

/// Lists every claimed range on a device, buffer by buffer, ascending in each, without waiting.
///
/// \param dev The device.
/// \param out An array to fill; may be NULL when capacity is 0.
/// \param capacity Its elements. 0 asks for the count only.
/// \param count How many there are, whatever fits. Must not be NULL. Written on TG_OK and TG_INCOMPLETE.
/// \returns TG_OK; TG_INCOMPLETE when capacity is neither 0 nor enough; TG_ERROR_INVALID_ARGUMENT;
///          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE; TG_ERROR_OUT_OF_HOST_MEMORY.
/// \threadsafety Any thread. The list is true at one moment of the call.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_device_claims(
    dev: tg_device,
    out: *mut tg_claim,
    capacity: usize,
    count: *mut usize,
) -> tg_result {
    on_device("tg_device_claims", dev, |device| {
        // SAFETY: the header asks for NULL or a writable size_t.
        let count = unsafe { Out::new(count, "count") }?;
        // SAFETY: the header asks for an array of `capacity` elements.
        let out = unsafe { array_mut(out, capacity, "out") }?;
        let none = DeviceClaim {
            buffer: Handle::default(),
            claim: Claim { offset: 0, size: 0, failure: 0, failures: 0, more: false },
        };
        let mut found = structs::buffer(none, capacity)?;
        let total = device.device_claims(&mut found)?;
        for (to, from) in out.iter_mut().zip(&found[..total.min(capacity)]) {
            *to = tg_claim::new(from.buffer, &from.claim);
        }
        count.set(total);
        listed(total, capacity)
    })
}
