//! The rules, one fact a test, on the scheduling that the module is named after.

use crate::host::backend::{Call, Options, Pace, fault};
use crate::host::program::{Operation, Per, Program, Term, Window};
use crate::host::rig::{
    Rig, add, error, failed, increment, kernel_desc, launch_desc, misused, nine, part, scheduling_of, silent, skipped,
    triple, whole, with,
};
use std::sync::{Arc, Mutex, OnceLock};
use tidegate::code::Code;
use tidegate::device::{
    Basis, BufferDesc, BufferMemory, Claim, DeviceClaim, FOREVER, Handle, LaunchDesc, LaunchGrid, Scheduling,
    ScopeDesc, Settings, Slice, SliceUse, WHOLE,
};
use tidegate::error::{Error, MAX_ROOTS};
use tidegate::failure::{Access, StepKind};
use tidegate::memory::MemoryKind;
use tidegate::stream::backend::External;

fn scheduling() -> Scheduling {
    scheduling_of(module_path!())
}

fn settings() -> Settings {
    Settings { scheduling: scheduling(), ..crate::host::rig::settings() }
}

fn rig() -> Rig {
    Rig::new(Options::new(1, 1), settings())
}

/// Nothing runs before it is waited for.
fn lazy() -> Rig {
    Rig::new(Options::new(1, 1).pace(Pace::Lazy), settings())
}

/// The names of what was in flight at a loss.
fn suspects(rig: &Rig) -> Vec<String> {
    rig.device.report_device().suspects.iter().map(|suspect| suspect.name.to_string()).collect()
}

fn driver_fault() -> tidegate::error::Fault {
    fault(Code::Driver, "refused by the test")
}

fn scope(rig: &Rig, uses: &[SliceUse]) -> tidegate::error::Result<Handle> {
    rig.device.scope_begin(&ScopeDesc { stream: 0, uses, label: "scope", tag: 0 })
}

fn writing(slice: Slice) -> SliceUse {
    with(slice, Access::Write)
}

fn reading(slice: Slice) -> SliceUse {
    with(slice, Access::Read)
}

// R1

#[test]
fn r1_half_rewritten_reads_and_the_other_half_still_fails_on_the_original_root() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let root = rig.taint(whole(buffer));
    rig.write(part(buffer, 0, 32), &[5; 32]).expect("a write");
    assert_eq!(rig.read(part(buffer, 0, 32)).expect("a read"), [5; 32]);
    assert_eq!(rig.unreadable(part(buffer, 32, 32)), [root]);
    assert_eq!(rig.unreadable(part(buffer, 31, 2)), [root]);
    assert_eq!(rig.read(part(buffer, 31, 1)).expect("a read"), [5]);
}

#[test]
fn r1_a_new_failure_takes_over_the_bytes_it_claims() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let first = rig.taint(whole(buffer));
    let second = rig.taint(part(buffer, 16, 16));
    assert_eq!(rig.unreadable(part(buffer, 16, 16)), [second]);
    assert_eq!(rig.unreadable(whole(buffer)), [first, second]);
    let third = rig.taint(whole(buffer));
    assert_eq!(rig.unreadable(whole(buffer)), [third]);
    assert_eq!(rig.settled_failures(), 1, "the first two hold nothing any more");
}

#[test]
fn r1_claims_are_listed_by_byte() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let (a, b) = (rig.taint(part(buffer, 3, 5)), rig.taint(part(buffer, 8, 2)));
    let none = Claim { offset: 0, size: 0, failure: 0, failures: 0, more: false };
    let mut out = [none; 4];
    assert_eq!(rig.device.claims(whole(buffer), &mut out).expect("claims"), 2);
    assert_eq!(out[0], Claim { offset: 3, size: 5, failure: a, failures: 1, more: false });
    assert_eq!(out[1], Claim { offset: 8, size: 2, failure: b, failures: 1, more: false });
    assert_eq!(rig.device.claims(part(buffer, 5, 4), &mut out).expect("claims"), 2);
    assert_eq!((out[0].offset, out[0].size, out[1].offset, out[1].size), (5, 3, 8, 1));
    assert_eq!(rig.device.claims(whole(buffer), &mut out[..1]).expect("claims"), 2, "the count is of all there are");
    let mut all = [DeviceClaim { buffer: Handle(0), claim: none }; 4];
    assert_eq!(rig.device.device_claims(&mut all).expect("claims"), 2);
    assert_eq!((all[1].buffer, all[1].claim.failure), (buffer, b));
}

#[test]
fn r1_past_thirty_two_roots_there_is_a_flag() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let roots: Vec<u64> = (0..40).map(|at| rig.taint(part(buffer, at, 1))).collect();
    match rig.read(whole(buffer)) {
        Err(Error::Unwritten(found)) => {
            assert_eq!(found.ids[..], roots[..MAX_ROOTS]);
            assert!(found.more);
        }
        other => panic!("{other:?}"),
    }
    let out = rig.buffer(64);
    assert_eq!(skipped(rig.launch(rig.kernel(&triple()), &[whole(buffer), whole(out)])).len(), MAX_ROOTS);
    // What lists the claim, what reports on it, and what answers a read agree.
    let mut claims = [Claim { offset: 0, size: 0, failure: 0, failures: 0, more: false }; 2];
    assert_eq!(rig.device.claims(whole(out), &mut claims), Ok(1));
    let count = MAX_ROOTS as u32;
    assert_eq!(claims[0], Claim { offset: 0, size: 64, failure: roots[0], failures: count, more: true });
    let report = rig.device.report_slices(&[whole(out)]).expect("a report");
    assert_eq!((report.failures.len(), report.more), (MAX_ROOTS, true));
    assert!(report.text().contains("and more failures"), "{}", report.text());
    let exact = rig.buffer(64);
    let first =
        rig.launch(rig.kernel(&triple()), &[part(buffer, 0, MAX_ROOTS as u64), part(exact, 0, MAX_ROOTS as u64)]);
    assert_eq!(skipped(first)[..], roots[..MAX_ROOTS]);
    assert_eq!(rig.device.claims(whole(exact), &mut claims), Ok(1));
    assert_eq!((claims[0].failures, claims[0].more), (count, false));
    assert!(!rig.device.report_slices(&[whole(exact)]).expect("a report").more);
    rig.write(whole(exact), &[1; 64]).expect("a write");
    rig.write(whole(buffer), &[1; 64]).expect("a write");
    rig.write(whole(out), &[1; 64]).expect("a write");
    assert_eq!(rig.settled_failures(), 0);
}

// R2

#[test]
fn r2_work_that_shares_no_byte_with_a_failure_never_notices() {
    let rig = rig();
    let kernel = rig.kernel(&triple());
    let (bad, good, out) = (rig.filled(64, 1), rig.filled(64, 2), rig.buffer(128));
    rig.taint(whole(bad));
    let (broken, _) = rig.broken(&[]);
    skipped(rig.launch(broken, &[whole(bad)]));
    for stream in 0..3 {
        let bindings = [silent(whole(good)), silent(part(out, 0, 64))];
        rig.launch_on(stream, kernel, &bindings, &[]).expect("a launch");
        rig.device.stream_flush(stream).expect("a flush");
        rig.device.stream_wait(stream, FOREVER).expect("a wait");
    }
    skipped(rig.launch(kernel, &[whole(bad), part(out, 64, 64)]));
    assert_eq!(rig.read(part(out, 0, 64)).expect("the other half of the same buffer"), [7; 64]);
    rig.device.status().expect("no sticky error");
}

// R3

#[test]
fn r3_a_root_goes_with_its_last_claim() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    rig.taint(whole(buffer));
    rig.write(part(buffer, 0, 63), &[1; 63]).expect("a write");
    assert_eq!(rig.settled_failures(), 1);
    rig.write(part(buffer, 63, 1), &[1]).expect("a write");
    assert_eq!(rig.settled_failures(), 0);
    assert!(rig.device.report_device().failures.is_empty());
}

#[test]
fn r3_destroying_everything_empties_the_store() {
    let rig = rig();
    let (huge, _) = rig.huge();
    let (broken, _) = rig.broken(&[]);
    let (bad, out, token) = (rig.filled(64, 1), rig.buffer(64), rig.token());
    rig.taint(whole(bad));
    rig.taint(whole(token));
    skipped(rig.launch(broken, &[whole(huge), whole(bad), whole(out)]));
    let kept = scope(&rig, &[writing(whole(rig.buffer(8)))]).expect("a scope");
    assert_eq!(rig.settled_failures(), 5);
    rig.device.scope_end(kept).expect("an end");
    for buffer in [huge, bad, out, token] {
        rig.device.buffer_destroy(buffer).expect("a destroy");
    }
    assert_eq!(rig.settled_failures(), 1, "the kernel is left");
    rig.device.kernel_destroy(broken).expect("a destroy");
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn r3_a_tainted_copy_keeps_the_root_of_a_buffer_that_is_gone() {
    let rig = rig();
    let (a, b) = (rig.filled(64, 1), rig.buffer(64));
    let root = rig.taint(whole(a));
    rig.device.buffer_copy(0, whole(b), whole(a)).expect("a copy");
    rig.device.buffer_destroy(a).expect("a destroy");
    assert_eq!(rig.unreadable(whole(b)), [root]);
    rig.device.buffer_destroy(b).expect("a destroy");
    assert_eq!(rig.settled_failures(), 0);
}

// R4

#[test]
fn r4_a_scope_that_succeeds_releases_its_write_set() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    rig.taint(whole(buffer));
    let open = scope(&rig, &[writing(part(buffer, 0, 32))]).expect("a scope");
    assert_ne!(rig.device.first_failure(&[part(buffer, 0, 32)]).expect("an id"), 0, "claimed until proven written");
    rig.device.scope_end(open).expect("an end");
    assert_eq!(rig.unreadable(part(buffer, 0, 32)), [0; 0]);
    assert_eq!(rig.unreadable(part(buffer, 32, 32)).len(), 1);
}

#[test]
fn r4_an_error_replaces_the_provisional_failure_for_all_its_carriers_at_once() {
    let rig = rig();
    let (a, b) = (rig.filled(64, 1), rig.token());
    let open = scope(&rig, &[writing(part(a, 0, 8)), writing(part(a, 20, 8)), writing(whole(b))]).expect("a scope");
    let provisional = rig.device.first_failure(&[whole(b)]).expect("an id");
    let torn = rig.device.report_slices(&[whole(b)]).expect("a report");
    assert_eq!(torn.failures[0].code, Code::TornDown);
    rig.device.scope_fail(open, Some(&error("went wrong"))).expect("a failure");
    let report = rig.device.report_slices(&[whole(a), whole(b)]).expect("a report");
    assert_eq!(report.failures.len(), 1);
    let failure = &report.failures[0];
    assert_eq!((failure.id, failure.code, failure.label.as_str()), (provisional, Code::Caller, "scope"));
    assert!(failure.message.contains("went wrong"), "{}", failure.message);
    assert_eq!(failure.claimed_bytes, 8 + 8 + 64);
}

#[test]
fn r4_a_scope_failed_without_an_error_is_torn_down() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let open = scope(&rig, &[writing(whole(buffer))]).expect("a scope");
    rig.device.scope_fail(open, None).expect("a failure");
    let report = rig.device.report_slices(&[whole(buffer)]).expect("a report");
    assert_eq!(report.failures[0].code, Code::TornDown);
    assert_eq!(rig.unreadable(whole(buffer)).len(), 1);
    rig.write(whole(buffer), &[2; 64]).expect("writing again is the whole recovery");
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [2; 64]);
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn r4_an_abandoned_scope_leaves_its_failure_standing() {
    let mut rig = rig();
    let buffer = rig.filled(64, 1);
    let _abandoned = scope(&rig, &[writing(whole(buffer))]).expect("a scope");
    match rig.device.check_written(&[whole(buffer)], FOREVER) {
        Err(Error::Unwritten(roots)) => assert_eq!(roots.ids.len(), 1),
        other => panic!("{other:?}"),
    }
    rig.device.close(FOREVER).expect("a close");
}

#[test]
fn r4_an_empty_write_set_mints_nothing() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let open = scope(&rig, &[reading(whole(buffer))]).expect("a scope");
    assert_eq!(rig.failures(), 0);
    rig.device.scope_fail(open, None).expect("a failure");
    let open = scope(&rig, &[writing(part(buffer, 8, 0))]).expect("a scope");
    assert_eq!(rig.failures(), 0);
    rig.device.scope_fail(open, None).expect("a failure");
    assert_eq!(rig.failures(), 0);
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [1; 64]);
}

#[test]
fn r4_held_bytes_are_wrong_state_and_nothing_changes() {
    let rig = rig();
    let (buffer, other) = (rig.filled(64, 1), rig.filled(64, 2));
    let kernel = rig.kernel(&triple());
    let held = part(buffer, 16, 16);
    let open = scope(&rig, &[writing(held)]).expect("a scope");
    let over = part(buffer, 20, 4);
    let device = &rig.device;
    assert_eq!(misused(rig.write(over, &[7; 4])).0, Code::WrongState);
    assert_eq!(misused(rig.read(over)).0, Code::WrongState);
    assert_eq!(misused(device.buffer_fill(0, over, 0, 1)).0, Code::WrongState);
    assert_eq!(misused(device.buffer_copy(0, over, part(other, 0, 4))).0, Code::WrongState);
    assert_eq!(misused(device.buffer_copy(0, part(other, 0, 4), over)).0, Code::WrongState);
    assert_eq!(misused(rig.launch(kernel, &[over, whole(other)])).0, Code::WrongState);
    assert_eq!(misused(rig.launch(kernel, &[whole(other), over])).0, Code::WrongState);
    assert_eq!(misused(device.taint(&[over], &error("no"))).0, Code::WrongState);
    assert_eq!(misused(device.mark_written(&[over])).0, Code::WrongState);
    assert_eq!(misused(scope(&rig, &[reading(over)])).0, Code::WrongState);
    assert_eq!(misused(scope(&rig, &[writing(over)])).0, Code::WrongState);
    assert_eq!(misused(device.buffer_destroy(buffer)).0, Code::WrongState);
    assert_eq!(rig.failures(), 1, "only the provisional one");
    assert_eq!(rig.read(whole(other)).expect("untouched"), [2; 64]);
    assert_eq!(rig.read(part(buffer, 0, 16)).expect("not held"), [1; 16]);
    rig.write(part(buffer, 32, 32), &[3; 32]).expect("not held");
    device.scope_end(open).expect("an end");
    assert_eq!(rig.read(held).expect("as it was"), [1; 16]);
}

#[test]
fn r4_what_a_scope_reads_is_held_against_writes_only() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let open = scope(&rig, &[reading(whole(buffer))]).expect("a scope");
    assert_eq!(misused(rig.write(part(buffer, 0, 4), &[0; 4])).0, Code::WrongState);
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [1; 64]);
    rig.device.scope_end(open).expect("an end");
    rig.write(part(buffer, 0, 4), &[0; 4]).expect("a write");
}

#[test]
fn r4_bytes_that_are_bound_as_nothing_or_not_at_all_are_no_use_of_held_ones() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let kernel = rig.kernel(&nine());
    let open = scope(&rig, &[writing(part(buffer, 0, 32))]).expect("a scope");
    rig.device.buffer_read(0, &mut [], part(buffer, 8, 0), FOREVER).expect("no bytes");
    rig.write(part(buffer, 8, 0), &[]).expect("no bytes");
    rig.launch_on(0, kernel, &[with(whole(buffer), Access::None)], &[writing(part(buffer, 32, 32))]).expect("a launch");
    rig.device.scope_end(open).expect("an end");
}

#[test]
fn r4_a_panic_while_recording_claims_every_launch_of_the_recording() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let (a, b, clean) = (rig.filled(64, 1), rig.filled(64, 1), rig.filled(64, 1));
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch(kernel, &[whole(a)]).expect("a launch");
    rig.backend().inject_panic(Call::Launch, 1);
    let (code, roots) = failed(rig.launch(kernel, &[whole(b)]).and_then(|()| rig.device.stream_flush(0)));
    assert_eq!(code, Code::Internal);
    assert_eq!(rig.unreadable(whole(b)), roots);
    assert_eq!(rig.unreadable(whole(a)).len(), 1);
    assert_eq!(rig.read(whole(clean)).expect("a read"), [1; 64]);
    rig.launch(kernel, &[whole(a)]).expect("a launch");
    rig.launch(kernel, &[whole(b)]).expect("a launch");
    assert_eq!(rig.read(whole(a)).expect("a read"), [9; 64]);
    assert_eq!(rig.settled_failures(), 0);
    rig.assert_ordered();
}

