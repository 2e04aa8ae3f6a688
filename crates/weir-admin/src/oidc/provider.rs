//! Requests to the identity provider: discovery, keys, codes.
//!
//! Every request has a timeout and a limit of its response, and their number is limited. Endpoints of the
//! discovery document need `https`; `http` on this machine is accepted if the issuer is such a URL. No
//! redirect is followed.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Url};
use weir_auth::id_token::ProviderKeys;
use weir_config::Oidc;
use weir_http_client::{Connection, Tls};
use weir_store::clock;

/// Largest response in bytes: key sets are the largest.
const MAX_RESPONSE_BYTES: usize = 512 << 10;
/// Longest ID token in bytes.
const MAX_ID_TOKEN_BYTES: usize = 16 << 10;
/// Requests at a time; further ones fail at once.
const MAX_REQUESTS: usize = 8;
/// Time for which discovery document and keys are used.
const FRESH: Duration = Duration::from_secs(600);
/// Shortest time between two fetches because of an unknown key.
const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(10);

/// Why the provider cannot be used. No text contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProviderError {
    /// It does not respond, or wrongly.
    #[error("{0}")]
    Failed(String),
    /// It has responded with an error code of OAuth 2.0.
    #[error("the provider responded `{0}`")]
    Rejected(String),
}

/// Endpoints of the discovery document (OpenID Connect Discovery 1.0).
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Discovery {
    issuer: String,
    pub(crate) authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    pub(crate) end_session_endpoint: Option<String>,
    #[serde(default)]
    device_authorization_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    /// RFC 9207.
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
}

/// What is known of a provider.
#[derive(Clone)]
struct Known {
    discovery: Arc<Discovery>,
    keys: Arc<ProviderKeys>,
    at: Instant,
}

/// The provider, as far as it is known.
pub(crate) struct Provider {
    known: Mutex<Option<Known>>,
    requests: Semaphore,
}

impl Default for Provider {
    fn default() -> Self {
        Self { known: Mutex::default(), requests: Semaphore::new(MAX_REQUESTS) }
    }
}

/// Settings of a request.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) settings: Arc<Oidc>,
    /// TLS; `None` if the issuer is an `http` URL.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// What the provider grants for a code.
#[derive(Deserialize)]
struct Granted {
    #[serde(default)]
    id_token: Option<String>,
}

/// The response of an endpoint that has an error.
#[derive(Default, Deserialize)]
struct ErrorCode {
    #[serde(default)]
    error: String,
}

/// The response to the start of a device code (RFC 8628 section 3.2).
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct DeviceCode {
    pub(crate) device_code: String,
    pub(crate) user_code: String,
    pub(crate) verification_uri: String,
    #[serde(default)]
    pub(crate) verification_uri_complete: Option<String>,
    pub(crate) expires_in: u64,
    #[serde(default)]
    pub(crate) interval: Option<u64>,
}

impl Provider {
    /// The discovery document.
    ///
    /// # Errors
    /// The provider cannot be used.
    pub(crate) async fn discovery(&self, to: &Exchange) -> Result<Arc<Discovery>, ProviderError> {
        Ok(self.known(to, FRESH).await?.discovery)
    }

    /// The discovery document, if it is known already.
    pub(crate) fn known_discovery(&self, to: &Exchange) -> Option<Arc<Discovery>> {
        // Nobody waits here for a provider that does not respond.
        let known = self.known.try_lock().ok()?;
        let known = known.as_ref().filter(|known| known.discovery.issuer == to.settings.issuer)?;
        Some(Arc::clone(&known.discovery))
    }

    /// Exchanges a code for the claims of an ID token, and the token.
    ///
    /// # Errors
    /// The provider rejects the code, or its ID token is wrong.
    pub(crate) async fn exchange(
        &self,
        to: &Exchange,
        form: &[(&str, &str)],
        nonce: Option<&str>,
    ) -> Result<(Map<String, Value>, String), ProviderError> {
        let discovery = self.discovery(to).await?;
        let granted: Granted = self.post(to, &discovery, &discovery.token_endpoint, form).await?;
        let id_token = granted.id_token.filter(|token| token.len() <= MAX_ID_TOKEN_BYTES);
        let id_token = id_token
            .ok_or_else(|| ProviderError::Failed("the provider returned no ID token".to_owned()))?;
        let claims = self.verify(to, &id_token, nonce).await?;
        Ok((claims, id_token))
    }

