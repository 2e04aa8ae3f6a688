//! The draft: the configuration as written, with the location of every node.

mod descriptions;
mod glob;
mod node;
mod overlay;
mod overrides;
mod reader;
mod substitute;
mod yaml;

pub use descriptions::Described;
pub use node::{Data, Meaning, Member, Node, Scalar};
pub use overlay::VersionFolder;
pub use overrides::put;
pub(crate) use reader::Reader;
pub use reader::{Surroundings, canonical, file_text, read};

use crate::finding::{Diagnostics, codes};
use crate::source_map::{SourceMap, Span};
use std::collections::HashMap;
use std::path::PathBuf;

/// Tables that included files contribute to.
pub const TABLES: [&str; 6] = ["upstreams", "pools", "auth", "plans", "consumers", "apis"];

/// The files of a configuration.
#[derive(Debug)]
pub struct Draft {
    /// The main file.
    pub root: Node,
    /// The included files, directly or not, in the order of reading.
    pub included: Vec<Node>,
    /// The OpenAPI documents of APIs, and the documents that they refer to.
    pub described: Vec<Described>,
    /// The texts of the files.
    pub texts: SourceMap,
    /// Every file that was read or tested for existence.
    pub files: Vec<PathBuf>,
    /// Whether reading other files is forbidden.
    pub sealed: bool,
}

impl Draft {
    /// The members of a table, from all files.
    pub fn table(&self, name: &str) -> Vec<&Member> {
        std::iter::once(&self.root)
            .chain(&self.included)
            .filter_map(|node| node.get(name)?.members())
            .flatten()
            .collect()
    }

    /// Names that two files define. The parser reports duplicates within a file.
    pub(crate) fn check_names(&self, report: &mut Diagnostics) {
        for table in TABLES {
            let mut first: HashMap<&str, Span> = HashMap::new();
            for member in self.table(table) {
                let at = *first.entry(&member.key).or_insert(member.at);
                if at != member.at {
                    let message = format!("`{}` is defined twice in `{table}`", member.key);
                    report
                        .error(codes::DUPLICATE_NAME, member.at, message)
                        .related(at, "first here");
                }
            }
        }
    }
}
