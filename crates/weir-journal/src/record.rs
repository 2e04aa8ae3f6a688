//! What a transaction is made of, and how it is written.
//!
//! The payload of `received` and `completed` is a row of fields, each a `u32` with the tag in the
//! lowest 8 bits and the length in the upper 24, then the value. Readers skip tags they do not
//! know. Tags 1–18 come from [`Received`], 32–44 and 47–50 from [`Completed`], 45 (damaged) and 46
//! (ticket number and position behind it, `u64` each) from sealing; pairs and rows repeat a tag. Tag
//! 47 stands before all that it does not speak of.

mod encode;

use crate::counted;
use crate::format::{Kind, Position};
use encode::{FIELD_LIMIT, put};

/// Which half of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From the client.
    Request,
    /// To the client.
    Response,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Answered whole.
    #[default]
    Completed,
    /// Failed by rule.
    Failed,
    /// It did not come to its end: the client left, or weir ended before it did.
    Interrupted,
}

impl Outcome {
    pub(crate) fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Completed,
            1 => Self::Failed,
            _ => Self::Interrupted,
        }
    }
}

/// What was written of a transaction before its end, and does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Void {
    /// All of it counts.
    #[default]
    Nothing,
    /// Parts of the answer's body: another answer was given.
    Answer,
    /// Heads and bodies: they were kept only in case something went wrong. Sealing drops them.
    Payload,
}

/// Why a body was not stored, although bodies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// It could not be masked, in a way that has no code here.
    Other,
    /// It is longer than what is stored of a body.
    Long,
    /// It is of a type that cannot be masked, or not what its type says.
    Unreadable,
    /// Its coding cannot be decoded.
    Coding,
    /// The memory for bodies that wait to be masked was used up.
    Budget,
    /// It broke off, or was not read to its end, so that it could not be masked.
    Aborted,
}

impl Withheld {
    /// All of them, by their codes.
    const ALL: [Self; 6] =
        [Self::Other, Self::Long, Self::Unreadable, Self::Coding, Self::Budget, Self::Aborted];

    fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Other)
    }

    /// As it is shown: what the body is, or what was used up.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Other => "not maskable",
            Self::Long => "too long to be masked",
            Self::Unreadable => "not of a form that can be masked",
            Self::Coding => "in a coding that cannot be decoded",
            Self::Budget => "no memory left for bodies to be masked",
            Self::Aborted => "not read to its end",
        }
    }
}

/// What is known of a body beyond the bytes that are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyFacts {
    /// Its true length in bytes, as far as it came; if nobody read it to its end, as declared.
    pub length: u64,
    /// Bytes that were stored.
    pub stored: u64,
    /// Not all of it was stored, or it was not read to its end.
    pub truncated: bool,
    /// Not stored because it could not be masked.
    pub withheld: Option<Withheld>,
    /// Broken off before its end.
    pub aborted: bool,
    /// Something in it was replaced before it was stored.
    pub masked: bool,
    /// Keyed hash of what was not stored, the bytes behind the first `stored` ones; zeros if none
    /// was made.
    pub hash: [u8; 16],
}

/// What is known when a request is taken on. Empty text means absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received<'a> {
    /// UUIDv7.
    pub id: [u8; 16],
    /// Microseconds since 1970.
    pub received_us: u64,
    /// Name of the API.
    pub api: &'a str,
    /// Name of the operation or route.
    pub operation: &'a str,
    /// Transaction type.
    pub transaction_type: &'a str,
    /// Name of the consumer.
    pub consumer: &'a str,
    /// Subject of the verified principal.
    pub principal: &'a str,
    /// Address of the client.
    pub client: &'a str,
    /// Method.
    pub method: &'a str,
    /// Request target, masked.
    pub target: &'a str,
    /// Request header lines, masked.
    pub head: &'a [u8],
    /// Capture level, a code of the caller's.
    pub level: u8,
    /// Name of the consumer's plan.
    pub plan: &'a str,
    /// Why it is counted: bits told in [`crate::counted`].
    pub counted: u8,
    /// The transaction that this is an attempt to send again; zeros if it is none.
    pub resubmission_of: [u8; 16],
    /// Name of the auth that proved the principal.
    pub auth: &'a str,
    /// Scopes that the credential granted, with spaces between.
    pub scopes: &'a str,
    /// The client used https, to weir or to a trusted proxy.
    pub https: bool,
}

