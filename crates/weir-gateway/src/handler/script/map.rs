//! Transformation by a script: of a request before the handler, or of the response of the handler.

use super::response::{self, InvalidResult};
use super::{call, failed, place};
use crate::handler::HandlerInput;
use crate::response_body::ResponseBody;
use crate::script_engine::Part;
use crate::transform;
use bytes::Bytes;
use weir_config::Script;
use weir_http::body::RequestBody;
use weir_http::headers;
use weir_http::headers::is_encoded;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_script::{Changes, End, FetchedResponse, Role};
use weir_wire::Headers;

/// The export that transforms; the configuration requires it.
const EXPORT: &str = "default";

/// Result of a request transformation.
pub(crate) enum Mapped<'a> {
    /// The request continues, with this body.
    Request(RequestBody<'a>),
    /// The script responds.
    Response(ResponseBody<'a>),
}

/// Transforms a request with a script.
pub(crate) async fn request<'a>(
    input: &mut HandlerInput<'_>,
    script: &Script,
    mut body: RequestBody<'a>,
) -> Result<Mapped<'a>, Rejection> {
    if is_encoded(&input.request.headers) {
        return Err(transform::compressed());
    }
    let bodiless = body.framing().is_empty();
    let bytes = body.read_all(input.context.deadline).await?;
    match run(input, script, Part::RequestMap, bytes.clone(), Role::RequestMap).await? {
        MapResult::Response(body) => Ok(Mapped::Response(body)),
        MapResult::Changes(changes) => {
            let changed = change(&mut input.request.headers, script, changes);
            let body = match changed.map_err(|invalid| invalid.reject(input, script))? {
                Some(bytes) => RequestBody::buffered(bytes.into()),
                None if bodiless => RequestBody::empty(),
                None => RequestBody::buffered(bytes),
            };
            Ok(Mapped::Request(body))
        }
    }
}

/// Transforms the response of a handler with a script, at most `route.body_limit` bytes. Partial
/// and 304 responses are not transformed.
pub(crate) async fn response<'a>(
    input: &mut HandlerInput<'_>,
    script: &Script,
    mut body: ResponseBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let head = &mut *input.response;
    if matches!(head.status, 206 | 304) {
        return Ok(body);
    }
    if input.request.method == weir_wire::Method::Head {
        transform::forget_length(&mut head.headers);
        return Ok(body);
    }
    if is_encoded(&head.headers) {
        return Err(transform::unreadable());
    }
    let bytes = body.read_all(input.context.deadline, input.context.route.body_limit).await?;
    let fields = headers::pairs(&head.headers).collect();
    let fetched = FetchedResponse { status: head.status, headers: fields, body: bytes.clone() };
    let role = Role::ResponseMap(fetched);
    match run(input, script, Part::ResponseMap, Vec::new(), role).await? {
        MapResult::Response(body) => Ok(body),
        MapResult::Changes(Changes { body: None, .. }) => Ok(ResponseBody::Whole(bytes.into())),
        MapResult::Changes(Changes { body: Some(body), .. }) => {
            let (request, headers) = (&input.request.headers, &mut input.response.headers);
            let encoded = response::encode(body, || response::preferred(request, headers, script));
            let (content_type, bytes) = encoded.map_err(|invalid| invalid.reject(input, script))?;
            let headers = &mut input.response.headers;
            transform::remove_stale(headers);
            headers.set("content-type", content_type.unwrap_or_default().as_bytes());
            Ok(ResponseBody::Whole(bytes))
        }
    }
}

enum MapResult<'a> {
    Response(ResponseBody<'a>),
    Changes(Changes),
}

/// Calls the script. The head of a response is in `input.response` afterwards.
async fn run<'a>(
    input: &mut HandlerInput<'_>,
    script: &Script,
    part: Part,
    body: Vec<u8>,
    role: Role,
) -> Result<MapResult<'a>, Rejection> {
    let place = place(&input.context, part)?;
    let exports = &script.program.exports;
    let export = exports.iter().position(|name| name == EXPORT).ok_or(Problem::Internal)?;
    let request = super::request(&input.context, input.request, script, body);
    let request = weir_script::Request { role, ..request };
    match call(input, script, place, export, request).await? {
        End::Changes(changes) => Ok(MapResult::Changes(*changes)),
        End::Response(result) => {
            input.response.clear();
            response::write(input, script, *result).map(MapResult::Response)
        }
        end => Err(failed(input, script, place, end)),
    }
}

/// Removes and sets headers of the request; returns its new body, if any. A value is encoded in the
/// script's first format.
fn change(
    headers: &mut Headers,
    script: &Script,
    Changes { set, remove, body }: Changes,
) -> Result<Option<Bytes>, InvalidResult> {
    for name in remove.iter().chain(set.iter().map(|(name, _)| name)) {
        if name == "host" || response::is_managed(name) {
            let why = format!("the request header `{name}` is managed by weir");
            return Err(InvalidResult::Malformed(why));
        }
    }
    for name in &remove {
        headers.remove(name);
    }
    for (name, value) in &set {
        headers.set(name, response::field(name, value)?);
    }
    let Some(body) = body else { return Ok(None) };
    let (content_type, bytes) = response::encode(body, || Ok(&script.formats[0]))?;
    match content_type {
        None => headers.remove("content-type"),
        Some(content_type) if !set.iter().any(|(name, _)| name == "content-type") => {
            headers.set("content-type", content_type.as_bytes());
        }
        Some(_) => {}
    }
    Ok(Some(bytes))
}
