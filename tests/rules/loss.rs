//! A lost device (R14), on the scheduling that the module is named after.

use crate::host::backend::{Call, Options, Pace, fault};
use crate::host::rig::{Rig, failed, nine, scheduling_of, silent, triple, whole, with};
use tidegate::code::Code;
use tidegate::device::{
    BufferMemory, DeviceClaim, FOREVER, Handle, MemoryStats, Settings, Slice, WHOLE, parked_devices,
};
use tidegate::error::{Error, Fault, Result as Answer};
use tidegate::failure::Access;
use tidegate::memory::MemoryKind;
use tidegate::stream::backend::External;

/// Every call that can answer with a failure.
const CALLS: [Call; 13] = [
    Call::PageCreate,
    Call::PageWrite,
    Call::PageRead,
    Call::PageInvalidate,
    Call::PageFlush,
    Call::SlotCreate,
    Call::KernelCreate,
    Call::Begin,
    Call::Launch,
    Call::End,
    Call::Submit,
    Call::Completed,
    Call::Wait,
];

/// Longer than any wait of these tests that has an end.
const LONG: u64 = 20_000_000_000;
/// Long enough for one look.
const SHORT: u64 = 20_000_000;

fn settings() -> Settings {
    let scheduling = scheduling_of(module_path!());
    Settings { scheduling, track_uninitialized: true, isolate_buffers: true, ..crate::host::rig::settings() }
}

fn rig(pace: Pace) -> Rig {
    Rig::new(Options::new(1, 1).pace(pace), settings())
}

fn gone() -> Fault {
    fault(Code::DeviceLost, "gone")
}

/// Two batches on their way, then a loss on stream 0.
fn lose(rig: &Rig) -> u64 {
    rig.backend().inject(Call::Submit, 1, gone(), true);
    let victim = rig.buffer(64);
    rig.device.buffer_fill(0, whole(victim), 1, 1).expect("a fill");
    let (code, roots) = failed(rig.device.stream_flush(0));
    assert_eq!((code, roots.len()), (Code::DeviceLost, 1));
    roots[0]
}

/// A program over buffers that are each written once, with a byte of their own.
struct World {
    rig: Rig,
    buffers: Vec<(Handle, u8)>,
    token: Handle,
    nine: Handle,
    triple: Handle,
    finished: Handle,
    begun: Handle,
}

const STEPS: usize = 14;

impl World {
    fn new(pace: Pace) -> World {
        let null = Handle::default();
        let rig = rig(pace);
        let (token, answer) = rig.try_buffer(64, BufferMemory::Token, "token");
        answer.expect("a token");
        World { rig, buffers: Vec::new(), token, nine: null, triple: null, finished: null, begun: null }
    }

    fn buffer(&mut self, size: u64, kind: MemoryKind, byte: u8) -> (Handle, Answer) {
        let (buffer, answer) = self.rig.try_buffer(size, BufferMemory::Managed(kind), "");
        assert!(!buffer.is_null());
        self.buffers.push((buffer, byte));
        (buffer, answer)
    }

    fn kernel(&self, program: &crate::host::program::Program) -> (Handle, Answer) {
        self.rig.try_kernel(&program.encode(), &[], "kernel")
    }

    fn at(&self, index: usize) -> Slice {
        self.buffers.get(index).map_or(whole(Handle::default()), |(buffer, _)| whole(*buffer))
    }

