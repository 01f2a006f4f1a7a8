//! The failure store: which bytes can be trusted, why not, and how it came to that. The heart of the library.
//!
//! A read returns bytes if and only if every one of them was last written by work that succeeded. So a failure is
//! recorded where it matters: as a *claim* on exactly the bytes that were to be written by work that did not succeed.
//! Work that needs claimed bytes is *skipped* and its outputs take over the same *roots*; writing the bytes again
//! releases them. Nothing else ever notices.
//!
//! Read [`store`] for the rules, then what they stand on: [`interval`], one map for everything known per byte range;
//! [`roots`], the first causes and the sets of them that claims hold; [`claims`], what is known of one block;
//! [`skips`], the paths; [`ledger`], what makes late failures act as if they had been known at enqueue; [`copies`], which
//! reads share a copy. A report ([`report`]) is taken by [`snapshot`] and put into words by [`render`].
//!
//! Nothing here knows Vulkan, C, threads or time.

mod access;
pub mod claims;
mod copies;
pub mod interval;
pub mod ledger;
pub mod name;
mod render;
pub mod report;
pub mod roots;
pub mod skips;
pub mod snapshot;
pub mod store;

pub use access::Access;
pub use claims::{BlockKey, Bytes, Claims, ScopeKey, Use};
pub use interval::{Holds, IntervalMap, Uncounted};
pub use ledger::Point;
pub use name::Name;
pub use report::{ClaimedRange, Failure, Report, Step, StepKind, Suspect};
pub use roots::{Context, SetKey};
pub use snapshot::{Reporting, Taking};
pub use store::{Blocks, FailureStore, Failures, LogLine, MAX_NAME, Work, cut, panic_message};
