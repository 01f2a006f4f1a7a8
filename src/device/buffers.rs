//! Making and destroying buffers. A buffer whose allocation fails is a live handle all the same (R7).

use super::shortage::is_short;
use super::waits::Deadline;
use super::{BufferDesc, BufferInfo, BufferMemory, Core, Device, FOREVER, Handle, MemoryStats};
use crate::code::Code;
use crate::error::{Error, Fault, Result, Roots, text};
use crate::failure::{BlockKey, Context, FailureStore, Name, Point};
use crate::memory::{Block, Buffer, Hazards, MemoryKind, Place, Purpose};
use crate::room::no_memory;
use crate::stream::Backend;
use smallvec::SmallVec;

pub(super) const KINDS: [MemoryKind; 3] = [MemoryKind::Device, MemoryKind::Upload, MemoryKind::Readback];
/// Idle pages that a destroy looks at.
const LOOKED_AT: usize = 8;

/// Work that gives memory back when it is over.
type Behind = SmallVec<[Point; 8]>;
/// Memory for a buffer, if it is to have any.
type Taken = std::result::Result<Option<Place>, Fault>;

/// How an attempt that needs memory ended.
enum Attempt<T> {
    /// It is done.
    Done(T),
    /// Nothing changed: some memory comes back from work in flight.
    Behind,
}

impl<B: Backend> Device<B> {
    /// A buffer; its handle is live even if the allocation failed, and null on misuse.
    pub fn buffer_create(&self, desc: &BufferDesc<'_>) -> (Handle, Result) {
        if desc.size == 0 {
            let error =
                Error::misuse(Code::InvalidArgument, "desc.size", format_args!("a buffer has at least one byte"));
            return (Handle::default(), Err(error));
        }
        self.with_memory_that_comes_back(|core, behind| core.buffer_create(&self.backend, desc, behind))
    }

    /// Tries once; and once more when all is over that gives memory back, if it says so.
    fn with_memory_that_comes_back<T>(&self, attempt: impl Fn(&mut Core<B>, Option<&mut Behind>) -> Attempt<T>) -> T {
        let mut behind = Behind::new();
        loop {
            let may_wait = behind.is_empty();
            let attempt = self.with(|core| attempt(core, may_wait.then_some(&mut behind)));
            match attempt {
                Attempt::Done(answer) => return answer,
                Attempt::Behind => {
                    for point in &behind {
                        // The batch may still be open. If it is refused or the wait fails, the next attempt tells.
                        let _ = self.flush_slot(point.slot);
                        let _ = self.wait_for(*point, Deadline::after(FOREVER));
                    }
                    self.fetch_reads();
                }
            }
        }
    }

    /// Destroys it; work in flight goes on. The null handle is fine.
    pub fn buffer_destroy(&self, buffer: Handle) -> Result {
        if buffer.is_null() {
            return Ok(());
        }
        self.with(|core| {
            let block = core.memory.buffers.resolve(buffer, "buffer")?.block;
            if core.memory.blocks[block].claims.is_held() {
                return Err(Error::misuse(
                    Code::WrongState,
                    "buffer",
                    format_args!("bytes of it are held by an open scope or mapping"),
                ));
            }
            core.memory.buffers.remove(buffer);
            core.forget_mappings_of(block);
            core.forget(block);
            core.give_back_some(&self.backend, LOOKED_AT);
            Ok(())
        })
    }

    /// Tries again to allocate a buffer that has no bytes; `size` 0: as large as before.
    pub fn buffer_allocate(&self, buffer: Handle, size: u64) -> Result {
        self.with_memory_that_comes_back(|core, behind| {
            let entry = match core.memory.buffers.resolve(buffer, "buffer") {
                Ok(entry) => entry.clone(),
                Err(error) => return Attempt::Done(Err(error)),
            };
            let size = if size == 0 { entry.size } else { size };
            if core.memory.blocks[entry.block].claims.is_allocated() {
                let why = format_args!("the buffer is allocated");
                return Attempt::Done(Err(Error::misuse(Code::WrongState, "buffer", why)));
            }
            let Some(taken) = core.take_memory(&self.backend, entry.purpose, size, behind) else {
                return Attempt::Behind;
            };
            let allocated = core.allocate(buffer, size, taken, "tg_buffer_allocate");
            if allocated.is_ok() {
                core.allocated(entry.block, size);
            }
            Attempt::Done(allocated)
        })
    }