// R5

#[test]
fn r5_a_launch_over_a_claimed_input_does_not_run_and_its_outputs_take_the_union_of_the_roots() {
    let rig = rig();
    let kernel = rig.kernel(&add());
    let (a, b, out) = (rig.filled(64, 1), rig.filled(64, 2), rig.filled(64, 3));
    let (x, y) = (rig.taint(part(a, 0, 4)), rig.taint(part(b, 60, 4)));
    let before = rig.backend().calls("launch");
    assert_eq!(skipped(rig.launch(kernel, &[whole(a), whole(b), whole(out)])), [x, y]);
    assert_eq!(rig.backend().calls("launch"), before);
    assert_eq!(rig.unreadable(part(out, 30, 1)), [x, y], "its whole write set");
    assert_eq!(rig.settled_failures(), 2, "no new failure");
    let report = rig.device.report_slices(&[whole(out)]).expect("a report");
    for failure in &report.failures {
        assert_eq!((failure.skips, failure.path.len()), (1, 1));
        assert_eq!((failure.path[0].kind, failure.path[0].kernel.as_str()), (StepKind::Skip, "kernel"));
    }
}

#[test]
fn r5_an_input_claimed_elsewhere_does_not_stop_a_launch() {
    let rig = rig();
    let kernel = rig.kernel(&triple());
    let (input, out) = (rig.filled(64, 1), rig.buffer(32));
    rig.taint(part(input, 32, 32));
    rig.launch(kernel, &[part(input, 0, 32), whole(out)]).expect("a launch");
    assert_eq!(rig.read(whole(out)).expect("a read"), [4; 32]);
}

#[test]
fn r5_indirect_arguments_are_read() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let (counts, out) = (rig.filled(12, 0), rig.filled(64, 1));
    let launch = |counts| {
        let grid = LaunchGrid::Indirect(whole(counts));
        rig.device.launch(&LaunchDesc { grid, ..launch_desc(0, kernel, &[silent(whole(out))], &[]) })
    };
    let root = rig.taint(part(counts, 8, 1));
    assert_eq!(skipped(launch(counts)), [root]);
    assert_eq!(rig.unreadable(whole(out)), [root]);
    rig.write(whole(counts), &[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]).expect("a write");
    launch(counts).expect("a launch");
    assert_eq!(rig.unreadable(whole(out)), [root], "an inferred write of an indirect launch only may write (R9)");
    rig.write(whole(out), &[1; 64]).expect("a write");
    launch(counts).expect("a launch");
    assert_eq!(rig.read(whole(out)).expect("a read"), [9; 64]);
    rig.write(whole(counts), &[0; 12]).expect("a write");
    rig.write(whole(out), &[1; 64]).expect("a write");
    launch(counts).expect("a launch");
    assert_eq!(rig.read(whole(out)).expect("a read"), [1; 64]);
    rig.assert_ordered();
}

#[test]
fn r5_the_path_names_every_step_from_the_root_to_the_bytes() {
    let rig = rig();
    let first = rig.try_kernel(&triple().encode(), &[], "blur").0;
    let second = rig.try_kernel(&triple().encode(), &[], "edges").0;
    let (photo, blurred, edges) = (rig.named(64, "photo"), rig.named(64, "blurred"), rig.named(64, "edges"));
    let root = rig.taint(whole(photo));
    skipped(rig.launch(first, &[whole(photo), whole(blurred)]));
    skipped(rig.launch(second, &[whole(blurred), whole(edges)]));
    let report = rig.device.report_slices(&[whole(edges)]).expect("a report");
    assert_eq!(report.failures.len(), 1);
    let failure = &report.failures[0];
    assert_eq!((failure.id, failure.code), (root, Code::Caller));
    let steps: Vec<(&str, &str, &str)> = failure
        .path
        .iter()
        .map(|step| (step.needed.as_str(), step.kernel.as_str(), step.produced[0].as_str()))
        .collect();
    assert_eq!(steps, [("photo", "blur", "blurred"), ("blurred", "edges", "edges")]);
    assert_eq!(failure.claimed_bytes, 3 * 64);
    let text = report.text();
    for name in ["photo", "blur", "edges", "tainted by the test"] {
        assert!(text.contains(name), "no {name} in {text}");
    }
}

#[test]
fn r5_extra_reads_stop_a_launch_and_extra_writes_take_its_roots() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let (table, out, token) = (rig.filled(64, 1), rig.filled(64, 1), rig.token());
    let root = rig.taint(part(table, 40, 1));
    let launch = |row: Slice| {
        rig.launch_on(0, kernel, &[silent(whole(out))], &[reading(row), with(part(token, 3, 5), Access::MayWrite)])
    };
    launch(part(table, 0, 40)).expect("a launch");
    assert_eq!(skipped(launch(part(table, 40, 8))), [root]);
    let mut claims = [Claim { offset: 0, size: 0, failure: 0, failures: 0, more: false }; 2];
    assert_eq!(rig.device.claims(whole(token), &mut claims).expect("claims"), 1);
    assert_eq!(claims[0], Claim { offset: 3, size: 5, failure: root, failures: 1, more: false });
}

// R6

#[test]
fn r6_two_roots_in_one_read_are_both_named_once() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let (x, y) = (rig.taint(part(buffer, 0, 8)), rig.taint(part(buffer, 20, 8)));
    rig.device.buffer_copy(0, part(buffer, 40, 8), part(buffer, 0, 8)).expect("a copy");
    assert_eq!(rig.unreadable(whole(buffer)), [x, y]);
    let slices = [part(buffer, 0, 10), part(buffer, 40, 8), part(buffer, 22, 1), part(buffer, 0, 64)];
    match rig.device.check_written(&slices, FOREVER) {
        Err(Error::Unwritten(roots)) => assert_eq!((&roots.ids[..], roots.more), (&[x, y][..], false)),
        other => panic!("{other:?}"),
    }
    let report = rig.device.report_slices(&slices).expect("a report");
    assert_eq!(report.failures.iter().map(|failure| failure.id).collect::<Vec<_>>(), [x, y]);
}

// R7

#[test]
fn r7_an_allocation_of_64_gib_lives_and_launches_over_it_skip_on_its_root() {
    let rig = rig();
    let pages = rig.backend().calls("page_create");
    let (huge, root) = rig.huge();
    assert_eq!(rig.backend().calls("page_create"), pages, "the driver is not asked (R11)");
    let out = rig.filled(64, 1);
    assert_eq!(skipped(rig.launch(rig.kernel(&triple()), &[part(huge, 0, 64), whole(out)])), [root]);
    assert_eq!(rig.unreadable(whole(out)), [root]);
    assert_eq!(rig.unreadable(part(huge, 1 << 20, 16)), [root]);
    let report = rig.device.report_slices(&[whole(out)]).expect("a report");
    assert_eq!((report.failures[0].code, report.failures[0].label.as_str()), (Code::OutOfDeviceMemory, "huge"));
    let later = rig.filled(1 << 20, 3);
    assert_eq!(rig.read(whole(later)).expect("a read"), vec![3; 1 << 20]);
}

#[test]
fn r7_work_that_only_writes_unallocated_memory_skips_too() {
    let rig = rig();
    let (huge, root) = rig.huge();
    let out = rig.filled(64, 1);
    assert_eq!(skipped(rig.write(part(huge, 0, 4), &[1; 4])), [root]);
    assert_eq!(skipped(rig.device.buffer_fill(0, part(huge, 0, 4), 0, 4)), [root]);
    assert_eq!(skipped(rig.launch(rig.kernel(&triple()), &[whole(out), part(huge, 0, 64)])), [root]);
    assert_eq!(rig.read(whole(out)).expect("an input is not claimed"), [1; 64]);
    assert_eq!(rig.unreadable(part(huge, 0, 4)), [root]);
}

#[test]
fn r7_allocating_later_turns_the_root_into_a_claim_on_all_bytes_that_only_writing_sheds() {
    let rig = rig();
    let (huge, root) = rig.huge();
    rig.device.buffer_allocate(huge, 64).expect("an allocation");
    assert!(rig.device.buffer_info(huge).expect("an info").allocated);
    assert_eq!(rig.unreadable(whole(huge)), [root]);
    rig.write(part(huge, 0, 60), &[4; 60]).expect("a write");
    assert_eq!(rig.read(part(huge, 0, 60)).expect("a read"), [4; 60]);
    assert_eq!(rig.unreadable(part(huge, 60, 4)), [root]);
    rig.write(part(huge, 60, 4), &[4; 4]).expect("a write");
    assert_eq!(rig.settled_failures(), 0);
    assert_eq!(misused(rig.device.buffer_allocate(huge, 64)).0, Code::WrongState);
}

#[test]
fn r7_a_taint_leaves_memory_that_is_not_there_to_the_reason_why() {
    let rig = rig();
    let ((huge, own), buffer) = (rig.huge(), rig.filled(64, 1));
    assert_eq!(rig.taint(whole(huge)), 0, "no byte, no root");
    assert_eq!(rig.unreadable(part(huge, 8, 8)), [own]);
    let id = rig.device.taint(&[part(huge, 0, 8), part(buffer, 0, 8)], &error("both")).expect("a taint");
    assert_eq!(rig.unreadable(part(huge, 0, 8)), [own]);
    assert_eq!(rig.unreadable(whole(buffer)), [id]);
    assert_eq!(rig.settled_failures(), 2);
}

