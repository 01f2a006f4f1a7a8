//! A stream waits for a semaphore of the caller's, on the host's device: one fact a test.

mod host;

use host::Rng;
use host::backend::{Call, Options, Pace, fault};
use host::rig::{Rig, failed, nine, part, silent, skipped, triple, whole};
use std::time::{Duration, Instant};
use tidegate::code::Code;
use tidegate::device::{BufferMemory, Handle, Scheduling, Settings, Slice};
use tidegate::error::{Error, Result as Answer};
use tidegate::memory::MemoryKind;
use tidegate::stream::backend::External;

const EVENT: Handle = Handle(0);
/// Far beyond what any of this waits for, in nanoseconds: what is never let go is a failure and no hang.
const LONG: u64 = 30_000_000_000;
const SIZE: u64 = 64;

/// The same on every scheduling and however many queues there are.
fn each(fact: impl Fn(Scheduling, usize)) {
    for scheduling in [Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence] {
        (1..=3).for_each(|queues| fact(scheduling, queues));
    }
}

fn settings(scheduling: Scheduling) -> Settings {
    Settings { scheduling, ..host::rig::settings() }
}

fn rig(scheduling: Scheduling, queues: usize) -> Rig {
    Rig::new(Options::new(1, queues), settings(scheduling))
}

/// The stream waits until the host signals the value.
fn hold(rig: &Rig, stream: u64, semaphore: u64, value: u64) {
    rig.device.stream_wait_external(stream, External { semaphore, value, submitted: false }).expect("a stream waits");
}

fn fill(rig: &Rig, stream: u64, slice: Slice, byte: u32) {
    rig.device.buffer_fill(stream, slice, byte, 1).expect("a fill");
}

fn copy(rig: &Rig, stream: u64, to: Handle, from: Handle) {
    rig.device.buffer_copy(stream, whole(to), whole(from)).expect("a copy");
}

fn read(rig: &Rig, stream: u64, buffer: Handle, timeout: u64) -> Answer<[u8; SIZE as usize]> {
    let mut bytes = [0xEE; SIZE as usize];
    let answer = rig.device.buffer_read(stream, &mut bytes, whole(buffer), timeout);
    assert!(answer.is_ok() || bytes == [0xEE; SIZE as usize], "a failed read touched its destination");
    answer.map(|()| bytes)
}

/// It does not come, for as long as we care to wait. The stream that asks waits with it from then on.
fn is_held(rig: &Rig, stream: u64, buffer: Handle) {
    for timeout in [0, 1_000_000] {
        assert_eq!(read(rig, stream, buffer, timeout), Err(Error::Timeout));
    }
}

fn holds(rig: &Rig, stream: u64, buffer: Handle, byte: u8) {
    assert_eq!(read(rig, stream, buffer, LONG), Ok([byte; SIZE as usize]));
}

#[test]
fn work_waits_until_the_value_is_reached_and_nothing_else_does() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let kernel = rig.kernel(&triple());
        let (input, held, free) = (rig.filled(SIZE, 2), rig.buffer(SIZE), rig.buffer(SIZE));
        rig.device.wait(LONG).expect("a wait");
        hold(&rig, 1, 10, 5);
        rig.launch_on(1, kernel, &[silent(whole(input)), silent(whole(held))], &[]).expect("a launch");
        rig.device.stream_flush(1).expect("a flush");
        for value in [0, 4] {
            rig.backend().signal(10, value);
            is_held(&rig, 1, held);
            assert_eq!(rig.device.stream_wait(1, 0), Err(Error::Timeout));
            assert_eq!(rig.device.wait(0), Err(Error::Timeout));
            rig.launch_on(2, kernel, &[silent(whole(input)), silent(whole(free))], &[]).expect("a launch");
            rig.device.stream_wait(2, LONG).expect("a wait");
            holds(&rig, 3, free, 7);
        }
        rig.backend().signal(10, 6);
        rig.device.stream_wait(1, LONG).expect("a wait");
        rig.backend().destroy_semaphore(10);
        holds(&rig, 2, held, 7);
        rig.device.wait(LONG).expect("a wait");
        rig.assert_ordered();
    });
}

#[test]
fn a_wait_ends_by_its_timeout() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let buffer = rig.filled(SIZE, 1);
        hold(&rig, 0, 1, 1);
        fill(&rig, 0, whole(buffer), 2);
        let (event, recorded) = rig.device.event_record(0, EVENT);
        recorded.expect("an event");
        let (begun, answer) = rig.device.read_begin(0, whole(buffer));
        answer.expect("a read begins");
        assert_eq!(rig.device.event_status(event), Err(Error::NotReady));
        assert_eq!(rig.device.read_poll(begun), Err(Error::NotReady));
        let timeout = Duration::from_millis(3);
        let ns = timeout.as_nanos() as u64;
        let waits: [&dyn Fn() -> Answer; 6] = [
            &|| rig.device.stream_wait(0, ns),
            &|| rig.device.wait(ns),
            &|| rig.device.event_wait(event, ns),
            &|| rig.device.read_wait(begun, ns),
            &|| rig.device.check_written(&[whole(buffer)], ns),
            &|| read(&rig, 0, buffer, ns).map(drop),
        ];
        for wait in waits {
            let began = Instant::now();
            assert_eq!(wait(), Err(Error::Timeout));
            assert!(began.elapsed() >= timeout);
        }
        rig.backend().signal(1, 1);
        for wait in waits {
            wait().expect("signalled");
        }
        assert_eq!(rig.device.read_data(begun).expect("bytes").to_vec(), [2; SIZE as usize]);
        rig.assert_ordered();
    });
}

#[test]
fn what_the_stream_had_before_does_not_wait() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let (before, between, after) = (rig.buffer(SIZE), rig.buffer(SIZE), rig.buffer(SIZE));
        fill(&rig, 1, whole(before), 1);
        let (event, recorded) = rig.device.event_record(1, EVENT);
        recorded.expect("an event");
        fill(&rig, 1, whole(before), 2);
        hold(&rig, 1, 1, 1);
        fill(&rig, 1, whole(between), 3);
        hold(&rig, 1, 2, 1);
        fill(&rig, 1, whole(after), 4);
        rig.device.event_wait(event, LONG).expect("an event");
        holds(&rig, 2, before, 2);
        is_held(&rig, 2, between);
        rig.backend().signal(1, 1);
        holds(&rig, 2, between, 3);
        is_held(&rig, 2, after);
        rig.backend().signal(2, 1);
        holds(&rig, 2, after, 4);
        rig.assert_ordered();
    });
}

