//! The way of events to a log, which may call the library.
//!
//! `tracing` cannot change a thread's subscriber while that subscriber is being told, so a call inside a log callback
//! would fail in its own events. They are not reported again, and nothing of `tracing` is touched for them.

use std::cell::Cell;
use tracing::Dispatch;

thread_local! { static TELLING: Cell<bool> = const { Cell::new(false) }; }

/// Whether this thread is inside a log callback.
pub fn is_telling() -> bool {
    TELLING.get()
}

struct Telling;

impl Drop for Telling {
    fn drop(&mut self) {
        TELLING.set(false);
    }
}

/// Emits events, to a subscriber or wherever the events of the thread go. To be called without any lock.
pub fn tell(dispatch: Option<&Dispatch>, emit: impl FnOnce()) {
    if TELLING.replace(true) {
        return;
    }
    let _telling = Telling;
    match dispatch {
        Some(dispatch) => tracing::dispatcher::with_default(dispatch, emit),
        None => emit(),
    }
}
