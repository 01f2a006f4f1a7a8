//! Buffers: made, asked, written, read, copied and filled.

use super::boundary::{making, on_device};
use super::results::tg_result;
use super::slices::{access, bytes, tg_buffer, tg_device, tg_slice};
use super::strings::{self, LABEL, TG_LABEL_CAPACITY, tg_str};
use super::structs::{self, Info, array_mut, flags, misuse, reserved, versioned};
use crate::device::{BufferDesc, BufferMemory};
use crate::error::Result;
use crate::memory::MemoryKind;
use arrayvec::ArrayString;
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

/// Memory that is fast for the device; the host need not see it.
pub const TG_MEMORY_DEVICE: u32 = 0;
/// Memory that the host writes and the device reads.
pub const TG_MEMORY_UPLOAD: u32 = 1;
/// Memory that the device writes and the host reads.
pub const TG_MEMORY_READBACK: u32 = 2;
/// No memory of ours: a token stands for something the caller owns, and is tracked like a buffer. It can be named in
/// `extra`, in a scope, and wherever claims are asked about or set; it cannot be bound, read, written or copied.
pub const TG_MEMORY_TOKEN: u32 = 3;

/// Do not allocate yet: tg_buffer_allocate or tg_fail_unallocated follows.
pub const TG_BUFFER_UNALLOCATED: u64 = 1 << 0;

/// What a new buffer is to be.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_buffer_desc {
    /// sizeof(tg_buffer_desc).
    pub struct_size: usize,
    /// Bytes; at least 1.
    pub size: u64,
    /// One of TG_MEMORY_*; 0 is TG_MEMORY_DEVICE.
    pub memory: u32,
    /// Must be 0.
    pub reserved: u32,
    /// The stream it is created on. Any stream may use it.
    pub stream: u64,
    /// TG_BUFFER_* added together.
    pub flags: u64,
    /// Its name in reports and debug tools; cut at 128 bytes.
    pub label: tg_str,
    /// A number of the caller's for it, told in reports.
    pub tag: u64,
}

/// What a buffer is.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_buffer_info {
    /// sizeof(tg_buffer_info).
    pub struct_size: usize,
    /// Bytes.
    pub size: u64,
    /// One of TG_MEMORY_*.
    pub memory: u32,
    /// 1 when it has memory, 0 when the allocation failed or was not asked for. A token has none and gives 1.
    pub allocated: u32,
    /// 1 when some byte is claimed, as far as is known without waiting; else 0.
    pub claimed: u32,
    /// 0.
    pub reserved: u32,
    /// The stream it was created on.
    pub stream: u64,
    /// The caller's number.
    pub tag: u64,
    /// Bytes of `label`, the NUL not counted.
    pub label_size: usize,
    /// The caller's name, cut at 128 bytes.
    pub label: [c_char; TG_LABEL_CAPACITY],
    /// Where a kernel with TG_KERNEL_DECLARES_USES that is handed an address finds the first byte
    /// (vkGetBufferDeviceAddress); a multiple of 16. Good until the buffer is destroyed or the device is lost. 0 when
    /// there is none: the device lacks TG_FEATURE_BUFFER_ADDRESSES or is lost, the buffer is a token, or it has no memory
    /// (then a launch that names it in `extra` is skipped on its root, so the 0 is never followed).
    pub address: u64,
}

versioned!(tg_buffer_desc to size, tg_buffer_info to size);

