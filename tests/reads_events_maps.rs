//! Asynchronous reads, events and mappings on the host's device: one fact a test.

mod host;

use host::backend::{Call, Options, Pace, fault};
use host::rig::{Rig, error, failed, increment, launch_desc, misused, nine, part, silent, triple, whole, with};
use std::sync::{Arc, Mutex};
use tidegate::code::Code;
use tidegate::device::{
    BufferDesc, BufferMemory, FOREVER, Handle, LaunchDesc, LaunchGrid, Scheduling, ScopeDesc, Settings, Slice,
};
use tidegate::error::{Error, Fault};
use tidegate::failure::Access;
use tidegate::memory::{HandleKind, MemoryKind};

const NOTHING: Handle = Handle(0);

/// The same on every scheduling.
fn each(fact: impl Fn(Scheduling)) {
    [Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence].into_iter().for_each(fact);
}

fn settings(scheduling: Scheduling) -> Settings {
    Settings { scheduling, ..host::rig::settings() }
}

fn rig(scheduling: Scheduling) -> Rig {
    Rig::new(Options::new(1, 1), settings(scheduling))
}

/// Nothing runs before it is waited for.
fn lazy(scheduling: Scheduling) -> Rig {
    Rig::new(Options::new(1, 1).pace(Pace::Lazy), settings(scheduling))
}

fn begin(rig: &Rig, slice: Slice) -> Handle {
    let (read, answer) = rig.device.read_begin(0, slice);
    answer.expect("a read begins");
    read
}

fn data(rig: &Rig, read: Handle) -> Vec<u8> {
    rig.device.read_data(read).expect("the bytes of a read").to_vec()
}

/// The roots that keep a read from giving its bytes, however it is asked.
fn unwritten(rig: &Rig, read: Handle) -> Vec<u64> {
    let answers =
        [rig.device.read_wait(read, FOREVER), rig.device.read_poll(read), rig.device.read_data(read).map(drop)];
    let roots = answers.map(|answer| match answer {
        Err(Error::Unwritten(roots)) => roots,
        other => panic!("a read answered {other:?}"),
    });
    assert!(roots[0] == roots[1] && roots[1] == roots[2], "{roots:?}");
    let report = rig.device.read_report(read).expect("a report");
    assert_eq!(report.failures.iter().map(|failure| failure.id).collect::<Vec<_>>(), roots[0].ids[..]);
    roots[0].ids.to_vec()
}

/// Everything is given back once nothing runs.
fn assert_given_back(rig: &Rig, used: [u64; 3]) {
    rig.device.wait(FOREVER).expect("a wait");
    rig.failures();
    assert_eq!(rig.device.memory_stats().used, used);
}

// Reads

#[test]
fn a_read_gives_the_old_bytes_whatever_becomes_of_its_source() {
    each(|scheduling| {
        for queues in [1, 3] {
            for seed in 0..20 {
                let rig = Rig::new(Options::new(seed, queues), settings(scheduling));
                let kernel = rig.kernel(&nine());
                let buffer = rig.filled(256, 7);
                let (read, answer) = rig.device.read_begin(1, part(buffer, 64, 128));
                answer.expect("a read begins");
                rig.device.buffer_destroy(buffer).expect("a destroy");
                let next = rig.buffer(256);
                for stream in 2..6 {
                    rig.device.buffer_fill(stream, whole(next), stream as u32, 1).expect("a fill");
                    rig.launch_on(stream, kernel, &[silent(part(next, 0, 128))], &[]).expect("a launch");
                    rig.device.stream_flush(stream).expect("a flush");
                }
                rig.device.read_wait(read, FOREVER).expect("a wait");
                assert_eq!(data(&rig, read), [7; 128]);
                rig.device.wait(FOREVER).expect("a wait");
                assert_eq!(data(&rig, read), [7; 128], "for as long as it is kept");
                rig.device.read_release(read).expect("a release");
                assert_given_back(&rig, [256, 0, 0]);
                rig.assert_ordered();
            }
        }
    });
}

#[test]
fn nothing_of_a_read_waits_but_its_wait() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let buffer = rig.filled(64, 3);
        rig.backend().hold(true);
        let read = begin(&rig, whole(buffer));
        for _ in 0..3 {
            assert_eq!(rig.device.read_poll(read), Err(Error::NotReady));
            assert_eq!(rig.device.read_data(read).map(drop), Err(Error::NotReady));
            assert!(rig.device.read_report(read).expect("clean so far").failures.is_empty());
        }
        for timeout in [0, 1, 3_000_000] {
            let began = std::time::Instant::now();
            assert_eq!(rig.device.read_wait(read, timeout), Err(Error::Timeout));
            assert!(began.elapsed().as_nanos() >= u128::from(timeout));
        }
        rig.backend().hold(false);
        rig.device.read_wait(read, FOREVER).expect("a wait");
        assert_eq!(data(&rig, read), [3; 64]);
        rig.device.read_poll(read).expect("over is over");
        rig.assert_ordered();
    });
}

#[test]
fn a_device_wait_waits_for_reads() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let buffer = rig.filled(64, 3);
        let read = begin(&rig, whole(buffer));
        assert_eq!(rig.device.read_poll(read), Err(Error::NotReady));
        rig.device.wait(FOREVER).expect("a wait");
        rig.device.read_poll(read).expect("waited for");
    });
}

/// Whoever waited for it knows that it is over, though nobody asked for its bytes yet.
#[test]
fn a_read_that_was_waited_for_survives_a_loss() {
    each(|scheduling| {
        for whole_device in [false, true] {
            let rig = rig(scheduling);
            let source = rig.filled(64, 1);
            let read = begin(&rig, whole(source));
            let waited = if whole_device { rig.device.wait(FOREVER) } else { rig.device.stream_wait(0, FOREVER) };
            waited.expect("a wait");
            rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "lost"), true);
            rig.device.buffer_fill(0, whole(source), 1, 1).expect("a fill");
            assert_eq!(failed(rig.device.stream_flush(0)).0, Code::DeviceLost);
            rig.device.read_poll(read).expect("over");
            assert_eq!(data(&rig, read), [1; 64]);
        }
    });
}

/// Its memory comes back when it is over, so that is waited for, or is an answer.
#[test]
fn memory_full_of_reads_is_no_failure() {
    const SIZE: u64 = 54_000;
    each(|scheduling| {
        for pace in [Pace::Lazy, Pace::Eager] {
            let settings = Settings { memory_cap: 128 << 10, ..settings(scheduling) };
            let rig = Rig::new(Options::new(1, 1).pace(pace), settings);
            let source = rig.filled(SIZE, 1);
            rig.device.wait(FOREVER).expect("a wait");
            let first = begin(&rig, whole(source));
            let mut second = rig.device.read_begin(0, whole(source));
            if pace == Pace::Lazy {
                assert_eq!(second, (NOTHING, Err(Error::NotReady)), "{scheduling:?}");
                rig.device.read_wait(first, FOREVER).expect("over");
                second = rig.device.read_begin(0, whole(source));
            }
            second.1.expect("the first one's memory is back");
            let mut bytes = vec![0; SIZE as usize];
            rig.device.buffer_read(0, &mut bytes, whole(source), FOREVER).expect("it waits for the other");
            rig.device.buffer_write(0, whole(source), &[2; SIZE as usize], false).expect("so does a write");
            for read in [first, second.0] {
                rig.device.read_wait(read, FOREVER).expect("over");
                assert_eq!(data(&rig, read), [1; SIZE as usize]);
            }
            assert_eq!(bytes, [1; SIZE as usize]);
            assert_eq!(rig.settled_failures(), 0);
            rig.assert_ordered();
        }
    });
}

/// What it was to read is lost, and nothing else keeps it.
#[test]
fn a_read_that_timed_out_leaves_nothing_on_a_lost_device() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let source = rig.filled(64, 1);
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().hold(true);
        assert_eq!(rig.device.buffer_read(0, &mut [0; 64], whole(source), 0), Err(Error::Timeout));
        rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "lost"), true);
        rig.device.buffer_fill(1, whole(source), 1, 1).expect("a fill");
        assert_eq!(failed(rig.device.stream_flush(1)).0, Code::DeviceLost);
        rig.device.buffer_destroy(source).expect("destroyed");
        let _ = rig.device.trim();
        assert_eq!(rig.device.memory_stats().used, [0; 3], "{scheduling:?}");
    });
}

#[test]
fn a_write_that_must_not_wait_does_not_wait_for_room_either() {
    each(|scheduling| {
        let settings = Settings { max_pending: 1, ..settings(scheduling) };
        let rig = Rig::new(Options::new(1, 1).pace(Pace::Lazy), settings);
        let (busy, target) = (rig.buffer(64), rig.filled(64, 3));
        rig.device.wait(FOREVER).expect("a wait");
        rig.device.buffer_fill(0, whole(busy), 1, 1).expect("a fill");
        rig.device.stream_flush(0).expect("a flush");
        rig.backend().at_wait(|| panic!("it waits for the device"));
        assert_eq!(rig.device.buffer_write(1, whole(target), &[7; 64], true), Err(Error::NotReady));
        rig.backend().at_wait(|| ());
        assert_eq!(rig.read(whole(target)).expect("nothing changed"), [3; 64]);
        rig.device.buffer_write(1, whole(target), &[7; 64], true).expect("there is room now");
        assert_eq!(rig.read(whole(target)).expect("its bytes"), [7; 64]);
    });
}

