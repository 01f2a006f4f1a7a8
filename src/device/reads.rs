//! Host reads, waited for at once or asked about later.
//!
//! A read is a copy into a block of its own and an entry of the ledger (R12). From then on what becomes of the source
//! does not matter, and the verdict is that block's claims once the copy is over. Bytes that can be trusted go to the
//! host as soon as somebody looks at the read or waits for its stream, so a read that finished has them even if the device
//! is lost afterwards; claims go to a block without memory, for as long as the read is kept.
//!
//! A call whose time is up leaves its copy, and the next call for the same bytes takes it up, if nothing was enqueued that
//! changes them. So a program that asks again and again has one copy, and its answer as soon as the work is over.

use super::shortage::Shortage;
use super::transfer::write_of;
use super::waits::Deadline;
use super::{Core, Device, Handle, NotHeld, Slice, Turn};
use crate::code::Code;
use crate::error::{Error, Fault, Result, Roots};
use crate::failure::{Access, BlockKey, Bytes, FailureStore, Name, Point, Report, Use};
use crate::memory::{Block, Hazards, Purpose};
use crate::stream::Backend;
use crate::stream::caught::caught;
use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;

/// An asynchronous read.
pub(super) struct Read {
    state: State,
    size: u64,
    /// The serial of the buffer it was asked of, which may be gone by now.
    source: u64,
    /// Held while its bytes go to the host, so that nobody lets go of them meanwhile. Taken before the device's lock; the
    /// log is not told of anything under it.
    fetching: Arc<Mutex<()>>,
}

enum State {
    /// The copy was enqueued. `room` is what the bytes will take on the host: a read that began has it.
    Copying { private: BlockKey, point: Point, room: Vec<u8> },
    /// The bytes. A caller that borrowed them keeps them until the release.
    Here(Arc<Vec<u8>>),
    /// Some byte is claimed.
    Unwritten(BlockKey),
}

/// Copies that are over and may be taken up, at the most: a call that timed out may never come again.
pub(super) const MAX_KEPT_COPIES: usize = 16;

/// The copy of a host read that a call waits for, or waited for in vain.
struct HostCopy {
    /// What it is of; nothing that could be asked for if it was an asynchronous read's.
    from: Bytes,
    point: Point,
    /// In the order in which they were begun.
    number: u64,
    /// Calls that wait for it.
    waiting: u32,
    /// The copy itself was refused, and the bytes were not.
    refused: Option<Box<Fault>>,
}

/// Such copies, by their private blocks.
#[derive(Default)]
pub(super) struct HostCopies {
    by_block: HashMap<BlockKey, HostCopy>,
    begun: u64,
}

impl HostCopies {
    fn add(&mut self, private: BlockKey, from: Bytes, point: Point, waiting: u32) {
        self.begun += 1;
        let number = self.begun;
        self.by_block.insert(private, HostCopy { from, point, number, waiting, refused: None });
    }

    /// When they are over.
    pub(super) fn points(&self) -> impl Iterator<Item = Point> {
        self.by_block.values().map(|copy| copy.point)
    }
}

/// A call waits for a copy, which stays as long, however the call ends.
struct Waiting<'a, B: Backend> {
    device: &'a Device<B>,
    private: BlockKey,
    /// The call has its answer.
    is_over: bool,
}

impl<B: Backend> Drop for Waiting<'_, B> {
    fn drop(&mut self) {
        // The caller may have its bytes by now. A panic here gives the device up, but is not the answer of the read (R12).
        let _ = caught(|| self.device.with(|core| core.stop_waiting(self.private, self.is_over)));
    }
}

/// What a call asks for.
struct Asked<'a> {
    operation: &'static str,
    name: &'a Arc<str>,
    stream: u64,
    slot: u32,
    src: Slice,
    from: Bytes,
    source: u64,
    /// The call waits for it.
    is_waited_for: bool,
    /// An earlier call left a copy of the same bytes, and this one waits for it.
    kept: Option<(BlockKey, Point)>,
}

/// A copy under way, or the claims it came to before anything ran; and why, if that is a failure of its own.
#[allow(clippy::large_enum_variant, reason = "an error carries its data, and this one is taken apart at once")]
enum Begun {
    Copying(BlockKey, Point),
    Unwritten(BlockKey, Option<Box<Error>>),
}

