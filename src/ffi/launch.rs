//! Launches.

use super::boundary::on_device;
use super::results::tg_result;
use super::slices::{UseFields, Uses, bytes, read_uses, tg_buffer, tg_device, tg_kernel, tg_slice, tg_use};
use super::strings::{self, LABEL, tg_str};
use super::structs::{self, misuse, versioned};
use crate::device::{LaunchDesc, LaunchGrid};
use crate::error::Error;
use arrayvec::ArrayString;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// A launch: which kernel, over which bytes, how much of it.
///
/// At most one of `groups`, `threads` and `indirect` is given. A grid is given when any of its numbers is not 0, a
/// slice when its buffer is not the null handle. When none is given, or the first number of the given grid is 0, the
/// grid is empty: the arguments are checked, and nothing else happens.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_launch_desc {
    /// sizeof(tg_launch_desc).
    pub struct_size: usize,
    /// The stream it is enqueued on.
    pub stream: u64,
    /// What runs.
    pub kernel: tg_kernel,
    /// The slices bound to the kernel, in the order tg_kernel_get_info gives its bindings; each at a multiple of
    /// tg_device_info::binding_alignment, and neither empty nor longer than max_binding_size. An access other than
    /// TG_ACCESS_AUTO overrides what descriptor and module say, for this launch. With TG_ACCESS_AUTO in both, the launch
    /// writes the bytes that the module proves with these groups and push constants, and may write the rest of the slice.
    pub bindings: *const tg_use,
    /// Elements of `bindings`; as many as the kernel has.
    pub binding_count: usize,
    /// Bytes that the kernel reaches but does not bind (TG_KERNEL_DECLARES_USES), or the part of a TG_ACCESS_NONE binding
    /// that it touches; tokens among them. TG_ACCESS_AUTO is not accepted. May be NULL when there are none.
    pub extra: *const tg_use,
    /// Elements of `extra`.
    pub extra_count: usize,
    /// Work groups in each direction, up to tg_device_info::max_groups. After the first, 0 means 1.
    pub groups: [u32; 3],
    /// Invocations in each direction: divided by the group size of the kernel, rounded up. After the first, 0 means 1.
    pub threads: [u32; 3],
    /// Three uint32_t group counts in a buffer (VkDispatchIndirectCommand): 12 bytes at a multiple of 4
    /// (VUID-vkCmdDispatchIndirect-offset-02710). Of a longer slice the launch reads, and checks, the first 12 bytes alone.
    /// Counts beyond the limits of the device run nothing. A binding that is stored to without a declaration counts as
    /// TG_ACCESS_MAY_WRITE, because the library cannot know how much runs.
    pub indirect: tg_slice,
    /// Push constants; copied. May be NULL when push_size is 0.
    pub push: *const c_void,
    /// Bytes of them: exactly what tg_kernel_info::push_size says.
    pub push_size: usize,
    /// Its name in reports and debug tools; empty: that of the kernel; cut at 128 bytes.
    pub label: tg_str,
    /// A number of the caller's for it, told in reports.
    pub tag: u64,
}

versioned!(tg_launch_desc to kernel);

const BINDINGS: UseFields = UseFields {
    array: "desc.bindings",
    access: "desc.bindings.access",
    reserved: "desc.bindings.reserved",
    auto: true,
};
const EXTRA: UseFields =
    UseFields { array: "desc.extra", access: "desc.extra.access", reserved: "desc.extra.reserved", auto: false };

/// Enqueues a launch, or skips it.
///
/// When a byte it reads is claimed, or the kernel is broken, the launch does not run and its outputs take over the
/// roots. Outputs are what the launch, else the kernel's descriptor, else its module declares; of a broken kernel whose
/// module cannot be parsed, every binding that the first two leave at TG_ACCESS_AUTO is one, an input too: a repair has
/// to write it again. Work either enters or skips, decided once, here. Returns without waiting for the device, unless
/// the launch is to run and max_pending pieces of work are unfinished (tg_device_desc).
///
/// \param dev The device.
/// \param desc The launch; must not be NULL.
/// \returns TG_OK: enqueued; TG_SKIPPED; TG_NOT_READY as tg_device_desc::max_pending says, and nothing changed;
///          TG_ERROR_INVALID_ARGUMENT, also for a wrong number of bindings, a wrong push_size, a slice beyond its
///          buffer, an empty slice that is bound, and more than one grid;
///          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
///          TG_ERROR_WRONG_STATE while an open scope or mapping holds some of the bytes; TG_ERROR_LIMIT_EXCEEDED for a
///          slice or grid beyond the limits in tg_device_info; TG_ERROR_OUT_OF_HOST_MEMORY,
///          TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread. Launches on one stream from several threads are in the order the device sees them.
/// \claims Success releases exactly the slices with TG_ACCESS_WRITE. A skip hands the roots found to everything it was
///         to write. A failure claims everything it was to write, by a root of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_launch(dev: tg_device, desc: *const tg_launch_desc) -> tg_result {
    on_device("tg_launch", dev, |device| {
        let (mut bindings, mut extra) = (Uses::new(), Uses::new());
        let (mut desc_copy, mut label_copy) = (MaybeUninit::uninit(), ArrayString::<LABEL>::new());
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let desc = unsafe { structs::view(desc, "desc", &mut desc_copy) }?;
        // SAFETY: the header asks for arrays that are as long as they say.
        unsafe { read_uses(&mut bindings, desc.bindings, desc.binding_count, &BINDINGS) }?;
        // SAFETY: as above.
        unsafe { read_uses(&mut extra, desc.extra, desc.extra_count, &EXTRA) }?;
        // SAFETY: as above.
        let push = unsafe { bytes(desc.push, desc.push_size, "desc.push") }?;
        // SAFETY: as above.
        let label = unsafe { strings::view(desc.label, "desc.label", &mut label_copy) }?;
        let Some(grid) = grid(desc) else { return Err(two_grids(desc)) };
        device.launch(&LaunchDesc {
            stream: desc.stream,
            kernel: desc.kernel.into(),
            bindings: &bindings,
            extra: &extra,
            grid,
            push,
            label,
            tag: desc.tag,
        })
    })
}

