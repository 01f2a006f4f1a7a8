//! The oracle: a read returns bytes if and only if every one of them was last written by work that succeeded, and then
//! they are what a model of the same calls says; otherwise it names exactly the roots that the model names.
//!
//! Random programs run on the host device against the model. `TIDEGATE_SEED` picks other programs, `TIDEGATE_OPS` how
//! many calls there are in all; a failure prints the seed and the shortest program found that still fails.

mod host;

use host::Rng;
use host::backend::{Call, HostBackend, HostDevice, Key, News, Options, Pace, fault};
use host::model::{Model, Run, Set, Span, Use, writes};
use host::program::{Operation, Per, Program, Term, Window};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate::code::Code;
use tidegate::device::{
    BufferDesc, BufferMemory, Claim, Device, ErrorDesc, FOREVER, Handle, KernelDesc, LaunchDesc, LaunchGrid,
    Scheduling, ScopeDesc, Settings, Slice, SliceUse, WHOLE,
};
use tidegate::error::{Error, Result as Answer, Roots};
use tidegate::failure::Access;
use tidegate::memory::MemoryKind;

/// What a check found wrong, in words.
type Checked = Result<(), String>;

const MOST_BUFFERS: usize = 9;
const MOST_ROOTS: usize = 24;
const MOST_GROUPS: [u32; 3] = [1024; 3];
const UNTOUCHED: u8 = 0xEE;

struct Buffer {
    number: usize,
    handle: Handle,
    token: bool,
}

/// What a kernel is, whether or not its module is whole.
#[derive(Clone)]
struct Shape {
    program: Program,
    /// What it does with each binding; `None` where `extra` must say which part it touches.
    truth: Vec<Access>,
}

struct Kernel {
    handle: Handle,
    shape: Shape,
    declared: Vec<Option<Access>>,
    /// Empty while it works.
    broken: Set,
    /// Its module says nothing.
    unreadable: bool,
}

struct Scope {
    number: usize,
    handle: Handle,
}

struct World {
    device: HostDevice,
    model: Model,
    rng: Rng,
    streams: Vec<u64>,
    track: bool,
    /// So little work may be unfinished that a call may have to wait for room first.
    capped: bool,
    /// Work is queued on the host first.
    scheduled: bool,
    /// Work that was taken and is not recorded yet, in order.
    queued: Vec<Queued>,
    launches: u64,
    buffers: Vec<Buffer>,
    kernels: Vec<Kernel>,
    scopes: Vec<Scope>,
    opened: usize,
    injected: u64,
    fired: u64,
    trace: Vec<String>,
}

/// Work on its way: the number its call has in the model, and what is still to be recorded of it.
struct Queued {
    call: usize,
    keys: Vec<Key>,
}

/// A recording that was refused.
struct Refused {
    recording: u64,
    message: String,
    /// The root, or an id that no byte may have if nothing carries it.
    root: u64,
}

/// What a call left behind at the device's door.
#[derive(Default)]
struct Seen {
    /// The recording its own commands went to.
    recording: Option<u64>,
    /// What is still to be recorded of them.
    keys: Vec<Key>,
    /// That recording was refused.
    own: Option<Refused>,
    /// Anything was refused.
    refused: bool,
    /// An injected fault was met.
    fired: bool,
}

/// No root has such an id.
const NO_ROOT: u64 = u64::MAX / 2;

fn ids(roots: &Roots) -> Set {
    roots.ids.iter().copied().collect()
}

