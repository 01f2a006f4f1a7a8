//! Taking a report: the roots, the claims they still have, and the paths to what was asked about.
//!
//! A report may be long, and a write on another thread does not wait for it. The report is taken in pieces, and the store
//! is free between them. Text is rendered after the last piece. So each root and each claim is told as of one moment of
//! the call, but not all as of the same moment: changes that other threads make meanwhile may be told or not. A report
//! that fits one piece, as most do, is of one moment.

use super::claims::{BlockKey, Bytes, Claims};
use super::report::{ClaimedRange, Failure, Report, Step};
use super::roots::{Cause, Root};
use super::store::{Blocks, FailureStore};
use crate::code::Code;
use crate::error::Roots;
use hashbrown::HashMap;
use slotmap::Key;
use std::sync::Arc;

/// How much of a report is taken at a time: ranges looked at, roots and steps. A fraction of a millisecond.
const PIECE: usize = 512;
/// What a step weighs against a range: it is put into words at once.
const STEP: usize = 8;

/// Where taking goes on.
enum At {
    /// With the claims of a block, from a byte on.
    Claims { serial: u64, block: BlockKey, offset: u64 },
    /// With the roots younger than this.
    Roots(u64),
    /// Nowhere.
    End,
}

/// A report that is being taken.
pub struct Taking {
    at: At,
    /// The roots it is about; nothing: all that there were when it began.
    about: Option<Roots>,
    last_id: u64,
    claims: Vec<Claim>,
    roots: Vec<Told>,
    report: Report,
}

/// A claim of a root.
struct Claim {
    root: u64,
    buffer: u64,
    label: Arc<str>,
    offset: u64,
    size: u64,
}

/// A root, not yet in words.
struct Told {
    id: u64,
    cause: Option<Arc<Cause>>,
    skips: u64,
    path: Vec<Step>,
}

/// Reports on what a store holds.
pub trait Reporting: FailureStore {
    /// Takes a piece of a report; false when that was the last one.
    fn take(&self, taking: &mut Taking) -> bool {
        let mut room = PIECE;
        if matches!(taking.at, At::Claims { .. }) {
            take_claims(self, taking, &mut room);
        }
        if let At::Roots(since) = taking.at {
            take_roots(self, taking, since, room);
        }
        !matches!(taking.at, At::End)
    }

    /// Begins a report on the roots of an answer that still live, with paths to what the answer was about.
    fn begin_report(&self, roots: &Roots) -> Taking {
        let mut taking = self.begin_report_on_all();
        taking.report.more = roots.more;
        if roots.ids.is_empty() {
            taking.at = At::End;
        }
        taking.about = Some(roots.clone());
        taking
    }

    /// Begins a report on everything the store holds, oldest first.
    fn begin_report_on_all(&self) -> Taking {
        let (_, failures) = self.parts();
        let mut report = Report::empty();
        report.suspects = failures.suspects().clone();
        let at = At::Claims { serial: 0, block: BlockKey::null(), offset: 0 };
        let last_id = failures.roots.last_id();
        Taking { at, about: None, last_id, claims: Vec::new(), roots: Vec::new(), report }
    }

    /// Begins a report on bytes: every root that claims one of them, once.
    fn begin_report_on(&self, asked: &[Bytes]) -> Taking {
        match self.ensure_written(asked) {
            Ok(()) => Taking { at: At::End, report: Report::empty(), ..self.begin_report_on_all() },
            Err(roots) => self.begin_report(&roots),
        }
    }
}

impl<S: FailureStore + ?Sized> Reporting for S {}

/// Takes claims until there is no room for more, or there are none.
fn take_claims<S: FailureStore + ?Sized>(store: &S, taking: &mut Taking, room: &mut usize) {
    let At::Claims { serial, block, offset } = taking.at else { return };
    let (blocks, failures) = store.parts();
    for (number, key) in failures.roots.claimed_since((serial, block)) {
        let Some(claims) = blocks.claims(key) else { continue };
        let from = if (number, key) == (serial, block) { offset } else { 0 };
        let mut label = None;
        let mut stopped = None;
        each_range(claims, from, |start, end, set| {
            if *room == 0 {
                stopped = Some(start);
                return false;
            }
            *room -= 1;
            for (_, root) in failures.roots.members(set) {
                let is_asked = taking.about.as_ref().is_none_or(|about| about.ids.contains(&root.id));
                if is_asked && root.id <= taking.last_id {
                    let label = label.get_or_insert_with(|| claims.name.label()).clone();
                    taking.claims.push(Claim {
                        root: root.id,
                        buffer: number,
                        label,
                        offset: start,
                        size: end - start,
                    });
                    *room = room.saturating_sub(1);
                }
            }
            true
        });
        if let Some(offset) = stopped {
            taking.at = At::Claims { serial: number, block: key, offset };
            return;
        }
    }
    taking.at = At::Roots(0);
}

