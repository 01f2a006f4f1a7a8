//! The store: every rule about which bytes can be trusted, written once, as operations on whatever keeps the blocks.
//!
//! A driver says where its blocks and its [`Failures`] are ([`FailureStore::split`], [`FailureStore::parts`]) and gets
//! the rest. Nothing here waits, calls a device or knows what runs.

use super::Access;
use super::claims::{BlockKey, Bytes, Claims, ScopeKey, Use};
use super::copies::Copies;
use super::interval::{Holds, IntervalMap};
use super::ledger::{Called, Kind, Late, Ledger, Met, Point, World, put};
use super::name::Name;
use super::report::{StepKind, Suspect};
use super::roots::{Cause, Context, Gathered, Origin, RootKey, RootTable, SetKey};
use super::skips::NewStep;
use crate::code::Code;
use crate::error::{Error, Fault, Roots};
use crate::room::{Room, SPARE};
use arrayvec::ArrayVec;
use hashbrown::HashSet;
use slotmap::SlotMap;
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// The longest message a root keeps, in bytes.
const MAX_MESSAGE: usize = 1024;
/// The longest name a root keeps, in bytes.
pub const MAX_NAME: usize = 128;

/// Cuts text at a character boundary.
pub fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Where the blocks are kept.
pub trait Blocks {
    /// The claims of a block; nothing once it is gone.
    fn claims(&self, block: BlockKey) -> Option<&Claims>;
    /// The same, to change them.
    fn claims_mut(&mut self, block: BlockKey) -> Option<&mut Claims>;
}

/// A line for the log: what a root is, or that work was skipped on it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The root's code; `Skipped` for skips.
    pub code: Code,
    /// The root's id.
    pub failure: u64,
    /// The words.
    pub message: String,
}

/// An open scope's outcome is not known yet.
#[derive(Debug)]
struct Scope {
    /// Nothing where nothing is written.
    provisional: Option<SetKey>,
    uses: Vec<Use>,
    name: Arc<str>,
    context: Context,
    /// Roots of a late failure of bytes it read.
    late: Option<SetKey>,
    /// Claims on bytes that it may write and does not have to: they stand again when it succeeds (R9).
    kept: Late,
}

/// A device loss: one root for the bytes of every block that has not been touched since (R14).
#[derive(Debug, Default)]
struct Loss {
    count: u32,
    /// What the device answered; nothing while the device is not lost.
    fault: Option<Box<Fault>>,
    /// The root, which may have gone with its last carrier.
    root: RootKey,
    /// The root, held for the blocks it still has to claim.
    carried: Option<SetKey>,
    /// Whether it is known yet what was in flight.
    is_settled: bool,
    /// Blocks it still has to claim.
    unreconciled: u64,
    suspects: Arc<[Suspect]>,
}

/// Every failure a device holds, and what it needs to tell of them.
#[derive(Default)]
pub struct Failures {
    pub(super) roots: RootTable,
    scopes: SlotMap<ScopeKey, Scope>,
    ledger: Ledger,
    copies: Copies,
    loss: Loss,
    log: Vec<LogLine>,
    /// Blocks of device memory there are, for the loss to count down.
    device_blocks: u64,
    /// The staging of one write set at a time, kept for its memory.
    write_set: Vec<Use>,
    no_name: Option<Arc<str>>,
}

/// A piece of work, as the rules see it. Borrowed: nothing is copied unless it fails.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// The C function, or what else is going on.
    pub operation: &'static str,
    /// What paths call it: the kernel's name, or the operation's.
    pub name: &'a Arc<str>,
    /// Whether `name` is a kernel's.
    pub is_kernel: bool,
    /// The caller's name for it, or empty.
    pub label: &'a str,
    /// The stream it is for, if it is for one.
    pub stream: Option<u64>,
    /// The caller's number for it.
    pub tag: u64,
    /// The kernel's root, if it is broken, and the kernel as paths name it (R8).
    pub broken: Option<(SetKey, &'a Name)>,
}

impl Work<'_> {
    /// What paths and suspects call it.
    fn called(&self) -> Called<'_> {
        Called { name: self.name, label: self.label, tag: self.tag }
    }

    /// What a root of it keeps.
    pub fn context(&self) -> Context {
        Context {
            operation: self.operation,
            kernel: if self.is_kernel { self.name.clone() } else { "".into() },
            stream: self.stream,
            label: cut(self.label, MAX_NAME).into(),
            tag: self.tag,
        }
    }
}

/// What a scope that ran was enqueued as.
pub type Enqueued = Option<Point>;

impl Failures {
    /// None yet, for a device that keeps so many pieces of unfinished work at most.
    pub fn bounded(max_pending: usize) -> Failures {
        Failures { ledger: Ledger::with_room(max_pending), ..Failures::default() }
    }

    /// Sees to room for work with so many uses, and for what may fail with it.
    #[inline]
    pub fn make_room(&mut self, uses: usize) -> Result<(), Fault> {
        self.roots.make_room(SPARE)?;
        self.ledger.make_room(SPARE + uses)?;
        self.scopes.make_room(1)?;
        self.log.make_room(SPARE)
    }

    /// How many roots live.
    pub fn count(&self) -> usize {
        self.roots.len()
    }

    /// The record of unfinished work.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The copies that host reads may take up.
    pub fn copies(&mut self) -> &mut Copies {
        &mut self.copies
    }

