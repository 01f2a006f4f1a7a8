//! A report: an immutable snapshot that tells roots and paths, and outlives the device it was taken from.
//!
//! Data first; the text, JSON and so on are rendered from it and say nothing more.

use crate::code::Code;
use std::sync::Arc;

/// What happened to the answer's call, the roots behind it, and how they got there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The function that gave the answer, or empty when the report was asked for directly.
    pub function: String,
    /// The field that was wrong (misuse), or empty.
    pub field: String,
    /// The answer.
    pub code: Code,
    /// The `VkResult` behind it, or 0.
    pub vk_result: i32,
    /// What the answer says beyond its code.
    pub message: String,
    /// The roots, oldest first, each once.
    pub failures: Vec<Failure>,
    /// There are roots that are not listed.
    pub more: bool,
    /// After a loss: the work in flight, in order.
    pub suspects: Arc<[Suspect]>,
}

/// Work that was in flight when the device was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The kernel, or the operation.
    pub name: Arc<str>,
    /// The caller's name for it, or empty.
    pub label: Arc<str>,
    /// The caller's number for it.
    pub tag: u64,
}

/// A root and where it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its id; never used again.
    pub id: u64,
    /// What happened.
    pub code: Code,
    /// The `VkResult`, or 0.
    pub vk_result: i32,
    /// The Vulkan entry point, or empty.
    pub vk_function: String,
    /// The operation that failed: the C function, or "validation" and the like.
    pub operation: String,
    /// The kernel that failed or was to run, or empty.
    pub kernel: String,
    /// The stream the work was for, if it was for one.
    pub stream: Option<u64>,
    /// The caller's name for the buffer, launch or scope, or empty.
    pub label: String,
    /// The caller's number for it.
    pub tag: u64,
    /// What a person needs beyond the code.
    pub message: String,
    /// The claims it still has, in the order of the buffers' creation.
    pub claims: Vec<ClaimedRange>,
    /// Bytes of all its claims; memory that was never allocated counts with the size it was asked for.
    pub claimed_bytes: u64,
    /// How often work was skipped on it.
    pub skips: u64,
    /// The path to what was asked about: from the root down, oldest step first.
    pub path: Vec<Step>,
}

/// Bytes a root claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedRange {
    /// The buffer's serial: which creation of the device's it was, counted from 1.
    pub buffer: u64,
    /// The buffer's label, or "buffer N".
    pub label: Arc<str>,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// How a failure came from some bytes to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Work that needed the bytes did not run.
    Skip,
    /// A copy moved the claim with the bytes.
    Copy,
    /// Work ran on bytes that were found to be bad later.
    RanOnBadInput,
    /// Steps older than the 16 newest are not kept.
    Dropped,
    /// Work ran over the bytes, and nothing proves that it wrote them: they stay claimed (R9).
    UnprovenWrite,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// How.
    pub kind: StepKind,
    /// Which work.
    pub kernel: String,
    /// The caller's name for it the last time, or empty.
    pub label: String,
    /// The caller's number for it the last time.
    pub tag: u64,
    /// What it needed: a buffer, or its own kernel.
    pub needed: String,
    /// The work's own kernel is broken.
    pub needed_kernel: bool,
    /// The buffers it was to produce.
    pub produced: Vec<String>,
    /// How often exactly this happened; for `Dropped`, how many steps of the failure are no longer kept: those that are
    /// missing here are among them.
    pub count: u64,
    /// It may be more often, or more steps.
    pub at_least: bool,
}
