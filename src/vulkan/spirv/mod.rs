//! SPIR-V is made safe before a driver sees it, and asked what the kernel does.
//!
//! Drivers trust the modules they are given; most modules with one wrong word crash one. So every module goes through
//! these checks, and the first that fails names the fault:
//!
//! 1. *Bytes.* Empty, of odd length, no SPIR-V, cut off, of a version that Vulkan 1.2 does not read: said plainly here,
//!    as the validator would only say that it is not valid. A module of the other byte order is turned around.
//! 2. *What it asks for.* Capabilities outside the table of [`Feature`]s are [`Unsupported`](Code::Unsupported), and so
//!    is what hides which memory is touched (addresses, arrays of buffers), unless the kernel's launches declare their
//!    uses. This precedes the validator, to which they are merely invalid.
//! 3. *What it costs* those who read it (`budget`): the validator and drivers recurse, and some of their work doubles
//!    with every line of a module. Whoever vouches for a module is held only to what our own parser takes.
//! 4. *The validator*, where the build has one and the caller does not vouch for the module. Nothing after it has to
//!    expect a malformed module, but all of it does: without a validator it is all there is.
//! 5. *The entry point*, which decides what else of the module matters.
//! 6. *The layout.* What the validator does not see, as it knows no pipeline layout: variables without a place in one,
//!    or with a place outside it, or of a kind that no binding of ours is, and built-ins of another type than their
//!    own. Drivers look these up unchecked.
//! 7. *Limits* that depend on the device and on specialization: group size, shared and private memory, push constants.
//!
//! What a kernel does once it runs is not seen here: an index past the end of shared memory or of an array of buffers,
//! a wrong address or an endless loop passes every check, as Vulkan's robust access is for bound buffers only. Only an
//! index into shared or private memory that is constant, whatever specialization says, is held against the length.
//!
//! A module that fails may still say what its bindings are, as the outputs of a broken kernel are claimed by that (R8).
//! One that was refused before its layout was looked at is a poor witness, though, and no more than its bindings is
//! looked for: there a binding is `Read` only where the module promises
//! it by decoration, and `ReadWrite` otherwise. Better too much than one stale byte.

mod access;
mod budget;
mod constants;
mod coverage;
mod index;
mod needs;
mod parse;
mod reflect;
mod validate;

pub use needs::{Feature, FloatControl, Need, Needs};

use crate::code::Code;
use crate::error::Fault;
use crate::failure::Access;
use crate::stream::backend::{KernelInfo, KernelSource};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a device allows a module. The default is the least that Vulkan 1.2 guarantees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleLimits {
    /// `maxBoundDescriptorSets`.
    pub max_sets: u32,
    /// `maxPerStageDescriptorStorageBuffers`, and what else limits how many there can be.
    pub max_bindings: u32,
    /// The highest binding number a layout is made for. Vulkan has no limit, but drivers allocate by it.
    pub max_binding_number: u32,
    /// `maxPushConstantsSize`.
    pub max_push_size: u32,
    /// `maxComputeWorkGroupSize`.
    pub max_group_size: [u32; 3],
    /// `maxComputeWorkGroupInvocations`.
    pub max_group_invocations: u32,
    /// `maxComputeSharedMemorySize`.
    pub max_shared_size: u32,
    /// Bytes of variables of one invocation. Vulkan has no limit, but drivers take it from the stack.
    pub max_private_size: u32,
    /// `scalarBlockLayout` is enabled.
    pub scalar_block_layout: bool,
    /// `maintenance4` is enabled, which allows `LocalSizeId`.
    pub local_size_id: bool,
}

impl Default for ModuleLimits {
    fn default() -> ModuleLimits {
        ModuleLimits {
            max_sets: 4,
            max_bindings: 4,
            max_binding_number: 1023,
            max_push_size: 128,
            max_group_size: [128, 128, 64],
            max_group_invocations: 128,
            max_shared_size: 16 << 10,
            max_private_size: 256 << 10,
            scalar_block_layout: false,
            local_size_id: false,
        }
    }
}

/// A module fit for a driver, once its needs are met.
#[derive(Clone, Debug)]
pub struct Module {
    /// The module in the host's byte order.
    pub words: Vec<u32>,
    /// Its bindings, group size and push constants.
    pub info: KernelInfo,
    /// What the device must have; see [`Needs::check`].
    pub needs: Needs,
}

/// A module no driver must see.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// Why.
    pub fault: Fault,
    /// What could be learnt from it nevertheless; the group size is zero where it is not known.
    pub info: Option<KernelInfo>,
}

impl From<Fault> for Rejected {
    fn from(fault: Fault) -> Rejected {
        Rejected { fault, info: None }
    }
}

/// Whether this build can validate modules.
pub fn validator_available() -> bool {
    validate::AVAILABLE
}

/// Checks a module and says what its kernel does. Any bytes are fine.
pub fn inspect(source: &KernelSource<'_>, limits: &ModuleLimits) -> Result<Module, Rejected> {
    let words = parse::to_words(source.code)?;
    parse::check_header(&words)?;
    let instructions = budget::check_lengths(&words)?;
    budget::check_memory(&words, instructions)?;
    let parsed = contained(|| parse::parse(&words, instructions)).and_then(|parsed| parsed);
    let verdict = if source.trusted {
        Ok(())
    } else {
        contained(|| budget::check(&words, source.constants))
            .and_then(|within| within)
            .and_then(|()| validate::validate(&words, limits))
    };
    // What cannot be parsed is better explained by the validator.
    let parsed = parsed.map_err(|fault| verdict.clone().err().unwrap_or(fault))?;
    let reflection = contained(|| reflect::reflect(&parsed, source, limits, verdict.is_err()))?;
    let mut info = reflection.info;
    if verdict.is_err()
        && let Some(info) = &mut info
    {
        for (binding, read_only) in info.bindings.iter_mut().zip(&reflection.promised_read) {
            binding.access = if *read_only { Access::Read } else { Access::ReadWrite };
            binding.coverage = None;
        }
    }
    let fault = reflection.unsupported.or(verdict.err()).or(reflection.fault);
    match (fault, info) {
        (None, Some(info)) => Ok(Module { words, info, needs: reflection.needs }),
        (Some(fault), info) => Err(Rejected { fault, info }),
        (None, None) => Err(Fault::new(Code::Internal, "the module was neither accepted nor refused").into()),
    }
}

/// Runs code over untrusted bytes; a defect in it must not end the process.
fn contained<T>(look: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(look))
        .map_err(|_| Fault::new(Code::InvalidShader, "the module cannot be parsed: the parser gave up on it"))
}
