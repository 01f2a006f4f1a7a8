//! Questions about bytes, and what the caller itself knows of them.

use super::waits::Deadline;
use super::{Claim, Core, Device, ErrorDesc, Handle, NotHeld, Slice};
use crate::code::Code;
use crate::error::{Error, Fault, Result, Roots};
use crate::failure::{
    Access, Blocks, Bytes, Context, FailureStore, MAX_NAME, Point, Report, Reporting, Taking, Use, cut,
};
use crate::room::{Room, collect};
use crate::stream::Backend;
use smallvec::SmallVec;

/// A claimed range with its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceClaim {
    /// The buffer.
    pub buffer: Handle,
    /// The range.
    pub claim: Claim,
}

impl<B: Backend> Device<B> {
    /// Waits until everything that writes the bytes is over, then says whether they can be trusted.
    pub fn check_written(&self, slices: &[Slice], timeout_ns: u64) -> Result {
        let deadline = Deadline::after(timeout_ns);
        let points = self.with(|core| {
            let asked = core.resolve_all(slices)?;
            Ok::<_, Error>(core.writers(&asked))
        })?;
        let mut slots: SmallVec<[u32; 8]> = points.iter().map(|point| point.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        // What a refusal did to the bytes is the answer below.
        slots.into_iter().for_each(|slot| drop(self.flush_slot(slot)));
        for point in points {
            match self.wait_for(point, deadline) {
                // A loss claimed the bytes: the answer below says so.
                Err(Error::Failed(fault, _)) if fault.code == Code::DeviceLost => break,
                answer => answer?,
            }
        }
        self.with(|core| {
            // Another thread may have destroyed one meanwhile.
            let asked = core.resolve_all(slices)?;
            asked.iter().for_each(|bytes| core.reconcile(bytes.block));
            core.ensure_written(&asked).map_err(Error::Unwritten)
        })
    }

    /// The oldest root that claims any of the bytes, as far as is known without waiting; 0: clean so far.
    pub fn first_failure(&self, slices: &[Slice]) -> Result<u64> {
        self.with(|core| {
            let asked = core.resolve_all(slices)?;
            Ok(core.read_failure(&asked).unwrap_or(0))
        })
    }

    /// A failure of the caller's takes the bytes over. Its id.
    pub fn taint(&self, slices: &[Slice], error: &ErrorDesc<'_>) -> Result<u64> {
        self.with(|core| {
            let bytes = core.resolve_writable(slices)?;
            if bytes.is_empty() {
                return Ok(0);
            }
            let context = core.caller_context("tg_taint", error);
            Ok(core.taint(Fault::new(Code::Caller, error.message), context, &bytes))
        })
    }

    /// The caller knows that the bytes are written.
    pub fn mark_written(&self, slices: &[Slice]) -> Result {
        self.with(|core| {
            let bytes = core.resolve_writable(slices)?;
            core.written(&bytes);
            Ok(())
        })
    }

    /// The caller could not allocate what a token, or a buffer created unallocated, stands for (R7). The root's id.
    pub fn fail_unallocated(&self, buffer: Handle, error: &ErrorDesc<'_>) -> Result<u64> {
        self.with(|core| {
            let entry = core.memory.buffers.resolve(buffer, "buffer")?;
            let (block, token) = (entry.block, entry.purpose.is_none());
            let claims = &core.memory.blocks[block].claims;
            if claims.is_held() || (claims.is_allocated() && !token) {
                let why = format_args!("the buffer is allocated, or an open scope holds bytes of it");
                return Err(Error::misuse(Code::WrongState, "buffer", why));
            }
            let context = core.caller_context("tg_fail_unallocated", error);
            Ok(core.fail_unallocated(block, Fault::new(Code::Caller, error.message), context))
        })
    }

    /// The claimed sub-ranges of a slice; as many as fit, and how many there are.
    pub fn claims(&self, slice: Slice, out: &mut [Claim]) -> Result<usize> {
        self.with(|core| {
            let bytes = core.resolve(slice, "slice.buffer", "slice.size")?;
            let mut count = 0;
            core.each_claim(bytes, |claim| {
                if let Some(entry) = out.get_mut(count) {
                    *entry = claim;
                }
                count += 1;
            });
            Ok(count)
        })
    }

    /// Every claimed range of the device's buffers; as many as fit, and how many there are.
    pub fn device_claims(&self, out: &mut [DeviceClaim]) -> Result<usize> {
        self.with(|core| {
            let buffers = core.memory.buffers.iter();
            let mut all: Vec<(Handle, Bytes)> = Vec::new();
            all.make_room(core.memory.buffers.len())?;
            all.extend(
                buffers.map(|(handle, buffer)| (handle, Bytes { block: buffer.block, start: 0, end: buffer.size })),
            );
            let mut count = 0;
            for (buffer, bytes) in all {
                core.reconcile(bytes.block);
                core.each_claim(bytes, |claim| {
                    if let Some(entry) = out.get_mut(count) {
                        *entry = DeviceClaim { buffer, claim };
                    }
                    count += 1;
                });
            }
            Ok(count)
        })
    }

    /// How many roots live.
    pub fn failure_count(&self) -> u64 {
        self.with(|core| {
            let _ = core.refresh(&self.backend);
            core.failures.count() as u64
        })
    }

    /// A report on bytes.
    pub fn report_slices(&self, slices: &[Slice]) -> Result<Report> {
        let taking = self.with(|core| {
            let asked = core.resolve_all(slices)?;
            core.reconcile_everything();
            Ok::<_, Error>(core.begin_report_on(&asked))
        })?;
        Ok(self.take_report(taking))
    }

    /// A report on everything.
    pub fn report_device(&self) -> Report {
        let taking = {
            let mut core = self.lock();
            core.reconcile_everything();
            core.begin_report_on_all()
        };
        self.take_report(taking)
    }

    /// A report on the roots of an answer, as far as they still live.
    pub fn report_roots(&self, roots: &Roots) -> Report {
        let taking = {
            let mut core = self.lock();
            core.reconcile_everything();
            core.begin_report(roots)
        };
        self.take_report(taking)
    }

    /// Takes a report in pieces, so that no call waits for all of it, and puts it together without the lock.
    fn take_report(&self, mut taking: Taking) -> Report {
        loop {
            let core = self.lock();
            let goes_on = core.take(&mut taking);
            core.unlock_fair();
            if !goes_on {
                return taking.finish();
            }
        }
    }
}

impl<B: Backend> Core<B> {
    /// A report tells all that its roots claim: after a loss, that of every block, touched since or not (R14).
    fn reconcile_everything(&mut self) {
        if self.failures.has_unreconciled() {
            let blocks: Vec<_> = self.memory.blocks.keys().collect();
            blocks.into_iter().for_each(|block| self.reconcile(block));
        }
    }

