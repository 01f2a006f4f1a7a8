//! Every conflicting pair of accesses is ordered, across streams and queues, and nothing else is. The proof comes from
//! the log of what the driver emitted; the first tests show that the proof can fail.

mod host;

#[path = "order/schedules.rs"]
mod event;
#[path = "order/schedules.rs"]
#[allow(clippy::duplicate_mod, reason = "the same schedules on another scheduling")]
mod interleave;
#[path = "order/schedules.rs"]
#[allow(clippy::duplicate_mod, reason = "the same schedules on another scheduling")]
mod sequence;

use host::backend::{Call, HostBackend, Options, fault};
use host::checker::{Checker, Event, Recorded, Touch};
use host::rig::{Rig, increment, settings, silent, triple, whole};
use std::sync::Arc;
use tidegate::code::Code;
use tidegate::device::{FOREVER, Handle, Scheduling, Settings};
use tidegate::failure::Point;
use tidegate::memory::{Hazards, Mark, MemoryKind, PageSource, hazard};
use tidegate::stream::backend::{Backend, Binding, External};
use tidegate::stream::driver::{Answer, Submission};
use tidegate::stream::scheduler::Strategy;
use tidegate::stream::{Command, Driver, EventStreams, Need, SchedulerStreams};

fn command(name: &str, touches: &[(u64, std::ops::Range<u64>, bool)]) -> Recorded {
    let touch = |(page, range, write): &(u64, std::ops::Range<u64>, bool)| Touch {
        page: *page,
        start: range.start,
        end: range.end,
        write: *write,
    };
    Recorded::Command { name: name.to_string(), kernel: None, touches: touches.iter().map(touch).collect() }
}

fn batch(queue: usize, slot: u32, batch: u64, waits: &[Point], recorded: Vec<Recorded>) -> Event {
    let recording = u64::from(slot) * 1000 + batch;
    Event::Submitted { queue, recording, waits: waits.to_vec(), signal: Point { slot, batch }, recorded }
}

const PAGE: Event = Event::PageCreated { page: 1, size: 64 };
const READ: bool = false;
const WRITE: bool = true;

fn complaints(log: &[Event]) -> Vec<String> {
    Checker::of(log).complaints
}

#[test]
fn checker_accepts_a_barrier_and_complains_without_it() {
    let log = |barrier: bool| {
        let mut recorded = vec![command("a", &[(1, 0..16, WRITE)])];
        recorded.extend(barrier.then_some(Recorded::Barrier));
        recorded.push(command("b", &[(1, 8..24, READ)]));
        vec![PAGE, batch(0, 0, 1, &[], recorded)]
    };
    assert_eq!(complaints(&log(true)), [""; 0]);
    assert_eq!(complaints(&log(false)).len(), 1);
}

#[test]
fn checker_needs_no_order_between_reads_nor_between_bytes_not_shared() {
    let recorded = vec![
        command("a", &[(1, 0..16, READ)]),
        command("b", &[(1, 0..16, READ)]),
        command("c", &[(1, 16..32, WRITE)]),
        command("d", &[(1, 32..40, WRITE)]),
    ];
    assert_eq!(complaints(&[PAGE, batch(0, 0, 1, &[], recorded)]), [""; 0]);
}

#[test]
fn checker_complains_of_a_write_after_a_read_and_a_write_after_a_write() {
    for first in [READ, WRITE] {
        let recorded = vec![command("a", &[(1, 0..16, first)]), command("b", &[(1, 15..16, WRITE)])];
        assert_eq!(complaints(&[PAGE, batch(0, 0, 1, &[], recorded)]).len(), 1);
    }
}

#[test]
fn checker_lets_a_barrier_of_a_later_batch_cover_what_the_queue_was_given_before() {
    let first = || batch(0, 0, 1, &[], vec![command("a", &[(1, 0..16, WRITE)])]);
    let second = |recorded| batch(0, 1, 1, &[], recorded);
    let read = || command("b", &[(1, 0..16, READ)]);
    assert_eq!(complaints(&[PAGE, first(), second(vec![Recorded::Barrier, read()])]), [""; 0]);
    assert_eq!(complaints(&[PAGE, first(), second(vec![read(), Recorded::Barrier])]).len(), 1);
}

