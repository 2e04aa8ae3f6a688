//! A request to a FastCGI agent, or to a CGI program.

use super::call::Call;
use super::{agents, variables};
use crate::handler::HandlerInput;
use crate::script_path::Found;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use weir_broker::{CgiStarted, Outcome, Pool};
use weir_http::body::RequestBody;
use weir_http::buffer;
use weir_http::clock;
use weir_http::headers::strip_response;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_http::stream::Stream;
use weir_model::pool::AgentProtocol;
use weir_upstream::agent_connections::LeaseGuard;
use weir_upstream::{AgentOutcome, Connection, FastCgiUpload, Scope, Timeouts};
use weir_wire::Framing;
use weir_wire::fastcgi::{ParamsWriter, request};

/// Sends the request. The head of the response is in `input.response` afterwards.
pub(super) async fn send<'a>(
    input: &mut HandlerInput<'_>,
    (pool, settings): (&Arc<Pool>, &weir_model::pool::Pool),
    program: (&Found, &Call),
    body: &mut RequestBody<'a>,
    timeouts: Timeouts,
) -> Result<AgentOutcome<'a>, Rejection> {
    let is_fastcgi = settings.protocol == AgentProtocol::FastCgi;
    let framing = body.framing();
    let method = program.1.verb(input.request);
    let (connection, out) = if is_fastcgi {
        let mut out = buffer::take_vec();
        request::begin(&mut out, true);
        let mut params = ParamsWriter::new(&mut out);
        variables::each(
            (&input.context, input.request),
            settings,
            program,
            framing,
            |name, value| {
                params.push(name, value);
            },
        );
        params.finish_request();
        (agents(input, pool).0.check_out().await?, out)
    } else {
        (start(input, pool, settings, program, framing).await?, Vec::new())
    };
    let called = clock::recent();
    let body = std::mem::replace(body, RequestBody::empty());
    let mut upload = FastCgiUpload::new(out, body, is_fastcgi, pool);
    let (mut agents, response) = agents(input, pool);
    let scope =
        Scope { method, deadline: agents.deadline, timeouts, upgrade: false, interim: None };
    let (connection, head) = agents.send(connection, &mut upload, response, &scope).await?;
    let outcome = head.finish(connection, upload, response.framing, timeouts.idle);
    if !matches!(outcome, AgentOutcome::Redirect(_)) {
        input.recording.responded(called);
        strip_response(input.response, input.request.method);
    }
    Ok(outcome)
}

/// Starts a CGI program for this request.
async fn start(
    input: &mut HandlerInput<'_>,
    pool: &Arc<Pool>,
    settings: &weir_model::pool::Pool,
    program: (&Found, &Call),
    framing: Framing,
) -> Result<Box<Connection>, Rejection> {
    let mut all: Vec<(String, OsString)> = Vec::with_capacity(40);
    variables::each((&input.context, input.request), settings, program, framing, |name, value| {
        if !value.contains(&0) {
            all.push((name.to_owned(), OsString::from_vec(value.to_vec())));
        }
    });
    let mut lease = agents(input, pool).0.lease().await?;
    lease.mark_sent();
    let (file, broker) = (program.0.file.clone(), Arc::clone(pool));
    // Loading a program takes longer than other requests of this worker may be delayed.
    let started =
        tokio::task::spawn_blocking(move || CgiStarted::start(&broker, file.as_deref(), &all));
    let started = match started.await {
        Ok(started) => started.and_then(|started| started.attach(pool)),
        Err(_) => return Err(Problem::Internal.into()),
    };
    let mut process = match started {
        Ok(process) => process,
        Err(error) => {
            pool.log(&format!("the program cannot be started: {error}"));
            let _ = lease.release(Outcome::Unused { connected: false });
            return Err(Problem::PoolUnavailable.into());
        }
    };
    let pipes = process.stdin.take().zip(process.stdout.take());
    let guard = LeaseGuard::new(&input.context.worker.agents, lease, Some(process));
    let (stdin, stdout) = pipes.ok_or(Problem::Internal)?;
    Ok(Connection::to_agent(Stream::pipes(stdin, stdout), false, guard))
}
