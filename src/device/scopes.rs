//! Write scopes around work of the caller's own (R19).

use super::waits::Deadline;
use super::{Core, Device, ErrorDesc, FOREVER, Handle, NotHeld, ScopeDesc, Turn};
use crate::code::Code;
use crate::error::{Error, Fault, Result, Roots};
use crate::failure::{FailureStore, MAX_NAME, ScopeKey, Use, Work, cut};
use crate::stream::Backend;
use arrayvec::ArrayVec;
use std::sync::Arc;

impl<B: Backend> Device<B> {
    /// Enters a scope, or skips: then there is no scope, and the write set took over the roots. `NotReady` as any work
    /// for which there is no room (R15), and nothing changed.
    pub fn scope_begin(&self, desc: &ScopeDesc<'_>) -> Result<Handle> {
        self.enqueue(Deadline::after(FOREVER), |core, _| core.scope_begin(desc)).map(|(scope, _)| scope)
    }

    /// The work of a scope succeeded. The null handle is fine: its work was skipped.
    pub fn scope_end(&self, scope: Handle) -> Result {
        self.leave(scope, None)
    }

    /// The work of a scope failed; without an error of the caller's it was torn down.
    pub fn scope_fail(&self, scope: Handle, error: Option<&ErrorDesc<'_>>) -> Result {
        let fault = match error {
            Some(error) => Fault::new(Code::Caller, error.message),
            None => Fault::new(Code::TornDown, "the scope was given up"),
        };
        self.leave(scope, Some((fault, error)))
    }

    fn leave(&self, scope: Handle, failed: Option<(Fault, Option<&ErrorDesc<'_>>)>) -> Result {
        if scope.is_null() {
            return Ok(());
        }
        self.with(|core| {
            core.scopes.check(scope, "scope")?;
            if let Some(key) = core.scopes.remove(scope) {
                let fault = failed.map(|(fault, error)| {
                    if let Some(error) = error {
                        core.failures.rename_scope(key, error.label, error.code as u64);
                    }
                    fault
                });
                core.exit_write(key, fault);
            }
            Ok(())
        })
    }
}

impl<B: Backend> Core<B> {
    fn scope_begin(&mut self, desc: &ScopeDesc<'_>) -> Result<Turn<Handle>> {
        let mut uses = Vec::new();
        uses.try_reserve_exact(desc.uses.len())
            .map_err(|_| Fault::new(Code::OutOfHostMemory, "no host memory for the uses of a scope"))?;
        for (i, item) in desc.uses.iter().enumerate() {
            let bytes = self
                .resolve(item.slice, "desc.uses.slice.buffer", "desc.uses.slice.size")
                .map_err(|error| error.element("use", i))?;
            let Some(access) = item.access else {
                let why = format_args!("use {i}: a scope has no module that says what is done with the bytes");
                return Err(Error::misuse(Code::InvalidArgument, "desc.uses.access", why));
            };
            if bytes.start < bytes.end {
                uses.push(Use { bytes, access });
            }
        }
        self.not_held(&uses, "desc.uses")?;
        let name: Arc<str> =
            if desc.label.is_empty() { self.names.scope.clone() } else { cut(desc.label, MAX_NAME).into() };
        let work = Work {
            operation: "tg_scope_begin",
            name: &name,
            is_kernel: false,
            label: desc.label,
            stream: Some(desc.stream),
            tag: desc.tag,
            broken: None,
        };
        self.enter_or_skip(&work, &uses).map_err(Error::Skipped)?;
        if !uses.is_empty() && self.lacks_room() {
            return Ok(Turn::Room);
        }
        let room = self.has_room();
        let blocks = uses.iter().filter(|u| u.access.writes()).filter_map(|u| self.memory.blocks.get(u.bytes.block));
        let written: ArrayVec<u64, 8> = blocks.map(|block| block.claims.name.serial).take(8).collect();
        let scope = self.enter_write(&work, uses).map_err(Error::Skipped)?;
        // A lost device has no unfinished work, and tokens are still written.
        if let Err(fault) = room
            && !self.failures.is_lost()
        {
            return Err(self.refuse_scope(scope, written, fault));
        }
        match self.scopes.insert(scope) {
            Ok(handle) => Ok(Turn::Done(handle)),
            Err(scope) => {
                let fault = self.scopes.refusal("open scopes");
                Err(self.refuse_scope(scope, written, fault))
            }
        }
    }

    /// The scope cannot be had, and what it was to write is claimed for that.
    fn refuse_scope(&mut self, scope: ScopeKey, written: ArrayVec<u64, 8>, fault: Fault) -> Error {
        let id = self.exit_write(scope, Some(fault.clone()));
        let mut roots = Roots::default();
        roots.ids.push(id);
        roots.asked = written;
        Error::Failed(Box::new(fault), roots)
    }
}
