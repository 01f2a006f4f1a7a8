//! The ledger: what happened to bytes and claims since the oldest work that is not complete (R12, R13).
//!
//! Work is taken as done when it is enqueued, so that what needs its bytes can be enqueued behind it. When it turns
//! out later that it was not done, the ledger is replayed as if that had been known at once. Only the bytes that are
//! found bad at the end change; entries whose work completed are gone, and with nothing unfinished it is empty. What failed
//! stays while its roots and those of a failure to come may meet. Behind work that does not complete, only what touches
//! bytes that may still be found bad is kept for long.

use super::Access;
use super::claims::{BlockKey, Bytes, ScopeKey, Use};
use super::interval::{Holds, IntervalMap, Uncounted};
use super::report::{StepKind, Suspect};
use super::roots::{RootKey, RootTable, SetKey};
use super::store::{MAX_NAME, cut};
use crate::error::Fault;
use crate::room::Room;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;

const _: () = assert!(MAX_NAME <= u8::MAX as usize);

/// A point in the life of a slot: everything up to and including this batch of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    /// The slot.
    pub slot: u32,
    /// The batch, counted from 1; also the value its timeline reaches.
    pub batch: u64,
}

/// The first watermark; it doubles with what there is to keep, and never falls, so that looking costs next to nothing.
const WATERMARK: usize = 32;

/// How far back a settling looks for its like.
const SETTLED_LOOKED_AT: usize = 16;

/// What an entry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Ran, or will.
    Ran,
    /// Copies its second use to its first.
    Copied,
    /// Left its bytes with claims, or without, that no late failure before it changes: a skip, a taint, a mark.
    Settled,
    /// Work of the caller's in a scope.
    Scope(ScopeKey),
}

/// What paths and suspects call a piece of work.
#[derive(Clone, Copy)]
pub struct Called<'a> {
    /// The kernel's name, or the operation's.
    pub name: &'a Arc<str>,
    /// The caller's name for it, or empty.
    pub label: &'a str,
    /// The caller's number for it.
    pub tag: u64,
}

impl<'a> From<&'a Arc<str>> for Called<'a> {
    fn from(name: &'a Arc<str>) -> Called<'a> {
        Called { name, label: "", tag: 0 }
    }
}

#[derive(Debug)]
struct Entry {
    kind: Kind,
    point: Option<Point>,
    uses: u32,
    /// Bytes of its label.
    label: u8,
    tag: u64,
    name: Arc<str>,
    failed: Option<SetKey>,
}

/// What is asked about the world around the ledger when it is looked through.
pub(super) struct World<'a> {
    /// Whether a point is over.
    pub complete: &'a dyn Fn(Point) -> bool,
    /// Whether there still is such a block.
    pub exists: &'a dyn Fn(BlockKey) -> bool,
    /// Whether a scope is open.
    pub is_open: &'a dyn Fn(ScopeKey) -> bool,
}

impl Entry {
    fn called<'a>(&'a self, label: &'a [u8]) -> Called<'a> {
        Called { name: &self.name, label: std::str::from_utf8(label).unwrap_or(""), tag: self.tag }
    }

    /// Whether it may still fail.
    fn is_unfinished(&self, world: &World<'_>) -> bool {
        self.failed.is_none() && self.point.is_some_and(|point| !(world.complete)(point))
    }

    /// Whether it may say what becomes of more than the bytes it writes.
    fn is_open(&self, world: &World<'_>) -> bool {
        self.is_unfinished(world) || matches!(self.kind, Kind::Scope(scope) if (world.is_open)(scope))
    }

    /// Whether nothing of what was in the bytes of a use is in them afterwards, whether it failed or not.
    fn replaces(&self, u: &Use) -> bool {
        u.access.releases() || (u.access.writes() && (self.failed.is_some() || self.kind == Kind::Settled))
    }
}

/// The first of a group of failures that work met together.
fn first_of(group: &[usize], mut of: usize) -> usize {
    while group[of] != of {
        of = group[of];
    }
    of
}

/// Makes one group of a failure and of those found so far. The first of the group.
fn join(group: &mut [usize], wanted: &mut [bool], found: Option<usize>, failed: usize) -> usize {
    let (met, found) = (first_of(group, failed), found.map(|found| first_of(group, found)));
    let first = found.map_or(met, |found| found.min(met));
    for of in [Some(met), found].into_iter().flatten() {
        wanted[first] |= wanted[of];
        group[of] = first;
    }
    first
}