    /// The suspects of the last loss, in the order they were enqueued.
    pub fn suspects(&self) -> &Arc<[Suspect]> {
        &self.loss.suspects
    }

    /// Whether the device is lost.
    pub fn is_lost(&self) -> bool {
        self.loss.fault.is_some()
    }

    /// Whether the device is lost and it is known what was in flight.
    pub fn is_loss_settled(&self) -> bool {
        self.is_lost() && self.loss.is_settled
    }

    /// The lines to log since the last call; to be told outside every lock.
    #[cold]
    pub fn take_log(&mut self) -> Vec<LogLine> {
        // Room for the next lines now: a call that logs allocates for them, the calls after it do not.
        let mut next = Vec::new();
        let _ = next.make_room(SPARE);
        std::mem::replace(&mut self.log, next)
    }

    /// Whether there is anything to log.
    pub fn has_log(&self) -> bool {
        !self.log.is_empty()
    }

    /// An empty write set whose memory is kept; `put_back` returns it.
    pub fn write_set(&mut self) -> Vec<Use> {
        std::mem::take(&mut self.write_set)
    }

    /// Takes a write set back.
    pub fn put_back(&mut self, mut uses: Vec<Use>) {
        uses.clear();
        self.write_set = uses;
    }

    /// The claims of a new block: none, or "never written" (R17).
    pub fn new_block(
        &mut self,
        key: BlockKey,
        name: Name,
        size: u64,
        device_memory: bool,
        never_written: Option<Context>,
    ) -> Claims {
        let mut claims = Claims {
            name,
            size,
            key,
            map: IntervalMap::default(),
            unallocated: None,
            is_listed: false,
            held: IntervalMap::default(),
            held_to_write: IntervalMap::default(),
            device_memory,
            losses: self.loss.count,
        };
        if device_memory {
            self.device_blocks += 1;
        }
        if let Some(context) = never_written {
            let fault = Fault::new(Code::NeverWritten, "");
            let set = self.roots.mint(Some(Arc::new(Cause { fault, context })));
            self.roots.for_each_mut(set, |root| root.origin.add(claims.name.serial));
            claims.claim(0, size, set, &mut self.roots);
            self.roots.release(set);
        }
        claims
    }

    /// A block goes away: its claims are shed (R17) and nothing of it stays.
    pub fn shed(&mut self, claims: &mut Claims) {
        if claims.device_memory {
            // A device that a panic left half written is destroyed like any other.
            self.device_blocks = self.device_blocks.saturating_sub(1);
            if claims.losses != self.loss.count {
                self.reconciled_one();
            }
        }
        claims.map.clear(&mut self.roots);
        if let Some(set) = claims.unallocated.take() {
            self.roots.release(set);
        }
        claims.list(&mut self.roots);
    }

    /// A root that no claim holds yet: for broken kernels, and for failures of calls that write nothing. The caller
    /// holds it once. Whatever fails because the device is lost has the loss's own root, and begins the loss (R14).
    pub fn mint(&mut self, fault: Fault, context: Context, origin: &[u64]) -> SetKey {
        if fault.code != Code::DeviceLost {
            return self.mint_new(fault, context, origin);
        }
        self.begin_loss(fault);
        let set = self.loss_set();
        self.roots.for_each_mut(set, |root| origin.iter().for_each(|serial| root.origin.add(*serial)));
        set
    }

    /// The device is lost, if it was not before. What was in flight [`lose`](FailureStore::lose) finds out.
    fn begin_loss(&mut self, fault: Fault) {
        if self.is_lost() {
            return;
        }
        let set = self.mint_new(fault.clone(), Self::loss_context(), &[]);
        let root = self.roots.members(set).next().map(|(root, _)| root).unwrap_or_default();
        self.loss.fault = Some(Box::new(fault));
        self.loss.root = root;
        self.loss.carried = Some(set);
        self.loss.is_settled = false;
        self.loss.count += 1;
        self.loss.unreconciled = self.device_blocks;
    }

    fn loss_context() -> Context {
        Context { operation: "device", ..Context::default() }
    }

    /// The root of a loss there is, held once more for the caller; made again if it went with its last carrier.
    fn loss_set(&mut self) -> SetKey {
        if let Some(set) = self.roots.single(self.loss.root) {
            self.roots.hold(&set);
            return set;
        }
        let fault = self.loss.fault.as_deref().cloned().unwrap_or_else(|| Fault::new(Code::DeviceLost, ""));
        let cause = Cause { fault, context: Self::loss_context() };
        let set = self.roots.mint(Some(Arc::new(cause)));
        self.loss.root = self.roots.members(set).next().map(|(root, _)| root).unwrap_or_default();
        set
    }

    /// Nothing is left that the loss has to claim: from here on its root lives as long as what it claimed (R3).
    fn let_go_of_loss(&mut self) {
        if self.loss.unreconciled == 0
            && self.loss.is_settled
            && let Some(set) = self.loss.carried.take()
        {
            self.roots.release(set);
        }
    }

    fn mint_new(&mut self, fault: Fault, context: Context, origin: &[u64]) -> SetKey {
        let message = cut(&fault.message, MAX_MESSAGE);
        let fault =
            if message.len() < fault.message.len() { Fault { message: message.into(), ..fault } } else { fault };
        let set = self.roots.mint(Some(Arc::new(Cause { fault, context })));
        self.roots.for_each_mut(set, |root| origin.iter().for_each(|serial| root.origin.add(*serial)));
        self.log_root(set);
        set
    }

