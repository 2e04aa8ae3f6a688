//! Authentication of requests: Basic in advance, and answers to the challenges of a response by Digest or
//! Basic (RFC 7616, RFC 7617), as JMeter's HTTP client gives them.

use super::event_loop::Loop;
use super::plan::PreparedRequest;
use super::request_error::RequestError;
use super::send::{Destination, ExchangeTotals, sent_message};
use super::user::User;
use crate::charset::Charset;
use crate::program::{Body, Credentials, Origin, Scope, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::collections::BTreeMap;
use weir_wire::{Headers, Method};

/// Most answers for a request. A server asks again if its nonce has expired.
const MAX_ANSWERS: usize = 5;

/// `Authorization` of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Authorization<'a> {
    /// Basic credentials, before a server asks for them.
    #[default]
    Preemptive,
    /// An answer to a challenge; `None` if the challenge cannot be answered.
    Answer(Option<&'a str>),
}

/// User and password for a server.
struct Account {
    user: String,
    password: String,
    /// Only for this realm, unless empty.
    realm: String,
    /// Basic credentials are sent before a server asks for them.
    is_preemptive: bool,
}

/// A challenge: the parameters of its scheme, with names in lower case.
type Parameters = BTreeMap<String, String>;

/// A scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Basic,
    Digest,
}

/// What a digest is about.
#[derive(Clone, Copy)]
struct Message<'m> {
    method: &'m str,
    uri: &'m str,
    /// The body, if the method may have one.
    body: Option<&'m [u8]>,
}

/// `Authorization` in advance for a URL.
pub(super) fn preemptive(
    credentials: &[Credentials],
    destination: (&Origin, &str),
    scope: &mut Scope<'_>,
) -> Option<String> {
    let account = account(credentials, destination, scope)?;
    account.is_preemptive.then(|| basic(&account))
}

/// The account for a URL: the first one counts.
fn account(
    credentials: &[Credentials],
    (origin, target): (&Origin, &str),
    scope: &mut Scope<'_>,
) -> Option<Account> {
    let url = origin.url(target);
    // JMeter compares with and without the default port of the scheme.
    let with_port = format!("{}://{}:{}{target}", origin.scheme(), origin.host, origin.port);
    let found = credentials.iter().find(|credentials| {
        let start = credentials.url.render(scope);
        url.starts_with(&*start) || with_port.starts_with(&*start)
    })?;
    Some(Account {
        user: found.user.render(scope).into_owned(),
        password: found.password.render(scope).into_owned(),
        realm: found.realm.render(scope).into_owned(),
        is_preemptive: found.is_preemptive,
    })
}

/// Text as Java encodes it in ASCII.
fn ascii(text: &str) -> Cow<'_, str> {
    match text.is_ascii() {
        true => Cow::Borrowed(text),
        false => text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect(),
    }
}

fn basic(account: &Account) -> String {
    let pair = format!("{}:{}", account.user, account.password);
    format!("Basic {}", STANDARD.encode(&*ascii(&pair)))
}

/// Challenges by their schemes; of several with the same scheme the last one counts.
fn challenges(headers: &Headers) -> [Option<Parameters>; 2] {
    let mut found = [None, None];
    for value in headers.get_all("www-authenticate") {
        let text = String::from_utf8_lossy(value);
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let at = match scheme {
            _ if scheme.eq_ignore_ascii_case("basic") => Scheme::Basic,
            _ if scheme.eq_ignore_ascii_case("digest") => Scheme::Digest,
            _ => continue,
        };
        found[at as usize] = Some(parameters(rest));
    }
    found
}

/// `name=value, name="quoted \" value"`.
fn parameters(text: &str) -> Parameters {
    let (mut all, mut rest) = (Parameters::new(), text);
    while let Some((name, behind)) = rest.split_once('=') {
        let behind = behind.trim_start();
        let mut value = String::new();
        match behind.strip_prefix('"') {
            None => {
                let end = behind.find(',').unwrap_or(behind.len());
                value.push_str(behind[..end].trim());
                rest = &behind[end..];
            }
            Some(quoted) => {
                let (mut escaped, mut end) = (false, quoted.len());
                for (at, character) in quoted.char_indices() {
                    match character {
                        '\\' if !escaped => escaped = true,
                        '"' if !escaped => {
                            end = at + 1;
                            break;
                        }
                        other => {
                            escaped = false;
                            value.push(other);
                        }
                    }
                }
                rest = &quoted[end..];
            }
        }
        all.insert(name.trim_matches([' ', '\t', ',']).to_ascii_lowercase(), value);
    }
    all
}

