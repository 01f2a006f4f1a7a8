//! The rules of docs/rules.md, one fact a test, named after the rule it shows, on every scheduling.

mod host;

#[path = "rules/facts.rs"]
mod event;
#[path = "rules/facts.rs"]
#[allow(clippy::duplicate_mod, reason = "the same facts on another scheduling")]
mod interleave;
#[path = "rules/facts.rs"]
#[allow(clippy::duplicate_mod, reason = "the same facts on another scheduling")]
mod sequence;
