//! Documents that are not settled, and how far the checkpoint may advance.

use std::collections::VecDeque;

use weir_journal::{Address, Outcome, Position};

/// A document to be sent.
#[derive(Debug)]
pub(crate) struct Item {
    /// Its place in the order in which transactions were read.
    pub(crate) order: u64,
    /// Id of the transaction.
    pub(crate) id: u128,
    /// Its address in the journal.
    pub(crate) address: Option<Address>,
    /// How the transaction has ended.
    pub(crate) outcome: Outcome,
    /// Time of its receipt in microseconds since 1970.
    pub(crate) received_us: u64,
    /// It has no payload, because the document with payload was rejected.
    pub(crate) reduced: bool,
    /// For OpenSearch the lines of the action and of the document, for Kafka the value of the message.
    pub(crate) lines: Box<[u8]>,
}

/// Where readers were, by lane: position and sequence number.
pub(crate) type Positions = Vec<(u16, Position, u64)>;

/// Documents that wait to be sent, and the order of all that are not settled.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Item>,
    waiting_bytes: usize,
    next: u64,
    /// Of each document from the oldest that is not settled: whether it is settled.
    settled: VecDeque<bool>,
    /// Once everything before this place in the order is settled, the checkpoint may advance there.
    marks: VecDeque<(u64, Positions)>,
}

impl Queue {
    /// Adds a document behind all others.
    pub(crate) fn push(&mut self, mut item: Item) {
        item.order = self.next;
        self.next += 1;
        self.settled.push_back(false);
        self.waiting_bytes += item.lines.len();
        self.waiting.push_back(item);
    }

    /// Everything that was read up to these positions is in the queue, or needs no document.
    pub(crate) fn mark(&mut self, positions: Positions) {
        match self.marks.back_mut() {
            Some((place, last)) if *place == self.next => *last = positions,
            _ => self.marks.push_back((self.next, positions)),
        }
    }

    pub(crate) fn waiting_docs(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether the documents that wait fill a request of this size.
    pub(crate) fn fills(&self, docs: usize, bytes: usize) -> bool {
        self.waiting.len() >= docs || self.waiting_bytes >= bytes
    }

    /// Whether every document is settled.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.is_empty()
    }

    /// The next documents, at least one if there is any.
    pub(crate) fn take(&mut self, max_docs: usize, max_bytes: usize) -> Vec<Item> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        while let Some(item) = self.waiting.front() {
            bytes += item.lines.len();
            if !items.is_empty() && (items.len() >= max_docs || bytes > max_bytes) {
                break;
            }
            items.extend(self.waiting.pop_front());
        }
        self.waiting_bytes -= items.iter().map(|item| item.lines.len()).sum::<usize>();
        items
    }

    /// Puts documents back before all others.
    pub(crate) fn put_back(&mut self, items: Vec<Item>) {
        for item in items.into_iter().rev() {
            self.waiting_bytes += item.lines.len();
            self.waiting.push_front(item);
        }
    }

    pub(crate) fn settle(&mut self, order: u64) {
        let place = order.checked_sub(self.oldest()).and_then(|place| usize::try_from(place).ok());
        if let Some(settled) = place.and_then(|place| self.settled.get_mut(place)) {
            *settled = true;
        }
        while self.settled.front() == Some(&true) {
            self.settled.pop_front();
        }
    }

    /// The place of the oldest document that is not settled, or of the next one.
    fn oldest(&self) -> u64 {
        self.next - self.settled.len() as u64
    }

    /// The latest positions before which everything is settled, if they are new.
    pub(crate) fn settled_positions(&mut self) -> Option<Positions> {
        let first = self.oldest();
        let mut latest = None;
        while self.marks.front().is_some_and(|(place, _)| *place <= first) {
            latest = self.marks.pop_front().map(|(_, positions)| positions);
        }
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(bytes: usize) -> Item {
        Item {
            order: 0,
            id: 0,
            address: None,
            outcome: Outcome::Completed,
            received_us: 0,
            reduced: false,
            lines: vec![0; bytes].into(),
        }
    }

    fn positions(place: u64) -> Positions {
        vec![(0, Position::from_bits(place), place)]
    }

    #[test]
    fn the_checkpoint_waits_for_the_oldest_document() {
        let mut queue = Queue::default();
        for place in 1..=3 {
            queue.push(item(10));
            queue.mark(positions(place));
        }
        let items = queue.take(10, 1_000);
        assert_eq!(items.iter().map(|item| item.order).collect::<Vec<_>>(), [0, 1, 2]);
        queue.settle(1);
        queue.settle(2);
        assert_eq!(queue.settled_positions(), None);
        queue.settle(0);
        assert_eq!(queue.settled_positions(), Some(positions(3)));
        assert_eq!(queue.settled_positions(), None);
        queue.mark(positions(9));
        assert_eq!(queue.settled_positions(), Some(positions(9)), "records without a document");
    }

    #[test]
    fn a_bulk_has_one_document_at_least_and_its_limits_otherwise() {
        let mut queue = Queue::default();
        for bytes in [100, 10, 10, 10] {
            queue.push(item(bytes));
        }
        let long = queue.take(2, 50);
        assert_eq!((long.len(), queue.waiting_bytes()), (1, 30));
        assert_eq!(queue.take(2, 50).len(), 2);
        queue.put_back(long);
        assert_eq!((queue.waiting_docs(), queue.waiting_bytes()), (2, 110));
        assert_eq!(queue.take(9, 999)[0].order, 0, "before all others");
    }
}