#[test]
fn one_semaphore_frees_a_stream_step_by_step() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let buffers: Vec<Handle> = (0..20).map(|_| rig.buffer(SIZE)).collect();
        for (i, buffer) in buffers.iter().enumerate() {
            hold(&rig, 3, 1, i as u64 + 1);
            fill(&rig, 3, whole(*buffer), i as u32);
        }
        for (i, buffer) in buffers.iter().enumerate() {
            is_held(&rig, 4, *buffer);
            rig.backend().signal(1, i as u64 + 1);
            holds(&rig, 4, *buffer, i as u8);
        }
        rig.assert_ordered();
    });
}

#[test]
fn work_on_other_streams_that_shares_bytes_waits_behind_it() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let (source, out, third) = (rig.filled(SIZE, 5), rig.buffer(SIZE), rig.buffer(SIZE));
        rig.device.wait(LONG).expect("a wait");
        hold(&rig, 1, 1, 1);
        copy(&rig, 1, out, source);
        let (old, answer) = rig.device.read_begin(2, whole(out));
        answer.expect("a read begins");
        // Written after it was read, read after it was written, written after it was written.
        fill(&rig, 2, whole(source), 6);
        copy(&rig, 3, third, out);
        fill(&rig, 4, part(out, 0, 8), 8);
        for (stream, buffer) in [(5, source), (6, third), (0, out)] {
            is_held(&rig, stream, buffer);
        }
        rig.backend().signal(1, 1);
        holds(&rig, 5, source, 6);
        holds(&rig, 6, third, 5);
        rig.device.read_wait(old, LONG).expect("a wait");
        assert_eq!(rig.device.read_data(old).expect("bytes").to_vec(), [5; SIZE as usize]);
        let bytes = read(&rig, 0, out, LONG).expect("a read");
        assert_eq!((&bytes[..8], &bytes[8..]), (&[8; 8][..], &[5; SIZE as usize - 8][..]));
        rig.assert_ordered();
    });
}

#[test]
fn what_another_stream_had_before_does_not_wait_with_what_comes_behind() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let (held, first, second) = (rig.buffer(SIZE), rig.buffer(SIZE), rig.buffer(SIZE));
        hold(&rig, 1, 1, 1);
        fill(&rig, 1, whole(held), 1);
        fill(&rig, 2, whole(first), 2);
        copy(&rig, 2, second, held);
        is_held(&rig, 7, second);
        holds(&rig, 3, first, 2);
        // So with what waits for other semaphores, and for events.
        hold(&rig, 4, 2, 1);
        fill(&rig, 4, whole(first), 3);
        copy(&rig, 4, second, held);
        let (event, recorded) = rig.device.event_record(1, EVENT);
        recorded.expect("an event");
        let fifth = rig.buffer(SIZE);
        fill(&rig, 5, whole(fifth), 5);
        rig.device.stream_wait_event(5, event).expect("a stream waits");
        holds(&rig, 6, fifth, 5);
        rig.backend().signal(2, 1);
        holds(&rig, 6, first, 3);
        is_held(&rig, 7, second);
        rig.backend().signal(1, 1);
        holds(&rig, 6, second, 1);
        rig.assert_ordered();
    });
}

#[test]
fn streams_that_wait_for_each_other_in_turn_all_go_on() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let buffers: Vec<Handle> = (0..8).map(|_| rig.buffer(SIZE)).collect();
        hold(&rig, 1, 1, 1);
        fill(&rig, 1, whole(buffers[0]), 9);
        for i in 1..8 {
            copy(&rig, 1 + i % 3, buffers[i as usize], buffers[i as usize - 1]);
        }
        is_held(&rig, 5, buffers[7]);
        rig.backend().signal(1, 1);
        holds(&rig, 5, buffers[7], 9);
        rig.assert_ordered();
    });
}

#[test]
fn a_flush_of_any_stream_sends_off_all_that_was_freed() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let (a, b, c) = (rig.buffer(SIZE), rig.buffer(SIZE), rig.buffer(SIZE));
        hold(&rig, 1, 1, 1);
        fill(&rig, 1, whole(a), 1);
        copy(&rig, 2, b, a);
        copy(&rig, 3, c, b);
        let (event, recorded) = rig.device.event_record(3, EVENT);
        recorded.expect("an event");
        rig.backend().signal(1, 1);
        let submitted = rig.backend().counts().submits;
        rig.device.stream_flush(7).expect("a flush");
        assert!(rig.backend().counts().submits > submitted);
        rig.backend().run_all();
        rig.device.event_status(event).expect("over");
        rig.assert_ordered();
    });
}

#[test]
fn a_value_that_was_reached_holds_nothing_up_and_the_semaphore_may_go() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let buffer = rig.buffer(SIZE);
        rig.backend().signal(1, 7);
        hold(&rig, 1, 1, 7);
        rig.device.stream_wait(1, LONG).expect("a wait");
        rig.backend().destroy_semaphore(1);
        fill(&rig, 1, whole(buffer), 3);
        holds(&rig, 2, buffer, 3);
        // And one that is reached before there is work.
        hold(&rig, 1, 2, 1);
        rig.backend().signal(2, 1);
        rig.device.stream_wait(1, LONG).expect("a wait");
        rig.backend().destroy_semaphore(2);
        fill(&rig, 1, whole(buffer), 4);
        holds(&rig, 2, buffer, 4);
        rig.assert_ordered();
    });
}

#[test]
fn a_signal_that_is_submitted_is_waited_for_by_the_device() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let buffer = rig.buffer(SIZE);
        let external = External { semaphore: 1, value: 1, submitted: true };
        rig.device.stream_wait_external(1, external).expect("a stream waits");
        fill(&rig, 1, whole(buffer), 3);
        let submitted = rig.backend().counts().submits;
        rig.device.stream_flush(1).expect("a flush");
        assert_eq!(rig.backend().counts().submits, submitted + 1);
        is_held(&rig, 1, buffer);
        rig.backend().signal(1, 1);
        holds(&rig, 1, buffer, 3);
        rig.assert_ordered();
    });
}

#[test]
fn a_refused_batch_leaves_its_waits_to_the_next() {
    each(|scheduling, queues| {
        for call in [Call::Submit, Call::End] {
            let rig = rig(scheduling, queues);
            let (first, second) = (rig.buffer(SIZE), rig.buffer(SIZE));
            let external = External { semaphore: 1, value: 1, submitted: true };
            rig.device.stream_wait_external(1, external).expect("a stream waits");
            fill(&rig, 1, whole(first), 3);
            rig.backend().inject(call, 1, fault(Code::Driver, "refused"), false);
            let (code, roots) = failed(rig.device.stream_flush(1));
            assert_eq!((code, roots.len()), (Code::Driver, 1));
            fill(&rig, 1, whole(second), 4);
            is_held(&rig, 1, second);
            rig.backend().signal(1, 1);
            holds(&rig, 1, second, 4);
            assert_eq!(rig.unreadable(whole(first)), roots);
            rig.assert_ordered();
        }
    });
}

