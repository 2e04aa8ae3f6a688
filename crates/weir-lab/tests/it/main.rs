//! The Lab from outside: the engine against a server that knows the truth (how many requests came,
//! how long each took), and reports.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics, in whatever function")]

mod controllers;
mod data;
mod grpc;
mod models;
mod plan;
mod protocols;
mod report;
mod responses;
mod sample_run;
mod server;
mod steps;
mod streams;
mod truth;
