//! Configuration of a command: path and overrides.

use clap::Args;
use std::path::PathBuf;
use weir_config::Source;

/// Path of the configuration and overriding settings.
#[derive(Clone, Debug, Args)]
pub(crate) struct SourceArgs {
    /// Configuration file, or a folder with `weir.yaml`
    #[arg(default_value = "weir.yaml", value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// Override one value, as YAML; may be repeated (`--set limits.body=1MiB`, `--set
    /// listen.0.addr=127.0.0.1:0`)
    #[arg(long, value_name = "PATH=VALUE", value_parser = parse_set)]
    pub(crate) set: Vec<(String, String)>,
}

impl SourceArgs {
    /// In the form of the configuration crate.
    pub(crate) fn source(&self) -> Source {
        Source { path: self.path.clone(), overrides: self.set.clone(), ..Source::default() }
    }
}

/// `PATH=VALUE`.
pub(crate) fn parse_set(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.is_empty() => Ok((path.to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' is not PATH=VALUE, such as limits.body=1MiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_equals_sign_separates() {
        assert_eq!(parse_set("a.b=c=d"), Ok(("a.b".to_owned(), "c=d".to_owned())));
        assert_eq!(parse_set("a.b="), Ok(("a.b".to_owned(), String::new())));
        assert!(parse_set("=c").is_err());
        assert!(parse_set("a.b").is_err());
    }
}
