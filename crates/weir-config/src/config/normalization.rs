//! Paths that servers read in more than one way: plain data.

/// What a route does with paths that servers read in more than one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathNormalization {
    /// `%2F` inside a segment.
    pub escaped_slashes: AmbiguousPath,
    /// `\` and `%5C`.
    pub backslashes: AmbiguousPath,
    /// `//`.
    pub empty_segments: AmbiguousPath,
    /// `;name=value` at the end of a segment.
    pub path_parameters: AmbiguousPath,
}

/// What is done with one kind of ambiguity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmbiguousPath {
    /// The request is rejected.
    Reject,
    /// The path is forwarded as it is if every other reading of it leads to a route that demands
    /// no more.
    Compare,
    /// The path is forwarded as it is if no other reading of it leads to a route that demands
    /// more; a reading without any route does no harm.
    Keep,
}

impl PathNormalization {
    /// Names of the kinds that are kept, as the configuration has them.
    pub fn kept(&self) -> impl Iterator<Item = &'static str> {
        [
            ("escaped_slashes", self.escaped_slashes),
            ("backslashes", self.backslashes),
            ("empty_segments", self.empty_segments),
            ("path_parameters", self.path_parameters),
        ]
        .into_iter()
        .filter(|(_, what)| *what == AmbiguousPath::Keep)
        .map(|(name, _)| name)
    }
}
