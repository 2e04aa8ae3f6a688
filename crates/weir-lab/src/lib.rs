//! The Lab: a load generator with a measurement protocol.
//!
//! ```text
//! scenario file ┐
//! JMeter plan   ├→ program → engine (a loop a core) → samples → record → folder, report
//! command line  ┘                    ↑ observe (processes, host, gauges)
//! ```
//!
//! A [`program::Program`] describes the steps of virtual users. The engine runs the program over
//! the network. Every request becomes one [`sample::Sample`], which the [`record::Recorder`] of its
//! core adds to histograms and counts. The Lab uses weir like any other HTTP server; the Lab only
//! knows how to start weir, and the names of weir's metrics.

pub mod agents;
pub mod bars;
pub mod bounded_file;
mod budget;
mod charset;
pub mod compare;
pub mod engine;
mod escape;
pub mod feeder;
pub mod figures;
pub mod foreign;
mod form;
pub mod generate;
pub mod grpc;
pub mod history;
mod java_time;
pub mod jmx;
mod jsonpath;
pub mod jtl;
mod jvm;
mod markup;
pub mod measure;
pub mod observe;
mod pattern;
pub mod program;
pub mod protocol;
pub mod record;
pub mod redaction;
pub mod report;
pub mod results;
pub mod runner;
pub mod sample;
pub mod scenario;
mod script;
pub mod stats;
pub mod stop;
pub mod suite;
pub mod tables;
pub mod threshold;
pub mod validity;
pub mod verdict;