#[test]
fn checker_follows_chains_of_waits_between_queues_and_complains_of_a_gap() {
    let log = |wait: bool| {
        let through = Point { slot: 1, batch: 1 };
        let waits = if wait { vec![through] } else { vec![] };
        vec![
            PAGE,
            batch(0, 0, 1, &[], vec![command("a", &[(1, 0..16, WRITE)])]),
            batch(1, 1, 1, &[Point { slot: 0, batch: 1 }], vec![command("other", &[])]),
            batch(2, 2, 1, &waits, vec![command("b", &[(1, 0..16, READ)])]),
        ]
    };
    assert_eq!(complaints(&log(true)), [""; 0]);
    assert_eq!(complaints(&log(false)).len(), 1);
}

#[test]
fn checker_complains_of_waiting_for_what_was_never_submitted() {
    assert_eq!(complaints(&[batch(0, 0, 1, &[Point { slot: 1, batch: 1 }], vec![])]).len(), 1);
}

#[test]
fn checker_wants_completion_and_a_host_barrier_before_the_host_reads() {
    let log = |barrier: bool, completed: bool| {
        let mut recorded = vec![command("a", &[(1, 0..16, WRITE)])];
        recorded.extend(barrier.then_some(Recorded::HostBarrier));
        let mut log = vec![PAGE, batch(0, 0, 1, &[], recorded)];
        log.extend(completed.then_some(Event::Completed { point: Point { slot: 0, batch: 1 } }));
        log.push(Event::HostRead { page: 1, start: 4, end: 8 });
        log
    };
    assert_eq!(complaints(&log(true, true)), [""; 0]);
    assert_eq!(complaints(&log(false, true)).len(), 1);
    assert_eq!(complaints(&log(true, false)).len(), 1);
}

#[test]
fn checker_complains_of_a_page_or_a_kernel_gone_under_unfinished_work() {
    let work = Recorded::Command {
        name: "a".to_string(),
        kernel: Some(7),
        touches: vec![Touch { page: 1, start: 0, end: 4, write: true }],
    };
    let submit = batch(0, 0, 1, &[], vec![work]);
    let completed = Event::Completed { point: Point { slot: 0, batch: 1 } };
    for gone in [Event::PageDestroyed { page: 1 }, Event::KernelDropped { kernel: 7 }] {
        assert_eq!(complaints(&[PAGE, submit.clone(), completed.clone(), gone.clone()]), [""; 0]);
        assert_eq!(complaints(&[PAGE, submit.clone(), gone.clone()]).len(), 1);
        assert_eq!(complaints(&[PAGE, gone, submit.clone()]).len(), 1);
    }
}

#[test]
fn checker_wants_a_page_that_is_only_bound_to_be_there_and_orders_nothing_for_it() {
    let bound = || command("bound", &[(1, 8..8, READ)]);
    let log = |recorded| batch(0, 0, 1, &[], recorded);
    let gone = Event::PageDestroyed { page: 1 };
    let completed = Event::Completed { point: Point { slot: 0, batch: 1 } };
    let write = || command("a", &[(1, 0..16, WRITE)]);
    assert_eq!(complaints(&[PAGE, log(vec![bound(), write(), bound()])]), [""; 0]);
    assert_eq!(complaints(&[PAGE, log(vec![bound()]), completed, gone.clone()]), [""; 0]);
    assert_eq!(complaints(&[PAGE, log(vec![bound()]), gone.clone()]).len(), 1);
    assert_eq!(complaints(&[PAGE, gone, log(vec![bound()])]).len(), 1);
}

#[test]
fn checker_complains_of_staging_written_under_a_copy_that_reads_it() {
    let submit = batch(0, 0, 1, &[], vec![command("copy", &[(1, 0..16, READ)])]);
    let write = Event::HostWrite { page: 1, start: 8, end: 9 };
    assert_eq!(complaints(&[PAGE, write.clone(), submit.clone()]), [""; 0]);
    assert_eq!(complaints(&[PAGE, submit, write]).len(), 1);
}