fn same(expected: &Set, roots: &Roots, what: &str) -> Checked {
    match ids(roots) == *expected && !roots.more && roots.ids.len() == expected.len() {
        true => Ok(()),
        false => Err(format!("{what} names {:?} and {} more, the model {expected:?}", roots.ids, roots.more)),
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let pace = *rng.pick(&[Pace::Lazy, Pace::Random, Pace::Random, Pace::Eager]);
        let mut options = Options::new(rng.next(), rng.between(1, 3) as usize).pace(pace);
        options.limits.max_groups = MOST_GROUPS;
        options.tells_budget = rng.one_in(3);
        let track = rng.one_in(3);
        let settings = Settings {
            slots: rng.between(1, 4) as u32,
            scheduling: *rng.pick(&[
                Scheduling::Event,
                Scheduling::Event,
                Scheduling::Interleave,
                Scheduling::Sequence,
            ]),
            max_recorded: *rng.pick(&[1, 2, 5, 1024]),
            max_tasks: *rng.pick(&[1, 3, 256]),
            max_pending: *rng.pick(&[4, 50, 1 << 16]),
            staging_size: *rng.pick(&[4096, 1 << 20]),
            track_uninitialized: track,
            isolate_buffers: rng.one_in(4),
            ..Settings::default()
        };
        let capped = settings.max_pending < 1000;
        let scheduled = settings.scheduling != Scheduling::Event;
        let streams = vec![0, 1, 2, rng.next() | 1 << 40, rng.next() | 1 << 50];
        let device = Device::new(HostBackend::new(options), 1, settings, Some(tracing::Dispatch::none()));
        World {
            device,
            model: Model::default(),
            rng,
            streams,
            track,
            capped,
            scheduled,
            queued: Vec::new(),
            launches: 0,
            buffers: Vec::new(),
            kernels: Vec::new(),
            scopes: Vec::new(),
            opened: 0,
            injected: 0,
            fired: 0,
            trace: Vec::new(),
        }
    }

    fn stream(&mut self) -> u64 {
        *self.rng.pick(&self.streams)
    }

    fn note(&mut self, what: String) {
        self.trace.push(what);
    }

    /// Gathers what a call that is no work did, and tells the model of refusals.
    fn seen(&mut self) -> Result<Seen, String> {
        self.seen_work(Vec::new(), None, false)
    }

    /// Gathers what the call just made did. If it was work, `keys` are its commands, and `failed` is the message of its
    /// answer. Under a scheduler its commands may come later, with all that is queued then.
    fn seen_work(&mut self, keys: Vec<Key>, failed: Option<&str>, flushes: bool) -> Result<Seen, String> {
        let (news, fired) = (self.device.backend().take_news(), self.device.backend().fired());
        let mut seen = Seen { keys, fired: fired != self.fired, ..Seen::default() };
        self.fired = fired;
        for (at, item) in news.iter().enumerate() {
            let (recording, message, broken_off) = match item {
                News::Got { recording, key } => {
                    self.got(*recording, key, &mut seen)?;
                    continue;
                }
                // The call that was recorded just then fails alone, and says so.
                News::Refused { broken_off: true, .. } if !self.scheduled => continue,
                News::Refused { recording, message, broken_off } => (*recording, message.clone(), *broken_off),
            };
            let report = self.device.report_device();
            let root = report.failures.iter().find(|failure| failure.message.contains(&message));
            let root = root.map_or(NO_ROOT + at as u64, |failure| failure.id);
            self.note(format!("    refused: recording {recording} ({message}), root {root}"));
            seen.refused = true;
            let mut own = seen.recording == Some(recording);
            if broken_off {
                // All that was queued was to be in it.
                for queued in self.queued.drain(..) {
                    self.model.recorded(queued.call, recording);
                }
                let told = flushes || failed.is_some_and(|failed| failed.contains(&message));
                own |= seen.recording.is_none() && !seen.keys.is_empty() && at + 1 == news.len() && told;
            }
            match own {
                true => {
                    seen.recording = Some(recording);
                    seen.own = Some(Refused { recording, message, root });
                }
                false => self.model.late_failure(recording, root),
            }
        }
        Ok(seen)
    }

    /// A recording got a command: of the oldest work that waits for such a one.
    fn got(&mut self, recording: u64, key: &Key, seen: &mut Seen) -> Checked {
        let Some(at) = self.queued.iter().position(|queued| queued.keys.contains(key)) else {
            let Some(at) = seen.keys.iter().position(|own| own == key) else {
                return Err(format!("recording {recording} got {key:?}, which nobody asked for"));
            };
            seen.keys.swap_remove(at);
            seen.recording = Some(recording);
            return Ok(());
        };
        let Queued { call, keys } = &mut self.queued[at];
        keys.retain(|other| other != key);
        self.model.recorded(*call, recording);
        if keys.is_empty() {
            self.queued.remove(at);
        }
        Ok(())
    }

    /// Work was taken: it goes, or went, where `seen` says.
    fn took(&mut self, call: usize, seen: Seen) -> Checked {
        match seen.recording {
            Some(recording) => self.model.recorded(call, recording),
            None if self.scheduled && !seen.keys.is_empty() => self.queued.push(Queued { call, keys: seen.keys }),
            None if seen.keys.is_empty() => {}
            None => return Err(format!("it is said to be enqueued, but {:?} never came", seen.keys)),
        }
        if let Some(Refused { recording, root, .. }) = seen.own {
            self.model.late_failure(recording, root);
        }
        Ok(())
    }

    /// Judges the answer of work over `uses`, and tells the model; `ran` is what it did if it ran.
    fn judge(
        &mut self,
        uses: &[Use],
        kernel: &Set,
        keys: Vec<Key>,
        answer: Answer,
        ran: impl FnOnce(&mut Model) -> usize,
    ) -> Checked {
        let failed = match &answer {
            Err(Error::Failed(fault, _)) => Some(&*fault.message),
            _ => None,
        };
        let seen = self.seen_work(keys, failed, false)?;
        if self.model.held(uses) {
            return match answer {
                Err(Error::Misuse(misuse)) if misuse.code == Code::WrongState => Ok(()),
                other => Err(format!("bytes are held, but the answer was {other:?}")),
            };
        }
        let found = self.model.found(uses, kernel);
        match (answer, &seen.own) {
            (Ok(()), None) if found.is_empty() => {
                let call = ran(&mut self.model);
                self.took(call, seen)
            }
            (Err(Error::Failed(fault, roots)), Some(refused)) if found.is_empty() => {
                if !fault.message.contains(&refused.message)
                    || (refused.root < NO_ROOT && roots.ids[..] != [refused.root])
                {
                    return Err(format!("{fault:?} with roots {:?} is not the refusal {}", roots.ids, refused.root));
                }
                let call = ran(&mut self.model);
                self.took(call, seen)
            }
            (Err(Error::Skipped(roots)), None) if !found.is_empty() => {
                self.model.skip(uses, &found);
                same(&found, &roots, "the skip")
            }
            (Err(Error::Failed(fault, roots)), None) if seen.fired && seen.recording.is_none() => {
                self.model.fail(uses, roots.ids.first().copied());
                // A failure of nothing is carried by nothing.
                let claims = uses.iter().any(|u| writes(u.access));
                match roots.ids.len() == 1 || !claims {
                    true => Ok(()),
                    false => Err(format!("{fault:?} has roots {:?}", roots.ids)),
                }
            }
            (other, own) => {
                let own = own.as_ref().map(|own| own.recording);
                Err(format!("the model finds {found:?}, refused is {own:?}, but the answer was {other:?}"))
            }
        }
    }

    fn slice(&mut self, span: Span) -> Slice {
        let handle = self.handle(span.buffer);
        let to_end = span.end == self.model.buffers[span.buffer].size && span.start < span.end;
        let size = if to_end && self.rng.one_in(2) { WHOLE } else { span.len() };
        Slice { buffer: handle, offset: span.start, size }
    }

    fn handle(&self, number: usize) -> Handle {
        self.buffers.iter().find(|buffer| buffer.number == number).map_or(Handle(0), |buffer| buffer.handle)
    }

    /// Any buffer that is not a token.
    fn memory(&mut self) -> Option<usize> {
        let numbers: Vec<usize> = self.buffers.iter().filter(|b| !b.token).map(|b| b.number).collect();
        (!numbers.is_empty()).then(|| *self.rng.pick(&numbers))
    }

    fn any(&mut self) -> Option<usize> {
        (!self.buffers.is_empty()).then(|| self.rng.pick(&self.buffers).number)
    }

    /// A random range of a buffer; `bindable`: aligned, not empty.
    fn span(&mut self, buffer: usize, bindable: bool) -> Span {
        let size = self.model.buffers[buffer].size.min(400);
        let whole = self.rng.one_in(4);
        let (mut start, mut end) = (self.rng.below(size), self.rng.between(1, size));
        if whole {
            (start, end) = (0, self.model.buffers[buffer].size);
        } else if bindable {
            start = start / 4 * 4;
            end = (start + end).min(size).max(start + 1);
        } else {
            (start, end) = (start.min(end), start.max(end));
        }
        Span { buffer, start, end }
    }

    fn spans(&mut self) -> Vec<Span> {
        let count = self.rng.between(1, 3);
        (0..count).filter_map(|_| self.any()).collect::<Vec<_>>().into_iter().map(|b| self.span(b, false)).collect()
    }

    fn slices(&mut self, spans: &[Span]) -> Vec<Slice> {
        spans.iter().map(|span| self.slice(*span)).collect()
    }

    fn roots_alive(&self) -> Set {
        let mut live = self.model.live();
        self.kernels.iter().for_each(|kernel| live.extend(&kernel.broken));
        live
    }

    fn step(&mut self, seed: u64) -> Checked {
        self.rng = Rng::new(seed);
        let room = self.roots_alive().len() < MOST_ROOTS;
        if self.buffers.len() < 2 {
            return self.create(room);
        }
        match self.rng.below(100) {
            0..6 => self.create(room),
            6..10 => self.destroy(),
            10..23 => self.write(),
            23..48 => self.launch(),
            48..56 => self.copy(),
            56..60 => self.fill(),
            60..63 if room => self.taint(),
            63 => self.mark_written(),
            64..68 => self.scope(room),
            68..70 => self.allocate(),
            70..74 => self.kernel(room),
            74..77 => self.flush_or_wait(),
            77..79 if room => self.inject(),
            79 => self.trim(),
            80..88 => self.query(),
            _ => self.read(),
        }
    }

    fn create(&mut self, room: bool) -> Checked {
        if self.buffers.len() >= MOST_BUFFERS {
            return self.destroy();
        }
        let stream = self.stream();
        let kind = *self.rng.pick(&[
            MemoryKind::Device,
            MemoryKind::Device,
            MemoryKind::Device,
            MemoryKind::Upload,
            MemoryKind::Readback,
        ]);
        let token = self.rng.one_in(8);
        let huge = !token && room && self.rng.one_in(10);
        let unallocated = room && !token && !huge && self.rng.one_in(12);
        let size = if huge { 1 << 40 } else { self.rng.between(1, *self.rng.clone().pick(&[16, 64, 200])) };
        let memory = if token { BufferMemory::Token } else { BufferMemory::Managed(kind) };
        let desc = BufferDesc { size, memory, stream, label: "", tag: 0, unallocated };
        let (handle, answer) = self.device.buffer_create(&desc);
        self.note(format!("create {} = {desc:?} -> {answer:?}", self.model.buffers.len()));
        let seen = self.seen()?;
        if handle.0 == 0 {
            return Err(format!("no handle with {answer:?}"));
        }
        let number = self.model.buffers.len();
        self.buffers.push(Buffer { number, handle, token });
        let slice = Slice { buffer: handle, offset: 0, size: WHOLE };
        let answer = match answer {
            // It lacks memory from the start, for a reason the caller may replace.
            Ok(()) if unallocated => {
                let error = ErrorDesc { code: 7, message: "never to be", label: "" };
                let root = match self.rng.one_in(2) {
                    true => self.device.fail_unallocated(handle, &error),
                    false => self.device.first_failure(&[slice]),
                };
                self.model.create(size, token, Set::from([root.map_err(|e| format!("{e:?}"))?]), None);
                return Ok(());
            }
            other => other,
        };
        let fired = seen.fired || self.seen()?.fired;
        match answer {
            Ok(()) if !huge => {
                let fresh = if self.track && !token {
                    Some(self.device.first_failure(&[slice]).map_err(|e| format!("{e:?}"))?)
                } else {
                    None
                };
                self.model.create(size, token, Set::new(), fresh);
                Ok(())
            }
            Err(Error::Failed(_, roots)) if (huge || fired) && roots.ids.len() == 1 => {
                self.model.create(size, token, ids(&roots), None);
                Ok(())
            }
            other => Err(format!("unexpected {other:?}")),
        }
    }

    fn allocate(&mut self) -> Checked {
        let lacking: Vec<usize> = self
            .buffers
            .iter()
            .filter(|b| !self.model.buffers[b.number].unallocated.is_empty())
            .map(|b| b.number)
            .collect();
        let Some(&number) = lacking.first() else { return self.create(true) };
        let size = self.rng.between(1, 100);
        let answer = self.device.buffer_allocate(self.handle(number), size);
        self.note(format!("allocate {number} with {size} -> {answer:?}"));
        let seen = self.seen()?;
        match answer {
            Ok(()) => self.model.allocate(number, size),
            Err(Error::Failed(_, roots)) if seen.fired => {
                self.model.buffers[number].unallocated = ids(&roots);
                self.model.buffers[number].size = size;
            }
            other => return Err(format!("unexpected {other:?}")),
        }
        Ok(())
    }

    fn destroy(&mut self) -> Checked {
        let at = self.rng.below(self.buffers.len() as u64) as usize;
        let number = self.buffers[at].number;
        if self.model.holds_any(number) {
            return Ok(());
        }
        let answer = self.device.buffer_destroy(self.buffers[at].handle);
        self.note(format!("destroy {number} -> {answer:?}"));
        self.seen()?;
        self.model.destroy(number);
        self.buffers.swap_remove(at);
        answer.map_err(|e| format!("unexpected {e:?}"))
    }

    fn write(&mut self) -> Checked {
        let Some(buffer) = self.memory() else { return Ok(()) };
        let mut span = self.span(buffer, false);
        span.end = span.end.min(span.start + 400);
        let bytes: Vec<u8> = match self.rng.one_in(5) && span.len() >= 12 {
            // What an indirect launch can use.
            true => (0..span.len()).map(|i| u8::from(i < 12 && i % 4 == 0)).collect(),
            false => (0..span.len()).map(|_| self.rng.next() as u8).collect(),
        };
        let (stream, slice) = (self.stream(), self.slice(span));
        let answer = self.device.buffer_write(stream, slice, &bytes, false);
        self.note(format!("write {span:?} on {stream} -> {answer:?}"));
        if span.len() == 0 {
            return self.nothing(answer);
        }
        let keys = self.staged(&[0]);
        self.judge(&[Use { span, access: Access::Write }], &Set::new(), keys, answer, |model| {
            model.write(span, bytes.into_iter())
        })
    }

    /// R18.
    fn nothing(&mut self, answer: Answer) -> Checked {
        self.seen()?;
        answer.map_err(|e| format!("nothing was to be done, but the answer was {e:?}"))
    }

    fn fill(&mut self) -> Checked {
        let Some(buffer) = self.memory() else { return Ok(()) };
        let mut span = self.span(buffer, false);
        let size = *self.rng.pick(&[1_u32, 2, 4]);
        span.end = span.start + span.len().min(400) / u64::from(size) * u64::from(size);
        let pattern = self.rng.next() as u32;
        let (stream, slice) = (self.stream(), self.slice(span));
        let answer = self.device.buffer_fill(stream, slice, pattern, size);
        self.note(format!("fill {span:?} with {size} of {pattern:#x} on {stream} -> {answer:?}"));
        if span.len() == 0 {
            return self.nothing(answer);
        }
        let bytes = pattern.to_le_bytes().into_iter().take(size as usize).cycle();
        // Whole words are filled; what is left at either end is copied.
        let (first, last) = (span.start.next_multiple_of(4).min(span.end), span.end / 4 * 4);
        let (first, last) = if first < last { (first, last) } else { (span.end, span.end) };
        let mut keys = Vec::new();
        if first < last {
            let at = |i: u64| pattern.to_le_bytes()[((first - span.start + i) % u64::from(size)) as usize];
            keys.push(Key::Fill(u32::from_le_bytes([at(0), at(1), at(2), at(3)])));
        }
        let ends = [(span.start, first, 0), (last, span.end, first - span.start)];
        let ends: Vec<u64> = ends.iter().filter(|(start, end, _)| start < end).map(|end| end.2).collect();
        keys.extend(self.staged(&ends));
        self.judge(&[Use { span, access: Access::Write }], &Set::new(), keys, answer, |model| model.write(span, bytes))
    }

    /// The copies out of what was just staged, each from so far into it.
    fn staged(&self, parts: &[u64]) -> Vec<Key> {
        let staged = self.device.backend().take_staged();
        staged.iter().flat_map(|&(page, at)| parts.iter().map(move |part| Key::Staged(page, at + part))).collect()
    }

    fn copy(&mut self) -> Checked {
        let (Some(from), Some(to)) = (self.memory(), self.memory()) else { return Ok(()) };
        let (mut from, mut to) = (self.span(from, false), self.span(to, false));
        let len = from.len().min(to.len()).min(400);
        from.end = from.start + len;
        to.end = to.start + len;
        if from.overlaps(to) {
            return self.read();
        }
        let (stream, dst, src) = (self.stream(), self.slice(to), self.slice(from));
        let answer = self.device.buffer_copy(stream, dst, src);
        self.note(format!("copy {from:?} to {to:?} on {stream} -> {answer:?}"));
        if len == 0 {
            return self.nothing(answer);
        }
        let uses = [Use { span: to, access: Access::Write }, Use { span: from, access: Access::Read }];
        if self.model.held(&uses) || [from, to].iter().any(|s| !self.model.buffers[s.buffer].unallocated.is_empty()) {
            return self.judge(&uses, &Set::new(), Vec::new(), answer, |_| usize::MAX);
        }
        // A copy runs over claimed bytes (R10): the judge must not look for them.
        let only = [Use { span: to, access: Access::Write }];
        self.judge(&only, &Set::new(), vec![Key::Copy(len)], answer, |model| model.copy(to, from))
    }

    fn taint(&mut self) -> Checked {
        let spans = self.spans();
        let slices = self.slices(&spans);
        let error = ErrorDesc { code: 1, message: "declared by the test", label: "taint" };
        let answer = self.device.taint(&slices, &error);
        self.note(format!("taint {spans:?} -> {answer:?}"));
        let root = *answer.as_ref().unwrap_or(&0);
        let spans: Vec<Span> = spans.into_iter().filter(|span| span.start < span.end).collect();
        let uses: Vec<Use> = spans.iter().map(|&span| Use { span, access: Access::Write }).collect();
        self.judge_mark(&uses, answer.map(|_| ()), |model| model.taint(&spans, root))
    }

    fn mark_written(&mut self) -> Checked {
        let spans = self.spans();
        let slices = self.slices(&spans);
        let answer = self.device.mark_written(&slices);
        self.note(format!("mark {spans:?} -> {answer:?}"));
        let spans: Vec<Span> = spans.into_iter().filter(|span| span.start < span.end).collect();
        let uses: Vec<Use> = spans.iter().map(|&span| Use { span, access: Access::Write }).collect();
        self.judge_mark(&uses, answer, |model| model.mark_written(&spans))
    }

    /// What changes claims and is no work.
    fn judge_mark(&mut self, uses: &[Use], answer: Answer, done: impl FnOnce(&mut Model)) -> Checked {
        self.seen()?;
        match (self.model.held(uses), answer) {
            (false, Ok(())) => done(&mut self.model),
            (true, Err(Error::Misuse(misuse))) if misuse.code == Code::WrongState => {}
            (held, other) => return Err(format!("held: {held}, but the answer was {other:?}")),
        }
        Ok(())
    }

    fn scope(&mut self, room: bool) -> Checked {
        if !self.scopes.is_empty() && (self.scopes.len() > 1 || !room || self.rng.one_in(2)) {
            let at = self.rng.below(self.scopes.len() as u64) as usize;
            let scope = self.scopes.swap_remove(at);
            let error = ErrorDesc { code: 2, message: "the scope failed", label: "" };
            let (failed, answer) = match self.rng.below(4) {
                0 => (true, self.device.scope_fail(scope.handle, Some(&error))),
                1 => (true, self.device.scope_fail(scope.handle, None)),
                _ => (false, self.device.scope_end(scope.handle)),
            };
            self.note(format!("scope {} exits, failed: {failed} -> {answer:?}", scope.number));
            self.seen()?;
            self.model.scope_exit(scope.number, failed);
            return answer.map_err(|e| format!("unexpected {e:?}"));
        }
        if !room {
            return Ok(());
        }
        let uses: Vec<Use> = self
            .spans()
            .into_iter()
            .filter(|span| span.start < span.end)
            .map(|span| {
                let access =
                    *self.rng.pick(&[Access::Read, Access::Write, Access::Write, Access::MayWrite, Access::ReadWrite]);
                Use { span, access }
            })
            .collect();
        let given = self.given(&uses);
        let number = self.opened;
        self.opened += 1;
        let stream = self.stream();
        let desc = ScopeDesc { stream, uses: &given, label: "scope", tag: 0 };
        let answer = self.device.scope_begin(&desc);
        self.note(format!("scope {number} of {uses:?} on {stream} -> {answer:?}"));
        let mut provisional = None;
        if let Ok(handle) = answer {
            self.scopes.push(Scope { number, handle });
            let written: Vec<Slice> = given.iter().filter(|u| u.access.is_some_and(writes)).map(|u| u.slice).collect();
            if !written.is_empty() {
                provisional = Some(self.device.first_failure(&written).map_err(|e| format!("{e:?}"))?);
            }
        }
        let opened = |model: &mut Model| model.scope_begin(number, &uses, provisional);
        self.judge(&uses, &Set::new(), Vec::new(), answer.map(|_| ()), opened)
    }

    fn given(&mut self, uses: &[Use]) -> Vec<SliceUse> {
        uses.iter().map(|u| SliceUse { slice: self.slice(u.span), access: Some(u.access) }).collect()
    }

    fn shape(&mut self) -> Shape {
        let inputs = self.rng.below(3) as usize;
        let mut truth = vec![Access::Read; inputs];
        let mut seen = truth.clone();
        for access in &mut truth {
            if self.rng.one_in(4) {
                *access = Access::None;
            }
        }
        let mut program = Program::new(&[]);
        program.group = [self.rng.between(1, 8) as u32, 1, 1];
        program.push = *self.rng.pick(&[0, 4]);
        if self.rng.one_in(3) {
            let guarded = program.push == 4 && self.rng.one_in(2);
            program.per = Some(Per { bytes: *self.rng.pick(&[1, 2, 4, 7]), guarded });
        }
        for _ in 0..self.rng.between(1, 2) {
            let out = truth.len();
            let mut window = Window::ALL;
            let mut step = 1;
            let (is, module) = match self.rng.below(6) {
                0 | 1 => (Access::Write, Access::Write),
                2 => (Access::ReadWrite, Access::ReadWrite),
                3 => {
                    window = Window { lo: self.rng.below(20), len: self.rng.between(1, 30) };
                    (Access::None, Access::Write)
                }
                _ => {
                    step = self.rng.between(2, 5);
                    (Access::MayWrite, Access::MayWrite)
                }
            };
            truth.push(is);
            seen.push(module);
            let mut terms = Vec::new();
            for (input, access) in truth.iter().take(inputs).enumerate() {
                let part = *access == Access::None || self.rng.one_in(3);
                let window = match part {
                    true => Window { lo: self.rng.below(16), len: self.rng.between(1, 24) },
                    false => Window::ALL,
                };
                terms.push(Term { binding: input, window, factor: self.rng.next() as u8 });
            }
            if is == Access::ReadWrite {
                terms.push(Term { binding: out, window: Window::ALL, factor: 3 });
            }
            let start = self.rng.below(step);
            program.operations.push(Operation { out, window, step, start, add: self.rng.next() as u8, terms });
        }
        program.bindings = seen;
        Shape { program, truth }
    }

    fn kernel(&mut self, room: bool) -> Checked {
        let broken = room && self.rng.one_in(4);
        let rebuild = !self.kernels.is_empty() && self.rng.one_in(2);
        if !rebuild && self.kernels.len() >= 6 {
            let at = self.rng.below(self.kernels.len() as u64) as usize;
            let kernel = self.kernels.swap_remove(at);
            let answer = self.device.kernel_destroy(kernel.handle);
            self.note(format!("destroy kernel {:?} -> {answer:?}", kernel.handle));
            self.seen()?;
            return answer.map_err(|e| format!("unexpected {e:?}"));
        }
        let shape = self.shape();
        let declared: Vec<Option<Access>> = shape
            .truth
            .iter()
            .map(|&truth| {
                let must = truth == Access::MayWrite || truth == Access::None;
                (self.rng.one_in(if must { 2 } else { 4 })).then_some(truth)
            })
            .collect();
        let mut code = shape.program.encode();
        if broken {
            let len = code.len();
            code.truncate(self.rng.below(len as u64 - 1) as usize);
        }
        let desc = KernelDesc {
            code: &code,
            entry: "",
            accesses: &declared,
            constants: &[],
            label: "kernel",
            tag: 0,
            trusted: false,
            declares_uses: false,
        };
        let (at, answer) = if rebuild {
            let at = self.rng.below(self.kernels.len() as u64) as usize;
            let answer = self.device.kernel_rebuild(self.kernels[at].handle, &desc);
            (at, answer)
        } else {
            let (handle, answer) = self.device.kernel_create(&desc);
            if handle.0 == 0 {
                return Err(format!("no handle with {answer:?}"));
            }
            self.kernels.push(Kernel {
                handle,
                shape: shape.clone(),
                declared: Vec::new(),
                broken: Set::new(),
                unreadable: false,
            });
            (self.kernels.len() - 1, answer)
        };
        let handle = self.kernels[at].handle;
        self.note(format!("kernel {handle:?}, rebuilt: {rebuild}, broken: {broken}, {declared:?} -> {answer:?}"));
        let seen = self.seen()?;
        let roots = match answer {
            Ok(()) if !broken => Set::new(),
            Err(Error::Failed(_, roots)) if (broken || seen.fired) && roots.ids.len() == 1 => ids(&roots),
            other => return Err(format!("unexpected {other:?}")),
        };
        self.kernels[at] = Kernel { handle, shape, declared, broken: roots, unreadable: broken };
        Ok(())
    }

    fn launch(&mut self) -> Checked {
        if self.kernels.is_empty() {
            return self.kernel(true);
        }
        let at = self.rng.below(self.kernels.len() as u64) as usize;
        let Kernel { handle, shape, declared, broken, unreadable } = &self.kernels[at];
        let (handle, unreadable) = (*handle, *unreadable);
        let (shape, declared, broken) = (shape.clone(), declared.clone(), broken.clone());
        let Some(counts) = self.memory() else { return Ok(()) };
        let room = self.model.buffers[counts].size.min(400);
        let counts = (room >= 12 && self.rng.one_in(6)).then(|| {
            let start = self.rng.below((room - 12) / 4 + 1) * 4;
            Span { buffer: counts, start, end: start + 12 }
        });
        let mut spans: Vec<Span> = Vec::new();
        for _ in &shape.truth {
            let Some(buffer) = self.memory() else { return Ok(()) };
            spans.push(self.span(buffer, true));
        }
        // What is bound as nothing is touched in the windows of the program, which `extra` declares.
        let sizes: Vec<u64> = spans.iter().map(|span| span.len()).collect();
        let grid = match counts {
            Some(span) => LaunchGrid::Indirect(Slice { size: 12, ..self.slice(span) }),
            None if self.rng.one_in(20) => LaunchGrid::Groups([0, 1, 1]),
            None if self.rng.one_in(2) => LaunchGrid::Threads([self.rng.between(1, 40) as u32, 1, 1]),
            None => LaunchGrid::Groups([self.rng.between(1, 3) as u32, 1, 1]),
        };
        let groups = match grid {
            LaunchGrid::Groups(groups) => groups,
            LaunchGrid::Threads([threads, ..]) => [threads.div_ceil(shape.program.group[0]), 1, 1],
            LaunchGrid::Indirect(_) => MOST_GROUPS,
        };
        let mut push: Vec<u8> = (0..shape.program.push).map(|_| self.rng.next() as u8).collect();
        if shape.program.per.is_some_and(|per| per.guarded) {
            push = (self.rng.below(100) as u32).to_le_bytes().to_vec();
        }
        let mut extra: Vec<Use> = Vec::new();
        for (binding, offset, len, stored) in shape.program.touches(&sizes) {
            if shape.truth[binding] == Access::None && len > 0 {
                let Span { buffer, start, .. } = spans[binding];
                let span = Span { buffer, start: start + offset, end: start + offset + len };
                let write = if shape.program.per.is_some() { Access::MayWrite } else { Access::Write };
                extra.push(Use { span, access: if stored { write } else { Access::Read } });
            }
        }
        if self.rng.one_in(4)
            && let Some(buffer) = self.any()
        {
            let token = self.model.buffers[buffer].token;
            let access = *self.rng.pick(&[Access::Read, Access::Write, Access::MayWrite, Access::ReadWrite]);
            let span = self.span(buffer, false);
            if span.len() > 0 {
                extra.push(Use { span, access: if token { access } else { Access::Read } });
            }
        }
        let mut bindings: Vec<SliceUse> = Vec::new();
        let mut uses: Vec<Use> = Vec::new();
        let mut proven: Vec<Use> = Vec::new();
        for (i, &span) in spans.iter().enumerate() {
            let mut truth = shape.truth[i];
            let reach = shape.program.reach(span.len(), &push, groups);
            if truth == Access::Write && (reach < span.len() || (counts.is_some() && shape.program.per.is_some())) {
                truth = Access::MayWrite;
            }
            let module = shape.program.bindings[i];
            let silent = match declared[i] {
                Some(declared) => declared == truth,
                None => module == shape.truth[i],
            };
            let said = if silent && self.rng.one_in(2) { None } else { Some(truth) };
            let inferred = match (module, counts) {
                _ if unreadable => Access::ReadWrite,
                (Access::Write, Some(_)) => Access::MayWrite,
                (Access::Write, None) if reach < span.len() => {
                    if said.is_none() && declared[i].is_none() && reach > 0 {
                        proven.push(Use { span: Span { end: span.start + reach, ..span }, access: Access::Write });
                    }
                    Access::MayWrite
                }
                (module, _) => module,
            };
            bindings.push(SliceUse { slice: self.slice(span), access: said });
            uses.push(Use { span, access: said.or(declared[i]).unwrap_or(inferred) });
        }
        uses.extend(&extra);
        uses.extend(counts.map(|span| Use { span, access: Access::Read }));
        let written: Vec<Span> = uses.iter().filter(|u| writes(u.access)).map(|u| u.span).collect();
        if written.iter().enumerate().any(|(i, a)| written[..i].iter().any(|b| a.overlaps(*b))) {
            return self.read();
        }
        uses.extend(proven);
        let given = self.given(&extra);
        let stream = self.stream();
        self.launches += 1;
        let label = format!("launch {}", self.launches);
        let desc = LaunchDesc {
            stream,
            kernel: handle,
            bindings: &bindings,
            extra: &given,
            grid,
            push: &push,
            label: &label,
            tag: 0,
        };
        let answer = self.device.launch(&desc);
        self.note(format!("launch {handle:?} over {uses:?}, {grid:?}, on {stream} -> {answer:?}"));
        if matches!(grid, LaunchGrid::Groups([0, _, _])) {
            return self.nothing(answer);
        }
        let run = Run {
            program: &shape.program,
            bindings: spans,
            push,
            groups,
            counts: counts.map(|span| (span, MOST_GROUPS)),
        };
        self.judge(&uses, &broken, vec![Key::Launch(label)], answer, |model| model.launch(&uses, &run))
    }

    fn flush_or_wait(&mut self) -> Checked {
        let stream = self.stream();
        let which = self.rng.below(4);
        let answer = match which {
            0 => self.device.stream_wait(stream, FOREVER),
            1 => self.device.wait(FOREVER),
            _ => self.device.stream_flush(stream),
        };
        self.note(format!("flush or wait {which} on {stream} -> {answer:?}"));
        let seen = self.seen()?;
        if let Err(error) = answer
            && !seen.refused
            && !seen.fired
        {
            return Err(format!("unexpected {error:?}"));
        }
        if which == 1 {
            let expected = self.roots_alive();
            let count = self.device.failure_count();
            if count != expected.len() as u64 {
                let all: Vec<u64> = self.device.report_device().failures.iter().map(|f| f.id).collect();
                return Err(format!("{count} failures live ({all:?}), in the model {expected:?}"));
            }
        }
        Ok(())
    }

    fn trim(&mut self) -> Checked {
        let answer = self.device.trim();
        self.note(format!("trim -> {answer:?}"));
        let seen = self.seen()?;
        match answer {
            Err(error) if !seen.fired => Err(format!("unexpected {error:?}")),
            _ => Ok(()),
        }
    }

    fn inject(&mut self) -> Checked {
        let call = *self.rng.pick(&[
            Call::Submit,
            Call::Submit,
            Call::Submit,
            Call::End,
            Call::Begin,
            Call::Launch,
            Call::KernelCreate,
            Call::PageCreate,
            Call::PageWrite,
        ]);
        let (code, times) = match self.rng.below(3) {
            0 => (Code::OutOfDeviceMemory, self.rng.between(1, 2)),
            1 => (Code::OutOfHostMemory, self.rng.between(1, 2)),
            _ => (Code::Driver, 1),
        };
        for _ in 0..times {
            self.injected += 1;
            self.note(format!("inject {call:?}, {code:?}: fault <{}>", self.injected));
            self.device.backend().inject(call, 1, fault(code, format!("fault <{}>", self.injected)), false);
        }
        Ok(())
    }

    fn query(&mut self) -> Checked {
        let spans = self.spans();
        let slices = self.slices(&spans);
        match self.rng.below(5) {
            0 => {
                let answer = self.device.check_written(&slices, FOREVER);
                self.note(format!("check {spans:?} -> {answer:?}"));
                let seen = self.seen()?;
                let expected = self.model.roots(spans);
                match answer {
                    Ok(()) if expected.is_empty() => Ok(()),
                    Err(Error::Unwritten(roots)) if !expected.is_empty() => same(&expected, &roots, "the check"),
                    Err(Error::Failed(..)) if seen.fired => Ok(()),
                    other => Err(format!("the model finds {expected:?}, but the answer was {other:?}")),
                }
            }
            1 => {
                let answer = self.device.first_failure(&slices);
                self.note(format!("first failure of {spans:?} -> {answer:?}"));
                let expected = self.model.roots(spans).first().copied().unwrap_or(0);
                match answer {
                    Ok(found) if found == expected => Ok(()),
                    other => Err(format!("the oldest root is {expected}, but the answer was {other:?}")),
                }
            }
            2 => {
                let report = self.device.report_slices(&slices).map_err(|e| format!("{e:?}"))?;
                self.note(format!("report {spans:?}"));
                self.report_is(&self.model.roots(spans), &report)
            }
            3 => self.claims(spans[0]),
            _ => {
                let buffer = spans[0].buffer;
                let info = self.device.buffer_info(slices[0].buffer).map_err(|e| format!("{e:?}"))?;
                self.note(format!("info of {buffer}"));
                let model = &self.model.buffers[buffer];
                let whole = Span { buffer, start: 0, end: model.size };
                let expected = (model.size, model.unallocated.is_empty(), !self.model.roots([whole]).is_empty());
                match (info.size, info.allocated, info.claimed) == expected {
                    true => Ok(()),
                    false => Err(format!("{info:?} is not {expected:?}")),
                }
            }
        }
    }

    fn report_is(&self, expected: &Set, report: &tidegate::failure::Report) -> Checked {
        let named: Vec<u64> = report.failures.iter().map(|failure| failure.id).collect();
        if named != expected.iter().copied().collect::<Vec<_>>() || report.more {
            return Err(format!("the report names {named:?}, the model {expected:?}"));
        }
        for failure in &report.failures {
            let (claimed, listed) =
                (self.model.claimed_bytes(failure.id), failure.claims.iter().map(|claim| claim.size).sum::<u64>());
            if failure.claimed_bytes != claimed || listed != claimed {
                let id = failure.id;
                return Err(format!("root {id} claims {} and lists {listed}, not {claimed}", failure.claimed_bytes));
            }
        }
        Ok(())
    }

    fn claims(&mut self, span: Span) -> Checked {
        if span.start == span.end || !self.model.buffers[span.buffer].unallocated.is_empty() {
            return Ok(());
        }
        let slice = self.slice(span);
        let mut out = [Claim { offset: 0, size: 0, failure: 0, failures: 0, more: false }; 64];
        let count = self.device.claims(slice, &mut out).map_err(|e| format!("{e:?}"))?;
        self.note(format!("claims of {span:?} -> {count}"));
        let expected = self.model.claims(span);
        let same = |(claim, (offset, size, roots)): (&Claim, &(u64, u64, Set))| {
            let oldest = roots.first().copied().unwrap_or(0);
            (claim.offset, claim.size, claim.failure, claim.failures as usize) == (*offset, *size, oldest, roots.len())
        };
        let shown = &out[..count.min(out.len())];
        match count == expected.len() && shown.iter().zip(&expected).all(same) {
            true => Ok(()),
            false => Err(format!("the claims are {shown:?}, in the model {expected:?}")),
        }
    }

    fn read(&mut self) -> Checked {
        let Some(buffer) = self.memory() else { return Ok(()) };
        let mut span = self.span(buffer, false);
        span.end = span.end.min(span.start + 400);
        let stream = self.stream();
        self.read_of(span, stream)
    }

    fn read_of(&mut self, span: Span, stream: u64) -> Checked {
        let mut out = vec![UNTOUCHED; span.len() as usize];
        let slice = self.slice(span);
        let hurried = self.rng.one_in(8);
        self.device.backend().hold(hurried);
        let answer = self.device.buffer_read(stream, &mut out, slice, if hurried { 1 } else { FOREVER });
        self.device.backend().hold(false);
        self.note(format!("read {span:?} on {stream}, hurried: {hurried} -> {answer:?}"));
        // A read flushes what it asks for.
        let keys = if span.len() > 0 { vec![Key::Copy(span.len())] } else { Vec::new() };
        let seen = self.seen_work(keys, None, true)?;
        if span.len() == 0 {
            return answer.map_err(|e| format!("nothing was to be read, but the answer was {e:?}"));
        }
        if answer.is_err() && out.iter().any(|&byte| byte != UNTOUCHED) {
            return Err("a failed read touched its destination".to_string());
        }
        if self.model.held(&[Use { span, access: Access::Read }]) {
            return match answer {
                Err(Error::Misuse(misuse)) if misuse.code == Code::WrongState => Ok(()),
                other => Err(format!("bytes are held, but the answer was {other:?}")),
            };
        }
        let expected = self.model.roots([span]);
        if let Some(Refused { recording, root, .. }) = seen.own {
            self.model.late_failure(recording, root);
            // Or it was not even enqueued, behind what was refused.
            let expected = self.model.roots([span]);
            return match answer {
                Err(Error::Timeout) if hurried => Ok(()),
                Err(Error::Unwritten(roots)) if !expected.is_empty() && ids(&roots) == expected => Ok(()),
                // The bytes are good, and only the read's own copy failed.
                Err(Error::Failed(_, roots)) if expected.is_empty() && root >= NO_ROOT && roots.ids.len() == 1 => {
                    Ok(())
                }
                Err(Error::Failed(_, roots)) if expected.is_empty() && roots.ids[..] == [root] => Ok(()),
                other => Err(format!("its recording was refused with root {root}, but the answer was {other:?}")),
            };
        }
        match answer {
            Err(Error::Timeout) if hurried && (expected.is_empty() || self.capped || seen.refused) => Ok(()),
            Ok(()) if expected.is_empty() => {
                for (at, (byte, value)) in out.iter().zip(self.model.values(span)).enumerate() {
                    if value.is_some_and(|value| value != *byte) {
                        let at = span.start + at as u64;
                        return Err(format!("byte {at} of {} is {byte}, in the model {value:?}", span.buffer));
                    }
                }
                Ok(())
            }
            Err(Error::Unwritten(roots)) if !expected.is_empty() => {
                same(&expected, &roots, "the read")?;
                match self.rng.one_in(3) {
                    true => self.report_is(&expected, &self.device.report_roots(&roots)),
                    false => Ok(()),
                }
            }
            Err(Error::Failed(..)) if seen.fired => Ok(()),
            other => Err(format!("the model finds {expected:?}, but the answer was {other:?}")),
        }
    }

    /// Reads everything, lets go of everything, and looks for what is left.
    fn end(&mut self) -> Checked {
        self.device.backend().heal();
        for number in self.buffers.iter().filter(|b| !b.token).map(|b| b.number).collect::<Vec<_>>() {
            let end = self.model.buffers[number].size.min(400);
            self.read_of(Span { buffer: number, start: 0, end }, 0)?;
            self.claims(Span { buffer: number, start: 0, end })?;
        }
        let all = self.device.report_device();
        self.note("the end".to_string());
        for scope in std::mem::take(&mut self.scopes) {
            self.device.scope_end(scope.handle).map_err(|e| format!("{e:?}"))?;
        }
        for buffer in std::mem::take(&mut self.buffers) {
            self.device.buffer_destroy(buffer.handle).map_err(|e| format!("{e:?}"))?;
        }
        for kernel in std::mem::take(&mut self.kernels) {
            self.device.kernel_destroy(kernel.handle).map_err(|e| format!("{e:?}"))?;
        }
        self.device.wait(FOREVER).map_err(|e| format!("{e:?}"))?;
        self.seen()?;
        if let Some(queued) = self.queued.first() {
            return Err(format!("everything was waited for, but {:?} never came", queued.keys));
        }
        let left = self.device.failure_count();
        if left != 0 {
            let left: Vec<String> = self.device.report_device().failures.iter().map(|f| format!("{f:?}")).collect();
            return Err(format!("everything is destroyed, but failures live: {left:?}, before: {}", all.text()));
        }
        self.device.close(FOREVER).map_err(|e| format!("{e:?}"))?;
        let backend = self.device.backend();
        if (backend.live_pages(), backend.open_recordings()) != (0, 0) {
            return Err(format!("left: {} pages, {} recordings", backend.live_pages(), backend.open_recordings()));
        }
        match backend.check() {
            complaints if complaints.is_empty() => Ok(()),
            complaints => Err(complaints.join("\n")),
        }
    }
}