    /// Bytes the caller wants to say something about: nothing holds them, and empty slices are nothing.
    fn resolve_writable(&mut self, slices: &[Slice]) -> Result<SmallVec<[Bytes; 8]>> {
        let mut bytes = self.resolve_all(slices)?;
        bytes.retain(|bytes| bytes.start < bytes.end);
        let write = |bytes: &Bytes| Ok::<_, Error>(Use { bytes: *bytes, access: Access::Write });
        let uses: SmallVec<[Use; 8]> = collect(bytes.iter().map(write))?;
        // What is said of the bytes goes into the ledger, by a root of its own.
        self.failures.make_room(bytes.len())?;
        self.not_held(&uses, "slices")?;
        Ok(bytes)
    }

    fn caller_context(&self, operation: &'static str, error: &ErrorDesc<'_>) -> Context {
        Context {
            operation,
            kernel: self.names.none.clone(),
            stream: None,
            label: cut(error.label, MAX_NAME).into(),
            tag: error.code as u64,
        }
    }

    /// The batches that have to be over before the bytes are what they are going to be.
    fn writers(&self, asked: &[Bytes]) -> SmallVec<[Point; 8]> {
        let mut points: SmallVec<[Point; 8]> = SmallVec::new();
        for bytes in asked {
            if let Some(block) = self.memory.blocks.get(bytes.block) {
                crate::memory::hazard::conflicts(&block.hazards, bytes.start, bytes.end, false, |mark| {
                    if !self.streams.is_complete(mark.point) && !points.contains(&mark.point) {
                        points.push(mark.point);
                    }
                });
            }
        }
        points
    }

    fn each_claim(&self, bytes: Bytes, mut see: impl FnMut(Claim)) {
        if let Some(claims) = self.memory.claims(bytes.block) {
            claims.visit(bytes.start, bytes.end, |start, end, set| {
                let (failure, (failures, more)) = (self.failures.id(set), self.failures.size(set));
                see(Claim { offset: start, size: end - start, failure, failures, more });
            });
        }
    }
}
