//! Events: recorded on a stream, waited for by the host or by another stream.

use super::boundary::on_device;
use super::results::tg_result;
use super::slices::{tg_device, tg_event};
use super::structs::{Out, array};
use crate::code::Kind;

/// Records an event on a stream: it is over when everything enqueued on the stream before the call is.
///
/// What the stream has so far is submitted. An event says when work is over, and nothing about claims: work that was
/// skipped, failed or was refused by the driver is as over as any other.
///
/// \param dev The device.
/// \param stream The stream; any number.
/// \param event The event. The null handle becomes a new event, which the caller destroys; a live one is recorded
///        again in place, and whoever waits already waits for what it was. Must not be NULL. Recorded on TG_OK and on
///        every failure (TG_IS_TRACKED); left as it was on misuse and on TG_ERROR_LIMIT_EXCEEDED.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND,
///          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_LIMIT_EXCEEDED beyond 1048576 live events;
///          otherwise as tg_stream_flush.
/// \threadsafety Any thread. Two threads that record one event: it is one of the two.
/// \claims As tg_stream_flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_event_record(dev: tg_device, stream: u64, event: *mut tg_event) -> tg_result {
    on_device("tg_event_record", dev, |device| {
        // SAFETY: the header asks for a handle that can be read.
        let given = unsafe { array(event.cast_const(), 1, "event") }?[0];
        // SAFETY: and that can be written, by nobody else.
        let out = unsafe { Out::new(event, "event") }?;
        let (recorded, result) = device.event_record(stream, given.into());
        if result.as_ref().err().is_none_or(|error| error.code().kind() != Kind::Misuse) {
            out.set(recorded.into());
        }
        result
    })
}

/// Waits until everything before an event is over.
///
/// \param dev The device.
/// \param event The event.
/// \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
/// \returns TG_OK; TG_TIMEOUT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE; TG_ERROR_DRIVER when waiting fails; TG_ERROR_DEVICE_LOST, also for an event that
///          was over before.
/// \threadsafety Any thread, several at once too. Holds no other thread up.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub extern "C" fn tg_event_wait(dev: tg_device, event: tg_event, timeout_ns: u64) -> tg_result {
    on_device("tg_event_wait", dev, |device| device.event_wait(event.into(), timeout_ns))
}

/// Tells whether everything before an event is over, without waiting.
///
/// \param dev The device.
/// \param event The event.
/// \returns TG_OK: over; TG_NOT_READY: not yet; otherwise as tg_event_wait: TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
///          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE, TG_ERROR_DRIVER, TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub extern "C" fn tg_event_status(dev: tg_device, event: tg_event) -> tg_result {
    on_device("tg_event_status", dev, |device| device.event_status(event.into()))
}

/// Makes what is enqueued on a stream from now on come after everything before an event.
///
/// The device waits; the call does not, and other streams go on (but those that share a backend stream with this one).
/// Work that shares bytes is ordered without it. It is for what the library is not told of: bytes bound as
/// TG_ACCESS_NONE, or reached without being bound.
///
/// \param dev The device.
/// \param stream The stream that waits; any number, the event's own too.
/// \param event The event. It may be destroyed or recorded again afterwards: what was asked for stands.
/// \returns TG_OK; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
///          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER when the backend stream cannot
///          be made, and then nothing is ordered; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub extern "C" fn tg_stream_wait_event(dev: tg_device, stream: u64, event: tg_event) -> tg_result {
    on_device("tg_stream_wait_event", dev, |device| device.stream_wait_event(stream, event.into()))
}

/// Destroys an event. Streams and threads that wait for it go on waiting.
///
/// \param dev The device.
/// \param event The event; the null handle is fine and does nothing.
/// \returns TG_OK; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub extern "C" fn tg_event_destroy(dev: tg_device, event: tg_event) -> tg_result {
    on_device("tg_event_destroy", dev, |device| device.event_destroy(event.into()))
}
