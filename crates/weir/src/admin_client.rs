//! Client of the admin API of a running weir.

mod tls;

use anyhow::{Context, anyhow, ensure};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use weir_http_client::{ConnectError, Connection, Incoming, Tls};

pub(crate) use tls::{ClientCertificate, ClientTls, Trusted, settings as tls_settings};

/// Largest response.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Response timeout, longer than a search or an attempt. For a tail, the longest silence.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(75);
/// Context of a failed TLS handshake.
const UNTRUSTED: &str = "TLS failed (`--ca FILE` sets the CA of the listener's certificate)";

/// An error response of the server.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Rejected {
    message: String,
    /// First byte of the invalid part of the query, and the byte after its last.
    pub(crate) span: Option<[usize; 2]>,
}

/// Address and credential.
pub(crate) struct AdminClient {
    runtime: Runtime,
    authority: String,
    tls: Option<Tls>,
    token: Option<String>,
    timeout: Duration,
}

impl AdminClient {
    /// A client for the admin listener at `url`: `http://HOST:PORT`, or `https://HOST:PORT` by `tls`. Without a token, only endpoints that need none respond.
    ///
    /// # Errors
    /// The URL is invalid, or certificates cannot be read.
    pub(crate) fn new(url: &str, token: Option<String>, tls: &ClientTls) -> anyhow::Result<Self> {
        let (is_https, authority) = authority(url)?;
        let tls = is_https.then(|| tls::settings(authority.host(), tls)).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (authority, timeout) = (authority.to_string(), RESPONSE_TIMEOUT);
        Ok(Self { runtime, authority, tls, token, timeout })
    }

