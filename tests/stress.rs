//! Many threads on one device: 8 of them, 16 streams on 4 slots, random work with failures, destroys and waits, and every
//! byte checked throughout against a model; over the host backend, and through the C API on lavapipe.
//!
//! `TIDEGATE_STRESS_SECONDS` says how long each of the tests works, `TIDEGATE_SEED` picks other work. A failure prints the
//! seed and the last calls of the thread that found it; which threads came first is not in the seed.

#![allow(unreachable_pub, reason = "the modules of a test are nobody else's")]

mod c;
mod host;
#[path = "stress/target.rs"]
mod target;
#[path = "stress/world.rs"]
mod world;

use target::{Host, Lavapipe};
use tidegate::device::Scheduling;
use world::stress;

#[test]
fn host_event() {
    stress::<Host>(Scheduling::Event);
}

#[test]
fn host_interleave() {
    stress::<Host>(Scheduling::Interleave);
}

#[test]
fn event() {
    c::alone("event", &[], || stress::<Lavapipe>(Scheduling::Event));
}

#[test]
fn interleave() {
    c::alone("interleave", &[], || stress::<Lavapipe>(Scheduling::Interleave));
}
