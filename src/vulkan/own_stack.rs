//! A stack of known size for code that recurses over a module.
//!
//! The validator and drivers recurse as deeply as a module nests, calls and chains. How much stack the caller has left
//! nobody knows; what a module within the limits takes has been measured, and is a part of what there is here. A thread
//! is made for each kernel, which takes about a hundredth of what compiling the smallest one does. A stack that waits
//! for the next kernel would save that, but would be one more thing to outlive a fork, a device or the library.

use crate::code::Code;
use crate::error::Fault;
use std::panic::resume_unwind;
use std::thread::{Builder, scope};

/// Pages that are not touched take address space only.
const STACK: usize = 32 << 20;

/// Runs `body` on a stack of its own and waits for it. A panic in it goes on here.
pub(super) fn on_own_stack<T: Send>(body: impl FnOnce() -> T + Send) -> Result<T, Fault> {
    scope(|scope| {
        let thread = Builder::new().name("tidegate kernel".into()).stack_size(STACK).spawn_scoped(scope, body);
        match thread {
            Ok(thread) => Ok(thread.join().unwrap_or_else(|payload| resume_unwind(payload))),
            Err(error) => {
                let message = format!("no thread to compile a kernel on: {error}");
                Err(Fault::new(Code::OutOfHostMemory, message))
            }
        }
    })
}
