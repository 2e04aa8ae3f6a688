//! Native functions of `bounds.js`: whether a call has exceeded its CPU time, and the maximum
//! length of an array. The rest is JavaScript, as only a script can be interrupted.

#[cfg(test)]
mod tests;

use super::cpu_watchdog::CpuWatchdog;
use rquickjs::prelude::Func;
use rquickjs::{Error, Object};
use std::rc::Rc;

/// Minimum size of an array element in bytes.
const MIN_ELEMENT_BYTES: usize = 16;

/// Adds both to the prelude's object.
pub(super) fn add(
    native: &Object<'_>,
    watch: &Rc<CpuWatchdog>,
    memory: usize,
) -> Result<(), Error> {
    let watch = Rc::clone(watch);
    native.set("isOver", Func::from(move || watch.is_exceeded()))?;
    native.set("longest", u32::try_from(memory / MIN_ELEMENT_BYTES).unwrap_or(u32::MAX))
}
