//! Result codes as C sees them: numbers of their own, because a C program compares with numbers, and a test holds
//! them to the table in [`crate::code`].

/// What a function answers.
///
/// 0 is TG_OK. Positive is "no error, but". -1 to -99 is a programming error: nothing changed. -100 and below is a
/// failure: what was to be written is claimed. Numbers are never reused; a later version may add some, so treat an
/// unknown number by its range (TG_IS_MISUSE, TG_IS_TRACKED).
#[allow(non_camel_case_types)]
pub type tg_result = i32;

/// The call did what it says.
pub const TG_OK: tg_result = 0;
/// The work did not run: bytes it reads are claimed, or its kernel is broken, or a buffer has no memory. What it was to
/// write took over the same roots. tg_last_report names them. The number is positive, so `result < 0` misses it; ask
/// TG_IS_TRACKED.
pub const TG_SKIPPED: tg_result = 1;
/// The time was up before the work completed. Nothing changed; ask again.
pub const TG_TIMEOUT: tg_result = 2;
/// The answer is not there yet. Nothing changed; ask again.
pub const TG_NOT_READY: tg_result = 3;
/// The caller's array was too small. It is filled, and the count says how many there are.
pub const TG_INCOMPLETE: tg_result = 4;

/// Misuse: an argument is outside what the function accepts. The report names it.
pub const TG_ERROR_INVALID_ARGUMENT: tg_result = -1;
/// Misuse: a handle that must name something is null.
pub const TG_ERROR_NULL_HANDLE: tg_result = -2;
/// Misuse: a handle names another kind of object, or is no handle at all.
pub const TG_ERROR_WRONG_KIND: tg_result = -3;
/// Misuse: a handle belongs to another device.
pub const TG_ERROR_FOREIGN_HANDLE: tg_result = -4;
/// Misuse: a handle names something already destroyed.
pub const TG_ERROR_STALE_HANDLE: tg_result = -5;
/// Misuse: the bytes or the object are held by an open scope or mapping, or are in another state than the call needs.
pub const TG_ERROR_WRONG_STATE: tg_result = -6;

/// Failure: no Vulkan device matches.
pub const TG_ERROR_NO_DEVICE: tg_result = -100;
/// Failure: the Vulkan loader, instance or device could not be set up.
pub const TG_ERROR_INITIALIZATION_FAILED: tg_result = -101;
/// Failure: the device or this build cannot do it.
pub const TG_ERROR_UNSUPPORTED: tg_result = -102;
/// Failure: a limit of this device is exceeded.
pub const TG_ERROR_LIMIT_EXCEEDED: tg_result = -103;
/// Failure: host memory ran out.
pub const TG_ERROR_OUT_OF_HOST_MEMORY: tg_result = -104;
/// Failure: device memory ran out, or the size can never fit.
pub const TG_ERROR_OUT_OF_DEVICE_MEMORY: tg_result = -105;
/// Failure: the shader cannot be used.
pub const TG_ERROR_INVALID_SHADER: tg_result = -106;
/// Failure: bytes asked for were last to be written by work that did not succeed. The report names the roots.
pub const TG_ERROR_UNWRITTEN: tg_result = -107;
/// Failure: bytes of a fresh buffer that nothing wrote yet (only with TG_DEVICE_TRACK_UNINITIALIZED).
pub const TG_ERROR_NEVER_WRITTEN: tg_result = -108;
/// Failure: the work was abandoned before its outcome was known.
pub const TG_ERROR_TORN_DOWN: tg_result = -109;
/// Failure: the device was lost.
pub const TG_ERROR_DEVICE_LOST: tg_result = -110;
/// Failure: the driver returned a VkResult that has no better name here. The report has the number.
pub const TG_ERROR_DRIVER: tg_result = -111;
/// Failure: the caller declared it (tg_taint, tg_scope_fail, tg_fail_unallocated).
pub const TG_ERROR_CALLER: tg_result = -112;
/// Failure: a defect of the library itself. The report says what is known of it.
pub const TG_ERROR_INTERNAL: tg_result = -113;

/// As a timeout: until it is over.
pub const TG_WAIT_FOREVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    #[test]
    fn the_numbers_of_the_header_are_the_numbers_of_the_table() {
        macro_rules! table {
            ($($name:ident)*) => { [$((stringify!($name), $name)),*] };
        }
        let header = table! {
            TG_OK TG_SKIPPED TG_TIMEOUT TG_NOT_READY TG_INCOMPLETE
            TG_ERROR_INVALID_ARGUMENT TG_ERROR_NULL_HANDLE TG_ERROR_WRONG_KIND TG_ERROR_FOREIGN_HANDLE
            TG_ERROR_STALE_HANDLE TG_ERROR_WRONG_STATE
            TG_ERROR_NO_DEVICE TG_ERROR_INITIALIZATION_FAILED TG_ERROR_UNSUPPORTED TG_ERROR_LIMIT_EXCEEDED
            TG_ERROR_OUT_OF_HOST_MEMORY TG_ERROR_OUT_OF_DEVICE_MEMORY TG_ERROR_INVALID_SHADER TG_ERROR_UNWRITTEN
            TG_ERROR_NEVER_WRITTEN TG_ERROR_TORN_DOWN TG_ERROR_DEVICE_LOST TG_ERROR_DRIVER TG_ERROR_CALLER
            TG_ERROR_INTERNAL
        };
        let table: Vec<_> = Code::ALL.iter().map(|code| (code.name(), *code as tg_result)).collect();
        assert_eq!(header.as_slice(), table.as_slice());
    }
}
