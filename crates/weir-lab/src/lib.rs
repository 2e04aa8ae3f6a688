//! The Lab: a load generator and a measuring protocol.
//!
//! ```text
//! scenario file ┐
//! JMeter plan   ├→ program → engine (a loop a core) → samples → record → folder, report
//! command line  ┘                    ↑ observe (processes, host, gauges)
//! ```
//!
//! A [`program::Program`] says what virtual users do; the engine runs it over the network like any
//! client would; every request becomes one [`sample::Sample`], which a [`record::Recorder`] of its
//! core adds to histograms and counts. The Lab reaches weir over the network, as it reaches any other
//! HTTP server; of weir itself it knows how to start it, and names of its metrics.

pub mod compare;
pub mod engine;
pub mod feeder;
pub mod figures;
mod form;
pub mod generate;
pub mod jmx;
pub mod jtl;
pub mod measure;
pub mod observe;
pub mod program;
pub mod protocol;
pub mod record;
pub mod report;
pub mod results;
pub mod runner;
pub mod sample;
pub mod scenario;
pub mod stats;
pub mod suite;
pub mod tables;
pub mod threshold;
pub mod validity;
pub mod verdict;
