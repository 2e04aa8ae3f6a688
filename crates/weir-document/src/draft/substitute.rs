//! Substitution of `${env:NAME}` and `file:`.

use super::node::{Data, Node, Scalar};
use super::reader::{Reader, Surroundings};
use crate::finding::codes;
use crate::source_map::Span;

/// Maximum length of a text after the substitution of variables.
const MAX_LENGTH: usize = 1024 * 1024;

/// Substitutes in every scalar of `node`; keys stay as they are.
pub(super) fn substitute(reader: &mut Reader<'_>, node: &mut Node) {
    match &mut node.data {
        Data::Scalar(scalar) => substitute_scalar(reader, scalar, node.at),
        Data::List(items) => items.iter_mut().for_each(|item| substitute(reader, item)),
        Data::Map(members) => members.iter_mut().for_each(|m| substitute(reader, &mut m.value)),
    }
}

fn substitute_scalar(reader: &mut Reader<'_>, scalar: &mut Scalar, at: Span) {
    // `file:` is tested before variables are substituted: the value of a variable must not make
    // weir read a file.
    let is_file = scalar.text.starts_with("file:");
    if scalar.text.contains("${") {
        let Some(text) = variables(reader, &scalar.text, at) else {
            scalar.lost = true;
            return;
        };
        scalar.from_env = scalar.text.replace("$${", "").contains("${");
        scalar.text = text;
    }
    if !is_file {
        return;
    }
    let path = scalar.text["file:".len()..].to_owned();
    if reader.surroundings == Surroundings::Nothing {
        reader.report.error(codes::MISSING_FILE, at, "files cannot be read here");
        scalar.lost = true;
        return;
    }
    let path = reader.texts.resolve(at.file, &path);
    reader.report.value_of_file(at, &path);
    match reader.read_named(&path, at) {
        Some(mut text) => {
            trim_one_line(&mut text);
            *scalar = Scalar { text, plain: false, from_file: true, from_env: false, lost: false };
        }
        None => scalar.lost = true,
    }
}

/// The line break at the end of a one-line file was added by the editor.
fn trim_one_line(text: &mut String) {
    let line = text.trim_end_matches(['\r', '\n']);
    if !line.contains('\n') {
        text.truncate(line.len());
    }
}

/// Substitutes variables; `None` with a finding.
fn variables(reader: &mut Reader<'_>, text: &str, at: Span) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut sound = true;
    while let Some(open) = rest.find("${") {
        if rest[..open].ends_with('$') {
            out.push_str(&rest[..open - 1]);
            out.push_str("${");
            rest = &rest[open + 2..];
            continue;
        }
        out.push_str(&rest[..open]);
        let Some(close) = rest[open..].find('}') else {
            bad(reader, at, "unclosed `${`".to_owned());
            return None;
        };
        let inner = &rest[open + 2..open + close];
        match inner.strip_prefix("env:") {
            Some(name) => match variable(reader, name, at) {
                Some(value) => out.push_str(&value),
                None => sound = false,
            },
            None => {
                bad(reader, at, format!("`${{{inner}}}` is not substituted"));
                sound = false;
            }
        }
        rest = &rest[open + close + 1..];
    }
    out.push_str(rest);
    if out.len() > MAX_LENGTH {
        bad(reader, at, format!("longer than {MAX_LENGTH} bytes after substitution"));
        return None;
    }
    sound.then_some(out)
}

/// The value of a variable; `None` with a finding.
fn variable(reader: &mut Reader<'_>, name: &str, at: Span) -> Option<String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || !name.bytes().all(fits) {
        bad(reader, at, format!("`{name}` is not a variable name"));
        return None;
    }
    let value = match reader.surroundings {
        Surroundings::Process => std::env::var(name).ok(),
        Surroundings::Nothing => None,
    };
    if value.is_none() {
        let message = format!("the environment variable `{name}` is not set");
        let help = format!("set the variable, or write `$${{env:{name}}}` for the literal text");
        reader.report.error(codes::UNDEFINED_ENV, at, message).help(help);
    }
    value
}

fn bad(reader: &mut Reader<'_>, at: Span, message: String) {
    reader
        .report
        .error(codes::BAD_SUBSTITUTION, at, message)
        .help("only `${env:NAME}` is substituted; write `$${` for a literal `${`");
}
