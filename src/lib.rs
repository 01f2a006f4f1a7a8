//! GPU compute on Vulkan for C and C++ engines, with every failure tracked on the exact bytes it left unwritten.
//!
//! The product is the C ABI of `include/tidegate/tidegate.h`, made by [`ffi`]. Dependencies point downwards:
//! [`ffi`] → [`device`] → [`stream`] → [`memory`] → [`failure`]; [`vulkan`] implements what [`stream`] asks of a
//! device. Start reading at [`failure`], where the rules are.

// What the tests share speaks of the crate by its name.
#[cfg(test)]
extern crate self as tidegate;

pub mod code;
pub mod device;
pub mod error;
pub mod failure;
pub mod ffi;
pub mod log;
pub mod memory;
pub mod process;
pub mod room;
pub mod spare;
pub mod stream;
pub mod vulkan;
