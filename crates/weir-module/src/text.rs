//! Converting the text of a module into a function that creates the module.
//!
//! The engine does not use QuickJS modules: a module becomes the text of a function, which is
//! called for every call of the script, so that the top level of a module runs anew each time for
//! the price of a function call. Line numbers do not change; only `import` and `export` are
//! rewritten. The engine checks the rest of the syntax.

mod lexer;
#[cfg(test)]
mod tests;

use lexer::{Kind, Lexer, Token};

/// Internal name of a module's default export.
const DEFAULT: &str = "__weir_default";
/// Function that returns an imported module by its index.
const LOAD: &str = "__weir_load";

/// A parsed module.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Body of the function, with the same lines as the module.
    body: String,
    /// Imports in their order.
    pub(crate) imports: Vec<Import>,
    /// Exported name and internal name.
    pub(crate) exports: Vec<(String, String)>,
}

/// One `import`, or `export … from`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) specifier: String,
    pub(crate) line: usize,
    names: Vec<Binding>,
}

#[derive(Debug, PartialEq, Eq)]
enum Binding {
    /// Exported name and local name.
    One(String, String),
    /// The entire module under this name.
    All(String),
    /// All exports of the module are exported.
    Again,
}

/// Why a module cannot be parsed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) line: usize,
    pub(crate) message: String,
}

fn malformed<T>(line: usize, message: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed { line, message: message.into() })
}

impl Module {
    /// Parses a module.
    pub(crate) fn parse(text: &str) -> Result<Self, Malformed> {
        let mut parser = Parser { text, lexer: Lexer::new(text), copied: 0, out: Self::default() };
        parser.run()?;
        let mut module = parser.out;
        module.exports.sort();
        if let Some(pair) = module.exports.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return malformed(1, format!("`{}` is exported twice", pair[0].0));
        }
        Ok(module)
    }

    /// An expression whose value is the function; `numbers` are the indexes of the imports.
    pub(crate) fn factory(&self, numbers: &[usize]) -> String {
        let mut text = format!("(function ({LOAD}) {{ \"use strict\"; ");
        let mut again = String::new();
        for (import, number) in self.imports.iter().zip(numbers) {
            let from = format!("{LOAD}({number})");
            let mut picked = Vec::new();
            for name in &import.names {
                match name {
                    Binding::One(theirs, ours) => picked.push(format!("{theirs:?}: {ours}")),
                    Binding::All(ours) => text.push_str(&format!("const {ours} = {from}; ")),
                    Binding::Again => {
                        again.push_str(&format!("...{from}, default: undefined, "));
                    }
                }
            }
            if picked.is_empty() {
                text.push_str(&format!("{from}; "));
            } else {
                text.push_str(&format!("const {{{}}} = {from}; ", picked.join(", ")));
            }
        }
        text.push_str(&self.body);
        let own: Vec<String> =
            self.exports.iter().map(|(name, inside)| format!("{name:?}: {inside}")).collect();
        text.push_str(&format!("\n;return {{{again}{}}};}})", own.join(", ")));
        text
    }

    /// Names that an import selects from its module.
    pub(crate) fn picked(&self, import: usize) -> impl Iterator<Item = &str> {
        self.imports[import].names.iter().filter_map(|name| match name {
            Binding::One(theirs, _) => Some(theirs.as_str()),
            Binding::All(_) | Binding::Again => None,
        })
    }

    /// Imports whose exports are all exported.
    pub(crate) fn exports_again(&self) -> impl Iterator<Item = usize> {
        let again = |import: &Import| import.names.contains(&Binding::Again);
        self.imports.iter().enumerate().filter(move |(_, i)| again(i)).map(|(at, _)| at)
    }
}

struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    /// End of the text that is copied to the body.
    copied: usize,
    out: Module,
}

impl<'t> Parser<'t> {
    fn run(&mut self) -> Result<(), Malformed> {
        while let Some(token) = self.lexer.next()? {
            if token.depth > 0 || token.after_dot || token.kind != Kind::Word {
                continue;
            }
            match token.text {
                "import" => self.import(token)?,
                "export" => self.export(token)?,
                _ => {}
            }
        }
        self.copy(self.text.len());
        Ok(())
    }

