//! How far the device answered for a slot's batches, which may fail before earlier ones are answered.

use smallvec::SmallVec;

/// Batches that were answered, in order.
#[derive(Debug, Default)]
pub(super) struct Answers {
    settled: u64,
    refused: u64,
    /// Failed while earlier ones were not answered yet.
    ahead: SmallVec<[u64; 2]>,
}

impl Answers {
    /// Up to here every batch was answered.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// The last batch that never ran.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// The device took a batch; everything before it was [answered](Self::unanswered).
    pub(super) fn accept(&mut self, batch: u64) {
        self.settle(batch);
    }

    /// The batches before one that were never answered. Answers come in order, so nobody will answer them any more once
    /// the one is: they were lost on their way.
    pub(super) fn unanswered(&self, batch: u64) -> impl Iterator<Item = u64> {
        (self.settled + 1..batch).filter(|before| !self.ahead.contains(before))
    }

    /// A batch never runs: refused by the device, or never handed to it.
    pub(super) fn refuse(&mut self, batch: u64) {
        self.refused = self.refused.max(batch);
        if self.settled + 1 == batch {
            self.settle(batch);
        } else {
            self.ahead.push(batch);
        }
    }

    /// Nothing is awaited any more.
    pub(super) fn give_up(&mut self, batch: u64) {
        self.settled = batch;
        self.ahead.clear();
    }

    fn settle(&mut self, batch: u64) {
        self.settled = batch;
        while self.ahead.contains(&(self.settled + 1)) {
            self.settled += 1;
            let settled = self.settled;
            self.ahead.retain(|failed| *failed != settled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_failed_ahead_is_settled_when_its_turn_comes() {
        let mut answers = Answers::default();
        answers.refuse(3);
        answers.refuse(2);
        assert_eq!((answers.settled(), answers.refused()), (0, 3));
        answers.accept(1);
        assert_eq!(answers.settled(), 3);
        answers.accept(4);
        assert_eq!((answers.settled(), answers.refused()), (4, 3));
    }

    #[test]
    fn what_nobody_answered_before_an_answer_is_told() {
        let mut answers = Answers::default();
        answers.accept(1);
        answers.refuse(3);
        assert_eq!(answers.unanswered(2).count(), 0);
        assert_eq!(answers.unanswered(6).collect::<Vec<_>>(), [2, 4, 5]);
    }
}
