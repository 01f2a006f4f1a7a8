//! An oracle for late failures that shares nothing with what it judges (R13): a random program of which the device refuses
//! one submission, and the same program again, in which the work of that submission fails when it is enqueued. Bytes and
//! roots have to agree.
//!
//! One difference is R13's own: a skip that was decided before the late failure keeps the roots that were known then. So
//! programs that may skip before it have the second run's roots or fewer of them, and the others exactly those.

mod host;

use host::Rng;
use host::backend::{Call, HostBackend, HostDevice, Key, News, Options, Pace, fault};
use host::program::{Operation, Program, Term, Window};
use host::rig::{add, increment, part, silent, triple, with};
use std::collections::{BTreeMap, BTreeSet};
use tidegate::code::Code;
use tidegate::device::{
    BufferDesc, BufferMemory, Device, ErrorDesc, FOREVER, Handle, KernelDesc, LaunchDesc, LaunchGrid, Scheduling,
    ScopeDesc, Settings, Slice, SliceUse,
};
use tidegate::error::{Error, Result as Answer};
use tidegate::failure::Access;
use tidegate::memory::MemoryKind;

const BUFFERS: usize = 6;
const SIZE: u64 = 64;
const STEPS: u32 = 40;

/// Bytes of a buffer, by its number; whole words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    buffer: usize,
    start: u64,
    end: u64,
}

impl Span {
    fn overlaps(self, other: Span) -> bool {
        self.buffer == other.buffer && self.start < other.end && other.start < self.end
    }
}

#[derive(Clone, Debug)]
enum Step {
    Launch {
        stream: u64,
        kernel: usize,
        bindings: Vec<(Span, Access)>,
    },
    Copy {
        stream: u64,
        to: Span,
        from: Span,
    },
    Fill {
        stream: u64,
        to: Span,
    },
    Taint(Span),
    Mark(Span),
    Open {
        uses: Vec<(Span, Access)>,
    },
    Close,
    /// Destroyed, and another one made and filled in its place.
    Renew {
        stream: u64,
        buffer: usize,
    },
    Flush {
        stream: u64,
    },
    Wait,
}

fn kernels() -> [Program; 4] {
    let mut scatter = Program::new(&[Access::Read, Access::MayWrite]);
    let terms = vec![Term { binding: 0, window: Window::ALL, factor: 5 }];
    scatter.operations.push(Operation { out: 1, window: Window::ALL, step: 6, start: 2, add: 0x5C, terms });
    [triple(), add(), increment(), scatter]
}

/// A program whose calls are all allowed, whatever fails in it.
fn program(rng: &mut Rng, taints: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut open: Vec<(Span, Access)> = Vec::new();
    let mut sizes: Vec<u64> = (1..SIZE / 4).map(|words| words * 4).collect();
    for _ in 0..STEPS {
        let span = |rng: &mut Rng, size: Option<u64>| {
            let words = size.map_or_else(|| rng.between(1, 8), |size| size / 4);
            let start = rng.below(SIZE / 4 - words + 1) * 4;
            Span { buffer: rng.below(BUFFERS as u64) as usize, start, end: start + words * 4 }
        };
        let held = |span: Span, writes: bool| {
            open.iter().any(|(held, access)| held.overlaps(span) && (writes || *access != Access::Read))
        };
        let stream = rng.below(3);
        match rng.below(100) {
            0..40 => {
                let kernel = rng.below(4) as usize;
                let accesses = kernels()[kernel].bindings.clone();
                let bindings: Vec<_> = accesses.into_iter().map(|access| (span(rng, None), access)).collect();
                let [reads @ .., (out, _)] = &bindings[..] else { continue };
                let is_held = held(*out, true) || reads.iter().any(|(read, _)| held(*read, false));
                if !is_held && !reads.iter().any(|(read, _)| read.overlaps(*out)) {
                    steps.push(Step::Launch { stream, kernel, bindings });
                }
            }
            40..58 if !sizes.is_empty() => {
                // Each size once, so that a copy can be told by it.
                let at = rng.below(sizes.len() as u64) as usize;
                let (to, from) = (span(rng, Some(sizes[at])), span(rng, Some(sizes[at])));
                if !to.overlaps(from) && !held(to, true) && !held(from, false) {
                    sizes.swap_remove(at);
                    steps.push(Step::Copy { stream, to, from });
                }
            }
            58..66 => {
                let to = span(rng, None);
                if !held(to, true) {
                    steps.push(Step::Fill { stream, to });
                }
            }
            66..72 if taints => {
                let bytes = span(rng, None);
                if !held(bytes, true) {
                    steps.push(Step::Taint(bytes));
                }
            }
            72..75 => {
                let bytes = span(rng, None);
                if !held(bytes, true) {
                    steps.push(Step::Mark(bytes));
                }
            }
            75..81 if !open.is_empty() => {
                open.clear();
                steps.push(Step::Close);
            }
            75..81 => {
                let access = *rng.pick(&[Access::Write, Access::ReadWrite, Access::MayWrite]);
                let (read, written) = (span(rng, None), span(rng, None));
                if !read.overlaps(written) {
                    open = vec![(read, Access::Read), (written, access)];
                    steps.push(Step::Open { uses: open.clone() });
                }
            }
            81..85 => {
                let buffer = rng.below(BUFFERS as u64) as usize;
                if !held(Span { buffer, start: 0, end: SIZE }, true) {
                    steps.push(Step::Renew { stream, buffer });
                }
            }
            85..97 => steps.push(Step::Flush { stream }),
            _ => steps.push(Step::Wait),
        }
    }
    if !open.is_empty() {
        steps.push(Step::Close);
    }
    steps
}

