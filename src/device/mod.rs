//! A device: one lock over the store, the memory and the streams, and the order of every call.
//!
//! A call checks its arguments; flushes the neighbours it depends on and settles their refusals; checks what it reads;
//! enters or skips; records. Waits, submissions and log events happen outside the lock. Which bytes can be trusted is
//! decided in `failure/`, which work comes first in `stream/`; here they meet.

mod buffers;
mod events;
mod kernels;
mod launch;
mod maps;
#[cfg(test)]
mod panic_tests;
mod questions;
mod reads;
mod scopes;
mod semaphores;
mod shortage;
mod staging;
mod submit;
mod transfer;
mod types;
mod waits;
mod write;

pub use kernels::{Basis, KernelDetails};
pub use questions::DeviceClaim;
pub use types::*;
pub use waits::parked_devices;

use crate::code::Code;
use crate::error::{Error, Fault, Result, Roots};
use crate::failure::{
    BlockKey, Bytes, Context, FailureStore, Failures, LogLine, MAX_NAME, Point, ScopeKey, Use, Work, cut,
};
use crate::memory::{HandleKind, HandleTable, Hazards, Memory, Place, hazard, pages::PageLimits};
use crate::stream::caught::caught;
use crate::stream::driver::Unclosed;
use crate::stream::scheduler::Strategy;
use crate::stream::{Backend, Caught, Driver, EventStreams, Need, OrderStats, SchedulerStreams};
use events::Event;
use kernels::Kernel;
use maps::Mappings;
use parking_lot::{Mutex, MutexGuard};
use reads::{HostCopies, MAX_KEPT_COPIES, Read};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use tracing::Dispatch;

/// The size of a page that many blocks share, where there is room for many of them.
const PAGE_SIZE: u64 = 16 << 20;
/// The least such a page has.
const MIN_PAGE_SIZE: u64 = 64 << 10;

/// What is under the lock.
struct Core<B: Backend> {
    failures: Failures,
    memory: Memory<B>,
    streams: Box<dyn Driver<B>>,
    kernels: HandleTable<Kernel<B>>,
    scopes: HandleTable<ScopeKey>,
    reads: HandleTable<Read>,
    events: HandleTable<Event>,
    mappings: Mappings<B::Page>,
    /// Staging on its way to the device: free once its point is complete.
    staging: VecDeque<(Point, Place)>,
    /// Memory in which indirect launches check their counts: free once their point is complete.
    scratch: Vec<(Point, Place)>,
    /// Memory of destroyed buffers under work that is held back: free once that work is submitted. Work on such memory
    /// would be held back with it.
    held_places: Vec<(Place, Hazards)>,
    /// Copies of host reads that calls wait for, or waited for in vain.
    copies: HostCopies,
    /// Staging that calls have in hand, neither enqueued nor given back.
    in_hand: u32,
    retired: Vec<Retired<B>>,
    /// Flushes since the device was last asked how far it came.
    unasked: u32,
    settings: Settings,
    names: Names,
    last_serial: u64,
    /// Why there is no room for the work being enqueued.
    no_room: Option<Box<Fault>>,
}

/// A kernel that may still run, until these points are complete.
struct Retired<B: Backend> {
    until: SmallVec<[Point; 8]>,
    _compiled: Arc<B::Kernel>,
}

/// What paths call work that is no kernel's, shared so that nothing is copied for it.
struct Names {
    none: Arc<str>,
    write: Arc<str>,
    read: Arc<str>,
    read_begin: Arc<str>,
    copy: Arc<str>,
    fill: Arc<str>,
    map: Arc<str>,
    scope: Arc<str>,
}

/// A Vulkan device (or whatever stands behind the backend) with everything that is known of its bytes.
pub struct Device<B: Backend> {
    /// Shared only with parked devices: a device that may still be working keeps what it works on.
    core: Arc<Mutex<Core<B>>>,
    /// One lock a queue: submissions to it go in the order in which their recordings were closed.
    queues: Vec<Mutex<()>>,
    dispatch: Option<Dispatch>,
    serial: u32,
    /// It may never be idle, so nothing of it is freed.
    is_parked: bool,
    backend: Arc<B>,
}