#[test]
fn a_read_of_claimed_bytes_begins_and_its_verdict_stands() {
    each(|scheduling| {
        let rig = rig(scheduling);
        let buffer = rig.filled(64, 1);
        let (a, b) = (rig.taint(part(buffer, 8, 4)), rig.taint(part(buffer, 60, 4)));
        let copies = rig.backend().counts().commands;
        let read = begin(&rig, whole(buffer));
        assert_eq!(unwritten(&rig, read), [a, b]);
        assert_eq!(rig.backend().counts().commands, copies, "nothing was copied for it");
        rig.write(whole(buffer), &[2; 64]).expect("a write");
        assert_eq!(unwritten(&rig, read), [a, b], "what is written afterwards is not what was asked for");
        let clean = begin(&rig, whole(buffer));
        rig.device.buffer_destroy(buffer).expect("a destroy");
        assert_eq!(unwritten(&rig, read), [a, b]);
        assert_eq!(rig.settled_failures(), 2);
        rig.device.read_release(read).expect("a release");
        assert_eq!(rig.settled_failures(), 0, "it was the last to hold them");
        rig.device.read_wait(clean, FOREVER).expect("a wait");
        assert_eq!(data(&rig, clean), [2; 64]);
    });
}

#[test]
fn a_read_tells_the_path_to_its_source() {
    each(|scheduling| {
        let rig = rig(scheduling);
        let (a, b) = (rig.named(64, "a"), rig.named(64, "b"));
        rig.write(whole(b), &[1; 64]).expect("a write");
        let root = rig.taint(whole(a));
        let kernel = rig.kernel(&triple());
        rig.launch(kernel, &[whole(a), whole(b)]).expect_err("a skip");
        let read = begin(&rig, whole(b));
        rig.device.buffer_destroy(b).expect("a destroy");
        assert_eq!(unwritten(&rig, read), [root]);
        let report = rig.device.read_report(read).expect("a report");
        assert_eq!((report.failures[0].skips, report.failures[0].path.len()), (1, 1));
        assert_eq!(report.failures[0].path[0].produced, ["b"]);
        assert_eq!(report.failures[0].claimed_bytes, 64, "of a; what the read keeps for itself is nobody's buffer");
    });
}

#[test]
fn a_read_of_memory_that_was_never_allocated_is_unwritten_by_its_root() {
    each(|scheduling| {
        let rig = rig(scheduling);
        let (huge, root) = rig.huge();
        let read = begin(&rig, part(huge, 100, 100));
        assert_eq!(unwritten(&rig, read), [root]);
        rig.device.buffer_destroy(huge).expect("a destroy");
        assert_eq!(unwritten(&rig, read), [root]);
        rig.device.read_release(read).expect("a release");
        assert_eq!(rig.settled_failures(), 0);
    });
}

#[test]
fn a_refused_batch_is_the_root_of_a_read_in_it() {
    each(|scheduling| {
        let rig = rig(scheduling);
        let buffer = rig.filled(64, 1);
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused by the test"), false);
        let read = begin(&rig, whole(buffer));
        let roots = unwritten(&rig, read);
        assert_eq!(roots.len(), 1);
        assert!(rig.device.read_report(read).expect("a report").failures[0].message.contains("refused by the test"));
        assert_eq!(rig.read(whole(buffer)).expect("a reader that fails taints no source"), [1; 64]);
        rig.device.read_release(read).expect("a release");
        assert_eq!(rig.settled_failures(), 0);
    });
}

#[test]
fn a_late_failure_of_what_it_read_reaches_a_read() {
    each(|scheduling| {
        let rig = Rig::new(Options::new(3, 2).pace(Pace::Lazy), settings(scheduling));
        let kernel = rig.kernel(&nine());
        let (buffer, other) = (rig.filled(64, 1), rig.filled(64, 1));
        rig.device.wait(FOREVER).expect("a wait");
        let before = begin(&rig, whole(buffer));
        rig.launch(kernel, &[part(buffer, 16, 16)]).expect("a launch");
        rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused by the test"), false);
        let (read, answer) = rig.device.read_begin(1, whole(buffer));
        answer.expect("a read begins");
        let root = unwritten(&rig, read);
        assert_eq!(rig.unreadable(part(buffer, 16, 16)), root);
        assert_eq!(
            data(&rig, {
                rig.device.read_wait(before, FOREVER).expect("a wait");
                before
            }),
            [1; 64]
        );
        assert_eq!(rig.read(whole(other)).expect("a read"), [1; 64]);
        rig.assert_ordered();
    });
}

#[test]
fn a_read_that_cannot_begin_is_a_live_handle_with_its_root() {
    each(|scheduling| {
        let cases = [
            (Call::PageCreate, Code::OutOfDeviceMemory),
            (Call::Begin, Code::OutOfHostMemory),
            (Call::Begin, Code::Driver),
        ];
        for (call, code) in cases {
            let rig = rig(scheduling);
            let buffer = rig.filled(64, 1);
            rig.device.wait(FOREVER).expect("a wait");
            rig.backend().inject(call, 1, fault(code, "not today"), true);
            let (read, answer) = rig.device.read_begin(0, whole(buffer));
            rig.backend().heal();
            let roots = unwritten(&rig, read);
            // What is recorded later than it is enqueued fails later, and is the same root.
            if call == Call::PageCreate || scheduling == Scheduling::Event {
                assert_eq!(failed(answer), (code, roots.clone()), "{call:?}");
            }
            let report = rig.device.read_report(read).expect("a report");
            assert_eq!((roots.len(), report.failures[0].code), (1, code));
            assert_eq!(rig.read(whole(buffer)).expect("the source never notices"), [1; 64]);
            rig.device.read_release(read).expect("a release");
            assert_eq!(rig.settled_failures(), 0);
            assert_given_back(&rig, [64, 0, 0]);
        }
    });
}

#[test]
fn with_too_much_unfinished_a_read_does_not_begin_and_does_not_wait() {
    each(|scheduling| {
        let rig = Rig::new(Options::new(4, 1).pace(Pace::Lazy), Settings { max_pending: 8, ..settings(scheduling) });
        let kernel = rig.kernel(&increment());
        let buffer = rig.filled(64, 0);
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().hold(true);
        for _ in 0..8 {
            rig.launch(kernel, &[whole(buffer)]).expect("a launch");
        }
        assert_eq!(rig.device.read_begin(0, whole(buffer)), (NOTHING, Err(Error::NotReady)));
        let mut bytes = [0; 64];
        let began = std::time::Instant::now();
        assert_eq!(rig.device.buffer_read(0, &mut bytes, whole(buffer), 5_000_000), Err(Error::Timeout));
        assert!((5..200).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        rig.backend().hold(false);
        rig.device.wait(FOREVER).expect("a wait");
        let read = begin(&rig, whole(buffer));
        rig.device.read_wait(read, FOREVER).expect("a wait");
        assert_eq!(data(&rig, read), [8; 64]);
    });
}

#[test]
fn a_read_of_nothing_is_over_and_empty() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let (buffer, (huge, _)) = (rig.filled(64, 1), rig.huge());
        rig.taint(whole(buffer));
        for slice in [part(buffer, 8, 0), part(buffer, 64, 0), part(huge, 5, 0)] {
            let read = begin(&rig, slice);
            rig.device.read_poll(read).expect("over");
            assert!(data(&rig, read).is_empty());
            assert!(rig.device.read_report(read).expect("a report").failures.is_empty());
            rig.device.read_release(read).expect("a release");
        }
    });
}

#[test]
fn a_loss_takes_the_reads_that_are_not_over_and_leaves_the_others() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let (buffer, doubtful, other) = (rig.filled(64, 1), rig.filled(64, 2), rig.filled(64, 3));
        let root = rig.taint(whole(doubtful));
        let (over, bad) = (begin(&rig, whole(buffer)), begin(&rig, whole(doubtful)));
        rig.device.read_wait(over, FOREVER).expect("a wait");
        let unseen = begin(&rig, whole(buffer));
        rig.backend().run_all();
        let unfinished = begin(&rig, whole(other));
        rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "gone"), true);
        rig.write(whole(other), &[4; 64]).expect("not known yet");
        let (code, loss) = failed(rig.device.stream_flush(0));
        assert_eq!(code, Code::DeviceLost);
        assert_eq!(data(&rig, over), [1; 64], "it is on the host");
        assert_eq!(unwritten(&rig, bad), [root], "its verdict was known");
        assert_eq!(unwritten(&rig, unfinished), loss);
        assert_eq!(unwritten(&rig, unseen), loss, "nobody had looked: its bytes went with the device's memory");
        let (late, answer) = rig.device.read_begin(0, whole(buffer));
        assert_eq!(failed(answer), (Code::DeviceLost, loss.clone()));
        assert_eq!(unwritten(&rig, late), loss);
        for read in [over, bad, unfinished, unseen, late] {
            rig.device.read_release(read).expect("a release");
        }
    });
}

#[test]
fn a_loss_that_another_thread_learns_of_ends_every_wait() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let (buffer, other) = (rig.filled(64, 1), rig.filled(64, 3));
        let up = host(&rig, MemoryKind::Upload, 64, "");
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().hold(true);
        rig.write(whole(up), &[1; 64]).expect("a write");
        let (read, event) = (begin(&rig, whole(buffer)), record(&rig, 0));
        std::thread::scope(|scope| {
            let waits = [
                scope.spawn(|| rig.device.read_wait(read, FOREVER)),
                scope.spawn(|| rig.device.event_wait(event, FOREVER)),
                scope.spawn(|| rig.device.stream_wait(0, FOREVER)),
                scope.spawn(|| rig.device.buffer_map(whole(up), Access::Read, FOREVER).map(drop)),
            ];
            std::thread::sleep(std::time::Duration::from_millis(20));
            rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "gone"), true);
            rig.write(whole(other), &[4; 64]).expect("not known yet");
            let (_, loss) = failed(rig.device.stream_flush(0));
            for (i, wait) in waits.into_iter().enumerate() {
                match (i, wait.join().expect("no panic")) {
                    (0, Err(Error::Unwritten(roots))) => assert_eq!(roots.ids[..], loss[..]),
                    (1.., answer) => assert_eq!(failed(answer), (Code::DeviceLost, loss.clone())),
                    other => panic!("{other:?}"),
                }
            }
        });
        rig.backend().hold(false);
    });
}

