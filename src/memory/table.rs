//! The buffers of a device by handle, and the blocks behind them by key.

use super::handle::{Handle, HandleKind, HandleTable};
use super::hazard::{self, Hazards, Mark};
use super::pages::{PageLimits, Pages, Place, Purpose};
use super::source::{MemoryKind, PageSource};
use crate::error::Fault;
use crate::failure::{BlockKey, Blocks, Claims, Use};
use crate::room::Room;
use slotmap::SlotMap;

/// What backs one buffer: its claims, and where its bytes are.
pub struct Block {
    /// Which of its bytes can be trusted.
    pub claims: Claims,
    /// What is running on them.
    pub hazards: Hazards,
    /// Where they are; nothing for tokens and while unallocated.
    pub place: Option<Place>,
}

/// A buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// What backs it.
    pub block: BlockKey,
    /// Bytes.
    pub size: u64,
    /// Where its bytes are to lie; nothing for tokens.
    pub purpose: Option<Purpose>,
    /// The stream it was created on.
    pub stream: u64,
    /// The caller's number.
    pub tag: u64,
}

/// Buffers, blocks and pages.
pub struct Memory<S: PageSource> {
    /// By handle.
    pub buffers: HandleTable<Buffer>,
    /// By key.
    pub blocks: SlotMap<BlockKey, Block>,
    /// What the blocks lie in.
    pub pages: Pages<S>,
}

impl<S: PageSource> Memory<S> {
    /// Nothing yet.
    pub fn new(serial: u32, limits: PageLimits) -> Memory<S> {
        Memory {
            buffers: HandleTable::new(HandleKind::Buffer, serial),
            blocks: SlotMap::with_key(),
            pages: Pages::new(limits),
        }
    }

    /// Sees to room for so many more blocks.
    pub fn make_room(&mut self, more: usize) -> Result<(), Fault> {
        self.blocks.make_room(more)
    }

    /// Gives a block without bytes its place.
    pub fn place(
        &mut self,
        source: &S,
        block: BlockKey,
        purpose: Purpose,
        size: u64,
        complete: impl Fn(Mark) -> bool,
    ) -> Result<(), Fault> {
        let place = self.pages.allocate(source, purpose, size, complete)?;
        let block = &mut self.blocks[block];
        self.pages.inherit(&place, &mut block.hazards);
        block.place = Some(place);
        Ok(())
    }

    /// Takes a block out; its claims were shed. Its place stays taken where `held` says so of what runs on it: that is
    /// the answer then.
    pub fn remove(&mut self, block: BlockKey, held: impl FnOnce(&Hazards) -> bool) -> Option<(Place, Hazards)> {
        let Block { place, hazards, .. } = self.blocks.get_mut(block)?;
        let mut kept = None;
        if let Some(place) = place {
            if held(hazards) {
                kept = Some((*place, std::mem::take(hazards)));
            } else {
                self.pages.leave(place, hazards);
                self.pages.free(place);
            }
        }
        self.blocks.remove(block);
        kept
    }

    /// Whether the host may read the block's memory, or write it, directly.
    pub fn is_host_visible(&self, block: BlockKey) -> bool {
        let place = self.blocks.get(block).and_then(|block| block.place.as_ref());
        place.is_some_and(|place| self.pages.purpose(place.page).kind() != MemoryKind::Device)
    }

    /// Records that work uses the bytes. What is bound and not touched comes after nothing, but must stay there.
    pub fn mark(&mut self, uses: &[Use], mark: Mark) {
        for u in uses {
            if let Some(block) = self.blocks.get_mut(u.bytes.block)
                && let Some(place) = &block.place
            {
                let writes = u.access.writes();
                if writes || u.access.needs_bytes() {
                    hazard::record(&mut block.hazards, u.bytes.start, u.bytes.end, writes, mark);
                } else {
                    self.pages.bind(place.page, mark);
                }
            }
        }
    }

    /// The label of a buffer.
    pub fn label(&self, buffer: Handle) -> &str {
        self.buffers
            .get(buffer)
            .and_then(|buffer| self.blocks.get(buffer.block))
            .map_or("", |block| &block.claims.name.label)
    }
}

impl<S: PageSource> Blocks for Memory<S> {
    fn claims(&self, block: BlockKey) -> Option<&Claims> {
        self.blocks.get(block).map(|block| &block.claims)
    }

    fn claims_mut(&mut self, block: BlockKey) -> Option<&mut Claims> {
        self.blocks.get_mut(block).map(|block| &mut block.claims)
    }

    fn for_each(&self, see: &mut dyn FnMut(BlockKey, &Claims)) {
        let mut all: Vec<(BlockKey, &Claims)> = self.blocks.iter().map(|(key, block)| (key, &block.claims)).collect();
        all.sort_by_key(|(_, claims)| claims.name.serial);
        all.into_iter().for_each(|(key, claims)| see(key, claims));
    }
}