    /// Lets go of a root got from [`mint`](Self::mint).
    pub fn release(&mut self, set: SetKey) {
        self.roots.release(set);
    }

    /// The id of a set's oldest root.
    pub fn id(&self, set: SetKey) -> u64 {
        self.roots.oldest(set).id
    }

    /// How many roots a set names, and whether there are more.
    pub fn size(&self, set: SetKey) -> (u32, bool) {
        self.roots.size(set)
    }

    /// The caller has a name and a number for what failed in an open scope.
    pub fn rename_scope(&mut self, scope: ScopeKey, label: &str, tag: u64) {
        if let Some(scope) = self.scopes.get_mut(scope) {
            if !label.is_empty() {
                scope.context.label = cut(label, MAX_NAME).into();
            }
            scope.context.tag = tag;
        }
    }

    /// The device goes away, and its loss with it.
    pub fn forget_loss(&mut self) {
        self.loss.fault = None;
        if let Some(set) = self.loss.carried.take() {
            self.roots.release(set);
        }
    }

    /// The roots of a set, for an answer.
    pub fn name(&self, set: SetKey) -> Roots {
        let mut answer = Roots::default();
        self.roots.name(set, &mut answer);
        answer
    }

    /// The fault of the device's loss, for calls that need the device.
    pub fn loss_fault(&self) -> Option<(Fault, Roots)> {
        let fault = self.loss.fault.as_deref()?.clone();
        let roots = self.roots.single(self.loss.root).map(|set| self.name(set));
        Some((fault, roots.unwrap_or_default()))
    }

    /// Whether the loss still has to claim what no other root holds of some block.
    pub fn has_unreconciled(&self) -> bool {
        self.loss.unreconciled > 0
    }

    fn log_root(&mut self, set: SetKey) {
        let root = self.roots.oldest(set);
        if let Some(cause) = &root.cause {
            let message = super::render::cause_line(cause);
            self.log.push(LogLine { code: cause.fault.code, failure: root.id, message });
        }
    }

    fn reconciled_one(&mut self) {
        self.loss.unreconciled = self.loss.unreconciled.saturating_sub(1);
        if self.loss.unreconciled == 0 && !self.is_lost() {
            self.loss.suspects = Arc::default();
        }
        self.let_go_of_loss();
    }
}

/// Something that owns blocks and a device's [`Failures`]: the whole surface of the rules comes with it.
pub trait FailureStore {
    /// Where its blocks are.
    type Blocks: Blocks;

    /// Both, to change them.
    fn split(&mut self) -> (&mut Self::Blocks, &mut Failures);
    /// Both, to ask.
    fn parts(&self) -> (&Self::Blocks, &Failures);

    /// Whether the bytes can all be trusted, as far as is known: else every root that claims one of them, once (R6).
    fn ensure_written(&self, asked: &[Bytes]) -> Result<(), Roots> {
        let (blocks, failures) = self.parts();
        let mut answer = Roots::default();
        for bytes in asked.iter().filter(|bytes| bytes.start < bytes.end) {
            let Some(claims) = blocks.claims(bytes.block) else {
                continue;
            };
            let mut claimed = false;
            claims.sets(bytes.start, bytes.end, |set| {
                claimed = true;
                failures.roots.name(set, &mut answer);
            });
            if claimed && !answer.asked.is_full() && !answer.asked.contains(&claims.name.serial) {
                answer.asked.push(claims.name.serial);
            }
        }
        if answer.ids.is_empty() { Ok(()) } else { Err(answer) }
    }

    /// The oldest root that claims any of the bytes.
    fn read_failure(&self, asked: &[Bytes]) -> Option<u64> {
        self.ensure_written(asked).err().and_then(|roots| roots.ids.first().copied())
    }

    /// Whether an open scope holds any of the bytes against the use.
    fn held(&self, uses: &[Use]) -> bool {
        let (blocks, failures) = self.parts();
        if failures.scopes.is_empty() {
            return false;
        }
        uses.iter().filter(|u| u.access != Access::None).any(|u| {
            blocks.claims(u.bytes.block).is_some_and(|claims| {
                claims.is_held() && claims.held_against(u.bytes.start, u.bytes.end, u.access.writes())
            })
        })
    }

    /// A new failure takes the bytes over. Its id; 0 where there are no bytes to take: memory that was never allocated
    /// keeps the reason why (R7).
    fn taint(&mut self, fault: Fault, context: Context, bytes: &[Bytes]) -> u64 {
        let (blocks, failures) = self.split();
        let is_there =
            |blocks: &Self::Blocks, bytes: &Bytes| blocks.claims(bytes.block).is_some_and(Claims::is_allocated);
        if !bytes.iter().any(|bytes| is_there(blocks, bytes)) {
            return 0;
        }
        let set = failures.mint(fault, context, &[]);
        let id = failures.id(set);
        // Without a list of them: it may be memory for a list that is lacking.
        for bytes in bytes {
            if is_there(blocks, bytes) {
                claim_all(blocks, failures, set, std::iter::once(*bytes), true);
            }
        }
        settle(blocks, failures, bytes.iter().filter(|bytes| is_there(blocks, bytes)).copied());
        failures.roots.release(set);
        id
    }

