//! Module and Include Controllers: the controllers that they refer to become their children.

use super::tree::{self, Element, Property};
use super::{MAX_FILE_BYTES, Problem};
use crate::bounded_file;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// Deepest nesting of modules and included files.
const MAX_DEPTH: usize = 32;
/// Largest number of elements of a plan with its modules and included files.
const MAX_ELEMENTS: usize = 200_000;
/// Bytes of all included files.
const MAX_INCLUDED_BYTES: usize = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// A plan without references.
pub(super) struct Expanded {
    pub(super) roots: Vec<Element>,
    /// Included files; [`Element::file`] 1 is the first one.
    pub(super) files: Vec<String>,
    pub(super) problems: Vec<Problem>,
}

/// Replaces the children of Module and Include Controllers. Included files are beside the plan, or
/// at a path that starts with `prefix`.
pub(super) fn expand(roots: &[Element], folder: &Path, prefix: &str) -> Expanded {
    let mut expander = Expander {
        roots,
        folder,
        prefix,
        files: Vec::new(),
        parsed: HashMap::new(),
        bytes: 0,
        problems: Vec::new(),
        elements: 0,
    };
    let expanded = expander.all(roots, 0);
    Expanded { roots: expanded, files: expander.files, problems: expander.problems }
}

struct Expander<'r> {
    roots: &'r [Element],
    folder: &'r Path,
    prefix: &'r str,
    files: Vec<String>,
    /// Parsed files by name: each is read once.
    parsed: HashMap<String, Result<Rc<Vec<Element>>, String>>,
    /// Bytes of the files up to now.
    bytes: usize,
    problems: Vec<Problem>,
    elements: usize,
}

impl Expander<'_> {
    fn all(&mut self, elements: &[Element], depth: usize) -> Vec<Element> {
        elements.iter().map(|element| self.element(element, depth)).collect()
    }

    fn element(&mut self, element: &Element, depth: usize) -> Element {
        self.elements += 1;
        let mut expanded = element.clone_alone();
        if self.elements > MAX_ELEMENTS {
            if self.elements == MAX_ELEMENTS + 1 {
                let message = format!("the plan has more than {MAX_ELEMENTS} elements");
                self.problem(element, message);
            }
            return expanded;
        }
        let is_module = element.class == "ModuleController";
        expanded.children = match element.enabled {
            true if depth >= MAX_DEPTH && (is_module || element.class == "IncludeController") => {
                let message = format!("controllers refer to each other more than {MAX_DEPTH} deep");
                self.problem(element, message);
                Vec::new()
            }
            true if is_module => self.module(element, depth),
            true if element.class == "IncludeController" => self.include(element, depth),
            _ => self.all(&element.children, depth),
        };
        expanded
    }

    fn problem(&mut self, element: &Element, message: String) {
        let mut problem = Problem::new(element.line, message);
        problem.element = place(&self.files, element);
        self.problems.push(problem);
    }

    fn module(&mut self, element: &Element, depth: usize) -> Vec<Element> {
        let path = element.properties.items("ModuleController.node_path");
        let path: Vec<&str> = path.iter().filter_map(Property::text).collect();
        // The first name is the one of JMeter's root.
        let mut found = None;
        if let Some(path) = path.get(1..) {
            find(self.roots, path, &mut found);
        }
        let Some(target) = found else {
            let path = path.get(1..).unwrap_or_default().join(" / ");
            self.problem(element, format!("the plan has no controller `{path}`"));
            return Vec::new();
        };
        let mut target = self.element(target, depth + 1);
        target.enabled = true;
        vec![target]
    }

    fn include(&mut self, element: &Element, depth: usize) -> Vec<Element> {
        let name = element.text("IncludeController.includepath");
        if name.is_empty() {
            return Vec::new();
        }
        let name = format!("{}{name}", self.prefix);
        let read = match self.parsed.get(&name) {
            Some(known) => known.clone(),
            None => {
                let read = self.read(&name).map(Rc::new);
                self.parsed.insert(name.clone(), read.clone());
                read
            }
        };
        let roots = match read {
            Ok(roots) => roots,
            Err(message) => {
                self.problem(element, message);
                return Vec::new();
            }
        };
        let plans = roots.iter().filter(|root| root.class == "TestPlan");
        let mut below = plans.flat_map(|plan| &plan.children);
        let Some(fragment) = below.find(|child| child.class == "TestFragmentController") else {
            self.problem(element, format!("`{name}` has no Test Fragment"));
            return Vec::new();
        };
        self.all(&fragment.children, depth + 1)
    }

    /// Reads an included file.
    fn read(&mut self, name: &str) -> Result<Vec<Element>, String> {
        let text = bounded_file::read_text(&self.folder.join(name.trim()), MAX_FILE_BYTES)
            .map_err(|error| error.to_string())?;
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > MAX_INCLUDED_BYTES {
            let mebibytes = MAX_INCLUDED_BYTES >> 20;
            return Err(format!("`{name}`: the included files have more than {mebibytes} MiB"));
        }
        let mut roots = tree::read(&text).map_err(|problem| format!("`{name}`: {problem}"))?;
        self.files.push(name.to_owned());
        let file = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        roots.iter_mut().for_each(|root| root.set_file(file));
        Ok(roots)
    }
}

/// An element in a message, with its file if that is an included one.
pub(super) fn place(files: &[String], element: &Element) -> String {
    match element.file.checked_sub(1).and_then(|at| files.get(at as usize)) {
        Some(file) => format!("in `{file}`: {} `{}`", element.tag, element.name),
        None => format!("{} `{}`", element.tag, element.name),
    }
}

/// The last element of this path. Module Controllers are not searched.
fn find<'e>(elements: &'e [Element], path: &[&str], found: &mut Option<&'e Element>) {
    let Some((name, rest)) = path.split_first() else { return };
    let is_named = |e: &&Element| e.class != "ModuleController" && e.name == *name;
    for element in elements.iter().filter(is_named) {
        if rest.is_empty() {
            *found = Some(element);
        }
        find(&element.children, rest, found);
    }
}
