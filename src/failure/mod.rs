//! failure
mod access;
pub use access::Access;
