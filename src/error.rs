//! How a call ends other than well: errors as data, text rendered from them last.

use crate::code::Code;
use crate::spare::{Kept, Reused, Spare};
use arrayvec::{ArrayString, ArrayVec};
use std::cell::Cell;
use std::fmt;
use std::thread::LocalKey;

/// Text short enough to be carried without allocating; longer text is cut at a character boundary.
pub type Text = ArrayString<192>;

/// Formats into a [`Text`], cutting what does not fit.
pub fn text(arguments: fmt::Arguments<'_>) -> Text {
    struct Cut(Text);
    impl fmt::Write for Cut {
        fn write_str(&mut self, piece: &str) -> fmt::Result {
            for c in piece.chars() {
                if self.0.try_push(c).is_err() {
                    return Err(fmt::Error);
                }
            }
            Ok(())
        }
    }
    let mut cut = Cut(Text::new());
    let _ = fmt::write(&mut cut, arguments);
    cut.0
}

/// The most roots one set, one report or one answer names; a flag says that there are more.
pub const MAX_ROOTS: usize = 32;

/// The roots an answer is about.
pub type Roots = Spare<Named>;

/// Roots by the ids the caller can ask for, and whose bytes were asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Ids of the roots, ascending.
    pub ids: ArrayVec<u64, MAX_ROOTS>,
    /// There are roots beyond the named ones.
    pub more: bool,
    /// Serials of the buffers asked about, for the paths of a report built later.
    pub asked: ArrayVec<u64, 8>,
}

/// What a device or driver answered instead of doing the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Always of kind `Failure`.
    pub code: Code,
    /// The `VkResult`, or 0 where Vulkan had no part.
    pub vk_result: i32,
    /// The Vulkan entry point, or empty.
    pub vk_function: &'static str,
    /// What a person needs to know beyond the code; cut at 1 KiB when it is recorded (R15).
    pub message: Box<str>,
}

impl Fault {
    /// A fault that no Vulkan call raised.
    // Cold, as the makers of errors are, so that the compiler lays out every call for the way on which nothing fails.
    #[cold]
    pub fn new(code: Code, message: impl Into<Box<str>>) -> Fault {
        Fault { code, vk_result: 0, vk_function: "", message: message.into() }
    }
}

/// A programming error: which field of the call, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// Always of kind `Misuse`.
    pub code: Code,
    /// The parameter, or the member of its struct, as the header spells it.
    pub field: &'static str,
    /// What was wrong with it.
    pub message: Text,
}

/// Every way a call ends other than by doing what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The work read claimed bytes and did not run (R5).
    Skipped(Roots),
    /// A question about bytes that are claimed.
    Unwritten(Roots),
    /// The time was up.
    Timeout,
    /// Nothing to answer yet.
    NotReady,
    /// The caller's array was too small.
    Incomplete,
    /// A programming error; nothing changed.
    Misuse(Spare<Misuse>),
    /// A failure; what was to be written is claimed by these roots (none where nothing was to be written).
    Failed(Box<Fault>, Roots),
}

/// What most calls return.
pub type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// The code the C API returns for it.
    pub fn code(&self) -> Code {
        match self {
            Error::Skipped(_) => Code::Skipped,
            Error::Unwritten(_) => Code::Unwritten,
            Error::Timeout => Code::Timeout,
            Error::NotReady => Code::NotReady,
            Error::Incomplete => Code::Incomplete,
            Error::Misuse(misuse) => misuse.code,
            Error::Failed(fault, _) => fault.code,
        }
    }

    /// A misuse of `field`.
    #[cold]
    pub fn misuse(code: Code, field: &'static str, why: fmt::Arguments<'_>) -> Error {
        let mut misuse = Spare::<Misuse>::default();
        (misuse.code, misuse.field, misuse.message) = (code, field, text(why));
        Error::Misuse(misuse)
    }

    /// The same, saying which element of an array it is about; a field is one name for all of them.
    #[cold]
    pub fn element(self, noun: &str, index: usize) -> Error {
        match self {
            Error::Misuse(misuse) => {
                Error::misuse(misuse.code, misuse.field, format_args!("{noun} {index}: {}", misuse.message))
            }
            other => other,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Failed(Box::new(fault), Roots::default())
    }
}

thread_local! {
    static NAMED: Kept<Named> = const { Cell::new(None) };
    static MISUSE: Kept<Misuse> = const { Cell::new(None) };
}

impl Reused for Named {
    fn kept() -> &'static LocalKey<Kept<Named>> {
        &NAMED
    }
    fn clear(&mut self) {
        self.ids.clear();
        self.asked.clear();
        self.more = false;
    }
}

impl Reused for Misuse {
    fn kept() -> &'static LocalKey<Kept<Misuse>> {
        &MISUSE
    }
    fn clear(&mut self) {
        self.field = "";
        self.message.clear();
    }
}

impl Default for Misuse {
    fn default() -> Misuse {
        Misuse { code: Code::InvalidArgument, field: "", message: Text::new() }
    }
}

// An error goes through every layer, and where nothing goes wrong its room is carried along.
const _: () = assert!(size_of::<Error>() <= 3 * size_of::<usize>());
