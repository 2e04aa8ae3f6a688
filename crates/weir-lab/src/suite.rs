//! Suites: published tests as scenarios, with the configurations of their examples.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A suite.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// Description in one sentence.
    pub about: &'static str,
    /// Approximate duration: quick, usual, full.
    pub lengths: [&'static str; 3],
    /// Its scenario.
    pub scenario: &'static str,
    /// Files in its folder.
    files: &'static [(&'static str, &'static [u8])],
}

/// A file of an example.
macro_rules! example {
    ($name:literal, $path:literal) => {
        ($name, include_bytes!(concat!("../../../examples/", $path)) as &[u8])
    };
}

impl Suite {
    /// All suites.
    pub const ALL: [Self; 5] = [
        Self {
            name: "toro",
            about: "TORO Integrate: cost of recording and metering for a response of 52 bytes",
            lengths: ["1 min", "8 min", "10 min"],
            scenario: include_str!("../suites/toro.yaml"),
            files: MARTINI,
        },
        Self {
            name: "martini",
            about: "Martini: the same with a response of 54 bytes",
            lengths: ["1 min", "8 min", "10 min"],
            scenario: include_str!("../suites/martini.yaml"),
            files: MARTINI,
        },
        Self {
            name: "mware",
            about: "MWARE ESB: passthrough and mediation behind JWT and TLS",
            lengths: ["1 min", "10 min", "8 h"],
            scenario: include_str!("../suites/mware.yaml"),
            files: &[example!("weir.yaml", "mware/weir.yaml")],
        },
        Self {
            name: "linx",
            about: "Linx RESTHost: four endpoints, sequentially, in parallel, and their maximum load",
            lengths: ["1 min", "7 min", "20 min"],
            scenario: include_str!("../suites/linx.yaml"),
            files: &[
                example!("weir.yaml", "linx/weir.yaml"),
                example!("order.js", "linx/order.js"),
            ],
        },
        Self {
            name: "openedge",
            about: "OpenEdge: simultaneous users for a file, agents behind a broker, CGI and a script",
            lengths: ["1 min", "11 min", "40 min"],
            scenario: include_str!("../suites/openedge.yaml"),
            files: &[
                example!("weir.yaml", "openedge/weir.yaml"),
                example!("public/grid.json", "openedge/public/grid.json"),
                example!("benchmark.php", "openedge/benchmark.php"),
                example!("benchmark.js", "openedge/benchmark.js"),
            ],
        },
    ];

    /// The suite of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.name == name)
    }

    /// Writes scenario and files into a folder. Returns the path of the scenario.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn unpack(&self, folder: &Path) -> io::Result<PathBuf> {
        for (name, content) in self.files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::write(path, content)?;
        }
        let path = folder.join(format!("{}.yaml", self.name));
        fs::write(&path, self.scenario)?;
        Ok(path)
    }
}

/// Files of both suites of this example.
const MARTINI: &[(&str, &[u8])] =
    &[example!("weir.yaml", "martini/weir.yaml"), example!("sayHello.js", "martini/sayHello.js")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Level, Overrides, load};

    /// Cells of a suite at each level, by name.
    fn cells(suite: Suite, over: &Overrides) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = suite.unpack(folder.path()).unwrap();
        match load(&file, over) {
            Ok((scenario, findings)) => {
                assert!(findings.list.is_empty(), "{}", findings.render(false));
                scenario.cells.iter().map(crate::scenario::Cell::name).collect()
            }
            Err(findings) => panic!("{}: {}", suite.name, findings.render(false)),
        }
    }

    #[test]
    fn every_suite_can_be_read_at_every_level_and_for_another_target() {
        let few_tokens = vec![("feeders.tokens.jwt.count".to_owned(), "1".to_owned())];
        for (suite, counts) in
            Suite::ALL.into_iter().zip([[4, 4, 4], [4, 4, 4], [4, 8, 32], [3, 3, 8], [6, 31, 96]])
        {
            let sets = if suite.name == "mware" { few_tokens.clone() } else { Vec::new() };
            for (level, count) in [Level::Quick, Level::Usual, Level::Full].into_iter().zip(counts)
            {
                let over = Overrides { level, sets: sets.clone(), target: None };
                let found = cells(suite, &over);
                assert_eq!(found.len(), count, "{} {level:?}: {found:?}", suite.name);
            }
            let target = Some("http://127.0.0.1:1".to_owned());
            let over = Overrides { level: Level::Quick, sets, target };
            assert!(!cells(suite, &over).is_empty(), "{}", suite.name);
        }
    }

    #[test]
    fn names_of_suites_are_stable() {
        assert_eq!(Suite::named("linx").map(|suite| suite.name), Some("linx"));
        assert!(Suite::named("nobody").is_none());
    }
}
