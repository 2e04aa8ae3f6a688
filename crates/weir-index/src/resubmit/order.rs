//! From a recorded transaction to the request that is sent: as it was, or edited.

use super::reason::Reason;
use std::net::IpAddr;
use weir_config::redaction::{self, MASKED};
use weir_config::{CaptureLevel, Config};
use weir_journal::{BodyFacts, Outcome, Transaction};

/// Most bytes of an edited body.
pub const LONGEST_BODY: usize = 4 << 20;
/// Most header edits.
pub(super) const MOST_EDITS: usize = 100;
/// Longest query, in bytes.
pub(super) const LONGEST_QUERY: usize = 8192;
/// Longest value of a header, in bytes.
const LONGEST_VALUE: usize = 8192;

/// What is sent instead of what was recorded. Who sent it, host, API and path stay.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// The whole query without its question mark; an empty one is none.
    pub query: Option<String>,
    /// Headers to set.
    pub set: Vec<(String, String)>,
    /// Headers to remove.
    pub remove: Vec<String>,
    /// The whole body, in no coding.
    pub body: Option<Vec<u8>>,
}

impl std::fmt::Debug for Edit {
    /// No payload.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edit").finish_non_exhaustive()
    }
}

impl Edit {
    /// Nothing is edited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Finds what nobody may edit, and what is no request.
    ///
    /// # Errors
    /// The text says what, without its value.
    pub fn check(&self, config: &Config) -> Result<(), String> {
        if self.set.len() + self.remove.len() > MOST_EDITS {
            return Err(format!("there are more than {MOST_EDITS} edits of headers"));
        }
        if self.body.as_ref().is_some_and(|body| body.len() > LONGEST_BODY) {
            return Err(format!("the body is longer than {} MiB", LONGEST_BODY >> 20));
        }
        for name in self.set.iter().map(|(name, _)| name).chain(&self.remove) {
            check_name(name, config)?;
        }
        for (name, value) in &self.set {
            let plain = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
            if value.len() > LONGEST_VALUE || !value.bytes().all(plain) {
                return Err(format!("the value of `{name}` is no header value"));
            }
        }
        let Some(query) = &self.query else { return Ok(()) };
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        if query.len() > LONGEST_QUERY || !query.bytes().all(plain) {
            return Err("the query is not one of a URL".to_owned());
        }
        match query.split('&').map(parameter).find(|name| config.is_credential_parameter(name)) {
            Some(_) => Err("the query has a parameter that carries credentials".to_owned()),
            None => Ok(()),
        }
    }

    /// Finds a value that was masked in the record and is left so: sent, it would replace the value.
    ///
    /// # Errors
    /// The text says where it stands.
    pub(super) fn check_masked(&self, before: &Transaction) -> Result<(), String> {
        let left = |place: &str| {
            Err(format!(
                "{place} is still `{MASKED}`, as it was masked: write its value, or remove it"
            ))
        };
        if let Some(name) = self.query.as_deref().and_then(redaction::in_query) {
            return left(&format!("the query parameter `{name}`"));
        }
        if let Some((name, _)) =
            self.set.iter().find(|(_, value)| redaction::in_header(value.as_bytes()))
        {
            return left(&format!("the header `{name}`"));
        }
        match self.body.as_deref().and_then(redaction::in_body) {
            Some(path) if !was_sent(before) => left(&format!("`{path}` of the body")),
            _ => Ok(()),
        }
    }

    /// What is different, without any value: those are in the records of both, masked.
    #[must_use]
    pub fn difference(&self, before: &Transaction) -> String {
        if self.is_empty() {
            return String::new();
        }
        let set: Vec<&String> = self.set.iter().map(|(name, _)| name).collect();
        let mut difference = serde_json::Map::new();
        if self.query.is_some() {
            difference.insert("query".to_owned(), true.into());
        }
        if !set.is_empty() {
            difference.insert("headers_set".to_owned(), serde_json::json!(set));
        }
        if !self.remove.is_empty() {
            difference.insert("headers_removed".to_owned(), serde_json::json!(self.remove));
        }
        if let Some(body) = &self.body {
            let lengths = serde_json::json!({"before": before.request.length, "after": body.len()});
            difference.insert("body".to_owned(), lengths);
        }
        serde_json::Value::Object(difference).to_string()
    }

    fn touches(&self, name: &str) -> bool {
        let mut names = self.set.iter().map(|(name, _)| name).chain(&self.remove);
        names.any(|other| other.eq_ignore_ascii_case(name))
    }
}