impl<B: Backend> Device<B> {
    /// Reads bytes to the host once everything enqueued before on them is complete. A failed read leaves `dst` as it
    /// was.
    pub fn buffer_read(&self, stream: u64, dst: &mut [u8], src: Slice, timeout_ns: u64) -> Result {
        let deadline = Deadline::after(timeout_ns);
        let name = self.lock().names.read.clone();
        let asked = self.asked("tg_buffer_read", &name, stream, src, Some(dst.len()))?;
        if dst.is_empty() {
            return Ok(());
        }
        let begun = match asked.kept {
            Some((private, point)) => Begun::Copying(private, point),
            None => self.begin(&asked, deadline, Ok(()))?,
        };
        let (private, point) = match begun {
            Begun::Copying(private, point) => (private, point),
            Begun::Unwritten(verdict, failed) => {
                return self.with(|core| {
                    let roots = core.roots_for(verdict, asked.source);
                    core.forget(verdict);
                    Err(match failed.map(|failed| *failed) {
                        Some(Error::Failed(fault, _)) => Error::Failed(fault, roots),
                        Some(other) => other,
                        None => Error::Unwritten(roots),
                    })
                });
            }
        };
        let mut waiting = Waiting { device: self, private, is_over: false };
        if asked.kept.is_none() {
            // A refusal of the batch claims the private block, which is the verdict.
            let _ = self.flush_slot(asked.slot);
        }
        self.wait_for(point, deadline)?;
        waiting.is_over = true;
        let (page, offset) = self.with(|core| core.answer(private, asked.source))?;
        let fetched = self.backend.page_read(&page, offset, dst);
        self.naming_loss(fetched.map_err(|fault| self.with(|core| core.unreadable(&asked, fault))))
    }

    /// Begins a read. It never waits for the device: where it would have to, it is `NotReady` and nothing changed. A
    /// failure gives a live read too, whose bytes that failure claims.
    pub fn read_begin(&self, stream: u64, src: Slice) -> (Handle, Result) {
        match self.try_begin(stream, src) {
            Ok((read, failed)) => (read, failed.map_or(Ok(()), Err)),
            Err(Error::Timeout) => (Handle::default(), Err(Error::NotReady)),
            Err(error) => (Handle::default(), Err(error)),
        }
    }

    fn try_begin(&self, stream: u64, src: Slice) -> Result<(Handle, Option<Error>)> {
        let name = self.lock().names.read_begin.clone();
        let asked = self.asked("tg_read_begin", &name, stream, src, None)?;
        let (from, size) = (asked.from, asked.from.end - asked.from.start);
        let mut room = Vec::new();
        let reserved = usize::try_from(size).is_ok_and(|size| room.try_reserve_exact(size).is_ok());
        let reserved = if reserved {
            Ok(())
        } else {
            Err(Fault::new(Code::OutOfHostMemory, format!("no host memory for the {size} bytes of a read")))
        };
        let (state, failed) = if from.start == from.end {
            (State::Here(Arc::default()), None)
        } else {
            match self.begin(&asked, Deadline::after(0), reserved)? {
                Begun::Copying(private, point) => (State::Copying { private, point, room }, None),
                Begun::Unwritten(verdict, failed) => (State::Unwritten(verdict), failed.map(|failed| *failed)),
            }
        };
        let _until_it_is_the_handles = match state {
            State::Copying { private, .. } => {
                let waiting = Waiting { device: self, private, is_over: false };
                // A refusal of the batch claims the private block, which is the verdict.
                let _ = self.flush_slot(asked.slot);
                Some(waiting)
            }
            _ => None,
        };
        let read = Read { state, size, source: asked.source, fetching: Arc::default() };
        let handle = self.with(|core| {
            if let State::Copying { private, .. } = read.state {
                core.copies.by_block.remove(&private);
            }
            core.reads.insert(read).map_err(|read| {
                core.let_go(read);
                core.reads.refusal("reads")
            })
        });
        Ok((handle?, failed))
    }

