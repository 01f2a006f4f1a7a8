//! Threads that work on one device at the same time, each against a model with one record per byte.
//!
//! Every buffer lies behind a lock of the test's own, taken for as long as a call on it lasts: so the model knows the
//! order of the calls on each byte, while what they enqueued interleaves on the device. Some buffers are one thread's
//! alone, some are everybody's. A few more, the wild ones, have no lock and no model: any thread does anything to them
//! at any moment, and all they have to do is to leave the others alone.
//!
//! Where submissions are refused, nobody can say whose work was in them. Then an answer may name roots that the test
//! did not make, as many as there were refusals; what can be read is still exactly what the model says.

use super::target::{Module, Part, Target, Wanted};
use crate::c::{Answer, Refused};
use crate::host::Rng;
use crate::host::model::{Byte, Set, Span, Use, reads, writes};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tidegate::device::Scheduling;
use tidegate::failure::Access;
use tidegate::ffi::*;

/// What a check found wrong, in words.
type Checked<T = ()> = Result<T, String>;

const THREADS: usize = 8;
const STREAMS: usize = 16;
const SLOTS: u32 = 4;
const SHARED: usize = 12;
const OWN: usize = 6;
const WILD: usize = 4;
/// A set names 32 roots at the most; beyond that there is nothing to compare.
const MOST_ROOTS: u64 = 22;
/// No call of the test takes so long: one that does has hung.
const HUNG: u64 = 60_000_000_000;
const UNTOUCHED: u8 = 0xEE;
/// The longest slice a launch binds.
const MOST_BOUND: u64 = 400;

/// A buffer and what the model says of it.
#[derive(Default)]
struct Cell {
    /// 0: there is none now.
    handle: u64,
    size: u64,
    /// Empty while it is allocated.
    unallocated: Set,
    bytes: Vec<Byte>,
}

/// The buffers a call works on, locked.
struct Locked<'a>(Vec<(usize, MutexGuard<'a, Cell>)>);

impl Locked<'_> {
    fn get(&self, buffer: usize) -> &Cell {
        &self.0.iter().find(|(at, _)| *at == buffer).expect("a locked buffer").1
    }

    fn get_mut(&mut self, buffer: usize) -> &mut Cell {
        &mut self.0.iter_mut().find(|(at, _)| *at == buffer).expect("a locked buffer").1
    }

    fn part(&self, span: Span) -> Part {
        Part { buffer: self.get(span.buffer).handle, start: span.start, size: span.len() }
    }

    fn bytes(&self, span: Span) -> &[Byte] {
        &self.get(span.buffer).bytes[span.start as usize..span.end as usize]
    }

    fn bytes_mut(&mut self, span: Span) -> &mut [Byte] {
        &mut self.get_mut(span.buffer).bytes[span.start as usize..span.end as usize]
    }

    fn roots(&self, span: Span) -> Set {
        match &self.get(span.buffer).unallocated {
            none if none.is_empty() => roots_of(self.bytes(span)),
            some => some.clone(),
        }
    }

    /// The roots that keep work from running.
    fn found(&self, uses: &[Use], kernel: &Set) -> Set {
        let mut found = kernel.clone();
        for u in uses {
            let unallocated = &self.get(u.span.buffer).unallocated;
            found.extend(unallocated);
            if unallocated.is_empty() && reads(u.access) {
                found.extend(self.roots(u.span));
            }
        }
        found
    }

    fn claim(&mut self, uses: &[Use], roots: &Set) {
        for u in uses.iter().filter(|u| writes(u.access)) {
            if self.get(u.span.buffer).unallocated.is_empty() {
                self.bytes_mut(u.span).fill(Byte { value: None, roots: roots.clone() });
            }
        }
    }

    fn release(&mut self, span: Span) {
        self.bytes_mut(span).iter_mut().for_each(|byte| byte.roots.clear());
    }

    fn store(&mut self, span: Span, values: impl Iterator<Item = u8>) {
        for (byte, value) in self.bytes_mut(span).iter_mut().zip(values) {
            *byte = Byte { value: Some(value), roots: Set::new() };
        }
    }
}

fn roots_of(bytes: &[Byte]) -> Set {
    bytes.iter().flat_map(|byte| &byte.roots).copied().collect()
}

/// What became of work.
enum Went {
    Ran,
    Skipped(Set),
}

/// Everything the threads share.
struct World<T> {
    target: T,
    modules: Vec<Module>,
    cells: Vec<Mutex<Cell>>,
    wild: Vec<AtomicU64>,
    streams: Vec<u64>,
    /// Some submissions are refused.
    refusing: bool,
    refusals: AtomicU64,
    /// Roots the test made itself, and roots it did not.
    known: Mutex<Set>,
    unknown: Mutex<Set>,
    progress: Vec<AtomicU64>,
    stop: AtomicBool,
    end: Instant,
}

