//! The description of a mapping of the configuration: keys, types, defaults and meanings.
//!
//! The check of a draft, the JSON Schema and the reference are derived from the description; the
//! resolution reads values by it.

pub mod fields;
pub mod format;
pub mod settings;

use format::Format;

/// A mapping with known keys.
#[derive(Debug)]
pub struct Shape {
    /// Name with an article: `a listener`.
    pub name: &'static str,
    /// Purpose.
    pub doc: &'static str,
    /// The keys.
    pub keys: &'static [Key],
    /// Mutually exclusive keys.
    pub groups: &'static [Group],
    /// Keys that users might try, each with a remedy.
    pub misspellings: &'static [(&'static str, &'static str)],
    /// Keys of later versions.
    pub later: &'static [&'static str],
    /// Of an included file: the shape of the main file.
    pub main: Option<&'static Shape>,
    /// Key of which a single string is the short form.
    pub short: Option<&'static str>,
}

/// A set of mutually exclusive keys.
#[derive(Debug)]
pub struct Group {
    /// The keys.
    pub keys: &'static [&'static str],
    /// Whether one of them is required.
    pub required: bool,
}

/// A key of a [`Shape`].
#[derive(Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Whether the key is required.
    pub required: bool,
    /// Default value, as written.
    pub default: Option<&'static str>,
    /// Behaviour without the key, if that is not a value of the key.
    pub absent: Option<&'static str>,
    /// Meaning of the key.
    pub doc: &'static str,
    /// Whether the value is never shown: it may contain credentials under any name.
    pub redacted: bool,
}

/// Type of a value.
#[derive(Debug)]
pub enum Kind {
    /// A string.
    Text,
    /// A string that is never shown.
    Secret,
    /// A string; numbers and booleans are accepted as written.
    Scalar,
    /// `true` or `false`.
    Bool,
    /// An integer in this range, including both ends.
    Integer(u64, u64),
    /// A string of a certain format.
    Format(Format),
    /// One of these strings.
    Enum(&'static [&'static str]),
    /// Any JSON value.
    Json,
    /// A list with at least one item.
    List(&'static Kind),
    /// A list, or a single item.
    OneOrMany(&'static Kind),
    /// A mapping from names to values.
    Table(Names, &'static Kind),
    /// A mapping with known keys.
    Object(&'static Shape),
    /// One of these types, distinguished by the written value.
    Either(&'static [Kind]),
}

/// Format of the names of a [`Kind::Table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Names of the configuration: letters, digits, `-`, `_`, `.`.
    Name,
    /// Header names.
    Header,
    /// Query parameters.
    Parameter,
}

impl Key {
    /// An optional key.
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, kind, required: false, default: None, absent: None, doc, redacted: false }
    }

    /// Makes the key required.
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Sets the default.
    pub const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// Sets the behaviour without the key, if that is not a value of the key.
    pub const fn absent(mut self, prose: &'static str) -> Self {
        self.absent = Some(prose);
        self
    }

    /// Never show the value.
    pub const fn redacted(mut self) -> Self {
        self.redacted = true;
        self
    }
}

impl Shape {
    /// A shape with keys only.
    pub const fn new(name: &'static str, doc: &'static str, keys: &'static [Key]) -> Self {
        Self {
            name,
            doc,
            keys,
            groups: &[],
            misspellings: &[],
            later: &[],
            main: None,
            short: None,
        }
    }

    /// The key of this name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|k| k.name == name)
    }
}

impl Shape {
    /// This shape and the shapes within, in the order of their first use.
    pub fn all(&'static self) -> Vec<&'static Self> {
        let mut shapes = Vec::new();
        self.collect(&mut shapes);
        shapes
    }

    fn collect(&'static self, shapes: &mut Vec<&'static Self>) {
        if !shapes.iter().any(|known| std::ptr::eq(*known, self)) {
            shapes.push(self);
            self.keys.iter().for_each(|key| key.kind.collect(shapes));
        }
    }
}

impl Names {
    /// Format of a name.
    pub fn format(self) -> Format {
        match self {
            Self::Name => format::NAME,
            Self::Header => format::EDITABLE_HEADER,
            Self::Parameter => format::PARAMETER,
        }
    }
}

impl Kind {
    fn collect(&'static self, shapes: &mut Vec<&'static Shape>) {
        match self {
            Self::Object(shape) => shape.collect(shapes),
            Self::List(kind) | Self::OneOrMany(kind) | Self::Table(_, kind) => kind.collect(shapes),
            Self::Either(kinds) => kinds.iter().for_each(|kind| kind.collect(shapes)),
            _ => {}
        }
    }

    /// The type, for messages and the reference: `a list of sizes`.
    pub fn describe(&self) -> String {
        match self {
            Self::Text | Self::Secret => "a string".to_owned(),
            Self::Scalar => "a string or a number".to_owned(),
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Integer(min, max) => match *max {
                u64::MAX => format!("an integer from {min}"),
                max => format!("an integer from {min} to {max}"),
            },
            Self::Format(format) => format.description.to_owned(),
            Self::Enum(words) => {
                words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(" or ")
            }
            Self::Json => "any JSON value".to_owned(),
            Self::List(kind) => format!("a list, each item {}", kind.describe()),
            Self::OneOrMany(kind) => format!("{}, or a list of these", kind.describe()),
            Self::Table(names, kind) => {
                let names = match names {
                    Names::Name => "names",
                    Names::Header => "header names",
                    Names::Parameter => "parameter names",
                };
                format!("a mapping from {names} to values, each {}", kind.describe())
            }
            Self::Object(shape) => format!("{} (a mapping)", shape.name),
            Self::Either(kinds) => {
                kinds.iter().map(Self::describe).collect::<Vec<_>>().join(", or ")
            }
        }
    }
}
