//! Decoding fields into a transaction.

use super::field::{discarded, fields, is_payload};
use super::{BodyMetadata, Discarded, Transaction, Withheld};
use crate::format::{Kind, Position, u64_at};
use weir_model::{Attempt, Outcome};

/// Memory that a cleared transaction keeps of a head or a body.
const MAX_KEPT_BYTES: usize = 16 << 10;

fn emptied<T>(mut used: T, clear: impl FnOnce(&mut T)) -> T {
    clear(&mut used);
    used
}

fn release(bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.shrink_to(MAX_KEPT_BYTES);
}

fn set(text: &mut String, value: &[u8]) {
    text.clear();
    // Nearly all are valid, which this check finds out many times as fast.
    match std::str::from_utf8(value) {
        Ok(value) => text.push_str(value),
        Err(_) => text.push_str(&String::from_utf8_lossy(value)),
    }
}

fn replace(bytes: &mut Vec<u8>, value: &[u8]) {
    bytes.clear();
    bytes.extend_from_slice(value);
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn pair(value: &[u8]) -> Option<(String, String)> {
    let (length, rest) = value.split_first_chunk::<2>()?;
    let (name, value) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    Some((text(name), text(value)))
}

fn attempt(value: &[u8]) -> Option<Attempt> {
    let (head, rest) = value.split_first_chunk::<11>()?;
    let [a, b, c, d, e, f, g, h, i, j, error_length] = *head;
    let (error, target) = rest.split_at_checked(error_length.into())?;
    Some(Attempt {
        target: text(target),
        started_us: u32::from_le_bytes([a, b, c, d]),
        duration_us: u32::from_le_bytes([e, f, g, h]),
        status: u16::from_le_bytes([i, j]),
        error: text(error),
    })
}

fn body_metadata(value: &[u8]) -> Option<BodyMetadata> {
    let value = value.first_chunk::<33>()?;
    let mut hash = [0; 16];
    hash.copy_from_slice(&value[17..]);
    Some(BodyMetadata {
        length: u64_at(value, 0),
        stored: u64_at(value, 8),
        truncated: value[16] & 1 != 0,
        withheld: (value[16] & 2 != 0)
            .then(|| Withheld::from_repr(value[16] >> 3).unwrap_or(Withheld::Other)),
        aborted: value[16] & 4 != 0,
        masked: value[16] & 2 == 0 && value[16] >> 3 != 0,
        hash,
    })
}

impl Transaction {
    /// Clears the transaction and keeps the memory of texts and lists for reuse.
    pub(crate) fn clear(&mut self) {
        let used = std::mem::take(self);
        *self = Self {
            api: emptied(used.api, String::clear),
            operation: emptied(used.operation, String::clear),
            transaction_type: emptied(used.transaction_type, String::clear),
            consumer: emptied(used.consumer, String::clear),
            principal: emptied(used.principal, String::clear),
            client: emptied(used.client, String::clear),
            method: emptied(used.method, String::clear),
            target: emptied(used.target, String::clear),
            plan: emptied(used.plan, String::clear),
            auth: emptied(used.auth, String::clear),
            scopes: emptied(used.scopes, String::clear),
            problem: emptied(used.problem, String::clear),
            detail: emptied(used.detail, String::clear),
            upstream: emptied(used.upstream, String::clear),
            upstream_target: emptied(used.upstream_target, String::clear),
            attempts: emptied(used.attempts, Vec::clear),
            configuration: emptied(used.configuration, String::clear),
            request_head: emptied(used.request_head, release),
            response_head: emptied(used.response_head, release),
            request_body: emptied(used.request_body, release),
            response_body: emptied(used.response_body, release),
            stages: emptied(used.stages, Vec::clear),
            keys: emptied(used.keys, Vec::clear),
            properties: emptied(used.properties, Vec::clear),
            logs: emptied(used.logs, Vec::clear),
            ..Self::default()
        };
    }

    /// Adds the fields of a frame, with or without payload.
    pub(crate) fn add_frame(&mut self, kind: Kind, record: &[u8], payload: bool) {
        match kind {
            Kind::Received | Kind::Completed => self.add_fields(record, payload),
            Kind::RequestPart if payload => self.request_body.extend_from_slice(record),
            Kind::ResponsePart if payload => self.response_body.extend_from_slice(record),
            Kind::RequestPart | Kind::ResponsePart => {}
            Kind::Open => self.damaged = true,
        }
    }

    /// Adds the fields of a record, with or without payload. A malformed one marks the transaction
    /// as damaged.
    pub(crate) fn add_fields(&mut self, record: &[u8], payload: bool) {
        let mut known = true;
        let is_complete = fields(record, |tag, value, _| {
            if payload || !is_payload(tag) {
                known &= self.field(tag, value).is_some();
            }
        });
        self.damaged |= !is_complete || !known;
    }

    /// Removes discarded fields.
    fn discard(&mut self, discarded: Discarded) {
        if discarded != Discarded::Nothing {
            self.response_body.clear();
        }
        if discarded == Discarded::Payload {
            self.discarded = true;
            self.request_head.clear();
            self.request_body.clear();
        }
    }

    fn field(&mut self, tag: u8, value: &[u8]) -> Option<()> {
        match tag {
            1 => self.id = value.try_into().ok()?,
            2 => self.received_us = u64::from_le_bytes(value.try_into().ok()?),
            3 => set(&mut self.api, value),
            4 => set(&mut self.operation, value),
            5 => set(&mut self.transaction_type, value),
            6 => set(&mut self.consumer, value),
            7 => set(&mut self.principal, value),
            8 => set(&mut self.client, value),
            9 => set(&mut self.method, value),
            10 => set(&mut self.target, value),
            11 => replace(&mut self.request_head, value),
            12 => self.level = *value.first()?,
            13 => set(&mut self.plan, value),
            14 => self.counted = *value.first()?,
            15 => self.resubmission_of = value.try_into().ok()?,
            16 => set(&mut self.auth, value),
            17 => set(&mut self.scopes, value),
            18 => self.https = *value.first()? != 0,
            32 => {
                let [outcome, a, b] = value.try_into().ok()?;
                self.outcome = Outcome::from_code(outcome.into());
                self.status = u16::from_le_bytes([a, b]);
            }
            33 => set(&mut self.problem, value),
            34 => set(&mut self.upstream, value),
            35 => replace(&mut self.response_head, value),
            36 => {
                let [code, a, b, c, d] = value.try_into().ok()?;
                self.stages.push((code, u32::from_le_bytes([a, b, c, d])));
            }
            37 => self.request = body_metadata(value)?,
            38 => self.response = body_metadata(value)?,
            39 => self.request_body.extend_from_slice(value),
            40 => self.response_body.extend_from_slice(value),
            41 => self.keys.push(pair(value)?),
            42 => self.properties.push(pair(value)?),
            43 => self.logs.push(text(value)),
            47 => self.discard(discarded(value)?),
            48 => self.retries = *value.first()?,
            49 => {
                let position = u64::from_le_bytes(value.try_into().ok()?);
                self.possible_end = Some(Position::from_bits(position));
            }
            50 => set(&mut self.detail, value),
            51 => set(&mut self.upstream_target, value),
            54 => set(&mut self.configuration, value),
            52 => self.attempts.push(attempt(value)?),
            53 => self.problem_status = u16::from_le_bytes(value.try_into().ok()?),
            44 => self.shortened = true,
            45 => self.damaged = true,
            46 => {
                let (sequence, after) = value.split_first_chunk::<8>()?;
                self.sequence = u64::from_le_bytes(*sequence);
                self.after = Position::from_bits(u64::from_le_bytes(after.try_into().ok()?));
            }
            _ => {}
        }
        Some(())
    }
}
