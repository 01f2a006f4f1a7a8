//! Pages: buffers of Vulkan's, bound to memory that gpu-allocator takes from the device.
//!
//! The memory type of each kind is chosen here and gpu-allocator is held to it, because its own choice insists on
//! coherent host memory and cannot say beforehand which heap it will use. It also keeps the `VkResult` of a failure to
//! itself, and a fault must carry it; so the device it is given calls `vkAllocateMemory` and `vkMapMemory` through a
//! note-taker.

use super::device::Gpu;
use super::fault::with_code;
use super::{messages, physical};
use crate::code::Code;
use crate::error::Fault;
use crate::memory::MemoryKind;
use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};
use gpu_allocator::{AllocationError, AllocationSizes, AllocatorDebugSettings, MemoryLocation};
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Any buffer may be asked for its address, so every page has one where the device gives them.
fn usage(gpu: &Gpu) -> vk::BufferUsageFlags {
    use vk::BufferUsageFlags as Usage;
    let always = Usage::STORAGE_BUFFER | Usage::TRANSFER_SRC | Usage::TRANSFER_DST | Usage::INDIRECT_BUFFER;
    match gpu.probed.shader.buffer_device_address {
        true => always | Usage::SHADER_DEVICE_ADDRESS,
        false => always,
    }
}

/// What shaders take addresses to be multiples of unless they say otherwise.
pub(super) const ADDRESS_ALIGNMENT: u64 = 16;

/// Pages up to this size share allocations, because devices allow only a few thousand; larger ones have their own, so
/// that giving one back gives its memory back.
const SHARED_UP_TO: u64 = 1 << 20;
const SHARED_BLOCK: u64 = 4 << 20;

/// Page serials never repeat, not even across devices, so nothing keyed by one ever means another page.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

#[derive(Clone, Copy)]
struct Noted {
    allocate: Option<vk::PFN_vkAllocateMemory>,
    map: Option<vk::PFN_vkMapMemory>,
    result: vk::Result,
    function: &'static str,
}

thread_local! {
    static NOTED: Cell<Noted> =
        const { Cell::new(Noted { allocate: None, map: None, result: vk::Result::SUCCESS, function: "" }) };
}

fn note(result: vk::Result, function: &'static str) -> vk::Result {
    if result != vk::Result::SUCCESS {
        NOTED.set(Noted { result, function, ..NOTED.get() });
    }
    result
}

unsafe extern "system" fn allocate_noting(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    let Some(allocate) = NOTED.get().allocate else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: the arguments are those the caller passed for this very function.
    note(unsafe { allocate(device, info, callbacks, memory) }, "vkAllocateMemory")
}

unsafe extern "system" fn map_noting(
    device: vk::Device,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
    size: vk::DeviceSize,
    flags: vk::MemoryMapFlags,
    data: *mut *mut c_void,
) -> vk::Result {
    let Some(map) = NOTED.get().map else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: the arguments are those the caller passed for this very function.
    note(unsafe { map(device, memory, offset, size, flags, data) }, "vkMapMemory")
}

/// The memory type a kind of page comes from.
#[derive(Clone, Copy)]
struct Source {
    index: u32,
    heap: usize,
    heap_size: u64,
    flags: vk::MemoryPropertyFlags,
}

impl Source {
    fn is_coherent(&self) -> bool {
        self.flags.contains(vk::MemoryPropertyFlags::HOST_COHERENT)
    }
}

/// The device's memory, as pages.
pub(super) struct Memory {
    /// Before `gpu`: what it holds must be freed while the device lives.
    allocator: Mutex<Allocator>,
    sources: [Source; 3],
    atom: u64,
    max_size: u64,
    gpu: Arc<Gpu>,
}

/// One buffer of Vulkan's, bound to memory.
pub struct Page {
    buffer: vk::Buffer,
    allocation: Option<Allocation>,
    size: u64,
    serial: u64,
    /// Where shaders find it; 0 where the device gives no addresses.
    address: u64,
    source: Source,
    memory: Arc<Memory>,
}

