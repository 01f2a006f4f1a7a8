//! Rows of the failure store alone: B7 and B8, with `cubecl-server` as the baseline where it is built in.

use crate::heap::allocations;
use crate::table::{Budget, alone, in_turn, nanoseconds_each, row};
use slotmap::SlotMap;
use std::hint::black_box;
use std::sync::Arc;
use tidegate::code::Code;
use tidegate::error::Fault;
use tidegate::failure::{Access, BlockKey, Blocks, Bytes, Claims, Context, FailureStore, Failures, Name, Use, Work};

/// Bytes that a launch writes of each buffer.
const WRITTEN: u64 = 4096;
/// Launches of one repetition.
const LAUNCHES: usize = 100_000;
/// Claims that one buffer carries: 8 bytes of every 16.
const CLAIMS: u64 = 10_000;
/// Times that each place is looked up in one repetition.
const PASSES: usize = 10;

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

/// The store with blocks and nothing else: no device, no streams, no handles.
#[derive(Default)]
struct Store {
    blocks: Kept,
    failures: Failures,
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
    fn block(&mut self, size: u64) -> BlockKey {
        let name = Name { noun: "buffer", serial: self.blocks.0.len() as u64 + 1, label: "".into() };
        let Store { blocks, failures } = self;
        blocks.0.insert_with_key(|key| failures.new_block(key, name, size, true, None))
    }

    fn launch(&mut self, work: &Work<'_>, uses: &[Use]) {
        self.enter_or_skip(work, uses).expect("nothing is claimed");
        self.write_scope(work, uses, |_| Ok(None)).expect("nothing failed");
    }
}

/// A successful launch over some buffers.
pub(crate) fn success() {
    let name: Arc<str> = "increment".into();
    let work =
        Work { operation: "tg_launch", name: &name, is_kernel: true, label: "", stream: Some(0), tag: 0, broken: None };
    let mut allocated = 0;
    for (buffers, failing) in [1, 2, 4, 16].into_iter().flat_map(|buffers| [(buffers, false), (buffers, true)]) {
        let mut store = Store::default();
        if failing {
            // A failure that this work never meets: every byte it uses is looked at all the same.
            let block = store.block(WRITTEN);
            let context = Context { operation: "tg_taint", ..Context::default() };
            store.taint(Fault::new(Code::Caller, ""), context, &[Bytes { block, start: 0, end: WRITTEN }]);
            store.failures.take_log();
        }
        let uses: Vec<Use> = (0..buffers)
            .map(|_| Use {
                bytes: Bytes { block: store.block(WRITTEN), start: 0, end: WRITTEN },
                access: Access::Write,
            })
            .collect();
        let mut theirs = theirs::Cycle::new(buffers);
        (0..1000).for_each(|_| store.launch(&work, &uses));
        allocated += allocations(|| (0..1000).for_each(|_| store.launch(&work, &uses)));
        let (one, other) = in_turn(
            || {
                nanoseconds_each(LAUNCHES, || {
                    for _ in 0..LAUNCHES {
                        black_box(&mut store).launch(black_box(&work), black_box(&uses));
                    }
                })
            },
            || theirs.nanoseconds(LAUNCHES),
        );
        assert_eq!(store.failures.count(), usize::from(failing), "success leaves nothing behind");
        assert!(theirs.is_empty(), "the baseline left something behind");
        let beside = if failing { ", beside a failure" } else { "" };
        let name = format!("B7 failure/ alone, a successful launch over {buffers}{beside}");
        row(&name, "ns", one, other, Budget::TimesAtMost(0.5));
    }
    row("B7 heap allocations", "", allocated as f64, f64::NAN, Budget::OursAtMost(0.0));
}

/// One buffer with many claims.
pub(crate) fn fragmented() {
    let size = CLAIMS * 16;
    let fault = || Fault::new(Code::Caller, "");
    let context = || Context { operation: "tg_taint", ..Context::default() };
    let bytes = |block, start, end| Bytes { block, start, end };
    let fragment = |store: &mut Store, block| {
        for i in 0..CLAIMS {
            store.taint(fault(), context(), &[bytes(block, i * 16, i * 16 + 8)]);
        }
        store.failures.take_log();
    };

    let mut store = Store::default();
    let block = store.block(size);
    fragment(&mut store, block);
    let mut theirs = theirs::Fragmented::new(CLAIMS);

    // Spread over the buffer, so that no place in it is the lucky one.
    let places: Vec<u64> = (0..1000).map(|i| (i * 7919) % CLAIMS * 16).collect();
    let claimed: Vec<Bytes> = places.iter().map(|at| bytes(block, *at, *at + 8)).collect();
    let gaps: Vec<Bytes> = places.iter().map(|at| bytes(block, *at + 10, *at + 14)).collect();

    let (one, their) = in_turn(
        || {
            // Several passes: the baseline's one pass leaves nothing of ours in the caches.
            nanoseconds_each(PASSES * claimed.len(), || {
                for bytes in std::iter::repeat_n(&claimed, PASSES).flatten() {
                    assert!(black_box(&store).read_failure(black_box(std::slice::from_ref(bytes))).is_some());
                }
            })
        },
        || theirs.lookup(&places),
    );
    row("B8 10,000 claims: lookup", "ns", one, their, Budget::OursAtMost(200.0));

    // Each claim is a failure of its own, minted and told to the log as a caller's is.
    let claim = |store: &mut Store| {
        let each = nanoseconds_each(gaps.len(), || {
            for bytes in &gaps {
                store.taint(fault(), context(), std::slice::from_ref(bytes));
            }
        });
        store.failures.take_log();
        each
    };
    let (one, their) = in_turn(
        || {
            let claim = claim(&mut store);
            gaps.iter().for_each(|bytes| store.written(std::slice::from_ref(bytes)));
            claim
        },
        || theirs.claim(&places),
    );
    row("B8 10,000 claims: claim one more range", "ns", one, their, Budget::OursAtMost(1000.0));

    let (one, their) = in_turn(
        || {
            claim(&mut store);
            nanoseconds_each(gaps.len(), || gaps.iter().for_each(|bytes| store.written(std::slice::from_ref(bytes))))
        },
        || theirs.release(&places),
    );
    row("B8 10,000 claims: release one range", "ns", one, their, Budget::OursAtMost(1000.0));

    let roots = store.failures.count();
    assert_eq!(roots as u64, CLAIMS, "each claim has its root, and what was released has none");
    let one = alone(|| {
        let mut store = Store::default();
        let block = store.block(size);
        fragment(&mut store, block);
        let all = nanoseconds_each(1000, || store.written(&[bytes(block, 0, size)]));
        assert_eq!(store.failures.count(), 0, "everything was released");
        all
    });
    let their = alone(|| theirs::Fragmented::new(CLAIMS).clear());
    row("B8 10,000 claims: clear all", "us", one, their, Budget::OursAtMost(2000.0));
}

