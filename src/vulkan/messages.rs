//! What the validation layers and the loader say, where it helps: in the log, and on the fault of the very call that
//! made them speak.
//!
//! A message arrives inside a Vulkan call, possibly under a lock of ours, so the callback only stores it. The log gets
//! it from [`Messages::flush`], which the boundary calls when no lock is held.

use ash::vk;
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tracing::Dispatch;

/// Messages kept until the log takes them, and on one thread until a fault does; older ones make room.
const KEPT: usize = 64;

static VALIDATION_MESSAGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static COLLECTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// Whether there may be any: asked before every call to the driver, and cheaper to ask.
    static ANY: Cell<bool> = const { Cell::new(false) };
}

/// Validation messages of the whole process so far, over all devices.
pub fn validation_message_count() -> u64 {
    VALIDATION_MESSAGES.load(Ordering::Relaxed)
}

/// Forgets what this thread collected: a new operation begins.
pub(super) fn begin_operation() {
    if ANY.take() {
        forget_collected();
    }
}

#[cold]
fn forget_collected() {
    // A handler that runs at exit comes after what this thread collected.
    let _ = COLLECTED.try_with(|collected| collected.borrow_mut().clear());
}

/// Moves what this thread collected onto the end of a fault's message.
pub(super) fn append_collected(message: &mut String) {
    let _ = COLLECTED.try_with(|collected| {
        for text in collected.borrow_mut().drain(..) {
            message.push_str("; validation: ");
            message.push_str(&text);
        }
    });
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Warning,
    Error,
}

/// Where one instance's messages wait for the log.
pub(super) struct Messages {
    dispatch: Dispatch,
    waiting: AtomicBool,
    queue: Mutex<VecDeque<(Level, String)>>,
}

impl Messages {
    pub(super) fn new(dispatch: Dispatch) -> Messages {
        Messages { dispatch, waiting: AtomicBool::new(false), queue: Mutex::new(VecDeque::new()) }
    }

    fn push(&self, level: Level, text: String) {
        let mut queue = self.queue.lock();
        if queue.len() == KEPT {
            queue.pop_front();
        }
        queue.push_back((level, text));
        self.waiting.store(true, Ordering::Release);
    }

    /// Hands waiting messages to the log. Holds no lock while the log runs.
    pub(super) fn flush(&self) {
        // Asked after every call: nothing is written unless something waits. Inside a log callback it goes on waiting.
        let waits = self.waiting.load(Ordering::Acquire) && !crate::log::is_telling();
        if waits && self.waiting.swap(false, Ordering::AcqRel) {
            self.hand_over();
        }
    }

    #[cold]
    fn hand_over(&self) {
        let taken = std::mem::take(&mut *self.queue.lock());
        crate::log::tell(Some(&self.dispatch), || {
            for (level, text) in &taken {
                match level {
                    Level::Error => tracing::error!(target: "tidegate::validation", "{text}"),
                    Level::Warning => tracing::warn!(target: "tidegate::validation", "{text}"),
                }
            }
        });
    }
}

/// What the messenger asks to be told.
pub(super) fn messenger_info(messages: &Messages) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
        .message_type(
            vk::DebugUtilsMessageTypeFlagsEXT::GENERAL
                | vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION
                | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE,
        )
        .pfn_user_callback(Some(receive))
        .user_data(std::ptr::from_ref(messages).cast_mut().cast())
}

/// Called by the driver, the loader or a layer; must not unwind into them.
unsafe extern "system" fn receive(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    types: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    let _ = std::panic::catch_unwind(|| {
        if data.is_null() || user.is_null() {
            return;
        }
        // SAFETY: the caller passes a valid structure for the length of this call.
        let data = unsafe { &*data };
        // SAFETY: `user` is the instance's `Messages`, which outlives the instance and its messenger.
        let messages = unsafe { &*user.cast::<Messages>() };
        if data.p_message.is_null() {
            return;
        }
        // SAFETY: checked for null, and NUL-terminated by the rules of the extension.
        let text = unsafe { CStr::from_ptr(data.p_message) }.to_string_lossy().into_owned();
        if types.contains(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION) {
            VALIDATION_MESSAGES.fetch_add(1, Ordering::Relaxed);
            ANY.set(true);
            let _ = COLLECTED.try_with(|collected| {
                if let Ok(mut collected) = collected.try_borrow_mut()
                    && collected.len() < KEPT
                {
                    collected.push(text.clone());
                }
            });
        }
        let level =
            if severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR) { Level::Error } else { Level::Warning };
        messages.push(level, text);
    });
    vk::FALSE
}

#[cfg(test)]
mod tests {
    use super::super::fault_tests::ONE_TEST;
    use super::*;
    use std::ffi::CString;

    fn say(messages: &Messages, text: &str, types: vk::DebugUtilsMessageTypeFlagsEXT) {
        let text = CString::new(text).expect("no NUL");
        let data = vk::DebugUtilsMessengerCallbackDataEXT::default().message(&text);
        let user = std::ptr::from_ref(messages).cast_mut().cast();
        // SAFETY: both pointers are alive and of the types the callback expects.
        let answer = unsafe { receive(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR, types, &data, user) };
        assert_eq!(answer, vk::FALSE, "the call goes on");
    }

    #[test]
    fn a_message_goes_onto_the_fault_of_its_operation_only() {
        use super::super::fault::fault;
        use vk::DebugUtilsMessageTypeFlagsEXT as Types;
        let _counted = ONE_TEST.lock();
        let messages = Messages::new(Dispatch::none());
        say(&messages, "from before", Types::VALIDATION);
        begin_operation();
        say(&messages, "the size is wrong", Types::VALIDATION);
        say(&messages, "loading a driver", Types::GENERAL);
        let told = |fault: crate::error::Fault| fault.message.into_string();
        let first = told(fault(vk::Result::ERROR_UNKNOWN, "vkCreateBuffer", "for a page"));
        assert!(first.contains("validation: the size is wrong"), "{first}");
        assert!(!first.contains("before") && !first.contains("driver"), "{first}");
        let second = told(fault(vk::Result::ERROR_UNKNOWN, "vkCreateBuffer", "for a page"));
        assert!(!second.contains("validation"), "{second}");
    }

    #[test]
    fn what_nobody_takes_stays_bounded() {
        let _counted = ONE_TEST.lock();
        let messages = Messages::new(Dispatch::none());
        for i in 0..10 * KEPT {
            say(&messages, &format!("message {i}"), vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION);
        }
        assert_eq!(messages.queue.lock().len(), KEPT);
        assert_eq!(COLLECTED.with_borrow(Vec::len), KEPT);
        messages.flush();
        assert!(messages.queue.lock().is_empty());
    }
}
