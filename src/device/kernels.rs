//! Kernels: live handles, broken or not (R8).

use super::{Core, Device, Handle, KernelDesc, Retired};
use crate::error::{Error, Result, Text, text};
use crate::failure::{Access, Context, MAX_NAME, Name, SetKey, cut};
use crate::stream::Backend;
use crate::stream::backend::{KernelInfo, KernelSource, Rejected};
use crate::stream::coverage::{Coverage, LaunchFacts};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// What a kernel is made of.
pub(super) struct Kernel<B: Backend> {
    pub(super) name: Name,
    pub(super) tag: u64,
    pub(super) state: State<B>,
    /// What the descriptor says of each binding.
    pub(super) declared: Box<[Option<Access>]>,
}

/// The proof of a kernel's latest launch, with the facts it follows from. Most launches differ from their predecessor in
/// their buffers alone, so the proof holds for them too.
#[derive(Default)]
pub(super) struct Proven {
    groups: [u32; 3],
    push: SmallVec<[u8; 32]>,
    /// The size of each slice that is bound.
    sizes: SmallVec<[u64; 8]>,
    /// The bytes of each binding of which any are proven, relative to its slice.
    covered: SmallVec<[(usize, Range<u64>); 4]>,
}

pub(super) enum State<B: Backend> {
    Live {
        compiled: Arc<B::Kernel>,
        info: Arc<KernelInfo>,
        /// Boxed, since a broken kernel has none.
        proven: Box<RefCell<Proven>>,
    },
    Broken {
        /// Its root, held.
        set: SetKey,
        /// What its module still says.
        info: Option<Arc<KernelInfo>>,
    },
}

/// What a kernel says of itself.
#[derive(Clone, Debug)]
pub struct KernelDetails {
    /// Its bindings, with the descriptor's accesses applied; none for a module that could not be reflected. `Write` where
    /// launches are proven to write bytes of it.
    pub info: KernelInfo,
    /// On what the access of each binding rests.
    pub bases: Vec<Basis>,
    /// Whether launches of it are skipped.
    pub broken: bool,
    /// The root, or 0.
    pub failure: u64,
    /// The caller's name.
    pub label: Text,
    /// The caller's number.
    pub tag: u64,
}

/// On what the access of a binding rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The module, which proves no write.
    Inferred,
    /// The module: each launch writes the bytes that its grid and push constants prove.
    Proven,
    /// The descriptor.
    Declared,
}

impl<B: Backend> Kernel<B> {
    /// The access that the descriptor, else the module, gives a binding; and the proof of a binding that launches may
    /// write. If neither gives one, the binding counts as read and written: better too much than one stale byte. So do
    /// all bindings of a broken kernel that is launched with another number of bindings than its module has.
    pub(super) fn access(&self, binding: usize, given: usize) -> (Access, Option<&Coverage>) {
        if let Some(Some(declared)) = self.declared.get(binding) {
            return (*declared, None);
        }
        let info = match &self.state {
            State::Live { info, .. } => Some(info),
            State::Broken { info, .. } => info.as_ref().filter(|info| info.bindings.len() == given),
        };
        match info.and_then(|info| info.bindings.get(binding)) {
            None => (Access::ReadWrite, None),
            // Only a proof or a declaration makes it a write of every byte.
            Some(info) if matches!(info.access, Access::MayWrite | Access::Write) => {
                (Access::MayWrite, info.coverage.as_deref())
            }
            Some(info) => (info.access, None),
        }
    }

    /// Calls `see` with each binding of a launch of which some bytes are proven to be written, and with those bytes.
    pub(super) fn each_proven(
        &self,
        groups: [u32; 3],
        push: &[u8],
        sizes: impl ExactSizeIterator<Item = u64> + Clone,
        mut see: impl FnMut(usize, &Range<u64>),
    ) {
        let State::Live { proven, .. } = &self.state else { return };
        let mut proven = proven.borrow_mut();
        if proven.groups != groups || *proven.push != *push || !proven.sizes.iter().copied().eq(sizes.clone()) {
            self.prove_anew(&mut proven, groups, push, sizes);
        }
        proven.covered.iter().for_each(|(binding, bytes)| see(*binding, bytes));
    }

    #[inline(never)]
    fn prove_anew(
        &self,
        proven: &mut Proven,
        groups: [u32; 3],
        push: &[u8],
        sizes: impl ExactSizeIterator<Item = u64>,
    ) {
        // No launch has such a grid: a proof that a panic leaves incomplete is never used.
        proven.groups = [0; 3];
        proven.covered.clear();
        proven.push.clear();
        proven.push.extend_from_slice(push);
        proven.sizes.clear();
        proven.sizes.extend(sizes);
        let given = proven.sizes.len();
        for (binding, size) in proven.sizes.iter().enumerate() {
            if let (_, Some(coverage)) = self.access(binding, given) {
                let sizes = |place: usize| proven.sizes.get(place).copied();
                let covered = coverage.covered(&LaunchFacts { groups, push, slice_size: *size, sizes: &sizes });
                if !covered.is_empty() && covered.end <= *size {
                    proven.covered.push((binding, covered));
                }
            }
        }
        proven.groups = groups;
    }
}