/// How an attempt at a call ended.
enum Turn<T> {
    /// It is done.
    Done(T),
    /// Work of these slots comes first; try again when it is submitted.
    Flush(SmallVec<[u32; 8]>),
    /// Too much is unfinished (R15); try again when there is room, or when it is known why there is none.
    Room,
}

/// A batch the device refused, and the root of everything in it.
struct Refusal {
    points: SmallVec<[Point; 4]>,
    fault: Fault,
    roots: Roots,
}

/// The device's lock. A panic while it is held leaves work half done, and no record tells which half: the
/// device is given up then, as if it were lost. So every byte it held is claimed and no wait waits for what will never
/// be answered (R4, R14).
struct Guard<'a, B: Backend> {
    core: MutexGuard<'a, Core<B>>,
    backend: &'a B,
    /// Some call out of this library panicked before, and its thread does this on its way out.
    was_panicking: bool,
}

impl<B: Backend> Guard<'_, B> {
    /// Runs something without the lock.
    fn unlocked<T>(&mut self, f: impl FnOnce() -> T) -> T {
        MutexGuard::unlocked(&mut self.core, f)
    }

    /// Lets threads that wait for the lock have it before this one can ask for it again.
    fn unlock_fair(mut self) {
        MutexGuard::bump(&mut self.core);
    }

    #[cold]
    fn give_up(&mut self) {
        // Another panic on the way out of the first would end the process.
        let fault = Fault::new(Code::Internal, "a panic left the device's records half written");
        let _ = caught(|| self.core.lose_all(self.backend, fault, &[]));
    }
}

impl<B: Backend> Deref for Guard<'_, B> {
    type Target = Core<B>;

    fn deref(&self) -> &Core<B> {
        &self.core
    }
}

impl<B: Backend> DerefMut for Guard<'_, B> {
    fn deref_mut(&mut self) -> &mut Core<B> {
        &mut self.core
    }
}

impl<B: Backend> Drop for Guard<'_, B> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            self.give_up();
        }
    }
}

impl<B: Backend> FailureStore for Core<B> {
    type Blocks = Memory<B>;

    fn split(&mut self) -> (&mut Memory<B>, &mut Failures) {
        (&mut self.memory, &mut self.failures)
    }
    fn parts(&self) -> (&Memory<B>, &Failures) {
        (&self.memory, &self.failures)
    }
}

impl<B: Backend> Core<B> {
    fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    /// A caller's name, cut.
    fn label(&self, text: &str) -> Arc<str> {
        if text.is_empty() { self.names.none.clone() } else { cut(text, MAX_NAME).into() }
    }

    /// Checks a slice, and reconciles its block with a loss.
    fn resolve(&mut self, slice: Slice, handle_field: &'static str, range_field: &'static str) -> Result<Bytes> {
        let bytes = resolve(&self.memory, slice, handle_field, range_field)?;
        if self.failures.is_lost() {
            self.reconcile(bytes.block);
        }
        Ok(bytes)
    }

    /// Checks bytes again that were found under an earlier lock: another thread may have destroyed the buffer since,
    /// allocated it anew with another size, or allocated what is a token, which has no memory of ours.
    fn still_there(&self, slice: Slice, bytes: Bytes, handle_field: &'static str, range_field: &'static str) -> Result {
        let slice = Slice { offset: bytes.start, size: bytes.end - bytes.start, ..slice };
        resolve(&self.memory, slice, handle_field, range_field)?;
        self.with_memory(bytes.block, handle_field)
    }

    fn resolve_all(&mut self, slices: &[Slice]) -> Result<SmallVec<[Bytes; 8]>> {
        let resolved = slices.iter().enumerate().map(|(i, slice)| {
            self.resolve(*slice, "slices.buffer", "slices.size").map_err(|error| error.element("slice", i))
        });
        crate::room::collect(resolved)
    }

    /// What the uses have to come after.
    fn need(&self, slot: u32, uses: &[Use]) -> Need {
        let mut need = Need::default();
        self.streams.need(slot, self.memory.pages.forgotten(), &mut need);
        for u in uses {
            let (Bytes { block, start, end }, writes) = (u.bytes, u.access.writes());
            if (writes || u.access.needs_bytes())
                && let Some(block) = self.memory.blocks.get(block)
            {
                need.depend(&*self.streams, slot, &block.hazards, (start, end), writes);
            }
        }
        need
    }

