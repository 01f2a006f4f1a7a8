//! Moving bytes: host to device, device to host, device to device, and fills.

use super::shortage::Shortage;
use super::waits::Deadline;
use super::{Core, Device, NotHeld, Slice, Turn};
use crate::code::Code;
use crate::error::{Error, Fault, Result};
use crate::failure::{Access, BlockKey, Bytes, FailureStore, Point, Use, Work};
use crate::memory::{Block, Hazards, Mark, Place, Purpose};
use crate::stream::backend::Binding;
use crate::stream::{Backend, Command, Need};
use smallvec::SmallVec;

/// Pieces that staging is cut into: small enough to still be in a cache when the device copies it.
const STAGING_PIECES: u64 = 16;

/// Host bytes on their way to the device.
enum Staged {
    /// They lie here.
    At(Place),
    /// There is no room for them, which is the failure of the work.
    Failed(Fault),
    /// Nothing is staged for work that will not run anyway.
    Needless,
}

/// Of one write; what the staging memory is cut into may leave a rest.
type StagedPieces = SmallVec<[Staged; STAGING_PIECES as usize + 1]>;

impl Staged {
    fn place(&self) -> std::result::Result<Place, Fault> {
        match self {
            Staged::At(place) => Ok(*place),
            Staged::Failed(fault) => Err(fault.clone()),
            Staged::Needless => Err(Fault::new(Code::Internal, "nothing was staged for work that runs")),
        }
    }
}

impl<B: Backend> Device<B> {
    /// Writes host bytes, in the stream's order. They are copied before it returns. What does not fit the staging waits
    /// for its own predecessors, or is `NotReady` with `no_wait`, nothing changed.
    pub fn buffer_write(&self, stream: u64, dst: Slice, src: &[u8], no_wait: bool) -> Result {
        let (to, slot, chunk, held) = {
            let mut core = self.lock();
            let to = core.resolve(dst, "dst.buffer", "dst.size")?;
            core.sized("src_size", src.len(), to)?;
            core.with_memory(to.block, "dst.buffer")?;
            core.not_held(&[write_of(to)], "dst")?;
            let chunk = (core.settings.staging_size / STAGING_PIECES).max(4096) & !3;
            let slot = core.streams.slot_of(stream);
            (to, slot, chunk, core.streams.is_held_back(slot))
        };
        if src.is_empty() {
            return Ok(());
        }
        let in_pieces = no_wait && src.len() as u64 > chunk;
        if in_pieces {
            let most = self.lock().settings.staging_size.max(chunk);
            if src.len() as u64 > most {
                let (size, flag) = (src.len(), "TG_WRITE_NO_WAIT");
                let why = format_args!("{size} bytes can never be written with {flag}: the staging memory has {most}");
                return Err(Error::misuse(Code::InvalidArgument, "src_size", why));
            }
        }
        let mut staged = SmallVec::new();
        let mut sent_off = false;
        // All of it or nothing, where what is missing would not be waited for.
        while in_pieces || (held && self.with(|core| core.is_held_back(&self.backend, slot))) {
            let fits = src.len() as u64 <= self.with(|core| core.staging_room(slot));
            match if fits { self.stage_all(slot, to, src, chunk) } else { Err(Error::NotReady) } {
                Ok(all) => {
                    staged = all;
                    break;
                }
                // The caller may have let it go by now, and nobody sent it off.
                Err(Error::NotReady) if held && !sent_off => {
                    self.send_off();
                    sent_off = true;
                }
                Err(error) => return Err(error),
            }
        }
        let written = self.write_pieces(stream, slot, dst, to, src.chunks(chunk as usize), &mut staged, no_wait);
        staged.into_iter().for_each(|left| self.unstage(left, false));
        written
    }

    /// Stages all pieces of a write, the first one last; or none of them. A single one is staged when it is enqueued.
    fn stage_all(&self, slot: u32, to: Bytes, src: &[u8], chunk: u64) -> Result<StagedPieces> {
        let mut staged = SmallVec::new();
        if src.len() as u64 <= chunk {
            return Ok(staged);
        }
        for piece in src.chunks(chunk as usize) {
            match self.stage(slot, to, piece, true) {
                Ok(one) => staged.push(one),
                Err(error) => {
                    staged.into_iter().for_each(|one| self.unstage(one, false));
                    return Err(error);
                }
            }
        }
        staged.reverse();
        Ok(staged)
    }

