//! Panics of the library's own, under the device's lock: at each call of a device to its driver, before and after what
//! the driver does. The device is given up then, and nothing it held comes out.

use super::{Core, Device};
use crate::code::Code;
use crate::error::{Error, Fault};
use crate::failure::Point;
use crate::memory::Mark;
use crate::stream::backend::External;
use crate::stream::driver::{Answer, Submission, Unclosed};
use crate::stream::{Backend, Command, Driver, EventStreams, Need, OrderStats, Progress};
use host::scenario::{SCHEDULINGS, Scenario, device, hush};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[path = "../../tests/host/mod.rs"]
mod host;

/// A driver that panics at its n-th call: half way where that is even.
struct Panicky<B: Backend> {
    inner: Box<dyn Driver<B>>,
    left: Arc<AtomicU64>,
}

impl<B: Backend> Panicky<B> {
    fn trip(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            panic!("the driver panics");
        }
    }
}

/// Calls, with what they are given and what they answer.
macro_rules! asked {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {
        $(fn $name(&self $(, $arg: $type)*) $(-> $answer)? {
            self.trip();
            let answer = self.inner.$name($($arg),*);
            self.trip();
            answer
        })*
    };
}

/// The same, for calls that change something.
macro_rules! told {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {
        $(fn $name(&mut self $(, $arg: $type)*) $(-> $answer)? {
            self.trip();
            let answer = self.inner.$name($($arg),*);
            self.trip();
            answer
        })*
    };
}

impl<B: Backend> Driver<B> for Panicky<B> {
    asked! {
        stats() -> OrderStats;
        slot_of(stream: u64) -> u32;
        queue_of(slot: u32) -> usize;
        slots() -> SmallVec<[u32; 16]>;
        need(slot: u32, forgotten: u64, need: &mut Need);
        come_after(slot: u32, mark: Mark, need: &mut Need);
        is_held_back(slot: u32) -> bool;
        hides_held(point: Point) -> bool;
        holds_back() -> bool;
        freed() -> Option<usize>;
        last(slot: u32) -> Option<Point>;
        progress(point: Point) -> Progress;
        is_complete(point: Point) -> bool;
        is_idle() -> bool;
        is_past(point: Point) -> bool;
        may_run(point: Point) -> bool;
        now() -> SmallVec<[Point; 8]>;
    }

    told! {
        after(backend: &B, slot: u32, points: &[Point]) -> Result<(), Fault>;
        after_external(backend: &B, slot: u32, external: External) -> Result<(), Fault>;
        take(backend: &B, slot: u32, need: &Need, for_host: bool, commands: &[Command<'_, B>]) -> Result<Mark, Fault>;
        discarded(backend: &B, slot: u32) -> Option<Point>;
        due() -> Option<u32>;
        close(backend: &B, slot: u32) -> Vec<Unclosed>;
        next(queue: usize) -> Option<Submission<B::Recording>>;
        submitted(backend: &B, submission: Submission<B::Recording>, answer: Answer) -> SmallVec<[Point; 4]>;
        refresh(backend: &B) -> Result<(), Fault>;
        lose(backend: &B);
        all_over(backend: &B);
        abandon(backend: &B);
    }
}

impl<B: Backend> Device<B> {
    /// Its driver panics at the n-th call from now on.
    fn panic_at(&self, n: u64) -> Arc<AtomicU64> {
        let left = Arc::new(AtomicU64::new(n));
        let mut core = self.core.lock();
        let nothing: Box<dyn Driver<B>> = Box::new(EventStreams::new(1, 1, 1));
        let inner = std::mem::replace(&mut core.streams, nothing);
        core.streams = Box::new(Panicky { inner, left: left.clone() });
        left
    }
}

#[test]
fn a_panic_under_the_lock_gives_the_device_up_and_claims_every_byte() {
    hush();
    for scheduling in SCHEDULINGS {
        let mut given_up = 0;
        // Not each of thousands, but neither always the same of each kind.
        for n in (1..).step_by(17) {
            let mut scenario = Scenario::new(device(scheduling)).with_bystander();
            let left = scenario.device.panic_at(n);
            scenario.run();
            // Counted down past zero.
            let fired = left.load(Ordering::Relaxed).wrapping_sub(1) >= n;
            left.store(u64::MAX / 2, Ordering::Relaxed);
            // A read that has its bytes is right, whatever breaks after it.
            assert!(scenario.panics == 0 || scenario.device.core.lock().failures.is_lost(), "{n}");
            match scenario.device.status() {
                Ok(()) => drop(scenario.look()),
                Err(Error::Failed(fault, _)) => {
                    given_up += 1;
                    assert_eq!(fault.code, Code::Internal);
                    scenario.nothing_is_readable();
                }
                other => panic!("{other:?}"),
            }
            scenario.end();
            scenario.device.close(u64::MAX).expect("an end");
            assert_eq!(scenario.device.failure_count(), 0, "{n}");
            let backend = scenario.device.backend();
            assert_eq!(backend.check(), [""; 0], "{n}");
            if !fired {
                break;
            }
        }
        assert!(given_up > 20, "{given_up}");
    }
}

/// If a submission is lost after it was taken, the next one of its slot tells.
#[test]
fn a_submission_that_is_lost_on_its_way_fails_when_the_next_is_accepted() {
    for scheduling in SCHEDULINGS {
        let mut scenario = Scenario::new(device(scheduling));
        let [a, b] = scenario.two_written_buffers();
        scenario.write(0, a, 0, &[1; 64]);
        {
            let mut core = scenario.device.core.lock();
            let Core { streams, .. } = &mut *core;
            assert!(streams.close(scenario.device.backend(), 0).is_empty());
            let lost = streams.next(0).expect("a submission");
            scenario.device.backend().recycle(0, lost.recording);
        }
        scenario.write(0, b, 0, &[2; 64]);
        let _ = scenario.device.wait(u64::MAX);
        scenario.device.wait(u64::MAX).expect("a wait");
        let failures = scenario.look();
        assert_eq!(failures.len(), 1);
        assert_eq!((failures[0].code, failures[0].claimed_bytes), (Code::Internal, 64));
        assert_eq!((scenario.readable, scenario.unreadable), (1, 1));
        scenario.repair_and_end();
    }
}