    /// A panic while recording took a recording with it: everything in it failed.
    fn settle_discarded(&mut self, backend: &B, slot: u32) {
        if let Some(point) = self.streams.discarded(backend, slot) {
            let context = Context { operation: "recording", ..Context::default() };
            let fault = Fault::new(Code::Internal, "a panic discarded the recording");
            self.late_failure(&[point], fault.clone(), context);
            self.refuse_copies(&[point], &fault);
        }
    }

    /// Closes a slot's recording. The refusals of what could not be closed.
    fn close_slot(&mut self, backend: &B, slot: u32) -> Vec<Refusal> {
        let unclosed = self.streams.close(backend, slot);
        unclosed.into_iter().map(|Unclosed { points, fault }| self.refuse(backend, points, fault)).collect()
    }

    fn refuse(&mut self, backend: &B, points: SmallVec<[Point; 4]>, fault: Fault) -> Refusal {
        let context = Context { operation: "submission", ..Context::default() };
        let id = match fault.code {
            Code::DeviceLost => self.lose_all(backend, fault.clone(), &points),
            _ => self.late_failure(&points, fault.clone(), context),
        };
        self.refuse_copies(&points, &fault);
        let mut roots = Roots::default();
        roots.ids.push(id);
        Refusal { points, fault, roots }
    }

    /// Whichever call of the device's it was that said so: the device is lost, before anybody is told anything else.
    #[inline]
    fn hear_of_loss(&mut self, backend: &B) {
        if let Some(fault) = backend.loss()
            && !self.failures.is_loss_settled()
        {
            self.lose_all(backend, fault.clone(), &[]);
        }
    }

    /// The device is lost: one root for all it held; nothing in flight will be heard of again, and what was not handed
    /// to the device never will be. `refused` is what the loss was found out by.
    #[cold]
    fn lose_all(&mut self, backend: &B, fault: Fault, refused: &[Point]) -> u64 {
        let Core { failures, memory, streams, .. } = self;
        let over = |point| streams.is_complete(point) && !refused.contains(&point);
        let id = Parts { failures, memory }.lose(fault, over);
        self.lose_mappings();
        self.streams.lose(backend);
        self.give_back_of_lost();
        id
    }

    /// Memory that waited for its work: on a lost device nothing more is over, and nothing looks at what it uses.
    fn give_back_of_lost(&mut self) {
        let pages = &mut self.memory.pages;
        self.staging.drain(..).chain(self.scratch.drain(..)).for_each(|(_, place)| pages.free(&place));
        for (place, mut hazards) in self.held_places.drain(..) {
            pages.leave(&place, &mut hazards);
            pages.free(&place);
        }
        self.forget_copies(MAX_KEPT_COPIES);
    }

    /// Takes back what completed.
    fn refresh(&mut self, backend: &B) -> std::result::Result<(), Fault> {
        self.unasked = 0;
        let answer = self.streams.refresh(backend);
        self.hear_of_loss(backend);
        if self.failures.is_lost() {
            self.give_back_of_lost();
        }
        let streams = &self.streams;
        let pages = &mut self.memory.pages;
        let mut stays = |(point, place): &(Point, Place)| {
            let done = streams.is_complete(*point);
            if done {
                pages.free(place);
            }
            !done
        };
        self.staging.retain(&mut stays);
        self.scratch.retain(&mut stays);
        self.held_places.retain_mut(|(place, hazards)| {
            let held = is_held(&**streams, hazards);
            if !held {
                pages.leave(place, hazards);
                pages.free(place);
            }
            held
        });
        self.retired.retain(|retired| !retired.until.iter().all(|point| streams.is_complete(*point)));
        self.forget_copies(MAX_KEPT_COPIES);
        let Core { memory, streams, .. } = self;
        if memory.pages.has_residue() && streams.is_idle() {
            memory.pages.forget_residue();
        }
        memory.pages.look();
        self.give_back_some(backend, usize::MAX);
        let Core { failures, memory, streams, .. } = self;
        if memory.is_crowded() {
            memory.prune(|point| streams.is_done_with(point), |point| streams.is_complete(point), || streams.now());
        }
        let mut store = Parts { failures, memory };
        store.retire(|point| streams.is_complete(point));
        answer
    }

