//! The reports that callers hold, and the form in which their strings can be lent out.

use super::slices::tg_report;
use super::strings::{Lent, tg_str};
use crate::code::Code;
use crate::error::{Error, Fault, Result};
use crate::failure::{self, StepKind};
use crate::memory::{HandleKind, HandleTable};
use parking_lot::lock_api::RawRwLock as _;
use parking_lot::{RawRwLock, RwLock};
use std::sync::{Arc, LazyLock, OnceLock};

/// A report that was handed out. Nothing in it moves or changes until it is released.
pub(super) struct Kept {
    report: failure::Report,
    /// The Vulkan function behind the answer.
    pub(super) vk_function: Lent,
    /// The function that gave the answer.
    pub(super) function: Lent,
    /// The field that was wrong.
    pub(super) field: Lent,
    /// What the answer says beyond its code.
    pub(super) message: Lent,
    /// The roots.
    pub(super) failures: Box<[KeptFailure]>,
    /// Name and label of the work in flight at a loss, copied when they are asked for.
    suspects: Box<[OnceLock<[Lent; 2]>]>,
    text: OnceLock<Lent>,
    json: OnceLock<Lent>,
}

/// The strings of a root.
pub(super) struct KeptFailure {
    /// The Vulkan entry point.
    pub(super) vk_function: Lent,
    /// What failed.
    pub(super) operation: Lent,
    /// The kernel.
    pub(super) kernel: Lent,
    /// The caller's name.
    pub(super) label: Lent,
    /// What is to be known.
    pub(super) message: Lent,
    /// Labels of the claimed buffers, copied when they are asked for.
    claims: Box<[OnceLock<Lent>]>,
    /// The path.
    pub(super) path: Box<[KeptStep]>,
}

/// The strings of a step.
pub(super) struct KeptStep {
    /// Which work.
    pub(super) kernel: Lent,
    /// The caller's name for it.
    pub(super) label: Lent,
    /// What it needed.
    pub(super) needed: Lent,
    produced: Box<[Lent]>,
    list: OnceLock<List>,
}

/// An array of strings to lend; it points into the step it belongs to.
struct List(Box<[tg_str]>);

// SAFETY: the pointers lead to text that nothing changes until the report is gone, and the list with it.
unsafe impl Send for List {}
// SAFETY: the same.
unsafe impl Sync for List {}

impl KeptStep {
    /// What it was to produce.
    pub(super) fn produced(&self) -> &[tg_str] {
        &self.list.get_or_init(|| List(self.produced.iter().map(Lent::borrow).collect())).0
    }
}

impl KeptFailure {
    /// The label of one of its claims.
    pub(super) fn label_of(&self, index: usize, claim: &failure::ClaimedRange) -> Option<tg_str> {
        Some(self.claims.get(index)?.get_or_init(|| Lent::new(&claim.label)).borrow())
    }
}

impl Kept {
    /// The name and the label of a suspect.
    pub(super) fn suspect(&self, index: usize, suspect: &failure::Suspect) -> Option<[tg_str; 2]> {
        let lent = self.suspects.get(index)?.get_or_init(|| [Lent::new(&suspect.name), Lent::new(&suspect.label)]);
        Some(lent.each_ref().map(Lent::borrow))
    }

    fn new(report: failure::Report, vk_function: &str) -> Kept {
        let lend = |text: &String| Lent::new(text);
        let step = |step: &failure::Step| KeptStep {
            kernel: Lent::new(&step.kernel),
            label: Lent::new(&step.label),
            needed: Lent::new(&step.needed),
            produced: step.produced.iter().map(lend).collect(),
            list: OnceLock::new(),
        };
        let failures = report.failures.iter().map(|failure| KeptFailure {
            vk_function: Lent::new(&failure.vk_function),
            operation: Lent::new(&failure.operation),
            kernel: Lent::new(&failure.kernel),
            label: Lent::new(&failure.label),
            message: Lent::new(&failure.message),
            claims: failure.claims.iter().map(|_| OnceLock::new()).collect(),
            path: failure.path.iter().map(step).collect(),
        });
        Kept {
            vk_function: Lent::new(vk_function),
            function: Lent::new(&report.function),
            field: Lent::new(&report.field),
            message: Lent::new(&report.message),
            failures: failures.collect(),
            suspects: report.suspects.iter().map(|_| OnceLock::new()).collect(),
            text: OnceLock::new(),
            json: OnceLock::new(),
            report,
        }
    }