    fn step(&mut self, step: usize) -> Answer {
        let device = &self.rig.device;
        match step {
            0 => {
                let (a, answer) = self.buffer(64, MemoryKind::Device, 1);
                answer.and(self.rig.write(whole(a), &[1; 64]))
            }
            1 => {
                let (read, answer) = device.read_begin(0, self.at(0));
                self.finished = read;
                answer.and_then(|()| device.read_wait(read, FOREVER))
            }
            2 => {
                let (kernel, answer) = self.kernel(&triple());
                self.triple = kernel;
                answer
            }
            3 => {
                let (kernel, answer) = self.kernel(&nine());
                self.nine = kernel;
                answer
            }
            4 => self.buffer(64, MemoryKind::Device, 4).1,
            5 => {
                let uses = [silent(self.at(0)), silent(self.at(1))];
                device.launch(&crate::host::rig::launch_desc(1, self.triple, &uses, &[]))
            }
            6 => {
                let (copy, answer) = self.buffer(64, MemoryKind::Device, 4);
                answer.and(self.rig.device.buffer_copy(2, whole(copy), self.at(1)))
            }
            7 => device.stream_flush(2),
            8 => {
                let (filled, answer) = self.buffer(64, MemoryKind::Device, 7);
                answer.and(self.rig.device.buffer_fill(3, whole(filled), 7, 1))
            }
            9 => {
                let (up, answer) = self.buffer(64, MemoryKind::Upload, 3);
                answer?;
                let device = &self.rig.device;
                let address = device.buffer_map(whole(up), Access::Write, FOREVER)?;
                self.rig.backend().poke(address, &[3; 64]);
                device.buffer_unmap(whole(up))
            }
            10 => {
                let (down, answer) = self.buffer(64, MemoryKind::Readback, 9);
                answer?;
                let uses = [silent(whole(down)), with(whole(self.token), Access::None)];
                self.rig.device.launch(&crate::host::rig::launch_desc(1, self.nine, &uses[..1], &uses[1..]))
            }
            11 => {
                let down = self.at(5);
                let address = device.buffer_map(down, Access::Read, FOREVER)?;
                assert_eq!(self.rig.backend().peek(address, 64), [9; 64], "what was mapped to be read was written");
                device.buffer_unmap(down)
            }
            12 => {
                let (read, answer) = device.read_begin(1, self.at(2));
                self.begun = read;
                answer
            }
            13 => device.wait(FOREVER),
            _ => Ok(()),
        }
    }

    /// What a read that answers with bytes answers with is what was written.
    fn check_reads(&self) {
        for (buffer, byte) in &self.buffers {
            if let Ok(bytes) = self.rig.read(whole(*buffer)) {
                assert!(bytes.iter().all(|read| read == byte), "a stale byte");
            }
        }
        for (read, byte) in [(self.finished, 1), (self.begun, 4)] {
            if !read.is_null()
                && let Ok(()) = self.rig.device.read_wait(read, FOREVER)
                && let Ok(bytes) = self.rig.device.read_data(read)
            {
                assert_eq!(bytes[..], [byte; 64]);
            }
        }
    }

    fn destroy_all(&self) {
        for read in [self.finished, self.begun] {
            self.rig.device.read_release(read).expect("a release");
        }
        for kernel in [self.nine, self.triple] {
            self.rig.device.kernel_destroy(kernel).expect("a destroy");
        }
        for (buffer, _) in &self.buffers {
            self.rig.device.buffer_destroy(*buffer).expect("a destroy");
        }
        self.rig.device.buffer_destroy(self.token).expect("a destroy");
    }

    fn close(mut self) {
        self.rig.device.close(LONG).expect("a close");
        self.rig.assert_ordered();
        let left = (self.rig.backend().live_pages(), self.rig.backend().open_recordings(), self.rig.failures());
        assert_eq!(left, (0, 0, 0));
    }
}

/// Runs the program with the n-th call of each kind failing, n from 1 until none does.
fn each_fault(code: Code, mut run: impl FnMut(World, Call, u64) -> bool) {
    for call in CALLS {
        for pace in [Pace::Lazy, Pace::Eager] {
            for nth in 1.. {
                assert!(nth < 200, "{call:?} is called without end");
                let world = World::new(pace);
                let fault = Fault { message: format!("{call:?} {nth}").into(), ..fault(code, "") };
                world.rig.backend().inject(call, nth, fault, false);
                if !run(world, call, nth) {
                    break;
                }
            }
        }
    }
}

