//! Nothing grows, and no call slows, with what was ever done: told by counts, not by clocks.

mod host;

use host::backend::{Call, fault};
use host::backend::{Options, Pace};
use host::rig::{Rig, part, settings, triple, whole};
use slotmap::SlotMap;
use tidegate::code::Code;
use tidegate::device::{FOREVER, Handle, Scheduling, Settings};
use tidegate::error::{Fault, Roots};
use tidegate::failure::{BlockKey, Blocks, Bytes, Claims, Context, FailureStore, Failures, Name, Reporting};
use tidegate::stream::backend::External;

const SCHEDULINGS: [Scheduling; 3] = [Scheduling::Event, Scheduling::Interleave, Scheduling::Sequence];

/// A device whose slots flush by themselves after a few pieces of work.
fn rig(scheduling: Scheduling, queues: usize) -> Rig {
    let settings = Settings { scheduling, max_recorded: 4, max_tasks: 4, max_pending: 256, ..settings() };
    Rig::new(Options::new(7, queues).pace(Pace::Random), settings)
}

fn fill(rig: &Rig, stream: u64, buffer: Handle, at: u64) {
    rig.device.buffer_fill(stream, part(buffer, at * 4, 4), 5, 1).expect("a fill");
}

#[test]
fn slices_that_were_written_once_are_forgotten_with_the_work_that_wrote_them() {
    for scheduling in SCHEDULINGS {
        let rig = rig(scheduling, 2);
        let (buffer, out) = (rig.buffer(40_000), rig.buffer(40_000));
        let mut most = 0;
        for at in 0..10_000 {
            fill(&rig, at % 3, buffer, at);
            most = most.max(rig.device.ranges_on_record());
        }
        assert!(most <= 1024, "{most} ranges with at most 256 pieces of work unfinished");
        rig.device.wait(FOREVER).expect("a wait");
        let left = rig.device.ranges_on_record();
        assert!(left <= 16, "{left} ranges of finished work, which whoever uses the whole buffer looks at");
        let copied = rig.device.buffer_copy(1, whole(out), whole(buffer));
        copied.expect("a copy");
        rig.launch(rig.kernel(&triple()), &[whole(buffer), whole(out)]).expect("a launch");
        assert_eq!(rig.read(whole(out)).expect("a read"), [16; 40_000]);
        rig.assert_ordered();
    }
}

#[test]
fn work_that_never_ends_on_one_stream_keeps_nothing_of_others_on_record() {
    for scheduling in SCHEDULINGS {
        let rig = rig(scheduling, 2);
        let (held, buffer) = (rig.filled(64, 1), rig.buffer(10_000));
        let external = External { semaphore: 9, value: 1, submitted: false };
        rig.device.stream_wait_external(0, external).expect("a wait");
        fill(&rig, 0, held, 0);
        let mut most = 0;
        for at in 0..2_500 {
            fill(&rig, 1, buffer, at);
            most = most.max(rig.device.ranges_on_record());
        }
        assert!(most <= 1024, "{most} ranges with at most 256 pieces of work unfinished");
        // Whatever came and went meanwhile is not remembered either.
        for _ in 0..50 {
            let gone = rig.buffer(400);
            (0..40).for_each(|at| fill(&rig, 1, gone, at));
            rig.device.buffer_destroy(gone).expect("destroyed");
        }
        rig.backend().signal(9, 1);
        rig.device.wait(FOREVER).expect("a wait");
        assert!(rig.device.ranges_on_record() <= 16);
        rig.assert_ordered();
    }
}

/// A store with blocks and nothing else.
#[derive(Default)]
struct Store {
    blocks: Kept,
    failures: Failures,
}

#[derive(Default)]
struct Kept(SlotMap<BlockKey, Claims>);

impl Blocks for Kept {
    fn claims(&self, block: BlockKey) -> Option<&Claims> {
        self.0.get(block)
    }
    fn claims_mut(&mut self, block: BlockKey) -> Option<&mut Claims> {
        self.0.get_mut(block)
    }
}

impl FailureStore for Store {
    type Blocks = Kept;

    fn split(&mut self) -> (&mut Kept, &mut Failures) {
        (&mut self.blocks, &mut self.failures)
    }
    fn parts(&self) -> (&Kept, &Failures) {
        (&self.blocks, &self.failures)
    }
}

impl Store {
    fn block(&mut self) -> BlockKey {
        let Store { blocks, failures } = self;
        let name = Name { noun: "buffer", serial: blocks.0.len() as u64 + 1, label: "".into() };
        blocks.0.insert_with_key(|key| failures.new_block(key, name, 64, true, None))
    }

    fn fail(&mut self, blocks: &[BlockKey]) -> u64 {
        let bytes: Vec<Bytes> = blocks.iter().map(|block| Bytes { block: *block, start: 0, end: 8 }).collect();
        let id = self.taint(Fault::new(Code::Caller, ""), Context::default(), &bytes);
        self.failures.take_log();
        id
    }
}

