//! The budgets of the library, measured: one tab-separated row each, on whatever device Vulkan gives first.
//!
//! Ours and the baseline take turns in this one process, and the medians are compared. Nothing here fails for being
//! slow: the exit status says only whether every result was right. `scripts/bench.sh` sets up what makes the figures
//! comparable.

mod heap;
mod launches;
mod memory;
mod ours;
mod process;
mod raw;
mod reports;
mod store;
mod table;

use launches::Bench;
use tidegate::ffi::{TG_SCHEDULING_INTERLEAVE, TG_SCHEDULING_SEQUENCE};

const USAGE: &str =
    "usage: tidegate-benches [--quick | --event] [ROW...]     rows: B1 (with B2) B3 B4 B5 B6 B7 B8 B9 B10 B11 B12
       --event leaves out what is told of the schedulers beside the event driver
       tidegate-benches --profile ROUNDS      our side of B1 alone, for a profiler";
/// What a first look needs.
const QUICK: [&str; 4] = ["B1", "B2", "B4", "B7"];

fn main() {
    let mut words = std::env::args().skip(1).peekable();
    let quick = words.next_if_eq("--quick").is_some();
    let event = words.next_if_eq("--event").is_some();
    if words.next_if_eq("--profile").is_some() {
        let rounds = words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| usage());
        Bench::new().profile(rounds);
        return;
    }
    let rows: Vec<String> = words.collect();
    if rows.iter().any(|row| !row.starts_with('B') || row[1..].parse::<u32>().is_err()) {
        usage();
    }
    let wanted = |names: &[&str]| {
        names.iter().any(|name| match (quick, rows.is_empty()) {
            (true, _) => QUICK.contains(name),
            (false, true) => true,
            (false, false) => rows.iter().any(|row| row == name),
        })
    };

    process::keep_freed_memory();
    println!("name\tours\tbaseline\tratio\tbudget\tverdict");
    if wanted(&["B7"]) {
        store::success();
    }
    if wanted(&["B8"]) {
        store::fragmented();
    }
    if !wanted(&["B1", "B2", "B3", "B4", "B5", "B6", "B9", "B10", "B11", "B12"]) {
        return;
    }
    let mut bench = Bench::new();
    launches(&mut bench, &wanted);
    // Before the transfers, whose memory would hide what launches leave behind.
    if wanted(&["B11"]) {
        bench.memory();
    }
    if wanted(&["B6"]) {
        bench.transfers();
        bench.large_upload();
    }
    if wanted(&["B9"]) {
        bench.buffers();
    }
    if wanted(&["B10"]) {
        bench.skipped();
    }
    if wanted(&["B12"]) {
        bench.reports();
        bench.slices();
    }
    if quick || event || !wanted(&["B1", "B2", "B3", "B4", "B5", "B10"]) {
        return;
    }
    for scheduling in [TG_SCHEDULING_INTERLEAVE, TG_SCHEDULING_SEQUENCE] {
        bench = bench.with_scheduling(scheduling);
        launches(&mut bench, &wanted);
        if wanted(&["B10"]) {
            bench.skipped();
        }
    }
}

/// The rows of launches that every scheduling has.
fn launches(bench: &mut Bench, wanted: &impl Fn(&[&str]) -> bool) {
    if wanted(&["B1", "B2"]) {
        bench.dependent();
    }
    if wanted(&["B3"]) {
        bench.independent();
    }
    if wanted(&["B4", "B5"]) {
        bench.single(wanted(&["B5"]));
    }
}

fn usage() -> ! {
    eprintln!("{USAGE}");
    std::process::exit(2)
}
