//! failure
mod access;
mod report;
pub use access::Access;
pub use report::{ClaimedRange, Failure, Report, Step, StepKind};