impl Page {
    pub(super) fn device_address(&self) -> u64 {
        self.address
    }

    pub(super) fn buffer(&self) -> vk::Buffer {
        self.buffer
    }

    /// Names the page where a handle of Vulkan's could be one that was used before.
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    fn mapped(&self) -> Option<NonNull<u8>> {
        self.allocation.as_ref()?.mapped_ptr().map(NonNull::cast)
    }

    /// The bytes as a range of the allocation, widened to whole atoms as flushes need; the allocation is aligned and
    /// padded to atoms, so widening never leaves it.
    fn atoms(&self, offset: u64, size: u64) -> vk::MappedMemoryRange<'static> {
        let atom = self.memory.atom;
        let base = self.allocation.as_ref().map_or(0, Allocation::offset);
        let begin = (base + offset) / atom * atom;
        let end = (base + offset + size).div_ceil(atom) * atom;
        let memory = match &self.allocation {
            // SAFETY: the handle is only named in a flush, never freed or mapped behind the allocator's back.
            Some(allocation) => unsafe { allocation.memory() },
            None => vk::DeviceMemory::null(),
        };
        vk::MappedMemoryRange::default().memory(memory).offset(begin).size(end - begin)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: no unfinished work touches the page; it is destroyed once.
        unsafe { self.memory.gpu.raw.destroy_buffer(self.buffer, None) };
        if let Some(allocation) = self.allocation.take() {
            // Freeing fails only for an allocation of another allocator.
            let _ = self.memory.allocator.lock().free(allocation);
        }
    }
}

impl Memory {
    pub(super) fn create(gpu: Arc<Gpu>, max_size: u64) -> Result<Memory, Fault> {
        let usable = usable_types(&gpu)?;
        let source = |kind| choose(&gpu.probed.memory, usable, kind);
        let sources = [source(MemoryKind::Device)?, source(MemoryKind::Upload)?, source(MemoryKind::Readback)?];

        let fp = gpu.raw.fp_v1_0();
        let mut noting = fp.clone();
        noting.allocate_memory = allocate_noting;
        noting.map_memory = map_noting;
        let device = ash::Device::from_parts_1_3(
            gpu.raw.handle(),
            noting,
            gpu.raw.fp_v1_1().clone(),
            gpu.raw.fp_v1_2().clone(),
            gpu.raw.fp_v1_3().clone(),
        );
        let mut debug_settings = AllocatorDebugSettings::default();
        debug_settings.log_leaks_on_shutdown = false;
        let allocator = Allocator::new(&AllocatorCreateDesc {
            instance: gpu.instance.raw.clone(),
            device,
            physical_device: gpu.probed.physical,
            debug_settings,
            buffer_device_address: gpu.probed.shader.buffer_device_address,
            allocation_sizes: AllocationSizes::new(SHARED_BLOCK, SHARED_BLOCK),
        })
        .map_err(|error| Fault::new(Code::InitializationFailed, format!("the memory allocator: {error}")))?;
        Ok(Memory {
            allocator: Mutex::new(allocator),
            sources,
            atom: gpu.probed.limits.non_coherent_atom_size.max(1),
            max_size,
            gpu,
        })
    }

    /// Bytes of the heap each kind comes from.
    pub(super) fn heap_sizes(&self) -> [u64; 3] {
        self.sources.map(|source| source.heap_size)
    }

    /// What the host may write of each kind without touching its neighbours.
    pub(super) fn map_alignments(&self) -> [u64; 3] {
        self.sources.map(|source| if source.is_coherent() { 1 } else { self.atom })
    }

    fn source(&self, kind: MemoryKind) -> Source {
        self.sources[match kind {
            MemoryKind::Device => 0,
            MemoryKind::Upload => 1,
            MemoryKind::Readback => 2,
        }]
    }