/// The published bookkeeping of cubecl-server, in the cycle its own benchmark runs: a failure claims what each buffer
/// has to be written, then each is released.
#[cfg(feature = "cubecl")]
mod theirs {
    use super::{WRITTEN, black_box, nanoseconds_each};
    use cubecl_server::memory_management::{ErrorGraph, Taint};
    use cubecl_server::server::ServerError;

    pub(super) struct Cycle {
        taints: Vec<Taint>,
        graph: ErrorGraph,
    }

    impl Cycle {
        pub(super) fn new(buffers: usize) -> Cycle {
            Cycle { taints: (0..buffers).map(|_| Taint::default()).collect(), graph: ErrorGraph::default() }
        }

        pub(super) fn nanoseconds(&mut self, launches: usize) -> f64 {
            nanoseconds_each(launches, || {
                for _ in 0..launches {
                    let Cycle { taints, graph } = black_box(&mut *self);
                    let failure = graph.insert(ServerError::TornDown);
                    taints.iter_mut().for_each(|taint| taint.taint(0..WRITTEN, failure, graph));
                    taints.iter_mut().for_each(|taint| taint.written(0..WRITTEN, graph));
                    graph.prune(failure);
                }
            })
        }

        pub(super) fn is_empty(&self) -> bool {
            self.graph.is_empty() && self.taints.iter().all(Taint::is_clean)
        }
    }

    pub(super) struct Fragmented {
        taint: Taint,
        graph: ErrorGraph,
        claims: u64,
    }

    impl Fragmented {
        pub(super) fn new(claims: u64) -> Fragmented {
            let (mut taint, mut graph) = (Taint::default(), ErrorGraph::default());
            for i in 0..claims {
                let failure = graph.insert(ServerError::TornDown);
                taint.taint(i * 16..i * 16 + 8, failure, &mut graph);
            }
            Fragmented { taint, graph, claims }
        }

        pub(super) fn lookup(&self, places: &[u64]) -> f64 {
            nanoseconds_each(places.len(), || {
                for at in places {
                    assert!(black_box(&self.taint).failure(black_box(&(*at..*at + 8))).is_some());
                }
            })
        }

        fn claim_all(&mut self, places: &[u64]) {
            let failure = self.graph.insert(ServerError::TornDown);
            places.iter().for_each(|at| self.taint.taint(*at + 10..*at + 14, failure, &mut self.graph));
        }

        fn release_all(&mut self, places: &[u64]) {
            places.iter().for_each(|at| self.taint.written(*at + 10..*at + 14, &mut self.graph));
        }

        pub(super) fn claim(&mut self, places: &[u64]) -> f64 {
            let places = &places[..100];
            let claim = nanoseconds_each(places.len(), || self.claim_all(places));
            self.release_all(places);
            claim
        }

        pub(super) fn release(&mut self, places: &[u64]) -> f64 {
            let places = &places[..100];
            self.claim_all(places);
            nanoseconds_each(places.len(), || self.release_all(places))
        }

        /// In thousandths of what it takes in nanoseconds: microseconds.
        pub(super) fn clear(&mut self) -> f64 {
            let all = 0..self.claims * 16;
            nanoseconds_each(1000, || self.taint.written(all, &mut self.graph))
        }
    }
}

/// Without cubecl-server there is nothing to compare with, and the rows say so.
#[cfg(not(feature = "cubecl"))]
mod theirs {
    pub(super) struct Cycle;

    impl Cycle {
        pub(super) fn new(_: usize) -> Cycle {
            Cycle
        }
        pub(super) fn nanoseconds(&mut self, _: usize) -> f64 {
            f64::NAN
        }
        pub(super) fn is_empty(&self) -> bool {
            true
        }
    }

    pub(super) struct Fragmented;

    impl Fragmented {
        pub(super) fn new(_: u64) -> Fragmented {
            Fragmented
        }
        pub(super) fn lookup(&self, _: &[u64]) -> f64 {
            f64::NAN
        }
        pub(super) fn claim(&mut self, _: &[u64]) -> f64 {
            f64::NAN
        }
        pub(super) fn release(&mut self, _: &[u64]) -> f64 {
            f64::NAN
        }
        pub(super) fn clear(&mut self) -> f64 {
            f64::NAN
        }
    }
}
