//! Memory: handles, and the pages and blocks behind them.
//!
//! Keeps what belongs to bytes wherever they move: their claims (for `failure/`), their hazards (for `stream/`).
//! Knows no Vulkan: pages come from a [`PageSource`].

mod free_list;
pub mod handle;
pub mod hazard;
pub mod pages;
mod source;
mod table;

pub use handle::{Handle, HandleKind, HandleTable};
pub use hazard::{Growth, Hazard, Hazards, Mark};
pub use pages::{Pages, Place, Purpose};
pub use source::{MemoryKind, PageSource};
pub use table::{Block, Buffer, Memory};
