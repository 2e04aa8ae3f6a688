//! From text to steps.

use super::filter::{Comparison, Condition, Operand};
use super::{MAX_BYTES, Pattern, Step};
use serde_json::Value;

/// Deepest nesting of conditions.
const MAX_DEPTH: usize = 32;
/// Most steps, with those of conditions.
const MAX_STEPS: usize = 500;

pub(super) fn parse(source: &str) -> Result<Vec<Step>, String> {
    if source.len() > MAX_BYTES {
        return Err(format!("a path has at most {MAX_BYTES} bytes"));
    }
    let source = source.trim();
    let written = match source.strip_prefix(['$', '@']) {
        Some(rest) => rest.to_owned(),
        None if source.starts_with('[') => source.to_owned(),
        None => format!(".{source}"),
    };
    let mut parser = Parser { rest: &written, depth: 0, steps: 0 };
    let steps = parser.steps()?;
    match parser.rest.trim() {
        "" => Ok(steps),
        rest => Err(format!("`{}` is not expected", rest.chars().take(40).collect::<String>())),
    }
}

struct Parser<'s> {
    rest: &'s str,
    depth: usize,
    steps: usize,
}

impl<'s> Parser<'s> {
    fn accept(&mut self, text: &str) -> bool {
        let rest = self.rest.trim_start();
        let found = rest.strip_prefix(text);
        if let Some(rest) = found {
            self.rest = rest;
        }
        found.is_some()
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.accept(text) { Ok(()) } else { Err(format!("`{text}` is missing")) }
    }

    /// Steps up to the first character that starts none.
    fn steps(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        loop {
            self.steps += usize::from(self.rest.starts_with(['.', '[']));
            if self.steps > MAX_STEPS {
                return Err(format!("a path has more than {MAX_STEPS} steps"));
            }
            if let Some(rest) = self.rest.strip_prefix("..") {
                self.rest = rest;
                steps.push(Step::Deep);
                if !rest.starts_with('[') {
                    steps.push(self.name()?);
                }
            } else if let Some(rest) = self.rest.strip_prefix('.') {
                self.rest = rest;
                if !rest.starts_with('[') {
                    steps.push(self.name()?);
                }
            } else if let Some(rest) = self.rest.strip_prefix('[') {
                self.rest = rest;
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    /// A name, `*` or a function after a dot.
    fn name(&mut self) -> Result<Step, String> {
        if let Some(rest) = self.rest.strip_prefix('*') {
            self.rest = rest;
            return Ok(Step::All);
        }
        // Operators of a filter end a name there; at the top they may be part of it.
        let ends = |c: char| {
            matches!(c, '.' | '[' | ' ' | '(')
                || self.depth > 0
                    && matches!(c, ')' | '=' | '!' | '<' | '>' | '&' | '|' | ',' | ']')
        };
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if name.is_empty() {
            return Err("a name is missing after a dot".to_owned());
        }
        self.rest = rest;
        let Some(rest) = rest.strip_prefix('(') else {
            return Ok(Step::Names(vec![name.to_owned()]));
        };
        let unsupported = || format!("the function `{name}` is not supported");
        let function = name.parse().map_err(|_| unsupported())?;
        self.rest = rest.trim_start().strip_prefix(')').ok_or_else(unsupported)?;
        Ok(Step::Function(function))
    }

    fn bracket(&mut self) -> Result<Step, String> {
        if self.accept("?") {
            self.expect("(")?;
            let condition = self.any()?;
            self.expect(")")?;
            self.expect("]")?;
            return Ok(Step::Filter(Box::new(condition)));
        }
        if self.accept("*") {
            self.expect("]")?;
            return Ok(Step::All);
        }
        if self.rest.trim_start().starts_with(['\'', '"']) {
            let mut names = vec![self.quoted()?];
            while self.accept(",") {
                names.push(self.quoted()?);
            }
            self.expect("]")?;
            return Ok(Step::Names(names));
        }
        let (inside, rest) = self.rest.split_once(']').ok_or("a bracket is not closed")?;
        self.rest = rest;
        let number = |text: &str| {
            text.trim().parse::<i64>().map_err(|_| format!("`{inside}` is not supported"))
        };
        let bound = |text: &str| match text.trim() {
            "" => Ok(None),
            text => number(text).map(Some),
        };
        if let Some((from, to)) = inside.split_once(':') {
            return Ok(Step::Slice(bound(from)?, bound(to)?));
        }
        Ok(Step::Indexes(inside.split(',').map(number).collect::<Result<_, _>>()?))
    }

    /// A text in quotation marks.
    fn quoted(&mut self) -> Result<String, String> {
        self.rest = self.rest.trim_start();
        let mark = self.rest.chars().next().filter(|mark| matches!(mark, '\'' | '"'));
        let mark = mark.ok_or("a quotation mark is missing")?;
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => text.extend(characters.next().map(|(_, escaped)| match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    escaped => escaped,
                })),
                character if character == mark => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                character => text.push(character),
            }
        }
        Err("a quotation mark is not closed".to_owned())
    }

