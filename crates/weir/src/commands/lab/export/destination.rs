//! A receiver of metrics: its URL, its protocol, and a request to it.

use super::Identity;
use super::queue::{Batch, Queue};
use super::remote_write;
use crate::admin_client::{ClientTls, Trusted, tls_settings};
use crate::otlp::messages::ExportMetricsServiceResponse;
use crate::otlp::points;
use anyhow::{Context, anyhow, bail, ensure};
use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use prost::Message;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;
use weir_http_client::{Connection, Tls, retry_after};
use weir_lab::redaction;
use weir_lab::results::ExportFigures;

/// Time of a request with its response.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest response; a connection with a larger one is closed.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// Characters of a response that are shown.
const MAX_SHOWN: usize = 200;

/// Protocol of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// OTLP over HTTP in protobuf.
    Otlp,
    /// Prometheus remote write 1.0.
    RemoteWrite,
}

impl Protocol {
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Otlp => "--otlp",
            Self::RemoteWrite => "--prometheus-remote-write",
        }
    }

    /// Variables of the environment with header fields; the first one that is set counts.
    pub(super) fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Otlp => &["OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"],
            Self::RemoteWrite => &["WEIR_PROMETHEUS_HEADERS"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Otlp => "OTLP",
            Self::RemoteWrite => "Prometheus remote write",
        }
    }

    /// The body of a request with this batch.
    pub(super) fn encode(self, batch: &Batch, identity: &Identity) -> Vec<u8> {
        match self {
            Self::Otlp => points::encode(&batch.families, batch.span, identity.resource()),
            Self::RemoteWrite => remote_write::encode(batch, identity),
        }
    }

    /// Fields of each request.
    fn fields(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Otlp => &[("content-type", "application/x-protobuf")],
            Self::RemoteWrite => &[
                ("content-type", "application/x-protobuf"),
                ("content-encoding", "snappy"),
                ("x-prometheus-remote-write-version", "0.1.0"),
            ],
        }
    }

    /// Whether a request with this status may be repeated
    /// (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>,
    /// <https://prometheus.io/docs/specs/prw/remote_write_spec/#retries--backoff>).
    fn may_repeat(self, status: StatusCode) -> bool {
        match self {
            Self::Otlp => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            Self::RemoteWrite => status.as_u16() == 429 || status.is_server_error(),
        }
    }
}

/// Outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Accepted,
    /// Never accepted, or in part.
    Rejected(String),
    /// To be repeated, after the time that the receiver returned, if any.
    Busy {
        after: Option<Duration>,
        reason: String,
    },
    /// To be repeated: there was no response.
    Unreachable(String),
}

/// A receiver and the batches that wait for it.
pub(in crate::commands::lab) struct Destination {
    pub(super) protocol: Protocol,
    /// Its URL without credentials.
    pub(super) name: String,
    pub(super) queue: Queue,
    address: (String, u16),
    tls: Option<Tls>,
    authority: Authority,
    path: PathAndQuery,
    headers: HeaderMap,
}

