//! The order of answers: if two reasons keep a call from running, the earlier one of docs/errors.md is the answer.
//!
//! Every call that enqueues work meets every pair of reasons that can hold at once, on every scheduling.

mod host;

use host::backend::{Call as Point, Options, Pace, fault};
use host::rig::{Rig, launch_desc, part, settings, silent, triple, whole, with};
use tidegate::code::Code;
use tidegate::device::{
    BufferDesc, BufferMemory, FOREVER, Handle, LaunchDesc, LaunchGrid, Scheduling, ScopeDesc, Settings, Slice,
};
use tidegate::error::{Error, Result as Answer};
use tidegate::failure::Access;
use tidegate::memory::MemoryKind;
use tidegate::stream::backend::External;

const SIZE: u64 = 64;
const SEMAPHORE: u64 = 9;
/// The stream whose work is held back, and the stream of the calls.
const HELD_BACK: u64 = 3;
const STREAM: u64 = 1;

/// Why a call does not run, in the order in which the answers win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// An argument that is wrong whatever the state of the device.
    Argument,
    /// The call names no bytes, or a grid with a zero (R18).
    Nothing,
    /// An open scope holds the bytes (R4).
    Held,
    /// The device is lost (R14).
    Lost,
    /// Bytes that the call needs are claimed, have no memory, or its kernel is broken (R5, R7, R8).
    Claimed,
    /// Too much is unfinished, and only the caller can let it go on (R15).
    Full,
    /// The work itself fails: here, beyond a limit of the device.
    Limit,
}
use Reason::*;

const REASONS: [Reason; 7] = [Argument, Nothing, Held, Lost, Claimed, Full, Limit];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Launch,
    LaunchBroken,
    LaunchIndirect,
    Copy,
    Fill,
    Write,
    WriteWithoutWaiting,
    Read,
    ReadBegin,
    MapToRead,
    MapToWrite,
    MapToChange,
    Scope,
}
use Call::*;

const CALLS: [Call; 13] = [
    Launch,
    LaunchBroken,
    LaunchIndirect,
    Copy,
    Fill,
    Write,
    WriteWithoutWaiting,
    Read,
    ReadBegin,
    MapToRead,
    MapToWrite,
    MapToChange,
    Scope,
];

impl Call {
    /// Whether the reason can hold for the call.
    fn has(self, reason: Reason) -> bool {
        match reason {
            Argument | Held => true,
            // The host cannot see the counts of an indirect launch.
            Nothing => self != LaunchIndirect,
            // A scope brackets work of the caller's own, which may need no device.
            Lost => self != Scope,
            Claimed => self != MapToWrite,
            // A map takes no place among unfinished work.
            Full => !self.is_map(),
            Limit => matches!(self, Launch | LaunchBroken),
        }
    }

    /// Whether both reasons can hold at once.
    fn has_both(self, a: Reason, b: Reason) -> bool {
        // A call without bytes needs no bytes, and no scope can hold them.
        let by_bytes = |reason| matches!(reason, Held | Claimed | Limit);
        if (a == Nothing && by_bytes(b)) || (b == Nothing && by_bytes(a)) {
            return matches!(self, Launch | LaunchBroken) && self.has(a) && self.has(b);
        }
        // Bytes without memory cannot be held: a scope over them does not open.
        let by_one_buffer = matches!(self, Fill | Write | WriteWithoutWaiting);
        let both = (a, b) == (Held, Claimed) && by_one_buffer;
        self.has(a) && self.has(b) && !both
    }

    fn is_map(self) -> bool {
        matches!(self, MapToRead | MapToWrite | MapToChange)
    }

    /// The call's answer for a reason.
    fn answer(self, reason: Reason) -> Option<Code> {
        match reason {
            Argument => Some(Code::InvalidArgument),
            Nothing => None,
            Held => Some(Code::WrongState),
            Lost => Some(Code::DeviceLost),
            Claimed if self == ReadBegin => None,
            Claimed if matches!(self, Read | MapToRead) => Some(Code::Unwritten),
            Claimed => Some(Code::Skipped),
            Full => Some(Code::NotReady),
            Limit => Some(Code::LimitExceeded),
        }
    }
}

struct World {
    rig: Rig,
    kernel: Handle,
    broken: Handle,
    /// Bytes the call reads, and bytes it writes.
    input: Handle,
    output: Handle,
    counts: Handle,
}

fn buffer(rig: &Rig, memory: MemoryKind) -> Handle {
    let memory = BufferMemory::Managed(memory);
    let desc = BufferDesc { size: SIZE, memory, stream: 0, label: "", tag: 0, unallocated: false };
    let (handle, answer) = rig.device.buffer_create(&desc);
    answer.expect("a buffer");
    rig.write(whole(handle), &[1; SIZE as usize]).expect("a write");
    handle
}

fn no_memory(rig: &Rig) -> Handle {
    let memory = BufferMemory::Managed(MemoryKind::Device);
    let desc = BufferDesc { size: SIZE, memory, stream: 0, label: "", tag: 0, unallocated: true };
    let (handle, answer) = rig.device.buffer_create(&desc);
    answer.expect("a buffer");
    rig.device.fail_unallocated(handle, &host::rig::error("no memory")).expect("a failure");
    handle
}