    /// The caller knows that the bytes are written: claims on exactly them are released, as far as they can be.
    fn written(&mut self, bytes: &[Bytes]) {
        self.prove_written(bytes.iter().copied());
        let (blocks, failures) = self.split();
        settle(blocks, failures, bytes.iter().copied());
    }

    /// The caller's word that it wrote the bytes releases them. Memory of a lost device it could not write: that is the
    /// loss's, whatever was claimed of it and whoever asked meanwhile (R14).
    fn prove_written(&mut self, bytes: impl Iterator<Item = Bytes>) {
        let is_lost = self.parts().1.is_lost();
        for Bytes { block, start, end } in bytes {
            if is_lost {
                self.reconcile(block);
            }
            let (blocks, failures) = self.split();
            let Some(claims) = blocks.claims_mut(block) else { continue };
            if is_lost && claims.device_memory {
                let set = failures.loss_set();
                claims.claim(start, end, set, &mut failures.roots);
                failures.roots.release(set);
            } else {
                claims.release(start, end, &mut failures.roots);
            }
        }
    }

    /// The block has no bytes, for this reason (R7). The root's id.
    fn fail_unallocated(&mut self, block: BlockKey, fault: Fault, context: Context) -> u64 {
        let (blocks, failures) = self.split();
        let set = failures.mint(fault, context, &[]);
        let id = failures.id(set);
        if let Some(claims) = blocks.claims_mut(block) {
            failures.roots.for_each_mut(set, |root| root.origin.add(claims.name.serial));
            claims.map.clear(&mut failures.roots);
            let before = claims.unallocated.replace(set);
            if let Some(before) = before {
                failures.roots.release(before);
            }
            claims.list(&mut failures.roots);
            // However large it is when it is allocated again.
            settle(blocks, failures, [Bytes { block, start: 0, end: u64::MAX }]);
        } else {
            failures.roots.release(set);
        }
        id
    }

    /// The block has bytes now: the reason why it had none claims them all (R7).
    fn allocated(&mut self, block: BlockKey, size: u64) {
        let (blocks, failures) = self.split();
        if let Some(claims) = blocks.claims_mut(block) {
            claims.size = size;
            if let Some(set) = claims.unallocated.take() {
                claims.claim(0, size, set, &mut failures.roots);
                failures.roots.release(set);
            }
        }
    }

    /// Decides, once, whether the work runs. If bytes it needs are claimed, or there are none, or its kernel is broken,
    /// it is skipped here and now: its whole write set takes over the roots found (R5, R8), which are the answer.
    fn enter_or_skip(&mut self, work: &Work<'_>, uses: &[Use]) -> Result<(), Roots> {
        let (blocks, failures) = self.parts();
        // Without a root nothing is claimed, and every buffer is allocated.
        if failures.roots.is_empty() {
            return Ok(());
        }
        let stopped = work.broken.is_some()
            || uses.iter().any(|u| {
                blocks.claims(u.bytes.block).is_some_and(|claims| {
                    (!claims.is_allocated() && u.bytes.start < u.bytes.end)
                        || (!claims.map.is_empty()
                            && u.access.needs_bytes()
                            && claims.map.overlaps(u.bytes.start, u.bytes.end))
                })
            });
        if !stopped { Ok(()) } else { Err(self.propagate(work, uses)) }
    }

    /// The skipping half of [`enter_or_skip`](Self::enter_or_skip).
    fn propagate(&mut self, work: &Work<'_>, uses: &[Use]) -> Roots {
        let (blocks, failures) = self.split();
        // Which root was found on what, each root once.
        let mut found: Gathered<Option<BlockKey>> = Gathered::default();
        if let Some((set, _)) = work.broken {
            failures.roots.gather(set, None, &mut found);
        }
        for u in uses {
            let Some(claims) = blocks.claims(u.bytes.block) else {
                continue;
            };
            if u.access.needs_bytes() || !claims.is_allocated() {
                let on = Some(u.bytes.block);
                claims.sets(u.bytes.start, u.bytes.end, |set| failures.roots.gather(set, on, &mut found));
            }
        }
        let mut answer = Roots::default();
        if found.roots().is_empty() {
            return answer;
        }
        failures.roots.name_gathered(&found, &mut answer);
        let produced = names(blocks, uses.iter().filter(|u| u.access.writes()).map(|u| u.bytes.block));
        for name in &produced {
            if answer.asked.try_push(name.serial).is_err() {
                break;
            }
        }
        for (root, on) in found.roots() {
            let needed = match on {
                Some(block) => blocks.claims(*block).map(|claims| &claims.name),
                None => work.broken.map(|(_, name)| name),
            };
            if let Some(needed) = needed {
                let step = NewStep { kind: StepKind::Skip, work: work.called(), needed, produced: &produced };
                record(failures, *root, &step);
            }
        }
        // What writes nothing hands nothing on.
        if !uses.iter().any(|u| u.access.writes()) {
            return answer;
        }
        let set = failures.roots.intern(&found);
        drop(produced);
        let writes = uses.iter().filter(|u| u.access.writes());
        for u in writes {
            if let Some(claims) = blocks.claims_mut(u.bytes.block) {
                claims.claim(u.bytes.start, u.bytes.end, set, &mut failures.roots);
            }
        }
        note(blocks, failures, Kind::Settled, None, work.called(), uses);
        failures.roots.release(set);
        answer
    }

