//! Streams: the pool that folds the caller's ids onto slots, the two drivers that record and order work, and what they
//! ask of a device. Which bytes can be trusted is not decided here; which work comes first is.

mod answers;
pub mod backend;
pub(crate) mod caught;
pub mod coverage;
pub mod driver;
pub mod event;
pub mod pool;
pub mod scheduler;

pub use backend::Backend;
pub use caught::Caught;
pub use driver::{Command, Driver, Need, OrderStats, Progress};
pub use event::EventStreams;
pub use pool::StreamPool;
pub use scheduler::SchedulerStreams;