#[test]
fn a_refused_write_does_not_hide_a_reader_that_is_held_back() {
    each(|scheduling, queues| {
        for call in [Call::Submit, Call::End] {
            let rig = rig(scheduling, queues);
            let (source, out) = (rig.filled(SIZE, 5), rig.buffer(SIZE));
            rig.device.wait(LONG).expect("a wait");
            hold(&rig, 1, 1, 1);
            copy(&rig, 1, out, source);
            rig.device.stream_flush(1).expect("a flush");
            fill(&rig, 2, whole(source), 6);
            rig.backend().inject(call, 1, fault(Code::Driver, "refused"), false);
            let _ = rig.device.stream_flush(2);
            fill(&rig, 3, whole(source), 7);
            rig.device.stream_flush(3).expect("a flush");
            rig.backend().run_all();
            rig.backend().heal();
            rig.backend().signal(1, 1);
            holds(&rig, 4, out, 5);
            holds(&rig, 4, source, 7);
            rig.assert_ordered();
        }
    });
}

#[test]
fn questions_claims_and_skips_do_not_wait() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let kernel = rig.kernel(&triple());
        let (input, out, bad) = (rig.filled(SIZE, 2), rig.buffer(SIZE), rig.buffer(SIZE));
        rig.device.wait(LONG).expect("a wait");
        hold(&rig, 1, 1, 1);
        rig.launch_on(1, kernel, &[silent(whole(input)), silent(whole(out))], &[]).expect("a launch");
        let root = rig.taint(part(bad, 0, 4));
        assert_eq!(skipped(rig.launch_on(1, kernel, &[silent(whole(bad)), silent(whole(input))], &[])), [root]);
        assert_eq!(rig.device.first_failure(&[whole(out)]), Ok(0), "clean so far");
        assert_eq!(rig.device.first_failure(&[whole(input)]), Ok(root));
        assert_eq!(rig.device.report_slices(&[whole(input)]).expect("a report").failures.len(), 1);
        assert_eq!(rig.device.check_written(&[whole(out)], 0), Err(Error::Timeout));
        match read(&rig, 1, input, 0) {
            Err(Error::Unwritten(roots)) => assert_eq!(roots.ids[..], [root]),
            other => panic!("a read answered {other:?}"),
        }
        rig.device.mark_written(&[whole(bad)]).expect("a mark");
        let late = rig.taint(part(out, 0, 4));
        let (huge, _) = rig.huge();
        let (broken, _) = rig.broken(&[]);
        rig.device.kernel_destroy(broken).expect("a destroy");
        rig.device.buffer_destroy(huge).expect("a destroy");
        rig.device.trim().expect("a trim");
        rig.backend().signal(1, 1);
        // In the order of the calls: the taint came after the launch.
        assert_eq!(rig.unreadable(whole(out)), [late]);
        assert_eq!(read(&rig, 1, out, LONG).map_err(|error| error.code()), Err(Code::Unwritten));
        rig.device.mark_written(&[whole(out), whole(input)]).expect("a mark");
        holds(&rig, 1, out, 7);
        rig.assert_ordered();
    });
}

#[test]
fn a_late_failure_of_work_that_was_held_back_reaches_what_came_behind() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let (first, second, other) = (rig.buffer(SIZE), rig.filled(SIZE, 1), rig.filled(SIZE, 2));
        rig.device.wait(LONG).expect("a wait");
        hold(&rig, 1, 1, 1);
        fill(&rig, 1, whole(first), 3);
        copy(&rig, 2, second, first);
        rig.device.stream_flush(1).expect("a flush");
        rig.device.stream_flush(2).expect("a flush");
        holds(&rig, 3, other, 2);
        rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused"), false);
        rig.backend().signal(1, 1);
        rig.device.stream_wait(2, LONG).expect("a wait");
        let roots = rig.unreadable(whole(second));
        assert_eq!(roots.len(), 1);
        assert_eq!(rig.unreadable(whole(first)), roots);
        holds(&rig, 3, other, 2);
        rig.assert_ordered();
    });
}

/// A device whose memory is all buffers, but for what is left to staging. One of 64 KiB, and others.
fn full(scheduling: Scheduling, queues: usize) -> (Rig, Handle, Handle) {
    full_with(Settings { memory_cap: 1 << 20, staging_size: 64 << 20, ..settings(scheduling) }, queues)
}

fn full_with(settings: Settings, queues: usize) -> (Rig, Handle, Handle) {
    let rig = Rig::new(Options::new(1, queues), settings);
    let (buffer, other) = (rig.buffer(1 << 16), rig.buffer(SIZE));
    for size in [1 << 16, 1 << 12] {
        while rig.try_buffer(size, BufferMemory::Managed(MemoryKind::Device), "").1.is_ok() {}
    }
    rig.device.buffer_fill(0, whole(buffer), 1, 1).expect("a fill");
    rig.device.buffer_fill(0, whole(other), 1, 1).expect("a fill");
    rig.device.wait(LONG).expect("a wait");
    (rig, buffer, other)
}

#[test]
fn a_full_device_of_held_writes_is_an_answer_and_no_wait() {
    each(|scheduling, queues| {
        let (rig, buffer, other) = full(scheduling, queues);
        let failures = rig.failures();
        hold(&rig, 1, 1, 1);
        let write = |at: u64| rig.device.buffer_write(1, part(buffer, at, 4096), &[2; 4096], false);
        let written = (0..16).take_while(|at| write(at * 4096) == Ok(())).count() as u64;
        assert!((1..=16).contains(&written));
        for stream in [1, 2] {
            for no_wait in [false, true] {
                let answer = rig.device.buffer_write(stream, part(buffer, 0, 1 << 16), &[3; 1 << 16], no_wait);
                assert_eq!(answer, Err(Error::NotReady));
                let answer = rig.device.buffer_write(stream, whole(other), &[3; SIZE as usize], no_wait);
                assert_eq!(answer, Err(Error::NotReady), "stream {stream}, {no_wait}");
            }
            assert_eq!(rig.device.buffer_fill(stream, part(other, 1, 2), 3, 1), Err(Error::NotReady));
        }
        assert_eq!(rig.failures(), failures);
        holds(&rig, 3, other, 1);
        rig.backend().signal(1, 1);
        rig.device.buffer_write(1, part(buffer, 0, 4096), &[4; 4096], false).expect("a write");
        rig.device.buffer_write(2, whole(other), &[5; SIZE as usize], false).expect("a write");
        holds(&rig, 3, other, 5);
        let bytes = rig.read(whole(buffer)).expect("bytes");
        let expected = |at: u64| {
            if at < 4096 {
                4
            } else if at < written * 4096 {
                2
            } else {
                1
            }
        };
        assert!((0..1 << 16).all(|at| bytes[at as usize] == expected(at)), "what was not written was not touched");
        rig.assert_ordered();
    });
}