#[test]
fn checker_does_not_forget_a_read_hidden_by_a_write_that_was_not_ordered() {
    // a reads on queue 0; b writes unordered on queue 1; c on queue 1 is ordered behind b only.
    let log = [
        PAGE,
        batch(0, 0, 1, &[], vec![command("a", &[(1, 0..16, READ)])]),
        batch(
            1,
            1,
            1,
            &[],
            vec![command("b", &[(1, 0..16, WRITE)]), Recorded::Barrier, command("c", &[(1, 0..16, WRITE)])],
        ),
    ];
    assert_eq!(complaints(&log).len(), 2);
}

#[test]
fn independent_launches_get_no_barrier_under_a_scheduler_either() {
    for scheduling in [Scheduling::Interleave, Scheduling::Sequence] {
        let rig = Rig::new(Options::new(5, 1), Settings { scheduling, ..settings() });
        let (kernel, input) = (rig.kernel(&triple()), rig.buffer(64));
        for stream in 0..40 {
            let out = rig.buffer(64);
            rig.launch_on(stream % 5, kernel, &[silent(whole(input)), silent(whole(out))], &[]).expect("a launch");
        }
        rig.device.wait(FOREVER).expect("a wait");
        let counts = rig.backend().counts();
        assert_eq!((counts.commands, counts.barriers, counts.submits), (40, 0, 1), "{scheduling:?}");
        rig.assert_ordered();
    }
}

#[test]
fn interleaving_serves_a_step_of_every_stream_with_one_barrier() {
    for (scheduling, barriers) in [(Scheduling::Interleave, 3), (Scheduling::Sequence, 12)] {
        let rig = Rig::new(Options::new(5, 1), Settings { scheduling, slots: 4, ..settings() });
        let kernel = rig.kernel(&increment());
        let buffers = [rig.buffer(64), rig.buffer(64), rig.buffer(64), rig.buffer(64)];
        for _ in 0..4 {
            for (stream, buffer) in buffers.iter().enumerate() {
                rig.launch_on(stream as u64, kernel, &[silent(whole(*buffer))], &[]).expect("a launch");
            }
        }
        rig.device.wait(FOREVER).expect("a wait");
        assert_eq!(rig.backend().counts().barriers, barriers, "{scheduling:?}");
        rig.assert_ordered();
    }
}

#[test]
fn a_chain_over_queues_waits_once_for_each_link() {
    let rig = Rig::new(Options::new(9, 3), settings());
    let kernel = rig.kernel(&triple());
    let buffers: Vec<Handle> = (0..4).map(|_| rig.buffer(64)).collect();
    for link in 0..3 {
        let bindings = [silent(whole(buffers[link])), silent(whole(buffers[link + 1]))];
        rig.launch_on(link as u64, kernel, &bindings, &[]).expect("a launch");
    }
    rig.device.wait(FOREVER).expect("a wait");
    let counts = rig.backend().counts();
    assert_eq!((counts.barriers, counts.waits, counts.submits), (0, 2, 3));
    rig.assert_ordered();
}

/// What a page was used for is forgotten with it, but the device may give its memory again.
#[test]
fn memory_that_went_back_to_the_device_is_not_used_again_without_a_barrier() {
    for scheduling in [Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence] {
        let rig = Rig::new(Options::new(7, 1), Settings { scheduling, ..settings() });
        let fill = |buffer| {
            let before = rig.backend().counts().barriers;
            rig.device.buffer_fill(0, whole(buffer), 7, 4).expect("a fill");
            rig.device.wait(FOREVER).expect("a wait");
            rig.backend().counts().barriers - before
        };
        let first = rig.buffer(64);
        assert_eq!(fill(first), 0, "{scheduling:?}: nothing was there before");
        rig.device.buffer_destroy(first).expect("destroyed");
        assert!(rig.device.trim().expect("trimmed") > 0);
        assert_eq!(fill(rig.buffer(64)), 1, "{scheduling:?}: its memory may be the first one's");
        assert_eq!(fill(rig.buffer(64)), 0, "{scheduling:?}: once is enough");
    }
}

