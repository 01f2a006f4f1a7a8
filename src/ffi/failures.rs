//! Questions about claims, and claims that the caller sets and releases.

use super::boundary::on_device;
use super::results::tg_result;
use super::slices::{listed, slices, tg_buffer, tg_claim, tg_device, tg_slice};
use super::strings::{self, Given, LABEL, MESSAGE, tg_str};
use super::structs::{self, Out, array_mut, versioned};
use crate::device::{Claim, ErrorDesc};
use crate::error::Result;

/// A failure that the caller declares. Its roots have the code TG_ERROR_CALLER.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_error_desc {
    /// sizeof(tg_error_desc).
    pub struct_size: usize,
    /// A code of the caller's own, any number; reports show it as the tag of the root (its bits as uint64_t).
    pub code: i64,
    /// What happened, for a person; cut at 1024 bytes.
    pub message: tg_str,
    /// The name of what failed; cut at 128 bytes.
    pub label: tg_str,
}

versioned!(tg_error_desc to code);

/// What a descriptor says, its text repaired.
pub(super) struct Declared<'a> {
    code: i64,
    message: Given<'a, MESSAGE>,
    label: Given<'a, LABEL>,
}

impl Declared<'_> {
    /// In the words of the device.
    pub(super) fn desc(&self) -> ErrorDesc<'_> {
        ErrorDesc { code: self.code, message: self.message.as_str(), label: self.label.as_str() }
    }
}

/// # Safety
/// `error` is NULL or as the header says, and so are its strings for `'a`.
pub(super) unsafe fn declared<'a>(error: *const tg_error_desc) -> Result<Declared<'a>> {
    // SAFETY: the same contract.
    unsafe {
        let desc = structs::read(error, "error")?;
        Ok(Declared {
            code: desc.code,
            message: strings::read(desc.message, "error.message")?,
            label: strings::read(desc.label, "error.label")?,
        })
    }
}

/// Waits until the fate of some bytes is known, and tells whether every one was last written by work that succeeded.
///
/// The question a read answers, without the read.
///
/// \param dev The device.
/// \param slices The bytes; may be NULL when count is 0.
/// \param count Elements of slices. 0: TG_OK.
/// \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
/// \returns TG_OK: all written; TG_ERROR_UNWRITTEN: some byte is claimed, and tg_last_report names the roots;
///          TG_TIMEOUT; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer; TG_ERROR_NULL_HANDLE,
///          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_DRIVER when waiting fails.
///          What a lost device held is claimed: TG_ERROR_UNWRITTEN.
/// \threadsafety Any thread. Holds no other thread up.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_check_written(
    dev: tg_device,
    slices: *const tg_slice,
    count: usize,
    timeout_ns: u64,
) -> tg_result {
    on_device("tg_check_written", dev, |device| {
        // SAFETY: the header asks for an array of `count` elements.
        device.check_written(unsafe { self::slices(slices, count) }?, timeout_ns)
    })
}

/// Tells the oldest root that claims any of some bytes, as far as is known without waiting.
///
/// \param dev The device.
/// \param slices The bytes; may be NULL when count is 0.
/// \param count Elements of slices.
/// \param failure The id of the root; 0: clean so far, which work in flight may still change. Written on TG_OK only.
/// \returns TG_OK, claimed or not; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer;
///          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_first_failure(
    dev: tg_device,
    slices: *const tg_slice,
    count: usize,
    failure: *mut u64,
) -> tg_result {
    on_device("tg_first_failure", dev, |device| {
        // SAFETY: the header asks for NULL or a writable uint64_t, and for an array of `count` elements.
        let (failure, slices) = unsafe { (Out::new(failure, "failure")?, self::slices(slices, count)?) };
        failure.set(device.first_failure(slices)?);
        Ok(())
    })
}