    /// Checks what a call asks for.
    fn asked<'a>(
        &self,
        operation: &'static str,
        name: &'a Arc<str>,
        stream: u64,
        src: Slice,
        given: Option<usize>,
    ) -> Result<Asked<'a>> {
        let is_waited_for = given.is_some();
        let mut core = self.lock();
        let from = core.resolve(src, "src.buffer", "src.size")?;
        if let Some(given) = given {
            core.sized("dst_size", given, from)?;
        }
        core.with_memory(from.block, "src.buffer")?;
        core.not_held(&[read_of(from)], "src")?;
        let source = core.memory.blocks[from.block].claims.name.serial;
        let slot = core.streams.slot_of(stream);
        let kept = if is_waited_for { core.take_up(from, slot) } else { None };
        Ok(Asked { operation, name, stream, slot, src, from, source, is_waited_for, kept })
    }

    /// Enqueues the copy, which waits to be submitted. `room` is the failure of whatever the bytes need beyond the copy.
    fn begin(&self, asked: &Asked<'_>, deadline: Deadline, room: std::result::Result<(), Fault>) -> Result<Begun> {
        let mut room = room;
        loop {
            let mut shortage = None;
            match (self.try_to_enqueue(asked, deadline, &room, &mut shortage), shortage) {
                (Err(Error::NotReady), Some(shortage)) => match self.wait_out(shortage, deadline) {
                    // It is the read that fails for it.
                    Err(Error::Failed(fault, _)) => room = Err(*fault),
                    waited => waited?,
                },
                (begun, _) => return begun,
            }
        }
    }

    /// Enqueues the copy. `NotReady` with a shortage: it may go when that is over.
    fn try_to_enqueue(
        &self,
        asked: &Asked<'_>,
        deadline: Deadline,
        room: &std::result::Result<(), Fault>,
        shortage: &mut Option<Shortage>,
    ) -> Result<Begun> {
        let &Asked { operation, name, stream, slot, src, from, .. } = asked;
        let size = from.end - from.start;
        let enqueued = self.enqueue(deadline, |core, backend| {
            core.still_there(src, from, "src.buffer", "src.size")?;
            core.not_held(&[read_of(from)], "src")?;
            let work = core.work(operation, name, stream);
            let lost = core.failures.is_lost();
            if lost || core.ensure_written(&[from]).is_err() {
                // No byte will reach the host.
                let verdict = core.private_block(size, false);
                let to = Bytes { block: verdict, start: 0, end: size };
                let failed = core.fail_lost(&[write_of(to)]);
                if !lost {
                    core.copied(&work, None, to, from);
                }
                return Ok(Turn::Done(Begun::Unwritten(verdict, failed.map(Box::new))));
            }
            if core.lacks_room() {
                return Ok(Turn::Room);
            }
            let private = core.private_block(size, true);
            let to = Bytes { block: private, start: 0, end: size };
            let place = |core: &mut Core<B>, backend: &B| core.place(backend, private, Purpose::StagingDown, size);
            let placed = match room.clone() {
                Err(fault) => Err(fault),
                Ok(()) => match core.take_staging(backend, place) {
                    Err(Shortage::For(fault)) => Err(fault),
                    Err(others) => {
                        core.forget(private);
                        *shortage = Some(others);
                        return Err(Error::NotReady);
                    }
                    Ok(()) => Ok(()),
                },
            };
            if core.failures.is_lost() {
                // Found out just now.
                core.forget(private);
                return Ok(Turn::Flush(SmallVec::new()));
            }
            // The private block may be one that an earlier read let go: a write after its write, like any other.
            let uses = [read_of(from), write_of(to)];
            let need = core.need(slot, &uses);
            if placed.is_ok() && !need.flush.is_empty() {
                core.forget(private);
                return Ok(Turn::Flush(need.flush));
            }
            let mut enqueued = None;
            let result = core.copy_scope(&work, to, from, |core| {
                core.has_room()?;
                placed?;
                let (place, source) = (core.place_of(to)?, core.place_of(from)?);
                let mark = core.record_copy(backend, slot, &need, true, (place, 0), (source, from.start), size)?;
                core.memory.mark(&uses, mark);
                core.copies.add(private, from, mark.point, 1);
                enqueued = Some(mark.point);
                Ok(enqueued)
            });
            core.settle_discarded(backend, slot);
            Ok(Turn::Done(match (result, enqueued) {
                (Ok(()), Some(point)) => {
                    if asked.is_waited_for {
                        core.failures.copies().add(from, slot, private);
                    }
                    Begun::Copying(private, point)
                }
                (result, _) => Begun::Unwritten(core.settled(private), result.err().map(Box::new)),
            }))
        });
        enqueued.map(|(begun, _)| begun)
    }

    /// Whether a read is over: `Unwritten` if some byte is claimed, `NotReady` if it is not.
    pub fn read_poll(&self, read: Handle) -> Result {
        match self.finish_read(read, Deadline::after(0)) {
            Err(Error::Timeout) => Err(Error::NotReady),
            answer => answer,
        }
    }

    /// Waits until a read is over.
    pub fn read_wait(&self, read: Handle, timeout_ns: u64) -> Result {
        self.finish_read(read, Deadline::after(timeout_ns))
    }

    /// The bytes of a read that is over and went well; otherwise what `read_poll` answers.
    pub fn read_data(&self, read: Handle) -> Result<Arc<Vec<u8>>> {
        self.read_poll(read)?;
        self.with(|core| match &core.reads.resolve(read, "read")?.state {
            State::Here(bytes) => Ok(bytes.clone()),
            _ => Err(Error::NotReady),
        })
    }

    /// A report on the bytes of a read, as far as is known.
    pub fn read_report(&self, read: Handle) -> Result<Report> {
        // Whatever it answers, what is known afterwards is what the report is about.
        let _ = self.read_poll(read);
        let roots = self.with(|core| {
            let Read { state, source, .. } = core.reads.resolve(read, "read")?;
            Ok::<_, Error>(match *state {
                State::Copying { private: block, .. } | State::Unwritten(block) => core.roots_for(block, *source),
                State::Here(_) => Roots::default(),
            })
        })?;
        Ok(if roots.ids.is_empty() { Report::empty() } else { self.report_roots(&roots) })
    }

    /// Lets go of a read, over or not, and of its bytes. The null handle is fine.
    pub fn read_release(&self, read: Handle) -> Result {
        if read.is_null() {
            return Ok(());
        }
        let fetching = self.fetching(read)?;
        let _nobody_else = fetching.lock();
        let mut core = self.lock();
        core.reads.check(read, "read")?;
        if let Some(read) = core.reads.remove(read) {
            core.let_go(read);
        }
        Ok(())
    }

    /// Takes the bytes of reads that are over to the host: there they are safe from a loss, and out of the way of others.
    /// Whether there was any.
    pub(super) fn fetch_reads(&self) -> bool {
        let over: SmallVec<[Handle; 8]> = self.with(|core| {
            let Core { reads, streams, .. } = core;
            let is_over =
                |read: &Read| matches!(read.state, State::Copying { point, .. } if streams.is_complete(point));
            if reads.is_empty() {
                return SmallVec::new();
            }
            reads.iter().filter(|(_, read)| is_over(read)).map(|(handle, _)| handle).collect()
        });
        // A read that cannot be fetched may be asked for again, and gives no memory back.
        let is_fetched =
            |read: &Handle| matches!(self.finish_read(*read, Deadline::after(0)), Ok(()) | Err(Error::Unwritten(_)));
        over.into_iter().filter(is_fetched).count() > 0
    }

    fn fetching(&self, read: Handle) -> Result<Arc<Mutex<()>>> {
        self.with(|core| Ok(core.reads.resolve(read, "read")?.fetching.clone()))
    }

    /// Waits for the copy and takes its bytes to the host.
    fn finish_read(&self, read: Handle, deadline: Deadline) -> Result {
        let copying = self.with(|core| match core.reads.resolve(read, "read")?.state {
            State::Copying { point, .. } => Ok::<_, Error>(Some(point)),
            _ => Ok(None),
        })?;
        if let Some(point) = copying {
            match self.wait_for(point, deadline) {
                // The loss claimed the bytes: the verdict says so.
                Err(Error::Failed(fault, _)) if fault.code == Code::DeviceLost => {}
                answer => answer?,
            }
        }
        let fetching = self.fetching(read)?;
        let _nobody_else = fetching.lock();
        let found = self.lock().fetch(read)?;
        let Some(Found { private, page, offset, size, mut room }) = found else {
            return Ok(());
        };
        // There is room already: this cannot fail.
        room.resize(size, 0);
        let fetched = self.backend.page_read(&page, offset, &mut room);
        drop(page);
        let mut core = self.lock();
        match (core.reads.get_mut(read).map(|entry| &mut entry.state), &fetched) {
            (Some(state), Ok(())) => {
                *state = State::Here(Arc::new(room));
                core.forget(private);
            }
            (Some(State::Copying { room: kept, .. }), Err(_)) => {
                room.clear();
                *kept = room;
            }
            _ => {}
        }
        drop(core);
        self.naming_loss(fetched.map_err(Error::from))
    }
}

