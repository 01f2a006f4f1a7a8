//! Launching kernels.

use super::kernels::{Kernel, State};
use super::transfer::with_memory;
use super::{Core, Device, LaunchDesc, LaunchGrid, NotHeld, Parts, SliceUse, Turn, resolve};
use crate::code::Code;
use crate::error::{Error, Fault, Result, Roots};
use crate::failure::{Access, Bytes, Context, FailureStore, MAX_NAME, Use, Work, cut};
use crate::memory::{Block, Mark, Memory, MemoryKind, PageSource, Place, Purpose};
use crate::room::{Room, SPARE};
use crate::stream::backend::{Binding, Grid, Launch, Limits};
use crate::stream::{Backend, Command, Driver, Need};
use smallvec::SmallVec;

/// Bytes of three group counts.
const COUNTS_SIZE: u64 = 12;

impl<B: Backend> Device<B> {
    /// Enqueues a launch. `Skipped` if bytes it reads are claimed.
    pub fn launch(&self, desc: &LaunchDesc<'_>) -> Result {
        self.enqueue_and_flush(|core, backend| {
            let mut uses = core.failures.write_set();
            let turn = core.launch(backend, desc, &mut uses);
            core.failures.put_back(uses);
            turn
        })
    }
}

impl<B: Backend> Core<B> {
    fn launch(&mut self, backend: &B, desc: &LaunchDesc<'_>, uses: &mut Vec<Use>) -> Result<Turn<()>> {
        let slot = self.streams.slot_of(desc.stream);
        if self.failures.is_lost() {
            self.reconcile_all(desc)?;
        }
        // A binding that is proven in part is two uses.
        let most = 2 * desc.bindings.len() + desc.extra.len() + 1;
        if let Err(fault) = uses.make_room(most) {
            return Err(self.fail_unlisted(desc, fault));
        }
        // Every call has room for fewer uses already.
        if most > SPARE
            && let Err(fault) = self.failures.make_room(most)
        {
            self.no_room = Some(Box::new(fault));
        }
        let lacks_room = self.lacks_room();
        let Core { failures, memory, streams, kernels, no_room, scratch, .. } = self;
        let kernel = kernels.resolve(desc.kernel, "desc.kernel")?;
        kernel.accepts(desc)?;
        let mut need = Need::default();
        streams.need(slot, memory.pages.forgotten(), &mut need);
        let may_be_proven = collect_uses(memory, &**streams, slot, kernel, desc, uses, &mut need)?;
        let limits = backend.limits();
        let groups = group_counts(desc, kernel.group_size());
        if groups.contains(&0) {
            // A grid with a zero runs nothing, claims nothing, releases nothing (R18).
            return Ok(Turn::Done(()));
        }
        let collected = uses.len();
        if may_be_proven {
            prove(kernel, desc, groups, uses);
        }
        let mut store = Parts { failures, memory };
        store.not_held(uses, "desc.bindings")?;
        if let Some(error) = store.fail_lost(uses) {
            return Err(error);
        }
        let (broken, compiled) = match &kernel.state {
            State::Live { compiled, .. } => (None, Some(compiled)),
            State::Broken { set, .. } => (Some((*set, &kernel.name)), None),
        };
        let work = Work {
            operation: "tg_launch",
            name: &kernel.name.label,
            is_kernel: true,
            label: desc.label,
            stream: Some(desc.stream),
            tag: desc.tag,
            broken,
        };
        // What is known already decides without submitting anything; what a submission tells decides afterwards.
        store.enter_or_skip(&work, uses).map_err(Error::Skipped)?;
        if !need.flush.is_empty() {
            return Ok(Turn::Flush(need.flush));
        }
        if lacks_room {
            return Ok(Turn::Room);
        }
        let Some(compiled) = compiled else {
            return Err(Fault::new(Code::Internal, "a broken kernel was not skipped").into());
        };
        let mut taken: Option<Place> = None;
        let result = store.write_scope(&work, uses, |store| {
            if let Some(fault) = no_room.take() {
                return Err(*fault);
            }
            within_limits(groups, limits)?;
            if let LaunchGrid::Indirect(_) = desc.grid {
                let is_done_with = |mark: Mark| streams.is_done_with(mark.point);
                taken = Some(store.memory.pages.allocate(backend, Purpose::Scratch, COUNTS_SIZE, is_done_with)?);
            }
            let mut bindings = Bindings::<B>::new();
            let touched = &uses[..collected];
            let (bound, beside) = touched.split_at(desc.bindings.len());
            let mut for_host = bind(store.memory, limits, bound, &mut bindings)?;
            for_host |= beside.iter().any(|u| u.access.writes() && store.memory.is_host_visible(u.bytes.block));
            let grid = match desc.grid {
                LaunchGrid::Indirect(_) => {
                    Grid::Indirect(counts(store.memory, touched)?, checked_in(store.memory, taken)?)
                }
                LaunchGrid::Groups(_) | LaunchGrid::Threads(_) => Grid::Groups(groups),
            };
            let launch = Launch { kernel: compiled, bindings: &bindings, push: desc.push, grid, label: desc.label };
            let mark = streams.take(backend, slot, &need, for_host, &[Command::Launch(launch)])?;
            drop(bindings);
            store.memory.mark(touched, mark);
            scratch.extend(taken.take().map(|place| (mark.point, place)));
            Ok(Some(mark.point))
        });
        if result.is_err() {
            taken.iter().for_each(|place| self.memory.pages.free(place));
            self.settle_discarded(backend, slot);
        }
        result.map(Turn::Done)
    }

