//! From text to expression.

use super::{Axis, Expression, MAX_BYTES, Operator, Step, Test};

/// Deepest nesting.
const MAX_DEPTH: usize = 64;
/// Most operators: each can be inside the next one.
const MAX_OPERATORS: usize = 500;

pub(super) fn parse(source: &str) -> Result<Expression, String> {
    if source.len() > MAX_BYTES {
        return Err(format!("an expression has at most {MAX_BYTES} bytes"));
    }
    let mut parser = Parser { rest: source, depth: 0, operators: 0 };
    let expression = parser.binary(0)?;
    match parser.rest.trim() {
        "" => Ok(expression),
        rest => Err(format!("`{}` is not supported", rest.chars().take(40).collect::<String>())),
    }
}

struct Parser<'s> {
    rest: &'s str,
    depth: usize,
    operators: usize,
}

/// Operators with two operands, the weakest first.
const LEVELS: [&[(&str, Operator)]; 7] = [
    &[("or", Operator::Or)],
    &[("and", Operator::And)],
    &[("!=", Operator::NotEqual), ("=", Operator::Equal)],
    &[
        ("<=", Operator::LessEqual),
        (">=", Operator::GreaterEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("div", Operator::Divide), ("mod", Operator::Remainder)],
    &[("|", Operator::Union)],
];

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '.')
}

impl<'s> Parser<'s> {
    /// Accepts a sign, or a word that is not the start of a longer one.
    fn accept(&mut self, text: &str) -> bool {
        let rest = self.rest.trim_start();
        let Some(behind) = rest.strip_prefix(text) else { return false };
        if text.starts_with(char::is_alphabetic) && behind.starts_with(is_name) {
            return false;
        }
        self.rest = behind;
        true
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.accept(text) { Ok(()) } else { Err(format!("`{text}` is missing")) }
    }

    fn binary(&mut self, level: usize) -> Result<Expression, String> {
        let Some(operators) = LEVELS.get(level) else { return self.path() };
        // Before unions.
        if level == LEVELS.len() - 1 && self.accept("-") {
            self.enter()?;
            let inner = self.binary(level)?;
            self.depth -= 1;
            return Ok(Expression::Negative(Box::new(inner)));
        }
        let mut left = self.binary(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.accept(sign)) {
            self.operators += 1;
            if self.operators > MAX_OPERATORS {
                return Err(format!("an expression has more than {MAX_OPERATORS} operators"));
            }
            let right = self.binary(level + 1)?;
            left = Expression::Binary(*operator, Box::new((left, right)));
        }
        Ok(left)
    }

    fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => Err(format!("an expression is nested deeper than {MAX_DEPTH}")),
            false => Ok(()),
        }
    }

    fn path(&mut self) -> Result<Expression, String> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next().ok_or("the expression ends too early")?;
        let start = match first {
            '"' | '\'' => {
                let (text, rest) =
                    self.rest[1..].split_once(first).ok_or("a quotation mark is not closed")?;
                self.rest = rest;
                Some(Expression::Text(text.to_owned()))
            }
            '0'..='9' => Some(self.number()?),
            '(' => {
                self.rest = &self.rest[1..];
                self.enter()?;
                let inner = self.binary(0)?;
                self.depth -= 1;
                self.expect(")")?;
                Some(inner)
            }
            _ => self.call()?,
        };
        let mut steps = Vec::new();
        let Some(start) = start else {
            let absolute = self.rest.starts_with('/');
            let only_root = absolute && !self.rest.starts_with("//") && {
                let behind = self.rest[1..].trim_start();
                !behind.starts_with(|c: char| is_name(c) || matches!(c, '*' | '@' | '.'))
            };
            if only_root {
                self.rest = &self.rest[1..];
            } else {
                self.steps(&mut steps, absolute)?;
            }
            return Ok(Expression::Path { start: None, absolute, steps });
        };
        let predicates = self.predicates()?;
        let has_steps = self.rest.trim_start().starts_with('/');
        if predicates.is_empty() && !has_steps {
            return Ok(start);
        }
        if has_steps {
            self.rest = self.rest.trim_start();
            self.steps(&mut steps, true)?;
        }
        let start = Some(Box::new((start, predicates)));
        Ok(Expression::Path { start, absolute: false, steps })
    }

    fn number(&mut self) -> Result<Expression, String> {
        let end = self.rest.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        text.parse().map(Expression::Number).map_err(|_| format!("`{text}` is not a number"))
    }

    /// A call of a function; `None` for the start of a path.
    fn call(&mut self) -> Result<Option<Expression>, String> {
        let end = self.rest.find(|c| !(is_name(c) || c == ':')).unwrap_or(self.rest.len());
        let (name, behind) = self.rest.split_at(end);
        let behind = behind.trim_start();
        if name.is_empty()
            || !behind.starts_with('(')
            || matches!(name, "text" | "node" | "comment" | "processing-instruction")
            || name.contains("::")
        {
            return Ok(None);
        }
        let bare = name.strip_prefix("fn:").unwrap_or(name);
        let function =
            bare.parse().map_err(|_| format!("the function `{name}` is not supported"))?;
        self.rest = &behind[1..];
        self.enter()?;
        let mut arguments = Vec::new();
        if !self.accept(")") {
            loop {
                arguments.push(self.binary(0)?);
                if !self.accept(",") {
                    self.expect(")")?;
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(Some(Expression::Call(function, arguments)))
    }

    /// Steps of a path; `separated` if it starts with a slash.
    fn steps(&mut self, steps: &mut Vec<Step>, mut separated: bool) -> Result<(), String> {
        loop {
            if separated {
                if self.accept("//") {
                    steps.push(Step {
                        axis: Axis::DescendantOrSelf,
                        test: Test::Any,
                        predicates: Vec::new(),
                    });
                } else if !self.accept("/") {
                    return Ok(());
                }
            }
            steps.push(self.step()?);
            separated = true;
        }
    }

    fn step(&mut self) -> Result<Step, String> {
        self.rest = self.rest.trim_start();
        if self.accept("..") {
            return Ok(Step {
                axis: Axis::Parent,
                test: Test::Any,
                predicates: self.predicates()?,
            });
        }
        if self.accept(".") {
            return Ok(Step {
                axis: Axis::Itself,
                test: Test::Any,
                predicates: self.predicates()?,
            });
        }
        let axis = if self.accept("@") {
            Axis::Attribute
        } else if let Some((axis, behind)) = self.rest.split_once("::")
            && axis.chars().all(is_name)
        {
            let found = axis.parse().map_err(|_| format!("the axis `{axis}` is not supported"))?;
            self.rest = behind;
            found
        } else {
            Axis::Child
        };
        Ok(Step { axis, test: self.test()?, predicates: self.predicates()? })
    }

    fn test(&mut self) -> Result<Test, String> {
        let local = |prefix: &str, local: &str| Test::Name {
            prefix: prefix.to_owned(),
            local: local.to_owned(),
        };
        if self.accept("*") {
            // `*:name` of XPath 2 is a name in any namespace.
            if let Some(rest) = self.rest.strip_prefix(':') {
                self.rest = rest;
                return Ok(local("*", self.name()?));
            }
            return Ok(local("", "*"));
        }
        let name = self.name()?;
        if let Some(rest) = self.rest.strip_prefix(':') {
            self.rest = rest;
            if self.accept("*") {
                return Ok(local(name, "*"));
            }
            return Ok(local(name, self.name()?));
        }
        if !self.rest.trim_start().starts_with('(') {
            return Ok(local("", name));
        }
        self.expect("(")?;
        self.expect(")")?;
        match name {
            "text" => Ok(Test::Text),
            "node" => Ok(Test::Any),
            "comment" => Ok(Test::Comment),
            _ => Err(format!("`{name}()` is not supported here")),
        }
    }

    fn name(&mut self) -> Result<&'s str, String> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if name.is_empty() {
            return Err("a name is missing".to_owned());
        }
        self.rest = rest;
        Ok(name)
    }

    fn predicates(&mut self) -> Result<Vec<Expression>, String> {
        let mut predicates = Vec::new();
        while self.accept("[") {
            self.enter()?;
            predicates.push(self.binary(0)?);
            self.depth -= 1;
            self.expect("]")?;
        }
        Ok(predicates)
    }
}
