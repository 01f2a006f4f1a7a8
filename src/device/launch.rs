//! Launching kernels.

use super::kernels::State;
use super::{Core, Device, LaunchDesc, LaunchGrid, SliceUse, Turn};
use crate::code::Code;
use crate::error::{Error, Fault, Result};
use crate::failure::{Access, Bytes, FailureStore, Name, SetKey, Use, Work};
use crate::stream::backend::{Binding, Grid, KernelInfo, Launch, Limits};
use crate::stream::{Backend, Command, Need};
use smallvec::SmallVec;
use std::sync::Arc;

impl<B: Backend> Device<B> {
    /// Enqueues a launch. `Skipped` if bytes it reads are claimed.
    pub fn launch(&self, desc: &LaunchDesc<'_>) -> Result {
        let slot = self.lock().streams.slot_of(desc.stream);
        self.enqueue_on(slot, |core, backend| {
            let mut uses = core.failures.write_set();
            let turn = core.launch(backend, slot, desc, &mut uses);
            core.failures.put_back(uses);
            turn
        })
    }
}

/// What a launch takes from its kernel.
struct Runs<K> {
    name: Name,
    broken: Option<SetKey>,
    compiled: Option<(Arc<K>, Arc<KernelInfo>)>,
}

impl<B: Backend> Core<B> {
    fn launch(&mut self, backend: &B, slot: u32, desc: &LaunchDesc<'_>, uses: &mut Vec<Use>) -> Result<Turn<()>> {
        let runs = self.kernel_of(desc)?;
        self.uses_of(desc, uses)?;
        let groups = group_counts(desc, runs.compiled.as_ref().map(|(_, info)| &**info), backend.limits());
        if let Grid::Groups(counts) = groups.0
            && counts.contains(&0)
        {
            // A grid with a zero runs nothing, claims nothing, releases nothing (R18).
            return Ok(Turn::Done(()));
        }
        self.not_held(uses, "desc.bindings")?;
        if let Some(error) = self.fail_lost(uses) {
            return Err(error);
        }
        let work = Work {
            operation: "tg_launch",
            name: &runs.name.label,
            is_kernel: true,
            label: desc.label,
            stream: desc.stream,
            tag: desc.tag,
            broken: runs.broken.map(|set| (set, &runs.name)),
        };
        // What is known already decides without submitting anything; what a submission tells decides afterwards.
        self.enter_or_skip(&work, uses).map_err(Error::Skipped)?;
        let need = self.need(slot, uses);
        if !need.flush.is_empty() {
            return Ok(Turn::Flush(need.flush));
        }
        let Some((compiled, _)) = &runs.compiled else {
            return Err(Fault::new(Code::Internal, "a broken kernel was not skipped").into());
        };
        let result = self.write_scope(&work, uses, |core| {
            if let Some(fault) = groups.1 {
                return Err(fault);
            }
            core.record_launch(backend, slot, desc, compiled, groups.0, uses, &need).map(Some)
        });
        self.settle_discarded(slot);
        result.map(Turn::Done)
    }

    fn kernel_of(&self, desc: &LaunchDesc<'_>) -> Result<Runs<B::Kernel>> {
        let kernel = self.kernels.resolve(desc.kernel, "desc.kernel")?;
        let (broken, compiled) = match &kernel.state {
            State::Live { compiled, info } => (None, Some((compiled.clone(), info.clone()))),
            State::Broken { set, .. } => (Some(*set), None),
        };
        if let Some((_, info)) = &compiled {
            let (has, given) = (info.bindings.len(), desc.bindings.len());
            if has != given {
                let why = format_args!("the kernel \"{}\" has {has} bindings, {given} were given", kernel.name.label);
                return Err(Error::misuse(Code::InvalidArgument, "desc.bindings", why));
            }
            let (has, given) = (info.push_size as usize, desc.push.len());
            if has != given {
                let why = format_args!("the kernel \"{}\" takes {has} bytes, {given} were given", kernel.name.label);
                return Err(Error::misuse(Code::InvalidArgument, "desc.push", why));
            }
        }
        Ok(Runs { name: kernel.name.clone(), broken, compiled })
    }

