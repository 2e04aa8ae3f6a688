//! Whole-program tests: each starts the real binary on port 0 and talks to it over sockets.
//!
//! One test binary, one module a subject; [`harness`] starts and stops what they need.

mod harness;

mod auth;
mod clients;
mod command_line;
mod echo;
mod examples;
mod http2;
mod limits;
mod operation;
mod serve;
mod tidy;
mod tls;
mod transform;
mod under_load;
