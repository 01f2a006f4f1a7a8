//! Indirect group counts, checked on the device: the host cannot see them, and a huge one hangs drivers.
//!
//! The three counts are copied to scratch memory, a kernel of ours zeroes them there when any exceeds its limit, and the
//! launch takes its counts from scratch. Copying first touches exactly the caller's twelve bytes; a descriptor over them
//! would have to begin at an aligned offset, and reach into bytes that other work may be writing. Scratch belongs to the
//! recording, and each launch in it has words of its own, so nothing but the steps of one launch has to be ordered.

use super::kernel::{Build, Kernel};
use super::memory::{Memory, Page};
use super::pipelines::Pipelines;
use crate::error::Fault;
use crate::failure::Access;
use crate::memory::MemoryKind;
use crate::stream::backend::{Binding, BindingInfo, KernelInfo};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

const CODE: &[u8] = include_bytes!("../../shaders/checked_counts.spv");

/// Bytes of three counts.
pub(super) const COUNTS_SIZE: u64 = 12;
/// Bytes of scratch taken at a time.
const SCRATCH_PAGE: u64 = 16 << 10;

/// The kernel that checks counts; made when the first indirect launch asks for it.
#[derive(Default)]
pub(super) struct CountCheck {
    kernel: OnceLock<Kernel>,
    making: Mutex<()>,
}

impl CountCheck {
    pub(super) fn kernel(&self, pipelines: &Pipelines, max_groups: [u32; 3]) -> Result<&Kernel, Fault> {
        if let Some(kernel) = self.kernel.get() {
            return Ok(kernel);
        }
        let _one_at_a_time = self.making.lock();
        if let Some(kernel) = self.kernel.get() {
            return Ok(kernel);
        }
        // A failure is not kept: the next launch tries again.
        let access = Access::ReadWrite;
        let binding = BindingInfo { set: 0, binding: 0, element: 0, access, coverage: None, name: "counts".into() };
        let info = KernelInfo { bindings: vec![binding], group_size: [1; 3], push_size: 0 };
        let words: Vec<u32> = CODE.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        let [x, y, z] = max_groups;
        let made = pipelines.build(&Build {
            words: &words,
            entry: "main",
            info: &info,
            constants: &[(0, x), (1, y), (2, z)],
            label: "tidegate: check group counts",
        })?;
        Ok(self.kernel.get_or_init(|| made))
    }
}

/// The scratch memory of one recording.
#[derive(Default)]
pub(super) struct Scratch {
    pages: Vec<Arc<Page>>,
    used: u64,
}

impl Scratch {
    /// Words that no launch of the recording has used yet, where a descriptor can begin.
    pub(super) fn take(&mut self, memory: &Arc<Memory>, binding_alignment: u64) -> Result<Binding<'_, Page>, Fault> {
        let stride = COUNTS_SIZE.next_multiple_of(binding_alignment);
        let per_page = (SCRATCH_PAGE / stride).max(1);
        let page = (self.used / per_page) as usize;
        if page == self.pages.len() {
            self.pages.push(Arc::new(memory.create_page(MemoryKind::Device, per_page * stride)?));
        }
        let offset = self.used % per_page * stride;
        self.used += 1;
        Ok(Binding { page: &self.pages[page], offset, size: COUNTS_SIZE })
    }

    /// Called when nothing uses the words any more.
    pub(super) fn recycle(&mut self) {
        self.used = 0;
    }
}
