//! The work that did not run because of a root, and the path that it draws from the root to other bytes.
//!
//! Bounded (R15): the 16 newest distinct steps with a count each. A loop that skips for ever finds its step again and
//! allocates nothing.

use super::ledger::Called;
use super::name::Name;
use super::report::{Step, StepKind};
use super::roots::Origin;
use super::store::{MAX_NAME, cut};
use arrayvec::ArrayString;
use smallvec::SmallVec;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Distinct steps kept of one root.
pub const MAX_STEPS: usize = 16;

/// One way bytes passed a failure on.
#[derive(Debug)]
struct Passed {
    kind: StepKind,
    kernel: Arc<str>,
    /// What the caller called it the last time.
    label: ArrayString<MAX_NAME>,
    tag: u64,
    needed: Name,
    produced: SmallVec<[Name; 2]>,
    count: u64,
    /// It may have happened more often: how often is forgotten of some steps, and this may be one.
    at_least: bool,
    /// When it last happened, in steps of this root.
    last: u64,
}

/// Steps of one root of which only the number is kept, in case that they happen again.
const MAX_DROPPED: usize = 256;

/// A step that is no longer kept.
#[derive(Debug)]
struct Gone {
    /// Of what makes it distinct.
    hash: u64,
    count: u64,
    at_least: bool,
}

/// Steps that are no longer kept.
#[derive(Debug, Default)]
struct Dropped {
    known: Vec<Gone>,
    /// Which is forgotten next.
    next: usize,
    /// Some were.
    forgot: bool,
}

impl Dropped {
    fn add(&mut self, gone: Gone) {
        if self.known.len() < MAX_DROPPED {
            self.known.push(gone);
        } else {
            self.known[self.next] = gone;
            self.next = (self.next + 1) % MAX_DROPPED;
            self.forgot = true;
        }
    }

    /// How often a step happened before that is not kept, and whether it may be more.
    fn take(&mut self, hash: u64) -> (u64, bool) {
        match self.known.iter().position(|gone| gone.hash == hash) {
            Some(at) => {
                let Gone { count, at_least, .. } = self.known.swap_remove(at);
                (count, at_least)
            }
            None => (0, self.forgot),
        }
    }
}

/// The steps of one root.
#[derive(Debug, Default)]
pub struct Skips {
    kept: Vec<Passed>,
    total: u64,
    steps: u64,
    dropped: Dropped,
}

/// A step as the work that takes it knows it; nothing is copied unless it is new.
pub struct NewStep<'a> {
    /// How.
    pub kind: StepKind,
    /// Which work. Its label and number do not make a step distinct: they may be new each time.
    pub work: Called<'a>,
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
        let label = ArrayString::from(cut(step.work.label, MAX_NAME)).unwrap_or_default();
        let tag = step.work.tag;
        let same = |passed: &&mut Passed| {
            passed.kind == step.kind
                && passed.needed.serial == step.needed.serial
                && passed.produced.len() == step.produced.len()
                && passed.produced.iter().zip(step.produced).all(|(a, b)| a.serial == b.serial)
                && passed.kernel == *step.work.name
        };
        if let Some(passed) = self.kept.iter_mut().find(same) {
            passed.count += 1;
            passed.last = self.steps;
            (passed.label, passed.tag) = (label, tag);
        } else {
            self.record_new(step, label, tag);
        }
        skip && self.total.is_power_of_two()
    }

    fn record_new(&mut self, step: &NewStep<'_>, label: ArrayString<MAX_NAME>, tag: u64) {
        let hash = hash_of(step.kind, step.work.name, step.needed.serial, step.produced.iter().map(|name| name.serial));
        let (before, at_least) = self.dropped.take(hash);
        let mut passed = Passed {
            kind: step.kind,
            kernel: step.work.name.clone(),
            label,
            tag,
            needed: step.needed.clone(),
            produced: SmallVec::new(),
            count: before + 1,
            at_least,
            last: self.steps,
        };
        let produced = step.produced.iter().map(|name| (*name).clone());
        if self.kept.len() < MAX_STEPS {
            passed.produced.extend(produced);
            self.kept.push(passed);
        } else if let Some(oldest) = self.kept.iter_mut().min_by_key(|passed| passed.last) {
            let serials = oldest.produced.iter().map(|name| name.serial);
            let hash = hash_of(oldest.kind, &oldest.kernel, oldest.needed.serial, serials);
            self.dropped.add(Gone { hash, count: oldest.count, at_least: oldest.at_least });
            // In the memory of what goes, so that a loop over many steps allocates nothing.
            passed.produced = std::mem::take(&mut oldest.produced);
            passed.produced.clear();
            passed.produced.extend(produced);
            *oldest = passed;
        }
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
                if !arrived && !self.dropped.known.is_empty() {
                    path.push(Step {
                        kind: StepKind::Dropped,
                        kernel: String::new(),
                        label: String::new(),
                        tag: 0,
                        needed: String::new(),
                        needed_kernel: false,
                        produced: Vec::new(),
                        count: self.dropped.known.len() as u64,
                        at_least: self.dropped.forgot,
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
                label: passed.label.to_string(),
                tag: passed.tag,
                needed: passed.needed.shown(),
                needed_kernel: passed.needed.noun == "kernel",
                produced: passed.produced.iter().map(Name::shown).collect(),
                count: passed.count,
                at_least: passed.at_least,
            });
        }
        path.reverse();
        path
    }
}

/// Of what makes a step distinct.
fn hash_of(kind: StepKind, kernel: &str, needed: u64, produced: impl Iterator<Item = u64>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind as u8, kernel, needed).hash(&mut hasher);
    produced.for_each(|serial| serial.hash(&mut hasher));
    hasher.finish()
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
        let kernel: Arc<str> = kernel.into();
        skips.record(&NewStep {
            kind: StepKind::Skip,
            work: (&kernel).into(),
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

    #[test]
    fn a_step_that_returns_is_counted_on_and_no_number_lies() {
        let mut skips = Skips::default();
        // More steps than are kept, in turn: none stays for long.
        for _ in 0..100 {
            (1..=40).for_each(|at| {
                skip(&mut skips, "stage", at, at + 100);
            });
        }
        for at in 25..=40 {
            let step = &skips.path(&first(at), at + 100)[0];
            assert_eq!((step.count, step.at_least), (100, false));
        }
        assert_eq!(skips.dropped.known.len(), 24, "each of them once, however often it was dropped");
        // So many that their numbers are forgotten: then the number says that it may be more.
        (1..=1000).for_each(|at| {
            skip(&mut skips, "other", at, at + 2000);
        });
        skip(&mut skips, "stage", 40, 140);
        let path = skips.path(&first(7), 140);
        assert_eq!((path[1].count, path[1].at_least), (1, true));
        assert_eq!((path[0].kind, path[0].at_least), (StepKind::Dropped, true));
        assert_eq!(path[0].count, MAX_DROPPED as u64);
        assert_eq!(skips.total(), 5001);
    }
}