    pub(super) fn create_page(self: &Arc<Memory>, kind: MemoryKind, size: u64) -> Result<Page, Fault> {
        messages::begin_operation();
        let source = self.source(kind);
        if size > self.max_size || size > source.heap_size {
            return Err(Fault::new(
                Code::OutOfDeviceMemory,
                format!(
                    "a page of {size} bytes can never fit: an allocation is limited to {} bytes, the heap has {}",
                    self.max_size, source.heap_size
                ),
            ));
        }
        let size = size.max(1).next_multiple_of(self.atom.max(4));
        let info = vk::BufferCreateInfo::default().size(size).usage(usage(&self.gpu));
        // SAFETY: the device is alive and the size is neither zero nor beyond its limits.
        let buffer = unsafe { self.gpu.raw.create_buffer(&info, None) }
            .map_err(|result| self.gpu.fault(result, "vkCreateBuffer", format_args!("for a page of {size} bytes")))?;
        let mut page = Page {
            buffer,
            allocation: None,
            size,
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            address: 0,
            source,
            memory: Arc::clone(self),
        };

        // SAFETY: the buffer is alive.
        let mut requirements = unsafe { self.gpu.raw.get_buffer_memory_requirements(buffer) };
        requirements.memory_type_bits &= 1 << source.index;
        requirements.alignment = requirements.alignment.max(self.atom.next_power_of_two()).max(ADDRESS_ALIGNMENT);
        requirements.size = requirements.size.next_multiple_of(self.atom);
        let scheme = if size > SHARED_UP_TO {
            AllocationScheme::DedicatedBuffer(buffer)
        } else {
            AllocationScheme::GpuAllocatorManaged
        };
        let desc = AllocationCreateDesc {
            name: "page",
            requirements,
            location: MemoryLocation::Unknown,
            linear: true,
            allocation_scheme: scheme,
        };
        let allocated = {
            let mut allocator = self.allocator.lock();
            let fp = self.gpu.raw.fp_v1_0();
            NOTED.set(Noted {
                allocate: Some(fp.allocate_memory),
                map: Some(fp.map_memory),
                result: vk::Result::SUCCESS,
                function: "",
            });
            allocator.allocate(&desc)
        };
        let allocation = allocated.map_err(|error| allocation_fault(&self.gpu, error, size))?;
        // SAFETY: the allocation was made for this buffer's requirements and nothing else is bound there.
        let bound = unsafe { self.gpu.raw.bind_buffer_memory(buffer, allocation.memory(), allocation.offset()) };
        page.allocation = Some(allocation);
        bound.map_err(|result| {
            self.gpu.fault(result, "vkBindBufferMemory", format_args!("for a page of {size} bytes"))
        })?;
        if self.gpu.probed.shader.buffer_device_address {
            let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
            // SAFETY: the feature is on, and the buffer is bound to memory and was made to have an address.
            page.address = unsafe { self.gpu.raw.get_buffer_device_address(&info) };
        }
        Ok(page)
    }

    pub(super) fn write(&self, page: &Page, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        messages::begin_operation();
        let target = host_address(page, offset, bytes.len())?;
        // SAFETY: the range lies in the mapped page, and no unfinished work and no other write touches it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.as_ptr(), bytes.len()) };
        self.flush(page, offset, bytes.len() as u64)
    }