    /// The uses of a launch: its bindings in order, then what it reaches beside them, then its arguments.
    fn uses_of(&mut self, desc: &LaunchDesc<'_>, uses: &mut Vec<Use>) -> Result {
        let indirect = matches!(desc.grid, LaunchGrid::Indirect(_));
        for (i, SliceUse { slice, access }) in desc.bindings.iter().enumerate() {
            let bytes = self.resolve(*slice, "desc.bindings.slice.buffer", "desc.bindings.slice.size")?;
            if bytes.start == bytes.end {
                let why = format_args!("binding {i} is empty, which Vulkan cannot bind");
                return Err(Error::misuse(Code::InvalidArgument, "desc.bindings.slice.size", why));
            }
            let block = &self.memory.blocks[bytes.block];
            if block.place.is_none() && block.claims.is_allocated() {
                let why = format_args!("binding {i} is a token, which has no memory of ours to bind");
                return Err(Error::misuse(Code::InvalidArgument, "desc.bindings.slice.buffer", why));
            }
            let access = match access {
                Some(access) => *access,
                None => match self.kernels.resolve(desc.kernel, "desc.kernel")?.access(i) {
                    // How many groups run is not known: what is only inferred to be written may not be.
                    (Access::Write, true) if indirect => Access::MayWrite,
                    (access, _) => access,
                },
            };
            uses.push(Use { bytes, access });
        }
        for SliceUse { slice, access } in desc.extra {
            let bytes = self.resolve(*slice, "desc.extra.slice.buffer", "desc.extra.slice.size")?;
            let Some(access) = *access else {
                let why = format_args!("no module says what is done with bytes that are not bound");
                return Err(Error::misuse(Code::InvalidArgument, "desc.extra.access", why));
            };
            uses.push(Use { bytes, access });
        }
        if let LaunchGrid::Indirect(slice) = desc.grid {
            let bytes = self.resolve(slice, "desc.indirect.buffer", "desc.indirect.size")?;
            let size = bytes.end - bytes.start;
            if bytes.start % 4 != 0 || size < 12 {
                let why = format_args!("group counts are 12 bytes at a multiple of 4, not {size} at {}", bytes.start);
                return Err(Error::misuse(Code::InvalidArgument, "desc.indirect", why));
            }
            self.with_memory(bytes.block, "desc.indirect.buffer")?;
            uses.push(Use { bytes: Bytes { end: bytes.start + 12, ..bytes }, access: Access::Read });
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn record_launch(
        &mut self,
        backend: &B,
        slot: u32,
        desc: &LaunchDesc<'_>,
        compiled: &Arc<B::Kernel>,
        groups: Grid<'_, B::Page>,
        uses: &[Use],
        need: &Need,
    ) -> std::result::Result<crate::failure::Point, Fault> {
        let limits = backend.limits();
        let Core { memory, streams, .. } = self;
        let mut for_host = false;
        let mut bindings: SmallVec<[Binding<'_, B::Page>; 16]> = SmallVec::new();
        let bind = |u: &Use| {
            let Bytes { block, start, end } = u.bytes;
            let place = memory.blocks.get(block).and_then(|block| block.place);
            let place = place.ok_or_else(|| Fault::new(Code::Internal, "a bound buffer has no place"))?;
            let page = memory.pages.page(place.page);
            let kind = memory.pages.purpose(place.page).kind();
            Ok::<_, Fault>((Binding { page, offset: place.offset + start, size: end - start }, kind))
        };
        for (i, u) in uses[..desc.bindings.len()].iter().enumerate() {
            let (binding, kind) = bind(u)?;
            if binding.offset & (limits.binding_alignment - 1) != 0 {
                let (offset, align) = (u.bytes.start, limits.binding_alignment);
                let why = format!(
                    "binding {i} begins at {offset}, which is no multiple of minStorageBufferOffsetAlignment, {align}"
                );
                return Err(Fault::new(Code::LimitExceeded, why));
            }
            if binding.size > limits.max_binding_size {
                let (size, most) = (binding.size, limits.max_binding_size);
                let why = format!("binding {i} has {size} bytes, more than maxStorageBufferRange, {most}");
                return Err(Fault::new(Code::LimitExceeded, why));
            }
            for_host |= u.access.writes() && kind != crate::memory::MemoryKind::Device;
            bindings.push(binding);
        }
        let grid = match (groups, desc.grid) {
            (_, LaunchGrid::Indirect(_)) => Grid::Indirect(bind(&uses[uses.len() - 1])?.0),
            (groups, _) => groups,
        };
        let launch = Launch { kernel: compiled, bindings: &bindings, push: desc.push, grid, label: desc.label };
        let mark = streams.take(backend, slot, need, for_host, &[Command::Launch(launch)])?;
        drop(bindings);
        self.mark(uses, mark);
        Ok(mark.point)
    }
}

/// The groups of a direct launch, and what is wrong with them; an indirect one has its own.
fn group_counts<'a, P>(
    desc: &LaunchDesc<'_>,
    info: Option<&KernelInfo>,
    limits: &Limits,
) -> (Grid<'a, P>, Option<Fault>) {
    let counts = match desc.grid {
        LaunchGrid::Groups(counts) => counts,
        LaunchGrid::Threads(threads) => {
            let size = info.map_or([1; 3], |info| info.group_size);
            std::array::from_fn(|i| threads[i].div_ceil(size[i].max(1)))
        }
        LaunchGrid::Indirect(_) => [1; 3],
    };
    let beyond = (0..3).find(|i| counts[*i] > limits.max_groups[*i]).map(|i| {
        let (count, most) = (counts[i], limits.max_groups[i]);
        let why = format!("{count} groups in dimension {i} are more than maxComputeWorkGroupCount, {most}");
        Fault::new(Code::LimitExceeded, why)
    });
    (Grid::Groups(counts), beyond)
}
