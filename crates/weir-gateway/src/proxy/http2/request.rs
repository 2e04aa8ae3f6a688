//! The body of a request on its way to an upstream that speaks HTTP/2.

use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::headers::{filter_trailers, is_edited, is_underscored};
use crate::proxy::sending::SendingError;
use crate::worker::Live;
use bytes::Bytes;
use h2::{Reason, SendStream};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_config::{Handler, UpstreamId};
use weir_wire::Framing;

/// Most bytes that are taken of a body at once.
const PIECE: usize = 64 * 1024;

/// A body being sent.
pub(crate) struct Outflow<'a> {
    /// There once the head has gone.
    stream: Option<SendStream<Bytes>>,
    body: RequestBody<'a>,
    /// What its trailers may be; `None`: the request is one of weir's own.
    trailers: Option<TrailerRules>,
    framing: Framing,
    /// Taken from the body and not yet sent.
    front: Bytes,
    /// All of it, if it was at hand: it can be sent again.
    whole: Option<Bytes>,
    state: State,
    /// Something went out or came in since the last question.
    moved: bool,
    /// The client, not the upstream, is what is waited for.
    waits_for_client: bool,
}

/// Which trailers of a request do not go on: those of headers that edits remove or replace, that
/// carry weir's own credential, or that have an underscore in their name.
pub(crate) struct TrailerRules {
    live: Rc<Live>,
    /// Index of API and route.
    route: (usize, usize),
    upstream: UpstreamId,
}

impl TrailerRules {
    /// Those of a request that goes to this upstream.
    pub(crate) fn new(exchange: &Exchange, upstream: UpstreamId) -> Option<Self> {
        let live = Rc::clone(exchange.live());
        Some(Self { live, route: exchange.route?, upstream })
    }

    fn forbid(&self, name: &str) -> bool {
        let config = &self.live.site.config;
        let route = &config.apis[self.route.0].routes[self.route.1];
        let upstream = &config.upstreams[self.upstream.0];
        let by_handler =
            matches!(&route.handler, Handler::Proxy(proxy) if is_edited(&proxy.headers, name));
        by_handler
            || is_edited(&route.request_headers, name)
            || is_underscored(name.as_bytes(), &upstream.underscores_in_headers)
            || upstream.credential.as_ref().is_some_and(|own| own.header == name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Body,
    /// What is in front is the rest of it.
    Last,
    Over,
    /// The upstream takes no more.
    Broken,
}

impl<'a> Outflow<'a> {
    /// Begins with what is at hand of a body.
    pub(crate) fn new(mut body: RequestBody<'a>, trailers: Option<TrailerRules>) -> Self {
        let framing = body.framing();
        let front = body.take(PIECE);
        let mut outflow = Self {
            stream: None,
            framing,
            front,
            whole: None,
            state: State::Body,
            moved: false,
            waits_for_client: false,
            body,
            trailers,
        };
        if outflow.body.is_done() && !outflow.body.has_trailers() {
            outflow.whole = Some(outflow.front.clone());
            outflow.be_whole();
        }
        outflow
    }

    fn be_whole(&mut self) {
        self.state = if self.front.is_empty() { State::Over } else { State::Last };
    }

    /// The same once more, if all of it is at hand.
    pub(crate) fn again(&self) -> Option<Self> {
        let whole = self.whole.clone()?;
        let mut again = Self {
            stream: None,
            body: RequestBody::empty(),
            trailers: None,
            framing: self.framing,
            front: whole.clone(),
            whole: Some(whole),
            state: State::Last,
            moved: false,
            waits_for_client: false,
        };
        again.be_whole();
        Some(again)
    }

    /// How the body is framed.
    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    /// The head has gone.
    pub(crate) fn start(&mut self, stream: SendStream<Bytes>) {
        self.stream = Some(stream);
    }

    /// Nothing more will be sent.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Over | State::Broken)
    }

    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    pub(crate) fn waits_for_client(&self) -> bool {
        self.waits_for_client
    }

    /// How long the client may send nothing.
    pub(crate) fn client_idle(&self) -> Duration {
        self.body.idle()
    }

    /// Sends on until everything is out.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendingError>> {
        loop {
            if self.front.is_empty() && self.state == State::Body {
                self.waits_for_client = true;
                match self.body.poll_data(cx, None) {
                    Poll::Ready(Ok(true)) => {
                        self.front = self.body.take(PIECE);
                        self.moved = true;
                    }
                    Poll::Ready(Ok(false)) => return self.finish(),
                    Poll::Ready(Err(error)) => {
                        self.state = State::Broken;
                        if let Some(stream) = &mut self.stream {
                            stream.send_reset(Reason::CANCEL);
                        }
                        return Poll::Ready(Err(SendingError::Client(error)));
                    }
                    Poll::Pending => return Poll::Pending,
                }
                if self.body.is_done() && !self.body.has_trailers() {
                    self.state = State::Last;
                }
            }
            self.waits_for_client = false;
            let Some(stream) = &mut self.stream else { return self.broken() };
            stream.reserve_capacity(self.front.len());
            while stream.capacity() == 0 {
                match ready!(stream.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return self.broken(),
                }
            }
            let piece = self.front.split_to(stream.capacity().min(self.front.len()));
            let last = self.state == State::Last && self.front.is_empty();
            if stream.send_data(piece, last).is_err() {
                return self.broken();
            }
            self.moved = true;
            if last {
                self.state = State::Over;
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// The body is over: its trailers, or an end.
    fn finish(&mut self) -> Poll<Result<(), SendingError>> {
        let mut trailers = self.body.take_trailers();
        if let Some(trailers) = &mut trailers {
            let rules = self.trailers.as_ref();
            filter_trailers(trailers, |name| rules.is_none_or(|rules| rules.forbid(name)));
        }
        let trailers = trailers.filter(|trailers| !trailers.is_empty());
        let Some(stream) = &mut self.stream else { return self.broken() };
        let sent = match trailers {
            Some(trailers) => stream.send_trailers(trailers),
            None => stream.send_data(Bytes::new(), true),
        };
        if sent.is_err() {
            return self.broken();
        }
        self.state = State::Over;
        Poll::Ready(Ok(()))
    }

    fn broken(&mut self) -> Poll<Result<(), SendingError>> {
        self.state = State::Broken;
        Poll::Ready(Err(SendingError::Upstream))
    }
}
