//! What `bounds.js` asks of Rust: whether a call has used up its CPU time, and how long an array
//! may be. The rest of it is JavaScript, as only a script can be interrupted.

#[cfg(test)]
mod tests;

use super::watch::Watch;
use rquickjs::prelude::Func;
use rquickjs::{Error, Object};
use std::rc::Rc;

/// Bytes that an element of an array takes at least.
const ELEMENT: usize = 16;

/// Adds both to the object that the prelude gets.
pub(super) fn add(native: &Object<'_>, watch: &Rc<Watch>, memory: usize) -> Result<(), Error> {
    let watch = Rc::clone(watch);
    native.set("isOver", Func::from(move || watch.is_over()))?;
    native.set("longest", u32::try_from(memory / ELEMENT).unwrap_or(u32::MAX))
}