impl<T> World<T> {
    /// Locks buffers, in the one order in which everybody does.
    fn lock(&self, mut wanted: Vec<usize>) -> Locked<'_> {
        wanted.sort_unstable();
        wanted.dedup();
        Locked(wanted.into_iter().map(|at| (at, self.cells[at].lock())).collect())
    }

    fn know(&self, root: u64) {
        self.known.lock().insert(root);
    }

    /// The roots that an answer names are those of the model.
    fn same(&self, expected: &Set, refused: &Refused, what: &str) -> Checked {
        let named: Set = refused.roots.iter().copied().collect();
        if named == *expected && refused.more == 0 {
            return Ok(());
        }
        let strange: Vec<u64> = named.difference(expected).copied().collect();
        if self.refusing && refused.more == 0 {
            let known = self.known.lock();
            let mut unknown = self.unknown.lock();
            let made = strange.iter().any(|root| known.contains(root));
            unknown.extend(strange);
            if !made && unknown.len() as u64 <= self.refusals.load(Ordering::SeqCst) {
                return Ok(());
            }
        }
        Err(format!("{what} names {:?} and {} more, the model {expected:?}", refused.roots, refused.more))
    }

    /// A submission that was refused may be told of by any call that submits.
    fn is_refusal(&self, refused: &Refused) -> bool {
        self.refusing && refused.code == TG_ERROR_OUT_OF_DEVICE_MEMORY
    }

    fn went(&self, found: &Set, answer: Answer) -> Checked<Went> {
        match answer {
            Ok(()) if found.is_empty() => Ok(Went::Ran),
            Err(refused) if refused.code == TG_SKIPPED && (self.refusing || !found.is_empty()) => {
                self.same(found, &refused, "the skip")?;
                Ok(Went::Skipped(refused.roots.into_iter().collect()))
            }
            // Whatever it was to write is claimed, for as long as nothing else is written there.
            Err(refused) if self.is_refusal(&refused) && found.is_empty() => Ok(Went::Ran),
            other => Err(format!("the model finds {found:?}, but the answer was {other:?}")),
        }
    }

    /// What reading such bytes came to.
    fn read_is(&self, expected: &[Byte], unallocated: &Set, answer: Answer<Vec<u8>>) -> Checked {
        let roots = if unallocated.is_empty() { roots_of(expected) } else { unallocated.clone() };
        match answer {
            Ok(out) if roots.is_empty() && out.len() == expected.len() => {
                let wrong =
                    |(_, (byte, model)): &(usize, (&u8, &Byte))| model.value.is_some_and(|value| value != **byte);
                match out.iter().zip(expected).enumerate().find(wrong) {
                    None => Ok(()),
                    Some((at, (byte, model))) => Err(format!("byte {at} is {byte}, in the model {:?}", model.value)),
                }
            }
            Err(refused) if refused.code == TG_ERROR_UNWRITTEN && (self.refusing || !roots.is_empty()) => {
                self.same(&roots, &refused, "the read")
            }
            other => Err(format!("the model finds {roots:?}, but the answer was {other:?}")),
        }
    }
}

struct Kernel {
    handle: u64,
    module: usize,
    /// Empty while it works.
    broken: Set,
}

/// An asynchronous read and what it is to give.
struct Read {
    handle: u64,
    expected: Vec<Byte>,
}

/// What one thread has.
struct Worker<'a, T> {
    world: &'a World<T>,
    id: usize,
    rng: Rng,
    kernels: Vec<Kernel>,
    reads: Vec<Read>,
    events: Vec<u64>,
    trace: VecDeque<String>,
}

fn fine(answer: Answer) -> Checked {
    answer.map_err(|e| format!("unexpected {e:?}"))
}

/// The answer has this code.
fn is(answer: Answer, code: tg_result) -> Checked {
    match answer {
        Err(refused) if refused.code == code => Ok(()),
        other => Err(format!("code {code} was expected, but the answer was {other:?}")),
    }
}

/// The one root of a failure with such a code.
fn one_root(answer: &Answer, code: tg_result) -> Checked<u64> {
    match answer {
        Err(refused) if refused.code == code && refused.roots.len() == 1 => Ok(refused.roots[0]),
        other => Err(format!("code {code} and a root were expected, but the answer was {other:?}")),
    }
}

