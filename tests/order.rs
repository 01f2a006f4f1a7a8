//! Every conflicting pair of accesses is ordered, across streams and queues, and nothing else is. The proof comes from
//! the log of what the driver emitted; the first tests show that the proof can fail.

mod host;

use host::Rng;
use host::backend::{Call, Options, Pace, fault};
use host::checker::{Checker, Event, Recorded, Touch};
use host::rig::{Rig, add, increment, nine, part, settings, silent, triple, whole, with};
use std::sync::mpsc;
use tidegate::code::Code;
use tidegate::device::{BufferDesc, BufferMemory, FOREVER, Handle, Scheduling, Settings};
use tidegate::failure::{Access, Point};
use tidegate::memory::MemoryKind;

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

/// A device of random shape, with what every schedule on it shares.
struct Stage {
    rig: Rig,
    rng: Rng,
    triple: Handle,
    nine: Handle,
    increment: Handle,
    elsewhere: Handle,
}

const SCHEDULES: u64 = 10_000;
const PER_DEVICE: u64 = 50;
const SIZE: u64 = 32;

impl Stage {
    fn new(seed: u64) -> Stage {
        let mut rng = Rng::new(seed);
        let pace = *rng.pick(&[Pace::Lazy, Pace::Random, Pace::Random, Pace::Eager]);
        let options = Options::new(rng.next(), rng.between(1, 3) as usize).pace(pace);
        let slots = rng.between(1, 6) as u32;
        let scheduling =
            *rng.pick(&[Scheduling::Event, Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence]);
        let (max_recorded, max_tasks) = (*rng.pick(&[1, 3, 1024]), *rng.pick(&[1, 3, 256]));
        let rig = Rig::new(options, Settings { slots, scheduling, max_recorded, max_tasks, ..settings() });
        let (triple, nine, increment) = (rig.kernel(&triple()), rig.kernel(&nine()), rig.kernel(&increment()));
        let elsewhere = rig.filled(SIZE, 0);
        Stage { rig, rng, triple, nine, increment, elsewhere }
    }

    /// Three streams, often on three slots.
    fn streams(&mut self) -> [u64; 3] {
        match self.rng.one_in(2) {
            true => [0, 1, 2],
            false => [self.rng.next(), self.rng.next(), self.rng.next()],
        }
    }

    fn create(&self, stream: u64) -> Handle {
        let memory = BufferMemory::Managed(MemoryKind::Device);
        let desc = BufferDesc { size: SIZE, memory, stream, label: "", tag: 0, unallocated: false };
        let (handle, answer) = self.rig.device.buffer_create(&desc);
        answer.expect("a buffer");
        handle
    }

    fn launch(&self, stream: u64, kernel: Handle, buffers: &[Handle]) {
        let bindings: Vec<_> = buffers.iter().map(|buffer| silent(whole(*buffer))).collect();
        self.rig.launch_on(stream, kernel, &bindings, &[]).expect("a launch");
    }

    fn write(&self, stream: u64, buffer: Handle, byte: u8) {
        self.rig.device.buffer_write(stream, whole(buffer), &[byte; SIZE as usize], false).expect("a write");
    }

    fn read(&self, stream: u64, buffer: Handle) -> [u8; SIZE as usize] {
        let mut bytes = [0; SIZE as usize];
        self.rig.device.buffer_read(stream, &mut bytes, whole(buffer), FOREVER).expect("a read");
        bytes
    }

    fn destroy(&self, buffer: Handle) {
        self.rig.device.buffer_destroy(buffer).expect("a destroy");
    }

    /// Something else going on, or a flush, or nothing.
    fn noise(&mut self) {
        let stream = self.rng.below(8);
        match self.rng.below(5) {
            0 => self.rig.device.stream_flush(stream).expect("a flush"),
            1 => self.launch(stream, self.increment, &[self.elsewhere]),
            _ => {}
        }
    }

