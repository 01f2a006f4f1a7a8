//! What another thread does to a buffer while a call waits in the middle of its work on it: the call finds out.

mod host;

use host::backend::{Options, Pace};
use host::rig::{Rig, misused, part, settings, whole};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tidegate::code::Code;
use tidegate::device::{BufferDesc, BufferMemory, ErrorDesc, FOREVER, Handle, Settings, Slice};
use tidegate::error::{Error, Result as Answer};
use tidegate::memory::MemoryKind;

/// How often two threads meet: one changes the buffer a little later each time.
const ROUNDS: u32 = 4000;

const SIZE: u64 = 64;

/// What becomes of a buffer that has no memory when the call begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Becomes {
    /// Allocated as it was asked for.
    Allocated,
    /// Allocated with a quarter of its size: what lies behind belongs to others.
    Smaller,
    /// A token with bytes, which has no memory of ours to move them to or from.
    Token,
}

fn make(rig: &Rig, becomes: Becomes) -> Handle {
    if becomes == Becomes::Token {
        let (token, answer) = rig.try_buffer(SIZE, BufferMemory::Token, "token");
        answer.expect("a token");
        let error = ErrorDesc { code: 1, message: "", label: "" };
        rig.device.fail_unallocated(token, &error).expect("no bytes");
        return token;
    }
    let memory = BufferMemory::Managed(MemoryKind::Device);
    let desc = BufferDesc { size: SIZE, memory, stream: 0, label: "", tag: 0, unallocated: true };
    let (buffer, answer) = rig.device.buffer_create(&desc);
    answer.expect("a buffer");
    buffer
}

/// The call meets the change in every order: it came before, and its bytes have no memory; or after, or in between, and
/// `sees` judges its answer.
fn race(becomes: Becomes, call: impl Fn(&Rig, Slice, Handle) -> Answer, sees: impl Fn(&Rig, Slice, Answer)) {
    let rig = Rig::default();
    let other = rig.filled(SIZE, 7);
    let size = if becomes == Becomes::Smaller { SIZE / 4 } else { SIZE };
    // The buffer whose turn it is; 0 between two rounds. A spinning thread sees it at once, a sleeping one far too late.
    let turn = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !is_over.load(Ordering::Acquire) {
                let buffer = turn.load(Ordering::Acquire);
                if buffer == 0 {
                    std::thread::yield_now();
                    continue;
                }
                (0..round % 1024).for_each(|_| std::hint::spin_loop());
                round += 7;
                rig.device.buffer_allocate(Handle(buffer), size).expect("an allocation");
                turn.store(0, Ordering::Release);
            }
        });
        let played = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..ROUNDS {
                let buffer = make(&rig, becomes);
                let slice = part(buffer, 0, SIZE);
                turn.store(buffer.0, Ordering::Release);
                let answer = call(&rig, slice, other);
                while turn.load(Ordering::Acquire) != 0 {
                    std::thread::yield_now();
                }
                match answer {
                    Err(Error::Skipped(_) | Error::Unwritten(_)) => {}
                    answer => sees(&rig, slice, answer),
                }
                rig.device.buffer_destroy(buffer).expect("destroyed");
            }
        }));
        is_over.store(true, Ordering::Release);
        played.unwrap_or_else(|panic| resume_unwind(panic));
    });
    rig.assert_ordered();
}

fn refused(becomes: Becomes, field: &str, call: impl Fn(&Rig, Slice, Handle) -> Answer) {
    race(becomes, call, |_, _, answer| assert_eq!(misused(answer), (Code::InvalidArgument, field)));
}

fn read(rig: &Rig, slice: Slice) -> Answer {
    rig.device.buffer_read(0, &mut [0; SIZE as usize], slice, FOREVER)
}

#[test]
fn a_write_to_what_became_smaller_is_refused() {
    refused(Becomes::Smaller, "dst.size", |rig, slice, _| rig.write(slice, &[1; SIZE as usize]));
}

#[test]
fn a_fill_of_what_became_smaller_is_refused() {
    refused(Becomes::Smaller, "dst.size", |rig, slice, _| rig.device.buffer_fill(0, slice, 1, 4));
}

#[test]
fn a_copy_to_what_became_smaller_is_refused() {
    refused(Becomes::Smaller, "dst.size", |rig, slice, other| rig.device.buffer_copy(0, slice, whole(other)));
}

#[test]
fn a_copy_from_what_became_smaller_is_refused() {
    refused(Becomes::Smaller, "src.size", |rig, slice, other| rig.device.buffer_copy(0, whole(other), slice));
}

#[test]
fn a_read_of_what_became_smaller_is_refused() {
    refused(Becomes::Smaller, "src.size", |rig, slice, _| read(rig, slice));
}

/// Nothing is staged for a buffer without memory; then it has some.
#[test]
fn a_write_to_what_was_allocated_meanwhile_is_made() {
    let call = |rig: &Rig, slice, _| rig.write(slice, &[5; SIZE as usize]);
    race(Becomes::Allocated, call, |rig, slice, answer| {
        answer.expect("a write");
        assert_eq!(rig.read(slice).expect("its bytes"), [5; SIZE as usize]);
    });
}