#[test]
fn a_report_costs_what_it_tells_and_is_taken_in_small_pieces() {
    let mut store = Store::default();
    let blocks: Vec<BlockKey> = (0..5000).map(|_| store.block()).collect();
    let clean = store.begin_report_on_all();
    assert_eq!(pieces(&store, clean).0, 1, "buffers that carry nothing are not looked at");
    blocks.chunks(5).for_each(|own| assert!(store.fail(own) > 0));
    let taking = store.begin_report_on_all();
    let (count, report) = pieces(&store, taking);
    // Each claim is looked at and told, and each root is told: once, whatever else there is.
    assert!((5000 / 512..=2 * 5000 / 512 + 1000 / 512 + 3).contains(&count), "{count} pieces");
    assert_eq!(report.failures.len(), 1000);
    assert!(report.failures.iter().all(|failure| failure.claims.len() == 5 && failure.claimed_bytes == 40));
    let mut one = Roots::default();
    one.ids.push(report.failures[7].id);
    let taking = store.begin_report(&one);
    let (_, own) = pieces(&store, taking);
    assert_eq!(own.failures, [report.failures[7].clone()]);
}

fn pieces(store: &Store, mut taking: tidegate::failure::Taking) -> (usize, tidegate::failure::Report) {
    let mut count = 1;
    while store.take(&mut taking) {
        count += 1;
    }
    (count, taking.finish())
}

#[test]
fn what_happens_between_two_pieces_of_a_report_is_told_or_not_and_nothing_else_changes() {
    let mut store = Store::default();
    let blocks: Vec<BlockKey> = (0..3000).map(|_| store.block()).collect();
    let roots: Vec<u64> = blocks.chunks(3).map(|own| store.fail(own)).collect();
    let (first, last) = (blocks[0], blocks[2999]);
    let bytes = |block| Bytes { block, start: 0, end: 8 };
    let mut taking = store.begin_report_on_all();
    assert!(store.take(&mut taking));
    // Told already, and gone; not told yet, and gone; new; a whole root gone with what it was told to have.
    store.written(&[bytes(first), bytes(last)]);
    let new = store.fail(&[blocks[1500]]);
    store.written(&[bytes(blocks[3]), bytes(blocks[4]), bytes(blocks[5])]);
    while store.take(&mut taking) {}
    let report = taking.finish();
    let ids: Vec<u64> = report.failures.iter().map(|failure| failure.id).collect();
    let expected: Vec<u64> = roots.iter().copied().filter(|root| *root != roots[1]).collect();
    assert_eq!(ids, expected);
    assert!(!ids.contains(&new));
    let counts: Vec<usize> = report.failures.iter().map(|failure| failure.claims.len()).collect();
    // The first one's claim was told before it went.
    assert_eq!((counts[0], counts[998]), (3, 2));
    for (failure, count) in report.failures.iter().zip(&counts).skip(1).take(900) {
        let touched = failure.id == roots[500];
        assert_eq!(*count, if touched { 2 } else { 3 }, "{}", failure.id);
    }
}

#[test]
fn the_words_of_a_long_report_are_cut_with_a_count_and_its_data_is_whole() {
    let rig = Rig::new(Options::new(1, 1).pace(Pace::Lazy), Settings { max_recorded: 4096, ..settings() });
    let buffer = rig.buffer(8000);
    for at in 0..500 {
        let buffer = rig.buffer(16);
        rig.taint(part(buffer, 0, 16));
        rig.device.buffer_fill(0, part(buffer, 0, 4), at, 1).expect("a fill");
    }
    let slices: Vec<_> = (0..1000).map(|at| part(buffer, at * 8, 4)).collect();
    rig.device.taint(&slices, &host::rig::error("in pieces")).expect("a taint");
    rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "lost"), true);
    rig.device.stream_flush(0).expect_err("lost");
    let report = rig.device.report_device();
    let pieces = report.failures.iter().find(|failure| failure.message == "in pieces").expect("a root");
    assert_eq!((report.suspects.len(), pieces.claims.len()), (500, 1000));
    assert_eq!(report.failures.len(), 502);
    let text = report.text();
    assert!(text.contains("and 244 more in flight at the loss"), "{text}");
    assert!(text.contains("and 246 more failures"), "{text}");
    assert!(text.lines().count() < 2000);
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    let length = |value: &serde_json::Value| value.as_array().map_or(0, Vec::len);
    assert_eq!((length(&json["failures"]), json["failure_count"].as_u64()), (256, Some(502)));
    assert_eq!((length(&json["suspects"]), json["suspect_count"].as_u64()), (256, Some(500)));
    let of_pieces = rig.device.report_slices(&[part(buffer, 0, 4)]).expect("a report");
    assert!(of_pieces.text().contains("and 936 more ranges"), "{}", of_pieces.text());
    let json: serde_json::Value = serde_json::from_str(&of_pieces.json()).expect("JSON");
    let failure = &json["failures"][0];
    assert_eq!((length(&failure["claims"]), failure["claim_count"].as_u64()), (64, Some(1000)));
}
