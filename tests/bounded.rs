//! Nothing grows, and no call slows, with what was ever done: told by counts, not by clocks.

mod host;

use host::backend::{Options, Pace};
use host::rig::{Rig, part, settings, triple, whole};
use tidegate::device::{FOREVER, Handle, Scheduling, Settings};
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
