//! The devices that are alive, by serial. A serial is never used again, so a handle that outlives its device can be
//! told from every later one.

use super::boundary::is_inside;
use super::runtime::Device;
use super::slices::tg_device;
use crate::code::Code;
use crate::device::FOREVER;
use crate::error::{Error, Fault, Result};
use crate::memory::handle::wrong_kind;
use crate::memory::{Handle, HandleKind};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Devices {
    alive: BTreeMap<u32, Arc<Device>>,
    last: u32,
}

/// The lock is held for the look-up only, never during a call on a device.
static DEVICES: RwLock<Devices> = RwLock::new(Devices { alive: BTreeMap::new(), last: 0 });

/// The largest serial a handle has room for.
const MOST: u32 = (1 << crate::memory::handle::FIELD_BITS) - 1;

/// The handle of a device has no slot and no generation.
fn handle(serial: u32) -> tg_device {
    Handle::new(HandleKind::Device, serial, 0, 0).into()
}

/// The serial a handle claims to have, whether or not there is such a device.
pub(super) fn serial(dev: tg_device) -> u32 {
    Handle::from(dev).serial()
}

/// The device of a handle: null, wrong kind and stale are told apart, in this order. No device is foreign.
pub(super) fn get(dev: tg_device) -> Result<Arc<Device>> {
    let alive = by_serial(serial(dev)).filter(|_| handle(serial(dev)) == dev);
    alive.ok_or_else(|| match Handle::from(dev) {
        handle if handle.is_null() => Error::misuse(Code::NullHandle, "dev", format_args!("the handle is null")),
        handle if handle.kind_bits() != HandleKind::Device as u8 => wrong_kind(handle, HandleKind::Device, "dev"),
        _ => stale(),
    })
}

fn stale() -> Error {
    Error::misuse(Code::StaleHandle, "dev", format_args!("the device was destroyed"))
}

/// The device of a serial, if it is alive.
pub(super) fn by_serial(serial: u32) -> Option<Arc<Device>> {
    DEVICES.read().alive.get(&serial).cloned()
}

/// Makes a device under a new serial. Nothing is locked meanwhile.
pub(super) fn add(make: impl FnOnce(u32) -> Result<Device>) -> Result<tg_device> {
    let serial = next_serial(&mut DEVICES.write().last)?;
    let device = Arc::new(make(serial)?);
    DEVICES.write().alive.insert(serial, device);
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

/// Closes a device and forgets it. Its memory must not go while any call is still in it, so it is taken from the table
/// first, and closed when this is the last reference: the borrow says so. With `Timeout` it is there again.
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
    // Of two threads that destroy it, one finds it gone.
    let taken = DEVICES.write().alive.remove(&serial(dev));
    let mut device = taken.ok_or_else(stale)?;
    let answer = loop {
        match Arc::get_mut(&mut device) {
            Some(alone) => break alone.close(left()),
            None if left() == 0 => break Err(Error::Timeout),
            None => std::thread::sleep(LOOK),
        }
    };
    if answer.is_err() {
        DEVICES.write().alive.insert(serial(dev), device);
    }
    // Otherwise this was the last reference: it frees the device and runs the caller's finalizer, outside the lock.
    answer
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
