//! Scripts: a JavaScript module answers (the `script` handler), or maps what goes to or comes from
//! another handler.
//!
//! The engine is a worker's own and does no I/O: a call runs in the request's task until it has an
//! answer or waits, and what it waits for (an upstream, time) is polled in that task, too. Between
//! its turns other calls have the engine.

mod answer;
mod drive;
mod map;

pub(crate) use map::{Mapped, request as map_request, response as map_response};

use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::headers::apply_edits;
use crate::path;
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::response_body::ResponseBody;
use crate::script_engine::{Part, Place, Placement};
use crate::worker::Live;
use std::rc::Rc;
use weir_config::{Route, Script, Segment};
use weir_script::{End, Principal, Request, Role, Step};

/// Answers a request by a script.
pub(crate) async fn answer<'a>(
    exchange: &mut Exchange,
    route: &Route,
    script: &Script,
    mut body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let live = Rc::clone(exchange.live());
    let place = match place(exchange, &live, Part::Handler) {
        Ok(place) => place,
        Err(rejection) => {
            // What has come of its body is recorded all the same.
            let _ = body.drop_at_hand();
            return Err(rejection);
        }
    };
    let export = export(exchange, script)?;
    let bytes = if body.framing().is_empty() {
        Vec::new()
    } else {
        Box::pin(body.read_whole(&exchange.deadline)).await?
    };
    prepare(exchange, route);
    let request = request(exchange, route, script, bytes);
    match call(exchange, route, script, place, export, request).await? {
        End::Response(given) => {
            answer::give(exchange, script, *given).map_err(|unfit| unfit.tell(exchange, script))
        }
        end => Err(failed(exchange, script, place, end)),
    }
}

/// Makes the headers that a script is told of: edited as for any handler.
pub(crate) fn prepare(exchange: &mut Exchange, route: &Route) {
    apply_edits(&mut exchange.request.headers, &route.request_headers);
    if let Some(replay) = &exchange.resubmission {
        replay.mark(&route.resubmit, exchange.id.as_str(), &mut exchange.request.headers);
    }
}

/// Where a script of this request's route runs, unless it had to be stopped too often.
fn place<'l>(exchange: &Exchange, live: &'l Live, part: Part) -> Result<&'l Place, Rejection> {
    let route = live.site.route(exchange.route.ok_or(Problem::Internal)?);
    let place = route.scripts.place(part).ok_or(Problem::Internal)?;
    match place.breaker.suspended() {
        None => Ok(place),
        Some(seconds) => {
            let rejection = Rejection::new(Problem::ScriptSuspended);
            Err(rejection.header("retry-after", seconds.to_string()))
        }
    }
}

/// Calls a script, where it runs, until it has come to an end.
async fn call(
    exchange: &mut Exchange,
    route: &Route,
    script: &Script,
    place: &Place,
    export: usize,
    request: Request,
) -> Result<End, Rejection> {
    let live = Rc::clone(exchange.live());
    match &place.placement {
        Placement::Here(program) => {
            let slot = &live.scripts;
            let (generation, step) = slot.begin(*program, export, request)?;
            if step.end.is_some() {
                Ok(finished(exchange, script, step))
            } else {
                Box::pin(drive::here(exchange, route, script, slot, generation, step)).await
            }
        }
        Placement::Thread(thread) => {
            Box::pin(drive::elsewhere(exchange, route, script, thread, export, request)).await
        }
    }
}

/// The function of the script that answers this method.
pub(crate) fn export(exchange: &Exchange, script: &Script) -> Result<usize, Rejection> {
    script.program.export_for(exchange.request.method_name()).ok_or_else(|| {
        let allowed = script.program.exports().join(", ");
        Rejection::new(Problem::MethodNotAllowed).header("allow", allowed)
    })
}

