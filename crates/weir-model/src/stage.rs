//! Codes of the stages whose durations a record has. They are part of the format of the journal.
//!
//! A stage that did nothing has no duration: an open route has no [`AUTH`], a reused connection no
//! [`CONNECT`].

/// From the end of the request head to the last byte of the response.
pub const TOTAL: u8 = 1;
/// From the choice of an upstream connection, or of an agent, to the head of its response.
pub const FIRST_BYTE: u8 = 2;
/// From the end of the request head to the end of authentication; includes routing.
pub const AUTH: u8 = 3;
/// Admission by plans and limits.
pub const LIMIT: u8 = 4;
/// Reading and mapping the request body.
pub const REQUEST_MAP: u8 = 5;
/// Until there was a new connection to an upstream, or a permit for one; part of [`FIRST_BYTE`], or
/// of [`RETRY`].
pub const CONNECT: u8 = 6;
/// Reading and mapping the upstream's response.
pub const RESPONSE_MAP: u8 = 7;
/// From the head of an upstream's or agent's response to the last byte of weir's.
pub const ANSWER: u8 = 8;
/// Wait in the queue of a pool until an agent was free.
pub const QUEUE: u8 = 9;
/// Validating a request against the OpenAPI document; includes reading its body.
pub const VALIDATE: u8 = 10;

/// From the first attempt to the one whose response the client gets, or the last.
pub const RETRY: u8 = 11;

/// Names in the order of a request, as displayed.
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

/// All stages with their names, in the order of a request.
pub fn codes() -> impl Iterator<Item = (u8, &'static str)> {
    NAMES.into_iter()
}

/// The name of a stage; none for a code of a later version.
#[must_use]
pub fn name(code: u8) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn stages_have_names_of_their_own() {
        let names: Vec<_> = (0..=u8::MAX).filter_map(super::name).collect();
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!((names.len(), different.len()), (11, 11));
    }
}
