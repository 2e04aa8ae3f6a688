//! Standard output and standard error. Their failure never ends a command.
//!
//! Errors on a closed pipe (`weir routes | head`) or a full disk behind a redirection are ignored.

use crate::escape;
use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use serde::Serialize;
use std::io::Write;

/// Writes a line to standard output.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Writes text unchanged to standard output.
pub(crate) fn text(text: &str) {
    bytes(text.as_bytes());
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

/// Whether standard error has colours: it is a terminal, unless `NO_COLOR` (<https://no-color.org>),
/// `CLICOLOR_FORCE`, `CLICOLOR` (<https://bixense.com/clicolors/>) or `TERM` decide.
pub(crate) fn color() -> bool {
    has_colors(&std::io::stderr())
}

/// Whether standard output has colours and bold text, likewise.
pub(crate) fn styled() -> bool {
    has_colors(&std::io::stdout())
}

/// With `CI` set, anstream gives colours to each terminal, to a dumb one as well.
fn has_colors<S: RawStream>(stream: &S) -> bool {
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    AutoStream::choice(stream) != ColorChoice::Never && (forced || supports_cursor())
}

/// Whether the terminal is known to obey more than line breaks.
pub(crate) fn supports_cursor() -> bool {
    std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb")
}

/// The width of the terminal that standard output is.
pub(crate) fn width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
    (width.0 > 0).then_some(usize::from(width.0))
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
