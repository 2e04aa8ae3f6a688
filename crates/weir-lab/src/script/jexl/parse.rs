//! From text to expression, by precedence.

use super::{Expression, MAX_BYTES, Object, Operator, Value};

/// Deepest nesting.
const MAX_DEPTH: usize = 64;
/// Most operators and methods: each can be inside the next one.
const MAX_OPERATORS: usize = 200;

/// Methods of values.
const METHODS: [&str; 24] = [
    "length",
    "size",
    "isEmpty",
    "equals",
    "equalsIgnoreCase",
    "contains",
    "startsWith",
    "endsWith",
    "indexOf",
    "lastIndexOf",
    "substring",
    "toUpperCase",
    "toLowerCase",
    "trim",
    "matches",
    "replace",
    "replaceAll",
    "charAt",
    "concat",
    "toString",
    "compareTo",
    "intValue",
    "longValue",
    "isBlank",
];

/// Parses an expression.
pub(super) fn parse(source: &str) -> Result<Expression, String> {
    if source.len() > MAX_BYTES {
        return Err(format!("an expression has at most {MAX_BYTES} bytes"));
    }
    let mut parser = Parser { tokens: tokens(source)?, at: 0, depth: 0, operators: 0 };
    let expression = parser.choice()?;
    // A semicolon may end the only statement.
    parser.accept(";");
    match parser.tokens.get(parser.at) {
        None => Ok(expression),
        Some(token) => Err(format!("{token} is not supported here")),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Value(Value),
    Name(String),
    Sign(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(value) => write!(f, "the value {:?}", value.clone().text()),
            Self::Name(name) => write!(f, "`{name}`"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
        }
    }
}

/// Longer ones first.
const SIGNS: [&str; 32] = [
    "===", "!==", "==", "!=", "<=", ">=", "=~", "!~", "=^", "=$", "&&", "||", "??", "?:", "!^",
    "!$", "(", ")", ",", ".", "?", ":", "<", ">", "!", "+", "-", "*", "/", "%", ";", "=",
];

fn tokens(source: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = source.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first == '"' || first == '\'' {
            let (text, length) = quoted(rest, first)?;
            tokens.push(Token::Value(Value::Text(text)));
            length
        } else if first.is_ascii_digit() {
            let (value, length) = number(rest)?;
            tokens.push(Token::Value(value));
            length
        } else if first.is_alphabetic() || matches!(first, '_' | '$' | '@') {
            let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '@');
            let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
            tokens.push(word(&rest[..end]));
            end
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            sign.len()
        } else {
            return Err(format!("`{first}` is not supported"));
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// A name, or the operator or value that it stands for.
fn word(name: &str) -> Token {
    Token::Sign(match name {
        "eq" => "==",
        "ne" => "!=",
        "lt" => "<",
        "le" => "<=",
        "gt" => ">",
        "ge" => ">=",
        "and" => "&&",
        "or" => "||",
        "not" => "!",
        "div" => "/",
        "mod" => "%",
        "true" => return Token::Value(Value::Bool(true)),
        "false" => return Token::Value(Value::Bool(false)),
        "null" => return Token::Value(Value::Null),
        name => return Token::Name(name.to_owned()),
    })
}

/// A text in quotation marks and its length in the source.
fn quoted(source: &str, mark: char) -> Result<(String, usize), String> {
    let mut text = String::new();
    let mut characters = source.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some((_, next)) if next == mark || next == '\\' => text.push(next),
                Some((_, 'n')) => text.push('\n'),
                Some((_, 'r')) => text.push('\r'),
                Some((_, 't')) => text.push('\t'),
                Some((_, next)) => text.extend(['\\', next]),
                None => break,
            },
            character if character == mark => return Ok((text, at + 1)),
            character => text.push(character),
        }
    }
    Err("a quotation mark is not closed".to_owned())
}

fn number(source: &str) -> Result<(Value, usize), String> {
    let bytes = source.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits(0);
    let is_float = bytes.get(end) == Some(&b'.') && digits(end + 1) > 0;
    if is_float {
        end += 1 + digits(end + 1);
    }
    let text = &source[..end];
    let value = match is_float {
        true => text.parse().map(Value::Float).map_err(|error| error.to_string()),
        false => text.parse().map(Value::Integer).map_err(|error| error.to_string()),
    };
    // Suffixes of types: long, float, double.
    let suffix = bytes.get(end).filter(|byte| b"lLfFdD".contains(byte)).is_some();
    Ok((value.map_err(|error| format!("{text}: {error}"))?, end + usize::from(suffix)))
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    operators: usize,
}

