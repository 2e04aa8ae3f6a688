//! Request bodies of resubmission in the admin API.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_resubmit::{Edit, Options};

/// Edits and options of a resubmission. An empty object: unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResubmitBody {
    /// Replaces the recorded query, without question mark; empty: no query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Headers to set and to remove; no credentials and no headers that weir sets.
    pub headers: HeaderEdits,
    /// Replaces the recorded body; complete and not encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The same in base64, for a body that is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// Send to another route of the API: the operation, one of `resubmit.targets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Send even if the transaction is settled or the last attempt is `unknown`.
    pub again: bool,
}

impl ResubmitBody {
    /// The options that it describes.
    ///
    /// # Errors
    /// The text names the invalid member.
    pub(crate) fn options(self) -> Result<Options, String> {
        let body = match (self.body, self.body_base64) {
            (Some(_), Some(_)) => {
                return Err("`body` and `body_base64` exclude each other.".to_owned());
            }
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(text)) => {
                let decoded = STANDARD.decode(text);
                Some(decoded.map_err(|_| "`body_base64` is not base64.".to_owned())?)
            }
            (None, None) => None,
        };
        let HeaderEdits { set, remove } = self.headers;
        let set = set.into_iter().map(|line| (line.name, line.value)).collect();
        let edit = Edit { query: self.query, set, remove, body };
        Ok(Options { edit, destination: self.to, again: self.again })
    }
}

/// Header edits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeaderEdits {
    /// Headers to set.
    pub set: Vec<HeaderLine>,
    /// Names of headers to remove.
    pub remove: Vec<String>,
}

/// A header line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeaderLine {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// The resolution of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resolve {
    /// `resolved`, `dismissed`, or `open` again.
    pub state: String,
    /// Comment.
    #[serde(default)]
    pub comment: String,
}

/// Options of running a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunJob {
    /// New rate in requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Include transactions that are settled or whose last attempt is `unknown`.
    pub again: bool,
}