    /// Makes all bytes of a buffer one value, in one of several ways.
    fn produce(&mut self, stream: u64, buffer: Handle) -> u8 {
        let byte = self.rng.next() as u8;
        match self.rng.below(3) {
            0 => self.write(stream, buffer, byte),
            1 => {
                self.launch(stream, self.nine, &[buffer]);
                return 9;
            }
            _ => self.rig.device.buffer_fill(stream, whole(buffer), u32::from(byte), 1).expect("a fill"),
        }
        byte
    }

    /// Makes another buffer of one, by a copy or a launch.
    fn derive(&mut self, stream: u64, from: Handle, to: Handle, byte: u8) -> u8 {
        match self.rng.one_in(2) {
            true => {
                self.launch(stream, self.triple, &[from, to]);
                byte.wrapping_mul(3).wrapping_add(1)
            }
            false => {
                self.rig.device.buffer_copy(stream, whole(to), whole(from)).expect("a copy");
                byte
            }
        }
    }
}

/// Runs a schedule in many random ways, and proves each of them ordered.
fn schedules(seed: u64, mut schedule: impl FnMut(&mut Stage, [u64; 3])) {
    for device in 0..SCHEDULES / PER_DEVICE {
        let mut stage = Stage::new(seed + device);
        for _ in 0..PER_DEVICE {
            let streams = stage.streams();
            schedule(&mut stage, streams);
        }
        stage.rig.device.wait(FOREVER).expect("a wait");
        let complaints = stage.rig.backend().check();
        assert!(complaints.is_empty(), "seed {seed}, device {device}: {complaints:#?}");
        assert_eq!(stage.rig.failures(), 0);
    }
}

#[test]
fn a_allocates_b_writes_c_reads_in_ten_thousand_schedules() {
    schedules(10_000, |stage, [a, b, c]| {
        let buffer = stage.create(a);
        stage.noise();
        let byte = stage.produce(b, buffer);
        stage.noise();
        assert_eq!(stage.read(c, buffer), [byte; SIZE as usize]);
        stage.destroy(buffer);
    });
}

#[test]
fn a_write_comes_after_another_streams_read_in_ten_thousand_schedules() {
    schedules(20_000, |stage, [a, b, c]| {
        let (buffer, out) = (stage.create(a), stage.create(c));
        let old = stage.produce(a, buffer);
        stage.noise();
        let derived = stage.derive(b, buffer, out, old);
        stage.noise();
        let new = stage.produce(c, buffer);
        stage.noise();
        assert_eq!(stage.read(c, buffer), [new; SIZE as usize]);
        assert_eq!(stage.read(a, out), [derived; SIZE as usize]);
        stage.destroy(buffer);
        stage.destroy(out);
    });
}

#[test]
fn a_block_is_taken_by_a_new_buffer_under_another_streams_work_in_ten_thousand_schedules() {
    let (mut first, mut most) = (0, 0);
    schedules(30_000, |stage, [a, b, c]| {
        let (buffer, out) = (stage.create(a), stage.create(c));
        let old = stage.produce(a, buffer);
        stage.noise();
        let derived = stage.derive(b, buffer, out, old);
        stage.destroy(buffer);
        let heir = stage.create(a);
        let used = stage.rig.device.memory_stats().used.iter().sum::<u64>();
        first = if first == 0 { used } else { first };
        most = most.max(used);
        stage.noise();
        let new = stage.produce(c, heir);
        stage.noise();
        assert_eq!(stage.read(a, out), [derived; SIZE as usize]);
        assert_eq!(stage.read(b, heir), [new; SIZE as usize]);
        stage.destroy(heir);
        stage.destroy(out);
    });
    assert!(most < first + 4096, "blocks are not taken again: {first}, then {most} bytes in use");
}