    /// Work that was decided to run. What it says about its bytes stands for the whole body: an error or a panic
    /// claims its write set, and the panic goes on; success releases what it wrote in full (R4, R9). The body says as
    /// what it was enqueued.
    fn write_scope(
        &mut self,
        work: &Work<'_>,
        uses: &[Use],
        body: impl FnOnce(&mut Self) -> Result<Enqueued, Fault>,
    ) -> Result<(), Error>
    where
        Self: Sized,
    {
        let point = guarded(self, work, uses, body)?;
        let (blocks, failures) = self.split();
        // Without a root there is no claim to release, and no byte to look at.
        if !failures.roots.is_empty() {
            for u in uses.iter().filter(|u| u.access.releases()) {
                if let Some(claims) = blocks.claims_mut(u.bytes.block) {
                    claims.release(u.bytes.start, u.bytes.end, &mut failures.roots);
                }
            }
            for u in uses.iter().filter(|u| u.access == Access::MayWrite) {
                ran_over(blocks, failures, work.called(), u.bytes);
            }
        }
        note(blocks, failures, Kind::Ran, point, work.called(), uses);
        Ok(())
    }

    /// Decides whether a copy runs, as [`enter_or_skip`](Self::enter_or_skip) does for other work: claimed bytes do not
    /// keep it from running, bytes without memory do (R10).
    fn enter_copy(&mut self, work: &Work<'_>, to: Bytes, from: Bytes) -> Result<(), Roots> {
        let uses = [Use { bytes: to, access: Access::Write }, Use { bytes: from, access: Access::Read }];
        let (blocks, _) = self.parts();
        let missing = |bytes: Bytes| blocks.claims(bytes.block).is_some_and(|claims| !claims.is_allocated());
        if missing(to) || missing(from) { Err(self.propagate(work, &uses)) } else { Ok(()) }
    }

    /// A copy of equally long, disjoint ranges (R10): it runs over claimed bytes, and each claimed source byte hands
    /// its claim to its destination byte while each clean one releases it. Memory that was never allocated cannot be
    /// copied: that is a skip like any other.
    fn copy_scope(
        &mut self,
        work: &Work<'_>,
        to: Bytes,
        from: Bytes,
        body: impl FnOnce(&mut Self) -> Result<Enqueued, Fault>,
    ) -> Result<(), Error>
    where
        Self: Sized,
    {
        self.enter_copy(work, to, from).map_err(Error::Skipped)?;
        let uses = [Use { bytes: to, access: Access::Write }, Use { bytes: from, access: Access::Read }];
        let point = guarded(self, work, &uses, body)?;
        self.copied(work, point, to, from);
        Ok(())
    }

    /// What a copy that was enqueued as `point` comes to: its claims have moved, and late failures will. A host read of
    /// bytes that are claimed already is nothing more than this (R12).
    fn copied(&mut self, work: &Work<'_>, point: Enqueued, to: Bytes, from: Bytes) {
        self.hand_over(work.name, to, from);
        let uses = [Use { bytes: to, access: Access::Write }, Use { bytes: from, access: Access::Read }];
        let (blocks, failures) = self.split();
        note(blocks, failures, Kind::Copied, point, work.called(), &uses);
    }

    /// Each claimed byte of `from` hands its claim to its byte of `to`, each clean one releases it (R10). `to` has
    /// bytes, or stands for some.
    fn hand_over(&mut self, name: &Arc<str>, to: Bytes, from: Bytes) {
        let (blocks, failures) = self.split();
        let mut moved: SmallVec<[(u64, u64, SetKey); 4]> = SmallVec::new();
        if let Some(claims) = blocks.claims(from.block) {
            claims.visit(from.start, from.end, |start, end, set| moved.push((start, end, set)));
        }
        if !moved.is_empty() {
            let names: Option<(Name, Name)> = blocks
                .claims(from.block)
                .zip(blocks.claims(to.block))
                .map(|(from, to)| (from.name.clone(), to.name.clone()));
            // No path leads to a block that belongs to no buffer.
            if let Some((needed, produced)) = names.filter(|(_, produced)| produced.serial != 0) {
                let step = NewStep { kind: StepKind::Copy, work: name.into(), needed: &needed, produced: &[&produced] };
                let mut told: SmallVec<[RootKey; 8]> = SmallVec::new();
                for (_, _, set) in &moved {
                    let members: SmallVec<[RootKey; 4]> = failures.roots.members(*set).map(|(key, _)| key).collect();
                    for root in members {
                        if !told.contains(&root) {
                            told.push(root);
                            record(failures, root, &step);
                        }
                    }
                }
            }
            // The source may be the same block, and releasing the destination may be what ends a set: hold them all.
            moved.iter().for_each(|(_, _, set)| failures.roots.hold(set));
        }
        if let Some(claims) = blocks.claims_mut(to.block) {
            claims.release(to.start, to.end, &mut failures.roots);
            for (start, end, set) in &moved {
                let start = to.start + (start - from.start);
                let end = to.start + (end - from.start);
                claims.claim(start, end, *set, &mut failures.roots);
            }
        }
        moved.into_iter().for_each(|(_, _, set)| failures.roots.release(set));
    }