    #[allow(clippy::too_many_arguments)]
    fn write_pieces<'a>(
        &self,
        stream: u64,
        slot: u32,
        dst: Slice,
        to: Bytes,
        pieces: impl Iterator<Item = &'a [u8]>,
        staged: &mut StagedPieces,
        no_wait: bool,
    ) -> Result {
        let mut at = 0u64;
        for piece in pieces {
            let bytes = Bytes { start: to.start + at, end: to.start + at + piece.len() as u64, ..to };
            let mut written = self.write_piece(stream, slot, dst, bytes, piece, staged.pop(), no_wait);
            if at > 0 && written == Err(Error::NotReady) {
                written = self.with(|core| core.broken_off(stream, bytes));
            }
            if bytes.end < to.end && written.is_ok() {
                // The device copies one piece while the host stages the next.
                written = self.flush_slot(slot);
            }
            if let Err(error) = written {
                // What the call was to write and did not is one failure, however many pieces it takes.
                if let Error::Failed(_, roots) = &error
                    && let Some(id) = roots.ids.first()
                {
                    self.with(|core| core.extend(*id, Bytes { start: bytes.end, ..to }));
                }
                return Err(error);
            }
            at += piece.len() as u64;
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn write_piece(
        &self,
        stream: u64,
        slot: u32,
        dst: Slice,
        to: Bytes,
        piece: &[u8],
        mut ready: Option<Staged>,
        no_wait: bool,
    ) -> Result {
        let size = piece.len() as u64;
        loop {
            let staged = ready.take().map_or_else(|| self.stage(slot, to, piece, no_wait), Ok)?;
            let (mut enqueued, mut too_soon) = (false, false);
            let result = self.enqueue_and_flush(|core, backend| {
                core.still_there(dst, to, "dst.buffer", "dst.size")?;
                let uses = [write_of(to)];
                core.not_held(&uses, "dst")?;
                too_soon = core.lacks(&staged, to.block);
                if too_soon {
                    return Err(Error::NotReady);
                }
                let name = core.names.write.clone();
                let work = core.work("tg_buffer_write", &name, stream);
                core.write_step(slot, &work, &uses, |core, need| {
                    let staging = staged.place()?;
                    let (place, for_host) = (core.place_of(to)?, core.memory.is_host_visible(to.block));
                    let mark =
                        core.record_copy(backend, slot, need, for_host, (place, to.start), (staging, 0), size)?;
                    core.staging.push_back((mark.point, staging));
                    enqueued = true;
                    Ok(mark)
                })
            });
            self.unstage(staged, enqueued);
            if !too_soon {
                return result;
            }
        }
    }

    /// Staging of work that was not enqueued is free at once.
    fn unstage(&self, staged: Staged, enqueued: bool) {
        if let Staged::At(place) = staged {
            self.with(|core| {
                core.in_hand -= 1;
                if !enqueued {
                    core.memory.pages.free(place, Hazards::default());
                }
            });
        }
    }

    /// Takes staging for bytes and copies them in; waits for the slot's own earlier staging while there is none, and for
    /// any that goes on by itself where memory is short.
    fn stage(&self, slot: u32, to: Bytes, piece: &[u8], no_wait: bool) -> Result<Staged> {
        let size = piece.len() as u64;
        loop {
            let shortage = {
                let mut core = self.lock();
                if !core.can_write(to.block) {
                    return Ok(Staged::Needless);
                }
                if core.staging_room(slot) < size {
                    let _ = core.refresh(&self.backend);
                }
                // What is held back gives nothing back: the little that is staged behind it comes on top.
                let waits = core.staging_room(slot) < size && !core.streams.is_held_back(slot);
                let oldest = if waits { core.oldest_staging(slot) } else { None };
                let taken = match oldest {
                    Some(point) => Err(Shortage::Until(point)),
                    None => core.take_staging(&self.backend, |core, backend| {
                        let Core { memory, streams, .. } = core;
                        let is_past = |mark: Mark| streams.is_past(mark.point);
                        memory.pages.allocate(backend, Purpose::StagingUp, size, is_past)
                    }),
                };
                match taken {
                    Ok((place, _)) => {
                        let page = core.memory.pages.page(place.page).clone();
                        core.in_hand += 1;
                        self.unlock_and_log(core);
                        return Ok(self.fill_staging(&page, place, piece));
                    }
                    Err(Shortage::For(fault)) => {
                        self.unlock_and_log(core);
                        return Ok(Staged::Failed(fault));
                    }
                    Err(shortage) => {
                        self.unlock_and_log(core);
                        shortage
                    }
                }
            };
            match shortage {
                Shortage::Until(point) if no_wait => {
                    // Who asks again and again gets there some day.
                    let _ = self.flush_slot(point.slot);
                    return Err(Error::NotReady);
                }
                Shortage::Calls if no_wait => return Err(Error::NotReady),
                _ => {}
            }
            match self.wait_out(shortage, Deadline::after(super::FOREVER)) {
                Err(Error::Failed(fault, _)) => return Ok(Staged::Failed(*fault)),
                waited => waited?,
            }
        }
    }

    fn fill_staging(&self, page: &B::Page, place: Place, piece: &[u8]) -> Staged {
        match self.backend.page_write(page, place.offset, piece) {
            Ok(()) => Staged::At(place),
            Err(fault) => {
                self.unstage(Staged::At(place), false);
                Staged::Failed(fault)
            }
        }
    }

    /// Copies bytes on the device; claims move with them (R10).
    pub fn buffer_copy(&self, stream: u64, dst: Slice, src: Slice) -> Result {
        let (to, from, slot, name) = {
            let mut core = self.lock();
            let to = core.resolve(dst, "dst.buffer", "dst.size")?;
            let from = core.resolve(src, "src.buffer", "src.size")?;
            if to.end - to.start != from.end - from.start {
                let (to, from) = (to.end - to.start, from.end - from.start);
                let why = format_args!("{to} bytes cannot take a copy of {from} bytes");
                return Err(Error::misuse(Code::InvalidArgument, "dst.size", why));
            }
            core.with_memory(to.block, "dst.buffer")?;
            core.with_memory(from.block, "src.buffer")?;
            if to.block == from.block && to.start < from.end && from.start < to.end {
                return Err(Error::misuse(Code::InvalidArgument, "src", format_args!("the ranges overlap")));
            }
            core.not_held(&[write_of(to)], "dst")?;
            core.not_held(&[Use { bytes: from, access: Access::Read }], "src")?;
            (to, from, core.streams.slot_of(stream), core.names.copy.clone())
        };
        if to.start == to.end {
            return Ok(());
        }
        let uses = [write_of(to), Use { bytes: from, access: Access::Read }];
        self.enqueue_and_flush(|core, backend| {
            core.still_there(dst, to, "dst.buffer", "dst.size")?;
            core.still_there(src, from, "src.buffer", "src.size")?;
            core.not_held(&uses, "dst")?;
            if let Some(error) = core.fail_lost(&uses) {
                return Err(error);
            }
            let need = core.need(slot, &uses);
            if !need.flush.is_empty() {
                return Ok(Turn::Flush(need.flush));
            }
            let work = core.work("tg_buffer_copy", &name, stream);
            let result = core.copy_scope(&work, to, from, |core| {
                core.has_room()?;
                let size = to.end - to.start;
                let (source, place) = (core.place_of(from)?, core.place_of(to)?);
                let for_host = core.memory.is_host_visible(to.block);
                let (place, source) = ((place, to.start), (source, from.start));
                let mark = core.record_copy(backend, slot, &need, for_host, place, source, size)?;
                core.memory.mark(&uses, mark);
                Ok(Some(mark.point))
            });
            core.settle_discarded(slot);
            result.map(Turn::Done)
        })
    }

    /// Fills bytes with a pattern of 1, 2 or 4 bytes, beginning at the slice's first byte.
    pub fn buffer_fill(&self, stream: u64, dst: Slice, pattern: u32, pattern_size: u32) -> Result {
        if !matches!(pattern_size, 1 | 2 | 4) {
            let why = format_args!("a pattern has 1, 2 or 4 bytes, not {pattern_size}");
            return Err(Error::misuse(Code::InvalidArgument, "pattern_size", why));
        }
        let (to, slot, name) = {
            let mut core = self.lock();
            let to = core.resolve(dst, "dst.buffer", "dst.size")?;
            core.with_memory(to.block, "dst.buffer")?;
            core.not_held(&[write_of(to)], "dst")?;
            (to, core.streams.slot_of(stream), core.names.fill.clone())
        };
        if !(to.end - to.start).is_multiple_of(u64::from(pattern_size)) {
            let why = format_args!("{} bytes are not a whole number of patterns", to.end - to.start);
            return Err(Error::misuse(Code::InvalidArgument, "dst.size", why));
        }
        if to.start == to.end {
            return Ok(());
        }
        let pattern = pattern.to_le_bytes();
        let byte_at = |at: u64| pattern[((at - to.start) % u64::from(pattern_size)) as usize];
        // Vulkan fills multiples of four at multiples of four; ragged ends are copied.
        let middle =
            (to.start.next_multiple_of(4).min(to.end), (to.end & !3).max(to.start.next_multiple_of(4)).min(to.end));
        let middle = if middle.0 < middle.1 { middle } else { (to.end, to.end) };
        let ends: Vec<u8> = (to.start..middle.0).chain(middle.1..to.end).map(byte_at).collect();
        let word = u32::from_le_bytes(std::array::from_fn(|i| byte_at(middle.0 + i as u64)));
        loop {
            let staged = if ends.is_empty() { None } else { Some(self.stage(slot, to, &ends, false)?) };
            let (mut enqueued, mut too_soon) = (false, false);
            let result = self.enqueue_and_flush(|core, backend| {
                core.still_there(dst, to, "dst.buffer", "dst.size")?;
                let uses = [write_of(to)];
                core.not_held(&uses, "dst")?;
                too_soon = staged.as_ref().is_some_and(|staged| core.lacks(staged, to.block));
                if too_soon {
                    return Err(Error::NotReady);
                }
                let work = core.work("tg_buffer_fill", &name, stream);
                core.write_step(slot, &work, &uses, |core, need| {
                    let place = core.place_of(to)?;
                    let for_host = core.memory.is_host_visible(to.block);
                    let staged = staged.as_ref().map(Staged::place).transpose()?;
                    let Core { memory, streams, staging, .. } = core;
                    let page = memory.pages.page(place.page);
                    let mut commands: SmallVec<[Command<'_, B>; 3]> = SmallVec::new();
                    if middle.0 < middle.1 {
                        let to = Binding { page, offset: place.offset + middle.0, size: middle.1 - middle.0 };
                        commands.push(Command::Fill { to, pattern: word });
                    }
                    if let Some(staged) = staged {
                        let page_of_ends = memory.pages.page(staged.page);
                        let head = middle.0 - to.start;
                        for (start, end, skip) in [(to.start, middle.0, 0), (middle.1, to.end, head)] {
                            if start < end {
                                let size = end - start;
                                let to = Binding { page, offset: place.offset + start, size };
                                let from = Binding { page: page_of_ends, offset: staged.offset + skip, size };
                                commands.push(Command::Copy { to, from });
                            }
                        }
                    }
                    let mark = streams.take(backend, slot, need, for_host, &commands)?;
                    staging.extend(staged.map(|staged| (mark.point, staged)));
                    enqueued = true;
                    Ok(mark)
                })
            });
            if let Some(staged) = staged {
                self.unstage(staged, enqueued);
            }
            if !too_soon {
                return result;
            }
        }
    }
}

/// Memory ran out, and may be there again later.
pub(super) fn is_short(fault: &Fault) -> bool {
    matches!(fault.code, Code::OutOfDeviceMemory | Code::OutOfHostMemory)
}

/// A token has no memory of ours to move bytes to or from.
pub(super) fn with_memory(block: &Block, field: &'static str) -> Result {
    if block.place.is_none() && block.claims.is_allocated() {
        return Err(Error::misuse(Code::InvalidArgument, field, format_args!("a token has no memory of ours")));
    }
    Ok(())
}

pub(super) fn write_of(bytes: Bytes) -> Use {
    Use { bytes, access: Access::Write }
}

impl<B: Backend> Core<B> {
    /// Sizes given twice must agree.
    pub(super) fn sized(&self, field: &'static str, given: usize, bytes: Bytes) -> Result {
        let size = bytes.end - bytes.start;
        if given as u64 != size {
            let why = format_args!("{given} bytes were given for a slice of {size} bytes");
            return Err(Error::misuse(Code::InvalidArgument, field, why));
        }
        Ok(())
    }

    pub(super) fn with_memory(&self, block: BlockKey, field: &'static str) -> Result {
        self.memory.blocks.get(block).map_or(Ok(()), |block| with_memory(block, field))
    }

    /// Whether work that writes the block may run, for all that is known of the block.
    fn can_write(&self, block: BlockKey) -> bool {
        !self.failures.is_lost() && self.memory.blocks.get(block).is_some_and(|block| block.place.is_some())
    }

    /// Nothing was staged, and now the work could run: another thread allocated the buffer meanwhile.
    fn lacks(&self, staged: &Staged, block: BlockKey) -> bool {
        matches!(staged, Staged::Needless) && self.can_write(block)
    }

    /// There is room for more unfinished work, or why not.
    pub(super) fn has_room(&mut self) -> std::result::Result<(), Fault> {
        self.no_room.take().map_or(Ok(()), |fault| Err(*fault))
    }

    /// Where bytes that are about to be used lie.
    pub(super) fn place_of(&self, bytes: Bytes) -> std::result::Result<Place, Fault> {
        let place = self.memory.blocks.get(bytes.block).and_then(|block| block.place);
        place.ok_or_else(|| Fault::new(Code::Internal, "bytes without a place"))
    }

    /// Work that writes: lost, flushed for, skipped, or recorded, and then marked.
    fn write_step(
        &mut self,
        slot: u32,
        work: &Work<'_>,
        uses: &[Use],
        record: impl FnOnce(&mut Self, &Need) -> std::result::Result<Mark, Fault>,
    ) -> Result<Turn<()>> {
        if let Some(error) = self.fail_lost(uses) {
            return Err(error);
        }
        let need = self.need(slot, uses);
        if !need.flush.is_empty() {
            return Ok(Turn::Flush(need.flush));
        }
        self.enter_or_skip(work, uses).map_err(Error::Skipped)?;
        let result = self.write_scope(work, uses, |core| {
            core.has_room()?;
            let mark = record(core, &need)?;
            core.memory.mark(uses, mark);
            Ok(Some(mark.point))
        });
        self.settle_discarded(slot);
        result.map(Turn::Done)
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn record_copy(
        &mut self,
        backend: &B,
        slot: u32,
        need: &Need,
        for_host: bool,
        to: (Place, u64),
        from: (Place, u64),
        size: u64,
    ) -> std::result::Result<Mark, Fault> {
        let Core { memory, streams, .. } = self;
        let (to_page, from_page) = (memory.pages.page(to.0.page), memory.pages.page(from.0.page));
        let to = Binding { page: to_page, offset: to.0.offset + to.1, size };
        let from = Binding { page: from_page, offset: from.0.offset + from.1, size };
        streams.take(backend, slot, need, for_host, &[Command::Copy { to, from }])
    }

    /// Part of a write is enqueued, and what holds the rest up only the caller can let go on: too late to say that
    /// nothing changed.
    fn broken_off(&mut self, stream: u64, rest: Bytes) -> Result {
        let name = self.names.write.clone();
        let work = self.work("tg_buffer_write", &name, stream);
        let fault = Fault::new(Code::LimitExceeded, "there is no room for more unfinished work");
        self.write_scope(&work, &[write_of(rest)], |_| Err(fault))
    }

    /// Whether only the caller can let the slot's work go on.
    fn is_held_back(&mut self, backend: &B, slot: u32) -> bool {
        self.streams.is_held_back(slot) && {
            let _ = self.refresh(backend);
            self.streams.is_held_back(slot)
        }
    }

    /// Bytes the slot may still stage before its own earlier staging has to be over.
    fn staging_room(&self, slot: u32) -> u64 {
        let used: u64 = self.staging.iter().filter(|(point, _)| point.slot == slot).map(|(_, place)| place.size).sum();
        self.settings.staging_size.saturating_sub(used)
    }

    fn oldest_staging(&self, slot: u32) -> Option<Point> {
        self.staging.iter().find(|(point, _)| point.slot == slot).map(|(point, _)| *point)
    }
}