#[test]
fn r7_destroying_sheds_the_root_of_an_unallocated_buffer() {
    let rig = rig();
    let (huge, _) = rig.huge();
    rig.device.buffer_destroy(huge).expect("a destroy");
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn r7_the_caller_can_say_why_a_buffer_has_no_memory() {
    let rig = rig();
    let memory = BufferMemory::Managed(MemoryKind::Device);
    let desc = BufferDesc { size: 64, memory, stream: 0, label: "later", tag: 0, unallocated: true };
    let (buffer, answer) = rig.device.buffer_create(&desc);
    answer.expect("a buffer");
    assert!(!rig.device.buffer_info(buffer).expect("an info").allocated);
    let root = rig.device.fail_unallocated(buffer, &error("the quota is used up")).expect("a root");
    assert_eq!(rig.unreadable(whole(buffer)), [root]);
    assert_eq!(rig.settled_failures(), 1);
    rig.device.buffer_allocate(buffer, 0).expect("an allocation");
    assert_eq!(rig.unreadable(whole(buffer)), [root]);
    rig.write(whole(buffer), &[1; 64]).expect("a write");
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn r7_an_allocation_the_driver_refuses_reclaims_once_and_retries_once() {
    let rig = Rig::new(Options::new(1, 1), Settings { isolate_buffers: true, ..settings() });
    let out_of_memory = || fault(Code::OutOfDeviceMemory, "no more");
    rig.backend().inject(Call::PageCreate, 1, out_of_memory(), true);
    let before = rig.backend().calls("page_create");
    let (buffer, answer) = rig.try_buffer(64, BufferMemory::Managed(MemoryKind::Device), "");
    let (code, roots) = failed(answer);
    assert_eq!(code, Code::OutOfDeviceMemory);
    assert!(rig.backend().calls("page_create") <= before + 2);
    assert_eq!(rig.unreadable(whole(buffer)), roots);
    rig.backend().heal();
    // With something to reclaim the second try is made, and helps.
    let idle = rig.buffer(4096);
    rig.device.buffer_destroy(idle).expect("a destroy");
    rig.backend().inject(Call::PageCreate, 1, out_of_memory(), false);
    let helped = rig.buffer(64);
    rig.write(whole(helped), &[1; 64]).expect("a write");
    assert_eq!(rig.read(whole(helped)).expect("a read"), [1; 64]);
}

// R8

#[test]
fn r8_a_broken_kernel_is_live_and_outputs_take_its_root_with_those_of_its_inputs() {
    let rig = rig();
    let (broken, kernel_root) = rig.broken(&[Some(Access::Read), Some(Access::Write)]);
    let (input, out) = (rig.filled(64, 1), rig.filled(64, 2));
    let root = rig.taint(part(input, 0, 1));
    let mut both = [kernel_root, root];
    both.sort_unstable();
    assert_eq!(skipped(rig.launch(broken, &[whole(input), whole(out)])), both);
    assert_eq!(rig.unreadable(whole(out)), both);
    assert_eq!(rig.unreadable(part(input, 1, 63)), [0; 0], "a binding declared READ is never claimed");
}

#[test]
fn r8_a_binding_whose_access_nobody_declared_is_claimed() {
    let rig = rig();
    let (broken, root) = rig.broken(&[Some(Access::Read)]);
    let (declared, undeclared, told) = (rig.filled(64, 1), rig.filled(64, 1), rig.filled(64, 1));
    let bindings = [silent(whole(declared)), silent(whole(undeclared)), reading(whole(told))];
    assert_eq!(skipped(rig.launch_on(0, broken, &bindings, &[])), [root]);
    assert_eq!(rig.unreadable(whole(undeclared)), [root]);
    assert_eq!(rig.read(whole(declared)).expect("a read"), [1; 64]);
    assert_eq!(rig.read(whole(told)).expect("a read"), [1; 64]);
}

#[test]
fn r8_of_a_broken_kernel_only_the_bindings_its_module_has_are_told_by_it() {
    let rig = rig();
    let code = triple().encode();
    let desc = tidegate::device::KernelDesc { entry: "another", ..kernel_desc(&code, &[], "") };
    let (broken, answer) = rig.device.kernel_create(&desc);
    assert!(answer.is_err());
    let root = rig.device.kernel_info(broken).expect("an info").failure;
    let (input, out, third) = (rig.filled(64, 1), rig.filled(64, 1), rig.filled(64, 1));
    assert_eq!(skipped(rig.launch_on(0, broken, &[silent(whole(input)), silent(whole(out))], &[])), [root]);
    assert_eq!(rig.unreadable(whole(out)), [root]);
    assert_eq!(rig.read(whole(input)).expect("a read"), [1; 64], "its module only reads it");
    // Which of these the module means is not known: what it lacks may stand before what it has.
    let three = [silent(whole(third)), silent(whole(input)), silent(whole(out))];
    assert_eq!(skipped(rig.launch_on(0, broken, &three, &[])), [root]);
    for buffer in [third, input, out] {
        assert_eq!(rig.unreadable(whole(buffer)), [root]);
    }
}

#[test]
fn r8_a_kernel_rebuilt_overwrites_its_own_tainted_output() {
    let rig = rig();
    let (kernel, root) = rig.broken(&[]);
    let (input, out) = (rig.filled(64, 1), rig.buffer(64));
    let bindings = [reading(whole(input)), silent(whole(out))];
    assert_eq!(skipped(rig.launch_on(0, kernel, &bindings, &[])), [root]);
    let info = rig.device.kernel_info(kernel).expect("an info");
    assert!(info.broken && info.failure == root && info.info.bindings.is_empty());
    rig.device.kernel_rebuild(kernel, &kernel_desc(&triple().encode(), &[], "")).expect("a rebuild");
    assert!(!rig.device.kernel_info(kernel).expect("an info").broken);
    assert_eq!(rig.unreadable(whole(out)), [root], "the claim outlives the repair");
    rig.launch_on(0, kernel, &bindings, &[]).expect("a launch");
    assert_eq!(rig.read(whole(out)).expect("a read"), [4; 64]);
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn r8_every_prefix_of_a_module_is_a_live_broken_kernel() {
    let rig = rig();
    let code = triple().encode();
    for len in 0..code.len() - 1 {
        let (kernel, answer) = rig.try_kernel(&code[..len], &[], "cut");
        assert_eq!(failed(answer).0, Code::InvalidShader, "{len}");
        rig.device.kernel_destroy(kernel).expect("a destroy");
    }
    let (kernel, answer) =
        rig.device.kernel_create(&tidegate::device::KernelDesc { entry: "other", ..kernel_desc(&code, &[], "entry") });
    assert_eq!(failed(answer).0, Code::InvalidShader);
    rig.device.kernel_destroy(kernel).expect("a destroy");
    assert_eq!(rig.settled_failures(), 0);
}

// R9

#[test]
fn r9_in_place_over_claimed_skips_ten_thousand_times_one_root_one_record() {
    let rig = rig();
    let kernel = rig.kernel(&increment());
    let buffer = rig.named(64, "state");
    rig.write(whole(buffer), &[0; 64]).expect("a write");
    let root = rig.taint(whole(buffer));
    for _ in 0..10_000 {
        assert_eq!(skipped(rig.launch(kernel, &[whole(buffer)])), [root]);
    }
    assert_eq!(rig.settled_failures(), 1);
    let report = rig.device.report_slices(&[whole(buffer)]).expect("a report");
    let failure = &report.failures[0];
    assert_eq!((failure.id, failure.skips, failure.claims.len(), failure.path.len()), (root, 10_000, 1, 1));
    let step = &failure.path[0];
    assert_eq!((step.kernel.as_str(), step.needed.as_str(), step.count), ("kernel", "state", 10_000));
    assert_eq!(step.produced, ["state"]);
    rig.write(whole(buffer), &[1; 64]).expect("a write");
    rig.launch(kernel, &[whole(buffer)]).expect("a launch");
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [2; 64]);
}

/// Stores every other byte.
fn scatter() -> Program {
    let mut program = Program::new(&[Access::Write]);
    let window = Window::ALL;
    program.operations.push(Operation { out: 0, window, step: 2, start: 0, add: 9, terms: Vec::<Term>::new() });
    program
}

/// A kernel that stores every other byte of its only binding, and says so.
fn scattering(rig: &Rig) -> Handle {
    let (kernel, answer) = rig.try_kernel(&scatter().encode(), &[Some(Access::MayWrite)], "scatter");
    answer.expect("a kernel");
    kernel
}

/// A kernel that reads its first binding and may write its second, as it declares.
fn scattering_of(rig: &Rig) -> Handle {
    let accesses = [Some(Access::Read), Some(Access::MayWrite)];
    let (kernel, answer) = rig.try_kernel(&triple().encode(), &accesses, "scatter of");
    answer.expect("a kernel");
    kernel
}

#[test]
fn r9_may_write_runs_over_claimed_bytes_and_leaves_claims_as_they_are() {
    let rig = rig();
    let kernel = scattering(&rig);
    let buffer = rig.filled(64, 1);
    let (first, second) = (rig.taint(part(buffer, 0, 2)), rig.taint(part(buffer, 3, 1)));
    rig.launch(kernel, &[whole(buffer)]).expect("a launch that needs no old byte");
    assert_eq!(rig.unreadable(part(buffer, 0, 1)), [first], "nothing proves that it was written, though it was");
    assert_eq!(rig.unreadable(part(buffer, 1, 1)), [first]);
    assert_eq!(rig.unreadable(part(buffer, 3, 1)), [second]);
    assert_eq!(rig.read(part(buffer, 2, 1)).expect("what was clean stays clean"), [9]);
    assert_eq!(rig.read(part(buffer, 4, 4)).expect("what was clean stays clean"), [9, 1, 9, 1]);
    rig.device.mark_written(&[part(buffer, 0, 4)]).expect("a mark");
    assert_eq!(rig.read(part(buffer, 0, 4)).expect("a read"), [9, 1, 9, 1], "it ran");
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn r9_a_may_write_that_fails_claims_its_whole_slice() {
    let rig = rig();
    let kernel = scattering(&rig);
    let buffer = rig.filled(64, 1);
    rig.taint(part(buffer, 1, 1));
    let desc = LaunchDesc { grid: LaunchGrid::Groups([u32::MAX, 1, 1]), ..launch_desc(0, kernel, &[], &[]) };
    let bindings = [silent(part(buffer, 0, 32))];
    let (code, roots) = failed(rig.device.launch(&LaunchDesc { bindings: &bindings, ..desc }));
    assert_eq!((code, roots.len()), (Code::LimitExceeded, 1));
    assert_eq!(rig.unreadable(part(buffer, 0, 32)), roots, "a new failure takes over the bytes it claims");
    assert_eq!(rig.read(part(buffer, 32, 32)).expect("a read"), [1; 32]);
}

#[test]
fn r9_a_may_write_of_claimed_inputs_skips_and_its_whole_slice_takes_their_roots() {
    let rig = rig();
    let kernel = scattering_of(&rig);
    let (input, out) = (rig.filled(64, 1), rig.filled(64, 1));
    rig.taint(part(out, 5, 1));
    let root = rig.taint(part(input, 63, 1));
    assert_eq!(skipped(rig.launch(kernel, &[whole(input), part(out, 0, 32)])), [root]);
    assert_eq!(rig.unreadable(part(out, 0, 32)), [root]);
    assert_eq!(rig.read(part(out, 32, 32)).expect("a read"), [1; 32]);
}

#[test]
fn r9_a_may_write_of_memory_that_is_not_there_skips() {
    let rig = rig();
    let (huge, root) = rig.huge();
    let kernel = scattering(&rig);
    assert_eq!(skipped(rig.launch(kernel, &[part(huge, 0, 64)])), [root]);
}

#[test]
fn r9_a_may_write_is_ordered_like_any_write() {
    let rig = lazy();
    let (kernel, read) = (scattering(&rig), rig.kernel(&triple()));
    let (buffer, out) = (rig.filled(64, 1), rig.buffer(64));
    rig.launch_on(1, kernel, &[silent(whole(buffer))], &[]).expect("a launch");
    rig.launch_on(2, read, &[silent(whole(buffer)), silent(whole(out))], &[]).expect("a launch");
    rig.launch_on(3, kernel, &[silent(whole(buffer))], &[]).expect("a launch");
    rig.write(whole(buffer), &[5; 64]).expect("a write");
    assert_eq!(rig.read(part(out, 0, 4)).expect("a read"), [28, 4, 28, 4]);
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [5; 64]);
    rig.assert_ordered();
}

#[test]
fn r9_a_report_says_that_nothing_proves_the_write_and_what_to_declare() {
    let rig = rig();
    let kernel = scattering(&rig);
    let other = rig.try_kernel(&scatter().encode(), &[Some(Access::MayWrite)], "another").0;
    let buffer = rig.named(64, "cache");
    rig.write(whole(buffer), &[1; 64]).expect("a write");
    let root = rig.taint(part(buffer, 8, 8));
    for _ in 0..1000 {
        rig.launch(kernel, &[whole(buffer)]).expect("a launch");
    }
    rig.launch(other, &[part(buffer, 16, 16)]).expect("a launch over clean bytes");
    let report = rig.device.report_slices(&[whole(buffer)]).expect("a report");
    let failure = &report.failures[0];
    assert_eq!((failure.id, failure.skips, failure.path.len()), (root, 0, 1));
    let step = &failure.path[0];
    assert_eq!((step.kind, step.kernel.as_str(), step.count), (StepKind::UnprovenWrite, "scatter", 1000));
    assert_eq!((step.needed.as_str(), &step.produced[..]), ("cache", &["cache".to_string()][..]));
    for words in ["\"scatter\" ran over claimed bytes of \"cache\"", "declare TG_ACCESS_WRITE", "(1000 times)"] {
        assert!(report.text().contains(words), "no {words} in {}", report.text());
    }
    rig.launch_on(0, kernel, &[writing(whole(buffer))], &[]).expect("the caller's word");
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn r9_a_path_leads_through_the_skip_to_the_repair_that_proved_nothing() {
    let rig = rig();
    let (input, out) = (rig.named(64, "input"), rig.named(64, "out"));
    let root = rig.taint(whole(input));
    let kernel = scattering_of(&rig);
    skipped(rig.launch(kernel, &[whole(input), whole(out)]));
    rig.write(whole(input), &[1; 64]).expect("a write");
    rig.launch(kernel, &[whole(input), whole(out)]).expect("a launch");
    assert_eq!(rig.unreadable(whole(out)), [root]);
    let report = rig.device.report_slices(&[whole(out)]).expect("a report");
    let path: Vec<StepKind> = report.failures[0].path.iter().map(|step| step.kind).collect();
    assert_eq!(path, [StepKind::Skip, StepKind::UnprovenWrite]);
}

#[test]
fn r9_a_scope_that_may_write_leaves_claims_as_they_are_when_it_succeeds() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let (first, second) = (rig.taint(part(buffer, 0, 8)), rig.taint(part(buffer, 8, 8)));
    let open = scope(&rig, &[with(part(buffer, 4, 32), Access::MayWrite)]).expect("a scope");
    let own = rig.device.first_failure(&[part(buffer, 4, 32)]).expect("an id");
    assert!(own > second, "claimed until its outcome is known (R4)");
    rig.device.scope_end(open).expect("an end");
    assert_eq!(rig.unreadable(part(buffer, 0, 8)), [first]);
    assert_eq!(rig.unreadable(part(buffer, 8, 8)), [second]);
    assert_eq!(rig.read(part(buffer, 16, 48)).expect("a read"), [1; 48]);
    let report = rig.device.report_slices(&[part(buffer, 8, 1)]).expect("a report");
    assert_eq!(report.failures[0].path[0].kind, StepKind::UnprovenWrite);
    assert_eq!(rig.settled_failures(), 2);
}

#[test]
fn r9_a_scope_that_may_write_takes_its_whole_slice_over_when_it_fails() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    rig.taint(part(buffer, 0, 8));
    let open = scope(&rig, &[with(part(buffer, 0, 32), Access::MayWrite)]).expect("a scope");
    rig.device.scope_fail(open, Some(&error("failed by the test"))).expect("an end");
    let roots = rig.unreadable(part(buffer, 0, 32));
    assert_eq!((roots.len(), rig.settled_failures()), (1, 1), "the first holds nothing any more");
    assert_eq!(rig.device.report_device().failures[0].message, "failed by the test");
    assert_eq!(rig.read(part(buffer, 32, 32)).expect("a read"), [1; 32]);
}

#[test]
fn r9_what_a_scope_must_write_is_released_though_it_may_be_written_as_well() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let root = rig.taint(part(buffer, 0, 32));
    let uses = [writing(part(buffer, 8, 8)), with(whole(buffer), Access::MayWrite)];
    rig.device.scope_end(scope(&rig, &uses).expect("a scope")).expect("an end");
    assert_eq!(rig.unreadable(part(buffer, 0, 8)), [root]);
    assert_eq!(rig.read(part(buffer, 8, 8)).expect("a read"), [1; 8]);
    assert_eq!(rig.unreadable(part(buffer, 16, 16)), [root]);
    // Of a launch it is the same.
    let launch = rig.launch_on(0, scattering(&rig), &[silent(part(buffer, 0, 64))], &[writing(part(buffer, 24, 8))]);
    launch.expect("a launch");
    assert_eq!(rig.unreadable(part(buffer, 16, 8)), [root]);
    assert_eq!(rig.read(part(buffer, 24, 8)).expect("a read"), [9, 1, 9, 1, 9, 1, 9, 1]);
}

#[test]
fn r9_only_a_write_of_every_byte_releases() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let buffer = rig.filled(64, 1);
    let root = rig.taint(whole(buffer));
    rig.launch(kernel, &[part(buffer, 16, 16)]).expect("an overwrite needs no bytes");
    assert_eq!(rig.read(part(buffer, 16, 16)).expect("a read"), [9; 16]);
    assert_eq!(rig.unreadable(part(buffer, 15, 1)), [root]);
    assert_eq!(rig.unreadable(part(buffer, 32, 1)), [root]);
    rig.launch_on(0, kernel, &[with(part(buffer, 0, 16), Access::None)], &[]).expect("bound is not touched");
    assert_eq!(rig.unreadable(part(buffer, 0, 16)), [root]);
}

/// Each of 8 invocations of a group writes one word of the first binding; if it is guarded, only words below the number
/// that is pushed.
fn words(guarded: bool) -> Program {
    Program { group: [8, 1, 1], push: 4, per: Some(Per { bytes: 4, guarded }), ..nine() }
}

fn launch_words(rig: &Rig, kernel: Handle, slice: Slice, groups: [u32; 3], count: u32) -> tidegate::error::Result {
    let bindings = [silent(slice)];
    let desc = launch_desc(0, kernel, &bindings, &[]);
    rig.device.launch(&LaunchDesc { grid: LaunchGrid::Groups(groups), push: &count.to_le_bytes(), ..desc })
}

#[test]
fn r9_a_launch_releases_exactly_the_bytes_that_its_grid_and_push_constants_prove() {
    let rig = rig();
    let kernel = rig.kernel(&words(true));
    let info = rig.device.kernel_info(kernel).expect("an info");
    assert_eq!((info.info.bindings[0].access, info.bases[0]), (Access::Write, Basis::Proven));
    let buffer = rig.named(80, "out");
    // Of a slice of 16 words: groups, words that are pushed, words that are written.
    for (groups, pushed, written) in
        [(2, 16, 16), (2, 5, 5), (2, 15, 15), (2, 400, 16), (1, 16, 8), (1, 3, 3), (3, 16, 16), (2, 0, 0), (0, 16, 0)]
    {
        rig.write(whole(buffer), &[1; 80]).expect("a write");
        let root = rig.taint(whole(buffer));
        launch_words(&rig, kernel, part(buffer, 8, 64), [groups, 1, 1], pushed).expect("a launch over claimed bytes");
        let bytes = 4 * written;
        let told = format!("{groups} groups, {pushed} words");
        if bytes > 0 {
            let words = vec![9_u8.wrapping_add(pushed as u8); bytes as usize];
            assert_eq!(rig.read(part(buffer, 8, bytes)).expect("a read"), words, "{told}");
        }
        let mut claims = [Claim { offset: 0, size: 0, failure: 0, failures: 0, more: false }; 4];
        assert_eq!(rig.device.claims(whole(buffer), &mut claims).expect("claims"), if bytes > 0 { 2 } else { 1 });
        if bytes > 0 {
            assert_eq!(claims[0], Claim { offset: 0, size: 8, failure: root, failures: 1, more: false }, "{told}");
            let (offset, size) = (8 + bytes, 72 - bytes);
            assert_eq!(claims[1], Claim { offset, size, failure: root, failures: 1, more: false }, "{told}");
        }
        let report = rig.device.report_slices(&[whole(buffer)]).expect("a report");
        let unproven = report.failures[0].path.iter().any(|step| step.kind == StepKind::UnprovenWrite);
        assert_eq!(unproven, written < 16 && groups > 0, "{told}");
    }
    rig.assert_ordered();
}

#[test]
fn r9_what_a_launch_does_not_prove_of_a_slice_is_claimed_when_it_fails_or_skips() {
    let rig = rig();
    let kernel = rig.kernel(&words(false));
    let buffer = rig.filled(64, 1);
    let (code, roots) = failed(launch_words(&rig, kernel, whole(buffer), [u32::MAX, 1, 1], 0));
    assert_eq!((code, rig.unreadable(whole(buffer))), (Code::LimitExceeded, roots));
    rig.write(whole(buffer), &[1; 64]).expect("a write");
    // A late failure of one group: the slice is its own, not only what it was proven to write.
    rig.device.wait(FOREVER).expect("a wait");
    launch_words(&rig, kernel, whole(buffer), [1, 1, 1], 0).expect("a launch");
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    let (_, roots) = failed(rig.device.stream_flush(0));
    assert_eq!(rig.unreadable(part(buffer, 32, 32)), roots);
    assert_eq!(rig.unreadable(part(buffer, 0, 32)), roots);
    launch_words(&rig, kernel, whole(buffer), [1, 1, 1], 0).expect("a launch");
    assert_eq!(rig.unreadable(part(buffer, 32, 32)), roots);
    assert_eq!(rig.read(part(buffer, 0, 32)).expect("a read"), [9; 32]);
}