/// The record, in enqueue order.
#[derive(Debug)]
pub struct Ledger {
    entries: VecDeque<Entry>,
    uses: VecDeque<Use>,
    /// Labels, end to end: the memory of those that are gone serves those to come.
    labels: VecDeque<u8>,
    /// Entries of no batch: nothing ever completes that they could go with.
    settled: usize,
    /// How many of them, and how many entries, there may be before it is looked for such as cannot matter.
    watermarks: (usize, usize),
    /// How many entries there is room for.
    room: usize,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            entries: VecDeque::new(),
            uses: VecDeque::new(),
            labels: VecDeque::new(),
            settled: 0,
            watermarks: (WATERMARK, WATERMARK),
            room: usize::MAX,
        }
    }
}

/// Bytes found bad by a replay: the late set.
pub(super) type Late = HashMap<BlockKey, IntervalMap<SetKey>>;

/// What a replay found of an open scope.
pub(super) enum Met {
    /// Bytes it read carry these roots.
    Read(SetKey),
    /// Bytes it may write carried these roots before it.
    Kept(Bytes, SetKey),
}

/// A step a replay found: which entry's work passed the new root on, from which of its uses.
pub(super) struct PassedOn<'a> {
    pub kind: StepKind,
    pub work: Called<'a>,
    pub needed: BlockKey,
    pub uses: &'a [Use],
}

impl Ledger {
    /// An empty ledger with room for so many entries. A caller that adds more bounds them itself.
    pub fn with_room(room: usize) -> Ledger {
        Ledger { room, ..Ledger::default() }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is unfinished.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sees to room for an entry with so many uses.
    pub fn make_room(&mut self, uses: usize) -> Result<(), Fault> {
        self.entries.make_room(1)?;
        self.labels.make_room(MAX_NAME)?;
        self.uses.make_room(uses)
    }

    /// Adds an entry. True: there are so many by now that it is time to look which of them [matter](Self::compact).
    pub(super) fn push<'a>(
        &mut self,
        kind: Kind,
        point: Option<Point>,
        work: impl Into<Called<'a>>,
        uses: &[Use],
    ) -> bool {
        let Called { name, label, tag } = work.into();
        // With nothing unfinished before it, no late failure can concern work that is itself finished.
        if point.is_none() && self.entries.is_empty() {
            return false;
        }
        // Of what is settled a replay needs no record to be safe: without it, it claims too much.
        if point.is_none() && kind == Kind::Settled && self.make_room(uses.len()).is_err() {
            return false;
        }
        let before = self.uses.len();
        if kind == Kind::Settled {
            // What is settled reads nothing.
            self.uses.extend(uses.iter().filter(|u| u.access.writes()).copied());
            if self.uses.len() == before || self.ends_with_settled(before) {
                self.uses.truncate(before);
                return false;
            }
        } else {
            self.uses.extend(uses.iter().copied());
        }
        // Extended and not pushed: it is made where it stays.
        let uses = (self.uses.len() - before) as u32;
        let label = if label.len() > MAX_NAME { cut(label, MAX_NAME) } else { label };
        if !label.is_empty() {
            self.labels.extend(label.as_bytes());
        }
        let label = label.len() as u8;
        let entry = || Entry { kind, point, uses, label, tag, name: name.clone(), failed: None };
        self.entries.extend(std::iter::once_with(entry));
        self.settled += usize::from(point.is_none());
        // Looking costs as much as there are entries, so they have to be a good part of them.
        point.is_none() && self.settled >= self.watermarks.0 && 2 * self.settled >= self.entries.len()
    }