/// Declares that some bytes are not what they should be: work of the caller's that was to write them failed.
///
/// In the order of the calls: work enqueued before sees the bytes as they were, work enqueued after is skipped.
///
/// \param dev The device.
/// \param slices The bytes; tokens too. May be NULL when count is 0.
/// \param count Elements of slices.
/// \param error What failed; must not be NULL.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer; TG_ERROR_NULL_HANDLE,
///          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE while an open
///          scope or mapping holds some of the bytes.
/// \threadsafety Any thread.
/// \claims Exactly the bytes of the slices, by one new root of code TG_ERROR_CALLER, which takes the place of older
///         ones. A buffer without memory has no bytes, and keeps its root (tg_fail_unallocated gives it another). No
///         bytes: no root.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_taint(
    dev: tg_device,
    slices: *const tg_slice,
    count: usize,
    error: *const tg_error_desc,
) -> tg_result {
    on_device("tg_taint", dev, |device| {
        // SAFETY: the header asks for an array of `count` elements, and for NULL or a struct that begins with its size.
        let (slices, error) = unsafe { (self::slices(slices, count)?, declared(error)?) };
        device.taint(slices, &error.desc()).map(drop)
    })
}

/// Declares that some bytes are what they should be: work of the caller's wrote every one of them.
///
/// In the order of the calls, as tg_taint.
///
/// \param dev The device.
/// \param slices The bytes; tokens too. May be NULL when count is 0.
/// \param count Elements of slices.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer; TG_ERROR_NULL_HANDLE,
///          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE while an open
///          scope or mapping holds some of the bytes.
/// \threadsafety Any thread.
/// \claims Releases exactly the bytes of the slices. A buffer without memory has no bytes, and keeps its root. While the
///         device is lost only tokens are released: its memory is claimed by the root of the loss.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_mark_written(dev: tg_device, slices: *const tg_slice, count: usize) -> tg_result {
    on_device("tg_mark_written", dev, |device| {
        // SAFETY: the header asks for an array of `count` elements.
        device.mark_written(unsafe { self::slices(slices, count) }?)
    })
}

/// Declares that what a buffer stands for could not be allocated: a token's own memory, or a buffer made with
/// TG_BUFFER_UNALLOCATED.
///
/// \param dev The device.
/// \param buffer The token, or the buffer without memory.
/// \param error Why; must not be NULL.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE for a buffer that has memory, and while an open scope
///          or mapping holds its bytes.
/// \threadsafety Any thread.
/// \claims The whole buffer, by a new root of code TG_ERROR_CALLER, which takes the place of older ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_fail_unallocated(
    dev: tg_device,
    buffer: tg_buffer,
    error: *const tg_error_desc,
) -> tg_result {
    on_device("tg_fail_unallocated", dev, |device| {
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let error = unsafe { declared(error) }?;
        device.fail_unallocated(buffer.into(), &error.desc()).map(drop)
    })
}

/// Lists the claimed parts of a slice, ascending, as far as is known without waiting.
///
/// \param dev The device.
/// \param slice The bytes.
/// \param out An array to fill; may be NULL when capacity is 0.
/// \param capacity Its elements. 0 asks for the count only.
/// \param count How many there are, whatever fits. Must not be NULL. Written on TG_OK and TG_INCOMPLETE.
/// \returns TG_OK; TG_INCOMPLETE when capacity is neither 0 nor enough; TG_ERROR_INVALID_ARGUMENT, also for a slice
///          beyond its buffer; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE; TG_ERROR_OUT_OF_HOST_MEMORY.
/// \threadsafety Any thread. The list is true at one moment of the call.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_claims(
    dev: tg_device,
    slice: tg_slice,
    out: *mut tg_claim,
    capacity: usize,
    count: *mut usize,
) -> tg_result {
    on_device("tg_claims", dev, |device| {
        // SAFETY: the header asks for NULL or a writable size_t, and for an array of `capacity` elements.
        let (count, out) = unsafe { (Out::new(count, "count")?, array_mut(out, capacity, "out")?) };
        let mut found = structs::buffer(Claim { offset: 0, size: 0, failure: 0, failures: 0, more: false }, capacity)?;
        let total = device.claims(slice.into(), &mut found)?;
        for (to, from) in out.iter_mut().zip(&found[..total.min(capacity)]) {
            *to = tg_claim::new(slice.buffer.into(), from);
        }
        count.set(total);
        listed(total, capacity)
    })
}