impl Destination {
    /// A receiver at a URL.
    ///
    /// # Errors
    /// The URL is not valid, has credentials, or would get credentials in plain text.
    pub(super) fn new(
        protocol: Protocol,
        url: &str,
        headers: HeaderMap,
        trusted: Option<&Path>,
        bound: usize,
    ) -> anyhow::Result<Self> {
        // The text may have a password: no error shows it.
        let uri = Uri::try_from(url).map_err(|_| anyhow!("not a URL"))?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            bail!("write a URL with http:// or https://");
        };
        ensure!(
            !authority.as_str().contains('@'),
            "user and password in a URL would be recorded: write them into a header field \
             (Authorization: Basic …)"
        );
        let host = authority.host().to_owned();
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let (tls, port) = if scheme == Scheme::HTTPS {
            let roots = trusted.map_or(Trusted::System, |path| Trusted::Only(path.to_owned()));
            let settings = ClientTls { trusted: roots, certificate: None };
            (Some(tls_settings(&host, &settings)?), 443)
        } else {
            ensure!(scheme == Scheme::HTTP, "write a URL with http:// or https://");
            let secret = headers.keys().find(|name| redaction::is_secret(name.as_str()));
            if let Some(name) = secret.filter(|_| !is_loopback(&bare)) {
                bail!("{name} would be sent in plain text: use https");
            }
            (None, 80)
        };
        let port = authority.port_u16().unwrap_or(port);
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let path = match protocol {
            Protocol::RemoteWrite => path,
            Protocol::Otlp => metrics_path(&path)?,
        };
        let name = format!("{scheme}://{authority}{path}");
        Ok(Self {
            protocol,
            name: redaction::parameters(&name),
            queue: Queue::new(bound),
            address: (bare, port),
            tls,
            authority,
            path,
            headers,
        })
    }

    pub(super) fn failed(&self, reason: &str) {
        self.queue.failed(&self.name, reason);
    }

    /// What became of its batches, after the end.
    pub(super) fn figures(&self) -> ExportFigures {
        let counts = self.queue.counts();
        ExportFigures {
            to: self.name.clone(),
            protocol: self.protocol.name().to_owned(),
            batches: counts.batches,
            accepted: counts.accepted,
            rejected: counts.rejected,
            dropped: counts.batches.saturating_sub(counts.accepted + counts.rejected),
            problem: counts.problem,
        }
    }

    /// Posts a body. `idle` is a connection to reuse.
    pub(super) async fn post(&self, body: Bytes, idle: &mut Option<Connection>) -> Outcome {
        match timeout(TIMEOUT, self.exchange(body, idle)).await {
            Err(_) => Outcome::Unreachable(format!("no response within {} s", TIMEOUT.as_secs())),
            Ok(Err(error)) => Outcome::Unreachable(format!("{error:#}")),
            Ok(Ok(outcome)) => outcome,
        }
    }

    async fn exchange(
        &self,
        body: Bytes,
        idle: &mut Option<Connection>,
    ) -> anyhow::Result<Outcome> {
        let mut reused = idle.take();
        if let Some(connection) = &mut reused
            && !connection.is_reusable().await
        {
            reused = None;
        }
        let mut connection = match reused {
            Some(connection) => connection,
            None => {
                let address = (self.address.0.as_str(), self.address.1);
                Connection::open(address, self.tls.clone()).await?
            }
        };
        let (head, incoming) = connection.send(self.request(body)?).await?.into_parts();
        let body = Limited::new(incoming, MAX_RESPONSE_BYTES).collect().await;
        let body = match body {
            Ok(body) => {
                *idle = Some(connection);
                body.to_bytes()
            }
            // Too large, or broken off: the status counts, and the connection ends.
            Err(_) => Bytes::new(),
        };
        Ok(self.outcome(head.status, &head.headers, &body))
    }

    fn request(&self, body: Bytes) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.path.as_str())
            .body(Full::new(body))
            .context("the path is not valid")?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::try_from(self.authority.as_str())?);
        let agent = concat!("weir/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        headers.extend(self.headers.clone());
        for (name, value) in self.protocol.fields() {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        Ok(request)
    }

    fn outcome(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Outcome {
        if status.is_success() {
            return match (self.protocol, partial_success(body)) {
                (Protocol::Otlp, Some(reason)) => Outcome::Rejected(reason),
                _ => Outcome::Accepted,
            };
        }
        let mut reason = format!("status {}", status.as_u16());
        // Receivers state in it which sample they reject.
        let text = String::from_utf8_lossy(body);
        let line: String = redaction::message(text.trim()).chars().take(MAX_SHOWN).collect();
        if !line.is_empty() && !line.chars().any(char::is_control) {
            reason.push_str(&format!(": {line}"));
        }
        match self.protocol.may_repeat(status) {
            true => Outcome::Busy { after: retry_after(headers), reason },
            false => Outcome::Rejected(reason),
        }
    }
}

/// What a collector has rejected of a batch that it accepted otherwise.
fn partial_success(body: &[u8]) -> Option<String> {
    let partial = ExportMetricsServiceResponse::decode(body).ok()?.partial_success?;
    let rejected = (partial.rejected_data_points > 0).then_some(partial.rejected_data_points)?;
    let text: String = partial.error_message.chars().filter(|c| !c.is_control()).collect();
    let text: String = text.chars().take(MAX_SHOWN).collect();
    Some(format!("{rejected} points rejected: {text}").trim_end_matches([':', ' ']).to_owned())
}

/// The base path of a collector with the path of metrics.
fn metrics_path(base: &PathAndQuery) -> anyhow::Result<PathAndQuery> {
    let path = base.path().trim_end_matches('/');
    let path =
        if path.ends_with("/v1/metrics") { path.to_owned() } else { format!("{path}/v1/metrics") };
    let query = base.query().map(|query| format!("?{query}")).unwrap_or_default();
    PathAndQuery::try_from(path + &query).context("the path is not valid")
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(
        protocol: Protocol,
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> anyhow::Result<Destination> {
        let value = |value: &str| HeaderValue::try_from(value).expect("a value");
        let headers = headers
            .iter()
            .map(|(name, text)| (http::HeaderName::from_static(name), value(text)))
            .collect();
        Destination::new(protocol, url, headers, None, 4)
    }

    fn error(url: &str, headers: &[(&'static str, &str)]) -> String {
        let error = new(Protocol::RemoteWrite, url, headers).err().expect("not valid");
        format!("{error:#}")
    }

    #[test]
    fn urls_have_no_credentials_and_credentials_are_not_sent_in_plain_text() {
        let secret = [("authorization", "Bearer sesame")];
        for (url, headers, part) in [
            ("http://u:sesame@127.0.0.1/w", &[][..], "would be recorded"),
            ("http://10.0.0.1/w", &secret[..], "authorization would be sent in plain text"),
            ("ftp://10.0.0.1/w", &[], "http:// or https://"),
            ("/sesame", &[], "http:// or https://"),
            ("http://a b/sesame", &[], "not a URL"),
        ] {
            let error = error(url, headers);
            assert!(error.contains(part) && !error.contains("sesame"), "{error}");
        }
        for url in ["http://127.0.0.1:9/w", "http://[::1]/w", "http://localhost/w"] {
            assert!(new(Protocol::RemoteWrite, url, &secret).is_ok(), "{url}");
        }
        // The name of a tenant is no credential.
        assert!(new(Protocol::RemoteWrite, "http://10.0.0.1/w", &[("x-scope-orgid", "7")]).is_ok());
        let named = new(Protocol::RemoteWrite, "http://a/w?db=x&token=sesame", &[]).expect("a URL");
        assert_eq!(named.name, "http://a/w?db=x&token=***");
    }

    #[test]
    fn the_path_of_metrics_is_appended() {
        for (url, path) in [
            ("http://a:4318", "http://a:4318/v1/metrics"),
            ("http://a/otlp/?x=1", "http://a/otlp/v1/metrics?x=1"),
            ("http://a/v1/metrics", "http://a/v1/metrics"),
        ] {
            assert_eq!(new(Protocol::Otlp, url, &[]).expect("a URL").name, path);
        }
    }

    #[test]
    fn statuses_decide_about_repetition() {
        let of = |protocol, status, body: &[u8]| {
            let one = new(protocol, "http://a/w", &[]).expect("a URL");
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("7"));
            one.outcome(StatusCode::from_u16(status).expect("a status"), &headers, body)
        };
        let after = Some(Duration::from_secs(7));
        for protocol in [Protocol::Otlp, Protocol::RemoteWrite] {
            assert_eq!(of(protocol, 204, b""), Outcome::Accepted);
            assert_eq!(of(protocol, 400, b"bad"), Outcome::Rejected("status 400: bad".to_owned()));
            assert!(
                matches!(of(protocol, 429, b""), Outcome::Busy { after: found, .. } if found == after)
            );
        }
        assert!(matches!(of(Protocol::Otlp, 500, b""), Outcome::Rejected(_)));
        assert!(matches!(of(Protocol::RemoteWrite, 500, b""), Outcome::Busy { .. }));
        let partly = Outcome::Rejected("2 points rejected: old".to_owned());
        assert_eq!(of(Protocol::Otlp, 200, b"\x0a\x07\x08\x02\x12\x03old"), partly);
        assert_eq!(of(Protocol::Otlp, 200, b"\x7f\x7f"), Outcome::Accepted);
    }
}
