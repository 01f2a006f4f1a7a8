//! What the rules say, with one record per byte: its value, and the roots that claim it. It knows no intervals, no
//! sharing and no order but that of the calls; it is told the ids of roots, never how they are kept.

use std::collections::{BTreeMap, BTreeSet};
use tidegate::failure::Access;

/// Roots by id.
pub type Set = BTreeSet<u64>;

/// One byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Byte {
    /// None while nothing says what it is: fresh, claimed, or marked written by somebody else.
    pub value: Option<u8>,
    /// Empty: it can be trusted.
    pub roots: Set,
}

/// Bytes of a buffer, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub buffer: usize,
    pub start: u64,
    pub end: u64,
}

impl Span {
    pub fn len(self) -> u64 {
        self.end - self.start
    }
    pub fn overlaps(self, other: Span) -> bool {
        self.buffer == other.buffer && self.start < other.end && other.start < self.end
    }
}

/// Bytes and what is done to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub span: Span,
    pub access: Access,
}

/// R9: a may-write needs no old byte, and changes no claim either.
pub fn reads(access: Access) -> bool {
    match access {
        Access::Read | Access::ReadWrite => true,
        Access::None | Access::Write | Access::MayWrite => false,
    }
}

pub fn writes(access: Access) -> bool {
    match access {
        Access::Write | Access::MayWrite | Access::ReadWrite => true,
        Access::None | Access::Read => false,
    }
}

#[derive(Clone, Debug)]
pub struct Buffer {
    pub size: u64,
    pub alive: bool,
    pub token: bool,
    /// Empty while it is allocated (R7).
    pub unallocated: Set,
    /// None while there is no memory; the size may be absurd then.
    pub bytes: Vec<Byte>,
}

#[derive(Clone, Debug)]
struct Scope {
    uses: Vec<Use>,
    provisional: Option<u64>,
    /// What it read was found bad since (R13).
    late: Set,
    /// The roots of the bytes that it may write and does not have to: they carry them again when it succeeds (R9).
    kept: BTreeMap<(usize, u64), Set>,
}

fn each_byte(span: Span) -> impl Iterator<Item = (usize, u64)> {
    (span.start..span.end).map(move |at| (span.buffer, at))
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Ran,
    Copied,
    Settled,
    Scope(usize),
}

/// A call that read bytes or changed claims.
#[derive(Clone, Debug)]
struct Entry {
    kind: Kind,
    uses: Vec<Use>,
    recording: Option<u64>,
    failed: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub buffers: Vec<Buffer>,
    scopes: BTreeMap<usize, Scope>,
    history: Vec<Entry>,
}

/// What a run of a kernel stores: binding, offset in it, and the byte, or none where a loaded byte was none.
pub trait Stores {
    fn run(
        &self,
        sizes: &[u64],
        push: &[u8],
        groups: [u32; 3],
        load: &mut dyn FnMut(usize, u64) -> Option<u8>,
    ) -> Vec<(usize, u64, Option<u8>)>;
}

/// What a launch does besides claiming and releasing.
pub struct Run<'a> {
    pub program: &'a dyn Stores,
    pub bindings: Vec<Span>,
    pub push: Vec<u8>,
    /// The groups of a direct launch.
    pub groups: [u32; 3],
    /// Where an indirect launch finds its counts, and the most it may find.
    pub counts: Option<(Span, [u32; 3])>,
}

impl Model {
    fn byte(&mut self, buffer: usize, at: u64) -> &mut Byte {
        &mut self.buffers[buffer].bytes[at as usize]
    }

    fn has_bytes(&self, buffer: usize) -> bool {
        self.buffers[buffer].alive && self.buffers[buffer].unallocated.is_empty()
    }

    fn claim(&mut self, span: Span, roots: &Set) {
        if self.has_bytes(span.buffer) {
            for at in span.start..span.end {
                *self.byte(span.buffer, at) = Byte { value: None, roots: roots.clone() };
            }
        }
    }

    fn release(&mut self, span: Span) {
        if self.has_bytes(span.buffer) {
            for at in span.start..span.end {
                self.byte(span.buffer, at).roots.clear();
            }
        }
    }

    fn claim_writes(&mut self, uses: &[Use], roots: &Set) {
        for u in uses.iter().filter(|u| writes(u.access)) {
            self.claim(u.span, roots);
        }
    }

    fn enter(&mut self, kind: Kind, uses: &[Use]) -> usize {
        let uses = uses.iter().filter(|u| self.has_bytes(u.span.buffer)).copied().collect();
        self.history.push(Entry { kind, uses, recording: None, failed: None });
        self.history.len() - 1
    }

