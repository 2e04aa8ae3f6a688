//! Tests of the Lab from outside.

mod report;
mod sample_run;
