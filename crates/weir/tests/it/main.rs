//! Whole-program tests: each starts the real binary on port 0 and talks to it over sockets.
//!
//! One test binary, one module a subject; [`harness`] starts and stops what they need.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics, in whatever function")]

mod grpc;
mod harness;

mod accounts;
mod admin_api;
mod admin_security;
mod archive;
mod auth;
mod backup;
mod billing;
mod capture;
mod changes;
mod chaos;
mod clients;
mod command_line;
mod console;
mod descriptors;
mod durability;
mod echo;
mod examples;
mod explain;
mod figures;
mod files;
mod fleet;
mod framing;
mod guides;
mod handover;
mod health;
mod hedges;
mod history;
mod hostile;
mod http2;
mod io;
mod lab;
mod limits;
mod metrics;
mod monitor;
mod older_data;
mod openapi;
mod operation;
mod people;
mod pools;
mod recording;
mod resubmission;
mod retries;
mod scripts;
mod serve;
mod services;
mod shipping;
mod smuggling;
mod stops;
mod streaming;
mod telemetry;
mod tidy;
mod tls;
mod tracker;
mod transform;
mod under_load;
mod unix_sockets;
mod upgrades;
mod upstreams;
mod views;