/// Makes a buffer.
///
/// A failure gives a live handle too: a buffer without memory, remembered under a root. Work over it is skipped, and
/// reads name the root. tg_buffer_allocate tries again. If memory comes back when work in flight is over, the call waits
/// for that work first, once.
///
/// \param dev The device.
/// \param desc What it is to be; must not be NULL.
/// \param out The buffer: live on TG_OK and on every failure (TG_IS_TRACKED), null on misuse. Must not be NULL. (One
///        failure has no handle to give: TG_ERROR_LIMIT_EXCEEDED, beyond 1048576 live buffers.)
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE for
///          dev; TG_ERROR_OUT_OF_DEVICE_MEMORY, also for a size the device can never hold;
///          TG_ERROR_OUT_OF_HOST_MEMORY; TG_ERROR_LIMIT_EXCEEDED; TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread.
/// \claims On failure the whole buffer, by one root. A new buffer is never claimed otherwise, unless the device has
///         TG_DEVICE_TRACK_UNINITIALIZED. Its bytes are undefined but readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_buffer_create(
    dev: tg_device,
    desc: *const tg_buffer_desc,
    out: *mut tg_buffer,
) -> tg_result {
    // SAFETY: the header asks for NULL or a writable handle; for NULL or a struct that begins with its size; and for
    // strings that are what they say.
    unsafe {
        making("tg_buffer_create", dev, out, tg_buffer::NULL, |device, made| {
            let (mut desc_copy, mut label_copy) = (MaybeUninit::uninit(), ArrayString::<LABEL>::new());
            let desc = structs::view(desc, "desc", &mut desc_copy)?;
            let label = strings::view(desc.label, "desc.label", &mut label_copy)?;
            let (buffer, result) = device.buffer_create(&described(desc, label)?);
            *made = buffer.into();
            result
        })
    }
}

fn described<'a>(desc: &tg_buffer_desc, label: &'a str) -> Result<BufferDesc<'a>> {
    reserved(desc.reserved, "desc.reserved")?;
    let flags = flags(desc.flags, TG_BUFFER_UNALLOCATED, "desc.flags")?;
    let memory = match desc.memory {
        TG_MEMORY_DEVICE => BufferMemory::Managed(MemoryKind::Device),
        TG_MEMORY_UPLOAD => BufferMemory::Managed(MemoryKind::Upload),
        TG_MEMORY_READBACK => BufferMemory::Managed(MemoryKind::Readback),
        TG_MEMORY_TOKEN => BufferMemory::Token,
        other => return Err(misuse("desc.memory", format_args!("{other} is no kind of memory"))),
    };
    Ok(BufferDesc {
        size: desc.size,
        memory,
        stream: desc.stream,
        label,
        tag: desc.tag,
        unallocated: flags & TG_BUFFER_UNALLOCATED != 0,
    })
}

/// Destroys a buffer.
///
/// The handle is stale when the call returns. Work in flight keeps the memory until it completes.
///
/// \param dev The device.
/// \param buffer The buffer; the null handle is fine and does nothing.
/// \returns TG_OK; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
///          TG_ERROR_WRONG_STATE while an open scope or mapping holds its bytes.
/// \threadsafety Any thread.
/// \claims Releases every claim on its bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tg_buffer_destroy(dev: tg_device, buffer: tg_buffer) -> tg_result {
    on_device("tg_buffer_destroy", dev, |device| device.buffer_destroy(buffer.into()))
}

/// Allocates a buffer that has no memory: again after a failure, or for the first time after TG_BUFFER_UNALLOCATED. If
/// memory comes back when work in flight is over, the call waits for that work first, once.
/// For a token that tg_fail_unallocated was called on, it says that the caller's own memory is there now.
///
/// \param dev The device.
/// \param buffer The buffer.
/// \param size Its new size in bytes; 0: as before.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE when it has memory;
///          TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_OUT_OF_HOST_MEMORY; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread.
/// \claims On success the root of the failed allocation claims all its bytes; writing them releases them. On failure
///         the new root takes the place of the old one.
#[unsafe(no_mangle)]
pub extern "C" fn tg_buffer_allocate(dev: tg_device, buffer: tg_buffer, size: u64) -> tg_result {
    on_device("tg_buffer_allocate", dev, |device| device.buffer_allocate(buffer.into(), size))
}

/// Tells what a buffer is.
///
/// \param dev The device.
/// \param buffer The buffer.
/// \param out Filled on TG_OK, up to its struct_size.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_buffer_get_info(dev: tg_device, buffer: tg_buffer, out: *mut tg_buffer_info) -> tg_result {
    on_device("tg_buffer_get_info", dev, |device| {
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let out = unsafe { Info::new(out, "out") }?;
        let info = device.buffer_info(buffer.into())?;
        let mut label = [0; TG_LABEL_CAPACITY];
        let label_size = strings::fill(&mut label, &info.label);
        out.fill(tg_buffer_info {
            struct_size: 0,
            size: info.size,
            memory: match info.memory {
                BufferMemory::Managed(MemoryKind::Device) => TG_MEMORY_DEVICE,
                BufferMemory::Managed(MemoryKind::Upload) => TG_MEMORY_UPLOAD,
                BufferMemory::Managed(MemoryKind::Readback) => TG_MEMORY_READBACK,
                BufferMemory::Token => TG_MEMORY_TOKEN,
            },
            allocated: u32::from(info.allocated),
            claimed: u32::from(info.claimed),
            reserved: 0,
            stream: info.stream,
            tag: info.tag,
            label_size,
            label,
            address: info.address,
        });
        Ok(())
    })
}