/// Whoever takes the memory of destroyed buffers later comes after one barrier, not after a list of what ran where.
#[test]
fn what_destroyed_buffers_left_is_one_barrier_once_everything_is_over() {
    for scheduling in [Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence] {
        let rig = Rig::new(Options::new(7, 1), Settings { scheduling, ..settings() });
        let kept = rig.buffer(64);
        let used: Vec<_> = (0..4).map(|i| rig.filled(16 << i, i as u8)).collect();
        used.into_iter().for_each(|buffer| rig.device.buffer_destroy(buffer).expect("destroyed"));
        rig.device.wait(FOREVER).expect("a wait");
        let batch = |buffers: &[Handle]| {
            let before = rig.backend().counts().barriers;
            let fill = |buffer: &Handle| rig.device.buffer_fill(0, whole(*buffer), 7, 4).expect("a fill");
            buffers.iter().for_each(fill);
            rig.device.wait(FOREVER).expect("a wait");
            rig.backend().counts().barriers - before
        };
        let again: Vec<_> = (0..8).map(|_| rig.buffer(32)).collect();
        assert_eq!(batch(&[kept]), 1, "{scheduling:?}");
        assert_eq!(batch(&again), 0, "{scheduling:?}: once is enough");
        rig.assert_ordered();
    }
}

/// A batch that the device refused has ordered nothing, and neither has the barrier in it.
#[test]
fn the_barrier_of_a_refused_batch_is_made_again() {
    for scheduling in [Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence] {
        let rig = Rig::new(Options::new(7, 1), Settings { scheduling, ..settings() });
        let barriers = || rig.backend().counts().barriers;
        let first = rig.filled(64, 1);
        rig.device.wait(FOREVER).expect("a wait");
        rig.device.buffer_destroy(first).expect("destroyed");
        assert!(rig.device.trim().expect("trimmed") > 0);
        rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused"), false);
        rig.device.buffer_fill(0, whole(rig.buffer(64)), 7, 4).expect("a fill");
        assert!(rig.device.stream_flush(0).is_err(), "{scheduling:?}: refused");
        let before = barriers();
        rig.device.buffer_fill(0, whole(rig.buffer(64)), 7, 4).expect("a fill");
        rig.device.wait(FOREVER).expect("a wait");
        assert_eq!(barriers() - before, 1, "{scheduling:?}");
        rig.assert_ordered();
    }
}

/// That waiting or asking fails does not end the work: its memory goes when it is over.
#[test]
fn a_device_is_not_closed_under_work_that_could_not_be_waited_for() {
    for call in [Call::Wait, Call::Completed] {
        for times in [false, true] {
            let mut rig = Rig::lazy();
            let (from, to) = (rig.filled(64, 1), rig.buffer(64));
            rig.device.buffer_copy(0, whole(to), whole(from)).expect("a copy");
            rig.device.stream_flush(0).expect("a flush");
            rig.backend().inject(call, 1, fault(Code::OutOfHostMemory, "no wait"), times);
            let closed = rig.device.close(20_000_000);
            assert_eq!(rig.backend().check(), [""; 0], "{call:?}");
            if closed.is_err() {
                assert_eq!(closed, Err(tidegate::error::Error::Timeout));
                rig.backend().heal();
                rig.device.close(FOREVER).expect("closed");
            }
            assert_eq!(rig.backend().check(), [""; 0], "{call:?}");
            assert_eq!(rig.backend().live_pages(), 0);
        }
    }
}

/// One thread may be submitting to its queue while another looks at all of them: what it took would overtake.
#[test]
fn a_scheduler_submits_to_one_queue_only() {
    let backend = HostBackend::new(Options::new(1, 2));
    let page = Arc::new(backend.page_create(MemoryKind::Device, 64).expect("a page"));
    let mut streams = SchedulerStreams::<HostBackend>::new(4, Strategy::Interleave, 256);
    let to = Binding { page: &page, offset: 0, size: 64 };
    streams.take(&backend, 0, &Need::default(), false, &[Command::Fill { to, pattern: 1 }]).expect("a fill");
    assert!(streams.close(&backend, 0).is_empty());
    assert!(streams.next(1).is_none());
    assert!(streams.next(streams.queue_of(0)).is_some());
}

/// An event driver that several threads use, one step at a time.
struct Steps {
    backend: HostBackend,
    streams: EventStreams<HostBackend>,
    page: Arc<<HostBackend as PageSource>::Page>,
    hazards: Hazards,
}

impl Steps {
    fn new() -> Steps {
        let backend = HostBackend::new(Options::new(1, 2));
        let page = Arc::new(backend.page_create(MemoryKind::Device, 64).expect("a page"));
        Steps { backend, streams: EventStreams::new(4, 2, 256), page, hazards: Hazards::default() }
    }

