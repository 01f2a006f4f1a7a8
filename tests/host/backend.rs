//! A device on the host. It runs what it was given as late and in as strange an order as barriers, waits and signals
//! allow, so that a missing one changes results; it can be told to refuse; and it writes down everything it was told.

use super::Rng;
use super::checker::{Checker, Counts, Event, Recorded, Touch};
use super::model::Stores;
use super::program::{Per, Program};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tidegate::code::Code;
use tidegate::device::Device;
use tidegate::error::Fault;
use tidegate::failure::{Access, Point};
use tidegate::memory::{MemoryKind, PageSource};
use tidegate::stream::Caught;
use tidegate::stream::backend::{
    Backend, Binding, BindingInfo, External, Grid, KernelInfo, KernelSource, Launch, Limits, Rejected,
};
use tidegate::stream::coverage::Coverage;

/// Where a fault can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    PageCreate,
    PageWrite,
    PageRead,
    PageInvalidate,
    PageFlush,
    SlotCreate,
    KernelCreate,
    Begin,
    Barrier,
    HostBarrier,
    Launch,
    Copy,
    Fill,
    End,
    Recycle,
    Submit,
    ExternalReached,
    Completed,
    Wait,
    WaitIdle,
    PageDestroy,
    PageAddress,
    PageDeviceAddress,
    Budget,
    /// No call of the backend's, but code of its own all the same.
    KernelDrop,
}

impl Call {
    /// Every call of a backend's while its device is used.
    pub const ALL: [Call; 23] = [
        Call::PageCreate,
        Call::PageDestroy,
        Call::PageWrite,
        Call::PageRead,
        Call::PageAddress,
        Call::PageInvalidate,
        Call::PageFlush,
        Call::PageDeviceAddress,
        Call::Budget,
        Call::SlotCreate,
        Call::KernelCreate,
        Call::Begin,
        Call::Barrier,
        Call::HostBarrier,
        Call::Launch,
        Call::Copy,
        Call::Fill,
        Call::End,
        Call::Recycle,
        Call::Submit,
        Call::ExternalReached,
        Call::Completed,
        Call::Wait,
    ];

    /// Whether it can answer that it failed.
    pub fn can_fail(self) -> bool {
        !matches!(
            self,
            Call::PageDestroy
                | Call::PageDeviceAddress
                | Call::Budget
                | Call::Barrier
                | Call::HostBarrier
                | Call::Copy
                | Call::Fill
                | Call::Recycle
                | Call::KernelDrop
        )
    }
}

/// When submitted work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Only when something waits for it.
    Lazy,
    /// Some of it now and then.
    Random,
    /// At once.
    Eager,
}

/// What the device is.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub pace: Pace,
    pub limits: Limits,
    /// What the driver says is left of each heap; none where it does not say.
    pub tells_budget: bool,
    /// How often it may be waited for in vain before that is taken for a hang.
    pub patience: u64,
}

impl Options {
    pub fn new(seed: u64, queues: usize) -> Options {
        Options {
            seed,
            pace: Pace::Random,
            limits: Limits {
                queues,
                max_buffer_size: 1 << 28,
                heap_size: [1 << 30; 3],
                max_binding_size: 1 << 27,
                binding_alignment: 4,
                block_alignment: 16,
                map_alignment: [1; 3],
                max_groups: [1024; 3],
                max_push_size: 128,
                max_bindings: 8,
            },
            tells_budget: false,
            patience: 1000,
        }
    }

    pub fn pace(mut self, pace: Pace) -> Options {
        self.pace = pace;
        self
    }
}

#[derive(Clone)]
struct Place {
    page: u64,
    offset: u64,
    size: u64,
}

enum Command {
    Launch {
        kernel: u64,
        program: Arc<Program>,
        places: Vec<Place>,
        push: Vec<u8>,
        groups: [u32; 3],
        counts: Option<Place>,
        scratch: Option<Place>,
    },
    Copy {
        to: Place,
        from: Place,
    },
    Fill {
        to: Place,
        pattern: u32,
    },
}

enum Item {
    Barrier,
    HostBarrier,
    Command(Command, String),
}

enum Queued {
    Wait(Point),
    External(External),
    Barrier,
    Command(Command),
    Signal(Point),
    Done,
}

struct Injection {
    call: Call,
    left: u64,
    /// None: the call panics.
    fault: Option<Fault>,
    forever: bool,
    /// The call does what it says, and fails all the same.
    executed: bool,
}

/// What tells a command from others that are on their way at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// By the label of the launch.
    Launch(String),
    /// A copy from bytes that the host wrote: their page, and where in it.
    Staged(u64, u64),
    /// Any other copy, by its size.
    Copy(u64),
    Fill(u32),
}

/// What became of recordings, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It got a command.
    Got { recording: u64, key: Key },
    /// It will never run. Broken off: it was refused before it had all it was to have.
    Refused { recording: u64, message: String, broken_off: bool },
}