impl World {
    fn new(scheduling: Scheduling, call: Call, reasons: &[Reason]) -> World {
        let settings = Settings { scheduling, max_pending: 1, ..settings() };
        let rig = Rig::new(Options::new(1, 1).pace(Pace::Lazy), settings);
        let memory = if call.is_map() { MemoryKind::Upload } else { MemoryKind::Device };
        let by_one_buffer = matches!(call, Fill | Write | WriteWithoutWaiting);
        let is_claimed = reasons.contains(&Claimed);
        let (kernel, counts, busy) = (rig.kernel(&triple()), buffer(&rig, memory), buffer(&rig, memory));
        let (broken, _) = rig.broken(&[Some(Access::Read), Some(Access::Write)]);
        let input = if is_claimed && call == Copy { no_memory(&rig) } else { buffer(&rig, memory) };
        let output = if is_claimed && by_one_buffer { no_memory(&rig) } else { buffer(&rig, memory) };
        rig.write(whole(counts), &[1, 0, 0, 0].repeat(16)).expect("a write");
        rig.device.wait(FOREVER).expect("a wait");
        if is_claimed && !by_one_buffer && call != Copy {
            rig.taint(whole(input));
        }
        if reasons.contains(&Held) {
            let bytes = if matches!(call, Read | ReadBegin) || call.is_map() { input } else { output };
            let uses = [with(whole(bytes), Access::MayWrite)];
            rig.device.scope_begin(&ScopeDesc { stream: 0, uses: &uses, label: "", tag: 0 }).expect("a scope");
        }
        if reasons.contains(&Full) {
            let external = External { semaphore: SEMAPHORE, value: 1, submitted: false };
            rig.device.stream_wait_external(HELD_BACK, external).expect("a stream waits");
            // One piece of unfinished work is the bound.
            rig.device.buffer_fill(HELD_BACK, whole(busy), 1, 1).expect("a fill");
        }
        if reasons.contains(&Lost) {
            rig.backend().inject(Point::PageCreate, 1, fault(Code::DeviceLost, "gone"), true);
            let _ = rig.try_buffer(32 << 20, BufferMemory::Managed(MemoryKind::Device), "");
            assert_eq!(rig.device.status().map_err(|error| error.code()), Err(Code::DeviceLost));
        }
        World { rig, kernel, broken, input, output, counts }
    }

    fn call(&self, call: Call, reasons: &[Reason]) -> Answer {
        let device = &self.rig.device;
        // One byte too many is wrong in any state.
        let (offset, size) = match (reasons.contains(&Argument), reasons.contains(&Nothing)) {
            (true, false) => (0, SIZE + 1),
            (true, true) => (SIZE + 1, 0),
            (false, true) => (0, 0),
            (false, false) => (0, SIZE),
        };
        let bytes = vec![7; size as usize];
        let slice = |buffer| Slice { buffer, offset, size };
        let (from, to) = (slice(self.input), slice(self.output));
        match call {
            Launch | LaunchBroken | LaunchIndirect => {
                let mut groups = [1; 3];
                if reasons.contains(&Limit) {
                    groups[0] = 1 << 20;
                }
                if reasons.contains(&Nothing) {
                    groups[1] = 0;
                }
                let wrong = if reasons.contains(&Argument) { SIZE + 1 } else { SIZE };
                let bindings = [silent(part(self.input, 0, SIZE)), silent(part(self.output, 0, wrong))];
                let kernel = if call == LaunchBroken { self.broken } else { self.kernel };
                let grid = match call {
                    LaunchIndirect => LaunchGrid::Indirect(part(self.counts, 0, 12)),
                    _ => LaunchGrid::Groups(groups),
                };
                device.launch(&LaunchDesc { grid, ..launch_desc(STREAM, kernel, &bindings, &[]) })
            }
            Copy => device.buffer_copy(STREAM, to, from),
            Fill => device.buffer_fill(STREAM, to, 7, 1),
            Write => device.buffer_write(STREAM, to, &bytes, false),
            WriteWithoutWaiting => device.buffer_write(STREAM, to, &bytes, true),
            Read => device.buffer_read(STREAM, &mut bytes.clone(), from, FOREVER),
            ReadBegin => device.read_begin(STREAM, from).1,
            MapToRead => device.buffer_map(from, Access::Read, FOREVER).map(drop),
            MapToWrite => device.buffer_map(from, Access::Write, FOREVER).map(drop),
            MapToChange => device.buffer_map(from, Access::ReadWrite, FOREVER).map(drop),
            Scope => {
                let uses = [with(from, Access::Read), with(to, Access::Write)];
                device.scope_begin(&ScopeDesc { stream: STREAM, uses: &uses, label: "", tag: 0 }).map(drop)
            }
        }
    }
}

fn each_scheduling(mut see: impl FnMut(Scheduling)) {
    [Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence].into_iter().for_each(&mut see);
}

#[test]
fn the_earlier_of_two_reasons_is_the_answer() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    each_scheduling(|scheduling| {
        for call in CALLS {
            for (i, first) in REASONS.into_iter().enumerate() {
                for second in REASONS[i..].iter().copied().filter(|second| call.has_both(first, *second)) {
                    // A broken kernel is a reason by itself.
                    let first = if call == LaunchBroken { first.min(Claimed) } else { first };
                    let reasons = [first, second];
                    let world = World::new(scheduling, call, &reasons);
                    let answer = world.call(call, &reasons).map_err(|error: Error| error.code()).err();
                    if answer != call.answer(first) {
                        wrong.push(format!("{scheduling:?} {call:?} {reasons:?}: {answer:?}"));
                    }
                    seen += 1;
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 600, "{seen}");
}
