//! Kernels: made, rebuilt, asked and destroyed.

use super::boundary::{making, on_device};
use super::results::tg_result;
use super::slices::{access, access_number, bytes, tg_device, tg_kernel};
use super::strings::{self, LABEL, TG_LABEL_CAPACITY, tg_str};
use super::structs::{self, Info, array, array_mut, flags, misuse, out_of_host_memory, versioned};
use crate::device::{Basis, KernelDesc};
use crate::error::Result;
use crate::failure::Access;
use std::ffi::{c_char, c_void};

/// The caller vouches for the module: it is parsed and reflected, but not validated. A module that breaks Vulkan's
/// rules may then crash the driver.
///
/// Every module is held to two limits, because the library parses it: 16777216 bytes, and 262144 instructions. The steps
/// that finding out about its bindings takes are limited too. All other modules are also held to these limits, beyond
/// which validators and drivers take all stack, memory or time there is. Only a trusted module may exceed them: then
/// the driver alone says how long it takes to compile, and whether the process survives it.
///
/// - Types are nested at most 255 deep. If each type is written out wherever another names it, all of them have at most
///   262144 members, and so have the types of all variables outside functions.
/// - If each constant is written out wherever another names it, all of them have at most 262144 numbers and vectors.
/// - If each call is replaced by the function it calls, a function has at most 131072 instructions, 8192 accesses to
///   memory, and 1048576 elements of variables; all functions together have at most 4194304 instructions. An
///   instruction on a struct or array counts once for each number and vector in it.
/// - Half the blocks of such a function, times its instructions and 8 for each construct around each block, are at most
///   134217728: about 200 nested selections, 150 nested loops or 2500 selections in a row.
/// - Entry points times functions are at most 1048576; so are decorations times targets of groups of decorations.
///
/// A module beyond a limit is TG_ERROR_LIMIT_EXCEEDED, and the message names the limit and the count. The limits stop
/// modules that are certain to exhaust a driver. They do not make every driver fast: a module within them may take Mesa's
/// software driver some seconds, and each driver chooses how far it unrolls a loop.
pub const TG_KERNEL_TRUSTED: u64 = 1 << 0;
/// Launches of the kernel declare in `extra` what it reaches without binding it. Modules that reach memory the library
/// cannot see are TG_ERROR_UNSUPPORTED without it. With it a module may
///
/// - reach memory by address (PhysicalStorageBufferAddresses; TG_ERROR_UNSUPPORTED where the device lacks
///   TG_FEATURE_BUFFER_ADDRESSES). The bytes it reaches by address are exactly those in `extra`: nothing else is ordered
///   against it, checked before it, claimed or released after it, and without `extra` it reaches none. A buffer's
///   address is tg_buffer_info::address.
/// - bind arrays of storage buffers whose length is constant. Each element is a binding of its own
///   (tg_binding_info::element). Which elements are touched cannot be seen, so every one counts as what the module does
///   with any, and as TG_ACCESS_MAY_WRITE where it only stores; descriptor and launch override that as always, with
///   TG_ACCESS_NONE for elements that are not touched.
///
/// Images, uniform buffers and arrays without a length stay unsupported. No robust access of the driver holds such a
/// kernel: a wrong address, or an index past the end of an array, reads or spoils any memory of the process, ends it (on
/// software drivers) or loses the device. What it spoils is not tracked.
pub const TG_KERNEL_DECLARES_USES: u64 = 1 << 1;

/// A specialization constant. Never grows.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_constant {
    /// The SpecId in the module (VkSpecializationMapEntry::constantID).
    pub id: u32,
    /// The 4 bytes of its value: an int, an unsigned, a float's bits, or 0 and 1 for a bool.
    pub value: u32,
}

