//! Handles, slices and uses as C sees them, and their Rust forms.

use super::handles::handles;
use super::structs::{array, misuse, out_of_host_memory, reserved};
use crate::device::{Handle, Slice, SliceUse};
use crate::error::{Error, Result};
use crate::failure::Access;
use smallvec::SmallVec;

handles! { tg_device; tg_buffer; tg_kernel; tg_event; tg_read; tg_scope; tg_report; }

/// A device: one Vulkan device, its streams, its memory and its failures.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct tg_device {
    /// The handle as a number; 0 is the null handle.
    pub id: u64,
}

/// A buffer: bytes of the device, allocated or not, or a token. Belongs to one device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct tg_buffer {
    /// The handle as a number; 0 is the null handle.
    pub id: u64,
}

/// A kernel: a compiled shader, or a broken one. Belongs to one device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct tg_kernel {
    /// The handle as a number; 0 is the null handle.
    pub id: u64,
}

/// An event: how far a stream was when it was recorded. Belongs to one device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct tg_event {
    /// The handle as a number; 0 is the null handle.
    pub id: u64,
}

/// An asynchronous read: bytes on their way to the host. Belongs to one device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct tg_read {
    /// The handle as a number; 0 is the null handle.
    pub id: u64,
}

/// An open write scope. Belongs to one device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct tg_scope {
    /// The handle as a number; 0 is the null handle.
    pub id: u64,
}

/// A report: an immutable snapshot of roots and paths. It belongs to the library and outlives its device. Every
/// string from it is borrowed until tg_report_release.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct tg_report {
    /// The handle as a number; 0 is the null handle.
    pub id: u64,
}

/// The unit of every read, write and claim: some bytes of a buffer. Never grows.
///
/// Reads, writes, copies, fills and questions take any offset and any size. Bindings begin at multiples of
/// tg_device_info::binding_alignment, indirect counts at a multiple of 4, and what is mapped to be written lies on
/// tg_device_info::map_alignment; a fill has a whole number of patterns.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct tg_slice {
    /// Whose bytes.
    pub buffer: tg_buffer,
    /// The first byte, counted from the start of the buffer.
    pub offset: u64,
    /// How many bytes; TG_WHOLE_SIZE: to the end of the buffer.
    pub size: u64,
}

/// As a slice's size: to the end of the buffer.
pub const TG_WHOLE_SIZE: u64 = u64::MAX;

/// A slice, and what a piece of work does to its bytes. Never grows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct tg_use {
    /// Which bytes.
    pub slice: tg_slice,
    /// One of TG_ACCESS_*.
    pub access: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// The launch decides, else the kernel descriptor, else the module. Misuse where there is no kernel to ask.
///
/// The module says TG_ACCESS_READ of what it only loads and TG_ACCESS_READ_WRITE of what it loads and stores. What it only
/// stores is TG_ACCESS_WRITE for exactly the bytes that the grid and the push constants of the launch prove, and
/// TG_ACCESS_MAY_WRITE for the rest of the slice. (A load that sees nothing but what the same invocation stored before does
/// not count.) The usual kernels are proven: invocation i stores element i on every path, in one dimension or row by row
/// in two or three, plus an offset, all components and members of it, under guards that compare i with a constant, a
/// specialization constant, a push constant or the length of an array. Where data decides what is stored (a scatter, a
/// result only if there is one), and in an indirect launch, nothing is proven. tg_binding_info::basis tells. If such a
/// kernel writes every byte of a slice all the same, declare TG_ACCESS_WRITE, or no launch of it releases its output.
///
/// When the kernel is broken and its module cannot be parsed, a binding that neither of the two others declares counts
/// as TG_ACCESS_READ_WRITE: the skip claims it, be it an input, and it has to be written again. Declare the accesses to
/// keep inputs out of it.
pub const TG_ACCESS_AUTO: u32 = 0;
/// Bound, but not touched: not tracked.
pub const TG_ACCESS_NONE: u32 = 1;
/// Only read. Claims on the bytes skip the work.
pub const TG_ACCESS_READ: u32 = 2;
/// Every byte is written and none is read: the caller's word, where the caller declares it. Success releases the bytes.
pub const TG_ACCESS_WRITE: u32 = 3;
/// Some bytes may be written, none is read. The work runs over claimed bytes, and they stay claimed by the same roots:
/// success releases nothing. A failure or a skip claims the whole slice.
pub const TG_ACCESS_MAY_WRITE: u32 = 4;
/// Read, and then written. Claims on the bytes skip the work.
pub const TG_ACCESS_READ_WRITE: u32 = 5;

/// A claimed range: these bytes were to be written by work that did not succeed. Never grows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct tg_claim {
    /// The claimed bytes. The size is never TG_WHOLE_SIZE.
    pub slice: tg_slice,
    /// The id of the oldest root that claims them.
    pub failure: u64,
    /// How many roots claim them: 1 to 32, as many as a report lists of them.
    pub failure_count: u32,
    /// 1 when more roots claim them than are counted: the 32 oldest are kept. Otherwise 0.
    pub more: u32,
}

impl From<tg_slice> for Slice {
    fn from(slice: tg_slice) -> Slice {
        Slice { buffer: slice.buffer.into(), offset: slice.offset, size: slice.size }
    }
}

impl tg_claim {
    /// A claim on bytes of `buffer`.
    pub(super) fn new(buffer: Handle, claim: &crate::device::Claim) -> tg_claim {
        tg_claim {
            slice: tg_slice { buffer: buffer.into(), offset: claim.offset, size: claim.size },
            failure: claim.failure,
            failure_count: claim.failures,
            more: u32::from(claim.more),
        }
    }
}

