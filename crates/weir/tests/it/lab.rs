//! The Lab's commands.

mod hit;
mod jmeter;
mod results;
