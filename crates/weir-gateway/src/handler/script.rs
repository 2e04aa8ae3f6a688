//! Scripts: a JavaScript module responds (the `script` handler), or transforms requests to or
//! responses of another handler.
//!
//! The engine belongs to a worker and does no I/O: a call runs in the task of the request until it
//! has a result or waits. Its operations (a fetch, a timer) are polled in that task, too. While a
//! call waits, the engine runs other calls.

mod event_loop;
mod map;
mod response;

pub(crate) use map::{Mapped, request as map_request, response as map_response};

use super::{HandlerInput, Outline};
use crate::context::Context;
use crate::response_body::ResponseBody;
use crate::script_engine::{Part, Place, Placement};
use weir_config::Script;
use weir_http::body::RequestBody;
use weir_http::headers::apply_edits;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_script::{End, Principal, Request, Role, Step};
use weir_wire::RequestHead;

/// Responds with the result of a script.
pub(super) async fn serve<'a>(
    input: &mut HandlerInput<'_>,
    script: &Script,
    mut body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let place = match place(&input.context, Part::Handler) {
        Ok(place) => place,
        Err(rejection) => {
            // Buffered bytes of the body are recorded nevertheless.
            let _ = body.discard_buffered();
            return Err(rejection);
        }
    };
    let export = export(input.request, script)?;
    let bytes = if body.framing().is_empty() {
        Vec::new()
    } else {
        Box::pin(body.read_all(input.context.deadline)).await?
    };
    prepare(&input.context, input.request);
    let request = request(&input.context, input.request, script, bytes);
    match call(input, script, place, export, request).await? {
        End::Response(result) => response::write(input, script, *result),
        end => Err(failed(input, script, place, end)),
    }
}

/// Builds the headers for the script.
pub(super) fn outline(input: &mut HandlerInput<'_>, script: &Script) -> Result<Outline, Rejection> {
    let function = &script.program.exports[export(input.request, script)?];
    let name = format!("{} ({function})", script.program.name());
    prepare(&input.context, input.request);
    Ok(Outline::Whole("script", name))
}

/// Converts the headers for a script: edited as for any handler.
fn prepare(context: &Context<'_>, request: &mut RequestHead) {
    apply_edits(&mut request.headers, &context.route.request_headers);
    if let Some(replay) = &context.arrival.replay {
        replay.mark(&context.route.resubmit, context.arrival.id.as_str(), &mut request.headers);
    }
}

/// The placement of a script of the route.
///
/// # Errors
/// Its circuit breaker is open.
fn place<'x>(context: &Context<'x>, part: Part) -> Result<&'x Place, Rejection> {
    let route = context.live.site.route(context.at);
    let place = route.scripts.place(part).ok_or(Problem::Internal)?;
    match place.breaker.suspended() {
        None => Ok(place),
        Some(seconds) => {
            let rejection = Rejection::new(Problem::ScriptSuspended);
            Err(rejection.header("retry-after", seconds.to_string()))
        }
    }
}

/// Calls a script on its engine, until it ends.
async fn call(
    input: &mut HandlerInput<'_>,
    script: &Script,
    place: &Place,
    export: usize,
    request: Request,
) -> Result<End, Rejection> {
    match &place.placement {
        Placement::Here(program) => {
            let slot = &input.context.live.scripts;
            let (generation, step) = slot.begin(*program, export, request)?;
            if step.end.is_some() {
                Ok(finish(input, script, step))
            } else {
                Box::pin(event_loop::run_here(input, script, slot, generation, step)).await
            }
        }
        Placement::Thread(thread) => {
            Box::pin(event_loop::run_on(thread, input, script, export, request)).await
        }
    }
}

/// The export of the script for this method.
fn export(request: &RequestHead, script: &Script) -> Result<usize, Rejection> {
    script.program.export_for(request.method_name()).ok_or_else(|| {
        let allowed = script.program.exports.join(", ");
        Rejection::new(Problem::MethodNotAllowed).header("allow", allowed)
    })
}

/// Takes the output of the last step.
fn finish(input: &mut HandlerInput<'_>, script: &Script, step: Step) -> End {
    log_console(&input.context, script, &step);
    let notes = &mut *input.notes;
    // Annotations from before the call precede those of the script.
    match (notes.as_mut(), step.annotations) {
        (Some(before), Some(mut own)) => {
            own.logs.splice(0..0, std::mem::take(&mut before.logs));
            own.properties.splice(0..0, std::mem::take(&mut before.properties));
            *notes = Some(own);
        }
        (Some(_), None) => {}
        (None, own) => *notes = own,
    }
    step.end.unwrap_or(End::Deadlocked)
}

/// Writes the console output of a step to the log.
fn log_console(context: &Context<'_>, script: &Script, step: &Step) {
    for line in &step.console {
        log(context, script, line.level, &line.text);
    }
}

fn log(context: &Context<'_>, script: &Script, level: &'static str, text: &str) {
    let json = context.config().access_log.format == Some(weir_config::LogFormat::Json);
    let (worker, name) = (context.worker, script.program.name());
    if !worker.shared.log.say(context.arrival.id.as_str(), name, level, text, json) {
        worker.stats.log_dropped.add(1);
    }
}

/// The response to a call that ended without a result.
fn failed(input: &mut HandlerInput<'_>, script: &Script, place: &Place, end: End) -> Rejection {
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
    report(input, script, problem, &why)
}

/// Reports an error in the log and in the record, but not to the client.
fn report(input: &mut HandlerInput<'_>, script: &Script, problem: Problem, why: &str) -> Rejection {
    log(&input.context, script, "error", why);
    input.note(why);
    problem.into()
}

/// The request object for a script.
fn request(context: &Context<'_>, head: &RequestHead, script: &Script, body: Vec<u8>) -> Request {
    let view = context.view(head);
    let mut lines = Vec::with_capacity(256);
    weir_wire::encode::fields(&mut lines, &head.headers);
    let known = context.decisions.principal.as_deref().filter(|_| script.program.reads_principal);
    let principal =
        known.filter(|principal| principal.auth().is_some()).map(|principal| Principal {
            subject: principal.subject().map(str::to_owned),
            consumer: view.consumer_name().map(str::to_owned),
            claims: principal.claims().cloned(),
            scopes: principal.granted().to_owned(),
        });
    Request {
        id: context.arrival.id.as_str().to_owned(),
        method: head.method_name().to_owned(),
        path: head.path().to_owned(),
        query: head.query().unwrap_or_default().to_owned(),
        host: context.arrival.host.clone(),
        client: Some(context.arrival.client.address),
        head: lines,
        parameters: view.parameters().collect(),
        principal,
        body,
        role: Role::Handler,
    }
}
