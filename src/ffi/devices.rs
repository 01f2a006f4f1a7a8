//! The devices that are alive, by serial. A serial is never used again, so a handle that outlives its device can be
//! told from every later one.
//!
//! Every call passes here twice, from whatever thread: it enters the device by one atomic addition and leaves it by
//! another, and no lock is shared with calls on other devices or with each other.

use super::boundary::is_inside;
use super::runtime::Device;
use super::slices::tg_device;
use crate::code::Code;
use crate::device::FOREVER;
use crate::error::{Error, Fault, Result};
use crate::memory::handle::{FIELD_BITS, wrong_kind};
use crate::memory::{Handle, HandleKind};
use parking_lot::Mutex;
use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What a serial stands for. It stays for the life of the process, so that a handle of any age can be looked up without
/// a lock; the device in it does not.
struct Entry {
    /// Calls that are in the device, and whether no other may enter.
    calls: AtomicU32,
    device: UnsafeCell<Option<Box<Device>>>,
}

/// Nobody may enter: there is no device yet, or none any more, or it is being closed.
const CLOSED: u32 = 1 << 31;

// SAFETY: the device is shared only by calls that entered, and a device can be shared between threads; it is changed
// only by whoever made `calls` equal to CLOSED, which is one at a time, with no call in it.
unsafe impl Sync for Entry {}
const _: fn() = || {
    fn is_shared_and_sent<T: Send + Sync>() {}
    is_shared_and_sent::<Device>();
};

/// Entries by serial, made when the first device of their chunk is; the n-th chunk has `2^n` of them.
static CHUNKS: [OnceLock<Box<[Entry]>>; FIELD_BITS as usize + 1] = [const { OnceLock::new() }; FIELD_BITS as usize + 1];

static LAST: Mutex<u32> = Mutex::new(0);

/// A call is in the device: until this is dropped the device stays.
pub(super) struct Entered(&'static Entry);

impl Deref for Entered {
    type Target = Device;

    fn deref(&self) -> &Device {
        // SAFETY: this call entered, so the entry was open, and it is not changed before the call has left.
        match unsafe { &*self.0.device.get() } {
            Some(device) => device,
            None => unreachable!("an open entry has a device"),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Release);
    }
}

impl Entry {
    fn enter(&'static self) -> Option<Entered> {
        let entered = Entered(self);
        // A call that comes too late is counted for a moment, and touches nothing.
        (self.calls.fetch_add(1, Ordering::Acquire) & CLOSED == 0).then_some(entered)
    }
}

/// The largest serial a handle has room for.
const MOST: u32 = (1 << FIELD_BITS) - 1;

/// The handle of a device has no slot and no generation.
fn handle(serial: u32) -> tg_device {
    Handle::new(HandleKind::Device, serial, 0, 0).into()
}

/// The serial a handle claims to have, whether or not there is such a device.
pub(super) fn serial(dev: tg_device) -> u32 {
    Handle::from(dev).serial()
}

/// Enters the device of a handle: null, wrong kind and stale are told apart, in this order. No device is foreign.
pub(super) fn get(dev: tg_device) -> Result<Entered> {
    let entered = if handle(serial(dev)) == dev { by_serial(serial(dev)) } else { None };
    entered.ok_or_else(|| why_not(dev))
}

#[cold]
fn why_not(dev: tg_device) -> Error {
    match Handle::from(dev) {
        handle if handle.is_null() => Error::misuse(Code::NullHandle, "dev", format_args!("the handle is null")),
        handle if handle.kind_bits() != HandleKind::Device as u8 => wrong_kind(handle, HandleKind::Device, "dev"),
        _ => stale(),
    }
}

fn stale() -> Error {
    Error::misuse(Code::StaleHandle, "dev", format_args!("the device was destroyed"))
}

/// Enters the device of a serial, if it is alive.
pub(super) fn by_serial(serial: u32) -> Option<Entered> {
    entry(serial)?.enter()
}

fn entry(serial: u32) -> Option<&'static Entry> {
    let (chunk, at) = place(serial)?;
    CHUNKS[chunk].get().map(|chunk| &chunk[at])
}