/// What a kernel is made from.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_kernel_desc {
    /// sizeof(tg_kernel_desc).
    pub struct_size: usize,
    /// SPIR-V, in whatever state; copied. Need not be aligned. Must not be NULL.
    pub code: *const c_void,
    /// Bytes of it. Any number: bytes that are no module give a live broken kernel, as do more than 16777216
    /// (TG_ERROR_LIMIT_EXCEEDED).
    pub code_size: usize,
    /// The entry point, at most 1024 bytes; empty: "main".
    pub entry: tg_str,
    /// What the kernel does to each binding, in the order the kernel reports them: TG_ACCESS_* each. TG_ACCESS_AUTO
    /// and bindings beyond the array: what the module does. TG_ACCESS_WRITE is the caller's word that every launch writes
    /// every byte of the slice that is bound. May be NULL when there are none.
    pub accesses: *const u32,
    /// Elements of `accesses`; those beyond the bindings of the kernel mean nothing.
    pub access_count: usize,
    /// Specialization constants; ids the module lacks are ignored. May be NULL when there are none.
    pub constants: *const tg_constant,
    /// Elements of `constants`.
    pub constant_count: usize,
    /// TG_KERNEL_* added together.
    pub flags: u64,
    /// Its name in reports and debug tools; cut at 128 bytes.
    pub label: tg_str,
    /// A number of the caller's for it, told in reports.
    pub tag: u64,
}

/// The module says it, and proves of no launch that it writes bytes of the binding.
pub const TG_BASIS_INFERRED: u32 = 1;
/// The module says it, and each launch writes the bytes that its grid and push constants prove. The rest of its slice
/// counts as TG_ACCESS_MAY_WRITE, and the whole slice in an indirect launch.
pub const TG_BASIS_PROVEN: u32 = 2;
/// tg_kernel_desc::accesses says it.
pub const TG_BASIS_DECLARED: u32 = 3;

/// A binding of a kernel. Never grows.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_binding_info {
    /// Its descriptor set.
    pub set: u32,
    /// Its number in the set.
    pub binding: u32,
    /// TG_ACCESS_*, never TG_ACCESS_AUTO: what the descriptor, else the module, says.
    pub access: u32,
    /// Which element of an array of buffers (TG_KERNEL_DECLARES_USES); 0 where the binding is one buffer.
    pub element: u32,
    /// TG_BASIS_*: on what `access` rests.
    pub basis: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes of `name`, the NUL not counted.
    pub name_size: usize,
    /// The variable's name in the module, where it has one; cut at 128 bytes.
    pub name: [c_char; TG_LABEL_CAPACITY],
}

/// What a kernel is.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_kernel_info {
    /// sizeof(tg_kernel_info).
    pub struct_size: usize,
    /// In: an array for the bindings, or NULL. It is filled in the order of (set, binding, element), which is the order of
    /// a launch's bindings.
    pub bindings: *mut tg_binding_info,
    /// In: elements of `bindings`; 0 asks for the count only.
    pub binding_capacity: usize,
    /// Out: how many bindings there are, whatever fits; 0 when the module could not be read.
    pub binding_count: usize,
    /// Invocations of a work group in each direction, after specialization.
    pub group_size: [u32; 3],
    /// Bytes of push constants that a launch must pass (the end of the module's last push constant).
    pub push_size: u32,
    /// 1 when the kernel is broken, else 0.
    pub broken: u32,
    /// 0.
    pub reserved: u32,
    /// The id of the root that says why it is broken, else 0.
    pub failure: u64,
    /// The caller's number.
    pub tag: u64,
    /// Bytes of `label`, the NUL not counted.
    pub label_size: usize,
    /// The caller's name, cut at 128 bytes.
    pub label: [c_char; TG_LABEL_CAPACITY],
}

versioned!(tg_kernel_desc to code_size, tg_kernel_info to binding_count);

/// The longest name of an entry point; a longer one is refused, because a cut one would be another name.
const ENTRY: usize = 1024;