#[test]
fn r14_a_loss_is_the_loss_whichever_call_says_so() {
    each_fault(Code::DeviceLost, |mut world, call, nth| {
        let mut kept = false;
        for step in 0..STEPS {
            let was_lost = world.rig.device.status().is_err();
            let answer = world.step(step);
            let is_lost = world.rig.backend().fired() > 0;
            match world.rig.device.status() {
                Ok(()) => assert!(!is_lost, "{call:?} {nth}, step {step}: a call said lost, the device does not"),
                status => {
                    assert!(is_lost, "{call:?} {nth}, step {step}");
                    assert_eq!(failed(status).0, Code::DeviceLost);
                }
            }
            if is_lost && !was_lost {
                // The call that met it names the loss and nothing else.
                if let Err(Error::Failed(fault, roots)) = &answer {
                    let loss = failed(world.rig.device.status());
                    assert_eq!((fault.code, roots.ids.to_vec()), loss, "{call:?} {nth}, step {step}");
                }
            }
            kept |= step == 1 && answer.is_ok();
        }
        if world.rig.backend().fired() == 0 {
            world.check_reads();
            world.close();
            return false;
        }
        let (code, roots) = failed(world.rig.device.status());
        assert_eq!(code, Code::DeviceLost);
        let report = world.rig.device.report_device();
        let known: Vec<_> = report.failures.iter().filter(|failure| failure.code == Code::DeviceLost).collect();
        assert_eq!(known.len(), 1, "one root, {call:?} {nth}");
        assert_eq!((vec![known[0].id], known[0].vk_function.as_str()), (roots.clone(), "vkHostTest"));
        assert!(known[0].message.starts_with(&format!("{call:?} {nth}")), "{}", known[0].message);
        for (buffer, _) in &world.buffers {
            let bytes = world.rig.device.check_written(&[whole(*buffer)], FOREVER);
            assert!(matches!(bytes, Err(Error::Unwritten(_))), "{call:?} {nth}: {bytes:?}");
        }
        if kept {
            let bytes = world.rig.device.read_data(world.finished).expect("a finished read keeps its bytes");
            assert_eq!(bytes[..], [1; 64]);
        }
        world.rig.device.check_written(&[whole(world.token)], FOREVER).expect("what is not ours is not lost");
        world.check_reads();
        world.destroy_all();
        assert_eq!(world.rig.failures(), 0, "{call:?} {nth}: nothing is left for a root to be about");
        assert_eq!(failed(world.rig.device.status()).0, Code::DeviceLost);
        world.close();
        true
    });
}

#[test]
fn r14_no_other_code_is_the_loss_and_rewriting_repairs() {
    for code in [Code::Driver, Code::OutOfHostMemory, Code::OutOfDeviceMemory] {
        each_fault(code, |mut world, call, nth| {
            for step in 0..STEPS {
                let _ = world.step(step);
                world.rig.device.status().unwrap_or_else(|error| panic!("{call:?} {nth}, step {step}: {error:?}"));
            }
            let fired = world.rig.backend().fired() > 0;
            world.check_reads();
            world.rig.backend().heal();
            for (buffer, byte) in &world.buffers {
                let device = &world.rig.device;
                if !device.buffer_info(*buffer).expect("a buffer").allocated {
                    device.buffer_allocate(*buffer, 0).expect("an allocation");
                }
                device.buffer_fill(0, whole(*buffer), u32::from(*byte), 1).expect("a fill");
            }
            for (buffer, byte) in &world.buffers {
                let bytes = world.rig.read(whole(*buffer)).expect("what was rewritten can be read");
                assert!(bytes.iter().all(|read| read == byte));
            }
            world.destroy_all();
            assert_eq!(world.rig.settled_failures(), 0, "{code:?} {call:?} {nth}");
            world.close();
            fired
        });
    }
}

#[test]
fn r14_a_report_says_the_same_before_and_after_the_claims_were_asked_for() {
    let rig = rig(Pace::Random);
    let (bad, good) = (rig.filled(64, 1), rig.filled(128, 1));
    rig.taint(Slice { buffer: bad, offset: 8, size: 8 });
    rig.taint(Slice { buffer: bad, offset: 16, size: 48 });
    let (huge, _) = rig.huge();
    rig.device.wait(FOREVER).expect("a wait");
    let loss = lose(&rig);
    let before = rig.device.report_device();
    let of_loss = before.failures.iter().find(|failure| failure.id == loss).expect("the loss");
    assert_eq!(of_loss.claimed_bytes, 8 + 128 + 64, "what no other root holds, and the victim");
    let mut claims = vec![
        DeviceClaim {
            buffer: Handle::default(),
            claim: tidegate::device::Claim { offset: 0, size: 0, failure: 0, failures: 0, more: false }
        };
        16
    ];
    let count = rig.device.device_claims(&mut claims).expect("claims");
    let of_loss = claims[..count].iter().filter(|claim| claim.claim.failure == loss);
    assert_eq!(of_loss.map(|claim| claim.claim.size).sum::<u64>(), 8 + 128 + 64);
    assert_eq!(rig.device.report_device(), before);
    for buffer in [bad, good, huge] {
        rig.device.buffer_destroy(buffer).expect("a destroy");
    }
}