#[test]
fn a_full_device_of_held_fills_is_an_answer_and_no_wait() {
    each(|scheduling, queues| {
        let (rig, buffer, _) = full(scheduling, queues);
        let failures = rig.failures();
        hold(&rig, 1, 1, 1);
        let fill = || rig.device.buffer_fill(1, part(buffer, 1, 2), 2, 1);
        let first = (0..1 << 16).map(|_| fill()).find(|answer| answer.is_err());
        assert_eq!(first, Some(Err(Error::NotReady)));
        assert_eq!(rig.failures(), failures);
        rig.backend().signal(1, 1);
        fill().expect("a fill");
        rig.assert_ordered();
    });
}

#[test]
fn reads_of_held_bytes_that_fill_a_full_device_are_an_answer_and_no_failure() {
    each(|scheduling, queues| {
        let (rig, buffer, other) = full(scheduling, queues);
        let failures = rig.failures();
        hold(&rig, 1, 1, 1);
        fill(&rig, 1, whole(buffer), 2);
        let mut bytes = vec![0; 1 << 14];
        let mut read = |at, timeout| rig.device.buffer_read(2, &mut bytes, part(buffer, at, 1 << 14), timeout);
        let used = || rig.device.memory_stats().used[2];
        for _ in 0..1000 {
            assert_eq!(read(0, 0), Err(Error::Timeout));
            assert_eq!(used(), 1 << 14, "the same bytes are copied once, however often they are asked for");
        }
        let first = (1..100).map(|at| read(at, 0)).find(|answer| *answer != Err(Error::Timeout));
        assert_eq!(first, Some(Err(Error::NotReady)));
        assert_eq!(read(200, LONG), Err(Error::NotReady));
        assert_eq!(read(0, 0), Err(Error::Timeout), "what was begun needs no room");
        assert_eq!(rig.device.read_begin(2, whole(buffer)), (Handle(0), Err(Error::NotReady)));
        assert_eq!(rig.failures(), failures);
        // What goes up has its own.
        rig.device.buffer_write(3, whole(other), &[5; SIZE as usize], false).expect("a write");
        rig.backend().signal(1, 1);
        read(0, LONG).expect("bytes");
        read(300, LONG).expect("bytes");
        assert!(bytes.iter().all(|byte| *byte == 2));
        rig.assert_ordered();
    });
}

/// Whoever was refused for want of room asks again after the signal, on a stream that only comes behind.
#[test]
fn a_call_that_was_refused_for_want_of_room_gets_on_after_the_signal() {
    each(|scheduling, queues| {
        for whole_write in [false, true] {
            for staging_size in [1 << 16, 64 << 20] {
                let settings = Settings { memory_cap: 1 << 20, staging_size, ..settings(scheduling) };
                let (rig, buffer, _) = full_with(settings, queues);
                hold(&rig, 1, 1, 1);
                fill(&rig, 1, whole(buffer), 2);
                let size = if whole_write { 1 << 16 } else { 1 << 10 };
                let write = || rig.device.buffer_write(2, part(buffer, 0, size as u64), &vec![3; size], false);
                let first = (0..100).map(|_| write()).find(|answer| answer.is_err());
                assert_eq!(first, Some(Err(Error::NotReady)));
                rig.backend().signal(1, 1);
                write().expect("a write");
                rig.assert_ordered();
            }
        }
    });
}

#[test]
fn a_full_ledger_of_held_work_is_an_answer_and_no_wait() {
    each(|scheduling, queues| {
        let rig = Rig::new(Options::new(1, queues), Settings { max_pending: 10, ..settings(scheduling) });
        let kernel = rig.kernel(&nine());
        let (buffer, other) = (rig.buffer(SIZE), rig.filled(SIZE, 1));
        rig.device.wait(LONG).expect("a wait");
        hold(&rig, 1, 1, 1);
        for i in 0..10 {
            fill(&rig, 1 + i % 3, whole(buffer), i as u32);
        }
        for stream in [1, 4] {
            let launched = rig.launch_on(stream, kernel, &[silent(whole(other))], &[]);
            assert_eq!(launched, Err(Error::NotReady));
            assert_eq!(rig.device.buffer_fill(stream, whole(other), 7, 1), Err(Error::NotReady));
            assert_eq!(rig.device.buffer_write(stream, whole(other), &[7; 64], false), Err(Error::NotReady));
            assert_eq!(rig.device.buffer_copy(stream, whole(other), whole(buffer)), Err(Error::NotReady));
            assert_eq!(rig.device.read_begin(stream, whole(other)), (Handle(0), Err(Error::NotReady)));
            assert_eq!(read(&rig, stream, other, LONG), Err(Error::NotReady));
        }
        assert_eq!(rig.failures(), 0);
        rig.backend().signal(1, 1);
        fill(&rig, 4, part(other, 0, 4), 8);
        holds(&rig, 2, buffer, 9);
        assert_eq!(rig.read(whole(other)).expect("a read"), [&[8; 4][..], &[1; 60]].concat());
        rig.assert_ordered();
    });
}

#[test]
fn a_write_that_breaks_off_in_the_middle_claims_the_rest() {
    each(|scheduling, queues| {
        let rig = Rig::new(Options::new(1, queues), Settings { max_pending: 4, ..settings(scheduling) });
        let (held, long) = (rig.buffer(SIZE), rig.buffer(5 * 4096));
        hold(&rig, 1, 1, 1);
        fill(&rig, 1, whole(held), 1);
        let (code, roots) = failed(rig.device.buffer_write(1, whole(long), &[3; 5 * 4096], false));
        assert_eq!((code, roots.len()), (Code::LimitExceeded, 1));
        rig.backend().signal(1, 1);
        assert_eq!(rig.unreadable(whole(long)), roots);
        assert_eq!(rig.read(part(long, 0, 3 * 4096)).expect("a read"), [3; 3 * 4096]);
        assert_eq!(rig.unreadable(part(long, 3 * 4096, 1)), roots);
        rig.write(whole(long), &[4; 5 * 4096]).expect("a write");
        assert_eq!(rig.read(whole(long)).expect("a read"), [4; 5 * 4096]);
        assert_eq!(rig.settled_failures(), 0);
    });
}

