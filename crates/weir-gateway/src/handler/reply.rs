//! The `reply` handler: a static response.

use super::HandlerInput;
use crate::response_body::ResponseBody;
use crate::transform;
use bytes::Bytes;
use weir_config::{Reply, ReplyBody};
use weir_expr::Format;
use weir_http::body::RequestBody;
use weir_http::negotiate;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_record::client_request::StageInput;
use weir_wire::{Headers, Known};

/// Responds with the configured representation.
pub(super) async fn serve<'a>(
    input: &mut HandlerInput<'_>,
    reply: &Reply,
    mut body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let runtime = input.context.live.site.route(input.context.at);
    let representations = &*runtime.representations;
    let held = |index: usize| {
        let (content_type, bytes) = &representations[index];
        (Some(content_type.as_str()), bytes.clone())
    };
    let StageInput { request, response, deadline, .. } = input.stage();
    let accepted = &request.head.headers;
    if !matches!(reply.body, ReplyBody::Mapped(_)) {
        body.discard_buffered()?;
    }
    let (content_type, bytes) = match &reply.body {
        ReplyBody::Empty => (None, Bytes::new()),
        ReplyBody::Fixed(_) => held(0),
        ReplyBody::Negotiated(_) => {
            let offered = representations.iter().map(|(content_type, _)| content_type.as_str());
            held(choose(accepted, offered)?)
        }
        ReplyBody::Mapped(structure) => {
            let format = choose(accepted, structure.formats.iter().map(Format::content_type))?;
            let built =
                Box::pin(transform::build(&request, deadline, structure, format, body)).await?;
            (Some(built.1), Bytes::from(built.0))
        }
    };
    response.status = reply.status;
    for (name, value) in &reply.headers {
        response.headers.push(name, value.as_bytes());
    }
    if let Some(content_type) = content_type
        && response.headers.known(Known::ContentType).is_none()
    {
        response.headers.push("content-type", content_type.as_bytes());
    }
    let formats = match &reply.body {
        ReplyBody::Mapped(structure) => structure.formats.len(),
        _ => representations.len(),
    };
    if formats > 1 {
        weir_http::cors::add_vary(&mut response.headers, "accept");
    }
    Ok(if bytes.is_empty() { ResponseBody::Empty } else { ResponseBody::Whole(bytes) })
}

/// Chooses a content type by the headers of a request.
///
/// # Errors
/// None is acceptable to the client.
pub(super) fn choose<'o>(
    request: &Headers,
    offered: impl Iterator<Item = &'o str> + Clone,
) -> Result<usize, Rejection> {
    negotiate::content_type(request, offered.clone()).ok_or_else(|| {
        let offered: Vec<&str> = offered.collect();
        Rejection::new(Problem::NotAcceptable).detail(format!("offered: {}", offered.join(", ")))
    })
}