/// `Authorization` with a digest; `None` if the challenge is not complete or needs something unknown.
fn digested(
    challenge: &Parameters,
    account: &Account,
    message: Message<'_>,
    client_nonce: &str,
) -> Option<String> {
    let get = |name: &str| challenge.get(name).map(String::as_str);
    let (realm, nonce) = (get("realm")?, get("nonce")?);
    let algorithm = get("algorithm").unwrap_or("MD5");
    let has_session = algorithm.eq_ignore_ascii_case("MD5-sess");
    let charset = match get("charset") {
        None => None,
        Some(name) => Some(Charset::named(name).ok()?),
    };
    let hash = |text: &str| {
        let bytes = match charset {
            None => Cow::Owned(ascii(text).into_owned().into_bytes()),
            Some(charset) => charset.encode(text),
        };
        digest(if has_session { "MD5" } else { algorithm }, &bytes)
    };
    let quality = match get("qop") {
        None => None,
        Some(offered) => {
            let offers =
                |name: &str| offered.split(',').any(|o| o.trim().eq_ignore_ascii_case(name));
            match message.body {
                Some(_) if offers("auth-int") => Some("auth-int"),
                _ if offers("auth") => Some("auth"),
                _ => return None,
            }
        }
    };
    let (user, Message { method, uri, body }) = (&account.user, message);
    let mut secret = format!("{user}:{realm}:{}", account.password);
    if has_session {
        secret = format!("{}:{nonce}:{client_nonce}", hash(&secret)?);
    }
    let request = match (quality, body) {
        (Some("auth-int"), Some(body)) => {
            format!("{method}:{uri}:{}", digest(if has_session { "MD5" } else { algorithm }, body)?)
        }
        _ => format!("{method}:{uri}"),
    };
    let (secret, request) = (hash(&secret)?, hash(&request)?);
    // A nonce is used for one request only.
    let count = "00000001";
    let response = match quality {
        None => hash(&format!("{secret}:{nonce}:{request}"))?,
        Some(q) => hash(&format!("{secret}:{nonce}:{count}:{client_nonce}:{q}:{request}"))?,
    };
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut fields = vec![
        format!("username={}", quoted(&ascii(user))),
        format!("realm={}", quoted(realm)),
        format!("nonce={}", quoted(nonce)),
        format!("uri={}", quoted(uri)),
        format!("response={}", quoted(&response)),
    ];
    if let Some(quality) = quality {
        fields.push(format!("qop={quality}"));
        fields.push(format!("nc={count}"));
        fields.push(format!("cnonce={}", quoted(client_nonce)));
    }
    fields.push(format!("algorithm={algorithm}"));
    fields.extend(get("opaque").map(|opaque| format!("opaque={}", quoted(opaque))));
    Some(format!("Digest {}", fields.join(", ")))
}

/// The answer to challenges: its scheme and `Authorization`. `None` if another request would not succeed;
/// as in JMeter, a challenge that cannot be answered is followed by a request without an answer.
fn answer(
    challenges: &[Option<Parameters>; 2],
    sent: Option<Scheme>,
    account: &Account,
    message: Message<'_>,
    client_nonce: &str,
) -> Option<(Scheme, Option<String>)> {
    let of = |scheme: Scheme| challenges[scheme as usize].as_ref();
    if let Some(challenge) = sent.and_then(of) {
        let is_stale = challenge.get("stale").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        if sent == Some(Scheme::Basic) || !is_stale {
            return None;
        }
    }
    let is_meant = |challenge: &&Parameters| {
        account.realm.is_empty() || challenge.get("realm") == Some(&account.realm)
    };
    let digest = of(Scheme::Digest).filter(is_meant).filter(|challenge| !challenge.is_empty());
    let by_digest = digest.and_then(|c| digested(c, account, message, client_nonce));
    match (by_digest, of(Scheme::Basic).filter(is_meant)) {
        (Some(value), _) => Some((Scheme::Digest, Some(value))),
        (None, Some(_)) => Some((Scheme::Basic, Some(basic(account)))),
        (None, None) => digest.map(|_| (Scheme::Digest, None)),
    }
}