/// Serials begin at 1.
fn place(serial: u32) -> Option<(usize, usize)> {
    let chunk = serial.checked_ilog2()?;
    Some((chunk as usize, (serial - (1 << chunk)) as usize))
}

/// Makes a device under a new serial. Nothing is locked meanwhile.
pub(super) fn add(make: impl FnOnce(u32) -> Result<Device>) -> Result<tg_device> {
    let serial = next_serial(&mut LAST.lock())?;
    let device = Box::new(make(serial)?);
    let Some((chunk, at)) = place(serial) else { return Err(stale()) };
    let closed = |_| Entry { calls: AtomicU32::new(CLOSED), device: UnsafeCell::new(None) };
    let entry = &CHUNKS[chunk].get_or_init(|| (0..1_usize << chunk).map(closed).collect())[at];
    // SAFETY: the serial is new and its entry closed, so nobody else touches this.
    unsafe { *entry.device.get() = Some(device) };
    entry.calls.fetch_and(!CLOSED, Ordering::Release);
    Ok(handle(serial))
}

fn next_serial(last: &mut u32) -> Result<u32> {
    if *last == MOST {
        let message = format!("this process made {MOST} devices; no serial is left");
        return Err(Fault::new(Code::LimitExceeded, message).into());
    }
    *last += 1;
    Ok(*last)
}

/// How often it is looked whether other threads left the device.
const LOOK: Duration = Duration::from_micros(200);

/// Closes a device and forgets it. Its memory must not go while any call is still in it, so it lets nobody in first, and
/// is closed when the last call has left. With `Timeout` it is open again.
pub(super) fn close(dev: tg_device, timeout_ns: u64) -> Result {
    if is_inside() {
        let why = format_args!("a callback cannot destroy a device: the call that it is told of is still under way");
        return Err(Error::misuse(Code::WrongState, "dev", why));
    }
    let end = Duration::from_nanos(timeout_ns);
    let end = if timeout_ns == FOREVER { None } else { Instant::now().checked_add(end) };
    let left = || end.map_or(FOREVER, |end| end.saturating_duration_since(Instant::now()).as_nanos() as u64);
    // The device stays open during the part that may take long.
    if let Err(Error::Timeout) = get(dev)?.wait(timeout_ns) {
        return Err(Error::Timeout);
    }
    let entry = entry(serial(dev)).ok_or_else(stale)?;
    if entry.calls.fetch_or(CLOSED, Ordering::Relaxed) & CLOSED != 0 {
        // Of two threads that destroy it, one finds it gone.
        return Err(stale());
    }
    let answer = loop {
        if entry.calls.load(Ordering::Acquire) == CLOSED {
            // SAFETY: this thread closed the entry, and no call is in the device.
            let device = unsafe { &mut *entry.device.get() };
            break device.as_mut().map_or(Ok(()), |device| device.close(left()));
        }
        if left() == 0 {
            break Err(Error::Timeout);
        }
        std::thread::sleep(LOOK);
    };
    if answer.is_err() {
        entry.calls.fetch_and(!CLOSED, Ordering::Release);
        return answer;
    }
    // SAFETY: as above; the entry stays closed for ever.
    let device = unsafe { (*entry.device.get()).take() };
    // Frees the device and runs the caller's finalizer.
    drop(device);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_run_out_instead_of_coming_back() {
        let mut last = MOST - 1;
        assert_eq!(next_serial(&mut last), Ok(MOST));
        assert_eq!(next_serial(&mut last).map_err(|error| error.code()), Err(Code::LimitExceeded));
        assert_eq!(last, MOST);
    }

    #[test]
    fn handles_are_checked_in_order() {
        let code = |id| get(tg_device { id }).map(drop).map_err(|error| error.code());
        assert_eq!(code(0), Err(Code::NullHandle));
        assert_eq!(code(2 << 60), Err(Code::WrongKind));
        assert_eq!(code(1 << 60 | 77 << 40), Err(Code::StaleHandle));
        assert_eq!(code(1 << 60 | 77 << 40 | 1), Err(Code::StaleHandle));
    }
}
