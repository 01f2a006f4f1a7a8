//! The reports that callers hold, and the form in which their strings can be lent out.

use super::handles::{Kind, MOST, Parts};
use super::slices::tg_report;
use super::strings::{Lent, tg_str};
use super::structs::out_of_host_memory;
use crate::code::Code;
use crate::error::{Error, Fault, Result};
use crate::failure::{self, StepKind};
use parking_lot::RwLock;
use std::sync::{Arc, OnceLock};

/// A report that was handed out. Nothing in it moves or changes until it is released.
pub(super) struct Kept {
    report: failure::Report,
    /// The function that gave the answer.
    pub(super) function: Lent,
    /// The field that was wrong.
    pub(super) field: Lent,
    /// What the answer says beyond its code.
    pub(super) message: Lent,
    /// The roots.
    pub(super) failures: Box<[KeptFailure]>,
    /// The work in flight at a loss.
    pub(super) suspects: Box<[Lent]>,
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
    /// Labels of the claimed buffers.
    pub(super) claims: Box<[Lent]>,
    /// The path.
    pub(super) path: Box<[KeptStep]>,
}

/// The strings of a step.
pub(super) struct KeptStep {
    /// Which work.
    pub(super) kernel: Lent,
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

impl Kept {
    fn new(report: failure::Report) -> Kept {
        let lend = |text: &String| Lent::new(text);
        let step = |step: &failure::Step| KeptStep {
            kernel: Lent::new(&step.kernel),
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
            claims: failure.claims.iter().map(|claim| Lent::new(&claim.label)).collect(),
            path: failure.path.iter().map(step).collect(),
        });
        Kept {
            function: Lent::new(&report.function),
            field: Lent::new(&report.field),
            message: Lent::new(&report.message),
            failures: failures.collect(),
            suspects: report.suspects.iter().map(lend).collect(),
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
    }
}

struct Slot {
    generation: u32,
    kept: Option<Arc<Kept>>,
}

/// Slots are used again under the next generation, and never again after the last one.
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

static REPORTS: RwLock<Table> = RwLock::new(Table { slots: Vec::new(), free: Vec::new() });

impl Table {
    fn add(&mut self, kept: Arc<Kept>) -> Result<Parts> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).ok().filter(|&slot| slot <= MOST).ok_or_else(|| {
                    Error::from(Fault::new(Code::LimitExceeded, "a million reports are not released"))
                })?;
                // Room for every slot to become free is made now, because a release must not fail.
                let room = self.slots.try_reserve(1).and_then(|()| self.free.try_reserve(self.slots.len() + 1));
                room.map_err(|_| out_of_host_memory("the report"))?;
                self.slots.push(Slot { generation: 0, kept: None });
                slot
            }
        };
        let place = &mut self.slots[slot as usize];
        place.generation += 1;
        place.kept = Some(kept);
        Ok(Parts { serial: 0, slot, generation: place.generation })
    }

    fn get(&self, parts: Parts) -> Option<&Arc<Kept>> {
        let slot = self.slots.get(parts.slot as usize)?;
        slot.kept.as_ref().filter(|_| slot.generation == parts.generation)
    }

    fn remove(&mut self, parts: Parts) -> Option<Arc<Kept>> {
        self.get(parts)?;
        let slot = &mut self.slots[parts.slot as usize];
        if slot.generation < MOST {
            self.free.push(parts.slot);
        }
        slot.kept.take()
    }
}

/// Keeps a report until the caller releases it.
pub(super) fn add(report: failure::Report) -> Result<tg_report> {
    let kept = Arc::new(Kept::new(report));
    Ok(tg_report { id: REPORTS.write().add(kept)?.id(Kind::Report) })
}

/// The report of a handle.
pub(super) fn get(report: tg_report) -> Result<Arc<Kept>> {
    let parts = parts(report)?;
    REPORTS.read().get(parts).cloned().ok_or_else(|| Kind::Report.stale(report.id, "report"))
}

/// Lets go of a report.
pub(super) fn remove(report: tg_report) -> Result {
    let parts = parts(report)?;
    // The lock is gone before the report is.
    let removed = REPORTS.write().remove(parts);
    removed.map(drop).ok_or_else(|| Kind::Report.stale(report.id, "report"))
}

fn parts(report: tg_report) -> Result<Parts> {
    let parts = Parts::of(report.id, Kind::Report, "report")?;
    match parts.serial {
        0 => Ok(parts),
        serial => {
            let why = format_args!("reports belong to the library, not to device {serial}");
            Err(Error::misuse(Code::ForeignHandle, "report", why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Arc<Kept> {
        Arc::new(Kept::new(empty()))
    }

    pub(crate) fn empty() -> failure::Report {
        failure::Report {
            function: String::new(),
            field: String::new(),
            code: Code::Ok,
            vk_result: 0,
            message: String::new(),
            failures: Vec::new(),
            more: 0,
            suspects: Vec::new(),
        }
    }

    #[test]
    fn a_slot_used_again_has_another_handle() {
        let mut table = Table { slots: Vec::new(), free: Vec::new() };
        let first = table.add(kept()).expect("room");
        assert!(table.remove(first).is_some());
        assert!(table.remove(first).is_none());
        let second = table.add(kept()).expect("room");
        assert_eq!((second.slot, second.generation), (first.slot, first.generation + 1));
        assert!(table.get(first).is_none() && table.get(second).is_some());
    }

    #[test]
    fn a_slot_at_its_last_generation_retires() {
        let mut table = Table { slots: vec![Slot { generation: MOST - 1, kept: None }], free: vec![0] };
        let last = table.add(kept()).expect("room");
        assert_eq!((last.slot, last.generation), (0, MOST));
        assert!(table.remove(last).is_some());
        assert_eq!(table.add(kept()).expect("room").slot, 1);
    }

    #[test]
    fn handles_are_checked_in_order() {
        let code = |id| get(tg_report { id }).map(drop).map_err(|error| error.code());
        assert_eq!(code(0), Err(Code::NullHandle));
        assert_eq!(code(1 << 60), Err(Code::WrongKind));
        assert_eq!(code(7 << 60 | 1 << 40), Err(Code::ForeignHandle));
        assert_eq!(code(7 << 60 | 0xF_FFFF << 20 | 1), Err(Code::StaleHandle));
    }
}
