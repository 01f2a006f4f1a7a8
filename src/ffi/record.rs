//! What the last call on this thread that did not simply succeed had to say.
//!
//! Fixed in size and without a destructor, so that a loop that fails or skips for ever allocates nothing, and a
//! thread can end at any time. A report is made from it only when someone asks.

use super::strings::{MESSAGE, cut};
use crate::code::Code;
use crate::error::{Error, MAX_ROOTS, Roots};
use std::cell::RefCell;

/// How many buffers an answer says it is about.
const ASKED: usize = 8;

#[derive(Clone, Copy)]
struct Record {
    function: &'static str,
    field: &'static str,
    code: Code,
    vk_result: i32,
    vk_function: &'static str,
    device: u32,
    message: [u8; MESSAGE],
    message_size: usize,
    roots: [u64; MAX_ROOTS],
    root_count: usize,
    more: bool,
    asked: [u64; ASKED],
    asked_count: usize,
    is_failure: bool,
}

/// A record, as it is told.
pub(super) struct Told {
    /// The C function; empty when there was none.
    pub(super) function: &'static str,
    /// The field that was wrong, or empty.
    pub(super) field: &'static str,
    /// What the function answered.
    pub(super) code: Code,
    /// The `VkResult`, or 0.
    pub(super) vk_result: i32,
    /// The Vulkan entry point, or empty.
    pub(super) vk_function: &'static str,
    /// The serial of the device, or 0.
    pub(super) device: u32,
    /// What was said beyond the code.
    pub(super) message: String,
    /// The roots it was about.
    pub(super) roots: Roots,
    /// The function itself failed: what was answered is what its root says.
    pub(super) is_failure: bool,
}

thread_local! {
    static LAST: RefCell<Record> = const {
        RefCell::new(Record {
            function: "",
            field: "",
            code: Code::Ok,
            vk_result: 0,
            vk_function: "",
            device: 0,
            message: [0; MESSAGE],
            message_size: 0,
            roots: [0; MAX_ROOTS],
            root_count: 0,
            more: false,
            asked: [0; ASKED],
            asked_count: 0,
            is_failure: false,
        })
    };
}

const _: () = assert!(!std::mem::needs_drop::<Record>());

impl Record {
    fn begin(&mut self, function: &'static str, device: u32, code: Code) {
        self.function = function;
        self.field = "";
        self.code = code;
        self.vk_result = 0;
        self.vk_function = "";
        self.device = device;
        self.message_size = 0;
        self.root_count = 0;
        self.more = false;
        self.asked_count = 0;
        self.is_failure = false;
    }

    fn say(&mut self, text: &str) {
        let text = cut(text, MESSAGE);
        self.message[..text.len()].copy_from_slice(text.as_bytes());
        self.message_size = text.len();
    }

    fn name(&mut self, roots: &Roots) {
        self.root_count = roots.ids.len();
        self.roots[..self.root_count].copy_from_slice(&roots.ids);
        self.asked_count = roots.asked.len();
        self.asked[..self.asked_count].copy_from_slice(&roots.asked);
        self.more = roots.more;
    }
}

/// Records what a function answered, unless it says nothing about what happened.
pub(super) fn record(function: &'static str, device: u32, error: &Error) {
    LAST.with_borrow_mut(|record| match error {
        Error::Timeout | Error::NotReady | Error::Incomplete => {}
        Error::Skipped(roots) | Error::Unwritten(roots) => {
            record.begin(function, device, error.code());
            record.name(roots);
        }
        Error::Misuse(misuse) => {
            record.begin(function, device, misuse.code);
            record.field = misuse.field;
            record.say(&misuse.message);
        }
        Error::Failed(fault, roots) => {
            record.begin(function, device, fault.code);
            record.is_failure = true;
            record.vk_result = fault.vk_result;
            record.vk_function = fault.vk_function;
            record.say(&fault.message);
            record.name(roots);
        }
    });
}

/// What is on record.
pub(super) fn last() -> Told {
    LAST.with_borrow(|record| Told {
        function: record.function,
        field: record.field,
        code: record.code,
        vk_result: record.vk_result,
        vk_function: record.vk_function,
        device: record.device,
        message: String::from_utf8_lossy(&record.message[..record.message_size]).into_owned(),
        roots: roots(&record.roots[..record.root_count], record.more, &record.asked[..record.asked_count]),
        is_failure: record.is_failure,
    })
}

fn roots(ids: &[u64], more: bool, asked: &[u64]) -> Roots {
    let mut roots = Roots::default();
    roots.ids.extend(ids.iter().copied());
    roots.more = more;
    roots.asked.extend(asked.iter().copied());
    roots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;

    #[test]
    fn a_later_answer_leaves_nothing_of_an_earlier_one() {
        let roots = roots(&[3, 4], true, &[6]);
        let fault = Fault {
            code: Code::Driver,
            vk_result: -3,
            vk_function: "vkQueueSubmit",
            message: "\u{E9}".repeat(MESSAGE).into(),
        };
        record("tg_launch", 9, &Error::Failed(Box::new(fault), roots.clone()));
        let told = last();
        assert_eq!((told.function, told.code, told.device, told.vk_result), ("tg_launch", Code::Driver, 9, -3));
        assert_eq!((told.vk_function, told.message.len()), ("vkQueueSubmit", MESSAGE));
        assert_eq!(told.roots, roots);

        record("tg_taint", 0, &Error::misuse(Code::InvalidArgument, "slices", format_args!("why")));
        let told = last();
        assert_eq!((told.function, told.field, told.device, told.vk_result), ("tg_taint", "slices", 0, 0));
        assert_eq!((told.vk_function, told.message.as_str()), ("", "why"));
        assert_eq!(told.roots, Roots::default());

        for error in [Error::Timeout, Error::NotReady, Error::Incomplete] {
            record("tg_stream_wait", 1, &error);
            assert_eq!(last().function, "tg_taint");
        }
    }
}
