//! Streams: the pool that folds the caller's ids onto slots, the driver that records and orders work, and what it asks
//! of a device. Which bytes can be trusted is not decided here; which work comes first is.

pub mod backend;
pub mod event;
pub mod pool;

pub use backend::Backend;
pub use event::{EventStreams, Need, OrderStats};
pub use pool::StreamPool;
