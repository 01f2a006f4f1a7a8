//! R15: a loop that skips for ever allocates nothing after warm-up. In a binary of its own, for its allocator counts.

mod host;

use host::backend::{Options, Pace};
use host::program::{Per, Program};
use host::rig::{Rig, add, increment, nine, part, settings, silent, whole, with};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use tidegate::device::{FOREVER, Handle, Scheduling, Settings, SliceUse};
use tidegate::failure::Access;

thread_local! {
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every request is passed on to the system's allocator as it is; the counter neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNTED.try_with(|counted| counted.set(counted.get() + 1));
        // SAFETY: the caller keeps the promises that the same function of the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; what is given back was got from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = COUNTED.try_with(|counted| counted.set(counted.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNTED.get();
    work();
    COUNTED.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(Box::new(1))), 1);
    assert_eq!(allocations(|| {}), 0);
}

#[test]
fn r15_a_loop_that_skips_for_ever_allocates_nothing() {
    let rig = Rig::default();
    let (in_place, sum) = (rig.kernel(&increment()), rig.kernel(&add()));
    let (a, b, out) = (rig.filled(64, 1), rig.filled(64, 1), rig.buffer(64));
    let roots = [rig.taint(whole(a)), rig.taint(whole(b))];
    let first: [SliceUse; 1] = [silent(whole(a))];
    let second = [silent(whole(a)), silent(whole(b)), silent(whole(out))];
    let skips = |count| {
        for _ in 0..count {
            assert!(rig.launch_on(0, in_place, &first, &[]).is_err());
            assert!(rig.launch_on(1, sum, &second, &[]).is_err());
        }
    };
    // Past the last number that is logged for long.
    skips(1100);
    assert_eq!(allocations(|| skips(900)), 0);
    assert_eq!(rig.unreadable(whole(out)), roots);
}

#[test]
fn r15_a_skipped_loop_behind_unfinished_work_does_not_grow() {
    let rig = Rig::lazy();
    let kernel = rig.kernel(&increment());
    let (bad, busy) = (rig.filled(64, 1), rig.filled(64, 1));
    rig.taint(whole(bad));
    rig.backend().hold(true);
    rig.launch(kernel, &[whole(busy)]).expect("a launch");
    rig.device.stream_flush(0).expect("a flush");
    let sum = rig.kernel(&add());
    let out = rig.buffer(64);
    let first = [silent(whole(bad))];
    let second = [silent(whole(bad)), silent(whole(bad)), silent(whole(out))];
    let extra = [with(whole(bad), Access::Read), with(whole(busy), Access::Read)];
    let skips = |count| {
        for _ in 0..count {
            assert!(rig.launch_on(0, kernel, &first, &[]).is_err());
            assert!(rig.launch_on(0, sum, &second, &extra).is_err());
        }
    };
    // Between two numbers that are logged; a record of six uses a round would have to grow in between.
    skips(4200);
    let grown = allocations(|| skips(3900));
    assert_eq!(grown, 0, "the ledger grows with every skip while something is unfinished");
    rig.backend().hold(false);
    assert_eq!(rig.read(whole(busy)).expect("a read"), [2; 64]);
}

const SCHEDULINGS: [Scheduling; 3] = [Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence];

fn rig_of(scheduling: Scheduling, pace: Pace) -> Rig {
    Rig::new(Options::new(1, 1).pace(pace), Settings { scheduling, ..settings() })
}

/// Runs a loop of skips. The allocations of those skips that log nothing, past the first ones.
fn unlogged_allocations(count: u64, mut skip: impl FnMut(u64)) -> u64 {
    (0..1000).for_each(&mut skip);
    (1000..count)
        .map(|at| (at, allocations(|| skip(at))))
        .filter(|(at, _)| !(at + 1).is_power_of_two())
        .map(|(_, n)| n)
        .sum()
}