    /// Drops what cannot matter any more, whichever of the unfinished entries fail.
    pub(super) fn compact(&mut self, roots: &mut RootTable, world: &World<'_>) {
        let seen = self.entries_that_are_seen(world);
        let matters = self.failures_that_matter(world, &seen);
        let mut doubtful: HashMap<BlockKey, IntervalMap<()>> = HashMap::new();
        let uses = self.uses.make_contiguous();
        let labels = self.labels.make_contiguous();
        let (mut at, mut kept, mut settled, mut number) = (0, 0, 0, 0);
        let (mut label_at, mut label_kept) = (0, 0);
        let mut is_short = false;
        self.entries.retain_mut(|entry| {
            let own = at..at + entry.uses as usize;
            at = own.end;
            let label = label_at..label_at + usize::from(entry.label);
            label_at = label.end;
            number += 1;
            if !seen[number - 1] {
                entry.failed.take().into_iter().for_each(|set| roots.release(set));
                return false;
            }
            if entry.failed.is_some() && !matters[number - 1] {
                // Its claims are where they belong, and what failed before it changes nothing about them.
                entry.failed.take().into_iter().for_each(|set| roots.release(set));
                (entry.kind, entry.point) = (Kind::Settled, None);
            }
            // Without memory to find out what can go, everything stays.
            is_short = is_short || doubtful.try_reserve(own.len()).is_err();
            if is_short {
                settled += usize::from(entry.point.is_none());
                uses.copy_within(own.clone(), kept);
                kept += own.len();
                labels.copy_within(label.clone(), label_kept);
                label_kept += label.len();
                return true;
            }
            let is_doubtful =
                |bytes: Bytes| doubtful.get(&bytes.block).is_some_and(|map| map.overlaps(bytes.start, bytes.end));
            let lasts = entry.failed.is_some() || entry.is_unfinished(world);
            let is_open = entry.is_open(world);
            // What failed and is settled now reads nothing any more. What may have been stored by work that is over changes
            // nothing; an open scope keeps what is found of the bytes it may store.
            let touched = |u: &Use| {
                let matters = match entry.kind {
                    Kind::Settled => u.access.writes(),
                    _ => u.access.needs_bytes() || entry.replaces(u) || (is_open && u.access.writes()),
                };
                matters && is_doubtful(u.bytes)
            };
            if !lasts && !uses[own.clone()].iter().any(touched) {
                return false;
            }
            let spreads = lasts
                || match entry.kind {
                    Kind::Settled => false,
                    Kind::Copied => is_doubtful(uses[own.start + 1].bytes),
                    Kind::Ran | Kind::Scope(_) => {
                        uses[own.clone()].iter().any(|u| u.access.needs_bytes() && is_doubtful(u.bytes))
                    }
                };
            for u in &uses[own.clone()] {
                let Bytes { block, start, end } = u.bytes;
                if spreads && u.access.writes() {
                    doubtful.entry(block).or_default().set(start, end, (), &mut Uncounted);
                } else if !spreads
                    && entry.replaces(u)
                    && let Some(map) = doubtful.get_mut(&block)
                {
                    map.remove(start, end, &mut Uncounted);
                }
            }
            settled += usize::from(entry.point.is_none());
            uses.copy_within(own.clone(), kept);
            kept += own.len();
            labels.copy_within(label.clone(), label_kept);
            label_kept += label.len();
            true
        });
        self.uses.truncate(kept);
        self.labels.truncate(label_kept);
        self.settled = settled;
        self.watermarks.0 = self.watermarks.0.max(2 * settled);
        self.watermarks.1 = self.watermarks.1.max(2 * self.entries.len());
    }

    /// Of each entry, whether anybody sees what it did: not if all its bytes were replaced before anything read them, or
    /// are gone, or if the next one does the very same again.
    fn entries_that_are_seen(&mut self, world: &World<'_>) -> Vec<bool> {
        let mut seen = vec![true; self.entries.len()];
        let mut replaced: HashMap<BlockKey, IntervalMap<()>> = HashMap::new();
        let uses = self.uses.make_contiguous();
        let mut next: Option<(&Entry, &[Use])> = None;
        let mut at = uses.len();
        for (number, entry) in self.entries.iter().enumerate().rev() {
            let own = &uses[at - entry.uses as usize..at];
            at -= own.len();
            let is_replaced = |bytes: Bytes| {
                let covers = |map: &IntervalMap<()>| {
                    let mut upto = bytes.start;
                    map.visit(bytes.start, bytes.end, |start, end, _| upto = if start == upto { end } else { upto });
                    upto == bytes.end
                };
                !(world.exists)(bytes.block) || replaced.get(&bytes.block).is_some_and(covers)
            };
            let is_repeated = || {
                next.is_some_and(|(next, its)| {
                    let alike = std::mem::discriminant(&next.kind) == std::mem::discriminant(&entry.kind);
                    alike && entry.failed.is_none() && next.failed.is_none() && entry.kind != Kind::Copied && its == own
                })
            };
            if !entry.is_open(world)
                && (own.iter().filter(|u| u.access.writes()).all(|u| is_replaced(u.bytes)) || is_repeated())
            {
                seen[number] = false;
                continue;
            }
            if replaced.try_reserve(own.len()).is_err() {
                // What could not be looked at counts as seen.
                break;
            }
            for Use { bytes, .. } in own.iter().filter(|u| entry.replaces(u)) {
                replaced.entry(bytes.block).or_default().set(bytes.start, bytes.end, (), &mut Uncounted);
            }
            for Use { bytes, .. } in own.iter().filter(|u| u.access.needs_bytes() && entry.failed.is_none()) {
                if let Some(map) = replaced.get_mut(&bytes.block) {
                    map.remove(bytes.start, bytes.end, &mut Uncounted);
                }
            }
            next = Some((entry, own));
        }
        seen
    }

