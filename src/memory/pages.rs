//! Pages taken from the device, and the blocks in them that back buffers.
//!
//! Making a buffer makes no call to the driver unless a page is needed. A freed block can be used again at once, on
//! any stream: what is still running on it stays in the page as hazards. Pages go back only when nothing is left on
//! them, on request or when memory is short.

use super::hazard::{self, Hazards, Mark};
use super::source::{MemoryKind, PageSource};
use crate::code::Code;
use crate::error::Fault;
use offset_allocator::{Allocation, Allocator};
use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;
use std::sync::Arc;

new_key_type! {
    /// A page.
    pub struct PageKey;
}

/// What a page is for. Staging has pages of its own, since the host writes and reads them outside of any stream's
/// order: a block of them is free only once its work completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Buffers of callers.
    Buffers(MemoryKind),
    /// Bytes on their way to the device.
    StagingUp,
    /// Bytes on their way to the host.
    StagingDown,
}

impl Purpose {
    const COUNT: usize = 5;

    /// The memory it takes.
    pub fn kind(self) -> MemoryKind {
        match self {
            Purpose::Buffers(kind) => kind,
            Purpose::StagingUp => MemoryKind::Upload,
            Purpose::StagingDown => MemoryKind::Readback,
        }
    }

    fn index(self) -> usize {
        match self {
            Purpose::Buffers(kind) => kind as usize,
            Purpose::StagingUp => 3,
            Purpose::StagingDown => 4,
        }
    }
}

/// Where a block lies.
#[derive(Clone, Copy)]
pub struct Place {
    /// The page.
    pub page: PageKey,
    /// Its first byte in the page.
    pub offset: u64,
    /// Its bytes, padding included.
    pub size: u64,
    part: Option<Allocation>,
}

struct Page<P> {
    page: Arc<P>,
    purpose: Purpose,
    size: u64,
    /// Nothing where one block has the whole page.
    space: Option<Allocator>,
    live: u32,
    /// What freed blocks left behind.
    residue: Hazards,
    /// The latest work of each slot that binds some of it without touching it.
    bound: SmallVec<[Mark; 2]>,
}

/// How much may be taken, and in which pieces.
#[derive(Clone, Debug)]
pub struct PageLimits {
    /// Alignment and padding of blocks.
    pub block_alignment: u64,
    /// The largest page the device can make.
    pub max_page: u64,
    /// Bytes of the heap of each kind.
    pub heap_size: [u64; 3],
    /// Bytes over all kinds, at the most.
    pub cap: u64,
    /// Give each block a page of its own.
    pub isolate: bool,
    /// The size of a shared page.
    pub page_size: u64,
}

/// What is in use of one kind of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Bytes taken from the device.
    pub reserved: u64,
    /// Bytes of live blocks.
    pub used: u64,
    /// The most `used` ever was.
    pub peak: u64,
}

/// All pages of a device.
pub struct Pages<S: PageSource> {
    pages: SlotMap<PageKey, Page<S::Page>>,
    by_purpose: [Vec<PageKey>; Purpose::COUNT],
    usage: [Usage; 3],
    /// How often it was forgotten what had run on some memory.
    forgotten: u64,
    /// Whether a freed block may have left anything behind.
    has_residue: bool,
    limits: PageLimits,
}

/// Nodes a page's suballocator keeps ready.
const MAX_BLOCKS: u32 = 16_384;

impl<S: PageSource> Pages<S> {
    /// No pages yet.
    pub fn new(limits: PageLimits) -> Pages<S> {
        Pages {
            pages: SlotMap::with_key(),
            by_purpose: Default::default(),
            forgotten: 0,
            has_residue: false,
            usage: Default::default(),
            limits,
        }
    }

    /// The page of a place.
    pub fn page(&self, key: PageKey) -> &Arc<S::Page> {
        &self.pages[key].page
    }

    /// What a page is for.
    pub fn purpose(&self, key: PageKey) -> Purpose {
        self.pages[key].purpose
    }

    /// Both.
    pub fn page_and_purpose(&self, key: PageKey) -> (&Arc<S::Page>, Purpose) {
        let page = &self.pages[key];
        (&page.page, page.purpose)
    }

    /// What is in use.
    pub fn usage(&self, kind: MemoryKind) -> Usage {
        self.usage[kind as usize]
    }

    /// The largest block that fits without taking a page.
    pub fn largest_free(&self, kind: MemoryKind) -> u64 {
        self.by_purpose[Purpose::Buffers(kind).index()]
            .iter()
            .map(|key| &self.pages[*key])
            .map(|page| match &page.space {
                Some(space) => u64::from(space.storage_report().largest_free_region) * self.limits.block_alignment,
                None if page.live == 0 => page.size,
                None => 0,
            })
            .max()
            .unwrap_or(0)
    }