impl User {
    /// Answers the challenges of a response with status 401 by further requests, of which the last one
    /// counts. `before` are the figures without the first one: received, sent, of the body.
    pub(super) async fn authenticate<'p>(
        &mut self,
        events: &Loop,
        prepared: &'p PreparedRequest,
        mut destination: Destination<'p>,
        (sum, before): (&mut ExchangeTotals, (u64, u64, u64)),
    ) -> Result<Destination<'p>, RequestError> {
        let credentials = &prepared.request.client.credentials;
        let (origin, target) = destination.origin_and_target();
        let (origin, target) = (origin.clone(), target.to_owned());
        let Some(account) = account(credentials, (&origin, &target), &mut self.scope()) else {
            return Ok(destination);
        };
        let redirected = destination.method(prepared) != prepared.method;
        let uri = match prepared.request.client.proxy {
            Some(_) if !origin.tls => origin.url(&target),
            _ => target.clone(),
        };
        let number = self.body.wrapping_sub(1);
        let mut sent = account.is_preemptive.then_some(Scheme::Basic);
        for _ in 0..MAX_ANSWERS {
            let client_nonce = format!("{:016x}", self.values.random().u64(..));
            let all = challenges(self.captured.headers());
            let last = sent_message((&self.message, sum.url.is_some()), self.body, prepared);
            let is_safe = matches!(
                destination.method(prepared),
                Method::Get | Method::Head | Method::Options | Method::Trace
            );
            let has_body = !redirected && !matches!(prepared.request.body, Body::None);
            let message = Message {
                method: if redirected { "GET" } else { &prepared.request.method },
                uri: &uri,
                body: (!is_safe || has_body).then(|| last.body()),
            };
            let answer = answer(&all, sent, &account, message, &client_nonce);
            let Some((scheme, value)) = answer else { break };
            sent = Some(scheme);
            let authorization = Authorization::Answer(value.as_deref());
            let place = (origin.clone(), target.clone());
            destination = self.build_with(prepared, place, (number, redirected), authorization)?;
            (sum.received, sum.sent, sum.body) = before;
            self.exchange(events, prepared, &destination, sum).await?;
            if sum.status != 401 {
                break;
            }
        }
        Ok(destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        let text = |text: &str| text.to_owned();
        Account {
            user: text("Mufasa"),
            password: text("Circle of Life"),
            realm: String::new(),
            is_preemptive: false,
        }
    }

    const GET: Message<'_> = Message { method: "GET", uri: "/dir/index.html", body: None };

    fn response(challenge: &str, message: Message<'_>) -> Option<String> {
        let account = Account {
            password: if challenge.contains("http-auth") {
                "Circle of Life"
            } else {
                "Circle Of Life"
            }
            .to_owned(),
            ..account()
        };
        let nonce = if challenge.contains("http-auth") {
            "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
        } else {
            "0a4f113b"
        };
        let value = digested(&parameters(challenge), &account, message, nonce)?;
        Some(parameters(value.strip_prefix("Digest ")?).get("response")?.clone())
    }

    #[test]
    fn digests_are_those_of_the_specifications() {
        // RFC 2617, section 3.5.
        let old = "realm=\"testrealm@host.com\", qop=\"auth,auth-int\", \
                   nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
        assert_eq!(response(old, GET).as_deref(), Some("6629fae49393a05397450978507c4ef1"));
        // RFC 7616, section 3.9.1.
        let new = "realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=SHA-256, \
                   nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\"";
        assert_eq!(
            response(new, GET).as_deref(),
            Some("753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1")
        );
        let md5 = new.replace("SHA-256", "MD5");
        assert_eq!(response(&md5, GET).as_deref(), Some("8ca523f5e9506fed4657c9700eebdbec"));
        let with_body = Message { method: "POST", body: Some(b"x"), ..GET };
        assert_ne!(response(old, with_body), response(old, Message { body: None, ..with_body }));
    }

    #[test]
    fn incomplete_and_unknown_challenges_have_no_digest() {
        for challenge in [
            "",
            "realm=\"r\"",
            "nonce=\"n\"",
            "realm=\"r\", nonce=\"n\", algorithm=SHA-9",
            "realm=\"r\", nonce=\"n\", qop=\"other\"",
            "realm=\"r\", nonce=\"unterminated",
        ] {
            let is_complete = challenge.contains("unterminated");
            assert_eq!(response(challenge, GET).is_some(), is_complete, "{challenge}");
        }
        let parsed = parameters("Realm=\"a \\\" b, c\" , nonce = x,stale=TRUE");
        let expected = [("nonce", "x"), ("realm", "a \" b, c"), ("stale", "TRUE")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parsed, Parameters::from(expected));
    }

    #[test]
    fn a_scheme_that_was_rejected_is_not_used_again() {
        let own = account();
        let digest = || Some(parameters("realm=\"r\", nonce=\"n\""));
        let answered = |challenges: &[Option<Parameters>; 2], sent: Option<Scheme>| {
            answer(challenges, sent, &own, GET, "c")
                .map(|(scheme, value)| (scheme, value.is_some()))
        };
        let both = [Some(parameters("realm=\"r\"")), digest()];
        assert_eq!(answered(&both, None), Some((Scheme::Digest, true)));
        assert_eq!(answered(&both, Some(Scheme::Basic)), None);
        assert_eq!(answered(&[None, digest()], Some(Scheme::Basic)), Some((Scheme::Digest, true)));
        assert_eq!(answered(&[None, digest()], Some(Scheme::Digest)), None);
        let stale = Some(parameters("realm=\"r\", nonce=\"n\", stale=true"));
        assert_eq!(answered(&[None, stale], Some(Scheme::Digest)), Some((Scheme::Digest, true)));
        let unknown = [None, Some(parameters("realm=\"r\""))];
        assert_eq!(answered(&unknown, None), Some((Scheme::Digest, false)));
        assert_eq!(answered(&[None, None], None), None);
        let other = Account { realm: "other".to_owned(), ..account() };
        assert_eq!(answer(&both, None, &other, GET, "c"), None);
    }
}
