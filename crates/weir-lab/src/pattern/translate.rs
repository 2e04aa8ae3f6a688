//! From the syntax of ORO to that of `regex`.

/// The end of the text, or of a line with `(?m)`.
pub(super) const LINE_END: &str = "$";
/// The end of the text, or the line break there.
pub(super) const TEXT_END: &str = r"(?:\n?\z)";

/// Translates an expression, with `end` for `$`.
///
/// # Errors
/// It has a construct that JMeter does not support.
pub(super) fn translate(pattern: &str, end: &str) -> Result<String, String> {
    let characters: Vec<char> = pattern.chars().collect();
    let end = if is_multiline(&characters) { LINE_END } else { end };
    let mut translation = Translation { characters: &characters, at: 0, out: String::new(), end };
    translation.expression()?;
    Ok(translation.out)
}

/// Whether the flags of a group have an `m`.
fn is_multiline(characters: &[char]) -> bool {
    let mut groups = characters.windows(2).enumerate().filter(|(_, pair)| *pair == ['(', '?']);
    groups.any(|(at, _)| {
        let mut flags = characters[at + 2..].iter().take_while(|c| c.is_ascii_alphabetic());
        flags.any(|flag| *flag == 'm')
    })
}

/// A replacement in Java's syntax (`$1`, `\$`) in that of `regex` (`${1}`, `$$`).
pub(super) fn replacement(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('$') => out.push_str("$$"),
                other => out.extend(other),
            },
            '$' => match characters.next_if(char::is_ascii_digit) {
                Some(group) => out.extend(['$', '{', group, '}']),
                None => out.push_str("$$"),
            },
            character => out.push(character),
        }
    }
    out
}

struct Translation<'c> {
    characters: &'c [char],
    at: usize,
    out: String,
    end: &'c str,
}

