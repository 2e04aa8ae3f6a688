//! Generates a configuration for an OpenAPI document: a route for every supported operation, and a
//! list of the others with reasons.

use super::operation::{Compiler, Modes, Operation, Unvalidated};
use super::{Description, ExampleSelection, Schemas, Scheme};
use crate::validation::{Enforcement, SchemaSource};
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use std::path::Path;
use weir_document::draft::{self, Described, Draft, Surroundings};
use weir_document::finding::{Diagnostics, Findings, Severity};

/// Handler of the generated routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportHandler {
    /// Mock responses.
    Mock,
    /// This upstream, or the first server of the document; mock responses if the server has no
    /// address.
    Upstream(Option<String>),
}

/// Result of an import.
#[derive(Debug)]
pub struct Imported {
    /// The configuration, in YAML.
    pub text: String,
    /// Number of operations with a route.
    pub bound: usize,
    /// Operations without a route: names and reasons.
    pub left_out: Vec<(String, String)>,
}

/// Compiles schemas of documents for their findings.
pub type CompileSchemas = fn(Vec<SchemaSource>, &[Described], &mut Diagnostics);

/// Generates a configuration for the document at `file`, which is also its name in the
/// configuration.
///
/// # Errors
/// The document cannot be read, or is not OpenAPI 3.0 or 3.1.
pub fn import_openapi(
    file: &Path,
    handler: &ImportHandler,
    compile: CompileSchemas,
) -> Result<Imported, Findings> {
    read_described(file, |draft, description, _| {
        written(draft, description, file, handler, compile)
    })
}

/// Reads the document at `file` with the documents that it refers to.
///
/// # Errors
/// The document cannot be read, or is not OpenAPI 3.0 or 3.1.
pub(super) fn read_described<T>(
    file: &Path,
    with: impl FnOnce(&Draft, Description<'_>, &mut Diagnostics) -> Option<T>,
) -> Result<T, Findings> {
    let mut report = Diagnostics::default();
    let named = quoted(&file.display().to_string());
    let text = format!("apis: {{imported: {{openapi: {named}}}}}\n");
    let read = draft::read(
        Path::new("import"),
        Some(&text),
        &[],
        Surroundings::Process,
        &|_, _| None,
        &mut report,
    );
    let result = match &read {
        Ok(draft) if !report.has_errors() => described(draft, file, &mut report)
            .and_then(|description| with(draft, description, &mut report)),
        _ => None,
    };
    let (texts, files) = match read {
        Ok(draft) => (draft.texts, draft.files),
        Err(read) => read,
    };
    result.ok_or_else(|| Findings {
        list: report.finish(&texts),
        files,
        texts,
        ..Findings::default()
    })
}

fn described<'d>(
    draft: &'d Draft,
    file: &Path,
    report: &mut Diagnostics,
) -> Option<Description<'d>> {
    let api = draft.table("apis").first()?.value.get("openapi")?;
    Description::open((&draft.described, &draft.texts), file, api, report)
}

fn written(
    draft: &Draft,
    description: Description<'_>,
    file: &Path,
    handler: &ImportHandler,
    compile: CompileSchemas,
) -> Option<Imported> {
    let mut writer = Writer {
        draft,
        description,
        schemas: Schemas::new(description),
        compile,
        schemes: Vec::new(),
        used: BTreeSet::new(),
    };
    let mut silent = Diagnostics::default();
    for (name, at) in description.schemes(&mut Diagnostics::default()) {
        writer.schemes.push((name, Scheme::of(&at, &mut silent)));
    }
    let mut doubles = Diagnostics::default();
    let operations = description.operations(&mut doubles);
    let mut routes = Vec::new();
    let mut left_out: Vec<(String, String)> = writer.messages(doubles);
    for operation in operations {
        match writer.unsupported(&operation) {
            None => routes.push(operation),
            Some(why) => left_out.push((operation.name, why)),
        }
    }
    let text = writer.text(file, handler, &routes, &left_out);
    Some(Imported { text, bound: routes.len(), left_out })
}

