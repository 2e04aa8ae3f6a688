//! Loading a script and the modules that it imports.

use crate::program::{LoadError, Program, Settings};
use crate::text::Module;

/// Most modules of a program.
const MAX_MODULES: usize = 64;

impl Program {
    /// Loads a script with its imports.
    ///
    /// `read` returns the text of a module. Names are paths: that of `entry`, and relative to it
    /// those of imports.
    ///
    /// # Errors
    /// A module cannot be read or rewritten, imports are circular, or the script exports nothing
    /// that is called.
    pub fn load(
        entry: &str,
        settings: Settings,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, LoadError> {
        let mut loading = Loader { read, modules: Vec::new(), open: Vec::new() };
        loading.module(entry, &|message| LoadError::new(entry, 0, message))?;
        let modules = loading.modules;
        check_imports(&modules)?;
        let mut exports = all_exports(&modules, 0);
        exports.sort();
        exports.dedup();
        exports.retain(|name| name == "default" || is_method(name));
        if exports.is_empty() {
            let message = "it has neither a default export nor one named as a method (`GET`, …)";
            return Err(LoadError::new(entry, 0, message));
        }
        let modules: Vec<(String, String)> = modules
            .into_iter()
            .map(|loaded| (loaded.name, loaded.module.factory(&loaded.numbers)))
            .collect();
        let reads_principal = modules.iter().any(|(_, text)| text.contains("principal"));
        Ok(Self { modules, exports, reads_principal, settings })
    }
}

fn is_method(name: &str) -> bool {
    matches!(name, "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS")
}

struct Loaded {
    name: String,
    module: Module,
    /// Index of the module of each import.
    numbers: Vec<usize>,
}

/// The exports of a module, including those of other modules that it exports again.
fn all_exports(modules: &[Loaded], at: usize) -> Vec<String> {
    let Loaded { module, numbers, .. } = &modules[at];
    let own = module.exports.iter().map(|(name, _)| name.clone());
    let again = module.exports_again().flat_map(|import| all_exports(modules, numbers[import]));
    own.chain(again.filter(|name| name != "default")).collect()
}

/// Checks that every imported name is exported.
fn check_imports(modules: &[Loaded]) -> Result<(), LoadError> {
    for Loaded { name, module, numbers } in modules {
        for (at, number) in numbers.iter().enumerate() {
            let theirs = all_exports(modules, *number);
            if let Some(missing) = module.picked(at).find(|name| !theirs.iter().any(|t| t == name))
            {
                let import = &module.imports[at];
                let message = format!("`{}` exports no `{missing}`", import.specifier);
                return Err(LoadError::new(name, import.line, message));
            }
        }
    }
    Ok(())
}

struct Loader<'r> {
    read: &'r mut dyn FnMut(&str) -> Result<String, String>,
    modules: Vec<Loaded>,
    /// Modules whose imports are being loaded.
    open: Vec<usize>,
}

impl Loader<'_> {
    /// Loads a module unless it is loaded; `fault` is the error where its name is written.
    fn module(
        &mut self,
        name: &str,
        fault: &dyn Fn(String) -> LoadError,
    ) -> Result<usize, LoadError> {
        if let Some(at) = self.modules.iter().position(|loaded| loaded.name == name) {
            if self.open.contains(&at) {
                return Err(fault("imports go in a circle".to_owned()));
            }
            return Ok(at);
        }
        if self.modules.len() == MAX_MODULES {
            return Err(fault(format!("a script has at most {MAX_MODULES} modules")));
        }
        let text = (self.read)(name).map_err(fault)?;
        let module = Module::parse(&text)
            .map_err(|malformed| LoadError::new(name, malformed.line, malformed.message))?;
        let imports: Vec<_> =
            module.imports.iter().map(|import| (import.specifier.clone(), import.line)).collect();
        let at = self.modules.len();
        self.modules.push(Loaded { name: name.to_owned(), module, numbers: Vec::new() });
        self.open.push(at);
        for (specifier, line) in imports {
            let fault = |why: String| {
                LoadError::new(name, line, format!("cannot import `{specifier}`: {why}"))
            };
            let path = resolve(name, &specifier).map_err(fault)?;
            let number = self.module(&path, &fault)?;
            self.modules[at].numbers.push(number);
        }
        self.open.pop();
        Ok(at)
    }
}

/// The path of an imported module, relative to the importing module.
fn resolve(from: &str, specifier: &str) -> Result<String, String> {
    if !specifier.starts_with("./") && !specifier.starts_with("../") {
        return Err("only files are imported, by paths that begin with `./` or `../`".to_owned());
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let absolute = from.starts_with('/');
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in specifier.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                _ if absolute => {}
                _ => parts.push(".."),
            },
            part => parts.push(part),
        }
    }
    Ok(format!("{}{}", if absolute { "/" } else { "" }, parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn settings() -> Settings {
        let cpu = Duration::from_secs(1);
        Settings { shared: false, config: "null".to_owned(), cpu, indent: 0 }
    }

    fn load(files: &[(&str, &str)]) -> Result<Program, LoadError> {
        let mut read = |name: &str| {
            let found = files.iter().find(|(file, _)| *file == name);
            found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "there is no such file".into())
        };
        Program::load(files[0].0, settings(), &mut read)
    }

    #[test]
    fn imports_follow_the_folder_of_who_imports() {
        for (from, specifier, path) in [
            ("s/a.js", "./b.js", "s/b.js"),
            ("s/a.js", "../b.js", "b.js"),
            ("a.js", "./x/../b.js", "b.js"),
            ("a.js", "../b.js", "../b.js"),
            ("/etc/a.js", "../../../b.js", "/b.js"),
        ] {
            assert_eq!(resolve(from, specifier).unwrap(), path);
        }
        resolve("a.js", "lodash").unwrap_err();
    }

    #[test]
    fn a_program_knows_what_answers_a_method() {
        let program = load(&[("a.js", "export const GET = () => 1; export function PUT() {}")]);
        let program = program.unwrap();
        assert_eq!(program.exports, ["GET", "PUT"]);
        assert_eq!(program.export_for("HEAD"), Some(0));
        assert_eq!(program.export_for("PUT"), Some(1));
        assert_eq!(program.export_for("POST"), None);
        let again = [("a.js", "export * from './b.js'"), ("b.js", "export const GET = () => 1")];
        assert_eq!(load(&again).unwrap().exports, ["GET"]);
    }
}
