//! The explanation of a request that has gone through.

use super::{names, route, sent, steps, text_of};
use crate::exchange::Exchange;
use crate::explanation::{
    Answer, Captured, Decision, Explanation, Kind, Listened, Pair, Stage, Who,
};
use crate::flow;
use crate::headers;
use crate::path;
use crate::rejection::Rejection;
use crate::request_text::{Arrival, RequestText};
use crate::response_body::ResponseBody;
use std::rc::Rc;
use weir_config::{CaptureLevel, Handler, Segment};
use weir_wire::Known;

/// Writes down what came of a request.
pub(super) async fn conclude(
    exchange: &mut Exchange,
    ask: &RequestText,
    arrival: &Arrival,
    outcome: Result<ResponseBody<'_>, Rejection>,
) -> Explanation {
    let live = Rc::clone(exchange.live());
    let (refused, answer) = match outcome {
        Ok(body) => (None, answer(exchange, body).await),
        Err(rejection) => {
            let told = steps::Refused::of(&rejection);
            let body = flow::reject(exchange, rejection);
            (Some(told), answer(exchange, body).await)
        }
    };
    let sent = exchange.trace.as_mut().and_then(|trace| trace.sent.take()).map(|sent| *sent);
    let (host, path) = (exchange.host.clone(), exchange.request.path().to_owned());
    let (api, operation) = names(exchange);
    let matched = exchange.matched();
    // Asked for what was matched: the normal form.
    let method = exchange.request.method_name();
    Explanation {
        decision: decision(exchange, refused.as_ref(), sent.is_some()),
        listener: Listened {
            address: arrival.address.to_string(),
            https: arrival.https,
            why: arrival.why.to_owned(),
        },
        method: ask.method.clone(),
        others: route::others(&live.site.config, &host, &path, method, exchange.route),
        client: exchange.client.address.to_string(),
        api,
        operation,
        route: matched.map(|(api, route)| api.path_of(route)),
        location: matched
            .map(|(_, r)| format!("{}:{}", r.location.file.display(), r.location.line)),
        parameters: parameters(exchange),
        principal: principal(exchange),
        steps: steps::all(exchange, refused.as_ref()),
        capture: captured(exchange),
        answer: sent.is_none().then_some(answer),
        sent,
        host,
        path,
    }
}

fn decision(exchange: &Exchange, refused: Option<&steps::Refused>, sent: bool) -> Decision {
    if let (Some(refused), Some(problem)) = (refused, exchange.problem) {
        let why = match &refused.detail {
            Some(detail) => format!("{}: {detail}.", problem.title()),
            None => format!("{}.", problem.title()),
        };
        let (status, problem) = (Some(problem.status()), Some(problem.slug().to_owned()));
        return Decision { kind: Kind::Refused, status, problem, why };
    }
    if sent {
        let why = "The request passes every policy and is forwarded.".to_owned();
        return Decision { kind: Kind::HandedOn, why, ..Decision::default() };
    }
    let why = if exchange.matched().is_some() {
        "The request passes every policy; weir sends the response."
    } else {
        "weir sends the response: a preflight or OPTIONS request."
    };
    let status = Some(exchange.response.status);
    Decision { kind: Kind::Answered, status, problem: None, why: why.to_owned() }
}

/// The answer as it is now; its body unless that is a file or compressed.
async fn answer(exchange: &mut Exchange, mut body: ResponseBody<'_>) -> Answer {
    let headers = exchange.response.headers.iter();
    let headers = headers.map(|(_, name, value)| Pair {
        name: name.to_ascii_lowercase(),
        value: sent::masked_urls(exchange, &headers::text(value)),
    });
    let headers = headers.collect();
    let is_file =
        exchange.matched().is_some_and(|(_, route)| matches!(route.handler, Handler::Files(_)));
    let coded = exchange.response.headers.known(Known::ContentEncoding).is_some();
    let shown = exchange.problem.is_some() || !(is_file || coded);
    let bytes = match shown {
        true => body.read_whole(&exchange.deadline, u64::MAX).await.ok(),
        false => None,
    };
    let body = bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| text_of(&bytes));
    Answer { status: exchange.response.status, headers, body }
}

fn parameters(exchange: &Exchange) -> Vec<Pair> {
    let Some((_, route)) = exchange.matched() else { return Vec::new() };
    let names = route.path.segments.iter().filter_map(|segment| match segment {
        Segment::Template(name) => Some(name.as_str()),
        Segment::Literal(_) => None,
    });
    let names = names.chain(route.path.wildcard.then_some("*"));
    let pair = |name: &str| Pair {
        name: name.to_owned(),
        value: path::decode(&exchange.view().raw_parameter(name)).into_owned(),
    };
    names.map(pair).collect()
}

fn principal(exchange: &Exchange) -> Option<Who> {
    let config = &exchange.live().site.config;
    let principal = exchange.principal.as_deref()?;
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

/// What would be recorded; of a request that was not admitted that it came, and no more.
fn captured(exchange: &Exchange) -> Captured {
    let live = exchange.live();
    let tracker = &live.site.config.tracker;
    let target = live.site.redaction.target(exchange.request.target()).into_owned();
    let admitted = exchange.trace.as_ref().is_some_and(|trace| trace.stage >= Stage::RequestMap);
    let capture = exchange.recording.capture();
    let level = match (tracker.enabled, exchange.matched(), admitted) {
        (false, ..) => CaptureLevel::None,
        (true, Some(_), true) => capture.level,
        // One record, without headers or body.
        (true, Some(_), false) => capture.level.min(CaptureLevel::Meta),
        (true, None, _) => CaptureLevel::Meta,
    };
    let (word, mut why) = match level {
        CaptureLevel::None if !tracker.enabled => {
            ("none", "nothing: `tracker.enabled` is false".to_owned())
        }
        CaptureLevel::None => ("none", "nothing: `capture` of the route is none".to_owned()),
        CaptureLevel::Meta => ("meta", "metadata: caller, request, times, outcome".to_owned()),
        CaptureLevel::Headers => {
            ("headers", "metadata and headers of request and response".to_owned())
        }
        CaptureLevel::Body => (
            "body",
            format!("metadata, headers, and up to {} bytes of each body", tracker.body_limit),
        ),
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
    let headers = if level > CaptureLevel::Meta { recorded_headers(exchange) } else { Vec::new() };
    let recorded = level != CaptureLevel::None;
    Captured { recorded, level: word.to_owned(), why, target, headers }
}

/// As they were when its record would have begun.
fn recorded_headers(exchange: &Exchange) -> Vec<Pair> {
    let headers = exchange.trace.as_ref().map(|trace| trace.recorded.as_slice());
    let text = headers::text(headers.unwrap_or_default());
    let lines = text.split("\r\n").filter_map(|line| line.split_once(':'));
    let pair = |(name, value): (&str, &str)| Pair {
        name: name.to_ascii_lowercase(),
        value: value.trim().to_owned(),
    };
    lines.map(pair).collect()
}
