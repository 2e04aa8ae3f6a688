//! The request that is sent for a recorded transaction: as it was, or edited.

use percent_encoding::percent_decode_str;
use serde_json::json;
use weir_config::{CaptureLevel, Config};
use weir_expr::redaction::{self, MASKED};
use weir_journal::{BodyMetadata, Outcome, Transaction};
use weir_model::{RejectionReason, ReplayRequest};
use weir_tracker::header_lines;

/// Longest edited body, in bytes.
pub const MAX_BODY_BYTES: usize = 4 << 20;
/// Most header edits.
const MAX_EDITS: usize = 100;
/// Longest query, in bytes.
const MAX_QUERY_BYTES: usize = 8192;
/// Longest value of a header, in bytes.
const MAX_VALUE_BYTES: usize = 8192;

/// Edits of a recorded request. Principal, host, API and path stay.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// The complete query without its question mark; if empty, no query is sent.
    pub query: Option<String>,
    /// Headers to set.
    pub set: Vec<(String, String)>,
    /// Headers to remove.
    pub remove: Vec<String>,
    /// The complete body, without content coding.
    pub body: Option<Vec<u8>>,
}

impl std::fmt::Debug for Edit {
    /// Without payload.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edit").finish_non_exhaustive()
    }
}

impl Edit {
    /// Whether nothing is edited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that the edit is valid, and that it changes nothing that cannot be edited.
    ///
    /// # Errors
    /// The text names the invalid part, without its value.
    pub fn check(&self, config: &Config) -> Result<(), String> {
        if self.set.len() + self.remove.len() > MAX_EDITS {
            return Err(format!("there are more than {MAX_EDITS} edits of headers"));
        }
        if self.body.as_ref().is_some_and(|body| body.len() > MAX_BODY_BYTES) {
            return Err(format!("the body is longer than {} MiB", MAX_BODY_BYTES >> 20));
        }
        for name in self.set.iter().map(|(name, _)| name).chain(&self.remove) {
            check_name(name, config)?;
        }
        for (name, value) in &self.set {
            let plain = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
            if value.len() > MAX_VALUE_BYTES || !value.bytes().all(plain) {
                return Err(format!("the value of `{name}` is no header value"));
            }
        }
        let Some(query) = &self.query else { return Ok(()) };
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        if query.len() > MAX_QUERY_BYTES || !query.bytes().all(plain) {
            return Err("the query is not one of a URL".to_owned());
        }
        match query.split('&').map(parameter).find(|name| config.is_credential_parameter(name)) {
            Some(_) => Err("the query has a parameter that carries credentials".to_owned()),
            None => Ok(()),
        }
    }

