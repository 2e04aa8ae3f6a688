//! Starting and stopping weir and its echo backend, and talking to them byte by byte.

mod daemon;
mod data;
pub(crate) mod frames;
mod http;
mod kafka;
mod opensearch;
mod peers;
mod pgbouncer;
mod postgres;
mod process;
mod prometheus;
mod redis;
mod relay;
mod s3;
mod tls;
mod token;
mod upstream;

pub(crate) use daemon::free_address;
pub(crate) use data::{Disk, each_transaction, files, id_of, incompressible, transactions};
pub(crate) use http::{Client, Response};
pub(crate) use kafka::{Consumer, Kafka};
pub(crate) use opensearch::OpenSearch;
pub(crate) use peers::{FullBacklog, RealServer, nobody, python_package};
pub(crate) use pgbouncer::PgBouncer;
pub(crate) use postgres::Postgres;
pub(crate) use process::{
    KILL_AT, PANIC_AT, PATIENCE, Server, Weir, echo, eventually, from_environment, kills,
    load_time, repetitions, run, weir,
};
pub(crate) use prometheus::Prometheus;
pub(crate) use redis::Redis;
pub(crate) use relay::{Mode, Relay};
pub(crate) use rustix::process::Signal;
pub(crate) use s3::S3;
pub(crate) use tls::Certificate;
pub(crate) use token::{KEYS, SECRET, key_hash, unix_now, unsigned};
pub(crate) use upstream::{Peer, Upstream};
