//! Taking a report: the roots, the claims they still have, and the paths to what was asked about.

use super::claims::Bytes;
use super::interval::IntervalMap;
use super::report::{ClaimedRange, Failure, Report};
use super::roots::{Root, RootKey};
use super::store::{Blocks, FailureStore};
use crate::code::Code;
use crate::error::Roots;

/// Reports on what a store holds.
pub trait Reporting: FailureStore {
    /// On the roots of an answer that still live, with paths to what the answer was about.
    fn report_roots(&self, roots: &Roots) -> Report {
        let (_, failures) = self.parts();
        let mut report = Report::empty();
        report.more = roots.more;
        report.suspects = failures.suspects().to_vec();
        for id in &roots.ids {
            if let Some(root) = failures.roots.find(*id) {
                report.failures.extend(failures.roots.get(root).map(|entry| describe(self, root, entry, &roots.asked)));
            }
        }
        if !report.failures.is_empty() {
            report.code = Code::Unwritten;
        }
        report
    }

    /// On the bytes: every root that claims one of them, once.
    fn report_bytes(&self, asked: &[Bytes]) -> Report {
        match self.ensure_written(asked) {
            Ok(()) => Report::empty(),
            Err(roots) => self.report_roots(&roots),
        }
    }

    /// On everything the store holds, oldest first. No byte is asked about, so there is no answer to give.
    fn report_all(&self) -> Report {
        let (_, failures) = self.parts();
        let mut report = Report::empty();
        report.suspects = failures.suspects().to_vec();
        report.failures = failures.roots.since(0).map(|(key, root)| describe(self, key, root, &[])).collect();
        report
    }
}

impl<S: FailureStore + ?Sized> Reporting for S {}

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
            suspects: Vec::new(),
        }
    }
}

fn describe<S: FailureStore + ?Sized>(store: &S, key: RootKey, root: &Root, asked: &[u64]) -> Failure {
    let (blocks, failures) = store.parts();
    let mut claims = Vec::new();
    let mut claimed_bytes = 0_u64;
    blocks.for_each(&mut |_, block| {
        // What a host read keeps for itself is nobody's buffer.
        if block.name.serial == 0 {
            return;
        }
        let mut own: IntervalMap<bool> = IntervalMap::default();
        block.map.visit(0, u64::MAX, |start, end, set| {
            if failures.roots.contains(*set, key) {
                own.set(start, end, true, &mut super::interval::Uncounted);
            }
        });
        if block.unallocated.is_some_and(|set| failures.roots.contains(set, key)) {
            own.set(0, block.size, true, &mut super::interval::Uncounted);
        }
        own.visit(0, u64::MAX, |start, end, _| {
            claimed_bytes = claimed_bytes.saturating_add(end - start);
            claims.push(ClaimedRange {
                buffer: block.name.serial,
                label: block.name.shown(),
                offset: start,
                size: end - start,
            });
        });
    });
    let last = root.skips.last_produced();
    let path = asked
        .iter()
        .chain(if asked.is_empty() { last.as_ref() } else { None })
        .map(|asked| root.skips.path(&root.origin, *asked))
        .max_by_key(Vec::len)
        .unwrap_or_default();
    let mut failure = Failure {
        id: root.id,
        code: Code::TornDown,
        vk_result: 0,
        vk_function: String::new(),
        operation: String::new(),
        kernel: String::new(),
        stream: None,
        label: String::new(),
        tag: 0,
        message: String::new(),
        claims,
        claimed_bytes,
        skips: root.skips.total(),
        path,
    };
    if let Some(cause) = &root.cause {
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
