//! What workers measure: counters, durations, stage times and spans, with their labels and bounds.
//!
//! One worker writes, every thread reads. Adding up and exporting happens elsewhere.

pub mod hex;
pub mod labels;
pub mod spans;
pub mod stage_times;
pub mod stats;
pub mod trace_context;
