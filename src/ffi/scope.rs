//! Write scopes that the caller opens around work of its own.

use super::boundary::{making, on_device};
use super::failures::{declared, tg_error_desc};
use super::results::tg_result;
use super::slices::{UseFields, Uses, read_uses, tg_device, tg_scope, tg_use};
use super::strings::{self, LABEL, tg_str};
use super::structs::{self, versioned};
use crate::device::ScopeDesc;

/// Work of the caller's: what it reads and writes.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_scope_desc {
    /// sizeof(tg_scope_desc).
    pub struct_size: usize,
    /// The stream the work belongs to.
    pub stream: u64,
    /// The bytes it reads and writes, tokens among them. TG_ACCESS_AUTO is not accepted. May be NULL when there are
    /// none.
    pub uses: *const tg_use,
    /// Elements of `uses`.
    pub use_count: usize,
    /// Its name in reports; cut at 128 bytes.
    pub label: tg_str,
    /// A number of the caller's for it, told in reports.
    pub tag: u64,
}

versioned!(tg_scope_desc to use_count);

const USES: UseFields =
    UseFields { array: "desc.uses", access: "desc.uses.access", reserved: "desc.uses.reserved", auto: false };

/// Opens a write scope, or skips the work.
///
/// Between this and tg_scope_end or tg_scope_fail the caller does its work. What it is to write counts as torn down
/// until the scope ends well: a scope that is never ended leaves it so. While it is open its bytes are held: other
/// work on them is TG_ERROR_WRONG_STATE. On a lost device a scope opens too, for tokens; see tg_scope_end.
///
/// \param dev The device.
/// \param desc The work; must not be NULL.
/// \param out The scope; the null handle unless TG_OK is returned. Must not be NULL.
/// \returns TG_OK: do the work; TG_SKIPPED: some byte it reads is claimed, do not do it; TG_NOT_READY as
///          tg_device_desc::max_pending says, and nothing changed; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its
///          buffer; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
///          TG_ERROR_WRONG_STATE while another open scope or mapping holds some of the bytes;
///          TG_ERROR_OUT_OF_HOST_MEMORY; TG_ERROR_LIMIT_EXCEEDED beyond 1048576 open scopes; TG_ERROR_DRIVER when waiting
///          for room fails.
/// \threadsafety Any thread. The scope may be ended on another.
/// \claims What it is to write, by a provisional root of code TG_ERROR_TORN_DOWN. A skip hands the roots found to
///         everything it was to write. TG_ERROR_LIMIT_EXCEEDED and TG_ERROR_DRIVER claim it by a root of their code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_scope_begin(dev: tg_device, desc: *const tg_scope_desc, out: *mut tg_scope) -> tg_result {
    // SAFETY: the header asks for NULL or a writable handle; for NULL or a struct that begins with its size; and for
    // arrays and strings that are what they say.
    unsafe {
        making("tg_scope_begin", dev, out, tg_scope::NULL, |device, made| {
            let desc = structs::read(desc, "desc")?;
            let mut uses = Uses::new();
            read_uses(&mut uses, desc.uses, desc.use_count, &USES)?;
            let label = strings::read::<LABEL>(desc.label, "desc.label")?;
            let scope = device.scope_begin(&ScopeDesc {
                stream: desc.stream,
                uses: &uses,
                label: label.as_str(),
                tag: desc.tag,
            })?;
            *made = scope.into();
            Ok(())
        })
    }
}

/// Ends a scope: its work succeeded.
///
/// \param dev The device.
/// \param scope The scope; the null handle is fine and does nothing.
/// \returns TG_OK; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Releases exactly the slices with TG_ACCESS_WRITE, and the provisional claims of the others; what was claimed of
///         a slice with TG_ACCESS_MAY_WRITE is claimed again, by the same roots. Where the work
///         turns out to have read bad bytes, what it wrote takes over their roots. While the device is lost, of what it
///         wrote only tokens are released: the device's memory is claimed by the root of the loss.
#[unsafe(no_mangle)]
pub extern "C" fn tg_scope_end(dev: tg_device, scope: tg_scope) -> tg_result {
    on_device("tg_scope_end", dev, |device| device.scope_end(scope.into()))
}

/// Ends a scope: its work failed.
///
/// \param dev The device.
/// \param scope The scope; the null handle is fine and does nothing.
/// \param error What failed; NULL: torn down.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND,
///          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Everything it was to write, by one root: of code TG_ERROR_CALLER, or TG_ERROR_TORN_DOWN when error is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_scope_fail(dev: tg_device, scope: tg_scope, error: *const tg_error_desc) -> tg_result {
    on_device("tg_scope_fail", dev, |device| {
        let error = match error.is_null() {
            true => None,
            // SAFETY: the header asks for NULL or a struct that begins with its size.
            false => Some(unsafe { declared(error) }?),
        };
        device.scope_fail(scope.into(), error.as_ref().map(|error| error.desc()).as_ref())
    })
}
