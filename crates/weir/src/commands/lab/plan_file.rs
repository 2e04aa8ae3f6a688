//! JMeter plans of commands.

use crate::output;
use std::path::Path;
use weir_lab::jmx::{self, JmxError, Plan, Problem};

/// Options of commands that read a plan.
#[derive(Debug, clap::Args)]
pub(super) struct PlanArgs {
    /// Property of a plan, `name=value`; may be repeated
    #[arg(short = 'J', value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// Skip unsupported elements of a plan with a warning
    #[arg(long)]
    lenient: bool,
}

fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write name=value".to_owned()),
    }
}

/// Whether a file is a plan.
pub(super) fn is_plan(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jmx")
}

impl PlanArgs {
    /// Whether no option is set.
    pub(super) fn is_empty(&self) -> bool {
        self.properties.is_empty() && !self.lenient
    }

    /// Properties, by name.
    pub(super) fn properties(&self) -> &[(String, String)] {
        &self.properties
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// As [`jmx::load`].
    pub(super) fn load(&self, path: &Path) -> Result<Plan, JmxError> {
        let Self { properties, lenient } = self;
        jmx::load(path, &jmx::Options { properties: properties.clone(), lenient: *lenient })
    }
}

/// Prints problems of a plan.
pub(super) fn print_problems(path: &Path, problems: &[Problem]) {
    for problem in problems {
        output::note(&format!("{}: {problem}", path.display()));
    }
}

/// Prints the skipped elements of a plan.
pub(super) fn print_skipped(path: &Path, skipped: &[Problem]) {
    for skipped in skipped {
        output::note(&format!("{}: skipped: {skipped}", path.display()));
    }
}
