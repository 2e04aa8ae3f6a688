//! A script as a map: of a request on its way to the handler, or of the handler's answer.

use super::answer::{self, Unfit};
use super::{call, failed, place, request as given};
use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::headers::is_encoded;
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::response_body::ResponseBody;
use crate::script_engine::Part;
use crate::{headers, transform};
use bytes::Bytes;
use std::rc::Rc;
use weir_config::{Route, Script};
use weir_script::{Changes, End, FetchedResponse, Role, ScriptBody};

/// The export that maps; the configuration has no script here without one.
const EXPORT: &str = "default";

/// What has become of a request.
pub(crate) enum Mapped<'a> {
    /// It goes on, with this body.
    Request(RequestBody<'a>),
    /// It has its answer.
    Answer(ResponseBody<'a>),
}

/// Has a script map a request.
pub(crate) async fn request<'a>(
    exchange: &mut Exchange,
    route: &Route,
    script: &Script,
    mut body: RequestBody<'a>,
) -> Result<Mapped<'a>, Rejection> {
    if is_encoded(&exchange.request.headers) {
        return Err(transform::compressed());
    }
    let bodiless = body.framing().is_empty();
    let bytes = body.read_whole(&exchange.deadline).await?;
    let role = Role::RequestMap;
    match ended(exchange, route, script, Part::RequestMap, bytes.clone(), role).await? {
        Ended::Answer(body) => Ok(Mapped::Answer(body)),
        Ended::Changes(Changes { set, remove, body }) => {
            edit(exchange, &remove, &set).map_err(|unfit| unfit.tell(exchange, script))?;
            let Some(body) = body else {
                let same = if bodiless { RequestBody::empty() } else { RequestBody::whole(bytes) };
                return Ok(Mapped::Request(same));
            };
            let said = set.iter().any(|(name, _)| name == "content-type");
            let bytes = replace(exchange, script, body, said)
                .map_err(|unfit| unfit.tell(exchange, script))?;
            Ok(Mapped::Request(RequestBody::whole(bytes.into())))
        }
    }
}

/// Has a script map the answer of a handler, of at most `route.body_limit` bytes. Parts of something
/// and what the client has already pass as they are.
pub(crate) async fn response<'a>(
    exchange: &mut Exchange,
    route: &Route,
    script: &Script,
    mut body: ResponseBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    if matches!(exchange.response.status, 206 | 304) {
        return Ok(body);
    }
    if exchange.request.method == weir_wire::Method::Head {
        transform::forget_length(&mut exchange.response.headers);
        return Ok(body);
    }
    if is_encoded(&exchange.response.headers) {
        return Err(transform::unreadable());
    }
    let bytes = body.read_whole(&exchange.deadline, route.body_limit).await?;
    let fields = exchange.response.headers.iter();
    let fields = fields
        .map(|(_, name, value)| (name.to_ascii_lowercase(), headers::text(value).into_owned()));
    let answer = FetchedResponse {
        status: exchange.response.status,
        headers: fields.collect(),
        body: bytes.clone(),
    };
    let role = Role::ResponseMap(answer);
    match ended(exchange, route, script, Part::ResponseMap, Vec::new(), role).await? {
        Ended::Answer(body) => Ok(body),
        Ended::Changes(Changes { body: None, .. }) => Ok(ResponseBody::Whole(bytes.into())),
        Ended::Changes(Changes { body: Some(body), .. }) => {
            let body = answer::body_of(exchange, script, body);
            let (content_type, bytes) = body.map_err(|unfit| unfit.tell(exchange, script))?;
            transform::remove_stale(&mut exchange.response.headers);
            let content_type = content_type.unwrap_or_default();
            exchange.response.headers.set("content-type", content_type.as_bytes());
            Ok(ResponseBody::Whole(bytes))
        }
    }
}

enum Ended<'a> {
    Answer(ResponseBody<'a>),
    Changes(Changes),
}

/// Calls the script. An answer of its is in `exchange.response`.
async fn ended<'a>(
    exchange: &mut Exchange,
    route: &Route,
    script: &Script,
    part: Part,
    body: Vec<u8>,
    role: Role,
) -> Result<Ended<'a>, Rejection> {
    let live = Rc::clone(exchange.live());
    let place = place(exchange, &live, part)?;
    let exports = script.program.exports();
    let export = exports.iter().position(|name| name == EXPORT).ok_or(Problem::Internal)?;
    let request = weir_script::Request { role, ..given(exchange, route, script, body) };
    match call(exchange, route, script, place, export, request).await? {
        End::Changes(changed) => Ok(Ended::Changes(*changed)),
        End::Response(answer) => {
            exchange.response.clear();
            let body = answer::give(exchange, script, *answer);
            body.map(Ended::Answer).map_err(|unfit| unfit.tell(exchange, script))
        }
        end => Err(failed(exchange, script, place, end)),
    }
}

/// Removes and sets headers of the request.
fn edit(exchange: &mut Exchange, remove: &[String], set: &[(String, String)]) -> Result<(), Unfit> {
    let names = remove.iter().chain(set.iter().map(|(name, _)| name));
    for name in names {
        if name == "host" || answer::is_ours(name) {
            let why = format!("the request header `{name}` is managed by weir");
            return Err(Unfit::Malformed(why));
        }
    }
    let headers = &mut exchange.request.headers;
    for name in remove {
        headers.remove(name);
    }
    for (name, value) in set {
        headers.set(name, answer::field(name, value)?);
    }
    Ok(())
}

/// The body of a request in place of its own. A value is in the script's first format.
fn replace(
    exchange: &mut Exchange,
    script: &Script,
    body: ScriptBody,
    said: bool,
) -> Result<Bytes, Unfit> {
    let (content_type, bytes) = answer::written(body, || Ok(&script.formats[0]))?;
    let headers = &mut exchange.request.headers;
    match content_type {
        None => headers.remove("content-type"),
        Some(content_type) if !said => headers.set("content-type", content_type.as_bytes()),
        Some(_) => {}
    }
    Ok(bytes)
}
