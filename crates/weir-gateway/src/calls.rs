//! The `calls` handler: several upstreams are asked at once, and what they answer is one answer.
//!
//! Each call is a request of weir's own, as those of scripts are: whole when it is sent, its answer
//! whole when it is used. They are polled in the task of the client's request, so that they end with it.

use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::fetch;
use crate::headers::text;
use crate::path;
use crate::problem::Problem;
use crate::proxy::fill;
use crate::rejection::Rejection;
use crate::response_body::ResponseBody;
use crate::transaction_id::TransactionId;
use crate::transform::{self, Source};
use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use weir_config::{Call, Given, Route};
use weir_script::{Annotation, Fetch, FetchedResponse};

/// Header that names the calls whose fallback stands in their place.
const FALLBACK: &str = "weir-fallback";

type Asking<'c> = Pin<Box<dyn Future<Output = Result<FetchedResponse, Rejection>> + 'c>>;

/// What has come of a call.
enum Came {
    /// A JSON value that stands for it.
    Value(Vec<u8>),
    /// An answer that is the whole answer.
    Answer(FetchedResponse),
}

/// Asks all of them, and answers with an object of what they answered.
pub(crate) async fn answer<'a>(
    exchange: &mut Exchange,
    route: &Route,
    calls: &[Call],
    body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let fetches = prepare(exchange, calls, body).await?;
    let live = Rc::clone(exchange.live());
    let (id, limit): (TransactionId, u64) = (exchange.id, route.body_limit);
    let span = exchange.span.clone();
    let ask = |(call, fetch): (&Call, Fetch)| -> Asking<'_> {
        let (live, upstream) = (Rc::clone(&live), call.upstream);
        let span = span.clone();
        Box::pin(
            async move { fetch::fetch(&live.upstreams[upstream.0], fetch, id, limit, span).await },
        )
    };
    let mut asking: Vec<Option<Asking<'_>>> =
        calls.iter().zip(fetches).map(|pair| Some(ask(pair))).collect();
    let mut values: Vec<Vec<u8>> = vec![Vec::new(); calls.len()];
    exchange.deadline.progress();
    while let Some((at, answered)) = next(exchange, &mut asking).await? {
        match came(exchange, &calls[at], answered)? {
            Came::Value(value) => values[at] = value,
            Came::Answer(answer) => return Ok(passed(exchange, answer)),
        }
    }
    exchange.response.status = 200;
    exchange.response.headers.push("content-type", b"application/json");
    Ok(ResponseBody::Whole(together(calls, &values)))
}

/// What each of them is sent, from the request.
pub(crate) async fn prepare(
    exchange: &mut Exchange,
    calls: &[Call],
    mut body: RequestBody<'_>,
) -> Result<Vec<Fetch>, Rejection> {
    let input = if calls.iter().filter_map(|call| call.body.as_ref()).any(|map| map.reads_body()) {
        Box::pin(transform::read_json(&exchange.request.headers, &exchange.deadline, body)).await?
    } else {
        body.drop_at_hand()?;
        Vec::new()
    };
    exchange.announce_trace();
    calls.iter().map(|call| fetch_of(exchange, call, &input)).collect()
}