/// With tg_buffer_write_with: answer TG_NOT_READY instead of waiting for staging memory.
pub const TG_WRITE_NO_WAIT: u64 = 1 << 0;

/// Writes host bytes to a slice, in the order of a stream.
///
/// The bytes are copied before the call returns. What is longer than a sixteenth of the staging memory (at least
/// 4096 bytes) goes in pieces, between which work of other threads on the same bytes may come; they wait for
/// their own predecessors only.
///
/// \param dev The device.
/// \param stream The stream.
/// \param dst The bytes to write; a size of 0 does nothing.
/// \param src What to write; may be NULL when src_size is 0.
/// \param src_size Bytes at src; must be the size of the slice.
/// \returns TG_OK; TG_SKIPPED when dst has no memory; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer;
///          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
///          TG_ERROR_WRONG_STATE while an open scope or mapping holds the bytes;
///          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
///          While a stream waits for a semaphore (tg_vk_stream_wait_semaphore) also TG_NOT_READY: only that could make
///          room, and nothing changed; TG_ERROR_LIMIT_EXCEEDED when some pieces were enqueued before the room ran out.
/// \threadsafety Any thread. Calls on one stream from several threads are in the order the device sees them.
/// \claims Success releases exactly the bytes of dst. Failure claims them, by a root of its own, but for the pieces
///         that were enqueued before it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_buffer_write(
    dev: tg_device,
    stream: u64,
    dst: tg_slice,
    src: *const c_void,
    src_size: usize,
) -> tg_result {
    on_device("tg_buffer_write", dev, |device| {
        // SAFETY: the header asks for `src_size` readable bytes.
        let src = unsafe { bytes(src, src_size, "src") }?;
        device.buffer_write(stream, dst.into(), src, false)
    })
}

/// tg_buffer_write, with flags.
///
/// A function of its own because the plain write has no room for flags, and most writes need none.
///
/// \param dev The device.
/// \param stream The stream.
/// \param dst The bytes to write; a size of 0 does nothing.
/// \param src What to write; may be NULL when src_size is 0.
/// \param src_size Bytes at src; must be the size of the slice.
/// \param flags TG_WRITE_* added together.
/// \returns As tg_buffer_write, and with TG_WRITE_NO_WAIT also TG_NOT_READY: the call would have had to wait, and
///          nothing changed. With TG_WRITE_NO_WAIT, more bytes than the staging memory has are
///          TG_ERROR_INVALID_ARGUMENT, because no later try could succeed either.
/// \threadsafety Any thread. Calls on one stream from several threads are in the order the device sees them.
/// \claims As tg_buffer_write; TG_NOT_READY claims and releases nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_buffer_write_with(
    dev: tg_device,
    stream: u64,
    dst: tg_slice,
    src: *const c_void,
    src_size: usize,
    flags: u64,
) -> tg_result {
    on_device("tg_buffer_write_with", dev, |device| {
        let flags = structs::flags(flags, TG_WRITE_NO_WAIT, "flags")?;
        // SAFETY: the header asks for `src_size` readable bytes.
        let src = unsafe { bytes(src, src_size, "src") }?;
        device.buffer_write(stream, dst.into(), src, flags & TG_WRITE_NO_WAIT != 0)
    })
}