impl<B: Backend> Device<B> {
    /// A kernel; its handle is live even if the module cannot be used.
    pub fn kernel_create(&self, desc: &KernelDesc<'_>) -> (Handle, Result) {
        let answer = self.compile(desc);
        self.with(|core| {
            let serial = core.next_serial();
            let label = match desc.label {
                "" => format!("kernel {serial}").into(),
                label => cut(label, MAX_NAME).into(),
            };
            let name = Name { noun: "kernel", serial, label };
            let (state, result) = core.kernel_state("tg_kernel_create", &name, desc.tag, answer);
            let kernel = Kernel { name, tag: desc.tag, state, declared: desc.accesses.into() };
            match core.kernels.insert(kernel) {
                Ok(handle) => (handle, result),
                Err(kernel) => {
                    core.retire_kernel(kernel);
                    (Handle::default(), Err(core.kernels.refusal("kernels").into()))
                }
            }
        })
    }

    /// Compiles again under the same handle: a repair, or new code. Work that was enqueued keeps what it had.
    pub fn kernel_rebuild(&self, kernel: Handle, desc: &KernelDesc<'_>) -> Result {
        self.lock().kernels.check(kernel, "kernel")?;
        let answer = self.compile(desc);
        self.with(|core| {
            let Some(entry) = core.kernels.get(kernel) else {
                return core.kernels.check(kernel, "kernel");
            };
            let name = match desc.label {
                "" => entry.name.clone(),
                label => Name { label: cut(label, MAX_NAME).into(), ..entry.name.clone() },
            };
            let (state, result) = core.kernel_state("tg_kernel_rebuild", &name, desc.tag, answer);
            if let Some(entry) = core.kernels.get_mut(kernel) {
                let fresh = Kernel { name, tag: desc.tag, state, declared: desc.accesses.into() };
                let before = std::mem::replace(entry, fresh);
                core.retire_kernel(before);
            }
            result
        })
    }

    /// Destroys it; work in flight goes on. The null handle is fine.
    pub fn kernel_destroy(&self, kernel: Handle) -> Result {
        if kernel.is_null() {
            return Ok(());
        }
        self.with(|core| {
            core.kernels.check(kernel, "kernel")?;
            if let Some(kernel) = core.kernels.remove(kernel) {
                core.retire_kernel(kernel);
            }
            Ok(())
        })
    }

    /// What a kernel is.
    pub fn kernel_info(&self, kernel: Handle) -> Result<KernelDetails> {
        let core = self.lock();
        let kernel = core.kernels.resolve(kernel, "kernel")?;
        let (mut info, failure) = match &kernel.state {
            State::Live { info, .. } => ((**info).clone(), 0),
            State::Broken { set, info } => (info.as_deref().cloned().unwrap_or_default(), core.failures.id(*set)),
        };
        let given = info.bindings.len();
        let mut bases = Vec::with_capacity(given);
        for (i, binding) in info.bindings.iter_mut().enumerate() {
            let (access, basis) = match kernel.access(i, given) {
                (_, Some(_)) => (Access::Write, Basis::Proven),
                (access, None) if matches!(kernel.declared.get(i), Some(Some(_))) => (access, Basis::Declared),
                (access, None) => (access, Basis::Inferred),
            };
            binding.access = access;
            bases.push(basis);
        }
        let label = text(format_args!("{}", kernel.name.label));
        Ok(KernelDetails { info, bases, broken: failure != 0, failure, label, tag: kernel.tag })
    }

    /// Compiles outside the lock: it may be slow.
    fn compile(&self, desc: &KernelDesc<'_>) -> std::result::Result<(B::Kernel, KernelInfo), Rejected> {
        self.backend.kernel_create(&KernelSource {
            code: desc.code,
            entry: if desc.entry.is_empty() { "main" } else { desc.entry },
            constants: desc.constants,
            label: desc.label,
            trusted: desc.trusted,
            declares_uses: desc.declares_uses,
        })
    }
}

impl<B: Backend> Core<B> {
    fn kernel_state(
        &mut self,
        operation: &'static str,
        name: &Name,
        tag: u64,
        answer: std::result::Result<(B::Kernel, KernelInfo), Rejected>,
    ) -> (State<B>, Result) {
        match answer {
            Ok((compiled, info)) => {
                let (compiled, info) = (Arc::new(compiled), Arc::new(info));
                (State::Live { compiled, info, proven: Box::default() }, Ok(()))
            }
            Err(Rejected { fault, info }) => {
                let label = self.names.none.clone();
                let context = Context { operation, kernel: name.label.clone(), stream: None, label, tag };
                let set = self.failures.mint(fault.clone(), context, &[name.serial]);
                let roots = self.failures.name(set);
                let state = State::Broken { set, info: info.map(Arc::new) };
                (state, Err(Error::Failed(Box::new(fault), roots)))
            }
        }
    }

    /// Lets go of a kernel: its root at once, its pipeline when nothing that was enqueued can still run it.
    pub(super) fn retire_kernel(&mut self, kernel: Kernel<B>) {
        match kernel.state {
            State::Live { compiled, .. } => {
                let until = self.streams.now();
                if !until.is_empty() {
                    self.retired.push(Retired { until, _compiled: compiled });
                }
            }
            State::Broken { set, .. } => self.failures.release(set),
        }
    }
}
