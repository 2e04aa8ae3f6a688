//! Schemas of calls from the server itself, before a run.

use crate::engine::EngineError;
use crate::engine::connection::Connection;
use crate::engine::http2::{self, Part};
use crate::engine::request_error::RequestError;
use crate::engine::tls::Tls;
use crate::grpc::{
    Content, Decoder, Descriptors, Question, Reply, Request as ReflectionRequest, SERVICES, Status,
    frame, parts,
};
use crate::program::{GrpcCall, Origin, Program, Request, Step, StreamKind, Url};
use http_body_util::{Either, Full};
use prost_reflect::DescriptorPool;
use prost_reflect::prost::Message;
use std::collections::HashMap;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use weir_document::finding::nearest;

/// Largest number of questions for a schema.
const MAX_QUESTIONS: usize = 1_000;

/// Binds the calls whose schema is not known to that of their server.
///
/// # Errors
/// The server cannot be reached, has no reflection or not the method, or a message does not fit.
pub(in crate::engine) fn bind(program: &Program) -> Result<(), EngineError> {
    let steps = program.steps();
    let unbound = steps.iter().filter_map(|step| {
        let Step::Request(request) = step else { return None };
        let StreamKind::Grpc(call) = &request.stream.as_deref()?.kind else { return None };
        call.bound.get().is_none().then_some((&**request, call))
    });
    let tls = Tls::of(program);
    let mut pools = HashMap::new();
    for (request, call) in unbound {
        let bound = bind_call(request, call, &tls, &mut pools);
        bound.map_err(|message| EngineError::Request {
            label: program.labels.name(request.label, str::to_owned),
            message,
        })?;
    }
    Ok(())
}

fn bind_call(
    request: &Request,
    call: &GrpcCall,
    tls: &Tls,
    pools: &mut HashMap<(Origin, String), DescriptorPool>,
) -> Result<(), String> {
    let (Url::Parts { origin, .. }, Some((service, _))) = (&request.url, parts(&call.path)) else {
        return Err(format!("`{}` is not a method", call.path));
    };
    let key = (origin.clone(), service.to_owned());
    let pool = match pools.get(&key) {
        Some(pool) => pool.clone(),
        None => {
            let pool = schema(request, (origin, service), tls)?;
            pools.insert(key, pool.clone());
            pool
        }
    };
    call.bind(&pool).map_err(|errors| {
        let text = |error: crate::program::TemplateError| match error.error.help {
            Some(help) => format!("{}: {help}", error.error.message),
            None => error.error.message,
        };
        errors.into_iter().map(text).collect::<Vec<_>>().join("; ")
    })
}

/// Asks the server for the schema of a service.
fn schema(
    request: &Request,
    (origin, service): (&Origin, &str),
    tls: &Tls,
) -> Result<DescriptorPool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let limit: Duration = request.timeouts.connect + request.timeouts.response;
    let reading = async {
        let reflection = Reflection { request, origin, tls };
        let read = tokio::time::timeout(limit, reflection.schema(service)).await;
        read.unwrap_or_else(|_| Err(format!("its reflection took longer than {limit:?}")))
    };
    LocalSet::new().block_on(&runtime, reading)
}

/// The reflection of a server.
struct Reflection<'r> {
    request: &'r Request,
    origin: &'r Origin,
    tls: &'r Tls,
}

