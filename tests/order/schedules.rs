//! Schedules that a driver has to order, on the scheduling that the module is named after.

use super::complaints;
use crate::host::Rng;
use crate::host::backend::{Call, Options, Pace, fault};
use crate::host::checker::{Checker, Event, Recorded};
use crate::host::program::{Program, Window};
use crate::host::rig::{Rig, add, increment, nine, part, scheduling_of, silent, triple, whole, with};
use std::sync::mpsc;
use tidegate::code::Code;
use tidegate::device::{BufferDesc, BufferMemory, FOREVER, Handle, Settings};
use tidegate::failure::Access;
use tidegate::memory::MemoryKind;

fn settings() -> Settings {
    Settings { scheduling: scheduling_of(module_path!()), ..crate::host::rig::settings() }
}

fn rig() -> Rig {
    Rig::new(Options::new(1, 1), settings())
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
        let (max_recorded, max_tasks) = (*rng.pick(&[1, 3, 1024]), *rng.pick(&[1, 3, 256]));
        let rig = Rig::new(options, Settings { slots, max_recorded, max_tasks, ..settings() });
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
    let mut rig = Rig::new(Options::new(3, 1).pace(Pace::Lazy), Settings { isolate_buffers: true, ..settings() });
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
fn one_barrier_serves_all_hazards_known_when_it_is_recorded() {
    let rig = rig();
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
fn bytes_bound_as_nothing_order_nothing_but_what_extra_says() {
    let rig = rig();
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
fn rows_of_one_table_that_is_bound_whole_are_ordered_each_by_itself() {
    for queues in 1..=3 {
        let rig = Rig::new(Options::new(3, queues), settings());
        let table = rig.buffer(4 * 64);
        // Each of its own row, of a table that every one binds whole, on a stream of its own.
        for row in 0..4_u64 {
            let mut program = Program::new(&[Access::ReadWrite]).map(0, row as u8 + 1, &[]);
            program.operations[0].window = Window { lo: row * 64, len: 64 };
            let kernel = rig.kernel(&program);
            let extra = [with(part(table, row * 64, 64), Access::Write)];
            rig.launch_on(row, kernel, &[with(whole(table), Access::None)], &extra).expect("a launch");
        }
        rig.device.wait(FOREVER).expect("a wait");
        let counts = rig.backend().counts();
        assert_eq!((counts.commands, counts.barriers, counts.waits), (4, 0, 0), "on {queues} queues");
        assert_eq!(rig.read(whole(table)).expect("a read"), [[1; 64], [2; 64], [3; 64], [4; 64]].concat());
        rig.assert_ordered();
    }
}

#[test]
fn a_page_outlives_work_that_only_binds_it() {
    let rig = Rig::new(Options::new(3, 2).pace(Pace::Lazy), Settings { isolate_buffers: true, ..settings() });
    let kernel = rig.kernel(&Program::new(&[Access::Read, Access::None, Access::Write]).map(2, 0, &[(0, 2)]));
    let (source, bound) = (rig.filled(64, 2), rig.buffer(64));
    let outs = [rig.buffer(64), rig.buffer(64)];
    rig.device.wait(FOREVER).expect("a wait");
    rig.device.trim().expect("a trim");
    // One that is submitted and one that is not.
    for (stream, out) in outs.into_iter().enumerate() {
        let bindings = [silent(whole(source)), silent(whole(bound)), silent(whole(out))];
        rig.launch_on(stream as u64, kernel, &bindings, &[]).expect("a launch");
    }
    rig.device.stream_flush(0).expect("a flush");
    rig.device.buffer_destroy(bound).expect("a destroy");
    assert_eq!(rig.device.trim().expect("a trim"), 0);
    rig.device.wait(FOREVER).expect("a wait");
    rig.assert_ordered();
    assert!(rig.device.trim().expect("a trim") >= 64);
}

#[test]
fn what_extra_writes_of_memory_the_host_sees_is_made_visible_to_it() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let memory = BufferMemory::Managed(MemoryKind::Readback);
    let (seen, answer) = rig.try_buffer(64, memory, "seen");
    answer.expect("a buffer");
    let bindings = [with(whole(seen), Access::None)];
    rig.launch_on(0, kernel, &bindings, &[with(whole(seen), Access::Write)]).expect("a launch");
    rig.device.buffer_map(whole(seen), Access::Read, FOREVER).expect("a mapping");
    rig.device.buffer_unmap(whole(seen)).expect("an end of it");
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
    let options = Options::new(3, 1).pace(Pace::Lazy);
    let rig = Rig::new(options, Settings { isolate_buffers: true, ..settings() });
    let (source, buffer) = (rig.filled(64, 2), rig.buffer(64));
    rig.device.wait(FOREVER).expect("a wait");
    rig.device.buffer_copy(1, whole(buffer), whole(source)).expect("a copy");
    rig.device.buffer_fill(2, whole(buffer), 1, 1).expect("a fill");
    rig.backend().inject(Call::Submit, 1, fault(Code::OutOfHostMemory, "refused"), false);
    rig.backend().inject(Call::Submit, 1, fault(Code::OutOfHostMemory, "refused again"), false);
    rig.device.stream_flush(2).expect_err("a refusal");
    rig.device.buffer_destroy(buffer).expect("a destroy");
    rig.device.trim().expect("a trim");
    rig.device.wait(FOREVER).expect("a wait");
    rig.assert_ordered();
    assert!(rig.device.trim().expect("a trim") >= 64);
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
    let rig = rig();
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