/// Whether the client itself sent the mark in its body: all of that is recorded, unmasked.
fn was_sent(before: &Transaction) -> bool {
    let facts = &before.request;
    let whole = facts.length > 0 && facts.stored == facts.length && !facts.aborted;
    let is_whole = whole && facts.withheld.is_none() && !before.damaged && !before.expired;
    is_whole && !facts.masked && redaction::in_body(&before.request_body).is_some()
}

fn check_name(name: &str, config: &Config) -> Result<(), String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > 256 || !name.bytes().all(token) {
        return Err("a name is no header name".to_owned());
    }
    if config.is_credential_header(name) {
        return Err(format!("`{name}` carries credentials, which cannot be edited"));
    }
    if is_weirs(name) {
        return Err(format!("weir itself decides about `{name}`"));
    }
    Ok(())
}

/// Headers that say who sent it, by which way and how it is framed.
fn is_weirs(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "forwarded",
        "via",
        "x-real-ip",
    ];
    const PREFIXES: [&str; 3] = ["x-forwarded-", "weir-", "proxy-"];
    let lower = name.to_ascii_lowercase();
    NAMES.contains(&lower.as_str()) || PREFIXES.iter().any(|prefix| lower.starts_with(prefix))
}

/// A request to be sent. Empty text means absent.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// The transaction id it gets.
    pub id: u128,
    /// The transaction that is sent again.
    pub of: u128,
    /// Name of its API.
    pub api: String,
    /// Operation of another route that it goes to.
    pub to: Option<String>,
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Header lines, without credentials.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body.
    pub body: Vec<u8>,
    /// It is not as it was.
    pub edited: bool,
    /// Address of the client.
    pub client: Option<IpAddr>,
    /// The client used https.
    pub https: bool,
    /// Name of the auth that proved who sent it.
    pub auth: String,
    /// Subject of the credential.
    pub principal: String,
    /// Name of the consumer.
    pub consumer: String,
    /// Scopes that were granted, with spaces between.
    pub scopes: String,
}

impl std::fmt::Debug for Order {
    /// No payload.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order").field("id", &self.id).field("of", &self.of).finish_non_exhaustive()
    }
}

/// Makes the request that is sent for a transaction, under this id.
///
/// # Errors
/// Why it cannot be made. Whether the gateway takes it is another question.
pub(super) fn order(
    transaction: &Transaction,
    edit: &Edit,
    to: Option<&str>,
    config: &Config,
    id: u128,
) -> Result<Order, Reason> {
    if transaction.resubmission_of != [0; 16] {
        return Err(Reason::Attempt);
    }
    if let Some(reason) = head_reason(transaction).or_else(|| body_reason(transaction, config))
        && edit.body.is_none()
    {
        return Err(reason);
    }
    let another = to.is_some() || edit.query.is_some() || edit.body.is_some();
    let headers = headers(&transaction.request_head, edit, another, config)?;
    let target = target(&transaction.target, edit, config)?;
    Ok(Order {
        id,
        of: u128::from_be_bytes(transaction.id),
        api: transaction.api.clone(),
        to: to.map(str::to_owned),
        method: transaction.method.clone(),
        target,
        headers,
        body: edit.body.clone().unwrap_or_else(|| transaction.request_body.clone()),
        edited: !edit.is_empty(),
        client: transaction.client.parse().ok(),
        https: transaction.https,
        auth: transaction.auth.clone(),
        principal: transaction.principal.clone(),
        consumer: transaction.consumer.clone(),
        scopes: transaction.scopes.clone(),
    })
}

/// Whether there is nothing about it to be put right: nobody sends such a one by an oversight.
pub(super) fn has_succeeded(transaction: &Transaction) -> bool {
    transaction.outcome == Outcome::Completed && transaction.status < 400
}

/// What is wrong with the record of the head.
fn head_reason(transaction: &Transaction) -> Option<Reason> {
    if transaction.damaged || transaction.missing {
        Some(Reason::Damaged)
    } else if transaction.expired {
        Some(Reason::Expired)
    } else if transaction.discarded || transaction.level < CaptureLevel::Headers as u8 {
        Some(Reason::Unrecorded)
    } else {
        None
    }
}