#[test]
fn a_lost_device_makes_nobody_wait_for_room() {
    each(|scheduling| {
        let rig = Rig::new(Options::new(4, 1).pace(Pace::Lazy), Settings { max_pending: 8, ..settings(scheduling) });
        let kernel = rig.kernel(&increment());
        let (buffer, other) = (rig.filled(64, 0), rig.filled(64, 0));
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().hold(true);
        (0..7).for_each(|_| rig.launch(kernel, &[whole(buffer)]).expect("a launch"));
        rig.device.stream_flush(0).expect("a flush");
        rig.launch_on(1, kernel, &[silent(whole(other))], &[]).expect("a launch");
        rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "gone"), true);
        let (code, loss) = failed(rig.device.stream_flush(1));
        assert_eq!(code, Code::DeviceLost);
        assert_eq!(failed(rig.launch(kernel, &[whole(other)])), (Code::DeviceLost, loss.clone()));
        assert_eq!(failed(rig.device.read_begin(0, whole(other)).1), (Code::DeviceLost, loss));
        rig.backend().hold(false);
    });
}

#[test]
fn what_cannot_be_fetched_is_asked_for_again() {
    each(|scheduling| {
        let rig = rig(scheduling);
        let buffer = rig.filled(64, 5);
        let read = begin(&rig, whole(buffer));
        rig.backend().run_all();
        rig.backend().inject(Call::PageRead, 1, fault(Code::OutOfHostMemory, "cannot be invalidated"), false);
        assert_eq!(failed(rig.device.read_wait(read, FOREVER)).0, Code::OutOfHostMemory);
        assert_eq!(data(&rig, read), [5; 64]);
        assert_eq!(rig.settled_failures(), 0);
    });
}

#[test]
fn a_read_is_let_go_before_it_is_over() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let buffer = rig.filled(64, 5);
        rig.backend().hold(true);
        let reads: Vec<Handle> = (0..10).map(|_| begin(&rig, whole(buffer))).collect();
        for read in &reads {
            rig.device.read_release(*read).expect("a release");
            assert_eq!(misused(rig.device.read_poll(*read)), (Code::StaleHandle, "read"));
        }
        assert!(rig.device.memory_stats().used[2] >= 640, "the device may still write there");
        rig.backend().hold(false);
        assert_given_back(&rig, [64, 0, 0]);
        rig.assert_ordered();
    });
}

#[test]
fn a_wrong_read_is_a_misuse() {
    each(|scheduling| {
        let rig = rig(scheduling);
        let buffer = rig.filled(64, 5);
        let misuse = |slice| {
            let (read, answer) = rig.device.read_begin(0, slice);
            assert_eq!(read, NOTHING);
            misused(answer)
        };
        assert_eq!(misuse(part(NOTHING, 0, 4)), (Code::NullHandle, "src.buffer"));
        assert_eq!(misuse(part(buffer, 60, 5)), (Code::InvalidArgument, "src.size"));
        assert_eq!(misuse(whole(rig.token())), (Code::InvalidArgument, "src.buffer"));
        let uses = [with(part(buffer, 0, 8), Access::Write)];
        let scope = rig.device.scope_begin(&ScopeDesc { stream: 0, uses: &uses, label: "", tag: 0 }).expect("a scope");
        assert_eq!(misuse(part(buffer, 7, 2)), (Code::WrongState, "src"));
        rig.device.scope_end(scope).expect("an end");

        let read = begin(&rig, whole(buffer));
        let foreign = Handle::new(HandleKind::Read, 2, 0, 1);
        let stale = Handle::new(HandleKind::Read, 1, 0, 2);
        let wrong = [
            (NOTHING, Code::NullHandle),
            (buffer, Code::WrongKind),
            (foreign, Code::ForeignHandle),
            (stale, Code::StaleHandle),
        ];
        for (handle, code) in wrong {
            assert_eq!(misused(rig.device.read_poll(handle)), (code, "read"));
            assert_eq!(misused(rig.device.read_wait(handle, 0)), (code, "read"));
            assert_eq!(misused(rig.device.read_data(handle)), (code, "read"));
            assert_eq!(misused(rig.device.read_report(handle)), (code, "read"));
            if handle != NOTHING {
                assert_eq!(misused(rig.device.read_release(handle)), (code, "read"));
            }
        }
        rig.device.read_release(NOTHING).expect("nothing to release");
        rig.device.read_release(read).expect("a release");
        assert_eq!(misused(rig.device.read_release(read)), (Code::StaleHandle, "read"));
    });
}

#[test]
fn one_read_is_waited_for_by_many() {
    each(|scheduling| {
        let rig = Arc::new(Rig::new(Options::new(8, 1).pace(Pace::Lazy), settings(scheduling)));
        let buffer = rig.filled(1 << 16, 6);
        for _ in 0..20 {
            let read = begin(&rig, whole(buffer));
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let rig = rig.clone();
                    std::thread::spawn(move || match rig.device.read_wait(read, FOREVER) {
                        Ok(()) => match rig.device.read_data(read) {
                            Ok(bytes) => assert!(bytes.len() == 1 << 16 && bytes.iter().all(|byte| *byte == 6)),
                            Err(gone) => assert_eq!(gone.code(), Code::StaleHandle),
                        },
                        Err(gone) => assert_eq!(gone.code(), Code::StaleHandle),
                    })
                })
                .collect();
            rig.device.read_wait(read, FOREVER).expect("a wait");
            rig.device.read_release(read).expect("a release");
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        }
        assert_given_back(&rig, [1 << 16, 0, 0]);
        rig.assert_ordered();
    });
}

// Events

fn record(rig: &Rig, stream: u64) -> Handle {
    let (event, answer) = rig.device.event_record(stream, NOTHING);
    answer.expect("an event");
    event
}

#[test]
fn an_event_is_over_when_everything_before_it_is() {
    each(|scheduling| {
        let rig = Rig::new(Options::new(2, 2).pace(Pace::Lazy), settings(scheduling));
        let kernel = rig.kernel(&increment());
        let (a, b) = (rig.filled(64, 0), rig.filled(64, 0));
        rig.device.wait(FOREVER).expect("a wait");
        let nothing_yet = record(&rig, 5);
        rig.device.event_status(nothing_yet).expect("nothing came before it");
        rig.backend().hold(true);
        rig.launch_on(0, kernel, &[silent(whole(a))], &[]).expect("a launch");
        let event = record(&rig, 0);
        rig.launch_on(0, kernel, &[silent(whole(b))], &[]).expect("a launch after it");
        let later = record(&rig, 0);
        for timeout in [0, 1, 3_000_000] {
            assert_eq!(rig.device.event_wait(event, timeout), Err(Error::Timeout));
            assert_eq!(rig.device.event_status(event), Err(Error::NotReady));
        }
        rig.device.event_status(nothing_yet).expect("work after it is nothing to it");
        rig.backend().hold(false);
        rig.device.event_wait(event, FOREVER).expect("a wait");
        rig.device.event_status(event).expect("over");
        assert_eq!(rig.device.event_status(later), Err(Error::NotReady), "it has a batch of its own");
        rig.device.event_wait(later, FOREVER).expect("a wait");
        for event in [event, later, nothing_yet] {
            rig.device.event_destroy(event).expect("a destroy");
        }
        rig.assert_ordered();
    });
}

#[test]
fn an_event_is_recorded_again_in_place() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let kernel = rig.kernel(&increment());
        let a = rig.filled(64, 0);
        let event = record(&rig, 0);
        rig.device.event_wait(event, FOREVER).expect("a wait");
        rig.backend().hold(true);
        rig.launch_on(1, kernel, &[silent(whole(a))], &[]).expect("a launch");
        assert_eq!(rig.device.event_record(1, event), (event, Ok(())));
        assert_eq!(rig.device.event_status(event), Err(Error::NotReady));
        rig.backend().hold(false);
        rig.device.event_wait(event, FOREVER).expect("a wait");
    });
}

/// A stream writes bytes that nobody is told of, and another reads them: only an event can order them. What the checker
/// has to say.
fn behind_an_event(scheduling: Scheduling, queues: usize, told: bool, also: impl Fn(&Rig, Handle)) -> Vec<String> {
    let rig = Rig::new(Options::new(6, queues).pace(Pace::Lazy), settings(scheduling));
    let kernel = rig.kernel(&triple());
    let (input, secret, outs) = (rig.filled(64, 1), rig.filled(64, 0), [rig.buffer(64), rig.buffer(64)]);
    rig.device.wait(FOREVER).expect("a wait");
    let untracked = |slice| with(slice, Access::None);
    rig.launch_on(1, kernel, &[silent(whole(input)), untracked(whole(secret))], &[]).expect("a launch");
    let event = record(&rig, 1);
    if told {
        rig.device.stream_wait_event(2, event).expect("a wait for an event");
    }
    also(&rig, event);
    rig.device.event_destroy(event).expect("whoever waits for it goes on waiting");
    for out in outs {
        // Again in a batch of its own: everything later, not only what is next.
        rig.launch_on(2, kernel, &[untracked(whole(secret)), silent(whole(out))], &[]).expect("a launch");
        rig.device.stream_flush(2).ok();
    }
    rig.device.wait(FOREVER).expect("a wait");
    if told && rig.failures() == 0 {
        assert!(outs.iter().all(|out| rig.read(whole(*out)).expect("a read") == [13; 64]));
    }
    rig.backend().check()
}

