//! Proves from a log that every conflicting pair of accesses was ordered. On a device that happens to run in order a
//! missing barrier shows in no result, so the proof looks at what was recorded, not at what came out.
//!
//! Each queue has a front: how far into every queue's commands its next command is certain to come after. A barrier
//! moves the queue's own front up to all it was given so far; waiting on a point merges the front its batch signalled
//! with. The host has such a front too, moved by what it learnt to be complete, and hands it to what it submits.

use std::collections::{BTreeMap, HashMap};
use tidegate::failure::Point;

/// Bytes of a page that a command reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    pub page: u64,
    pub start: u64,
    pub end: u64,
    pub write: bool,
}

/// What a recording holds, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    Barrier,
    HostBarrier,
    Command { name: String, kernel: Option<u64>, touches: Vec<Touch> },
}

/// What happened at the device's door, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    PageCreated { page: u64, size: u64 },
    PageDestroyed { page: u64 },
    KernelDropped { kernel: u64 },
    HostWrite { page: u64, start: u64, end: u64 },
    HostRead { page: u64, start: u64, end: u64 },
    Submitted { queue: usize, recording: u64, waits: Vec<Point>, signal: Point, recorded: Vec<Recorded> },
    Refused { queue: usize, recording: u64 },
    Recycled { recording: u64 },
    Completed { point: Point },
}

/// How much ordering was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub submits: u64,
    pub commands: u64,
    pub barriers: u64,
    pub host_barriers: u64,
    pub waits: u64,
}

/// How far into each queue's commands something is certain to come after; positions count from 1.
#[derive(Clone, Debug, Default)]
struct Front(Vec<u64>);

impl Front {
    fn get(&self, queue: usize) -> u64 {
        self.0.get(queue).copied().unwrap_or(0)
    }
    fn raise(&mut self, queue: usize, position: u64) {
        if self.0.len() <= queue {
            self.0.resize(queue + 1, 0);
        }
        self.0[queue] = self.0[queue].max(position);
    }
    fn merge(&mut self, other: &Front) {
        for (queue, &position) in other.0.iter().enumerate() {
            self.raise(queue, position);
        }
    }
}

#[derive(Default)]
struct Queue {
    given: u64,
    front: Front,
    host: Front,
}

#[derive(Clone)]
struct Signal {
    front: Front,
    host: Front,
}

struct Access {
    start: u64,
    end: u64,
    write: bool,
    queue: usize,
    position: u64,
    name: String,
}

impl Access {
    fn ordered(&self, front: &Front) -> bool {
        front.get(self.queue) >= self.position
    }
}

#[derive(Default)]
struct Page {
    size: u64,
    destroyed: bool,
    accesses: Vec<Access>,
}

/// Reads a log as it grows.
#[derive(Default)]
pub struct Checker {
    queues: HashMap<usize, Queue>,
    signals: BTreeMap<Point, Signal>,
    slots: HashMap<u32, (usize, u64)>,
    recordings: HashMap<u64, Point>,
    pages: HashMap<u64, Page>,
    kernels: HashMap<u64, (Front, bool)>,
    host: Front,
    visible: Front,
    pub counts: Counts,
    pub complaints: Vec<String>,
}

impl Checker {
    /// What a whole log shows.
    pub fn of(log: &[Event]) -> Checker {
        let mut checker = Checker::default();
        log.iter().for_each(|event| checker.see(event));
        checker
    }

    /// What reaching a value of a slot's timeline proves: that the first signal of at least that value was reached.
    fn signal(&self, point: Point) -> Option<&Signal> {
        let (found, signal) = self.signals.range(point..).next()?;
        (found.slot == point.slot).then_some(signal)
    }

    fn complain(&mut self, what: String) {
        if self.complaints.len() < 50 {
            self.complaints.push(what);
        }
    }

    pub fn see(&mut self, event: &Event) {
        match event {
            &Event::PageCreated { page, size } => {
                self.pages.insert(page, Page { size, ..Page::default() });
            }
            &Event::PageDestroyed { page } => self.destroyed(page),
            &Event::KernelDropped { kernel } => {
                let (uses, dropped) = self.kernels.entry(kernel).or_default();
                *dropped = true;
                let early = uses.0.iter().enumerate().any(|(queue, &position)| self.host.get(queue) < position);
                if early {
                    self.complain(format!("kernel {kernel} was dropped under unfinished work"));
                }
            }
            &Event::HostWrite { page, start, end } => self.host_access(page, start, end, true),
            &Event::HostRead { page, start, end } => self.host_access(page, start, end, false),
            Event::Submitted { queue, recording, waits, signal, recorded } => {
                self.submitted(*queue, *recording, waits, *signal, recorded);
            }
            Event::Refused { .. } => {}
            Event::Recycled { recording } => {
                if let Some(point) = self.recordings.remove(recording)
                    && let Some(signal) = self.signal(point)
                    && signal.front.0.iter().enumerate().any(|(q, &position)| self.host.get(q) < position)
                {
                    self.complain(format!("the recording of {point:?} was taken back before it was known complete"));
                }
            }
            Event::Completed { point } => {
                let Some(signal) = self.signal(*point).cloned() else {
                    self.complain(format!("{point:?} completed but was never submitted"));
                    return;
                };
                self.host.merge(&signal.front);
                self.visible.merge(&signal.host);
            }
        }
    }

    fn destroyed(&mut self, page: u64) {
        let mut complaints = Vec::new();
        let Some(state) = self.pages.get_mut(&page) else {
            self.complain(format!("page {page} destroyed but never made"));
            return;
        };
        if std::mem::replace(&mut state.destroyed, true) {
            complaints.push(format!("page {page} destroyed twice"));
        }
        for access in state.accesses.drain(..) {
            if !access.ordered(&self.host) {
                complaints.push(format!("page {page} destroyed under {}", access.name));
            }
        }
        complaints.into_iter().for_each(|c| self.complain(c));
    }

