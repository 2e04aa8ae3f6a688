//! JMeter plans of commands.

use crate::output;
use std::convert::Infallible;
use std::path::Path;
use weir_lab::agents::Source;
use weir_lab::jmx::{self, JmxError, KeystoreProperties, Plan, Problem};
use weir_lab::program::Installation;

/// Options of commands that read a plan.
#[derive(Debug, clap::Args)]
pub(super) struct PlanArgs {
    /// Property of a plan, `name=value`; may be repeated
    #[arg(short = 'J', value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// System property of JMeter that names a keystore, such as `javax.net.ssl.keyStore=users.p12`; may be
    /// repeated
    // Every text is parsed: clap would show an invalid one, with the password in it.
    #[arg(short = 'D', value_name = "NAME=VALUE", value_parser = system_property)]
    system_properties: Vec<(String, String)>,
    /// Skip unsupported elements of a plan with a warning
    #[arg(long)]
    lenient: bool,
    /// Folder of JMeter, whose libraries run the scripts of a plan [default: JMETER_HOME]
    #[arg(long, value_name = "DIR", value_parser = installation)]
    jmeter: Option<Installation>,
}

fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write name=value".to_owned()),
    }
}

fn system_property(text: &str) -> Result<(String, String), Infallible> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    Ok((name.to_owned(), value.to_owned()))
}

fn installation(text: &str) -> Result<Installation, String> {
    Installation::at(text.into())
}

/// The installation in `JMETER_HOME`. Plans without scripts need none, so that a wrong one is no error.
fn usual_installation() -> Option<Installation> {
    Installation::at(std::env::var_os("JMETER_HOME")?.into()).ok()
}

/// Whether a file is a plan.
pub(super) fn is_plan(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jmx")
}

impl PlanArgs {
    /// Whether no option is set.
    pub(super) fn is_empty(&self) -> bool {
        self.properties.is_empty()
            && self.system_properties.is_empty()
            && !self.lenient
            && self.jmeter.is_none()
    }

    /// Properties and system properties, by name.
    pub(super) fn all_properties(&self) -> impl Iterator<Item = &(String, String)> {
        self.properties.iter().chain(&self.system_properties)
    }

    /// How agents read the plan.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(super) fn source(&self, path: &Path) -> Result<Source, JmxError> {
        Ok(Source::Jmeter {
            properties: self.properties.clone(),
            keystore: self.keystore()?.relative_to(path),
            lenient: self.lenient,
        })
    }

    fn keystore(&self) -> Result<KeystoreProperties, JmxError> {
        KeystoreProperties::new(&self.system_properties).map_err(JmxError::SystemProperty)
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// As [`jmx::load`].
    pub(super) fn load(&self, path: &Path) -> Result<Plan, JmxError> {
        let options = jmx::Options {
            properties: self.properties.clone(),
            keystore: self.keystore()?,
            lenient: self.lenient,
            jmeter: self.jmeter.clone().or_else(usual_installation),
        };
        jmx::load(path, &options)
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
