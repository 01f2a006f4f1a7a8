//! Notices forks and the end of the process: what only some systems have.

use crate::process;
use std::sync::OnceLock;

/// What is to be done then.
#[derive(Clone, Copy)]
pub(super) struct Hooks {
    /// Takes the locks that a child will need.
    pub(super) lock: fn(),
    /// Gives them back in the parent.
    pub(super) unlock: fn(),
    /// Makes them new in the child, where the threads that wait for them do not exist.
    pub(super) renew: fn(),
    /// The process is ending. Gets the epoch that ended with it.
    pub(super) end: fn(u32),
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Has forks noticed from now on. Only the first hooks count.
pub(super) fn watch_forks(hooks: Hooks) {
    HOOKS.get_or_init(|| {
        #[cfg(unix)]
        forks::watch();
        hooks
    });
}

#[cfg(unix)]
mod forks {
    use super::{HOOKS, process};
    use std::ffi::c_int;

    type Handler = Option<extern "C" fn()>;

    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }

    pub(super) fn watch() {
        // SAFETY: three functions that live as long as the library, which stays loaded. Without them, which only a full
        // host refuses, a child is as badly off as with any other library.
        unsafe { pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
    }

    extern "C" fn prepare() {
        if let Some(hooks) = HOOKS.get() {
            (hooks.lock)();
        }
    }

    extern "C" fn in_parent() {
        if let Some(hooks) = HOOKS.get() {
            (hooks.unlock)();
        }
    }

    extern "C" fn in_child() {
        process::forked();
        if let Some(hooks) = HOOKS.get() {
            (hooks.renew)();
        }
    }
}

/// Has the end of the process noticed before the drivers and layers loaded so far notice it: handlers run in reverse
/// order, and drivers may be loaded anew for each device.
pub(super) fn watch_exit() {
    // SAFETY: a function that lives as long as the library, which stays loaded.
    unsafe { libc::atexit(at_exit) };
}

extern "C" fn at_exit() {
    if let (Some(ended), Some(hooks)) = (process::end(), HOOKS.get()) {
        // Nothing may leave this function, and nobody could be told.
        let _ = std::panic::catch_unwind(|| (hooks.end)(ended));
    }
}