    fn need(&self, slot: u32) -> Need {
        let mut need = Need::default();
        need.depend(&self.streams, slot, &self.hazards, (0, 64), WRITE);
        need
    }

    /// The slot fills the page, and what it recorded is on its way.
    fn fill(&mut self, slot: u32) -> Mark {
        let mark = self.record(slot);
        assert!(self.streams.close(&self.backend, slot).is_empty());
        mark
    }

    fn record(&mut self, slot: u32) -> Mark {
        let need = self.need(slot);
        assert!(need.flush.is_empty());
        let command = Command::Fill { to: Binding { page: &self.page, offset: 0, size: 64 }, pattern: slot };
        let mark = self.streams.take(&self.backend, slot, &need, false, &[command]).expect("a fill");
        hazard::record(&mut self.hazards, 0, 64, WRITE, mark);
        mark
    }

    fn next(&mut self, queue: usize) -> Submission<<HostBackend as Backend>::Recording> {
        self.streams.next(queue).expect("a submission")
    }

    fn answer(&mut self, submission: Submission<<HostBackend as Backend>::Recording>, accepted: bool) {
        let answer = if accepted { Answer::Accepted } else { Answer::Refused };
        self.streams.submitted(&self.backend, submission, answer);
    }
}

/// One thread records while another submits what came before: that is refused, and what it waited for is not forgotten.
#[test]
fn what_was_recorded_while_the_batch_before_was_refused_waits_for_what_that_one_waited_for() {
    for accepted in [true, false] {
        let mut steps = Steps::new();
        let other = steps.fill(1).point;
        let submission = steps.next(1);
        steps.answer(submission, true);
        steps.fill(0);
        let refused = steps.next(0);
        assert_eq!(refused.waits[..], [other]);
        steps.fill(0);
        steps.answer(refused, accepted);
        let waits = steps.next(0).waits;
        assert_eq!(waits[..], if accepted { vec![] } else { vec![other] });
    }
}

/// What the refused batch was to come after was held back then, and is on its way in another thread's hands now.
#[test]
fn who_comes_after_a_refused_batch_waits_until_the_device_answered_for_what_that_one_came_behind() {
    for closed in [true, false] {
        let mut steps = Steps::new();
        let external = External { semaphore: 1, value: 1, submitted: false };
        steps.streams.after_external(&steps.backend, 1, external).expect("a slot waits");
        let on_its_way = steps.fill(1);
        if !closed {
            steps.backend.inject(Call::End, 1, fault(Code::Driver, "refused"), false);
        }
        steps.record(0);
        assert_eq!(steps.streams.close(&steps.backend, 0).is_empty(), closed);
        assert!(steps.need(2).flush.is_empty(), "held back behind it");
        steps.backend.signal(1, 1);
        steps.streams.refresh(&steps.backend).expect("a look");
        let theirs = steps.next(1);
        assert_eq!(steps.need(2).flush[..], if closed { vec![] } else { vec![on_its_way.point.slot] });
        steps.answer(theirs, true);
        if closed {
            let own = steps.next(0);
            assert_eq!(own.waits[..], [on_its_way.point]);
            steps.answer(own, true);
        }
        assert!(steps.need(2).flush.is_empty());
        steps.fill(2);
        assert_eq!(steps.next(0).waits[..], if closed { vec![] } else { vec![on_its_way.point] });
    }
}

/// Nothing that a refused batch did not come after is waited for, be it held back or on its way.
#[test]
fn who_comes_after_a_refused_batch_does_not_wait_for_what_that_one_had_nothing_to_do_with() {
    for is_held in [true, false] {
        let mut steps = Steps::new();
        if is_held {
            let external = External { semaphore: 1, value: 1, submitted: false };
            steps.streams.after_external(&steps.backend, 1, external).expect("a slot waits");
        }
        steps.fill(1);
        let theirs = if is_held { None } else { Some(steps.next(1)) };
        steps.hazards = Hazards::default();
        steps.fill(0);
        let refused = steps.next(0);
        steps.answer(refused, false);
        assert!(steps.need(2).flush.is_empty());
        steps.fill(2);
        assert!(steps.next(0).waits.is_empty(), "it goes, and waits for nothing");
        assert_eq!(theirs.is_none(), is_held);
    }
}
