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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
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
/// Longest subject of an account in bytes.
const MAX_SUBJECT_BYTES: usize = 255;
/// Requests at a time; further ones fail at once.
const MAX_REQUESTS: usize = 8;
/// Time for which discovery document and keys are used.
const FRESH: Duration = Duration::from_secs(600);
/// Time for which they are used while they cannot be fetched again.
const MAX_STALE: Duration = Duration::from_secs(3600);
/// Time for which the provider is not asked again after a failure.
const FAILURE_INTERVAL: Duration = Duration::from_secs(5);
/// Sign-ins that wait for a fetch; further ones fail at once.
const MAX_WAITERS: usize = 32;
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
    known: Mutex<Cache>,
    /// Held by the one who fetches.
    fetch: AsyncMutex<()>,
    waiters: Semaphore,
    requests: Semaphore,
}

/// The last results.
#[derive(Default)]
struct Cache {
    found: Option<Known>,
    /// The last failure, if nothing was found since: of this issuer, at this time.
    failed: Option<(String, ProviderError, Instant)>,
}

impl Cache {
    /// What is known, not older than this.
    fn found(&self, issuer: &str, age: Duration) -> Option<Known> {
        let found = self.found.as_ref().filter(|known| known.discovery.issuer == issuer)?;
        (found.at.elapsed() < age).then(|| found.clone())
    }

    /// The failure of the last fetch, if it is too early for another one.
    fn failed(&self, issuer: &str) -> Option<ProviderError> {
        let (of, error, at) = self.failed.as_ref()?;
        (of == issuer && at.elapsed() < FAILURE_INTERVAL).then(|| error.clone())
    }
}

impl Default for Provider {
    fn default() -> Self {
        let (known, fetch) = (Mutex::default(), AsyncMutex::default());
        let (waiters, requests) = (Semaphore::new(MAX_WAITERS), Semaphore::new(MAX_REQUESTS));
        Self { known, fetch, waiters, requests }
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
        Some(self.cache().found(&to.settings.issuer, Duration::MAX)?.discovery)
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
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        // OpenID Connect Core 1.0 section 2: at most 255 characters of ASCII. It is the id in the audit log.
        let is_subject = subject.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !is_subject || !(1..=MAX_SUBJECT_BYTES).contains(&subject.len()) {
            let error = "the subject of the ID token is no line of 1 to 255 characters of ASCII";
            return Err(ProviderError::Failed(error.to_owned()));
        }
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

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Discovery document and keys, not older than this. While they cannot be fetched, or another sign-in
    /// fetches them, older ones are good enough, except for an unknown key.
    async fn known(&self, to: &Exchange, age: Duration) -> Result<Known, ProviderError> {
        let issuer = &to.settings.issuer;
        let old = |cache: &Cache| cache.found(issuer, MAX_STALE).filter(|_| age == FRESH);
        let (stale, failed) = {
            let cache = self.cache();
            if let Some(found) = cache.found(issuer, age) {
                return Ok(found);
            }
            (old(&cache), cache.failed(issuer))
        };
        if let Some(error) = failed {
            return stale.ok_or(error);
        }
        let _fetch = match (self.fetch.try_lock(), stale) {
            (Ok(fetch), _) => fetch,
            (Err(_), Some(stale)) => return Ok(stale),
            (Err(_), None) => {
                let busy = |text: &str| ProviderError::Failed(text.to_owned());
                let waiter = self.waiters.try_acquire();
                let _waiter = waiter.map_err(|_| busy("too many sign-ins wait; try again"))?;
                let fetch = tokio::time::timeout(to.settings.timeout, self.fetch.lock()).await;
                let fetch = fetch.map_err(|_| busy("the provider has not responded yet"))?;
                // Somebody else has just asked.
                let cache = self.cache();
                if let Some(found) = cache.found(issuer, age) {
                    return Ok(found);
                }
                if let Some(error) = cache.failed(issuer) {
                    return Err(error);
                }
                drop(cache);
                fetch
            }
        };
        let fetched = self.fetch(to).await;
        let mut cache = self.cache();
        match fetched {
            Ok(found) => {
                *cache = Cache { found: Some(found.clone()), failed: None };
                Ok(found)
            }
            Err(error) => {
                cache.failed = Some((issuer.clone(), error.clone(), Instant::now()));
                old(&cache).ok_or(error)
            }
        }
    }

    /// Fetches discovery document and keys.
    async fn fetch(&self, to: &Exchange) -> Result<Known, ProviderError> {
        let issuer = &to.settings.issuer;
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
        Ok(Known { discovery: discovery.into(), keys: keys.into(), at: Instant::now() })
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

    /// The key of RFC 7515, appendix A.3.
    const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"a","alg":"ES256",
        "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

    /// A provider that closes every connection, and the number of those.
    async fn failing() -> (Exchange, Arc<std::sync::atomic::AtomicUsize>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let seen = Arc::clone(&count);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        });
        let text = format!(
            "admin: {{oidc: {{issuer: \"{issuer}\", client_id: weir, roles: [{{group: a}}]}}}}\n"
        );
        let loaded = weir_gateway::configuration::load_text("weir.yaml", &text);
        let settings = loaded.map_err(|found| format!("{found:?}")).unwrap().config.admin.oidc;
        (Exchange { settings: Arc::new(*settings.unwrap()), tls: None }, count)
    }

    #[tokio::test]
    async fn a_provider_that_fails_is_not_asked_by_everybody() {
        let (to, count) = failing().await;
        let provider = Provider::default();
        let first = provider.discovery(&to).await.unwrap_err();
        for _ in 0..20 {
            assert_eq!(provider.discovery(&to).await.unwrap_err(), first);
        }
        assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 1);
        let (_, error, at) = provider.cache().failed.clone().unwrap();
        let then = at - FAILURE_INTERVAL;
        provider.cache().failed = Some((to.settings.issuer.clone(), error, then));
        assert!(provider.discovery(&to).await.is_err());
        assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 2, "after a while it is");
    }

    #[tokio::test]
    async fn what_is_known_is_used_while_the_provider_fails() {
        let (to, _) = failing().await;
        let provider = Provider::default();
        let known = |age: Duration| {
            let document = serde_json::json!({
                "issuer": to.settings.issuer,
                "authorization_endpoint": "http://127.0.0.1/a",
                "token_endpoint": "http://127.0.0.1/t",
                "jwks_uri": "http://127.0.0.1/k",
            });
            let discovery: Discovery = serde_json::from_value(document).unwrap();
            let keys = ProviderKeys::parse(KEYS.as_bytes()).unwrap();
            let at = Instant::now() - age;
            *provider.cache() = Cache {
                found: Some(Known { discovery: discovery.into(), keys: keys.into(), at }),
                failed: None,
            };
        };
        known(FRESH);
        assert!(provider.discovery(&to).await.is_ok(), "the fetch fails");
        assert!(provider.discovery(&to).await.is_ok(), "and is not repeated");
        known(FRESH);
        let fetch = provider.fetch.lock().await;
        assert!(provider.discovery(&to).await.is_ok(), "somebody else fetches");
        drop(fetch);
        assert!(provider.known(&to, UNKNOWN_KEY_INTERVAL).await.is_err(), "for an unknown key");
        known(MAX_STALE);
        assert!(provider.discovery(&to).await.is_err(), "not for ever");
    }
}
