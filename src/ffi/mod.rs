//! The C API: one file for each noun of the header, with bodies that check, call and report, and no logic of their
//! own. The only `extern "C"` of the library.
//!
//! The header is made from these files (`build_script/header.rs`): the words above a function are the words C programmers
//! read, and that is whom they are written for.

// The header's words are the contract of every function here; a section for Rust callers would end up in it.
#![allow(clippy::missing_safety_doc)]

mod boundary;
mod buffer;
mod device;
mod devices;
mod event;
mod failures;
mod handles;
mod kernel;
mod launch;
mod library;
mod log;
mod process;
mod read;
mod record;
mod report;
mod reports;
mod results;
mod runtime;
mod scope;
mod slices;
mod stream;
mod strings;
mod structs;
#[cfg(test)]
mod tests;
mod vk;
mod vulkan;

pub use buffer::*;
pub use device::*;
pub use event::*;
pub use failures::*;
pub use kernel::*;
pub use launch::*;
pub use library::*;
pub use log::*;
pub use read::*;
pub use report::*;
pub use results::*;
pub use scope::*;
pub use slices::*;
pub use stream::*;
pub use strings::*;
pub use vulkan::*;