/// What fails of a run.
enum Fails<'a> {
    /// The n-th such call.
    Late(Call, u64),
    /// The work of these steps, when it is enqueued.
    Known(&'a BTreeSet<usize>),
}

/// What a run came to: of each word the names of its roots, and its bytes where there are none.
type Words = Vec<(BTreeSet<String>, Option<[u8; 4]>)>;

struct Run {
    device: HostDevice,
    buffers: Vec<Handle>,
    kernels: Vec<Handle>,
    /// Steps by what tells their commands.
    keys: Vec<(Key, usize)>,
    /// Steps whose commands a recording got, and whether it was refused.
    recordings: BTreeMap<u64, (BTreeSet<usize>, bool)>,
}

const NAME_OF_LATE: &str = "the late failure";

impl Run {
    fn new(scheduling: Scheduling, seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let pace = *rng.pick(&[Pace::Lazy, Pace::Random, Pace::Eager]);
        let options = Options::new(seed, rng.between(1, 2) as usize).pace(pace);
        let settings = Settings {
            scheduling,
            slots: rng.between(1, 3) as u32,
            max_recorded: *rng.pick(&[3, 1024]),
            max_tasks: *rng.pick(&[4, 256]),
            staging_size: 1 << 16,
            memory_cap: 4 << 20,
            ..Settings::default()
        };
        let device = Device::new(HostBackend::new(options), 1, settings, Some(tracing::Dispatch::none()));
        let mut run =
            Run { device, buffers: Vec::new(), kernels: Vec::new(), keys: Vec::new(), recordings: BTreeMap::new() };
        for number in 0..BUFFERS {
            let buffer = run.buffer();
            let bytes: Vec<u8> = (0..SIZE).map(|at| (at as u8).wrapping_mul(7).wrapping_add(number as u8)).collect();
            run.device.buffer_write(0, part(buffer, 0, SIZE), &bytes, false).expect("a write");
            run.buffers.push(buffer);
        }
        for program in kernels() {
            let code = program.encode();
            let desc = KernelDesc {
                code: &code,
                entry: "",
                accesses: &[],
                constants: &[],
                label: "kernel",
                tag: 0,
                trusted: false,
                declares_uses: false,
            };
            let (kernel, answer) = run.device.kernel_create(&desc);
            answer.expect("a kernel");
            run.kernels.push(kernel);
        }
        run.device.wait(FOREVER).expect("a wait");
        run.device.backend().take_news();
        run
    }

    fn buffer(&self) -> Handle {
        let memory = BufferMemory::Managed(MemoryKind::Device);
        let desc = BufferDesc { size: SIZE, memory, stream: 0, label: "", tag: 0, unallocated: false };
        let (buffer, answer) = self.device.buffer_create(&desc);
        answer.expect("a buffer");
        buffer
    }