/// Makes a kernel from SPIR-V.
///
/// The module is validated, reflected and compiled before the call returns; other calls go on meanwhile. This happens on
/// a thread of the library's with a stack of 32 MiB, so that the caller's stack may be small; without such a thread the
/// kernel is broken with TG_ERROR_OUT_OF_HOST_MEMORY. A failure
/// gives a live handle too: a broken kernel, remembered under a root. Launches of it are skipped, and reads of what
/// they were to write name the root. tg_kernel_rebuild repairs it. A module that cannot be parsed does not tell what it
/// writes: then bindings that neither `accesses` nor the launch declares count as written, inputs too.
///
/// \param dev The device.
/// \param desc What it is made from; must not be NULL.
/// \param out The kernel: live on TG_OK and on every failure (TG_IS_TRACKED), null on misuse. Must not be NULL. (One
///        failure has no handle to give: TG_ERROR_LIMIT_EXCEEDED, beyond 1048576 live kernels.)
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for NULL code; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
///          TG_ERROR_STALE_HANDLE for dev; TG_ERROR_INVALID_SHADER (the report has the validator's words);
///          TG_ERROR_UNSUPPORTED for what the device lacks, and for memory the library cannot see
///          (TG_KERNEL_DECLARES_USES);
///          TG_ERROR_LIMIT_EXCEEDED for what the device's limits or those of TG_KERNEL_TRUSTED do not allow;
///          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread. Holds no other thread up.
/// \claims No byte. On failure the kernel itself carries a root, which launches hand on to what they were to write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_kernel_create(
    dev: tg_device,
    desc: *const tg_kernel_desc,
    out: *mut tg_kernel,
) -> tg_result {
    // SAFETY: the header asks for NULL or a writable handle; for NULL or a struct that begins with its size; and for
    // arrays and strings that are what they say.
    unsafe {
        making("tg_kernel_create", dev, out, tg_kernel::NULL, |device, made| {
            let (kernel, result) = with_described(desc, |desc| Ok(device.kernel_create(desc)))?;
            *made = kernel.into();
            result
        })
    }
}

/// # Safety
/// `desc` is NULL or as the header says, and so is everything it points to.
unsafe fn with_described<R>(desc: *const tg_kernel_desc, then: impl FnOnce(&KernelDesc<'_>) -> Result<R>) -> Result<R> {
    // SAFETY: the same contract.
    let desc = unsafe { structs::read(desc, "desc") }?;
    let flags = flags(desc.flags, TG_KERNEL_TRUSTED | TG_KERNEL_DECLARES_USES, "desc.flags")?;
    if desc.code.is_null() {
        return Err(misuse("desc.code", format_args!("the code is NULL")));
    }
    if desc.entry.size > ENTRY {
        return Err(misuse("desc.entry", format_args!("{} bytes are more than {ENTRY}", desc.entry.size)));
    }
    // SAFETY: the contract covers the arrays and strings of the descriptor.
    let (code, entry, label, numbers, constants) = unsafe {
        (
            bytes(desc.code, desc.code_size, "desc.code")?,
            strings::read::<ENTRY>(desc.entry, "desc.entry")?,
            strings::read::<LABEL>(desc.label, "desc.label")?,
            array(desc.accesses, desc.access_count, "desc.accesses")?,
            array(desc.constants, desc.constant_count, "desc.constants")?,
        )
    };
    let mut accesses: Vec<Option<Access>> = Vec::new();
    accesses.try_reserve_exact(numbers.len()).map_err(|_| out_of_host_memory("the accesses"))?;
    for (index, &number) in numbers.iter().enumerate() {
        accesses.push(
            access(number)
                .ok_or_else(|| misuse("desc.accesses", format_args!("element {index}: {number} is no access")))?,
        );
    }
    let mut values: Vec<(u32, u32)> = Vec::new();
    values.try_reserve_exact(constants.len()).map_err(|_| out_of_host_memory("the constants"))?;
    values.extend(constants.iter().map(|constant| (constant.id, constant.value)));
    then(&KernelDesc {
        code,
        entry: entry.as_str(),
        accesses: &accesses,
        constants: &values,
        label: label.as_str(),
        tag: desc.tag,
        trusted: flags & TG_KERNEL_TRUSTED != 0,
        declares_uses: flags & TG_KERNEL_DECLARES_USES != 0,
    })
}

/// Makes a kernel anew under the same handle: to repair a broken one, or to exchange a working one.
///
/// Launches enqueued before run, or were skipped, as the kernel was then. When the new module fails, the kernel is
/// broken, on the new root.
///
/// \param dev The device.
/// \param kernel The kernel.
/// \param desc What it is made from; must not be NULL.
/// \returns As tg_kernel_create, and TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE for kernel; misuse leaves the kernel as it was.
/// \threadsafety Any thread. Holds no other thread up.
/// \claims No byte. The kernel lets go of its old root; bytes that the root claims stay claimed until they are
///         written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_kernel_rebuild(
    dev: tg_device,
    kernel: tg_kernel,
    desc: *const tg_kernel_desc,
) -> tg_result {
    on_device("tg_kernel_rebuild", dev, |device| {
        // SAFETY: the header asks for NULL or a struct that begins with its size, and for arrays and strings that are
        // what they say.
        unsafe { with_described(desc, |desc| device.kernel_rebuild(kernel.into(), desc)) }
    })
}

