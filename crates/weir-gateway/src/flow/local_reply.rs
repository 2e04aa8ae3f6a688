//! The local reply to a rejected request.

use super::{allow_origin, write_limits};
use crate::exchange::Exchange;
use crate::response_body::ResponseBody;
use bytes::Bytes;
use std::rc::Rc;
use weir_http::grpc;
use weir_http::problem::{Detail, Problem, ProblemFormat};
use weir_http::rejection::{Rejection, RejectionDetails};
use weir_wire::Known;

/// Responds with a problem document, or to a gRPC call with its status code.
pub fn reject<'a>(exchange: &mut Exchange, rejection: Rejection) -> ResponseBody<'a> {
    let (problem, details) = (rejection.problem, rejection.details());
    exchange.record.reason = details.reason().filter(|_| exchange.record.recording.is_shown());
    let RejectionDetails { detail, headers, violations, .. } = details;
    exchange.record.problem = Some(problem);
    if problem == Problem::DescriptorsExhausted {
        exchange.worker.stats.descriptors_exhausted.add(1);
    }
    exchange.response.clear();
    exchange.response.status = problem.status();
    let is_call = exchange.is_grpc_call();
    let body = if is_call {
        let code = grpc::reject(&mut exchange.response.headers, problem, detail.as_deref());
        exchange.record.recording.note_grpc_status(code, &mut exchange.record.notes);
        ResponseBody::Empty
    } else {
        let detail = Detail { text: detail.as_deref(), violations };
        document(exchange, problem, detail)
    };
    for (name, value) in headers {
        exchange.response.headers.push(name, value.as_bytes());
    }
    let live = Rc::clone(exchange.live());
    let Exchange { request, response, decisions, .. } = exchange;
    write_limits(&live.site.limits, decisions.limit_status, response);
    if is_call {
        grpc::push_back(&mut response.headers);
    }
    if request.headers.known(Known::Origin).is_some() {
        allow_origin(&live.site, decisions.api, &request.headers, &mut response.headers);
    }
    body
}

fn document<'a>(exchange: &mut Exchange, problem: Problem, detail: Detail<'_>) -> ResponseBody<'a> {
    let format = ProblemFormat::negotiated(&exchange.request.headers);
    let mut document = Vec::with_capacity(384);
    problem.render(format, detail, Some(exchange.arrival.id.as_str()), &mut document);
    let headers = &mut exchange.response.headers;
    headers.push("content-type", format.content_type().as_bytes());
    headers.push("cache-control", b"no-store");
    ResponseBody::Whole(Bytes::from(document))
}
