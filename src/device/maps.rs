//! Mappings: bytes that the host reads and writes where they lie.
//!
//! A mapping is a scope around work of the host's own (R4): its bytes are held, what it writes is claimed until it is
//! unmapped, and reading claimed bytes is refused. Unlike other scopes it begins only when the device is done with the
//! bytes, so that host and device never touch them at once.

use super::waits::Deadline;
use super::{Core, Device, NotHeld, Slice};
use crate::code::Code;
use crate::error::{Error, Fault, Result, Roots};
use crate::failure::{Access, BlockKey, Bytes, FailureStore, Point, ScopeKey, Use};
use crate::memory::{MemoryKind, hazard};
use crate::stream::Backend;
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// The bytes a mapping is known by.
type Key = (BlockKey, u64, u64);

/// The mappings of a device. The same bytes can be mapped more than once for reading.
pub(super) type Mappings<P> = HashMap<Key, SmallVec<[Mapping<P>; 1]>>;

/// Mapped bytes.
pub(super) struct Mapping<P> {
    access: Access,
    /// Nothing once a loss ended it: its bytes went with the device's memory.
    scope: Option<ScopeKey>,
    /// Kept, because the caller has an address in it.
    page: Arc<P>,
    offset: u64,
}

/// How an attempt to map ended.
enum Turn<P> {
    /// The bytes are held: where they lie.
    Held(Bytes, Arc<P>, u64, ScopeKey),
    /// There are none.
    Nothing,
    /// These have to be over first.
    After(SmallVec<[Point; 8]>),
    /// So does everything there is: these were refused, and cannot stand for what they were to come after.
    Behind(SmallVec<[Point; 8]>),
}

