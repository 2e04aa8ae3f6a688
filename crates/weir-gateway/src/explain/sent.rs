//! The request to an upstream, an agent or a script.

use super::text_of;
use crate::context::Context;
use crate::explanation::{Pair, Part, Sent, Trace};
use crate::handler::{self, HandlerInput, Outline};
use crate::site::Site;
use weir_config::{Call, Handler, QueryMode, Route};
use weir_document::secret_names::names_credential;
use weir_http::body::RequestBody;
use weir_http::headers;
use weir_http::path;
use weir_http::rejection::Rejection;
use weir_script::Fetch;
use weir_wire::{Framing, RequestHead};

/// Replaces a redacted value.
const MASKED: &str = "***";

/// Notes the request that the handler of a route would send; `false` if weir itself responds.
///
/// # Errors
/// The handler rejects the request before it sends anything.
pub(super) async fn outline(
    input: &mut HandlerInput<'_>,
    body: &RequestBody<'_>,
    trace: &mut Trace,
) -> Result<bool, Rejection> {
    let Context { live, route, .. } = input.context;
    let site = &*live.site;
    let bytes = body.data().to_vec();
    let copy = match body.framing() {
        Framing::None => RequestBody::empty(),
        _ => RequestBody::buffered(bytes.clone()),
    };
    let mut outlined = Vec::new();
    let sent = match handler::outline(input, copy).await? {
        Outline::Local => None,
        Outline::Upstream(id, head, first) => {
            let settings = &site.config.upstreams[id.0];
            let credential = settings.credential.as_ref().map(|c| c.header.as_str());
            let (line, headers) = of_head(site, route, &head, credential);
            let rest = settings.targets.iter().map(|target| target.name().to_owned());
            let rest = rest.filter(|name| *name != first);
            let targets = std::iter::once(first.clone()).chain(rest).collect();
            let (to, name) = ("upstream".to_owned(), settings.name.clone());
            Some(Sent { to, name, targets, line, headers, body: None })
        }
        Outline::Whole(to, name) => Some(whole(site, input.request, route, to, name)),
        Outline::Calls(fetches) => {
            if let Handler::Calls(calls) = &route.handler {
                outlined = of_calls(site, calls, &fetches);
            }
            None
        }
    };
    let is_outlined = sent.is_some() || !outlined.is_empty();
    let body = (!bytes.is_empty()).then(|| text_of(&bytes));
    trace.sent = sent.map(|sent| Sent { body, ..sent });
    trace.calls = outlined;
    trace.body = bytes;
    Ok(is_outlined)
}

/// The request as it would be sent.
fn whole(site: &Site, request: &RequestHead, route: &Route, to: &str, name: String) -> Sent {
    let target = shown_target(site, None, request.target());
    let headers = request
        .headers
        .iter()
        .map(|(_, name, value)| shown(site, route, name, &headers::text(value), None));
    Sent {
        to: to.to_owned(),
        name,
        line: format!("{} {target}", request.method_name()),
        headers: headers.collect(),
        ..Sent::default()
    }
}

/// The request line and the header lines of a head that would be sent.
fn of_head(
    site: &Site,
    route: &Route,
    head: &[u8],
    credential: Option<&str>,
) -> (String, Vec<Pair>) {
    let text = headers::text(head);
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let line = format!("{method} {}", shown_target(site, Some(&route.handler), target));
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| shown(site, route, name, value.trim(), credential));
    (line, headers.collect())
}

/// A header line after redaction.
fn shown(site: &Site, route: &Route, name: &str, value: &str, credential: Option<&str>) -> Pair {
    let config = &site.config;
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let masked = config.is_credential_header(name)
        || credential.is_some_and(is)
        || config.tracker.masked_headers.iter().any(|masked| is(masked))
        || is_set_secret(route, name);
    let value = match masked {
        true => MASKED.to_owned(),
        false => masked_urls(site, value),
    };
    Pair { name: name.to_ascii_lowercase(), value }
}

/// A value without the query credentials in the URLs that it holds.
pub(super) fn masked_urls(site: &Site, value: &str) -> String {
    let value = site.redaction.value(value.as_bytes());
    String::from_utf8_lossy(&value).into_owned()
}

/// Whether the configuration sets this header, and the name suggests a secret.
fn is_set_secret(route: &Route, name: &str) -> bool {
    let mut edits = vec![&route.request_headers];
    if let Handler::Proxy(proxy) = &route.handler {
        edits.push(&proxy.headers);
    }
    edits.iter().flat_map(|edits| &edits.set).any(|(set, _)| set.eq_ignore_ascii_case(name))
        && names_credential(name)
}

/// A target after redaction: without masked parameters, parameters set by the configuration, and
/// parameters whose name suggests a credential or a signature.
fn shown_target(site: &Site, handler: Option<&Handler>, target: &str) -> String {
    let target = site.redaction.target(target);
    let Some((path, query)) = target.split_once('?') else { return target.into_owned() };
    let set: &[(String, String)] = match handler {
        Some(Handler::Proxy(proxy)) => match &proxy.query {
            QueryMode::Edit { set, .. } => set,
            QueryMode::Keep | QueryMode::Drop => &[],
        },
        _ => &[],
    };
    let mut shown = format!("{path}?");
    for (index, part) in query.split('&').enumerate() {
        if index > 0 {
            shown.push('&');
        }
        let name = part.split('=').next().unwrap_or_default();
        let decoded = path::decode_query(name);
        if names_credential(&decoded) || set.iter().any(|(set, _)| *set == decoded) {
            shown.push_str(name);
            shown.push('=');
            shown.push_str(MASKED);
        } else {
            shown.push_str(part);
        }
    }
    shown
}

/// A description of each call, which is not sent.
fn of_calls(site: &Site, calls: &[Call], fetches: &[Fetch]) -> Vec<Part> {
    let part = |(call, fetch): (&Call, &Fetch)| {
        let target = shown_target(site, None, &fetch.target);
        let name = format!("{}: {} {target} of {}", call.name, fetch.method, fetch.upstream);
        let time = call.timeout.map(|time| format!("at most {time:?}"));
        let else_ = match call.fallback {
            Some(_) => "with fallback",
            None => "required: no fallback",
        };
        let why = time.into_iter().chain([else_.to_owned()]).collect::<Vec<_>>().join(", ");
        Part::new(name, "later", why)
    };
    calls.iter().zip(fetches).map(part).collect()
}
