//! JavaScript modules on QuickJS: compiled, called, limited. No I/O.
//!
//! A [`Program`] is a module with its imports, checked and ready to be compiled. An [`Engine`]
//! belongs to one thread and has compiled programs. A call runs until it has a response or waits.
//! Its operations (a `fetch`, a timer) are returned in a [`Step`]; the caller runs them and passes
//! their outcomes to [`Engine::resume`].
//!
//! Module state lasts as long as one call: a program is a function that creates its module.
//! Built-ins are frozen, so that no state passes between calls.

mod call;
mod engine;
mod load;
mod module;
mod program;

pub use call::{
    Annotation, Annotations, CallId, Changes, Console, End, Fetch, FetchedResponse, Op, OpId,
    OpKind, Outcome, Principal, Request, Role, ScriptBody, ScriptResponse, Step,
};
pub use engine::{Engine, EngineError, Limits};
pub use program::{LoadError, Program, Settings};

/// Type declarations of the script API, for editors.
pub const TYPES: &str = include_str!("weir.d.ts");
