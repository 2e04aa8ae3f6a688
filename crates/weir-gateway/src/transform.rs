//! Transformation of bodies by structures with paths; bodies are buffered and parsed as JSON.

mod source;

pub(crate) use source::Source;

use crate::response_body::ResponseBody;
use bytes::Bytes;
use weir_config::{Sources, Structure};
use weir_expr::Format;
use weir_expr::Scope;
use weir_expr::map::{JsonMap, MapError};
use weir_http::body::RequestBody;
use weir_http::cors::add_vary;
use weir_http::deadline::Deadline;
use weir_http::headers::is_encoded;
use weir_http::negotiate;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_record::client_request::{ClientRequest, StageInput};
use weir_wire::{Headers, Known};

/// Builds the body of a structure from the request, in one of its formats; returns its content
/// type.
pub(crate) async fn build<'s>(
    request: &ClientRequest<'_>,
    deadline: &Deadline,
    structure: &'s Structure,
    format: usize,
    body: RequestBody<'_>,
) -> Result<(Vec<u8>, &'s str), Rejection> {
    let Structure { map, from, formats } = structure;
    let input = if map.reads_body() {
        read(&request.head.headers, deadline, from, body).await?
    } else {
        Vec::new()
    };
    let format = &formats[format];
    let out = apply(request, map, &input, Problem::MalformedJson)?;
    Ok((render(format, out)?, format.content_type()))
}

/// Buffers a JSON request body.
pub(crate) async fn read_json(
    headers: &Headers,
    deadline: &Deadline,
    body: RequestBody<'_>,
) -> Result<Vec<u8>, Rejection> {
    read(headers, deadline, &Sources { json: true, xml: None }, body).await
}

/// Buffers a request body and converts it to JSON.
async fn read(
    headers: &Headers,
    deadline: &Deadline,
    from: &Sources,
    mut body: RequestBody<'_>,
) -> Result<Vec<u8>, Rejection> {
    let Some(source) = Source::of(from, headers.known(Known::ContentType)) else {
        let rejection = Rejection::new(Problem::UnsupportedMediaType);
        return Err(rejection.detail(source::described(from)));
    };
    if is_encoded(headers) {
        return Err(compressed());
    }
    let body = body.read_all(deadline).await?;
    let malformed = |why: String| Rejection::new(Problem::MalformedXml).detail(why);
    source.json(body).map_err(|error| malformed(error.to_string()))
}

/// Applies a map to a buffered JSON request body.
pub(crate) fn apply(
    request: &ClientRequest<'_>,
    map: &JsonMap,
    input: &[u8],
    malformed: Problem,
) -> Result<Vec<u8>, Rejection> {
    let scope = if map.reads_request() { request.scope() } else { Scope::default() };
    let mut out = Vec::with_capacity(input.len() + 64);
    map.apply(input, &scope, &mut out).map_err(|error| match error {
        MapError::Malformed(why) => Rejection::new(malformed).detail(why),
    })?;
    Ok(out)
}

/// Encodes the output of a map in a format.
fn render(format: &Format, json: Vec<u8>) -> Result<Vec<u8>, Rejection> {
    match format {
        Format::Json { indent: 0 } => Ok(json),
        format => format.render(&json).map_err(|_| Problem::Internal.into()),
    }
}

/// Transforms the response of a handler, at most `limit` bytes, if it is a success in a readable
/// format. Other responses pass unchanged, such as error documents of the upstream.
pub(crate) async fn response<'a>(
    input: StageInput<'_>,
    structure: &Structure,
    limit: u64,
    mut body: ResponseBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let Structure { map, from, formats } = structure;
    let StageInput { request, response, deadline, .. } = input;
    let status = response.status;
    if !(200..300).contains(&status) || matches!(status, 204..=206) {
        return Ok(body);
    }
    let content_type = response.headers.known(Known::ContentType);
    let Some(source) = Source::of(from, content_type) else { return Ok(body) };
    // If the client accepts no format, it receives the preferred one: the request was processed.
    let offered = formats.iter().map(Format::content_type);
    let chosen = negotiate::content_type(&request.head.headers, offered).unwrap_or(0);
    let format = &formats[chosen];
    let was_json = source.is_json();
    let head = request.head.method == weir_wire::Method::Head;
    if !head {
        if is_encoded(&response.headers) {
            return Err(unreadable());
        }
        let unmappable = Problem::UpstreamUnmappable;
        let input = body.read_all(deadline, limit).await?;
        let input = source
            .json(input)
            .map_err(|error| Rejection::new(unmappable).detail(error.to_string()))?;
        let out = apply(&request, map, &input, unmappable)?;
        body = ResponseBody::Whole(Bytes::from(render(format, out)?));
        remove_stale(&mut response.headers);
    } else {
        forget_length(&mut response.headers);
    }
    let headers = &mut response.headers;
    // JSON keeps its media type, such as `application/vnd.shop+json`.
    if !(was_json && matches!(format, Format::Json { .. })) {
        headers.set("content-type", format.content_type().as_bytes());
    }
    if formats.len() > 1 {
        add_vary(headers, "accept");
    }
    Ok(body)
}

/// The rejection of a request body that is compressed.
pub(crate) fn compressed() -> Rejection {
    let rejection = Rejection::new(Problem::UnsupportedMediaType);
    rejection.detail("compressed bodies cannot be mapped")
}

/// The rejection of a response body that is compressed.
pub(crate) fn unreadable() -> Rejection {
    Rejection::new(Problem::UpstreamUnmappable).detail("the upstream's response is compressed")
}

/// Removes length and validators from a response to HEAD: those of the mapped body are unknown.
pub(crate) fn forget_length(headers: &mut Headers) {
    headers.remove("content-length");
    remove_stale(headers);
}

/// Removes headers that describe the body before the transformation.
pub(crate) fn remove_stale(headers: &mut Headers) {
    for stale in
        ["etag", "last-modified", "content-digest", "digest", "content-md5", "accept-ranges"]
    {
        headers.remove(stale);
    }
}
