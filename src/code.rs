//! Result codes: one table that says what each is called, which kind it is, and what it means.
//!
//! Everything that needs to know whether a code claims bytes (R11) asks here; numbers are never reused.

/// What a code says about the bytes the call was to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No error: the call did what it says, or says why it has nothing to say yet.
    Information,
    /// A programming error: nothing changed, nothing is claimed.
    Misuse,
    /// A failure a correct program can meet: what was to be written is claimed.
    Failure,
}

macro_rules! codes {
    ($($name:ident = $value:literal, $kind:ident, $c_name:literal, $meaning:literal;)*) => {
        /// A result code, as the C API returns it.
        #[repr(i32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $(#[doc = $meaning] $name = $value),* }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The code of a number, if there is one.
            pub fn from_i32(value: i32) -> Option<Code> {
                match value { $($value => Some(Code::$name),)* _ => None }
            }
            /// Whether the code informs, tells of a misuse, or of a failure.
            pub fn kind(self) -> Kind { match self { $(Code::$name => Kind::$kind),* } }
            /// The name the header gives it.
            pub fn name(self) -> &'static str { match self { $(Code::$name => $c_name),* } }
            /// One sentence for a person.
            pub fn meaning(self) -> &'static str { match self { $(Code::$name => $meaning),* } }
        }
    };
}

codes! {
    Ok = 0, Information, "TG_OK", "the call did what it says";
    Skipped = 1, Information, "TG_SKIPPED", "the work did not run: bytes it reads are claimed, or its kernel is broken, or a buffer has no memory; what it was to write took over the same roots";
    Timeout = 2, Information, "TG_TIMEOUT", "the time was up before the work completed; nothing changed";
    NotReady = 3, Information, "TG_NOT_READY", "the answer is not there yet; nothing changed";
    Incomplete = 4, Information, "TG_INCOMPLETE", "the caller's array was too small for all there is";

    InvalidArgument = -1, Misuse, "TG_ERROR_INVALID_ARGUMENT", "an argument is outside what the function accepts";
    NullHandle = -2, Misuse, "TG_ERROR_NULL_HANDLE", "a handle that must name something is null";
    WrongKind = -3, Misuse, "TG_ERROR_WRONG_KIND", "a handle names another kind of object, or is no handle at all";
    ForeignHandle = -4, Misuse, "TG_ERROR_FOREIGN_HANDLE", "a handle belongs to another device";
    StaleHandle = -5, Misuse, "TG_ERROR_STALE_HANDLE", "a handle names something already destroyed";
    WrongState = -6, Misuse, "TG_ERROR_WRONG_STATE", "the bytes or the object are held by an open scope or mapping, or are in another state than the call needs";

    NoDevice = -100, Failure, "TG_ERROR_NO_DEVICE", "no Vulkan device matches";
    InitializationFailed = -101, Failure, "TG_ERROR_INITIALIZATION_FAILED", "the Vulkan loader, instance or device could not be set up";
    Unsupported = -102, Failure, "TG_ERROR_UNSUPPORTED", "the device or this build cannot do it";
    LimitExceeded = -103, Failure, "TG_ERROR_LIMIT_EXCEEDED", "a limit of this device is exceeded";
    OutOfHostMemory = -104, Failure, "TG_ERROR_OUT_OF_HOST_MEMORY", "host memory ran out";
    OutOfDeviceMemory = -105, Failure, "TG_ERROR_OUT_OF_DEVICE_MEMORY", "device memory ran out, or the size can never fit";
    InvalidShader = -106, Failure, "TG_ERROR_INVALID_SHADER", "the shader cannot be used";
    Unwritten = -107, Failure, "TG_ERROR_UNWRITTEN", "bytes asked for were last to be written by work that did not succeed";
    NeverWritten = -108, Failure, "TG_ERROR_NEVER_WRITTEN", "bytes of a fresh buffer that nothing wrote yet";
    TornDown = -109, Failure, "TG_ERROR_TORN_DOWN", "the work was abandoned before its outcome was known";
    DeviceLost = -110, Failure, "TG_ERROR_DEVICE_LOST", "the device was lost";
    Driver = -111, Failure, "TG_ERROR_DRIVER", "the driver returned a code that has no better name here";
    Caller = -112, Failure, "TG_ERROR_CALLER", "a failure the caller declared";
    Internal = -113, Failure, "TG_ERROR_INTERNAL", "a defect of the library itself";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_ranges_tell_the_kind() {
        for &code in Code::ALL {
            let expected = match code as i32 {
                0.. => Kind::Information,
                -99..=-1 => Kind::Misuse,
                _ => Kind::Failure,
            };
            assert_eq!(code.kind(), expected, "{}", code.name());
            assert_eq!(Code::from_i32(code as i32), Some(code));
        }
    }
}
