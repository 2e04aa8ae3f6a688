//! Asking an agent whether it is well.

use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use weir_config::AgentProtocol;
use weir_wire::fastcgi::request;

/// How long until a socket that is not there yet is looked for again, first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// What asks nothing of an HTTP server (RFC 9110 section 9.3.7).
const PING: &[u8] = b"OPTIONS * HTTP/1.1\r\nhost: weir\r\nconnection: close\r\n\r\n";

/// Waits until an agent answers a question that changes nothing. An agent that takes the connection
/// and closes it without a word has accepted it, which is proof enough.
///
/// # Errors
/// Its answer is in another language than the pool's.
pub(super) async fn ask(socket: &Path, protocol: AgentProtocol) -> Result<(), String> {
    let mut wait = AGAIN.0;
    loop {
        if let Ok(stream) = UnixStream::connect(socket).await {
            match talk(stream, protocol).await {
                Ok(Some(first)) => return fits(first, protocol),
                Ok(None) => return Ok(()),
                // Reset: nobody listens any more. The end of the process tells why.
                Err(_) => {}
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(AGAIN.1);
    }
}

/// The first byte of the answer, if there is one.
async fn talk(mut stream: UnixStream, protocol: AgentProtocol) -> std::io::Result<Option<u8>> {
    let mut question = Vec::new();
    match protocol {
        AgentProtocol::FastCgi => request::get_values(&mut question),
        AgentProtocol::Http | AgentProtocol::Cgi => question.extend_from_slice(PING),
    }
    stream.write_all(&question).await?;
    let mut answer = [0; 256];
    let count = stream.read(&mut answer).await?;
    Ok((count > 0).then_some(answer[0]))
}

fn fits(first: u8, protocol: AgentProtocol) -> Result<(), String> {
    match protocol {
        AgentProtocol::FastCgi if first != 1 => Err("it does not speak FastCGI".to_owned()),
        AgentProtocol::Http if first != b'H' => Err("it does not speak HTTP/1".to_owned()),
        _ => Ok(()),
    }
}
