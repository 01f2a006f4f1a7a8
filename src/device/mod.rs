//! device
mod types;
pub use types::*;