struct State {
    rng: Rng,
    pace: Pace,
    held: bool,
    bytes: HashMap<u64, (MemoryKind, Vec<u8>)>,
    /// What the host sees of pages it has an address in: nothing is shown to either side without being asked to.
    seen: HashMap<u64, Vec<u8>>,
    serial: u64,
    queues: Vec<VecDeque<Queued>>,
    reached: HashMap<u32, u64>,
    /// Semaphores of the caller's, by number.
    externals: HashMap<u64, u64>,
    /// Those that the caller destroyed.
    gone: HashSet<u64>,
    injections: Vec<Injection>,
    /// The call that just failed is to do what it says.
    executed: bool,
    calls: HashMap<&'static str, u64>,
    log: Vec<Event>,
    checker: Checker,
    /// Breaches of the contract of a backend that no pair of accesses shows.
    breaches: Vec<String>,
    open: HashMap<u64, u32>,
    /// Recordings that a queue has, and that were not taken back.
    submitted: HashSet<u64>,
    news: Vec<News>,
    /// Pages the host wrote, and where it last did.
    staged: HashSet<u64>,
    last_staged: Option<(u64, u64)>,
    stuck: u64,
    /// How often completion was asked for since anything happened.
    polls: u64,
    fired: u64,
    max_groups: [u32; 3],
    patience: u64,
}

/// A device over it.
pub type HostDevice = Device<Caught<HostBackend>>;

/// The device.
pub struct HostBackend {
    limits: Limits,
    tells_budget: bool,
    state: Arc<Mutex<State>>,
    loss: OnceLock<Fault>,
    at_wait: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// A page; its bytes are the device's.
pub struct HostPage {
    serial: u64,
    kind: MemoryKind,
    size: u64,
}

/// A compiled kernel; tells the log when it goes.
pub struct HostKernel {
    serial: u64,
    program: Arc<Program>,
    state: Arc<Mutex<State>>,
}

impl Drop for HostKernel {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.log.push(Event::KernelDropped { kernel: self.serial });
        drop(state.fault(Call::KernelDrop));
    }
}

/// Commands of one batch.
pub struct HostRecording {
    serial: u64,
    slot: u32,
    ended: bool,
    submitted: bool,
    signal: Option<Point>,
    items: Vec<Item>,
    state: Arc<Mutex<State>>,
}

impl Drop for HostRecording {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.open.remove(&self.serial);
        let runs = |item: &Queued| matches!(item, Queued::Signal(point) if point.slot == self.slot);
        // What is over was taken back before.
        if self.submitted && state.submitted.remove(&self.serial) && state.queues.iter().flatten().any(runs) {
            state.breach(format!("recording {} is dropped while it runs", self.serial));
        }
    }
}

impl State {
    fn fault(&mut self, call: Call) -> Result<(), Fault> {
        let mut hit = None;
        self.injections.retain_mut(|injection| {
            if injection.call != call || hit.is_some() {
                return true;
            }
            injection.left = injection.left.saturating_sub(1);
            if injection.left > 0 {
                return true;
            }
            hit = Some(injection.fault.clone());
            self.executed = injection.executed;
            self.fired += 1;
            injection.forever
        });
        match hit {
            None => Ok(()),
            Some(Some(fault)) => Err(fault),
            Some(None) => panic!("the backend panics in {call:?}"),
        }
    }

    fn breach(&mut self, what: String) {
        if self.breaches.len() < 50 {
            self.breaches.push(what);
        }
    }

