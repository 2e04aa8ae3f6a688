//! Static files of a route.

use std::path::PathBuf;
use weir_document::draft::{Member, Node};
use weir_document::settings;
use weir_document::shape::settings::texts_of;
use weir_document::shape::{Kind, Names, format};

settings! {
    /// Static files of a folder.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Files is "files" {
        /// The folder, relative to this file; or a single file, if the path has no `/*`.
        root = by_hand(Kind::Text).required(),
        /// Index files of a folder: the first that exists is served.
        pub index: Vec<String> = value(INDEX, index).default("index.html"),
        /// File of the folder to serve in place of a 404, for single-page applications.
        pub fallback: Option<String> = text(Kind::Format(format::FILE_BELOW)),
        /// Serve `FILE.br`, `FILE.zst` and `FILE.gz` in place of FILE to clients that accept the
        /// coding.
        pub precompressed: bool = boolean().default("true"),
        /// Also serve hidden files: names of files or folders that begin with a dot.
        pub dot_files: bool = boolean().default("false"),
        /// Cache-Control header of the responses.
        pub cache_control: Option<String> = text(Kind::Format(format::HEADER_VALUE)),
        /// Content types by file extension, in addition to the built-in ones; they take precedence.
        // Extensions in lower case.
        pub types: Vec<(String, String)> = value(TYPES, types),
        /// Maximum memory of the file cache (contents and compressed forms), for all workers.
        pub memory: u64 = size().default("32MiB"),
    } given {
        /// The folder, absolute.
        pub root: PathBuf,
        /// The only file to serve, whatever the path; otherwise the path matched by the wildcard.
        pub file: Option<String>,
    },
    misspellings: &[
        ("dir", "write `root`"),
        ("path", "write `root`"),
        ("folder", "write `root`"),
        ("gzip", "write `compress: true` beside `files`"),
        ("headers", "write `response: {headers: {set: …}}` beside `files`"),
        ("try_files", "write `fallback: index.html`"),
    ],
}

const INDEX: Kind =
    Kind::Either(&[Kind::Enum(&["none"]), Kind::OneOrMany(&Kind::Format(format::FILE_BELOW))]);

/// `none` means no file.
fn index(node: &Node) -> Option<Vec<String>> {
    if node.text() == Some("none") { Some(Vec::new()) } else { texts_of(node) }
}

const TYPES: Kind = Kind::Table(Names::Name, &Kind::Format(format::HEADER_VALUE));

fn types(node: &Node) -> Option<Vec<(String, String)>> {
    let members = node.members()?.iter();
    let pair = |m: &Member| Some((m.key.to_ascii_lowercase(), m.value.text()?.to_owned()));
    Some(members.filter_map(pair).collect())
}