    fn slice(&self, span: Span) -> Slice {
        part(self.buffers[span.buffer], span.start, span.end - span.start)
    }

    /// Does a step. What it answers is not what is judged, but that it may be asked for is.
    fn step(&mut self, number: usize, step: &Step, scope: &mut Handle) {
        let answer: Answer = match step {
            Step::Launch { stream, kernel, bindings } => {
                let label = format!("step {number}");
                self.keys.push((Key::Launch(label.clone()), number));
                let bindings: Vec<SliceUse> = bindings.iter().map(|(span, _)| silent(self.slice(*span))).collect();
                // What may be written is declared, for the module does not say so.
                let bindings: Vec<SliceUse> = bindings
                    .into_iter()
                    .zip(&kernels()[*kernel].bindings)
                    .map(|(u, access)| with(u.slice, *access))
                    .collect();
                self.device.launch(&LaunchDesc {
                    stream: *stream,
                    kernel: self.kernels[*kernel],
                    bindings: &bindings,
                    extra: &[],
                    grid: LaunchGrid::Groups([1; 3]),
                    push: &[],
                    label: &label,
                    tag: 0,
                })
            }
            Step::Copy { stream, to, from } => {
                self.keys.push((Key::Copy(to.end - to.start), number));
                self.device.buffer_copy(*stream, self.slice(*to), self.slice(*from))
            }
            Step::Fill { stream, to } => self.fill(number, *stream, *to),
            Step::Taint(span) => self.taint(*span, &format!("taint {number}")),
            Step::Mark(span) => self.device.mark_written(&[self.slice(*span)]),
            Step::Open { uses } => {
                let uses: Vec<SliceUse> = uses.iter().map(|(span, access)| with(self.slice(*span), *access)).collect();
                let begun = self.device.scope_begin(&ScopeDesc { stream: 0, uses: &uses, label: "", tag: 0 });
                *scope = *begun.as_ref().unwrap_or(&Handle(0));
                begun.map(drop)
            }
            // A scope that the caller gives up has the caller's reason, which no second run could have: there it was skipped.
            Step::Close => self.device.scope_end(std::mem::take(scope)),
            Step::Renew { stream, buffer } => {
                self.device.buffer_destroy(self.buffers[*buffer]).expect("a buffer that nothing holds");
                self.buffers[*buffer] = self.buffer();
                self.fill(number, *stream, Span { buffer: *buffer, start: 0, end: SIZE })
            }
            Step::Flush { stream } => self.device.stream_flush(*stream),
            Step::Wait => self.device.wait(FOREVER),
        };
        assert!(matches!(answer, Ok(()) | Err(Error::Failed(..) | Error::Skipped(_))), "{step:?}: {answer:?}");
    }

    fn fill(&mut self, number: usize, stream: u64, to: Span) -> Answer {
        let pattern = 0x0101_0101 * (number as u32 + 1);
        self.keys.push((Key::Fill(pattern), number));
        self.device.buffer_fill(stream, self.slice(to), pattern, 4)
    }

    fn taint(&self, span: Span, message: &str) -> Answer {
        let error = ErrorDesc { code: 1, message, label: "" };
        self.device.taint(&[self.slice(span)], &error).map(drop)
    }

    /// What became of recordings since.
    fn hear(&mut self) {
        for news in self.device.backend().take_news() {
            match news {
                News::Got { recording, key } => {
                    let at = self.keys.iter().position(|(known, _)| *known == key).expect("work of a step");
                    let (_, number) = self.keys.swap_remove(at);
                    self.recordings.entry(recording).or_default().0.insert(number);
                }
                News::Refused { recording, .. } => self.recordings.entry(recording).or_default().1 = true,
            }
        }
    }

