//! Rust sources as tokens: without comments, without the tests beside the code.

use super::files;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// One file of `crates/*/src`.
pub(super) struct Source {
    /// Name of the crate's folder.
    pub(super) package: String,
    /// Path from the root of the repository.
    pub(super) path: String,
    /// Module that the file defines, from the root of the crate; empty for `lib.rs` and `main.rs`.
    pub(super) module: Vec<String>,
    /// Number of lines, comments included.
    pub(super) lines: usize,
    pub(super) tokens: TokenStream,
}

/// Every source file of the workspace but the tests beside the code.
pub(super) fn sources() -> Vec<Source> {
    files("crates", &["rs"])
        .into_iter()
        .filter_map(|(path, text)| {
            let (package, inside) = path.strip_prefix("crates/")?.split_once("/src/")?;
            let module = inside.strip_suffix(".rs")?.split('/').map(str::to_owned);
            let module: Vec<String> =
                module.filter(|part| part != "lib" && part != "main").collect();
            if module.iter().any(|part| part == "tests") {
                return None;
            }
            let package = package.to_owned();
            Some(Source { package, module, lines: text.lines().count(), tokens: code(&text), path })
        })
        .collect()
}

/// The tokens of `text` without items behind `#[cfg(test)]`.
///
/// # Panics
///
/// Panics when the text is not Rust.
pub(super) fn code(text: &str) -> TokenStream {
    without_tests(text.parse().expect("the sources are Rust"))
}

fn without_tests(tokens: TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if is_punct(&token, '#') && tokens.peek().is_some_and(is_test_only) {
            // The item ends with its block, or with a semicolon.
            let _ = tokens.find(|token| {
                is_punct(token, ';')
                    || matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
            });
            continue;
        }
        kept.push(match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_tests(group.stream()));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            other => other,
        });
    }
    kept.into_iter().collect()
}

fn is_test_only(attribute: &TokenTree) -> bool {
    let TokenTree::Group(group) = attribute else { return false };
    let text: String = group.stream().to_string().split_whitespace().collect();
    text == "cfg(test)"
}

/// Whether a token is this punctuation mark.
pub(super) fn is_punct(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// The name of an identifier.
pub(super) fn name(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    }
}

/// Calls `visit` for the tokens of every group, the outermost first.
pub(super) fn each_level(tokens: &TokenStream, visit: &mut impl FnMut(&[TokenTree])) {
    let level: Vec<TokenTree> = tokens.clone().into_iter().collect();
    visit(&level);
    for token in &level {
        if let TokenTree::Group(group) = token {
            each_level(&group.stream(), visit);
        }
    }
}