#[test]
fn r9_fresh_bytes_that_a_launch_is_not_proven_to_write_stay_never_written() {
    let rig = Rig::new(Options::new(1, 1), Settings { track_uninitialized: true, ..settings() });
    let kernel = rig.kernel(&words(false));
    let buffer = rig.buffer(64);
    let root = rig.device.first_failure(&[whole(buffer)]).expect("an id");
    launch_words(&rig, kernel, whole(buffer), [1, 1, 1], 0).expect("a launch");
    assert_eq!(rig.read(part(buffer, 0, 32)).expect("a read"), [9; 32]);
    assert_eq!(rig.unreadable(part(buffer, 32, 1)), [root]);
    launch_words(&rig, kernel, part(buffer, 32, 32), [1, 1, 1], 0).expect("a launch");
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [9; 64]);
}

#[test]
fn r9_a_proof_does_not_reach_the_last_bytes_of_a_slice_that_is_no_whole_number_of_elements() {
    let rig = rig();
    let kernel = rig.kernel(&words(false));
    let buffer = rig.filled(64, 1);
    let root = rig.taint(whole(buffer));
    launch_words(&rig, kernel, part(buffer, 0, 7), [1, 1, 1], 0).expect("a launch");
    assert_eq!(rig.read(part(buffer, 0, 4)).expect("a read"), [9; 4]);
    assert_eq!(rig.unreadable(part(buffer, 4, 3)), [root]);
    let desc = launch_desc(0, kernel, &[], &[]);
    let bindings = [writing(part(buffer, 0, 7))];
    rig.device.launch(&LaunchDesc { bindings: &bindings, push: &[0; 4], ..desc }).expect("the caller's word");
    assert_eq!(rig.unreadable(part(buffer, 0, 7)), [0; 0]);
}

#[test]
fn r9_many_bindings_and_extra_uses_keep_their_own_proofs() {
    let rig = rig();
    let mut program = Program { group: [8, 1, 1], per: Some(Per { bytes: 4, guarded: false }), ..Program::new(&[]) };
    let outputs: Vec<Handle> = (0..6).map(|_| rig.filled(64, 1)).collect();
    for out in 0..outputs.len() {
        program.bindings.push(if out == 3 { Access::MayWrite } else { Access::Write });
        program = program.map(out, out as u8, &[]);
    }
    let kernel = rig.kernel(&program);
    let row = rig.filled(64, 1);
    let root = rig.device.taint(&outputs.iter().map(|out| whole(*out)).collect::<Vec<_>>(), &error("all of it"));
    let (root, other) = (root.expect("an id"), rig.taint(whole(row)));
    let bindings: Vec<SliceUse> = outputs.iter().map(|out| silent(whole(*out))).collect();
    rig.launch_on(0, kernel, &bindings, &[writing(part(row, 0, 8))]).expect("a launch");
    for (at, out) in outputs.iter().enumerate() {
        assert_eq!(rig.unreadable(part(*out, 32, 32)), [root]);
        match at {
            3 => assert_eq!(rig.unreadable(whole(*out)), [root]),
            _ => assert_eq!(rig.read(part(*out, 0, 32)).expect("a read"), [at as u8; 32]),
        }
    }
    assert_eq!(rig.unreadable(part(row, 8, 1)), [other]);
    assert_eq!(rig.read(part(row, 0, 8)).expect("a read"), [1; 8]);
}

#[test]
fn r9_a_kernel_tells_on_what_its_accesses_rest() {
    let rig = rig();
    let program = Program::new(&[Access::Read, Access::Write, Access::MayWrite, Access::Write, Access::ReadWrite]);
    let accesses = [None, None, None, Some(Access::Write)];
    let (kernel, answer) = rig.try_kernel(&program.encode(), &accesses, "kernel");
    answer.expect("a kernel");
    let info = rig.device.kernel_info(kernel).expect("an info");
    let told: Vec<(Access, Basis)> =
        info.info.bindings.iter().zip(&info.bases).map(|(binding, basis)| (binding.access, *basis)).collect();
    use Basis::{Declared, Inferred, Proven};
    assert_eq!(
        told,
        [
            (Access::Read, Inferred),
            (Access::Write, Proven),
            (Access::MayWrite, Inferred),
            (Access::Write, Declared),
            (Access::ReadWrite, Inferred)
        ]
    );
}

#[test]
fn r9_the_launch_overrides_the_descriptor_and_the_descriptor_the_module() {
    let rig = rig();
    let (kernel, answer) = rig.try_kernel(&nine().encode(), &[Some(Access::ReadWrite)], "declared");
    answer.expect("a kernel");
    let info = rig.device.kernel_info(kernel).expect("an info");
    assert_eq!(info.info.bindings[0].access, Access::ReadWrite);
    let buffer = rig.filled(64, 1);
    let root = rig.taint(whole(buffer));
    assert_eq!(skipped(rig.launch(kernel, &[whole(buffer)])), [root]);
    rig.launch_on(0, kernel, &[writing(whole(buffer))], &[]).expect("a launch");
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [9; 64]);
}

// R10

#[test]
fn r10_a_copy_moves_claims_with_the_bytes() {
    let rig = rig();
    let (from, to) = (rig.filled(64, 1), rig.filled(64, 2));
    let (root, other) = (rig.taint(part(from, 10, 4)), rig.taint(whole(to)));
    rig.device.buffer_copy(0, part(to, 8, 32), part(from, 4, 32)).expect("a copy runs over claimed bytes");
    assert_eq!(rig.unreadable(part(to, 14, 4)), [root]);
    assert_eq!(rig.read(part(to, 8, 6)).expect("each clean byte releases"), [1; 6]);
    assert_eq!(rig.read(part(to, 18, 22)).expect("each clean byte releases"), [1; 22]);
    assert_eq!(rig.unreadable(part(to, 0, 8)), [other]);
    assert_eq!(rig.unreadable(part(to, 40, 24)), [other]);
    let report = rig.device.report_slices(&[part(to, 14, 4)]).expect("a report");
    assert_eq!(report.failures[0].path.last().map(|step| step.kind), Some(StepKind::Copy));
}

#[test]
fn r10_a_copy_within_one_buffer_moves_claims() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    let root = rig.taint(part(buffer, 2, 2));
    rig.device.buffer_copy(0, part(buffer, 32, 8), part(buffer, 0, 8)).expect("a copy");
    rig.device.buffer_copy(0, part(buffer, 0, 8), part(buffer, 16, 8)).expect("a copy");
    assert_eq!(rig.read(part(buffer, 0, 34)).expect("a read"), [1; 34]);
    assert_eq!(rig.unreadable(part(buffer, 34, 1)), [root]);
}

#[test]
fn r10_an_unallocated_source_claims_the_destination() {
    let rig = rig();
    let (huge, root) = rig.huge();
    let to = rig.filled(64, 2);
    assert_eq!(skipped(rig.device.buffer_copy(0, part(to, 0, 32), part(huge, 0, 32))), [root]);
    assert_eq!(rig.unreadable(part(to, 0, 32)), [root]);
    assert_eq!(rig.read(part(to, 32, 32)).expect("a read"), [2; 32]);
}

// R11

#[test]
fn r11_programming_errors_claim_nothing_and_change_nothing() {
    let rig = rig();
    let (a, b) = (rig.filled(64, 1), rig.filled(64, 2));
    let (kernel, pushing) = (rig.kernel(&triple()), rig.kernel(&Program { push: 4, ..nine() }));
    let device = &rig.device;
    let invalid = |answer| assert_eq!(misused::<()>(answer).0, Code::InvalidArgument);
    invalid(rig.write(part(a, 60, 5), &[0; 5]));
    invalid(rig.write(part(a, u64::MAX, 5), &[0; 5]));
    invalid(rig.write(part(a, 5, u64::MAX - 2), &[0; 5]));
    invalid(rig.write(part(a, 0, 4), &[0; 5]));
    invalid(device.buffer_read(0, &mut [0; 5], part(a, 0, 4), FOREVER));
    invalid(device.buffer_fill(0, whole(a), 0, 3));
    invalid(device.buffer_copy(0, part(a, 0, 8), part(b, 0, 9)));
    invalid(device.buffer_copy(0, part(a, 0, 8), part(a, 7, 8)));
    invalid(rig.launch(kernel, &[whole(a)]));
    invalid(rig.launch(kernel, &[whole(a), whole(b), whole(b)]));
    invalid(rig.launch(kernel, &[part(a, 60, 5), whole(b)]));
    invalid(rig.launch(kernel, &[part(a, 0, 0), whole(b)]));
    invalid(rig.launch(kernel, &[part(a, 64, WHOLE), whole(b)]));
    invalid(rig.launch_on(0, kernel, &[silent(whole(a)), silent(whole(b))], &[reading(part(a, 1, 64))]));
    invalid(device.launch(&LaunchDesc { push: &[0; 3], ..launch_desc(0, pushing, &[silent(whole(b))], &[]) }));
    invalid(rig.launch(pushing, &[whole(b)]));
    invalid(device.taint(&[part(a, 65, 0)], &error("no")).map(drop));
    invalid(device.mark_written(&[whole(a), part(a, 0, 65)]));
    invalid(device.check_written(&[part(a, 65, WHOLE)], FOREVER));
    invalid(scope(&rig, &[writing(part(a, 64, 1))]).map(drop));
    let (null, answer) = rig.try_buffer(0, BufferMemory::Managed(MemoryKind::Device), "");
    assert_eq!((null, misused(answer).0), (Handle(0), Code::InvalidArgument));
    assert_eq!(rig.settled_failures(), 0);
    assert_eq!(rig.read(whole(a)).expect("a read"), [1; 64]);
    assert_eq!(rig.read(whole(b)).expect("a read"), [2; 64]);
}

#[test]
fn r11_a_misuse_among_good_slices_changes_none_of_them() {
    let rig = rig();
    let a = rig.filled(64, 1);
    let root = rig.taint(part(a, 0, 8));
    misused(rig.device.mark_written(&[part(a, 0, 8), part(a, 60, 5)]));
    misused(rig.device.taint(&[part(a, 8, 8), part(a, 60, 5)], &error("no")));
    misused(scope(&rig, &[writing(part(a, 8, 8)), writing(part(a, 60, 5))]));
    assert_eq!(rig.unreadable(whole(a)), [root]);
    assert_eq!(rig.read(part(a, 8, 56)).expect("a read"), [1; 56]);
}

#[test]
fn r11_a_token_has_no_memory_to_move() {
    let rig = rig();
    let (token, buffer) = (rig.token(), rig.filled(64, 1));
    let device = &rig.device;
    for answer in [
        rig.write(whole(token), &[0; 64]),
        device.buffer_read(0, &mut [0; 64], whole(token), FOREVER),
        device.buffer_fill(0, whole(token), 0, 4),
        device.buffer_copy(0, whole(token), whole(buffer)),
        device.buffer_copy(0, whole(buffer), whole(token)),
        rig.launch(rig.kernel(&nine()), &[whole(token)]),
    ] {
        misused(answer);
    }
    assert_eq!(rig.settled_failures(), 0);
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [1; 64]);
}

#[test]
fn r11_a_limit_of_this_device_claims_what_was_to_be_written() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let buffer = rig.filled(64, 1);
    let grid = LaunchGrid::Groups([1025, 1, 1]);
    let (code, roots) =
        failed(rig.device.launch(&LaunchDesc { grid, ..launch_desc(0, kernel, &[silent(part(buffer, 0, 32))], &[]) }));
    assert_eq!((code, rig.unreadable(part(buffer, 0, 32))), (Code::LimitExceeded, roots));
    assert_eq!(rig.read(part(buffer, 32, 32)).expect("a read"), [1; 32]);
    let (code, roots) = failed(rig.launch(kernel, &[part(buffer, 33, 8)]));
    assert_eq!((code, rig.unreadable(part(buffer, 33, 8))), (Code::LimitExceeded, roots), "it cannot be bound there");
    rig.assert_ordered();
}

#[test]
fn r11_handles_are_checked_in_order_null_kind_foreign_stale() {
    let (rig, other) = (rig(), rig());
    let device = &rig.device;
    let (buffer, kernel) = (rig.filled(64, 1), rig.kernel(&nine()));
    let stale = rig.buffer(64);
    device.buffer_destroy(stale).expect("a destroy");
    let foreign = Handle(buffer.0 ^ (1 << 40) ^ (1 << 41));
    let cases = [
        (Handle(0), Code::NullHandle),
        (kernel, Code::WrongKind),
        (Handle(u64::MAX), Code::WrongKind),
        (foreign, Code::ForeignHandle),
        (stale, Code::StaleHandle),
        (Handle(buffer.0 + 1), Code::StaleHandle),
    ];
    for (handle, code) in cases {
        assert_eq!(misused(rig.write(part(handle, 0, 4), &[0; 4])).0, code);
        assert_eq!(misused(device.buffer_info(handle)).0, code);
        assert_eq!(misused(device.buffer_read(0, &mut [0; 4], part(handle, 0, 4), FOREVER)).0, code);
        assert_eq!(misused(device.buffer_copy(0, part(handle, 0, 4), part(buffer, 0, 4))).0, code);
        assert_eq!(misused(device.buffer_copy(0, part(buffer, 0, 4), part(handle, 0, 4))).0, code);
        assert_eq!(misused(rig.launch(kernel, &[part(handle, 0, 4)])).0, code);
        assert_eq!(misused(device.taint(&[part(handle, 0, 4)], &error("no"))).0, code);
        assert_eq!(misused(device.fail_unallocated(handle, &error("no"))).0, code);
        assert_eq!(misused(device.buffer_allocate(handle, 0)).0, code);
        assert_eq!(misused(scope(&rig, &[writing(part(handle, 0, 4))])).0, code);
        if code != Code::NullHandle {
            assert_eq!(misused(device.buffer_destroy(handle)).0, code);
        }
    }
    device.buffer_destroy(Handle(0)).expect("null is fine");
    device.kernel_destroy(Handle(0)).expect("null is fine");
    device.scope_end(Handle(0)).expect("null is fine");
    for (handle, code) in [(Handle(0), Code::NullHandle), (buffer, Code::WrongKind)] {
        assert_eq!(misused(rig.launch(handle, &[whole(buffer)])).0, code);
        assert_eq!(misused(device.kernel_info(handle)).0, code);
        assert_eq!(misused(device.kernel_rebuild(handle, &kernel_desc(b"", &[], ""))).0, code);
    }
    device.kernel_destroy(kernel).expect("a destroy");
    assert_eq!(misused(rig.launch(kernel, &[whole(buffer)])).0, Code::StaleHandle);
    assert_eq!(misused(device.kernel_destroy(kernel)).0, Code::StaleHandle);
    let open = scope(&rig, &[reading(whole(buffer))]).expect("a scope");
    device.scope_end(open).expect("an end");
    assert_eq!(misused(device.scope_end(open)).0, Code::StaleHandle);
    assert_eq!(misused(device.scope_fail(open, None)).0, Code::StaleHandle);
    assert_eq!(misused(device.scope_end(buffer)).0, Code::WrongKind);
    assert_eq!(rig.settled_failures() + other.settled_failures(), 0);
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [1; 64]);
}

#[test]
fn r11_every_failure_code_of_a_call_claims_and_no_other_does() {
    let rig = Rig::new(Options::new(1, 1), Settings { max_recorded: 1, max_tasks: 1, ..settings() });
    let kernel = rig.kernel(&nine());
    let buffer = rig.filled(64, 1);
    rig.device.wait(FOREVER).expect("a wait");
    for call in [Call::Begin, Call::Launch] {
        for code in [Code::OutOfHostMemory, Code::OutOfDeviceMemory, Code::Driver, Code::LimitExceeded] {
            rig.backend().inject(call, 1, fault(code, "refused"), false);
            let (answered, roots) = failed(rig.launch(kernel, &[whole(buffer)]));
            assert_eq!((answered, rig.unreadable(whole(buffer))), (code, roots));
            let report = rig.device.report_slices(&[whole(buffer)]).expect("a report");
            let failure = &report.failures[0];
            assert_eq!((failure.code, failure.vk_result, failure.vk_function.as_str()), (code, -2, "vkHostTest"));
            // What is recorded later fails with all that is recorded with it.
            assert_eq!(failure.kernel, if scheduling() == Scheduling::Event { "kernel" } else { "" });
            rig.launch(kernel, &[whole(buffer)]).expect("a launch");
            assert_eq!(rig.read(whole(buffer)).expect("a read"), [9; 64]);
            rig.device.wait(FOREVER).expect("a wait");
        }
    }
    assert_eq!(rig.settled_failures(), 0);
    rig.assert_ordered();
}