    /// Of each entry, whether it failed and its roots may still be wanted. They are where some work met bytes that
    /// failed and bytes that may yet: should these fail as well, the work takes the roots of both. And if it met bytes of
    /// several failures, replaying one of them takes replaying all. Bytes that it may have stored count as met: they have
    /// the roots it met from then on.
    fn failures_that_matter(&mut self, world: &World<'_>, seen: &[bool]) -> Vec<bool> {
        let mut matters = vec![false; self.entries.len()];
        if self.entries.iter().all(|entry| entry.failed.is_none()) {
            return matters;
        }
        // Failures that met are one group, known by its first.
        let mut group: Vec<usize> = (0..self.entries.len()).collect();
        let mut wanted = matters.clone();
        let mut bad: HashMap<BlockKey, IntervalMap<usize>> = HashMap::new();
        let mut doubtful: HashMap<BlockKey, IntervalMap<()>> = HashMap::new();
        let uses = self.uses.make_contiguous();
        let mut at = 0;
        for (number, entry) in self.entries.iter().enumerate() {
            let own = &uses[at..at + entry.uses as usize];
            at += own.len();
            if !seen[number] {
                continue;
            }
            let (mut found, mut doubts) = (None, false);
            match (entry.failed, entry.kind) {
                (Some(_), _) => found = Some(number),
                (None, Kind::Settled) => {}
                (None, Kind::Ran | Kind::Copied | Kind::Scope(_)) => {
                    for Use { bytes, .. } in own.iter().filter(|u| u.access.needs_bytes()) {
                        let Bytes { block, start, end } = *bytes;
                        doubts |= doubtful.get(&block).is_some_and(|map| map.overlaps(start, end));
                        let Some(map) = bad.get(&block) else { continue };
                        map.visit(start, end, |_, _, failed| {
                            found = Some(join(&mut group, &mut wanted, found, *failed));
                        });
                    }
                    // Bytes that it may have stored take the roots it met, in place of those they had.
                    if found.is_some() && entry.kind != Kind::Copied {
                        for u in own.iter().filter(|u| u.access.writes() && !entry.replaces(u)) {
                            let Bytes { block, start, end } = u.bytes;
                            doubts |= doubtful.get(&block).is_some_and(|map| map.overlaps(start, end));
                            let Some(map) = bad.get(&block) else { continue };
                            map.visit(start, end, |_, _, failed| {
                                found = Some(join(&mut group, &mut wanted, found, *failed));
                            });
                        }
                    }
                    // A copy keeps the bytes apart.
                    if let (Some(found), true) = (found, doubts && entry.kind != Kind::Copied) {
                        wanted[found] = true;
                    }
                }
            }
            let may_fail = entry.is_unfinished(world);
            for u in own.iter().filter(|u| u.access.writes()) {
                let Bytes { block, start, end } = u.bytes;
                let whole = entry.replaces(u);
                if doubts || may_fail {
                    doubtful.entry(block).or_default().set(start, end, (), &mut Uncounted);
                } else if let (true, Some(map)) = (whole, doubtful.get_mut(&block)) {
                    map.remove(start, end, &mut Uncounted);
                }
                if let Some(found) = found {
                    bad.entry(block).or_default().set(start, end, found, &mut Uncounted);
                } else if let (true, Some(map)) = (whole, bad.get_mut(&block)) {
                    map.remove(start, end, &mut Uncounted);
                }
            }
        }
        for (number, entry) in self.entries.iter().enumerate() {
            matters[number] = entry.failed.is_some() && wanted[first_of(&group, number)];
        }
        matters
    }

    /// Whether nothing but settling happened since the bytes that begin at `end` were settled: doing it again changes
    /// nothing, so a loop that skips while other work is unfinished grows nothing (R15).
    fn ends_with_settled(&self, end: usize) -> bool {
        let mut at = end;
        for entry in self.entries.iter().rev().take(SETTLED_LOOKED_AT) {
            if entry.kind != Kind::Settled {
                return false;
            }
            let start = at - entry.uses as usize;
            if self.uses.range(start..at).eq(self.uses.range(end..)) {
                return true;
            }
            at = start;
        }
        false
    }

    /// Forgets what completed: from the front, and, when there is much, whatever cannot matter.
    pub(super) fn retire(&mut self, roots: &mut RootTable, world: &World<'_>) {
        self.forget_front(roots, world);
        // Others may be through before the first one is. With no room for more it is worth a look however few they are.
        let is_through = |entry: &Entry| !entry.is_unfinished(world);
        let count = self.entries.len();
        if count >= self.watermarks.1 || (count >= self.room && self.entries.iter().any(is_through)) {
            self.compact(roots, world);
            self.forget_front(roots, world);
        }
    }

    /// What failed stays for as long as anything behind it may: work may have read what both were to write.
    fn forget_front(&mut self, roots: &mut RootTable, world: &World<'_>) {
        while let Some(entry) = self.entries.front() {
            if entry.is_unfinished(world) || entry.failed.is_some() {
                break;
            }
            self.settled -= usize::from(entry.point.is_none());
            self.uses.drain(..entry.uses as usize);
            if entry.label > 0 {
                self.labels.drain(..usize::from(entry.label));
            }
            self.entries.pop_front();
        }
        let has_failed = self.entries.front().is_some_and(|entry| entry.failed.is_some());
        if has_failed && !self.entries.iter().rev().any(|entry| entry.is_unfinished(world)) {
            self.clear(roots);
        }
    }

