//! The explanation of a request after all stages.

use super::{Explained, route, sent, steps, text_of};
use crate::exchange::Exchange;
use crate::explanation::{
    Answer, Captured, Decision, Explanation, Kind, Listened, Pair, Stage, Trace, Who,
};
use crate::flow;
use crate::request_text::{Ingress, RequestText};
use crate::response_body::ResponseBody;
use weir_config::{CaptureLevel, Handler};
use weir_http::deadline::Deadline;
use weir_http::headers;
use weir_http::rejection::Rejection;
use weir_record::client_request::ClientRequest;
use weir_wire::Known;

/// The explanation of a request with this outcome.
pub(super) async fn conclude(
    exchange: &mut Exchange,
    mut trace: Trace,
    ask: &RequestText,
    arrival: &Ingress,
    outcome: Result<ResponseBody<'_>, Rejection>,
) -> Explanation {
    let (refused, body) = match outcome {
        Ok(body) => (None, body),
        Err(rejection) => {
            let refused = steps::Refused::of(&rejection);
            (Some(refused), flow::reject(exchange, rejection))
        }
    };
    let sent = trace.sent.take();
    let explained = Explained::of(exchange, &trace);
    let answer = answer(&explained, &exchange.deadline, body).await;
    let (request, matched) = (explained.request, explained.matched());
    let (host, path) = (request.host.to_owned(), request.head.path().to_owned());
    // Matching uses the normal form of the path.
    let (config, method) = (request.config, request.head.method_name());
    Explanation {
        decision: decision(&explained, refused.as_ref(), sent.is_some()),
        listener: Listened {
            address: arrival.address.to_string(),
            https: arrival.https,
            why: arrival.why.to_owned(),
        },
        method: ask.method.clone(),
        others: route::others(config, &host, &path, method, exchange.decisions.route),
        client: request.client.address.to_string(),
        api: request.api.map(|api| api.name.clone()),
        operation: matched.map(|(_, route)| route.operation.clone()),
        route: matched.map(|(api, route)| api.path_of(route)),
        location: matched
            .map(|(_, r)| format!("{}:{}", r.location.file.display(), r.location.line)),
        parameters: request.parameters().map(|(name, value)| Pair { name, value }).collect(),
        principal: principal(&request),
        steps: steps::all(&explained, refused.as_ref()),
        capture: captured(&explained),
        answer: sent.is_none().then_some(answer),
        sent,
        host,
        path,
    }
}

fn decision(of: &Explained<'_>, refused: Option<&steps::Refused>, sent: bool) -> Decision {
    if let (Some(refused), Some(problem)) = (refused, of.problem) {
        let why = format!("{}.", refused.why);
        let (status, problem) = (Some(problem.status()), Some(problem.slug().to_owned()));
        return Decision { kind: Kind::Refused, status, problem, why };
    }
    if sent {
        let why = "The request passes every policy and is forwarded.".to_owned();
        return Decision { kind: Kind::HandedOn, why, ..Decision::default() };
    }
    let why = if of.matched().is_some() {
        "The request passes every policy; weir sends the response."
    } else {
        "weir sends the response: a preflight or OPTIONS request."
    };
    let status = Some(of.response.status);
    Decision { kind: Kind::Answered, status, problem: None, why: why.to_owned() }
}

/// The response, with its body unless it is a file or compressed.
async fn answer(of: &Explained<'_>, deadline: &Deadline, mut body: ResponseBody<'_>) -> Answer {
    let headers = of.response.headers.iter();
    let headers = headers.map(|(_, name, value)| Pair {
        name: name.to_ascii_lowercase(),
        value: sent::masked_urls(&of.live.site, &headers::text(value)),
    });
    let headers = headers.collect();
    let is_file = of.matched().is_some_and(|(_, route)| matches!(route.handler, Handler::Files(_)));
    let coded = of.response.headers.known(Known::ContentEncoding).is_some();
    let shown = of.problem.is_some() || !(is_file || coded);
    let bytes = match shown {
        true => body.read_all(deadline, u64::MAX).await.ok(),
        false => None,
    };
    let body = bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| text_of(&bytes));
    Answer { status: of.response.status, headers, body }
}

fn principal(request: &ClientRequest<'_>) -> Option<Who> {
    let ClientRequest { config, principal, .. } = *request;
    let principal = principal?;
    let auth = principal.auth()?;
    let consumer = principal.consumer().map(|id| &config.consumers[id.0]);
    let plan = consumer.and_then(|consumer| consumer.plan);
    Some(Who {
        auth: Some(config.auths[auth.0].name.clone()),
        subject: principal.subject().map(str::to_owned),
        consumer: consumer.map(|consumer| consumer.name.clone()),
        plan: plan.map(|id| config.plans[id.0].name.clone()),
        scopes: principal.scopes().to_vec(),
    })
}

/// The content of the record; metadata only if the request is not admitted.
fn captured(of: &Explained<'_>) -> Captured {
    let Explained { request, trace, capture, live, .. } = of;
    let tracker = &request.config.tracker;
    let target = live.site.redaction.target(request.head.target()).into_owned();
    let admitted = trace.stage >= Stage::RequestMap;
    let level = match (tracker.enabled, of.matched(), admitted) {
        (false, ..) => CaptureLevel::None,
        (true, Some(_), true) => capture.level,
        // A rejected request: one record, without headers or body.
        (true, Some(_), false) => capture.level.min(CaptureLevel::Meta),
        (true, None, _) => CaptureLevel::Meta,
    };
    let mut why = match level {
        CaptureLevel::None if !tracker.enabled => "nothing: `tracker.enabled` is false".to_owned(),
        CaptureLevel::None => "nothing: `capture` of the route is none".to_owned(),
        CaptureLevel::Meta => "metadata: caller, request, times, outcome".to_owned(),
        CaptureLevel::Headers => "metadata and headers of request and response".to_owned(),
        CaptureLevel::Body => {
            format!("metadata, headers, and up to {} bytes of each body", tracker.body_limit)
        }
    };
    if level > CaptureLevel::Meta {
        if let Some(when) = capture.when {
            let slow = when.slow.map(|slow| format!("is slower than {slow:?}"));
            let error = when.error.then(|| "ends with an error".to_owned());
            let ways: Vec<String> = error.into_iter().chain(slow).collect();
            why.push_str(&format!("; kept only if the request {}", ways.join(" or ")));
        }
        if !tracker.masked_bodies.is_empty() {
            why.push_str("; bodies masked");
        }
    }
    let headers = if level > CaptureLevel::Meta { recorded_headers(trace) } else { Vec::new() };
    let recorded = level != CaptureLevel::None;
    Captured { recorded, level: <&str>::from(level).to_owned(), why, target, headers }
}

/// Headers of the request at the start of its record.
fn recorded_headers(trace: &Trace) -> Vec<Pair> {
    let text = headers::text(&trace.recorded);
    let lines = text.split("\r\n").filter_map(|line| line.split_once(':'));
    let pair = |(name, value): (&str, &str)| Pair {
        name: name.to_ascii_lowercase(),
        value: value.trim().to_owned(),
    };
    lines.map(pair).collect()
}
