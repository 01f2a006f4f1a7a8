//! Asynchronous reads: begun, asked about, and kept until they are released.

use super::boundary::{making, on_device};
use super::reports;
use super::results::tg_result;
use super::slices::{tg_device, tg_read, tg_report, tg_slice};
use super::structs::Out;
use std::ffi::c_void;

/// Begins to read a slice, in the order of a stream, and returns at once.
///
/// The bytes are copied on the device behind everything enqueued on them before, and it is that copy that is read:
/// what becomes of the source afterwards, rewritten, destroyed or its memory used again, does not matter. The work is
/// submitted by the call. tg_read_poll, tg_read_wait and tg_read_data tell when it is over and whether it went well.
///
/// \param dev The device.
/// \param stream The stream.
/// \param src The bytes to read. A size of 0 gives a read that is over and has no bytes.
/// \param out The read; the caller releases it. Live on TG_OK and on every failure (TG_IS_TRACKED), which is then what
///        the read's own answer names; otherwise null. Must not be NULL. (One failure has no handle to give:
///        TG_ERROR_LIMIT_EXCEEDED, beyond 1048576 live reads.)
/// \returns TG_OK, also when bytes of src are claimed: that is the read's answer; TG_NOT_READY: max_pending pieces of
///          work are unfinished, or memory is full of what is being written and read; the call would have had to wait
///          for the device, and nothing changed;
///          TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
///          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE while an open scope or mapping holds
///          the bytes; TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER;
///          TG_ERROR_LIMIT_EXCEEDED; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread. Calls on one stream from several threads are in the order the device sees them.
/// \claims Nothing of the device's. A failure claims the bytes of the read, by a root of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_read_begin(dev: tg_device, stream: u64, src: tg_slice, out: *mut tg_read) -> tg_result {
    // SAFETY: the header asks for NULL or a writable handle.
    unsafe {
        making("tg_read_begin", dev, out, tg_read::NULL, |device, made| {
            let (read, result) = device.read_begin(stream, src.into());
            *made = read.into();
            result
        })
    }
}

/// Tells whether a read is over, without waiting.
///
/// A read that is over stays over: a device lost afterwards takes nothing from it. It is over when this function, or a wait
/// for the read, for its stream or for the device, has found it so; tg_stream_wait and tg_device_wait fetch the bytes of
/// every read that they find over.
///
/// \param dev The device.
/// \param read The read.
/// \returns TG_OK: its bytes are there, tg_read_data gives them; TG_NOT_READY: not over yet; TG_ERROR_UNWRITTEN: some
///          byte of it was last to be written by work that did not succeed, tg_read_report names the roots;
///          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
///          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_DRIVER when the bytes cannot be fetched: ask again. A device lost
///          before the read was over is TG_ERROR_UNWRITTEN, with the loss as root.
/// \threadsafety Any thread.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub extern "C" fn tg_read_poll(dev: tg_device, read: tg_read) -> tg_result {
    on_device("tg_read_poll", dev, |device| device.read_poll(read.into()))
}

/// Waits until a read is over.
///
/// \param dev The device.
/// \param read The read.
/// \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
/// \returns TG_OK; TG_TIMEOUT: not over yet, ask again; otherwise as tg_read_poll.
/// \threadsafety Any thread, several at once too. Holds no other thread up.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub extern "C" fn tg_read_wait(dev: tg_device, read: tg_read, timeout_ns: u64) -> tg_result {
    on_device("tg_read_wait", dev, |device| device.read_wait(read.into(), timeout_ns))
}

/// Gives the bytes of a read that is over and went well; otherwise answers as tg_read_poll.
///
/// \param dev The device.
/// \param read The read.
/// \param data The bytes, borrowed until tg_read_release or the end of the device; NULL for a read of 0 bytes. Written
///        on TG_OK only. Must not be NULL.
/// \param size How many there are: the size of the slice. Written on TG_OK only. May be NULL.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; otherwise as tg_read_poll.
/// \threadsafety Any thread. No thread may release the read while another uses its bytes.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_read_data(
    dev: tg_device,
    read: tg_read,
    data: *mut *const c_void,
    size: *mut usize,
) -> tg_result {
    on_device("tg_read_data", dev, |device| {
        // SAFETY: the header asks for a writable pointer.
        let data = unsafe { Out::new(data, "data") }?;
        let size = match size.is_null() {
            true => None,
            // SAFETY: the header asks for NULL or a writable size_t.
            false => Some(unsafe { Out::new(size, "size") }?),
        };
        // The device keeps them until the release: what is lent outlives this reference to it.
        let bytes = device.read_data(read.into())?;
        data.set(if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr().cast() });
        if let Some(size) = size {
            size.set(bytes.len());
        }
        Ok(())
    })
}

/// Makes a report on the roots that claim bytes of a read, with their paths to its source, as far as is known without
/// waiting. Nothing is in it for a read that went well.
///
/// \param dev The device.
/// \param read The read.
/// \param out The report; the caller releases it. The null handle unless TG_OK is returned. Must not be NULL.
/// \returns TG_OK, claimed or not; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
///          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_LIMIT_EXCEEDED when a million reports are not
///          released; TG_ERROR_OUT_OF_HOST_MEMORY.
/// \threadsafety Any thread.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_read_report(dev: tg_device, read: tg_read, out: *mut tg_report) -> tg_result {
    // SAFETY: the header asks for NULL or a writable handle.
    unsafe {
        making("tg_read_report", dev, out, tg_report::NULL, |device, made| {
            let report = device.read_report(read.into())?;
            *made = reports::add(report, "")?;
            Ok(())
        })
    }
}

/// Releases a read, over or not, and its bytes.
///
/// The handle is stale when the call returns. A copy still under way goes on, and nobody hears of it.
///
/// \param dev The device.
/// \param read The read; the null handle is fine and does nothing.
/// \returns TG_OK; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Releases every claim on the bytes of the read; a root that nothing else holds is gone.
#[unsafe(no_mangle)]
pub extern "C" fn tg_read_release(dev: tg_device, read: tg_read) -> tg_result {
    on_device("tg_read_release", dev, |device| device.read_release(read.into()))
}
