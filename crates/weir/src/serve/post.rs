//! Sequential POST requests to a target of an upstream on a reused connection.

use anyhow::bail;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use rustls_pki_types::ServerName;
use std::sync::Arc;
use tokio::time::timeout;
use weir_config::{Config, Scheme, Target};
use weir_http_client::{Connection, Tls};
use weir_model::UpstreamId;
use weir_net::tls::UpstreamClients;

/// Largest response; a connection with a larger one is closed.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// The upstreams of a configuration, with their TLS.
#[derive(Clone)]
pub(super) struct Upstreams {
    pub(super) config: Arc<Config>,
    pub(super) clients: Arc<UpstreamClients>,
}

/// A response of a target.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The body; empty if it was too large or timed out.
    pub(super) body: Bytes,
}

/// Posts a body with host, credential and user agent. `idle` is a connection to reuse.
pub(super) async fn post(
    upstreams: &Upstreams,
    target: (UpstreamId, &Target),
    idle: &mut Option<Connection>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Response> {
    send(upstreams, target, idle, request, MAX_RESPONSE_BYTES).await
}

/// As [`post`], with any method, and a response of up to `max_response` bytes.
pub(super) async fn send(
    upstreams: &Upstreams,
    (id, target): (UpstreamId, &Target),
    idle: &mut Option<Connection>,
    mut request: Request<Full<Bytes>>,
    max_response: usize,
) -> anyhow::Result<Response> {
    let upstream = &upstreams.config.upstreams[id.0];
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
    let mut reused = idle.take();
    if let Some(connection) = &mut reused
        && !matches!(timeout(upstream.timeout, connection.is_reusable()).await, Ok(true))
    {
        reused = None;
    }
    let mut connection = match reused {
        Some(connection) => connection,
        None => match timeout(upstream.connect_timeout, connect(upstreams, id, target)).await {
            Ok(connected) => connected?,
            Err(_) => bail!("connect timeout"),
        },
    };
    let Ok(response) = timeout(upstream.timeout, connection.send(request)).await else {
        bail!("response timeout")
    };
    let (head, body) = response?.into_parts();
    let body = timeout(upstream.timeout, Limited::new(body, max_response).collect()).await;
    let body = body.ok().and_then(Result::ok);
    if body.is_some() {
        *idle = Some(connection);
    }
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    Ok(Response { status: head.status, headers: head.headers, body })
}

async fn connect(
    upstreams: &Upstreams,
    id: UpstreamId,
    target: &Target,
) -> anyhow::Result<Connection> {
    if let Some(path) = target.socket_path() {
        return Ok(Connection::open_unix(path).await?);
    }
    let tls = upstreams.config.upstreams[id.0].tls.as_ref().zip(upstreams.clients.get(id));
    let tls = match (target.scheme, tls) {
        (Scheme::Http, _) => None,
        (Scheme::Https, Some((tls, client))) => {
            let name = match &tls.server_name {
                Some(name) => name.clone(),
                None => ServerName::try_from(target.host.clone())?,
            };
            Some(Tls { config: Arc::clone(client), name })
        }
        (Scheme::Https, None) => bail!("TLS is not configured"),
    };
    Ok(Connection::open((target.host.as_str(), target.port), tls).await?)
}
