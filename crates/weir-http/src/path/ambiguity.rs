//! Paths that servers interpret in more than one way, and the other interpretations.
//!
//! RFC 3986 defines paths; servers deviate. They decode escaped slashes before they split a path
//! into segments, treat a backslash as a slash, merge empty segments, and drop everything after a
//! semicolon. Each interpretation may match a resource that another route protects.

/// A cause of an ambiguity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `%2F`.
    EscapedSlash,
    /// `\` or `%5C`.
    Backslash,
    /// `//`.
    EmptySegment,
    /// `;` or `%3B`.
    PathParameter,
}

impl Kind {
    const ALL: [Self; 4] =
        [Self::EscapedSlash, Self::Backslash, Self::EmptySegment, Self::PathParameter];

    /// The description, with its article.
    pub fn words(self) -> &'static str {
        match self {
            Self::EscapedSlash => "an escaped slash (%2F)",
            Self::Backslash => "a backslash",
            Self::EmptySegment => "an empty segment (//)",
            Self::PathParameter => "a path parameter (;)",
        }
    }

    fn is_in(self, path: &str) -> bool {
        match self {
            Self::EscapedSlash => path.contains("%2F"),
            Self::Backslash => path.contains('\\') || path.contains("%5C"),
            Self::EmptySegment => path.contains("//"),
            Self::PathParameter => path.contains(';') || path.contains("%3B"),
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// All ambiguities of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ambiguity(u8);

impl Ambiguity {
    /// Finds the ambiguities of a path whose escapes have upper-case digits.
    pub fn of(path: &str) -> Self {
        Self(Kind::ALL.iter().filter(|kind| kind.is_in(path)).map(|kind| kind.bit()).sum())
    }

    /// Whether the path is unambiguous.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds of ambiguity.
    pub fn kinds(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.0 & kind.bit() != 0)
    }

    /// The other interpretations of an ambiguous path: at most 16.
    pub fn readings(self, path: &str) -> impl Iterator<Item = Reading> + '_ {
        let readable = self.0 & !Kind::EmptySegment.bit();
        (0..=readable).filter(move |chosen| chosen & !readable == 0).flat_map(move |chosen| {
            let text = read(path, Self(chosen));
            let merged = text.contains("//").then(|| merge(&text));
            let only_parameters = chosen & !Kind::PathParameter.bit() == 0 && chosen != 0;
            [Some(text), merged]
                .into_iter()
                .flatten()
                .filter(move |text| text != path)
                .map(move |path| Reading { path, only_parameters })
        })
    }
}

/// An interpretation of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The interpreted path.
    pub path: String,
    /// Only path parameters were removed, and empty segments merged.
    pub only_parameters: bool,
}

/// Whether a segment of any interpretation is `.` or `..`.
pub(super) fn has_dot_segments(path: &str) -> bool {
    let all = Ambiguity(Kind::ALL.iter().map(|kind| kind.bit()).sum());
    read(path, all).split('/').any(|segment| matches!(segment, "." | ".."))
}

fn read(path: &str, chosen: Ambiguity) -> String {
    let mut text = path.to_owned();
    for kind in chosen.kinds() {
        text = match kind {
            Kind::EscapedSlash => text.replace("%2F", "/"),
            Kind::Backslash => text.replace("%5C", "/").replace('\\', "/"),
            Kind::PathParameter => without_parameters(&text),
            Kind::EmptySegment => text,
        };
    }
    text
}

fn without_parameters(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            out.push('/');
        }
        let end = [segment.find(';'), segment.find("%3B")].into_iter().flatten().min();
        out.push_str(&segment[..end.unwrap_or(segment.len())]);
    }
    out
}

fn merge(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !out.ends_with('/') {
            out.push(c);
        }
    }
    out
}
