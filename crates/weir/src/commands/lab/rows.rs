//! A row for each sample, in a file of JMeter's format.

use anyhow::Context;
use std::fs::File;
use std::path::Path;
use weir_lab::jtl::Writer;
use weir_lab::program::Program;
use weir_lab::record::Clock;

/// Makes the file.
pub(super) fn file(path: &Path, program: &Program, clock: Clock) -> anyhow::Result<Writer> {
    let place = || path.display().to_string();
    let file = File::create(path).with_context(place)?;
    Writer::new(Box::new(file), program, clock).with_context(place)
}