/// Where a read's bytes lie, and the room for them on the host.
struct Found<P> {
    private: BlockKey,
    page: Arc<P>,
    offset: u64,
    size: usize,
    room: Vec<u8>,
}

fn read_of(bytes: Bytes) -> Use {
    Use { bytes, access: Access::Read }
}

impl<B: Backend> Core<B> {
    /// A block that belongs to no buffer.
    fn private_block(&mut self, size: u64, device_memory: bool) -> BlockKey {
        let name = Name { noun: "buffer", serial: 0, label: self.names.none.clone() };
        let Core { failures, memory, .. } = self;
        memory.blocks.insert_with_key(|key| {
            let claims = failures.new_block(key, name, size, device_memory, None);
            Block { claims, hazards: Hazards::default(), place: None }
        })
    }

    /// The claims of a private block, in a block that has no memory to lose.
    fn settled(&mut self, private: BlockKey) -> BlockKey {
        let end = self.memory.blocks[private].claims.size;
        let verdict = self.private_block(end, false);
        let name = self.names.none.clone();
        let all = |block| Bytes { block, start: 0, end };
        self.hand_over(&name, all(verdict), all(private));
        self.forget(private);
        verdict
    }

    /// The roots on a block of a read, as an answer about its source.
    fn roots_for(&self, block: BlockKey, source: u64) -> Roots {
        let end = self.memory.blocks.get(block).map_or(0, |block| block.claims.size);
        let mut roots = self.ensure_written(&[Bytes { block, start: 0, end }]).err().unwrap_or_default();
        roots.asked.clear();
        roots.asked.push(source);
        roots
    }