    /// Where the commands of a call went, by the number the call got.
    pub fn recorded(&mut self, call: usize, recording: u64) {
        self.history[call].recording = Some(recording);
    }

    /// Whether any call went to the recording.
    pub fn holds_recording(&self, recording: u64) -> bool {
        self.history.iter().any(|entry| entry.recording == Some(recording))
    }

    fn settled(&mut self, spans: impl Iterator<Item = Span>) {
        let uses: Vec<Use> = spans.map(|span| Use { span, access: Access::Write }).collect();
        self.enter(Kind::Settled, &uses);
    }

    /// A new buffer, with the roots of its allocation's failure, or the root its fresh bytes carry.
    pub fn create(&mut self, size: u64, token: bool, unallocated: Set, fresh: Option<u64>) -> usize {
        let byte = Byte { value: None, roots: fresh.into_iter().collect() };
        let bytes = if unallocated.is_empty() { vec![byte; size as usize] } else { Vec::new() };
        self.buffers.push(Buffer { size, alive: true, token, unallocated, bytes });
        self.buffers.len() - 1
    }

    /// R7: the reason why there were no bytes claims them all.
    pub fn allocate(&mut self, buffer: usize, size: u64) {
        let entry = &mut self.buffers[buffer];
        let roots = std::mem::take(&mut entry.unallocated);
        entry.size = size;
        entry.bytes = vec![Byte { value: None, roots }; size as usize];
    }

    pub fn destroy(&mut self, buffer: usize) {
        let entry = &mut self.buffers[buffer];
        entry.alive = false;
        entry.bytes = Vec::new();
        entry.unallocated.clear();
    }

    /// Every root that claims one of the bytes.
    pub fn roots(&self, spans: impl IntoIterator<Item = Span>) -> Set {
        let mut found = Set::new();
        for span in spans.into_iter().filter(|span| span.start < span.end) {
            let buffer = &self.buffers[span.buffer];
            found.extend(&buffer.unallocated);
            if buffer.unallocated.is_empty() {
                for byte in &buffer.bytes[span.start as usize..span.end as usize] {
                    found.extend(&byte.roots);
                }
            }
        }
        found
    }

    pub fn values(&self, span: Span) -> Vec<Option<u8>> {
        self.buffers[span.buffer].bytes[span.start as usize..span.end as usize].iter().map(|b| b.value).collect()
    }

    /// Maximal runs of bytes claimed by one set: first byte, length, roots.
    pub fn claims(&self, span: Span) -> Vec<(u64, u64, Set)> {
        let mut runs: Vec<(u64, u64, Set)> = Vec::new();
        for at in span.start..span.end {
            let roots = &self.buffers[span.buffer].bytes[at as usize].roots;
            match runs.last_mut() {
                _ if roots.is_empty() => {}
                Some((start, len, set)) if *start + *len == at && set == roots => *len += 1,
                _ => runs.push((at, 1, roots.clone())),
            }
        }
        runs
    }

    /// How many bytes of the device a root claims; those of unallocated buffers count as many as were asked for.
    pub fn claimed_bytes(&self, root: u64) -> u64 {
        let of = |buffer: &Buffer| match buffer.unallocated.contains(&root) {
            true => buffer.size,
            false => buffer.bytes.iter().filter(|byte| byte.roots.contains(&root)).count() as u64,
        };
        self.buffers.iter().filter(|buffer| buffer.alive).map(of).sum()
    }

    /// Every root that bytes, unallocated buffers and open scopes hold.
    pub fn live(&self) -> Set {
        let mut live = Set::new();
        for buffer in self.buffers.iter().filter(|buffer| buffer.alive) {
            live.extend(&buffer.unallocated);
            buffer.bytes.iter().for_each(|byte| live.extend(&byte.roots));
        }
        for scope in self.scopes.values() {
            live.extend(scope.provisional);
            live.extend(&scope.late);
            scope.kept.values().for_each(|roots| live.extend(roots));
        }
        live
    }

    /// R4: whether an open scope keeps any of the bytes to itself: what it writes, and against writes what it reads.
    pub fn held(&self, uses: &[Use]) -> bool {
        let against = |u: &Use| {
            self.scopes.values().flat_map(|scope| &scope.uses).any(|held| {
                held.span.overlaps(u.span)
                    && u.access != Access::None
                    && (writes(held.access) || (held.access == Access::Read && writes(u.access)))
            })
        };
        uses.iter().any(against)
    }

    /// Whether any byte of the buffer is held.
    pub fn holds_any(&self, buffer: usize) -> bool {
        self.scopes.values().flat_map(|scope| &scope.uses).any(|u| u.span.buffer == buffer)
    }

