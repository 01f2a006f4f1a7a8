//! Asynchronous reads, events and mappings on the host's device: one fact a test.

mod host;

use host::backend::{Call, Options, Pace, fault};
use host::rig::{Rig, error, failed, increment, misused, nine, part, settings, silent, triple, whole, with};
use std::sync::{Arc, Mutex};
use tidegate::code::Code;
use tidegate::device::{FOREVER, Handle, ScopeDesc, Settings, Slice};
use tidegate::error::Error;
use tidegate::failure::Access;
use tidegate::memory::HandleKind;

const NOTHING: Handle = Handle(0);

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
    for queues in [1, 3] {
        for seed in 0..20 {
            let rig = Rig::new(Options::new(seed, queues), settings());
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
}

#[test]
fn nothing_of_a_read_waits_but_its_wait() {
    let rig = Rig::lazy();
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
}

#[test]
fn a_device_wait_waits_for_reads() {
    let rig = Rig::lazy();
    let buffer = rig.filled(64, 3);
    let read = begin(&rig, whole(buffer));
    assert_eq!(rig.device.read_poll(read), Err(Error::NotReady));
    rig.device.wait(FOREVER).expect("a wait");
    rig.device.read_poll(read).expect("waited for");
}

#[test]
fn a_read_of_claimed_bytes_begins_and_its_verdict_stands() {
    let rig = Rig::default();
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
}

#[test]
fn a_read_tells_the_path_to_its_source() {
    let rig = Rig::default();
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
}

#[test]
fn a_read_of_memory_that_was_never_allocated_is_unwritten_by_its_root() {
    let rig = Rig::default();
    let (huge, root) = rig.huge();
    let read = begin(&rig, part(huge, 100, 100));
    assert_eq!(unwritten(&rig, read), [root]);
    rig.device.buffer_destroy(huge).expect("a destroy");
    assert_eq!(unwritten(&rig, read), [root]);
    rig.device.read_release(read).expect("a release");
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn a_refused_batch_is_the_root_of_a_read_in_it() {
    let rig = Rig::default();
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
}

#[test]
fn a_late_failure_of_what_it_read_reaches_a_read() {
    let rig = Rig::new(Options::new(3, 2).pace(Pace::Lazy), settings());
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
}

#[test]
fn a_read_that_cannot_begin_is_a_live_handle_with_its_root() {
    let cases = [
        (Call::PageCreate, Code::OutOfDeviceMemory),
        (Call::Begin, Code::OutOfHostMemory),
        (Call::Begin, Code::Driver),
    ];
    for (call, code) in cases {
        let rig = Rig::default();
        let buffer = rig.filled(64, 1);
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().inject(call, 1, fault(code, "not today"), true);
        let (read, answer) = rig.device.read_begin(0, whole(buffer));
        let (told, roots) = failed(answer);
        assert_eq!((told, roots.len()), (code, 1), "{call:?}");
        rig.backend().heal();
        assert_eq!(unwritten(&rig, read), roots);
        assert_eq!(rig.read(whole(buffer)).expect("the source never notices"), [1; 64]);
        rig.device.read_release(read).expect("a release");
        assert_eq!(rig.settled_failures(), 0);
        assert_given_back(&rig, [64, 0, 0]);
    }
}

#[test]
fn with_too_much_unfinished_a_read_does_not_begin_and_does_not_wait() {
    let rig = Rig::new(Options::new(4, 1).pace(Pace::Lazy), Settings { max_pending: 8, ..settings() });
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
}

#[test]
fn a_read_of_nothing_is_over_and_empty() {
    let rig = Rig::lazy();
    let (buffer, (huge, _)) = (rig.filled(64, 1), rig.huge());
    rig.taint(whole(buffer));
    for slice in [part(buffer, 8, 0), part(buffer, 64, 0), part(huge, 5, 0)] {
        let read = begin(&rig, slice);
        rig.device.read_poll(read).expect("over");
        assert!(data(&rig, read).is_empty());
        assert!(rig.device.read_report(read).expect("a report").failures.is_empty());
        rig.device.read_release(read).expect("a release");
    }
}

#[test]
fn a_loss_takes_the_reads_that_are_not_over_and_leaves_the_others() {
    let rig = Rig::lazy();
    let (buffer, doubtful, other) = (rig.filled(64, 1), rig.filled(64, 2), rig.filled(64, 3));
    let root = rig.taint(whole(doubtful));
    let (over, bad) = (begin(&rig, whole(buffer)), begin(&rig, whole(doubtful)));
    rig.device.read_wait(over, FOREVER).expect("a wait");
    let unseen = begin(&rig, whole(buffer));
    rig.device.wait(FOREVER).expect("a wait");
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
}

#[test]
fn what_cannot_be_fetched_is_asked_for_again() {
    let rig = Rig::default();
    let buffer = rig.filled(64, 5);
    let read = begin(&rig, whole(buffer));
    rig.device.wait(FOREVER).expect("a wait");
    rig.backend().inject(Call::PageRead, 1, fault(Code::OutOfHostMemory, "cannot be invalidated"), false);
    assert_eq!(failed(rig.device.read_wait(read, FOREVER)).0, Code::OutOfHostMemory);
    assert_eq!(data(&rig, read), [5; 64]);
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn a_read_is_let_go_before_it_is_over() {
    let rig = Rig::lazy();
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
}

#[test]
fn a_wrong_read_is_a_misuse() {
    let rig = Rig::default();
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
}

#[test]
fn one_read_is_waited_for_by_many() {
    let rig = Arc::new(Rig::new(Options::new(8, 1).pace(Pace::Lazy), settings()));
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
    let lines = Lines::default();
    let rig = Rig::logged(Options::new(1, 1), settings(), tracing::Dispatch::new(lines.clone()));
    let buffer = rig.filled(64, 1);
    let (read, bad) = (begin(&rig, whole(buffer)), {
        rig.device.taint(&[whole(buffer)], &error("by the test")).expect("a taint");
        begin(&rig, whole(buffer))
    });
    assert!(read != bad);
    rig.device.close(FOREVER).expect("a close");
    assert!(lines.0.lock().expect("no panic").contains("a read, a read"));
    assert_eq!((rig.backend().live_pages(), rig.backend().open_recordings()), (0, 0));
    assert_eq!(rig.failures(), 0);
}