#[test]
fn r11_work_that_finds_no_room_behind_a_device_that_does_not_answer_claims_what_it_was_to_write() {
    let rig = Rig::new(Options::new(4, 1).pace(Pace::Lazy), Settings { max_pending: 4, ..settings() });
    let kernel = rig.kernel(&nine());
    let (busy, out) = (rig.filled(64, 1), rig.filled(64, 1));
    rig.device.wait(FOREVER).expect("a wait");
    (0..4).for_each(|_| rig.launch(kernel, &[whole(busy)]).expect("a launch"));
    for call in [Call::Completed, Call::Wait] {
        rig.backend().inject(call, 1, fault(Code::OutOfHostMemory, "cannot ask"), true);
    }
    let (code, roots) = failed(rig.launch(kernel, &[whole(out)]));
    rig.backend().heal();
    assert_eq!((code, roots.len()), (Code::OutOfHostMemory, 1));
    assert_eq!(rig.unreadable(whole(out)), roots);
}

#[test]
fn r11_a_write_that_cannot_wait_for_staging_claims_what_it_was_to_write() {
    let rig = Rig::new(Options::new(4, 1).pace(Pace::Lazy), Settings { staging_size: 16 << 10, ..settings() });
    let (first, out) = (rig.buffer(16 << 10), rig.filled(8 << 10, 1));
    rig.device.wait(FOREVER).expect("a wait");
    rig.write(whole(first), &[2; 16 << 10]).expect("a write");
    for call in [Call::Completed, Call::Wait] {
        rig.backend().inject(call, 1, fault(Code::OutOfHostMemory, "cannot ask"), true);
    }
    let (code, roots) = failed(rig.write(whole(out), &[3; 8 << 10]));
    rig.backend().heal();
    assert_eq!((code, roots.len()), (Code::OutOfHostMemory, 1));
    assert_eq!(rig.unreadable(whole(out)), roots);
}

// R12

#[test]
fn r12_a_dependent_is_enqueued_behind_unfinished_work_and_a_read_waits_its_time() {
    let mut rig = lazy();
    rig.backend().hold(true);
    let kernel = rig.kernel(&triple());
    let (a, b, c) = (rig.filled(64, 1), rig.buffer(64), rig.buffer(64));
    rig.launch(kernel, &[whole(a), whole(b)]).expect("a launch");
    rig.launch_on(1, kernel, &[silent(whole(b)), silent(whole(c))], &[]).expect("a launch");
    assert_eq!(rig.device.first_failure(&[whole(c)]).expect("an id"), 0, "clean so far");
    for timeout in [0, 1, 2_000_000] {
        let mut bytes = [0xEE; 64];
        assert_eq!(rig.device.buffer_read(0, &mut bytes, whole(c), timeout), Err(Error::Timeout));
        assert_eq!(bytes, [0xEE; 64]);
        assert_eq!(rig.device.stream_wait(1, timeout), Err(Error::Timeout));
        assert_eq!(rig.device.wait(timeout), Err(Error::Timeout));
        assert_eq!(rig.device.check_written(&[whole(c)], timeout), Err(Error::Timeout));
        assert_eq!(rig.device.close(timeout), Err(Error::Timeout));
    }
    rig.backend().hold(false);
    assert_eq!(rig.read(whole(c)).expect("a read"), [13; 64]);
    assert_eq!(rig.settled_failures(), 0);
    rig.device.close(FOREVER).expect("a close");
    assert_eq!((rig.backend().live_pages(), rig.backend().open_recordings()), (0, 0));
    rig.assert_ordered();
}

#[test]
fn r12_a_read_gives_the_bytes_of_its_place_in_the_order() {
    let rig = lazy();
    let buffer = rig.filled(64, 1);
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [1; 64]);
    rig.write(whole(buffer), &[2; 64]).expect("a write");
    rig.taint(part(buffer, 0, 4));
    assert_eq!(rig.read(part(buffer, 4, 60)).expect("a read"), [2; 60]);
}

#[test]
fn r12_a_reader_that_fails_taints_no_source() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    rig.backend().inject(Call::PageRead, 1, fault(Code::OutOfHostMemory, "cannot be mapped"), false);
    assert_eq!(failed(rig.read(whole(buffer))).0, Code::OutOfHostMemory);
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [1; 64]);
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn r12_a_read_keeps_to_its_time_when_there_is_no_room_either() {
    let rig = Rig::new(Options::new(4, 1).pace(Pace::Lazy), Settings { max_pending: 4, ..settings() });
    let kernel = rig.kernel(&nine());
    let buffer = rig.filled(64, 1);
    rig.device.wait(FOREVER).expect("a wait");
    rig.backend().hold(true);
    (0..4).for_each(|_| rig.launch(kernel, &[whole(buffer)]).expect("a launch"));
    let (asked, answered) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = asked.send(rig.device.buffer_read(0, &mut [0; 64], whole(buffer), 1_000_000));
        });
        let answer = answered.recv_timeout(std::time::Duration::from_secs(20));
        rig.backend().hold(false);
        assert_eq!(answer, Ok(Err(Error::Timeout)));
    });
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [9; 64]);
}

// R13

/// Two launches in one batch that is refused, and one outside of it.
fn refused_batch(rig: &Rig) -> (Handle, Handle, Handle, u64) {
    let kernel = rig.kernel(&triple());
    let (input, a, b, c) = (rig.filled(64, 1), rig.filled(64, 0), rig.filled(64, 0), rig.filled(64, 0));
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch_on(1, kernel, &[silent(whole(input)), silent(whole(c))], &[]).expect("a launch");
    rig.device.stream_flush(1).expect("a flush");
    rig.launch(kernel, &[whole(input), whole(a)]).expect("a launch");
    rig.launch(kernel, &[whole(a), whole(b)]).expect("a launch");
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    let (code, roots) = failed(rig.device.stream_flush(0));
    assert_eq!((code, roots.len()), (Code::Driver, 1));
    (a, b, c, roots[0])
}

#[test]
fn r13_a_refused_batch_is_a_failure_of_each_launch_in_it_and_of_no_other() {
    let rig = rig();
    let (a, b, c, root) = refused_batch(&rig);
    assert_eq!(rig.unreadable(whole(a)), [root]);
    assert_eq!(rig.unreadable(whole(b)), [root]);
    assert_eq!(rig.read(whole(c)).expect("a read"), [4; 64]);
    let report = rig.device.report_slices(&[whole(b)]).expect("a report");
    assert!(report.failures[0].message.contains("refused by the test"));
    for buffer in [a, b] {
        rig.write(whole(buffer), &[8; 64]).expect("a write");
        assert_eq!(rig.read(whole(buffer)).expect("a read"), [8; 64]);
    }
    assert_eq!(rig.settled_failures(), 0);
    rig.assert_ordered();
}

#[test]
fn r13_work_that_depends_on_a_refused_batch_skips_on_its_root() {
    let rig = Rig::new(Options::new(2, 2).pace(Pace::Lazy), settings());
    let kernel = rig.kernel(&triple());
    let (input, a, b) = (rig.filled(64, 1), rig.filled(64, 0), rig.filled(64, 0));
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch(kernel, &[whole(input), whole(a)]).expect("a launch");
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    let roots = skipped(rig.launch_on(1, kernel, &[silent(whole(a)), silent(whole(b))], &[]));
    assert_eq!(roots.len(), 1);
    assert_eq!(rig.unreadable(whole(a)), roots);
    assert_eq!(rig.unreadable(whole(b)), roots);
    rig.assert_ordered();
}

#[test]
fn r13_a_mark_a_taint_and_a_skip_after_the_work_stand_when_it_is_refused() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let (buffer, bad) = (rig.filled(64, 1), rig.filled(64, 1));
    rig.device.wait(FOREVER).expect("a wait");
    let first = rig.taint(whole(bad));
    rig.launch(kernel, &[whole(buffer)]).expect("a launch");
    rig.device.mark_written(&[part(buffer, 0, 8)]).expect("a mark");
    let second = rig.taint(part(buffer, 8, 8));
    skipped(rig.launch(rig.kernel(&triple()), &[whole(bad), part(buffer, 16, 8)]));
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    let (_, roots) = failed(rig.device.stream_flush(0));
    assert_eq!(rig.unreadable(part(buffer, 0, 8)), [0; 0]);
    assert_eq!(rig.unreadable(part(buffer, 8, 8)), [second]);
    assert_eq!(rig.unreadable(part(buffer, 16, 8)), [first]);
    assert_eq!(rig.unreadable(part(buffer, 24, 40)), roots);
}

#[test]
fn r13_a_copy_moves_the_late_failure_with_the_bytes() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let (a, b) = (rig.filled(64, 1), rig.filled(64, 2));
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch(kernel, &[part(a, 0, 32)]).expect("a launch");
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    rig.device.buffer_copy(1, part(b, 0, 64), part(a, 0, 64)).expect("a copy runs over claimed bytes");
    let roots = rig.unreadable(part(a, 0, 32));
    assert_eq!(roots.len(), 1);
    assert_eq!(rig.unreadable(part(b, 0, 32)), roots);
    assert_eq!(rig.read(part(b, 32, 32)).expect("a read"), [1; 32]);
}

#[test]
fn r13_an_open_scope_that_read_from_refused_work_claims_when_it_ends() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let (a, out) = (rig.filled(64, 1), rig.filled(64, 2));
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch(kernel, &[whole(a)]).expect("a launch");
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    match scope(&rig, &[reading(whole(a)), writing(whole(out))]) {
        // It was found out before the scope opened.
        Err(Error::Skipped(_)) => {}
        Ok(open) => {
            let _ = rig.device.stream_flush(0);
            let _ = rig.device.scope_end(open);
        }
        other => panic!("{other:?}"),
    }
    let roots = rig.unreadable(whole(a));
    assert_eq!(roots.len(), 1);
    assert_eq!(rig.unreadable(whole(out)), roots);
    rig.write(whole(a), &[0; 64]).expect("a write");
    rig.write(whole(out), &[0; 64]).expect("a write");
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn r13_what_an_open_scope_is_to_write_stays_claimed_by_its_own_failure() {
    let rig = Rig::new(Options::new(2, 1).pace(Pace::Lazy), settings());
    let kernel = rig.kernel(&nine());
    let (busy, a, b) = (rig.filled(64, 1), rig.filled(64, 1), rig.filled(64, 1));
    rig.device.wait(FOREVER).expect("a wait");
    rig.backend().hold(true);
    // As long as this runs, nothing behind it is forgotten.
    rig.launch_on(1, kernel, &[silent(whole(busy))], &[]).expect("a launch");
    rig.device.stream_flush(1).expect("a flush");
    rig.launch(kernel, &[whole(a)]).expect("a launch");
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    let (_, first) = failed(rig.device.stream_flush(0));
    rig.launch(kernel, &[whole(b)]).expect("a launch");
    let open = scope(&rig, &[reading(whole(b)), writing(part(a, 16, 16))]).expect("a scope");
    let own = rig.device.first_failure(&[part(a, 16, 16)]).expect("an id");
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    let (_, second) = failed(rig.device.stream_flush(0));
    assert_eq!(rig.device.first_failure(&[part(a, 16, 16)]), Ok(own));
    rig.device.scope_end(open).expect("an end");
    rig.backend().hold(false);
    assert_eq!(rig.unreadable(part(a, 16, 16)), second);
    assert_eq!(rig.unreadable(part(a, 0, 16)), first);
    assert_eq!(rig.settled_failures(), 2);
}

/// A launch that writes a slice, to be [refused](refused_now).
fn to_be_refused(rig: &Rig, slice: Slice) {
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch_on(1, rig.kernel(&nine()), &[writing(slice)], &[]).expect("a launch");
}

/// The device refuses what stream 1 has recorded. The root.
fn refused_now(rig: &Rig) -> u64 {
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    failed(rig.device.stream_flush(1)).1[0]
}

#[test]
fn r13_a_may_write_over_refused_bytes_leaves_them_to_the_refused_work() {
    for queues in 1..=2 {
        let rig = Rig::new(Options::new(1, queues).pace(Pace::Lazy), Settings { max_tasks: 1000, ..settings() });
        let (kernel, buffer) = (scattering(&rig), rig.filled(64, 1));
        rig.device.wait(FOREVER).expect("a wait");
        held_back(&rig, 1, 1);
        rig.launch_on(1, rig.kernel(&nine()), &[writing(part(buffer, 0, 32))], &[]).expect("a launch");
        rig.launch_on(2, kernel, &[silent(whole(buffer))], &[]).expect("a launch");
        let root = refused_when_let_go(&rig, 1, buffer);
        assert_eq!(rig.unreadable(part(buffer, 0, 32)), [root]);
        assert_eq!(rig.read(part(buffer, 32, 4)).expect("nobody else's bytes changed"), [9, 1, 9, 1]);
        let report = rig.device.report_slices(&[whole(buffer)]).expect("a report");
        assert_eq!(report.failures[0].path[0].kind, StepKind::UnprovenWrite);
        rig.write(whole(buffer), &[1; 64]).expect("a write");
        assert_eq!(rig.settled_failures(), 0);
        rig.assert_ordered();
    }
}

#[test]
fn r13_a_may_write_that_is_refused_puts_its_whole_slice_into_the_late_set() {
    let rig = lazy();
    let (kernel, buffer) = (scattering(&rig), rig.filled(64, 1));
    let first = rig.taint(whole(buffer));
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch_on(1, kernel, &[silent(part(buffer, 16, 16))], &[]).expect("a launch");
    assert_eq!(rig.device.first_failure(&[whole(buffer)]), Ok(first));
    let root = refused_now(&rig);
    assert_eq!(rig.unreadable(part(buffer, 0, 16)), [first]);
    assert_eq!(rig.unreadable(part(buffer, 16, 16)), [root]);
}

#[test]
fn r13_a_may_write_of_input_found_bad_puts_its_whole_slice_into_the_late_set() {
    let rig = lazy();
    let (input, out) = (rig.filled(64, 1), rig.filled(64, 1));
    rig.taint(part(out, 3, 1));
    to_be_refused(&rig, whole(input));
    rig.launch_on(1, scattering_of(&rig), &[silent(whole(input)), silent(part(out, 0, 32))], &[]).expect("a launch");
    let root = refused_now(&rig);
    assert_eq!(rig.unreadable(part(out, 0, 32)), [root]);
    assert_eq!(rig.read(part(out, 32, 32)).expect("a read"), [1; 32]);
}

#[test]
fn r13_bytes_found_bad_under_a_scope_that_may_write_them_are_claimed_when_it_succeeds() {
    for fails in [false, true] {
        let rig = lazy();
        let buffer = rig.filled(64, 1);
        let old = rig.taint(part(buffer, 32, 32));
        to_be_refused(&rig, part(buffer, 0, 32));
        let open = scope(&rig, &[with(part(buffer, 0, 48), Access::MayWrite)]).expect("a scope");
        let own = rig.device.first_failure(&[part(buffer, 0, 48)]).expect("an id");
        assert!(own > old);
        let root = refused_now(&rig);
        assert_eq!(rig.device.first_failure(&[part(buffer, 0, 48)]), Ok(own), "it is not over");
        assert_eq!(rig.device.first_failure(&[part(buffer, 48, 16)]), Ok(old));
        match fails {
            false => rig.device.scope_end(open),
            true => rig.device.scope_fail(open, None),
        }
        .expect("an end");
        assert_eq!(rig.unreadable(part(buffer, 0, 32)), [if fails { own } else { root }]);
        assert_eq!(rig.unreadable(part(buffer, 32, 16)), [if fails { own } else { old }]);
        rig.write(whole(buffer), &[1; 64]).expect("a write");
        assert_eq!(rig.settled_failures(), 0);
    }
}

