//! Rows of what piles up (B12): reports on many failures, and work over what was used in many pieces.

use crate::launches::Bench;
use crate::ours::{Ours, used, whole};
use crate::table::{Budget, alone, in_turn, nanoseconds_each, row};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;
use tidegate::ffi::{tg_buffer, tg_slice};

const ROOTS: usize = 10_000;
const BUFFERS: usize = 50_000;
/// Slices of one buffer before anything is measured, and again before each measurement.
const SLICES: u64 = 1_000_000;
const SLICES_AGAIN: u64 = 50_000;
const WORD: u64 = 4;

impl Bench {
    /// A device with many failures tells of them, and others go on meanwhile.
    pub(crate) fn reports(&self) {
        let ours = Ours::new(self.scheduling, 0);
        let buffers: Vec<tg_buffer> = (0..BUFFERS).map(|_| ours.buffer(64)).collect();
        for own in buffers.chunks(BUFFERS / ROOTS) {
            let slices: Vec<tg_slice> = own.iter().map(|buffer| whole(*buffer)).collect();
            ours.taint_all(&slices);
        }
        let one = alone(|| nanoseconds_each(1_000_000, || assert_eq!(ours.report(), ROOTS)));
        row("B12 report on 10,000 roots over 50,000 buffers", "ms", one, f64::NAN, Budget::OursAtMost(20.0));

        let (target, bytes) = (ours.buffer(4096), [1; 4096]);
        let worst = |goes_on: &dyn Fn() -> bool| {
            let mut worst = 0.0_f64;
            loop {
                let began = Instant::now();
                ours.write(target, &bytes);
                worst = worst.max(began.elapsed().as_nanos() as f64 / 1e6);
                ours.wait();
                if !goes_on() {
                    return worst;
                }
            }
        };
        let meanwhile = || {
            let told = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writes = scope.spawn(|| worst(&|| !told.load(SeqCst)));
                ours.report();
                told.store(true, SeqCst);
                writes.join().expect("a thread that writes")
            })
        };
        let alone = || {
            let began = Instant::now();
            worst(&|| began.elapsed().as_millis() < 10)
        };
        let (one, other) = in_turn(meanwhile, alone);
        row("B12 the longest write during a report", "ms", one, other, Budget::OursAtMost(1.0));
        buffers.into_iter().chain([target]).for_each(|buffer| ours.destroy(buffer));
    }

    /// A launch over a buffer whose slices were all used, and are finished, against the same launch again.
    pub(crate) fn slices(&self) {
        let ours = Ours::new(self.scheduling, 0);
        let (buffer, other) = (ours.buffer(SLICES * WORD), ours.buffer(SLICES * WORD));
        ours.zero(other);
        let uses = [used(whole(other)), used(whole(buffer))];
        let desc = ours.desc(&uses);
        let fill = |slices: u64| {
            for at in 0..slices {
                ours.fill(tg_slice { buffer, offset: at * (SLICES / slices) * WORD, size: WORD });
            }
            ours.wait();
        };
        let launch = || {
            let each = nanoseconds_each(1, || ours.launch(&desc));
            ours.wait();
            each
        };
        fill(SLICES);
        let (one, again) = in_turn(
            || {
                fill(SLICES_AGAIN);
                launch()
            },
            || {
                launch();
                launch()
            },
        );
        let name = "B12 launch over a buffer after 1,000,000 finished slices of it";
        row(name, "ns", one, again, Budget::TimesAtMost(2.0));
        [buffer, other].into_iter().for_each(|buffer| ours.destroy(buffer));
    }
}
