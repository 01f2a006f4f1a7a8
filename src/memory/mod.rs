//! memory
mod source;
pub use source::{MemoryKind, PageSource};
