//! Writing host bytes: staged in pieces, so that the device copies one while the host stages the next.

use super::staging::Staged;
use super::transfer::write_of;
use super::waits::Deadline;
use super::{Core, Device, FOREVER, NotHeld, Slice};
use crate::code::Code;
use crate::error::{Error, Fault, Result};
use crate::failure::{Bytes, FailureStore, Point};
use crate::stream::Backend;
use smallvec::SmallVec;

/// Pieces that staging is cut into: small enough to still be in a cache when the device copies it.
const STAGING_PIECES: u64 = 16;

/// Of one write; what the staging memory is cut into may leave a rest.
type StagedPieces = SmallVec<[Staged; STAGING_PIECES as usize + 1]>;

/// A write, checked.
struct Write<'a> {
    stream: u64,
    slot: u32,
    dst: Slice,
    to: Bytes,
    src: &'a [u8],
    /// Bytes of a piece, at the most.
    chunk: usize,
    /// The caller does not want to wait.
    no_wait: bool,
    /// Work of the slot was held back: only the caller might have ended a wait.
    was_held: bool,
}

impl<B: Backend> Device<B> {
    /// Writes host bytes, in the stream's order. They are copied before it returns. What does not fit the staging waits
    /// for its own predecessors, or is `NotReady` with `no_wait`, nothing changed.
    pub fn buffer_write(&self, stream: u64, dst: Slice, src: &[u8], no_wait: bool) -> Result {
        let write = {
            let mut core = self.lock();
            let to = core.resolve(dst, "dst.buffer", "dst.size")?;
            core.sized("src_size", src.len(), to)?;
            core.with_memory(to.block, "dst.buffer")?;
            core.not_held(&[write_of(to)], "dst")?;
            let chunk = ((core.settings.staging_size / STAGING_PIECES).max(4096) & !3) as usize;
            let slot = core.streams.slot_of(stream);
            Write { stream, slot, dst, to, src, chunk, no_wait, was_held: core.streams.is_held_back(slot) }
        };
        if src.is_empty() {
            return Ok(());
        }
        let mut staged = self.stage_ahead(&write)?;
        let written = self.write_pieces(&write, &mut staged);
        staged.into_iter().for_each(|left| self.unstage(left, false));
        written
    }

    /// All pieces or nothing, where what is missing would not be waited for. Nothing where it would: each piece is
    /// staged in its turn then.
    fn stage_ahead(&self, write: &Write<'_>) -> Result<StagedPieces> {
        let Write { slot, src, chunk, .. } = *write;
        let in_pieces = write.no_wait && src.len() > chunk;
        if in_pieces {
            let most = self.lock().settings.staging_size.max(chunk as u64);
            if src.len() as u64 > most {
                let (size, flag) = (src.len(), "TG_WRITE_NO_WAIT");
                let why = format_args!("{size} bytes can never be written with {flag}: the staging memory has {most}");
                return Err(Error::misuse(Code::InvalidArgument, "src_size", why));
            }
        }
        // A write that will be skipped needs no room.
        let has_room = |core: &mut Core<B>| {
            !core.can_write(write.to.block) || core.has_room_for(&self.backend, src.len().div_ceil(chunk))
        };
        if write.no_wait && !self.with(has_room) {
            return Err(Error::NotReady);
        }
        let mut sent_off = false;
        while in_pieces || (write.was_held && self.with(|core| core.is_held_back(&self.backend, slot))) {
            let fits = src.len() as u64 <= self.with(|core| core.staging_room(slot));
            match if fits { self.stage_all(write) } else { Err(Error::NotReady) } {
                // The caller may have released it by now, and no call has submitted it since.
                Err(Error::NotReady) if write.was_held && !sent_off => {
                    self.send_off();
                    sent_off = true;
                }
                staged => return staged,
            }
        }
        Ok(SmallVec::new())
    }