fn fetch_of(exchange: &Exchange, call: &Call, input: &[u8]) -> Result<Fetch, Rejection> {
    let upstream = &exchange.live().site.config.upstreams[call.upstream.0];
    let mut target = fill(exchange, &call.path);
    let computed = call.query.iter().any(|(_, given)| matches!(given, Given::Expr(_)));
    let scope = if computed { exchange.view().scope() } else { Default::default() };
    let mut before = '?';
    for (name, given) in &call.query {
        let value = match given {
            Given::Text(text) => text.clone(),
            Given::Expr(expr) => match expr.value(&scope) {
                None | Some(Value::Null) => continue,
                Some(Value::String(text)) => text,
                Some(other) => other.to_string(),
            },
        };
        target.push(before);
        path::encode(name, &mut target);
        target.push('=');
        path::encode(&value, &mut target);
        before = '&';
    }
    let mut headers: Vec<(String, String)> = Vec::new();
    let sent = &exchange.request.headers;
    let trace = ["traceparent", "tracestate"];
    for name in call.forward.iter().map(String::as_str).chain(trace) {
        let own = call.headers.iter().any(|(set, _)| set == name);
        for value in sent.get_all(name).filter(|_| !own) {
            headers.push((name.to_owned(), text(value).into_owned()));
        }
    }
    headers.extend(call.headers.iter().cloned());
    let mut body = None;
    if let Some(map) = &call.body {
        body = Some(transform::apply(&exchange.view(), map, input)?);
        if !headers.iter().any(|(name, _)| name == "content-type") {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
    }
    if !headers.iter().any(|(name, _)| name == "accept") {
        let accept = match (call.from.json, &call.from.xml) {
            (true, None) => "application/json",
            (true, Some(_)) => "application/json, application/xml, text/xml",
            (false, _) => "application/xml, text/xml",
        };
        headers.push(("accept".to_owned(), accept.to_owned()));
    }
    Ok(Fetch {
        upstream: upstream.name.clone(),
        method: call.method.clone(),
        target,
        headers,
        body,
        timeout: call.timeout,
    })
}

/// The first that is done of those that are under way; `None` when there are none left.
async fn next(
    exchange: &Exchange,
    asking: &mut [Option<Asking<'_>>],
) -> Result<Option<(usize, Result<FetchedResponse, Rejection>)>, Rejection> {
    poll_fn(|cx| {
        let mut waits = false;
        for (at, slot) in asking.iter_mut().enumerate() {
            let Some(one) = slot else { continue };
            if let Poll::Ready(answered) = one.as_mut().poll(cx) {
                *slot = None;
                return Poll::Ready(Ok(Some((at, answered))));
            }
            waits = true;
        }
        if !waits {
            return Poll::Ready(Ok(None));
        }
        exchange.deadline.poll_request(cx).map(|expired| Err(expired.into()))
    })
    .await
}

/// What an answer comes to: its value, its fallback, or the end of the request.
fn came(
    exchange: &mut Exchange,
    call: &Call,
    answered: Result<FetchedResponse, Rejection>,
) -> Result<Came, Rejection> {
    let failed = |why: String| Rejection::new(Problem::CallFailed).detail(why);
    let rejection = match answered {
        Ok(answer) if call.pass.contains(&answer.status) => return Ok(Came::Answer(answer)),
        Ok(answer) if !(200..300).contains(&answer.status) => {
            failed(format!("`{}`: status {}", call.name, answer.status))
        }
        Ok(answer) => match value(call, answer) {
            Ok(value) => return Ok(Came::Value(value)),
            Err(why) => failed(format!("`{}`: unreadable response: {why}", call.name)),
        },
        Err(mut rejection) => {
            let why = match rejection.detail.take() {
                Some(detail) => format!("`{}`: {detail}", call.name),
                None => format!("`{}`", call.name),
            };
            rejection.detail(why)
        }
    };
    let Some(fallback) = &call.fallback else { return Err(rejection) };
    exchange.worker.stats.fallbacks.add(1);
    let headers = &mut exchange.response.headers;
    let names = headers.get(FALLBACK).map(|value| text(value).into_owned());
    let names = names.map_or(call.name.clone(), |before| format!("{before}, {}", call.name));
    headers.set(FALLBACK, names.as_bytes());
    // What is missing now may be there a moment later.
    headers.set("cache-control", b"no-store");
    let title = rejection.problem.title();
    let why = format!("{title}: {}", rejection.detail.as_deref().unwrap_or_default());
    exchange.notes.get_or_insert_default().add(Annotation::Log, "", &why);
    Ok(Came::Value(fallback.clone().into_bytes()))
}

/// The JSON value of an answer; null if it has no body.
fn value(call: &Call, answer: FetchedResponse) -> Result<Vec<u8>, String> {
    if answer.body.is_empty() {
        return Ok(b"null".to_vec());
    }
    let header = |name: &str| {
        let found = answer.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    };
    if header("content-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err("the body is compressed".to_owned());
    }
    let content_type = header("content-type");
    let Some(source) = Source::of(&call.from, content_type.map(str::as_bytes)) else {
        return Err(match content_type {
            Some(_) => "the content type does not match".to_owned(),
            None => "the content type is missing".to_owned(),
        });
    };
    let json = source.json(answer.body).map_err(|error| error.to_string())?;
    match serde_json::from_slice::<&RawValue>(&json) {
        Ok(_) => Ok(json),
        Err(error) => Err(error.to_string()),
    }
}

/// An answer that is the whole answer.
fn passed(exchange: &mut Exchange, answer: FetchedResponse) -> ResponseBody<'static> {
    let response = &mut exchange.response;
    response.headers.remove(FALLBACK);
    response.headers.remove("cache-control");
    response.status = answer.status;
    for (name, value) in &answer.headers {
        if name != "content-length" {
            response.headers.push(name, value.as_bytes());
        }
    }
    if answer.body.is_empty() {
        ResponseBody::Empty
    } else {
        ResponseBody::Whole(Bytes::from(answer.body))
    }
}

/// The object of all values, in the order of the configuration.
fn together(calls: &[Call], values: &[Vec<u8>]) -> Bytes {
    let length = values.iter().map(Vec::len).sum::<usize>();
    let mut out = Vec::with_capacity(length + calls.len() * 24 + 2);
    out.push(b'{');
    for (at, (call, value)) in calls.iter().zip(values).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        // Names are of the configuration: nothing in them needs an escape.
        out.extend_from_slice(format!("\"{}\":", call.name).as_bytes());
        out.extend_from_slice(value);
    }
    out.push(b'}');
    Bytes::from(out)
}