    /// R5, R7, R8: the roots that keep the work from running; empty: it runs.
    pub fn found(&self, uses: &[Use], kernel: &Set) -> Set {
        let mut found = kernel.clone();
        for u in uses {
            let unallocated = &self.buffers[u.span.buffer].unallocated;
            found.extend(unallocated);
            if unallocated.is_empty() && reads(u.access) {
                found.extend(self.roots([u.span]));
            }
        }
        found
    }

    /// R5: the write set takes over the roots found.
    pub fn skip(&mut self, uses: &[Use], found: &Set) {
        self.claim_writes(uses, found);
        self.settled(uses.iter().filter(|u| writes(u.access)).map(|u| u.span));
    }

    /// R4: the write set takes a failure's root.
    pub fn fail(&mut self, uses: &[Use], root: Option<u64>) {
        self.skip(uses, &root.into_iter().collect());
    }

    /// The work ran: stores its bytes, releases what it wrote in full.
    pub fn launch(&mut self, uses: &[Use], run: &Run<'_>) -> usize {
        let counts: Option<Option<[u32; 3]>> = run.counts.map(|(span, _)| {
            let bytes: Option<Vec<u8>> = self.values(span).into_iter().collect();
            let word = |bytes: &[u8], i: usize| {
                u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
            };
            bytes.map(|bytes| [word(&bytes, 0), word(&bytes, 1), word(&bytes, 2)])
        });
        let groups = match (counts, run.counts) {
            (Some(None), Some((_, most))) => most,
            (Some(Some(groups)), _) => groups,
            _ => run.groups,
        };
        let most = run.counts.map_or([u32::MAX; 3], |(_, most)| most);
        if groups.iter().zip(most).all(|(groups, most)| (1..=most).contains(groups)) {
            let sizes: Vec<u64> = run.bindings.iter().map(|span| span.len()).collect();
            let stores = run.program.run(&sizes, &run.push, groups, &mut |binding, offset| {
                let span = run.bindings[binding];
                self.buffers[span.buffer].bytes[(span.start + offset) as usize].value
            });
            for (binding, offset, value) in stores {
                let span = run.bindings[binding];
                let known = counts != Some(None);
                self.byte(span.buffer, span.start + offset).value = value.filter(|_| known);
            }
        }
        for u in uses.iter().filter(|u| u.access == Access::Write) {
            self.release(u.span);
        }
        self.enter(Kind::Ran, uses)
    }

    /// Bytes from the host.
    pub fn write(&mut self, span: Span, bytes: impl Iterator<Item = u8>) -> usize {
        for (at, value) in (span.start..span.end).zip(bytes) {
            *self.byte(span.buffer, at) = Byte { value: Some(value), roots: Set::new() };
        }
        self.enter(Kind::Ran, &[Use { span, access: Access::Write }])
    }

    /// R10: each byte brings its roots along.
    pub fn copy(&mut self, to: Span, from: Span) -> usize {
        for i in 0..to.len() {
            let byte = self.byte(from.buffer, from.start + i).clone();
            *self.byte(to.buffer, to.start + i) = byte;
        }
        let uses = [Use { span: to, access: Access::Write }, Use { span: from, access: Access::Read }];
        self.enter(Kind::Copied, &uses)
    }

    pub fn taint(&mut self, spans: &[Span], root: u64) {
        let roots = Set::from([root]);
        spans.iter().for_each(|span| self.claim(*span, &roots));
        self.settled(spans.iter().copied());
    }

    pub fn mark_written(&mut self, spans: &[Span]) {
        spans.iter().for_each(|span| self.release(*span));
        self.settled(spans.iter().copied());
    }

    /// R4: the scope opened; its write set carries the provisional failure.
    pub fn scope_begin(&mut self, scope: usize, uses: &[Use], provisional: Option<u64>) -> usize {
        let mut kept = BTreeMap::new();
        for u in uses.iter().filter(|u| u.access == Access::MayWrite && self.has_bytes(u.span.buffer)) {
            for (buffer, at) in each_byte(u.span) {
                let roots = &self.buffers[buffer].bytes[at as usize].roots;
                if !roots.is_empty() {
                    kept.insert((buffer, at), roots.clone());
                }
            }
        }
        self.claim_writes(uses, &provisional.into_iter().collect());
        self.scopes.insert(scope, Scope { uses: uses.to_vec(), provisional, late: Set::new(), kept });
        self.enter(Kind::Scope(scope), uses)
    }

