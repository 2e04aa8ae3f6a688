//! A connection between controller and agent: frames of JSON, and the handshake.

use super::message::{Hello, Introduction, Welcome};
use super::security::{End, Security, nonce};
use super::{AgentError, HANDSHAKE_TIMEOUT, MAX_PLAN_BYTES, PLAN_TIMEOUT, SILENCE_TIMEOUT};
use rustls_pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Largest message of the handshake.
const MAX_HANDSHAKE_BYTES: usize = 4_096;
/// Largest message of an agent: the figures of a second.
pub(super) const MAX_SECOND_BYTES: usize = 16 << 20;
/// Largest message of a controller: a plan, whose files are encoded as text.
pub(super) const MAX_PLAN_MESSAGE_BYTES: usize = (MAX_PLAN_BYTES as usize) / 3 * 4 + (4 << 20);
/// Received messages that wait to be processed.
const MAX_WAITING: usize = 64;
/// Interval of attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Version of weir, which both ends have.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// TCP, or TLS over it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Starts and ends of writes of plans: odd during one. No other message can be sent meanwhile, so that the other
/// end has nothing to respond to.
type PlanWrites = Arc<AtomicU32>;

/// Writing end.
pub(super) struct Writer {
    stream: WriteHalf<Box<dyn Stream>>,
    plans: PlanWrites,
}

/// A connection after the handshake.
pub(super) struct Channel<M> {
    pub(super) writer: Writer,
    /// Received messages; the last one is the reason of the end.
    pub(super) received: mpsc::Receiver<Result<M, String>>,
}

impl<M: DeserializeOwned + Send + 'static> Channel<M> {
    /// Reads messages of at most `max_bytes`, in a task.
    fn new(stream: Box<dyn Stream>, max_bytes: usize) -> Self {
        Self::with(stream, max_bytes, SILENCE_TIMEOUT)
    }

    /// Likewise; the other end is lost after `silence`.
    fn with(stream: Box<dyn Stream>, max_bytes: usize, silence: Duration) -> Self {
        let (mut reader, stream) = tokio::io::split(stream);
        let (sender, received) = mpsc::channel(MAX_WAITING);
        let plans = PlanWrites::default();
        let writes = plans.clone();
        tokio::spawn(async move {
            loop {
                let length = unless_silent(length(&mut reader, max_bytes), silence, &writes).await;
                let message = match length {
                    Ok(length) => timeout(PLAN_TIMEOUT, body(&mut reader, length))
                        .await
                        .unwrap_or_else(|_| Err("a message does not end".to_owned())),
                    Err(reason) => Err(reason),
                };
                let is_end = message.is_err();
                if sender.send(message).await.is_err() || is_end {
                    return;
                }
            }
        });
        Self { writer: Writer { stream, plans }, received }
    }
}

/// Waits for a message until the other end is silent for too long. After a plan it has the time of a plan, whose
/// end may still be on its way.
async fn unless_silent<T>(
    message: impl Future<Output = Result<T, String>>,
    silence: Duration,
    plans: &AtomicU32,
) -> Result<T, String> {
    let mut message = pin!(message);
    let mut limit = silence;
    loop {
        let before = plans.load(Ordering::Relaxed);
        if let Ok(message) = timeout(limit, &mut message).await {
            return message;
        }
        let is_written = before % 2 == 1 || plans.load(Ordering::Relaxed) != before;
        if !is_written {
            return Err(format!("no message for {} s: the connection is lost", limit.as_secs()));
        }
        limit = PLAN_TIMEOUT;
    }
}

impl Writer {
    /// Sends a message.
    pub(super) async fn send(&mut self, message: &impl Serialize) -> Result<(), String> {
        self.send_within(message, SILENCE_TIMEOUT.saturating_mul(4)).await
    }

    /// Sends a plan, which may be large.
    pub(super) async fn send_plan(&mut self, message: &impl Serialize) -> Result<(), String> {
        self.plans.fetch_add(1, Ordering::Relaxed);
        let sent = self.send_within(message, PLAN_TIMEOUT).await;
        self.plans.fetch_add(1, Ordering::Relaxed);
        sent
    }

    async fn send_within(
        &mut self,
        message: &impl Serialize,
        limit: Duration,
    ) -> Result<(), String> {
        let written = timeout(limit, write(&mut self.stream, message)).await;
        written.unwrap_or_else(|_| Err("the other end does not read".to_owned()))
    }
}

async fn write<W: AsyncWrite + Unpin>(out: &mut W, message: &impl Serialize) -> Result<(), String> {
    let body = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    let length = u32::try_from(body.len()).map_err(|_| "a message is too large".to_owned())?;
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&body);
    out.write_all(&frame).await.map_err(closed)?;
    out.flush().await.map_err(closed)
}

async fn read<M: DeserializeOwned, R: AsyncRead + Unpin>(
    from: &mut R,
    max_bytes: usize,
) -> Result<M, String> {
    let length = length(from, max_bytes).await?;
    body(from, length).await
}

/// The length of the next message.
async fn length<R: AsyncRead + Unpin>(from: &mut R, max_bytes: usize) -> Result<usize, String> {
    let length = from.read_u32().await.map_err(closed)? as usize;
    if length > max_bytes {
        return Err(format!("a message of {length} bytes; at most {max_bytes} are allowed"));
    }
    Ok(length)
}

async fn body<M: DeserializeOwned, R: AsyncRead + Unpin>(
    from: &mut R,
    length: usize,
) -> Result<M, String> {
    // Memory grows with the received bytes, not with the announced ones.
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body).await.map_err(closed)?;
    if body.len() < length {
        return Err(CLOSED.to_owned());
    }
    serde_json::from_slice(&body).map_err(|error| format!("not a message of weir: {error}"))
}

