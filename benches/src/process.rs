//! What the process is told so that two runs of the same work take the same time.

/// Freed memory stays with the process: giving it back and faulting it in again takes longer than what is measured.
pub(crate) fn keep_freed_memory() {
    // SAFETY: no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
    }
}

/// Runs `work` with every thread of the process on one processor. Where a driver's thread has to be woken for each
/// launch, it depends on where it happens to sleep whether that takes 5 or 50 us; here it is the same for both sides.
pub(crate) fn on_one_processor<T>(work: impl FnOnce() -> T) -> T {
    let before = affinity();
    let first = (0..libc::CPU_SETSIZE as usize).find(|processor| {
        // SAFETY: the number is below the size of the set.
        unsafe { libc::CPU_ISSET(*processor, &before) }
    });
    // SAFETY: zero is the empty set, and the number is below its size.
    let one = unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(first.unwrap_or(0), &mut one);
        one
    };
    set_affinity(&one);
    let result = work();
    set_affinity(&before);
    result
}

fn affinity() -> libc::cpu_set_t {
    // SAFETY: zero is the empty set; the output is as long as said.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    }
}

fn set_affinity(set: &libc::cpu_set_t) {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for thread in threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        // SAFETY: the set is readable; a thread that is gone is an error that changes nothing.
        unsafe { libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), set) };
    }
}