impl<'a, T: Target> Worker<'a, T> {
    fn new(world: &'a World<T>, id: usize, rng: Rng) -> Worker<'a, T> {
        Worker { world, id, rng, kernels: Vec::new(), reads: Vec::new(), events: Vec::new(), trace: VecDeque::new() }
    }

    fn note(&mut self, what: String) {
        if self.trace.len() == 60 {
            self.trace.pop_front();
        }
        self.trace.push_back(what);
    }

    fn stream(&mut self) -> u64 {
        *self.rng.pick(&self.world.streams)
    }

    /// Whether there is room for one more root.
    fn room(&self) -> bool {
        self.world.target.failures() < MOST_ROOTS
    }

    /// So many different buffers that this thread may use, locked; one that is not there is made.
    fn pick(&mut self, count: usize) -> Checked<(Vec<usize>, Locked<'a>)> {
        let mut wanted = Vec::new();
        while wanted.len() < count {
            let at = match self.rng.below(3) {
                0 => self.rng.below(SHARED as u64) as usize,
                _ => SHARED + self.id * OWN + self.rng.below(OWN as u64) as usize,
            };
            if !wanted.contains(&at) {
                wanted.push(at);
            }
        }
        let mut locked = self.world.lock(wanted.clone());
        for at in &wanted {
            if locked.get(*at).handle == 0 {
                self.create(&mut locked, *at)?;
            }
        }
        Ok((wanted, locked))
    }

    /// A random range of a buffer, not empty; `bound`: whole words, beginning where it may.
    fn span(&mut self, locked: &Locked<'_>, buffer: usize, bound: bool) -> Span {
        let cell = locked.get(buffer);
        let size = if bound || !cell.unallocated.is_empty() { cell.size.min(MOST_BOUND) } else { cell.size };
        let (start, end) = (self.rng.below(size), self.rng.between(1, size));
        if self.rng.one_in(3) {
            Span { buffer, start: 0, end: size }
        } else if bound {
            let alignment = self.world.target.alignment();
            let start = start / alignment * alignment;
            Span { buffer, start, end: (start + end).min(size).max(start + 4) / 4 * 4 }
        } else {
            let (start, end) = (start.min(end - 1), end.max(start + 1));
            Span { buffer, start, end }
        }
    }

    fn step(&mut self) -> Checked {
        match self.rng.below(100) {
            0..4 => self.destroy(),
            4..22 => self.write(),
            22..48 => self.launch(),
            48..56 => self.copy(),
            56..61 => self.fill(),
            61..63 => self.taint(),
            63..66 => self.scope(),
            66..68 => self.allocate(),
            68 => self.kernel(),
            69..72 => self.event(),
            72..76 => self.flush_or_wait(),
            76 => self.trim(),
            77..82 => self.wild(),
            82..86 => self.read_later(),
            86..89 => self.check(),
            89 if self.world.refusing && self.rng.one_in(2) => self.refuse(),
            _ => self.read(),
        }
    }

    fn create(&mut self, locked: &mut Locked<'_>, at: usize) -> Checked {
        let world = self.world;
        let room = self.room();
        let huge = room && self.rng.one_in(12);
        let unallocated = room && !huge && self.rng.one_in(14);
        let most = *self.rng.pick(&[4, 16, 50, 100]);
        let size = match self.rng.below(24) {
            _ if huge => 1 << 40,
            // More than one piece of staging.
            0 => 12 << 10,
            _ => self.rng.between(1, most) * 4,
        };
        let (handle, answer) = world.target.create(self.stream(), size, unallocated);
        self.note(format!("create {at} of {size} bytes, unallocated: {unallocated} -> {answer:?}"));
        if handle == 0 {
            return Err(format!("no handle with {answer:?}"));
        }
        let mut cell = Cell { handle, size, ..Cell::default() };
        if huge {
            cell.unallocated.insert(one_root(&answer, TG_ERROR_OUT_OF_DEVICE_MEMORY)?);
        } else {
            fine(answer)?;
            if unallocated {
                let whole = Part { buffer: handle, start: 0, size };
                cell.unallocated.insert(world.target.first_failure(whole).map_err(|e| format!("{e:?}"))?);
            } else {
                cell.bytes = vec![Byte::default(); size as usize];
            }
        }
        cell.unallocated.iter().for_each(|root| world.know(*root));
        *locked.get_mut(at) = cell;
        Ok(())
    }

    fn destroy(&mut self) -> Checked {
        let (at, mut locked) = self.pick(1)?;
        let cell = std::mem::take(locked.get_mut(at[0]));
        let target = &self.world.target;
        let answer = target.destroy(cell.handle);
        self.note(format!("destroy {} -> {answer:?}", at[0]));
        fine(answer)?;
        is(target.destroy(cell.handle), TG_ERROR_STALE_HANDLE)
    }

    fn allocate(&mut self) -> Checked {
        let (at, mut locked) = self.pick(1)?;
        let size = self.rng.between(1, 40) * 4;
        let cell = locked.get_mut(at[0]);
        let answer = self.world.target.allocate(cell.handle, size);
        self.note(format!("allocate {} with {size} -> {answer:?}", at[0]));
        if cell.unallocated.is_empty() {
            return is(answer, TG_ERROR_WRONG_STATE);
        }
        let roots = std::mem::take(&mut cell.unallocated);
        cell.size = size;
        cell.bytes = vec![Byte { value: None, roots }; size as usize];
        fine(answer)
    }

    fn write(&mut self) -> Checked {
        let (at, mut locked) = self.pick(1)?;
        let span = self.span(&locked, at[0], false);
        let first = self.rng.next();
        let bytes: Vec<u8> = (0..span.len()).map(|i| (first.wrapping_add(i * 7) >> (i % 8)) as u8).collect();
        let stream = self.stream();
        let answer = self.world.target.write(stream, locked.part(span), &bytes);
        self.note(format!("write {span:?} on {stream} -> {answer:?}"));
        let uses = [Use { span, access: Access::Write }];
        match self.world.went(&locked.found(&uses, &Set::new()), answer)? {
            Went::Ran => locked.store(span, bytes.into_iter()),
            Went::Skipped(roots) => locked.claim(&uses, &roots),
        }
        Ok(())
    }

    fn fill(&mut self) -> Checked {
        let (at, mut locked) = self.pick(1)?;
        let mut span = self.span(&locked, at[0], false);
        let size = *self.rng.pick(&[1_u32, 2, 4]);
        span.end = span.start + span.len() / u64::from(size) * u64::from(size);
        if span.len() == 0 {
            return Ok(());
        }
        let (pattern, stream) = (self.rng.next() as u32, self.stream());
        let answer = self.world.target.fill(stream, locked.part(span), pattern, size);
        self.note(format!("fill {span:?} with {size} of {pattern:#x} on {stream} -> {answer:?}"));
        let uses = [Use { span, access: Access::Write }];
        match self.world.went(&locked.found(&uses, &Set::new()), answer)? {
            Went::Ran => locked.store(span, pattern.to_le_bytes().into_iter().take(size as usize).cycle()),
            Went::Skipped(roots) => locked.claim(&uses, &roots),
        }
        Ok(())
    }

    fn copy(&mut self) -> Checked {
        let (at, mut locked) = self.pick(2)?;
        let (mut to, mut from) = (self.span(&locked, at[0], false), self.span(&locked, at[1], false));
        let size = to.len().min(from.len());
        (to.end, from.end) = (to.start + size, from.start + size);
        let stream = self.stream();
        let answer = self.world.target.copy(stream, locked.part(to), locked.part(from));
        self.note(format!("copy {from:?} to {to:?} on {stream} -> {answer:?}"));
        let uses = [Use { span: to, access: Access::Write }, Use { span: from, access: Access::Read }];
        // A copy runs over claimed bytes (R10); only missing memory keeps it from running.
        let missing = [to, from].iter().any(|span| !locked.get(span.buffer).unallocated.is_empty());
        let found = if missing { locked.found(&uses, &Set::new()) } else { Set::new() };
        match self.world.went(&found, answer)? {
            Went::Ran => {
                let bytes = locked.bytes(from).to_vec();
                locked.bytes_mut(to).clone_from_slice(&bytes);
            }
            Went::Skipped(roots) => locked.claim(&uses, &roots),
        }
        Ok(())
    }

    fn taint(&mut self) -> Checked {
        let (at, mut locked) = self.pick(1)?;
        if !self.room() || !locked.get(at[0]).unallocated.is_empty() {
            return Ok(());
        }
        let span = self.span(&locked, at[0], false);
        let answer = self.world.target.taint(locked.part(span));
        self.note(format!("taint {span:?} -> {answer:?}"));
        fine(answer)?;
        let root = self.world.target.first_failure(locked.part(span)).map_err(|e| format!("{e:?}"))?;
        self.world.know(root);
        locked.claim(&[Use { span, access: Access::Write }], &Set::from([root]));
        Ok(())
    }

    /// Work of the caller's own, open for a while.
    fn scope(&mut self) -> Checked {
        if !self.room() {
            return Ok(());
        }
        let target = &self.world.target;
        let count = self.rng.between(1, 2) as usize;
        let (at, mut locked) = self.pick(count)?;
        let kinds = [Access::Read, Access::Write, Access::Write, Access::MayWrite, Access::ReadWrite];
        let uses: Vec<Use> =
            at.iter().map(|at| Use { span: self.span(&locked, *at, false), access: *self.rng.pick(&kinds) }).collect();
        let given: Vec<(Part, Access)> = uses.iter().map(|u| (locked.part(u.span), u.access)).collect();
        let stream = self.stream();
        let answer = target.scope_begin(stream, &given);
        self.note(format!("scope of {uses:?} on {stream} -> {answer:?}"));
        let handle = answer.as_ref().map_or(0, |handle| *handle);
        if let Went::Skipped(roots) = self.world.went(&locked.found(&uses, &Set::new()), answer.map(drop))? {
            locked.claim(&uses, &roots);
            return Ok(());
        }
        if let Some(u) = uses.iter().find(|u| writes(u.access)) {
            let part = locked.part(u.span);
            let root = target.first_failure(part).map_err(|e| format!("{e:?}"))?;
            self.world.know(root);
            locked.claim(&uses, &Set::from([root]));
            is(target.fill(stream, part, 0, 1), TG_ERROR_WRONG_STATE)?;
            is(target.destroy(part.buffer), TG_ERROR_WRONG_STATE)?;
        }
        match self.rng.below(3) {
            0 => self.flush_or_wait()?,
            1 => std::thread::yield_now(),
            _ => {}
        }
        if self.rng.one_in(3) {
            let answer = target.scope_fail(handle);
            self.note(format!("the scope fails -> {answer:?}"));
            return fine(answer);
        }
        let answer = target.scope_end(handle);
        self.note(format!("the scope ends -> {answer:?}"));
        uses.iter().filter(|u| writes(u.access)).for_each(|u| locked.release(u.span));
        fine(answer)
    }

    /// A new kernel, broken or not; or one less, whatever still runs of it.
    fn kernel(&mut self) -> Checked {
        let target = &self.world.target;
        if self.kernels.len() >= 6 {
            let at = self.rng.below(self.kernels.len() as u64) as usize;
            let answer = target.kernel_destroy(self.kernels.swap_remove(at).handle);
            self.note(format!("destroy a kernel -> {answer:?}"));
            return fine(answer);
        }
        let module = self.rng.below(self.world.modules.len() as u64) as usize;
        let Module { code, accesses, .. } = &self.world.modules[module];
        let break_it = self.room() && self.rng.one_in(6);
        let (handle, answer) = target.kernel(if break_it { b"nonsense" } else { code }, accesses);
        self.note(format!("kernel {module}, broken: {break_it} -> {answer:?}"));
        let mut broken = Set::new();
        if break_it {
            let root = one_root(&answer, TG_ERROR_INVALID_SHADER)?;
            self.world.know(root);
            broken.insert(root);
        } else {
            fine(answer)?;
        }
        self.kernels.push(Kernel { handle, module, broken });
        Ok(())
    }

    fn launch(&mut self) -> Checked {
        while self.kernels.len() < 3 {
            self.kernel()?;
        }
        let world = self.world;
        let kernel = self.rng.below(self.kernels.len() as u64) as usize;
        let Kernel { handle, module, ref broken } = self.kernels[kernel];
        let (Module { program, accesses, .. }, broken) = (&world.modules[module], broken.clone());
        let (at, mut locked) = self.pick(accesses.len())?;
        let uses: Vec<Use> = at
            .iter()
            .zip(accesses)
            .map(|(at, access)| Use { span: self.span(&locked, *at, true), access: *access })
            .collect();
        let given: Vec<(Part, Access)> = uses.iter().map(|u| (locked.part(u.span), u.access)).collect();
        let found = locked.found(&uses, &broken);
        let too_many = found.is_empty() && self.rng.one_in(40) && self.room();
        let words = uses.iter().map(|u| u.span.len() as u32 / 4).max().unwrap_or(1);
        let push = [self.rng.between(1, 5) as u32, self.rng.next() as u32];
        let stream = self.stream();
        let answer = world.target.launch(stream, handle, &given, (!too_many).then_some(words), push);
        self.note(format!("launch {module} over {uses:?}, {push:?}, on {stream} -> {answer:?}"));
        if too_many && !(world.refusing && answer.as_ref().is_err_and(|refused| refused.code == TG_SKIPPED)) {
            let root = one_root(&answer, TG_ERROR_LIMIT_EXCEEDED)?;
            world.know(root);
            locked.claim(&uses, &Set::from([root]));
            return Ok(());
        }
        match world.went(&found, answer)? {
            Went::Skipped(roots) => locked.claim(&uses, &roots),
            Went::Ran => {
                let sizes: Vec<u64> = uses.iter().map(|u| u.span.len()).collect();
                let push: Vec<u8> = push.iter().flat_map(|word| word.to_le_bytes()).collect();
                let stores = program.run(&sizes, &push, [words.div_ceil(16), 1, 1], &mut |binding, offset| {
                    locked.bytes(uses[binding].span)[offset as usize].value
                });
                for (binding, offset, value) in stores {
                    locked.bytes_mut(uses[binding].span)[offset as usize].value = value;
                }
                uses.iter().filter(|u| u.access == Access::Write).for_each(|u| locked.release(u.span));
            }
        }
        Ok(())
    }

    fn event(&mut self) -> Checked {
        let target = &self.world.target;
        let stream = self.stream();
        let at = self.rng.below(self.events.len().max(1) as u64) as usize;
        let event = self.events.get(at).copied();
        match (self.rng.below(6), event) {
            (0 | 1, _) | (_, None) => {
                let again = if self.events.len() >= 4 { event.unwrap_or(0) } else { 0 };
                let (recorded, answer) = target.event_record(stream, again);
                self.note(format!("record an event on {stream} -> {answer:?}"));
                if again == 0 {
                    self.events.push(recorded);
                }
                self.or_refusal(answer)
            }
            (2, Some(event)) => fine(target.event_wait(event, HUNG)),
            (3, Some(event)) => match target.event_status(event) {
                Err(refused) if refused.code == TG_NOT_READY => Ok(()),
                answer => fine(answer),
            },
            (4, Some(event)) => {
                self.events.swap_remove(at);
                fine(target.event_destroy(event))?;
                is(target.event_destroy(event), TG_ERROR_STALE_HANDLE)
            }
            (_, Some(event)) => {
                let answer = target.stream_wait_event(stream, event);
                self.note(format!("{stream} waits for an event -> {answer:?}"));
                fine(answer)
            }
        }
    }

    fn or_refusal(&self, answer: Answer) -> Checked {
        match answer {
            Err(refused) if self.world.is_refusal(&refused) => Ok(()),
            answer => fine(answer),
        }
    }

    fn flush_or_wait(&mut self) -> Checked {
        let target = &self.world.target;
        let stream = self.stream();
        let which = self.rng.below(8);
        let answer = match which {
            0 => target.wait(HUNG),
            1 | 2 => target.stream_wait(stream, HUNG),
            3 | 4 => target.stream_wait(stream, self.rng.below(200_000)),
            _ => target.flush(stream),
        };
        self.note(format!("flush or wait {which} on {stream} -> {answer:?}"));
        match answer {
            Err(refused) if refused.code == TG_TIMEOUT && (which == 3 || which == 4) => Ok(()),
            answer => self.or_refusal(answer),
        }
    }

    fn trim(&mut self) -> Checked {
        fine(self.world.target.trim())
    }

    fn refuse(&mut self) -> Checked {
        if self.room() {
            self.note("refuse".to_string());
            self.world.refusals.fetch_add(1, Ordering::SeqCst);
            self.world.target.refuse();
        }
        Ok(())
    }

    fn read(&mut self) -> Checked {
        let (at, locked) = self.pick(1)?;
        let span = self.span(&locked, at[0], false);
        let short = self.rng.one_in(4);
        let timeout = if short { self.rng.below(100_000) } else { HUNG };
        self.read_of(&locked, span, timeout, short)
    }

    fn read_of(&mut self, locked: &Locked<'_>, span: Span, timeout: u64, short: bool) -> Checked {
        let mut out = vec![UNTOUCHED; span.len() as usize];
        let stream = self.stream();
        let answer = self.world.target.read(stream, &mut out, locked.part(span), timeout);
        self.note(format!("read {span:?} on {stream} -> {answer:?}"));
        if answer.is_err() && out.iter().any(|byte| *byte != UNTOUCHED) {
            return Err("a failed read touched its destination".to_string());
        }
        if short && answer.as_ref().is_err_and(|refused| refused.code == TG_TIMEOUT) {
            return Ok(());
        }
        let unallocated = &locked.get(span.buffer).unallocated;
        let expected = if unallocated.is_empty() { locked.bytes(span) } else { &[] };
        self.world.read_is(expected, unallocated, answer.map(|()| out))
    }

    fn check(&mut self) -> Checked {
        let (at, locked) = self.pick(1)?;
        let span = self.span(&locked, at[0], false);
        let answer = self.world.target.check_written(locked.part(span), HUNG);
        self.note(format!("check {span:?} -> {answer:?}"));
        let roots = locked.roots(span);
        match answer {
            Ok(()) if roots.is_empty() => Ok(()),
            Err(refused) if refused.code == TG_ERROR_UNWRITTEN && (self.world.refusing || !roots.is_empty()) => {
                self.world.same(&roots, &refused, "the check")
            }
            other => Err(format!("the model finds {roots:?}, but the answer was {other:?}")),
        }
    }

    /// Begins a read, or finishes one. What it gives was decided when it began, whatever happened since.
    fn read_later(&mut self) -> Checked {
        if self.reads.len() > 2 || (!self.reads.is_empty() && self.rng.one_in(2)) {
            let at = self.rng.below(self.reads.len() as u64) as usize;
            return self.finish_read(at);
        }
        let (at, locked) = self.pick(1)?;
        let span = self.span(&locked, at[0], false);
        if !locked.get(at[0]).unallocated.is_empty() {
            return Ok(());
        }
        let stream = self.stream();
        let (handle, answer) = self.world.target.read_begin(stream, locked.part(span));
        self.note(format!("read {handle} of {span:?} on {stream} begins -> {answer:?}"));
        match answer {
            Ok(()) => self.reads.push(Read { handle, expected: locked.bytes(span).to_vec() }),
            answer => is(answer, TG_NOT_READY)?,
        }
        Ok(())
    }

    fn finish_read(&mut self, at: usize) -> Checked {
        let Read { handle, expected } = self.reads.swap_remove(at);
        let target = &self.world.target;
        if self.rng.one_in(5) {
            return fine(target.read_release(handle));
        }
        let answer = target.read_finish(handle, HUNG);
        self.note(format!("read {handle} is over -> {:?}", answer.as_ref().map(Vec::len)));
        self.world.read_is(&expected, &Set::new(), answer)?;
        fine(target.read_release(handle))?;
        is(target.read_release(handle), TG_ERROR_STALE_HANDLE)
    }

    /// Anything, to a buffer that anybody may be doing anything to.
    fn wild(&mut self) -> Checked {
        const ALLOWED: [tg_result; 8] = [
            TG_SKIPPED,
            TG_TIMEOUT,
            TG_NOT_READY,
            TG_ERROR_UNWRITTEN,
            TG_ERROR_STALE_HANDLE,
            TG_ERROR_NULL_HANDLE,
            TG_ERROR_WRONG_STATE,
            TG_ERROR_INVALID_ARGUMENT,
        ];
        let (world, stream) = (self.world, self.stream());
        let target = &world.target;
        let handle = |rng: &mut Rng| world.wild[rng.below(WILD as u64) as usize].load(Ordering::SeqCst);
        let (buffer, other) = (handle(&mut self.rng), handle(&mut self.rng));
        let size = self.rng.between(1, 64) * 4;
        let some = Part { buffer, start: 0, size };
        let whole = Part { buffer, start: 0, size: TG_WHOLE_SIZE };
        let which = self.rng.below(10);
        let answer = match which {
            0 | 1 => {
                let unallocated = self.room() && self.rng.one_in(2);
                let (new, answer) = target.create(stream, size, unallocated);
                let old = world.wild[self.rng.below(WILD as u64) as usize].swap(new, Ordering::SeqCst);
                answer.and(target.destroy(old))
            }
            2 | 3 => target.allocate(buffer, size),
            4 => target.write(stream, some, &vec![0xAB; size as usize]),
            5 => target.fill(stream, whole, 0xABAB_ABAB, 1),
            6 => target.copy(stream, whole, Part { buffer: other, ..whole }),
            7 => target.read(stream, &mut vec![0; size as usize], some, HUNG),
            8 => {
                let (read, answer) = target.read_begin(stream, whole);
                answer.and(target.read_release(read))
            }
            _ => {
                let in_place = |kernel: &&Kernel| {
                    kernel.broken.is_empty() && world.modules[kernel.module].accesses == [Access::ReadWrite]
                };
                match self.kernels.iter().find(in_place) {
                    Some(kernel) => {
                        target.launch(stream, kernel.handle, &[(whole, Access::ReadWrite)], Some(64), [3, 1])
                    }
                    None => Ok(()),
                }
            }
        };
        self.note(format!("wild {which} -> {answer:?}"));
        match answer {
            Err(refused) if ALLOWED.contains(&refused.code) => Ok(()),
            answer => self.or_refusal(answer),
        }
    }

    /// Lets go of what only this thread has.
    fn finish(&mut self) -> Checked {
        while !self.reads.is_empty() {
            self.finish_read(0)?;
        }
        for event in std::mem::take(&mut self.events) {
            fine(self.world.target.event_destroy(event))?;
        }
        for kernel in std::mem::take(&mut self.kernels) {
            fine(self.world.target.kernel_destroy(kernel.handle))?;
        }
        Ok(())
    }

    fn work(&mut self) -> Result<u64, String> {
        let mut calls = 0;
        while Instant::now() < self.world.end && !self.world.stop.load(Ordering::Relaxed) {
            self.step()?;
            calls += 1;
            self.world.progress[self.id].store(calls, Ordering::Relaxed);
            if self.id == 0 && calls.is_multiple_of(512) {
                self.world.target.tidy();
            }
        }
        self.finish()?;
        Ok(calls)
    }

    /// Works, and tells in words how that failed.
    fn told(&mut self) -> Result<u64, String> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.work()));
        let wrong = match outcome {
            Ok(Ok(calls)) => return Ok(calls),
            Ok(Err(wrong)) => wrong,
            Err(panic) => format!("panicked: {}", tidegate::failure::panic_message(&*panic)),
        };
        self.world.stop.store(true, Ordering::Relaxed);
        let trace: Vec<String> = std::mem::take(&mut self.trace).into();
        Err(format!("thread {}:\n{}\n{wrong}", self.id, trace.join("\n")))
    }
}

