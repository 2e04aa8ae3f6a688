//! The measuring protocol: which round comes next, and what all of them amount to.
//!
//! Pure: whoever runs the load asks for an [`Order`], runs it, and hands back a [`Round`]. Nothing
//! here knows time, threads or servers, so that the whole protocol is tested by simulation.
//!
//! [`Stabilise`] repeats rounds until the server no longer changes and then records fresh ones;
//! [`fixed`] is the other way, one long run with its beginning cut off, kept because published
//! figures were measured so.

pub mod fixed;
mod rounds;
mod schedule;
mod stabilise;

pub use rounds::{Ending, Entry, Extent, Order, Outcome, Round, Stage, Use};
pub use schedule::{Arrangement, Schedule};
pub use stabilise::{Rules, Stabilise};

#[cfg(test)]
mod simulation;
