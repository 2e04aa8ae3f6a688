//! A request to an agent that speaks FastCGI, or to a CGI program.

use super::answer::{AgentBody, settle};
use super::call::Call;
use super::connect;
use super::failure::Failure;
use super::feeding::Feeding;
use super::output::{Output, OutputError};
use super::{lease, variables};
use crate::agent_connections::LeaseGuard;
use crate::body::RequestBody;
use crate::buffer;
use crate::clock;
use crate::deadline::Wait;
use crate::exchange::Exchange;
use crate::headers::strip_response;
use crate::problem::Problem;
use crate::proxy::sending::SendingError;
use crate::proxy::{ANSWER_LIMITS, Limits};
use crate::refusal::Refusal;
use crate::response_body::Body;
use crate::script_path::Found;
use crate::stream::Stream;
use crate::upstream::Connection;
use bytes::Bytes;
use std::ffi::OsString;
use std::future::poll_fn;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use std::task::{Context, Poll};
use weir_broker::{CgiStarted, Outcome, Pool};
use weir_config::AgentProtocol;
use weir_wire::cgi::CgiScan;
use weir_wire::fastcgi::{ParamsWriter, ProtocolStatus, request};
use weir_wire::{Framing, HeadError, Method, ResponseHead};

/// Answers of up to so many bytes that are there as a whole when their head is go as a whole, so
/// that the agent is free before the client has them.
const WHOLE: usize = 32 * 1024;

/// What has come of it.
pub(super) enum Answered<'a> {
    /// An answer, whose head is in the exchange.
    Body(Body<'a>),
    /// This path, with a query maybe, is to be answered instead.
    Elsewhere(String),
}

/// The head has come.
struct Front {
    /// What came behind it.
    body: Vec<u8>,
    /// Where weir is sent instead.
    elsewhere: Option<String>,
}

/// Has a program answer.
pub(super) async fn answer<'a>(
    exchange: &mut Exchange,
    (pool, settings): (&Arc<Pool>, &weir_config::Pool),
    asked: (&Found, &Call),
    body: &mut RequestBody<'a>,
    limits: Limits,
) -> Result<Answered<'a>, Refusal> {
    let framed = settings.protocol == AgentProtocol::FastCgi;
    let framing = body.framing();
    let (mut connection, out) = if framed {
        let mut out = buffer::take_vec();
        request::begin(&mut out, true);
        let mut params = ParamsWriter::new(&mut out);
        variables::each(exchange, settings, asked, framing, |name, value| {
            params.push(name, value);
        });
        params.finish_request();
        (connect::agent(exchange, pool, true).await?, out)
    } else {
        (start(exchange, pool, settings, asked, framing).await?, Vec::new())
    };
    let called = clock::recent();
    let body = std::mem::replace(body, RequestBody::empty());
    let mut feeding = Feeding::new(out, body, framed);
    let mut output = Output::new(framed, Arc::clone(pool));
    let method = asked.1.verb(exchange);
    let mut repeats = 0;
    let Front { body: front, elsewhere } = loop {
        let attempt =
            send_and_wait(exchange, &mut connection, &mut feeding, &mut output, method, limits)
                .await;
        let failure = match attempt {
            Ok(front) => break front,
            Err(failure) => failure,
        };
        if failure.is_lost()
            && feeding.may_repeat(method)
            && connect::may_repeat(&mut connection, repeats).await
        {
            repeats += 1;
            connection = connect::again(exchange, pool, connection).await?;
            feeding.rewind();
            output = Output::new(framed, Arc::clone(pool));
            continue;
        }
        feeding.abort(&connection.stream);
        return Err(failure.give_up(*connection));
    };
    connect::answers(&mut connection);
    if let Some(location) = elsewhere {
        settle(connection, output, feeding.is_complete());
        return Ok(Answered::Elsewhere(location));
    }
    exchange.recording.answered(called);
    strip_response(&mut exchange.response, exchange.request.method);
    Ok(Answered::Body(body_of(exchange, front, connection, feeding, output, limits)))
}

/// The body, whole if it is there.
fn body_of<'a>(
    exchange: &mut Exchange,
    mut front: Vec<u8>,
    mut connection: Box<Connection>,
    feeding: Feeding<'a>,
    mut output: Output,
    limits: Limits,
) -> Body<'a> {
    let framing = exchange.response.framing;
    while front.len() < WHOLE && matches!(output.advance(&mut connection), Ok(true)) {
        let count = output.ready();
        if count == 0 {
            break;
        }
        front.extend_from_slice(&connection.buffer.filled()[..count]);
        output.consume(&mut connection, count);
    }
    let whole = output.end().is_some() && output.ready() == 0;
    let fits = match framing {
        Framing::None => true,
        Framing::Length(length) => front.len() as u64 == length,
        Framing::Chunked | Framing::UntilClose => true,
    };
    if whole && fits && feeding.is_complete() {
        settle(connection, output, true);
        return if framing == Framing::None {
            Body::Agent(Box::new(AgentBody::nothing()))
        } else {
            Body::Whole(Bytes::from(front))
        };
    }
    let front = Bytes::from(front);
    let body = AgentBody::new(front, connection, feeding, output, framing, limits.idle);
    Body::Agent(Box::new(body))
}