#[test]
fn work_waits_for_an_event_on_the_device() {
    each(|scheduling| {
        for queues in [1, 2, 3] {
            assert_eq!(behind_an_event(scheduling, queues, true, |_, _| ()), [""; 0], "{queues} queues");
            assert!(!behind_an_event(scheduling, queues, false, |_, _| ()).is_empty(), "{queues} queues");
        }
    });
}

#[test]
fn an_event_holds_up_no_call_and_no_other_stream() {
    each(|scheduling| {
        let rig = Rig::new(Options::new(6, 3).pace(Pace::Lazy), settings(scheduling));
        let kernel = rig.kernel(&increment());
        let (a, b, c) = (rig.filled(64, 0), rig.filled(64, 0), rig.filled(64, 0));
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().hold(true);
        rig.launch_on(0, kernel, &[silent(whole(a))], &[]).expect("a launch");
        let event = record(&rig, 0);
        rig.device.stream_wait_event(1, event).expect("a wait for an event");
        rig.launch_on(1, kernel, &[silent(whole(b))], &[]).expect("a launch");
        rig.device.stream_flush(1).expect("a flush");
        rig.launch_on(2, kernel, &[silent(whole(c))], &[]).expect("a launch");
        rig.device.stream_flush(2).expect("a flush");
        assert_eq!(rig.device.stream_wait(1, 0), Err(Error::Timeout));
        rig.backend().hold(false);
        rig.device.stream_wait(1, FOREVER).expect("a wait");
        rig.device.event_status(event).expect("it was over before");
        assert_eq!(rig.read(whole(c)).expect("a read"), [1; 64]);
        rig.assert_ordered();
    });
}

#[test]
fn a_refused_batch_counts_as_over_and_still_claims() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let kernel = rig.kernel(&nine());
        let (a, b) = (rig.filled(64, 1), rig.filled(64, 1));
        rig.device.wait(FOREVER).expect("a wait");
        rig.launch_on(0, kernel, &[silent(whole(a))], &[]).expect("a launch");
        rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused by the test"), false);
        let (event, answer) = rig.device.event_record(0, NOTHING);
        let (code, roots) = failed(answer);
        assert_eq!(code, Code::Driver);
        rig.device.event_status(event).expect("nothing of it will ever run");
        rig.device.event_wait(event, FOREVER).expect("nothing of it will ever run");
        rig.device.stream_wait_event(1, event).expect("nothing to wait for");
        rig.launch_on(1, kernel, &[silent(whole(b))], &[]).expect("a launch");
        assert_eq!(rig.read(whole(b)).expect("a read"), [9; 64]);
        assert_eq!(rig.unreadable(whole(a)), roots);
        rig.assert_ordered();
    });
}

#[test]
fn an_event_orders_the_batches_behind_one_that_was_refused() {
    each(|scheduling| {
        for queues in [1, 2] {
            let refuse = |rig: &Rig, _| {
                rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused by the test"), false);
            };
            assert_eq!(behind_an_event(scheduling, queues, true, refuse), [""; 0], "{queues} queues");
        }
    });
}

#[test]
fn waiting_for_events_without_work_grows_nothing() {
    each(|scheduling| {
        let rig = Rig::new(Options::new(6, 2), settings(scheduling));
        let kernel = rig.kernel(&increment());
        let a = rig.filled(64, 0);
        for round in 0..100u8 {
            rig.launch_on(u64::from(round % 3), kernel, &[silent(whole(a))], &[]).expect("a launch");
            let event = record(&rig, u64::from(round % 3));
            for _ in 0..20 {
                rig.device.stream_wait_event(4, event).expect("a wait for an event");
                rig.device.stream_wait_event(u64::from(round % 3), event).expect("its own stream");
            }
            rig.device.event_destroy(event).expect("a destroy");
        }
        let before = rig.backend().counts();
        rig.launch_on(4, kernel, &[silent(whole(a))], &[]).expect("a launch");
        rig.device.stream_flush(4).expect("a flush");
        let after = rig.backend().counts();
        assert!(after.waits - before.waits <= 2 && after.barriers - before.barriers <= 2, "{before:?} {after:?}");
        assert_eq!(rig.read(whole(a)).expect("a read"), [101; 64]);
        rig.assert_ordered();
    });
}

#[test]
fn a_loss_ends_events() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let buffer = rig.filled(64, 1);
        let event = record(&rig, 0);
        rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "gone"), true);
        rig.write(whole(buffer), &[4; 64]).expect("not known yet");
        assert_eq!(failed(rig.device.stream_flush(0)).0, Code::DeviceLost);
        assert_eq!(failed(rig.device.event_status(event)).0, Code::DeviceLost);
        assert_eq!(failed(rig.device.event_wait(event, FOREVER)).0, Code::DeviceLost);
        assert_eq!(failed(rig.device.stream_wait_event(1, event)).0, Code::DeviceLost);
        let (late, answer) = rig.device.event_record(0, NOTHING);
        assert_eq!(failed(answer).0, Code::DeviceLost);
        assert_ne!(late, NOTHING, "a failure gives a live event too");
        rig.device.event_destroy(late).expect("a destroy");
        rig.device.event_destroy(event).expect("a destroy");
    });
}

#[test]
fn a_wrong_event_is_a_misuse() {
    let rig = Rig::default();
    let event = record(&rig, 0);
    let wrong = [
        (NOTHING, Code::NullHandle),
        (rig.buffer(8), Code::WrongKind),
        (Handle::new(HandleKind::Event, 2, 0, 1), Code::ForeignHandle),
        (Handle::new(HandleKind::Event, 1, 0, 2), Code::StaleHandle),
    ];
    for (handle, code) in wrong {
        assert_eq!(misused(rig.device.event_wait(handle, 0)), (code, "event"));
        assert_eq!(misused(rig.device.event_status(handle)), (code, "event"));
        assert_eq!(misused(rig.device.stream_wait_event(0, handle)), (code, "event"));
        if handle != NOTHING {
            let (same, answer) = rig.device.event_record(0, handle);
            assert_eq!((same, misused(answer)), (handle, (code, "event")));
            assert_eq!(misused(rig.device.event_destroy(handle)), (code, "event"));
        }
    }
    rig.device.event_destroy(NOTHING).expect("nothing to destroy");
    rig.device.event_destroy(event).expect("a destroy");
    assert_eq!(misused(rig.device.event_destroy(event)), (Code::StaleHandle, "event"));
}

// Mappings

fn host(rig: &Rig, kind: MemoryKind, size: u64, label: &str) -> Handle {
    let (buffer, answer) = rig.try_buffer(size, BufferMemory::Managed(kind), label);
    answer.expect("a buffer");
    buffer
}

fn map(rig: &Rig, slice: Slice, access: Access) -> *mut u8 {
    rig.device.buffer_map(slice, access, FOREVER).expect("a mapping")
}

#[test]
fn what_the_host_writes_where_it_lies_the_device_reads_and_back() {
    each(|scheduling| {
        for kind in [MemoryKind::Upload, MemoryKind::Readback] {
            let rig = Rig::new(Options::new(3, 2).pace(Pace::Lazy), settings(scheduling));
            let kernel = rig.kernel(&triple());
            let (input, out) = (host(&rig, kind, 64, "input"), host(&rig, kind, 64, "out"));
            let address = map(&rig, whole(input), Access::Write);
            rig.backend().poke(address, &[5; 64]);
            rig.device.buffer_unmap(whole(input)).expect("an end");
            for round in 1..4u8 {
                rig.launch_on(1, kernel, &[silent(whole(input)), silent(whole(out))], &[]).expect("a launch");
                let address = map(&rig, whole(out), Access::Read);
                assert_eq!(rig.backend().peek(address, 64), [16; 64], "it waited for the device");
                rig.device.buffer_unmap(whole(out)).expect("an end");
                let address = map(&rig, part(input, 0, 32), Access::ReadWrite);
                assert_eq!(rig.backend().peek(address, 32), [5; 32]);
                rig.backend().poke(address, &[5; 32]);
                rig.device.buffer_unmap(part(input, 0, 32)).expect("an end");
                assert_eq!(rig.read(whole(input)).expect("a read"), [5; 64], "round {round}");
            }
            assert_eq!(rig.settled_failures(), 0);
            rig.assert_ordered();
        }
    });
}