    pub(super) fn read(&self, page: &Page, offset: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        messages::begin_operation();
        let source = host_address(page, offset, bytes.len())?;
        self.invalidate(page, offset, bytes.len() as u64)?;
        // SAFETY: the range lies in the mapped page, and the work that wrote it completed.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Where the host finds bytes of a page.
    pub(super) fn address(&self, page: &Page, offset: u64, size: u64) -> Result<*mut u8, Fault> {
        let size = usize::try_from(size).map_err(|_| Fault::new(Code::Internal, "a page beyond the host's memory"))?;
        Ok(host_address(page, offset, size)?.as_ptr())
    }

    /// Makes host writes visible to what is submitted afterwards.
    pub(super) fn flush(&self, page: &Page, offset: u64, size: u64) -> Result<(), Fault> {
        if page.source.is_coherent() || size == 0 {
            return Ok(());
        }
        let range = page.atoms(offset, size);
        // SAFETY: the range is mapped and made of whole atoms.
        let result = unsafe { (self.gpu.raw.fp_v1_0().flush_mapped_memory_ranges)(self.gpu.raw.handle(), 1, &range) };
        self.gpu.check(result, "vkFlushMappedMemoryRanges", || format_args!("after a host write"))
    }

    /// Makes what completed work wrote visible to the host.
    pub(super) fn invalidate(&self, page: &Page, offset: u64, size: u64) -> Result<(), Fault> {
        if page.source.is_coherent() || size == 0 {
            return Ok(());
        }
        let range = page.atoms(offset, size);
        // SAFETY: the range is mapped and made of whole atoms.
        let result =
            unsafe { (self.gpu.raw.fp_v1_0().invalidate_mapped_memory_ranges)(self.gpu.raw.handle(), 1, &range) };
        self.gpu.check(result, "vkInvalidateMappedMemoryRanges", || format_args!("before a host read"))
    }

    pub(super) fn budget(&self, kind: MemoryKind) -> Option<u64> {
        if !self.gpu.probed.memory_budget {
            return None;
        }
        physical::heap_budget(&self.gpu.instance, self.gpu.probed.physical, self.source(kind).heap)
    }
}

/// Where the host finds bytes of a page.
fn host_address(page: &Page, offset: u64, len: usize) -> Result<NonNull<u8>, Fault> {
    let inside = offset.checked_add(len as u64).is_some_and(|end| end <= page.size);
    match page.mapped() {
        // SAFETY: the offset lies in the page, all of which is mapped.
        Some(base) if inside => Ok(unsafe { base.add(offset as usize) }),
        Some(_) => {
            Err(Fault::new(Code::Internal, format!("bytes {offset}+{len} are outside a page of {} bytes", page.size)))
        }
        None => Err(Fault::new(Code::Internal, "the page's memory is not visible to the host")),
    }
}

fn allocation_fault(gpu: &Gpu, error: AllocationError, size: u64) -> Fault {
    let Noted { result, function, .. } = NOTED.get();
    if result != vk::Result::SUCCESS {
        return gpu.fault(result, function, format_args!("for a page of {size} bytes"));
    }
    match error {
        AllocationError::OutOfMemory => Fault::new(
            Code::OutOfDeviceMemory,
            format!("a page of {size} bytes is larger than the heap; the driver was not asked"),
        ),
        AllocationError::FailedToMap(_) => with_code(
            Code::Driver,
            vk::Result::ERROR_MEMORY_MAP_FAILED,
            "vkMapMemory",
            format_args!("for a page of {size} bytes: {error}"),
        ),
        error => Fault::new(Code::Driver, format!("no memory for a page of {size} bytes: {error}")),
    }
}

/// Memory types that can back a page; the same for every size, so one small buffer tells.
fn usable_types(gpu: &Gpu) -> Result<u32, Fault> {
    let info = vk::BufferCreateInfo::default().size(64).usage(usage(gpu));
    // SAFETY: the device is alive.
    let buffer = unsafe { gpu.raw.create_buffer(&info, None) }
        .map_err(|result| gpu.fault(result, "vkCreateBuffer", "while choosing memory types"))?;
    // SAFETY: the buffer is alive, and destroyed once.
    let requirements = unsafe { gpu.raw.get_buffer_memory_requirements(buffer) };
    // SAFETY: as above.
    unsafe { gpu.raw.destroy_buffer(buffer, None) };
    Ok(requirements.memory_type_bits)
}

fn choose(memory: &vk::PhysicalDeviceMemoryProperties, usable: u32, kind: MemoryKind) -> Result<Source, Fault> {
    use vk::MemoryPropertyFlags as Flags;
    // Protected, lazily allocated and device-coherent memory all need features of their own.
    let strange = Flags::PROTECTED
        | Flags::LAZILY_ALLOCATED
        | Flags::DEVICE_COHERENT_AMD
        | Flags::DEVICE_UNCACHED_AMD
        | Flags::RDMA_CAPABLE_NV;
    let (needed, score): (Flags, fn(Flags) -> u32) = match kind {
        // Memory the host cannot see is the device's own; a mappable window into it is often small.
        MemoryKind::Device => (Flags::empty(), |flags| {
            4 * u32::from(flags.contains(Flags::DEVICE_LOCAL)) + u32::from(!flags.contains(Flags::HOST_VISIBLE))
        }),
        MemoryKind::Upload => (Flags::HOST_VISIBLE, |flags| {
            4 * u32::from(flags.contains(Flags::HOST_COHERENT))
                + 2 * u32::from(!flags.contains(Flags::DEVICE_LOCAL))
                + u32::from(!flags.contains(Flags::HOST_CACHED))
        }),
        MemoryKind::Readback => (Flags::HOST_VISIBLE, |flags| {
            4 * u32::from(flags.contains(Flags::HOST_CACHED))
                + 2 * u32::from(flags.contains(Flags::HOST_COHERENT))
                + u32::from(!flags.contains(Flags::DEVICE_LOCAL))
        }),
    };
    let mut best: Option<(u32, Source)> = None;
    for (index, memory_type) in memory.memory_types_as_slice().iter().enumerate() {
        let flags = memory_type.property_flags;
        if usable & (1 << index) == 0 || !flags.contains(needed) || flags.intersects(strange) {
            continue;
        }
        let heap = memory_type.heap_index as usize;
        let source = Source { index: index as u32, heap, heap_size: memory.memory_heaps[heap].size, flags };
        let score = score(flags);
        // The first of equals: drivers list their types in order of preference.
        if best.is_none_or(|(best, _)| score > best) {
            best = Some((score, source));
        }
    }
    best.map(|(_, source)| source)
        .ok_or_else(|| Fault::new(Code::Unsupported, format!("the device has no memory for {kind:?} buffers")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk::MemoryPropertyFlags as Flags;

    fn memory(types: &[Flags]) -> vk::PhysicalDeviceMemoryProperties {
        let mut memory = vk::PhysicalDeviceMemoryProperties {
            memory_type_count: types.len() as u32,
            memory_heap_count: 1,
            ..Default::default()
        };
        memory.memory_heaps[0].size = 1 << 30;
        for (i, flags) in types.iter().enumerate() {
            memory.memory_types[i].property_flags = *flags;
        }
        memory
    }

    #[test]
    fn a_discrete_device_gets_a_type_for_each_kind() {
        let discrete = memory(&[
            Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE | Flags::HOST_COHERENT,
            Flags::HOST_VISIBLE | Flags::HOST_COHERENT,
            Flags::HOST_VISIBLE | Flags::HOST_CACHED,
            Flags::DEVICE_LOCAL,
            Flags::DEVICE_LOCAL | Flags::PROTECTED,
        ]);
        let pick = |kind| choose(&discrete, u32::MAX, kind).map(|source| source.index);
        assert_eq!(pick(MemoryKind::Device), Ok(3));
        assert_eq!(pick(MemoryKind::Upload), Ok(1));
        assert_eq!(pick(MemoryKind::Readback), Ok(2));
    }

    #[test]
    fn one_type_serves_all_and_none_is_said() {
        let software = memory(&[Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE | Flags::HOST_COHERENT | Flags::HOST_CACHED]);
        for kind in [MemoryKind::Device, MemoryKind::Upload, MemoryKind::Readback] {
            assert_eq!(choose(&software, 1, kind).map(|source| source.index), Ok(0));
            assert_eq!(choose(&software, 0, kind).err().map(|fault| fault.code), Some(Code::Unsupported));
        }
    }
}