    /// A block. What was there before may still run: [`inherit`](Self::inherit) tells.
    pub fn allocate(
        &mut self,
        source: &S,
        purpose: Purpose,
        size: u64,
        complete: impl Fn(Mark) -> bool,
    ) -> Result<Place, Fault> {
        let kind = purpose.kind();
        let most = self.limits.max_page.min(self.limits.heap_size[kind as usize]).min(self.limits.cap);
        let align = self.limits.block_alignment;
        let Some(padded) = size.checked_next_multiple_of(align).filter(|padded| *padded <= most) else {
            return Err(Fault::new(
                Code::OutOfDeviceMemory,
                format!("{size} bytes can never be allocated here: the most one buffer can have is {most} bytes"),
            ));
        };
        if let Some(found) = self.find(purpose, padded) {
            return Ok(found);
        }
        // Once after giving back what is idle: the driver, or the budget, may have room then.
        let fault = match self.grow(source, purpose, padded) {
            Ok(found) => return Ok(found),
            Err(fault) => fault,
        };
        let short = matches!(fault.code, Code::OutOfDeviceMemory | Code::OutOfHostMemory);
        if short && self.trim(source, complete) > 0 { self.grow(source, purpose, padded) } else { Err(fault) }
    }

    fn whole_page(&self, padded: u64) -> bool {
        self.limits.isolate || padded > self.limits.page_size / 2
    }

    fn find(&mut self, purpose: Purpose, padded: u64) -> Option<Place> {
        let whole = self.whole_page(padded);
        let units = (padded / self.limits.block_alignment) as u32;
        let mut found = None;
        for key in self.by_purpose[purpose.index()].iter().rev() {
            let page = &mut self.pages[*key];
            match &mut page.space {
                None if whole => {
                    let fits = page.live == 0 && page.size >= padded && page.size - padded <= padded / 4;
                    let exact = !self.limits.isolate || page.size == padded;
                    if fits && exact {
                        found = Some(Place { page: *key, offset: 0, size: page.size, part: None });
                        break;
                    }
                }
                Some(space) if !whole => {
                    if let Some(part) = space.allocate(units) {
                        let offset = u64::from(part.offset) * self.limits.block_alignment;
                        found = Some(Place { page: *key, offset, size: padded, part: Some(part) });
                        break;
                    }
                }
                _ => {}
            }
        }
        found.inspect(|place| self.occupy(place))
    }

    fn occupy(&mut self, place: &Place) {
        let page = &mut self.pages[place.page];
        page.live += 1;
        let usage = &mut self.usage[page.purpose.kind() as usize];
        usage.used += place.size;
        usage.peak = usage.peak.max(usage.used);
    }

    /// Moves what freed blocks left behind in a block's place to the block that has it now.
    pub fn inherit(&mut self, place: &Place, hazards: &mut Hazards) {
        if self.has_residue {
            let (start, end) = (place.offset, place.offset + place.size);
            hazard::transfer(&mut self.pages[place.page].residue, start, end, hazards, 0);
        }
    }

    fn grow(&mut self, source: &S, purpose: Purpose, padded: u64) -> Result<Place, Fault> {
        let kind = purpose.kind();
        let whole = self.whole_page(padded);
        let room = self.room(source, kind).saturating_sub(self.held_back(purpose));
        // A page for one small block is better than none when there is no room for a shared one.
        let (size, whole) = match whole {
            false
                if self.limits.page_size.min(self.limits.max_page) <= room
                    && self.limits.page_size <= self.limits.max_page =>
            {
                (self.limits.page_size, false)
            }
            _ => (padded, true),
        };
        if size > room {
            return Err(Fault::new(
                Code::OutOfDeviceMemory,
                format!("{size} bytes of {kind:?} memory are more than the {room} bytes left of the budget"),
            ));
        }
        let page = source.page_create(kind, size)?;
        let units = (size / self.limits.block_alignment) as u32;
        let space = if whole { None } else { Some(Allocator::with_max_allocs(units, units.min(MAX_BLOCKS))) };
        let residue = Hazards::default();
        let key = self.pages.insert(Page {
            page: Arc::new(page),
            purpose,
            size,
            space,
            live: 0,
            residue,
            bound: SmallVec::new(),
        });
        self.by_purpose[purpose.index()].push(key);
        self.usage[kind as usize].reserved += size;
        let part_of = |page: &mut Page<S::Page>| match &mut page.space {
            None => Some(None),
            Some(space) => space.allocate((padded / self.limits.block_alignment) as u32).map(Some),
        };
        match part_of(&mut self.pages[key]) {
            Some(part) => {
                let offset = part.map_or(0, |part| u64::from(part.offset) * self.limits.block_alignment);
                let place = Place { page: key, offset, size: if part.is_some() { padded } else { size }, part };
                self.occupy(&place);
                Ok(place)
            }
            None => Err(Fault::new(Code::Internal, "a fresh page has no room for the block it was made for")),
        }
    }

