//! The `calls` handler: concurrent requests to several upstreams, composed into one response.
//!
//! Each call is a request of weir itself, like those of scripts: complete before it is sent, with a
//! buffered response. Calls are polled in the task of the client's request, so they end with it.

use super::HandlerInput;
use super::head::fill;
use crate::context::Context;
use crate::fetch;
use crate::response_body::ResponseBody;
use crate::transform::{self, Source};
use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use weir_config::{Call, ParameterValue};
use weir_http::body::RequestBody;
use weir_http::deadline::Deadline;
use weir_http::headers::text;
use weir_http::path;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_record::client_request::ClientRequest;
use weir_script::{Fetch, FetchedResponse};
use weir_wire::ResponseHead;

/// Header that names the calls that were replaced by their fallback.
const FALLBACK: &str = "weir-fallback";

type PendingCall<'c> = Pin<Box<dyn Future<Output = Result<FetchedResponse, Rejection>> + 'c>>;

/// The result of a call.
enum CallOutcome {
    /// The JSON value of its member.
    Value(Vec<u8>),
    /// A response that replaces the composed one.
    Response(FetchedResponse),
}

/// Makes all calls, and responds with an object of their results.
pub(super) async fn serve<'a>(
    input: &mut HandlerInput<'_>,
    calls: &[Call],
    body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let fetches = prepare(input, calls, body).await?;
    let Context { live, arrival, route, span, deadline, .. } = input.context;
    let start = |(call, fetch): (&Call, Fetch)| -> PendingCall<'_> {
        let upstream = &live.upstreams[call.upstream.0];
        Box::pin(fetch::fetch(upstream, fetch, arrival.id, route.body_limit, span.cloned()))
    };
    let mut pending: Vec<Option<PendingCall<'_>>> =
        calls.iter().zip(fetches).map(|pair| Some(start(pair))).collect();
    let mut values: Vec<Vec<u8>> = vec![Vec::new(); calls.len()];
    deadline.progress();
    while let Some((at, fetched)) = next(deadline, &mut pending).await? {
        match evaluate(input, &calls[at], fetched)? {
            CallOutcome::Value(value) => values[at] = value,
            CallOutcome::Response(response) => return Ok(pass(input.response, response)),
        }
    }
    input.response.status = 200;
    input.response.headers.push("content-type", b"application/json");
    Ok(ResponseBody::Whole(compose(calls, &values)))
}

/// The requests of all calls, derived from the client's request.
pub(super) async fn prepare(
    input: &mut HandlerInput<'_>,
    calls: &[Call],
    mut body: RequestBody<'_>,
) -> Result<Vec<Fetch>, Rejection> {
    let HandlerInput { context, request, .. } = input;
    let json = if calls.iter().filter_map(|call| call.body.as_ref()).any(|map| map.reads_body()) {
        Box::pin(transform::read_json(&request.headers, context.deadline, body)).await?
    } else {
        body.discard_buffered()?;
        Vec::new()
    };
    context.announce_trace(&mut request.headers);
    let request = context.view(request);
    calls.iter().map(|call| fetch_of(&request, call, &json)).collect()
}

