//! The Lab's commands.

mod hit;
mod results;
