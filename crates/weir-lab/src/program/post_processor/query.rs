//! Expressions of JMESPath, whose size and results are bounded.

use jmespath::Variable;
use serde_json::Value;
use std::io;
use std::sync::Arc;

/// Longest expression.
const MAX_QUERY_BYTES: usize = 64 * 1024;
/// Deepest nesting of brackets.
const MAX_QUERY_DEPTH: usize = 64;
/// Most operators: each can be inside the next one.
const MAX_QUERY_OPERATORS: usize = 200;
/// Bytes of the texts of a result.
const MAX_RESULT_BYTES: usize = 16 * 1024 * 1024;

/// JMESPath, compiled.
pub struct JmesPath(jmespath::Expression<'static>);

impl JmesPath {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The expression is invalid.
    pub(crate) fn parse(text: &str) -> Result<Arc<Self>, String> {
        check_size(text)?;
        let compiled = jmespath::compile(text.trim()).map_err(|error| error.to_string())?;
        Ok(Arc::new(Self(compiled)))
    }

    /// Texts of the first items of the result, or of the result itself; `None` for an expression
    /// that does not fit the value.
    ///
    /// # Errors
    /// The texts are too large: an expression of few characters can repeat a value many times.
    pub(super) fn texts(&self, value: &Value, most: usize) -> Result<Option<Vec<String>>, String> {
        let Ok(found) = self.0.search(value) else { return Ok(None) };
        let mut left = MAX_RESULT_BYTES;
        let mut text = |value: &Variable| match value.as_string() {
            Some(text) => {
                left = left.checked_sub(text.len()).ok_or_else(too_large)?;
                Ok(text.clone())
            }
            None => {
                let mut out = Bounded { bytes: Vec::new(), left };
                serde_json::to_writer(&mut out, value).map_err(|_| too_large())?;
                left = out.left;
                Ok(String::from_utf8_lossy(&out.bytes).into_owned())
            }
        };
        let texts: Result<Vec<String>, String> = match found.as_array() {
            _ if found.is_null() => Ok(Vec::new()),
            Some(items) => items.iter().take(most).map(|item| text(item)).collect(),
            None => text(&found).map(|text| vec![text]),
        };
        texts.map(Some)
    }
}

/// Checks the size of an expression: the library recurses for each bracket and operator.
fn check_size(text: &str) -> Result<(), String> {
    if text.len() > MAX_QUERY_BYTES {
        return Err(format!("an expression has at most {MAX_QUERY_BYTES} bytes"));
    }
    let (mut depth, mut operators) = (0_usize, 0_usize);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            // A text, up to its unescaped end.
            '"' | '\'' | '`' => {
                while let Some(next) = characters.next().filter(|next| *next != character) {
                    if next == '\\' {
                        characters.next();
                    }
                }
            }
            '(' | '[' | '{' => {
                depth += 1;
                operators += 1;
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '.' | '|' | '&' | '!' | '<' | '>' | '=' | '*' => operators += 1,
            _ => {}
        }
        if depth > MAX_QUERY_DEPTH {
            return Err(format!("an expression is nested deeper than {MAX_QUERY_DEPTH}"));
        }
        if operators > MAX_QUERY_OPERATORS {
            return Err(format!("an expression has more than {MAX_QUERY_OPERATORS} operators"));
        }
    }
    Ok(())
}

fn too_large() -> String {
    format!("the result has more than {} MiB", MAX_RESULT_BYTES >> 20)
}

/// A buffer that does not grow beyond its limit.
struct Bounded {
    bytes: Vec<u8>,
    left: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len());
        self.left = left.ok_or(io::ErrorKind::FileTooLarge)?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for JmesPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("JmesPath").field(&self.0.as_str()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_expressions_are_bounded() {
        for text in [
            "a".repeat(70_000),
            format!("{}a{}", "[".repeat(10_000), "]".repeat(10_000)),
            format!("{}a", "!".repeat(10_000)),
            format!("a{}", "|a".repeat(10_000)),
            format!("a{}", ".a".repeat(201)),
            format!("{}a", "(".repeat(65)),
        ] {
            let error = JmesPath::parse(&text).expect_err("too large");
            assert!(error.contains("an expression "), "{error}");
        }
        let quoted = format!("a == '{}\\'' || \"{}\"", "([{.".repeat(1_000), "!".repeat(1_000));
        assert!(JmesPath::parse(&quoted).is_ok());
        let chain = JmesPath::parse(&format!("a{}", "|@".repeat(200))).expect("a chain");
        assert_eq!(chain.texts(&serde_json::json!({"a": 1}), 9), Ok(Some(vec!["1".to_owned()])));
    }

    #[test]
    fn sizes_of_results_are_bounded() {
        let value = serde_json::json!({"a": "x".repeat(1_000)});
        let twice = |times: usize| format!("a{} | {{v: @}}", " | [@, @]".repeat(times));
        let small = JmesPath::parse(&twice(3)).expect("an expression");
        let texts = small.texts(&value, 9).expect("small").expect("a result");
        assert_eq!(texts[0].len(), 8 * 1_002 + 7 * "[,]".len() + r#"{"v":}"#.len());
        let large = JmesPath::parse(&twice(30)).expect("an expression");
        assert_eq!(large.texts(&value, 9), Err("the result has more than 16 MiB".to_owned()));
    }
}