    /// Opens a write scope around work of the caller's: its write set is claimed until the outcome is known, its bytes
    /// are held (R4). A scope that reads claimed bytes does not open.
    ///
    /// The scope keeps the list, so that it needs no memory for a copy.
    fn enter_write(&mut self, work: &Work<'_>, list: Vec<Use>) -> Result<ScopeKey, Roots> {
        let uses = &*list;
        self.enter_or_skip(work, uses)?;
        let (blocks, failures) = self.split();
        let mut provisional = None;
        let mut kept = Late::new();
        for u in uses.iter().filter(|u| u.access == Access::MayWrite) {
            let Bytes { block, start, end } = u.bytes;
            if let Some(claims) = blocks.claims(block) {
                let roots = &mut failures.roots;
                claims
                    .visit(start, end, |start, end, set| put(&mut kept, Bytes { block, start, end }, Some(set), roots));
            }
        }
        if uses.iter().any(|u| u.access.writes()) {
            let set = failures.roots.mint(None);
            claim_all(blocks, failures, set, uses.iter().filter(|u| u.access.writes()).map(|u| u.bytes), true);
            provisional = Some(set);
        }
        let (name, context) = (work.name.clone(), work.context());
        for u in uses.iter().filter(|u| u.access != Access::None) {
            if let Some(claims) = blocks.claims_mut(u.bytes.block) {
                claims.hold(u.bytes.start, u.bytes.end, u.access.writes());
            }
        }
        let scope = failures.scopes.insert(Scope { provisional, uses: Vec::new(), name, context, late: None, kept });
        note(blocks, failures, Kind::Scope(scope), None, work.called(), uses);
        if let Some(scope) = failures.scopes.get_mut(scope) {
            scope.uses = list;
        }
        Ok(scope)
    }

    /// Closes a scope. Success releases its write set, unless bytes it read were found bad since or the device is lost; a
    /// fault takes the provisional failure's place for all its carriers at once. Answers with the root's id, 0 for none.
    fn exit_write(&mut self, scope: ScopeKey, fault: Option<Fault>) -> u64 {
        let (blocks, failures) = self.split();
        let Some(scope_left) = failures.scopes.remove(scope) else {
            return 0;
        };
        let Scope { provisional, uses, name, context, late, mut kept } = scope_left;
        for u in uses.iter().filter(|u| u.access != Access::None) {
            if let Some(claims) = blocks.claims_mut(u.bytes.block) {
                claims.let_go(u.bytes.start, u.bytes.end, u.access.writes());
            }
        }
        let writes = || uses.iter().filter(|u| u.access.writes()).map(|u| u.bytes);
        let mut id = 0;
        let failed = fault.is_some();
        match (fault, late) {
            (Some(fault), _) => {
                if let Some(set) = provisional {
                    failures.roots.replace(set, Arc::new(Cause { fault, context }));
                    id = failures.id(set);
                    failures.log_root(set);
                } else {
                    let set = failures.mint(fault, context, &[]);
                    id = failures.id(set);
                    failures.roots.release(set);
                }
            }
            (None, Some(late)) => claim_all(blocks, failures, late, writes(), false),
            (None, None) => {
                self.prove_written(writes());
                if !kept.is_empty() {
                    let work = Called { name: &name, label: &context.label, tag: context.tag };
                    self.take_back(work, &uses, &kept);
                }
            }
        }
        let (blocks, failures) = self.split();
        kept.values_mut().for_each(|map| map.clear(&mut failures.roots));
        // What succeeded stands in the ledger where it began: what it read may still be found bad, or other bytes of it.
        if failed {
            settle(blocks, failures, writes());
        }
        [provisional, late].into_iter().flatten().for_each(|set| failures.roots.release(set));
        id
    }

    /// A scope succeeded: what was claimed of the bytes that it may have written is claimed again, by the same roots (R9).
    fn take_back(&mut self, work: Called<'_>, uses: &[Use], kept: &Late) {
        let (blocks, failures) = self.split();
        for (block, map) in kept {
            if let Some(claims) = blocks.claims_mut(*block) {
                map.visit(0, u64::MAX, |start, end, set| claims.claim(start, end, *set, &mut failures.roots));
            }
        }
        self.prove_written(uses.iter().filter(|u| u.access.releases()).map(|u| u.bytes));
        let (blocks, failures) = self.split();
        // The claims of a loss are nothing that the work ran over.
        if !failures.is_lost() {
            for u in uses.iter().filter(|u| u.access == Access::MayWrite) {
                ran_over(blocks, failures, work, u.bytes);
            }
        }
    }

    /// Gives a block back: sheds its claims (R17).
    fn shed(&mut self, block: BlockKey) {
        let (blocks, failures) = self.split();
        failures.copies.forget(block);
        if let Some(claims) = blocks.claims_mut(block) {
            failures.shed(claims);
        }
    }

    /// Everything enqueued for these points was refused after all (R13). The root's id.
    fn late_failure(&mut self, points: &[Point], fault: Fault, context: Context) -> u64 {
        let (blocks, failures) = self.split();
        let set = failures.mint(fault, context, &[]);
        let id = failures.id(set);
        let mut origin = Origin::default();
        let mut seen: HashSet<u64> = HashSet::new();
        failures.ledger.written_at(points, |bytes| {
            if let Some(claims) = blocks.claims(bytes.block)
                && seen.insert(claims.name.serial)
            {
                origin.add(claims.name.serial);
            }
        });
        failures.roots.for_each_mut(set, |root| root.origin = origin.clone());
        failures.ledger.fail(|failed| points.contains(&failed), set, &mut failures.roots);
        replay(blocks, failures, set);
        tidy(blocks, failures);
        failures.roots.release(set);
        id
    }

