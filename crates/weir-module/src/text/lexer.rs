//! JavaScript tokens, as far as they are needed to find top-level statements.
//!
//! ECMAScript distinguishes a division from a regular expression by the grammatical context
//! (ECMA-262 section 12). The lexer decides by the previous token, and for a closing bracket by the
//! token before the opening one, which is right for all usual code. Misread code does not compile,
//! and is reported.

use super::Malformed;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, a key word or a number.
    Word,
    /// A string in quotes.
    Text,
    /// A complete template.
    Template,
    Regex,
    Sign,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    pub(super) start: usize,
    pub(super) end: usize,
    /// 1-based line of its start.
    pub(super) line: usize,
    /// Nesting depth; a bracket itself is outside.
    pub(super) depth: usize,
    pub(super) after_dot: bool,
    /// A bracket that closes the head of a statement or a block: an expression may follow.
    statement: bool,
}

impl Token<'_> {
    /// A value may end with it.
    pub(super) fn ends_value(&self) -> bool {
        match self.kind {
            Kind::Text | Kind::Template | Kind::Regex => true,
            Kind::Word => self.after_dot || !OPERATORS.contains(&self.text),
            Kind::Sign => match self.text {
                ")" | "}" => !self.statement,
                "]" | "++" | "--" => true,
                _ => false,
            },
        }
    }
}

/// Words before an expression.
const OPERATORS: [&str; 14] = [
    "return",
    "typeof",
    "case",
    "do",
    "else",
    "in",
    "instanceof",
    "new",
    "void",
    "delete",
    "throw",
    "await",
    "yield",
    "of",
];
/// Maximum nesting of brackets and templates.
const DEEPEST: usize = 512;

pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    before: Option<Token<'t>>,
    /// Open brackets, and whether each belongs to a statement.
    open: Vec<(u8, bool)>,
    peeked: Option<Option<Token<'t>>>,
    /// Enclosing templates.
    templates: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0, line: 1, before: None, open: Vec::new(), peeked: None, templates: 0 }
    }

    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// End of the last token that [`Lexer::next`] returned, if none was peeked at.
    pub(super) fn offset(&self) -> usize {
        match &self.peeked {
            Some(Some(token)) => token.start,
            _ => self.at,
        }
    }

    pub(super) fn peek(&mut self) -> Result<Option<Token<'t>>, Malformed> {
        if self.peeked.is_none() {
            self.peeked = Some(self.read()?);
        }
        Ok(self.peeked.flatten())
    }

    pub(super) fn next(&mut self) -> Result<Option<Token<'t>>, Malformed> {
        match self.peeked.take() {
            Some(token) => Ok(token),
            None => self.read(),
        }
    }

    fn fault<T>(&self, message: &str) -> Result<T, Malformed> {
        super::malformed(self.line, message)
    }

    fn bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }

    fn starts(&self, with: &str) -> bool {
        self.bytes()[self.at..].starts_with(with.as_bytes())
    }

    /// Skips `count` bytes and counts lines.
    fn pass(&mut self, count: usize) {
        let end = (self.at + count).min(self.text.len());
        self.line += self.bytes()[self.at..end].iter().filter(|&&b| b == b'\n').count();
        self.at = end;
    }

    fn blank(&mut self) -> Result<(), Malformed> {
        loop {
            let rest = &self.bytes()[self.at..];
            let white = rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
            if white > 0 {
                self.pass(white);
            } else if self.starts("//") || (self.at == 0 && self.starts("#!")) {
                let length = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                self.pass(length);
            } else if self.starts("/*") {
                let Some(length) = self.text[self.at + 2..].find("*/") else {
                    return self.fault("a comment is not closed");
                };
                self.pass(length + 4);
            } else if self.starts("\u{feff}") || self.starts("\u{2028}") || self.starts("\u{2029}")
            {
                self.pass(3);
            } else {
                return Ok(());
            }
        }
    }

    fn read(&mut self) -> Result<Option<Token<'t>>, Malformed> {
        self.blank()?;
        let (start, line) = (self.at, self.line);
        let Some(&first) = self.bytes().get(start) else {
            return match self.open.is_empty() {
                true => Ok(None),
                false => self.fault("a bracket is not closed"),
            };
        };
        let mut depth = self.open.len();
        let mut statement = false;
        let kind = match first {
            b'"' | b'\'' => self.quoted(first)?,
            b'`' => self.template()?,
            b'/' if !self.before.is_some_and(|before| before.ends_value()) => self.regex()?,
            b'(' | b'[' | b'{' => {
                if self.open.len() == DEEPEST {
                    return self.fault("brackets are nested too deep");
                }
                self.open.push((first, self.belongs_to_statement(first)));
                self.pass(1);
                Kind::Sign
            }
            b')' | b']' | b'}' => {
                let opening = match first {
                    b')' => b'(',
                    b']' => b'[',
                    _ => b'{',
                };
                match self.open.pop() {
                    Some((bracket, of_statement)) if bracket == opening => statement = of_statement,
                    _ => return self.fault("a bracket closes nothing"),
                }
                depth = self.open.len();
                self.pass(1);
                Kind::Sign
            }
            b if is_word(b) => {
                let rest = &self.bytes()[start..];
                let length = rest.iter().take_while(|b| is_word(**b)).count();
                // A number with a fraction becomes two words and a dot, which does no harm.
                self.pass(length);
                Kind::Word
            }
            _ => {
                let length = match () {
                    () if self.starts("++") || self.starts("--") || self.starts("=>") => 2,
                    () if self.starts("...") => 3,
                    () => 1,
                };
                self.pass(length);
                Kind::Sign
            }
        };
        let after_dot = self.before.is_some_and(|before| before.text == ".");
        let text = &self.text[start..self.at];
        let token = Token { kind, text, start, end: self.at, line, depth, after_dot, statement };
        self.before = Some(token);
        Ok(Some(token))
    }

    /// Whether the closed bracket is no value: the head of `if`, a block, a body.
    fn belongs_to_statement(&self, bracket: u8) -> bool {
        let Some(before) = self.before else { return true };
        match bracket {
            b'(' => {
                before.kind == Kind::Word
                    && !before.after_dot
                    && matches!(before.text, "if" | "while" | "for" | "with")
            }
            b'{' => match before.kind {
                Kind::Sign => {
                    matches!(before.text, ")" | ";" | "=>")
                        || (before.text == "}" && before.statement)
                        || before.text == "{"
                }
                Kind::Word => {
                    matches!(before.text, "do" | "else")
                        || !(before.text == "default" || OPERATORS.contains(&before.text))
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<Kind, Malformed> {
        let rest = &self.bytes()[self.at..];
        let mut length = 1;
        loop {
            match rest.get(length) {
                Some(b'\\') => length += 2,
                Some(b'\n') | None => return self.fault("a string is not closed"),
                Some(&b) if b == quote => break,
                Some(_) => length += 1,
            }
        }
        self.pass(length + 1);
        Ok(Kind::Text)
    }

    fn template(&mut self) -> Result<Kind, Malformed> {
        if self.templates == 32 {
            return self.fault("templates are nested too deep");
        }
        self.templates += 1;
        self.pass(1);
        loop {
            let rest = &self.bytes()[self.at..];
            match rest {
                [b'\\', ..] => self.pass(2),
                [b'`', ..] => break,
                [b'$', b'{', ..] => {
                    let around = self.open.len();
                    let before = self.before.take();
                    self.pass(2);
                    self.open.push((b'{', false));
                    while self.open.len() > around {
                        if self.read()?.is_none() {
                            return self.fault("a template is not closed");
                        }
                    }
                    self.before = before;
                }
                [] => return self.fault("a template is not closed"),
                _ => self.pass(1),
            }
        }
        self.pass(1);
        self.templates -= 1;
        Ok(Kind::Template)
    }

    fn regex(&mut self) -> Result<Kind, Malformed> {
        let rest = &self.bytes()[self.at..];
        let (mut length, mut in_class) = (1, false);
        loop {
            match rest.get(length) {
                Some(b'\\') => length += 1,
                Some(b'\n') | None => return self.fault("a regular expression is not closed"),
                Some(b'[') => in_class = true,
                Some(b']') => in_class = false,
                Some(b'/') if !in_class => break,
                Some(_) => {}
            }
            length += 1;
        }
        length += 1;
        length += rest[length..].iter().take_while(|b| is_word(**b)).count();
        self.pass(length);
        Ok(Kind::Regex)
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte == b'#' || byte >= 0x80
}