#[test]
fn r13_a_call_that_flushes_answers_for_its_own_work() {
    let small = Settings { max_recorded: 1, max_tasks: 1, ..settings() };
    for stream in 0..3 {
        let rig = Rig::new(Options::new(2, 1), Settings { slots: 3, ..small.clone() });
        let kernel = rig.kernel(&nine());
        let a = rig.filled(64, 1);
        rig.device.wait(FOREVER).expect("a wait");
        rig.backend().inject(Call::Submit, 1, driver_fault(), false);
        let (code, roots) = failed(rig.launch_on(stream, kernel, &[silent(whole(a))], &[]));
        assert_eq!((code, rig.unreadable(whole(a))), (Code::Driver, roots), "on stream {stream}");
    }
}

#[test]
fn r13_a_closed_scope_that_read_from_refused_work_claims_too() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let (a, out) = (rig.filled(64, 1), rig.filled(64, 2));
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch(kernel, &[whole(a)]).expect("a launch");
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    if let Ok(open) = scope(&rig, &[reading(whole(a)), writing(whole(out))]) {
        let _ = rig.device.scope_end(open);
    }
    let _ = rig.device.stream_flush(0);
    let roots = rig.unreadable(whole(a));
    assert_eq!(roots.len(), 1);
    assert_eq!(rig.unreadable(whole(out)), roots);
}

#[test]
fn r13_running_out_of_memory_at_a_submit_is_tried_once_more() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let buffer = rig.filled(64, 1);
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch(kernel, &[whole(buffer)]).expect("a launch");
    rig.backend().inject(Call::Submit, 1, fault(Code::OutOfDeviceMemory, "short"), false);
    rig.device.stream_flush(0).expect("the second try is accepted");
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [9; 64]);
    rig.launch(kernel, &[whole(buffer)]).expect("a launch");
    rig.backend().inject(Call::Submit, 1, fault(Code::OutOfHostMemory, "short"), true);
    let (code, roots) = failed(rig.device.stream_flush(0));
    rig.backend().heal();
    assert_eq!((code, rig.unreadable(whole(buffer))), (Code::OutOfHostMemory, roots));
}

#[test]
fn r13_a_recording_that_cannot_be_closed_is_refused_as_a_whole() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let (a, b) = (rig.filled(64, 1), rig.filled(64, 1));
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch(kernel, &[whole(a)]).expect("a launch");
    rig.launch(kernel, &[whole(b)]).expect("a launch");
    rig.backend().inject(Call::End, 1, driver_fault(), false);
    let (_, roots) = failed(rig.device.stream_flush(0));
    assert_eq!(rig.unreadable(whole(a)), roots);
    assert_eq!(rig.unreadable(whole(b)), roots);
    rig.launch(kernel, &[whole(a)]).expect("a launch");
    assert_eq!(rig.read(whole(a)).expect("a read"), [9; 64]);
    rig.assert_ordered();
}

/// Two inputs that are held back on streams of their own, what a launch makes of both, and the roots of their refusals,
/// one after the other; `between` runs when only the first is known.
fn refused_in_turn(rig: &Rig, between: impl FnOnce([Handle; 3], u64)) -> ([Handle; 3], [u64; 2]) {
    let kernel = rig.kernel(&add());
    let buffers = [rig.filled(64, 1), rig.filled(64, 1), rig.filled(64, 1)];
    let [a, b, c] = buffers;
    rig.device.wait(FOREVER).expect("a wait");
    for (stream, buffer) in [(1, a), (2, b)] {
        held_back(rig, stream, 1);
        rig.device.buffer_fill(stream, whole(buffer), 1, 1).expect("a fill");
        rig.device.stream_flush(stream).expect("a flush");
    }
    rig.launch_on(3, kernel, &[silent(whole(a)), silent(whole(b)), silent(whole(c))], &[]).expect("a launch");
    rig.device.stream_flush(3).expect("a flush");
    let first = refused_when_let_go(rig, 1, a);
    between(buffers, first);
    let second = refused_when_let_go(rig, 2, b);
    (buffers, [first, second])
}

/// A semaphore for each stream.
fn held_back(rig: &Rig, stream: u64, value: u64) {
    let external = External { semaphore: stream, value, submitted: false };
    rig.device.stream_wait_external(stream, external).expect("a wait");
}

/// The root of what a stream was to do with a buffer.
fn refused_when_let_go(rig: &Rig, stream: u64, buffer: Handle) -> u64 {
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    rig.backend().signal(stream, 1);
    failed(rig.device.stream_flush(stream));
    rig.device.first_failure(&[whole(buffer)]).expect("an id")
}

#[test]
fn r13_inputs_that_fail_late_one_after_the_other_are_both_named() {
    for queues in 1..=2 {
        let rig = Rig::new(Options::new(1, queues).pace(Pace::Lazy), settings());
        // Asking also looks at what is over.
        let ([a, b, c], [first, second]) = refused_in_turn(&rig, |[_, _, c], first| {
            rig.failures();
            assert_eq!(rig.device.first_failure(&[whole(c)]), Ok(first));
        });
        assert_ne!(first, second);
        assert_eq!(rig.unreadable(whole(a)), [first]);
        assert_eq!(rig.unreadable(whole(b)), [second]);
        assert_eq!(rig.unreadable(whole(c)), [first, second]);
        for buffer in [a, b, c] {
            rig.write(whole(buffer), &[1; 64]).expect("a write");
        }
        assert_eq!(rig.settled_failures(), 0);
    }
}

#[test]
fn r13_a_scope_whose_inputs_fail_late_before_and_after_its_end_has_both_roots() {
    let rig = lazy();
    let (a, b, c) = (rig.filled(64, 1), rig.filled(64, 1), rig.filled(64, 1));
    rig.device.wait(FOREVER).expect("a wait");
    for (stream, buffer) in [(1, a), (2, b)] {
        held_back(&rig, stream, 1);
        rig.device.buffer_fill(stream, whole(buffer), 1, 1).expect("a fill");
        rig.device.stream_flush(stream).expect("a flush");
    }
    let open = scope(&rig, &[reading(whole(a)), reading(whole(b)), writing(whole(c))]).expect("a scope");
    let first = refused_when_let_go(&rig, 1, a);
    rig.device.scope_end(open).expect("an end");
    assert_eq!(rig.device.first_failure(&[whole(c)]), Ok(first));
    let second = refused_when_let_go(&rig, 2, b);
    assert_eq!(rig.unreadable(whole(c)), [first, second]);
}

#[test]
fn r13_a_later_failure_brings_back_no_claim_that_was_released() {
    let rig = lazy();
    let ([a, b, c], [_, second]) = refused_in_turn(&rig, |[a, _, c], first| {
        assert_eq!(rig.device.first_failure(&[whole(c)]), Ok(first));
        rig.device.buffer_fill(1, part(a, 0, 32), 5, 1).expect("a fill");
        rig.device.mark_written(&[part(a, 32, 32), part(c, 0, 32)]).expect("a mark");
    });
    assert_eq!(rig.unreadable(whole(a)), [0; 0]);
    assert_eq!(rig.unreadable(whole(b)), [second]);
    assert_eq!(rig.unreadable(part(c, 0, 32)), [0; 0], "the mark came after what made it");
    assert_eq!(rig.unreadable(part(c, 32, 32)).len(), 2);
}

#[test]
fn r3_a_failure_behind_held_work_that_has_no_more_to_tell_goes_with_its_last_claim() {
    let rig = Rig::new(Options::new(1, 1), settings());
    let (busy, a) = (rig.filled(64, 1), rig.filled(64, 1));
    rig.device.wait(FOREVER).expect("a wait");
    held_back(&rig, 1, 1);
    rig.device.buffer_fill(1, whole(busy), 1, 1).expect("a fill");
    rig.device.stream_flush(1).expect("a flush");
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    failed(rig.device.buffer_fill(2, whole(a), 1, 1).and_then(|()| rig.device.stream_flush(2)));
    assert_eq!(rig.failures(), 1);
    rig.device.mark_written(&[whole(a)]).expect("a mark");
    assert_eq!(rig.failures(), 0);
    rig.backend().signal(1, 1);
    assert_eq!(rig.read(whole(busy)).expect("a read"), [1; 64]);
}

#[test]
fn r13_a_step_is_counted_once_however_often_the_ledger_is_replayed() {
    let rig = lazy();
    let kernel = rig.kernel(&triple());
    let buffers: Vec<Handle> = (0..5).map(|_| rig.filled(64, 1)).collect();
    let [busy, a, b, other, copy] = buffers[..] else { panic!("five buffers") };
    rig.device.wait(FOREVER).expect("a wait");
    // As long as this is held back, nothing behind it is forgotten.
    for (stream, buffer) in [(4, busy), (1, a), (2, other)] {
        held_back(&rig, stream, 1);
        rig.device.buffer_fill(stream, whole(buffer), 1, 1).expect("a fill");
        rig.device.stream_flush(stream).expect("a flush");
    }
    let inputs = [silent(whole(a)), silent(whole(b))];
    rig.launch_on(3, kernel, &inputs, &[reading(part(a, 8, 8)), reading(whole(busy))]).expect("a launch");
    rig.device.buffer_copy(3, whole(copy), whole(a)).expect("a copy");
    let counts = |buffer| {
        let report = rig.device.report_slices(&[whole(buffer)]).expect("a report");
        report.failures[0].path.iter().map(|step| (step.kind, step.count)).collect::<Vec<_>>()
    };
    refused_when_let_go(&rig, 1, a);
    let once = |kind| vec![(kind, 1)];
    assert_eq!((counts(b), counts(copy)), (once(StepKind::RanOnBadInput), once(StepKind::Copy)));
    refused_when_let_go(&rig, 2, other);
    assert_eq!((counts(b), counts(copy)), (once(StepKind::RanOnBadInput), once(StepKind::Copy)));
    assert_eq!(rig.device.first_failure(&[whole(busy)]), Ok(0));
}

#[test]
fn r13_what_lost_its_memory_and_got_it_back_is_no_concern_of_work_before() {
    let rig = lazy();
    let kernel = rig.kernel(&nine());
    let (a, token) = (rig.filled(64, 1), rig.token());
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch_on(0, kernel, &[silent(whole(a))], &[writing(whole(token))]).expect("a launch");
    let gone = rig.device.fail_unallocated(token, &error("gone")).expect("a root");
    rig.device.buffer_allocate(token, 0).expect("an allocation");
    assert_eq!(rig.device.first_failure(&[whole(token)]), Ok(gone));
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    let (_, roots) = failed(rig.device.stream_flush(0));
    assert_eq!(rig.unreadable(whole(a)), roots);
    assert_eq!(rig.device.first_failure(&[whole(token)]), Ok(gone));
}

#[test]
fn r13_a_read_whose_own_batch_is_refused_fails_and_taints_no_source() {
    let rig = rig();
    let buffer = rig.filled(64, 1);
    rig.device.wait(FOREVER).expect("a wait");
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    rig.read(whole(buffer)).expect_err("its bytes never came");
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [1; 64]);
    assert_eq!(rig.settled_failures(), 0);
}

// R14, as far as it needs no recovery

#[test]
fn what_can_be_reached_by_address_has_one_until_the_device_is_lost() {
    let rig = rig();
    let address = |buffer| rig.device.buffer_info(buffer).expect("a buffer").address;
    let (one, other, (huge, _), token) = (rig.filled(64, 1), rig.buffer(64), rig.huge(), rig.token());
    assert_ne!(address(one), 0);
    assert_eq!(address(other).abs_diff(address(one)), 64, "they are neighbours in a page");
    assert_eq!((address(huge), address(token)), (0, 0));
    rig.device.buffer_allocate(huge, 64).expect("an allocation");
    assert_ne!(address(huge), 0);
    rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "gone"), true);
    failed(rig.device.stream_flush(0));
    assert_eq!((address(one), address(huge)), (0, 0));
}

#[test]
fn r14_a_loss_is_one_root_that_claims_what_no_older_root_holds() {
    let mut rig = rig();
    let kernel = rig.kernel(&nine());
    let (bad, good, idle) = (rig.filled(64, 1), rig.filled(64, 1), rig.filled(64, 1));
    let ((huge, own), token) = (rig.huge(), rig.token());
    let root = rig.taint(part(bad, 0, 8));
    rig.device.wait(FOREVER).expect("a wait");
    rig.launch(kernel, &[whole(good)]).expect("a launch");
    rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "gone"), true);
    let (code, roots) = failed(rig.device.stream_flush(0));
    assert_eq!((code, roots.len()), (Code::DeviceLost, 1));
    let loss = roots[0];
    assert_eq!(failed(rig.device.status()), (Code::DeviceLost, vec![loss]));
    assert_eq!(failed(rig.launch(kernel, &[whole(idle)])), (Code::DeviceLost, vec![loss]));
    let mut ids = vec![root, loss];
    ids.sort_unstable();
    let claimed = |slice| match rig.device.check_written(&[slice], FOREVER) {
        Err(Error::Unwritten(roots)) => roots.ids.to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(claimed(whole(bad)), ids);
    assert_eq!(claimed(part(bad, 0, 8)), [root]);
    assert_eq!(claimed(whole(idle)), [loss], "completed writes are lost too");
    assert_eq!(claimed(part(huge, 0, 8)), [own], "nothing was there to be lost");
    rig.device.check_written(&[whole(token)], FOREVER).expect("what is not ours is not lost");
    assert_eq!(rig.failures(), 3);
    assert!(!rig.device.report_device().suspects.is_empty(), "the work in flight");
    for buffer in [bad, good, idle, huge, token] {
        rig.device.buffer_destroy(buffer).expect("a destroy");
    }
    rig.device.close(FOREVER).expect("a close");
    assert_eq!((rig.failures(), rig.backend().live_pages(), rig.backend().open_recordings()), (0, 0, 0));
}

#[test]
fn r14_work_in_a_scope_that_ends_on_a_lost_device_is_lost_whether_anybody_asked_or_not() {
    for asked in [false, true] {
        let rig = rig();
        let (a, b, c, token) = (rig.filled(64, 1), rig.filled(64, 1), rig.filled(64, 1), rig.token());
        rig.device.wait(FOREVER).expect("a wait");
        let open = scope(&rig, &[writing(part(a, 0, 32)), writing(whole(token))]).expect("a scope");
        rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "gone"), true);
        let (_, roots) = failed(rig.device.buffer_fill(0, whole(c), 1, 1).and_then(|()| rig.device.stream_flush(0)));
        let own = rig.device.first_failure(&[part(a, 0, 32)]);
        assert_ne!(own, Ok(roots[0]), "the scope's own failure is on its bytes until it ends");
        if asked {
            assert_eq!(rig.device.first_failure(&[part(a, 32, 32)]), Ok(roots[0]));
        }
        rig.device.scope_end(open).expect("an end");
        assert_eq!(rig.device.first_failure(&[part(a, 0, 32)]), Ok(roots[0]));
        assert_eq!(rig.device.first_failure(&[part(a, 32, 32)]), Ok(roots[0]));
        rig.device.check_written(&[whole(token)], FOREVER).expect("what is not ours is not lost");
        // One that begins and ends on the lost device.
        let open = scope(&rig, &[writing(whole(b)), writing(whole(token))]).expect("a scope");
        rig.device.scope_end(open).expect("an end");
        assert_eq!(rig.device.first_failure(&[whole(b)]), Ok(roots[0]));
        rig.device.check_written(&[whole(token)], FOREVER).expect("what is not ours is not lost");
        // And one that fails keeps its own root.
        let open = scope(&rig, &[writing(whole(b))]).expect("a scope");
        rig.device.scope_fail(open, Some(&error("mine"))).expect("a failure");
        assert_ne!(rig.device.first_failure(&[whole(b)]), Ok(roots[0]));
        assert_eq!(rig.failures(), 2);
    }
}

#[test]
fn r14_a_mark_on_a_lost_device_releases_tokens_only() {
    let rig = rig();
    let (a, token) = (rig.filled(64, 1), rig.token());
    let older = rig.taint(part(a, 0, 8));
    rig.taint(whole(token));
    rig.device.wait(FOREVER).expect("a wait");
    rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "gone"), true);
    let (_, roots) = failed(rig.device.buffer_fill(0, part(a, 32, 32), 1, 1).and_then(|()| rig.device.stream_flush(0)));
    assert_ne!(roots[0], older);
    rig.device.mark_written(&[whole(a), whole(token)]).expect("a mark");
    assert_eq!(rig.device.first_failure(&[part(a, 0, 8)]), Ok(roots[0]), "what the mark released is lost");
    assert_eq!(rig.device.first_failure(&[part(a, 8, 56)]), Ok(roots[0]));
    rig.device.check_written(&[whole(token)], FOREVER).expect("what is not ours is not lost");
}