    /// There is no memory even for the list of what a launch uses: each use of it that writes is claimed by itself.
    #[cold]
    fn fail_unlisted(&mut self, desc: &LaunchDesc<'_>, fault: Fault) -> Error {
        let mut roots = Roots::default();
        for SliceUse { slice, access } in desc.bindings.iter().chain(desc.extra) {
            let writes = access.is_none_or(Access::writes);
            let Ok(bytes) = self.resolve(*slice, "desc.bindings.slice.buffer", "desc.bindings.slice.size") else {
                continue;
            };
            if !writes || bytes.start == bytes.end || self.held(&[Use { bytes, access: Access::Write }]) {
                continue;
            }
            match roots.ids.first() {
                Some(id) => self.extend(*id, bytes),
                None => {
                    let context = Context {
                        operation: "tg_launch",
                        stream: Some(desc.stream),
                        label: cut(desc.label, MAX_NAME).into(),
                        tag: desc.tag,
                        ..Context::default()
                    };
                    let id = self.taint(fault.clone(), context, &[bytes]);
                    roots.ids.extend((id != 0).then_some(id));
                }
            }
        }
        Error::Failed(Box::new(fault), roots)
    }

    /// The first touch of a block after a loss is any use of it (R14).
    #[cold]
    fn reconcile_all(&mut self, desc: &LaunchDesc<'_>) -> Result {
        for (i, SliceUse { slice, .. }) in desc.bindings.iter().enumerate() {
            self.resolve(*slice, "desc.bindings.slice.buffer", "desc.bindings.slice.size")
                .map_err(|error| error.element("binding", i))?;
        }
        for (i, SliceUse { slice, .. }) in desc.extra.iter().enumerate() {
            self.resolve(*slice, "desc.extra.slice.buffer", "desc.extra.slice.size")
                .map_err(|error| error.element("extra use", i))?;
        }
        Ok(())
    }
}

impl<B: Backend> Kernel<B> {
    /// Whether a launch gives what the kernel takes; of a broken one that is not known.
    fn accepts(&self, desc: &LaunchDesc<'_>) -> Result {
        let State::Live { info, .. } = &self.state else { return Ok(()) };
        let (has, given) = (info.bindings.len(), desc.bindings.len());
        if has != given {
            let why = format_args!("the kernel \"{}\" has {has} bindings, {given} were given", self.name.label);
            return Err(Error::misuse(Code::InvalidArgument, "desc.bindings", why));
        }
        let (has, given) = (info.push_size as usize, desc.push.len());
        if has != given {
            let why = format_args!("the kernel \"{}\" takes {has} bytes, {given} were given", self.name.label);
            return Err(Error::misuse(Code::InvalidArgument, "desc.push", why));
        }
        Ok(())
    }

