//! Pages taken from the device, and the blocks in them that back buffers.
//!
//! Making a buffer makes no call to the driver unless a page is needed. A freed block can be used again at once, on
//! any stream: what is still running on it stays in the page as hazards. A page goes back when nothing is left on it and
//! there is another such page of its kind; the last one on request, or when memory is short.
//!
//! Whatever there is of pages, one is found by what it has free, in logarithmic time.

use super::free_list::FreeList;
use super::hazard::{self, Hazards, Mark};
use super::source::{MemoryKind, PageSource};
use crate::code::Code;
use crate::error::Fault;
use crate::room::Room;
use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
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
    /// What an indirect launch checks its counts in, one launch and no other until it is over.
    Scratch,
}

impl Purpose {
    const COUNT: usize = 6;

    /// The memory it takes.
    pub fn kind(self) -> MemoryKind {
        match self {
            Purpose::Buffers(kind) => kind,
            Purpose::StagingUp => MemoryKind::Upload,
            Purpose::StagingDown => MemoryKind::Readback,
            Purpose::Scratch => MemoryKind::Device,
        }
    }

    fn index(self) -> usize {
        match self {
            Purpose::Buffers(kind) => kind as usize,
            Purpose::StagingUp => 3,
            Purpose::StagingDown => 4,
            Purpose::Scratch => 5,
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
}

/// How a page is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Among blocks that are well below its size.
    Shared,
    /// One block has all of it.
    Whole,
}

impl Form {
    const ALL: [Form; 2] = [Form::Shared, Form::Whole];
}

struct Page<P> {
    page: Arc<P>,
    purpose: Purpose,
    form: Form,
    size: u64,
    /// Counts pages, so that those with as much room are found in the order in which they were made.
    number: u64,
    /// Nothing where one block has the whole page.
    space: Option<FreeList>,
    /// How large a block it has room for, as its shelf knows it; 0: it is on none.
    room: u64,
    live: u32,
    /// Since when it is idle: when it came to be, among others, and how often it was looked for such pages before.
    idle: Option<(u64, u64)>,
    /// What freed blocks left behind.
    residue: Hazards,
    /// It is on the list of those with a residue.
    is_listed: bool,
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

/// The pages of one purpose and form.
#[derive(Default)]
struct Shelf {
    /// Those with room for a block: by the size of the largest, or up to twice as much, then by number.
    with_room: BTreeMap<(u64, u64), PageKey>,
    /// Those that are idle, in the order in which they came to be.
    idle: BTreeMap<u64, PageKey>,
}

/// All pages of a device.
pub struct Pages<S: PageSource> {
    pages: SlotMap<PageKey, Page<S::Page>>,
    shelves: [[Shelf; Form::ALL.len()]; Purpose::COUNT],
    /// Bytes of each purpose's pages.
    reserved: [u64; Purpose::COUNT],
    usage: [Usage; 3],
    /// Pages made, and times that one became idle.
    numbers: u64,
    /// How often it was looked for idle pages.
    looks: u64,
    /// Idle pages beyond the last of each shelf.
    surplus: usize,
    /// How often it was forgotten what had run on some memory.
    forgotten: u64,
    /// The pages in which freed blocks may have left anything behind.
    with_residue: BTreeSet<PageKey>,
    limits: PageLimits,
    /// Pages that a block was looked for in.
    #[cfg(test)]
    looked_at: u64,
}

/// How often it is looked for idle pages before staging for writes goes back: the next long write needs it again, and memory
/// that is touched for the first time costs more than the copy.
const STAGING_LOOKS: u64 = 64;

impl<S: PageSource> Pages<S> {
    /// No pages yet.
    pub fn new(limits: PageLimits) -> Pages<S> {
        Pages {
            pages: SlotMap::with_key(),
            shelves: Default::default(),
            reserved: [0; Purpose::COUNT],
            numbers: 0,
            looks: 0,
            surplus: 0,
            forgotten: 0,
            with_residue: BTreeSet::new(),
            usage: Default::default(),
            limits,
            #[cfg(test)]
            looked_at: 0,
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
        let mut largest = 0;
        for shelf in &self.shelves[Purpose::Buffers(kind).index()] {
            for ((room, _), key) in shelf.with_room.iter().rev() {
                if *room <= largest {
                    break;
                }
                largest = largest.max(self.pages[*key].largest());
            }
        }
        largest
    }

    /// The most one block can have.
    fn most(&self, purpose: Purpose) -> u64 {
        self.limits.max_page.min(self.limits.heap_size[purpose.kind() as usize]).min(self.limits.cap)
    }

    fn padded(&self, purpose: Purpose, size: u64) -> Option<u64> {
        let padded = size.checked_next_multiple_of(self.limits.block_alignment)?;
        (padded <= self.most(purpose)).then_some(padded)
    }

    /// Whether a block can ever be as large.
    pub fn can_hold(&self, purpose: Purpose, size: u64) -> bool {
        self.padded(purpose, size).is_some()
    }

    /// A block. What was there before may still run: [`inherit`](Self::inherit) tells.
    pub fn allocate(
        &mut self,
        source: &S,
        purpose: Purpose,
        size: u64,
        complete: impl Fn(Mark) -> bool,
    ) -> Result<Place, Fault> {
        let most = self.most(purpose);
        let Some(padded) = self.padded(purpose, size) else {
            return Err(Fault::new(
                Code::OutOfDeviceMemory,
                format!("{size} bytes can never be allocated here: the most one buffer can have is {most} bytes"),
            ));
        };
        if let Some(found) = self.find(purpose, padded) {
            return Ok(found);
        }
        // Once more after giving back what is idle: the driver, or the budget, may have room then. Or it has room again.
        let fault = match self.grow(source, purpose, padded) {
            Ok(found) => return Ok(found),
            Err(fault) => fault,
        };
        if !matches!(fault.code, Code::OutOfDeviceMemory | Code::OutOfHostMemory) {
            return Err(fault);
        }
        self.trim(source, complete);
        self.grow(source, purpose, padded)
    }

    /// How a block is to be placed.
    fn form(&self, padded: u64) -> Form {
        if self.limits.isolate || padded > self.limits.page_size / 2 { Form::Whole } else { Form::Shared }
    }

    fn find(&mut self, purpose: Purpose, padded: u64) -> Option<Place> {
        match self.form(padded) {
            Form::Whole => {
                let most = if self.limits.isolate { padded } else { padded.saturating_add(padded / 4) };
                let key = self.least(purpose, Form::Whole, padded).filter(|key| self.pages[*key].size <= most)?;
                self.take(key, padded)
            }
            Form::Shared => loop {
                let key = self.least(purpose, Form::Shared, padded)?;
                match self.take(key, padded) {
                    // It has less room than its shelf took it to have.
                    None => self.put_exactly(key),
                    place => return place,
                }
            },
        }
    }

    /// The page with the least room that is enough.
    fn least(&self, purpose: Purpose, form: Form, padded: u64) -> Option<PageKey> {
        let shelf = &self.shelves[purpose.index()][form as usize];
        shelf.with_room.range((Bound::Included((padded, 0)), Bound::Unbounded)).next().map(|(_, key)| *key)
    }

    /// A block of a page that has room for it.
    fn take(&mut self, key: PageKey, padded: u64) -> Option<Place> {
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
        let page = &mut self.pages[key];
        let place = match &mut page.space {
            None => Place { page: key, offset: 0, size: page.size },
            Some(space) => Place { page: key, offset: space.take(padded)?, size: padded },
        };
        self.occupy(&place);
        Some(place)
    }

    /// Puts a page where its room belongs, if its shelf is off by half. A shelf may take a page to have more room than it
    /// has, and never less: so a buffer that is made and destroyed by turns moves no page.
    fn put(&mut self, key: PageKey) {
        let page = &self.pages[key];
        let room = page.largest();
        if room > page.room || room <= page.room / 2 {
            self.put_exactly(key);
        }
    }

    fn put_exactly(&mut self, key: PageKey) {
        let page = &mut self.pages[key];
        let room = page.largest();
        if room != page.room {
            let shelf = &mut self.shelves[page.purpose.index()][page.form as usize];
            shelf.with_room.remove(&(page.room, page.number));
            page.room = room;
            if room > 0 {
                shelf.with_room.insert((room, page.number), key);
            }
        }
    }

    /// Whether a page is idle, as its shelf is to know it.
    fn set_idle(&mut self, key: PageKey, is_idle: bool) {
        let page = &mut self.pages[key];
        if page.idle.is_some() == is_idle {
            return;
        }
        let shelf = &mut self.shelves[page.purpose.index()][page.form as usize];
        match page.idle.take() {
            Some((number, _)) => {
                shelf.idle.remove(&number);
                self.surplus -= usize::from(!shelf.idle.is_empty());
            }
            None => {
                self.numbers += 1;
                self.surplus += usize::from(!shelf.idle.is_empty());
                page.idle = Some((self.numbers, self.looks));
                shelf.idle.insert(self.numbers, key);
            }
        }
    }

    fn occupy(&mut self, place: &Place) {
        let page = &mut self.pages[place.page];
        page.live += 1;
        let usage = &mut self.usage[page.purpose.kind() as usize];
        usage.used += place.size;
        usage.peak = usage.peak.max(usage.used);
        self.set_idle(place.page, false);
        self.put(place.page);
    }

    /// Moves what freed blocks left behind in a block's place to the block that has it now.
    pub fn inherit(&mut self, place: &Place, hazards: &mut Hazards) {
        if self.has_residue() {
            let (start, end) = (place.offset, place.offset + place.size);
            hazard::transfer(&mut self.pages[place.page].residue, start, end, hazards, 0);
        }
    }

    fn grow(&mut self, source: &S, purpose: Purpose, padded: u64) -> Result<Place, Fault> {
        let kind = purpose.kind();
        let room = self.room(source, kind).saturating_sub(self.held_back(purpose));
        let mut shared = self.limits.page_size.min(self.limits.max_page);
        // Where memory runs out, a smaller page is still shared: a page for each small block would be thousands.
        while shared > room && shared / 2 >= padded {
            shared /= 2;
        }
        let (size, form) = match self.form(padded) {
            Form::Shared if shared >= padded && shared <= room => (shared, Form::Shared),
            _ => (padded, Form::Whole),
        };
        if size > room {
            return Err(Fault::new(
                Code::OutOfDeviceMemory,
                format!("{size} bytes of {kind:?} memory are more than the {room} bytes left of the budget"),
            ));
        }
        self.pages.make_room(1)?;
        let page = source.page_create(kind, size)?;
        let space = if form == Form::Whole { None } else { Some(FreeList::new(size)) };
        self.numbers += 1;
        let key = self.pages.insert(Page {
            page: Arc::new(page),
            purpose,
            form,
            size,
            number: self.numbers,
            space,
            room: 0,
            live: 0,
            idle: None,
            residue: Hazards::default(),
            is_listed: false,
            bound: SmallVec::new(),
        });
        self.reserved[purpose.index()] += size;
        self.usage[kind as usize].reserved += size;
        let no_room = || Fault::new(Code::Internal, "a fresh page has no room for the block it was made for");
        self.take(key, padded).ok_or_else(no_room)
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
            share.saturating_sub(self.reserved[other.index()])
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
        !self.with_residue.is_empty()
    }

    /// Forgets what freed blocks left behind, all of which is over: one barrier stands for it, and the
    /// next block there does not have to carry it along.
    pub fn forget_residue(&mut self) {
        for key in std::mem::take(&mut self.with_residue) {
            if let Some(page) = self.pages.get_mut(key) {
                page.residue = Hazards::default();
                page.is_listed = false;
            }
        }
        self.forgotten += 1;
    }

    /// What is running on a block that is to be freed stays in its page.
    pub fn leave(&mut self, place: &Place, hazards: &mut Hazards) {
        if !hazards.is_empty() {
            hazard::collapse(hazards);
            let page = &mut self.pages[place.page];
            hazard::transfer(hazards, 0, place.size, &mut page.residue, place.offset);
            if !std::mem::replace(&mut page.is_listed, true) {
                self.with_residue.insert(place.page);
            }
        }
    }

    /// Gives a block back. Nothing runs on it, but for what was left.
    pub fn free(&mut self, place: &Place) {
        let page = &mut self.pages[place.page];
        page.live -= 1;
        self.usage[page.purpose.kind() as usize].used -= place.size;
        if let Some(space) = &mut page.space {
            space.give(place.offset, place.size);
        }
        let is_idle = page.live == 0;
        if is_idle {
            // No call asks what ran where in an empty page, only whether it is all over.
            hazard::collapse(&mut page.residue);
        }
        self.put(place.page);
        if is_idle {
            self.set_idle(place.page, true);
        }
    }

    /// Calls `see` with all that still has to be over before idle pages can go back.
    pub fn behind_idle(&self, mut see: impl FnMut(Mark)) {
        for key in self.shelves.iter().flatten().flat_map(|shelf| shelf.idle.values()) {
            self.pages[*key].behind(&mut see);
        }
    }

    /// It is about to be looked what is over.
    pub fn look(&mut self) {
        self.looks += 1;
    }

    /// Destroys the idle pages that are not the last of their kind, looking at `most` of them at the most.
    pub fn give_back(&mut self, source: &S, most: usize, complete: impl Fn(Mark) -> bool) {
        if self.surplus == 0 {
            return;
        }
        let mut left = most;
        for purpose in 0..Purpose::COUNT {
            for form in Form::ALL {
                let idle = &self.shelves[purpose][form as usize].idle;
                let surplus = idle.len().saturating_sub(1);
                let keys: SmallVec<[PageKey; 8]> = idle.values().take(surplus.min(left)).copied().collect();
                left -= keys.len();
                for key in keys {
                    let page = &self.pages[key];
                    let waits = purpose == Purpose::StagingUp.index()
                        && page.idle.is_some_and(|(_, since)| self.looks - since < STAGING_LOOKS);
                    if !waits && page.is_over(&complete) {
                        self.destroy(source, key);
                    }
                }
            }
        }
    }

    /// Destroys idle pages. Bytes given back.
    pub fn trim(&mut self, source: &S, complete: impl Fn(Mark) -> bool) -> u64 {
        let idle = self.shelves.iter().flatten().flat_map(|shelf| shelf.idle.values());
        let over: Vec<PageKey> = idle.filter(|key| self.pages[**key].is_over(&complete)).copied().collect();
        over.into_iter().map(|key| self.destroy(source, key)).sum()
    }

    fn destroy(&mut self, source: &S, key: PageKey) -> u64 {
        self.set_idle(key, false);
        let Some(page) = self.pages.remove(key) else { return 0 };
        self.with_residue.remove(&key);
        self.shelves[page.purpose.index()][page.form as usize].with_room.remove(&(page.room, page.number));
        self.reserved[page.purpose.index()] -= page.size;
        self.usage[page.purpose.kind() as usize].reserved -= page.size;
        self.forgotten += 1;
        let Page { page, size, .. } = page;
        if let Ok(page) = Arc::try_unwrap(page) {
            source.page_destroy(page);
        }
        size
    }
}

impl<P> Page<P> {
    /// The largest block it has room for.
    fn largest(&self) -> u64 {
        match &self.space {
            Some(space) => space.largest(),
            None if self.live == 0 => self.size,
            None => 0,
        }
    }