/// What is wrong with the record of the body.
fn body_reason(transaction: &Transaction, config: &Config) -> Option<Reason> {
    let (facts, body) = (&transaction.request, &transaction.request_body);
    if transaction.outcome == Outcome::Interrupted && *facts == BodyFacts::default() {
        // Nothing was written about its end: the head has to say what there was.
        if declared(transaction) != Some(body.len() as u64) {
            return Some(Reason::Aborted);
        }
        let masks = !config.tracker.masked_bodies.is_empty() && !body.is_empty();
        return masks.then_some(Reason::Masked);
    }
    if facts.masked {
        Some(Reason::Masked)
    } else if facts.withheld.is_some() {
        Some(Reason::Withheld)
    } else if facts.aborted {
        Some(Reason::Aborted)
    } else if facts.length > 0 && transaction.level < CaptureLevel::Body as u8 {
        Some(Reason::Unrecorded)
    } else if facts.truncated || facts.stored != facts.length {
        Some(Reason::Truncated)
    } else if body.len() as u64 != facts.stored {
        Some(Reason::Damaged)
    } else {
        None
    }
}

/// The length of the body that the head declares; none if it does not. Over HTTP/2 it need not, so
/// nothing is taken for none only where a method has none as a rule.
fn declared(transaction: &Transaction) -> Option<u64> {
    const BODILESS: [&str; 5] = ["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"];
    let value = |name: &str| {
        let mut lines = lines(&transaction.request_head);
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v)
    };
    if value("transfer-encoding").is_some() {
        return None;
    }
    match value("content-length") {
        Some(length) => std::str::from_utf8(length).ok()?.trim().parse().ok(),
        None => BODILESS.contains(&transaction.method.as_str()).then_some(0),
    }
}

/// Header lines, all of them, as they stood on the wire.
fn lines(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
    })
}

/// The header lines that are sent; `another` says that it is another request than it was.
fn headers(
    head: &[u8],
    edit: &Edit,
    another: bool,
    config: &Config,
) -> Result<Vec<(String, Vec<u8>)>, Reason> {
    let mut headers = Vec::new();
    for (name, value) in lines(head) {
        let name = String::from_utf8_lossy(name).into_owned();
        // What is edited is in no coding, and has another length.
        let coding = edit.body.is_some() && name.eq_ignore_ascii_case("content-encoding");
        // One key stands for one request: another would be refused, or taken for that one.
        let key = another && name.eq_ignore_ascii_case("idempotency-key");
        if config.is_credential_header(&name) || edit.touches(&name) || coding || key {
            continue;
        }
        if redaction::in_header(value) {
            // Where somebody came from is not what a server acts on.
            if name.eq_ignore_ascii_case("referer") {
                continue;
            }
            return Err(Reason::Masked);
        }
        headers.push((name, value.to_vec()));
    }
    let set = edit.set.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes()));
    headers.extend(set);
    Ok(headers)
}

/// Path and query that are sent: without parameters that carry credentials.
fn target(target: &str, edit: &Edit, config: &Config) -> Result<String, Reason> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if let Some(query) = &edit.query {
        return Ok(if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") });
    }
    let carries = |part: &&str| config.is_credential_parameter(&parameter(part));
    let kept: Vec<&str> = query.split('&').filter(|part| !carries(part)).collect();
    if kept.iter().any(|part| is_masked(part)) {
        return Err(Reason::Masked);
    }
    if kept.len() == query.split('&').count() {
        return Ok(target.to_owned());
    }
    let query = kept.join("&");
    Ok(if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") })
}

/// Whether the value of a recorded parameter was masked, or a part of it that is a URL's.
fn is_masked(part: &str) -> bool {
    part.split_once('=').is_some_and(|(_, value)| redaction::in_header(value.as_bytes()))
}

/// Where a value was masked that would be sent as it is recorded; none if that is not known, or was
/// edited.
pub(super) fn masked_place(before: &Transaction, edit: &Edit, config: &Config) -> Option<String> {
    if edit.body.is_none()
        && before.request.masked
        && let Some(path) = redaction::in_body(&before.request_body)
    {
        return Some(format!("`{path}` of the body"));
    }
    for (name, value) in lines(&before.request_head) {
        let name = String::from_utf8_lossy(name);
        let goes = !config.is_credential_header(&name) && !edit.touches(&name);
        if goes && !name.eq_ignore_ascii_case("referer") && redaction::in_header(value) {
            return Some(format!("the header `{name}`"));
        }
    }
    let (_, query) = before.target.split_once('?').filter(|_| edit.query.is_none())?;
    let goes = |part: &&str| !config.is_credential_parameter(&parameter(part));
    let part = query.split('&').filter(goes).find(|part| is_masked(part))?;
    Some(format!("the query parameter `{}`", parameter(part)))
}

/// The name of a query parameter, decoded.
fn parameter(part: &str) -> String {
    let name = part.split('=').next().unwrap_or_default().replace('+', " ");
    String::from_utf8_lossy(&crate::content::percent_decode(name.as_bytes())).into_owned()
}

#[cfg(test)]
mod tests;