#[test]
fn mapped_bytes_are_held_and_their_neighbours_are_not() {
    each(|scheduling| {
        let rig = rig(scheduling);
        let (buffer, other) = (host(&rig, MemoryKind::Upload, 64, "mapped"), rig.filled(64, 2));
        rig.write(whole(buffer), &[1; 64]).expect("a write");
        let kernel = rig.kernel(&triple());
        let address = map(&rig, part(buffer, 16, 16), Access::Write);
        rig.backend().poke(address, &[9; 16]);
        let over = part(buffer, 31, 1);
        let refused = [
            misused(rig.write(over, &[0])),
            misused(rig.read(over)),
            misused(rig.device.read_begin(0, over).1),
            misused(rig.device.buffer_fill(0, whole(buffer), 0, 1)),
            misused(rig.device.buffer_copy(0, over, part(other, 0, 1))),
            misused(rig.device.buffer_copy(0, part(other, 0, 1), over)),
            misused(rig.launch(kernel, &[whole(other), whole(buffer)])),
            misused(rig.device.taint(&[over], &error("no"))),
            misused(rig.device.mark_written(&[over])),
            misused(rig.device.buffer_map(over, Access::Read, FOREVER)),
            misused(rig.device.buffer_map(part(buffer, 0, 17), Access::Write, FOREVER)),
            misused(rig.device.buffer_destroy(buffer)),
        ];
        assert!(refused.iter().all(|(code, _)| *code == Code::WrongState), "{refused:?}");
        assert_eq!(rig.failures(), 1, "only the provisional one");
        // Beside it everything goes on, other mappings too.
        let (before, after) =
            (map(&rig, part(buffer, 0, 16), Access::Write), map(&rig, part(buffer, 48, 16), Access::Read));
        assert_eq!(rig.backend().peek(after, 16), [1; 16]);
        assert_eq!(rig.read(part(buffer, 32, 32)).expect("read beside a reader"), [1; 32]);
        assert_eq!(misused(rig.write(part(buffer, 60, 4), &[0; 4])).0, Code::WrongState, "what is read stays");
        rig.write(part(buffer, 32, 16), &[3; 16]).expect("nobody holds it");
        rig.backend().poke(before, &[8; 16]);
        for slice in [part(buffer, 48, 16), part(buffer, 0, 16), part(buffer, 16, 16)] {
            rig.device.buffer_unmap(slice).expect("an end");
        }
        let bytes = rig.read(whole(buffer)).expect("a read");
        assert_eq!(bytes, [[8; 16], [9; 16], [3; 16], [1; 16]].concat());
        assert_eq!(rig.settled_failures(), 0);
        rig.assert_ordered();
    });
}

#[test]
fn bytes_are_mapped_for_reading_more_than_once() {
    let rig = Rig::default();
    let buffer = host(&rig, MemoryKind::Readback, 64, "");
    rig.write(whole(buffer), &[1; 64]).expect("a write");
    let addresses = [map(&rig, whole(buffer), Access::Read), map(&rig, whole(buffer), Access::Read)];
    assert_eq!(addresses[0], addresses[1]);
    rig.device.buffer_unmap(whole(buffer)).expect("an end");
    assert_eq!(misused(rig.write(whole(buffer), &[2; 64])).0, Code::WrongState, "one is left");
    rig.device.buffer_unmap(part(buffer, 0, 64)).expect("the same bytes, however they are named");
    rig.write(whole(buffer), &[2; 64]).expect("a write");
    assert_eq!(misused(rig.device.buffer_unmap(whole(buffer))), (Code::WrongState, "slice"));
}

#[test]
fn mapping_waits_within_its_time_and_changes_nothing_if_it_is_up() {
    each(|scheduling| {
        let rig = Rig::new(Options::new(3, 2).pace(Pace::Lazy), settings(scheduling));
        let kernel = rig.kernel(&triple());
        let (buffer, out) = (host(&rig, MemoryKind::Upload, 64, ""), rig.buffer(64));
        rig.write(whole(buffer), &[1; 64]).expect("a write");
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().hold(true);
        rig.launch_on(1, kernel, &[silent(part(buffer, 0, 32)), silent(part(out, 0, 32))], &[]).expect("a launch");
        for timeout in [0, 1, 3_000_000] {
            assert_eq!(rig.device.buffer_map(whole(buffer), Access::Write, timeout), Err(Error::Timeout));
        }
        assert_eq!(rig.failures(), 0);
        map(&rig, whole(buffer), Access::Read);
        rig.device.buffer_unmap(whole(buffer)).expect("readers do not wait for readers");
        map(&rig, part(buffer, 32, 32), Access::Write);
        rig.device.buffer_unmap(part(buffer, 32, 32)).expect("other bytes of the same buffer do not wait");
        rig.backend().hold(false);
        map(&rig, whole(buffer), Access::Write);
        rig.device.buffer_unmap(whole(buffer)).expect("an end");
        rig.assert_ordered();
    });
}

#[test]
fn claimed_bytes_are_not_mapped_to_be_read_and_are_released_by_being_written() {
    each(|scheduling| {
        let rig = rig(scheduling);
        let buffer = host(&rig, MemoryKind::Upload, 64, "");
        rig.write(whole(buffer), &[1; 64]).expect("a write");
        let root = rig.taint(part(buffer, 8, 8));
        match rig.device.buffer_map(whole(buffer), Access::Read, FOREVER) {
            Err(Error::Unwritten(roots)) => assert_eq!(roots.ids[..], [root]),
            other => panic!("{other:?}"),
        }
        assert_eq!(rig.read(part(buffer, 16, 48)).expect("nothing changed"), [1; 48]);
        // Work in place that does not run leaves all it was to write to the roots it found, here too.
        match rig.device.buffer_map(part(buffer, 0, 16), Access::ReadWrite, FOREVER) {
            Err(Error::Skipped(roots)) => assert_eq!(roots.ids[..], [root]),
            other => panic!("{other:?}"),
        }
        assert_eq!(rig.unreadable(part(buffer, 0, 8)), [root]);
        let address = map(&rig, part(buffer, 0, 12), Access::Write);
        let provisional = rig.device.first_failure(&[part(buffer, 0, 12)]).expect("an id");
        assert!(provisional != 0 && provisional != root, "claimed until it is written");
        rig.backend().poke(address, &[7; 12]);
        rig.device.buffer_unmap(part(buffer, 0, 12)).expect("an end");
        assert_eq!(rig.read(part(buffer, 0, 12)).expect("a read"), [7; 12]);
        assert_eq!(rig.unreadable(part(buffer, 12, 4)), [root]);
        rig.write(part(buffer, 12, 4), &[1; 4]).expect("a write");
        assert_eq!(rig.settled_failures(), 0);
    });
}

#[test]
fn what_cannot_be_shown_is_claimed() {
    each(|scheduling| {
        let rig = rig(scheduling);
        let buffer = host(&rig, MemoryKind::Upload, 64, "");
        rig.write(whole(buffer), &[1; 64]).expect("a write");
        let no = || fault(Code::OutOfHostMemory, "not today");
        map(&rig, part(buffer, 0, 16), Access::Write);
        rig.backend().inject(Call::PageFlush, 1, no(), false);
        let (code, roots) = failed(rig.device.buffer_unmap(part(buffer, 0, 16)));
        assert_eq!((code, rig.unreadable(part(buffer, 0, 16))), (Code::OutOfHostMemory, roots));
        assert_eq!(misused(rig.device.buffer_unmap(part(buffer, 0, 16))).0, Code::WrongState, "it is unmapped");

        rig.backend().inject(Call::PageInvalidate, 1, no(), false);
        let (code, roots) = failed(rig.device.buffer_map(part(buffer, 16, 16), Access::ReadWrite, FOREVER));
        assert_eq!((code, rig.unreadable(part(buffer, 16, 16))), (Code::OutOfHostMemory, roots));

        rig.backend().inject(Call::PageInvalidate, 1, no(), false);
        let answer = rig.device.buffer_map(part(buffer, 32, 16), Access::Read, FOREVER);
        assert_eq!(failed(answer), (Code::OutOfHostMemory, vec![]));
        assert_eq!(rig.read(part(buffer, 32, 32)).expect("a reader that fails taints nothing"), [1; 32]);
        rig.write(whole(buffer), &[2; 64]).expect("nothing is held any more");
        assert_eq!(rig.settled_failures(), 0);
    });
}

#[test]
fn waiting_that_fails_claims_what_was_to_be_written() {
    let rig = Rig::lazy();
    let kernel = rig.kernel(&nine());
    let buffer = host(&rig, MemoryKind::Upload, 64, "");
    rig.launch(kernel, &[whole(buffer)]).expect("a launch");
    for call in [Call::Wait, Call::Completed] {
        rig.backend().inject(call, 1, fault(Code::OutOfHostMemory, "cannot ask"), true);
    }
    assert_eq!(failed(rig.device.buffer_map(whole(buffer), Access::Read, FOREVER)), (Code::OutOfHostMemory, vec![]));
    let (code, roots) = failed(rig.device.buffer_map(part(buffer, 0, 16), Access::Write, FOREVER));
    rig.backend().heal();
    assert_eq!((code, rig.unreadable(part(buffer, 0, 16))), (Code::OutOfHostMemory, roots));
    assert_eq!(rig.read(part(buffer, 16, 48)).expect("a read"), [9; 48]);
}

#[test]
fn a_mapping_waits_for_what_a_refused_write_hides() {
    each(|scheduling| {
        let rig = Rig::new(Options::new(3, 2).pace(Pace::Lazy), settings(scheduling));
        let kernel = rig.kernel(&triple());
        let (source, buffer) = (rig.filled(64, 2), host(&rig, MemoryKind::Upload, 64, ""));
        rig.device.wait(FOREVER).expect("a wait");
        rig.launch_on(1, kernel, &[silent(whole(source)), silent(whole(buffer))], &[]).expect("a launch");
        rig.device.stream_flush(1).expect("a flush");
        rig.device.buffer_fill(2, whole(buffer), 1, 1).expect("a fill");
        rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused"), false);
        rig.device.stream_flush(2).expect_err("a refusal");
        let address = map(&rig, whole(buffer), Access::Write);
        rig.backend().poke(address, &[6; 64]);
        rig.device.buffer_unmap(whole(buffer)).expect("an end");
        rig.device.wait(FOREVER).expect("a wait");
        assert_eq!(rig.read(whole(buffer)).expect("a read"), [6; 64]);
        rig.assert_ordered();
    });
}

