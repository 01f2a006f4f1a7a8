//! The process around the library: it may be forked, and it ends. `ffi/process.rs` notices both.
//!
//! A forked child has one thread, whatever locks the others held, and none of the driver's threads. At exit the
//! destructors of drivers and layers run, and a driver that still works then may crash. Neither can be helped
//! afterwards, so devices are left alone from then on: each belongs to an epoch of the process, which ends with either.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

static EPOCH: AtomicU32 = AtomicU32::new(1);
static ENDING: AtomicBool = AtomicBool::new(false);
static BROKEN: AtomicBool = AtomicBool::new(false);
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The epoch that objects made now belong to. Never 0.
#[inline]
pub fn epoch() -> u32 {
    EPOCH.load(Ordering::Relaxed)
}

/// The process runs its exit handlers: nothing waits any longer.
#[inline]
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// Why Vulkan cannot be opened in this process, if it cannot.
pub fn refusal() -> Option<&'static str> {
    if is_ending() {
        return Some("the process is ending");
    }
    let forked = "this process was forked while Vulkan was open, and what a driver has does not outlive a fork";
    BROKEN.load(Ordering::Relaxed).then_some(forked)
}

/// Vulkan is open, or being opened or closed.
pub struct Opened(u32);

impl Opened {
    /// From here on until it is dropped.
    pub fn begin() -> Opened {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Opened(epoch())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // What a child inherited is not counted there.
        if self.0 == epoch() || is_ending() {
            OPEN.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A fork came between: what is open is the parent's.
pub fn forked() {
    EPOCH.fetch_add(1, Ordering::Relaxed);
    if OPEN.swap(0, Ordering::Relaxed) > 0 {
        BROKEN.store(true, Ordering::Relaxed);
    }
}

/// The process ends. The epoch that ended with it, the first time.
pub fn end() -> Option<u32> {
    let is_first = !ENDING.swap(true, Ordering::SeqCst);
    is_first.then(|| EPOCH.fetch_add(1, Ordering::SeqCst))
}

/// How many open, use or close Vulkan right now.
pub fn open() -> usize {
    OPEN.load(Ordering::Relaxed)
}