/// Reads a slice into host memory, in the order of a stream.
///
/// Flushes, waits for the work that wrote the bytes, and copies them, if and only if every one of them was last
/// written by work that succeeded. Otherwise the destination is untouched and tg_last_report names the roots.
///
/// A call whose time is up leaves the copy it waited for. The next call for the same bytes on the same stream takes it up,
/// unless work that changes them was enqueued since; so a loop on TG_TIMEOUT ends as soon as the work does. Of copies that
/// are over and were not asked for again, the newest 16 are kept, as long as there is memory.
///
/// If its own copy fails, the call fails by a root of its own, which tg_last_report names and nothing else keeps. The
/// bytes are not claimed, and the next call tries again.
///
/// While the device is lost, the call answers TG_ERROR_DEVICE_LOST. After tg_device_recover the bytes that went with the
/// device are claimed by the root of the loss, and the call answers TG_ERROR_UNWRITTEN, as for any other claim.
///
/// \param dev The device.
/// \param stream The stream.
/// \param dst Where to; may be NULL when dst_size is 0. Nothing else may use it during the call.
/// \param dst_size Bytes at dst; must be the size of the slice.
/// \param src The bytes to read; a size of 0 does nothing.
/// \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
/// \returns TG_OK; TG_TIMEOUT; TG_NOT_READY as tg_device_desc::max_pending and memory_cap say; TG_ERROR_UNWRITTEN when
///          some byte is claimed; TG_ERROR_INVALID_ARGUMENT;
///          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
///          TG_ERROR_WRONG_STATE while an open scope or mapping holds the bytes;
///          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread. Holds no other thread up.
/// \claims Nothing of the device's. Releases nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_buffer_read(
    dev: tg_device,
    stream: u64,
    dst: *mut c_void,
    dst_size: usize,
    src: tg_slice,
    timeout_ns: u64,
) -> tg_result {
    on_device("tg_buffer_read", dev, |device| {
        // SAFETY: the header asks for `dst_size` writable bytes that nothing else uses.
        let dst = unsafe { array_mut(dst.cast::<u8>(), dst_size, "dst") }?;
        device.buffer_read(stream, dst, src.into(), timeout_ns)
    })
}

/// Copies a slice to another, in the order of a stream.
///
/// Runs even if the source is partly claimed. Claimed bytes are copied like any others, and their claims with them, so the
/// destination is as good as the source, byte by byte. Offsets and sizes need no alignment.
///
/// \param dev The device.
/// \param stream The stream.
/// \param dst The bytes to write.
/// \param src The bytes to read; as many, and none of them in dst (VUID-vkCmdCopyBuffer-pRegions-00117). Two sizes of
///        0 do nothing; 0 and another size are misuse, as any two that differ.
/// \returns TG_OK; TG_SKIPPED when src or dst has no memory; TG_NOT_READY as tg_device_desc::max_pending says, and
///          nothing changed; TG_ERROR_INVALID_ARGUMENT, also for slices that overlap or differ in size;
///          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE while an open scope or mapping holds the bytes;
///          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread. Calls on one stream from several threads are in the order the device sees them.
/// \claims Each claimed byte of src hands its claim to its byte of dst; each clean one releases it. A source without
///         memory claims all of dst by its root. Failure claims all of dst, by a root of its own.
#[unsafe(no_mangle)]
pub extern "C" fn tg_buffer_copy(dev: tg_device, stream: u64, dst: tg_slice, src: tg_slice) -> tg_result {
    on_device("tg_buffer_copy", dev, |device| device.buffer_copy(stream, dst.into(), src.into()))
}

/// Fills a slice with a pattern, in the order of a stream.
///
/// \param dev The device.
/// \param stream The stream.
/// \param dst The bytes to write; a size of 0 does nothing, but the other arguments are checked all the same.
/// \param pattern The pattern in its low bytes, lowest byte first.
/// \param pattern_size Bytes of the pattern: 1, 2 or 4; anything else is misuse. The pattern begins at the first byte
///        of dst, which may lie anywhere; the size of dst must be a whole number of patterns. (What vkCmdFillBuffer
///        cannot fill, multiples of 4 only, goes through staging memory.)
/// \returns TG_OK; TG_SKIPPED when dst has no memory; TG_NOT_READY as tg_device_desc::max_pending and
///          memory_cap say, and nothing changed; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
///          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE while an open scope or mapping holds
///          the bytes; TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread. Calls on one stream from several threads are in the order the device sees them.
/// \claims Success releases exactly the bytes of dst. Failure claims them, by a root of its own.
#[unsafe(no_mangle)]
pub extern "C" fn tg_buffer_fill(
    dev: tg_device,
    stream: u64,
    dst: tg_slice,
    pattern: u32,
    pattern_size: u32,
) -> tg_result {
    on_device("tg_buffer_fill", dev, |device| device.buffer_fill(stream, dst.into(), pattern, pattern_size))
}