    /// Nothing of it can fail any later.
    pub(super) fn clear(&mut self, roots: &mut RootTable) {
        self.entries.drain(..).filter_map(|entry| entry.failed).for_each(|set| roots.release(set));
        self.uses.clear();
        self.labels.clear();
        self.settled = 0;
    }

    /// The work of such points that did not fail, in order.
    pub(super) fn suspects(&mut self, is_asked: impl Fn(Point) -> bool) -> Arc<[Suspect]> {
        let none: Arc<str> = "".into();
        let labels = self.labels.make_contiguous();
        let mut at = 0;
        let suspect = |entry: &Entry| {
            let own = &labels[at..at + usize::from(entry.label)];
            at += own.len();
            if entry.failed.is_some() || !entry.point.is_some_and(&is_asked) {
                return None;
            }
            let Called { name, label, tag } = entry.called(own);
            let label = if label.is_empty() { none.clone() } else { label.into() };
            Some(Suspect { name: name.clone(), label, tag })
        };
        self.entries.iter().filter_map(suspect).collect()
    }

    /// Everything enqueued for such a point failed with the roots of `set`.
    pub(super) fn fail(&mut self, failed: impl Fn(Point) -> bool, set: SetKey, roots: &mut RootTable) {
        for entry in &mut self.entries {
            if entry.point.is_some_and(&failed) && entry.failed.is_none() {
                roots.hold(&set);
                entry.failed = Some(set);
            }
        }
    }

    /// Calls `see` with the bytes that entries of these points were to write.
    pub(super) fn written_at(&mut self, points: &[Point], mut see: impl FnMut(Bytes)) {
        let uses = self.uses.make_contiguous();
        let mut at = 0;
        for entry in &self.entries {
            let own = &uses[at..at + entry.uses as usize];
            at += entry.uses as usize;
            if entry.point.is_some_and(|point| points.contains(&point)) {
                own.iter().filter(|u| u.access.writes()).for_each(|u| see(u.bytes));
            }
        }
    }