/// Takes over what a last step leaves behind.
fn finished(exchange: &mut Exchange, script: &Script, step: Step) -> End {
    console(exchange, script, &step);
    // What was noted before the script was called comes first.
    match (&mut exchange.notes, step.annotations) {
        (Some(before), Some(mut own)) => {
            own.logs.splice(0..0, std::mem::take(&mut before.logs));
            own.properties.splice(0..0, std::mem::take(&mut before.properties));
            exchange.notes = Some(own);
        }
        (Some(_), None) => {}
        (None, own) => exchange.notes = own,
    }
    step.end.unwrap_or(End::Deadlocked)
}

/// Hands the lines of a step to the log.
fn console(exchange: &Exchange, script: &Script, step: &Step) {
    for line in &step.console {
        say(exchange, script, line.level, &line.text);
    }
}

fn say(exchange: &Exchange, script: &Script, level: &'static str, text: &str) {
    let json = exchange.live().site.config.access_log.format == Some(weir_config::LogFormat::Json);
    let name = script.program.name();
    let worker = exchange.worker;
    if !worker.shared.log.say(exchange.id.as_str(), name, level, text, json) {
        worker.stats.log_dropped.add(1);
    }
}

/// What the client is told of a call that came to nothing.
fn failed(exchange: &mut Exchange, script: &Script, place: &Place, end: End) -> Rejection {
    let (problem, why) = match end {
        End::Response(_) | End::Changes(_) => {
            (Problem::ScriptFailed, "the result is invalid here".to_owned())
        }
        End::Threw(what) => (Problem::ScriptFailed, what),
        End::Deadlocked => {
            let why = "the script awaits a promise that never settles";
            (Problem::ScriptFailed, why.to_owned())
        }
        End::CpuLimit => {
            place.breaker.stopped();
            (Problem::ScriptStopped, "stopped: CPU time limit exceeded".to_owned())
        }
        End::OutOfMemory => {
            place.breaker.stopped();
            (Problem::ScriptMemory, "the engine ran out of memory and is restarted".to_owned())
        }
    };
    tell(exchange, script, problem, &why)
}

/// Says in the log and in the record what went wrong, and nothing of it to the client.
fn tell(exchange: &mut Exchange, script: &Script, problem: Problem, why: &str) -> Rejection {
    say(exchange, script, "error", why);
    let notes = exchange.notes.get_or_insert_default();
    notes.add(weir_script::Annotation::Log, "", why);
    problem.into()
}

/// What the script is given.
fn request(exchange: &Exchange, route: &Route, script: &Script, body: Vec<u8>) -> Request {
    let head = &exchange.request;
    let mut lines = Vec::with_capacity(256);
    weir_wire::encode::fields(&mut lines, &head.headers);
    let decoded = |name: &str| path::decode(&exchange.view().raw_parameter(name)).into_owned();
    let mut parameters: Vec<(String, String)> = Vec::new();
    for segment in &route.path.segments {
        if let Segment::Template(name) = segment {
            parameters.push((name.clone(), decoded(name)));
        }
    }
    if route.path.wildcard {
        parameters.push(("*".to_owned(), decoded("*")));
    }
    let known = exchange.principal.as_deref().filter(|_| script.program.reads_principal());
    let principal = known.filter(|principal| principal.auth().is_some()).map(|principal| {
        let consumers = &exchange.live().site.config.consumers;
        Principal {
            subject: principal.subject().map(str::to_owned),
            consumer: principal.consumer().map(|id| consumers[id.0].name.clone()),
            claims: principal.claims().cloned(),
            scopes: principal.granted().to_owned(),
        }
    });
    Request {
        id: exchange.id.as_str().to_owned(),
        method: head.method_name().to_owned(),
        path: head.path().to_owned(),
        query: head.query().unwrap_or_default().to_owned(),
        host: exchange.host.clone(),
        client: Some(exchange.client.address),
        head: lines,
        parameters,
        principal,
        body,
        role: Role::Handler,
    }
}
