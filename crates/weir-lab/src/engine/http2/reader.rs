//! A response that is read part by part, while its request may go on.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;

/// A response in progress; dropped, its stream is cancelled.
pub(in crate::engine) struct Reader {
    state: State,
    /// Received and sent bytes of the connection, now and before the request.
    counts: (Rc<Cell<u64>>, Rc<Cell<u64>>),
    before: (u64, u64),
}

type Head = Result<http::Response<Incoming>, hyper::Error>;

enum State {
    Head(Pin<Box<dyn Future<Output = Head>>>),
    Body(Incoming),
}

/// A part of a response.
pub(in crate::engine) enum Part {
    Head(http::Response<()>),
    Data(Bytes),
    Trailers(http::HeaderMap),
    End,
}

impl Reader {
    pub(super) fn new(
        head: impl Future<Output = Head> + 'static,
        counts: (Rc<Cell<u64>>, Rc<Cell<u64>>),
    ) -> Self {
        let before = (counts.0.get(), counts.1.get());
        Self { state: State::Head(Box::pin(head)), counts, before }
    }

    /// The next part. A wait for one may be given up.
    pub(in crate::engine) async fn next(&mut self) -> Result<Part, hyper::Error> {
        match &mut self.state {
            State::Head(head) => {
                let (head, body) = head.await?.into_parts();
                self.state = State::Body(body);
                Ok(Part::Head(http::Response::from_parts(head, ())))
            }
            State::Body(body) => match body.frame().await.transpose()? {
                None => Ok(Part::End),
                Some(frame) => Ok(match frame.into_data() {
                    Ok(data) => Part::Data(data),
                    Err(frame) => Part::Trailers(frame.into_trailers().unwrap_or_default()),
                }),
            },
        }
    }

    /// Received bytes.
    pub(in crate::engine) fn received(&self) -> u64 {
        self.counts.0.get() - self.before.0
    }

    /// Sent bytes.
    pub(in crate::engine) fn sent(&self) -> u64 {
        self.counts.1.get() - self.before.1
    }
}
