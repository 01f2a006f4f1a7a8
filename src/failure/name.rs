//! What paths call buffers and kernels: by serial, so that a name is of one thing for ever, and by the caller's label.

use std::sync::Arc;

/// A buffer or kernel as a path names it: a serial that is never used again, and the caller's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// "buffer" or "kernel": what it is called when it has no label.
    pub noun: &'static str,
    /// Which creation of the device's it was, counted from 1.
    pub serial: u64,
    /// The caller's name, or empty.
    pub label: Arc<str>,
}

impl Name {
    /// The same, without a copy of a label.
    pub fn label(&self) -> Arc<str> {
        if self.label.is_empty() { self.shown().into() } else { self.label.clone() }
    }

    /// The label, or a name made of the serial.
    pub fn shown(&self) -> String {
        if self.label.is_empty() { format!("{} {}", self.noun, self.serial) } else { self.label.to_string() }
    }
}
