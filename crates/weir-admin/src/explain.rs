//! What may be asked about a request that is not sent.

pub mod curl;

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use utoipa::ToSchema;
use weir_gateway::explain::{Ask, AskError, Explanation, Pair};

/// A request to be explained: by its parts, or as a curl command.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    /// Method; GET without one.
    #[serde(default)]
    pub method: String,
    /// Path and query, or a whole URL.
    #[serde(default)]
    pub target: String,
    /// Header lines.
    #[serde(default)]
    pub headers: Vec<Pair>,
    /// The whole body, a text.
    #[serde(default)]
    pub body: String,
    /// A curl command instead of all of that. Its options that are not understood are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curl: Option<String>,
    /// Address or port of the listener it comes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
    /// Address it comes from; this machine without.
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
    /// The request itself.
    ///
    /// # Errors
    /// The curl command is not understood, or there is both one and a request.
    pub fn ask(self) -> Result<Ask, curl::CurlError> {
        let ask = match &self.curl {
            Some(_) if !(self.target.is_empty() && self.headers.is_empty()) => {
                return Err(curl::CurlError::Both);
            }
            Some(command) => curl::parse(command)?,
            None => Ask {
                method: if self.method.is_empty() { "GET".to_owned() } else { self.method },
                target: self.target,
                headers: self.headers.into_iter().map(|h| (h.name, h.value)).collect(),
                body: self.body.into_bytes(),
                ..Ask::default()
            },
        };
        Ok(Ask { listener: self.listener, client: self.client, ..ask })
    }
}

/// Who explains. Handed in by the binary; it may block.
pub type Explainer = Box<dyn Fn(Ask) -> Result<Explanation, AskError> + Send + Sync>;