#[test]
fn a_write_that_finds_no_staging_behind_held_work_changes_nothing() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let (buffer, small) = (rig.buffer(1 << 17), rig.buffer(SIZE));
        hold(&rig, 1, 1, 1);
        // More than the staging memory: not one of its pieces is enqueued.
        for no_wait in [false, true] {
            let written = rig.device.buffer_write(1, part(buffer, 0, 1 << 16), &[5; 1 << 16], no_wait);
            assert_eq!(written, if no_wait { Err(Error::NotReady) } else { Ok(()) });
            if !no_wait {
                assert_eq!(rig.device.buffer_write(1, whole(buffer), &[6; 1 << 17], false), Err(Error::NotReady));
                assert_eq!(rig.device.buffer_write(1, whole(small), &[6; 64], false), Err(Error::NotReady));
            }
        }
        rig.device.buffer_fill(1, part(small, 0, 3), 2, 1).expect("a ragged fill");
        rig.device.buffer_write(2, whole(small), &[7; 64], false).expect("another stream has its own staging");
        rig.backend().signal(1, 1);
        assert_eq!(rig.read(part(buffer, 0, 1 << 16)).expect("a read"), [5; 1 << 16]);
        rig.device.buffer_write(1, whole(buffer), &[6; 1 << 17], false).expect("a write");
        assert_eq!(rig.read(whole(buffer)).expect("a read"), [6; 1 << 17]);
        assert_eq!(rig.failures(), 0);
        rig.assert_ordered();
    });
}

#[test]
fn memory_that_held_work_still_uses_is_not_given_to_others() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let (doomed, out) = (rig.filled(SIZE, 4), rig.buffer(SIZE));
        rig.device.wait(LONG).expect("a wait");
        let used = rig.device.memory_stats().used;
        hold(&rig, 1, 1, 1);
        copy(&rig, 1, out, doomed);
        rig.device.buffer_destroy(doomed).expect("a destroy");
        for round in 0..5 {
            let heir = rig.buffer(SIZE);
            fill(&rig, 2, whole(heir), round);
            holds(&rig, 3, heir, round as u8);
            rig.device.buffer_destroy(heir).expect("a destroy");
        }
        rig.backend().signal(1, 1);
        holds(&rig, 1, out, 4);
        rig.device.buffer_destroy(out).expect("a destroy");
        rig.device.wait(LONG).expect("a wait");
        assert_eq!(rig.device.memory_stats().used[0], used[0] - 2 * SIZE);
        rig.assert_ordered();
    });
}

/// The last to write it never ran, and hides who still reads it.
#[test]
fn memory_that_held_work_uses_is_not_given_to_others_after_a_refusal_either() {
    each(|scheduling, queues| {
        for call in [Call::Submit, Call::End] {
            let rig = rig(scheduling, queues);
            let (doomed, out) = (rig.filled(SIZE, 4), rig.buffer(SIZE));
            rig.device.wait(LONG).expect("a wait");
            hold(&rig, 1, 1, 1);
            copy(&rig, 1, out, doomed);
            rig.device.stream_flush(1).expect("a flush");
            rig.backend().inject(call, 1, fault(Code::Driver, "refused"), false);
            fill(&rig, 2, whole(doomed), 5);
            let _ = rig.device.stream_flush(2);
            rig.device.buffer_destroy(doomed).expect("a destroy");
            rig.backend().heal();
            for round in 0..5 {
                let heir = rig.buffer(SIZE);
                fill(&rig, 3, whole(heir), round);
                holds(&rig, 4, heir, round as u8);
                rig.device.buffer_destroy(heir).expect("a destroy");
            }
            rig.backend().signal(1, 1);
            holds(&rig, 1, out, 4);
            rig.assert_ordered();
        }
    });
}

#[test]
fn a_device_with_held_work_is_closed_once_it_is_let_go() {
    each(|scheduling, queues| {
        let mut rig = rig(scheduling, queues);
        let (buffer, other) = (rig.buffer(SIZE), rig.buffer(SIZE));
        hold(&rig, 1, 1, 1);
        fill(&rig, 1, whole(buffer), 1);
        rig.device.buffer_destroy(buffer).expect("a destroy");
        for timeout in [0, 2_000_000] {
            assert_eq!(rig.device.close(timeout), Err(Error::Timeout));
        }
        fill(&rig, 2, whole(other), 2);
        holds(&rig, 2, other, 2);
        rig.backend().signal(1, 1);
        rig.device.close(LONG).expect("a close");
        rig.backend().destroy_semaphore(1);
        assert_eq!((rig.backend().live_pages(), rig.backend().open_recordings()), (0, 0));
        rig.assert_ordered();
    });
}

#[test]
fn held_bytes_are_mapped_when_the_work_is_over() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let (buffer, made) = rig.try_buffer(SIZE, BufferMemory::Managed(MemoryKind::Readback), "mapped");
        made.expect("a buffer");
        hold(&rig, 1, 1, 1);
        fill(&rig, 1, whole(buffer), 6);
        let access = tidegate::failure::Access::Read;
        for timeout in [0, 1_000_000] {
            assert_eq!(rig.device.buffer_map(whole(buffer), access, timeout).map(drop), Err(Error::Timeout));
        }
        rig.backend().signal(1, 1);
        let address = rig.device.buffer_map(whole(buffer), access, LONG).expect("a mapping");
        assert_eq!(rig.backend().peek(address, SIZE as usize), [6; SIZE as usize]);
        rig.device.buffer_unmap(whole(buffer)).expect("an end");
        rig.assert_ordered();
    });
}

#[test]
fn a_lost_device_answers_with_its_loss() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let buffer = rig.buffer(SIZE);
        hold(&rig, 1, 1, 1);
        fill(&rig, 1, whole(buffer), 6);
        fill(&rig, 2, part(buffer, 0, 4), 6);
        rig.device.stream_flush(1).expect("a flush");
        let other = rig.buffer(SIZE);
        fill(&rig, 3, whole(other), 6);
        rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "lost"), false);
        assert_eq!(failed(rig.device.stream_flush(3)).0, Code::DeviceLost);
        let external = External { semaphore: 2, value: 1, submitted: false };
        assert_eq!(failed(rig.device.stream_wait_external(1, external)).0, Code::DeviceLost);
        assert_eq!(failed(rig.device.stream_wait(1, LONG)).0, Code::DeviceLost);
    });
}

/// The device refuses what the stream had before while new work is taken. That work is well, and so is the call (R2).
#[test]
fn a_call_is_not_told_what_became_of_other_batches_of_its_stream() {
    each(|scheduling, queues| {
        for pieces in [false, true] {
            let rig = Rig::new(Options::new(1, queues), Settings { max_recorded: 2, ..settings(scheduling) });
            let kernel = rig.kernel(&nine());
            let (held, before, out) = (rig.buffer(SIZE), rig.buffer(SIZE), rig.buffer(5 * 4096));
            rig.device.wait(LONG).expect("a wait");
            hold(&rig, 1, 1, 1);
            fill(&rig, 1, whole(held), 1);
            rig.device.stream_flush(1).expect("a flush");
            fill(&rig, 1, whole(before), 2);
            rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused"), false);
            rig.backend().signal(1, 1);
            if pieces {
                rig.device.buffer_write(1, whole(out), &[9; 5 * 4096], false).expect("a write");
            } else {
                rig.launch_on(1, kernel, &[silent(whole(out))], &[]).expect("a launch");
                // It is told where it asks for the stream.
                if rig.backend().fired() == 0 {
                    assert_eq!(failed(rig.device.stream_flush(1)).0, Code::Driver);
                }
            }
            assert_eq!(rig.backend().fired(), 1, "{scheduling:?} {queues} {pieces}");
            assert_eq!(rig.read(whole(out)).expect("a read"), [9; 5 * 4096]);
            assert_eq!(rig.unreadable(whole(held)).len(), 1);
            rig.assert_ordered();
        }
    });
}

