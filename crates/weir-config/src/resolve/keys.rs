//! Every key of the configuration: name, type, default and meaning.

mod api;
mod cache;
mod calls;
mod events;
mod files;
mod monitor;
mod normalization;
mod openapi;
mod pool;
mod resubmit;
mod script;
mod server;
mod telemetry;
mod tracker;
mod traffic;
mod upstream;
mod xml;

pub(super) use api::{
    API, API_EDITS, CLIENTS, COMPRESS, CORS, EDITS, INSTEAD, LIMIT, LIMIT_KEY, METHODS, MIRROR,
    PROXY, QUERY, REPLY, REQUEST, RESPONSE, ROUTE, ROUTE_LIMITS, SCOPED,
};
pub(super) use cache::CACHE;
pub(super) use calls::{CALL, CALL_HEADERS, COMPUTED};
pub(super) use events::{ALERT, EVENTS, TRIGGER};
pub(super) use files::FILES;
pub(super) use monitor::{COUNT, COUNTS, MONITOR};
pub(super) use normalization::NORMALIZATION;
pub(super) use openapi::{MOCK, OPENAPI, VALIDATE};
pub(super) use pool::{AGENTS, POOL, POOL_HANDLER, POOL_LIMITS, QUEUE, RECYCLE};
pub(super) use resubmit::RESUBMIT;
pub(super) use script::{SCRIPT, SCRIPTS};
pub(super) use server::{
    ADMIN, CLIENT_CERTIFICATES, DRAIN, FAILED_AUTHENTICATION, LIMITS, LISTENER, LOG, TLS,
};
pub(crate) use server::{INCLUDED, ROOT};
pub(super) use telemetry::{METRICS, TELEMETRY, TRACES};
pub(super) use tracker::{CAPTURE, JOURNAL, KEEP, KEY_EXPRESSION, MASK, TRACKER, capture};
pub(super) use traffic::{
    API_KEY, AUTH, BASIC, CONSUMER, CREDENTIAL, CREDENTIAL_HEADER, INTROSPECT, JWT, MATCH, PLAN,
    PRICE, QUOTA, TIER, UPSTREAM, UPSTREAM_TLS,
};
pub(super) use upstream::{CHECK, ERROR_SHARE, HASH, HEALTH, RETRIES, TARGET, UPGRADE};
pub(super) use xml::{XML, XML_WRITTEN};
