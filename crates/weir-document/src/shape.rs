//! What describes a mapping of the configuration: its keys, what they take, their defaults, what
//! they mean.
//!
//! The check of a draft, the JSON Schema and the reference document walk such a description; the
//! resolution reads values by it.

pub mod format;
pub mod typed;

use format::Format;

/// A mapping with known keys.
#[derive(Debug)]
pub struct Shape {
    /// What it is, with its article: `a listener`.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
    /// Keys that exclude each other.
    pub groups: &'static [Group],
    /// Keys users try, and what to write instead.
    pub slips: &'static [(&'static str, &'static str)],
    /// Keys that later versions have.
    pub later: &'static [&'static str],
    /// Of a file that contributes to another: what the other one may have.
    pub main: Option<&'static Shape>,
    /// Key that a lone text was probably meant for.
    pub short: Option<&'static str>,
}

/// A set of keys of which only one may be there.
#[derive(Debug)]
pub struct Group {
    /// The keys.
    pub keys: &'static [&'static str],
    /// One must be there.
    pub required: bool,
}

/// A key of a [`Shape`].
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// It must be there.
    pub required: bool,
    /// Its value when it is not there, as written.
    pub default: Option<&'static str>,
    /// What holds when it is not there and is no value of this key.
    pub absent: Option<&'static str>,
    /// What it means.
    pub doc: &'static str,
    /// Nothing of its value is shown: there may be credentials in it, under any name.
    pub redacted: bool,
}

/// What a key takes.
#[derive(Debug)]
pub enum Kind {
    /// A text.
    Text,
    /// A text that is never shown.
    Secret,
    /// A text; numbers and booleans are taken as they are written.
    Scalar,
    /// `true` or `false`.
    Bool,
    /// A whole number in this range, both ends included.
    Integer(u64, u64),
    /// A text of a certain format.
    Format(Format),
    /// One of these texts.
    Enum(&'static [&'static str]),
    /// Any JSON value.
    Json,
    /// A list, which must not be empty.
    List(&'static Kind),
    /// A list, or one item of it.
    OneOrMany(&'static Kind),
    /// A mapping from names to values.
    Table(Names, &'static Kind),
    /// A mapping with known keys.
    Object(&'static Shape),
    /// One of these, told apart by what is written.
    Either(&'static [Kind]),
}

/// What the names of a [`Kind::Table`] are.
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
    /// A key that need not be there.
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, kind, required: false, default: None, absent: None, doc, redacted: false }
    }

    /// It must be there.
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Its value when it is not there.
    pub const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// What holds when it is not there and is no value of this key.
    pub const fn absent(mut self, prose: &'static str) -> Self {
        self.absent = Some(prose);
        self
    }

    /// Nothing of its value is shown.
    pub const fn redacted(mut self) -> Self {
        self.redacted = true;
        self
    }
}

impl Shape {
    /// A shape with nothing special.
    pub const fn new(name: &'static str, doc: &'static str, keys: &'static [Key]) -> Self {
        Self { name, doc, keys, groups: &[], slips: &[], later: &[], main: None, short: None }
    }

    /// The key of this name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|k| k.name == name)
    }
}

impl Shape {
    /// This shape and those within, in the order they are first mentioned.
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

    /// What it takes, for messages and the reference: `a list of sizes`.
    pub fn describe(&self) -> String {
        match self {
            Self::Text | Self::Secret => "a text".to_owned(),
            Self::Scalar => "a text or a number".to_owned(),
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Integer(min, max) => match *max {
                u64::MAX => format!("a whole number from {min}"),
                max => format!("a whole number from {min} to {max}"),
            },
            Self::Format(format) => format.description.to_owned(),
            Self::Enum(words) => {
                words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(" or ")
            }
            Self::Json => "any JSON value".to_owned(),
            Self::List(kind) => format!("a list, each item {}", kind.describe()),
            Self::OneOrMany(kind) => format!("{}, or a list of such", kind.describe()),
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
