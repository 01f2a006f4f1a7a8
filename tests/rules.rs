//! The rules of docs/rules.md, one fact a test, named after the rule it shows, on every scheduling.

mod host;

use host::rig::{Rig, failed, whole, with};
use tidegate::code::Code;
use tidegate::device::ScopeDesc;
use tidegate::failure::Access;

#[path = "rules/facts.rs"]
mod event;
#[path = "rules/facts.rs"]
#[allow(clippy::duplicate_mod, reason = "the same facts on another scheduling")]
mod interleave;
#[path = "rules/facts.rs"]
#[allow(clippy::duplicate_mod, reason = "the same facts on another scheduling")]
mod sequence;

// A million scopes: once, for no scheduling has a part in it.
#[test]
fn r11_a_scope_beyond_the_limit_claims_what_it_was_to_write_and_says_why() {
    let rig = Rig::default();
    let buffer = rig.filled(64, 1);
    let desc = ScopeDesc { stream: 0, uses: &[], label: "", tag: 0 };
    for _ in 0..1_048_576 {
        rig.device.scope_begin(&desc).expect("a scope");
    }
    let uses = [with(whole(buffer), Access::Write)];
    let (code, roots) = failed(rig.device.scope_begin(&ScopeDesc { uses: &uses, label: "scope", ..desc }));
    assert_eq!((code, roots.len()), (Code::LimitExceeded, 1));
    let report = rig.device.report_slices(&[whole(buffer)]).expect("a report");
    let failure = &report.failures[0];
    assert_eq!((failure.id, failure.code, failure.label.as_str()), (roots[0], Code::LimitExceeded, "scope"));
    assert!(failure.message.contains("1048576"), "{}", failure.message);
    assert_eq!((report.failures.len(), failure.claimed_bytes), (1, 64));
    rig.write(whole(buffer), &[1; 64]).expect("a write");
    assert_eq!(rig.settled_failures(), 0);
}
