//! Keys of the handler that serves files.

use crate::shape::{Form, Key, Kind, Names, Shape};

const KIND: Kind = Kind::Either(&[Kind::Text, Kind::Object(&FILES)]);

/// `files` of a route.
pub(super) const FILES_KEY: Key = Key::new(
    "files",
    KIND,
    "Files of a folder answer GET and HEAD, below a path that ends in `/*`; a text alone is short for `{root: TEXT}`.",
);

/// `files` written out.
pub(crate) static FILES: Shape = Shape {
    slips: &[
        ("dir", "write `root`"),
        ("path", "write `root`"),
        ("folder", "write `root`"),
        ("gzip", "write `compress: true` beside `files`"),
        ("headers", "write `response: {headers: {set: …}}` beside `files`"),
        ("try_files", "write `fallback: index.html`"),
    ],
    ..Shape::new(
        "files",
        "Files of a folder.",
        &[
            Key::new(
                "root",
                Kind::Text,
                "The folder, as seen from that of this file; or a single file, where the path has no `/*`.",
            )
            .required(),
            Key::new(
                "index",
                Kind::Either(&[Kind::Word(&["none"]), Kind::OneOrMany(&Kind::Form(Form::FileBelow))]),
                "What answers for a folder: the first of these that is there.",
            )
            .default("index.html"),
            Key::new(
                "fallback",
                Kind::Form(Form::FileBelow),
                "File of the folder that answers where nothing is found, for applications that find their way by the path.",
            ),
            Key::new(
                "precompressed",
                Kind::Bool,
                "`FILE.br`, `FILE.zst` and `FILE.gz` answer for FILE where the client accepts them.",
            )
            .default("true"),
            Key::new(
                "dot_files",
                Kind::Bool,
                "Also files whose name, or that of a folder on the way, begins with a dot.",
            )
            .default("false"),
            Key::new("cache_control", Kind::Form(Form::HeaderValue), "The Cache-Control header."),
            Key::new(
                "types",
                Kind::Table(Names::Name, &Kind::Form(Form::HeaderValue)),
                "Content types by extension, before those that weir knows.",
            ),
            Key::new(
                "memory",
                Kind::Form(Form::Size),
                "Memory for contents and compressed forms that are kept, all workers together.",
            )
            .default("32MiB"),
        ],
    )
};
