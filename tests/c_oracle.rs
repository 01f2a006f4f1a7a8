//! The oracle through the C API on lavapipe: the same model, real kernels, real submissions, some of them refused.
//!
//! `TIDEGATE_SEED` picks other programs, `TIDEGATE_C_OPS` how many calls there are on each scheduling; a failure prints
//! the seed and the shortest program found that still fails. In one program of four the validation layer is on, and any
//! message of it fails the run.

mod c;
mod host;

use ash::vk;
use c::words::{ALL, GROUP, Words};
use c::{Answer, Device, DeviceOptions, Grid, Launch, Root, shim};
use host::Rng;
use host::model::{Model, Run, Set, Span, Use, writes};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate::failure::Access;
use tidegate::ffi::*;

/// What a check found wrong, in words.
type Checked = Result<(), String>;

const MOST_BUFFERS: usize = 9;
const MOST_ROOTS: usize = 24;
const UNTOUCHED: u8 = 0xEE;
struct Buffer {
    number: usize,
    handle: tg_buffer,
    token: bool,
}

#[derive(Clone)]
struct Kernel {
    handle: tg_kernel,
    words: Words,
    declared: Vec<Option<Access>>,
    /// Empty while it works; its module says nothing otherwise.
    broken: Set,
}

/// An asynchronous read: in the model a buffer that was copied to.
struct Read {
    handle: tg_read,
    to: Span,
}

struct World {
    device: Device,
    model: Model,
    rng: Rng,
    streams: Vec<u64>,
    alignment: u64,
    most_groups: [u32; 3],
    track: bool,
    /// The validation layer is on. It takes a kernel to write all that is bound to it.
    validated: bool,
    /// A stream may take some work without flushing by itself.
    roomy: bool,
    /// All work goes to one stream for now, into a batch that will be refused.
    burst: Option<(u64, u64)>,
    bursts: u64,
    buffers: Vec<Buffer>,
    kernels: Vec<Kernel>,
    scopes: Vec<(usize, tg_scope)>,
    reads: Vec<Read>,
    opened: usize,
    trace: Vec<String>,
}

/// No root has such an id.
const NO_ROOT: u64 = u64::MAX / 2;

fn number_of(access: Option<Access>) -> u32 {
    match access {
        None => TG_ACCESS_AUTO,
        Some(Access::None) => TG_ACCESS_NONE,
        Some(Access::Read) => TG_ACCESS_READ,
        Some(Access::Write) => TG_ACCESS_WRITE,
        Some(Access::MayWrite) => TG_ACCESS_MAY_WRITE,
        Some(Access::ReadWrite) => TG_ACCESS_READ_WRITE,
    }
}

fn same(expected: &Set, refused: &c::Refused, what: &str) -> Checked {
    let named: Set = refused.roots.iter().copied().collect();
    match named == *expected && refused.more == 0 && refused.roots.len() == expected.len() {
        true => Ok(()),
        false => Err(format!("{what} names {:?} and {} more, the model {expected:?}", refused.roots, refused.more)),
    }
}

/// The one root of a failure with such a code.
fn one_root<T: std::fmt::Debug>(answer: &Answer<T>, codes: &[tg_result]) -> Result<u64, String> {
    match answer {
        Err(refused) if codes.contains(&refused.code) && refused.roots.len() == 1 => Ok(refused.roots[0]),
        other => Err(format!("a failure was expected, but the answer was {other:?}")),
    }
}

impl World {
    fn new(seed: u64, scheduling: u32) -> Result<World, String> {
        let mut rng = Rng::new(seed);
        let track = rng.one_in(4);
        let most = *rng.pick(&[1, 3, 256, 256]);
        let mut flags = if track { TG_DEVICE_TRACK_UNINITIALIZED } else { 0 };
        flags |= if rng.one_in(4) { TG_DEVICE_ISOLATE_BUFFERS } else { 0 };
        flags |= if rng.one_in(4) { TG_DEVICE_VALIDATION } else { 0 };
        for without in [TG_DEVICE_NO_SYNCHRONIZATION2, TG_DEVICE_NO_PUSH_DESCRIPTORS, TG_DEVICE_NO_ROBUSTNESS2] {
            flags |= if rng.one_in(5) { without } else { 0 };
        }
        let device = Device::create(DeviceOptions {
            scheduling,
            flags,
            slots: rng.between(1, 4) as u32,
            max_recorded: most,
            max_tasks: most,
            max_pending: *rng.pick(&[64, 1 << 16]),
            staging_size: *rng.pick(&[1 << 16, 1 << 20]),
        })
        .map_err(|refused| format!("no device: {refused:?}"))?;
        let (alignment, most_groups) = device.limits();
        let streams = vec![0, 1, 2, rng.next() | 1 << 40, rng.next() | 1 << 50];
        Ok(World {
            device,
            model: Model::default(),
            rng,
            streams,
            alignment,
            most_groups,
            track,
            validated: flags & TG_DEVICE_VALIDATION != 0,
            roomy: most > 100,
            burst: None,
            bursts: 0,
            buffers: Vec::new(),
            kernels: Vec::new(),
            scopes: Vec::new(),
            reads: Vec::new(),
            opened: 0,
            trace: Vec::new(),
        })
    }

    fn stream(&mut self) -> u64 {
        let stream = *self.rng.pick(&self.streams);
        self.burst.map_or(stream, |(_, stream)| stream)
    }

    fn note(&mut self, what: String) {
        self.trace.push(what);
    }

