//! Flushing and waiting. A wait never holds the lock and never outlives its timeout.

use super::{Core, Device, FOREVER, Guard};
use crate::code::Code;
use crate::error::{Error, Fault, Result};
use crate::failure::{FailureStore, Point};
use crate::stream::{Backend, Progress};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest single wait of the driver's: a loss that it does not signal is noticed in between.
const STEP: Duration = Duration::from_millis(100);
/// How often work that is held back is looked at: no call tells that the caller released it.
const HELD_STEP: Duration = Duration::from_millis(1);

/// How often the processor is left to others before a wait puts its thread to sleep. Something short on a driver that
/// works on the same processor is over then, and to set a timer, sleep and be woken would have taken longer.
const GLANCES: u32 = 2;

/// When a wait is over.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    pub(super) fn after(timeout_ns: u64) -> Deadline {
        Deadline(match timeout_ns {
            FOREVER => None,
            ns => Instant::now().checked_add(Duration::from_nanos(ns)),
        })
    }

    fn left(self) -> Duration {
        // Threads that still wait would come back to a driver that has run its exit handlers.
        if crate::process::is_ending() {
            return Duration::ZERO;
        }
        self.0.map_or(STEP, |end| end.saturating_duration_since(Instant::now()))
    }

    /// How long to wait before looking again.
    pub(super) fn step(self) -> Duration {
        self.left().min(STEP)
    }

    pub(super) fn is_over(self) -> bool {
        self.left().is_zero()
    }
}

impl<B: Backend> Device<B> {
    /// Submits what the stream recorded. Fails if the device refused it; the bytes are claimed then.
    pub fn stream_flush(&self, stream: u64) -> Result {
        let (core, slot) = self.usable_slot(stream)?;
        self.flush_locked(core, slot)
    }

    /// Waits for everything enqueued on the stream.
    pub fn stream_wait(&self, stream: u64, timeout_ns: u64) -> Result {
        let deadline = Deadline::after(timeout_ns);
        let (core, slot) = self.usable_slot(stream)?;
        let refused = self.flush_locked(core, slot);
        let (last, has_reads) = {
            let core = self.lock();
            (core.streams.last(slot), !core.reads.is_empty())
        };
        if let Some(point) = last {
            self.wait_for(point, deadline)?;
        }
        if has_reads {
            self.fetch_reads();
        }
        refused
    }

    /// Waits for everything enqueued on any stream.
    pub fn wait(&self, timeout_ns: u64) -> Result {
        self.wait_for_everything(Deadline::after(timeout_ns))
    }

    fn wait_for_everything(&self, deadline: Deadline) -> Result {
        self.usable()?;
        let slots = self.lock().streams.slots();
        let mut refused = Ok(());
        for slot in &slots {
            refused = refused.and(self.flush_slot(*slot));
        }
        for slot in slots {
            let last = self.lock().streams.last(slot);
            if let Some(point) = last {
                self.wait_for(point, deadline)?;
            }
        }
        self.fetch_reads();
        refused
    }

    /// The device can be used, or why not.
    pub fn status(&self) -> Result {
        self.usable()
    }

    pub(super) fn usable(&self) -> Result {
        self.lock().usable()
    }

    /// The slot of a stream of a device that can be used, and the lock under which it could.
    fn usable_slot(&self, stream: u64) -> Result<(Guard<'_, B>, u32)> {
        let core = self.lock();
        core.usable()?;
        let slot = core.streams.slot_of(stream);
        Ok((core, slot))
    }

    /// Waits until a point is over, in steps. What is held back is submitted as soon as it may be.
    pub(super) fn wait_for(&self, point: Point, deadline: Deadline) -> Result {
        // Work that runs is waited for first: what the device says of it now tells nothing that the wait does not.
        let mut progress = self.lock().streams.progress(point);
        if progress == Progress::Waiting {
            progress = self.look(point)?;
        }
        loop {
            let (step, over) = (deadline.step(), deadline.is_over());
            let reached = match progress {
                Progress::Over => false,
                Progress::Running(target) => self.wait_once(target, step)?,
                Progress::Waiting => self.submit_held(point),
            };
            progress = self.look(point)?;
            match progress {
                Progress::Over => return Ok(()),
                _ if !reached && over => return Err(Error::Timeout),
                // No call tells when work that is held back may go on.
                Progress::Waiting if !reached => std::thread::sleep(step.min(HELD_STEP)),
                _ => {}
            }
        }
    }

    /// Takes back what is over, and says how far the point is.
    fn look(&self, point: Point) -> Result<Progress> {
        let mut core = self.lock();
        let answer = core.refresh(&self.backend);
        let progress = core.streams.progress(point);
        // Nothing in flight will be heard of again, whichever call learnt of the loss.
        let is_lost = progress != Progress::Over && core.failures.is_lost();
        let loss = if is_lost { core.failures.loss_fault() } else { None };
        if progress == Progress::Waiting {
            core.close_slot(&self.backend, point.slot);
        }
        self.unlock_and_log(core);
        if let Err(fault) = answer {
            return Err(self.named(fault));
        }
        match loss {
            Some((fault, roots)) => Err(Error::Failed(Box::new(fault), roots)),
            None => Ok(progress),
        }
    }