    fn copy(&mut self, to: usize) {
        self.out.body.push_str(&self.text[self.copied..to]);
        self.copied = to;
    }

    /// Skips the text up to here, except its line breaks.
    fn leave_out(&mut self, to: usize) {
        let lines = self.text[self.copied..to].matches('\n').count();
        self.out.body.extend(std::iter::repeat_n('\n', lines));
        self.copied = to;
    }

    fn expect(&mut self, what: &str) -> Result<Token<'t>, Malformed> {
        let line = self.lexer.line();
        let fault = || Malformed { line, message: format!("expected {what}") };
        self.lexer.next()?.ok_or_else(fault)
    }

    fn unexpected<T>(token: Token<'_>, what: &str) -> Result<T, Malformed> {
        malformed(token.line, format!("expected {what}, found `{}`", token.text))
    }

    fn import(&mut self, start: Token<'t>) -> Result<(), Malformed> {
        if let Some(next) = self.lexer.peek()?
            && matches!(next.text, "(" | ".")
        {
            let message = match next.text {
                "(" => "`import()` is not there: import at the top of the file",
                _ => "`import.meta` is not there",
            };
            return malformed(start.line, message);
        }
        self.copy(start.start);
        let mut names = Vec::new();
        let mut token = self.expect("what is imported")?;
        if token.kind != Kind::Text {
            if token.kind == Kind::Word {
                names.push(Binding::One("default".to_owned(), token.text.to_owned()));
                token = self.expect("`from`")?;
                if token.text == "," {
                    token = self.expect("what is imported")?;
                }
            }
            match token.text {
                "*" => {
                    let word = self.expect("`as`")?;
                    if word.text != "as" {
                        return Self::unexpected(word, "`as`");
                    }
                    names.push(Binding::All(self.expect("a name")?.text.to_owned()));
                    token = self.expect("`from`")?;
                }
                "{" => {
                    for (theirs, ours) in self.list()? {
                        names.push(Binding::One(theirs, ours));
                    }
                    token = self.expect("`from`")?;
                }
                _ => {}
            }
            if token.text != "from" {
                return Self::unexpected(token, "`from`");
            }
            token = self.expect("the module's path")?;
        }
        self.source(start, token, names)
    }

    /// The path of a module, which ends the declaration.
    fn source(
        &mut self,
        start: Token<'t>,
        path: Token<'t>,
        names: Vec<Binding>,
    ) -> Result<(), Malformed> {
        if path.kind != Kind::Text {
            return Self::unexpected(path, "the module's path in quotes");
        }
        let specifier = path.text[1..path.text.len() - 1].to_owned();
        self.out.imports.push(Import { specifier, line: start.line, names });
        self.leave_out(path.end);
        if let Some(next) = self.lexer.peek()?
            && matches!(next.text, "with" | "assert")
            && next.line == path.line
        {
            return Self::unexpected(next, "the end of the line");
        }
        Ok(())
    }

    /// `a, b as c, "d" as e }`
    fn list(&mut self) -> Result<Vec<(String, String)>, Malformed> {
        let mut pairs = Vec::new();
        loop {
            let first = self.expect("a name or `}`")?;
            match (first.kind, first.text) {
                (_, "}") => return Ok(pairs),
                (_, ",") => continue,
                (Kind::Word | Kind::Text, _) => {}
                _ => return Self::unexpected(first, "a name or `}`"),
            }
            let name = first.text.trim_matches(['"', '\'']).to_owned();
            match self.lexer.peek()? {
                Some(next) if next.text == "as" => {
                    self.expect("`as`")?;
                    let second = self.expect("a name")?;
                    pairs.push((name, second.text.trim_matches(['"', '\'']).to_owned()));
                }
                _ => pairs.push((name.clone(), name)),
            }
        }
    }

    fn export(&mut self, start: Token<'t>) -> Result<(), Malformed> {
        self.copy(start.start);
        let token = self.expect("what is exported")?;
        match token.text {
            "default" => self.export_default(token),
            "{" => {
                let pairs = self.list()?;
                if let Some(next) = self.lexer.peek()?
                    && next.text == "from"
                {
                    self.expect("`from`")?;
                    let path = self.expect("the module's path")?;
                    let mut names = Vec::new();
                    for (theirs, exported) in pairs {
                        let ours =
                            format!("__weir_again_{}_{}", self.out.imports.len(), names.len());
                        names.push(Binding::One(theirs, ours.clone()));
                        self.out.exports.push((exported, ours));
                    }
                    return self.source(start, path, names);
                }
                self.leave_out(self.lexer.offset());
                let pairs = pairs.into_iter().map(|(inside, exported)| (exported, inside));
                self.out.exports.extend(pairs);
                // The next token starts another statement.
                self.out.body.push(';');
                Ok(())
            }
            "*" => {
                let mut word = self.expect("`from`")?;
                let mut names = vec![Binding::Again];
                if word.text == "as" {
                    let name = self.expect("a name")?.text.to_owned();
                    let ours = format!("__weir_again_{}", self.out.imports.len());
                    self.out.exports.push((name, ours.clone()));
                    names = vec![Binding::All(ours)];
                    word = self.expect("`from`")?;
                }
                if word.text != "from" {
                    return Self::unexpected(word, "`from`");
                }
                let path = self.expect("the module's path")?;
                self.source(start, path, names)
            }
            "const" | "let" | "var" => {
                self.leave_out(token.start);
                self.declared()
            }
            "function" | "async" | "class" => {
                self.leave_out(token.start);
                let mut name = self.expect("a name")?;
                while matches!(name.text, "function" | "*") {
                    name = self.expect("a name")?;
                }
                self.out.exports.push((name.text.to_owned(), name.text.to_owned()));
                Ok(())
            }
            _ => Self::unexpected(token, "a declaration, `default`, `{` or `*`"),
        }
    }

    fn export_default(&mut self, default: Token<'t>) -> Result<(), Malformed> {
        self.leave_out(default.end);
        let line = default.line;
        let nothing = || Malformed { line, message: "expected what is exported".to_owned() };
        let mut token = self.lexer.peek()?.ok_or_else(nothing)?;
        let first = token;
        // A function or class is a declaration here, also without a name: brackets on the next line
        // do not call it.
        if token.text == "async" {
            self.lexer.next()?;
            match self.lexer.peek()? {
                Some(next) if next.text == "function" && next.line == token.line => token = next,
                _ => return self.default_value(first),
            }
        }
        if !matches!(token.text, "function" | "class") {
            return self.default_value(first);
        }
        let class = token.text == "class";
        self.lexer.next()?;
        let mut name = self.lexer.peek()?.ok_or_else(nothing)?;
        let mut before = token.end;
        if name.text == "*" {
            self.lexer.next()?;
            before = name.end;
            name = self.lexer.peek()?.ok_or_else(nothing)?;
        }
        let named = name.kind == Kind::Word && !(class && name.text == "extends");
        let inside = if named { name.text } else { DEFAULT };
        self.out.exports.push(("default".to_owned(), inside.to_owned()));
        self.copy(before);
        if !named {
            self.out.body.push_str(&format!(" {DEFAULT} "));
        }
        Ok(())
    }

    fn default_value(&mut self, first: Token<'t>) -> Result<(), Malformed> {
        self.out.exports.push(("default".to_owned(), DEFAULT.to_owned()));
        self.out.body.push_str(&format!("const {DEFAULT} = "));
        self.leave_out(first.start);
        Ok(())
    }

    /// The names of `const a = …, b = …`. Ends before the token that starts another statement.
    fn declared(&mut self) -> Result<(), Malformed> {
        let mut name_follows = true;
        let mut before: Option<Token<'t>> = None;
        while let Some(token) = self.lexer.peek()? {
            if token.depth == 0 && !name_follows {
                let ended = before.is_some_and(|before| {
                    token.line > before.line
                        && (before.ends_value() || before.text == "}")
                        && token.kind == Kind::Word
                        && !matches!(token.text, "in" | "instanceof")
                });
                if ended || token.text == ";" {
                    return Ok(());
                }
            }
            let token = self.expect("a name")?;
            if name_follows {
                if token.kind != Kind::Word {
                    return malformed(token.line, "export names, not a pattern");
                }
                self.out.exports.push((token.text.to_owned(), token.text.to_owned()));
                name_follows = false;
            } else if token.depth == 0 && token.text == "," {
                name_follows = true;
            }
            before = Some(token);
        }
        Ok(())
    }
}