impl<B: Backend> Device<B> {
    /// Maps bytes of host-visible memory once the device is done with them: their address, null for no bytes.
    pub fn buffer_map(&self, slice: Slice, access: Access, timeout_ns: u64) -> Result<*mut u8> {
        if !matches!(access, Access::Read | Access::Write | Access::ReadWrite) {
            let why = format_args!("bytes are mapped to be read, to be written, or for both");
            return Err(Error::misuse(Code::InvalidArgument, "access", why));
        }
        let deadline = Deadline::after(timeout_ns);
        // Refused work that nothing hides behind any more.
        let mut cleared: SmallVec<[Point; 8]> = SmallVec::new();
        let (bytes, page, offset, scope) = loop {
            let waited = match self.with(|core| core.try_map(&self.backend, slice, access, &cleared))? {
                Turn::Nothing => return Ok(std::ptr::null_mut()),
                Turn::Held(bytes, page, offset, scope) => break (bytes, page, offset, scope),
                Turn::After(points) => self.wait_for_all(&points, deadline),
                Turn::Behind(refused) => {
                    let points = self.lock().streams.now();
                    cleared.extend(refused);
                    self.wait_for_all(&points, deadline)
                }
            };
            match waited {
                // A loss is the next attempt's to tell.
                Err(Error::Failed(fault, _)) if fault.code != Code::DeviceLost => {
                    return Err(self.with(|core| core.cannot_map(slice, access, *fault)));
                }
                Err(Error::Failed(..)) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        };
        let size = bytes.end - bytes.start;
        let shown = match access {
            Access::Write => Ok(()),
            _ => self.backend.page_invalidate(&page, offset, size),
        };
        match shown.and_then(|()| self.backend.page_address(&page, offset, size)) {
            Ok(address) => Ok(address),
            Err(fault) => Err(self.with(|core| core.abandon_map(bytes, scope, fault))),
        }
    }

    fn wait_for_all(&self, points: &[Point], deadline: Deadline) -> Result {
        let mut slots: SmallVec<[u32; 8]> = points.iter().map(|point| point.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        // What a refusal did to the bytes the next attempt finds.
        slots.into_iter().for_each(|slot| drop(self.flush_slot(slot)));
        points.iter().try_for_each(|point| self.wait_for(*point, deadline))
    }

    /// Ends a mapping of exactly these bytes. What was mapped to be written is written now, every byte of it.
    pub fn buffer_unmap(&self, slice: Slice) -> Result {
        let Some((bytes, mapping)) = self.with(|core| core.take_mapping(slice))? else {
            return Ok(());
        };
        let size = bytes.end - bytes.start;
        let writes = mapping.access.writes();
        let flushed = match writes && mapping.scope.is_some() {
            true => self.backend.page_flush(&mapping.page, mapping.offset, size),
            false => Ok(()),
        };
        self.with(|core| core.end_mapping(bytes, mapping, flushed))
    }
}

impl<B: Backend> Core<B> {
    fn try_map(&mut self, backend: &B, slice: Slice, access: Access, cleared: &[Point]) -> Result<Turn<B::Page>> {
        let bytes = self.resolve(slice, "slice.buffer", "slice.size")?;
        self.with_memory(bytes.block, "slice.buffer")?;
        let buffer = self.memory.buffers.resolve(slice.buffer, "slice.buffer")?;
        let (size, stream) = (buffer.size, buffer.stream);
        let kind = buffer.purpose.map_or(MemoryKind::Device, |purpose| purpose.kind());
        if kind == MemoryKind::Device {
            let why = format_args!("the buffer has memory of the device's, which the host cannot see everywhere");
            return Err(Error::misuse(Code::WrongState, "slice.buffer", why));
        }
        if bytes.start == bytes.end {
            return Ok(Turn::Nothing);
        }
        let uses = [Use { bytes, access }];
        self.not_held(&uses, "slice")?;
        if let Some(error) = self.fail_lost(if access.writes() { &uses } else { &[] }) {
            return Err(error);
        }
        let name = self.names.map.clone();
        let work = self.work("tg_buffer_map", &name, stream);
        if access.writes() {
            self.enter_or_skip(&work, &uses).map_err(Error::Skipped)?;
            let unit = backend.limits().map_alignment[kind as usize].max(1);
            let whole = |at: u64| at.is_multiple_of(unit);
            if !whole(bytes.start) || !(whole(bytes.end) || bytes.end == size) {
                let why = format!(
                    "bytes {} to {} of memory that is not coherent are not mapped to be written alone: nonCoherentAtomSize \
                     is {unit}",
                    bytes.start, bytes.end
                );
                return Err(self.cannot_map(slice, access, Fault::new(Code::LimitExceeded, why)));
            }
        } else {
            self.ensure_written(&[bytes]).map_err(Error::Unwritten)?;
        }
        let _ = self.refresh(backend);
        let (mut after, mut behind) = (SmallVec::new(), SmallVec::new());
        if let Some(block) = self.memory.blocks.get(bytes.block) {
            hazard::conflicts(&block.hazards, bytes.start, bytes.end, access.writes(), |mark| {
                let point = mark.point;
                if !self.streams.is_complete(point) {
                    if !after.contains(&point) {
                        after.push(point);
                    }
                } else if !self.streams.is_past(point) && !cleared.contains(&point) && !behind.contains(&point) {
                    behind.push(point);
                }
            });
        }
        if !after.is_empty() {
            return Ok(Turn::After(after));
        }
        if !behind.is_empty() {
            return Ok(Turn::Behind(behind));
        }
        let place = self.place_of(bytes)?;
        let scope = self.enter_write(&work, uses.to_vec()).map_err(Error::Skipped)?;
        let page = self.memory.pages.page(place.page).clone();
        let offset = place.offset + bytes.start;
        let mapping = Mapping { access, scope: Some(scope), page: page.clone(), offset };
        self.mappings.entry(key(bytes)).or_default().push(mapping);
        Ok(Turn::Held(bytes, page, offset, scope))
    }

    /// What was to be mapped to be written will not be, for a reason that the caller could not know.
    fn cannot_map(&mut self, slice: Slice, access: Access, fault: Fault) -> Error {
        let bytes = match self.resolve(slice, "slice.buffer", "slice.size") {
            Ok(bytes) if access.writes() => bytes,
            Ok(_) => return fault.into(),
            Err(error) => return error,
        };
        let name = self.names.map.clone();
        let work = self.work("tg_buffer_map", &name, None);
        match self.write_scope(&work, &[Use { bytes, access }], |_| Err(fault)) {
            Err(error) => error,
            Ok(()) => Fault::new(Code::Internal, "what failed went well").into(),
        }
    }

    /// A mapping that the host was never given.
    fn abandon_map(&mut self, bytes: Bytes, scope: ScopeKey, fault: Fault) -> Error {
        // If that was a loss, the mapping has no scope any more.
        let is_it = |mapping: &Mapping<_>| mapping.scope == Some(scope) || mapping.scope.is_none();
        let Some(mapping) = self.take_where(bytes, is_it) else {
            return fault.into();
        };
        if !mapping.access.writes() && self.failures.is_lost() {
            return self.usable().err().unwrap_or_else(|| fault.into());
        }
        self.end_mapping(bytes, mapping, Err(fault.clone())).err().unwrap_or_else(|| fault.into())
    }

    fn take_mapping(&mut self, slice: Slice) -> Result<Option<(Bytes, Mapping<B::Page>)>> {
        let bytes = self.resolve(slice, "slice.buffer", "slice.size")?;
        if bytes.start == bytes.end {
            return Ok(None);
        }
        match self.take_where(bytes, |_| true) {
            Some(mapping) => Ok(Some((bytes, mapping))),
            None => {
                let why = format_args!("no mapping is of bytes {} to {} of the buffer", bytes.start, bytes.end);
                Err(Error::misuse(Code::WrongState, "slice", why))
            }
        }
    }

    fn take_where(&mut self, bytes: Bytes, matches: impl Fn(&Mapping<B::Page>) -> bool) -> Option<Mapping<B::Page>> {
        let known = self.mappings.get_mut(&key(bytes))?;
        let at = known.iter().position(matches)?;
        let mapping = known.swap_remove(at);
        if known.is_empty() {
            self.mappings.remove(&key(bytes));
        }
        Some(mapping)
    }

    /// The host is done with the bytes; or never had them, or they could not be shown to the device.
    fn end_mapping(
        &mut self,
        bytes: Bytes,
        mapping: Mapping<B::Page>,
        shown: std::result::Result<(), Fault>,
    ) -> Result {
        let Mapping { access, scope, .. } = mapping;
        if !access.writes() {
            scope.map(|scope| self.exit_write(scope, None));
            return Ok(shown?);
        }
        let lost = self.failures.is_lost();
        let Some(scope) = scope.filter(|_| !lost) else {
            scope.map(|scope| self.exit_write(scope, None));
            let known = self.fail_lost(&[Use { bytes, access }]);
            return Err(known.unwrap_or_else(|| {
                let fault = Fault::new(Code::DeviceLost, "the device was lost while the bytes were mapped");
                Error::Failed(Box::new(fault), self.ensure_written(&[bytes]).err().unwrap_or_default())
            }));
        };
        let serial = self.memory.blocks.get(bytes.block).map(|block| block.claims.name.serial);
        let id = self.exit_write(scope, shown.clone().err());
        shown.map_err(|fault| {
            let mut roots = Roots::default();
            roots.ids.push(id);
            roots.asked.extend(serial);
            Error::Failed(Box::new(fault), roots)
        })
    }

    /// The device was lost: what is mapped went with its memory, and the loss claims it like the rest of its block (R14).
    /// The addresses stay good until the bytes are unmapped.
    pub(super) fn lose_mappings(&mut self) {
        let scopes: SmallVec<[ScopeKey; 8]> =
            self.mappings.values_mut().flatten().filter_map(|mapping| mapping.scope.take()).collect();
        for scope in scopes {
            self.exit_write(scope, None);
        }
    }

    /// The mappings there are, for a person.
    pub(super) fn mapped(&self) -> impl Iterator<Item = String> {
        self.mappings.iter().flat_map(|((block, start, end), mappings)| {
            let label = self.memory.blocks.get(*block).map_or("", |block| &block.claims.name.label);
            mappings.iter().map(move |_| format!("a mapping of bytes {start} to {end} of buffer \"{label}\""))
        })
    }

    /// A buffer goes away; what is mapped of it can only be what a loss ended.
    pub(super) fn forget_mappings_of(&mut self, gone: BlockKey) {
        self.mappings.retain(|(block, ..), _| *block != gone);
    }

    /// The device goes away: what was mapped to be written is torn down.
    pub(super) fn tear_mappings(&mut self) {
        for mapping in std::mem::take(&mut self.mappings).into_values().flatten() {
            let fault = Fault::new(Code::TornDown, "the device was destroyed");
            if let Some(scope) = mapping.scope {
                self.exit_write(scope, mapping.access.writes().then_some(fault));
            }
        }
    }
}

fn key(bytes: Bytes) -> Key {
    (bytes.block, bytes.start, bytes.end)
}
