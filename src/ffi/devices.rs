//! The devices that are alive, by serial. A serial is never used again, so a handle that outlives its device can be
//! told from every later one.
//!
//! Every call passes here twice, from whatever thread: it enters the device by one atomic addition and leaves it by
//! another, and no lock is shared with calls on other devices or with each other.

use super::boundary::is_inside;
use super::process as system;
use super::reports;
use super::runtime::Device;
use super::slices::tg_device;
use crate::code::Code;
use crate::device::FOREVER;
use crate::error::{Error, Fault, Result};
use crate::memory::handle::{FIELD_BITS, wrong_kind};
use crate::memory::{Handle, HandleKind};
use crate::process::{self, Opened};
use parking_lot::lock_api::RawMutex as _;
use parking_lot::{Mutex, RawMutex};
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
    /// The epoch of the process that the device can be used in; 0 when there is none.
    epoch: AtomicU32,
    device: UnsafeCell<Option<Open>>,
}

/// A device, and that Vulkan is open for it: in this order they go.
struct Open {
    device: Box<Device>,
    _opened: Opened,
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

/// The last serial that was given to a device.
static LAST: Mutex<u32> = Mutex::new(0);

/// A call is in the device: until this is dropped the device stays.
pub(super) struct Entered(&'static Entry);

impl Deref for Entered {
    type Target = Device;

    fn deref(&self) -> &Device {
        // SAFETY: this call entered, so the entry was open, and it is not changed before the call has left.
        match unsafe { &*self.0.device.get() } {
            Some(open) => &open.device,
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
        // Before anything is touched: what a fork left behind may be in any state.
        if self.epoch.load(Ordering::Relaxed) != process::epoch() {
            return None;
        }
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
        named if handle(named.serial()) == dev && is_left_alone(named.serial()) => left_alone(),
        _ => stale(),
    }
}

/// Whether there is a device, but of a process that was forked, or of one that is ending.
fn is_left_alone(serial: u32) -> bool {
    let epoch = entry(serial).map_or(0, |entry| entry.epoch.load(Ordering::Relaxed));
    epoch != 0 && epoch != process::epoch()
}

fn left_alone() -> Error {
    let why = match process::is_ending() {
        true => format_args!("the process is ending"),
        false => format_args!("the device belongs to the process that this one was forked from"),
    };
    Error::misuse(Code::WrongState, "dev", why)
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

/// Opens something of Vulkan, unless the process is in no state for it.
pub(super) fn opening<T>(open: impl FnOnce() -> Result<T>) -> Result<T> {
    system::watch_forks(system::Hooks {
        lock: lock_for_a_child,
        unlock: unlock_for_a_child,
        renew: renew_in_a_child,
        end,
    });
    if let Some(why) = process::refusal() {
        return Err(Fault::new(Code::InitializationFailed, why).into());
    }
    let _opened = Opened::begin();
    open()
}

/// Makes a device, and gives it a new serial once nothing can fail any more. Nothing is locked meanwhile.
pub(super) fn add<F: FnOnce(u32) -> Device>(make: impl FnOnce() -> Result<F>) -> Result<tg_device> {
    opening(|| {
        let epoch = process::epoch();
        let number = make()?;
        system::watch_exit();
        let (serial, entry) = next_entry(&mut LAST.lock())?;
        let device = Box::new(number(serial));
        // SAFETY: the serial is new and its entry closed, so nobody else touches this.
        unsafe { *entry.device.get() = Some(Open { device, _opened: Opened::begin() }) };
        entry.epoch.store(epoch, Ordering::Relaxed);
        entry.calls.fetch_and(!CLOSED, Ordering::Release);
        Ok(handle(serial))
    })
}

/// The entry of a serial that nothing had before.
fn next_entry(last: &mut u32) -> Result<(u32, &'static Entry)> {
    let mut serial = *last;
    next_serial(&mut serial)?;
    let Some((chunk, _)) = place(serial) else { return Err(stale()) };
    if CHUNKS[chunk].get().is_none() {
        let size = 1_usize << chunk;
        let mut entries = Vec::new();
        entries.try_reserve_exact(size).map_err(|_| Fault::new(Code::OutOfHostMemory, "no room for another device"))?;
        let closed =
            || Entry { calls: AtomicU32::new(CLOSED), epoch: AtomicU32::new(0), device: UnsafeCell::new(None) };
        entries.resize_with(size, closed);
        let _ = CHUNKS[chunk].set(entries.into_boxed_slice());
    }
    *last = serial;
    entry(serial).map(|entry| (serial, entry)).ok_or_else(stale)
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
            break device.as_mut().map_or(Ok(()), |open| open.device.close(left()));
        }
        if left() == 0 || process::is_ending() {
            break Err(Error::Timeout);
        }
        std::thread::sleep(LOOK);
    };
    if answer.is_err() {
        entry.calls.fetch_and(!CLOSED, Ordering::Release);
        return answer;
    }
    entry.epoch.store(0, Ordering::Relaxed);
    // SAFETY: as above; the entry stays closed for ever.
    let device = unsafe { (*entry.device.get()).take() };
    // Frees the device and runs the caller's finalizer.
    drop(device);
    Ok(())
}

/// A child has the locks that were taken at the fork, and no thread that would give them back.
fn lock_for_a_child() {
    std::mem::forget(LAST.lock());
    reports::lock_for_a_child();
}

fn unlock_for_a_child() {
    reports::unlock_for_a_child();
    // SAFETY: the thread that forks took it right before, and its guard is gone.
    unsafe { LAST.force_unlock() };
}

fn renew_in_a_child() {
    reports::renew_in_a_child();
    // SAFETY: as for the lock of the reports.
    unsafe { std::ptr::from_ref(LAST.raw()).cast_mut().write(RawMutex::INIT) };
}

/// How long the end of the process waits for calls to leave, and for work that gets no further.
const PATIENCE: Duration = Duration::from_secs(2);

/// The process ends: a driver that works on while its destructors run may crash, so what runs is waited for. No call
/// enters any more.
fn end(ended: u32) {
    let highest = LAST.try_lock_for(PATIENCE).map_or(0, |last| *last);
    let over = Instant::now() + PATIENCE;
    // A thread that ends the process from inside a call leaves it no more.
    let wait_while = |is_busy: &dyn Fn() -> bool| {
        while is_busy() && !is_inside() && Instant::now() < over {
            std::thread::sleep(LOOK);
        }
    };
    let mut open = 0;
    for entry in (1..=highest).filter_map(entry).filter(|entry| entry.epoch.load(Ordering::Relaxed) == ended) {
        open += 1;
        wait_while(&|| entry.calls.load(Ordering::Acquire) & !CLOSED != 0);
        // Entered as any call would, against a thread that destroys the device just now.
        let entered = Entered(entry);
        if entry.calls.fetch_add(1, Ordering::Acquire) & CLOSED == 0 {
            entered.wind_down(PATIENCE);
        }
    }
    // Devices that are made or destroyed just now.
    wait_while(&|| process::open() > open);
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
