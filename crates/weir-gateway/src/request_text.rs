//! A request written by an operator: its listener and its head.

use std::net::{IpAddr, SocketAddr};
use weir_config::{Config, Listener};
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_wire::{HeadLimits, RequestHead, Scan};

/// A request as a client would send it over HTTP/1.1.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RequestText {
    /// Method.
    pub method: String,
    /// Path and query, or a URL, which also determines host and listener.
    pub target: String,
    /// Header lines. Framing headers are replaced by those of the given body.
    pub headers: Vec<(String, String)>,
    /// The entire body; empty: none.
    pub body: Vec<u8>,
    /// Address or port of the listener; default: by the URL, else the first listener.
    pub listener: Option<String>,
    /// Address of the client; default: this machine.
    pub client: Option<IpAddr>,
}

impl std::fmt::Debug for RequestText {
    /// Neither query nor headers nor body.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestText").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Reason why a request cannot be explained or tested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestTextError {
    /// A method, target or header contains a line break or NUL, so it cannot be sent.
    #[error("{0} contains a line break or NUL")]
    Unwritable(String),
    /// The target is neither a path nor a URL with http or https.
    #[error("the target must be a path that begins with / or an http or https URL")]
    Target,
    /// The listener does not exist.
    #[error("no listener has the address or port {requested}; listeners: {known}")]
    Listener {
        /// The requested listener.
        requested: String,
        /// The configured listeners.
        known: String,
    },
    /// No listener is configured.
    #[error("the configuration has no listener")]
    NoListener,
    /// Too many concurrent requests.
    #[error("too many concurrent explain requests")]
    Busy,
    /// The request timed out, or weir is stopping.
    #[error("explain timed out")]
    TimedOut,
}

/// The listener and the head of a request.
pub struct Ingress {
    /// Index of the listener.
    pub listener: usize,
    /// Whether the request arrives over TLS.
    pub https: bool,
    /// The authority that the client would connect to.
    authority: String,
    /// Path and query.
    target: String,
    /// Address of the listener.
    pub address: SocketAddr,
    /// Reason for this listener.
    pub why: &'static str,
}

impl Ingress {
    /// By `listener`, else by the URL, else the first listener.
    pub fn of(config: &Config, ask: &RequestText) -> Result<Self, RequestTextError> {
        let url = Url::of(&ask.target)?;
        let (listener, why) = choose(config, ask, &url)?;
        let found = &config.listen[listener];
        let (address, https) = (found.addr, found.tls.is_some());
        let authority = url.authority.map_or_else(|| address.to_string(), str::to_owned);
        let target = url.target.to_owned();
        Ok(Self { listener, https, authority, target, address, why })
    }

    /// The head in HTTP/1.1 syntax.
    pub fn head(&self, ask: &RequestText) -> Result<Vec<u8>, RequestTextError> {
        let mut head = String::new();
        head.push_str(written("the method", &ask.method)?);
        head.push(' ');
        head.push_str(written("the target", &self.target)?);
        head.push_str(" HTTP/1.1\r\n");
        let named = |name: &str| ask.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !named("host") {
            head.push_str(&format!("host: {}\r\n", written("the host", &self.authority)?));
        }
        for (name, value) in &ask.headers {
            let framing = ["content-length", "transfer-encoding"];
            if !framing.iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
                let name = written("the name of a header", name)?;
                head.push_str(&format!("{name}: {}\r\n", written(name, value)?));
            }
        }
        if !ask.body.is_empty() || named("content-length") {
            head.push_str(&format!("content-length: {}\r\n", ask.body.len()));
        }
        head.push_str("\r\n");
        Ok(head.into_bytes())
    }
}

/// Parses a head. Returns the rejection if it is invalid; the request is empty in this case.
pub fn read_head(request: &mut RequestHead, head: &[u8], limits: &HeadLimits) -> Option<Rejection> {
    let rejection = match request.parse(head, &mut Scan::new(), limits) {
        Ok(Some(_)) => return None,
        Ok(None) => Rejection::new(Problem::BadRequest),
        Err(error) => Rejection::from(error),
    };
    request.clear();
    request.set_line("", "", "");
    Some(rejection)
}

/// Checks that a text contains no line break or NUL.
fn written<'t>(what: &str, text: &'t str) -> Result<&'t str, RequestTextError> {
    if text.contains(['\r', '\n', '\0']) {
        return Err(RequestTextError::Unwritable(what.to_owned()));
    }
    Ok(text)
}

/// The parts of a target.
struct Url<'u> {
    /// `None` for a path.
    https: Option<bool>,
    authority: Option<&'u str>,
    target: &'u str,
}

impl<'u> Url<'u> {
    fn of(text: &'u str) -> Result<Self, RequestTextError> {
        // Clients send no fragment.
        let text = text.split('#').next().unwrap_or_default();
        let (https, rest) = match (text.get(..7), text.get(..8)) {
            (Some(scheme), _) if scheme.eq_ignore_ascii_case("http://") => (false, &text[7..]),
            (_, Some(scheme)) if scheme.eq_ignore_ascii_case("https://") => (true, &text[8..]),
            _ if text.starts_with('/') || text == "*" => {
                return Ok(Self { https: None, authority: None, target: text });
            }
            _ => return Err(RequestTextError::Target),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        // User information is not part of `Host`.
        let authority = authority.rsplit('@').next().unwrap_or_default();
        if authority.is_empty() || target.starts_with('?') {
            return Err(RequestTextError::Target);
        }
        let target = if target.is_empty() { "/" } else { target };
        Ok(Self { https: Some(https), authority: Some(authority), target })
    }

    fn port(&self) -> Option<u16> {
        let https = self.https?;
        let port = self.authority?.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Some(port.unwrap_or(if https { 443 } else { 80 }))
    }
}

fn choose(
    config: &Config,
    ask: &RequestText,
    url: &Url<'_>,
) -> Result<(usize, &'static str), RequestTextError> {
    let find = |fits: &dyn Fn(&Listener) -> bool| config.listen.iter().position(fits);
    if config.listen.is_empty() {
        return Err(RequestTextError::NoListener);
    }
    if let Some(requested) = &ask.listener {
        let found =
            find(&|l| l.addr.to_string() == *requested || l.addr.port().to_string() == *requested);
        return found.map(|at| (at, "selected in the request")).ok_or_else(|| {
            let known: Vec<_> = config.listen.iter().map(|l| l.addr.to_string()).collect();
            RequestTextError::Listener { requested: requested.clone(), known: known.join(", ") }
        });
    }
    let Some(https) = url.https else { return Ok((0, "first listener; none selected")) };
    let same = |l: &Listener| l.tls.is_some() == https;
    if let Some(at) = find(&|l| same(l) && Some(l.addr.port()) == url.port()) {
        return Ok((at, "scheme and port of the URL"));
    }
    match find(&same) {
        Some(at) => Ok((at, "scheme of the URL; no listener has the port")),
        None => Ok((0, "first listener; none has the scheme of the URL")),
    }
}