    /// Bytes left to staging by everything else, the other staging included: with memory full of buffers the host can
    /// still read them and write them, and neither waits for the other.
    fn held_back(&self, purpose: Purpose) -> u64 {
        let limits = &self.limits;
        let missing = |other: Purpose| {
            // What a piece of that size takes is padded.
            let share = (limits.cap.min(limits.heap_size[other.kind() as usize]) / 16)
                .next_multiple_of(limits.block_alignment)
                .min(limits.page_size);
            let has: u64 = self.by_purpose[other.index()].iter().map(|key| self.pages[*key].size).sum();
            share.saturating_sub(has)
        };
        [Purpose::StagingUp, Purpose::StagingDown].into_iter().filter(|other| *other != purpose).map(missing).sum()
    }

    /// Bytes that may still be taken for a kind: of the cap over everything, of its heap (kinds whose heaps have the
    /// same size are taken to share one), of what the driver says is left.
    fn room(&self, source: &S, kind: MemoryKind) -> u64 {
        let all: u64 = self.usage.iter().map(|usage| usage.reserved).sum();
        let heap = self.limits.heap_size[kind as usize];
        let on_heap: u64 = self
            .usage
            .iter()
            .zip(self.limits.heap_size)
            .filter(|(_, size)| *size == heap)
            .map(|(u, _)| u.reserved)
            .sum();
        let left = self.limits.cap.saturating_sub(all).min(heap.saturating_sub(on_heap));
        left.min(source.budget(kind).unwrap_or(u64::MAX))
    }

    /// Records that work binds a part of the page and touches none of it: the page stays until it is over.
    pub fn bind(&mut self, key: PageKey, mark: Mark) {
        let bound = &mut self.pages[key].bound;
        match bound.iter_mut().find(|earlier| earlier.point.slot == mark.point.slot) {
            Some(earlier) => *earlier = mark,
            None => bound.push(mark),
        }
    }

    /// How often it was forgotten so far what had run on some memory: pages went back to the device, whose memory may
    /// come again as another page's, or everything was over.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// It was forgotten what had run on some memory, all of which is over: one barrier stands for it.
    pub fn forget(&mut self) {
        self.forgotten += 1;
    }

    /// Whether freed blocks may have left anything behind.
    pub fn has_residue(&self) -> bool {
        self.has_residue
    }

    /// Forgets what freed blocks left behind, all of which is over: one barrier stands for it, and whoever takes the
    /// memory next does not have to carry it along.
    pub fn forget_residue(&mut self) {
        self.pages.values_mut().for_each(|page| page.residue = Hazards::default());
        self.has_residue = false;
        self.forgotten += 1;
    }

    /// What is running on a block that is to be freed stays in its page.
    pub fn leave(&mut self, place: &Place, hazards: &mut Hazards) {
        if !hazards.is_empty() {
            hazard::collapse(hazards);
            hazard::transfer(hazards, 0, place.size, &mut self.pages[place.page].residue, place.offset);
            self.has_residue = true;
        }
    }

    /// Gives a block back. Nothing runs on it, but for what was left.
    pub fn free(&mut self, place: &Place) {
        let page = &mut self.pages[place.page];
        page.live -= 1;
        self.usage[page.purpose.kind() as usize].used -= place.size;
        if let (Some(space), Some(part)) = (&mut page.space, place.part) {
            space.free(part);
        }
        if page.live == 0 {
            // Nobody will ask what ran where in an empty page, only whether it is all over.
            hazard::collapse(&mut page.residue);
        }
    }

    /// Destroys idle pages. Bytes given back.
    pub fn trim(&mut self, source: &S, complete: impl Fn(Mark) -> bool) -> u64 {
        let mut bytes = 0;
        let idle: Vec<PageKey> = self
            .pages
            .iter()
            .filter(|(_, page)| page.live == 0 && Arc::strong_count(&page.page) == 1)
            .filter(|(_, page)| {
                let mut done = true;
                hazard::conflicts(&page.residue, 0, u64::MAX, true, |mark| done &= complete(mark));
                done && page.bound.iter().all(|mark| complete(*mark))
            })
            .map(|(key, _)| key)
            .collect();
        for key in idle {
            let Some(page) = self.pages.remove(key) else {
                continue;
            };
            self.by_purpose[page.purpose.index()].retain(|other| *other != key);
            self.usage[page.purpose.kind() as usize].reserved -= page.size;
            bytes += page.size;
            self.forgotten += 1;
            if let Ok(page) = Arc::try_unwrap(page.page) {
                source.page_destroy(page);
            }
        }
        bytes
    }
}