/// Other bytes are refused once, by whichever call, and written and read again. That has nothing to do with what is held
/// back.
#[test]
fn after_a_refusal_nothing_waits_for_work_it_shares_no_bytes_with() {
    each(|scheduling, queues| {
        for (call, streams) in
            [(Call::Submit, [2, 2]), (Call::Submit, [2, 3]), (Call::End, [2, 2]), (Call::End, [2, 3])]
        {
            let small = Settings { memory_cap: 4 << 20, ..settings(scheduling) };
            let rig = Rig::new(Options::new(1, queues), small);
            let (source, out, clean) = (rig.filled(SIZE, 5), rig.buffer(SIZE), rig.filled(SIZE, 4));
            let (bytes, large) = (rig.buffer(SIZE), rig.buffer(1 << 20));
            let (mapped, made) = rig.try_buffer(SIZE, BufferMemory::Managed(MemoryKind::Readback), "mapped");
            made.expect("a buffer");
            rig.device.wait(LONG).expect("a wait");
            hold(&rig, 1, 1, 1);
            copy(&rig, 1, out, source);
            rig.device.stream_flush(1).expect("a flush");
            let [first, second] = streams;
            [bytes, large, mapped].iter().for_each(|buffer| fill(&rig, first, whole(*buffer), 6));
            rig.backend().inject(call, 1, fault(Code::Driver, "refused"), false);
            assert_eq!(failed(rig.device.stream_flush(first)).0, Code::Driver);
            let answer = rig.device.check_written(&[whole(bytes)], LONG);
            assert_eq!(answer.map_err(|error| error.code()), Err(Code::Unwritten));
            rig.device.mark_written(&[whole(mapped)]).expect("a mark");
            rig.device.buffer_map(whole(mapped), tidegate::failure::Access::Read, LONG).expect("a mapping");
            rig.device.buffer_unmap(whole(mapped)).expect("an end");
            fill(&rig, second, whole(bytes), 7);
            holds(&rig, second, bytes, 7);
            // A read that is refused leaves its memory to others.
            rig.backend().inject(call, 1, fault(Code::Driver, "refused"), false);
            assert!(read(&rig, first, clean, LONG).is_err());
            holds(&rig, 4, clean, 4);
            rig.device.buffer_destroy(large).expect("a destroy");
            assert!(rig.device.trim().expect("a trim") > 0);
            let heir = rig.buffer(1 << 20);
            fill(&rig, 5, part(heir, 0, SIZE), 8);
            rig.device.stream_wait(5, LONG).expect("a wait");
            assert_eq!(read(&rig, second, out, 0), Err(Error::Timeout), "held back all the while");
            rig.backend().signal(1, 1);
            holds(&rig, second, out, 5);
            rig.assert_ordered();
        }
    });
}

/// The second cannot be closed while the first is held back; nobody overtakes the first for that, at however many removes.
#[test]
fn what_comes_after_batches_that_could_not_be_closed_comes_behind_what_they_came_behind() {
    for queues in 1..=3 {
        for (pace, refused) in [Pace::Lazy, Pace::Random, Pace::Eager].iter().flat_map(|pace| [(*pace, 1), (*pace, 3)])
        {
            let rig = Rig::new(Options::new(1, queues).pace(pace), settings(Scheduling::Event));
            let (source, out, other) = (rig.filled(SIZE, 5), rig.buffer(SIZE), rig.buffer(SIZE));
            rig.device.wait(LONG).expect("a wait");
            hold(&rig, 1, 1, 1);
            copy(&rig, 1, out, source);
            rig.device.stream_flush(1).expect("a flush");
            for stream in 2..2 + refused {
                rig.backend().inject(Call::End, 1, fault(Code::Driver, "refused"), false);
                fill(&rig, stream, whole(source), 6);
                assert_eq!(failed(rig.device.stream_flush(stream)).0, Code::Driver);
            }
            fill(&rig, 0, whole(other), 7);
            fill(&rig, 0, whole(source), 8);
            holds(&rig, 6, other, 7);
            is_held(&rig, 7, source);
            rig.backend().run_all();
            rig.backend().signal(1, 1);
            holds(&rig, 5, out, 5);
            fill(&rig, 3, part(source, 0, 4), 9);
            holds(&rig, 4, out, 5);
            assert_eq!(rig.read(whole(source)).expect("a read"), [&[9; 4][..], &[8; 60]].concat());
            rig.assert_ordered();
        }
    }
}

/// What waited for the semaphore never runs. It is in nobody else's batch when a wait of its stream has answered.
#[test]
fn a_semaphore_of_a_refused_batch_may_go_when_its_stream_was_waited_for() {
    each(|scheduling, queues| {
        for call in [Call::Submit, Call::End] {
            let rig = Rig::new(Options::new(1, queues).pace(Pace::Lazy), settings(scheduling));
            let (a, b) = (rig.buffer(SIZE), rig.buffer(SIZE));
            rig.device.wait(LONG).expect("a wait");
            // The device is busy: what is handed to a queue stays there.
            rig.backend().hold(true);
            fill(&rig, 3, whole(b), 1);
            rig.device.stream_flush(3).expect("a flush");
            hold(&rig, 1, 1, 1);
            fill(&rig, 1, whole(a), 1);
            if call == Call::End {
                rig.backend().inject(call, 1, fault(Code::Driver, "refused"), false);
            }
            let _ = rig.device.stream_flush(1);
            fill(&rig, 2, whole(a), 2);
            rig.device.stream_flush(2).expect("a flush");
            if call == Call::Submit {
                rig.backend().inject(call, 1, fault(Code::Driver, "refused"), false);
            }
            rig.backend().signal(1, 1);
            let _ = rig.device.stream_wait(1, LONG);
            assert_eq!(rig.backend().fired(), 1);
            rig.device.stream_wait(1, LONG).expect("a wait");
            rig.backend().destroy_semaphore(1);
            rig.backend().hold(false);
            rig.device.wait(LONG).expect("a wait");
            fill(&rig, 1, whole(b), 3);
            holds(&rig, 2, b, 3);
            holds(&rig, 1, a, 2);
            rig.assert_ordered();
        }
    });
}

