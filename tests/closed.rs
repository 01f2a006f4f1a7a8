//! It fails closed: whatever call of a backend fails or panics, once or for ever, what it was for is claimed and nothing
//! else, no wait waits for what never comes, and writing the bytes again repairs everything.

mod host;

use host::backend::{Call, fault};
use host::scenario::{SCHEDULINGS, Scenario, device, hush};
use tidegate::code::Code;
use tidegate::device::Scheduling;

/// What a call does instead of what it was called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instead {
    Panic,
    Answer(Code),
}

/// One cell: the n-th call does something else. Whether there was such a call.
fn cell(scheduling: Scheduling, call: Call, n: u64, instead: Instead, forever: bool) -> bool {
    let mut scenario = Scenario::new(device(scheduling));
    // The slot that a scheduler records for is made once.
    if call != Call::SlotCreate {
        scenario = scenario.with_bystander();
    }
    let backend = scenario.device.backend();
    match instead {
        Instead::Panic => backend.inject_panics(call, n, forever),
        Instead::Answer(code) => backend.inject(call, n, fault(code, "injected"), forever),
    }
    scenario.run();
    let fired = scenario.device.backend().fired() > 0;
    scenario.device.backend().heal();
    let failures = scenario.look();
    assert_eq!(scenario.panics, 0, "a panic of the backend's came through");
    for failure in &failures {
        match instead {
            Instead::Panic => {
                assert_eq!(failure.code, Code::Internal, "{failure:?}");
                assert!(failure.message.contains("panic"), "{failure:?}");
            }
            Instead::Answer(code) => {
                let what = (failure.code, failure.vk_result, &*failure.vk_function);
                assert_eq!(what, (code, -2, "vkHostTest"), "{failure:?}");
            }
        }
    }
    if !fired {
        assert_eq!((scenario.failures, scenario.unreadable), (0, 0), "nothing was injected");
        assert!(scenario.readable > 8);
    } else if !forever {
        assert!(scenario.readable > 0, "one failure of {call:?} took everything");
        // A panic takes its recording with it: the work that was being recorded, and all that was before.
        let most = if instead == Instead::Panic { 2 } else { 1 };
        assert!(failures.len() <= most, "one failure of {call:?} is {} of them", failures.len());
    }
    scenario.repair_and_end();
    scenario.device.close(0).expect("an end");
    let backend = scenario.device.backend();
    // What panicked while it was to be given back is not given back twice.
    let pages = if call == Call::PageDestroy { backend.live_pages() } else { 0 };
    assert_eq!((backend.live_pages(), backend.open_recordings()), (pages, 0));
    assert_eq!(backend.check(), [""; 0]);
    fired
}

fn every(instead: Instead, forever: bool) {
    hush();
    let (mut cells, mut met) = (0, Vec::new());
    for scheduling in SCHEDULINGS {
        for call in Call::ALL {
            if instead != Instead::Panic && !call.can_fail() {
                continue;
            }
            for n in 1.. {
                println!("{scheduling:?}: {call:?} {n}, {instead:?}, forever: {forever}");
                if !cell(scheduling, call, n, instead, forever) {
                    break;
                }
                cells += 1;
                met.push(call);
            }
        }
    }
    let never = |call: &&Call| (instead == Instead::Panic || call.can_fail()) && !met.contains(call);
    assert_eq!(
        Call::ALL.iter().filter(never).collect::<Vec<_>>(),
        [&Call::Wait; 0],
        "calls that the program never makes"
    );
    assert!(cells > 100, "{cells}");
}

#[test]
fn a_panic_at_any_call_of_the_backend_claims_what_it_was_for() {
    every(Instead::Panic, false);
}

#[test]
fn panics_from_some_call_on_claim_what_they_were_for() {
    every(Instead::Panic, true);
}

#[test]
fn a_failure_of_any_call_of_the_backend_claims_what_it_was_for_and_names_its_cause() {
    every(Instead::Answer(Code::Driver), false);
}

#[test]
fn failures_from_some_call_on_claim_what_they_were_for_and_name_their_cause() {
    every(Instead::Answer(Code::Driver), true);
}

#[test]
fn a_shortage_at_any_call_of_the_backend_claims_what_it_was_for_and_names_its_cause() {
    every(Instead::Answer(Code::OutOfDeviceMemory), false);
}