#[test]
fn r14_copies_and_reads_in_flight_are_suspects_too() {
    let rig = lazy();
    let kernel = rig.kernel(&triple());
    let (a, b, c) = (rig.filled(64, 1), rig.buffer(64), rig.buffer(64));
    rig.device.wait(FOREVER).expect("a wait");
    rig.device.buffer_copy(0, whole(b), whole(a)).expect("a copy");
    rig.launch(kernel, &[whole(b), whole(c)]).expect("a launch");
    rig.device.buffer_copy(0, whole(a), whole(c)).expect("a copy");
    rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "gone"), true);
    let (read, answer) = rig.device.read_begin(0, whole(a));
    answer.expect("a read that began");
    let suspects = suspects(&rig);
    assert_eq!(suspects, ["tg_buffer_copy", "kernel", "tg_buffer_copy", "tg_read_begin"]);
    rig.device.read_release(read).expect("a release");
}

#[test]
fn r14_what_was_over_before_the_loss_is_no_suspect_and_keeps_its_tokens() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let (busy, a, b, token) = (rig.filled(64, 1), rig.filled(64, 1), rig.filled(64, 1), rig.token());
    rig.device.wait(FOREVER).expect("a wait");
    held_back(&rig, 1, 1);
    rig.device.buffer_fill(1, whole(busy), 1, 1).expect("a fill");
    rig.device.stream_flush(1).expect("a flush");
    rig.launch_on(2, kernel, &[silent(whole(a))], &[writing(whole(token))]).expect("a launch");
    rig.device.stream_wait(2, FOREVER).expect("a wait");
    rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "gone"), true);
    failed(rig.device.buffer_fill(3, whole(b), 1, 1).and_then(|()| rig.device.stream_flush(3)));
    rig.device.check_written(&[whole(token)], FOREVER).expect("it was written");
    assert_eq!(suspects(&rig), ["tg_buffer_fill", "tg_buffer_fill"]);
}

// R15

#[test]
fn r15_the_sixteen_newest_steps_are_kept_and_a_gap_says_how_many_are_missing() {
    let rig = rig();
    let kernel = rig.kernel(&triple());
    let buffers: Vec<Handle> = (0..31).map(|at| rig.named(64, &format!("stage {at}"))).collect();
    rig.taint(whole(buffers[0]));
    for pair in buffers.windows(2) {
        skipped(rig.launch(kernel, &[whole(pair[0]), whole(pair[1])]));
    }
    let report = rig.device.report_slices(&[whole(buffers[30])]).expect("a report");
    let path = &report.failures[0].path;
    assert_eq!(path.len(), 17);
    assert_eq!((path[0].kind, path[0].count), (StepKind::Dropped, 14));
    assert_eq!(path[16].produced, ["stage 30"]);
    assert_eq!(report.failures[0].skips, 30);
}

#[test]
fn r15_a_step_that_returns_after_others_is_counted_on() {
    let rig = rig();
    let kernel = rig.kernel(&triple());
    let bad = rig.named(64, "bad");
    rig.taint(whole(bad));
    let outputs: Vec<Handle> = (0..20).map(|at| rig.named(64, &format!("output {at}"))).collect();
    for _ in 0..3 {
        for out in &outputs {
            skipped(rig.launch(kernel, &[whole(bad), whole(*out)]));
        }
    }
    let report = rig.device.report_slices(&[whole(outputs[19])]).expect("a report");
    let path = &report.failures[0].path;
    assert_eq!((path.len(), path[0].count, path[0].at_least), (1, 3, false));
    assert_eq!(report.failures[0].skips, 60);
}

#[test]
fn r15_steps_and_suspects_have_the_label_and_the_number_of_the_work() {
    let rig = lazy();
    let kernel = rig.kernel(&triple());
    let [bad, good, out, late] = ["bad", "good", "out", "late"].map(|name| rig.named(64, name));
    rig.taint(whole(bad));
    rig.write(whole(good), &[1; 64]).expect("a write");
    let launch = |from, to, label, tag| {
        let bindings = [silent(whole(from)), silent(whole(to))];
        rig.device.launch(&LaunchDesc { label, tag, ..launch_desc(0, kernel, &bindings, &[]) })
    };
    skipped(launch(bad, out, "frame 6", 6));
    skipped(launch(bad, out, "frame 7", 7));
    let report = rig.device.report_slices(&[whole(out)]).expect("a report");
    let step = &report.failures[0].path[0];
    assert_eq!((&*step.kernel, &*step.label, step.tag, step.count), ("kernel", "frame 7", 7, 2));
    assert!(report.text().contains("\"frame 7\", tag 7 (2 times)"), "{}", report.text());
    // What is found bad later knows its work as well, and so do suspects.
    launch(good, late, "frame 8", 8).expect("a launch");
    launch(late, out, "frame 9", 9).expect("a launch");
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    rig.device.stream_flush(0).expect_err("refused");
    let report = rig.device.report_slices(&[whole(out)]).expect("a report");
    let found = report.failures.iter().flat_map(|failure| &failure.path);
    let found: Vec<_> = found.filter(|step| step.kind == StepKind::RanOnBadInput).collect();
    assert!(found.iter().all(|step| (&*step.label, step.tag) == ("frame 9", 9)), "{found:?}");
    rig.write(whole(good), &[1; 64]).expect("a write");
    launch(good, late, "frame 10", 10).expect("a launch");
    launch(good, out, "", 0).expect("a launch");
    rig.backend().inject(Call::Submit, 1, fault(Code::DeviceLost, "lost"), true);
    rig.device.stream_flush(0).expect_err("lost");
    let report = rig.device.report_device();
    let suspects: Vec<_> = report.suspects.iter().map(|s| (&*s.name, &*s.label, s.tag)).collect();
    assert_eq!(suspects, [("tg_buffer_write", "", 0), ("kernel", "frame 10", 10), ("kernel", "", 0)]);
    assert!(report.text().contains("in flight at the loss: \"kernel\", \"frame 10\", tag 10"), "{}", report.text());
}

#[test]
fn r15_names_are_cut_at_128_bytes_and_messages_at_1_kib() {
    let rig = rig();
    let (label, message) = ("é".repeat(300), "ü".repeat(3000));
    let buffer = rig.named(64, &label);
    let desc = tidegate::device::ErrorDesc { code: 0, message: &message, label: &label };
    rig.device.taint(&[whole(buffer)], &desc).expect("a taint");
    let report = rig.device.report_slices(&[whole(buffer)]).expect("a report");
    let failure = &report.failures[0];
    assert_eq!(*failure.claims[0].label, "é".repeat(64));
    assert_eq!(failure.label, "é".repeat(64));
    assert_eq!(failure.message, "ü".repeat(512));
}

#[test]
fn r15_unfinished_work_is_capped() {
    let rig = Rig::new(
        Options::new(4, 1).pace(Pace::Lazy),
        Settings { max_pending: 64, max_recorded: 1 << 20, max_tasks: 1 << 20, ..settings() },
    );
    let kernel = rig.kernel(&increment());
    let buffer = rig.filled(64, 0);
    let bindings = [silent(whole(buffer))];
    for _ in 0..1000 {
        rig.launch_on(0, kernel, &bindings, &[]).expect("a launch");
    }
    // The first write is a command too.
    let pending = 1001 - rig.backend().counts().commands;
    assert!(pending <= 64, "{pending} launches are not submitted");
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [(1000 % 256) as u8; 64]);
    rig.assert_ordered();
}

#[test]
fn r15_room_is_made_by_whatever_stream_has_work_unfinished() {
    for unfinished in 0..3 {
        let rig = Rig::new(Options::new(4, 2).pace(Pace::Lazy), Settings { max_pending: 8, ..settings() });
        let kernel = rig.kernel(&nine());
        let buffers = [rig.buffer(64), rig.buffer(64), rig.buffer(64)];
        let launch = |stream: u64| rig.launch_on(stream, kernel, &[silent(whole(buffers[stream as usize]))], &[]);
        (0..3).for_each(|stream| launch(stream).expect("a launch"));
        rig.device.wait(FOREVER).expect("a wait");
        (0..40).for_each(|_| launch(unfinished).expect("a launch"));
        rig.assert_ordered();
    }
}

/// A device with little room, work on `busy` that is held back, and clean bytes.
fn behind_held_work(max_pending: u32) -> (Rig, Handle, Handle) {
    let rig = Rig::new(Options::new(1, 1), Settings { max_pending, ..settings() });
    let (busy, clean) = (rig.filled(64, 1), rig.filled(64, 1));
    rig.device.wait(FOREVER).expect("a wait");
    held_back(&rig, 1, 1);
    rig.device.buffer_fill(1, part(busy, 32, 32), 1, 1).expect("a fill");
    rig.device.stream_flush(1).expect("a flush");
    (rig, busy, clean)
}

#[test]
fn r15_launches_that_skip_in_turn_behind_held_work_need_no_room() {
    for max_pending in [16, 500] {
        let (rig, busy, bad) = behind_held_work(max_pending);
        let kernel = rig.kernel(&add());
        let root = rig.taint(whole(bad));
        let outs: Vec<Handle> = (0..20).map(|_| rig.buffer(64)).collect();
        for round in 0..3000 {
            let out = outs[round % outs.len()];
            let bindings = [silent(whole(bad)), silent(whole(busy)), silent(whole(out))];
            assert_eq!(skipped(rig.launch_on(2, kernel, &bindings, &[])), [root], "in round {round}");
        }
        rig.backend().signal(1, 1);
        assert_eq!(rig.unreadable(whole(busy)), [0; 0]);
    }
}

#[test]
fn r15_reads_of_claimed_bytes_behind_held_work_need_no_room() {
    for max_pending in [16, 500] {
        let (rig, busy, _) = behind_held_work(max_pending);
        let root = rig.taint(part(busy, 0, 8));
        for _ in 0..2000 {
            assert_eq!(rig.unreadable(whole(busy)), [root]);
        }
        rig.backend().signal(1, 1);
        assert_eq!(rig.unreadable(part(busy, 8, 56)), [0; 0]);
    }
}

#[test]
fn r15_scopes_begun_and_ended_behind_held_work_need_no_room() {
    let (rig, busy, out) = behind_held_work(16);
    for access in [Access::Write, Access::ReadWrite] {
        for _ in 0..2000 {
            let open = scope(&rig, &[reading(whole(busy)), with(whole(out), access)]).expect("a scope");
            rig.device.scope_end(open).expect("an end");
        }
    }
    rig.device.buffer_fill(2, whole(rig.buffer(64)), 7, 1).expect("there is room left");
    let root = refused_when_let_go(&rig, 1, busy);
    assert_eq!(rig.unreadable(whole(out)), [root], "what the last of them read was not written");
}

#[test]
fn r15_scopes_that_each_depend_on_held_work_are_bounded_like_any_work() {
    let (rig, busy, _) = behind_held_work(16);
    let out = rig.filled(1024, 1);
    let begin = |i: u64| scope(&rig, &[reading(whole(busy)), writing(part(out, i * 8, 8))]);
    let mut i = 0;
    let refused = loop {
        match begin(i) {
            Ok(open) => rig.device.scope_end(open).expect("an end"),
            Err(error) => break error,
        }
        i += 1;
        assert!(i < 100, "{i} scopes are more than there is room for");
    };
    assert_eq!(refused, Error::NotReady);
    assert_eq!(rig.device.first_failure(&[whole(out)]), Ok(0), "nothing changed");
    rig.backend().signal(1, 1);
    let open = begin(i).expect("a scope");
    rig.device.scope_end(open).expect("an end");
    assert_eq!(rig.unreadable(whole(out)), [0; 0]);
}

#[test]
fn r15_more_claimed_bytes_than_a_number_holds_are_as_many_as_it_holds() {
    let rig = rig();
    let tokens = ["one", "other"].map(|label| {
        let (token, answer) = rig.try_buffer(u64::MAX, BufferMemory::Token, label);
        answer.expect("a token");
        token
    });
    rig.device.taint(&tokens.map(whole), &error("both")).expect("a taint");
    assert_eq!(rig.device.report_device().failures[0].claimed_bytes, u64::MAX);
}

// R16

/// Keeps the lines, and calls back into the device as a callback of the caller's might.
#[derive(Clone, Default)]
struct Lines {
    kept: Arc<Mutex<Vec<(i64, u64, String)>>>,
    rig: Arc<OnceLock<std::sync::Weak<Rig>>>,
}

struct Fields(i64, u64, String);

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.2 = format!("{value:?}");
        }
    }
    fn record_i64(&mut self, field: &tracing::field::Field, value: i64) {
        if field.name() == "code" {
            self.0 = value;
        }
    }
    fn record_u64(&mut self, field: &tracing::field::Field, value: u64) {
        if field.name() == "failure" {
            self.1 = value;
        }
    }
}

impl tracing::Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(0, 0, String::new());
        event.record(&mut fields);
        self.kept.lock().expect("no panic").push((fields.0, fields.1, fields.2));
        // With a lock of the device's held this would never return.
        if let Some(rig) = self.rig.get().and_then(std::sync::Weak::upgrade) {
            rig.failures();
        }
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn r16_a_root_is_logged_once_and_skips_at_powers_of_two_outside_every_lock() {
    let lines = Lines::default();
    let rig = Arc::new(Rig::logged(Options::new(1, 1), settings(), tracing::Dispatch::new(lines.clone())));
    lines.rig.set(Arc::downgrade(&rig)).expect("set once");
    let kernel = rig.kernel(&increment());
    let buffer = rig.named(64, "state");
    rig.write(whole(buffer), &[0; 64]).expect("a write");
    let root = rig.taint(whole(buffer));
    for _ in 0..1000 {
        skipped(rig.launch(kernel, &[whole(buffer)]));
    }
    let kept = lines.kept.lock().expect("no panic").clone();
    let roots = kept.iter().filter(|line| line.0 == Code::Caller as i64).count();
    let skips = kept.iter().filter(|line| line.0 == Code::Skipped as i64).count();
    assert_eq!((roots, skips, kept.len()), (1, 10, 11), "{kept:#?}");
    assert!(kept.iter().all(|line| line.1 == root && !line.2.is_empty()));
    rig.unreadable(whole(buffer));
    rig.device.wait(FOREVER).expect("a wait");
    assert_eq!(lines.kept.lock().expect("no panic").len(), 11, "nothing more is said");
}

#[test]
fn r16_a_scope_is_logged_when_its_failure_becomes_real() {
    let lines = Lines::default();
    let rig = Rig::logged(Options::new(1, 1), settings(), tracing::Dispatch::new(lines.clone()));
    let buffer = rig.filled(64, 1);
    let open = scope(&rig, &[writing(whole(buffer))]).expect("a scope");
    assert!(lines.kept.lock().expect("no panic").is_empty());
    rig.device.scope_fail(open, Some(&error("went wrong"))).expect("a failure");
    let kept = lines.kept.lock().expect("no panic").clone();
    assert_eq!((kept.len(), kept[0].0), (1, Code::Caller as i64), "{kept:?}");
    let good = scope(&rig, &[writing(whole(rig.buffer(8)))]).expect("a scope");
    rig.device.scope_end(good).expect("an end");
    assert_eq!(lines.kept.lock().expect("no panic").len(), 1);
}

// R17

#[test]
fn r17_reuse_never_inherits() {
    let rig = rig();
    for _ in 0..20 {
        let buffer = rig.buffer(256);
        rig.taint(whole(buffer));
        let used = rig.device.memory_stats().used;
        rig.device.buffer_destroy(buffer).expect("a destroy");
        let heir = rig.buffer(256);
        assert_eq!(rig.device.memory_stats().used, used, "the same block again");
        assert_eq!(rig.unreadable(whole(heir)), [0; 0]);
        assert_eq!(rig.settled_failures(), 0);
        rig.device.buffer_destroy(heir).expect("a destroy");
    }
}