    /// Starts a device code.
    ///
    /// # Errors
    /// The provider has no device codes, or rejects the request.
    pub(crate) async fn start_device(
        &self,
        to: &Exchange,
        scope: &str,
    ) -> Result<DeviceCode, ProviderError> {
        let discovery = self.discovery(to).await?;
        let endpoint = discovery.device_authorization_endpoint.as_ref().ok_or_else(|| {
            ProviderError::Failed("the provider supports no device codes".to_owned())
        })?;
        let form = [("client_id", to.settings.client_id.as_str()), ("scope", scope)];
        self.post(to, &discovery, endpoint, &form).await
    }

    async fn verify(
        &self,
        to: &Exchange,
        id_token: &str,
        nonce: Option<&str>,
    ) -> Result<Map<String, Value>, ProviderError> {
        let (issuer, client) = (&to.settings.issuer, &to.settings.client_id);
        let now = clock::now().as_secs();
        let known = self.known(to, FRESH).await?;
        let mut verified = known.keys.verify(id_token, issuer, client, nonce, now);
        if verified.as_ref().is_err_and(|error| error.is_unknown_key()) {
            // The provider may have changed its keys.
            let known = self.known(to, UNKNOWN_KEY_INTERVAL).await?;
            verified = known.keys.verify(id_token, issuer, client, nonce, now);
        }
        verified.map_err(|error| ProviderError::Failed(error.to_string()))
    }

    /// Discovery document and keys, not older than this.
    async fn known(&self, to: &Exchange, age: Duration) -> Result<Known, ProviderError> {
        // One fetch at a time; others wait for its result.
        let mut known = self.known.lock().await;
        let issuer = &to.settings.issuer;
        if let Some(found) = known.as_ref()
            && found.discovery.issuer == *issuer
            && found.at.elapsed() < age
        {
            return Ok(found.clone());
        }
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let (status, body) = self.send(to, Method::GET, &url, None, None).await?;
        let discovery: Discovery = document(status, &body, "discovery document")?;
        if discovery.issuer != *issuer {
            return Err(ProviderError::Failed(
                "the discovery document is of another issuer".to_owned(),
            ));
        }
        let (status, body) = self.send(to, Method::GET, &discovery.jwks_uri, None, None).await?;
        if status != StatusCode::OK {
            return Err(ProviderError::Failed(format!("the key set has the status {status}")));
        }
        let keys = ProviderKeys::parse(&body).map_err(ProviderError::Failed)?;
        let found = Known { discovery: discovery.into(), keys: keys.into(), at: Instant::now() };
        *known = Some(found.clone());
        Ok(found)
    }

    /// Sends a form with the credential of the client.
    async fn post<T: DeserializeOwned>(
        &self,
        to: &Exchange,
        discovery: &Discovery,
        url: &str,
        form: &[(&str, &str)],
    ) -> Result<T, ProviderError> {
        let Oidc { client_id, client_secret, .. } = &*to.settings;
        let methods = &discovery.token_endpoint_auth_methods_supported;
        let mut form = form.to_vec();
        // RFC 6749 section 2.3.1; `client_secret_basic` is the default of the discovery document.
        let is_basic = methods.is_empty() || methods.iter().any(|one| one == "client_secret_basic");
        let mut basic = None;
        match client_secret {
            Some(secret) if is_basic => {
                basic = Some(format!("{}:{}", encoded(client_id), encoded(secret)))
            }
            Some(secret) => {
                form.extend([("client_id", client_id.as_str()), ("client_secret", secret)])
            }
            None => form.push(("client_id", client_id)),
        }
        let body = encode(&form);
        let (status, body) = self.send(to, Method::POST, url, basic.as_deref(), Some(body)).await?;
        if status.is_client_error() {
            let ErrorCode { error } = serde_json::from_slice(&body).unwrap_or_default();
            let is_code = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            if !error.is_empty() && error.len() <= 64 && error.chars().all(is_code) {
                return Err(ProviderError::Rejected(error));
            }
        }
        document(status, &body, "response")
    }

    async fn send(
        &self,
        to: &Exchange,
        method: Method,
        url: &str,
        basic: Option<&str>,
        form: Option<String>,
    ) -> Result<(StatusCode, Bytes), ProviderError> {
        let failed = |reason: String| ProviderError::Failed(reason);
        let url = endpoint(url, &to.settings.issuer).map_err(failed)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let _permit = self
            .requests
            .try_acquire()
            .map_err(|_| failed("too many requests to the provider; try again".to_owned()))?;
        let request =
            request(&url, method, basic, form).map_err(|error| failed(error.to_string()))?;
        let tls = match url.scheme() {
            "https" => Some(tls(&url, to).map_err(failed)?),
            _ => None,
        };
        let port = url.port_or_known_default().unwrap_or(443);
        let exchanged = async {
            let address = (host.trim_matches(['[', ']']), port);
            let mut connection = Connection::open(address, tls).await.map_err(|e| e.to_string())?;
            let response = connection.send(request).await.map_err(|e| e.to_string())?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
            let body = body.map_err(|e| e.to_string())?.to_bytes();
            Ok((head.status, body))
        };
        let timeout = to.settings.timeout;
        match tokio::time::timeout(timeout, exchanged).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err::<_, String>(error)) => Err(failed(format!("{host}: {error}"))),
            Err(_) => Err(failed(format!("{host}: no response within {timeout:?}"))),
        }
    }
}