/// Maps a slice of memory that the host can see (TG_MEMORY_UPLOAD, TG_MEMORY_READBACK): gives the address of its
/// bytes.
///
/// Waits until the device is done with them: with what writes them, and for writing with what reads them too. Until
/// tg_buffer_unmap they are held: other work on them is TG_ERROR_WRONG_STATE, except that bytes mapped for reading may
/// be read by anyone. Other bytes of the buffer are free, and may be mapped as well.
///
/// Memory of TG_MEMORY_DEVICE is never mapped, not even where the host could see it: that would work on one device and
/// fail on the next. tg_buffer_read and tg_buffer_write reach it everywhere.
///
/// \param dev The device.
/// \param slice The bytes. For writing they must begin and end at multiples of tg_device_info::map_alignment, or end
///        with the buffer. A size of 0 maps nothing and gives NULL.
/// \param access TG_ACCESS_READ: the bytes are read only; TG_ACCESS_WRITE: every one of them is written and none is
///        read, what is there before is undefined; TG_ACCESS_READ_WRITE: they are as they were.
/// \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
/// \param out The address of the first byte, until tg_buffer_unmap; NULL unless TG_OK is returned. Must not be NULL.
/// \returns TG_OK; TG_TIMEOUT: the device is not done with the bytes, and nothing changed; TG_ERROR_UNWRITTEN for
///          TG_ACCESS_READ when some byte is claimed or there are none; TG_SKIPPED for the others: some byte that is
///          read first is claimed, or there are none; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer
///          and for a token; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE for TG_MEMORY_DEVICE, and while an open scope or mapping holds
///          some of the bytes; TG_ERROR_LIMIT_EXCEEDED for a slice that breaks map_alignment;
///          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
/// \threadsafety Any thread; the bytes may be used and unmapped on another. Holds no other thread up.
/// \claims TG_ACCESS_READ: nothing. Otherwise all bytes of the slice, by a provisional root of code TG_ERROR_TORN_DOWN
///         until they are unmapped; a skip hands the roots found to all of them; a failure claims them by a root of
///         its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_buffer_map(
    dev: tg_device,
    slice: tg_slice,
    access: u32,
    timeout_ns: u64,
    out: *mut *mut c_void,
) -> tg_result {
    // SAFETY: the header asks for NULL or a writable pointer.
    unsafe {
        making("tg_buffer_map", dev, out, std::ptr::null_mut(), |device, made| {
            let why = format_args!("{access} is no access that bytes are mapped for");
            let access = self::access(access).flatten().ok_or_else(|| misuse("access", why))?;
            *made = device.buffer_map(slice.into(), access, timeout_ns)?.cast();
            Ok(())
        })
    }
}

/// Ends a mapping: the address is no longer good, and the bytes are free.
///
/// It is named by its bytes, as everything else is: a handle that can be checked and a range, where an address could
/// not be told from one that was mapped before.
///
/// \param dev The device.
/// \param slice The bytes that were mapped, exactly. Bytes mapped for reading more than once are unmapped as often. A
///        size of 0 does nothing.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT for a slice beyond its buffer; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
///          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE when no mapping has exactly these
///          bytes; TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_DRIVER when what was written cannot be shown to the device;
///          TG_ERROR_DEVICE_LOST when the device was lost meanwhile, unless the bytes were only read. On a failure
///          they are unmapped too.
/// \threadsafety Any thread. No thread may use the address any more.
/// \claims Success releases exactly the bytes of the slice if they were mapped to be written: the caller's word that
///         it wrote every one. Failure claims them, by a root of its own, or by the loss.
#[unsafe(no_mangle)]
pub extern "C" fn tg_buffer_unmap(dev: tg_device, slice: tg_slice) -> tg_result {
    on_device("tg_buffer_unmap", dev, |device| device.buffer_unmap(slice.into()))
}
