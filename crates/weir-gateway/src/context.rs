//! Facts about a request that do not change from the handler on.

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

/// Facts about a request with a matched route.
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
    /// The client speaks HTTP/1.1: interim responses and upgrades are possible.
    pub(crate) is_http11: bool,
    /// The route.
    pub route: &'x Route,
    /// Indexes of API and route.
    pub(crate) at: (usize, usize),
    /// Decisions of the stages.
    pub decisions: &'x Decisions,
    /// Present if the request is traced.
    pub(crate) span: Option<&'x Rc<RequestSpan>>,
    /// Encoded interim responses that are to be sent to the client.
    pub interim: &'x RefCell<Vec<u8>>,
}

impl<'x> Context<'x> {
    /// The Config of the request.
    pub fn config(&self) -> &'x Config {
        &self.live.site.config
    }

    /// A read-only view of the request.
    pub(crate) fn view<'v>(&self, head: &'v RequestHead) -> ClientRequest<'v>
    where
        'x: 'v,
    {
        self.live.view(head, self.arrival, self.decisions)
    }

    /// The buffer of interim responses, if the client may receive them (RFC 9110 section 15.2).
    /// They are encoded for HTTP/1.1, so HTTP/2 clients receive none but `100 (Continue)`, which
    /// weir sends itself.
    pub fn interim(&self) -> Option<&'x RefCell<Vec<u8>>> {
        self.is_http11.then_some(self.interim)
    }

    /// Checks another name of the requested resource: no route of that name may have stricter
    /// requirements than the matched route, or weir itself would bypass it.
    ///
    /// # Errors
    /// Such a route exists.
    pub(crate) fn admit_name(&self, request: &RequestHead, name: &str) -> Result<(), Rejection> {
        let site = &self.live.site;
        let method = (self.arrival.host.as_str(), request.method_name());
        Ok(site.router.admit_name(&site.config, method, name, self.at)?)
    }

    /// Writes the trace context of the request into headers for an upstream.
    pub(crate) fn announce_trace(&self, headers: &mut Headers) {
        match self.span {
            Some(span) => span.inject(headers),
            None => {
                // If weir samples, a request without a span was not sampled.
                let sampled = self.live.traces().is_none();
                TraceContext::establish(headers, sampled);
            }
        }
    }
}
