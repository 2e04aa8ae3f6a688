//! A recorded request.

use crate::expr::RequestFacts;
use crate::url_encoding;

/// The record of a request without its body. Empty text means absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestView<'a> {
    /// Method.
    pub method: &'a str,
    /// Target with its query, as it was sent.
    pub target: &'a str,
    /// Header lines in wire format.
    pub head: &'a [u8],
    /// Address of the client.
    pub client: &'a str,
    /// Name of the consumer.
    pub consumer: &'a str,
}

impl RequestView<'_> {
    /// The variables of expressions; the path is as sent, without parameters of a route.
    pub(super) fn facts(&self) -> RequestFacts {
        let (path, query) = self.target.split_once('?').unwrap_or((self.target, ""));
        let headers: Vec<(String, String)> = String::from_utf8_lossy(self.head)
            .split("\r\n")
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let host = headers.iter().find(|(name, _)| name == "host");
        RequestFacts {
            method: self.method.to_owned(),
            target: path.to_owned(),
            host: host.map(|(_, host)| without_port(host).to_ascii_lowercase()).unwrap_or_default(),
            address: self.client.to_owned(),
            path: Vec::new(),
            query: url_encoding::fields(query.as_bytes()).collect(),
            headers,
        }
    }
}

/// A host without its port; an IPv6 address is in brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    }
}