    fn group_size(&self) -> [u32; 3] {
        match &self.state {
            State::Live { info, .. } => info.group_size,
            State::Broken { .. } => [1; 3],
        }
    }
}

/// The uses of a launch, and what they come after: its bindings in order, then what it reaches beside them, then its
/// arguments. Answers whether [more](prove) may be proven of a binding than that it may be written.
fn collect_uses<B: Backend>(
    memory: &Memory<B>,
    streams: &dyn Driver<B>,
    slot: u32,
    kernel: &Kernel<B>,
    desc: &LaunchDesc<'_>,
    uses: &mut Vec<Use>,
    need: &mut Need,
) -> Result<bool> {
    let mut add = |bytes: Bytes, block: &Block, access: Access| {
        let writes = access.writes();
        if writes || access.needs_bytes() {
            need.depend(streams, slot, &block.hazards, (bytes.start, bytes.end), writes);
        }
        uses.push(Use { bytes, access });
    };
    let mut may_be_proven = false;
    for (i, SliceUse { slice, access }) in desc.bindings.iter().enumerate() {
        let bytes = resolve(memory, *slice, "desc.bindings.slice.buffer", "desc.bindings.slice.size")
            .map_err(|error| error.element("binding", i))?;
        if bytes.start == bytes.end {
            let why = format_args!("binding {i} is empty, which Vulkan cannot bind");
            return Err(Error::misuse(Code::InvalidArgument, "desc.bindings.slice.size", why));
        }
        let block = &memory.blocks[bytes.block];
        if block.place.is_none() && block.claims.is_allocated() {
            let why = format_args!("binding {i} is a token, which has no memory of ours to bind");
            return Err(Error::misuse(Code::InvalidArgument, "desc.bindings.slice.buffer", why));
        }
        let access = match access {
            Some(access) => *access,
            None => {
                let (access, coverage) = kernel.access(i, desc.bindings.len());
                may_be_proven |= coverage.is_some();
                access
            }
        };
        add(bytes, block, access);
    }
    for (i, SliceUse { slice, access }) in desc.extra.iter().enumerate() {
        let bytes = resolve(memory, *slice, "desc.extra.slice.buffer", "desc.extra.slice.size")
            .map_err(|error| error.element("extra use", i))?;
        let Some(access) = *access else {
            let why = format_args!("extra use {i}: no module says what is done with bytes that are not bound");
            return Err(Error::misuse(Code::InvalidArgument, "desc.extra.access", why));
        };
        add(bytes, &memory.blocks[bytes.block], access);
    }
    if let LaunchGrid::Indirect(slice) = desc.grid {
        let bytes = resolve(memory, slice, "desc.indirect.buffer", "desc.indirect.size")?;
        let size = bytes.end - bytes.start;
        if !bytes.start.is_multiple_of(4) || size < 12 {
            let why = format_args!("group counts are 12 bytes at a multiple of 4, not {size} at {}", bytes.start);
            return Err(Error::misuse(Code::InvalidArgument, "desc.indirect", why));
        }
        let block = &memory.blocks[bytes.block];
        with_memory(block, "desc.indirect.buffer")?;
        add(Bytes { end: bytes.start + COUNTS_SIZE, ..bytes }, block, Access::Read);
        // How many groups run is not known.
        may_be_proven = false;
    }
    Ok(may_be_proven)
}

/// Of bindings without a declaration, the bytes that this grid and these push constants are proven to write
/// are written (R9). A part of a slice is one more use; the use of the whole slice stands for the rest.
fn prove<B: Backend>(kernel: &Kernel<B>, desc: &LaunchDesc<'_>, groups: [u32; 3], uses: &mut Vec<Use>) {
    let count = desc.bindings.len();
    // A copy, because the loop below changes the uses.
    let sizes: SmallVec<[u64; 16]> = uses[..count].iter().map(|u| u.bytes.end - u.bytes.start).collect();
    kernel.each_proven(groups, desc.push, sizes.iter().copied(), |binding, covered| {
        if desc.bindings[binding].access.is_some() {
            return;
        }
        let Bytes { block, start, end } = uses[binding].bytes;
        if *covered == (0..end - start) {
            uses[binding].access = Access::Write;
        } else {
            let bytes = Bytes { block, start: start + covered.start, end: start + covered.end };
            uses.push(Use { bytes, access: Access::Write });
        }
    });
}