    /// Forgets what the ledger no longer needs: work whose point is complete.
    fn retire(&mut self, complete: impl Fn(Point) -> bool) {
        let (blocks, failures) = self.split();
        let Failures { ledger, roots, scopes, .. } = failures;
        let world = World {
            complete: &complete,
            exists: &|block| blocks.claims(block).is_some(),
            is_open: &|scope| scopes.contains_key(scope),
        };
        ledger.retire(roots, &world);
    }

    /// The device is lost: one root for everything it held, in O(1) (R14). What is not `over` was in flight, and fails
    /// with it; nothing enqueued before can fail any later. The root's id.
    fn lose(&mut self, fault: Fault, over: impl Fn(Point) -> bool) -> u64 {
        let (blocks, failures) = self.split();
        failures.begin_loss(fault);
        let set = failures.loss_set();
        let id = failures.id(set);
        if !std::mem::replace(&mut failures.loss.is_settled, true) {
            failures.copies.clear();
            failures.loss.suspects = failures.ledger.suspects(|point| !over(point));
            // Bytes that are no device's memory are lost with the work that was to write them.
            failures.ledger.fail(|point| !over(point), set, &mut failures.roots);
            replay(blocks, failures, set);
            failures.ledger.clear(&mut failures.roots);
            failures.let_go_of_loss();
        }
        failures.roots.release(set);
        id
    }

    /// Work that needs a lost device: what it would have written is the loss's as well (R14).
    fn fail_lost(&mut self, uses: &[Use]) -> Option<Error> {
        let (blocks, failures) = self.split();
        if !failures.is_lost() {
            return None;
        }
        let set = failures.loss_set();
        let writes: SmallVec<[Bytes; 8]> = uses.iter().filter(|u| u.access.writes()).map(|u| u.bytes).collect();
        claim_all(blocks, failures, set, writes.iter().copied(), true);
        settle(blocks, failures, writes.iter().copied());
        let known = failures.loss_fault();
        failures.roots.release(set);
        known.map(|(fault, roots)| Error::Failed(Box::new(fault), roots))
    }

    /// Bytes go the way of a failure that was recorded for a part of the same work.
    fn extend(&mut self, failure: u64, bytes: Bytes) {
        let (blocks, failures) = self.split();
        if let Some(set) = failures.roots.find(failure).and_then(|root| failures.roots.single(root)) {
            claim_all(blocks, failures, set, std::iter::once(bytes), true);
            settle(blocks, failures, [bytes]);
        }
    }

    /// A block is touched: if the device was lost since the last time, the loss claims what no older root holds (R14).
    fn reconcile(&mut self, block: BlockKey) {
        let (blocks, failures) = self.split();
        let Some(claims) = blocks.claims_mut(block) else {
            return;
        };
        if claims.losses == failures.loss.count {
            return;
        }
        claims.losses = failures.loss.count;
        if !claims.device_memory {
            return;
        }
        if failures.is_lost() && claims.is_allocated() {
            let set = failures.loss_set();
            let serial = claims.name.serial;
            failures.roots.for_each_mut(set, |root| root.origin.add(serial));
            claims.map.update(0, claims.size, &mut failures.roots, |roots, _, _, old| {
                Some(old.unwrap_or_else(|| {
                    roots.hold(&set);
                    set
                }))
            });
            claims.list(&mut failures.roots);
            failures.roots.release(set);
        }
        failures.reconciled_one();
    }
}

fn names<B: Blocks>(blocks: &B, keys: impl Iterator<Item = BlockKey>) -> SmallVec<[&Name; 8]> {
    let mut names: SmallVec<[&Name; 8]> = SmallVec::new();
    for claims in keys.filter_map(|block| blocks.claims(block)) {
        if claims.name.serial != 0 && names.iter().all(|name| name.serial != claims.name.serial) {
            names.push(&claims.name);
        }
    }
    names
}

fn record(failures: &mut Failures, root: RootKey, step: &NewStep<'_>) {
    let Some(entry) = failures.roots.get_mut(root) else {
        return;
    };
    if entry.skips.record(step) {
        let (failure, count) = (entry.id, entry.skips.total());
        let message = super::render::skip_line(step, count);
        failures.log.push(LogLine { code: Code::Skipped, failure, message });
    }
}

/// Work ran over bytes that it may have written: the roots of those that are claimed learn that nothing proves it (R9).
fn ran_over<B: Blocks>(blocks: &B, failures: &mut Failures, work: Called<'_>, bytes: Bytes) {
    if let Some(claims) = blocks.claims(bytes.block)
        && claims.map.overlaps(bytes.start, bytes.end)
    {
        told_of(failures, claims, work, bytes);
    }
}

#[cold]
fn told_of(failures: &mut Failures, claims: &Claims, work: Called<'_>, bytes: Bytes) {
    let mut found = Gathered::default();
    claims.sets(bytes.start, bytes.end, |set| failures.roots.gather(set, (), &mut found));
    let (kind, needed) = (StepKind::UnprovenWrite, &claims.name);
    for (root, ()) in found.roots() {
        record(failures, *root, &NewStep { kind, work, needed, produced: &[needed] });
    }
}

