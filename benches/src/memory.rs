//! Rows of memory: transfers (B6), and creating and destroying buffers (B9).

use crate::launches::{Bench, fill, submit_and_wait};
use crate::process::on_one_processor;
use crate::raw;
use crate::table::{Budget, in_turn, nanoseconds_each, row};
use gpu_allocator::MemoryLocation;
use std::cell::RefCell;
use tidegate::ffi::tg_buffer;

const MIB: usize = 1 << 20;
/// Buffers created and destroyed in one repetition, and the bytes of each.
const BUFFERS: usize = 1_000;
const BUFFER: u64 = 64 << 10;

impl Bench {
    /// Host to device and back, against staging memory that is made once and used again.
    pub(crate) fn transfers(&mut self) {
        for mib in [1, 64, 256] {
            let size = mib * MIB;
            let times = (64 / mib).clamp(1, 16);
            let bandwidth = |ns: f64| size as f64 / ns * 1e9 / f64::from(1 << 30);
            // A small transfer takes no longer than waking up may.
            let turns = |ours: &mut dyn FnMut() -> f64, baseline: &mut dyn FnMut() -> f64| match mib {
                1 => on_one_processor(|| in_turn(ours, baseline)),
                _ => in_turn(ours, baseline),
            };
            let (source, mut target) = (vec![7; size], vec![0; size]);
            let buffer = self.ours.buffer(size as u64);
            let memory = self.raw.buffer(size as u64, MemoryLocation::GpuOnly);
            let up = self.raw.buffer(size as u64, MemoryLocation::CpuToGpu);
            let down = self.raw.buffer(size as u64, MemoryLocation::GpuToCpu);
            fill(&up, size, 1);
            fill(&down, size, 1);
            let Bench { raw, ours, .. } = &mut *self;
            let commands = raw.commands[0];
            let (one, other) = turns(
                &mut || {
                    bandwidth(nanoseconds_each(times, || {
                        for _ in 0..times {
                            ours.write(buffer, &source);
                            ours.wait();
                        }
                    }))
                },
                &mut || {
                    bandwidth(nanoseconds_each(times, || {
                        for _ in 0..times {
                            // SAFETY: both are as long, and the device is done with the staging.
                            unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), up.mapped(), size) };
                            raw.begin(commands);
                            raw.copy(commands, &memory, &up, size as u64);
                            raw.end(commands);
                            submit_and_wait(raw, commands);
                        }
                    }))
                },
            );
            row(&format!("B6 upload of {mib} MiB"), "GiB/s", one, other, Budget::TimesAtLeast(0.95));
            ours.read(buffer, &mut target);
            assert!(target == source, "the upload is not what was written");

            // Both read into the same memory: where that lies decides as much as who copies.
            target.fill(0);
            let target = RefCell::new(target);
            let (one, other) = turns(
                &mut || {
                    bandwidth(nanoseconds_each(times, || {
                        for _ in 0..times {
                            ours.read(buffer, &mut target.borrow_mut());
                        }
                    }))
                },
                &mut || {
                    bandwidth(nanoseconds_each(times, || {
                        for _ in 0..times {
                            raw.begin(commands);
                            raw.copy(commands, &down, &memory, size as u64);
                            raw.end(commands);
                            submit_and_wait(raw, commands);
                            // SAFETY: both are as long, and the device is done with the staging.
                            unsafe {
                                let target = target.borrow_mut().as_mut_ptr();
                                std::ptr::copy_nonoverlapping(down.mapped(), target, size);
                            }
                        }
                    }))
                },
            );
            row(&format!("B6 readback of {mib} MiB"), "GiB/s", one, other, Budget::TimesAtLeast(0.95));
            assert!(*target.borrow() == source, "the readback is not what was written");
            ours.destroy(buffer);
            [memory, up, down].into_iter().for_each(|buffer| raw.free(buffer));
        }
    }

    /// An upload many times as large as the staging memory keeps the bandwidth of one that is four times as large. It
    /// comes in halves: lavapipe's heap has 2 GiB.
    pub(crate) fn large_upload(&mut self) {
        const LARGE: usize = 2048 * MIB;
        let Bench { ours, .. } = &mut *self;
        let sizes = [LARGE / 2, 256 * MIB];
        let source: Vec<u8> = (0..sizes[0] / 8).flat_map(|word| (word as u64).to_ne_bytes()).collect();
        let buffers = sizes.map(|size| ours.buffer(size as u64));
        let bandwidth = |which: usize| {
            let ns = nanoseconds_each(1, || {
                for _ in 0..LARGE / sizes[which] {
                    ours.write(buffers[which], &source[..sizes[which]]);
                    if which == 1 {
                        ours.wait();
                    }
                }
                ours.wait();
            });
            LARGE as f64 / ns * 1e9 / f64::from(1 << 30)
        };
        let (one, other) = in_turn(|| bandwidth(0), || bandwidth(1));
        row("B6 upload of 2 GiB through 64 MiB, beside 256 MiB", "GiB/s", one, other, Budget::TimesAtLeast(0.9));
        let mut target = vec![0; 64 * MIB];
        for (at, bytes) in source.chunks(target.len()).enumerate() {
            ours.read_part(buffers[0], (at * target.len()) as u64, &mut target);
            assert!(target == bytes, "the upload is not what was written");
        }
        buffers.into_iter().for_each(|buffer| ours.destroy(buffer));
    }

    /// A buffer made and destroyed, with a page there already: alone in it, and among others that left holes, none of
    /// them large enough for it.
    pub(crate) fn buffers(&mut self) {
        const OTHERS: u64 = 2_000;
        // Keeps a page, on both sides, from going back to the driver.
        let mut kept = vec![self.pair(BUFFER)];
        self.create_and_destroy("B9 create and destroy a buffer, warm", 0.7);
        let others: Vec<_> = (0..OTHERS).map(|i| self.pair(256 * (1 + i % 64))).collect();
        for (i, other) in others.into_iter().enumerate() {
            if i % 2 == 0 { kept.push(other) } else { self.destroy(other) }
        }
        self.create_and_destroy("B9 the same among 1,000 others and as many holes", 0.05);
        kept.into_iter().for_each(|pair| self.destroy(pair));
    }

    fn create_and_destroy(&mut self, name: &str, budget: f64) {
        let Bench { raw, ours, .. } = &mut *self;
        let (one, other) = in_turn(
            || nanoseconds_each(BUFFERS, || (0..BUFFERS).for_each(|_| ours.destroy(ours.buffer(BUFFER)))),
            || {
                nanoseconds_each(BUFFERS, || {
                    for _ in 0..BUFFERS {
                        let buffer = raw.buffer(BUFFER, MemoryLocation::GpuOnly);
                        raw.free(buffer);
                    }
                })
            },
        );
        row(name, "ns", one, other, Budget::TimesAtMost(budget));
    }

    /// A buffer on each side.
    fn pair(&mut self, size: u64) -> (tg_buffer, raw::Buffer) {
        (self.ours.buffer(size), self.raw.buffer(size, MemoryLocation::GpuOnly))
    }

    fn destroy(&mut self, (ours, raw): (tg_buffer, raw::Buffer)) {
        self.ours.destroy(ours);
        self.raw.free(raw);
    }
}
