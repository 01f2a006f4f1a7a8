//! Counts heap allocations and live heap bytes, so that "allocates nothing" is a measured fact.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicI64 = AtomicI64::new(0);

struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

// SAFETY: every call is forwarded to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        // SAFETY: the same contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        // SAFETY: the same contract.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size as i64 - layout.size() as i64);
        // SAFETY: the same contract.
        unsafe { System.realloc(at, layout, size) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: the same contract.
        unsafe { System.dealloc(at, layout) }
    }
}

fn note(bytes: i64) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    LIVE.fetch_add(bytes, Relaxed);
}

/// How many allocations `work` makes, on whatever thread.
pub(crate) fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.load(Relaxed);
    work();
    ALLOCATIONS.load(Relaxed) - before
}

/// Heap bytes that are live now. What the driver takes by itself is not among them.
pub(crate) fn live_bytes() -> i64 {
    LIVE.load(Relaxed)
}

/// Resident bytes of the process.
pub(crate) fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok());
    kib.unwrap_or(f64::NAN) * 1024.0
}
