//! JavaScript modules on QuickJS: compiled, called, limited. No I/O.
//!
//! An [`Engine`] belongs to one thread and has compiled programs ([`weir_module::Program`]). A call runs until it has a response or waits.
//! Its operations (a `fetch`, a timer) are returned in a [`Step`]; the caller runs them and passes
//! their outcomes to [`Engine::resume`].
//!
//! Module state lasts as long as one call: a program is a function that creates its module.
//! Built-ins are frozen, so that no state passes between calls.

mod call;
mod engine;

pub use call::{
    CallId, Changes, Console, End, Fetch, FetchedResponse, Op, OpId, OpKind, Outcome, Principal,
    Request, Role, ScriptBody, ScriptResponse, Step,
};
pub use engine::{DEFAULT_MEMORY, Engine, EngineError, check};

/// Type declarations of the script API, for editors.
pub const TYPES: &str = include_str!("weir.d.ts");