    /// Sheds a block and gives its memory back.
    fn forget(&mut self, block: BlockKey) {
        self.shed(block);
        let streams = &self.streams;
        let held = self.memory.remove(block, |hazards| !hazards.is_empty() && is_held(&**streams, hazards));
        self.held_places.extend(held);
    }

    /// Puts bytes behind a block that has none.
    fn place(
        &mut self,
        backend: &B,
        block: BlockKey,
        purpose: crate::memory::Purpose,
        size: u64,
    ) -> std::result::Result<(), Fault> {
        let Core { memory, streams, .. } = self;
        memory.place(backend, block, purpose, size, |mark| streams.is_done_with(mark.point))
    }

    /// Writes no operation without its work's name.
    fn work<'a>(&self, operation: &'static str, name: &'a Arc<str>, stream: impl Into<Option<u64>>) -> Work<'a> {
        Work { operation, name, is_kernel: false, label: "", stream: stream.into(), tag: 0, broken: None }
    }
}

/// Whether some work is held back.
fn is_held<B: Backend>(streams: &dyn Driver<B>, hazards: &Hazards) -> bool {
    let mut held = false;
    hazard::conflicts(hazards, 0, u64::MAX, true, |mark| {
        held = held || streams.hides_held(mark.point);
    });
    held
}

/// Checks a slice: its handle, and that it lies in its buffer.
#[inline]
fn resolve<B: Backend>(
    memory: &Memory<B>,
    slice: Slice,
    handle_field: &'static str,
    range_field: &'static str,
) -> Result<Bytes> {
    named(memory, slice).ok_or_else(|| names_nothing(memory, slice, handle_field, range_field))
}

/// The bytes a slice names, if its buffer is live and it lies in it.
#[inline]
fn named<B: Backend>(memory: &Memory<B>, slice: Slice) -> Option<Bytes> {
    let buffer = memory.buffers.get(slice.buffer)?;
    let room = buffer.size.checked_sub(slice.offset)?;
    let size = if slice.size == WHOLE { room } else { slice.size };
    if size > room {
        return None;
    }
    Some(Bytes { block: buffer.block, start: slice.offset, end: slice.offset + size })
}

#[cold]
fn names_nothing<B: Backend>(
    memory: &Memory<B>,
    slice: Slice,
    handle_field: &'static str,
    range_field: &'static str,
) -> Error {
    let buffer = match memory.buffers.resolve(slice.buffer, handle_field) {
        Ok(buffer) => buffer,
        Err(error) => return error,
    };
    let (Slice { offset, size, .. }, has) = (slice, buffer.size);
    let why = format_args!("offset {offset} and size {size} reach past the {has} bytes of the buffer");
    Error::misuse(Code::InvalidArgument, range_field, why)
}

/// Checks every use of bytes against what open scopes and mappings hold (R4), as the misuse it is.
trait NotHeld: FailureStore {
    fn not_held(&self, uses: &[Use], field: &'static str) -> Result {
        if self.held(uses) {
            let why = format_args!("bytes of it are held by an open scope or mapping");
            return Err(Error::misuse(Code::WrongState, field, why));
        }
        Ok(())
    }
}

impl<S: FailureStore> NotHeld for S {}

/// The store's two parts where the streams are borrowed beside them.
struct Parts<'a, B: Backend> {
    failures: &'a mut Failures,
    memory: &'a mut Memory<B>,
}

impl<B: Backend> FailureStore for Parts<'_, B> {
    type Blocks = Memory<B>;

    fn split(&mut self) -> (&mut Memory<B>, &mut Failures) {
        (self.memory, self.failures)
    }
    fn parts(&self) -> (&Memory<B>, &Failures) {
        (self.memory, self.failures)
    }
}

