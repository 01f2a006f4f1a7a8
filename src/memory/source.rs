//! Where pages come from: the part of a device that memory needs.

use crate::error::Fault;

/// Where a buffer's memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// Fast for the device; the host need not see it.
    Device,
    /// Written by the host, read by the device.
    Upload,
    /// Written by the device, read by the host (cached where the device has such memory).
    Readback,
}

/// A device that pages are taken from.
pub trait PageSource {
    /// Memory of the device; a whole buffer of Vulkan's.
    type Page: Send + Sync;

    /// Takes memory from the device.
    fn page_create(&self, kind: MemoryKind, size: u64) -> Result<Self::Page, Fault>;
    /// Gives memory back; no unfinished work touches it.
    fn page_destroy(&self, page: Self::Page);
    /// Writes host bytes into a page of kind `Upload`, visible to work submitted afterwards.
    fn page_write(&self, page: &Self::Page, offset: u64, bytes: &[u8]) -> Result<(), Fault>;
    /// Reads bytes that completed work left in a page of kind `Readback`.
    fn page_read(&self, page: &Self::Page, offset: u64, bytes: &mut [u8]) -> Result<(), Fault>;
    /// Where the host finds bytes of a page of kind `Upload` or `Readback`; they stay there as long as the page.
    fn page_address(&self, page: &Self::Page, offset: u64, size: u64) -> Result<*mut u8, Fault>;
    /// Shows the host, at that address, what completed work left in the bytes.
    fn page_invalidate(&self, page: &Self::Page, offset: u64, size: u64) -> Result<(), Fault>;
    /// Shows work submitted afterwards what the host wrote there.
    fn page_flush(&self, page: &Self::Page, offset: u64, size: u64) -> Result<(), Fault>;
    /// Where kernels that are handed an address find the first byte of a page; 0 where the device gives no addresses.
    fn page_device_address(&self, page: &Self::Page) -> u64;
    /// Bytes the driver says are still to be had for `kind`, where it says so.
    fn budget(&self, kind: MemoryKind) -> Option<u64>;
}