    /// What a copy that is over came to: where its bytes lie, or the roots.
    fn verdict(&mut self, private: BlockKey, source: u64) -> Result<(Arc<B::Page>, u64)> {
        self.reconcile(private);
        let roots = self.roots_for(private, source);
        if !roots.ids.is_empty() {
            return Err(Error::Unwritten(roots));
        }
        let place = self.memory.blocks.get(private).and_then(|block| block.place);
        let place = place.ok_or_else(|| Fault::new(Code::Internal, "a read has no memory of its own"))?;
        Ok((self.memory.pages.page(place.page).clone(), place.offset))
    }

    /// What is left to be fetched of a read; nothing if its bytes are here.
    fn fetch(&mut self, read: Handle) -> Result<Option<Found<B::Page>>> {
        let &Read { ref state, source, size, .. } = self.reads.resolve(read, "read")?;
        let (private, point) = match *state {
            State::Here(_) => return Ok(None),
            State::Unwritten(verdict) => return Err(Error::Unwritten(self.roots_for(verdict, source))),
            State::Copying { private, point, .. } => (private, point),
        };
        if !self.streams.is_complete(point) && !self.failures.is_lost() {
            return Err(Error::NotReady);
        }
        let found = self.verdict(private, source);
        let settled = match found {
            Err(Error::Unwritten(_)) => Some(self.settled(private)),
            _ => None,
        };
        let Some(entry) = self.reads.get_mut(read) else { return Ok(None) };
        if let Some(verdict) = settled {
            entry.state = State::Unwritten(verdict);
        }
        let (page, offset) = found?;
        match &mut entry.state {
            State::Copying { room, .. } => {
                let room = std::mem::take(room);
                Ok(Some(Found { private, page, offset, size: size as usize, room }))
            }
            _ => Ok(None),
        }
    }

    /// The copies of reads that are under way.
    pub(super) fn reads_under_way(&self) -> impl Iterator<Item = Point> {
        self.reads.iter().filter_map(|(_, read)| match read.state {
            State::Copying { point, .. } => Some(point),
            _ => None,
        })
    }