#[test]
fn r17_a_late_failure_of_work_on_a_destroyed_buffer_claims_nothing_of_its_heir() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let buffer = rig.buffer(256);
    rig.launch(kernel, &[whole(buffer)]).expect("a launch");
    rig.device.buffer_destroy(buffer).expect("a destroy");
    let heir = rig.buffer(256);
    rig.backend().inject(Call::Submit, 1, driver_fault(), false);
    let _ = rig.device.stream_flush(0);
    assert_eq!(rig.unreadable(whole(heir)), [0; 0]);
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn r17_with_tracking_fresh_bytes_are_claimed_as_never_written() {
    let rig = Rig::new(Options::new(1, 1), Settings { track_uninitialized: true, ..settings() });
    let buffer = rig.named(64, "fresh");
    let root = rig.unreadable(whole(buffer));
    assert_eq!(root.len(), 1);
    let report = rig.device.report_slices(&[whole(buffer)]).expect("a report");
    assert_eq!((report.failures[0].code, report.failures[0].label.as_str()), (Code::NeverWritten, "fresh"));
    rig.write(part(buffer, 0, 32), &[1; 32]).expect("a write");
    assert_eq!(rig.read(part(buffer, 0, 32)).expect("a read"), [1; 32]);
    assert_eq!(rig.unreadable(part(buffer, 32, 32)), root);
    rig.launch(rig.kernel(&nine()), &[part(buffer, 32, 32)]).expect("a launch");
    assert_eq!(rig.settled_failures(), 0);
    rig.device.buffer_destroy(buffer).expect("a destroy");
    let heir = rig.buffer(64);
    assert_eq!(rig.unreadable(whole(heir)).len(), 1);
    assert_ne!(rig.unreadable(whole(heir)), root);
}

#[test]
fn r17_a_may_write_leaves_fresh_bytes_never_written() {
    let rig = Rig::new(Options::new(1, 1), Settings { track_uninitialized: true, ..settings() });
    let buffer = rig.buffer(64);
    let root = rig.device.first_failure(&[whole(buffer)]).expect("an id");
    rig.launch(scattering(&rig), &[whole(buffer)]).expect("a launch");
    assert_eq!(rig.unreadable(whole(buffer)), [root]);
    assert_eq!(rig.unreadable(part(buffer, 0, 1)), [root]);
    rig.write(part(buffer, 0, 32), &[1; 32]).expect("a write");
    rig.launch(scattering(&rig), &[whole(buffer)]).expect("a launch");
    assert_eq!(rig.read(part(buffer, 0, 4)).expect("a read"), [9, 1, 9, 1]);
    assert_eq!(rig.unreadable(part(buffer, 32, 1)), [root]);
}

#[test]
fn r17_trimming_leaves_claims_and_bytes_as_they_are() {
    let rig = rig();
    let (buffer, idle) = (rig.filled(64, 5), rig.filled(12 << 20, 6));
    let root = rig.taint(part(buffer, 0, 8));
    rig.device.buffer_destroy(idle).expect("a destroy");
    rig.device.wait(FOREVER).expect("a wait");
    assert!(rig.device.trim().expect("a trim") >= 12 << 20);
    assert_eq!(rig.unreadable(part(buffer, 0, 8)), [root]);
    assert_eq!(rig.read(part(buffer, 8, 56)).expect("a read"), [5; 56]);
    rig.assert_ordered();
}

// R18

#[test]
fn r18_zero_is_nothing() {
    let rig = rig();
    let kernel = rig.kernel(&increment());
    let (buffer, other) = (rig.filled(64, 1), rig.filled(64, 2));
    let root = rig.taint(whole(buffer));
    let device = &rig.device;
    rig.write(part(buffer, 8, 0), &[]).expect("nothing");
    rig.write(part(buffer, 64, 0), &[]).expect("nothing");
    device.buffer_read(0, &mut [], part(buffer, 8, 0), 0).expect("nothing");
    device.buffer_copy(0, part(other, 8, 0), part(buffer, 8, 0)).expect("nothing");
    device.buffer_copy(0, part(buffer, 8, 0), part(buffer, 8, 0)).expect("nothing");
    device.buffer_fill(0, part(buffer, 8, 0), 0, 4).expect("nothing");
    device.mark_written(&[part(buffer, 8, 0)]).expect("nothing");
    device.mark_written(&[]).expect("nothing");
    device.check_written(&[part(buffer, 8, 0)], 0).expect("nothing");
    device.check_written(&[], 0).expect("nothing");
    device.taint(&[part(other, 8, 0)], &error("nothing")).expect("nothing");
    device.taint(&[], &error("nothing")).expect("nothing");
    for grid in [LaunchGrid::Groups([0, 1, 1]), LaunchGrid::Threads([4, 0, 1])] {
        device.launch(&LaunchDesc { grid, ..launch_desc(0, kernel, &[silent(whole(buffer))], &[]) }).expect("nothing");
        device.launch(&LaunchDesc { grid, ..launch_desc(0, kernel, &[silent(whole(other))], &[]) }).expect("nothing");
    }
    assert_eq!(rig.settled_failures(), 1);
    assert_eq!(rig.unreadable(whole(buffer)), [root]);
    assert_eq!(rig.read(whole(other)).expect("a read"), [2; 64]);
}

#[test]
fn r18_zero_bytes_of_unallocated_and_of_broken_are_nothing_too() {
    let rig = rig();
    let (huge, _) = rig.huge();
    let buffer = rig.filled(64, 1);
    rig.write(part(huge, 0, 0), &[]).expect("nothing");
    rig.device.buffer_read(0, &mut [], part(huge, 0, 0), 0).expect("nothing");
    rig.device.buffer_copy(0, part(buffer, 0, 0), part(huge, 0, 0)).expect("nothing");
    rig.device.check_written(&[part(huge, 0, 0)], 0).expect("nothing");
    let (broken, _) = rig.broken(&[]);
    let grid = LaunchGrid::Groups([0, 1, 1]);
    rig.device.launch(&LaunchDesc { grid, ..launch_desc(0, broken, &[silent(whole(buffer))], &[]) }).expect("nothing");
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [1; 64]);
}

#[test]
fn r18_a_use_of_no_bytes_keeps_no_work_from_running() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let (buffer, (huge, root)) = (rig.filled(64, 1), rig.huge());
    for access in [Access::Read, Access::Write, Access::MayWrite, Access::ReadWrite] {
        rig.launch_on(0, kernel, &[silent(whole(buffer))], &[with(part(huge, 0, 0), access)]).expect("a launch");
        let open = scope(&rig, &[with(part(huge, 8, 0), access), writing(whole(buffer))]).expect("a scope");
        rig.device.scope_end(open).expect("an end");
    }
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [9; 64]);
    // Beside bytes that do, it names no root.
    let bad = rig.taint(whole(buffer));
    let uses = [reading(part(huge, 0, 0)), reading(whole(buffer))];
    assert_eq!(skipped(rig.launch_on(0, kernel, &[silent(part(rig.buffer(64), 0, 64))], &uses)), [bad]);
    assert_ne!(bad, root);
}

#[test]
fn r18_groups_after_the_first_may_be_left_out() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let buffer = rig.filled(64, 1);
    let grid = LaunchGrid::Threads([64, 1, 1]);
    rig.device.launch(&LaunchDesc { grid, ..launch_desc(0, kernel, &[silent(whole(buffer))], &[]) }).expect("a launch");
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [9; 64]);
}

// R19

#[test]
fn r19_the_callers_failures_count_like_any_other() {
    let rig = rig();
    let (a, b) = (rig.filled(64, 1), rig.filled(64, 2));
    let slices = [part(a, 0, 8), part(b, 8, 8), part(a, 4, 8)];
    let desc = tidegate::device::ErrorDesc { code: -77, message: "the camera fell over", label: "frame 12" };
    let root = rig.device.taint(&slices, &desc).expect("a taint");
    let report = rig.device.report_slices(&[whole(a), whole(b)]).expect("a report");
    assert_eq!(report.failures.len(), 1);
    let failure = &report.failures[0];
    assert_eq!((failure.id, failure.code, failure.label.as_str()), (root, Code::Caller, "frame 12"));
    assert_eq!(failure.tag as i64, -77);
    assert!(failure.message.contains("the camera fell over"));
    assert_eq!(failure.claimed_bytes, 12 + 8);
    rig.device.mark_written(&[part(a, 0, 12)]).expect("a mark");
    assert_eq!(rig.read(whole(a)).expect("a read"), [1; 64]);
    assert_eq!(rig.unreadable(whole(b)), [root]);
}

#[test]
fn r19_a_token_tracks_what_is_not_ours() {
    let rig = rig();
    let kernel = rig.kernel(&nine());
    let (texture, buffer) = (rig.token(), rig.filled(64, 1));
    let root = rig.taint(part(texture, 0, 16));
    let launch = |access, slice| rig.launch_on(0, kernel, &[silent(whole(buffer))], &[with(slice, access)]);
    assert_eq!(skipped(launch(Access::Read, whole(texture))), [root]);
    launch(Access::Read, part(texture, 16, 48)).expect("a launch");
    launch(Access::Write, part(texture, 0, 16)).expect("a launch");
    assert_eq!(rig.device.first_failure(&[whole(texture)]).expect("an id"), 0);
    rig.device.check_written(&[whole(texture)], FOREVER).expect("written");
    assert_eq!(rig.settled_failures(), 0);
}

#[test]
fn r19_a_scope_over_claimed_bytes_does_not_open() {
    let rig = rig();
    let (a, b) = (rig.filled(64, 1), rig.filled(64, 2));
    let root = rig.taint(part(a, 0, 8));
    match scope(&rig, &[reading(whole(a)), writing(part(b, 0, 32))]) {
        Err(Error::Skipped(roots)) => assert_eq!(roots.ids[..], [root]),
        other => panic!("{other:?}"),
    }
    assert_eq!(rig.unreadable(part(b, 0, 32)), [root]);
    assert_eq!(rig.read(part(b, 32, 32)).expect("a read"), [2; 32]);
    let open = scope(&rig, &[writing(whole(a))]).expect("overwriting needs no bytes");
    rig.device.scope_end(open).expect("an end");
    assert_eq!(rig.unreadable(whole(a)), [0; 0]);
}

#[test]
fn r19_taints_and_marks_stand_in_enqueue_order() {
    let rig = lazy();
    let kernel = rig.kernel(&triple());
    let (a, b, c) = (rig.filled(64, 1), rig.buffer(64), rig.buffer(64));
    rig.launch(kernel, &[whole(a), whole(b)]).expect("enqueued before the taint");
    let root = rig.taint(whole(a));
    assert_eq!(skipped(rig.launch(kernel, &[whole(a), whole(c)])), [root]);
    rig.device.mark_written(&[whole(a)]).expect("a mark");
    assert_eq!(rig.read(whole(b)).expect("a read"), [4; 64]);
    assert_eq!(rig.unreadable(whole(c)), [root]);
    rig.launch(kernel, &[whole(a), whole(c)]).expect("a launch");
    assert_eq!(rig.read(whole(c)).expect("a read"), [4; 64]);
}

// Writes through staging.

#[test]
fn a_write_larger_than_the_staging_goes_in_chunks_in_order() {
    let rig = Rig::new(Options::new(4, 2).pace(Pace::Lazy), Settings { staging_size: 16 << 10, ..settings() });
    let buffer = rig.buffer(100_000);
    let bytes = |from: u8| (0..100_000_u32).map(|i| (i % 251) as u8 ^ from).collect::<Vec<u8>>();
    for round in 0..3 {
        rig.device.buffer_write(u64::from(round), whole(buffer), &bytes(round), false).expect("a write");
    }
    assert_eq!(rig.read(whole(buffer)).expect("a read"), bytes(2));
    rig.assert_ordered();
}

#[test]
fn a_write_that_must_not_wait_is_not_ready_and_changes_nothing() {
    let rig = Rig::new(Options::new(4, 1).pace(Pace::Lazy), Settings { staging_size: 16 << 10, ..settings() });
    let buffer = rig.filled(16 << 10, 1);
    rig.device.wait(FOREVER).expect("a wait");
    let root = rig.taint(part(buffer, 0, 8));
    rig.backend().hold(true);
    let other = rig.buffer(16 << 10);
    rig.write(whole(other), &[2; 16 << 10]).expect("a write");
    assert_eq!(rig.device.buffer_write(0, whole(buffer), &[3; 16 << 10], true), Err(Error::NotReady));
    assert_eq!(rig.device.buffer_write(0, part(buffer, 0, 100), &[3; 100], true), Err(Error::NotReady));
    rig.backend().hold(false);
    assert_eq!(rig.unreadable(whole(buffer)), [root]);
    assert_eq!(rig.read(part(buffer, 8, 92)).expect("a read"), [1; 92]);
    rig.device.buffer_write(0, whole(buffer), &[3; 16 << 10], true).expect("there is room now");
    assert_eq!(rig.read(whole(buffer)).expect("a read"), [3; 16 << 10]);
    let large = rig.buffer((16 << 10) + 1);
    let never = rig.device.buffer_write(0, whole(large), &[4; (16 << 10) + 1], true);
    assert_eq!(misused(never), (Code::InvalidArgument, "src_size"));
}

#[test]
fn a_write_that_fails_in_the_middle_is_one_failure_of_all_that_is_missing() {
    let rig = Rig::new(Options::new(4, 1), Settings { staging_size: 16 << 10, max_recorded: 1, ..settings() });
    let buffer = rig.filled(16 << 10, 1);
    rig.device.wait(FOREVER).expect("a wait");
    rig.backend().inject(Call::PageWrite, 2, fault(Code::OutOfHostMemory, "no second piece"), false);
    let (_, roots) = failed(rig.write(whole(buffer), &[3; 16 << 10]));
    assert_eq!(roots.len(), 1);
    assert_eq!(rig.read(part(buffer, 0, 4 << 10)).expect("the first piece"), [3; 4 << 10]);
    assert_eq!(rig.unreadable(part(buffer, 4 << 10, 1)), roots);
    assert_eq!(rig.unreadable(part(buffer, (16 << 10) - 1, 1)), roots);
    assert_eq!(rig.settled_failures(), 1);
}

// What a device leaves behind.

#[test]
fn closing_gives_everything_back() {
    let mut rig = rig();
    let (kernel, broken) = (rig.kernel(&triple()), rig.broken(&[]).0);
    let (a, b, (huge, _)) = (rig.filled(64, 1), rig.buffer(64), rig.huge());
    rig.launch(kernel, &[whole(a), whole(b)]).expect("a launch");
    skipped(rig.launch(broken, &[whole(b)]));
    let _abandoned = scope(&rig, &[writing(part(a, 0, 4))]).expect("a scope");
    rig.device.close(FOREVER).expect("a close");
    assert_eq!((rig.backend().live_pages(), rig.backend().open_recordings(), rig.failures()), (0, 0, 0));
    for handle in [a, b, huge] {
        assert_eq!(misused(rig.device.buffer_info(handle)).0, Code::StaleHandle);
    }
    assert_eq!(misused(rig.device.kernel_info(kernel)).0, Code::StaleHandle);
    rig.assert_ordered();
}

#[test]
fn a_kernel_destroyed_in_flight_lives_on_until_its_work_completes() {
    let mut rig = lazy();
    let kernel = rig.kernel(&triple());
    let (a, b) = (rig.filled(64, 1), rig.buffer(64));
    rig.launch(kernel, &[whole(a), whole(b)]).expect("a launch");
    rig.device.kernel_destroy(kernel).expect("a destroy");
    let rebuilt = rig.kernel(&triple());
    rig.launch(rebuilt, &[whole(b), whole(a)]).expect("a launch");
    rig.device.kernel_rebuild(rebuilt, &kernel_desc(&nine().encode(), &[], "")).expect("a rebuild");
    assert_eq!(rig.read(whole(b)).expect("a read"), [4; 64]);
    assert_eq!(rig.read(whole(a)).expect("a read"), [13; 64]);
    rig.device.close(FOREVER).expect("a close");
    rig.assert_ordered();
}