    /// What a buffer is.
    pub fn buffer_info(&self, buffer: Handle) -> Result<BufferInfo> {
        self.with(|core| {
            let entry = core.memory.buffers.resolve(buffer, "buffer")?.clone();
            if core.failures.is_lost() {
                core.reconcile(entry.block);
            }
            let Block { claims, place, .. } = &core.memory.blocks[entry.block];
            let address = match place {
                // A lost device has none any more.
                Some(place) if !core.failures.is_lost() => {
                    let page = self.backend.page_device_address(core.memory.pages.page(place.page));
                    if page == 0 { 0 } else { page + place.offset }
                }
                _ => 0,
            };
            Ok(BufferInfo {
                size: entry.size,
                memory: match entry.purpose {
                    Some(purpose) => BufferMemory::Managed(purpose.kind()),
                    None => BufferMemory::Token,
                },
                stream: entry.stream,
                allocated: claims.is_allocated(),
                claimed: claims.is_claimed(),
                address,
                label: text(format_args!("{}", claims.name.label)),
                tag: entry.tag,
            })
        })
    }

    /// Memory in use.
    pub fn memory_stats(&self) -> MemoryStats {
        let core = self.lock();
        let mut stats = MemoryStats::default();
        for (i, kind) in KINDS.into_iter().enumerate() {
            let usage = core.memory.pages.usage(kind);
            stats.reserved[i] = usage.reserved;
            stats.used[i] = usage.used;
            stats.peak[i] = usage.peak;
            stats.largest_free[i] = core.memory.pages.largest_free(kind);
        }
        stats
    }

    /// Gives idle pages back to the driver. Bytes given back.
    pub fn trim(&self) -> Result<u64> {
        let trimmed = self.with(|core| {
            core.refresh(&self.backend)?;
            core.usable()?;
            core.forget_copies(0);
            Ok(core.give_back_idle(&self.backend))
        });
        self.naming_loss(trimmed)
    }
}

impl<B: Backend> Core<B> {
    /// Gives idle pages back to the driver. Bytes given back: none of a lost device, of which nobody knows what it is
    /// still working on.
    pub(super) fn give_back_idle(&mut self, backend: &B) -> u64 {
        if self.failures.is_lost() {
            return 0;
        }
        let Core { memory, streams, .. } = self;
        memory.pages.trim(backend, |mark| streams.is_done_with(mark.point))
    }

    /// The same of pages beyond one of a kind, of which at most so many are looked at.
    pub(super) fn give_back_some(&mut self, backend: &B, most: usize) {
        if !self.failures.is_lost() {
            let Core { memory, streams, .. } = self;
            memory.pages.give_back(backend, most, |mark| streams.is_done_with(mark.point));
        }
    }

