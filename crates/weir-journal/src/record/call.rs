//! The metered fields of a transaction.

use super::Transaction;
use super::field::fields;
use crate::format::{Address, Position, u64_at};
use weir_model::{Outcome, stage};

/// The metered fields of a transaction, as in [`Transaction`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are described where they are written")]
pub struct CallRecord<'a> {
    pub address: Option<Address>,
    pub received_us: u64,
    pub api: &'a str,
    pub operation: &'a str,
    pub consumer: &'a str,
    pub plan: &'a str,
    pub counted: u8,
    /// A resubmission.
    pub resubmitted: bool,
    pub retries: u8,
    pub outcome: Outcome,
    pub status: u16,
    pub problem_status: u16,
    /// Lengths of the bodies, as in [`super::BodyMetadata`].
    pub request_bytes: u64,
    pub response_bytes: u64,
    /// Duration in microseconds.
    pub micros: u32,
    /// As in [`Transaction`].
    pub possible_end: Option<Position>,
}

impl<'a> CallRecord<'a> {
    /// Reads a record that is a complete transaction; none if a field is not as this version writes
    /// it.
    pub(crate) fn read(payload: &'a [u8]) -> Option<Self> {
        let mut call = Self::default();
        let mut known = true;
        // The slices that the closure gets have a shorter lifetime.
        let complete = fields(payload, |tag, value, _| known &= call.field(tag, value).is_some());
        (complete && known).then_some(call)
    }

    fn field(&mut self, tag: u8, value: &'a [u8]) -> Option<()> {
        match tag {
            2 => self.received_us = u64::from_le_bytes(value.try_into().ok()?),
            3 => self.api = std::str::from_utf8(value).ok()?,
            4 => self.operation = std::str::from_utf8(value).ok()?,
            6 => self.consumer = std::str::from_utf8(value).ok()?,
            13 => self.plan = std::str::from_utf8(value).ok()?,
            14 => self.counted = *value.first()?,
            15 => self.resubmitted = true,
            32 => {
                let [outcome, a, b] = value.try_into().ok()?;
                self.outcome = Outcome::from_code(outcome.into());
                self.status = u16::from_le_bytes([a, b]);
            }
            36 => {
                let [code, a, b, c, d] = value.try_into().ok()?;
                if code == stage::TOTAL {
                    self.micros = u32::from_le_bytes([a, b, c, d]);
                }
            }
            37 => self.request_bytes = length(value)?,
            38 => self.response_bytes = length(value)?,
            49 => {
                self.possible_end =
                    Some(Position::from_bits(u64::from_le_bytes(value.try_into().ok()?)));
            }
            48 => self.retries = *value.first()?,
            53 => self.problem_status = u16::from_le_bytes(value.try_into().ok()?),
            _ => {}
        }
        Some(())
    }

    /// The metered fields of an assembled transaction.
    pub(crate) fn of(one: &'a Transaction) -> Self {
        let total = one.stages.iter().find(|(code, _)| *code == stage::TOTAL);
        Self {
            address: one.address,
            received_us: one.received_us,
            api: &one.api,
            operation: &one.operation,
            consumer: &one.consumer,
            plan: &one.plan,
            counted: one.counted,
            resubmitted: one.resubmission_of != [0; 16],
            retries: one.retries,
            outcome: one.outcome,
            status: one.status,
            problem_status: one.problem_status,
            request_bytes: one.request.length,
            response_bytes: one.response.length,
            micros: total.map_or(0, |(_, duration)| *duration),
            possible_end: one.possible_end,
        }
    }
}

/// The length in the metadata of a body.
fn length(facts: &[u8]) -> Option<u64> {
    (facts.len() >= 8).then(|| u64_at(facts, 0))
}