/// Two batches fail in one flush, each for a reason of its own (R6).
#[test]
fn batches_that_cannot_be_closed_are_a_failure_each() {
    each(|scheduling, queues| {
        let rig = rig(scheduling, queues);
        let (a, b) = (rig.buffer(SIZE), rig.buffer(SIZE));
        rig.device.wait(LONG).expect("a wait");
        rig.backend().inject(Call::End, 1, fault(Code::Driver, "first"), false);
        rig.backend().inject(Call::End, 1, fault(Code::LimitExceeded, "second"), false);
        hold(&rig, 1, 1, 1);
        fill(&rig, 1, whole(a), 1);
        // What the stream had is closed, or sealed.
        let _ = rig.device.stream_wait_external(1, External { semaphore: 1, value: 2, submitted: false });
        fill(&rig, 1, whole(b), 2);
        rig.backend().signal(1, 2);
        failed(rig.device.stream_flush(1));
        assert_eq!(rig.backend().fired(), 2);
        for (buffer, code, message) in [(a, Code::Driver, "first"), (b, Code::LimitExceeded, "second")] {
            let report = rig.device.report_slices(&[whole(buffer)]).expect("a report");
            let told: Vec<_> = report.failures.iter().map(|root| (root.code, &root.message[..])).collect();
            assert_eq!(told, [(code, message)], "{scheduling:?}");
        }
        assert_eq!(rig.settled_failures(), 2);
        rig.assert_ordered();
    });
}

/// The third comes after the second, which never runs: then it has to come after the first.
#[test]
fn what_comes_behind_a_refused_batch_comes_after_what_that_one_stood_for() {
    each(|scheduling, queues| {
        for pace in [Pace::Lazy, Pace::Random, Pace::Eager] {
            let rig = Rig::new(Options::new(1, queues).pace(pace), settings(scheduling));
            let buffer = rig.buffer(SIZE);
            rig.device.wait(LONG).expect("a wait");
            hold(&rig, 1, 1, 1);
            for stream in 1..=3 {
                fill(&rig, stream, whole(buffer), stream as u32);
                rig.device.stream_flush(stream).expect("a flush");
            }
            rig.backend().inject(Call::Submit, 2, fault(Code::Driver, "refused"), false);
            rig.backend().signal(1, 1);
            // A scheduler submits all that was let go for whoever flushes.
            let _ = rig.device.stream_flush(7);
            rig.backend().run_all();
            if scheduling == Scheduling::Event {
                assert_eq!(rig.backend().fired(), 1);
            }
            rig.backend().heal();
            holds(&rig, 3, buffer, 3);
            rig.assert_ordered();
        }
    });
}

/// The held batch of the stream waits for another queue, and never runs: then the stream's next batch has to.
#[test]
fn what_comes_after_a_refused_batch_of_its_own_stream_waits_for_what_that_one_waited_for() {
    each(|scheduling, queues| {
        for pace in [Pace::Lazy, Pace::Random, Pace::Eager] {
            let rig = Rig::new(Options::new(1, queues).pace(pace), settings(scheduling));
            let buffer = rig.buffer(SIZE);
            rig.device.wait(LONG).expect("a wait");
            hold(&rig, 1, 1, 1);
            fill(&rig, 2, whole(buffer), 2);
            rig.device.stream_flush(2).expect("a flush");
            for byte in [1, 3] {
                fill(&rig, 1, whole(buffer), byte);
                rig.device.stream_flush(1).expect("a flush");
            }
            rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused"), false);
            rig.backend().signal(1, 1);
            let _ = rig.device.stream_flush(7);
            rig.backend().run_all();
            assert_eq!(rig.backend().fired(), 1);
            if scheduling == Scheduling::Event {
                holds(&rig, 1, buffer, 3);
            }
            rig.assert_ordered();
        }
    });
}

/// What the stream comes behind cannot be recorded: its own work is sent off by the same flush.
#[test]
fn a_flush_sends_off_work_behind_work_of_others_that_fails_in_it() {
    for scheduling in [Scheduling::Interleave, Scheduling::Sequence] {
        for chain in 2..5 {
            let rig = rig(scheduling, 1);
            let buffer = rig.buffer(SIZE);
            rig.device.wait(LONG).expect("a wait");
            hold(&rig, 1, 1, 1);
            for stream in 1..=chain {
                fill(&rig, stream, part(buffer, 0, 4 * stream), stream as u32);
                rig.device.stream_flush(stream).expect("a flush");
            }
            let submits = rig.backend().counts().submits;
            rig.backend().inject(Call::End, 1, fault(Code::Driver, "refused"), false);
            rig.backend().signal(1, 1);
            rig.device.stream_flush(chain).expect("its own work is well");
            assert_eq!(rig.backend().fired(), 1);
            assert_eq!(rig.backend().counts().submits, submits + chain - 1);
            rig.assert_ordered();
        }
    }
}

/// What a random program acts on: buffers beside the byte that each is full of, and semaphores beside the values that were
/// asked for and signalled.
struct Any {
    rig: Rig,
    rng: Rng,
    buffers: Vec<Handle>,
    model: Vec<u8>,
    asked: [u64; SEMAPHORES],
    signalled: [u64; SEMAPHORES],
}

const BUFFERS: usize = 6;
const SEMAPHORES: usize = 3;
/// A stream beside those of the program, and a semaphore beside theirs.
const APART: u64 = 5;
const NEVER: u64 = SEMAPHORES as u64;

impl Any {
    fn new(seed: u64, scheduling: Scheduling, queues: usize) -> Any {
        let pace = [Pace::Lazy, Pace::Random, Pace::Eager][seed as usize % 3];
        let rig = Rig::new(Options::new(seed, queues).pace(pace), Settings { slots: 6, ..settings(scheduling) });
        let buffers = (0..BUFFERS).map(|i| rig.filled(SIZE, i as u8)).collect();
        let (asked, signalled) = ([0; SEMAPHORES], [0; SEMAPHORES]);
        Any { rig, rng: Rng::new(seed), buffers, model: (0..BUFFERS as u8).collect(), asked, signalled }
    }

    fn stream(&mut self) -> u64 {
        self.rng.below(5)
    }

    /// Two different ones.
    fn two_buffers(&mut self) -> (usize, usize) {
        let (a, b) = (self.rng.below(BUFFERS as u64) as usize, self.rng.below(BUFFERS as u64 - 1) as usize);
        (a, if b >= a { b + 1 } else { b })
    }

    /// A semaphore and the value after the last that was asked of it.
    fn ask(&mut self) -> External {
        let semaphore = self.rng.below(SEMAPHORES as u64);
        self.asked[semaphore as usize] += 1;
        External { semaphore, value: self.asked[semaphore as usize], submitted: false }
    }

