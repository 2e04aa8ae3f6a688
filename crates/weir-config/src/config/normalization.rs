//! Ambiguous paths, which servers interpret in more than one way: plain data.

/// Handling of ambiguous paths in a route.
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

/// Handling of one kind of ambiguity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmbiguousPath {
    /// The request is rejected.
    Reject,
    /// The path is forwarded unchanged if every other reading leads to a route that does not
    /// require more.
    Compare,
    /// The path is forwarded unchanged if no other reading leads to a route that requires more; a
    /// reading may also lead to no route.
    Keep,
}

impl PathNormalization {
    /// Names of the kinds that are kept, as in the configuration.
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