fn each_range(claims: &Claims, from: u64, mut see: impl FnMut(u64, u64, super::SetKey) -> bool) {
    match claims.unallocated {
        Some(set) if from < claims.size => drop(see(from, claims.size, set)),
        Some(_) => {}
        None => claims.map.visit_while(from, |start, end, set| see(start, end, *set)),
    }
}

fn take_roots<S: FailureStore + ?Sized>(store: &S, taking: &mut Taking, since: u64, mut room: usize) {
    let (_, failures) = store.parts();
    if let Some(about) = &taking.about {
        for id in &about.ids {
            let root = failures.roots.find(*id).and_then(|key| failures.roots.get(key));
            taking.roots.extend(root.map(|root| told(root, &about.asked)));
        }
        taking.at = At::End;
        return;
    }
    let mut last = since;
    for (_, root) in failures.roots.since(since) {
        if root.id > taking.last_id {
            break;
        }
        if room == 0 {
            taking.at = At::Roots(last);
            return;
        }
        let told = told(root, &[]);
        last = root.id;
        room = room.saturating_sub(1 + STEP * told.path.len());
        taking.roots.push(told);
    }
    taking.at = At::End;
}

fn told(root: &Root, asked: &[u64]) -> Told {
    let last = root.skips.last_produced();
    let path = asked
        .iter()
        .chain(if asked.is_empty() { last.as_ref() } else { None })
        .map(|asked| root.skips.path(&root.origin, *asked))
        .max_by_key(Vec::len)
        .unwrap_or_default();
    Told { id: root.id, cause: root.cause.clone(), skips: root.skips.total(), path }
}

impl Taking {
    /// The report, once all of it is taken. Needs no store, and blocks no call.
    pub fn finish(self) -> Report {
        let Taking { claims, roots, mut report, about, .. } = self;
        report.failures = roots.into_iter().map(described).collect();
        let places: HashMap<u64, usize> = report.failures.iter().enumerate().map(|(at, root)| (root.id, at)).collect();
        for Claim { root, buffer, label, offset, size } in claims {
            // What went meanwhile took its claims along.
            let Some(at) = places.get(&root) else { continue };
            let failure = &mut report.failures[*at];
            failure.claimed_bytes = failure.claimed_bytes.saturating_add(size);
            match failure.claims.last_mut() {
                // Side by side, and different only in other roots.
                Some(last) if last.buffer == buffer && last.offset + last.size == offset => last.size += size,
                _ => failure.claims.push(ClaimedRange { buffer, label, offset, size }),
            }
        }
        // Where no byte is asked about there is no answer to give.
        if about.is_some() && !report.failures.is_empty() {
            report.code = Code::Unwritten;
        }
        report
    }
}

impl Report {
    /// A report that has nothing to tell.
    pub fn empty() -> Report {
        Report {
            function: String::new(),
            field: String::new(),
            code: Code::Ok,
            vk_result: 0,
            message: String::new(),
            failures: Vec::new(),
            more: false,
            suspects: Arc::default(),
        }
    }
}

fn described(told: Told) -> Failure {
    let Told { id, cause, skips, path } = told;
    let mut failure = Failure {
        id,
        code: Code::TornDown,
        vk_result: 0,
        vk_function: String::new(),
        operation: String::new(),
        kernel: String::new(),
        stream: None,
        label: String::new(),
        tag: 0,
        message: String::new(),
        claims: Vec::new(),
        claimed_bytes: 0,
        skips,
        path,
    };
    if let Some(cause) = &cause {
        failure.code = cause.fault.code;
        failure.vk_result = cause.fault.vk_result;
        failure.vk_function = cause.fault.vk_function.to_owned();
        failure.operation = cause.context.operation.to_owned();
        failure.kernel = cause.context.kernel.to_string();
        failure.stream = cause.context.stream;
        failure.label = cause.context.label.to_string();
        failure.tag = cause.context.tag;
        failure.message = cause.fault.message.to_string();
    }
    failure
}