    fn signal_some(&mut self) {
        let semaphore = self.rng.below(SEMAPHORES as u64) as usize;
        self.signalled[semaphore] = self.rng.between(self.signalled[semaphore], self.asked[semaphore]);
        self.rig.backend().signal(semaphore as u64, self.signalled[semaphore]);
    }

    fn signal_all(&self) {
        (0..).zip(self.asked).for_each(|(semaphore, value)| self.rig.backend().signal(semaphore, value));
    }

    fn full(&self, buffer: usize) -> [u8; SIZE as usize] {
        [self.model[buffer]; SIZE as usize]
    }
}

/// Streams, buffers, semaphores and signals in any order, against what the calls one after the other give.
#[test]
fn any_program_gives_what_its_calls_in_order_give() {
    each(|scheduling, queues| {
        for seed in 0..60 {
            let mut any = Any::new(seed, scheduling, queues);
            let kernel = any.rig.kernel(&triple());
            let mut reads = Vec::new();
            for step in 0..120 {
                let (stream, (a, b)) = (any.stream(), any.two_buffers());
                let kind = any.rng.below(16);
                let Any { rig, buffers, model, .. } = &mut any;
                match kind {
                    0..4 => {
                        fill(rig, stream, whole(buffers[a]), step);
                        model[a] = step as u8;
                    }
                    4..7 => {
                        copy(rig, stream, buffers[a], buffers[b]);
                        model[a] = model[b];
                    }
                    7..10 => {
                        let bindings = [silent(whole(buffers[b])), silent(whole(buffers[a]))];
                        rig.launch_on(stream, kernel, &bindings, &[]).expect("a launch");
                        model[a] = model[b].wrapping_mul(3).wrapping_add(1);
                    }
                    10 => {
                        let (read, answer) = rig.device.read_begin(stream, whole(buffers[a]));
                        answer.expect("a read begins");
                        reads.push((read, any.full(a)));
                    }
                    11 => match read(rig, stream, buffers[a], 0) {
                        Ok(bytes) => assert_eq!(bytes, any.full(a)),
                        Err(error) => assert_eq!(error, Error::Timeout),
                    },
                    12 => {
                        rig.device.buffer_destroy(buffers[a]).expect("a destroy");
                        buffers[a] = rig.filled(SIZE, 200);
                        model[a] = 200;
                    }
                    13 => {
                        let External { semaphore, value, .. } = any.ask();
                        hold(&any.rig, stream, semaphore, value);
                    }
                    14 => any.signal_some(),
                    _ => {
                        let (event, recorded) = any.rig.device.event_record(stream, EVENT);
                        recorded.expect("an event");
                        let [waits, flushed] = [any.stream(), any.stream()];
                        any.rig.device.stream_wait_event(waits, event).expect("a stream waits");
                        any.rig.device.event_destroy(event).expect("a destroy");
                        any.rig.device.stream_flush(flushed).expect("a flush");
                    }
                }
            }
            any.signal_all();
            let rig = &any.rig;
            rig.device.wait(LONG).expect("a wait");
            (0..SEMAPHORES as u64).for_each(|semaphore| rig.backend().destroy_semaphore(semaphore));
            for (read, bytes) in reads {
                rig.device.read_wait(read, LONG).expect("a wait");
                assert_eq!(rig.device.read_data(read).expect("bytes").to_vec(), bytes, "seed {seed}");
            }
            for (i, buffer) in any.buffers.iter().enumerate() {
                assert_eq!(rig.read(whole(*buffer)).expect("a read"), any.full(i), "seed {seed}");
            }
            assert_eq!(rig.settled_failures(), 0);
            rig.assert_ordered();
        }
    });
}

/// The same where the device refuses some of it: what can be read is right, what ran is ordered, and nothing waits for a
/// stream that shares nothing with all that.
#[test]
fn a_program_that_is_refused_here_and_there_is_ordered_all_the_same() {
    each(|scheduling, queues| {
        for seed in 0..30 {
            let mut any = Any::new(seed, scheduling, queues);
            let apart = any.rig.buffer(SIZE);
            hold(&any.rig, APART, NEVER, 1);
            fill(&any.rig, APART, whole(apart), 1);
            any.rig.device.stream_flush(APART).expect("a flush");
            for step in 0..150 {
                let (stream, (a, b)) = (any.stream(), any.two_buffers());
                let kind = any.rng.below(15);
                let Any { rig, rng, buffers, model, .. } = &mut any;
                match kind {
                    0..4 => {
                        // Whatever it answers, but for this: the bytes are its own from here on, written or not.
                        let answer = rig.device.buffer_fill(stream, whole(buffers[a]), step, 1);
                        assert_ne!(answer, Err(Error::NotReady));
                        model[a] = step as u8;
                    }
                    4..8 => {
                        let answer = rig.device.buffer_copy(stream, whole(buffers[a]), whole(buffers[b]));
                        assert_ne!(answer, Err(Error::NotReady));
                        model[a] = model[b];
                    }
                    8 => {
                        if let Ok(bytes) = read(rig, stream, buffers[a], 0) {
                            assert_eq!(bytes, any.full(a), "{scheduling:?} {queues} seed {seed}");
                        }
                    }
                    9 => {
                        // It fails like a flush where what the stream had taken is refused.
                        let external = any.ask();
                        let _ = any.rig.device.stream_wait_external(stream, external);
                    }
                    10 => any.signal_some(),
                    11 => {
                        let call = [Call::Submit, Call::End][rng.below(2) as usize];
                        rig.backend().inject(call, rng.between(1, 3), fault(Code::Driver, "refused"), false);
                    }
                    12 => {
                        rig.device.buffer_destroy(buffers[a]).expect("a destroy");
                        buffers[a] = rig.buffer(SIZE);
                        let _ = rig.device.buffer_fill(stream, whole(buffers[a]), step, 1);
                        model[a] = step as u8;
                    }
                    _ => drop(rig.device.stream_flush(stream)),
                }
            }
            any.signal_all();
            let rig = &any.rig;
            // The first ones may find that the device refuses what was still to come.
            (0..APART).for_each(|stream| drop(rig.device.stream_wait(stream, LONG)));
            rig.backend().heal();
            (0..APART).for_each(|stream| rig.device.stream_wait(stream, LONG).expect("a wait"));
            for (i, buffer) in any.buffers.iter().enumerate() {
                if let Ok(bytes) = read(rig, 0, *buffer, LONG) {
                    assert_eq!(bytes, any.full(i), "{scheduling:?} {queues} seed {seed}");
                }
            }
            for (stream, buffer) in any.buffers.iter().enumerate() {
                fill(rig, stream as u64 % APART, whole(*buffer), 77);
                holds(rig, 1, *buffer, 77);
            }
            is_held(rig, APART, apart);
            rig.backend().signal(NEVER, 1);
            holds(rig, APART, apart, 1);
            rig.assert_ordered();
        }
    });
}
