//! Compiled programs: steps as a list with jumps, requests without variables as bytes.

mod flatten;
mod ops;

pub(super) use ops::{
    Action, Choice, ChoiceAction, Control, Depth, GroupPlan, LoopAction, Op, Target,
};

use super::encode::{self, Encoded, ExtraFields, Message};
use super::request_error::RequestError;
use crate::program::{
    Body, Check, CheckKind, Extractor, Label, Origin, PostProcessor, Program, Request, Scope,
    State, Stream, StreamKind, Url, Values, Variable,
};
use std::sync::Arc;
use weir_wire::Method;

/// A compiled program.
pub(super) struct Plan {
    pub(super) program: Arc<Program>,
    pub(super) groups: Vec<GroupPlan>,
    pub(super) requests: Vec<PreparedRequest>,
    pub(super) origins: Vec<Arc<Origin>>,
    /// Variable with the success of the last sample.
    pub(super) last_success: Option<Variable>,
}

/// A compiled request.
pub(super) struct PreparedRequest {
    pub(super) request: Arc<Request>,
    pub(super) method: Method,
    pub(super) encoded: Option<Encoded>,
    pub(super) capture: Capture,
    /// A check of the status replaces the set of successful statuses.
    pub(super) status_is_checked: bool,
}

/// Captured part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Capture {
    None,
    Head,
    Body,
}

impl Plan {
    /// Compiles a program.
    ///
    /// # Errors
    /// A request without variables is invalid.
    pub(super) fn new(program: Arc<Program>) -> Result<Self, (Label, RequestError)> {
        let mut plan = Self {
            groups: Vec::new(),
            requests: Vec::new(),
            origins: Vec::new(),
            last_success: program.last_success(),
            program: program.clone(),
        };
        for group in &program.groups {
            let row = flatten::group(&mut plan, &group.steps)?;
            plan.groups.push(row);
        }
        Ok(plan)
    }

    pub(super) fn prepare(
        &mut self,
        request: &Arc<Request>,
    ) -> Result<PreparedRequest, RequestError> {
        let capture = if request.decode
            || request.checks.iter().any(Check::needs_body)
            || request.extractors.iter().any(Extractor::needs_body)
            || request.post_processors.iter().any(PostProcessor::needs_body)
            || self.program.reads_responses
            || self.program.scripts.as_ref().is_some_and(|all| all.reads_previous)
            || request.scripts.is_some()
            || request.client.resources.is_some()
        {
            Capture::Body
        } else if !(request.checks.is_empty()
            && request.extractors.is_empty()
            && request.post_processors.is_empty())
        {
            Capture::Head
        } else {
            Capture::None
        };
        let is_status = |check: &Check| match &check.kind {
            CheckKind::Status(_) => true,
            CheckKind::Assertion(assertion) => assertion.ignores_status(),
            _ => false,
        };
        Ok(PreparedRequest {
            method: Method::of(&request.method),
            encoded: self.encode(request)?,
            capture,
            status_is_checked: request.checks.iter().any(is_status),
            request: request.clone(),
        })
    }

    /// The request as bytes, if it has no variables.
    fn encode(&mut self, request: &Request) -> Result<Option<Encoded>, RequestError> {
        if !request.method.bytes().all(weir_wire::is_token) || request.method.is_empty() {
            return Err(RequestError::request(format!(
                "{:?} is not a valid method",
                request.method
            )));
        }
        if !encode::is_fixed(request) {
            return Ok(None);
        }
        let program = self.program.clone();
        // The request has no variables: state and values are unused.
        let state = State::default();
        let mut values = Values::new(&program, &state, 0, 0, 0);
        let mut scope = Scope { program: &program, state: &state, values: &mut values };
        let (origin, target) = match encode::destination(request, &mut scope) {
            Ok(destination) => destination,
            // Each sample fails, as in JMeter.
            Err(_) if request.client.strict => return Ok(None),
            Err(error) => return Err(error),
        };
        let bodies = if let Body::Cycle(all) = &request.body { all.len() } else { 1 };
        let mut messages = Vec::with_capacity(bodies);
        for body in 0..bodies {
            let mut message = Message::default();
            let destination = (&origin, target.as_str());
            encode::write(
                request,
                destination,
                (body, ExtraFields::default()),
                &mut scope,
                &mut message,
            )?;
            if request.http2 {
                message.http2 = Some(message.to_http2(&origin, &target)?);
            }
            if let Some(Stream { kind: StreamKind::Grpc(call), .. }) = request.stream.as_deref() {
                // As checks and examples show it.
                message.bytes.extend_from_slice(call.fixed_json().unwrap_or_default().as_bytes());
            }
            message.bytes.shrink_to_fit();
            messages.push(message);
        }
        // JMeter shows the URL as written.
        let url = match &request.url {
            Url::Parts { target: text, .. } if request.client.strict => {
                origin.url(&text.render(&mut scope))
            }
            _ => origin.url(&target),
        };
        let known = self.origins.iter().position(|known| **known == origin);
        let origin = known.unwrap_or_else(|| {
            self.origins.push(Arc::new(origin));
            self.origins.len() - 1
        });
        Ok(Some(Encoded { origin, url, target, messages }))
    }
}