    /// Judges the answer of work over `uses`, and tells the model; `ran` is what it did if it ran.
    fn judge(&mut self, uses: &[Use], kernel: &Set, answer: Answer, ran: impl FnOnce(&mut Model) -> usize) -> Checked {
        if self.model.held(uses) {
            return match answer {
                Err(refused) if refused.code == TG_ERROR_WRONG_STATE => Ok(()),
                other => Err(format!("bytes are held, but the answer was {other:?}")),
            };
        }
        let found = self.model.found(uses, kernel);
        match answer {
            Ok(()) if found.is_empty() => {
                let call = ran(&mut self.model);
                if let Some((burst, _)) = self.burst {
                    self.model.recorded(call, burst);
                }
                Ok(())
            }
            Err(refused) if refused.code == TG_SKIPPED && !found.is_empty() => {
                self.model.skip(uses, &found);
                same(&found, &refused, "the skip")
            }
            other => Err(format!("the model finds {found:?}, but the answer was {other:?}")),
        }
    }

    fn slice(&mut self, span: Span) -> tg_slice {
        let to_end = span.end == self.model.buffers[span.buffer].size && span.start < span.end;
        let size = if to_end && self.rng.one_in(2) { TG_WHOLE_SIZE } else { span.len() };
        tg_slice { buffer: self.handle(span.buffer), offset: span.start, size }
    }

    fn handle(&self, number: usize) -> tg_buffer {
        let buffer = self.buffers.iter().find(|buffer| buffer.number == number);
        buffer.map_or(tg_buffer { id: 0 }, |buffer| buffer.handle)
    }

    /// Any buffer that is not a token.
    fn memory(&mut self) -> Option<usize> {
        let numbers: Vec<usize> = self.buffers.iter().filter(|b| !b.token).map(|b| b.number).collect();
        (!numbers.is_empty()).then(|| *self.rng.pick(&numbers))
    }

    /// A random range of a buffer; `bindable`: whole words, not empty, beginning where it may.
    fn span(&mut self, buffer: usize, bindable: bool) -> Span {
        let size = self.model.buffers[buffer].size.min(400);
        let (mut start, mut end) = (self.rng.below(size), self.rng.between(1, size));
        if self.rng.one_in(4) {
            (start, end) = (0, size);
        } else if bindable {
            start = start / self.alignment * self.alignment;
            end = (start + end).min(size).max(start + 4) / 4 * 4;
        } else {
            (start, end) = (start.min(end), start.max(end));
        }
        Span { buffer, start, end }
    }

    fn spans(&mut self) -> Vec<Span> {
        let count = self.rng.between(1, 3);
        (0..count)
            .map(|_| {
                let buffer = self.rng.pick(&self.buffers).number;
                self.span(buffer, false)
            })
            .collect()
    }

    fn slices(&mut self, spans: &[Span]) -> Vec<tg_slice> {
        spans.iter().map(|span| self.slice(*span)).collect()
    }