#[test]
fn r3_the_root_of_a_loss_goes_with_the_last_byte_it_claims_and_comes_again() {
    let rig = rig(Pace::Random);
    let buffers = [rig.filled(64, 1), rig.filled(64, 1), rig.token()];
    rig.device.wait(FOREVER).expect("a wait");
    rig.backend().inject(Call::Submit, 1, gone(), true);
    rig.device.buffer_fill(0, whole(buffers[0]), 1, 1).expect("a fill");
    failed(rig.device.stream_flush(0));
    assert_eq!(rig.failures(), 1);
    rig.device.check_written(&[whole(buffers[1])], FOREVER).expect_err("it is lost");
    for buffer in buffers {
        rig.device.buffer_destroy(buffer).expect("a destroy");
    }
    assert_eq!(rig.failures(), 0);
    assert!(rig.device.report_device().failures.is_empty());
    let (code, roots) = failed(rig.device.status());
    assert_eq!((code, roots.len()), (Code::DeviceLost, 0));
    // What a lost device cannot give is the loss's again.
    let (late, answer) = rig.try_buffer(64, BufferMemory::Managed(MemoryKind::Device), "late");
    let (code, roots) = failed(answer);
    assert_eq!((code, roots.len(), rig.failures()), (Code::DeviceLost, 1, 1));
    assert_eq!(failed(rig.device.status()), (code, roots.clone()));
    let (other, answer) = rig.try_buffer(64, BufferMemory::Managed(MemoryKind::Device), "other");
    assert_eq!(failed(answer), (code, roots));
    for buffer in [late, other] {
        rig.device.buffer_destroy(buffer).expect("a destroy");
    }
    assert_eq!(rig.failures(), 0);
}

fn used(stats: MemoryStats) -> u64 {
    stats.used.iter().sum()
}

#[test]
fn memory_of_work_that_was_held_back_is_given_back_at_the_loss() {
    let rig = rig(Pace::Random);
    let kept = rig.filled(64, 1);
    rig.device.wait(FOREVER).expect("a wait");
    let before = used(rig.device.memory_stats());
    rig.device.stream_wait_external(1, External { semaphore: 7, value: 1, submitted: false }).expect("a wait");
    let held = rig.buffer(4096);
    rig.device.buffer_write(1, whole(held), &[5; 4096], false).expect("a write");
    let (read, answer) = rig.device.read_begin(1, whole(held));
    answer.expect("a read that began");
    rig.device.read_release(read).expect("a release");
    rig.device.buffer_destroy(held).expect("a destroy");
    assert!(used(rig.device.memory_stats()) >= before + 3 * 4096, "the write and the read are held back");
    rig.backend().inject(Call::Submit, 1, gone(), false);
    rig.device.buffer_fill(0, Slice { buffer: kept, offset: 0, size: WHOLE }, 1, 1).expect("a fill");
    failed(rig.device.stream_flush(0));
    assert_eq!(used(rig.device.memory_stats()), before);
    // Nobody asks for the caller's semaphore any more.
    rig.backend().destroy_semaphore(7);
    assert_eq!(failed(rig.device.stream_wait(1, FOREVER)).0, Code::DeviceLost);
    rig.device.buffer_destroy(kept).expect("a destroy");
    assert_eq!((rig.failures(), used(rig.device.memory_stats())), (0, 0));
    rig.assert_ordered();
}