    /// Replays from the start: the late set at the end, each set in it held once for each range. `passed` hears of
    /// work that passes the root `new` on, once for each: of the older ones that was told when they were new. `open` hears
    /// of open scopes that ran on bad input or over bytes found bad, and says whether the scope is open.
    pub(super) fn replay(
        &mut self,
        roots: &mut RootTable,
        new: RootKey,
        mut passed: impl FnMut(&mut RootTable, PassedOn<'_>),
        mut open: impl FnMut(&mut RootTable, ScopeKey, Met) -> bool,
    ) -> Late {
        let mut late = Late::new();
        let uses: &[Use] = self.uses.make_contiguous();
        let labels: &[u8] = self.labels.make_contiguous();
        let (mut at, mut label_at) = (0, 0);
        for entry in &self.entries {
            let own = &uses[at..at + entry.uses as usize];
            at += entry.uses as usize;
            let label = &labels[label_at..label_at + usize::from(entry.label)];
            label_at += label.len();
            let writes = own.iter().filter(|u| u.access.writes());
            if let Some(set) = entry.failed {
                writes.for_each(|u| put(&mut late, u.bytes, Some(set), roots));
                continue;
            }
            match entry.kind {
                Kind::Settled => writes.for_each(|u| put(&mut late, u.bytes, None, roots)),
                Kind::Copied => {
                    let [to, from] = [own[0].bytes, own[1].bytes];
                    let moved = pieces(&late, from);
                    put(&mut late, to, None, roots);
                    let mut told = false;
                    for (start, end, set) in moved {
                        let start = to.start + (start - from.start);
                        let end = to.start + (end - from.start);
                        put(&mut late, Bytes { block: to.block, start, end }, Some(set), roots);
                        if !told && roots.contains(set, new) {
                            told = true;
                            let kind = StepKind::Copy;
                            passed(roots, PassedOn { kind, work: entry.called(label), needed: from.block, uses: own });
                        }
                    }
                }
                Kind::Ran | Kind::Scope(_) => {
                    let mut found: Option<SetKey> = None;
                    let mut told = false;
                    for read in own.iter().filter(|u| u.access.needs_bytes()) {
                        for (_, _, set) in pieces(&late, read.bytes) {
                            let wider = match found {
                                None => {
                                    roots.hold(&set);
                                    set
                                }
                                Some(so_far) => {
                                    let wider = roots.union(so_far, set);
                                    roots.release(so_far);
                                    wider
                                }
                            };
                            found = Some(wider);
                            if !told && roots.contains(set, new) {
                                told = true;
                                let (kind, needed) = (StepKind::RanOnBadInput, read.bytes.block);
                                passed(roots, PassedOn { kind, work: entry.called(label), needed, uses: own });
                            }
                        }
                    }
                    match (found, entry.kind) {
                        (None, kind) => {
                            own.iter()
                                .filter(|u| u.access.releases())
                                .for_each(|u| put(&mut late, u.bytes, None, roots));
                            // What may have been stored stays bad; an open scope's own failure claims it until it ends.
                            for u in own.iter().filter(|u| u.access == Access::MayWrite) {
                                for (start, end, set) in pieces(&late, u.bytes) {
                                    let bytes = Bytes { block: u.bytes.block, start, end };
                                    if matches!(kind, Kind::Scope(scope) if open(roots, scope, Met::Kept(bytes, set))) {
                                        put(&mut late, bytes, None, roots);
                                    } else if !told && roots.contains(set, new) {
                                        told = true;
                                        let (kind, needed) = (StepKind::UnprovenWrite, bytes.block);
                                        let uses = std::slice::from_ref(u);
                                        passed(roots, PassedOn { kind, work: entry.called(label), needed, uses });
                                    }
                                }
                            }
                        }
                        (Some(set), kind) => {
                            // What an open scope is to write is claimed by its own failure until it ends.
                            let is_open = matches!(kind, Kind::Scope(scope) if open(roots, scope, Met::Read(set)));
                            let taken_over = (!is_open).then_some(set);
                            writes.for_each(|u| put(&mut late, u.bytes, taken_over, roots));
                            roots.release(set);
                        }
                    }
                }
            }
        }
        late
    }
}

pub(super) fn put(late: &mut Late, bytes: Bytes, set: Option<SetKey>, roots: &mut RootTable) {
    match set {
        Some(set) => {
            roots.hold(&set);
            late.entry(bytes.block).or_default().set(bytes.start, bytes.end, set, roots);
        }
        None => {
            if let Some(map) = late.get_mut(&bytes.block) {
                map.remove(bytes.start, bytes.end, roots);
            }
        }
    }
}

fn pieces(late: &Late, bytes: Bytes) -> Vec<(u64, u64, SetKey)> {
    let mut pieces = Vec::new();
    if let Some(map) = late.get(&bytes.block) {
        map.visit(bytes.start, bytes.end, |start, end, set| pieces.push((start, end, *set)));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use slotmap::SlotMap;

    fn use_of(block: BlockKey, start: u64, access: Access) -> Use {
        Use { bytes: Bytes { block, start, end: start + 8 }, access }
    }

    fn world(complete: &dyn Fn(Point) -> bool) -> World<'_> {
        World { complete, exists: &|_| true, is_open: &|_| false }
    }

    fn point(batch: u64) -> Option<Point> {
        Some(Point { slot: 0, batch })
    }

    #[test]
    fn behind_unfinished_work_only_what_could_be_found_bad_is_kept() {
        let mut blocks = SlotMap::<BlockKey, ()>::with_key();
        let (held, other) = (blocks.insert(()), blocks.insert(()));
        let mut scopes = SlotMap::<ScopeKey, ()>::with_key();
        let mut ledger = Ledger::default();
        let mut roots = RootTable::default();
        let name: Arc<str> = "".into();
        ledger.push(Kind::Ran, point(9), &name, &[use_of(held, 0, Access::Write)]);
        for i in 0..10_000 {
            let at = i % 100 * 8;
            ledger.push(Kind::Settled, None, &name, &[use_of(other, at, Access::Write)]);
            let scope = [use_of(other, at, Access::ReadWrite)];
            ledger.push(Kind::Scope(scopes.insert(())), None, &name, &scope);
            ledger.push(Kind::Ran, point(1), &name, &[use_of(other, at, Access::Write)]);
            if ledger.settled >= ledger.watermarks.0 {
                ledger.compact(&mut roots, &world(&|_| false));
            }
            ledger.retire(&mut roots, &world(&|point| point.batch < 9));
            assert!(ledger.len() <= WATERMARK + 3, "{i}: {}", ledger.len());
        }
        // What reads the bytes matters, and what reads those; what overwrites them ends it.
        let reads = |from, to| [use_of(held, from, Access::Read), use_of(held, to, Access::Write)];
        ledger.push(Kind::Ran, point(1), &name, &reads(0, 8));
        ledger.push(Kind::Ran, point(1), &name, &reads(8, 16));
        ledger.push(Kind::Settled, None, &name, &[use_of(held, 8, Access::Write)]);
        ledger.push(Kind::Ran, point(1), &name, &reads(8, 24));
        ledger.compact(&mut roots, &world(&|point| point.batch < 9));
        let kept: Vec<u32> = ledger.entries.iter().map(|entry| entry.uses).collect();
        assert_eq!(kept, [1, 2, 2, 1], "the last one reads what was settled");
        assert_eq!(ledger.uses.len(), 6);
        assert_eq!(ledger.settled, 1);
    }

    #[test]
    fn a_failure_is_kept_while_its_roots_may_meet_those_of_another() {
        let mut blocks = SlotMap::<BlockKey, ()>::with_key();
        let block = blocks.insert(());
        let mut ledger = Ledger::default();
        let mut roots = RootTable::default();
        let name: Arc<str> = "".into();
        let most_over = world(&|point| point.batch < 9);
        ledger.push(Kind::Ran, point(9), &name, &[use_of(block, 0, Access::Write)]);
        let mut fail = |ledger: &mut Ledger, batch, at: u64| {
            ledger.push(Kind::Ran, point(batch), &name, &[use_of(block, at, Access::Write)]);
            let set = roots.mint(None);
            ledger.fail(|failed| failed.batch == batch, set, &mut roots);
            roots.release(set);
            ledger.compact(&mut roots, &most_over);
            (ledger.entries.iter().filter(|entry| entry.failed.is_some()).count(), roots.len())
        };
        // No entry read what these were to write.
        for batch in 10..1000 {
            assert_eq!(fail(&mut ledger, batch, 8 * (batch % 7 + 1)), (0, 0));
        }
        assert_eq!(ledger.len(), 1);
        // A launch that reads what is unfinished, what failed, and what a copy brought from another failure.
        let reads = [use_of(block, 0, Access::Read), use_of(block, 8, Access::Read), use_of(block, 16, Access::Write)];
        let copy = [use_of(block, 8, Access::Write), use_of(block, 24, Access::Read)];
        let both = [use_of(block, 24, Access::Read), use_of(block, 32, Access::ReadWrite)];
        ledger.push(Kind::Ran, point(2), &name, &[use_of(block, 24, Access::Write)]);
        ledger.push(Kind::Ran, point(3), &name, &[use_of(block, 32, Access::Write)]);
        ledger.push(Kind::Ran, point(4), &name, &[use_of(block, 40, Access::Write)]);
        ledger.push(Kind::Copied, point(5), &name, &copy);
        ledger.push(Kind::Ran, point(5), &name, &reads);
        ledger.push(Kind::Ran, point(5), &name, &both);
        let mut roots = RootTable::default();
        for batch in 2..5 {
            let set = roots.mint(None);
            ledger.fail(|failed| failed.batch == batch, set, &mut roots);
            roots.release(set);
        }
        ledger.compact(&mut roots, &most_over);
        assert_eq!(roots.len(), 2, "the second met the first, which met what is unfinished; the third met nothing");
        // With nothing unfinished there is nothing left to learn.
        ledger.retire(&mut roots, &world(&|_| true));
        assert!(ledger.is_empty() && ledger.uses.is_empty() && roots.is_empty());
    }

    /// A ledger with what its replays made of 16 bytes: the ids of the roots on each.
    #[derive(Default)]
    struct Kept {
        ledger: Ledger,
        roots: RootTable,
        claims: [Vec<u64>; 16],
    }

    impl Kept {
        fn fail(&mut self, batch: u64) {
            let set = self.roots.mint(None);
            self.ledger.fail(|point| point.batch == batch, set, &mut self.roots);
            let new = self.roots.members(set).map(|(root, _)| root).next().expect("a root");
            let late = self.ledger.replay(&mut self.roots, new, |_, _| {}, |_, _, _| false);
            for mut map in late.into_values() {
                map.visit(0, 16, |start, end, set| {
                    let ids: Vec<u64> = self.roots.members(*set).map(|(_, root)| root.id).collect();
                    self.claims[start as usize..end as usize].fill(ids);
                });
                map.clear(&mut self.roots);
            }
            self.roots.release(set);
        }
    }

    /// Launch 2 read what launch 1 failed to write, so its failure took over the bytes it may store. They stay with that
    /// failure if launch 0, which wrote them before, fails as well.
    #[test]
    fn a_failure_is_kept_while_work_on_it_may_have_stored_over_what_may_fail() {
        let block = SlotMap::<BlockKey, ()>::with_key().insert(());
        let name: Arc<str> = "".into();
        let used = |start, access| Use { bytes: Bytes { block, start, end: start + 1 }, access };
        let mut kept = Kept::default();
        kept.ledger.push(Kind::Ran, point(0), &name, &[used(0, Access::Write)]);
        kept.ledger.push(Kind::Ran, point(1), &name, &[used(2, Access::Write)]);
        kept.ledger.push(Kind::Ran, point(2), &name, &[used(2, Access::Read), used(0, Access::MayWrite)]);
        kept.fail(1);
        assert_eq!((&*kept.claims[0], &*kept.claims[2]), (&[1][..], &[1][..]));
        kept.ledger.compact(&mut kept.roots, &world(&|point| point.batch == 2));
        kept.fail(0);
        assert_eq!(kept.claims[0], [1]);

        // The same over bytes that failed already, whose failure is kept for another reason.
        let mut kept = Kept::default();
        kept.ledger.push(Kind::Ran, point(0), &name, &[used(0, Access::Write)]);
        kept.ledger.push(Kind::Ran, point(1), &name, &[used(8, Access::Write)]);
        let both = [used(8, Access::Read), used(0, Access::Read), used(4, Access::Write)];
        kept.ledger.push(Kind::Ran, point(2), &name, &both);
        kept.ledger.push(Kind::Ran, point(3), &name, &[used(7, Access::Write)]);
        kept.ledger.push(Kind::Ran, point(4), &name, &[used(7, Access::Read), used(8, Access::MayWrite)]);
        kept.fail(3);
        kept.fail(1);
        kept.ledger.compact(&mut kept.roots, &world(&|_| false));
        kept.fail(0);
        assert_eq!((&*kept.claims[8], &*kept.claims[4]), (&[1][..], &[2, 3][..]));
    }

    proptest! {
        #[test]
        fn what_is_dropped_changes_no_answer(steps in vec(any::<[u8; 8]>(), 0..120)) {
            let mut blocks = SlotMap::<BlockKey, ()>::with_key();
            let block = blocks.insert(());
            let scope = SlotMap::<ScopeKey, ()>::with_key().insert(());
            let name: Arc<str> = "".into();
            // The one forgets nothing, the other whatever it may.
            let (mut all, mut few) = (Kept::default(), Kept::default());
            let (mut unfinished, mut complete): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
            for (step, [what, b, c, d, e, f, g, h]) in steps.into_iter().enumerate() {
                let used = |place: u8, access: u8| {
                    let access = [Access::Read, Access::Write, Access::MayWrite, Access::ReadWrite][access as usize % 4];
                    let start = u64::from(place % 12);
                    Use { bytes: Bytes { block, start, end: start + 1 + u64::from(place / 12 % 4) }, access }
                };
                let of = |u: &Use| u.bytes.start as usize..u.bytes.end as usize;
                let batch = step as u64;
                let (kind, point, uses) = match what % 8 {
                    0..4 => (Kind::Ran, point(batch), vec![used(b, c), used(d, e), used(f, g)]),
                    4 => (Kind::Scope(scope), None, vec![used(b, c), used(d, e)]),
                    5 => {
                        let (to, from) = (u64::from(b % 6), 8 + u64::from(c % 5));
                        let bytes = |start| Bytes { block, start, end: start + 1 + u64::from(d % 3) };
                        let uses = [(to, Access::Write), (from, Access::Read)];
                        let uses = uses.map(|(start, access)| Use { bytes: bytes(start), access }).to_vec();
                        (Kind::Copied, point(batch), uses)
                    }
                    6 => (Kind::Settled, None, vec![used(b, 1)]),
                    _ => {
                        if unfinished.is_empty() { continue }
                        let batch = unfinished.swap_remove(b as usize % unfinished.len());
                        if c % 2 == 0 {
                            complete.push(batch);
                        } else {
                            all.fail(batch);
                            few.fail(batch);
                            prop_assert_eq!(&all.claims, &few.claims);
                        }
                        continue;
                    }
                };
                let reads = uses.iter().filter(|u| u.access.needs_bytes() && kind != Kind::Copied);
                let mut found: Vec<u64> = reads.flat_map(|u| all.claims[of(u)].concat()).collect();
                found.sort_unstable();
                found.dedup();
                let skips = !found.is_empty();
                for kept in [&mut all, &mut few] {
                    let moved = match kind {
                        Kind::Copied => kept.claims[of(&uses[1])].to_vec(),
                        _ => Vec::new(),
                    };
                    for u in uses.iter().filter(|u| u.access.writes() && (skips || u.access.releases())) {
                        match kind {
                            Kind::Copied => kept.claims[of(u)].clone_from_slice(&moved),
                            _ => kept.claims[of(u)].fill(found.clone()),
                        }
                    }
                    let (kind, point) = if skips { (Kind::Settled, None) } else { (kind, point) };
                    kept.ledger.push(kind, point, &name, &uses);
                }
                if !skips && point.is_some() {
                    unfinished.push(batch);
                }
                let is_complete = |point: Point| complete.contains(&point.batch);
                match h % 4 {
                    0 => few.ledger.compact(&mut few.roots, &world(&is_complete)),
                    1 => few.ledger.retire(&mut few.roots, &world(&is_complete)),
                    2 => few.ledger.compact(&mut few.roots, &world(&|_| false)),
                    _ => {}
                }
            }
            few.ledger.retire(&mut few.roots, &world(&|_| true));
            prop_assert!(few.ledger.is_empty() && few.ledger.uses.is_empty() && few.ledger.settled == 0);
            prop_assert!(few.roots.is_empty());
        }
    }
}
