//! The Lab's commands.

mod hit;
