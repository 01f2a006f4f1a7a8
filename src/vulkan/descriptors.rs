//! Descriptor sets where there are no push descriptors: cached, bounded, and keyed by what never repeats.
//!
//! Each recording has a cache of its own. Its sets are therefore in use exactly while the recording is, no lock is
//! needed, and a full cache can be dropped whole when the recording is taken back.

use super::device::Gpu;
use super::kernel::Kernel;
use super::memory::Page;
use crate::error::Fault;
use crate::stream::backend::Binding;
use ash::vk;
use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;
use std::hash::BuildHasher;

/// Sets a recording keeps for its next use; one that needed more starts anew.
const KEPT_SETS: usize = 4096;
const POOL_SETS: u32 = 256;
const POOL_DESCRIPTORS: u32 = 1024;

/// What a descriptor names: page serial, offset, size. Never a `VkBuffer`, whose value may return for another buffer.
type Place = (u64, u64, u64);

struct Entry {
    hash: u64,
    kernel: u64,
    places: SmallVec<[Place; 8]>,
    sets: SmallVec<[vk::DescriptorSet; 2]>,
}

struct Pool {
    raw: vk::DescriptorPool,
    room: (u32, u32),
    left: (u32, u32),
}

/// The descriptor sets of one recording.
#[derive(Default)]
pub(super) struct DescriptorCache {
    pools: Vec<Pool>,
    entries: HashTable<Entry>,
    hasher: DefaultHashBuilder,
}

impl DescriptorCache {
    /// The sets that bind `bindings` to `kernel`, made if they were not yet.
    pub(super) fn sets(
        &mut self,
        gpu: &Gpu,
        kernel: &Kernel,
        bindings: &[Binding<'_, Page>],
    ) -> Result<&[vk::DescriptorSet], Fault> {
        let places: SmallVec<[Place; 16]> =
            bindings.iter().map(|binding| (binding.page.serial(), binding.offset, binding.size)).collect();
        let hash = self.hasher.hash_one((kernel.serial(), &places[..]));
        let same = |entry: &Entry| entry.kernel == kernel.serial() && entry.places[..] == places[..];
        if self.entries.find(hash, same).is_none() {
            let sets = self.make(gpu, kernel, bindings)?;
            let entry = Entry { hash, kernel: kernel.serial(), places: SmallVec::from_slice(&places), sets };
            self.entries.insert_unique(hash, entry, |entry| entry.hash);
        }
        Ok(self.entries.find(hash, same).map_or(&[], |entry| &entry.sets))
    }

    fn make(
        &mut self,
        gpu: &Gpu,
        kernel: &Kernel,
        bindings: &[Binding<'_, Page>],
    ) -> Result<SmallVec<[vk::DescriptorSet; 2]>, Fault> {
        let layouts = kernel.set_layouts();
        let need = (layouts.len() as u32, bindings.len() as u32);
        let fits = |pool: &Pool| pool.left.0 >= need.0 && pool.left.1 >= need.1;
        let mut at = self.pools.iter().position(fits);
        let mut tries = 0;
        let sets = loop {
            let index = match at {
                Some(index) => index,
                None => {
                    self.pools.push(Pool::create(gpu, need)?);
                    self.pools.len() - 1
                }
            };
            let pool = &mut self.pools[index];
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool.raw).set_layouts(layouts);
            let mut sets: SmallVec<[vk::DescriptorSet; 2]> =
                SmallVec::from_elem(vk::DescriptorSet::null(), layouts.len());
            // SAFETY: pool and layouts are alive, the pool is this recording's alone, `sets` has room for each layout.
            let result =
                unsafe { (gpu.raw.fp_v1_0().allocate_descriptor_sets)(gpu.raw.handle(), &info, sets.as_mut_ptr()) };
            match result {
                vk::Result::SUCCESS => {
                    pool.left = (pool.left.0 - need.0, pool.left.1 - need.1);
                    break sets;
                }
                // The driver counts otherwise than we do: a fresh pool, once.
                vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL if tries == 0 => {
                    pool.left = (0, 0);
                    at = None;
                    tries = 1;
                }
                result => return Err(gpu.fault(result, "vkAllocateDescriptorSets", "for a launch")),
            }
        };
        kernel.with_writes(bindings, |writes| {
            let mut writes: SmallVec<[vk::WriteDescriptorSet<'_>; 8]> = SmallVec::from_slice(writes);
            for (write, run) in writes.iter_mut().zip(kernel.runs()) {
                write.dst_set = sets[run.set as usize];
            }
            // SAFETY: the sets were just allocated and are used by nothing; the buffers are alive.
            unsafe { gpu.raw.update_descriptor_sets(&writes, &[]) };
        });
        Ok(sets)
    }

    /// Called when nothing uses the sets any more: keeps them for the next time, unless they have become too many.
    pub(super) fn recycle(&mut self, gpu: &Gpu) {
        if self.entries.len() <= KEPT_SETS {
            return;
        }
        self.entries.clear();
        self.pools.retain_mut(|pool| {
            pool.left = pool.room;
            // SAFETY: no set of the pool is used by unfinished work.
            let result = unsafe { gpu.raw.reset_descriptor_pool(pool.raw, vk::DescriptorPoolResetFlags::empty()) };
            if let Err(result) = result {
                gpu.is_ok(result, "vkResetDescriptorPool");
                // SAFETY: as above; the pool is forgotten.
                unsafe { gpu.raw.destroy_descriptor_pool(pool.raw, None) };
            }
            result.is_ok()
        });
    }

    /// Called once, when the recording goes.
    pub(super) fn destroy(&mut self, gpu: &Gpu) {
        self.entries.clear();
        for pool in self.pools.drain(..) {
            // SAFETY: no set of the pool is used by unfinished work.
            unsafe { gpu.raw.destroy_descriptor_pool(pool.raw, None) };
        }
    }
}

impl Pool {
    fn create(gpu: &Gpu, need: (u32, u32)) -> Result<Pool, Fault> {
        let room = (need.0.max(POOL_SETS), need.1.max(POOL_DESCRIPTORS));
        let sizes = [vk::DescriptorPoolSize::default().ty(vk::DescriptorType::STORAGE_BUFFER).descriptor_count(room.1)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(room.0).pool_sizes(&sizes);
        // SAFETY: the device is alive.
        let raw = unsafe { gpu.raw.create_descriptor_pool(&info, None) }
            .map_err(|result| gpu.fault(result, "vkCreateDescriptorPool", "for a launch"))?;
        Ok(Pool { raw, room, left: room })
    }
}