/// Runs a program: what was wrong, and what was done until then.
fn run(seed: u64, steps: &[u64]) -> Result<(), (String, Vec<String>)> {
    let mut world = World::new(seed);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        steps.iter().try_for_each(|step| world.step(*step))?;
        world.end()
    }));
    let wrong = match outcome {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(wrong)) => wrong,
        Err(panic) => format!("panicked: {}", tidegate::failure::panic_message(&*panic)),
    };
    let mut trace = std::mem::take(&mut world.trace);
    if std::env::var_os("TIDEGATE_LOG_EVENTS").is_some() {
        trace.extend(world.device.backend().take_log().iter().map(|event| format!("{event:?}")));
    }
    trace.extend(world.device.backend().check().into_iter().map(|complaint| format!("order: {complaint}")));
    // A device in a state nobody foresaw must not hide what brought it there.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(world)));
    Err((wrong, trace))
}

/// Leaves out what a failure does not need.
fn shortest(seed: u64, steps: &[u64]) -> (Vec<u64>, String, Vec<String>) {
    let mut kept = steps.to_vec();
    let (mut wrong, mut trace) = run(seed, &kept).expect_err("it failed before");
    let mut part = kept.len().div_ceil(2);
    loop {
        let mut at = 0;
        while at < kept.len() {
            let fewer: Vec<u64> = [&kept[..at], &kept[(at + part).min(kept.len())..]].concat();
            match run(seed, &fewer) {
                Err(failure) => {
                    kept = fewer;
                    (wrong, trace) = failure;
                }
                Ok(()) => at += part,
            }
        }
        if part == 1 {
            return (kept, wrong, trace);
        }
        part = part.div_ceil(2);
    }
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn reads_succeed_exactly_when_the_model_says_and_otherwise_name_its_roots() {
    const LENGTH: u64 = 250;
    let first = setting("TIDEGATE_SEED", 1);
    let programs = setting("TIDEGATE_OPS", 204_000).div_ceil(LENGTH);
    for program in 0..programs {
        let seed = first.wrapping_mul(1_000_003).wrapping_add(program);
        let mut rng = Rng::new(!seed);
        let steps: Vec<u64> = (0..LENGTH).map(|_| rng.next()).collect();
        if run(seed, &steps).is_err() {
            std::panic::set_hook(Box::new(|_| {}));
            let (kept, wrong, trace) = shortest(seed, &steps);
            let _ = std::panic::take_hook();
            panic!(
                "TIDEGATE_SEED={first}, program {program} (seed {seed}), {} calls left:\n{}\n{wrong}",
                kept.len(),
                trace.join("\n")
            );
        }
    }
}