#[test]
fn memory_that_is_not_coherent_is_mapped_to_be_written_in_whole_atoms() {
    let mut options = Options::new(1, 1);
    options.limits.block_alignment = 64;
    options.limits.map_alignment = [64, 64, 1];
    let rig = Rig::new(options, settings(Scheduling::Event));
    let (buffer, back) = (host(&rig, MemoryKind::Upload, 200, ""), host(&rig, MemoryKind::Readback, 200, ""));
    rig.write(whole(buffer), &[1; 200]).expect("a write");
    for slice in [part(buffer, 0, 32), part(buffer, 32, 32), part(buffer, 100, 100), part(buffer, 64, 100)] {
        let (code, roots) = failed(rig.device.buffer_map(slice, Access::Write, FOREVER));
        assert_eq!((code, rig.unreadable(slice)), (Code::LimitExceeded, roots));
        rig.write(whole(buffer), &[1; 200]).expect("a write");
        map(&rig, slice, Access::Read);
        rig.device.buffer_unmap(slice).expect("an end");
    }
    for slice in [part(buffer, 0, 64), part(buffer, 64, 128), part(buffer, 192, 8), whole(buffer), part(back, 3, 5)] {
        map(&rig, slice, Access::Write);
        rig.device.buffer_unmap(slice).expect("an end");
    }
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn a_loss_takes_what_is_mapped() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let (buffer, other) = (host(&rig, MemoryKind::Upload, 64, ""), rig.filled(64, 3));
        rig.write(whole(buffer), &[1; 64]).expect("a write");
        let root = rig.taint(part(buffer, 60, 4));
        let written = map(&rig, part(buffer, 0, 16), Access::Write);
        map(&rig, part(buffer, 16, 16), Access::Read);
        rig.write(whole(other), &[4; 64]).expect("not known yet");
        rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "gone"), true);
        let (code, loss) = failed(rig.device.stream_flush(0));
        assert_eq!(code, Code::DeviceLost);
        rig.backend().poke(written, &[7; 16]);
        assert_eq!(failed(rig.device.buffer_unmap(part(buffer, 0, 16))), (Code::DeviceLost, loss.clone()));
        rig.device.buffer_unmap(part(buffer, 16, 16)).expect("nothing was to come of it");
        for (slice, roots) in [(part(buffer, 0, 32), loss.clone()), (part(buffer, 60, 4), vec![root])] {
            match rig.device.check_written(&[slice], FOREVER) {
                Err(Error::Unwritten(found)) => assert_eq!(found.ids[..], roots[..]),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(failed(rig.device.buffer_map(whole(buffer), Access::Read, FOREVER)).0, Code::DeviceLost);
        assert_eq!(failed(rig.device.buffer_map(whole(buffer), Access::Write, FOREVER)), (Code::DeviceLost, loss));
    });
}

#[test]
fn a_wrong_mapping_is_a_misuse() {
    let rig = Rig::default();
    let (buffer, device) = (host(&rig, MemoryKind::Upload, 64, ""), rig.filled(64, 1));
    let misuse = |slice, access| misused(rig.device.buffer_map(slice, access, FOREVER));
    assert_eq!(misuse(part(NOTHING, 0, 4), Access::Read), (Code::NullHandle, "slice.buffer"));
    assert_eq!(misuse(part(buffer, 60, 5), Access::Read), (Code::InvalidArgument, "slice.size"));
    assert_eq!(misuse(whole(device), Access::Read), (Code::WrongState, "slice.buffer"));
    assert_eq!(misuse(whole(device), Access::Write), (Code::WrongState, "slice.buffer"));
    assert_eq!(misuse(whole(rig.token()), Access::Read), (Code::InvalidArgument, "slice.buffer"));
    assert_eq!(misuse(whole(rig.huge().0), Access::Write), (Code::WrongState, "slice.buffer"));
    assert_eq!(misuse(whole(buffer), Access::None), (Code::InvalidArgument, "access"));
    assert_eq!(misuse(whole(buffer), Access::MayWrite), (Code::InvalidArgument, "access"));
    assert!(rig.device.buffer_map(part(buffer, 64, 0), Access::Write, 0).expect("nothing").is_null());
    rig.device.buffer_unmap(part(buffer, 64, 0)).expect("nothing");
    map(&rig, part(buffer, 0, 8), Access::Write);
    assert_eq!(misused(rig.device.buffer_unmap(part(buffer, 0, 7))), (Code::WrongState, "slice"));
    assert_eq!(misused(rig.device.buffer_unmap(whole(buffer))), (Code::WrongState, "slice"));
    assert_eq!(misused(rig.device.buffer_unmap(part(NOTHING, 0, 8))), (Code::NullHandle, "slice.buffer"));
    rig.device.buffer_unmap(part(buffer, 0, 8)).expect("an end");
}

#[test]
fn a_host_buffer_without_memory_skips_and_names_its_root() {
    let rig = Rig::default();
    let (buffer, answer) = rig.try_buffer(64 << 30, BufferMemory::Managed(MemoryKind::Upload), "huge");
    let (_, root) = failed(answer);
    match rig.device.buffer_map(part(buffer, 0, 64), Access::Write, FOREVER) {
        Err(Error::Skipped(roots)) => assert_eq!(roots.ids[..], root[..]),
        other => panic!("{other:?}"),
    }
    match rig.device.buffer_map(part(buffer, 0, 64), Access::Read, FOREVER) {
        Err(Error::Unwritten(roots)) => assert_eq!(roots.ids[..], root[..]),
        other => panic!("{other:?}"),
    }
}

/// Keeps what was logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

impl tracing::field::Visit for Lines {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.lock().expect("no panic").push_str(&format!("{value:?}\n"));
    }
}

impl tracing::Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn what_is_alive_when_the_device_goes_is_logged_and_freed() {
    each(|scheduling| {
        let lines = Lines::default();
        let mut rig = Rig::logged(Options::new(1, 1), settings(scheduling), tracing::Dispatch::new(lines.clone()));
        let buffer = rig.filled(64, 1);
        let mapped = host(&rig, MemoryKind::Upload, 64, "mapped");
        map(&rig, part(mapped, 0, 16), Access::Write);
        map(&rig, part(mapped, 16, 16), Access::Read);
        record(&rig, 0);
        let (read, bad) = (begin(&rig, whole(buffer)), {
            rig.device.taint(&[whole(buffer)], &error("by the test")).expect("a taint");
            begin(&rig, whole(buffer))
        });
        assert!(read != bad);
        rig.device.close(FOREVER).expect("a close");
        let lines = lines.0.lock().expect("no panic").clone();
        for alive in ["a read, a read, an event", "a mapping of bytes 0 to 16 of buffer \"mapped\"", "bytes 16 to 32"] {
            assert!(lines.contains(alive), "{alive}: {lines}");
        }
        assert_eq!((rig.backend().live_pages(), rig.backend().open_recordings()), (0, 0));
        assert_eq!(rig.failures(), 0);
    });
}

/// A device whose memory is all buffers, but for what is left to staging; nothing runs before something waits for it.
fn full(scheduling: Scheduling) -> (Rig, Handle) {
    let settings = Settings { memory_cap: 1 << 20, staging_size: 64 << 20, ..settings(scheduling) };
    let rig = Rig::new(Options::new(1, 2).pace(Pace::Lazy), settings);
    let buffer = rig.buffer(1 << 18);
    for size in [1 << 16, 1 << 12] {
        while rig.try_buffer(size, BufferMemory::Managed(MemoryKind::Device), "").1.is_ok() {}
    }
    (rig, buffer)
}

#[test]
fn a_full_device_is_written_and_read_on_any_stream() {
    each(|scheduling| {
        let (rig, buffer) = full(scheduling);
        let failures = rig.failures();
        for stream in 0..4u8 {
            let slice = part(buffer, u64::from(stream) << 16, 1 << 16);
            rig.device.buffer_write(stream.into(), slice, &[stream; 1 << 16], false).expect("a write");
        }
        for stream in 0..4u8 {
            let slice = part(buffer, u64::from(stream) << 16, 1 << 16);
            let mut bytes = vec![0xEE; 1 << 16];
            rig.device.buffer_read(4 + u64::from(stream), &mut bytes, slice, FOREVER).expect("bytes");
            assert!(bytes.iter().all(|byte| *byte == stream));
        }
        assert_eq!(rig.failures(), failures);
        rig.assert_ordered();
    });
}

#[test]
fn a_read_that_finds_no_room_in_time_is_no_failure() {
    each(|scheduling| {
        let (rig, buffer) = full(scheduling);
        rig.device.buffer_fill(0, whole(buffer), 7, 1).expect("a fill");
        let failures = rig.failures();
        let mut bytes = vec![0xEE; 1 << 16];
        let slice = part(buffer, 0, 1 << 16);
        let answers: Vec<_> = (0..9).map(|_| rig.device.buffer_read(1, &mut bytes, slice, 0)).collect();
        assert!(answers.iter().all(|answer| *answer == Err(Error::Timeout)), "{answers:?}");
        assert_eq!(rig.device.read_begin(1, slice), (NOTHING, Err(Error::NotReady)), "it never waits");
        assert!(bytes.iter().all(|byte| *byte == 0xEE));
        rig.device.buffer_read(1, &mut bytes, slice, FOREVER).expect("bytes");
        assert!(bytes.iter().all(|byte| *byte == 7));
        assert_eq!(rig.failures(), failures);
        rig.assert_ordered();
    });
}