/// What is known when an answer is about to leave. Empty text means absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Completed<'a> {
    /// How it ended.
    pub outcome: Outcome,
    /// Status, 0 if no answer.
    pub status: u16,
    /// Problem code.
    pub problem: &'a str,
    /// What of this occurrence the problem was about: which auth, which limit, which rule.
    pub detail: &'a str,
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Response header lines, masked.
    pub head: &'a [u8],
    /// Stage code and its duration in microseconds.
    pub stages: &'a [(u8, u32)],
    /// Facts of the request body.
    pub request: BodyFacts,
    /// Facts of the response body.
    pub response: BodyFacts,
    /// Request body, or its rest after the parts.
    pub request_body: &'a [u8],
    /// Response body, or its rest after the parts.
    pub response_body: &'a [u8],
    /// Business keys.
    pub keys: &'a [(&'a str, &'a str)],
    /// Properties.
    pub properties: &'a [(&'a str, &'a str)],
    /// Log lines.
    pub logs: &'a [&'a str],
    /// What was written before and does not count.
    pub void: Void,
    /// How often it was sent to an upstream again.
    pub retries: u8,
    /// There was no room for all that would have been recorded.
    pub shortened: bool,
    /// It was closed by recovery, and another end of it may have been here and was lost: whoever has
    /// read that far may have seen it end.
    pub unsure: Option<Position>,
}

/// A transaction as it is read back; fields as in [`Received`] and [`Completed`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are described where they are written")]
pub struct Transaction {
    pub address: Option<crate::Address>,
    /// Where a reader goes on behind it: the checkpoint once it was taken care of.
    pub after: Position,
    /// Number in its lane, in the order in which transactions were taken on.
    pub ticket: u64,
    pub id: [u8; 16],
    pub received_us: u64,
    pub api: String,
    pub operation: String,
    pub transaction_type: String,
    pub consumer: String,
    pub principal: String,
    pub client: String,
    pub method: String,
    pub target: String,
    pub request_head: Vec<u8>,
    pub level: u8,
    pub plan: String,
    pub counted: u8,
    pub resubmission_of: [u8; 16],
    pub auth: String,
    pub scopes: String,
    pub https: bool,
    pub outcome: Outcome,
    pub status: u16,
    pub problem: String,
    pub detail: String,
    pub upstream: String,
    pub response_head: Vec<u8>,
    pub stages: Vec<(u8, u32)>,
    pub request: BodyFacts,
    pub response: BodyFacts,
    pub request_body: Vec<u8>,
    pub response_body: Vec<u8>,
    pub keys: Vec<(String, String)>,
    pub properties: Vec<(String, String)>,
    pub logs: Vec<String>,
    pub retries: u8,
    /// Not all of it was written: the journal had no room.
    pub shortened: bool,
    /// As of [`Completed`].
    pub unsure: Option<Position>,
    /// Records of it were lost.
    pub damaged: bool,
    /// Heads, bodies, properties and logs are gone, and nobody dropped them.
    pub missing: bool,
    /// Head, bodies, properties and logs were dropped because of their age.
    pub expired: bool,
    /// Heads and bodies were kept only in case something went wrong, and nothing did.
    pub discarded: bool,
}

/// Bytes of a head or a body whose memory a cleared transaction keeps.
const KEPT: usize = 16 << 10;

