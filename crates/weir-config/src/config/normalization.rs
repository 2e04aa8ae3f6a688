//! Ambiguous paths, which servers interpret in more than one way: plain data.

use strum::{EnumString, VariantNames};
use weir_document::settings;
use weir_document::shape::Kind;

settings! {
    /// Ambiguous paths are rejected with 400: a route without authentication could otherwise expose
    /// paths of a protected route. `keep` forwards such a path unchanged, unless another reading
    /// leads to a route that requires more. Dot segments in an ambiguous path (`/..;/`, `/..%2f`)
    /// are always rejected.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PathNormalization is "path normalization" {
        /// `%2F` inside a segment, as in `/projects/group%2Fname`.
        pub escaped_slashes: AmbiguousPath = value(REJECT_OR_KEEP, choice_of).default("reject"),
        /// `\` and `%5C`.
        pub backslashes: AmbiguousPath = value(REJECT_OR_KEEP, choice_of).default("reject"),
        /// `//`.
        pub empty_segments: AmbiguousPath = value(REJECT_OR_KEEP, choice_of).default("reject"),
        /// `;name=value` after a segment, which servlet containers remove. `compare` accepts such
        /// paths if the path without them leads to a route that does not require more; with `keep`
        /// it may also lead to no route.
        pub path_parameters: AmbiguousPath = choice().default("compare"),
    },
    misspellings: &[
        ("merge_slashes", "write `empty_segments: keep` to forward `//` as it is"),
        ("escaped_slash", "write `escaped_slashes`"),
        ("matrix_parameters", "write `path_parameters`"),
    ],
}

const REJECT_OR_KEEP: Kind = Kind::Enum(&["reject", "keep"]);

/// Handling of one kind of ambiguity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
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
