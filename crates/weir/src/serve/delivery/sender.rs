//! Posts events to an upstream, one after the other on one connection.

use anyhow::{Context, bail};
use http::{Method, Request, header};
use http_body::Body as _;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use weir_config::{Config, Scheme, Target, Upstream, UpstreamId};
use weir_index::delivery::{Due, Outcome};

/// Largest answer that is read to the end; with a longer one the connection is given up.
const LONGEST_ANSWER: usize = 64 << 10;
/// CloudEvents 1.0, HTTP binding, structured mode.
const CONTENT_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// What became of a batch.
pub(super) struct Sent {
    pub(super) sink: String,
    /// Those that were tried: all, or all up to the first in vain.
    pub(super) outcomes: Vec<(Due, Outcome)>,
    /// Why the last one was in vain.
    pub(super) failure: Option<String>,
}

/// Posts a batch until one is in vain.
pub(super) async fn send(config: Arc<Config>, id: UpstreamId, batch: Vec<Due>) -> Sent {
    let upstream = &config.upstreams[id.0];
    let mut sent = Sent {
        sink: upstream.name.clone(),
        outcomes: Vec::with_capacity(batch.len()),
        failure: None,
    };
    let mut connection = None;
    for due in batch {
        // Another target with each attempt.
        let target = &upstream.targets[due.attempts as usize % upstream.targets.len()];
        match post(upstream, target, &mut connection, &due).await {
            Ok(()) => sent.outcomes.push((due, Outcome::Delivered)),
            Err(error) => {
                sent.failure = Some(format!("{}: {error:#}", target.authority));
                sent.outcomes.push((due, Outcome::Again));
                break;
            }
        }
    }
    sent
}

/// Posts an event; any answer with 2xx says that it is taken.
async fn post(
    upstream: &Upstream,
    target: &Target,
    connection: &mut Option<SendRequest<String>>,
    due: &Due,
) -> anyhow::Result<()> {
    let kept = match connection.take() {
        // The sink may have closed it after the answer before.
        Some(mut sender) => {
            let ready = timeout(upstream.timeout, sender.ready()).await;
            matches!(ready, Ok(Ok(()))).then_some(sender)
        }
        None => None,
    };
    let mut sender = match kept {
        Some(sender) => sender,
        None => timeout(upstream.connect_timeout, connect(upstream, target))
            .await
            .context("no connection in time")??,
    };
    let answer = sender.send_request(request(upstream, target, due)?);
    let answer = timeout(upstream.timeout, answer).await.context("no answer in time")??;
    let status = answer.status();
    let whole = drain(answer.into_body(), upstream.timeout).await;
    if !status.is_success() {
        bail!("it answered with {}", status.as_u16());
    }
    *connection = whole.then_some(sender);
    Ok(())
}

fn request(upstream: &Upstream, target: &Target, due: &Due) -> anyhow::Result<Request<String>> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(&due.path)
        .header(header::HOST, &target.authority)
        .header(header::USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")))
        .header(header::CONTENT_TYPE, CONTENT_TYPE);
    if let Some(credential) = &upstream.credential {
        let value = header::HeaderValue::try_from(&credential.value);
        let mut value = value.ok().context("its credential is no header value")?;
        value.set_sensitive(true);
        request = request.header(&credential.header, value);
    }
    Ok(request.body(due.event.clone())?)
}

async fn connect(upstream: &Upstream, target: &Target) -> anyhow::Result<SendRequest<String>> {
    let stream = TcpStream::connect((target.host.as_str(), target.port)).await?;
    stream.set_nodelay(true)?;
    match (target.scheme, &upstream.tls) {
        (Scheme::Http, _) => start(stream).await,
        (Scheme::Https, Some(tls)) => {
            let name = match &tls.server_name {
                Some(name) => name.clone(),
                None => ServerName::try_from(target.host.clone())?,
            };
            let connector = tokio_rustls::TlsConnector::from(Arc::clone(&tls.client));
            start(connector.connect(name, stream).await?).await
        }
        (Scheme::Https, None) => bail!("it has no TLS settings"),
    }
}

async fn start<S>(stream: S) -> anyhow::Result<SendRequest<String>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // It ends with its sender.
    tokio::spawn(connection);
    Ok(sender)
}

/// Reads an answer to its end; false if it is too long, too slow or broken off.
async fn drain(mut body: hyper::body::Incoming, patience: Duration) -> bool {
    let read = async {
        let mut length = 0;
        loop {
            let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            match frame.await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => length += frame.data_ref().map_or(0, |data| data.len()),
            }
            if length > LONGEST_ANSWER {
                return false;
            }
        }
    };
    timeout(patience, read).await.unwrap_or(false)
}