    fn run(&mut self, steps: &[Step], fails: &Fails<'_>) {
        let mut scope = Handle(0);
        if let Fails::Late(call, n) = *fails {
            self.device.backend().inject(call, n, fault(Code::Driver, NAME_OF_LATE), false);
        }
        for (number, step) in steps.iter().enumerate() {
            match (fails, step) {
                (Fails::Known(failed), step) if failed.contains(&number) => {
                    let to = match step {
                        Step::Launch { bindings, .. } => bindings[bindings.len() - 1].0,
                        Step::Copy { to, .. } | Step::Fill { to, .. } => *to,
                        Step::Renew { buffer, .. } => {
                            self.device.buffer_destroy(self.buffers[*buffer]).expect("a buffer that nothing holds");
                            self.buffers[*buffer] = self.buffer();
                            Span { buffer: *buffer, start: 0, end: SIZE }
                        }
                        other => panic!("{other:?} has no commands"),
                    };
                    self.taint(to, NAME_OF_LATE).expect("a taint");
                }
                (_, step) => self.step(number, step, &mut scope),
            }
            self.hear();
        }
        let _ = self.device.wait(FOREVER);
        self.hear();
        self.device.backend().heal();
        self.device.wait(FOREVER).expect("a wait");
    }

    fn words(&self) -> Words {
        let mut words = Vec::new();
        for buffer in &self.buffers {
            for word in 0..SIZE / 4 {
                let slice = part(*buffer, word * 4, 4);
                let report = self.device.report_slices(&[slice]).expect("a report");
                let roots: BTreeSet<String> = report
                    .failures
                    .iter()
                    .map(|failure| match failure.message.contains(NAME_OF_LATE) {
                        true => NAME_OF_LATE.to_string(),
                        false => failure.message.to_string(),
                    })
                    .collect();
                let mut bytes = [0; 4];
                let read = self.device.buffer_read(0, &mut bytes, slice, FOREVER);
                assert_eq!(read.is_ok(), roots.is_empty(), "{read:?}, {roots:?}");
                words.push((roots, read.is_ok().then_some(bytes)));
            }
        }
        words
    }
}

/// Runs a program twice; false if nothing was refused. Otherwise how many words the late failure claims.
fn agree(scheduling: Scheduling, seed: u64, taints: bool) -> Option<usize> {
    let mut rng = Rng::new(seed);
    let steps = program(&mut rng, taints);
    let call = *rng.pick(&[Call::Submit, Call::Submit, Call::End]);
    let mut late = Run::new(scheduling, seed);
    late.run(&steps, &Fails::Late(call, rng.between(1, 5)));
    let refused: Vec<&BTreeSet<usize>> =
        late.recordings.values().filter(|(_, refused)| *refused).map(|(steps, _)| steps).collect();
    let [failed] = refused[..] else { return None };
    let mut known = Run::new(scheduling, seed);
    known.run(&steps, &Fails::Known(failed));
    let (late, known) = (late.words(), known.words());
    for (at, (late, known)) in late.iter().zip(&known).enumerate() {
        let same = match taints {
            true => late.0.is_subset(&known.0) && late.0.is_empty() == known.0.is_empty() && late.1 == known.1,
            false => late == known,
        };
        if !same {
            let steps: Vec<String> = steps.iter().enumerate().map(|(n, step)| format!("{n}: {step:?}")).collect();
            let (buffer, start) = (at as u64 / (SIZE / 4), at as u64 % (SIZE / 4) * 4);
            let steps = steps.join("\n");
            panic!(
                "{scheduling:?}, seed {seed}, byte {start} of {buffer}: late {late:?}, known {known:?}; {failed:?} of\n{steps}"
            );
        }
    }
    Some(late.iter().filter(|word| word.0.contains(NAME_OF_LATE)).count())
}

fn programs(taints: bool) {
    for scheduling in [Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence] {
        let (mut refused, mut claimed) = (0, 0);
        for seed in 1..=120 {
            if let Some(words) = agree(scheduling, seed, taints) {
                refused += 1;
                claimed += words;
            }
        }
        println!("{scheduling:?}, taints: {taints}: {refused} programs with a refusal, {claimed} words claimed");
        assert!(refused > 50 && claimed > 250, "{refused} programs with a refusal, {claimed} words claimed");
    }
}

#[test]
fn a_failure_learnt_late_leaves_the_bytes_and_roots_of_one_known_at_once() {
    programs(false);
}

#[test]
fn a_failure_learnt_late_leaves_the_bytes_of_one_known_at_once_where_work_was_skipped_meanwhile() {
    programs(true);
}
