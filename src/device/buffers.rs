//! Making and destroying buffers. A buffer whose allocation fails is a live handle all the same (R7).

use super::{BufferDesc, BufferInfo, BufferMemory, Core, Device, Handle, MemoryStats};
use crate::code::Code;
use crate::error::{Error, Fault, Result, Roots, text};
use crate::failure::{BlockKey, Context, FailureStore, Name};
use crate::memory::{Block, Buffer, Hazards, MemoryKind, Purpose};
use crate::room::no_memory;
use crate::stream::Backend;

const KINDS: [MemoryKind; 3] = [MemoryKind::Device, MemoryKind::Upload, MemoryKind::Readback];

impl<B: Backend> Device<B> {
    /// A buffer; its handle is live even if the allocation failed, and null on misuse.
    pub fn buffer_create(&self, desc: &BufferDesc<'_>) -> (Handle, Result) {
        if desc.size == 0 {
            let error =
                Error::misuse(Code::InvalidArgument, "desc.size", format_args!("a buffer has at least one byte"));
            return (Handle::default(), Err(error));
        }
        self.with(|core| core.buffer_create(&self.backend, desc))
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
            Ok(())
        })
    }

    /// Tries again to allocate a buffer that has no bytes; `size` 0: as large as before.
    pub fn buffer_allocate(&self, buffer: Handle, size: u64) -> Result {
        self.with(|core| {
            let entry = core.memory.buffers.resolve(buffer, "buffer")?.clone();
            let size = if size == 0 { entry.size } else { size };
            if core.memory.blocks[entry.block].claims.is_allocated() {
                return Err(Error::misuse(Code::WrongState, "buffer", format_args!("the buffer is allocated")));
            }
            core.allocate(&self.backend, buffer, size, "tg_buffer_allocate")?;
            core.allocated(entry.block, size);
            Ok(())
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
        self.with(|core| {
            core.refresh(&self.backend)?;
            let Core { memory, streams, .. } = core;
            Ok(memory.pages.trim(&self.backend, |mark| streams.is_past(mark.point)))
        })
    }
}

impl<B: Backend> Core<B> {
    fn buffer_create(&mut self, backend: &B, desc: &BufferDesc<'_>) -> (Handle, Result) {
        let purpose = match desc.memory {
            BufferMemory::Managed(kind) => Some(Purpose::Buffers(kind)),
            BufferMemory::Token => None,
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
            return (Handle::default(), Err(no_memory().into()));
        }
        let claims = self.failures.new_block(name, desc.size, purpose.is_some(), fresh);
        let block = self.memory.blocks.insert(Block { claims, hazards: Hazards::default(), place: None });
        let buffer = Buffer { block, size: desc.size, purpose, stream: desc.stream, tag: desc.tag };
        let Ok(handle) = self.memory.buffers.insert(buffer) else {
            self.forget(block);
            return (Handle::default(), Err(self.memory.buffers.refusal("buffers").into()));
        };
        if desc.unallocated {
            let fault = Fault::new(Code::NeverWritten, "the buffer was not allocated yet");
            let context = self.buffer_context("tg_buffer_create", block, desc.stream, desc.tag);
            self.fail_unallocated(block, fault, context);
            return (handle, Ok(()));
        }
        (handle, self.allocate(backend, handle, desc.size, "tg_buffer_create"))
    }

    /// Puts bytes behind a buffer, or the reason why there are none.
    fn allocate(&mut self, backend: &B, handle: Handle, size: u64, operation: &'static str) -> Result {
        let Some(buffer) = self.memory.buffers.get_mut(handle) else {
            return Err(Error::NotReady);
        };
        buffer.size = size;
        let Buffer { block, purpose, stream, tag, .. } = *buffer;
        self.memory.blocks[block].claims.size = size;
        let Some(purpose) = purpose else {
            return Ok(());
        };
        // A lost device is not asked.
        let lost = if self.failures.is_lost() { self.failures.loss_fault() } else { None };
        let answer = match lost {
            Some((fault, _)) => Err(fault),
            None => self.place(backend, block, purpose, size),
        };
        answer.map_err(|fault| {
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