    /// Calls `see` with all that ran on it, as far as it is remembered.
    fn behind(&self, see: &mut impl FnMut(Mark)) {
        hazard::conflicts(&self.residue, 0, u64::MAX, true, &mut *see);
        self.bound.iter().for_each(|mark| see(*mark));
    }

    /// Whether nothing runs on it, and nothing has it in hand.
    fn is_over(&self, complete: impl Fn(Mark) -> bool) -> bool {
        let mut over = Arc::strong_count(&self.page) == 1;
        self.behind(&mut |mark| over = over && complete(mark));
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Point;
    use std::cell::Cell;

    /// A device that counts what is asked of it.
    #[derive(Default)]
    struct Source {
        asked: Cell<u64>,
        live: Cell<u64>,
        /// How many more pages it refuses.
        refuses: Cell<u64>,
    }

    impl PageSource for Source {
        type Page = u64;

        fn page_create(&self, _: MemoryKind, size: u64) -> Result<u64, Fault> {
            self.asked.set(self.asked.get() + 1);
            if self.refuses.get() > 0 {
                self.refuses.set(self.refuses.get() - 1);
                return Err(Fault::new(Code::OutOfDeviceMemory, "not now"));
            }
            self.live.set(self.live.get() + size);
            Ok(size)
        }
        fn page_destroy(&self, page: u64) {
            self.live.set(self.live.get() - page);
        }
        fn page_write(&self, _: &u64, _: u64, _: &[u8]) -> Result<(), Fault> {
            Ok(())
        }
        fn page_read(&self, _: &u64, _: u64, _: &mut [u8]) -> Result<(), Fault> {
            Ok(())
        }
        fn page_address(&self, _: &u64, _: u64, _: u64) -> Result<*mut u8, Fault> {
            Ok(std::ptr::null_mut())
        }
        fn page_invalidate(&self, _: &u64, _: u64, _: u64) -> Result<(), Fault> {
            Ok(())
        }
        fn page_flush(&self, _: &u64, _: u64, _: u64) -> Result<(), Fault> {
            Ok(())
        }
        fn page_device_address(&self, _: &u64) -> u64 {
            0
        }
        fn budget(&self, _: MemoryKind) -> Option<u64> {
            None
        }
    }

    const DEVICE: Purpose = Purpose::Buffers(MemoryKind::Device);
    const PAGE: u64 = 16 << 20;

    fn pages(isolate: bool) -> Pages<Source> {
        Pages::new(PageLimits {
            block_alignment: 64,
            max_page: 1 << 30,
            heap_size: [1 << 40; 3],
            cap: 1 << 41,
            isolate,
            page_size: PAGE,
        })
    }

    fn take(pages: &mut Pages<Source>, source: &Source, size: u64) -> Place {
        pages.allocate(source, DEVICE, size, |_| true).expect("a block")
    }

    #[test]
    fn blocks_fill_their_pages_however_small_they_are() {
        for size in [64, 640, 2000] {
            let (source, mut pages) = (Source::default(), pages(false));
            let padded = u64::next_multiple_of(size, 64);
            let count = 2 * PAGE / padded;
            let places: Vec<Place> = (0..count).map(|_| take(&mut pages, &source, size)).collect();
            let (used, reserved) = (pages.usage(MemoryKind::Device).used, pages.usage(MemoryKind::Device).reserved);
            assert_eq!(used, count * padded);
            assert!(reserved <= used + used / 8 + PAGE, "{size}: {reserved} bytes for {used}");
            // Holes are as good: every other block goes, and as many come.
            places.iter().step_by(2).for_each(|place| pages.free(place));
            let asked = source.asked.get();
            for _ in places.iter().step_by(2) {
                take(&mut pages, &source, size);
            }
            assert_eq!(source.asked.get(), asked, "{size}: there was room");
        }
    }

    #[test]
    fn the_last_idle_page_of_each_kind_stays() {
        let (source, mut pages) = (Source::default(), pages(false));
        for size in [100, 1 << 20, 40 << 20] {
            let places: Vec<Place> = (0..(3 * PAGE / size).max(4)).map(|_| take(&mut pages, &source, size)).collect();
            places.iter().for_each(|place| pages.free(place));
            let before = source.live.get();
            pages.give_back(&source, usize::MAX, |_| true);
            assert!(source.live.get() < before, "{size}");
        }
        assert_eq!(source.live.get(), PAGE + (40 << 20), "a shared page, a whole one");
        assert_eq!(source.live.get(), pages.usage(MemoryKind::Device).reserved);
        for size in [100, 1 << 20, 40 << 20] {
            let asked = source.asked.get();
            for _ in 0..10 {
                let place = take(&mut pages, &source, size);
                pages.free(&place);
                pages.give_back(&source, usize::MAX, |_| true);
            }
            assert_eq!(source.asked.get(), asked, "{size}: making and destroying by turns asks for nothing");
        }
    }

    #[test]
    fn a_page_under_unfinished_work_goes_back_when_it_is_over() {
        let (source, mut pages) = (Source::default(), pages(false));
        let places: Vec<Place> = (0..3).map(|_| take(&mut pages, &source, PAGE)).collect();
        for place in &places {
            let mut hazards = Hazards::default();
            hazard::record(&mut hazards, 0, PAGE, true, Mark { point: Point { slot: 0, batch: 1 }, sequence: 1 });
            pages.leave(place, &mut hazards);
            pages.free(place);
        }
        let mut behind = 0;
        pages.behind_idle(|_| behind += 1);
        assert_eq!(behind, 3);
        pages.give_back(&source, usize::MAX, |_| false);
        assert_eq!(source.live.get(), 3 * PAGE);
        pages.give_back(&source, usize::MAX, |_| true);
        assert_eq!(source.live.get(), PAGE);
    }

    #[test]
    fn staging_stays_for_the_next_write_for_a_while() {
        let (source, mut pages) = (Source::default(), pages(false));
        let stage = |pages: &mut Pages<Source>| {
            let piece = |_| pages.allocate(&source, Purpose::StagingUp, 4 << 20, |_| true).expect("staging");
            let places: Vec<Place> = (0..16).map(piece).collect();
            places.iter().for_each(|place| pages.free(place));
        };
        stage(&mut pages);
        let asked = source.asked.get();
        for _ in 0..100 {
            pages.look();
            pages.give_back(&source, usize::MAX, |_| true);
            stage(&mut pages);
        }
        assert_eq!(source.asked.get(), asked);
        for _ in 0..STAGING_LOOKS {
            pages.look();
            pages.give_back(&source, usize::MAX, |_| true);
        }
        assert_eq!(source.live.get(), PAGE);
    }

    #[test]
    fn a_block_is_found_without_looking_at_many_pages() {
        let (source, mut pages) = (Source::default(), pages(false));
        let places: Vec<Place> = (0..10_000).map(|_| take(&mut pages, &source, 1 << 20)).collect();
        pages.free(&places[0]);
        pages.looked_at = 0;
        assert_eq!(take(&mut pages, &source, 1 << 20).page, places[0].page);
        assert_eq!(pages.looked_at, 1, "of {} pages", source.asked.get());
    }

    #[test]
    fn an_isolated_block_is_found_among_many_pages() {
        let (source, mut pages) = (Source::default(), pages(true));
        let places: Vec<Place> = (1..=10_000).map(|n| take(&mut pages, &source, n * 64)).collect();
        assert_eq!(source.asked.get(), 10_000);
        places.iter().for_each(|place| pages.free(place));
        let fits = |place: &Place, n: u64| place.offset == 0 && place.size == n * 64;
        assert!((1..=10_000).all(|n| fits(&take(&mut pages, &source, n * 64), n)));
        assert_eq!(source.asked.get(), 10_000, "each had a page of exactly its size");
        assert_eq!(pages.looked_at, 20_000, "no other page was looked at");
        let shelf = &pages.shelves[DEVICE.index()][Form::Whole as usize];
        assert!(
            shelf.with_room.is_empty() && shelf.idle.is_empty() && pages.surplus == 0,
            "a full page is on no shelf"
        );
    }

    #[test]
    fn a_refusal_that_passes_is_tried_once_more_and_one_that_can_never_fit_is_not() {
        let (source, mut pages) = (Source::default(), pages(false));
        source.refuses.set(1);
        take(&mut pages, &source, 100);
        assert_eq!(source.asked.get(), 2);
        source.refuses.set(9);
        assert!(pages.allocate(&source, DEVICE, PAGE, |_| true).is_err());
        assert_eq!(source.asked.get(), 4);
        assert!(pages.allocate(&source, DEVICE, 1 << 31, |_| true).is_err());
        assert_eq!(source.asked.get(), 4);
    }

    /// Small blocks go where larger ones are, before memory has run out.
    #[test]
    fn a_small_block_takes_whatever_room_there_is() {
        let source = Source::default();
        let mut pages = Pages::new(PageLimits { cap: 20 << 20, heap_size: [20 << 20; 3], ..pages(false).limits });
        let staging = pages.held_back(DEVICE);
        take(&mut pages, &source, 1 << 20);
        let mut count = 0;
        while pages.allocate(&source, DEVICE, 64, |_| true).is_ok() {
            count += 1;
        }
        let used = pages.usage(MemoryKind::Device).used;
        assert!(used + staging <= 20 << 20 && used + staging + 64 > 20 << 20, "{used} bytes in {count} blocks");
        assert!(source.asked.get() < 64, "{} pages", source.asked.get());
    }
}
