//! The Lab's commands.

mod hit;
mod jmeter;
mod results;
mod run;
mod suites;
mod target;
mod verdicts;