/// The grid, unless more than one is given.
fn grid(desc: &tg_launch_desc) -> Option<LaunchGrid> {
    let groups = desc.groups != [0; 3];
    let threads = desc.threads != [0; 3];
    let indirect = desc.indirect.buffer != tg_buffer::NULL;
    match (groups, threads, indirect) {
        (_, false, false) => Some(LaunchGrid::Groups(filled(desc.groups))),
        (false, true, false) => Some(LaunchGrid::Threads(filled(desc.threads))),
        (false, false, true) => Some(LaunchGrid::Indirect(desc.indirect.into())),
        _ => None,
    }
}

#[cold]
fn two_grids(desc: &tg_launch_desc) -> Error {
    if desc.groups == [0; 3] {
        misuse("desc.threads", format_args!("both threads and indirect are given"))
    } else {
        misuse("desc.groups", format_args!("more than one of groups, threads and indirect is given"))
    }
}

/// A grid of one or two numbers has one group in the other directions; one whose first number is 0 stays empty.
fn filled([first, rest @ ..]: [u32; 3]) -> [u32; 3] {
    let [second, third] = rest.map(|number| number.max(1));
    [first, second, third]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Handle, Slice};

    fn desc_of(groups: [u32; 3], threads: [u32; 3], indirect: u64) -> tg_launch_desc {
        tg_launch_desc {
            struct_size: size_of::<tg_launch_desc>(),
            stream: 0,
            kernel: tg_kernel::NULL,
            bindings: std::ptr::null(),
            binding_count: 0,
            extra: std::ptr::null(),
            extra_count: 0,
            groups,
            threads,
            indirect: tg_slice { buffer: tg_buffer { id: indirect }, offset: 4, size: 12 },
            push: std::ptr::null(),
            push_size: 0,
            label: tg_str { data: std::ptr::null(), size: 0 },
            tag: 0,
        }
    }

    fn grid_of(groups: [u32; 3], threads: [u32; 3], indirect: u64) -> Option<LaunchGrid> {
        grid(&desc_of(groups, threads, indirect))
    }

    #[test]
    fn after_the_first_zero_means_one() {
        assert_eq!(grid_of([5, 0, 7], [0; 3], 0), Some(LaunchGrid::Groups([5, 1, 7])));
        assert_eq!(grid_of([0; 3], [9, 0, 0], 0), Some(LaunchGrid::Threads([9, 1, 1])));
        let slice = Slice { buffer: Handle(3), offset: 4, size: 12 };
        assert_eq!(grid_of([0; 3], [0; 3], 3), Some(LaunchGrid::Indirect(slice)));
    }

    #[test]
    fn a_first_zero_is_an_empty_grid() {
        for groups in [[0, 0, 0], [0, 4, 4]] {
            assert!(matches!(grid_of(groups, [0; 3], 0), Some(LaunchGrid::Groups([0, _, _]))));
        }
        assert!(matches!(grid_of([0; 3], [0, 1, 0], 0), Some(LaunchGrid::Threads([0, _, _]))));
    }

    #[test]
    fn two_grids_are_one_too_many() {
        for (groups, threads, indirect, field) in [
            ([1, 0, 0], [1, 0, 0], 0, "desc.groups"),
            ([0, 1, 0], [0; 3], 1, "desc.groups"),
            ([0; 3], [1, 0, 0], 1, "desc.threads"),
            ([1, 1, 1], [1, 1, 1], 1, "desc.groups"),
        ] {
            let desc = desc_of(groups, threads, indirect);
            assert_eq!(grid(&desc), None);
            assert!(matches!(two_grids(&desc), Error::Misuse(misuse) if misuse.field == field));
        }
    }
}
