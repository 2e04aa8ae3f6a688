//! Script engines: placement of scripts, the engine of a worker, engines on separate threads, and
//! the circuit breaker of a route.

mod circuit_breaker;
mod plan;
mod slot;

pub(crate) use plan::{Part, Place, Placement, RouteScripts, ScriptPlan};
pub(crate) use slot::{Command, EngineSlot, Thread};
