//! Events of one device, on their way to its caller: a subscriber of its own, never a global one.
//!
//! Whoever logs dispatches to the device's [`tracing::Dispatch`] only, outside every lock. When the last reference to
//! it goes, the subscriber goes, and with it the caller's data through the caller's finalizer.

use super::results::tg_result;
use super::strings::{lend, tg_str};
use super::structs::misuse;
use crate::error::Result;
use std::ffi::c_void;
use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, span};

/// As a level: what a caller who says nothing gets, TG_LOG_INFO.
pub const TG_LOG_DEFAULT: u32 = 0;
/// Roots that became real, and defects of the library.
pub const TG_LOG_ERROR: u32 = 1;
/// Skips, at powers of two; what was alive when a device was destroyed; validation warnings.
pub const TG_LOG_WARN: u32 = 2;
/// Once per device: what was chosen and what it can do.
pub const TG_LOG_INFO: u32 = 3;
/// Pages taken and given back, kernels compiled.
pub const TG_LOG_DEBUG: u32 = 4;
/// Everything.
pub const TG_LOG_TRACE: u32 = 5;

/// One thing that is worth telling. Lives as long as the call of the callback; copy what is to be kept.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_log_event {
    /// sizeof(tg_log_event) of the library; a later version may have more members behind the ones you know.
    pub struct_size: usize,
    /// The code it is about, TG_OK where it is about none.
    pub code: tg_result,
    /// One of TG_LOG_ERROR to TG_LOG_TRACE.
    pub level: u32,
    /// The id of the root it is about, 0 where it is about none.
    pub failure: u64,
    /// What happened, for a person.
    pub message: tg_str,
}

/// A callback for events. It may be called from any thread that is inside a function of the library, from several
/// at once, and holds up the call that logs. It runs outside every lock, so it may call any function of the library
/// but tg_device_destroy, which answers TG_ERROR_WRONG_STATE. Events of functions that the callback calls do not reach
/// the callback. The callback must return: no exception, no longjmp.
///
/// With or without a callback, the environment variable TIDEGATE_LOG puts events on stderr, one line each: error, warn,
/// info, debug, trace, or the number of the level; anything else is info. It is read when a device is made.
#[allow(non_camel_case_types)]
pub type tg_log_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, event: *const tg_log_event)>;

/// A callback that frees the data of another callback. It is called once, after the last call of that callback, from
/// whichever thread let go last.
#[allow(non_camel_case_types)]
pub type tg_finalizer_fn = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// Where the caller wants a device's events.
pub(super) struct Sink {
    callback: tg_log_fn,
    user_data: *mut c_void,
    finalizer: tg_finalizer_fn,
    level: LevelFilter,
    label: Box<str>,
}

// SAFETY: the header says that callback and finalizer may be called from any thread, several at once; the pointer is
// only ever handed to them.
unsafe impl Send for Sink {}
// SAFETY: the same.
unsafe impl Sync for Sink {}

impl Sink {
    /// Checks what the caller gave. Nothing is taken over before [`Sink::dispatch`].
    pub(super) fn new(
        callback: tg_log_fn,
        user_data: *mut c_void,
        finalizer: tg_finalizer_fn,
        level: u32,
        label: &str,
    ) -> Result<Sink> {
        let level = match level {
            TG_LOG_DEFAULT | TG_LOG_INFO => LevelFilter::INFO,
            TG_LOG_ERROR => LevelFilter::ERROR,
            TG_LOG_WARN => LevelFilter::WARN,
            TG_LOG_DEBUG => LevelFilter::DEBUG,
            TG_LOG_TRACE => LevelFilter::TRACE,
            _ => return Err(misuse("desc.log_level", format_args!("{level} is no level"))),
        };
        Ok(Sink { callback, user_data, finalizer, level, label: label.into() })
    }

    /// Takes the caller's data over: from here on the finalizer will run.
    pub(super) fn dispatch(self) -> tracing::Dispatch {
        let stderr = std::env::var_os("TIDEGATE_LOG").map_or(LevelFilter::OFF, |level| {
            level.to_str().and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::INFO)
        });
        let callback = if self.callback.is_some() { self.level } else { LevelFilter::OFF };
        tracing::Dispatch::new(Subscriber { sink: Owned(self), callback, stderr })
    }
}

/// A sink whose finalizer is ours to call.
struct Owned(Sink);

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(finalizer) = self.0.finalizer {
            // SAFETY: the caller gave the two together for exactly this, and nothing uses the data afterwards.
            unsafe { finalizer(self.0.user_data) };
        }
    }
}

struct Subscriber {
    sink: Owned,
    callback: LevelFilter,
    stderr: LevelFilter,
}