struct Writer<'d> {
    draft: &'d Draft,
    description: Description<'d>,
    schemas: Schemas<'d>,
    compile: CompileSchemas,
    /// Security schemes; `None` for unsupported ones.
    schemes: Vec<(&'d str, Option<Scheme<'d>>)>,
    /// Schemes that routes need.
    used: BTreeSet<&'d str>,
}

impl<'d> Writer<'d> {
    /// The errors of a report, with their locations as names.
    fn messages(&self, mut report: Diagnostics) -> Vec<(String, String)> {
        let errors = report.finish(&self.draft.texts).into_iter();
        errors
            .filter(|finding| finding.severity == Severity::Error)
            .map(|f| (format!("{}:{}", f.file.display(), f.line), f.message))
            .collect()
    }

    /// Why an operation cannot have a route, if it cannot.
    fn unsupported(&mut self, operation: &Operation<'d>) -> Option<String> {
        let mut report = Diagnostics::default();
        if let Err(fault) = crate::path_pattern::pattern(operation.path) {
            return Some(format!("{}: {}", operation.path, fault.message));
        }
        if let Err(fault) = weir_document::shape::format::OPERATION.check(&operation.name) {
            return Some(fault.message);
        }
        let requirements = self.description.security(Some(operation), &mut report);
        for requirement in &requirements {
            for required in requirement {
                let name = required.scheme;
                let Some((_, scheme)) = self.schemes.iter().find(|(known, _)| *known == name)
                else {
                    return Some(format!("unknown security scheme `{name}`"));
                };
                let is_supported = match scheme {
                    Some(Scheme::Header(_) | Scheme::Query(_) | Scheme::Basic) => {
                        required.scopes.is_empty()
                    }
                    Some(Scheme::Bearer) => true,
                    Some(Scheme::Certificate) | None => false,
                };
                if !is_supported {
                    return Some(format!("security scheme `{name}` is not supported"));
                }
            }
            if requirement.len() > 1 {
                return Some("combined credentials are not supported".to_owned());
            }
        }
        let modes = Modes { requests: Enforcement::Enforce, responses: Enforcement::Off };
        let mut sources = Vec::new();
        let mut compiler = Compiler {
            description: self.description,
            schemas: &mut self.schemas,
            sources: &mut sources,
            unvalidated: &mut Unvalidated::default(),
            report: &mut report,
        };
        compiler.validation(operation, modes);
        (self.compile)(sources, &self.draft.described, &mut report);
        if let Some((place, message)) = self.messages(report).into_iter().next() {
            return Some(format!("{place}: {message}"));
        }
        self.used.extend(requirements.iter().flatten().map(|required| required.scheme));
        None
    }

