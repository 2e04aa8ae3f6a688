//! The Lab's commands.

mod agents;
mod busy;
mod capacity;
mod comparison;
mod contenders;
mod export;
mod grpc;
mod hit;
mod init;
mod jmeter;
mod prepared;
mod results;
mod run;
mod spoilt;
mod streams;
mod suites;
mod target;
mod terminal;
mod verdicts;