/// Waits for the threads. One that gets nothing done for minutes hangs: nothing but the end of the process ends that.
fn watch<T>(world: &World<T>, running: &[std::thread::ScopedJoinHandle<'_, Result<u64, String>>]) {
    let mut seen = vec![(0, Instant::now()); running.len()];
    while running.iter().any(|thread| !thread.is_finished()) {
        std::thread::sleep(Duration::from_millis(20));
        for (at, (calls, since)) in seen.iter_mut().enumerate() {
            let now = world.progress[at].load(Ordering::Relaxed);
            if now != *calls || running[at].is_finished() {
                (*calls, *since) = (now, Instant::now());
            } else if since.elapsed() > Duration::from_secs(180) {
                let _ = writeln!(std::io::stderr(), "stress: thread {at} hangs in its call {now}");
                std::process::abort();
            }
        }
    }
}

/// Reads everything once more, lets go of everything, and looks for what is left.
fn end<T: Target>(world: &World<T>) -> Checked {
    let mut worker = Worker::new(world, 0, Rng::new(0));
    for at in 0..world.cells.len() {
        let mut locked = world.lock(vec![at]);
        let Cell { handle, size, .. } = *locked.get(at);
        if handle == 0 {
            continue;
        }
        let end = if locked.get(at).unallocated.is_empty() { size } else { 4 };
        worker.read_of(&locked, Span { buffer: at, start: 0, end }, HUNG, false)?;
        fine(world.target.destroy(handle))?;
        *locked.get_mut(at) = Cell::default();
    }
    for wild in &world.wild {
        fine(world.target.destroy(wild.load(Ordering::SeqCst)))?;
    }
    worker.or_refusal(world.target.wait(HUNG))?;
    match world.target.failures() {
        0 => Ok(()),
        left => Err(format!("everything is destroyed, but {left} failures live")),
    }
}

/// One device and all threads, for so long. How many calls they made.
fn round<T: Target>(scheduling: Scheduling, number: u64, seed: u64, time: Duration) -> Result<u64, String> {
    let mut rng = Rng::new(seed);
    let refusing = number % 2 == 1;
    let wanted = Wanted {
        scheduling,
        slots: SLOTS,
        max_recorded: *rng.pick(&[2, 16, 256]),
        max_pending: *rng.pick(&[8, 64, 1 << 16]),
        staging_size: *rng.pick(&[1 << 16, 1 << 20]),
        isolate: rng.one_in(4),
        validate: number % 4 == 2,
    };
    // Some are their own slot, the others fold onto one.
    let streams = (0..STREAMS as u64).map(|i| if i < 6 { i } else { rng.next() | 1 << 40 }).collect();
    let world = World {
        target: T::open(&wanted, &mut rng),
        modules: T::modules(),
        cells: (0..SHARED + THREADS * OWN).map(|_| Mutex::default()).collect(),
        wild: (0..WILD).map(|_| AtomicU64::new(0)).collect(),
        streams,
        refusing,
        refusals: AtomicU64::new(0),
        known: Mutex::default(),
        unknown: Mutex::default(),
        progress: (0..THREADS).map(|_| AtomicU64::new(0)).collect(),
        stop: AtomicBool::new(false),
        end: Instant::now() + time,
    };
    let outcomes: Vec<Result<u64, String>> = std::thread::scope(|scope| {
        let workers = (0..THREADS).map(|id| (id, Rng::new(rng.next()))).collect::<Vec<_>>();
        let world = &world;
        let start = |(id, rng)| scope.spawn(move || Worker::new(world, id, rng).told());
        let running: Vec<_> = workers.into_iter().map(start).collect();
        watch(world, &running);
        running.into_iter().map(|thread| thread.join().expect("a thread that catches what it panics with")).collect()
    });
    let calls: Result<Vec<u64>, String> = outcomes.into_iter().collect();
    let calls = match calls {
        Ok(calls) => calls,
        Err(wrong) => {
            let more = world.target.close().join("\n");
            return Err(format!("{wanted:?}, refusing: {refusing}\n{wrong}\n{more}"));
        }
    };
    end(&world).map_err(|wrong| format!("{wanted:?}, refusing: {refusing}, at the end: {wrong}"))?;
    match world.target.close() {
        wrong if wrong.is_empty() => Ok(calls.iter().sum()),
        wrong => Err(format!("{wanted:?}, refusing: {refusing}: {}", wrong.join("\n"))),
    }
}

/// Works for as long as `TIDEGATE_STRESS_SECONDS` says, in rounds on a device each.
pub fn stress<T: Target>(scheduling: Scheduling) {
    let setting = |name: &str, otherwise| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(otherwise);
    let (seconds, first) = (setting("TIDEGATE_STRESS_SECONDS", 5), setting("TIDEGATE_SEED", 1));
    let time = Duration::from_millis((seconds * 500).clamp(1, 15_000));
    let begun = Instant::now();
    let mut calls = 0;
    for number in 0.. {
        if begun.elapsed() + time / 2 > Duration::from_secs(seconds) {
            println!("{number} rounds, {calls} calls by {THREADS} threads in {:.1} s", begun.elapsed().as_secs_f64());
            break;
        }
        let seed = first.wrapping_mul(1_000_003).wrapping_add(number);
        match round::<T>(scheduling, number, seed, time) {
            Ok(made) => calls += made,
            Err(wrong) => panic!("TIDEGATE_SEED={first}, round {number} (seed {seed}): {wrong}"),
        }
    }
}
