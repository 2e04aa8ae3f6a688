//! Keys of path normalization.

use crate::shape::{Key, Kind, Shape};

/// `path_normalization` of an API or a route.
pub(super) const NORMALIZATION_KEY: Key = Key::new(
    "path_normalization",
    Kind::Object(&NORMALIZATION),
    "What is done with paths that servers read in more than one way.",
)
.default("ambiguous paths are rejected");

const CHOICE: Kind = Kind::Word(&["reject", "keep"]);

/// `path_normalization` written out.
pub(crate) static NORMALIZATION: Shape = Shape {
    slips: &[
        ("merge_slashes", "write `empty_segments: keep` to forward `//` as it is"),
        ("escaped_slash", "write `escaped_slashes`"),
        ("matrix_parameters", "write `path_parameters`"),
    ],
    ..Shape::new(
        "path normalization",
        "Paths that servers read in more than one way are rejected with 400: a route that demands no credential could else lead to what another one protects. `keep` forwards such a path as it is, unless another reading of it leads to a route that demands more. Dot segments in an ambiguous path (`/..;/`, `/..%2f`) are always rejected.",
        &[
            Key::new("escaped_slashes", CHOICE, "`%2F` inside a segment, as in `/projects/group%2Fname`.")
                .default("reject"),
            Key::new("backslashes", CHOICE, "`\\` and `%5C`.").default("reject"),
            Key::new("empty_segments", CHOICE, "`//`.").default("reject"),
            Key::new(
                "path_parameters",
                Kind::Word(&["reject", "compare", "keep"]),
                "`;name=value` behind a segment, which servlet containers cut off. `compare` accepts them where the path without them leads to a route that demands no more; with `keep` it may also lead to no route.",
            )
            .default("compare"),
        ],
    )
};