    fn host_access(&mut self, page: u64, start: u64, end: u64, write: bool) {
        let mut complaints = Vec::new();
        let Some(state) = self.pages.get(&page) else { return };
        if state.destroyed || end > state.size {
            complaints.push(format!("the host touched {start}..{end} of page {page}, which is not there"));
        }
        for access in &state.accesses {
            if access.start == access.end || access.start >= end || start >= access.end || !(write || access.write) {
                continue;
            }
            let verb = if write { "wrote" } else { "read" };
            if !access.ordered(&self.host) {
                let name = &access.name;
                complaints.push(format!("the host {verb} {start}..{end} of page {page} before {name} was complete"));
            } else if access.write && !access.ordered(&self.visible) {
                let name = &access.name;
                complaints
                    .push(format!("the host {verb} {start}..{end} of page {page} with no host barrier after {name}"));
            }
        }
        complaints.into_iter().for_each(|c| self.complain(c));
    }

    fn submitted(&mut self, queue: usize, recording: u64, waits: &[Point], signal: Point, recorded: &[Recorded]) {
        self.counts.submits += 1;
        self.counts.waits += waits.len() as u64;
        if self.recordings.insert(recording, signal).is_some() {
            self.complain(format!("recording {recording} submitted twice"));
        }
        let (home, last) = *self.slots.entry(signal.slot).or_insert((queue, 0));
        if home != queue {
            self.complain(format!("slot {} moved from queue {home} to {queue}", signal.slot));
        }
        if signal.batch <= last {
            self.complain(format!("slot {} signals {} after {last}", signal.slot, signal.batch));
        }
        self.slots.insert(signal.slot, (queue, signal.batch));

        let mut state = self.queues.remove(&queue).unwrap_or_default();
        // What the host knows to be complete cannot come after what it submits now.
        state.front.merge(&self.host);
        for wait in waits {
            match self.signal(*wait) {
                Some(signalled) => {
                    state.front.merge(&signalled.front);
                    state.host.merge(&signalled.host);
                }
                None => self.complain(format!("{signal:?} waits on {wait:?}, which was never submitted")),
            }
        }
        for item in recorded {
            match item {
                Recorded::Barrier => {
                    self.counts.barriers += 1;
                    state.front.raise(queue, state.given);
                }
                Recorded::HostBarrier => {
                    self.counts.host_barriers += 1;
                    state.host.merge(&state.front);
                    state.host.raise(queue, state.given);
                }
                Recorded::Command { name, kernel, touches } => {
                    self.counts.commands += 1;
                    state.given += 1;
                    if let Some(kernel) = kernel {
                        let (uses, dropped) = self.kernels.entry(*kernel).or_default();
                        uses.raise(queue, state.given);
                        if *dropped {
                            self.complain(format!("{name} was submitted with kernel {kernel}, which was dropped"));
                        }
                    }
                    for touch in touches {
                        self.touch(touch, name, queue, state.given, &state.front);
                    }
                }
            }
        }
        let mut front = state.front.clone();
        front.raise(queue, state.given);
        self.signals.insert(signal, Signal { front, host: state.host.clone() });
        self.queues.insert(queue, state);
    }

    /// No byte is touched, so nothing needs an order; but the page must outlive the work.
    fn bound(&mut self, touch: &Touch, name: &str, queue: usize, position: u64) {
        match self.pages.get_mut(&touch.page) {
            Some(page) if !page.destroyed => {
                page.accesses.retain(|earlier| earlier.start < earlier.end || earlier.queue != queue);
                let Touch { start, end, write, .. } = *touch;
                page.accesses.push(Access { start, end, write, queue, position, name: name.to_string() });
            }
            _ => self.complain(format!("{name} binds page {}, which is not there", touch.page)),
        }
    }

    fn touch(&mut self, touch: &Touch, name: &str, queue: usize, position: u64, front: &Front) {
        if touch.start == touch.end {
            self.bound(touch, name, queue, position);
            return;
        }
        let mut complaints = Vec::new();
        match self.pages.get_mut(&touch.page) {
            Some(page) if !page.destroyed && touch.start < touch.end && touch.end <= page.size => {
                page.accesses.retain(|earlier| {
                    let same = earlier.queue == queue && earlier.position == position;
                    let bound = earlier.start == earlier.end;
                    let overlap = !bound && earlier.start < touch.end && touch.start < earlier.end;
                    let conflict = overlap && !same && (touch.write || earlier.write);
                    if conflict && !earlier.ordered(front) {
                        complaints.push(format!(
                            "nothing orders {} ({}) before {name} ({}) on bytes {}..{} of page {}",
                            earlier.name,
                            if earlier.write { "writes" } else { "reads" },
                            if touch.write { "writes" } else { "reads" },
                            earlier.start.max(touch.start),
                            earlier.end.min(touch.end),
                            touch.page,
                        ));
                    }
                    // Whatever comes after the newer one comes after the older one: ordered behind it, or on the same
                    // queue, where a front is a prefix.
                    let covered = touch.start <= earlier.start && earlier.end <= touch.end;
                    let follows = (touch.write && conflict && earlier.ordered(front))
                        || (earlier.queue == queue && !same && (touch.write || !earlier.write));
                    !(covered && follows)
                });
                let Touch { start, end, write, .. } = *touch;
                page.accesses.push(Access { start, end, write, queue, position, name: name.to_string() });
            }
            _ => complaints.push(format!(
                "{name} touches {}..{} of page {}, which is not there",
                touch.start, touch.end, touch.page
            )),
        }
        complaints.into_iter().for_each(|c| self.complain(c));
    }
}
