//! Indirect group counts, checked on the device: the host cannot see them, and a huge one hangs drivers.
//!
//! The three counts are copied to scratch memory, a kernel of ours zeroes them there when any exceeds its limit, and the
//! launch takes its counts from scratch. Copying first touches exactly the caller's twelve bytes; a descriptor over them
//! would have to begin at an aligned offset, and reach into bytes that other work may be writing. Each launch has scratch of
//! its own until it is over, so nothing but the steps of one launch has to be ordered.

use super::kernel::{Build, Kernel};
use super::pipelines::Pipelines;
use crate::error::Fault;
use crate::failure::Access;
use crate::stream::backend::{BindingInfo, KernelInfo};
use parking_lot::Mutex;
use std::sync::OnceLock;

const CODE: &[u8] = include_bytes!("../../shaders/checked_counts.spv");

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
