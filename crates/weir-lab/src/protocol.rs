//! The measurement protocol: chooses the next round and evaluates all rounds.
//!
//! Pure: the caller takes a [`PlannedRound`], runs it and returns a [`MeasuredRound`]. The
//! protocol uses no clock, thread or server, so that it is tested completely by simulation.
//!
//! [`Stabilise`] repeats rounds until a steady state and then records further rounds. [`fixed`]
//! evaluates one long run whose beginning is cut off, as in published tests.

pub mod fixed;
mod paired;
mod rounds;
mod schedule;
mod stabilise;

pub use paired::{PairedRound, PairedRules};
pub use rounds::{
    LoggedRound, MeasuredRound, Outcome, PlannedRound, ProtocolResult, RoundSize, RoundUse, Stage,
};
pub use schedule::{CaseOrder, Schedule};
pub use stabilise::{Rules, Stabilise};

#[cfg(test)]
mod simulation;