#[test]
fn a_ragged_fill_of_what_was_allocated_meanwhile_is_made() {
    let ragged = |slice: Slice| Slice { size: SIZE - 1, ..slice };
    let call = |rig: &Rig, slice, _| rig.device.buffer_fill(0, ragged(slice), 5, 1);
    race(Becomes::Allocated, call, |rig, slice, answer| {
        answer.expect("a fill");
        assert_eq!(rig.read(ragged(slice)).expect("its bytes"), [5; SIZE as usize - 1]);
    });
}

#[test]
fn a_write_to_what_became_a_token_is_refused() {
    refused(Becomes::Token, "dst.buffer", |rig, slice, _| rig.write(slice, &[1; SIZE as usize]));
}

#[test]
fn a_fill_of_what_became_a_token_is_refused() {
    refused(Becomes::Token, "dst.buffer", |rig, slice, _| rig.device.buffer_fill(0, slice, 1, 4));
}

#[test]
fn a_ragged_fill_of_what_became_a_token_is_refused() {
    refused(Becomes::Token, "dst.buffer", |rig, slice, _| {
        rig.device.buffer_fill(0, Slice { offset: 1, size: SIZE - 1, ..slice }, 1, 1)
    });
}

#[test]
fn a_copy_to_what_became_a_token_is_refused() {
    refused(Becomes::Token, "dst.buffer", |rig, slice, other| rig.device.buffer_copy(0, slice, whole(other)));
}

#[test]
fn a_copy_from_what_became_a_token_is_refused() {
    refused(Becomes::Token, "src.buffer", |rig, slice, other| rig.device.buffer_copy(0, whole(other), slice));
}

#[test]
fn a_read_of_what_became_a_token_is_refused() {
    refused(Becomes::Token, "src.buffer", |rig, slice, _| read(rig, slice));
}

/// A device with room for one unfinished piece of work, which is there: the next call waits, and its buffer goes.
fn destroyed_meanwhile(field: &str, call: impl FnOnce(&Rig, Handle, Handle) -> Answer) {
    let settings = Settings { max_pending: 1, ..settings() };
    // Shared with what runs meanwhile, which the backend keeps.
    let rig: &Rig = Box::leak(Box::new(Rig::new(Options::new(1, 1).pace(Pace::Lazy), settings)));
    let (buffer, other, busy) = (rig.filled(SIZE, 3), rig.filled(SIZE, 7), rig.buffer(SIZE));
    rig.device.wait(FOREVER).expect("a wait");
    rig.device.buffer_fill(0, whole(busy), 1, 1).expect("a fill");
    rig.backend().at_wait(move || rig.device.buffer_destroy(buffer).expect("destroyed"));
    assert_eq!(misused(call(rig, buffer, other)), (Code::StaleHandle, field));
    rig.assert_ordered();
}

#[test]
fn work_on_what_was_destroyed_while_it_waited_is_refused() {
    destroyed_meanwhile("dst.buffer", |rig, buffer, _| rig.write(whole(buffer), &[1; SIZE as usize]));
    destroyed_meanwhile("dst.buffer", |rig, buffer, _| rig.device.buffer_fill(0, whole(buffer), 1, 4));
    destroyed_meanwhile("dst.buffer", |rig, buffer, _| rig.device.buffer_fill(0, part(buffer, 1, 63), 1, 1));
    destroyed_meanwhile("dst.buffer", |rig, buffer, other| rig.device.buffer_copy(0, whole(buffer), whole(other)));
    destroyed_meanwhile("src.buffer", |rig, buffer, other| rig.device.buffer_copy(0, whole(other), whole(buffer)));
    destroyed_meanwhile("src.buffer", |rig, buffer, _| read(rig, whole(buffer)));
}

#[test]
fn a_question_about_what_was_destroyed_meanwhile_is_refused() {
    let rig: &Rig = Box::leak(Box::new(Rig::new(Options::new(1, 1).pace(Pace::Lazy), settings())));
    let buffer = rig.buffer(64);
    rig.device.buffer_fill(0, whole(buffer), 1, 1).expect("a fill");
    rig.backend().at_wait(move || rig.device.buffer_destroy(buffer).expect("destroyed"));
    let answer = rig.device.check_written(&[whole(buffer)], FOREVER);
    assert_eq!(misused(answer), (Code::StaleHandle, "slices.buffer"));
}

/// The end of the largest slice there is lies beside the end of all numbers.
#[test]
fn a_ragged_fill_at_the_end_of_everything_is_skipped_like_any_other() {
    let rig = Rig::new(Options::new(1, 1), settings());
    let (buffer, answer) = rig.try_buffer(u64::MAX, BufferMemory::Managed(MemoryKind::Device), "endless");
    assert!(answer.is_err());
    for (offset, size) in [(u64::MAX - 2, 1), (u64::MAX - 5, 5), (u64::MAX - 1, 1), (0, u64::MAX - 1)] {
        let answer = rig.device.buffer_fill(0, part(buffer, offset, size), 1, 1);
        assert!(matches!(answer, Err(Error::Skipped(_))), "{answer:?}");
    }
}