    /// Checks that no masked value of the record is left in the edit: the mask would be sent instead
    /// of the value.
    ///
    /// # Errors
    /// The text names the location.
    pub(crate) fn check_masked(&self, before: &Transaction) -> Result<(), String> {
        let left = |location: &str| {
            Err(format!(
                "{location} is still `{MASKED}`, as it was masked: write its value, or remove it"
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

    /// The edited parts as JSON, without values: those are in the records of both, masked.
    #[must_use]
    pub fn difference(&self, before: &Transaction) -> String {
        if self.is_empty() {
            return String::new();
        }
        let set: Vec<&String> = self.set.iter().map(|(name, _)| name).collect();
        let mut difference = json!({
            "query": self.query.is_some(),
            "headers_set": set,
            "headers_removed": self.remove,
            "body": self.body.as_ref().map(|body| {
                json!({"before": before.request.length, "after": body.len()})
            }),
        });
        if let Some(parts) = difference.as_object_mut() {
            parts.retain(|_, part| ![json!(false), json!([]), json!(null)].contains(part));
        }
        difference.to_string()
    }

    fn touches(&self, name: &str) -> bool {
        let mut names = self.set.iter().map(|(name, _)| name).chain(&self.remove);
        names.any(|other| other.eq_ignore_ascii_case(name))
    }
}

/// Whether the client itself sent the mask: the complete body is recorded, unmasked.
fn was_sent(before: &Transaction) -> bool {
    let body = &before.request;
    let is_stored = body.length > 0 && body.stored == body.length && !body.aborted;
    let is_complete = is_stored && body.withheld.is_none() && !before.damaged && !before.expired;
    is_complete && !body.masked && redaction::in_body(&before.request_body).is_some()
}

fn check_name(name: &str, config: &Config) -> Result<(), String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > 256 || !name.bytes().all(token) {
        return Err("a name is no header name".to_owned());
    }
    if config.is_credential_header(name) {
        return Err(format!("`{name}` carries credentials, which cannot be edited"));
    }
    if is_reserved(name) {
        return Err(format!("weir itself decides about `{name}`"));
    }
    Ok(())
}

/// Headers of sender, route and framing, which weir sets itself.
fn is_reserved(name: &str) -> bool {
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

/// Builds the request for a transaction, with this transaction id.
///
/// # Errors
/// Why it cannot be built. Whether the gateway accepts it is checked separately.
pub(crate) fn build(
    transaction: &Transaction,
    edit: &Edit,
    destination: Option<&str>,
    config: &Config,
    id: u128,
) -> Result<ReplayRequest, RejectionReason> {
    if transaction.resubmission_of != [0; 16] {
        return Err(RejectionReason::Attempt);
    }
    if let Some(reason) = head_reason(transaction).or_else(|| body_reason(transaction, config))
        && edit.body.is_none()
    {
        return Err(reason);
    }
    let differs = destination.is_some() || edit.query.is_some() || edit.body.is_some();
    let headers = headers(&transaction.request_head, edit, differs, config)?;
    let target = target(&transaction.target, edit, config)?;
    Ok(ReplayRequest {
        id,
        original: u128::from_be_bytes(transaction.id),
        api: transaction.api.clone(),
        destination: destination.map(str::to_owned),
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

/// Whether a transaction succeeded: it is sent again only with `again`, not by an oversight.
pub(crate) fn has_succeeded(transaction: &Transaction) -> bool {
    transaction.outcome == Outcome::Completed && transaction.status < 400
}

/// Why the recorded head cannot be sent.
fn head_reason(transaction: &Transaction) -> Option<RejectionReason> {
    if transaction.damaged || transaction.missing {
        Some(RejectionReason::Damaged)
    } else if transaction.expired {
        Some(RejectionReason::Expired)
    } else if transaction.discarded || transaction.level < CaptureLevel::Headers as u8 {
        Some(RejectionReason::Unrecorded)
    } else {
        None
    }
}

/// Why the recorded body cannot be sent.
fn body_reason(transaction: &Transaction, config: &Config) -> Option<RejectionReason> {
    let (facts, body) = (&transaction.request, &transaction.request_body);
    if transaction.outcome == Outcome::Interrupted && *facts == BodyMetadata::default() {
        // The end of the body is not recorded: the head has to declare its length.
        if declared(transaction) != Some(body.len() as u64) {
            return Some(RejectionReason::Aborted);
        }
        let masks = !config.tracker.masked_bodies.is_empty() && !body.is_empty();
        return masks.then_some(RejectionReason::Masked(None));
    }
    if facts.masked {
        let path = redaction::in_body(body);
        Some(RejectionReason::Masked(path.map(|path| format!("`{path}` of the body"))))
    } else if facts.withheld.is_some() {
        Some(RejectionReason::Withheld)
    } else if facts.aborted {
        Some(RejectionReason::Aborted)
    } else if facts.length > 0 && transaction.level < CaptureLevel::Body as u8 {
        Some(RejectionReason::Unrecorded)
    } else if facts.truncated || facts.stored != facts.length {
        Some(RejectionReason::Truncated)
    } else if body.len() as u64 != facts.stored {
        Some(RejectionReason::Damaged)
    } else {
        None
    }
}

/// The body length that the head declares, if it does. An HTTP/2 request need not declare it, so a
/// missing length means an empty body only for methods that usually have none.
fn declared(transaction: &Transaction) -> Option<u64> {
    const BODILESS: [&str; 5] = ["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"];
    let value = |name: &str| {
        let mut lines = header_lines(&transaction.request_head);
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

/// The header lines to send; `differs` if the request is not the same as the original.
fn headers(
    head: &[u8],
    edit: &Edit,
    differs: bool,
    config: &Config,
) -> Result<Vec<(String, Vec<u8>)>, RejectionReason> {
    let mut headers = Vec::new();
    for (name, value) in header_lines(head) {
        let name = String::from_utf8_lossy(name).into_owned();
        // An edited body has no coding.
        let coding = edit.body.is_some() && name.eq_ignore_ascii_case("content-encoding");
        // A key identifies one request: a different one would be rejected, or taken for the first.
        let key = differs && name.eq_ignore_ascii_case("idempotency-key");
        if config.is_credential_header(&name) || edit.touches(&name) || coding || key {
            continue;
        }
        if redaction::in_header(value) {
            // A server does not act on the referring page.
            if name.eq_ignore_ascii_case("referer") {
                continue;
            }
            return Err(RejectionReason::Masked(Some(format!("the header `{name}`"))));
        }
        headers.push((name, value.to_vec()));
    }
    let set = edit.set.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes()));
    headers.extend(set);
    Ok(headers)
}

/// The path and query to send, without parameters that carry credentials.
fn target(target: &str, edit: &Edit, config: &Config) -> Result<String, RejectionReason> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if let Some(query) = &edit.query {
        return Ok(if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") });
    }
    let carries = |part: &&str| config.is_credential_parameter(&parameter(part));
    let kept: Vec<&str> = query.split('&').filter(|part| !carries(part)).collect();
    if let Some(part) = kept.iter().find(|part| is_masked(part)) {
        let location = format!("the query parameter `{}`", parameter(part));
        return Err(RejectionReason::Masked(Some(location)));
    }
    if kept.len() == query.split('&').count() {
        return Ok(target.to_owned());
    }
    let query = kept.join("&");
    Ok(if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") })
}

/// Whether the value of a recorded parameter, or a part of a URL in it, was masked.
fn is_masked(part: &str) -> bool {
    part.split_once('=').is_some_and(|(_, value)| redaction::in_header(value.as_bytes()))
}

/// The name of a query parameter, decoded.
fn parameter(part: &str) -> String {
    let name = part.split('=').next().unwrap_or_default().replace('+', " ");
    percent_decode_str(&name).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests;