    fn text(
        &self,
        file: &Path,
        handler: &ImportHandler,
        routes: &[Operation<'d>],
        left_out: &[(String, String)],
    ) -> String {
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("api");
        let name = stem.split(".openapi").next().unwrap_or(stem);
        let name: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(40)
            .collect();
        let name = name.trim_start_matches('-').to_owned();
        let name = if name.is_empty() { "api".to_owned() } else { name };
        let (server, base) = self.description.server();
        let target = match handler {
            ImportHandler::Mock => None,
            ImportHandler::Upstream(given) => given.clone().or(server),
        };
        let mut out = String::from("# Generated by `weir import openapi`; edit as needed.\n");
        out.push_str("version: 1\nlisten: [{addr: \"127.0.0.1:8080\"}]\n");
        if let Some(target) = &target {
            let _ = writeln!(out, "upstreams:\n  {name}: {{targets: [{}]}}", quoted(target));
        }
        if !self.used.is_empty() {
            out.push_str("auth:\n");
            for (scheme, kind) in self.schemes.iter().filter(|(s, _)| self.used.contains(s)) {
                auth(&mut out, scheme, *kind);
            }
        }
        let _ = writeln!(out, "apis:\n  {name}:\n    base: {}", quoted(&base));
        let _ = writeln!(out, "    openapi:\n      file: {}", quoted(&file.display().to_string()));
        // Invalid operations, such as one of two with the same name, cannot be listed under
        // `except`.
        let operations = self.description.operations(&mut Diagnostics::default());
        let names: HashSet<&str> = operations.iter().map(|o| o.name.as_str()).collect();
        let except = left_out.iter().filter(|(name, _)| names.contains(name.as_str()));
        let mut except = except.peekable();
        if except.peek().is_some() {
            out.push_str("      except:\n");
            for (name, why) in except {
                let _ = writeln!(out, "        # {}\n        - {}", one_line(why), quoted(name));
            }
        }
        if !self.used.is_empty() {
            let pairs: Vec<String> = self
                .used
                .iter()
                .map(|s| format!("{}: {}", quoted(s), quoted(&auth_name(s))))
                .collect();
            let _ = writeln!(out, "    auth: {{{}}}", pairs.join(", "));
        }
        let empty = if routes.is_empty() { " []" } else { "" };
        let _ = writeln!(out, "    routes:{empty}");
        for operation in routes {
            let key = match &target {
                Some(_) => format!("proxy: {name}"),
                None => self.mock(operation).to_owned(),
            };
            let _ = writeln!(out, "      - {{op: {}, {key}}}", quoted(&operation.name));
        }
        out
    }

    fn mock(&self, operation: &Operation<'d>) -> &'static str {
        let span = operation.span;
        let mut silent = Diagnostics::default();
        let selection = ExampleSelection::default();
        match self.description.mock(operation, selection, &self.schemas, span, &mut silent) {
            Some(_) => "mock: true",
            None => "reply: {status: 501}",
        }
    }
}

impl Description<'_> {
    /// The first server as a target, and its path as a base.
    pub(super) fn server(&self) -> (Option<String>, String) {
        let url = self.top().get("servers").and_then(|servers| {
            let first = servers.items().next()?;
            first.text("url")
        });
        let url = url.unwrap_or("/");
        let (origin, path) = match url.split_once("://") {
            Some((scheme, rest)) => match rest.split_once('/') {
                Some((host, path)) => (Some(format!("{scheme}://{host}")), path),
                None => (Some(format!("{scheme}://{rest}")), ""),
            },
            None => (None, url.trim_start_matches('/')),
        };
        let base = format!("/{}", path.trim_end_matches('/'));
        let base = if crate::path_pattern::base(&base).is_ok() { base } else { "/".to_owned() };
        let origin = origin.filter(|origin| weir_document::shape::format::target(origin).is_ok());
        (origin, base)
    }
}

fn auth(out: &mut String, scheme: &str, kind: Option<Scheme<'_>>) {
    let name = quoted(&auth_name(scheme));
    let _ = match kind {
        Some(Scheme::Header(header)) => {
            writeln!(out, "  {name}: {{api_key: {{header: {}}}}}", quoted(header))
        }
        Some(Scheme::Query(query)) => {
            writeln!(out, "  {name}: {{api_key: {{query: {}}}}}", quoted(query))
        }
        Some(Scheme::Basic) => writeln!(out, "  {name}: {{basic: true}}"),
        Some(Scheme::Certificate) => writeln!(
            out,
            "  # Needs a listener with `tls` and `client_certificates`.\n  \
             {name}: {{certificate: common-name}}"
        ),
        _ => writeln!(
            out,
            "  # Set the issuer of the tokens, and save the issuer's key set beside this file.\n  \
             {name}: {{jwt: {{issuer: \"https://issuer.example.com/\", jwks: \"file:jwks.json\", \
             algorithms: [RS256]}}}}"
        ),
    };
}

/// The name of a scheme as the name of an auth.
fn auth_name(scheme: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = scheme.chars().map(|c| if fits(c) { c } else { '-' }).take(64).collect();
    let name = name.trim_start_matches(['-', '.']).to_owned();
    match name.as_str() {
        "" => "auth".to_owned(),
        "none" | "anonymous" => format!("{name}-auth"),
        _ => name,
    }
}

/// A string in quotes, as in JSON and YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}