    fn any(&mut self) -> Result<Condition, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("conditions are nested deeper than {MAX_DEPTH}"));
        }
        let mut all = vec![self.all()?];
        while self.accept("||") {
            all.push(self.all()?);
        }
        self.depth -= 1;
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::Any(all) })
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut all = vec![self.condition()?];
        while self.accept("&&") {
            all.push(self.condition()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::All(all) })
    }

    fn condition(&mut self) -> Result<Condition, String> {
        if self.accept("!") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(format!("conditions are nested deeper than {MAX_DEPTH}"));
            }
            let inner = self.condition()?;
            self.depth -= 1;
            return Ok(Condition::Not(Box::new(inner)));
        }
        if self.accept("(") {
            let inner = self.any()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let left = self.operand()?;
        let Some(comparison) = self.comparison()? else {
            return Ok(Condition::Exists(left));
        };
        Ok(Condition::Compare(comparison, left, self.operand()?))
    }

    fn comparison(&mut self) -> Result<Option<Comparison>, String> {
        const SIGNS: [(&str, Comparison); 9] = [
            ("===", Comparison::Equal),
            ("!==", Comparison::NotEqual),
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("=~", Comparison::Matches),
            ("<=", Comparison::LessEqual),
            (">=", Comparison::GreaterEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        if let Some((_, comparison)) = SIGNS.iter().find(|(sign, _)| self.accept(sign)) {
            return Ok(Some(*comparison));
        }
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        if end == 0 {
            return Ok(None);
        }
        let word = rest[..end].to_ascii_lowercase();
        let comparison = word.parse().map_err(|_| format!("`{word}` is not supported"))?;
        self.rest = &rest[end..];
        Ok(Some(comparison))
    }

    fn operand(&mut self) -> Result<Operand, String> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next().ok_or("a condition ends too early")?;
        Ok(match first {
            '@' | '$' => {
                self.rest = &self.rest[1..];
                let steps = self.steps()?;
                Operand::Path { from_root: first == '$', steps }
            }
            '/' => self.regex()?,
            _ => Operand::Value(self.value()?),
        })
    }

    /// `/pattern/i`
    fn regex(&mut self) -> Result<Operand, String> {
        let mut pattern = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => {
                    pattern.push('\\');
                    pattern.extend(characters.next().map(|(_, escaped)| escaped));
                }
                '/' => {
                    let rest = &self.rest[at + 1..];
                    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
                    let flags: String =
                        rest[..end].chars().filter(|f| "imsx".contains(*f)).collect();
                    self.rest = &rest[end..];
                    let flags = if flags.is_empty() { flags } else { format!("(?{flags})") };
                    return Ok(Operand::Regex(Pattern::new(&(flags + &pattern))?));
                }
                character => pattern.push(character),
            }
        }
        Err("a regular expression is not closed".to_owned())
    }

    /// A string, a number, `true`, `false`, `null` or a list of these.
    fn value(&mut self) -> Result<Value, String> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(Value::String);
        }
        if self.accept("[") {
            let mut items = Vec::new();
            while !self.accept("]") {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(format!("lists are nested deeper than {MAX_DEPTH}"));
                }
                items.push(self.value()?);
                self.depth -= 1;
                if !self.accept(",") {
                    self.expect("]")?;
                    break;
                }
            }
            return Ok(Value::Array(items));
        }
        let ends = |c: char| c.is_whitespace() || matches!(c, ')' | ']' | ',' | '&' | '|' | '=');
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest): (&'s str, &'s str) = self.rest.split_at(end);
        self.rest = rest;
        serde_json::from_str(word).map_err(|_| format!("`{word}` is not supported in a condition"))
    }
}