    /// The copy of the same bytes that an earlier call left, or that another one waits for.
    fn take_up(&mut self, from: Bytes, slot: u32) -> Option<(BlockKey, Point)> {
        if self.copies.by_block.is_empty() || self.failures.is_lost() || self.ensure_written(&[from]).is_err() {
            return None;
        }
        let private = self.failures.copies().of(from, slot)?;
        let copy = self.copies.by_block.get_mut(&private)?;
        copy.waiting += 1;
        Some((private, copy.point))
    }

    /// A call no longer waits for a copy: it is kept for the next one, unless the call had its answer.
    fn stop_waiting(&mut self, private: BlockKey, is_over: bool) {
        let Some(copy) = self.copies.by_block.get_mut(&private) else { return };
        copy.waiting -= 1;
        if copy.waiting == 0 && is_over {
            self.forget_copy(private);
        }
    }

    fn forget_copy(&mut self, private: BlockKey) {
        if let Some(copy) = self.copies.by_block.remove(&private) {
            self.failures.copies().remove(copy.from, private);
            self.forget(private);
        }
    }

    /// Lets go of copies that are over: of those that nobody can take up, and of the oldest where there are more than
    /// `most` of the others.
    pub(super) fn forget_copies(&mut self, most: usize) {
        if self.copies.by_block.is_empty() {
            return;
        }
        let Core { copies, failures, streams, .. } = self;
        let lost = failures.is_lost();
        let (mut gone, mut kept) = (SmallVec::<[(u64, BlockKey); 8]>::new(), SmallVec::<[(u64, BlockKey); 8]>::new());
        let nobodys = copies.by_block.iter().filter(|(_, copy)| copy.waiting == 0);
        for (private, copy) in nobodys.filter(|(_, copy)| lost || streams.is_complete(copy.point)) {
            let stands = failures.copies().has(copy.from, *private);
            if stands { &mut kept } else { &mut gone }.push((copy.number, *private));
        }
        kept.sort_unstable();
        gone.extend(kept.drain(..kept.len().saturating_sub(most)));
        gone.sort_unstable();
        for (_, private) in gone {
            self.forget_copy(private);
        }
    }

    /// Batches were refused: copies in them failed for that. But if the bytes failed too, that is what a read tells.
    pub(super) fn refuse_copies(&mut self, points: &[Point], fault: &Fault) {
        let mut copies = std::mem::take(&mut self.copies);
        for (private, copy) in copies.by_block.iter_mut().filter(|(_, copy)| points.contains(&copy.point)) {
            // The calls that wait for it hear of that; the next one begins anew.
            self.failures.copies().remove(copy.from, *private);
            if self.ensure_written(&[copy.from]).is_ok() {
                copy.refused = Some(Box::new(fault.clone()));
            }
        }
        self.copies = copies;
    }

    /// What a copy that is over came to, for a call that waited for it.
    fn answer(&mut self, private: BlockKey, source: u64) -> Result<(Arc<B::Page>, u64)> {
        let refused = self.copies.by_block.get(&private).and_then(|copy| copy.refused.clone());
        match (self.verdict(private, source), refused) {
            (Err(Error::Unwritten(roots)), Some(fault)) => Err(Error::Failed(fault, roots)),
            (answer, _) => answer,
        }
    }

    /// The bytes cannot be shown to the host: a failure of the read and of nothing else.
    fn unreadable(&mut self, asked: &Asked<'_>, fault: Fault) -> Error {
        let context = self.work(asked.operation, asked.name, asked.stream).context();
        let set = self.failures.mint(fault.clone(), context, &[asked.source]);
        let mut roots = self.failures.name(set);
        roots.asked.push(asked.source);
        self.failures.release(set);
        Error::Failed(Box::new(fault), roots)
    }

    fn let_go(&mut self, read: Read) {
        match read.state {
            State::Copying { private, point, .. } => {
                self.copies.add(private, Bytes { block: BlockKey::default(), start: 0, end: 0 }, point, 0);
            }
            State::Here(_) => {}
            State::Unwritten(verdict) => self.forget(verdict),
        }
    }

    /// The device goes away, and every read with it.
    pub(super) fn forget_reads(&mut self) {
        let reads: Vec<_> = self.reads.iter().map(|(handle, _)| handle).collect();
        reads.into_iter().for_each(|read| drop(self.reads.remove(read)));
        self.copies = HostCopies::default();
    }
}