#[test]
fn what_failed_and_may_run_all_the_same_keeps_what_it_uses() {
    for (code, pace) in
        [Code::Driver, Code::DeviceLost].into_iter().flat_map(|code| [(code, Pace::Lazy), (code, Pace::Random)])
    {
        for seed in 0..40 {
            let mut rig = Rig::new(Options::new(seed, 1).pace(pace), settings());
            let kernel = rig.kernel(&nine());
            let (first, other) = (rig.filled(64, 1), rig.filled(64, 2));
            rig.device.wait(FOREVER).expect("a wait");
            rig.launch(kernel, &[whole(first)]).expect("a launch");
            rig.launch(kernel, &[whole(other)]).expect("a launch");
            rig.backend().inject_executed(1, fault(code, "or not"));
            assert_eq!(failed(rig.device.stream_flush(0)).0, code);
            rig.read(whole(other)).expect_err("it failed");
            rig.device.buffer_destroy(first).expect("a destroy");
            let _ = rig.device.trim();
            if code == Code::Driver {
                rig.device.status().expect("it is not lost");
                rig.write(whole(other), &[5; 64]).expect("a write");
                assert_eq!(rig.read(whole(other)).expect("a read"), [5; 64], "what was rewritten stays");
                assert_eq!(rig.settled_failures(), 0);
                rig.device.trim().expect("a trim");
            }
            rig.device.close(LONG).expect("a close");
            rig.assert_ordered();
            assert_eq!((rig.backend().live_pages(), rig.backend().open_recordings()), (0, 0));
        }
    }
}

#[test]
fn a_device_whose_waits_and_counters_fail_is_destroyed_when_it_is_idle() {
    for calls in [&[Call::Completed][..], &[Call::Wait], &[Call::Completed, Call::Wait]] {
        for code in [Code::Driver, Code::OutOfHostMemory, Code::DeviceLost] {
            let mut rig = rig(Pace::Lazy);
            let kernel = rig.kernel(&nine());
            let (a, b) = (rig.filled(64, 1), rig.buffer(64));
            rig.device.wait(FOREVER).expect("a wait");
            rig.launch(kernel, &[whole(a)]).expect("a launch");
            rig.device.stream_flush(0).expect("a flush");
            rig.launch(kernel, &[whole(b)]).expect("a launch");
            calls.iter().for_each(|call| rig.backend().inject(*call, 1, fault(code, "no answer"), true));
            rig.device.close(FOREVER).expect("a close");
            rig.assert_ordered();
            assert_eq!((rig.backend().live_pages(), rig.backend().open_recordings()), (0, 0));
        }
    }
}

#[test]
fn a_device_that_is_never_idle_is_parked_and_not_freed() {
    // Lost, and still working; and one that answers nothing at all.
    for is_lost in [true, false] {
        let mut rig = rig(Pace::Lazy);
        let kernel = rig.kernel(&nine());
        let a = rig.filled(64, 1);
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().hold(true);
        rig.launch(kernel, &[whole(a)]).expect("a launch");
        rig.device.stream_flush(0).expect("a flush");
        assert_eq!(rig.device.close(SHORT), Err(Error::Timeout), "it works, and says so");
        if is_lost {
            rig.backend().inject(Call::Wait, 1, gone(), false);
            failed(rig.device.stream_wait(0, FOREVER));
        } else {
            for call in [Call::Completed, Call::Wait, Call::WaitIdle] {
                rig.backend().inject(call, 1, fault(Code::OutOfHostMemory, "no answer"), true);
            }
        }
        let parked = parked_devices();
        rig.device.close(SHORT).expect("a close");
        assert!(parked_devices() > parked);
        assert!(rig.backend().live_pages() > 0 && rig.backend().open_recordings() > 0, "nothing of it is freed");
        rig.assert_ordered();
    }
}

#[test]
fn a_device_that_nobody_closed_is_not_freed_under_its_work() {
    let rig = rig(Pace::Lazy);
    let kernel = rig.kernel(&nine());
    let a = rig.filled(64, 1);
    rig.device.wait(FOREVER).expect("a wait");
    rig.backend().hold(true);
    rig.launch(kernel, &[whole(a)]).expect("a launch");
    rig.device.stream_flush(0).expect("a flush");
    let parked = parked_devices();
    drop(rig);
    assert!(parked_devices() > parked);
}