impl tracing::Subscriber for Subscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.callback.max(self.stderr)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.callback.max(self.stderr))
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut found = Found::default();
        event.record(&mut found);
        let level = *event.metadata().level();
        if level <= self.stderr {
            eprintln!("{}", found.line(level, &self.sink.0.label));
        }
        if level <= self.callback
            && let Some(callback) = self.sink.0.callback
        {
            found.message.push('\0');
            let event = tg_log_event {
                struct_size: size_of::<tg_log_event>(),
                code: found.code,
                level: number(level),
                failure: found.failure,
                message: lend(&found.message),
            };
            // SAFETY: the caller gave the two together for exactly this; the event outlives the call.
            unsafe { callback(self.sink.0.user_data, &raw const event) };
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn number(level: Level) -> u32 {
    match level {
        Level::ERROR => TG_LOG_ERROR,
        Level::WARN => TG_LOG_WARN,
        Level::INFO => TG_LOG_INFO,
        Level::DEBUG => TG_LOG_DEBUG,
        Level::TRACE => TG_LOG_TRACE,
    }
}

/// What an event says, by the names of its fields; fields without a name of ours are appended to the message.
#[derive(Default)]
struct Found {
    code: tg_result,
    failure: u64,
    message: String,
    rest: String,
}

impl Found {
    /// The line for stderr.
    fn line(&self, level: Level, label: &str) -> String {
        let name = crate::code::Code::from_i32(self.code).map_or("", |code| code.name());
        let level = level.as_str().to_ascii_lowercase();
        let device = if label.is_empty() { String::new() } else { format!("{label}: ") };
        let mut line = format!("tidegate: {device}{level}: {}{}", self.message, self.rest);
        if self.code != 0 {
            let _ = write!(line, " [{name} {}]", self.code);
        }
        if self.failure != 0 {
            let _ = write!(line, " [failure {}]", self.failure);
        }
        line
    }
}

impl Visit for Found {
    fn record_i64(&mut self, field: &Field, value: i64) {
        match field.name() {
            "code" => self.code = tg_result::try_from(value).unwrap_or(0),
            "failure" => self.failure = u64::try_from(value).unwrap_or(0),
            _ => self.record_debug(field, &value),
        }
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "failure" => self.failure = value,
            _ => self.record_debug(field, &value),
        }
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            _ => self.record_debug(field, &value),
        }
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A formatter that fails costs its part of the message and nothing else.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.rest, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    /// What came out of a sink.
    #[derive(Default)]
    struct Heard {
        events: Mutex<Vec<(tg_result, u32, u64, String)>>,
        finalized: Mutex<u32>,
    }

    unsafe extern "C" fn hear(user_data: *mut c_void, event: *const tg_log_event) {
        // SAFETY: the test hands a `Heard` in, which outlives the sink, and the event is ours.
        let (heard, event) = unsafe { (&*user_data.cast::<Heard>(), &*event) };
        // SAFETY: strings of ours are sized and end in NUL.
        let message = unsafe { std::ffi::CStr::from_ptr(event.message.data) };
        assert_eq!(message.count_bytes(), event.message.size);
        let message = message.to_string_lossy().into_owned();
        heard.events.lock().push((event.code, event.level, event.failure, message));
    }

    unsafe extern "C" fn finalize(user_data: *mut c_void) {
        // SAFETY: as above.
        *unsafe { &*user_data.cast::<Heard>() }.finalized.lock() += 1;
    }

    fn sink(heard: &Heard, level: u32) -> Result<Sink> {
        Sink::new(Some(hear), std::ptr::from_ref(heard).cast_mut().cast(), Some(finalize), level, "")
    }

    #[test]
    fn events_reach_the_callback_as_data_and_the_finalizer_runs_once() {
        let heard = Heard::default();
        let dispatch = sink(&heard, TG_LOG_WARN).expect("a level").dispatch();
        let again = dispatch.clone();
        tracing::dispatcher::with_default(&dispatch, || {
            tracing::error!(code = -105i32, failure = 7u64, "{} failed", "it");
            tracing::info!("not urgent enough");
        });
        drop(dispatch);
        assert_eq!(*heard.finalized.lock(), 0);
        drop(again);
        assert_eq!(*heard.finalized.lock(), 1);
        assert_eq!(*heard.events.lock(), [(-105, TG_LOG_ERROR, 7, "it failed".to_owned())]);
    }

    #[test]
    fn a_refused_sink_takes_nothing_over() {
        let heard = Heard::default();
        assert!(sink(&heard, 99).is_err());
        drop(sink(&heard, TG_LOG_DEFAULT));
        assert_eq!(*heard.finalized.lock(), 0);
    }

    #[test]
    fn a_line_for_stderr_says_code_and_failure() {
        let found = Found { code: -105, failure: 7, message: "it failed".into(), rest: " size=3".into() };
        let line = "tidegate: one: error: it failed size=3 [TG_ERROR_OUT_OF_DEVICE_MEMORY -105] [failure 7]";
        assert_eq!(found.line(Level::ERROR, "one"), line);
    }
}