    /// Submits what is no longer held back. Whether the point got any further by it.
    fn submit_held(&self, point: Point) -> bool {
        let queue = self.lock().streams.queue_of(point.slot);
        self.submit_pending(queue);
        self.submit_freed();
        self.lock().streams.progress(point) != Progress::Waiting
    }

    fn wait_once(&self, point: Point, time: Duration) -> Result<bool> {
        let glances = if time.is_zero() { 0 } else { GLANCES };
        for _ in 0..glances {
            if self.backend.completed(point.slot).is_ok_and(|complete| complete >= point.batch) {
                return Ok(true);
            }
            std::thread::yield_now();
        }
        match self.backend.wait(point, time.as_nanos() as u64) {
            Ok(reached) => Ok(reached),
            Err(fault) => Err(self.named(fault)),
        }
    }

    /// A fault with the loss's root, if it is a loss.
    fn named(&self, fault: Fault) -> Error {
        if fault.code != Code::DeviceLost {
            return fault.into();
        }
        let core = self.lock();
        let roots = core.failures.loss_fault().map(|(_, roots)| roots);
        self.unlock_and_log(core);
        Error::Failed(Box::new(fault), roots.unwrap_or_default())
    }

    /// An answer of the device's that said it is lost names the loss's root.
    pub(super) fn naming_loss<T>(&self, answer: Result<T>) -> Result<T> {
        match answer {
            Err(Error::Failed(fault, roots)) if roots.ids.is_empty() => Err(self.named(*fault)),
            answer => answer,
        }
    }

    /// Waits until any batch in flight is over: there is room for more work then. `NotReady` if only the caller can let
    /// any of it go on.
    pub(super) fn wait_for_some(&self, deadline: Deadline) -> Result {
        let (mut running, mut held, mut on_its_way) = (None, false, false);
        {
            let core = self.lock();
            for point in core.streams.slots().iter().filter_map(|slot| core.streams.last(*slot)) {
                match core.streams.progress(point) {
                    Progress::Running(point) => running = running.or(Some(point)),
                    Progress::Waiting if core.streams.is_held_back(point.slot) => held = true,
                    // Other threads enqueued it meanwhile, or are submitting it now.
                    Progress::Waiting => on_its_way = true,
                    Progress::Over => {}
                }
            }
        }
        match running {
            Some(point) => {
                let left = deadline.left();
                if !self.wait_once(point, left.min(STEP))? && left.is_zero() {
                    return Err(Error::Timeout);
                }
                Ok(())
            }
            None if held && !on_its_way => Err(Error::NotReady),
            None => Ok(()),
        }
    }

    /// Waits until nothing runs any more. What waits and counters do not tell, because they fail or the device is lost,
    /// it tells by being idle. Nobody else is in a call.
    fn settle(&self, deadline: Deadline) -> Result<Settled> {
        let most = Instant::now().checked_add(NO_ANSWER);
        loop {
            let waited = self.wait_for_everything(deadline);
            let (idle, lost) = self.with(|core| {
                let _ = core.refresh(&self.backend);
                (core.streams.is_idle(), core.failures.is_lost())
            });
            if idle && !lost {
                return Ok(Settled::Idle);
            }
            let mut told = true;
            // On a lost device a wait may end before the work does.
            if lost || !matches!(waited, Err(Error::Timeout)) {
                match self.backend.wait_idle(deadline.step().as_nanos() as u64) {
                    Ok(true) if lost => return Ok(Settled::Idle),
                    Ok(true) => {
                        // What is held back is not on the device.
                        if self.with(|core| {
                            core.streams.all_over(&self.backend);
                            core.streams.is_idle()
                        }) {
                            return Ok(Settled::Idle);
                        }
                    }
                    Ok(false) => {}
                    Err(_) => told = false,
                }
            }
            let is_hung = lost || !told;
            if is_hung && (deadline.is_over() || most.is_some_and(|most| Instant::now() >= most)) {
                return Ok(Settled::Hung);
            }
            if deadline.is_over() {
                return Err(Error::Timeout);
            }
            std::thread::sleep(deadline.step().min(HELD_STEP));
        }
    }

    /// Waits until nothing that was submitted runs any more, as long as some of it completes within the time: for a
    /// process that ends. Submits nothing, and frees nothing.
    pub fn wind_down(&self, patience: Duration) {
        let mut moved = Instant::now();
        let mut so_far = 0;
        loop {
            // A thread that the end of the process interrupted may have the lock.
            let Some(mut core) = self.core.try_lock_for(patience) else { return };
            if core.failures.is_lost() || core.streams.refresh(&self.backend).is_err() || !core.is_running() {
                return;
            }
            let complete = core.streams.slots().iter().filter_map(|slot| self.backend.completed(*slot).ok()).sum();
            drop(core);
            if complete > so_far {
                (so_far, moved) = (complete, Instant::now());
            } else if moved.elapsed() > patience {
                return;
            }
            std::thread::sleep(HELD_STEP);
        }
    }

