//! The rows, and how two ways of doing the same work are measured against each other.

use std::time::Instant;

/// Repetitions of each side, as many of them first in their turn as second: who is second finds the caches as the other
/// left them. The middle ones count.
const REPETITIONS: usize = 16;

/// What a row is allowed.
#[derive(Clone, Copy)]
pub(crate) enum Budget {
    /// Ours over the baseline, at the most.
    TimesAtMost(f64),
    /// Ours over the baseline, at the least: for bandwidths.
    TimesAtLeast(f64),
    /// Ours less the baseline, at the most, in the unit of the row.
    MoreAtMost(f64),
    /// Ours itself, at the most, in the unit of the row.
    OursAtMost(f64),
    /// Told beside the others.
    None,
}

/// Prints the row: name, ours, baseline, ratio, budget, `ok` or `MISS`. A baseline that is no number is none; a budget
/// that needs one has no verdict then.
pub(crate) fn row(name: &str, unit: &str, ours: f64, baseline: f64, budget: Budget) {
    let ratio = ours / baseline;
    let quantity = |number: f64| format!("{number:.3} {unit}").trim_end().to_owned();
    let (within, words) = match budget {
        Budget::TimesAtMost(most) => (ratio <= most, format!("<= {most}x")),
        Budget::TimesAtLeast(least) => (ratio >= least, format!(">= {least}x")),
        Budget::MoreAtMost(most) => (ours - baseline <= most, format!("<= +{most} {unit}")),
        Budget::OursAtMost(most) => (ours <= most, format!("<= {most} {unit}").trim_end().to_owned()),
        Budget::None => (true, "-".to_owned()),
    };
    let relation = match budget {
        _ if baseline.is_nan() => "-".into(),
        Budget::MoreAtMost(_) => format!("{:+.1} {unit}", ours - baseline),
        _ => format!("{ratio:.3}x"),
    };
    let (ours, baseline) = (quantity(ours), if baseline.is_nan() { "-".into() } else { quantity(baseline) });
    let verdict = match budget {
        Budget::None => "-",
        Budget::TimesAtMost(_) | Budget::TimesAtLeast(_) | Budget::MoreAtMost(_) if ratio.is_nan() => "-",
        _ if within => "ok",
        _ => "MISS",
    };
    println!("{name}\t{ours}\t{baseline}\t{relation}\t{words}\t{verdict}");
}

/// Measures both, one after the other in turn, so that whatever slows the machine slows both: the medians.
pub(crate) fn in_turn(mut ours: impl FnMut() -> f64, mut baseline: impl FnMut() -> f64) -> (f64, f64) {
    let mut measured = (Vec::new(), Vec::new());
    // The first rounds only warm up.
    for round in 0..2 + REPETITIONS {
        let (one, other) = if round % 2 == 0 {
            let one = ours();
            (one, baseline())
        } else {
            let other = baseline();
            (ours(), other)
        };
        if round >= 2 {
            measured.0.push(one);
            measured.1.push(other);
        }
    }
    (median(measured.0), median(measured.1))
}

/// Measures one thing.
pub(crate) fn alone(mut ours: impl FnMut() -> f64) -> f64 {
    ours();
    median((0..REPETITIONS).map(|_| ours()).collect())
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    let middle = of.len() / 2;
    if of.len() % 2 == 1 { of[middle] } else { (of[middle - 1] + of[middle]) / 2.0 }
}

/// How long `work` takes for each of `count` things, in nanoseconds.
pub(crate) fn nanoseconds_each(count: usize, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_nanos() as f64 / count as f64
}

/// The same in time that this thread ran: for work that happens on it alone, where others may want its processor.
pub(crate) fn processor_nanoseconds_each(count: usize, work: impl FnOnce()) -> f64 {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the output is writable.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let began = now();
    work();
    (now() - began) / count as f64
}