    /// The same client with another time limit for the head of a response, and for each read of its body.
    pub(crate) fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Requests a JSON document.
    ///
    /// # Errors
    /// The request failed; the message has the reason.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        parsed(&self.bytes(Method::GET, path, String::new())?)
    }

    /// Requests bytes.
    ///
    /// # Errors
    /// The request failed; the message has the reason.
    pub(crate) fn raw(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        self.bytes(Method::GET, path, String::new())
    }

    /// Sends a JSON document and returns the JSON response.
    ///
    /// # Errors
    /// The request was rejected; the message has the reason.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> anyhow::Result<T> {
        parsed(&self.bytes(Method::POST, path, body.to_string())?)
    }

    /// Sends a JSON document without a response body.
    ///
    /// # Errors
    /// The request was rejected; the message has the reason.
    pub(crate) fn post_only(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.bytes(Method::POST, path, body.to_string()).map(drop)
    }

    /// Sends a DELETE request.
    ///
    /// # Errors
    /// The request was rejected; the message has the reason.
    pub(crate) fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.bytes(Method::DELETE, path, String::new()).map(drop)
    }

    fn bytes(&self, method: Method, path: &str, body: String) -> anyhow::Result<Vec<u8>> {
        self.runtime.block_on(async {
            let body = self.request(method, path, body).await?;
            complete(body, self.timeout).await.with_context(|| self.name())
        })
    }

    /// Sends a request without a body, and reads lines that are not empty until `each` stops, or until the
    /// end of the response.
    ///
    /// # Errors
    /// The request was rejected or failed; the message has the reason.
    pub(crate) fn lines(
        &self,
        method: Method,
        path: &str,
        mut each: impl FnMut(&str) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<()> {
        self.all_lines(method, path, |line| match line {
            "" => Ok(ControlFlow::Continue(())),
            line => each(line),
        })
    }

    /// As [`AdminClient::lines`], with the empty lines: keep-alives, one of them as soon as a request is
    /// accepted.
    ///
    /// # Errors
    /// As [`AdminClient::lines`].
    pub(crate) fn all_lines(
        &self,
        method: Method,
        path: &str,
        mut each: impl FnMut(&str) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            let mut body = self.request(method, path, String::new()).await?;
            let mut rest = Vec::new();
            while let Some(bytes) =
                next(&mut body, self.timeout).await.with_context(|| self.name())?
            {
                rest.extend_from_slice(&bytes);
                ensure!(rest.len() <= MAX_RESPONSE_BYTES, "a line of the response is too long");
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    let line = std::str::from_utf8(&line[..end]).context("not UTF-8")?;
                    if each(line)?.is_break() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }

    async fn request(&self, method: Method, path: &str, body: String) -> anyhow::Result<Incoming> {
        let sent = timeout(self.timeout, self.send(method, path, body)).await;
        let response = sent.map_err(|_| anyhow!("no response in time")).and_then(|sent| sent);
        let response = response.with_context(|| self.name())?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let body = complete(response.into_body(), self.timeout).await.unwrap_or_default();
        let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        let member = |name: &str| crate::escape::line(problem[name].as_str().unwrap_or_default());
        let message = format!("{} ({}): {}", member("title"), status.as_u16(), member("detail"));
        let span = serde_json::from_value(problem["place"].clone()).ok();
        Err(Rejected { message, span }.into())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let connected = Connection::open(&self.authority, self.tls.clone()).await;
        let mut connection = connected.map_err(|error| {
            let is_tls = matches!(error, ConnectError::Tls(_));
            match (is_tls, anyhow::Error::from(error)) {
                (true, error) => error.context(UNTRUSTED),
                (false, error) => error,
            }
        })?;
        let mut request =
            Request::builder().method(method).uri(path).header(header::HOST, &self.authority);
        if let Some(token) = &self.token {
            let mut token = header::HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| anyhow!("the token contains invalid characters"))?;
            token.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.body(body.into())?;
        Ok(connection.send(request).await?)
    }

    fn name(&self) -> String {
        format!("the admin API at {}", self.authority)
    }
}

/// A path with query parameters; absent ones are left out.
///
/// # Errors
/// A parameter is neither text nor a number.
pub(crate) fn with_query(path: &str, parameters: &impl Serialize) -> anyhow::Result<String> {
    Ok(format!("{path}?{}", serde_urlencoded::to_string(parameters)?))
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(bytes).context("unexpected response")
}

/// The next bytes of a body, for at most `limit`.
async fn next(body: &mut Incoming, limit: Duration) -> anyhow::Result<Option<Bytes>> {
    loop {
        let Some(frame) = timeout(limit, body.frame()).await.context("no data in time")? else {
            return Ok(None);
        };
        if let Ok(bytes) = frame?.into_data() {
            return Ok(Some(bytes));
        }
    }
}

/// The complete body.
async fn complete(mut body: Incoming, limit: Duration) -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(bytes) = next(&mut body, limit).await? {
        ensure!(all.len() + bytes.len() <= MAX_RESPONSE_BYTES, "the response is too long");
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

/// Checks the URL of an admin listener.
///
/// # Errors
/// It is neither `http://HOST:PORT` nor `https://HOST:PORT`.
pub(crate) fn check_url(url: &str) -> anyhow::Result<()> {
    authority(url).map(drop)
}

/// Whether a URL is https, and its `HOST:PORT`.
fn authority(url: &str) -> anyhow::Result<(bool, http::uri::Authority)> {
    let invalid = || format!("'{url}' is not http://HOST:PORT or https://HOST:PORT");
    let plain = url.strip_prefix("http://").map(|rest| (false, rest));
    let (is_https, rest) = plain
        .or_else(|| url.strip_prefix("https://").map(|rest| (true, rest)))
        .with_context(invalid)?;
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let parsed: http::uri::Authority = authority.parse().with_context(invalid)?;
    ensure!(!authority.contains('@') && parsed.port_u16().is_some(), invalid());
    Ok((is_https, parsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_a_port_only() {
        let read = |url| authority(url).map(|(tls, authority)| (tls, authority.to_string()));
        assert_eq!(read("http://127.0.0.1:9080").unwrap(), (false, "127.0.0.1:9080".to_owned()));
        assert_eq!(read("https://[::1]:9080/").unwrap(), (true, "[::1]:9080".to_owned()));
        for url in ["127.0.0.1:9080", "ftp://a:1", "http://a", "http://u@a:1", "https://a:1/b"] {
            assert!(read(url).is_err(), "{url}");
        }
    }
}
