//! JavaScript modules on QuickJS: compiled, called, bounded. No I/O.
//!
//! A [`Program`] is a module with all it imports, checked and ready to be compiled. An [`Engine`]
//! belongs to one thread and has programs compiled. A call runs until it has an answer or waits;
//! what it waits for (an answer to `fetch`, a timer) is told in a [`Step`], done by whoever drives
//! the engine, and brought back with [`Engine::resume`].
//!
//! Module state lasts as long as one call: a program is a function that makes its module anew.
//! Built-ins are frozen, so nothing else goes from call to call.

mod call;
mod engine;
mod module;
mod program;

pub use call::{
    Answer, AnswerBody, CallId, Changed, Console, End, Fetch, Fetched, Note, Notes, Op, OpId,
    OpKind, Outcome, Principal, Request, Role, Step,
};
pub use engine::{Engine, EngineError, Limits};
pub use program::{Fault, Program, Settings};

/// Type declarations of all that scripts find, for editors.
pub const TYPES: &str = include_str!("weir.d.ts");
