//! Explain and test requests in the admin API.

pub mod curl;
mod recorded;

pub(crate) use recorded::RecordedExplanation;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use utoipa::ToSchema;
use weir_gateway::explanation::Pair;
use weir_gateway::request_text::RequestText;
use weir_server::injection::TestOutcome;

/// A request to be explained: its parts, or a curl command.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    /// Method; default GET.
    #[serde(default)]
    pub method: String,
    /// Path and query, or a complete URL.
    #[serde(default)]
    pub target: String,
    /// Header lines.
    #[serde(default)]
    pub headers: Vec<Pair>,
    /// The complete body, as text.
    #[serde(default)]
    pub body: String,
    /// A curl command in place of the parts. Unsupported options are rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curl: Option<String>,
    /// Address or port of the listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
    /// Client address; default: this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub client: Option<IpAddr>,
}

impl std::fmt::Debug for Explain {
    /// Neither query nor headers nor body.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Explain").field("method", &self.method).finish_non_exhaustive()
    }
}

impl Explain {
    /// The request.
    ///
    /// # Errors
    /// The curl command is not supported, or both a command and parts are given.
    pub fn request_text(self) -> Result<RequestText, curl::CurlError> {
        let request = match &self.curl {
            Some(_) if !(self.target.is_empty() && self.headers.is_empty()) => {
                return Err(curl::CurlError::Both);
            }
            Some(command) => curl::parse(command)?,
            None => RequestText {
                method: if self.method.is_empty() { "GET".to_owned() } else { self.method },
                target: self.target,
                headers: self.headers.into_iter().map(|h| (h.name, h.value)).collect(),
                body: self.body.into_bytes(),
                ..RequestText::default()
            },
        };
        Ok(RequestText { listener: self.listener, client: self.client, ..request })
    }
}

/// The response to a test request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TestResponse {
    /// Transaction id.
    id: String,
    /// Status.
    status: u16,
    /// Code of the problem, if weir itself returned an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Header lines.
    headers: Vec<Pair>,
    /// The body, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The body in Base64, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Length of the body in bytes.
    bytes: u64,
    /// Only the first MiB is included.
    cut: bool,
    /// The response was aborted.
    broken: bool,
    /// Microseconds until the end of the response.
    took_us: u64,
}

impl TestResponse {
    pub(crate) fn of(outcome: TestOutcome) -> Self {
        let cut = (outcome.body.len() as u64) < outcome.bytes;
        let mut body = outcome.body;
        if cut {
            // Not within a character.
            let torn = std::str::from_utf8(&body).err().filter(|error| error.error_len().is_none());
            body.truncate(torn.map_or(body.len(), |error| error.valid_up_to()));
        }
        let (text, base64) = match String::from_utf8(body) {
            Ok(text) if text.is_empty() => (None, None),
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
        };
        Self {
            id: outcome.id,
            status: outcome.status,
            problem: outcome.problem.map(str::to_owned),
            headers: outcome
                .headers
                .into_iter()
                .map(|(name, value)| Pair { name, value })
                .collect(),
            text,
            base64,
            bytes: outcome.bytes,
            cut,
            broken: outcome.broken,
            took_us: outcome.duration_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_text_as_far_as_it_is_and_not_cut_within_a_character() {
        let of = |body: &[u8], bytes| {
            TestResponse::of(TestOutcome { body: body.to_vec(), bytes, ..TestOutcome::default() })
        };
        let whole = of("é".as_bytes(), 2);
        assert_eq!((whole.text.as_deref(), whole.cut), (Some("é"), false));
        let cut = of(b"a\xc3", 3);
        assert_eq!((cut.text.as_deref(), cut.cut), (Some("a"), true));
        let binary = of(b"\xff", 1);
        assert_eq!((binary.text, binary.base64.as_deref()), (None, Some("/w==")));
        assert_eq!(of(b"", 0), TestResponse::default());
    }
}