    /// Stages all pieces of a write, the first one last; or none of them. A single one is staged when it is enqueued.
    fn stage_all(&self, write: &Write<'_>) -> Result<StagedPieces> {
        let mut staged = SmallVec::new();
        if write.src.len() <= write.chunk {
            return Ok(staged);
        }
        for piece in write.src.chunks(write.chunk) {
            match self.stage(write.slot, write.to, piece, true) {
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

    fn write_pieces(&self, write: &Write<'_>, staged: &mut StagedPieces) -> Result {
        let Write { stream, to, .. } = *write;
        let mut bytes = Bytes { end: to.start, ..to };
        let mut first: Option<Point> = None;
        for piece in write.src.chunks(write.chunk) {
            bytes = Bytes { start: bytes.end, end: bytes.end + piece.len() as u64, ..to };
            let is_last = bytes.end == to.end;
            let mut written = match self.write_piece(write, bytes, piece, staged.pop()) {
                Ok((Some(last), is_due)) if is_due || !is_last => self.flush_own(*first.get_or_insert(last), last),
                enqueued => enqueued.map(drop),
            };
            if bytes.start > to.start && written == Err(Error::NotReady) {
                written = self.with(|core| core.broken_off(stream, bytes));
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
        }
        Ok(())
    }

    /// The piece's point if it has one, and whether its slot is to be flushed.
    fn write_piece(
        &self,
        write: &Write<'_>,
        to: Bytes,
        piece: &[u8],
        mut ready: Option<Staged>,
    ) -> Result<(Option<Point>, bool)> {
        let Write { stream, slot, dst, no_wait, .. } = *write;
        let size = piece.len() as u64;
        loop {
            let staged = ready.take().map_or_else(|| self.stage(slot, to, piece, no_wait), Ok)?;
            let (mut enqueued, mut too_soon) = (None, false);
            let result = self.enqueue(Deadline::after(FOREVER), |core, backend| {
                core.still_there(dst, to, "dst.buffer", "dst.size")?;
                let uses = [write_of(to)];
                core.not_held(&uses, "dst")?;
                too_soon = core.lacks(&staged, to.block);
                if too_soon {
                    return Err(Error::NotReady);
                }
                let name = core.names.write.clone();
                let work = core.work("tg_buffer_write", &name, stream);
                core.write_step(backend, slot, &work, &uses, |core, need| {
                    let staging = staged.place()?;
                    let (place, for_host) = (core.place_of(to)?, core.memory.is_host_visible(to.block));
                    let mark =
                        core.record_copy(backend, slot, need, for_host, (place, to.start), (staging, 0), size)?;
                    core.staging.push_back((mark.point, staging));
                    enqueued = Some(mark.point);
                    Ok(mark)
                })
            });
            self.unstage(staged, enqueued.is_some());
            if !too_soon {
                return result.map(|((), due)| (enqueued, due.is_some()));
            }
        }
    }
}

impl<B: Backend> Core<B> {
    /// Part of a write is enqueued, and what holds the rest up only the caller can let go on: too late to say that
    /// nothing changed.
    fn broken_off(&mut self, stream: u64, rest: Bytes) -> Result {
        let name = self.names.write.clone();
        let work = self.work("tg_buffer_write", &name, stream);
        let fault = Fault::new(Code::LimitExceeded, "there is no room for more unfinished work");
        self.write_scope(&work, &[write_of(rest)], |_| Err(fault))
    }

    /// Whether so many more pieces of work may be unfinished without waiting for any; all there may be is enough.
    fn has_room_for(&mut self, backend: &B, pieces: usize) -> bool {
        let most = self.settings.max_pending as usize;
        let is_full = |core: &Self| core.failures.ledger().len() + pieces.min(most) > most;
        if is_full(self) {
            let _ = self.refresh(backend);
        }
        !is_full(self)
    }

    /// Whether only the caller can let the slot's work go on.
    fn is_held_back(&mut self, backend: &B, slot: u32) -> bool {
        self.streams.is_held_back(slot) && {
            let _ = self.refresh(backend);
            self.streams.is_held_back(slot)
        }
    }
}
