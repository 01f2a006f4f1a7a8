//! A backend whose panics are faults.
//!
//! Every call to a device's backend goes through here, so that a panic in one is an answer like any other: the driver
//! above it always hears what became of its work, and nothing is left between "recorded" and "answered". What a panic
//! left half recorded is good for nothing, and never used again.

use super::backend::{Backend, Binding, External, KernelInfo, KernelSource, Launch, Limits, Rejected};
use crate::code::Code;
use crate::error::Fault;
use crate::failure::{Point, panic_message};
use crate::memory::{MemoryKind, PageSource};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs something that may panic; a panic is a fault.
#[inline]
pub(crate) fn caught<T>(f: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(f)).map_err(broken)
}

#[cold]
fn broken(panic: Box<dyn std::any::Any + Send>) -> Fault {
    let fault = Fault::new(Code::Internal, panic_message(&*panic));
    // Whatever a panic carried, its destructor could panic again.
    std::mem::forget(panic);
    fault
}

/// The backend of a device.
pub struct Caught<B: Backend> {
    inner: B,
    /// Copied, so that asking cannot fail.
    limits: Limits,
}

impl<B: Backend> Caught<B> {
    /// Takes a backend.
    pub fn new(inner: B) -> Caught<B> {
        let limits = inner.limits().clone();
        Caught { inner, limits }
    }
}

impl<B: Backend> Deref for Caught<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.inner
    }
}

/// A recording, and the panic that broke it off.
pub struct Recording<R> {
    inner: R,
    broken: Option<Box<Fault>>,
}

impl<R> Recording<R> {
    /// Does something to it, unless it is broken.
    #[inline]
    fn with<T>(&mut self, f: impl FnOnce(&mut R) -> T) -> Result<T, Fault> {
        if let Some(fault) = &self.broken {
            return Err((**fault).clone());
        }
        let answer = caught(|| f(&mut self.inner));
        if let Err(fault) = &answer {
            self.broken = Some(Box::new(fault.clone()));
        }
        answer
    }
}

impl<B: Backend> PageSource for Caught<B> {
    type Page = B::Page;

    fn page_create(&self, kind: MemoryKind, size: u64) -> Result<B::Page, Fault> {
        caught(|| self.inner.page_create(kind, size))?
    }

    fn page_destroy(&self, page: B::Page) {
        // Memory that cannot be given back is lost, and nothing else.
        let _ = caught(|| self.inner.page_destroy(page));
    }

    fn page_write(&self, page: &B::Page, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        caught(|| self.inner.page_write(page, offset, bytes))?
    }

    fn page_read(&self, page: &B::Page, offset: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        caught(|| self.inner.page_read(page, offset, bytes))?
    }

    fn page_address(&self, page: &B::Page, offset: u64, size: u64) -> Result<*mut u8, Fault> {
        caught(|| self.inner.page_address(page, offset, size))?
    }

    fn page_invalidate(&self, page: &B::Page, offset: u64, size: u64) -> Result<(), Fault> {
        caught(|| self.inner.page_invalidate(page, offset, size))?
    }

    fn page_flush(&self, page: &B::Page, offset: u64, size: u64) -> Result<(), Fault> {
        caught(|| self.inner.page_flush(page, offset, size))?
    }

    fn page_device_address(&self, page: &B::Page) -> u64 {
        caught(|| self.inner.page_device_address(page)).unwrap_or(0)
    }

    fn budget(&self, kind: MemoryKind) -> Option<u64> {
        caught(|| self.inner.budget(kind)).unwrap_or(None)
    }
}

impl<B: Backend> Backend for Caught<B> {
    type Kernel = B::Kernel;
    type Recording = Recording<B::Recording>;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn loss(&self) -> Option<&Fault> {
        self.inner.loss()
    }

    fn slot_create(&self, slot: u32) -> Result<(), Fault> {
        caught(|| self.inner.slot_create(slot))?
    }

    fn kernel_create(&self, source: &KernelSource<'_>) -> Result<(B::Kernel, KernelInfo), Rejected> {
        caught(|| self.inner.kernel_create(source))?
    }

    fn begin(&self, slot: u32) -> Result<Self::Recording, Fault> {
        let inner = caught(|| self.inner.begin(slot))??;
        Ok(Recording { inner, broken: None })
    }

    fn broken(&self, recording: &Self::Recording) -> Option<Fault> {
        recording.broken.as_ref().map(|fault| (**fault).clone())
    }

    fn barrier(&self, recording: &mut Self::Recording) {
        let _ = recording.with(|inner| self.inner.barrier(inner));
    }

    fn host_barrier(&self, recording: &mut Self::Recording) {
        let _ = recording.with(|inner| self.inner.host_barrier(inner));
    }

    fn launch(&self, recording: &mut Self::Recording, launch: &Launch<'_, Self>) -> Result<(), Fault> {
        let &Launch { kernel, bindings, push, grid, label } = launch;
        recording.with(|inner| self.inner.launch(inner, &Launch { kernel, bindings, push, grid, label }))?
    }

    fn copy(&self, recording: &mut Self::Recording, to: Binding<'_, B::Page>, from: Binding<'_, B::Page>) {
        let _ = recording.with(|inner| self.inner.copy(inner, to, from));
    }

    fn fill(&self, recording: &mut Self::Recording, to: Binding<'_, B::Page>, pattern: u32) {
        let _ = recording.with(|inner| self.inner.fill(inner, to, pattern));
    }

    fn end(&self, recording: &mut Self::Recording) -> Result<(), Fault> {
        recording.with(|inner| self.inner.end(inner))?
    }

    fn recycle(&self, slot: u32, recording: Self::Recording) {
        let Recording { inner, broken } = recording;
        let _ = caught(|| match broken {
            None => self.inner.recycle(slot, inner),
            Some(_) => drop(inner),
        });
    }

    fn submit(
        &self,
        queue: usize,
        recording: &mut Self::Recording,
        waits: &[Point],
        externals: &[External],
        signal: Point,
    ) -> Result<(), Fault> {
        recording.with(|inner| self.inner.submit(queue, inner, waits, externals, signal))?
    }

    fn external_reached(&self, external: External) -> Result<bool, Fault> {
        caught(|| self.inner.external_reached(external))?
    }

    fn completed(&self, slot: u32) -> Result<u64, Fault> {
        caught(|| self.inner.completed(slot))?
    }

    fn wait(&self, point: Point, timeout_ns: u64) -> Result<bool, Fault> {
        caught(|| self.inner.wait(point, timeout_ns))?
    }

    fn wait_idle(&self, timeout_ns: u64) -> Result<bool, Fault> {
        caught(|| self.inner.wait_idle(timeout_ns))?
    }
}
