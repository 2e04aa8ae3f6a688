//! The facts of a request in flight from its handler on: what is not changed any more.

use crate::arrival::Arrival;
use crate::decisions::Decisions;
use crate::worker::{Live, Worker};
use std::cell::RefCell;
use std::rc::Rc;
use weir_config::{Config, Route};
use weir_http::deadline::Deadline;
use weir_http::rejection::Rejection;
use weir_record::client_request::ClientRequest;
use weir_telemetry::spans::RequestSpan;
use weir_telemetry::trace_context::TraceContext;
use weir_wire::{Headers, RequestHead};

/// The facts of a request whose route is found.
#[derive(Clone, Copy)]
pub struct Context<'x> {
    /// The worker that serves the request.
    pub worker: &'static Worker,
    /// The Site of the worker.
    pub live: &'x Rc<Live>,
    /// Deadline of the request.
    pub deadline: &'x Deadline,
    /// How the request arrived.
    pub arrival: &'x Arrival,
    /// Protocol version of the request as `Via` names it.
    pub version: &'static str,
    /// The client speaks HTTP/1.1: it may get interim responses, and upgrade its connection.
    pub(crate) is_http11: bool,
    /// The route.
    pub route: &'x Route,
    /// Indexes of API and route.
    pub(crate) at: (usize, usize),
    /// What was decided so far.
    pub decisions: &'x Decisions,
    /// There if the request is traced.
    pub(crate) span: Option<&'x Rc<RequestSpan>>,
    /// Interim responses that the client is still to get, as encoded.
    pub interim: &'x RefCell<Vec<u8>>,
}

impl<'x> Context<'x> {
    /// The Config of the request.
    pub fn config(&self) -> &'x Config {
        &self.live.site.config
    }

    /// The request, to read.
    pub(crate) fn view<'v>(&self, head: &'v RequestHead) -> ClientRequest<'v>
    where
        'x: 'v,
    {
        self.live.view(head, self.arrival, self.decisions)
    }

    /// Where interim responses go, if the client may get them (RFC 9110 section 15.2). They are
    /// encoded for HTTP/1.1, so clients of HTTP/2 get none but `100 (Continue)`, which weir sends
    /// itself.
    pub fn interim(&self) -> Option<&'x RefCell<Vec<u8>>> {
        self.is_http11.then_some(self.interim)
    }

    /// Checks another name of what the path leads to: no route of that name may demand more than the
    /// one that was found, or weir itself would bypass it.
    ///
    /// # Errors
    /// There is such a route.
    pub(crate) fn admit_name(&self, request: &RequestHead, name: &str) -> Result<(), Rejection> {
        let site = &self.live.site;
        let method = (self.arrival.host.as_str(), request.method_name());
        Ok(site.router.admit_name(&site.config, method, name, self.at)?)
    }

    /// Writes the trace that the request belongs to into headers for an upstream.
    pub(crate) fn announce_trace(&self, headers: &mut Headers) {
        match self.span {
            Some(span) => span.inject(headers),
            None => {
                // If weir samples, what has no span was not sampled.
                let sampled = self.live.traces().is_none();
                TraceContext::establish(headers, sampled);
            }
        }
    }
}