fn fetch_of(request: &ClientRequest<'_>, call: &Call, input: &[u8]) -> Result<Fetch, Rejection> {
    let upstream = &request.config.upstreams[call.upstream.0];
    let mut target = fill(request, &call.path);
    let computed = call.query.iter().any(|(_, value)| matches!(value, ParameterValue::Expr(_)));
    let scope = if computed { request.scope() } else { Default::default() };
    let mut before = '?';
    for (name, parameter) in &call.query {
        let value = match parameter {
            ParameterValue::Text(text) => text.clone(),
            ParameterValue::Expr(expr) => match expr.value(&scope) {
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
    let sent = &request.head.headers;
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
        body = Some(transform::apply(request, map, input, Problem::MalformedJson)?);
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

/// Waits for the first call that ends; `None` if no call is pending.
async fn next(
    deadline: &Deadline,
    pending: &mut [Option<PendingCall<'_>>],
) -> Result<Option<(usize, Result<FetchedResponse, Rejection>)>, Rejection> {
    poll_fn(|cx| {
        let mut waits = false;
        for (at, slot) in pending.iter_mut().enumerate() {
            let Some(one) = slot else { continue };
            if let Poll::Ready(fetched) = one.as_mut().poll(cx) {
                *slot = None;
                return Poll::Ready(Ok(Some((at, fetched))));
            }
            waits = true;
        }
        if !waits {
            return Poll::Ready(Ok(None));
        }
        deadline.poll_request(cx).map(|expired| Err(expired.into()))
    })
    .await
}

/// Evaluates the response to a call: its value, the fallback, or the end of the request.
fn evaluate(
    input: &mut HandlerInput<'_>,
    call: &Call,
    fetched: Result<FetchedResponse, Rejection>,
) -> Result<CallOutcome, Rejection> {
    let failed = |why: String| Rejection::new(Problem::CallFailed).detail(why);
    let rejection = match fetched {
        Ok(response) if call.pass.contains(&response.status) => {
            return Ok(CallOutcome::Response(response));
        }
        Ok(response) if !(200..300).contains(&response.status) => {
            failed(format!("`{}`: status {}", call.name, response.status))
        }
        Ok(response) => match value(call, response) {
            Ok(value) => return Ok(CallOutcome::Value(value)),
            Err(why) => failed(format!("`{}`: unreadable response: {why}", call.name)),
        },
        Err(rejection) => rejection.map_detail(|detail| match detail {
            Some(detail) => format!("`{}`: {detail}", call.name),
            None => format!("`{}`", call.name),
        }),
    };
    let Some(fallback) = &call.fallback else { return Err(rejection) };
    input.context.worker.stats.fallbacks.add(1);
    let headers = &mut input.response.headers;
    let names = headers.get(FALLBACK).map(|value| text(value).into_owned());
    let names = names.map_or(call.name.clone(), |before| format!("{before}, {}", call.name));
    headers.set(FALLBACK, names.as_bytes());
    // The call may succeed next time.
    headers.set("cache-control", b"no-store");
    let title = rejection.problem.title();
    let why = format!("{title}: {}", rejection.details().detail.as_deref().unwrap_or_default());
    input.note(&why);
    Ok(CallOutcome::Value(fallback.clone().into_bytes()))
}

/// The JSON value of a response; null without a body.
fn value(call: &Call, response: FetchedResponse) -> Result<Vec<u8>, String> {
    if response.body.is_empty() {
        return Ok(b"null".to_vec());
    }
    let header = |name: &str| {
        let found = response.headers.iter().find(|(header, _)| header == name);
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
    let json = source.json(response.body).map_err(|error| error.to_string())?;
    match serde_json::from_slice::<&RawValue>(&json) {
        Ok(_) => Ok(json),
        Err(error) => Err(error.to_string()),
    }
}

/// Responds with the response to a call.
fn pass(response: &mut ResponseHead, fetched: FetchedResponse) -> ResponseBody<'static> {
    response.headers.remove(FALLBACK);
    response.headers.remove("cache-control");
    response.status = fetched.status;
    for (name, value) in &fetched.headers {
        if name != "content-length" {
            response.headers.push(name, value.as_bytes());
        }
    }
    match fetched.body.is_empty() {
        true => ResponseBody::Empty,
        false => ResponseBody::Whole(Bytes::from(fetched.body)),
    }
}

/// The object of all values, in the order of the configuration.
fn compose(calls: &[Call], values: &[Vec<u8>]) -> Bytes {
    let length = values.iter().map(Vec::len).sum::<usize>();
    let mut out = Vec::with_capacity(length + calls.len() * 24 + 2);
    out.push(b'{');
    for (at, (call, value)) in calls.iter().zip(values).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        // Names are validated by the configuration: no escapes are needed.
        out.extend_from_slice(format!("\"{}\":", call.name).as_bytes());
        out.extend_from_slice(value);
    }
    out.push(b'}');
    Bytes::from(out)
}