fn set(text: &mut String, value: &[u8]) {
    text.clear();
    text.push_str(&String::from_utf8_lossy(value));
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

fn facts(value: &[u8]) -> Option<BodyFacts> {
    let value = value.first_chunk::<33>()?;
    let mut hash = [0; 16];
    hash.copy_from_slice(&value[17..]);
    Some(BodyFacts {
        length: crate::format::u64_at(value, 0),
        stored: crate::format::u64_at(value, 8),
        truncated: value[16] & 1 != 0,
        withheld: (value[16] & 2 != 0).then(|| Withheld::from_code(value[16] >> 3)),
        aborted: value[16] & 4 != 0,
        masked: value[16] & 2 == 0 && value[16] >> 3 != 0,
        hash,
    })
}

/// What the value of tag 47 says.
pub(crate) fn void(value: &[u8]) -> Option<Void> {
    match value.first()? {
        0 => Some(Void::Nothing),
        1 => Some(Void::Answer),
        _ => Some(Void::Payload),
    }
}

impl Void {
    /// Whether a field written before, of this tag, does not count.
    pub(crate) fn covers(self, tag: u8) -> bool {
        match self {
            Self::Nothing => false,
            Self::Answer => tag == 40,
            Self::Payload => matches!(tag, 11 | 39 | 40),
        }
    }
}

impl Transaction {
    /// Whether it is recorded to be counted and for nothing else.
    #[must_use]
    pub fn is_count(&self) -> bool {
        self.counted & counted::ALONE != 0
    }

    /// Empties it and keeps the memory of what it has, to be used again.
    pub(crate) fn clear(&mut self) {
        // All by name, so that none is forgotten.
        let Self {
            address,
            after,
            ticket,
            id,
            received_us,
            api,
            operation,
            transaction_type,
            consumer,
            principal,
            client,
            method,
            target,
            request_head,
            level,
            plan,
            counted,
            resubmission_of,
            auth,
            scopes,
            https,
            outcome,
            status,
            problem,
            detail,
            upstream,
            response_head,
            stages,
            request,
            response,
            request_body,
            response_body,
            keys,
            properties,
            logs,
            retries,
            shortened,
            unsure,
            damaged,
            missing,
            expired,
            discarded,
        } = self;
        (*address, *after, *ticket) = (None, Position::START, 0);
        (*id, *resubmission_of, *received_us) = ([0; 16], [0; 16], 0);
        (*level, *counted, *status, *retries) = (0, 0, 0, 0);
        (*outcome, *request, *response) = <_>::default();
        (*shortened, *damaged, *expired, *discarded) = (false, false, false, false);
        (*https, *missing, *unsure) = (false, false, None);
        for text in [
            api,
            operation,
            transaction_type,
            consumer,
            principal,
            client,
            method,
            target,
            plan,
            auth,
            scopes,
            problem,
            detail,
            upstream,
        ] {
            text.clear();
        }
        for bytes in [request_head, response_head, request_body, response_body] {
            bytes.clear();
            bytes.shrink_to(KEPT);
        }
        stages.clear();
        keys.clear();
        properties.clear();
        logs.clear();
    }

    /// Takes over what a record says, all of it or without its payload.
    pub(crate) fn take_over(&mut self, kind: Kind, record: &[u8], payload: bool) {
        match kind {
            Kind::Received | Kind::Completed => self.absorb(record, payload),
            Kind::RequestPart if payload => self.request_body.extend_from_slice(record),
            Kind::ResponsePart if payload => self.response_body.extend_from_slice(record),
            Kind::RequestPart | Kind::ResponsePart => {}
            Kind::Open => self.damaged = true,
        }
    }

    /// Takes over the fields of a record, all of them or without its payload; a malformed one marks
    /// the transaction as damaged.
    pub(crate) fn absorb(&mut self, record: &[u8], payload: bool) {
        let mut known = true;
        let whole = fields(record, |tag, value, _| {
            if payload || !is_payload(tag) {
                known &= self.field(tag, value).is_some();
            }
        });
        self.damaged |= !whole || !known;
    }

    /// Drops what was written before and does not count.
    fn forget(&mut self, void: Void) {
        if void != Void::Nothing {
            self.response_body.clear();
        }
        if void == Void::Payload {
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
                self.outcome = Outcome::from_code(outcome);
                self.status = u16::from_le_bytes([a, b]);
            }
            33 => set(&mut self.problem, value),
            34 => set(&mut self.upstream, value),
            35 => replace(&mut self.response_head, value),
            36 => {
                let [code, a, b, c, d] = value.try_into().ok()?;
                self.stages.push((code, u32::from_le_bytes([a, b, c, d])));
            }
            37 => self.request = facts(value)?,
            38 => self.response = facts(value)?,
            39 => self.request_body.extend_from_slice(value),
            40 => self.response_body.extend_from_slice(value),
            41 => self.keys.push(pair(value)?),
            42 => self.properties.push(pair(value)?),
            43 => self.logs.push(text(value)),
            47 => self.forget(void(value)?),
            48 => self.retries = *value.first()?,
            49 => {
                let position = u64::from_le_bytes(value.try_into().ok()?);
                self.unsure = Some(Position::from_bits(position));
            }
            50 => set(&mut self.detail, value),
            44 => self.shortened = true,
            45 => self.damaged = true,
            46 => {
                let (ticket, after) = value.split_first_chunk::<8>()?;
                self.ticket = u64::from_le_bytes(*ticket);
                self.after = Position::from_bits(u64::from_le_bytes(after.try_into().ok()?));
            }
            _ => {}
        }
        Some(())
    }
}

/// Appends a field that sealing adds or puts together.
pub(crate) fn put_long(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    for piece in value.chunks(FIELD_LIMIT) {
        put(out, tag, piece);
    }
}

/// The fields of a payload, each with its tag and with its head; false at the end if the rest is
/// malformed.
pub(crate) fn fields(mut payload: &[u8], mut each: impl FnMut(u8, &[u8], &[u8])) -> bool {
    while let Some((head, rest)) = payload.split_first_chunk::<4>() {
        let head = u32::from_le_bytes(*head);
        let length = (head >> 8) as usize;
        let Some(value) = rest.get(..length) else { return false };
        each(head as u8, value, &payload[..4 + length]);
        payload = &rest[length..];
    }
    payload.is_empty()
}

/// Bytes that nearly all metadata of a record has room in.
const METADATA: usize = 256;

/// What a reader of metadata needs of a record. A malformed one is left as it is, to be found out.
pub(crate) fn metadata(kind: Kind, payload: &[u8]) -> Vec<u8> {
    match kind {
        Kind::RequestPart | Kind::ResponsePart => Vec::new(),
        Kind::Received | Kind::Completed | Kind::Open => {
            let mut kept = Vec::with_capacity(payload.len().min(METADATA));
            let whole = fields(payload, |tag, _, field| {
                if !is_payload(tag) {
                    kept.extend_from_slice(field);
                }
            });
            if whole { kept } else { payload.to_vec() }
        }
    }
}

/// Whether a field may be secret or long: those are sealed apart.
pub(crate) fn is_payload(tag: u8) -> bool {
    matches!(tag, 11 | 35 | 39 | 40 | 42 | 43)
}
