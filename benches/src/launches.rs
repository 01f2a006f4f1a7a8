//! Rows of launches: B1 to B5, B10 and B11.

use crate::heap::{allocations, live_bytes, resident_bytes};
use crate::ours::{Chain, Ours, all_are, used, whole};
use crate::process::on_one_processor;
use crate::raw::{Buffer, CELL, Launches, Raw};
use crate::table::{Budget, alone, in_turn, nanoseconds_each, processor_nanoseconds_each, row};
use ash::vk;
use gpu_allocator::MemoryLocation;
use tidegate::ffi::{TG_SCHEDULING_EVENT, TG_SCHEDULING_INTERLEAVE, tg_launch_desc, tg_slice};

/// Launches of one repetition.
const LAUNCHES: usize = 10_000;
/// Submissions of one repetition, where each launch is submitted by itself.
const SUBMISSIONS: usize = 1_000;
/// A skip is logged at powers of two; between 2^15 and 2^16 skips there is none.
const SKIPS_BEFORE: usize = 1 << 15;

/// Both sides with their dependent launches.
pub(crate) struct Bench {
    pub(crate) scheduling: u32,
    pub(crate) raw: Raw,
    pub(crate) ours: Ours,
    chain: Chain,
    cells: [Buffer; 2],
    raw_chain: Launches,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let scheduling = TG_SCHEDULING_EVENT;
        let ours = Ours::new(scheduling, 0);
        let chain = ours.chain();
        let mut raw = Raw::new(SUBMISSIONS as u32);
        let cells = [(); 2].map(|()| raw.buffer(CELL, MemoryLocation::CpuToGpu));
        let [first, second] = [(cells[0].raw, 0), (cells[1].raw, 0)];
        let raw_chain = raw.launches(&[[first, second], [second, first]]);
        Bench { scheduling, raw, ours, chain, cells, raw_chain }
    }

    /// The same baseline against another scheduling of ours: the budgets are for the event driver, so these rows are
    /// told beside and have no verdict.
    pub(crate) fn with_scheduling(self, scheduling: u32) -> Bench {
        let ours = Ours::new(scheduling, 0);
        let chain = ours.chain();
        Bench { scheduling, ours, chain, ..self }
    }

    fn row(&self, name: &str, unit: &str, ours: f64, baseline: f64, budget: Budget) {
        match self.scheduling {
            TG_SCHEDULING_EVENT => row(name, unit, ours, baseline, budget),
            TG_SCHEDULING_INTERLEAVE => row(&format!("{name} [interleave]"), unit, ours, baseline, Budget::None),
            _ => row(&format!("{name} [sequence]"), unit, ours, baseline, Budget::None),
        }
    }

    fn zero(&self) {
        self.cells.iter().for_each(|cell| fill(cell, CELL as usize, 0));
        self.chain.buffers.iter().for_each(|buffer| self.ours.zero(*buffer));
    }

    fn check_raw(&self, count: u32) {
        assert!(all_are(mapped(&self.cells[0], CELL), count), "the baseline's launches did not all run");
    }

    /// Dependent launches: all of them, and the part of it that is the calls.
    pub(crate) fn dependent(&mut self) {
        let (bind, launches) = (self.raw.faster(&self.raw_chain, LAUNCHES, true), LAUNCHES as u32);
        self.zero();
        let Bench { raw, ours, chain, raw_chain, .. } = &mut *self;
        let (mut ran, mut raw_ran) = (0, 0);
        let (one, other) = in_turn(
            || {
                ran += launches;
                nanoseconds_each(LAUNCHES, || {
                    chain.launch(ours, LAUNCHES);
                    ours.wait();
                })
            },
            || {
                raw_ran += launches;
                nanoseconds_each(LAUNCHES, || raw.run(raw_chain, LAUNCHES, bind, true))
            },
        );
        chain.check(ours, ran);
        self.check_raw(raw_ran);
        self.row("B1 10,000 dependent launches and a wait, each", "ns", one, other, Budget::TimesAtMost(1.05));

        // Recording against recording: neither side executes meanwhile, and both record the same commands, so that the
        // difference is what tg_launch does beyond them.
        let bind = self.raw.pushed_if_possible();
        self.zero();
        let quiet = Ours::new(self.scheduling, 1 << 20);
        let chain = quiet.chain();
        let Bench { raw, raw_chain, .. } = &mut *self;
        let (mut ran, mut allocated) = (0, 0);
        let (one, other) = in_turn(
            || {
                let mut calls = f64::NAN;
                allocated = allocations(|| {
                    calls = processor_nanoseconds_each(LAUNCHES, || chain.launch(&quiet, LAUNCHES));
                });
                quiet.wait();
                ran += launches;
                calls
            },
            || {
                let commands = raw.commands[0];
                raw.begin(commands);
                let calls =
                    processor_nanoseconds_each(LAUNCHES, || raw.record(commands, raw_chain, LAUNCHES, bind, true));
                raw.end(commands);
                let value = raw.submit(commands);
                raw.wait(value);
                calls
            },
        );
        chain.check(&quiet, ran);
        self.row("B2 tg_launch beyond recording", "ns", one, other, Budget::MoreAtMost(150.0));
        let each = allocated as f64 / LAUNCHES as f64;
        self.row("B2 heap allocations per launch after warm-up", "", each, f64::NAN, Budget::OursAtMost(0.0));
    }

    /// Launches that share no byte that any of them writes.
    pub(crate) fn independent(&mut self) {
        let size = CELL * LAUNCHES as u64;
        let (from, to) = (self.ours.buffer(CELL), self.ours.buffer(size));
        [from, to].iter().for_each(|buffer| self.ours.zero(*buffer));
        let uses: Vec<_> = (0..LAUNCHES as u64)
            .map(|i| [used(whole(from)), used(tg_slice { buffer: to, offset: i * CELL, size: CELL })])
            .collect();
        let descs: Vec<tg_launch_desc> = uses.iter().map(|uses| self.ours.desc(uses)).collect();

        let raw_from = self.raw.buffer(CELL, MemoryLocation::CpuToGpu);
        let raw_to = self.raw.buffer(size, MemoryLocation::CpuToGpu);
        fill(&raw_from, CELL as usize, 0);
        let pairs: Vec<_> = (0..LAUNCHES as u64).map(|i| [(raw_from.raw, 0), (raw_to.raw, i * CELL)]).collect();
        let raw_launches = self.raw.launches(&pairs);
        let bind = self.raw.faster(&raw_launches, LAUNCHES, false);

        let Bench { raw, ours, .. } = &mut *self;
        let (one, other) = in_turn(
            || {
                nanoseconds_each(LAUNCHES, || {
                    descs.iter().for_each(|desc| ours.launch(desc));
                    ours.wait();
                })
            },
            || nanoseconds_each(LAUNCHES, || raw.run(&raw_launches, LAUNCHES, bind, false)),
        );
        let mut bytes = vec![0; size as usize];
        ours.read(to, &mut bytes);
        assert!(all_are(&bytes, 1), "an independent launch did not run");
        assert!(all_are(mapped(&raw_to, size), 1), "the baseline's launches did not all run");
        [from, to].iter().for_each(|buffer| ours.destroy(*buffer));
        raw.free(raw_from);
        raw.free(raw_to);
        self.row("B3 10,000 independent launches and a wait, each", "ns", one, other, Budget::TimesAtMost(1.1));
    }

    /// One launch at a time: waited for, and only flushed.
    pub(crate) fn single(&mut self, and_flushed: bool) {
        const WAITED: usize = 500;
        let bind = self.raw.faster(&self.raw_chain, 1, true);
        self.zero();
        let Bench { raw, ours, chain, raw_chain, .. } = &mut *self;
        let (mut ran, mut raw_ran) = (0, 0);
        let descs = [ours.desc(&chain.uses[0]), ours.desc(&chain.uses[1])];
        let (one, other) = on_one_processor(|| {
            in_turn(
                || {
                    ran += WAITED as u32;
                    nanoseconds_each(WAITED, || {
                        for i in 0..WAITED {
                            ours.launch(&descs[i % 2]);
                            ours.wait();
                        }
                    })
                },
                || {
                    raw_ran += 1;
                    nanoseconds_each(WAITED, || (0..WAITED).for_each(|_| raw.run(raw_chain, 1, bind, true)))
                },
            )
        });
        chain.check(ours, ran);
        assert!(raw_ran > 0 && all_are(mapped(&self.cells[1], CELL), 1), "the baseline's launch did not run");
        self.row("B4 one launch and wait", "ns", one, other, Budget::TimesAtMost(1.1));
        if !and_flushed {
            return;
        }

        self.zero();
        let Bench { raw, ours, chain, raw_chain, .. } = &mut *self;
        let mut ran = 0;
        let (one, other) = in_turn(
            || {
                ran += SUBMISSIONS as u32;
                let calls = nanoseconds_each(SUBMISSIONS, || {
                    for i in 0..SUBMISSIONS {
                        ours.launch(&descs[i % 2]);
                        ours.flush();
                    }
                });
                ours.wait();
                calls
            },
            || {
                let mut last = 0;
                let calls = nanoseconds_each(SUBMISSIONS, || {
                    for i in 0..SUBMISSIONS {
                        let commands = raw.commands[i];
                        raw.begin(commands);
                        raw.record(commands, raw_chain, 1, bind, true);
                        raw.end(commands);
                        last = raw.submit(commands);
                    }
                });
                raw.wait(last);
                calls
            },
        );
        chain.check(ours, ran);
        self.row("B5 launch and flush, 1,000 times, each", "ns", one, other, Budget::TimesAtMost(1.5));
    }

    /// A launch that skips against one that runs.
    pub(crate) fn skipped(&mut self) {
        let ours = &self.ours;
        let [bad, after] = [ours.buffer(CELL), ours.buffer(CELL)];
        ours.taint(bad);
        let uses = [used(whole(bad)), used(whole(after))];
        let desc = ours.desc(&uses);
        for _ in 0..SKIPS_BEFORE {
            ours.skip(&desc);
        }
        let allocated = allocations(|| (0..LAUNCHES).for_each(|_| ours.skip(&desc)));
        let chain = &self.chain;
        let (one, other) = in_turn(
            || nanoseconds_each(LAUNCHES, || (0..LAUNCHES).for_each(|_| ours.skip(&desc))),
            || {
                let calls = nanoseconds_each(LAUNCHES, || chain.launch(ours, LAUNCHES));
                ours.wait();
                calls
            },
        );
        self.row("B10 a launch that skips, against one that runs", "ns", one, other, Budget::TimesAtMost(0.5));
        let each = allocated as f64 / LAUNCHES as f64;
        self.row("B10 heap allocations per skip after warm-up", "", each, f64::NAN, Budget::OursAtMost(0.0));
        [bad, after].iter().for_each(|buffer| ours.destroy(*buffer));
    }

    /// What many launches leave behind.
    pub(crate) fn memory(&self) {
        // It flushes only when it is waited for, so that every round leaves as much unfinished, however quick the driver.
        let ours = &Ours::new(self.scheduling, 1 << 20);
        let chain = ours.chain();
        let run = |rounds: usize| {
            for _ in 0..rounds {
                chain.launch(ours, LAUNCHES);
                ours.wait();
            }
            (live_bytes() as f64 / 1024.0, resident_bytes() / 1024.0)
        };
        let (few, few_resident) = run(1);
        let (many, many_resident) = run(99);
        chain.check(ours, 100 * LAUNCHES as u32);
        row("B11 live heap after 1,000,000 launches, against 10,000", "KiB", many, few, Budget::MoreAtMost(0.0));
        // The driver's own heap and the allocator's fragments are in here too: one percent is noise.
        let name = "B11 resident memory after the same";
        row(name, "KiB", many_resident, few_resident, Budget::TimesAtMost(1.01));
    }

    /// Our side of B1 alone, for a profiler to look at.
    pub(crate) fn profile(&mut self, rounds: usize) {
        self.zero();
        let (ours, chain) = (&self.ours, &self.chain);
        let calls = alone(|| {
            let calls = nanoseconds_each(LAUNCHES, || (0..rounds).for_each(|_| chain.launch(ours, LAUNCHES)));
            ours.wait();
            calls / rounds as f64
        });
        eprintln!("# {calls:.1} ns in each tg_launch");
    }
}

fn mapped(buffer: &Buffer, size: u64) -> &[u8] {
    // SAFETY: the memory is mapped and as long, and the device is done with it.
    unsafe { std::slice::from_raw_parts(buffer.mapped(), size as usize) }
}

/// Gives every byte of a host-visible buffer that nothing uses the same value.
pub(crate) fn fill(buffer: &Buffer, size: usize, byte: u8) {
    // SAFETY: the memory is mapped and as long, and nothing runs.
    unsafe { buffer.mapped().write_bytes(byte, size) };
}

/// Runs what was recorded.
pub(crate) fn submit_and_wait(raw: &mut Raw, commands: vk::CommandBuffer) {
    let value = raw.submit(commands);
    raw.wait(value);
}
