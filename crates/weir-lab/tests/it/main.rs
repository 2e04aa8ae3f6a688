//! Tests of the Lab from outside, against a server of their own.

mod jmeter;
mod server;
