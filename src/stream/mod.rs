//! The pool of streams, the driver over it, and what it asks of a device.
pub mod backend;