/// Destroys a kernel.
///
/// The handle is stale when the call returns. Work in flight keeps the kernel until it completes.
///
/// \param dev The device.
/// \param kernel The kernel; the null handle is fine and does nothing.
/// \returns TG_OK; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims No byte. A broken kernel lets go of its root; bytes that the root claims stay claimed.
#[unsafe(no_mangle)]
pub extern "C" fn tg_kernel_destroy(dev: tg_device, kernel: tg_kernel) -> tg_result {
    on_device("tg_kernel_destroy", dev, |device| device.kernel_destroy(kernel.into()))
}

/// Tells what a kernel is: its bindings with what it does to them and how that is known, group size, push constants, or
/// why it is broken.
///
/// \param dev The device.
/// \param kernel The kernel.
/// \param out Filled on TG_OK and TG_INCOMPLETE, up to its struct_size; the members marked "In" are read first.
/// \returns TG_OK; TG_INCOMPLETE when binding_capacity is neither 0 nor enough; TG_ERROR_INVALID_ARGUMENT;
///          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_kernel_get_info(dev: tg_device, kernel: tg_kernel, out: *mut tg_kernel_info) -> tg_result {
    on_device("tg_kernel_get_info", dev, |device| {
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let (given, info) = unsafe { (structs::read(out.cast_const(), "out")?, Info::new(out, "out")?) };
        // SAFETY: the header asks for an array of `binding_capacity` elements.
        let bindings = unsafe { array_mut(given.bindings, given.binding_capacity, "out.bindings") }?;
        let details = device.kernel_info(kernel.into())?;
        for ((to, from), basis) in bindings.iter_mut().zip(&details.info.bindings).zip(&details.bases) {
            let mut name = [0; TG_LABEL_CAPACITY];
            let name_size = strings::fill(&mut name, strings::cut(&from.name, LABEL));
            *to = tg_binding_info {
                set: from.set,
                binding: from.binding,
                access: access_number(from.access),
                element: from.element,
                basis: match basis {
                    Basis::Inferred => TG_BASIS_INFERRED,
                    Basis::Proven => TG_BASIS_PROVEN,
                    Basis::Declared => TG_BASIS_DECLARED,
                },
                reserved: 0,
                name_size,
                name,
            };
        }
        let mut label = [0; TG_LABEL_CAPACITY];
        let label_size = strings::fill(&mut label, &details.label);
        let binding_count = details.info.bindings.len();
        info.fill(tg_kernel_info {
            struct_size: 0,
            bindings: given.bindings,
            binding_capacity: given.binding_capacity,
            binding_count,
            group_size: details.info.group_size,
            push_size: details.info.push_size,
            broken: u32::from(details.broken),
            reserved: 0,
            failure: details.failure,
            tag: details.tag,
            label_size,
            label,
        });
        super::slices::listed(binding_count, given.binding_capacity)
    })
}