#[test]
fn r15_only_a_skip_that_is_logged_allocates_however_long_the_loop() {
    for scheduling in SCHEDULINGS {
        for roots in [1, 5] {
            let rig = rig_of(scheduling, Pace::Eager);
            let sum = rig.kernel(&add());
            let buffers: Vec<Handle> = (0..5).map(|_| rig.filled(64, 1)).collect();
            let out = rig.buffer(64);
            buffers.iter().take(roots).for_each(|buffer| assert!(rig.taint(whole(*buffer)) > 0));
            let bound = [silent(whole(buffers[0])), silent(whole(buffers[1])), silent(whole(out))];
            let extra: Vec<SliceUse> = buffers[2..].iter().map(|buffer| with(whole(*buffer), Access::Read)).collect();
            let grown = unlogged_allocations(40_000, |_| assert!(rig.launch_on(0, sum, &bound, &extra).is_err()));
            assert_eq!(grown, 0, "{scheduling:?}, {roots} roots");
        }
    }
}

#[test]
fn r15_a_skip_over_five_roots_or_twenty_allocates_nothing() {
    let rig = Rig::default();
    let (sum, nine) = (rig.kernel(&add()), rig.kernel(&nine()));
    let (a, b, out) = (rig.filled(64, 1), rig.filled(64, 1), rig.buffer(64));
    let more: Vec<_> = (0..3).map(|_| rig.filled(64, 1)).collect();
    let all = [silent(whole(a)), silent(whole(b)), silent(whole(out))];
    let extra: Vec<SliceUse> = more.iter().map(|buffer| with(whole(*buffer), Access::Read)).collect();
    let written = [silent(whole(out))];
    let skips = |count| {
        for _ in 0..count {
            assert!(rig.launch_on(0, sum, &all, &extra).is_err());
            // What was handed on is released, so that the set of all roots has to be made again.
            rig.launch_on(0, nine, &written, &[]).expect("a launch");
            rig.device.stream_wait(0, FOREVER).expect("a wait");
        }
    };
    for each in [1, 4] {
        [a, b].iter().chain(&more).for_each(|buffer| {
            (0..each).for_each(|at| assert!(rig.taint(part(*buffer, at * 8, 8)) > 0));
        });
        skips(1100);
        let grown = allocations(|| {
            for _ in 0..100 {
                assert!(rig.launch_on(0, sum, &all, &extra).is_err());
            }
        });
        assert_eq!(grown, 0, "{} roots, over and over", 5 * each);
        let alone = allocations(|| skips(100));
        let without = allocations(|| {
            for _ in 0..100 {
                rig.launch_on(0, nine, &written, &[]).expect("a launch");
                rig.device.stream_wait(0, FOREVER).expect("a wait");
            }
        });
        assert!(alone <= without, "{} roots, released between: {alone}, {without} without a skip", 5 * each);
    }
}

#[test]
fn r15_a_loop_that_runs_over_claimed_bytes_for_ever_allocates_nothing() {
    // What runs uses the same memory over and over again once as much is unfinished as ever will be.
    let rig = Rig::default();
    let scatter = rig.try_kernel(&nine().encode(), &[Some(Access::MayWrite)], "scatter").0;
    let half = rig.kernel(&Program { group: [8, 1, 1], per: Some(Per { bytes: 4, guarded: false }), ..nine() });
    let (a, b) = (rig.filled(64, 1), rig.filled(64, 1));
    let roots: Vec<u64> = (0..8).map(|at| rig.taint(part(a, at * 8, 8))).collect();
    let root = rig.taint(part(b, 32, 32));
    let clean = rig.filled(64, 1);
    let launches = |buffers: [_; 2], count| {
        for _ in 0..count {
            rig.launch(scatter, &[whole(buffers[0])]).expect("a launch");
            rig.launch(half, &[whole(buffers[1])]).expect("a launch");
        }
        rig.device.wait(tidegate::device::FOREVER).expect("a wait");
    };
    for _ in 0..8 {
        launches([clean, clean], 100);
        launches([a, b], 100);
    }
    let over_clean = allocations(|| launches([clean, clean], 100));
    let over_claimed = allocations(|| launches([a, b], 100));
    assert_eq!(over_claimed, over_clean, "what is known of claims allocates nothing; the host device does");
    assert_eq!(rig.unreadable(whole(a)), roots);
    assert_eq!(rig.unreadable(whole(b)), [root]);
}