fn closed(error: std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            CLOSED.to_owned()
        }
        _ => error.to_string(),
    }
}

const CLOSED: &str = "the connection was closed";

type Ends = (ReadHalf<Box<dyn Stream>>, WriteHalf<Box<dyn Stream>>);

/// Connects to an agent, which may start within `wait`.
pub(super) async fn connect<M: DeserializeOwned + Send + 'static>(
    address: &str,
    security: &Security,
    wait: Duration,
) -> Result<Channel<M>, AgentError> {
    let failed = |reason: String| AgentError::Agent { agent: address.to_owned(), reason };
    let late = |_| failed(format!("no response within {} s", HANDSHAKE_TIMEOUT.as_secs()));
    let until = Instant::now() + wait;
    let tcp = loop {
        match timeout(HANDSHAKE_TIMEOUT, TcpStream::connect(address)).await.map_err(late)? {
            Ok(tcp) => break tcp,
            // The name of an agent that starts may be unknown, too.
            Err(error) if Instant::now() >= until => return Err(failed(error.to_string())),
            Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
        }
    };
    let connected = async {
        security.check(tcp.peer_addr()?)?;
        tcp.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match security.client() {
            Some(config) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(host).map_err(|error| failed(error.to_string()))?;
                let connected = TlsConnector::from(config).connect(name, tcp).await;
                Box::new(connected.map_err(|error| failed(error.to_string()))?)
            }
            None => Box::new(tcp),
        };
        let ends = introduce(tokio::io::split(stream), security).await.map_err(failed)?;
        Ok(Channel::new(ends.0.unsplit(ends.1), MAX_SECOND_BYTES))
    };
    timeout(HANDSHAKE_TIMEOUT, connected).await.map_err(late)?
}

/// The controller's part of the handshake.
async fn introduce((mut reader, mut writer): Ends, security: &Security) -> Result<Ends, String> {
    let hello: Hello = read(&mut reader, MAX_HANDSHAKE_BYTES).await?;
    if hello.weir != VERSION {
        return Err(format!(
            "the agent is weir {}, this is weir {VERSION}: both need the same version",
            hello.weir
        ));
    }
    if hello.keyed && !security.has_key() {
        return Err("the agent needs its key: --secret-file".to_owned());
    }
    let nonce = nonce()?;
    let nonces = [hello.nonce.as_str(), nonce.as_str()];
    let proof = security.proof(End::Controller, nonces);
    let introduction = Introduction { weir: VERSION.to_owned(), nonce: nonce.clone(), proof };
    write(&mut writer, &introduction).await?;
    match read(&mut reader, MAX_HANDSHAKE_BYTES).await? {
        Welcome::Refused { reason } => Err(reason),
        Welcome::Accepted { proof } if security.verify(End::Agent, nonces, &proof) => {
            Ok((reader, writer))
        }
        Welcome::Accepted { .. } => Err("the agent has another key, or none".to_owned()),
    }
}

/// Accepts a connection of a controller. `busy` is called once the controller is known, and refuses it with a
/// reason.
pub(super) async fn accept<M: DeserializeOwned + Send + 'static, P>(
    tcp: TcpStream,
    security: &Security,
    busy: impl FnOnce() -> Result<P, String>,
) -> Result<(Channel<M>, P), String> {
    let accepted = async {
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let stream: Box<dyn Stream> = match security.server() {
            Some(config) => {
                let accepted = TlsAcceptor::from(config).accept(tcp).await;
                Box::new(accepted.map_err(|error| error.to_string())?)
            }
            None => Box::new(tcp),
        };
        let (mut reader, mut writer) = tokio::io::split(stream);
        let own = nonce()?;
        let hello =
            Hello { weir: VERSION.to_owned(), nonce: own.clone(), keyed: security.has_key() };
        write(&mut writer, &hello).await?;
        let other: Introduction = read(&mut reader, MAX_HANDSHAKE_BYTES).await?;
        let nonces = [own.as_str(), other.nonce.as_str()];
        let permit = if other.weir != VERSION {
            Err(format!("the controller is weir {}, the agent is weir {VERSION}", other.weir))
        } else if security.verify(End::Controller, nonces, &other.proof) {
            busy()
        } else {
            Err("the key of the controller is not the agent's".to_owned())
        };
        let response = match &permit {
            Ok(_) => Welcome::Accepted { proof: security.proof(End::Agent, nonces) },
            Err(reason) => Welcome::Refused { reason: reason.clone() },
        };
        write(&mut writer, &response).await?;
        Ok((Channel::new(reader.unsplit(writer), MAX_PLAN_MESSAGE_BYTES), permit?))
    };
    let late = |_| format!("no introduction within {} s", HANDSHAKE_TIMEOUT.as_secs());
    timeout(HANDSHAKE_TIMEOUT, accepted).await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_other_end_is_not_lost_while_a_plan_is_written() {
        let silence = Duration::from_millis(100);
        let (near, mut far) = tokio::io::duplex(16);
        let Channel { mut writer, mut received } =
            Channel::<String>::with(Box::new(near), 1000, silence);
        let reading = tokio::spawn(async move {
            // Far slower than the silence that is possible otherwise.
            let mut frame = [0; 4 + 2 + 60];
            for part in frame.chunks_mut(11) {
                tokio::time::sleep(Duration::from_millis(70)).await;
                far.read_exact(part).await.expect("written");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            write(&mut far, &"ready").await.expect("read");
            far
        });
        writer.send_plan(&"p".repeat(60)).await.expect("read");
        assert_eq!(received.recv().await, Some(Ok("ready".to_owned())));
        let _far = reading.await.expect("no panic");
        let lost = received.recv().await.expect("a message").expect_err("silent");
        assert!(lost.contains("the connection is lost"), "{lost}");
    }
}