impl Reflection<'_> {
    async fn schema(&self, service: &str) -> Result<DescriptorPool, String> {
        let (host, port) = (self.origin.host.as_str(), self.origin.port);
        let unreachable =
            |why: String| format!("its schema cannot be read from {host}:{port}: {why}");
        let stream = TcpStream::connect((host, port)).await;
        let stream = stream.map_err(|error| unreachable(error.to_string()))?;
        let mut user = None;
        let tls = self.tls.prepare(&mut user, None, (self.origin, true));
        let tls = tls.map_err(|fault| unreachable(fault.message))?;
        let opened = Connection::start(stream, tls, true).await;
        let mut connection = opened.map_err(|fault| unreachable(fault.message))?;
        let mut descriptors = Descriptors::default();
        let mut question = Question::Symbol(service.to_owned());
        for _ in 0..MAX_QUESTIONS {
            match self.ask(&mut connection, question).await?.content {
                Some(Content::Files(files)) => descriptors.add(&files)?,
                Some(Content::Error(_)) if descriptors.missing().is_none() => {
                    return Err(self.unknown(&mut connection, service).await);
                }
                Some(Content::Error(error)) => return Err(unreachable(error.message)),
                Some(Content::Services(_)) | None => {
                    return Err(unreachable("the reply of the reflection has no file".to_owned()));
                }
            }
            match descriptors.missing() {
                Some(file) => question = Question::File(file),
                None => return descriptors.pool().map_err(unreachable),
            }
        }
        Err(unreachable(format!("its schema needs more than {MAX_QUESTIONS} questions")))
    }

    /// The message for a service that the server does not have.
    async fn unknown(&self, connection: &mut Connection, service: &str) -> String {
        let listed = self.ask(connection, Question::Services(String::new())).await;
        let services = match listed.map(|reply| reply.content) {
            Ok(Some(Content::Services(list))) => list.services,
            _ => Vec::new(),
        };
        let names: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
        let near = match nearest(service, names.iter().copied()) {
            Some(near) => format!(": did you mean `{near}`?"),
            None => format!("; its services are {}", names.join(", ")),
        };
        format!("the server has no service `{service}`{near}")
    }

    /// Asks a question, by the newest version of the reflection that the server has.
    async fn ask(&self, connection: &mut Connection, question: Question) -> Result<Reply, String> {
        let question = ReflectionRequest { question: Some(question) };
        for service in SERVICES {
            match self.call(connection, service, &question).await.map_err(|fault| fault.message)? {
                Ok(reply) => return Ok(reply),
                Err(Status::Unimplemented) => {}
                Err(status) => return Err(format!("its reflection failed with {}", status.name())),
            }
        }
        Err("the server has no reflection: name the schema with `grpc: {proto: [FILE]}`".to_owned())
    }

    /// A call with a single message in each direction.
    async fn call(
        &self,
        connection: &mut Connection,
        service: &str,
        question: &ReflectionRequest,
    ) -> Result<Result<Reply, Status>, RequestError> {
        let Connection::Http2(connection) = connection else {
            return Err(RequestError::request("a call needs HTTP/2"));
        };
        let mut message = http::Request::post(self.origin.url(service));
        for (name, value) in &self.request.headers {
            // Credentials, for instance; not those that change.
            if let (Some(name), Some(value)) = (name.as_fixed(), value.as_fixed())
                && !name.eq_ignore_ascii_case("grpc-timeout")
            {
                message = message.header(name, value);
            }
        }
        let violation =
            |why: &dyn std::fmt::Display| RequestError::request(format!("its reflection: {why}"));
        let framed = frame(question).map_err(|error| violation(&error))?;
        let message = message.body(Either::Left(Full::new(framed)));
        let message = message.map_err(|error| violation(&error))?;
        let lost = |error: hyper::Error| http2::fault(&error);
        let mut reader = connection.open(message).await.map_err(lost)?;
        let (mut decoder, mut reply, mut status) = (Decoder::default(), None, None);
        loop {
            let fields = match reader.next().await.map_err(lost)? {
                Part::Head(head) => {
                    let coding = head.headers().get("grpc-encoding");
                    decoder = Decoder::new(coding.map_or(b"", http::HeaderValue::as_bytes));
                    if head.status() != 200 {
                        return Err(violation(&format!("status {}", head.status().as_u16())));
                    }
                    head.headers().clone()
                }
                Part::Data(data) => {
                    decoder.add(&data);
                    if let Some(frame) = decoder.next().map_err(|error| violation(&error))? {
                        let content = decoder.content(frame).map_err(|error| violation(&error))?;
                        reply = Some(Reply::decode(content).map_err(|error| violation(&error))?);
                    }
                    continue;
                }
                Part::Trailers(trailers) => trailers,
                Part::End => break,
            };
            let found = fields.get("grpc-status").map(http::HeaderValue::as_bytes);
            status = found.and_then(Status::of_field).or(status);
        }
        match (status, reply) {
            (Some(Status::Ok) | None, Some(reply)) => Ok(Ok(reply)),
            (Some(Status::Ok) | None, None) => Err(violation(&"it has no reply")),
            (Some(status), _) => Ok(Err(status)),
        }
    }
}
