//! Codes of the stages whose durations a record has. They are part of the format.
//!
//! A stage that did nothing has no duration: an open route has no [`AUTH`], a kept connection no
//! [`CONNECT`].

/// From the end of the request head to the last byte of the answer.
pub const TOTAL: u8 = 1;
/// From the choice of an upstream connection, or of an agent, to the head of its answer.
pub const FIRST_BYTE: u8 = 2;
/// From the end of the request head until it was known who calls: finding the route is part of it.
pub const AUTH: u8 = 3;
/// Admission by plans and limits.
pub const LIMIT: u8 = 4;
/// Reading and mapping the request body.
pub const REQUEST_MAP: u8 = 5;
/// Until there was a new connection to an upstream, or a place for one; part of [`FIRST_BYTE`],
/// or of [`RETRY`].
pub const CONNECT: u8 = 6;
/// Reading and mapping the upstream's answer.
pub const RESPONSE_MAP: u8 = 7;
/// From the head of an upstream's or agent's answer to the last byte of weir's.
pub const ANSWER: u8 = 8;
/// Until there was an agent of a pool for it: its wait in the pool's queue.
pub const QUEUE: u8 = 9;
/// Comparing a request with the API's description; reading its body is part of it.
pub const VALIDATE: u8 = 10;

/// From the first try at an upstream to the one whose answer the client gets, or the last.
pub const RETRY: u8 = 11;

/// Names in the order of a request, as they are shown.
const NAMES: [(u8, &str); 11] = [
    (AUTH, "auth"),
    (LIMIT, "limit"),
    (VALIDATE, "validate"),
    (REQUEST_MAP, "request-map"),
    (QUEUE, "queue"),
    (RETRY, "retry"),
    (CONNECT, "connect"),
    (FIRST_BYTE, "first-byte"),
    (RESPONSE_MAP, "response-map"),
    (ANSWER, "answer"),
    (TOTAL, "total"),
];

/// What a stage is called; none if a later version has measured it.
#[must_use]
pub fn name(code: u8) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}
