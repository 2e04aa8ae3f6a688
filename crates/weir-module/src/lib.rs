//! JavaScript modules as text: a script is read with its imports, and each module is rewritten as
//! a function. No engine: `weir-script` compiles and calls a [`Program`].

mod load;
mod program;
mod text;

pub use program::{LoadError, Program, Settings};
