//! The buffers of a device by handle, and the blocks behind them by key.

use super::handle::{Handle, HandleKind, HandleTable};
use super::hazard::{self, Growth, Hazards, Mark};
use super::pages::{PageLimits, Pages, Place, Purpose};
use super::source::{MemoryKind, PageSource};
use crate::error::Fault;
use crate::failure::{BlockKey, Blocks, Claims, Point, Use};
use crate::room::Room;
use slotmap::SlotMap;
use smallvec::SmallVec;

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
    crowded: Crowded,
}

/// Blocks with many ranges on record, some of which may be finished.
#[derive(Default)]
struct Crowded {
    /// All of them.
    blocks: Vec<BlockKey>,
    /// Those that are to be looked through at the next opportunity.
    due: Vec<BlockKey>,
    /// What was unfinished when all were last looked through: once it is over, all that they had then is.
    until: SmallVec<[Point; 8]>,
    /// How many were left when those that are gone were last left out.
    pruned: usize,
}

/// So many blocks that are gone may be listed.
const MANY_BLOCKS: usize = 64;

impl Crowded {
    fn note(&mut self, block: BlockKey, growth: Growth) {
        match growth {
            Growth::Little => {}
            Growth::Crowded => self.blocks.push(block),
            Growth::Due => self.due.push(block),
        }
    }
}

impl<S: PageSource> Memory<S> {
    /// Nothing yet.
    pub fn new(serial: u32, limits: PageLimits) -> Memory<S> {
        Memory {
            buffers: HandleTable::new(HandleKind::Buffer, serial),
            blocks: SlotMap::with_key(),
            pages: Pages::new(limits),
            crowded: Crowded::default(),
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
        self.put(block, place);
        Ok(())
    }

    /// The same, with a place that was taken for it.
    pub fn put(&mut self, key: BlockKey, place: Place) {
        let block = &mut self.blocks[key];
        self.pages.inherit(&place, &mut block.hazards);
        self.crowded.note(key, block.hazards.grown());
        block.place = Some(place);
    }

    /// Whether some block has many ranges on record.
    pub fn is_crowded(&self) -> bool {
        !self.crowded.blocks.is_empty() || !self.crowded.due.is_empty()
    }

    /// Forgets finished work on blocks with many ranges on record (what has to be over before is `is_past`). `now` tells
    /// what is unfinished.
    pub fn prune(
        &mut self,
        is_past: impl Fn(Point) -> bool,
        is_complete: impl Fn(Point) -> bool,
        now: impl FnOnce() -> SmallVec<[Point; 8]>,
    ) {
        let Crowded { blocks: crowded, due, until, pruned } = &mut self.crowded;
        let all = until.iter().all(|point| is_complete(*point));
        let mut forgot = false;
        let blocks = &mut self.blocks;
        let mut prune = |key: BlockKey| match blocks.get_mut(key) {
            Some(block) => {
                forgot |= block.hazards.prune(&is_past);
                block.hazards.is_crowded()
            }
            None => false,
        };
        if all {
            crowded.append(due);
            crowded.sort_unstable();
            crowded.dedup();
            crowded.retain(|key| prune(*key));
            until.clear();
            if !crowded.is_empty() {
                until.extend(now());
            }
        } else {
            crowded.extend(due.drain(..).filter(|key| prune(*key)));
            if crowded.len() > 2 * *pruned + MANY_BLOCKS {
                crowded.sort_unstable();
                crowded.dedup();
                crowded.retain(|key| self.blocks.contains_key(*key));
                *pruned = crowded.len();
            }
        }
        if forgot {
            self.pages.forget();
        }
    }

    /// How many ranges of live blocks are on record.
    pub fn ranges_on_record(&self) -> usize {
        self.blocks.values().map(|block| block.hazards.len()).sum()
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
                    let growth = hazard::record(&mut block.hazards, u.bytes.start, u.bytes.end, writes, mark);
                    self.crowded.note(u.bytes.block, growth);
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
}
