//! One request, as it is described.

use super::{Check, Extractor, Label, StatusSet, Text};
use bytes::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// A request, its answer's checks and what is taken from the answer.
#[derive(Clone, Debug)]
pub struct Request {
    /// Under which name its samples are counted.
    pub label: Label,
    /// The method, upper case.
    pub method: String,
    /// Where to.
    pub url: Url,
    /// Fields as they are sent, in this order. `Host`, `Content-Length` and `Connection` are added
    /// if they are not among them.
    pub headers: Vec<(Text, Text)>,
    /// The body.
    pub body: Body,
    /// The connection is used again.
    pub keep_alive: bool,
    /// HTTP/2: by ALPN over TLS, with prior knowledge otherwise.
    pub http2: bool,
    /// Limits in time.
    pub timeouts: Timeouts,
    /// What a redirect does.
    pub redirects: Redirects,
    /// Statuses that are no errors.
    pub success: StatusSet,
    /// Statuses outside of `success` that are declared: counted apart, neither success nor error.
    pub expected: StatusSet,
    /// Checks of the answer; the first that fails makes the sample fail.
    pub checks: Vec<Check>,
    /// What is taken out of the answer.
    pub extractors: Vec<Extractor>,
    /// The answer's body is decoded (gzip, deflate) and its decoded length counted, which costs
    /// time; checks and extractors that look at the body decode it in any case.
    pub decode: bool,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Url {
    /// Taken apart, with a target (path and query) that may have variables.
    Parts {
        /// Scheme, host and port.
        origin: Origin,
        /// Path and query.
        target: Text,
    },
    /// A whole URL, taken apart each time: for variables in its scheme, host or port.
    Whole(Text),
}

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// `https`.
    pub tls: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The body of a request.
#[derive(Clone, Debug, Default)]
pub enum Body {
    /// None, and no length either.
    #[default]
    None,
    /// Always the same bytes.
    Bytes(Bytes),
    /// One of these after the other, then the first again; each user begins elsewhere.
    Each(Vec<Bytes>),
    /// Text with variables.
    Text(Text),
    /// `multipart/form-data`; its content type is added.
    Multipart(Vec<Part>),
}

/// A part of a `multipart/form-data` body.
#[derive(Clone, Debug)]
pub enum Part {
    /// A field.
    Field {
        /// Its name.
        name: Text,
        /// Its value.
        value: Text,
        /// Its content type, if one is stated.
        content_type: Option<String>,
    },
    /// A file.
    File {
        /// The field's name.
        name: Text,
        /// What is sent as file name.
        path: PathBuf,
        /// Its content type.
        content_type: String,
        /// What is in it.
        content: Bytes,
    },
}

/// Limits in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To open a connection, with TLS.
    pub connect: Duration,
    /// From the request to the end of its answer.
    pub response: Duration,
}

impl Default for Timeouts {
    /// 10 s to connect, 60 s for the answer.
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), response: Duration::from_secs(60) }
    }
}

/// What a redirect (301, 302, 303, 307, 308 with a `Location`) does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// It is an answer like any other.
    #[default]
    Ignore,
    /// It is followed, at most 20 times; all of it is one sample.
    Follow,
}

impl Request {
    /// A GET of `target` at `origin` with nothing special about it.
    pub fn get(label: Label, origin: Origin, target: Text) -> Self {
        Self {
            label,
            method: "GET".to_owned(),
            url: Url::Parts { origin, target },
            headers: Vec::new(),
            body: Body::None,
            keep_alive: true,
            http2: false,
            timeouts: Timeouts::default(),
            redirects: Redirects::Ignore,
            success: StatusSet::success(),
            expected: StatusSet::none(),
            checks: Vec::new(),
            extractors: Vec::new(),
            decode: false,
        }
    }
}
