//! The `script` handler: a JavaScript module answers.
//!
//! The engine is a worker's own and does no I/O: a call runs in the request's task until it has an
//! answer or waits, and what it waits for (an upstream, time) is polled in that task, too. Between
//! its turns other calls have the engine.

mod answer;
mod drive;
mod guard;
mod plan;
mod seat;

pub(crate) use plan::ScriptPlan;
pub(crate) use seat::Slot;

use crate::body::{Body, RequestBody};
use crate::exchange::Exchange;
use crate::path;
use crate::problem::Problem;
use crate::refusal::Refusal;
use plan::{Place, Seat};
use std::rc::Rc;
use weir_config::{Route, Script, Segment};
use weir_script::{End, Notes, Principal, Request, Step};

/// Answers a request by a script.
pub(crate) async fn answer<'a>(
    exchange: &mut Exchange,
    route: &Route,
    script: &Script,
    mut body: RequestBody<'a>,
) -> Result<Body<'a>, Refusal> {
    let live = Rc::clone(exchange.live());
    let (api, index) = exchange.route.ok_or(Problem::Internal)?;
    let place = live.site.scripts.place(api, index).ok_or(Problem::Internal)?;
    if let Some(seconds) = place.guard.suspended() {
        // What has come of its body is recorded all the same.
        let _ = body.drop_at_hand();
        let refusal = Refusal::new(Problem::ScriptSuspended);
        return Err(refusal.header("retry-after", seconds.to_string()));
    }
    let export = export(exchange, script)?;
    let bytes = if body.framing().is_empty() {
        Vec::new()
    } else {
        Box::pin(body.read_whole(&exchange.deadline)).await?
    };
    let request = request(exchange, route, script, bytes);
    let end = match &place.seat {
        Seat::Here(program) => {
            let slot = &live.scripts;
            let (generation, step) = slot.begin(*program, export, request)?;
            if step.end.is_some() {
                finished(exchange, script, step)
            } else {
                Box::pin(drive::here(exchange, route, script, slot, generation, step)).await?
            }
        }
        Seat::Thread(thread) => {
            Box::pin(drive::elsewhere(exchange, route, script, thread, export, request)).await?
        }
    };
    conclude(exchange, script, place, end)
}

/// The function of the script that answers this method.
pub(crate) fn export(exchange: &Exchange, script: &Script) -> Result<usize, Refusal> {
    script.program.export_for(exchange.request.method_name()).ok_or_else(|| {
        let allowed = script.program.exports().join(", ");
        Refusal::new(Problem::MethodNotAllowed).header("allow", allowed)
    })
}

/// Takes over what a last step leaves behind.
fn finished(exchange: &mut Exchange, script: &Script, step: Step) -> End {
    console(exchange, script, &step);
    // What was noted before the script was called comes first.
    match (&mut exchange.notes, step.notes) {
        (Some(before), Some(mut own)) => {
            own.logs.splice(0..0, std::mem::take(&mut before.logs));
            own.properties.splice(0..0, std::mem::take(&mut before.properties));
            exchange.notes = Some(own);
        }
        (Some(_), None) => {}
        (None, own) => exchange.notes = own,
    }
    step.end.unwrap_or(End::Stuck)
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

/// What becomes of how a call ended.
fn conclude<'a>(
    exchange: &mut Exchange,
    script: &Script,
    place: &Place,
    end: End,
) -> Result<Body<'a>, Refusal> {
    let (problem, why) = match end {
        End::Answer(answer) => match answer::give(exchange, script, *answer) {
            Ok(body) => return Ok(body),
            Err(answer::Unfit::Refused(refusal)) => return Err(refusal),
            Err(answer::Unfit::Malformed(why)) => (Problem::ScriptFailed, why),
        },
        End::Threw(what) => (Problem::ScriptFailed, what),
        End::Stuck => {
            let why = "it waits for a promise that nothing can settle any more";
            (Problem::ScriptFailed, why.to_owned())
        }
        End::Stopped => {
            place.guard.stopped();
            (Problem::ScriptStopped, "stopped: it used more CPU time than it may".to_owned())
        }
        End::OutOfMemory => {
            place.guard.stopped();
            (Problem::ScriptMemory, "the engine ran out of memory and is made anew".to_owned())
        }
    };
    say(exchange, script, "error", &why);
    let notes = exchange.notes.get_or_insert_default();
    notes.add(weir_script::Note::Log, "", &why);
    Err(problem.into())
}

/// What the script is given.
fn request(exchange: &Exchange, route: &Route, script: &Script, body: Vec<u8>) -> Request {
    let head = &exchange.request;
    let mut lines = Vec::with_capacity(256);
    weir_wire::encode::fields(&mut lines, &head.headers);
    let decoded = |name: &str| path::decode(&exchange.raw_parameter(name)).into_owned();
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
    }
}

/// What a script says about its transaction, as it is recorded.
pub(crate) fn pairs(list: &[(String, String)]) -> Vec<(&str, &str)> {
    list.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Notes of nobody.
pub(crate) static NOTHING: Notes =
    Notes { keys: Vec::new(), properties: Vec::new(), logs: Vec::new() };