impl Translation<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn expression(&mut self) -> Result<(), String> {
        // Whether something precedes that a quantifier can follow.
        let mut has_atom = false;
        while let Some(character) = self.peek(0) {
            match character {
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '(' => {
                    self.group()?;
                    has_atom = false;
                    continue;
                }
                '{' => match self.quantifier_end().filter(|_| has_atom) {
                    Some(end) => {
                        self.out.extend(&self.characters[self.at..end]);
                        self.at = end;
                    }
                    None => {
                        self.out.push_str(r"\{");
                        self.at += 1;
                    }
                },
                '$' => {
                    self.out.push_str(self.end);
                    self.at += 1;
                }
                character => {
                    self.out.push(character);
                    self.at += 1;
                }
            }
            has_atom = !matches!(character, '|' | '^');
        }
        Ok(())
    }

    /// End of a quantifier such as `{2}`, `{2,}` or `{2,3}`; `None` if the bracket is literal.
    fn quantifier_end(&self) -> Option<usize> {
        let rest = &self.characters[self.at + 1..];
        let length = rest.iter().position(|character| *character == '}')?;
        let inside: String = rest[..length].iter().collect();
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (least, most) = inside.split_once(',').unwrap_or((&inside, ""));
        let valid = !least.is_empty() && digits(least) && digits(most);
        valid.then_some(self.at + length + 2)
    }

    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        self.at += 1;
        if self.peek(0) != Some('?') {
            return Ok(());
        }
        match (self.peek(1), self.peek(2)) {
            (Some('#'), _) => {
                self.out.pop();
                let rest = &self.characters[self.at..];
                let end = rest.iter().position(|character| *character == ')');
                self.at += end.ok_or("a comment is not closed")? + 1;
            }
            (Some('<'), Some('=' | '!')) => {
                return Err("JMeter's regular expressions have no look-behind".to_owned());
            }
            (Some('<' | 'P'), _) => {
                return Err("JMeter's regular expressions have no named groups".to_owned());
            }
            (Some('>'), _) => {
                return Err("JMeter's regular expressions have no atomic groups".to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    /// An escape sequence, in a character class or outside.
    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let Some(escaped) = self.peek(1) else {
            return Err("the expression ends with a backslash".to_owned());
        };
        self.at += 2;
        match escaped {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'n' | 'r' | 't' | 'f' => {
                self.out.extend(['\\', escaped]);
            }
            'b' if in_class => self.out.push_str(r"\x08"),
            'b' | 'B' | 'A' | 'z' if !in_class => self.out.extend(['\\', escaped]),
            'Z' if !in_class => self.out.push_str(r"(?:\n?\z)"),
            'a' => self.out.push_str(r"\x07"),
            'e' => self.out.push_str(r"\x1b"),
            'x' | 'u' => {
                let length = if escaped == 'x' { 2 } else { 4 };
                let digits: String = self.characters[self.at..].iter().take(length).collect();
                match u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == length) {
                    Some(code) => {
                        self.out.push_str(&format!(r"\x{{{code:X}}}"));
                        self.at += length;
                    }
                    None => self.out.push(escaped),
                }
            }
            'c' => {
                let control = self.peek(0).ok_or("a control character is missing")?;
                self.out.push_str(&format!(r"\x{:02X}", (u32::from(control) ^ 64) & 0x7f));
                self.at += 1;
            }
            '0' => self.octal(),
            '1'..='9' if !in_class => self.out.extend(['\\', escaped]),
            escaped if escaped.is_ascii_alphanumeric() => self.out.push(escaped),
            // Word boundaries in the syntax of `regex`.
            '<' | '>' => self.out.push(escaped),
            escaped if escaped.is_ascii_punctuation() || escaped == ' ' => {
                self.out.extend(['\\', escaped]);
            }
            escaped => self.out.push(escaped),
        }
        Ok(())
    }

    fn octal(&mut self) {
        let digits = self.characters[self.at..].iter().take(2);
        let digits: String = digits.take_while(|digit| ('0'..='7').contains(*digit)).collect();
        self.at += digits.len();
        let code = u32::from_str_radix(&digits, 8).unwrap_or(0);
        self.out.push_str(&format!(r"\x{code:02X}"));
    }

    /// A character class. `regex` has nested classes and set operations, which are literal here.
    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        self.at += 1;
        if self.peek(0) == Some('^') {
            self.out.push('^');
            self.at += 1;
        }
        let start = self.at;
        // The last part was a set such as `\d`, so that a hyphen is literal.
        let mut after_set = false;
        loop {
            let Some(character) = self.peek(0) else {
                return Err("a character class is not closed".to_owned());
            };
            let was_set = std::mem::take(&mut after_set);
            match character {
                ']' if self.at > start => {
                    self.out.push(']');
                    self.at += 1;
                    return Ok(());
                }
                '[' if self.peek(1) == Some(':') && self.posix_end().is_some() => {
                    let end = self.posix_end().unwrap_or(self.at + 1);
                    self.out.extend(&self.characters[self.at..end]);
                    self.at = end;
                    after_set = true;
                }
                '\\' => {
                    after_set = matches!(self.peek(1), Some('d' | 'D' | 'w' | 'W' | 's' | 'S'));
                    self.escape(true)?;
                }
                '-' => {
                    let next = (self.peek(1), self.peek(2));
                    let before_set =
                        matches!(next, (Some('\\'), Some('d' | 'D' | 'w' | 'W' | 's' | 'S')));
                    let at_edge = self.at == start || matches!(next.0, Some(']') | None);
                    let literal = was_set || before_set || at_edge;
                    self.out.push_str(if literal { r"\-" } else { "-" });
                    self.at += 1;
                }
                '[' | ']' | '&' | '~' | '^' | '#' | ' ' => {
                    self.out.extend(['\\', character]);
                    self.at += 1;
                }
                character => {
                    self.out.push(character);
                    self.at += 1;
                }
            }
        }
    }

    /// End of `[:alpha:]`.
    fn posix_end(&self) -> Option<usize> {
        let rest = &self.characters[self.at + 2..];
        let length = rest.iter().position(|character| !character.is_ascii_alphabetic())?;
        let ends = rest.get(length..length + 2) == Some(&[':', ']']);
        ends.then_some(self.at + 2 + length + 2)
    }
}