    fn buffer_create(
        &mut self,
        backend: &B,
        desc: &BufferDesc<'_>,
        behind: Option<&mut Behind>,
    ) -> Attempt<(Handle, Result)> {
        let purpose = match desc.memory {
            BufferMemory::Managed(kind) => Some(Purpose::Buffers(kind)),
            BufferMemory::Token => None,
        };
        let wanted = purpose.filter(|_| !desc.unallocated);
        let Some(taken) = self.take_memory(backend, wanted, desc.size, behind) else {
            return Attempt::Behind;
        };
        let name = Name { noun: "buffer", serial: self.next_serial(), label: self.label(desc.label) };
        let fresh = (self.settings.track_uninitialized && purpose.is_some() && !desc.unallocated).then(|| Context {
            operation: "tg_buffer_create",
            kernel: self.names.none.clone(),
            stream: Some(desc.stream),
            label: name.label.clone(),
            tag: desc.tag,
        });
        // Before there is a block: what is made from here on is taken back or kept.
        if self.memory.make_room(1).is_err() {
            taken.ok().flatten().iter().for_each(|place| self.memory.pages.free(place));
            return Attempt::Done((Handle::default(), Err(no_memory().into())));
        }
        let Core { failures, memory, .. } = self;
        let block = memory.blocks.insert_with_key(|key| {
            let claims = failures.new_block(key, name, desc.size, purpose.is_some(), fresh);
            Block { claims, hazards: Hazards::default(), place: None }
        });
        let buffer = Buffer { block, size: desc.size, purpose, stream: desc.stream, tag: desc.tag };
        let Ok(handle) = self.memory.buffers.insert(buffer) else {
            taken.ok().flatten().iter().for_each(|place| self.memory.pages.free(place));
            self.forget(block);
            return Attempt::Done((Handle::default(), Err(self.memory.buffers.refusal("buffers").into())));
        };
        if desc.unallocated {
            let fault = Fault::new(Code::NeverWritten, "the buffer was not allocated yet");
            let context = self.buffer_context("tg_buffer_create", block, desc.stream, desc.tag);
            self.fail_unallocated(block, fault, context);
            return Attempt::Done((handle, Ok(())));
        }
        Attempt::Done((handle, self.allocate(handle, desc.size, taken, "tg_buffer_create")))
    }

    /// Takes memory, if any is wanted. Nothing is taken where some comes back from work in flight, which goes into
    /// `behind`: a caller that gives it can wait.
    fn take_memory(
        &mut self,
        backend: &B,
        purpose: Option<Purpose>,
        size: u64,
        behind: Option<&mut Behind>,
    ) -> Option<Taken> {
        let Some(purpose) = purpose else { return Some(Ok(None)) };
        // A lost device is not asked.
        if let (true, Some((fault, _))) = (self.failures.is_lost(), self.failures.loss_fault()) {
            return Some(Err(fault));
        }
        let take = |core: &mut Self| {
            let Core { memory, streams, .. } = core;
            memory.pages.allocate(backend, purpose, size, |mark| streams.is_done_with(mark.point))
        };
        let taken = take(self);
        if !taken.as_ref().is_err_and(is_short) || !self.memory.pages.can_hold(purpose, size) {
            return Some(taken.map(Some));
        }
        let Some(behind) = behind else { return Some(taken.map(Some)) };
        let taken = if self.reclaim(backend) { take(self) } else { taken };
        if taken.as_ref().is_err_and(is_short) {
            *behind = self.giving_back();
        }
        if behind.is_empty() { Some(taken.map(Some)) } else { None }
    }

    /// Puts bytes behind a buffer, or the reason why there are none.
    fn allocate(&mut self, handle: Handle, size: u64, taken: Taken, operation: &'static str) -> Result {
        let Some(buffer) = self.memory.buffers.get_mut(handle) else {
            return Err(Error::NotReady);
        };
        buffer.size = size;
        let Buffer { block, stream, tag, .. } = *buffer;
        self.memory.blocks[block].claims.size = size;
        taken.map(|place| place.into_iter().for_each(|place| self.memory.put(block, place))).map_err(|fault| {
            let context = self.buffer_context(operation, block, stream, tag);
            let mut roots = Roots::default();
            roots.ids.push(self.fail_unallocated(block, fault.clone(), context));
            roots.asked.push(self.memory.blocks[block].claims.name.serial);
            Error::Failed(Box::new(fault), roots)
        })
    }

    pub(super) fn buffer_context(&self, operation: &'static str, block: BlockKey, stream: u64, tag: u64) -> Context {
        let label = self.memory.blocks[block].claims.name.label.clone();
        Context { operation, kernel: self.names.none.clone(), stream: Some(stream), label, tag }
    }
}