type Bindings<'a, B> = SmallVec<[Binding<'a, <B as PageSource>::Page>; 16]>;

/// Adds the bindings of a launch; answers whether it writes memory that the host reads. Into a place of the caller's,
/// because they are long to move.
fn bind<'a, B: Backend>(
    memory: &'a Memory<B>,
    limits: &Limits,
    uses: &[Use],
    bindings: &mut Bindings<'a, B>,
) -> std::result::Result<bool, Fault> {
    let mut for_host = false;
    for (i, u) in uses.iter().enumerate() {
        let (binding, purpose) = at(memory, u).ok_or_else(no_place)?;
        if binding.offset & (limits.binding_alignment - 1) != 0 {
            let (offset, align) = (u.bytes.start, limits.binding_alignment);
            let why =
                format!("binding {i} begins at {offset}, no multiple of minStorageBufferOffsetAlignment, {align}");
            return Err(Fault::new(Code::LimitExceeded, why));
        }
        if binding.size > limits.max_binding_size {
            let (size, most) = (binding.size, limits.max_binding_size);
            let why = format!("binding {i} has {size} bytes, more than maxStorageBufferRange, {most}");
            return Err(Fault::new(Code::LimitExceeded, why));
        }
        for_host |= u.access.writes() && purpose.kind() != MemoryKind::Device;
        bindings.push(binding);
    }
    Ok(for_host)
}

/// The counts of an indirect launch: the last of its uses.
fn counts<'a, B: Backend>(memory: &'a Memory<B>, uses: &[Use]) -> std::result::Result<Binding<'a, B::Page>, Fault> {
    match uses.last() {
        Some(u) => at(memory, u).map(|(binding, _)| binding).ok_or_else(no_place),
        None => Err(Fault::new(Code::Internal, "an indirect launch without counts")),
    }
}

/// Memory in which the backend checks the counts of an indirect launch.
fn checked_in<B: Backend>(
    memory: &Memory<B>,
    taken: Option<Place>,
) -> std::result::Result<Binding<'_, B::Page>, Fault> {
    let place = taken.ok_or_else(no_place)?;
    Ok(Binding { page: memory.pages.page(place.page), offset: place.offset, size: COUNTS_SIZE })
}

/// Where the bytes of a use lie, and in what kind of page.
#[inline]
fn at<'a, B: Backend>(memory: &'a Memory<B>, u: &Use) -> Option<(Binding<'a, B::Page>, Purpose)> {
    let Bytes { block, start, end } = u.bytes;
    let place = memory.blocks.get(block)?.place.as_ref()?;
    let (page, purpose) = memory.pages.page_and_purpose(place.page);
    Some((Binding { page, offset: place.offset + start, size: end - start }, purpose))
}

#[cold]
fn no_place() -> Fault {
    Fault::new(Code::Internal, "a bound buffer has no place")
}

/// The groups of a direct launch; an indirect one has its own.
fn group_counts(desc: &LaunchDesc<'_>, group_size: [u32; 3]) -> [u32; 3] {
    match desc.grid {
        LaunchGrid::Groups(counts) => counts,
        LaunchGrid::Threads(threads) => std::array::from_fn(|i| threads[i].div_ceil(group_size[i].max(1))),
        LaunchGrid::Indirect(_) => [1; 3],
    }
}

fn within_limits(groups: [u32; 3], limits: &Limits) -> std::result::Result<(), Fault> {
    match (0..3).find(|i| groups[*i] > limits.max_groups[*i]) {
        None => Ok(()),
        Some(i) => {
            let (count, most) = (groups[i], limits.max_groups[i]);
            let why = format!("{count} groups in dimension {i} are more than maxComputeWorkGroupCount, {most}");
            Err(Fault::new(Code::LimitExceeded, why))
        }
    }
}
