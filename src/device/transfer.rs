//! Moving bytes on the device: copies and fills.

use super::staging::Staged;
use super::{Core, Device, NotHeld, Slice, Turn};
use crate::code::Code;
use crate::error::{Error, Fault, Result};
use crate::failure::{Access, BlockKey, Bytes, FailureStore, Use, Work};
use crate::memory::{Block, Mark, Place};
use crate::stream::backend::Binding;
use crate::stream::{Backend, Command, Need};
use smallvec::SmallVec;

impl<B: Backend> Device<B> {
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
            let work = core.work("tg_buffer_copy", &name, stream);
            core.enter_copy(&work, to, from).map_err(Error::Skipped)?;
            let need = core.need(slot, &uses);
            if !need.flush.is_empty() {
                return Ok(Turn::Flush(need.flush));
            }
            if core.lacks_room() {
                return Ok(Turn::Room);
            }
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
            core.settle_discarded(backend, slot);
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
        let byte_at = |at: u64| pattern[(at.wrapping_sub(to.start) % u64::from(pattern_size)) as usize];
        // Vulkan fills multiples of four at multiples of four; ragged ends are copied.
        let first = to.start.checked_next_multiple_of(4).map_or(to.end, |first| first.min(to.end));
        let middle = if first < to.end & !3 { (first, to.end & !3) } else { (to.end, to.end) };
        let ends: Vec<u8> = (to.start..middle.0).chain(middle.1..to.end).map(byte_at).collect();
        let word = u32::from_le_bytes(std::array::from_fn(|i| byte_at(middle.0.wrapping_add(i as u64))));
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
                core.write_step(backend, slot, &work, &uses, |core, need| {
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

    /// There is room for more unfinished work, or why not.
    pub(super) fn has_room(&mut self) -> std::result::Result<(), Fault> {
        self.no_room.take().map_or(Ok(()), |fault| Err(*fault))
    }

    /// Where bytes that are about to be used lie.
    pub(super) fn place_of(&self, bytes: Bytes) -> std::result::Result<Place, Fault> {
        let place = self.memory.blocks.get(bytes.block).and_then(|block| block.place);
        place.ok_or_else(|| Fault::new(Code::Internal, "bytes without a place"))
    }

    /// Work that writes: lost, skipped, flushed for, or recorded, and then marked.
    pub(super) fn write_step(
        &mut self,
        backend: &B,
        slot: u32,
        work: &Work<'_>,
        uses: &[Use],
        record: impl FnOnce(&mut Self, &Need) -> std::result::Result<Mark, Fault>,
    ) -> Result<Turn<()>> {
        if let Some(error) = self.fail_lost(uses) {
            return Err(error);
        }
        self.enter_or_skip(work, uses).map_err(Error::Skipped)?;
        let need = self.need(slot, uses);
        if !need.flush.is_empty() {
            return Ok(Turn::Flush(need.flush));
        }
        if self.lacks_room() {
            return Ok(Turn::Room);
        }
        let result = self.write_scope(work, uses, |core| {
            core.has_room()?;
            let mark = record(core, &need)?;
            core.memory.mark(uses, mark);
            Ok(Some(mark.point))
        });
        self.settle_discarded(backend, slot);
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
}
