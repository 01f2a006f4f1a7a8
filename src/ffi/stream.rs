//! Streams: flushed and waited for. They are ids, not objects, so nothing makes or destroys them.

use super::boundary::on_device;
use super::results::tg_result;
use super::slices::tg_device;

/// Hands everything enqueued on a stream to the driver, and what it depends on, without waiting.
///
/// Waits, reads and the slot itself (after max_recorded launches) flush too; this is for work that is to begin now.
/// A stream that nothing was enqueued on is flushed already.
///
/// \param dev The device.
/// \param stream The stream; any number.
/// \returns TG_OK; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE for dev;
///          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER when the driver refuses the
///          work; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread.
/// \claims Success releases nothing. The driver takes or refuses a submission as a whole. A submission holds the work that
///         a stream enqueued between two flushes; with a scheduler, the queued work of several streams. If the driver
///         refuses it, each piece of work in it is a failure, as if that had been known when it was enqueued.
#[unsafe(no_mangle)]
pub extern "C" fn tg_stream_flush(dev: tg_device, stream: u64) -> tg_result {
    on_device("tg_stream_flush", dev, |device| device.stream_flush(stream))
}

/// Flushes a stream and waits until everything enqueued on it before has completed.
///
/// Says nothing about claims: work that was skipped or failed is as complete as any other (tg_check_written).
///
/// \param dev The device.
/// \param stream The stream; any number.
/// \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
/// \returns TG_OK; TG_TIMEOUT; otherwise as tg_stream_flush.
/// \threadsafety Any thread. Holds no other thread up.
/// \claims As tg_stream_flush.
#[unsafe(no_mangle)]
pub extern "C" fn tg_stream_wait(dev: tg_device, stream: u64, timeout_ns: u64) -> tg_result {
    on_device("tg_stream_wait", dev, |device| device.stream_wait(stream, timeout_ns))
}