/// Operators with two operands, the weakest first.
const LEVELS: [&[(&str, Operator)]; 6] = [
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[
        ("==", Operator::Equal),
        ("===", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("!==", Operator::NotEqual),
        ("=~", Operator::Matches),
        ("!~", Operator::MatchesNot),
        ("=^", Operator::StartsWith),
        ("=$", Operator::EndsWith),
    ],
    &[
        ("<=", Operator::LessEqual),
        (">=", Operator::GreaterEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)],
];

impl Parser {
    fn accept(&mut self, sign: &str) -> bool {
        let is = matches!(self.tokens.get(self.at), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        match self.accept(sign) {
            true => Ok(()),
            false => Err(format!("`{sign}` is missing")),
        }
    }

    fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => Err(format!("an expression is nested deeper than {MAX_DEPTH}")),
            false => Ok(()),
        }
    }

    fn operator(&mut self) -> Result<(), String> {
        self.operators += 1;
        match self.operators > MAX_OPERATORS {
            true => Err(format!("an expression has more than {MAX_OPERATORS} operators")),
            false => Ok(()),
        }
    }

    fn choice(&mut self) -> Result<Expression, String> {
        self.enter()?;
        let condition = self.binary(0)?;
        let expression = if self.accept("?:") {
            let other = self.choice()?;
            Expression::Choice(Box::new((condition, None, other)))
        } else if self.accept("??") {
            let other = self.choice()?;
            Expression::Coalesce(Box::new((condition, other)))
        } else if self.accept("?") {
            let yes = self.choice()?;
            self.expect(":")?;
            let no = self.choice()?;
            Expression::Choice(Box::new((condition, Some(yes), no)))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn binary(&mut self, level: usize) -> Result<Expression, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.accept(sign)) {
            self.operator()?;
            let right = self.binary(level + 1)?;
            left = Expression::Binary(*operator, Box::new((left, right)));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, String> {
        let mut signs = Vec::new();
        loop {
            if self.accept("!") {
                signs.push(true);
            } else if self.accept("-") {
                signs.push(false);
            } else {
                break;
            }
            self.operator()?;
        }
        let operand = self.postfix()?;
        Ok(signs.into_iter().rev().fold(operand, |operand, is_not| match is_not {
            true => Expression::Not(Box::new(operand)),
            false => Expression::Negative(Box::new(operand)),
        }))
    }

    /// The operand of an operator that is a word.
    fn inner(&mut self) -> Result<Expression, String> {
        self.enter()?;
        let operand = self.unary()?;
        self.depth -= 1;
        Ok(operand)
    }

    fn postfix(&mut self) -> Result<Expression, String> {
        let (mut expression, mut object) = self.primary()?;
        while self.accept(".") {
            self.operator()?;
            let Some(Token::Name(name)) = self.tokens.get(self.at).cloned() else {
                return Err("a name is missing after `.`".to_owned());
            };
            self.at += 1;
            self.expect("(").map_err(|_| format!("the property `{name}` is not supported"))?;
            let arguments = self.arguments()?;
            expression = match object.take() {
                Some(object) => object_method(object, name, arguments)?,
                None if METHODS.contains(&name.as_str()) => {
                    Expression::Method(Box::new(expression), name, arguments)
                }
                None => return Err(format!("the method `{name}` is not supported")),
            };
        }
        match object {
            Some(_) => Err("`vars`, `props` and `log` are supported only with a method".to_owned()),
            None => Ok(expression),
        }
    }

    fn arguments(&mut self) -> Result<Vec<Expression>, String> {
        let mut arguments = Vec::new();
        if self.accept(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.choice()?);
            if !self.accept(",") {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    fn primary(&mut self) -> Result<(Expression, Option<Object>), String> {
        let null = Expression::Value(Value::Null);
        if self.accept("(") {
            let inner = self.choice()?;
            self.expect(")")?;
            return Ok((inner, None));
        }
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        Ok(match token {
            Some(Token::Value(value)) => (Expression::Value(value), None),
            Some(Token::Name(name)) => match name.as_str() {
                "vars" => (null, Some(Object::Variables)),
                "props" => (null, Some(Object::Properties)),
                "log" => (null, Some(Object::Log)),
                "threadName" => (Expression::ThreadName, None),
                // Operators with or without brackets.
                "empty" => (Expression::Empty(Box::new(self.inner()?)), None),
                "size" => (Expression::Size(Box::new(self.inner()?)), None),
                "if" | "for" | "while" | "foreach" | "new" | "var" | "return" | "function"
                | "ctx" | "sampler" | "sampleResult" | "OUT" | "prev" => {
                    return Err(format!("`{name}` is not supported"));
                }
                _ if matches!(self.tokens.get(self.at), Some(Token::Sign("(" | "=" | "."))) => {
                    return Err(format!("`{name}` is not supported"));
                }
                _ => (Expression::Unknown(name), None),
            },
            Some(token) => return Err(format!("{token} is not supported here")),
            None => return Err("the expression ends too early".to_owned()),
        })
    }
}

fn object_method(
    object: Object,
    name: String,
    arguments: Vec<Expression>,
) -> Result<Expression, String> {
    let arity = match (object, name.as_str()) {
        (Object::Variables, "get" | "remove") => 1..=1,
        (Object::Variables, "put") => 2..=2,
        (Object::Properties, "get" | "getProperty") => 1..=2,
        (Object::Properties, "put" | "setProperty") => 2..=2,
        (Object::Log, _) => 0..=2,
        _ => return Err(format!("the method `{name}` is not supported")),
    };
    if !arity.contains(&arguments.len()) {
        return Err(format!("`{name}` has another number of arguments"));
    }
    Ok(Expression::ObjectMethod(object, name, arguments))
}