/// An array of slices, as it lies.
///
/// # Safety
/// As [`array`].
pub(super) unsafe fn slices<'a>(at: *const tg_slice, count: usize) -> Result<&'a [Slice]> {
    const _: () = {
        assert!(size_of::<tg_slice>() == size_of::<Slice>() && align_of::<tg_slice>() == align_of::<Slice>());
        assert!(std::mem::offset_of!(tg_slice, buffer) == std::mem::offset_of!(Slice, buffer));
        assert!(std::mem::offset_of!(tg_slice, offset) == std::mem::offset_of!(Slice, offset));
        assert!(std::mem::offset_of!(tg_slice, size) == std::mem::offset_of!(Slice, size));
    };
    // SAFETY: the same contract; the two types are laid out alike, as checked above.
    unsafe { array(at.cast::<Slice>(), count, "slices") }
}

/// Uses, most often few enough to need no allocation.
pub(super) type Uses = SmallVec<[SliceUse; 16]>;

/// The names of a struct's array of uses and of what can be wrong in it.
pub(super) struct UseFields {
    /// The array.
    pub(super) array: &'static str,
    /// The access of an element.
    pub(super) access: &'static str,
    /// The reserved member of an element.
    pub(super) reserved: &'static str,
    /// Whether TG_ACCESS_AUTO is an access: there is a kernel to ask.
    pub(super) auto: bool,
}

/// Adds the uses of an array; into a place of the caller's, because they are long to move.
///
/// # Safety
/// As [`array`].
pub(super) unsafe fn read_uses(to: &mut Uses, at: *const tg_use, count: usize, fields: &UseFields) -> Result {
    // SAFETY: the same contract.
    let given = unsafe { array(at, count, fields.array) }?;
    if given.is_empty() {
        return Ok(());
    }
    to.try_reserve(given.len()).map_err(|_| out_of_host_memory("the uses"))?;
    for (index, one) in given.iter().enumerate() {
        match access(one.access) {
            Some(access) if one.reserved == 0 && (access.is_some() || fields.auto) => {
                to.push(SliceUse { slice: one.slice.into(), access });
            }
            _ => return Err(no_use(one, index, fields)),
        }
    }
    Ok(())
}

#[cold]
fn no_use(one: &tg_use, index: usize, fields: &UseFields) -> Error {
    let unfit = format_args!("element {index}: {} is no access that can stand here", one.access);
    match reserved(one.reserved, fields.reserved) {
        Err(error) => error.element("element", index),
        Ok(()) => misuse(fields.access, unfit),
    }
}

/// The access of a number: `Some(None)` for TG_ACCESS_AUTO, `None` for a number that is no access.
pub(super) fn access(number: u32) -> Option<Option<Access>> {
    Some(match number {
        TG_ACCESS_AUTO => None,
        TG_ACCESS_NONE => Some(Access::None),
        TG_ACCESS_READ => Some(Access::Read),
        TG_ACCESS_WRITE => Some(Access::Write),
        TG_ACCESS_MAY_WRITE => Some(Access::MayWrite),
        TG_ACCESS_READ_WRITE => Some(Access::ReadWrite),
        _ => return None,
    })
}

/// The number of an access.
pub(super) fn access_number(access: Access) -> u32 {
    match access {
        Access::None => TG_ACCESS_NONE,
        Access::Read => TG_ACCESS_READ,
        Access::Write => TG_ACCESS_WRITE,
        Access::MayWrite => TG_ACCESS_MAY_WRITE,
        Access::ReadWrite => TG_ACCESS_READ_WRITE,
    }
}

/// The bytes a pointer and a size of the caller's name.
///
/// # Safety
/// As [`array`].
pub(super) unsafe fn bytes<'a>(at: *const std::ffi::c_void, size: usize, field: &'static str) -> Result<&'a [u8]> {
    // SAFETY: the same contract.
    unsafe { array(at.cast::<u8>(), size, field) }
}

/// A list by two calls: no array and no room asks for the count, too little room is TG_INCOMPLETE.
pub(super) fn listed(total: usize, room: usize) -> Result {
    match room {
        0 => Ok(()),
        _ if room < total => Err(Error::Incomplete),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_access_has_one_number() {
        for number in TG_ACCESS_NONE..=TG_ACCESS_READ_WRITE {
            assert_eq!(access(number).flatten().map(access_number), Some(number));
        }
        assert_eq!(access(TG_ACCESS_AUTO), Some(None));
        assert_eq!(access(TG_ACCESS_READ_WRITE + 1), None);
        assert_eq!(access(u32::MAX), None);
    }

    #[test]
    fn uses_name_what_is_wrong_with_them() {
        let slice = tg_slice { buffer: tg_buffer { id: 1 }, offset: 2, size: 3 };
        let fields = UseFields { array: "uses", access: "uses.access", reserved: "uses.reserved", auto: false };
        let field = |access, reserved| {
            let one = [tg_use { slice, access, reserved }];
            // SAFETY: the array is readable.
            match unsafe { read_uses(&mut Uses::new(), one.as_ptr(), 1, &fields) } {
                Err(Error::Misuse(misuse)) => misuse.field,
                _ => "",
            }
        };
        assert_eq!(field(TG_ACCESS_READ, 0), "");
        assert_eq!(field(TG_ACCESS_READ, 1), "uses.reserved");
        assert_eq!(field(TG_ACCESS_AUTO, 0), "uses.access");
        assert_eq!(field(99, 0), "uses.access");
    }
}