fn claim_all<B: Blocks>(
    blocks: &mut B,
    failures: &mut Failures,
    set: SetKey,
    bytes: impl Iterator<Item = Bytes>,
    first: bool,
) {
    for bytes in bytes {
        if let Some(claims) = blocks.claims_mut(bytes.block) {
            if first {
                let serial = claims.name.serial;
                failures.roots.for_each_mut(set, |root| root.origin.add(serial));
            }
            claims.claim(bytes.start, bytes.end, set, &mut failures.roots);
        }
    }
}

/// Adds to the ledger.
fn note<B: Blocks>(
    blocks: &B,
    failures: &mut Failures,
    kind: Kind,
    point: Option<Point>,
    work: Called<'_>,
    uses: &[Use],
) {
    failures.copies.changed(uses.iter().filter(|u| u.access.writes()).map(|u| u.bytes));
    if failures.ledger.push(kind, point, work, uses) {
        tidy(blocks, failures);
    }
}

/// Keeps in the ledger what may still matter, as if nothing had completed since it was last looked.
fn tidy<B: Blocks>(blocks: &B, failures: &mut Failures) {
    let Failures { ledger, roots, scopes, .. } = failures;
    let world = World {
        complete: &|_| false,
        exists: &|block| blocks.claims(block).is_some(),
        is_open: &|scope| scopes.contains_key(scope),
    };
    ledger.compact(roots, &world);
}

/// Tells the ledger that the bytes are what they are now, whatever happened before.
fn settle<B: Blocks>(blocks: &B, failures: &mut Failures, bytes: impl IntoIterator<Item = Bytes>) {
    let name = failures.no_name.get_or_insert_with(|| "".into()).clone();
    // A few at a time, so that a long list needs no memory of its own.
    let mut uses = bytes.into_iter().map(|bytes| Use { bytes, access: Access::Write });
    loop {
        let some: ArrayVec<Use, 64> = uses.by_ref().take(64).collect();
        if some.is_empty() {
            return;
        }
        if failures.ledger.is_empty() {
            failures.copies.changed(some.iter().map(|u| u.bytes));
        } else {
            note(blocks, failures, Kind::Settled, None, (&name).into(), &some);
        }
    }
}

/// Replays the ledger for the new root of `set`, and claims what is found bad at its end, and nothing else (R13).
fn replay<B: Blocks>(blocks: &mut B, failures: &mut Failures, set: SetKey) {
    let Some((new, _)) = failures.roots.members(set).next() else {
        return;
    };
    let scopes = &mut failures.scopes;
    let blocks_seen = &*blocks;
    let mut late = failures.ledger.replay(
        &mut failures.roots,
        new,
        |roots, passed| {
            let Some(needed) = blocks_seen.claims(passed.needed) else {
                return;
            };
            let produced = passed.uses.iter().filter(|u| u.access.writes()).map(|u| u.bytes.block);
            let produced = names(blocks_seen, produced);
            // A host read has no bytes of its own that a path could lead to.
            if produced.is_empty() {
                return;
            }
            let step = NewStep { kind: passed.kind, work: passed.work, needed: &needed.name, produced: &produced };
            if let Some(root) = roots.get_mut(new) {
                root.skips.record(&step);
            }
        },
        |roots, scope, met| {
            let Some(scope) = scopes.get_mut(scope) else {
                return false;
            };
            let set = match met {
                Met::Read(set) => set,
                Met::Kept(bytes, set) => {
                    put(&mut scope.kept, bytes, Some(set), roots);
                    return true;
                }
            };
            let wider = match scope.late {
                None => {
                    roots.hold(&set);
                    set
                }
                Some(before) => {
                    let wider = roots.union(before, set);
                    roots.release(before);
                    wider
                }
            };
            scope.late = Some(wider);
            true
        },
    );
    for (block, map) in &mut late {
        if let Some(claims) = blocks.claims_mut(*block) {
            map.visit(0, u64::MAX, |start, end, set| claims.claim(start, end, *set, &mut failures.roots));
        }
        map.clear(&mut failures.roots);
    }
}

/// Runs a body whose failure, of whatever kind, claims the write set (R4).
fn guarded<S: FailureStore>(
    store: &mut S,
    work: &Work<'_>,
    uses: &[Use],
    body: impl FnOnce(&mut S) -> Result<Enqueued, Fault>,
) -> Result<Enqueued, Error> {
    match catch_unwind(AssertUnwindSafe(|| body(store))) {
        Ok(Ok(point)) => Ok(point),
        Ok(Err(fault)) => Err(failed(store, work, uses, fault)),
        // The claims are ours; whatever else the body left half done is its owner's to deal with.
        Err(panic) => {
            failed(store, work, uses, Fault::new(Code::Internal, panic_message(&*panic)));
            resume_unwind(panic)
        }
    }
}

/// The work failed after it was decided to run: its write set is claimed.
#[cold]
fn failed<S: FailureStore>(store: &mut S, work: &Work<'_>, uses: &[Use], fault: Fault) -> Error {
    let (blocks, failures) = store.split();
    let set = failures.mint(fault.clone(), work.context(), &[]);
    // Without a list of them: it may be memory for a list that is lacking.
    let writes = || uses.iter().filter(|u| u.access.writes()).map(|u| u.bytes);
    claim_all(blocks, failures, set, writes(), true);
    settle(blocks, failures, writes());
    let mut roots = failures.name(set);
    roots.asked.extend(names(blocks, writes().map(|bytes| bytes.block)).iter().take(8).map(|name| name.serial));
    failures.roots.release(set);
    Error::Failed(Box::new(fault), roots)
}

/// What a panic says of itself.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}