    fn given(&mut self, uses: &[Use]) -> Vec<tg_use> {
        let given = |u: &Use| tg_use { slice: self.slice(u.span), access: number_of(Some(u.access)), reserved: 0 };
        uses.iter().map(given).collect()
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
            0..5 => self.create(room),
            5..9 => self.destroy(),
            9..26 => self.write(),
            26..51 => self.launch(),
            51..59 => self.copy(),
            59..64 => self.fill(),
            64..66 if room => self.taint(),
            66 => self.mark_written(),
            67..70 => self.scope(room),
            70..72 => self.allocate(),
            72..75 => self.kernel(room),
            75..78 => self.flush_or_wait(),
            78 if room => self.burst(),
            79 => self.trim(),
            80..86 => self.query(),
            86..89 => self.read_later(),
            _ => self.read(),
        }
    }

    /// Work that is all in one batch, which is refused.
    fn burst(&mut self) -> Checked {
        self.device.wait(TG_WAIT_FOREVER).map_err(|e| format!("unexpected {e:?}"))?;
        if !self.roomy {
            return self.refused_read();
        }
        let stream = self.stream();
        self.bursts += 1;
        let burst = self.bursts;
        self.note(format!("burst {burst} on {stream} {{"));
        self.burst = Some((burst, stream));
        for _ in 0..self.rng.between(1, 12) {
            match self.rng.below(12) {
                0 => self.destroy(),
                1 | 2 => self.write(),
                3 | 4 => self.copy(),
                5 => self.fill(),
                6 => self.taint(),
                7 => self.scope(true),
                _ => self.launch(),
            }?;
            if self.buffers.len() < 2 {
                break;
            }
        }
        self.burst = None;
        self.refuse();
        let answer = self.device.stream_flush(stream);
        shim::stop_refusing();
        self.note(format!("}} flush -> {answer:?}"));
        if !self.model.holds_recording(burst) {
            return answer.map_err(|e| format!("nothing was to be refused, but the answer was {e:?}"));
        }
        let root = match &answer {
            // Nothing carries it any more.
            Err(refused) if refused.roots.is_empty() && refused.code != TG_SKIPPED => NO_ROOT,
            answer => one_root(answer, &[TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_OUT_OF_HOST_MEMORY])?,
        };
        self.model.late_failure(burst, root);
        Ok(())
    }

    fn refuse(&mut self) {
        let answers = [vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, vk::Result::ERROR_OUT_OF_HOST_MEMORY];
        // When memory is short the library tries once more.
        shim::refuse(2, *self.rng.pick(&answers));
    }

    /// A read whose own batch is refused: its bytes never come, and nothing else is the worse for it.
    fn refused_read(&mut self) -> Checked {
        let Some(buffer) = self.memory() else { return Ok(()) };
        let span = self.span(buffer, false);
        if span.len() == 0 || self.model.held(&[Use { span, access: Access::Read }]) {
            return Ok(());
        }
        let expected = self.model.roots([span]);
        let (stream, slice) = (self.stream(), self.slice(span));
        let mut out = vec![UNTOUCHED; span.len() as usize];
        self.refuse();
        let answer = self.device.read(stream, &mut out, slice, TG_WAIT_FOREVER);
        shim::stop_refusing();
        self.note(format!("refused read {span:?} on {stream} -> {answer:?}"));
        if out.iter().any(|&byte| byte != UNTOUCHED) {
            return Err("a failed read touched its destination".to_string());
        }
        match answer {
            Err(refused) if refused.code == TG_ERROR_UNWRITTEN && !expected.is_empty() => {
                same(&expected, &refused, "the read")
            }
            // The bytes are good, and only the read's own copy failed.
            Err(refused) if refused.code != TG_ERROR_UNWRITTEN && expected.is_empty() && refused.roots.len() == 1 => {
                match refused.roots.iter().any(|root| self.roots_alive().contains(root)) {
                    true => Err(format!("{refused:?} is a root of something else")),
                    false => Ok(()),
                }
            }
            other => Err(format!("its batch was refused, but the answer was {other:?}")),
        }
    }

    fn create(&mut self, room: bool) -> Checked {
        if self.buffers.len() >= MOST_BUFFERS {
            return self.destroy();
        }
        let stream = self.stream();
        let token = self.rng.one_in(8);
        let huge = !token && room && self.rng.one_in(10);
        let unallocated = room && !token && !huge && self.rng.one_in(12);
        let kinds = [TG_MEMORY_DEVICE, TG_MEMORY_DEVICE, TG_MEMORY_DEVICE, TG_MEMORY_UPLOAD, TG_MEMORY_READBACK];
        let memory = if token { TG_MEMORY_TOKEN } else { *self.rng.pick(&kinds) };
        let most = *self.rng.pick(&[4, 16, 50]);
        let size = if huge { 1 << 40 } else { self.rng.between(1, most) * 4 };
        let (handle, answer) = self.device.buffer_create(size, memory, stream, unallocated);
        let number = self.model.buffers.len();
        self.note(format!(
            "create {number} of {size} bytes, memory {memory}, unallocated: {unallocated} -> {answer:?}"
        ));
        if handle.id == 0 {
            return Err(format!("no handle with {answer:?}"));
        }
        let slice = tg_slice { buffer: handle, offset: 0, size: TG_WHOLE_SIZE };
        let root_of = |device: &Device| device.first_failure(&[slice]).map_err(|e| format!("{e:?}"));
        self.buffers.push(Buffer { number, handle, token });
        if huge {
            let root = one_root(&answer, &[TG_ERROR_OUT_OF_DEVICE_MEMORY])?;
            self.model.create(size, token, Set::from([root]), None);
            return Ok(());
        }
        answer.map_err(|e| format!("unexpected {e:?}"))?;
        if unallocated {
            // It lacks memory from the start, for a reason the caller may replace.
            if self.rng.one_in(2) {
                self.device.fail_unallocated(handle).map_err(|e| format!("unexpected {e:?}"))?;
            }
            let root = root_of(&self.device)?;
            self.model.create(size, token, Set::from([root]), None);
            return Ok(());
        }
        let fresh = if self.track && !token { Some(root_of(&self.device)?) } else { None };
        self.model.create(size, token, Set::new(), fresh);
        Ok(())
    }

    fn allocate(&mut self) -> Checked {
        let lacks = |b: &&Buffer| !self.model.buffers[b.number].unallocated.is_empty();
        let Some(number) = self.buffers.iter().find(lacks).map(|b| b.number) else { return self.create(true) };
        let size = self.rng.between(1, 25) * 4;
        let answer = self.device.buffer_allocate(self.handle(number), size);
        self.note(format!("allocate {number} with {size} -> {answer:?}"));
        self.model.allocate(number, size);
        answer.map_err(|e| format!("unexpected {e:?}"))
    }

    fn destroy(&mut self) -> Checked {
        let at = self.rng.below(self.buffers.len() as u64) as usize;
        let number = self.buffers[at].number;
        if self.model.holds_any(number) {
            return Ok(());
        }
        let answer = self.device.buffer_destroy(self.buffers[at].handle);
        self.note(format!("destroy {number} -> {answer:?}"));
        self.model.destroy(number);
        self.buffers.swap_remove(at);
        answer.map_err(|e| format!("unexpected {e:?}"))
    }

    /// R18.
    fn nothing(&mut self, answer: Answer) -> Checked {
        answer.map_err(|e| format!("nothing was to be done, but the answer was {e:?}"))
    }

    fn write(&mut self) -> Checked {
        let Some(buffer) = self.memory() else { return Ok(()) };
        let mut span = self.span(buffer, false);
        if self.rng.one_in(2) {
            span = Span { buffer, start: 0, end: self.model.buffers[buffer].size.min(400) };
        }
        let mut bytes: Vec<u8> = (0..span.len()).map(|_| self.rng.next() as u8).collect();
        if self.rng.one_in(4) && span.len() >= 16 {
            // What an indirect launch can use, or must not.
            let at = (span.start.next_multiple_of(4) - span.start) as usize;
            let counts = [*self.rng.pick(&[0_u32, 1, 4, 13, 1 << 20]), 1, 1];
            for (to, byte) in bytes[at..].iter_mut().zip(counts.iter().flat_map(|count| count.to_le_bytes())) {
                *to = byte;
            }
        }
        let (stream, slice) = (self.stream(), self.slice(span));
        let answer = self.device.write(stream, slice, &bytes);
        self.note(format!("write {span:?} on {stream} -> {answer:?}"));
        if span.len() == 0 {
            return self.nothing(answer);
        }
        let uses = [Use { span, access: Access::Write }];
        self.judge(&uses, &Set::new(), answer, |model| model.write(span, bytes.into_iter()))
    }

    fn fill(&mut self) -> Checked {
        let Some(buffer) = self.memory() else { return Ok(()) };
        let mut span = self.span(buffer, false);
        let size = *self.rng.pick(&[1_u32, 2, 4]);
        span.end = span.start + span.len() / u64::from(size) * u64::from(size);
        let pattern = self.rng.next() as u32;
        let (stream, slice) = (self.stream(), self.slice(span));
        let answer = self.device.fill(stream, slice, pattern, size);
        self.note(format!("fill {span:?} with {size} of {pattern:#x} on {stream} -> {answer:?}"));
        if span.len() == 0 {
            return self.nothing(answer);
        }
        let bytes = pattern.to_le_bytes().into_iter().take(size as usize).cycle();
        let uses = [Use { span, access: Access::Write }];
        self.judge(&uses, &Set::new(), answer, |model| model.write(span, bytes))
    }

    fn copy(&mut self) -> Checked {
        let (Some(from), Some(to)) = (self.memory(), self.memory()) else { return Ok(()) };
        let (mut from, mut to) = (self.span(from, false), self.span(to, false));
        let len = from.len().min(to.len());
        from.end = from.start + len;
        to.end = to.start + len;
        if from.overlaps(to) {
            return Ok(());
        }
        let (stream, dst, src) = (self.stream(), self.slice(to), self.slice(from));
        let answer = self.device.copy(stream, dst, src);
        self.note(format!("copy {from:?} to {to:?} on {stream} -> {answer:?}"));
        if len == 0 {
            return self.nothing(answer);
        }
        let uses = [Use { span: to, access: Access::Write }, Use { span: from, access: Access::Read }];
        if self.model.held(&uses) || [from, to].iter().any(|s| !self.model.buffers[s.buffer].unallocated.is_empty()) {
            return self.judge(&uses, &Set::new(), answer, |_| usize::MAX);
        }
        // A copy runs over claimed bytes (R10): the judge must not look for them.
        let only = [Use { span: to, access: Access::Write }];
        self.judge(&only, &Set::new(), answer, |model| model.copy(to, from))
    }

    fn taint(&mut self) -> Checked {
        let spans = self.spans();
        let slices = self.slices(&spans);
        let answer = self.device.taint(&slices);
        self.note(format!("taint {spans:?} -> {answer:?}"));
        let spans: Vec<Span> = spans.into_iter().filter(|span| span.len() > 0).collect();
        let uses: Vec<Use> = spans.iter().map(|&span| Use { span, access: Access::Write }).collect();
        // Bytes that were never allocated keep their own root: any other span of the call names the new one.
        let mut root = 0;
        for span in &spans {
            if answer.is_ok() && self.model.buffers[span.buffer].unallocated.is_empty() {
                let slice = self.slice(*span);
                root = self.device.first_failure(&[slice]).map_err(|e| format!("{e:?}"))?;
            }
        }
        self.judge_mark(&uses, answer, |model| model.taint(&spans, root))
    }

    fn mark_written(&mut self) -> Checked {
        let spans = self.spans();
        let slices = self.slices(&spans);
        let answer = self.device.mark_written(&slices);
        self.note(format!("mark {spans:?} -> {answer:?}"));
        let spans: Vec<Span> = spans.into_iter().filter(|span| span.len() > 0).collect();
        let uses: Vec<Use> = spans.iter().map(|&span| Use { span, access: Access::Write }).collect();
        self.judge_mark(&uses, answer, |model| model.mark_written(&spans))
    }

    /// What changes claims and is no work.
    fn judge_mark(&mut self, uses: &[Use], answer: Answer, done: impl FnOnce(&mut Model)) -> Checked {
        match (self.model.held(uses), answer) {
            (false, Ok(())) => done(&mut self.model),
            (true, Err(refused)) if refused.code == TG_ERROR_WRONG_STATE => {}
            (held, other) => return Err(format!("held: {held}, but the answer was {other:?}")),
        }
        Ok(())
    }

    fn scope(&mut self, room: bool) -> Checked {
        if !self.scopes.is_empty() && (self.scopes.len() > 1 || !room || !self.rng.one_in(4)) {
            let at = self.rng.below(self.scopes.len() as u64) as usize;
            let (number, handle) = self.scopes.swap_remove(at);
            let (failed, answer) = match self.rng.below(4) {
                0 => (true, self.device.scope_fail(handle, false)),
                1 => (true, self.device.scope_fail(handle, true)),
                _ => (false, self.device.scope_end(handle)),
            };
            self.note(format!("scope {number} exits, failed: {failed} -> {answer:?}"));
            self.model.scope_exit(number, failed);
            return answer.map_err(|e| format!("unexpected {e:?}"));
        }
        if !room {
            return Ok(());
        }
        let kinds = [Access::Read, Access::Write, Access::Write, Access::MayWrite, Access::ReadWrite];
        let spans = self.spans().into_iter().filter(|span| span.len() > 0);
        let uses: Vec<Use> = spans.map(|span| Use { span, access: *self.rng.pick(&kinds) }).collect();
        let given = self.given(&uses);
        let number = self.opened;
        self.opened += 1;
        let stream = self.stream();
        let answer = self.device.scope_begin(stream, &given);
        self.note(format!("scope {number} of {uses:?} on {stream} -> {answer:?}"));
        let mut provisional = None;
        if let Ok(handle) = &answer {
            self.scopes.push((number, *handle));
            let written = uses.iter().zip(&given).filter(|(u, _)| writes(u.access)).map(|(_, given)| given.slice);
            let written: Vec<tg_slice> = written.collect();
            if !written.is_empty() {
                provisional = Some(self.device.first_failure(&written).map_err(|e| format!("{e:?}"))?);
            }
        }
        let burst = self.burst.take();
        let opened = |model: &mut Model| model.scope_begin(number, &uses, provisional);
        let checked = self.judge(&uses, &Set::new(), answer.map(drop), opened);
        self.burst = burst;
        checked
    }

    fn kernel(&mut self, room: bool) -> Checked {
        let broken = room && self.rng.one_in(8);
        let rebuild = !self.kernels.is_empty() && self.rng.one_in(3);
        if !rebuild && self.kernels.len() >= 6 {
            let at = self.rng.below(self.kernels.len() as u64) as usize;
            let kernel = self.kernels.swap_remove(at);
            let answer = self.device.kernel_destroy(kernel.handle);
            self.note(format!("destroy kernel {:?} -> {answer:?}", kernel.words));
            return answer.map_err(|e| format!("unexpected {e:?}"));
        }
        let words = *self.rng.pick(if self.validated { &ALL[..ALL.len() - 1] } else { &ALL });
        let truth = words.truth().iter();
        let declared: Vec<Option<Access>> = truth
            .map(|&truth| {
                let must = truth == Access::MayWrite || truth == Access::None;
                self.rng.one_in(if must { 2 } else { 4 }).then_some(truth)
            })
            .collect();
        let accesses: Vec<u32> = declared.iter().map(|access| number_of(*access)).collect();
        let garbage: Vec<u8> = (0..self.rng.below(40)).map(|_| self.rng.next() as u8).collect();
        let code = if broken { &garbage[..] } else { words.code() };
        let (at, answer) = if rebuild {
            let at = self.rng.below(self.kernels.len() as u64) as usize;
            (at, self.device.kernel_rebuild(self.kernels[at].handle, code, &accesses))
        } else {
            let (handle, answer) = self.device.kernel_create(code, &accesses);
            if handle.id == 0 {
                return Err(format!("no handle with {answer:?}"));
            }
            self.kernels.push(Kernel { handle, words, declared: Vec::new(), broken: Set::new() });
            (self.kernels.len() - 1, answer)
        };
        let handle = self.kernels[at].handle;
        self.note(format!("kernel {words:?}, rebuilt: {rebuild}, broken: {broken}, {declared:?} -> {answer:?}"));
        let roots = match broken {
            true => Set::from([one_root(&answer, &[TG_ERROR_INVALID_SHADER])?]),
            false => answer.map(|()| Set::new()).map_err(|e| format!("unexpected {e:?}"))?,
        };
        self.kernels[at] = Kernel { handle, words, declared, broken: roots };
        Ok(())
    }

    /// Where group counts lie that the model knows, and that are enough for so many words or run nothing.
    fn counts(&mut self, words: u64) -> Option<Span> {
        let buffer = self.memory()?;
        let room = self.model.buffers[buffer].size.min(400);
        if room < 12 || !self.model.buffers[buffer].unallocated.is_empty() || !self.rng.one_in(2) {
            return None;
        }
        let most = self.most_groups;
        let fits = |start: &u64| {
            let values = self.model.values(Span { buffer, start: *start, end: start + 12 });
            let bytes: Option<Vec<u8>> = values.into_iter().collect();
            bytes.is_some_and(|bytes| {
                let count = |i: usize| {
                    u64::from(u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]]))
                };
                let nothing = (0..3).any(|i| count(i) == 0 || count(i) > u64::from(most[i]));
                nothing || (count(0) * GROUP >= words && count(0) < 100 && count(1) == 1 && count(2) == 1)
            })
        };
        let found: Vec<u64> = (0..=room - 12).step_by(4).filter(fits).collect();
        let start = *self.rng.pick(found.get(..).filter(|found| !found.is_empty())?);
        Some(Span { buffer, start, end: start + 12 })
    }

    fn launch(&mut self) -> Checked {
        if self.kernels.is_empty() {
            return self.kernel(true);
        }
        let at = self.rng.below(self.kernels.len() as u64) as usize;
        let Kernel { handle, words, declared, broken } = self.kernels[at].clone();
        let mut spans: Vec<Span> = Vec::new();
        for _ in words.truth() {
            let Some(buffer) = self.memory() else { return Ok(()) };
            spans.push(self.span(buffer, true));
        }
        let misaligned = self.rng.one_in(40) && spans[0].len() >= 8 && self.alignment > 4;
        if misaligned {
            spans[0].start += 4;
        }
        let longest = spans.iter().map(|span| span.len() / 4).max().unwrap_or(1);
        let counts = if self.rng.one_in(6) { self.counts(longest) } else { None };
        let push = match words {
            Words::Scatter => [self.rng.between(1, 5) as u32, self.rng.next() as u32],
            Words::Row => [self.rng.below(spans[0].len() / 4) as u32, self.rng.next() as u32],
            Words::Guarded => [self.rng.below(longest + longest / 2 + 2) as u32, self.rng.next() as u32],
            _ => [self.rng.next() as u32, self.rng.next() as u32],
        };
        let mut groups = [longest.div_ceil(GROUP) as u32, 1, 1];
        if words != Words::Row && self.rng.one_in(3) {
            // Not for all of it, or for more.
            groups[0] = self.rng.between(1, u64::from(groups[0]) + 2) as u32;
        }
        let mut extra: Vec<Use> = Vec::new();
        if words == Words::Row {
            let Span { buffer, start, end } = spans[0];
            let from = start + u64::from(push[0]) * 4;
            let access = if counts.is_some() { Access::MayWrite } else { Access::Write };
            extra.push(Use { span: Span { buffer, start: from, end: end.min(from + 16) }, access });
        }
        if self.rng.one_in(4) {
            let buffer = self.rng.pick(&self.buffers).number;
            let token = self.model.buffers[buffer].token;
            let access = *self.rng.pick(&[Access::Read, Access::Write, Access::MayWrite, Access::ReadWrite]);
            let span = self.span(buffer, false);
            if span.len() > 0 {
                extra.push(Use { span, access: if token { access } else { Access::Read } });
            }
        }
        let mut proven: Vec<Use> = Vec::new();
        let mut bindings: Vec<tg_use> = Vec::new();
        let mut uses: Vec<Use> = Vec::new();
        for (i, &span) in spans.iter().enumerate() {
            let (mut truth, inferred) = (words.truth()[i], words.inferred()[i]);
            let reach = words.proven(span.len(), groups, push);
            // Of a slice that ends in a part of a word the caller may say more than is proven.
            if truth == Access::Write && (reach < span.len() / 4 * 4 || counts.is_some()) {
                truth = Access::MayWrite;
            }
            let silent = match declared[i] {
                Some(declared) => declared == truth,
                None => inferred == words.truth()[i],
            };
            let said = if silent && self.rng.one_in(2) { None } else { Some(truth) };
            let inferred = match (inferred, counts) {
                _ if !broken.is_empty() => Access::ReadWrite,
                (Access::Write, Some(_)) => Access::MayWrite,
                (Access::Write, None) if reach < span.len() => {
                    if said.or(declared[i]).is_none() && reach > 0 {
                        proven.push(Use { span: Span { end: span.start + reach, ..span }, access: Access::Write });
                    }
                    Access::MayWrite
                }
                (inferred, _) => inferred,
            };
            let access = said.or(declared[i]).unwrap_or(inferred);
            // Whoever says of an indirect launch that it writes must know its counts.
            if counts.is_some() && access == Access::Write {
                return Ok(());
            }
            bindings.push(tg_use { slice: self.slice(span), access: number_of(said), reserved: 0 });
            uses.push(Use { span, access });
        }
        // Invocations of one launch run in any order: they must not read what others write.
        let all: Vec<Use> =
            uses.iter().chain(&extra).copied().chain(counts.map(|span| Use { span, access: Access::Read })).collect();
        let clash = all.iter().enumerate().any(|(i, a)| {
            all[..i].iter().any(|b| {
                let used = a.access != Access::None && b.access != Access::None;
                used && a.span.overlaps(b.span) && (writes(a.access) || writes(b.access))
            })
        });
        if clash {
            return Ok(());
        }
        uses = all;
        uses.extend(proven);
        let grid = match counts {
            Some(span) => Grid::Indirect(tg_slice { size: 12, ..self.slice(span) }),
            None if self.rng.one_in(2) => {
                Grid::Threads([groups[0] * GROUP as u32 - self.rng.below(GROUP) as u32, 0, 1])
            }
            None => Grid::Groups([groups[0], 1, 0]),
        };
        let given = self.given(&extra);
        let stream = self.stream();
        let answer = self.device.launch(&Launch {
            stream,
            kernel: handle,
            bindings: &bindings,
            extra: &given,
            grid,
            push: &push,
        });
        self.note(format!("launch {words:?} over {uses:?}, {grid:?}, {push:?}, on {stream} -> {answer:?}"));
        if misaligned && self.model.found(&uses, &broken).is_empty() && !self.model.held(&uses) {
            let claims = uses.iter().any(|u| writes(u.access));
            let root = match &answer {
                Err(refused) if refused.code == TG_ERROR_LIMIT_EXCEEDED && !claims => refused.roots.first().copied(),
                answer => Some(one_root(answer, &[TG_ERROR_LIMIT_EXCEEDED])?),
            };
            self.model.fail(&uses, root);
            return Ok(());
        }
        let push: Vec<u8> = push.iter().flat_map(|word| word.to_le_bytes()).collect();
        let counts = counts.map(|span| (span, self.most_groups));
        let run = Run { program: &words, bindings: spans, push, groups, counts };
        self.judge(&uses, &broken, answer, |model| model.launch(&uses, &run))
    }

    fn flush_or_wait(&mut self) -> Checked {
        let stream = self.stream();
        let which = self.rng.below(4);
        let answer = match which {
            0 => self.device.stream_wait(stream, TG_WAIT_FOREVER),
            1 => self.device.wait(TG_WAIT_FOREVER),
            _ => self.device.stream_flush(stream),
        };
        self.note(format!("flush or wait {which} on {stream} -> {answer:?}"));
        answer.map_err(|e| format!("unexpected {e:?}"))?;
        if which == 1 {
            let (expected, count) = (self.roots_alive(), self.device.failure_count());
            if count != expected.len() as u64 {
                let all: Vec<u64> = self.device.report_all().iter().map(|root| root.id).collect();
                return Err(format!("{count} failures live ({all:?}), in the model {expected:?}"));
            }
        }
        Ok(())
    }

    fn trim(&mut self) -> Checked {
        let answer = self.device.trim();
        self.note(format!("trim -> {answer:?}"));
        answer.map_err(|e| format!("unexpected {e:?}"))
    }

    fn query(&mut self) -> Checked {
        let spans = self.spans();
        let slices = self.slices(&spans);
        let expected = self.model.roots(spans.iter().copied());
        match self.rng.below(5) {
            0 => {
                let answer = self.device.check_written(&slices, TG_WAIT_FOREVER);
                self.note(format!("check {spans:?} -> {answer:?}"));
                match answer {
                    Ok(()) if expected.is_empty() => Ok(()),
                    Err(refused) if refused.code == TG_ERROR_UNWRITTEN && !expected.is_empty() => {
                        same(&expected, &refused, "the check")
                    }
                    other => Err(format!("the model finds {expected:?}, but the answer was {other:?}")),
                }
            }
            1 => {
                let answer = self.device.first_failure(&slices);
                self.note(format!("first failure of {spans:?} -> {answer:?}"));
                let oldest = expected.first().copied().unwrap_or(0);
                match answer {
                    Ok(found) if found == oldest => Ok(()),
                    other => Err(format!("the oldest root is {oldest}, but the answer was {other:?}")),
                }
            }
            2 => {
                let (roots, more) = self.device.report(&slices).map_err(|e| format!("{e:?}"))?;
                self.note(format!("report {spans:?}"));
                self.report_is(&expected, &roots, more)
            }
            3 => self.claims(spans[0]),
            _ => {
                let buffer = spans[0].buffer;
                let info = self.device.buffer_info(slices[0].buffer).map_err(|e| format!("{e:?}"))?;
                self.note(format!("info of {buffer}"));
                let model = &self.model.buffers[buffer];
                let whole = Span { buffer, start: 0, end: model.size };
                let expected = (model.size, model.unallocated.is_empty(), !self.model.roots([whole]).is_empty());
                match info == expected {
                    true => Ok(()),
                    false => Err(format!("{info:?} is not {expected:?}")),
                }
            }
        }
    }

    fn report_is(&self, expected: &Set, roots: &[Root], more: u32) -> Checked {
        let named: Vec<u64> = roots.iter().map(|root| root.id).collect();
        if named != expected.iter().copied().collect::<Vec<_>>() || more != 0 {
            return Err(format!("the report names {named:?}, the model {expected:?}"));
        }
        for root in roots.iter().filter(|_| self.reads.is_empty()) {
            let claimed = self.model.claimed_bytes(root.id);
            if root.claimed_bytes != claimed || root.listed_bytes != claimed {
                return Err(format!("{root:?}, but in the model it claims {claimed}"));
            }
        }
        Ok(())
    }

    fn claims(&mut self, span: Span) -> Checked {
        if span.len() == 0 || !self.model.buffers[span.buffer].unallocated.is_empty() {
            return Ok(());
        }
        let slice = self.slice(span);
        let shown = self.device.claims(slice).map_err(|e| format!("{e:?}"))?;
        self.note(format!("claims of {span:?} -> {}", shown.len()));
        let runs = self.model.claims(span);
        let expected: Vec<(u64, u64, u64, u32)> = runs
            .iter()
            .map(|(offset, size, roots)| (*offset, *size, roots.first().copied().unwrap_or(0), roots.len() as u32))
            .collect();
        match shown == expected {
            true => Ok(()),
            false => Err(format!("the claims are {shown:?}, in the model {expected:?}")),
        }
    }

    fn read(&mut self) -> Checked {
        let Some(buffer) = self.memory() else { return Ok(()) };
        let span = self.span(buffer, false);
        let stream = self.stream();
        self.read_of(span, stream)
    }

    fn read_of(&mut self, span: Span, stream: u64) -> Checked {
        let mut out = vec![UNTOUCHED; span.len() as usize];
        let slice = self.slice(span);
        let answer = self.device.read(stream, &mut out, slice, TG_WAIT_FOREVER);
        self.note(format!("read {span:?} on {stream} -> {answer:?}"));
        if span.len() == 0 {
            return self.nothing(answer);
        }
        if answer.is_err() && out.iter().any(|&byte| byte != UNTOUCHED) {
            return Err("a failed read touched its destination".to_string());
        }
        if self.model.held(&[Use { span, access: Access::Read }]) {
            return match answer {
                Err(refused) if refused.code == TG_ERROR_WRONG_STATE => Ok(()),
                other => Err(format!("bytes are held, but the answer was {other:?}")),
            };
        }
        self.read_is(span, answer.map(|()| out))
    }

    /// What reading bytes came to is what the model says.
    fn read_is(&self, span: Span, answer: Answer<Vec<u8>>) -> Checked {
        let expected = self.model.roots([span]);
        match answer {
            Ok(out) if expected.is_empty() && out.len() as u64 == span.len() => {
                for (at, (byte, value)) in out.iter().zip(self.model.values(span)).enumerate() {
                    if value.is_some_and(|value| value != *byte) {
                        let at = span.start + at as u64;
                        return Err(format!("byte {at} of {} is {byte}, in the model {value:?}", span.buffer));
                    }
                }
                Ok(())
            }
            Err(refused) if refused.code == TG_ERROR_UNWRITTEN && !expected.is_empty() => {
                same(&expected, &refused, "the read")
            }
            other => Err(format!("the model finds {expected:?}, but the answer was {other:?}")),
        }
    }

    /// Begins a read, or finishes one.
    fn read_later(&mut self) -> Checked {
        if !self.reads.is_empty() && (self.reads.len() > 2 || self.rng.one_in(2)) {
            let at = self.rng.below(self.reads.len() as u64) as usize;
            return self.finish_read(at);
        }
        let Some(buffer) = self.memory() else { return Ok(()) };
        let span = self.span(buffer, false);
        let uses = [Use { span, access: Access::Read }];
        if span.len() == 0 || self.model.held(&uses) || !self.model.buffers[buffer].unallocated.is_empty() {
            return Ok(());
        }
        let (stream, slice) = (self.stream(), self.slice(span));
        let (handle, answer) = self.device.read_begin(stream, slice);
        let number = self.model.create(span.len(), false, Set::new(), None);
        self.note(format!("read {number} of {span:?} on {stream} begins -> {answer:?}"));
        let to = Span { buffer: number, start: 0, end: span.len() };
        match answer {
            Ok(()) => {
                self.reads.push(Read { handle, to });
                self.model.copy(to, span);
                Ok(())
            }
            Err(refused) if refused.code == TG_NOT_READY && handle.id == 0 => {
                self.model.destroy(number);
                Ok(())
            }
            other => Err(format!("unexpected {other:?}")),
        }
    }

    fn finish_read(&mut self, at: usize) -> Checked {
        let Read { handle, to } = self.reads.swap_remove(at);
        let answer = self.device.read_finish(handle);
        self.note(format!("read {} is over -> {:?}", to.buffer, answer.as_ref().map(Vec::len)));
        self.read_is(to, answer)?;
        self.model.destroy(to.buffer);
        self.device.read_release(handle).map_err(|e| format!("unexpected {e:?}"))
    }

    /// Reads everything, lets go of everything, and looks for what is left.
    fn end(&mut self) -> Checked {
        let unexpected = |e: c::Refused| format!("unexpected {e:?}");
        for number in self.buffers.iter().filter(|b| !b.token).map(|b| b.number).collect::<Vec<_>>() {
            let end = self.model.buffers[number].size.min(400);
            self.read_of(Span { buffer: number, start: 0, end }, 0)?;
            self.claims(Span { buffer: number, start: 0, end })?;
        }
        while !self.reads.is_empty() {
            self.finish_read(0)?;
        }
        self.note("the end".to_string());
        for (_, scope) in std::mem::take(&mut self.scopes) {
            self.device.scope_end(scope).map_err(unexpected)?;
        }
        for buffer in std::mem::take(&mut self.buffers) {
            self.device.buffer_destroy(buffer.handle).map_err(unexpected)?;
        }
        for kernel in std::mem::take(&mut self.kernels) {
            self.device.kernel_destroy(kernel.handle).map_err(unexpected)?;
        }
        self.device.wait(TG_WAIT_FOREVER).map_err(unexpected)?;
        match self.device.failure_count() {
            0 => Ok(()),
            left => Err(format!("everything is destroyed, but {left} failures live: {:?}", self.device.report_all())),
        }
    }
}