    /// The data.
    pub(super) fn report(&self) -> &failure::Report {
        &self.report
    }
    /// For a person.
    pub(super) fn text(&self) -> tg_str {
        self.text.get_or_init(|| Lent::new(&self.report.text())).borrow()
    }
    /// For a program.
    pub(super) fn json(&self) -> tg_str {
        self.json.get_or_init(|| Lent::new(&self.report.json())).borrow()
    }
}

/// The number of a step's kind.
pub(super) fn step_number(kind: StepKind) -> u32 {
    match kind {
        StepKind::Skip => super::report::TG_STEP_SKIP,
        StepKind::Copy => super::report::TG_STEP_COPY,
        StepKind::RanOnBadInput => super::report::TG_STEP_RAN_ON_BAD_INPUT,
        StepKind::Dropped => super::report::TG_STEP_DROPPED,
        StepKind::UnprovenWrite => super::report::TG_STEP_UNPROVEN_WRITE,
    }
}

/// Reports belong to the library, so their handles have the serial 0.
static REPORTS: LazyLock<RwLock<HandleTable<Arc<Kept>>>> =
    LazyLock::new(|| RwLock::new(HandleTable::new(HandleKind::Report, 0)));

/// See `devices`.
pub(super) fn lock_for_a_child() {
    std::mem::forget(REPORTS.write());
}

/// Gives back what [`lock_for_a_child`] took.
pub(super) fn unlock_for_a_child() {
    // SAFETY: the thread that forks took it right before, and its guard is gone.
    unsafe { REPORTS.force_unlock_write() };
}

/// Makes the lock new that [`lock_for_a_child`] took. An unlock could pass the lock to a waiting thread, and the child has
/// no such thread.
pub(super) fn renew_in_a_child() {
    // SAFETY: the one thread of the child took it right before the fork, and its guard is gone. The lock is an atomic
    // number, which may be written through a shared reference.
    unsafe { std::ptr::from_ref(REPORTS.raw()).cast_mut().write(RawRwLock::INIT) };
}

/// Keeps a report, and the Vulkan function behind its answer, until the caller releases it.
pub(super) fn add(report: failure::Report, vk_function: &str) -> Result<tg_report> {
    let kept = Arc::new(Kept::new(report, vk_function));
    let handle = REPORTS
        .write()
        .insert(kept)
        .map_err(|_| Error::from(Fault::new(Code::LimitExceeded, "a million reports are not released")))?;
    Ok(handle.into())
}

/// The report of a handle.
pub(super) fn get(report: tg_report) -> Result<Arc<Kept>> {
    REPORTS.read().resolve(report.into(), "report").cloned()
}

/// Lets go of a report.
pub(super) fn remove(report: tg_report) -> Result {
    let mut reports = REPORTS.write();
    reports.check(report.into(), "report")?;
    let kept = reports.remove(report.into());
    // The report goes after the lock.
    drop(reports);
    drop(kept);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_checked_in_order() {
        let code = |id| get(tg_report { id }).map(drop).map_err(|error| error.code());
        assert_eq!(code(0), Err(Code::NullHandle));
        assert_eq!(code(1 << 60), Err(Code::WrongKind));
        assert_eq!(code(7 << 60 | 1 << 40), Err(Code::ForeignHandle));
        assert_eq!(code(7 << 60 | 0xF_FFFF << 20 | 1), Err(Code::StaleHandle));
    }
}
