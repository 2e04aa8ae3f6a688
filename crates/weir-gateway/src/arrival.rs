//! Source and time of a request.

use crate::replay::Replay;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;
use weir_auth::certificate::Certificate;
use weir_http::forwarded::Client;
use weir_record::transaction_id::TransactionId;
use weir_wire::Version;

/// Source and time of a request.
#[derive(Debug)]
pub struct Arrival {
    /// Transaction id (UUIDv7), as text.
    pub id: TransactionId,
    pub(crate) started: Instant,
    /// Start, in seconds since 1970.
    pub unix: u64,
    /// Start, in microseconds since 1970.
    pub(crate) received_us: u64,
    /// The other end of the connection, or the source that the PROXY protocol names.
    pub peer: SocketAddr,
    /// The client, as far as trusted hops report it.
    pub client: Client,
    /// Host of the request: lower case, without port.
    pub host: String,
    pub(crate) protocol: Protocol,
    /// Certificate of the client, from the TLS handshake.
    pub certificate: Option<Rc<Certificate>>,
    /// Present if weir itself resubmits the request.
    pub(crate) replay: Option<Box<Replay>>,
}

/// Protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// None: weir itself sends the request.
    InProcess,
}

impl Arrival {
    /// An arrival before the first request.
    pub(crate) fn new() -> Self {
        let peer = SocketAddr::from(([0; 4], 0));
        Self {
            id: TransactionId::NIL,
            started: Instant::now(),
            unix: 0,
            received_us: 0,
            peer,
            client: Client { address: peer.ip(), trusted: false, https: false, host: None },
            host: String::new(),
            protocol: Protocol::Http1,
            certificate: None,
            replay: None,
        }
    }

    /// Sets the host of the request from the authority of its head.
    pub(crate) fn set_host(&mut self, authority: &str) {
        self.host.clear();
        push_host(&mut self.host, self.client.host.as_deref().unwrap_or(authority));
    }

    /// Protocol version as `Via` names it.
    pub(crate) fn version_name(&self, version: Version) -> &'static str {
        match (self.protocol, version) {
            (Protocol::Http2, _) => "2",
            (Protocol::Http1, Version::Http10) => "1.0",
            (Protocol::Http1, Version::Http11) | (Protocol::InProcess, _) => "1.1",
        }
    }
}

/// Appends the host of an authority: lower case, without port.
pub fn push_host(out: &mut String, authority: &str) {
    let end = if authority.starts_with('[') {
        authority.find(']').map(|end| end + 1)
    } else {
        authority.bytes().position(|byte| byte == b':')
    };
    let host = &authority[..end.unwrap_or(authority.len())];
    out.push_str(host.strip_suffix('.').unwrap_or(host));
    out.make_ascii_lowercase();
}
