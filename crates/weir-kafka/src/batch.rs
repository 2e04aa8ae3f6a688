//! Record batches: how messages are divided into them, and their encoding.

use crate::fault::Fault;
use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record,
    RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use std::collections::VecDeque;

/// Most bytes of a record batch, unless one message is longer: half of what a broker accepts by
/// default (`message.max.bytes`).
const MAX_BYTES: usize = 512 << 10;
/// Fewest bytes of a record batch after a broker has found one too large.
const MIN_BYTES: usize = 16 << 10;
/// Version of record batches since Kafka 0.11.
const VERSION: i8 = 2;
/// Bytes of a record besides key, value and headers: lengths, and differences of time and offset.
const RECORD_OVERHEAD: usize = 24;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Key; it decides the partition.
    pub key: Bytes,
    /// Value.
    pub value: Bytes,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
    /// Time of creation in milliseconds since 1970.
    pub time_ms: i64,
}

/// A record batch to be sent: indexes of its messages.
pub(crate) type Batch = Vec<usize>;

/// How large record batches are.
#[derive(Debug)]
pub(crate) struct BatchSize(usize);

impl Default for BatchSize {
    fn default() -> Self {
        Self(MAX_BYTES)
    }
}

impl BatchSize {
    /// Divides messages of one partition into record batches.
    pub(crate) fn divide(&self, indexes: &[usize], messages: &[Message]) -> VecDeque<Batch> {
        let (mut batches, mut batch, mut bytes) = (VecDeque::new(), Batch::new(), 0);
        for index in indexes {
            let length = size(&messages[*index]);
            if !batch.is_empty() && bytes + length > self.0 {
                batches.push_back(std::mem::take(&mut batch));
                bytes = 0;
            }
            bytes += length;
            batch.push(*index);
        }
        if !batch.is_empty() {
            batches.push_back(batch);
        }
        batches
    }

    /// A record batch of several messages was too large.
    pub(crate) fn too_large(&mut self, bytes: usize) {
        self.0 = (bytes / 2).clamp(MIN_BYTES, self.0);
    }

    /// A record batch was acknowledged. It grows slowly: one batch in dozens is sent in vain to a topic
    /// with a lower limit.
    pub(crate) fn succeeded(&mut self) {
        self.0 = (self.0 + self.0 / 64).min(MAX_BYTES);
    }
}

/// Bytes of a message in a record batch, or a little more.
pub(crate) fn size(message: &Message) -> usize {
    let headers = message.headers.iter().map(|(name, value)| name.len() + value.len() + 4);
    RECORD_OVERHEAD + message.key.len() + message.value.len() + headers.sum::<usize>()
}

/// Encodes messages as one record batch, without compression.
pub(crate) fn encode<'a>(messages: impl Iterator<Item = &'a Message>) -> Result<Bytes, Fault> {
    let records: Vec<Record> = (0..).zip(messages).map(|(offset, m)| record(offset, m)).collect();
    let options = RecordEncodeOptions { version: VERSION, compression: Compression::None };
    let mut bytes = BytesMut::new();
    RecordBatchEncoder::encode(&mut bytes, &records, &options)
        .map_err(|error| Fault::Pause(format!("a record batch cannot be encoded: {error}")))?;
    Ok(bytes.freeze())
}

fn record(offset: i32, message: &Message) -> Record {
    let header = |(name, value): &(&'static str, String)| {
        (StrBytes::from_static_str(name), Some(Bytes::copy_from_slice(value.as_bytes())))
    };
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        timestamp_type: TimestampType::Creation,
        offset: i64::from(offset),
        // The encoder begins another batch where sequences do not follow offsets.
        sequence: NO_SEQUENCE + offset,
        timestamp: message.time_ms,
        key: Some(message.key.clone()),
        value: Some(message.value.clone()),
        headers: message.headers.iter().map(header).collect::<IndexMap<_, _>>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::records::RecordBatchDecoder;

    fn message(length: usize) -> Message {
        Message {
            key: Bytes::from_static(b"key"),
            value: vec![b'x'; length].into(),
            headers: vec![("ce_id", "1".to_owned())],
            time_ms: 1_700_000_000_000,
        }
    }

    #[test]
    fn messages_are_one_batch_without_a_sequence() {
        let messages = [message(1), message(2), message(3)];
        let mut bytes = encode(messages.iter()).unwrap();
        // Base sequence and number of records (KIP-98).
        assert_eq!(bytes[53..57], (-1_i32).to_be_bytes());
        assert_eq!(bytes[57..61], 3_i32.to_be_bytes());
        let decoded = RecordBatchDecoder::decode(&mut bytes).unwrap();
        assert!(bytes.is_empty(), "one batch");
        assert_eq!(decoded.records.len(), 3);
        let record = &decoded.records[2];
        assert_eq!(record.value.as_deref(), Some(&b"xxx"[..]));
        assert_eq!((record.timestamp, record.headers.len()), (1_700_000_000_000, 1));
    }

    #[test]
    fn batches_are_small_enough_and_have_one_message_at_least() {
        let messages = [message(300 << 10), message(300 << 10), message(2 << 20), message(1)];
        let mut limit = BatchSize::default();
        let divided = |limit: &BatchSize| Vec::from(limit.divide(&[0, 1, 2, 3], &messages));
        assert_eq!(divided(&limit), [vec![0], vec![1], vec![2], vec![3]]);
        assert_eq!(Vec::from(limit.divide(&[0, 3], &messages)), [vec![0, 3]]);
        limit.too_large(100);
        assert_eq!(limit.0, MIN_BYTES);
        limit.too_large(1 << 20);
        assert_eq!(limit.0, MIN_BYTES, "never larger by a failure");
        for _ in 0..1_000 {
            limit.succeeded();
        }
        assert_eq!(limit.0, MAX_BYTES);
        let bytes = encode(messages[..2].iter()).unwrap().len();
        let estimate: usize = messages[..2].iter().map(size).sum();
        assert!((estimate..estimate + 100).contains(&(bytes + 50)), "{bytes} {estimate}");
    }
}