    fn refused(&mut self, recording: u64, fault: &Fault, broken_off: bool) {
        // Only the last try counts.
        self.news.retain(|news| !matches!(news, News::Refused { recording: other, .. } if *other == recording));
        self.news.push(News::Refused { recording, message: fault.message.to_string(), broken_off });
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn is_reached(&self, point: Point) -> bool {
        self.reached.get(&point.slot).copied().unwrap_or(0) >= point.batch
    }

    fn is_external_reached(&self, external: External) -> bool {
        self.externals.get(&external.semaphore).copied().unwrap_or(0) >= external.value
    }

    /// Takes from the front of every queue what nothing stands before.
    fn retire(&mut self) {
        loop {
            let mut moved = false;
            for q in 0..self.queues.len() {
                while let Some(front) = self.queues[q].front() {
                    match *front {
                        Queued::Command(_) => break,
                        Queued::Wait(point) if !self.is_reached(point) => break,
                        Queued::External(external) if !self.is_external_reached(external) => break,
                        Queued::Signal(point) => {
                            self.reached.insert(point.slot, point.batch);
                        }
                        Queued::Wait(_) | Queued::External(_) | Queued::Barrier | Queued::Done => {}
                    }
                    self.queues[q].pop_front();
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Runs one command that may run now, any of them; false when there is none.
    fn step(&mut self) -> bool {
        const WINDOW: usize = 6;
        self.retire();
        if self.held {
            return false;
        }
        let mut ready: [(usize, usize); 4 * WINDOW] = [(0, 0); 4 * WINDOW];
        let mut count = 0;
        for (q, queue) in self.queues.iter().enumerate() {
            let first = count;
            for (i, item) in queue.iter().enumerate() {
                match *item {
                    Queued::Wait(point) if !self.is_reached(point) => break,
                    Queued::External(external) if !self.is_external_reached(external) => break,
                    Queued::Barrier if count > first => break,
                    Queued::Command(_) => {
                        ready[count] = (q, i);
                        count += 1;
                        if count - first == WINDOW || count == ready.len() {
                            break;
                        }
                    }
                    _ => {}
                }
            }
        }
        if count == 0 {
            return false;
        }
        let (q, i) = ready[self.rng.below(count as u64) as usize];
        if let Queued::Command(command) = std::mem::replace(&mut self.queues[q][i], Queued::Done) {
            self.polls = 0;
            self.execute(&command);
        }
        self.retire();
        true
    }

    fn run_some(&mut self) {
        let steps = match self.pace {
            Pace::Lazy => 0,
            Pace::Eager => u64::MAX,
            Pace::Random if self.rng.one_in(3) => self.rng.below(6),
            Pace::Random => 0,
        };
        for _ in 0..steps {
            if !self.step() {
                return;
            }
        }
    }

    fn seen_at(&mut self, address: *mut u8, size: usize) -> &mut [u8] {
        let at = address as usize;
        let page = self.seen.values_mut().find(|seen| {
            let start = seen.as_ptr() as usize;
            start <= at && at + size <= start + seen.len()
        });
        let page = page.expect("an address that a page was asked for");
        let offset = at - page.as_ptr() as usize;
        &mut page[offset..offset + size]
    }

    fn load(&self, place: &Place, offset: u64) -> Option<u8> {
        self.bytes.get(&place.page)?.1.get((place.offset + offset) as usize).copied()
    }

    fn store(&mut self, place: &Place, offset: u64, value: u8) {
        if let Some(byte) = self.bytes.get_mut(&place.page).and_then(|b| b.1.get_mut((place.offset + offset) as usize))
        {
            *byte = value;
        }
    }

    /// Bytes of a page that is there: a submission that names another is a breach.
    fn range(&mut self, place: &Place) -> &mut [u8] {
        let Some((_, bytes)) = self.bytes.get_mut(&place.page) else { panic!("page {} is gone", place.page) };
        &mut bytes[place.offset as usize..][..place.size as usize]
    }

    fn execute(&mut self, command: &Command) {
        match command {
            Command::Launch { program, places, push, groups, counts, .. } => {
                let mut groups = *groups;
                if let Some(counts) = counts {
                    for axis in 0..3 {
                        let word: Vec<u8> = (0..4).map(|i| self.load(counts, axis * 4 + i).unwrap_or(0)).collect();
                        let count = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                        if count == 0 || count > self.max_groups[axis as usize] {
                            return;
                        }
                        groups[axis as usize] = count;
                    }
                }
                let sizes: Vec<u64> = places.iter().map(|p| p.size).collect();
                let stores = program
                    .run(&sizes, push, groups, &mut |b, offset| Some(self.load(&places[b], offset).unwrap_or(0)));
                for (b, offset, value) in stores {
                    self.store(&places[b], offset, value.unwrap_or(0));
                }
            }
            Command::Copy { to, from } => {
                let bytes = self.range(from).to_vec();
                self.range(to).copy_from_slice(&bytes);
            }
            Command::Fill { to, pattern } => {
                for word in self.range(to).chunks_exact_mut(4) {
                    word.copy_from_slice(&pattern.to_le_bytes());
                }
            }
        }
    }

    fn place(&mut self, binding: &Binding<'_, HostPage>, what: &str) -> Place {
        let Binding { page, offset, size } = *binding;
        if !self.bytes.contains_key(&page.serial) || offset.checked_add(size).is_none_or(|end| end > page.size) {
            self.breach(format!("{what}: {offset}+{size} is outside page {} of {} bytes", page.serial, page.size));
        }
        if size == 0 {
            self.breach(format!("{what}: an empty range of page {}", page.serial));
        }
        Place { page: page.serial, offset, size }
    }
}

fn touch(place: &Place, write: bool) -> Touch {
    Touch { page: place.page, start: place.offset, end: place.offset + place.size, write }
}

fn recorded(item: &Item) -> Recorded {
    let (command, name) = match item {
        Item::Barrier => return Recorded::Barrier,
        Item::HostBarrier => return Recorded::HostBarrier,
        Item::Command(command, name) => (command, name.clone()),
    };
    match command {
        Command::Launch { kernel, program, places, counts, scratch, .. } => {
            let sizes: Vec<u64> = places.iter().map(|p| p.size).collect();
            let mut touches: Vec<Touch> = program
                .touches(&sizes)
                .into_iter()
                .map(|(b, offset, size, write)| {
                    let start = places[b].offset + offset;
                    Touch { page: places[b].page, start, end: start + size, write }
                })
                .collect();
            touches.extend(counts.iter().map(|place| touch(place, false)));
            touches.extend(scratch.iter().map(|place| touch(place, true)));
            // Bound is not touched, but the page must be there.
            let bound =
                |place: &Place| Touch { page: place.page, start: place.offset, end: place.offset, write: false };
            touches.extend(places.iter().map(bound));
            Recorded::Command { name, kernel: Some(*kernel), touches }
        }
        Command::Copy { to, from } => {
            Recorded::Command { name, kernel: None, touches: vec![touch(from, false), touch(to, true)] }
        }
        Command::Fill { to, .. } => Recorded::Command { name, kernel: None, touches: vec![touch(to, true)] },
    }
}

impl Command {
    fn uses(&self, page: u64) -> bool {
        match self {
            Command::Launch { places, counts, .. } => places.iter().chain(counts).any(|place| place.page == page),
            Command::Copy { to, from } => to.page == page || from.page == page,
            Command::Fill { to, .. } => to.page == page,
        }
    }
}

impl HostBackend {
    pub fn new(options: Options) -> HostBackend {
        let Options { seed, pace, limits, tells_budget, patience } = options;
        let state = State {
            rng: Rng::new(seed),
            pace,
            held: false,
            bytes: HashMap::new(),
            seen: HashMap::new(),
            serial: 0,
            queues: (0..limits.queues).map(|_| VecDeque::new()).collect(),
            reached: HashMap::new(),
            externals: HashMap::new(),
            gone: HashSet::new(),
            injections: Vec::new(),
            executed: false,
            calls: HashMap::new(),
            log: Vec::new(),
            checker: Checker::default(),
            breaches: Vec::new(),
            open: HashMap::new(),
            submitted: HashSet::new(),
            news: Vec::new(),
            staged: HashSet::new(),
            last_staged: None,
            stuck: 0,
            polls: 0,
            fired: 0,
            max_groups: limits.max_groups,
            patience,
        };
        HostBackend {
            limits,
            tells_budget,
            state: Arc::new(Mutex::new(state)),
            loss: OnceLock::new(),
            at_wait: Mutex::new(None),
        }
    }

    /// The `nth` call from now on, counted from 1, fails; with `forever` all later ones too.
    pub fn inject(&self, call: Call, nth: u64, fault: Fault, forever: bool) {
        let injection = Injection { call, left: nth.max(1), fault: Some(fault), forever, executed: false };
        self.state.lock().injections.push(injection);
    }

    /// The `nth` submission from now on is taken, and answered with a failure all the same.
    pub fn inject_executed(&self, nth: u64, fault: Fault) {
        let (call, fault) = (Call::Submit, Some(fault));
        let injection = Injection { call, left: nth.max(1), fault, forever: false, executed: true };
        self.state.lock().injections.push(injection);
    }

    /// The `nth` call from now on panics.
    pub fn inject_panic(&self, call: Call, nth: u64) {
        self.inject_panics(call, nth, false);
    }

    /// The `nth` call from now on panics; with `forever` all later ones too.
    pub fn inject_panics(&self, call: Call, nth: u64, forever: bool) {
        self.state.lock().injections.push(Injection { call, left: nth.max(1), fault: None, forever, executed: false });
    }

    /// No more injected faults.
    pub fn heal(&self) {
        self.state.lock().injections.clear();
    }

    /// The caller signals a semaphore of its own.
    pub fn signal(&self, semaphore: u64, value: u64) {
        self.state.lock().externals.insert(semaphore, value);
    }

    /// The caller destroys a semaphore of its own: whoever names it after that is at fault.
    pub fn destroy_semaphore(&self, semaphore: u64) {
        let mut state = self.state.lock();
        state.gone.insert(semaphore);
        let waits = |item: &Queued| matches!(item, Queued::External(external) if external.semaphore == semaphore);
        if state.queues.iter().flatten().any(waits) {
            state.breach(format!("semaphore {semaphore} is destroyed under a queue that waits for it"));
        }
    }

    /// Writes where the host has an address, as its owner would.
    pub fn poke(&self, address: *mut u8, bytes: &[u8]) {
        self.state.lock().seen_at(address, bytes.len()).copy_from_slice(bytes);
    }

    /// Reads there.
    pub fn peek(&self, address: *mut u8, size: usize) -> Vec<u8> {
        self.state.lock().seen_at(address, size).to_vec()
    }

    /// What another thread does the next time this one waits.
    pub fn at_wait(&self, what: impl FnOnce() + Send + 'static) {
        *self.at_wait.lock() = Some(Box::new(what));
    }

    /// While held, nothing submitted runs.
    pub fn hold(&self, held: bool) {
        self.state.lock().held = held;
    }

    pub fn set_pace(&self, pace: Pace) {
        self.state.lock().pace = pace;
    }

    /// Runs all that can run.
    pub fn run_all(&self) {
        let mut state = self.state.lock();
        while state.step() {}
    }

    /// The log since the last call of this or of [`check`](Self::check).
    pub fn take_log(&self) -> Vec<Event> {
        std::mem::take(&mut self.state.lock().log)
    }

    /// What is wrong with all that was recorded so far; empty when everything conflicting was ordered.
    pub fn check(&self) -> Vec<String> {
        let mut state = self.state.lock();
        for event in std::mem::take(&mut state.log) {
            state.checker.see(&event);
        }
        state.breaches.iter().chain(&state.checker.complaints).cloned().collect()
    }

    /// What the checker counted so far.
    pub fn counts(&self) -> Counts {
        self.check();
        self.state.lock().checker.counts
    }

    /// Pages not given back.
    pub fn live_pages(&self) -> usize {
        self.state.lock().bytes.len()
    }

    /// Recordings begun and not taken back.
    pub fn open_recordings(&self) -> usize {
        self.state.lock().open.len()
    }

    /// What became of recordings since the last call.
    pub fn take_news(&self) -> Vec<News> {
        std::mem::take(&mut self.state.lock().news)
    }

    /// Where the host last wrote since the last call: page and offset.
    pub fn take_staged(&self) -> Option<(u64, u64)> {
        self.state.lock().last_staged.take()
    }

    /// How many injected faults were met so far.
    pub fn fired(&self) -> u64 {
        self.state.lock().fired
    }

    /// How often a call was made.
    pub fn calls(&self, name: &str) -> u64 {
        self.state.lock().calls.get(name).copied().unwrap_or(0)
    }

    fn enter(&self, name: &'static str, call: Call) -> Result<(), Fault> {
        let mut state = self.state.lock();
        *state.calls.entry(name).or_default() += 1;
        state.fault(call).inspect_err(|fault| {
            if fault.code == Code::DeviceLost {
                let _ = self.loss.set(fault.clone());
            }
        })
    }

    fn record(&self, recording: &mut HostRecording, item: Item) {
        let call = match &item {
            Item::Barrier => Some(Call::Barrier),
            Item::HostBarrier => Some(Call::HostBarrier),
            Item::Command(Command::Launch { .. }, _) => None,
            Item::Command(Command::Copy { .. }, _) => Some(Call::Copy),
            Item::Command(Command::Fill { .. }, _) => Some(Call::Fill),
        };
        let mut state = self.state.lock();
        call.into_iter().for_each(|call| drop(state.fault(call)));
        if recording.ended {
            state.breach("a command after the end of its recording".to_string());
        }
        if let Item::Command(command, name) = &item {
            let key = match command {
                Command::Launch { .. } => Key::Launch(name.clone()),
                Command::Copy { from, .. } if state.staged.contains(&from.page) => Key::Staged(from.page, from.offset),
                Command::Copy { from, .. } => Key::Copy(from.size),
                Command::Fill { pattern, .. } => Key::Fill(*pattern),
            };
            state.news.push(News::Got { recording: recording.serial, key });
        }
        drop(state);
        recording.items.push(item);
    }
}

/// A fault as a driver would give it.
pub fn fault(code: Code, message: impl Into<Box<str>>) -> Fault {
    Fault { code, vk_result: -2, vk_function: "vkHostTest", message: message.into() }
}

impl PageSource for HostBackend {
    type Page = HostPage;

    fn page_create(&self, kind: MemoryKind, size: u64) -> Result<HostPage, Fault> {
        self.enter("page_create", Call::PageCreate)?;
        let mut state = self.state.lock();
        let reserved: u64 = state.bytes.values().filter(|b| b.0 == kind).map(|b| b.1.len() as u64).sum();
        if size == 0 || size > self.limits.max_buffer_size || reserved + size > self.limits.heap_size[kind as usize] {
            state.breach(format!("asked for {size} bytes, which can never be had or are not left"));
            return Err(Fault::new(Code::OutOfDeviceMemory, "the host device has no more"));
        }
        let serial = state.next_serial();
        state.bytes.insert(serial, (kind, vec![0; size as usize]));
        state.log.push(Event::PageCreated { page: serial, size });
        Ok(HostPage { serial, kind, size })
    }

    fn page_destroy(&self, page: HostPage) {
        let mut state = self.state.lock();
        drop(state.fault(Call::PageDestroy));
        if state
            .queues
            .iter()
            .flatten()
            .any(|item| matches!(item, Queued::Command(command) if command.uses(page.serial)))
        {
            state.breach(format!("page {} is destroyed under work that uses it", page.serial));
        }
        state.bytes.remove(&page.serial);
        state.seen.remove(&page.serial);
        state.log.push(Event::PageDestroyed { page: page.serial });
    }

    fn page_write(&self, page: &HostPage, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.enter("page_write", Call::PageWrite)?;
        let mut state = self.state.lock();
        if page.kind != MemoryKind::Upload {
            state.breach(format!("the host wrote a page of kind {:?}", page.kind));
        }
        let end = offset + bytes.len() as u64;
        state.log.push(Event::HostWrite { page: page.serial, start: offset, end });
        state.staged.insert(page.serial);
        state.last_staged = Some((page.serial, offset));
        if let Some(target) = state.bytes.get_mut(&page.serial).and_then(|b| b.1.get_mut(offset as usize..end as usize))
        {
            target.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn page_read(&self, page: &HostPage, offset: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        self.enter("page_read", Call::PageRead)?;
        let mut state = self.state.lock();
        if page.kind != MemoryKind::Readback {
            state.breach(format!("the host read a page of kind {:?}", page.kind));
        }
        let end = offset + bytes.len() as u64;
        state.log.push(Event::HostRead { page: page.serial, start: offset, end });
        if let Some(source) = state.bytes.get(&page.serial).and_then(|b| b.1.get(offset as usize..end as usize)) {
            bytes.copy_from_slice(source);
        }
        Ok(())
    }

    fn page_address(&self, page: &HostPage, offset: u64, size: u64) -> Result<*mut u8, Fault> {
        self.enter("page_address", Call::PageAddress)?;
        self.address(page, offset, size)
    }

    fn page_device_address(&self, page: &HostPage) -> u64 {
        drop(self.state.lock().fault(Call::PageDeviceAddress));
        page.serial << 32
    }

    fn page_invalidate(&self, page: &HostPage, offset: u64, size: u64) -> Result<(), Fault> {
        self.address(page, offset, size)?;
        self.enter("page_invalidate", Call::PageInvalidate)?;
        let mut state = self.state.lock();
        let (start, end) = (offset as usize, (offset + size) as usize);
        state.log.push(Event::HostRead { page: page.serial, start: offset, end: offset + size });
        let State { bytes, seen, .. } = &mut *state;
        if let (Some((_, bytes)), Some(seen)) = (bytes.get(&page.serial), seen.get_mut(&page.serial)) {
            seen[start..end].copy_from_slice(&bytes[start..end]);
        }
        Ok(())
    }

    fn page_flush(&self, page: &HostPage, offset: u64, size: u64) -> Result<(), Fault> {
        self.address(page, offset, size)?;
        self.enter("page_flush", Call::PageFlush)?;
        let mut state = self.state.lock();
        let (start, end) = (offset as usize, (offset + size) as usize);
        state.log.push(Event::HostWrite { page: page.serial, start: offset, end: offset + size });
        let State { bytes, seen, .. } = &mut *state;
        if let (Some((_, bytes)), Some(seen)) = (bytes.get_mut(&page.serial), seen.get(&page.serial)) {
            bytes[start..end].copy_from_slice(&seen[start..end]);
        }
        Ok(())
    }

    fn budget(&self, kind: MemoryKind) -> Option<u64> {
        let mut state = self.state.lock();
        drop(state.fault(Call::Budget));
        let reserved: u64 = state.bytes.values().filter(|b| b.0 == kind).map(|b| b.1.len() as u64).sum();
        self.tells_budget.then(|| self.limits.heap_size[kind as usize] - reserved)
    }
}

impl HostBackend {
    fn address(&self, page: &HostPage, offset: u64, size: u64) -> Result<*mut u8, Fault> {
        let mut state = self.state.lock();
        if page.kind == MemoryKind::Device || offset + size > page.size {
            state.breach(format!("the host asked where {offset}+{size} of a page of kind {:?} lies", page.kind));
        }
        let seen = state.seen.entry(page.serial).or_insert_with(|| vec![0xA5; page.size as usize]);
        Ok(seen.as_mut_ptr().wrapping_add(offset as usize))
    }
}

impl Backend for HostBackend {
    type Kernel = HostKernel;
    type Recording = HostRecording;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn loss(&self) -> Option<&Fault> {
        self.loss.get()
    }

    fn slot_create(&self, slot: u32) -> Result<(), Fault> {
        self.enter("slot_create", Call::SlotCreate)?;
        let mut state = self.state.lock();
        if state.reached.insert(slot, 0).is_some() {
            state.breach(format!("slot {slot} made twice"));
        }
        Ok(())
    }

    fn kernel_create(&self, source: &KernelSource<'_>) -> Result<(HostKernel, KernelInfo), Rejected> {
        let refused = self.enter("kernel_create", Call::KernelCreate);
        let invalid = |why: String| Rejected::from(Fault::new(Code::InvalidShader, why));
        let program = Program::parse(source.code).map_err(invalid)?;
        let coverage = match program.per {
            None => Coverage::whole(),
            Some(Per { bytes, guarded }) => Coverage::elements(program.group[0], bytes, guarded.then_some(0))
                .ok_or_else(|| invalid("groups of nothing".into()))?,
        };
        let binding = |(i, &access): (usize, &_)| BindingInfo {
            set: 0,
            binding: i as u32,
            element: 0,
            access: if access == Access::Write { Access::MayWrite } else { access },
            coverage: (access == Access::Write).then(|| Arc::new(coverage.clone())),
            name: format!("b{i}").into(),
        };
        let info = KernelInfo {
            bindings: program.bindings.iter().enumerate().map(binding).collect(),
            group_size: program.group,
            push_size: program.push,
        };
        // What a driver refuses to compile was reflected all the same.
        if let Err(fault) = refused {
            return Err(Rejected { fault, info: Some(info) });
        }
        if source.entry != "main" {
            let fault = Fault::new(Code::InvalidShader, format!("no entry point \"{}\"", source.entry));
            return Err(Rejected { fault, info: Some(info) });
        }
        let serial = self.state.lock().next_serial();
        Ok((HostKernel { serial, program: Arc::new(program), state: self.state.clone() }, info))
    }

    fn begin(&self, slot: u32) -> Result<HostRecording, Fault> {
        let refused = self.enter("begin", Call::Begin);
        let mut state = self.state.lock();
        if let Err(fault) = refused {
            let serial = state.next_serial();
            state.refused(serial, &fault, true);
            return Err(fault);
        }
        if !state.reached.contains_key(&slot) {
            state.breach(format!("a recording of slot {slot}, which was never made"));
        }
        let serial = state.next_serial();
        state.open.insert(serial, slot);
        Ok(HostRecording {
            serial,
            slot,
            ended: false,
            submitted: false,
            signal: None,
            items: Vec::new(),
            state: self.state.clone(),
        })
    }

    fn barrier(&self, recording: &mut HostRecording) {
        self.record(recording, Item::Barrier);
    }

    fn host_barrier(&self, recording: &mut HostRecording) {
        self.record(recording, Item::HostBarrier);
    }

    fn launch(&self, recording: &mut HostRecording, launch: &Launch<'_, Self>) -> Result<(), Fault> {
        self.enter("launch", Call::Launch)
            .inspect_err(|fault| self.state.lock().refused(recording.serial, fault, true))?;
        let name = if launch.label.is_empty() { "launch" } else { launch.label };
        let program = launch.kernel.program.clone();
        let mut state = self.state.lock();
        let places: Vec<Place> = launch.bindings.iter().map(|b| state.place(b, name)).collect();
        for place in &places {
            if place.offset % self.limits.binding_alignment != 0 || place.size > self.limits.max_binding_size {
                state.breach(format!("{name}: {}+{} cannot be bound", place.offset, place.size));
            }
        }
        if places.len() != program.bindings.len() || launch.push.len() != program.push as usize {
            state.breach(format!("{name}: {} bindings, {} bytes pushed", places.len(), launch.push.len()));
        }
        let mut groups = [0; 3];
        let (counts, scratch) = match &launch.grid {
            Grid::Groups(given) => {
                groups = *given;
                if (0..3).any(|i| groups[i] == 0 || groups[i] > self.limits.max_groups[i]) {
                    state.breach(format!("{name}: {groups:?} groups"));
                }
                (None, None)
            }
            Grid::Indirect(counts, scratch) => {
                let (place, scratch) = (state.place(counts, name), state.place(scratch, name));
                if place.size != 12 || !place.offset.is_multiple_of(4) {
                    state.breach(format!("{name}: counts at {}+{}", place.offset, place.size));
                }
                if scratch.size != 12 || scratch.offset % self.limits.binding_alignment != 0 {
                    state.breach(format!("{name}: counts are checked at {}+{}", scratch.offset, scratch.size));
                }
                (Some(place), Some(scratch))
            }
        };
        drop(state);
        let kernel = launch.kernel.serial;
        let push = launch.push.to_vec();
        self.record(
            recording,
            Item::Command(Command::Launch { kernel, program, places, push, groups, counts, scratch }, name.to_string()),
        );
        Ok(())
    }

    fn copy(&self, recording: &mut HostRecording, to: Binding<'_, HostPage>, from: Binding<'_, HostPage>) {
        let mut state = self.state.lock();
        let (to, from) = (state.place(&to, "copy"), state.place(&from, "copy"));
        let overlap = to.page == from.page && to.offset < from.offset + from.size && from.offset < to.offset + to.size;
        if to.size != from.size || overlap {
            state.breach(format!("a copy of {} to {} bytes, overlapping: {overlap}", from.size, to.size));
        }
        drop(state);
        self.record(recording, Item::Command(Command::Copy { to, from }, "copy".to_string()));
    }

    fn fill(&self, recording: &mut HostRecording, to: Binding<'_, HostPage>, pattern: u32) {
        let mut state = self.state.lock();
        let to = state.place(&to, "fill");
        if !to.offset.is_multiple_of(4) || !to.size.is_multiple_of(4) {
            state.breach(format!("a fill of {}+{}", to.offset, to.size));
        }
        drop(state);
        self.record(recording, Item::Command(Command::Fill { to, pattern }, "fill".to_string()));
    }

    fn end(&self, recording: &mut HostRecording) -> Result<(), Fault> {
        if std::mem::replace(&mut recording.ended, true) {
            self.state.lock().breach("a recording ended twice".to_string());
        }
        self.enter("end", Call::End).inspect_err(|fault| self.state.lock().refused(recording.serial, fault, false))
    }

    fn recycle(&self, slot: u32, recording: HostRecording) {
        let mut state = self.state.lock();
        state.submitted.remove(&recording.serial);
        drop(state.fault(Call::Recycle));
        if slot != recording.slot || state.open.remove(&recording.serial).is_none() {
            state.breach(format!("recording {} taken back twice, or by another slot", recording.serial));
        }
        let runs = |item: &Queued| matches!(item, Queued::Signal(point) if Some(*point) == recording.signal);
        if state.queues.iter().flatten().any(runs) {
            state.breach(format!("recording {} taken back while it runs", recording.serial));
        }
        state.log.push(Event::Recycled { recording: recording.serial });
    }

    fn submit(
        &self,
        queue: usize,
        recording: &mut HostRecording,
        waits: &[Point],
        externals: &[External],
        signal: Point,
    ) -> Result<(), Fault> {
        let refused = self.enter("submit", Call::Submit);
        let mut state = self.state.lock();
        for External { semaphore, submitted, .. } in externals {
            if !submitted || state.gone.contains(semaphore) {
                state.breach(format!("a queue is to wait for semaphore {semaphore}, which nobody will signal"));
            }
        }
        if queue >= state.queues.len() || !recording.ended || recording.submitted || signal.slot != recording.slot {
            state.breach(format!("recording {} cannot be submitted to queue {queue}", recording.serial));
        }
        let executed = std::mem::take(&mut state.executed);
        if let Err(fault) = &refused {
            state.refused(recording.serial, fault, false);
            if !executed {
                state.log.push(Event::Refused { queue, recording: recording.serial });
                return refused;
            }
        }
        let serial = recording.serial;
        if refused.is_ok() {
            state.news.retain(|news| !matches!(news, News::Refused { recording, .. } if *recording == serial));
        }
        recording.submitted = true;
        state.submitted.insert(serial);
        recording.signal = Some(signal);
        let items = std::mem::take(&mut recording.items);
        state.log.push(Event::Submitted {
            queue,
            recording: recording.serial,
            waits: waits.to_vec(),
            signal,
            recorded: items.iter().map(recorded).collect(),
        });
        let target = &mut state.queues[queue];
        target.extend(waits.iter().map(|&point| Queued::Wait(point)));
        target.extend(externals.iter().map(|&external| Queued::External(external)));
        for item in items {
            match item {
                Item::Barrier => target.push_back(Queued::Barrier),
                Item::HostBarrier => {}
                Item::Command(command, _) => target.push_back(Queued::Command(command)),
            }
        }
        target.push_back(Queued::Signal(signal));
        state.run_some();
        refused
    }

    fn external_reached(&self, external: External) -> Result<bool, Fault> {
        self.enter("external_reached", Call::ExternalReached)?;
        let mut state = self.state.lock();
        if state.gone.contains(&external.semaphore) {
            state.breach(format!("semaphore {} is asked for after it was destroyed", external.semaphore));
        }
        Ok(state.is_external_reached(external))
    }

    fn completed(&self, slot: u32) -> Result<u64, Fault> {
        self.enter("completed", Call::Completed)?;
        let mut state = self.state.lock();
        state.polls += 1;
        if state.polls >= state.patience.saturating_mul(300) {
            state.breach("the driver asks and asks, and nothing happens".to_string());
            return Err(Fault::new(Code::Internal, "asked too often"));
        }
        state.run_some();
        state.retire();
        let batch = state.reached.get(&slot).copied().unwrap_or(0);
        if batch > 0 {
            state.log.push(Event::Completed { point: Point { slot, batch } });
        }
        Ok(batch)
    }

    fn wait(&self, point: Point, timeout_ns: u64) -> Result<bool, Fault> {
        let meanwhile = self.at_wait.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        self.enter("wait", Call::Wait)?;
        let mut state = self.state.lock();
        state.run_some();
        state.retire();
        while !state.is_reached(point) {
            if timeout_ns == 0 {
                return Ok(false);
            }
            if !state.step() {
                state.stuck += 1;
                if !state.held && state.stuck >= state.patience {
                    state.breach(format!("{point:?} is never reached"));
                    return Err(Fault::new(Code::Internal, format!("{point:?} is never reached")));
                }
                drop(state);
                std::thread::sleep(Duration::from_nanos(timeout_ns.min(500_000)));
                return Ok(false);
            }
        }
        state.stuck = 0;
        state.log.push(Event::Completed { point });
        Ok(true)
    }

    fn wait_idle(&self, timeout_ns: u64) -> Result<bool, Fault> {
        self.enter("wait_idle", Call::WaitIdle)?;
        let mut state = self.state.lock();
        while state.step() {}
        let idle = state.queues.iter().all(VecDeque::is_empty);
        if idle {
            let reached: Vec<Point> = state.reached.iter().map(|(&slot, &batch)| Point { slot, batch }).collect();
            state.log.extend(reached.into_iter().filter(|at| at.batch > 0).map(|point| Event::Completed { point }));
        }
        drop(state);
        if !idle {
            std::thread::sleep(Duration::from_nanos(timeout_ns.min(500_000)));
        }
        Ok(idle)
    }
}
