//! Standard output and standard error. Their failure never ends a command.
//!
//! Errors on a closed pipe (`weir routes | head`) or a full disk behind a redirection are ignored.

use crate::escape;
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// Writes a line to standard output.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Writes text unchanged to standard output.
pub(crate) fn text(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes bytes unchanged to standard output.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Writes a value as one line of JSON to standard output, safe for terminals.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&escape::json(&serde_json::to_string(value)?));
    Ok(())
}

/// Writes each value as one line of JSON.
pub(crate) fn json_lines(values: impl IntoIterator<Item: Serialize>) -> anyhow::Result<()> {
    values.into_iter().try_for_each(|value| json(&value))
}

/// Writes a message to standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes an error message to standard error.
pub(crate) fn error(text: &str) {
    note(&format!("weir: {text}"));
}

/// An error with its causes, outermost first. A cause that the text before it includes already is not
/// repeated.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    let causes = error.chain().skip(1).map(ToString::to_string);
    causes.fold(error.to_string(), |text, cause| match text.contains(&cause) {
        true => text,
        false => format!("{text}: {cause}"),
    })
}

/// Whether standard error supports colours: a terminal, and `NO_COLOR` is unset
/// (<https://no-color.org>).
pub(crate) fn color() -> bool {
    std::io::stderr().is_terminal() && colors_are_enabled()
}

/// Whether standard output supports bold text, likewise.
pub(crate) fn bold() -> bool {
    std::io::stdout().is_terminal() && colors_are_enabled()
}

fn colors_are_enabled() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_written_once() {
        let cause = anyhow::anyhow!("at 1: expected a value")
            .context("invalid query: at 1: expected a value");
        assert_eq!(with_causes(&cause), "invalid query: at 1: expected a value");
        let cause = anyhow::anyhow!("no such file").context("weir.yaml");
        assert_eq!(with_causes(&cause), "weir.yaml: no such file");
    }
}