#[test]
fn a_write_without_waiting_changes_nothing_where_not_all_of_it_has_room() {
    each(|scheduling| {
        let (rig, buffer) = full(scheduling);
        rig.device.buffer_fill(0, whole(buffer), 7, 1).expect("a fill");
        let failures = rig.failures();
        assert_eq!(rig.device.buffer_write(0, whole(buffer), &[8; 1 << 18], true), Err(Error::NotReady));
        assert_eq!(rig.failures(), failures);
        let read = |at: u64| rig.read(part(buffer, at << 16, 1 << 16)).expect("bytes");
        assert!((0..4).all(|at| read(at).iter().all(|byte| *byte == 7)));
        // What it had taken is there again.
        rig.device.buffer_write(0, part(buffer, 0, 1 << 16), &[9; 1 << 16], true).expect("a write");
        rig.device.buffer_write(1, whole(buffer), &[8; 1 << 18], false).expect("a write");
        assert!((0..4).all(|at| read(at).iter().all(|byte| *byte == 8)));
        rig.assert_ordered();
    });
}

// Reads that time out

fn try_read(rig: &Rig, slice: Slice) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0xEE; slice.size as usize];
    rig.device.buffer_read(0, &mut bytes, slice, 0).map(|()| bytes)
}

/// Asks until there is an answer, as a program does that has something else to do meanwhile.
fn insist(rig: &Rig, slice: Slice) -> Vec<u8> {
    let mut tries = (0..100).map(|_| try_read(rig, slice));
    let answer = tries.find(|answer| *answer != Err(Error::Timeout));
    answer.expect("it ends as soon as the work does").expect("bytes")
}

#[test]
fn a_read_that_timed_out_is_taken_up_by_the_next_try() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let buffer = rig.filled(256, 1);
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().hold(true);
        rig.device.buffer_fill(0, whole(buffer), 7, 1).expect("a fill");
        let commands = || rig.backend().counts().commands;
        let (slice, before) = (part(buffer, 64, 128), commands());
        for _ in 0..1000 {
            assert_eq!(try_read(&rig, slice), Err(Error::Timeout));
        }
        assert_eq!((commands() - before, rig.device.memory_stats().used[2]), (2, 128), "a fill and one copy");
        // Other bytes are another read.
        assert_eq!(try_read(&rig, part(buffer, 64, 64)), Err(Error::Timeout));
        assert_eq!((commands() - before, rig.device.memory_stats().used[2]), (3, 192));
        rig.backend().hold(false);
        rig.device.wait(FOREVER).expect("a wait");
        assert_eq!(try_read(&rig, slice).expect("it is over"), [7; 128]);
        assert_eq!(try_read(&rig, part(buffer, 64, 64)).expect("it is over"), [7; 64]);
        assert_eq!((commands() - before, rig.device.memory_stats().used[2]), (3, 0));
        rig.assert_ordered();
    });
}

#[test]
fn a_read_with_no_time_ends_when_the_work_does() {
    each(|scheduling| {
        for seed in 0..20 {
            let rig = Rig::new(Options::new(seed, 2), settings(scheduling));
            let buffer = rig.filled(256, 1);
            for stream in 0..3 {
                rig.device.buffer_fill(stream, whole(buffer), stream as u32, 1).expect("a fill");
                assert_eq!(insist(&rig, part(buffer, 16, 64)), [stream as u8; 64]);
            }
            assert_eq!(rig.device.memory_stats().used[2], 0);
            rig.assert_ordered();
        }
    });
}

/// What was enqueued between two tries is before the second.
#[test]
fn a_try_after_the_bytes_changed_begins_anew() {
    type Change = fn(&Rig, Slice);
    let changes: [(&str, Change, Option<u8>); 8] = [
        ("a fill", |rig, slice| rig.device.buffer_fill(1, slice, 9, 1).expect("a fill"), Some(9)),
        ("a write", |rig, slice| rig.write(slice, &[9; 32]).expect("a write"), Some(9)),
        ("a copy", |rig, slice| rig.device.buffer_copy(2, slice, whole(rig.filled(32, 9))).expect("a copy"), Some(9)),
        ("a launch", |rig, slice| rig.launch(rig.kernel(&nine()), &[slice]).expect("a launch"), Some(9)),
        ("a taint", |rig, slice| assert_ne!(rig.taint(slice), 0), None),
        ("a mark", |rig, slice| rig.device.mark_written(&[slice]).expect("a mark"), Some(7)),
        (
            "a scope",
            |rig, slice| {
                let uses = [with(slice, Access::Write)];
                let desc = ScopeDesc { stream: 0, uses: &uses, label: "", tag: 0 };
                let scope = rig.device.scope_begin(&desc).expect("a scope");
                rig.device.scope_end(scope).expect("its end");
            },
            Some(7),
        ),
        (
            "a skip",
            |rig, slice| {
                let (kernel, _) = rig.broken(&[Some(Access::Write)]);
                rig.launch(kernel, &[slice]).expect_err("a skip");
            },
            None,
        ),
    ];
    each(|scheduling| {
        for (what, change, expected) in changes {
            for is_over in [false, true] {
                let rig = lazy(scheduling);
                let buffer = rig.filled(128, 7);
                rig.device.wait(FOREVER).expect("a wait");
                rig.backend().hold(true);
                let slice = part(buffer, 32, 64);
                assert_eq!(try_read(&rig, slice), Err(Error::Timeout), "{what}");
                rig.backend().hold(!is_over);
                change(&rig, part(buffer, 0, 32));
                (0..3).for_each(|stream| rig.device.stream_flush(stream).expect("a flush"));
                if is_over {
                    rig.device.stream_wait(0, FOREVER).expect("a wait");
                }
                let commands = rig.backend().counts().commands;
                let beside = try_read(&rig, slice);
                assert_eq!(beside.is_ok(), is_over, "{what}: nothing changed the bytes");
                assert_eq!(rig.backend().counts().commands, commands, "{what}: it was copied again");

                rig.backend().hold(true);
                assert_eq!(try_read(&rig, slice), Err(Error::Timeout), "{what}");
                rig.backend().hold(!is_over);
                if is_over {
                    rig.device.wait(FOREVER).expect("a wait");
                }
                change(&rig, part(buffer, 80, 32));
                rig.backend().hold(false);
                let answer = rig.read(slice);
                match expected {
                    Some(byte) => {
                        let bytes = answer.expect("bytes");
                        assert_eq!((&bytes[..48], &bytes[48..]), (&[7; 48][..], &[byte; 16][..]), "{what}");
                        let copied = rig.backend().counts().commands - commands;
                        assert!(copied > u64::from(is_over), "{what}: it was not copied again");
                    }
                    None => assert!(matches!(answer, Err(Error::Unwritten(_))), "{what}: {answer:?}"),
                }
                rig.device.wait(FOREVER).expect("a wait");
                assert_eq!(rig.device.memory_stats().used[2], 0, "{what}: a copy that nobody can ask for is gone");
                rig.assert_ordered();
            }
        }
    });
}

#[test]
fn a_copy_goes_with_the_bytes_it_is_of() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let buffer = rig.filled(64, 1);
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().hold(true);
        assert_eq!(try_read(&rig, part(buffer, 0, 64)), Err(Error::Timeout));
        rig.device.buffer_destroy(buffer).expect("a destroy");
        let next = rig.buffer(64);
        rig.write(whole(next), &[2; 64]).expect("a write");
        rig.backend().hold(false);
        rig.backend().set_pace(Pace::Random);
        assert_eq!(insist(&rig, part(next, 0, 64)), [2; 64]);
        assert_given_back(&rig, [64, 0, 0]);
        rig.assert_ordered();
    });
}

#[test]
fn copies_that_nobody_asks_for_again_are_few_and_go_when_memory_is_short() {
    each(|scheduling| {
        let (rig, buffer) = full(scheduling);
        rig.device.buffer_fill(0, whole(buffer), 7, 1).expect("a fill");
        for at in 0..1000 {
            let slice = part(buffer, at * 64, 64);
            let answer = try_read(&rig, slice);
            assert!(matches!(answer, Err(Error::Timeout)), "{answer:?}");
            if at % 10 == 9 {
                rig.device.wait(FOREVER).expect("a wait");
            }
        }
        assert!(rig.device.memory_stats().used[2] <= 16 * 64, "{:?}", rig.device.memory_stats());
        // The whole of what is left to reads.
        assert_eq!(rig.read(part(buffer, 0, 1 << 16)).expect("bytes"), [7; 1 << 16]);
        assert_eq!(try_read(&rig, part(buffer, 0, 64)), Err(Error::Timeout));
        rig.device.wait(FOREVER).expect("a wait");
        assert!(rig.device.trim().expect("a trim") > 0);
        assert_eq!(rig.device.memory_stats().used[2], 0, "trimming lets go of them as well");
        rig.assert_ordered();
    });
}

#[test]
fn threads_that_try_for_the_same_bytes_share_a_copy() {
    each(|scheduling| {
        let rig = lazy(scheduling);
        let buffer = rig.filled(256, 5);
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().hold(true);
        let before = rig.backend().counts().commands;
        assert_eq!(try_read(&rig, part(buffer, 0, 256)), Err(Error::Timeout));
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let rig = &rig;
                threads.spawn(move || {
                    let mut tries = 0;
                    while try_read(rig, part(buffer, 0, 256)) != Ok(vec![5; 256]) {
                        tries += 1;
                        if tries == 5 && thread == 0 {
                            rig.backend().hold(false);
                            rig.backend().set_pace(Pace::Random);
                        }
                        std::thread::yield_now();
                    }
                });
            }
        });
        let copies = rig.backend().counts().commands - before;
        assert!(copies <= 4, "{copies}: one for all, or another for each that came late");
        rig.device.wait(FOREVER).expect("a wait");
        assert_eq!(rig.device.memory_stats().used[2], 0);
        rig.assert_ordered();
    });
}

