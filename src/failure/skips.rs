//! The work that did not run because of a root, and the path that it draws from the root to other bytes.
//!
//! Bounded (R15): the 16 newest distinct steps with a count each. A loop that skips for ever finds its step again and
//! allocates nothing.

use super::name::Name;
use super::report::{Step, StepKind};
use super::roots::Origin;
use smallvec::SmallVec;
use std::sync::Arc;

/// Distinct steps kept of one root.
pub const MAX_STEPS: usize = 16;

/// One way bytes passed a failure on.
#[derive(Debug)]
struct Passed {
    kind: StepKind,
    kernel: Arc<str>,
    needed: Name,
    produced: SmallVec<[Name; 2]>,
    count: u64,
    /// When it last happened, in steps of this root.
    last: u64,
}

/// The steps of one root.
#[derive(Debug, Default)]
pub struct Skips {
    kept: Vec<Passed>,
    total: u64,
    steps: u64,
    dropped: u64,
}

/// A step as the work that takes it knows it; nothing is copied unless it is new.
pub struct NewStep<'a> {
    /// How.
    pub kind: StepKind,
    /// Which work.
    pub kernel: &'a Arc<str>,
    /// What carried the root.
    pub needed: &'a Name,
    /// What takes it over.
    pub produced: &'a [&'a Name],
}

impl Skips {
    /// Records a step; says whether it is a skip whose number is a power of two, which is when it is logged (R16).
    pub fn record(&mut self, step: &NewStep<'_>) -> bool {
        self.steps += 1;
        let skip = step.kind == StepKind::Skip;
        if skip {
            self.total += 1;
        }
        let same = |passed: &&mut Passed| {
            passed.kind == step.kind
                && passed.needed.serial == step.needed.serial
                && passed.produced.len() == step.produced.len()
                && passed.produced.iter().zip(step.produced).all(|(a, b)| a.serial == b.serial)
                && passed.kernel == *step.kernel
        };
        if let Some(passed) = self.kept.iter_mut().find(same) {
            passed.count += 1;
            passed.last = self.steps;
        } else {
            let passed = Passed {
                kind: step.kind,
                kernel: step.kernel.clone(),
                needed: step.needed.clone(),
                produced: step.produced.iter().map(|name| (*name).clone()).collect(),
                count: 1,
                last: self.steps,
            };
            if self.kept.len() < MAX_STEPS {
                self.kept.push(passed);
            } else if let Some(oldest) = self.kept.iter_mut().min_by_key(|passed| passed.last) {
                *oldest = passed;
                self.dropped += 1;
            }
        }
        skip && self.total.is_power_of_two()
    }

    /// How often work was skipped.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What the newest step was to produce.
    pub fn last_produced(&self) -> Option<u64> {
        self.kept.iter().max_by_key(|passed| passed.last)?.produced.first().map(|name| name.serial)
    }

    /// The path from the root's first bytes, `origin`, to the buffer `asked`: oldest step first.
    pub fn path(&self, origin: &Origin, asked: u64) -> Vec<Step> {
        let mut path = Vec::new();
        let mut taken = [false; MAX_STEPS];
        let mut at = asked;
        let mut before = u64::MAX;
        loop {
            let arrived = origin.contains(at);
            // The step that gave the claim to these bytes happened before the one that took it on from them; where
            // counts hide that order, any step that produced them is better than a gap.
            let step = |limit: u64| {
                self.kept
                    .iter()
                    .enumerate()
                    .filter(|(i, passed)| {
                        !taken[*i] && passed.last < limit && passed.produced.iter().any(|name| name.serial == at)
                    })
                    .max_by_key(|(_, passed)| passed.last)
            };
            let found = step(before).or_else(|| if arrived { None } else { step(u64::MAX) });
            let Some((i, passed)) = found else {
                if !arrived && self.dropped > 0 {
                    path.push(Step {
                        kind: StepKind::Dropped,
                        kernel: String::new(),
                        needed: String::new(),
                        needed_kernel: false,
                        produced: Vec::new(),
                        count: self.dropped,
                    });
                }
                break;
            };
            taken[i] = true;
            before = passed.last;
            at = passed.needed.serial;
            path.push(Step {
                kind: passed.kind,
                kernel: passed.kernel.to_string(),
                needed: passed.needed.shown(),
                needed_kernel: passed.needed.noun == "kernel",
                produced: passed.produced.iter().map(Name::shown).collect(),
                count: passed.count,
            });
        }
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(serial: u64) -> Name {
        Name { noun: "buffer", serial, label: "".into() }
    }

    fn first(serial: u64) -> Origin {
        let mut origin = Origin::default();
        origin.add(serial);
        origin
    }

    fn skip(skips: &mut Skips, kernel: &str, needed: u64, produced: u64) -> bool {
        skips.record(&NewStep {
            kind: StepKind::Skip,
            kernel: &kernel.into(),
            needed: &name(needed),
            produced: &[&name(produced)],
        })
    }

    #[test]
    fn a_step_repeated_is_counted_and_logged_at_powers_of_two() {
        let mut skips = Skips::default();
        let logged = (1..=1000).filter(|_| skip(&mut skips, "k", 1, 1)).count();
        assert_eq!(logged, 10);
        assert_eq!((skips.kept.len(), skips.kept[0].count, skips.total()), (1, 1000, 1000));
    }

    #[test]
    fn the_path_leads_from_the_origin_to_the_bytes_asked_about() {
        let mut skips = Skips::default();
        for at in 1..6 {
            skip(&mut skips, &format!("stage {at}"), at, at + 1);
        }
        skip(&mut skips, "elsewhere", 2, 40);
        let path = skips.path(&first(1), 6);
        let kernels: Vec<_> = path.iter().map(|step| step.kernel.as_str()).collect();
        assert_eq!(kernels, ["stage 1", "stage 2", "stage 3", "stage 4", "stage 5"]);
        assert!(skips.path(&first(1), 1).is_empty());
    }

    #[test]
    fn work_in_place_over_the_first_bytes_is_part_of_the_path() {
        let mut skips = Skips::default();
        for _ in 0..5 {
            skip(&mut skips, "in place", 1, 1);
        }
        let path = skips.path(&first(1), 1);
        assert_eq!((path.len(), path[0].count), (1, 5));
    }

    #[test]
    fn a_gap_says_how_many_steps_are_missing() {
        let mut skips = Skips::default();
        for at in 1..=20 {
            skip(&mut skips, "stage", at, at + 1);
        }
        let path = skips.path(&first(1), 21);
        assert_eq!(path.len(), MAX_STEPS + 1);
        assert_eq!((path[0].kind, path[0].count), (StepKind::Dropped, 4));
    }
}