impl<B: Backend> Device<Caught<B>> {
    /// A device over a backend, whose panics are faults from here on. `serial` goes into its handles; log events go to
    /// `dispatch`, or wherever the calling thread's events go.
    pub fn new(backend: B, serial: u32, settings: Settings, dispatch: Option<Dispatch>) -> Device<Caught<B>> {
        let backend = Caught::new(backend);
        let limits = backend.limits();
        let queues = limits.queues.max(1);
        let cap = if settings.memory_cap == 0 { u64::MAX / 2 } else { settings.memory_cap };
        let pages = PageLimits {
            block_alignment: limits.block_alignment,
            max_page: limits.max_buffer_size,
            heap_size: limits.heap_size,
            cap,
            isolate: settings.isolate_buffers,
            // Each purpose has pages of its own: under a small cap one of them must not take all there is.
            page_size: (cap / 16).next_multiple_of(MIN_PAGE_SIZE).min(PAGE_SIZE),
        };
        // A piece of staging fits the page that a full device has left for it.
        let staging_size = settings.staging_size.min(cap.max(MIN_PAGE_SIZE));
        let settings = Settings { staging_size, ..settings };
        let names = Names {
            none: "".into(),
            write: "tg_buffer_write".into(),
            read: "tg_buffer_read".into(),
            read_begin: "tg_read_begin".into(),
            copy: "tg_buffer_copy".into(),
            fill: "tg_buffer_fill".into(),
            map: "tg_buffer_map".into(),
            scope: "scope".into(),
        };
        let core = Core {
            failures: Failures::bounded(settings.max_pending as usize),
            memory: Memory::new(serial, pages),
            streams: match settings.scheduling {
                Scheduling::Event => Box::new(EventStreams::new(settings.slots, queues, settings.max_recorded)),
                Scheduling::Interleave => {
                    Box::new(SchedulerStreams::new(settings.slots, Strategy::Interleave, settings.max_tasks))
                }
                Scheduling::Sequence => {
                    Box::new(SchedulerStreams::new(settings.slots, Strategy::Sequence, settings.max_tasks))
                }
            },
            kernels: HandleTable::new(HandleKind::Kernel, serial),
            scopes: HandleTable::new(HandleKind::Scope, serial),
            reads: HandleTable::new(HandleKind::Read, serial),
            events: HandleTable::new(HandleKind::Event, serial),
            mappings: Mappings::default(),
            staging: VecDeque::new(),
            scratch: Vec::new(),
            held_places: Vec::new(),
            copies: HostCopies::default(),
            in_hand: 0,
            retired: Vec::new(),
            unasked: 0,
            settings,
            names,
            last_serial: 0,
            no_room: None,
        };
        Device {
            core: Arc::new(Mutex::new(core)),
            queues: (0..queues).map(|_| Mutex::new(())).collect(),
            dispatch,
            serial,
            is_parked: false,
            backend: Arc::new(backend),
        }
    }
}

impl<B: Backend> Device<B> {
    /// What it runs on.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The serial in its handles.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// How often work was ordered after other work, and submitted.
    pub fn order_stats(&self) -> OrderStats {
        self.core.lock().streams.stats()
    }

    /// How many ranges of buffers have work on record that others may have to come after.
    pub fn ranges_on_record(&self) -> usize {
        self.core.lock().memory.ranges_on_record()
    }

    fn lock(&self) -> Guard<'_, B> {
        let core = self.core.lock();
        let mut core = Guard { core, backend: &self.backend, was_panicking: std::thread::panicking() };
        core.hear_of_loss(&self.backend);
        core
    }

    /// Runs something short under the lock, and tells the log afterwards.
    fn with<T>(&self, f: impl FnOnce(&mut Core<B>) -> T) -> T {
        let mut core = self.lock();
        let result = f(&mut core);
        self.unlock_and_log(core);
        result
    }

    #[inline]
    fn unlock_and_log(&self, mut core: Guard<'_, B>) {
        core.hear_of_loss(&self.backend);
        if core.failures.has_log() {
            self.unlock_first(core);
        }
    }

    #[cold]
    fn unlock_first(&self, mut core: Guard<'_, B>) {
        let lines = core.failures.take_log();
        drop(core);
        self.log(&lines);
    }

    fn log(&self, lines: &[LogLine]) {
        let tell = || {
            for line in lines {
                let (code, failure) = (line.code as i32, line.failure);
                if line.code == Code::Skipped {
                    tracing::warn!(target: "tidegate", code, failure, "{}", line.message);
                } else {
                    tracing::error!(target: "tidegate", code, failure, "{}", line.message);
                }
            }
        };
        // A listener may panic; the call that it hears of goes on all the same.
        let _ = caught(|| crate::log::tell(self.dispatch.as_ref(), tell));
    }
}