#[test]
fn a_read_whose_own_copy_fails_says_why() {
    each(|scheduling| {
        for call in [Call::PageCreate, Call::Begin, Call::End, Call::Submit, Call::PageRead] {
            for late in [false, true] {
                let rig = lazy(scheduling);
                let buffer = rig.filled(64, 1);
                rig.device.wait(FOREVER).expect("a wait");
                let cause =
                    Fault { vk_result: -13, vk_function: "vkTest", ..fault(Code::Driver, "refused by the test") };
                rig.backend().inject(call, 1, cause, true);
                let timeout = if late { 0 } else { FOREVER };
                let mut bytes = [0xEE; 64];
                let mut read = || rig.device.buffer_read(0, &mut bytes, whole(buffer), timeout);
                let mut answer = read();
                if answer == Err(Error::Timeout) {
                    rig.device.wait(FOREVER).expect("a wait");
                    answer = read();
                }
                let Err(Error::Failed(told, roots)) = answer else { panic!("{call:?}: {answer:?}") };
                assert_eq!((told.code, told.vk_result, told.vk_function), (Code::Driver, -13, "vkTest"), "{call:?}");
                assert_eq!((roots.ids.len(), roots.asked.len()), (1, 1), "{call:?}: a root of its own");
                assert_eq!(bytes, [0xEE; 64]);
                rig.backend().heal();
                assert_eq!(rig.read(whole(buffer)).expect("the source never notices"), [1; 64]);
                assert_eq!(rig.settled_failures(), 0, "{call:?}");
                assert_given_back(&rig, [64, 0, 0]);
            }
        }
    });
}

/// What was to write the bytes failed with the copy: that is what the read tells.
#[test]
fn a_read_behind_refused_work_is_unwritten() {
    each(|scheduling| {
        for late in [false, true] {
            let rig = lazy(scheduling);
            let buffer = rig.filled(64, 1);
            rig.device.wait(FOREVER).expect("a wait");
            rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused by the test"), false);
            rig.device.buffer_fill(0, whole(buffer), 2, 1).expect("a fill");
            let timeout = if late { 0 } else { FOREVER };
            let answer = rig.device.buffer_read(0, &mut [0; 64], whole(buffer), timeout);
            let Err(Error::Unwritten(roots)) = answer else { panic!("{answer:?}") };
            assert_eq!(rig.unreadable(whole(buffer)), roots.ids[..]);
            rig.write(whole(buffer), &[3; 64]).expect("a write");
            assert_eq!(rig.settled_failures(), 0);
        }
    });
}

// Memory that comes back

#[test]
fn idle_pages_go_back_but_for_one_of_a_kind() {
    each(|scheduling| {
        const SIZE: u64 = 3 << 20;
        let settings = Settings { memory_cap: 64 << 20, ..settings(scheduling) };
        let rig = Rig::new(Options::new(1, 1).pace(Pace::Lazy), settings);
        let reserved = || rig.device.memory_stats().reserved[0];
        let large: Vec<Handle> = (0..8).map(|_| rig.buffer(SIZE)).collect();
        large.iter().for_each(|buffer| rig.device.buffer_fill(0, whole(*buffer), 1, 1).expect("a fill"));
        rig.device.stream_flush(0).expect("a flush");
        large.into_iter().for_each(|buffer| rig.device.buffer_destroy(buffer).expect("a destroy"));
        assert_eq!(reserved(), 8 * SIZE, "work is running on them");
        rig.device.wait(FOREVER).expect("a wait");
        assert_eq!(reserved(), SIZE);
        // With nothing running there is nothing to wait for.
        let large: Vec<Handle> = (0..8).map(|_| rig.buffer(SIZE)).collect();
        large.into_iter().for_each(|buffer| rig.device.buffer_destroy(buffer).expect("a destroy"));
        assert_eq!(reserved(), SIZE);
        let pages = rig.backend().live_pages();
        for _ in 0..10 {
            rig.device.buffer_destroy(rig.buffer(SIZE)).expect("a destroy");
            rig.device.wait(FOREVER).expect("a wait");
            assert_eq!((rig.backend().live_pages(), reserved()), (pages, SIZE), "and it is used again");
        }
        rig.assert_ordered();
    });
}

#[test]
fn a_new_buffer_waits_for_memory_that_comes_back() {
    const SIZE: u64 = 1 << 20;
    each(|scheduling| {
        for again in [false, true] {
            let settings = Settings { memory_cap: 4 << 20, ..settings(scheduling) };
            let rig = Rig::new(Options::new(1, 1).pace(Pace::Lazy), settings);
            let (pending, _) = rig.device.buffer_create(&unallocated(SIZE));
            let mut buffers: Vec<Handle> = Vec::new();
            while let (buffer, Ok(())) = rig.try_buffer(SIZE, BufferMemory::Managed(MemoryKind::Device), "") {
                rig.device.buffer_fill(0, whole(buffer), 1, 1).expect("a fill");
                buffers.push(buffer);
            }
            assert_eq!(buffers.len(), 3);
            let failures = rig.failures();
            rig.device.stream_flush(0).expect("a flush");
            rig.device.buffer_destroy(buffers[1]).expect("a destroy");
            // More than is left, and too little to have the page of the one that goes.
            let size = SIZE / 4 * 3;
            let heir = match again {
                true => {
                    rig.device.buffer_allocate(pending, size).expect("it waits");
                    pending
                }
                false => rig.buffer(size),
            };
            rig.write(whole(heir), &vec![2; size as usize]).expect("a write");
            assert_eq!(rig.read(whole(heir)).expect("bytes"), vec![2; size as usize]);
            assert_eq!(rig.settled_failures(), failures - u64::from(again));
            // What nothing gives back is not waited for, nor what can never be had.
            rig.device.buffer_fill(0, whole(buffers[0]), 3, 1).expect("a fill");
            rig.backend().at_wait(|| panic!("it waits"));
            let (_, answer) = rig.try_buffer(SIZE, BufferMemory::Managed(MemoryKind::Device), "");
            assert_eq!(failed(answer).0, Code::OutOfDeviceMemory);
            let (_, answer) = rig.try_buffer(64 << 20, BufferMemory::Managed(MemoryKind::Device), "");
            assert_eq!(failed(answer).0, Code::OutOfDeviceMemory);
            rig.backend().at_wait(|| ());
            rig.assert_ordered();
        }
    });
}

fn unallocated(size: u64) -> BufferDesc<'static> {
    let memory = BufferMemory::Managed(MemoryKind::Device);
    BufferDesc { size, memory, stream: 0, label: "", tag: 0, unallocated: true }
}

#[test]
fn a_refusal_of_memory_that_passes_is_no_failure() {
    each(|scheduling| {
        let rig = rig(scheduling);
        rig.backend().inject(Call::PageCreate, 1, fault(Code::OutOfDeviceMemory, "not now"), false);
        let buffer = rig.filled(64, 1);
        rig.backend().inject(Call::PageCreate, 1, fault(Code::OutOfHostMemory, "not now"), false);
        assert_eq!(rig.read(whole(buffer)).expect("bytes"), [1; 64]);
        assert_eq!(rig.failures(), 0);
    });
}

/// They count like buffers, and are there again when the launches are over.
#[test]
fn indirect_launches_check_their_counts_in_memory_that_counts() {
    each(|scheduling| {
        let settings = Settings { memory_cap: 1 << 20, ..settings(scheduling) };
        let rig = Rig::new(Options::new(1, 2).pace(Pace::Lazy), settings);
        let kernel = rig.kernel(&nine());
        let (counts, out) = (rig.buffer(12), rig.filled(64, 1));
        rig.write(whole(counts), &[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]).expect("a write");
        rig.device.wait(FOREVER).expect("a wait");
        let launch = |stream| {
            let bindings = [with(whole(out), Access::Write)];
            let grid = LaunchGrid::Indirect(whole(counts));
            rig.device.launch(&LaunchDesc { grid, ..launch_desc(stream, kernel, &bindings, &[]) })
        };
        let stats = || rig.device.memory_stats();
        let used = stats().used[0];
        for round in 1..4 {
            for n in 0..20 {
                launch(n % 3).expect("a launch");
            }
            assert_eq!(stats().used[0], used + 20 * 16, "round {round}");
            rig.device.wait(FOREVER).expect("a wait");
            assert_eq!(stats().used[0], used);
        }
        assert_eq!(rig.read(whole(out)).expect("bytes"), [9; 64]);
        // With no memory left the launch fails, and claims.
        let last = rig.buffer(1 << 16);
        for size in [1 << 16, 1 << 12, 16] {
            while rig.try_buffer(size, BufferMemory::Managed(MemoryKind::Device), "").1.is_ok() {}
        }
        rig.device.buffer_destroy(last).expect("a destroy");
        let failures = rig.failures();
        let mut launches = (0..10_000).map(|_| launch(0));
        let answer = launches.find(|answer| answer.is_err()).expect("memory ends");
        assert_eq!(failed(answer).0, Code::OutOfDeviceMemory);
        rig.device.wait(FOREVER).expect("a wait");
        assert_eq!(rig.unreadable(whole(out)).len(), 1);
        launch(1).expect("there is room again");
        assert_eq!(rig.read(whole(out)).expect("bytes"), [9; 64]);
        assert_eq!(rig.settled_failures(), failures);
        rig.assert_ordered();
    });
}
