//! Maps of structures with paths, applied to JSON bodies, which are held whole for that.

use crate::body::{Body, RequestBody};
use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::refusal::Refusal;
use bytes::Bytes;
use weir_config::expr::Scope;
use weir_config::map::{JsonMap, MapError};

/// Maps the request body.
pub(crate) async fn request<'a>(
    exchange: &mut Exchange,
    map: &JsonMap,
    body: RequestBody<'a>,
) -> Result<RequestBody<'a>, Refusal> {
    let input = if map.reads_body() { read_json(exchange, body).await? } else { Vec::new() };
    let mapped = apply(exchange, map, &input)?;
    exchange.request.headers.set("content-type", b"application/json");
    Ok(RequestBody::whole(mapped))
}

/// Reads a JSON request body whole.
pub(crate) async fn read_json(
    exchange: &Exchange,
    mut body: RequestBody<'_>,
) -> Result<Vec<u8>, Refusal> {
    let headers = &exchange.request.headers;
    if !Exchange::is_json(headers) {
        let refusal = Refusal::new(Problem::UnsupportedMediaType);
        return Err(refusal.detail("the body must be application/json"));
    }
    if Exchange::is_encoded(headers) {
        return Err(compressed());
    }
    Ok(body.read_whole(&exchange.deadline).await?)
}

/// Maps a request body that is in memory.
pub(crate) fn apply(exchange: &Exchange, map: &JsonMap, input: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut out = Vec::with_capacity(input.len() + 64);
    map.apply(input, &scope_for(exchange, map), &mut out).map_err(|error| match error {
        MapError::Malformed(why) => Refusal::new(Problem::MalformedJson).detail(why),
    })?;
    Ok(out)
}

fn scope_for(exchange: &Exchange, map: &JsonMap) -> Scope {
    if map.reads_request() { exchange.scope() } else { Scope::default() }
}

/// Maps the answer of a handler, of at most `limit` bytes: successful JSON only. Anything else
/// passes as it is, an upstream's own error documents above all.
pub(crate) async fn response<'a>(
    exchange: &mut Exchange,
    map: &JsonMap,
    limit: u64,
    mut body: Body<'a>,
) -> Result<Body<'a>, Refusal> {
    let response = &exchange.response;
    if !(200..300).contains(&response.status)
        || matches!(response.status, 204..=206)
        || !Exchange::is_json(&response.headers)
    {
        return Ok(body);
    }
    if exchange.request.method == weir_wire::Method::Head {
        forget_length(exchange);
        return Ok(body);
    }
    if Exchange::is_encoded(&exchange.response.headers) {
        return Err(unreadable());
    }
    let input = body.read_whole(&exchange.deadline, limit).await?;
    let mut out = Vec::with_capacity(input.len() + 64);
    map.apply(&input, &scope_for(exchange, map), &mut out).map_err(|error| match error {
        MapError::Malformed(why) => Refusal::new(Problem::UpstreamUnmappable).detail(why),
    })?;
    remove_stale(exchange);
    Ok(Body::Whole(Bytes::from(out)))
}

/// A request whose body cannot be mapped as it is.
pub(crate) fn compressed() -> Refusal {
    let refusal = Refusal::new(Problem::UnsupportedMediaType);
    refusal.detail("a body that is mapped must not be compressed")
}

/// An answer whose body cannot be mapped as it is.
pub(crate) fn unreadable() -> Refusal {
    Refusal::new(Problem::UpstreamUnmappable).detail("the upstream's answer is compressed")
}

/// Of an answer to HEAD: what is said about a body is true of the mapped one, whose length nobody
/// knows.
pub(crate) fn forget_length(exchange: &mut Exchange) {
    exchange.response.headers.remove("content-length");
    remove_stale(exchange);
}

/// Removes what was said about the body before it was mapped.
pub(crate) fn remove_stale(exchange: &mut Exchange) {
    for stale in
        ["etag", "last-modified", "content-digest", "digest", "content-md5", "accept-ranges"]
    {
        exchange.response.headers.remove(stale);
    }
}