/// Runs a program: what was wrong, and what was done until then.
fn run(seed: u64, scheduling: u32, steps: &[u64]) -> Result<(), (String, Vec<String>)> {
    let messages = tidegate::vulkan::validation_message_count();
    let mut world = World::new(seed, scheduling).map_err(|wrong| (wrong, Vec::new()))?;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        steps.iter().try_for_each(|step| world.step(*step))?;
        world.end()
    }));
    let wrong = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(wrong)) => Some(wrong),
        Err(panic) => Some(format!("panicked: {}", tidegate::failure::panic_message(&*panic))),
    };
    shim::stop_refusing();
    let closed = world.device.destroy();
    let said = tidegate::vulkan::validation_message_count() - messages;
    let wrong = match (wrong, closed, said) {
        (None, Ok(()), 0) => return Ok(()),
        (Some(wrong), ..) => wrong,
        (None, Err(refused), _) => format!("the device was not destroyed: {refused:?}"),
        (None, Ok(()), said) => format!("{said} validation messages"),
    };
    Err((wrong, world.trace))
}

/// Leaves out what a failure does not need.
fn shortest(seed: u64, scheduling: u32, steps: &[u64], failure: (String, Vec<String>)) -> (usize, String, Vec<String>) {
    let mut kept = steps.to_vec();
    let (mut wrong, mut trace) = failure;
    let mut part = kept.len().div_ceil(2);
    loop {
        let mut at = 0;
        while at < kept.len() {
            let fewer: Vec<u64> = [&kept[..at], &kept[(at + part).min(kept.len())..]].concat();
            match run(seed, scheduling, &fewer) {
                Err(failure) => {
                    kept = fewer;
                    (wrong, trace) = failure;
                }
                Ok(()) => at += part,
            }
        }
        if part == 1 {
            return (kept.len(), wrong, trace);
        }
        part = part.div_ceil(2);
    }
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

fn programs(scheduling: u32) {
    const LENGTH: u64 = 500;
    let first = setting("TIDEGATE_SEED", 1);
    for program in 0..setting("TIDEGATE_C_OPS", 50_000).div_ceil(LENGTH) {
        let seed = first.wrapping_mul(1_000_003).wrapping_add(program);
        let mut rng = Rng::new(!seed);
        let steps: Vec<u64> = (0..LENGTH).map(|_| rng.next()).collect();
        if let Err(failure) = run(seed, scheduling, &steps) {
            let (left, wrong, trace) = shortest(seed, scheduling, &steps, failure);
            let trace = trace.join("\n");
            panic!("TIDEGATE_SEED={first}, program {program} (seed {seed}), {left} calls left:\n{trace}\n{wrong}");
        }
    }
}

#[test]
fn event() {
    c::alone("event", &[], || programs(TG_SCHEDULING_EVENT));
}

#[test]
fn interleave() {
    c::alone("interleave", &[], || programs(TG_SCHEDULING_INTERLEAVE));
}

#[test]
fn sequence() {
    c::alone("sequence", &[], || programs(TG_SCHEDULING_SEQUENCE));
}