    /// Waits for the work in flight, then frees everything; with `Timeout`, nothing changed. Nobody else is in a call: what
    /// one of them enqueued after the wait would lose its memory while it runs. Of a device that may still be working, and
    /// of which nothing tells when it is done, nothing is freed: it is parked.
    pub fn close(&mut self, timeout_ns: u64) -> Result {
        let is_hung = self.settle(Deadline::after(timeout_ns))? == Settled::Hung;
        let mut core = self.lock();
        let alive: Vec<String> = core
            .memory
            .buffers
            .iter()
            .map(|(handle, _)| format!("buffer \"{}\"", core.memory.label(handle)))
            .chain(core.kernels.iter().map(|(_, kernel)| format!("kernel \"{}\"", kernel.name.label)))
            .chain(core.scopes.iter().map(|_| "an open scope".to_owned()))
            .chain(core.reads.iter().map(|_| "a read".to_owned()))
            .chain(core.events.iter().map(|_| "an event".to_owned()))
            .chain(core.mapped())
            .collect();
        if !is_hung {
            core.destroy_all(&self.backend);
        }
        self.unlock_and_log(core);
        if !alive.is_empty() {
            self.warn(format_args!("alive when the device was destroyed: {}", alive.join(", ")));
        }
        if is_hung {
            self.park();
        }
        Ok(())
    }

    /// Keeps for ever what the device may still be working on.
    fn park(&mut self) {
        if std::mem::replace(&mut self.is_parked, true) {
            return;
        }
        std::mem::forget((Arc::clone(&self.core), Arc::clone(&self.backend)));
        let count = PARKED.fetch_add(1, Ordering::Relaxed) + 1;
        self.warn(format_args!(
            "the device does not say that its work is over: nothing of it is freed ({count} parked in this process)"
        ));
    }

    fn warn(&self, what: std::fmt::Arguments<'_>) {
        let tell = || tracing::warn!(target: "tidegate", code = 0, failure = 0u64, "{what}");
        crate::log::tell(self.dispatch.as_ref(), tell);
    }
}

/// How waiting for everything ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// Nothing runs any more.
    Idle,
    /// Something may, and nothing tells.
    Hung,
}

/// How long a device that does not answer, or is lost, is asked whether it is idle, when nobody says how long to wait.
const NO_ANSWER: Duration = Duration::from_secs(10);

static PARKED: AtomicU64 = AtomicU64::new(0);

/// Devices that were never idle when they were destroyed: what they work on stays until the process ends.
pub fn parked_devices() -> u64 {
    PARKED.load(Ordering::Relaxed)
}

impl<B: Backend> Core<B> {
    /// Whether the device works on something.
    fn is_running(&self) -> bool {
        let runs = |last: Point| {
            // What is not submitted lies behind what is.
            let mut progress = (1..=last.batch).rev().map(|batch| self.streams.progress(Point { batch, ..last }));
            matches!(progress.find(|progress| *progress != Progress::Waiting), Some(Progress::Running(_)))
        };
        self.streams.slots().into_iter().filter_map(|slot| self.streams.last(slot)).any(runs)
    }

    pub(super) fn usable(&self) -> Result {
        if !self.failures.is_lost() {
            return Ok(());
        }
        match self.failures.loss_fault() {
            Some((fault, roots)) => Err(Error::Failed(Box::new(fault), roots)),
            None => Ok(()),
        }
    }

    pub(super) fn destroy_all(&mut self, backend: &B) {
        self.streams.abandon(backend);
        let scopes: Vec<_> = self.scopes.iter().map(|(handle, scope)| (handle, *scope)).collect();
        for (handle, scope) in scopes {
            self.scopes.remove(handle);
            self.exit_write(scope, Some(Fault::new(Code::TornDown, "the device was destroyed")));
        }
        self.tear_mappings();
        let _ = self.refresh(backend);
        self.forget_reads();
        self.forget_events();
        let buffers: Vec<_> = self.memory.buffers.iter().map(|(handle, buffer)| (handle, buffer.block)).collect();
        for (handle, block) in buffers {
            self.memory.buffers.remove(handle);
            self.forget(block);
        }
        let kernels: Vec<_> = self.kernels.iter().map(|(handle, _)| handle).collect();
        for handle in kernels {
            if let Some(kernel) = self.kernels.remove(handle) {
                self.retire_kernel(kernel);
            }
        }
        let left: Vec<_> = self.memory.blocks.keys().collect();
        left.into_iter().for_each(|block| self.forget(block));
        self.retired.clear();
        self.failures.forget_loss();
        self.memory.pages.trim(backend, |_| true);
    }
}

impl<B: Backend> Drop for Device<B> {
    fn drop(&mut self) {
        // A device that was not closed in time is freed here, unless something may be running on it.
        if self.is_parked {
            return;
        }
        match self.settle(Deadline(Instant::now().checked_add(STEP))) {
            Ok(Settled::Idle) => self.core.lock().destroy_all(&self.backend),
            Ok(Settled::Hung) | Err(_) => self.park(),
        }
    }
}