/// TLS to an endpoint: `server_name` is in place of the host of the issuer.
fn tls(url: &Url, to: &Exchange) -> Result<Tls, String> {
    let config = to.tls.as_ref().ok_or("the issuer is an `http` URL, and this endpoint is not")?;
    let host = url.host_str().unwrap_or_default();
    let issuer = Url::parse(&to.settings.issuer).ok();
    let is_issuer = issuer.as_ref().and_then(Url::host_str) == Some(host);
    let configured = to.settings.tls.as_ref().and_then(|tls| tls.server_name.clone());
    if let Some(name) = configured.filter(|_| is_issuer) {
        return Ok(Tls { config: Arc::clone(config), name });
    }
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
    let name = name.map_err(|_| format!("`{host}` is no name of a server"))?;
    Ok(Tls { config: Arc::clone(config), name })
}

/// An endpoint of the provider.
fn endpoint(url: &str, issuer: &str) -> Result<Url, String> {
    let parsed = Url::parse(url).map_err(|_| "an endpoint of the provider is no URL".to_owned())?;
    let is_near = match parsed.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let is_plain = parsed.scheme() == "http" && is_near && issuer.starts_with("http://");
    if (parsed.scheme() != "https" && !is_plain) || parsed.host().is_none() {
        return Err("an endpoint of the provider is no `https` URL".to_owned());
    }
    Ok(parsed)
}

/// A browser is sent there: the same rules as for requests of weir.
pub(crate) fn browser_url(
    url: &str,
    issuer: &str,
    query: &[(&str, &str)],
) -> Result<String, ProviderError> {
    let mut url = endpoint(url, issuer).map_err(ProviderError::Failed)?;
    url.query_pairs_mut().extend_pairs(query);
    Ok(url.into())
}

fn request(
    url: &Url,
    method: Method,
    basic: Option<&str>,
    form: Option<String>,
) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let mut request = Request::builder()
        .method(method)
        .uri(target)
        .header(header::HOST, authority)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")));
    if let Some(pair) = basic {
        use base64::Engine;
        let value = base64::engine::general_purpose::STANDARD.encode(pair);
        request = request.header(header::AUTHORIZATION, format!("Basic {value}"));
    }
    if form.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    }
    request.body(Full::new(form.unwrap_or_default().into()))
}

fn document<T: DeserializeOwned>(
    status: StatusCode,
    body: &[u8],
    what: &str,
) -> Result<T, ProviderError> {
    if status != StatusCode::OK {
        return Err(ProviderError::Failed(format!(
            "the {what} has the status {}",
            status.as_u16()
        )));
    }
    // The text may contain tokens: only the place of the error is told.
    serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        ProviderError::Failed(format!("the {what} cannot be read: line {line}, column {column}"))
    })
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn encode(form: &[(&str, &str)]) -> String {
    let pairs = form.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_https_or_on_this_machine_as_the_issuer() {
        let (far, near) = ("https://login.example.com", "http://127.0.0.1:1");
        assert!(endpoint("https://keys.example.com/a?b=c", far).is_ok());
        assert!(endpoint("http://127.0.0.1:7/token", near).is_ok());
        assert!(endpoint("http://[::1]:7/token", near).is_ok());
        for (url, issuer) in [
            ("http://127.0.0.1:7/token", far),
            ("http://169.254.169.254/latest", near),
            ("http://keys.example.com/", far),
            ("file:///etc/passwd", far),
            ("javascript:alert(1)", far),
            ("/token", far),
        ] {
            assert!(endpoint(url, issuer).is_err(), "{url} of {issuer}");
        }
    }

    #[test]
    fn secrets_are_form_encoded() {
        assert_eq!(encode(&[("a", "b c&d"), ("e", "f")]), "a=b%20c%26d&e=f");
        let url = browser_url("https://a/x?y=1", "https://a", &[("q", "a b&c")]).unwrap();
        assert_eq!(url, "https://a/x?y=1&q=a+b%26c");
    }
}