    /// It ended, well or with an error that takes the provisional failure's place.
    pub fn scope_exit(&mut self, scope: usize, failed: bool) {
        let Some(Scope { uses, late, mut kept, .. }) = self.scopes.remove(&scope) else { return };
        let spans = || uses.iter().filter(|u| writes(u.access)).map(|u| u.span);
        if failed {
            return self.settled(spans());
        }
        // It stays in the record as work like any other: what it read may be found bad yet.
        for span in spans() {
            if late.is_empty() { self.release(span) } else { self.claim(span, &late) }
        }
        if late.is_empty() {
            for u in uses.iter().filter(|u| u.access == Access::Write) {
                each_byte(u.span).for_each(|byte| drop(kept.remove(&byte)));
            }
            for ((buffer, at), roots) in kept {
                self.byte(buffer, at).roots = roots;
            }
        }
    }

    /// R13: the calls in a recording were refused after all; the late set is kept byte by byte.
    pub fn late_failure(&mut self, recording: u64, root: u64) {
        for entry in self.history.iter_mut().filter(|entry| entry.recording == Some(recording)) {
            entry.failed.get_or_insert(root);
        }
        let mut late: BTreeMap<(usize, u64), Set> = BTreeMap::new();
        // Bytes of which nobody can say what they are, for what was to write them did not run; trusted or not.
        let mut stale: BTreeSet<(usize, u64)> = BTreeSet::new();
        let bytes = each_byte;
        let mut bad_scopes: Vec<(usize, Set)> = Vec::new();
        for entry in &self.history {
            let written = || entry.uses.iter().filter(|u| writes(u.access)).flat_map(|u| bytes(u.span));
            if let Some(root) = entry.failed {
                written().for_each(|byte| drop(late.insert(byte, Set::from([root]))));
                stale.extend(written());
                continue;
            }
            match entry.kind {
                Kind::Settled => written().for_each(|byte| drop(late.remove(&byte))),
                Kind::Copied => {
                    let (to, from) = (entry.uses[0].span, entry.uses[1].span);
                    let moved: Vec<Option<Set>> = bytes(from).map(|byte| late.get(&byte).cloned()).collect();
                    let unknown: Vec<bool> = bytes(from).map(|byte| stale.contains(&byte)).collect();
                    for (byte, unknown) in bytes(to).zip(unknown) {
                        if unknown {
                            stale.insert(byte)
                        } else {
                            stale.remove(&byte)
                        };
                    }
                    for (byte, roots) in bytes(to).zip(moved) {
                        match roots {
                            Some(roots) => drop(late.insert(byte, roots)),
                            None => drop(late.remove(&byte)),
                        }
                    }
                }
                Kind::Ran | Kind::Scope(_) => {
                    let read = || entry.uses.iter().filter(|u| reads(u.access)).flat_map(|u| bytes(u.span));
                    let found: Set = read().filter_map(|byte| late.get(&byte)).flatten().copied().collect();
                    if entry.kind == Kind::Ran {
                        match read().any(|byte| stale.contains(&byte)) {
                            true => stale.extend(written()),
                            false => {
                                let full = entry.uses.iter().filter(|u| u.access == Access::Write);
                                full.flat_map(|u| bytes(u.span)).for_each(|byte| _ = stale.remove(&byte));
                            }
                        }
                    }
                    match entry.kind {
                        _ if found.is_empty() => {
                            for u in entry.uses.iter().filter(|u| u.access == Access::Write) {
                                bytes(u.span).for_each(|byte| drop(late.remove(&byte)));
                            }
                            let Kind::Scope(scope) = entry.kind else { continue };
                            let Some(scope) = self.scopes.get_mut(&scope) else { continue };
                            // It is open, and its own failure claims the bytes until it ends.
                            for byte in written() {
                                if let Some(roots) = late.remove(&byte) {
                                    scope.kept.insert(byte, roots);
                                }
                            }
                        }
                        Kind::Scope(scope) if self.scopes.contains_key(&scope) => {
                            // Its own failure claims what it is to write.
                            written().for_each(|byte| drop(late.remove(&byte)));
                            bad_scopes.push((scope, found));
                        }
                        _ => written().for_each(|byte| drop(late.insert(byte, found.clone()))),
                    }
                }
            }
        }
        for (scope, found) in bad_scopes {
            if let Some(scope) = self.scopes.get_mut(&scope) {
                scope.late.extend(found);
            }
        }
        for (buffer, at) in stale {
            if self.has_bytes(buffer) {
                self.byte(buffer, at).value = None;
            }
        }
        for ((buffer, at), roots) in late {
            if self.has_bytes(buffer) {
                *self.byte(buffer, at) = Byte { value: None, roots };
            }
        }
    }
}
