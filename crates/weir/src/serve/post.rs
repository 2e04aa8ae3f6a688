//! Sequential POST requests to a target of an upstream on a reused connection.

use anyhow::bail;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body::Body as _;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use weir_config::{Scheme, Target, Upstream};

/// Largest response; a connection with a larger one is closed.
const LONGEST_ANSWER: usize = 64 << 10;

/// An idle connection.
#[derive(Default)]
pub(super) struct Kept(Option<SendRequest<Full<Bytes>>>);

/// A response of a target.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// Its body, if not too large and in time.
    pub(super) body: Vec<u8>,
}

/// Posts a body with host, credential and user agent.
pub(super) async fn post(
    upstream: &Upstream,
    target: &Target,
    kept: &mut Kept,
    mut request: Request<Full<Bytes>>,
) -> anyhow::Result<Answer> {
    let headers = request.headers_mut();
    headers.insert(header::HOST, header::HeaderValue::try_from(&target.authority)?);
    let agent = concat!("weir/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, header::HeaderValue::from_static(agent));
    if let Some(credential) = &upstream.credential {
        let Ok(mut value) = header::HeaderValue::try_from(&credential.value) else {
            bail!("the credential is not a valid header value")
        };
        value.set_sensitive(true);
        headers.insert(header::HeaderName::try_from(&credential.header)?, value);
    }
    let ready = match kept.0.take() {
        // The other end may have closed it after the answer before.
        Some(mut sender) => {
            let ready = timeout(upstream.timeout, sender.ready()).await;
            matches!(ready, Ok(Ok(()))).then_some(sender)
        }
        None => None,
    };
    let mut sender = match ready {
        Some(sender) => sender,
        None => match timeout(upstream.connect_timeout, connect(upstream, target)).await {
            Ok(connected) => connected?,
            Err(_) => bail!("connect timeout"),
        },
    };
    let Ok(answer) = timeout(upstream.timeout, sender.send_request(request)).await else {
        bail!("response timeout")
    };
    let (head, body) = answer?.into_parts();
    let whole = read(body, upstream.timeout).await;
    if whole.is_some() {
        kept.0 = Some(sender);
    }
    let body = whole.unwrap_or_default();
    Ok(Answer { status: head.status, headers: head.headers, body })
}

async fn connect(upstream: &Upstream, target: &Target) -> anyhow::Result<SendRequest<Full<Bytes>>> {
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
        (Scheme::Https, None) => bail!("TLS is not configured"),
    }
}

async fn start<S>(stream: S) -> anyhow::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // It ends with its sender.
    tokio::spawn(connection);
    Ok(sender)
}

/// Reads a complete response; `None` if too large, too slow or aborted.
async fn read(mut body: hyper::body::Incoming, patience: Duration) -> Option<Vec<u8>> {
    let read = async {
        let mut whole = Vec::new();
        loop {
            let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            match frame.await {
                None => return Some(whole),
                Some(Err(_)) => return None,
                Some(Ok(frame)) => {
                    whole.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                }
            }
            if whole.len() > LONGEST_ANSWER {
                return None;
            }
        }
    };
    timeout(patience, read).await.ok().flatten()
}
