//! The version of a fleet's configuration: sections that are added to those of the node's own file.

use super::TABLES;
use super::node::{Data, Node};
use super::reader::{Reader, canonical};
use crate::finding::codes;
use crate::source_map::SourceMap;
use std::path::{Path, PathBuf};

/// Finds the folder of the version in force, given the node's own file.
pub type VersionFolder<'a> = &'a dyn Fn(&Node, &SourceMap) -> Option<PathBuf>;

/// Sections that say where the version is: only the node's own file has them.
const OWN: [&str; 2] = ["fleet", "data"];

/// Whether the path of an override is of a section that only the own file has.
pub(super) fn is_own(path: &str) -> bool {
    OWN.contains(&path.split(['.', '[']).next().unwrap_or_default())
}

impl Reader<'_> {
    /// Adds the sections of the version in a folder. A section is in the own file or in the version.
    pub(super) fn overlay(&mut self, root: &mut Node, folder: &Path) {
        let own = self.texts.resolve(root.at.file, "");
        self.texts.set_version(folder.to_owned(), own);
        let Some(version) = self.main_file(folder) else { return };
        let first = self.included.len();
        let main = canonical(self.texts.path(version.at.file));
        self.include(&version, &mut vec![main]);
        self.check_sections(root, &version, first);
        let (Data::Map(own), Data::Map(added)) = (&mut root.data, version.data) else { return };
        for member in added {
            let is_format = member.key == "version" && own.iter().any(|one| one.key == "version");
            if !is_format && member.key != "include" {
                own.push(member);
            }
        }
    }

    /// Reports sections of the version that only the own file has, or has, too; the files that the version
    /// includes are those from `first` on.
    fn check_sections(&mut self, root: &Node, version: &Node, first: usize) {
        let (own, added) = self.included.split_at(first);
        let has = |key: &str| {
            let included = own.iter().filter(|_| TABLES.contains(&key));
            std::iter::once(root).chain(included).find_map(|node| {
                node.members()?.iter().find(|member| member.key == key).map(|member| member.at)
            })
        };
        let members = std::iter::once(version).chain(added).filter_map(Node::members).flatten();
        for member in members {
            let key = member.key.as_str();
            if OWN.contains(&key) {
                let message = format!("`{key}` belongs in the own file of each node");
                self.report.error(codes::CONFLICT, member.at, message);
            } else if let Some(at) = has(key).filter(|_| !matches!(key, "version" | "include")) {
                let message = format!("`{key}` is in the version and in the own file of the node");
                self.report
                    .error(codes::CONFLICT, member.at, message)
                    .help("a section is in one of them: remove it from the other")
                    .related(at, "in the own file");
            }
        }
    }
}
