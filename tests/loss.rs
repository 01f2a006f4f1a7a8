//! What a lost device says, keeps and gives back, whichever call the loss was an answer to; and what no loss is. On every
//! scheduling.

mod host;

#[path = "rules/loss.rs"]
mod event;
#[path = "rules/loss.rs"]
#[allow(clippy::duplicate_mod, reason = "the same facts on another scheduling")]
mod interleave;
#[path = "rules/loss.rs"]
#[allow(clippy::duplicate_mod, reason = "the same facts on another scheduling")]
mod sequence;
