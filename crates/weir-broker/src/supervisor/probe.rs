//! Probing the health of an agent.

use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use weir_model::pool::AgentProtocol;
use weir_wire::fastcgi::request;

/// First and longest interval between attempts to connect to the socket.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(5);
const MAX_RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// A request without effect on an HTTP server (RFC 9110 section 9.3.7).
const PING: &[u8] = b"OPTIONS * HTTP/1.1\r\nhost: weir\r\nconnection: close\r\n\r\n";

/// Waits until an agent responds to a request without effect. An agent that accepts the connection
/// and closes it without a response counts as healthy.
///
/// # Errors
/// The response is not in the pool's protocol.
pub(super) async fn probe(socket: &Path, protocol: AgentProtocol) -> Result<(), String> {
    let mut wait = MIN_RETRY_INTERVAL;
    loop {
        if let Ok(stream) = UnixStream::connect(socket).await {
            match exchange(stream, protocol).await {
                Ok(Some(first)) => return check_protocol(first, protocol),
                Ok(None) => return Ok(()),
                // Reset: the socket has no listener any more. The exit status has the reason.
                Err(_) => {}
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(MAX_RETRY_INTERVAL);
    }
}

/// The first byte of the response, if there is one.
async fn exchange(mut stream: UnixStream, protocol: AgentProtocol) -> std::io::Result<Option<u8>> {
    let mut request_bytes = Vec::new();
    match protocol {
        AgentProtocol::FastCgi => request::get_values(&mut request_bytes),
        AgentProtocol::Http | AgentProtocol::Cgi => request_bytes.extend_from_slice(PING),
    }
    stream.write_all(&request_bytes).await?;
    let mut response = [0; 256];
    let count = stream.read(&mut response).await?;
    Ok((count > 0).then_some(response[0]))
}

fn check_protocol(first: u8, protocol: AgentProtocol) -> Result<(), String> {
    match protocol {
        AgentProtocol::FastCgi if first != 1 => Err("it does not speak FastCGI".to_owned()),
        AgentProtocol::Http if first != b'H' => Err("it does not speak HTTP/1".to_owned()),
        _ => Ok(()),
    }
}
