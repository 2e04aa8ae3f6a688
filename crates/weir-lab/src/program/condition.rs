//! Conditions: comparisons of literals, as JavaScript evaluates them.
//!
//! JMeter puts the values of variables into the text of a condition before JavaScript sees it, so
//! that it has literals only.

/// Deepest nesting of brackets and negations.
const MAX_DEPTH: usize = 64;

/// A value of a condition.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(f64),
    Text(String),
    Bool(bool),
    Null,
}

/// Evaluates a condition.
///
/// # Errors
/// The text has other elements than literals, arithmetic, comparisons, `!`, `&&`, `||` and
/// brackets, or its value is neither `true` nor `false`.
pub fn condition(text: &str) -> Result<bool, String> {
    let mut parser = Parser { text, rest: text, depth: 0 };
    let value = parser.or()?;
    parser.rest = parser.rest.trim_start();
    if parser.rest.starts_with(';') {
        parser.rest = parser.rest[1..].trim_start();
    }
    match value {
        _ if !parser.rest.is_empty() => Err(parser.unexpected()),
        Value::Bool(value) => Ok(value),
        Value::Text(text) if text == "true" => Ok(true),
        Value::Text(text) if text == "false" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    depth: usize,
}

impl Parser<'_> {
    fn unexpected(&self) -> String {
        let at = self.text.len() - self.rest.len();
        format!("the condition `{}` is not understood from character {}", self.text, at + 1)
    }

    /// Skips a token; `false` if another one follows.
    fn token(&mut self, token: &str) -> bool {
        let found = self.rest.trim_start().strip_prefix(token);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn or(&mut self) -> Result<Value, String> {
        let mut value = self.and()?;
        while self.token("||") {
            let right = self.and()?;
            value = if is_true(&value) { value } else { right };
        }
        Ok(value)
    }

    fn and(&mut self) -> Result<Value, String> {
        let mut value = self.comparison()?;
        while self.token("&&") {
            let right = self.comparison()?;
            value = if is_true(&value) { right } else { value };
        }
        Ok(value)
    }

    fn comparison(&mut self) -> Result<Value, String> {
        /// Longer signs before their beginnings.
        const SIGNS: [&str; 8] = ["===", "!==", "==", "!=", "<=", ">=", "<", ">"];
        let mut value = self.sum()?;
        while let Some(sign) = SIGNS.into_iter().find(|sign| self.token(sign)) {
            let right = self.sum()?;
            value = Value::Bool(match sign {
                "===" => value == right,
                "!==" => value != right,
                "==" => equals(&value, &right),
                "!=" => !equals(&value, &right),
                sign => compare(&value, &right, sign),
            });
        }
        Ok(value)
    }

    fn sum(&mut self) -> Result<Value, String> {
        let mut value = self.product()?;
        loop {
            if self.token("+") {
                let right = self.product()?;
                value = match (&value, &right) {
                    (Value::Text(_), _) | (_, Value::Text(_)) => {
                        Value::Text(text_of(&value) + &text_of(&right))
                    }
                    _ => Value::Number(number_of(&value) + number_of(&right)),
                };
            } else if self.token("-") {
                value = Value::Number(number_of(&value) - number_of(&self.product()?));
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<Value, String> {
        let mut value = self.unary()?;
        loop {
            let operator: fn(f64, f64) -> f64 = match () {
                () if self.token("*") => |a, b| a * b,
                () if self.token("/") => |a, b| a / b,
                () if self.token("%") => |a, b| a % b,
                () => return Ok(value),
            };
            value = Value::Number(operator(number_of(&value), number_of(&self.unary()?)));
        }
    }

    fn unary(&mut self) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("the condition is nested deeper than {MAX_DEPTH}"));
        }
        let value = if !self.rest.trim_start().starts_with("!=") && self.token("!") {
            Value::Bool(!is_true(&self.unary()?))
        } else if self.token("-") {
            Value::Number(-number_of(&self.unary()?))
        } else if self.token("(") {
            let value = self.or()?;
            if !self.token(")") {
                return Err(self.unexpected());
            }
            value
        } else {
            self.literal()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn literal(&mut self) -> Result<Value, String> {
        self.rest = self.rest.trim_start();
        if let Some(quote @ ('"' | '\'')) = self.rest.chars().next() {
            return self.string(quote).map(Value::Text);
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$');
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let value = match &self.rest[..end] {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" | "undefined" => Value::Null,
            word if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
                Value::Number(word.parse().map_err(|_| self.unexpected())?)
            }
            _ => return Err(self.unexpected()),
        };
        self.rest = &self.rest[end..];
        Ok(value)
    }

    fn string(&mut self, quote: char) -> Result<String, String> {
        let mut characters = self.rest[1..].char_indices();
        let mut text = String::new();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, escaped)) => text.push(escaped),
                    None => break,
                },
                '\n' | '\r' => break,
                character if character == quote => {
                    self.rest = &self.rest[1 + at + 1..];
                    return Ok(text);
                }
                character => text.push(character),
            }
        }
        Err(self.unexpected())
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(value) => *value,
        Value::Number(number) => *number != 0.0 && !number.is_nan(),
        Value::Text(text) => !text.is_empty(),
        Value::Null => false,
    }
}

fn number_of(value: &Value) -> f64 {
    match value {
        Value::Number(number) => *number,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Text(text) if text.trim().is_empty() => 0.0,
        Value::Text(text) => text.trim().parse().unwrap_or(f64::NAN),
        Value::Null => 0.0,
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        Value::Null => "null".to_owned(),
    }
}

/// `==`: values of different types are compared as numbers.
#[expect(clippy::float_cmp, reason = "JavaScript compares numbers exactly")]
fn equals(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => left == right,
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        _ => number_of(left) == number_of(right),
    }
}

fn compare(left: &Value, right: &Value, sign: &str) -> bool {
    let order = match (left, right) {
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        _ => number_of(left).partial_cmp(&number_of(right)),
    };
    order.is_some_and(|order| match sign {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    })
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn literals_are_compared_as_javascript_does_it() {
        for (text, expected) in [
            ("1 == 1", true),
            (r#""abc" == "abc""#, true),
            (r#"'10' < '9' && 10 > 9"#, true),
            (r#""5" == 5"#, true),
            (r#""5" === 5"#, false),
            ("!(1 != 1) || false", true),
            ("!true", false),
            ("1 + 2 * 3 >= 7;", true),
            (r#""a" + 1 == "a1""#, true),
            ("-1 < 0 && 7 % 4 === 3", true),
            ("'x' != null", true),
            ("'abc' < 5", false),
            (r#""it\"s" == 'it"s'"#, true),
            ("\"true\"", true),
            ("''=='' && (2 > 1)", true),
        ] {
            assert_eq!(condition(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn anything_else_is_an_error() {
        for text in ["", "1 ==", "abc == 1", "1", "\"open", "f(1)", "${x} == 1", "1 == 1 2"] {
            assert!(condition(text).is_err(), "{text}");
        }
        assert!(condition(&"(".repeat(10_000)).is_err());
    }
}