/// Starts a program for this request.
async fn start(
    exchange: &mut Exchange,
    pool: &Arc<Pool>,
    settings: &weir_config::Pool,
    asked: (&Found, &Call),
    framing: Framing,
) -> Result<Box<Connection>, Refusal> {
    let mut all: Vec<(String, OsString)> = Vec::with_capacity(40);
    variables::each(exchange, settings, asked, framing, |name, value| {
        if !value.contains(&0) {
            all.push((name.to_owned(), OsString::from_vec(value.to_vec())));
        }
    });
    let mut lease = lease(exchange, pool).await?;
    lease.sending();
    let (file, broker) = (asked.0.file.clone(), Arc::clone(pool));
    // Loading a program takes longer than others on this worker may have to wait.
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
            let _ = lease.settle(Outcome::Unused { connected: false });
            return Err(Problem::PoolUnavailable.into());
        }
    };
    let pipes = process.stdin.take().zip(process.stdout.take());
    let hold = LeaseGuard::new(&exchange.worker.agents, lease, Some(process));
    let (stdin, stdout) = pipes.ok_or(Problem::Internal)?;
    Ok(Connection::to_agent(Stream::pipes(stdin, stdout), false, hold))
}

/// Sends the request and waits for the head of the answer, both at once.
async fn send_and_wait(
    exchange: &mut Exchange,
    connection: &mut Connection,
    feeding: &mut Feeding<'_>,
    output: &mut Output,
    method: Method,
    limits: Limits,
) -> Result<Front, Failure> {
    let deadline = std::rc::Rc::clone(&exchange.deadline);
    let mut reading = Reading { scan: CgiScan::default(), head: Vec::new() };
    deadline.progress();
    poll_fn(|cx| {
        let mut body_late = false;
        if !feeding.is_over() {
            match feeding.poll(&connection.stream, cx) {
                Poll::Ready(Ok(())) => deadline.progress(),
                Poll::Ready(Err(SendingError::Client(error))) => {
                    return Poll::Ready(Err(Failure::Client(error)));
                }
                // It takes no more; perhaps it has answered.
                Poll::Ready(Err(SendingError::Upstream)) => {}
                Poll::Pending => body_late = true,
            }
            if feeding.take_moved() {
                deadline.progress();
            }
        }
        let read = reading.poll(connection, output, method, &mut exchange.response, cx);
        if let Poll::Ready(done) = read {
            return Poll::Ready(done);
        }
        let (wait, limit) = match (body_late, feeding.waits_for_client()) {
            (true, true) => (Wait::RequestBody, feeding.client_idle()),
            (true, false) => (Wait::UpstreamBody, limits.idle),
            (false, _) => (Wait::FirstByte, limits.first_byte),
        };
        deadline.poll(cx, wait, limit).map(|expired| Err(Failure::Late(expired)))
    })
    .await
}

/// Where reading an answer's head stands.
struct Reading {
    scan: CgiScan,
    /// What has come of it, if it did not come at once.
    head: Vec<u8>,
}

impl Reading {
    fn poll(
        &mut self,
        connection: &mut Connection,
        output: &mut Output,
        method: Method,
        response: &mut ResponseHead,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Front, Failure>> {
        loop {
            let more = match output.poll(connection, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(more)) => more,
                Poll::Ready(Err(OutputError::Closed)) => {
                    let answered = !self.head.is_empty() || !connection.buffer.is_empty();
                    return Poll::Ready(Err(Failure::Closed { answered }));
                }
                Poll::Ready(Err(OutputError::Garbage(error))) => {
                    return Poll::Ready(Err(Failure::Garbage(error.to_string())));
                }
            };
            if !more {
                return Poll::Ready(Err(self.ended(output)));
            }
            let piece = &connection.buffer.filled()[..output.ready()];
            let count = piece.len();
            self.head.extend_from_slice(piece);
            output.consume(connection, count);
            match self.scan.parse(&self.head, method, response, &ANSWER_LIMITS) {
                Err(error) => return Poll::Ready(Err(Failure::Garbage(text(error)))),
                Ok(Some(taken)) => {
                    let elsewhere = self.scan.local_redirect(response).map(str::to_owned);
                    let body = self.head.split_off(taken);
                    return Poll::Ready(Ok(Front { body, elsewhere }));
                }
                Ok(None) => {}
            }
        }
    }

    /// The output is over, and there is no head.
    fn ended(&self, output: &Output) -> Failure {
        match output.end() {
            Some(Some(end)) if end.protocol == ProtocolStatus::Overloaded => Failure::Overloaded,
            Some(Some(end)) if end.protocol != ProtocolStatus::Complete => {
                Failure::Garbage("the agent did not accept the request".to_owned())
            }
            Some(Some(_)) => Failure::Garbage("the response has no head".to_owned()),
            _ => Failure::Closed { answered: !self.head.is_empty() },
        }
    }
}

fn text(error: HeadError) -> String {
    match error {
        // What the start line of HTTP is, is the status of CGI.
        HeadError::StartLine => "the response has no head or no valid status".to_owned(),
        error => error.to_string(),
    }
}