#[test]
fn a_page_in_use_is_not_given_back_under_it() {
    let rig = Rig::new(Options::new(3, 1).pace(Pace::Lazy), Settings { isolate_buffers: true, ..settings() });
    let (kernel, buffer, out) = (rig.kernel(&triple()), rig.filled(64, 2), rig.buffer(64));
    rig.launch(kernel, &[whole(buffer), whole(out)]).expect("a launch");
    rig.device.stream_flush(0).expect("a flush");
    rig.device.buffer_destroy(buffer).expect("a destroy");
    rig.device.kernel_destroy(kernel).expect("a destroy");
    rig.device.trim().expect("a trim");
    assert_eq!(rig.read(whole(out)).expect("a read"), [7; 64]);
    rig.device.trim().expect("a trim");
    rig.device.buffer_destroy(out).expect("a destroy");
    rig.device.wait(FOREVER).expect("a wait");
    rig.device.trim().expect("a trim");
    rig.device.close(FOREVER).expect("a close");
    assert_eq!((rig.backend().live_pages(), rig.backend().open_recordings()), (0, 0));
    rig.assert_ordered();
}

#[test]
fn independent_launches_get_no_barrier_and_no_wait() {
    for queues in 1..=3 {
        let rig = Rig::new(Options::new(5, queues), settings());
        let (kernel, input) = (rig.kernel(&triple()), rig.buffer(64));
        let outs: Vec<Handle> = (0..40).map(|_| rig.buffer(64)).collect();
        let halves = rig.buffer(128);
        for (i, out) in outs.iter().enumerate() {
            rig.launch_on(i as u64 % 5, kernel, &[silent(whole(input)), silent(whole(*out))], &[]).expect("a launch");
        }
        for half in 0..2 {
            let slice = part(halves, half * 64, 64);
            rig.launch_on(half, kernel, &[silent(whole(input)), silent(slice)], &[]).expect("a launch");
        }
        rig.device.wait(FOREVER).expect("a wait");
        let counts = rig.backend().counts();
        assert_eq!((counts.commands, counts.barriers, counts.waits), (42, 0, 0), "on {queues} queues");
        rig.assert_ordered();
    }
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
fn one_barrier_serves_all_hazards_known_when_it_is_recorded() {
    let rig = Rig::default();
    let kernel = rig.kernel(&triple());
    let buffers: Vec<[Handle; 3]> = (0..10).map(|_| [rig.buffer(64), rig.buffer(64), rig.buffer(64)]).collect();
    for stage in 0..2 {
        for buffer in &buffers {
            rig.launch(kernel, &[whole(buffer[stage]), whole(buffer[stage + 1])]).expect("a launch");
        }
    }
    rig.device.wait(FOREVER).expect("a wait");
    assert_eq!(rig.backend().counts().barriers, 1);
    rig.assert_ordered();
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

#[test]
fn bytes_bound_as_nothing_order_nothing_but_what_extra_says() {
    let rig = Rig::default();
    // Stores the first 16 bytes of what is bound, wherever in the table that is.
    let kernel = rig.kernel(&nine());
    let table = rig.buffer(256);
    for row in 0..4 {
        let slice = part(table, row * 64, 64);
        let bindings = [with(slice, Access::None)];
        rig.launch_on(row, kernel, &bindings, &[with(slice, Access::Write)]).expect("a launch");
    }
    rig.device.wait(FOREVER).expect("a wait");
    assert_eq!(rig.backend().counts().barriers, 0);
    assert_eq!(rig.read(whole(table)).expect("a read"), [9; 256]);
    rig.assert_ordered();
}

#[test]
fn a_refused_write_does_not_hide_what_the_next_one_comes_after() {
    for queues in 1..=3 {
        let rig = Rig::new(Options::new(11, queues).pace(Pace::Lazy), settings());
        let (kernel, source, out) = (rig.kernel(&triple()), rig.buffer(64), rig.buffer(64));
        rig.launch_on(0, kernel, &[silent(whole(source)), silent(whole(out))], &[]).expect("a launch");
        rig.device.stream_flush(0).expect("a flush");
        // Overwrites both the bytes written and the bytes read, but never runs.
        rig.device.buffer_fill(1, whole(source), 1, 1).expect("a fill");
        rig.device.buffer_fill(1, whole(out), 2, 1).expect("a fill");
        rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused"), false);
        let _ = rig.device.stream_flush(1);
        rig.device.buffer_fill(2, whole(source), 3, 1).expect("a fill");
        rig.device.buffer_fill(2, whole(out), 4, 1).expect("a fill");
        rig.device.wait(FOREVER).expect("a wait");
        let complaints = rig.backend().check();
        assert!(complaints.is_empty(), "on {queues} queues: {complaints:#?}");
        assert_eq!(rig.read(whole(out)).expect("a read"), [4; 64]);
    }
}

#[test]
fn a_page_is_not_given_back_under_work_that_a_refused_write_hides() {
    for scheduling in [Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence] {
        let options = Options::new(3, 1).pace(Pace::Lazy);
        let rig = Rig::new(options, Settings { isolate_buffers: true, scheduling, ..settings() });
        let (source, buffer) = (rig.filled(64, 2), rig.buffer(64));
        rig.device.wait(FOREVER).expect("a wait");
        rig.device.buffer_copy(1, whole(buffer), whole(source)).expect("a copy");
        rig.device.buffer_fill(2, whole(buffer), 1, 1).expect("a fill");
        rig.backend().inject(Call::Submit, 1, fault(Code::Driver, "refused"), false);
        rig.device.stream_flush(2).expect_err("a refusal");
        rig.device.buffer_destroy(buffer).expect("a destroy");
        rig.device.trim().expect("a trim");
        rig.device.wait(FOREVER).expect("a wait");
        rig.assert_ordered();
        assert!(rig.device.trim().expect("a trim") >= 64);
    }
}

#[test]
fn threads_that_share_bytes_and_threads_that_do_not_are_ordered() {
    let rig = Rig::new(Options::new(13, 2), Settings { slots: 4, ..settings() });
    let (triple, add) = (rig.kernel(&triple()), rig.kernel(&add()));
    let shared = rig.filled(64, 5);
    let (send, receive) = mpsc::channel::<(Handle, u8)>();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (rig, send) = (&rig, send.clone());
            scope.spawn(move || {
                for round in 0..200_u8 {
                    let (own, out) = (rig.buffer(64), rig.buffer(64));
                    rig.device.buffer_write(thread, whole(own), &[round; 64], false).expect("a write");
                    let bindings = [silent(whole(own)), silent(whole(shared)), silent(whole(out))];
                    rig.launch_on(thread, add, &bindings, &[]).expect("a launch");
                    rig.device.buffer_destroy(own).expect("a destroy");
                    send.send((out, round.wrapping_add(5))).expect("a receiver");
                }
            });
        }
        drop(send);
        let rig = &rig;
        scope.spawn(move || {
            for (out, byte) in receive {
                let end = rig.buffer(64);
                rig.launch_on(7, triple, &[silent(whole(out)), silent(whole(end))], &[]).expect("a launch");
                rig.device.buffer_destroy(out).expect("a destroy");
                let mut bytes = [0; 64];
                rig.device.buffer_read(3, &mut bytes, whole(end), FOREVER).expect("a read");
                assert_eq!(bytes, [byte.wrapping_mul(3).wrapping_add(1); 64]);
                rig.device.buffer_destroy(end).expect("a destroy");
            }
        });
    });
    rig.device.wait(FOREVER).expect("a wait");
    rig.assert_ordered();
}

#[test]
fn a_driver_that_forgot_one_barrier_is_found_out() {
    let rig = Rig::default();
    let kernel = rig.kernel(&increment());
    let buffer = rig.filled(64, 0);
    (0..5).for_each(|_| rig.launch(kernel, &[whole(buffer)]).expect("a launch"));
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [5; 64]);
    let log = rig.backend().take_log();
    assert_eq!(complaints(&log), [""; 0]);
    let total = Checker::of(&log).counts.barriers;
    assert!(total > 0);
    for left_out in 0..total {
        let mut log = log.clone();
        let mut seen = 0;
        for event in &mut log {
            if let Event::Submitted { recorded, .. } = event {
                recorded.retain(|item| {
                    seen += u64::from(*item == Recorded::Barrier);
                    *item != Recorded::Barrier || seen != left_out + 1
                });
            }
        }
        assert!(!complaints(&log).is_empty(), "barrier {left_out} of {total} was not needed");
    }
}
