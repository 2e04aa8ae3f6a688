//! The files of a plan: collected by the controller, unpacked by an agent into a temporary folder.

use super::message::{Plan, PlanFile, Source};
use super::{AgentError, MAX_PLAN_BYTES, MAX_PLAN_FILES};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// A scenario or plan with the files that it reads.
#[derive(Debug)]
pub struct Bundle {
    main: String,
    files: Vec<PlanFile>,
}

impl Bundle {
    /// The scenario or plan `main` and the files that were read for it.
    ///
    /// # Errors
    /// A file is outside of the folder of `main` or cannot be read, or the files are too large.
    pub fn collect(main: &Path, read: &BTreeSet<PathBuf>) -> Result<Self, AgentError> {
        let folder = main.parent().unwrap_or(Path::new(""));
        let mut bundle = Self { main: relative(folder, main)?, files: Vec::new() };
        let mut left = MAX_PLAN_BYTES;
        let all: BTreeSet<&Path> = read.iter().map(PathBuf::as_path).chain([main]).collect();
        if all.len() > MAX_PLAN_FILES {
            return Err(AgentError::Plan(format!("a plan has at most {MAX_PLAN_FILES} files")));
        }
        for path in all {
            let name = relative(folder, path)?;
            let bytes = crate::bounded_file::read(path, MAX_PLAN_BYTES)
                .map_err(|error| AgentError::Plan(error.to_string()))?;
            left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
                let mebibytes = MAX_PLAN_BYTES >> 20;
                AgentError::Plan(format!("the files for agents are larger than {mebibytes} MiB"))
            })?;
            bundle.files.push(PlanFile { path: name, content: STANDARD.encode(bytes) });
        }
        Ok(bundle)
    }

    pub(super) fn plan(self, source: Source) -> Plan {
        Plan { source, main: self.main, files: self.files }
    }
}

/// The path relative to the folder.
fn relative(folder: &Path, path: &Path) -> Result<String, AgentError> {
    let relative = path.strip_prefix(folder).ok().filter(|path| is_inside(path));
    relative.and_then(Path::to_str).map(str::to_owned).ok_or_else(|| {
        let path = path.display();
        AgentError::Plan(format!(
            "`{path}` is not in the folder of the scenario or plan: agents get only files of this folder"
        ))
    })
}

/// Whether a relative path stays in its folder.
pub(super) fn is_inside(path: &Path) -> bool {
    path.components().next().is_some()
        && path.components().all(|part| matches!(part, Component::Normal(_)))
}

impl Plan {
    /// Writes the files into a folder. Returns the path of the scenario or plan.
    pub(super) fn unpack(&self, folder: &Path) -> Result<PathBuf, String> {
        if self.files.len() > MAX_PLAN_FILES {
            return Err(format!("a plan has at most {MAX_PLAN_FILES} files"));
        }
        for file in &self.files {
            let path = Path::new(&file.path);
            if !is_inside(path) {
                return Err(format!("{:?} is not a path of a plan", file.path));
            }
            let bytes = STANDARD.decode(&file.content).map_err(|error| error.to_string())?;
            let path = folder.join(path);
            let wrong = |error: std::io::Error| format!("{}: {error}", file.path);
            std::fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(wrong)?;
            std::fs::write(&path, bytes).map_err(wrong)?;
        }
        match is_inside(Path::new(&self.main)) {
            true => Ok(folder.join(&self.main)),
            false => Err(format!("{:?} is not a path of a plan", self.main)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jmx::KeystoreProperties;

    fn jmeter() -> Source {
        Source::Jmeter {
            properties: Vec::new(),
            keystore: KeystoreProperties::default(),
            lenient: false,
        }
    }

    #[test]
    fn files_arrive_as_they_are() {
        let (from, to) = (tempfile::tempdir().expect("a"), tempfile::tempdir().expect("b"));
        std::fs::create_dir(from.path().join("data")).expect("created");
        let (main, data) = (from.path().join("plan.jmx"), from.path().join("data/rows.csv"));
        std::fs::write(&main, "<plan/>").expect("written");
        std::fs::write(&data, [0, 159, 255]).expect("written");
        let bundle = Bundle::collect(&main, &[data.clone()].into()).expect("inside");
        let plan = bundle.plan(jmeter());
        assert_eq!(plan.unpack(to.path()).expect("written"), to.path().join("plan.jmx"));
        assert_eq!(std::fs::read(to.path().join("data/rows.csv")).expect("there"), [0, 159, 255]);
        let outside = Bundle::collect(&data, &[main].into()).expect_err("outside").to_string();
        assert!(outside.contains("plan.jmx"), "{outside}");
    }

    #[test]
    fn nothing_is_written_outside_of_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in ["/tmp/x", "../x", "a/../../x", "", ".", "./x"] {
            let file = PlanFile { path: path.to_owned(), content: String::new() };
            let plan = Plan { source: jmeter(), main: "m".to_owned(), files: vec![file] };
            assert!(plan.unpack(folder.path()).is_err(), "{path}");
        }
    }
}
