//! What another thread does to a buffer while a call waits in the middle of its work on it: the call finds out.

mod host;

use host::backend::{Options, Pace};
use host::rig::{Rig, misused, settings, whole};
use tidegate::code::Code;
use tidegate::device::{BufferDesc, BufferMemory, ErrorDesc, Handle, Settings};
use tidegate::error::Result as Answer;
use tidegate::memory::MemoryKind;

/// A device with room for one unfinished piece of work, which is there: the next call waits. A buffer of 64 bytes that
/// is not allocated.
fn busy() -> (&'static Rig, Handle, Handle) {
    let settings = Settings { max_pending: 1, ..settings() };
    // Shared with what runs meanwhile, which the backend keeps.
    let rig: &Rig = Box::leak(Box::new(Rig::new(Options::new(1, 1).pace(Pace::Lazy), settings)));
    let other = rig.filled(64, 7);
    let memory = BufferMemory::Managed(MemoryKind::Device);
    let desc = BufferDesc { size: 64, memory, stream: 0, label: "", tag: 0, unallocated: true };
    let (buffer, answer) = rig.device.buffer_create(&desc);
    answer.expect("a buffer");
    (rig, buffer, other)
}

fn allocate_meanwhile(rig: &'static Rig, buffer: Handle, size: u64) {
    rig.backend().at_wait(move || rig.device.buffer_allocate(buffer, size).expect("an allocation"));
}

/// It was checked against 64 bytes, and 16 are there now: what lies behind them belongs to others.
fn refused_when_smaller(field: &str, call: impl FnOnce(&Rig, Handle, Handle) -> Answer) {
    let (rig, buffer, other) = busy();
    allocate_meanwhile(rig, buffer, 16);
    assert_eq!(misused(call(rig, buffer, other)), (Code::InvalidArgument, field));
    assert_eq!(rig.unreadable(whole(buffer)).len(), 1, "misuse changes nothing: it was never written");
    rig.assert_ordered();
}

#[test]
fn a_write_to_what_became_smaller_is_refused() {
    refused_when_smaller("dst.size", |rig, buffer, _| rig.write(whole(buffer), &[1; 64]));
}

#[test]
fn a_fill_of_what_became_smaller_is_refused() {
    refused_when_smaller("dst.size", |rig, buffer, _| rig.device.buffer_fill(0, whole(buffer), 1, 4));
}

#[test]
fn a_copy_to_what_became_smaller_is_refused() {
    refused_when_smaller("dst.size", |rig, buffer, other| rig.device.buffer_copy(0, whole(buffer), whole(other)));
}

#[test]
fn a_copy_from_what_became_smaller_is_refused() {
    refused_when_smaller("src.size", |rig, buffer, other| rig.device.buffer_copy(0, whole(other), whole(buffer)));
}

#[test]
fn a_read_of_what_became_smaller_is_refused() {
    refused_when_smaller("src.size", |rig, buffer, _| {
        rig.device.buffer_read(0, &mut [0; 64], whole(buffer), tidegate::device::FOREVER)
    });
}

/// Nothing was staged for a buffer without memory; then it had some.
#[test]
fn a_write_to_what_was_allocated_meanwhile_is_made() {
    let (rig, buffer, _) = busy();
    allocate_meanwhile(rig, buffer, 64);
    rig.write(whole(buffer), &[5; 64]).expect("a write");
    assert_eq!(rig.read(whole(buffer)).expect("its bytes"), [5; 64]);
    rig.assert_ordered();
}

#[test]
fn a_ragged_fill_of_what_was_allocated_meanwhile_is_made() {
    let (rig, buffer, _) = busy();
    allocate_meanwhile(rig, buffer, 64);
    let slice = host::rig::part(buffer, 0, 63);
    rig.device.buffer_fill(0, slice, 5, 1).expect("a fill");
    assert_eq!(rig.read(slice).expect("its bytes"), [5; 63]);
    rig.assert_ordered();
}

/// A token without bytes is skipped over; with them, it has no memory of ours to move bytes to or from.
fn refused_when_a_token(field: &str, call: impl FnOnce(&Rig, Handle, Handle) -> Answer) {
    let (rig, _, other) = busy();
    let (token, answer) = rig.try_buffer(64, BufferMemory::Token, "token");
    answer.expect("a token");
    let error = ErrorDesc { code: 1, message: "", label: "" };
    rig.device.fail_unallocated(token, &error).expect("no bytes");
    allocate_meanwhile(rig, token, 64);
    assert_eq!(misused(call(rig, token, other)), (Code::InvalidArgument, field));
    rig.assert_ordered();
}

#[test]
fn a_write_to_what_became_a_token_is_refused() {
    refused_when_a_token("dst.buffer", |rig, token, _| rig.write(whole(token), &[1; 64]));
}

#[test]
fn a_fill_of_what_became_a_token_is_refused() {
    refused_when_a_token("dst.buffer", |rig, token, _| rig.device.buffer_fill(0, whole(token), 1, 4));
}

#[test]
fn a_ragged_fill_of_what_became_a_token_is_refused() {
    refused_when_a_token("dst.buffer", |rig, token, _| rig.device.buffer_fill(0, host::rig::part(token, 1, 63), 1, 1));
}

#[test]
fn a_copy_to_what_became_a_token_is_refused() {
    refused_when_a_token("dst.buffer", |rig, token, other| rig.device.buffer_copy(0, whole(token), whole(other)));
}

#[test]
fn a_copy_from_what_became_a_token_is_refused() {
    refused_when_a_token("src.buffer", |rig, token, other| rig.device.buffer_copy(0, whole(other), whole(token)));
}

#[test]
fn a_read_of_what_became_a_token_is_refused() {
    refused_when_a_token("src.buffer", |rig, token, _| {
        rig.device.buffer_read(0, &mut [0; 64], whole(token), tidegate::device::FOREVER)
    });
}

#[test]
fn a_question_about_what_was_destroyed_meanwhile_is_refused() {
    let rig: &Rig = Box::leak(Box::new(Rig::new(Options::new(1, 1).pace(Pace::Lazy), settings())));
    let buffer = rig.buffer(64);
    rig.device.buffer_fill(0, whole(buffer), 1, 1).expect("a fill");
    rig.backend().at_wait(move || rig.device.buffer_destroy(buffer).expect("destroyed"));
    let answer = rig.device.check_written(&[whole(buffer)], tidegate::device::FOREVER);
    assert_eq!(misused(answer), (Code::StaleHandle, "slices.buffer"));
}

/// The end of the largest slice there is lies beside the end of all numbers.
#[test]
fn a_ragged_fill_at_the_end_of_everything_is_skipped_like_any_other() {
    let rig = Rig::new(Options::new(1, 1), settings());
    let (buffer, answer) = rig.try_buffer(u64::MAX, BufferMemory::Managed(MemoryKind::Device), "endless");
    assert!(answer.is_err());
    for (offset, size) in [(u64::MAX - 2, 1), (u64::MAX - 5, 5), (u64::MAX - 1, 1), (0, u64::MAX - 1)] {
        let answer = rig.device.buffer_fill(0, host::rig::part(buffer, offset, size), 1, 1);
        assert!(matches!(answer, Err(tidegate::error::Error::Skipped(_))), "{answer:?}");
    }
}
