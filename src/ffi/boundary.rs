//! The one way from C into the library and back: panics stop here, handles of devices are checked here, and every
//! answer is recorded here.

use super::devices;
use super::record::record;
use super::results::tg_result;
use super::runtime::{self, Device};
use super::slices::tg_device;
use super::structs::Out;
use crate::code::Code;
use crate::error::{Error, Fault, Result};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function that answers with a result.
pub(super) fn call(function: &'static str, body: impl FnOnce() -> Result) -> tg_result {
    answer(function, 0, body)
}

thread_local! { static CALLS: Cell<u32> = const { Cell::new(0) }; }

/// This thread is in a call on a device.
struct Inside;

impl Inside {
    fn enter() -> Inside {
        CALLS.set(CALLS.get() + 1);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        CALLS.set(CALLS.get() - 1);
    }
}

/// Whether this thread is in a call on a device already, or in the callback of whatever call.
pub(super) fn is_inside() -> bool {
    CALLS.get() > 0 || crate::log::is_telling()
}

/// Runs the body of a function on a device.
pub(super) fn on_device(function: &'static str, dev: tg_device, body: impl FnOnce(&Device) -> Result) -> tg_result {
    answer(function, devices::serial(dev), || {
        let _inside = Inside::enter();
        let device = devices::get(dev)?;
        // Not as one value: an error is large, and success would move it too.
        match body(&device) {
            Ok(()) => {
                runtime::after_call(&device);
                Ok(())
            }
            Err(error) => {
                runtime::after_call(&device);
                Err(error)
            }
        }
    })
}

/// Runs the body of a function on a device that hands out what it made, and hands out `null` if it made nothing.
///
/// # Safety
/// `out` is NULL or points to a writable `T` that nothing else uses.
pub(super) unsafe fn making<T: Copy>(
    function: &'static str,
    dev: tg_device,
    out: *mut T,
    null: T,
    body: impl FnOnce(&Device, &mut T) -> Result,
) -> tg_result {
    answer(function, devices::serial(dev), || {
        let _inside = Inside::enter();
        // SAFETY: the same contract.
        let out = unsafe { Out::new(out, "out") }.map(|out| out.preset(null));
        let device = devices::get(dev)?;
        let out = out?;
        let mut made = null;
        let result = body(&device, &mut made);
        runtime::after_call(&device);
        out.set(made);
        result
    })
}

/// Runs the body of a function that answers with something else than a result, and gives `otherwise` for a defect.
pub(super) fn value<T>(function: &'static str, otherwise: T, body: impl FnOnce() -> T) -> T {
    guarded(function, body).unwrap_or_else(|error| {
        record(function, 0, &error);
        otherwise
    })
}

fn answer(function: &'static str, device: u32, body: impl FnOnce() -> Result) -> tg_result {
    let told = |error: &Error| {
        record(function, device, error);
        error.code() as tg_result
    };
    // Recorded in here, so that what crosses the guard is a number: an error is large, and success would move it too.
    let guarded = guarded(function, || match body() {
        Ok(()) => Code::Ok as tg_result,
        Err(error) => told(&error),
    });
    guarded.unwrap_or_else(|defect| told(&defect))
}

/// Turns a panic into an error. Which file and line it came from only a hook could tell, and hooks belong to the whole
/// process; the function and the words of the panic are known without one.
fn guarded<T>(function: &'static str, body: impl FnOnce() -> T) -> std::result::Result<T, Box<Error>> {
    // A panic leaves nothing behind that is seen as valid: locks do not poison, and what a body was about to change is
    // claimed by the guards it passed on its way out.
    catch_unwind(AssertUnwindSafe(|| {
        #[cfg(test)]
        tests::panic_if_asked();
        body()
    }))
    .map_err(|payload| {
        let words = words(payload.as_ref());
        let fault = Fault::new(Code::Internal, format!("a defect of the library inside {function}: {words}"));
        // Whatever a panic carried, its destructor could panic again.
        std::mem::forget(payload);
        Box::new(Error::from(fault))
    })
}

fn words(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without words")
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::record::last;
    use super::*;

    thread_local! { static PANIC: Cell<bool> = const { Cell::new(false) }; }

    /// Makes the next body on this thread panic instead.
    pub(in super::super) fn panic_next() {
        PANIC.set(true);
    }

    pub(super) fn panic_if_asked() {
        if PANIC.take() {
            panic!("asked to");
        }
    }

    #[test]
    fn a_panic_becomes_a_result_that_says_what_is_known() {
        for payload in ["words", "more"] {
            let result = call("tg_test", || std::panic::panic_any(payload.to_owned()));
            assert_eq!(result, Code::Internal as tg_result);
            let told = last();
            assert_eq!((told.function, told.code), ("tg_test", Code::Internal));
            assert_eq!(told.message, format!("a defect of the library inside tg_test: {payload}"));
        }
        assert_eq!(call("tg_test", || std::panic::panic_any(1)), Code::Internal as tg_result);
        assert_eq!(value("tg_test", 7, || panic!("no value")), 7);
    }

    #[test]
    fn success_leaves_the_record_alone() {
        let misuse = Error::misuse(Code::WrongState, "kernel", format_args!("why"));
        assert_eq!(call("tg_first", || Err(misuse)), Code::WrongState as tg_result);
        assert_eq!(call("tg_second", || Ok(())), 0);
        assert_eq!(last().function, "tg_first");
    }
}
