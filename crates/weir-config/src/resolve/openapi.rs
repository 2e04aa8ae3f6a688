//! APIs with an OpenAPI document: routes bound to operations, security schemes mapped to auths.
//! Operations and schemes without a counterpart are findings, so that nothing is exposed or
//! unvalidated by mistake.

use super::api::Inherited;
use super::route::METHODS;
use super::{Fields, Resolver};
use crate::config::{
    Access, AccessRule, AuthId, CountRule, Handler, Location, Reply, ReplyBody, Representation,
    Route,
};
use crate::formats;
use crate::openapi::{
    Compiler, Cursor, Description, ExampleSelection, Modes, Operation, RequiredScheme, Requirement,
    Schemas, Scheme, Unvalidated,
};
use crate::path_pattern::{self, PathPattern};
use crate::validation::{Enforcement, MAX_BODY_BYTES, Validation};
use weir_document::draft::{Member, Node};
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::settings::Settings as _;
use weir_document::shape::{Key, Kind, format};
use weir_document::source_map::Span;

const DOCUMENT: Kind = Kind::Either(&[Kind::Text, Kind::Object(OpenApiKeys::SHAPE)]);

const RESPONSE: Kind = Kind::Either(&[Kind::Bool, Kind::Object(&MOCK)]);

/// `openapi` of an API.
pub(super) const OPENAPI_KEY: Key = Key::new(
    "openapi",
    DOCUMENT,
    "The OpenAPI document (3.0 or 3.1) of the API; a path is short for `{file: PATH}`. Routes are bound to its operations by `op`.",
);

settings! {
    /// An OpenAPI document. Variables and `file:` in it are not substituted, and nothing is fetched
    /// from the network.
    pub(super) struct OpenApiKeys is "the OpenAPI document of an API" {
        /// The document, in YAML or JSON.
        file = by_hand(Kind::Text).required(),
        /// Path below the base at which the document is served as JSON. Requests need the
        /// document's top-level `security`.
        serve: String =
            text(Kind::Either(&[Kind::Enum(&["none"]), Kind::Format(formats::PATH)]))
                .default("/openapi.json"),
        /// Operations without a route.
        except: Vec<String> = texts(Kind::OneOrMany(&Kind::Format(format::OPERATION))),
    },
    short: Some("file"),
}

/// `validate` of an API or a route.
pub(super) const VALIDATE_KEY: Key = Key::new(
    "validate",
    Kind::Object(Modes::SHAPE),
    "Validation of requests and responses against the OpenAPI document.",
);

/// `mock` of a route.
pub(super) const MOCK_KEY: Key = Key::new(
    "mock",
    RESPONSE,
    "Mock response: an example of the OpenAPI document, or one generated from its schema; `true` selects the first successful response.",
);

settings! {
    /// Selection of a response of the OpenAPI document.
    pub(super) static MOCK is "a mock" {
        /// Status of the response.
        status = by_hand(Kind::Integer(200, 599)).absent("the first successful one"),
        /// Name of the example.
        example = by_hand(Kind::Text).absent("the first"),
    }
}

/// Maximum number of operations without a route that are listed one by one.
const LISTED: usize = 20;

/// State of an API with an OpenAPI document while its routes are resolved.
pub(super) struct Described<'a> {
    description: Description<'a>,
    operations: Vec<Operation<'a>>,
    bound: Vec<bool>,
    schemas: Schemas<'a>,
    unvalidated: Unvalidated,
    modes: Modes,
    /// Security schemes of the document.
    schemes: Vec<(&'a str, Cursor<'a>)>,
    /// The auths of mapped schemes; `None` if `auth` of the API is independent of schemes.
    auths: Option<Vec<(String, AuthId)>>,
    /// Whether a body limit beyond the budget of the validation has been reported.
    over_budget: bool,
    /// Schemes without an auth that have been reported.
    missing: Vec<&'a str>,
    /// The location of the document's name in the configuration.
    at: Span,
    pub(super) serve: Option<String>,
    except: Vec<String>,
}

impl Described<'_> {
    /// Whether the document's security applies.
    pub(super) fn maps_schemes(&self) -> bool {
        self.auths.is_some()
    }
}

/// The operation does not exist; a finding reports it.
pub(super) struct NoOperation;

/// The operation of a route, and the document that defines it.
pub(super) type Bound<'b, 'a> = (&'b Operation<'a>, &'b mut Described<'a>);

/// The same with a shorter borrow.
pub(super) fn again<'b, 'a>(bound: &'b mut Option<Bound<'_, 'a>>) -> Option<Bound<'b, 'a>> {
    bound.as_mut().map(|(operation, described)| (&**operation, &mut **described))
}

impl<'a> Resolver<'a> {
    /// The OpenAPI state of an API; `None` with a finding, or without `openapi`.
    pub(super) fn described(&mut self, fields: &Fields<'_>) -> Option<Described<'a>> {
        let Some(node) = fields.get("openapi") else {
            self.nothing_to_validate(fields);
            return None;
        };
        let written = Fields::new(node, OpenApiKeys::SHAPE);
        let file = if node.text().is_some() { node } else { written.get("file")? };
        let documents = (self.draft.described.as_slice(), &self.draft.texts);
        let path = self.draft.texts.resolve(file.at.file, file.text()?);
        let description = Description::open(documents, &path, file, self.report)?;
        let operations = description.operations(self.report);
        let schemes = description.schemes(self.report);
        let auths = self.scheme_auths(fields, &schemes);
        let OpenApiKeys { serve, except } = OpenApiKeys::read(&written);
        let described = Described {
            bound: vec![false; operations.len()],
            schemas: Schemas::new(description),
            unvalidated: Unvalidated::default(),
            modes: modes(fields, None),
            missing: Vec::new(),
            over_budget: false,
            at: file.at,
            serve: (serve != "none").then_some(serve),
            except,
            description,
            operations,
            schemes,
            auths,
        };
        for node in written.many("except") {
            let name = node.text().unwrap_or_default();
            if !described.operations.iter().any(|o| o.name == name) {
                self.no_operation(name, node.at, &described);
            }
        }
        Some(described)
    }

    fn nothing_to_validate(&mut self, fields: &Fields<'_>) {
        if let Some(node) = fields.get("validate") {
            let message = "the API has no `openapi` to validate against";
            self.report
                .error(codes::CONFLICT, node.at, message)
                .help("`validate` needs an API with `openapi` and a route with `op`");
        }
    }

    fn no_operation(&mut self, name: &str, at: Span, described: &Described<'_>) {
        let names = described.operations.iter().map(|o| o.name.as_str());
        let near = self.report.suggestion(name, names);
        let message = format!("unknown operation `{name}`");
        self.report
            .error(codes::UNKNOWN_NAME, at, message)
            .related(described.at, "the OpenAPI document")
            .maybe_help(near);
    }

    /// `auth` of an API as a mapping from schemes; `None` if it is not such a mapping.
    fn scheme_auths(
        &mut self,
        fields: &Fields<'_>,
        schemes: &[(&'a str, Cursor<'a>)],
    ) -> Option<Vec<(String, AuthId)>> {
        let Some(node) = fields.get("auth") else { return Some(Vec::new()) };
        let members = node.members()?;
        if !members.iter().any(|member| member.value.text().is_some()) {
            return None;
        }
        let mut auths = Vec::new();
        for Member { key, at, value } in members {
            let Some(name) = value.text() else {
                let message = format!("`{key}` takes the name of an auth");
                self.report.error(codes::WRONG_TYPE, value.at, message);
                continue;
            };
            let index = self.auths.find(name, value.at, self.report);
            match schemes.iter().find(|(scheme, _)| scheme == key) {
                Some((_, scheme)) => {
                    let Some(index) = index else { continue };
                    self.same_credential(scheme, index, value.at);
                    auths.push((key.clone(), AuthId(index)));
                }
                None => {
                    let near = self.report.suggestion(key, schemes.iter().map(|(name, _)| *name));
                    let message = format!("unknown security scheme `{key}`");
                    self.report.error(codes::UNKNOWN_NAME, *at, message).maybe_help(near);
                }
            }
        }
        Some(auths)
    }

    /// A scheme and its auth must require the same credential.
    fn same_credential(&mut self, scheme: &Cursor<'a>, auth: usize, at: Span) {
        let Some(kind) = Scheme::of(scheme, self.report) else { return };
        let table = self.draft.table("auth");
        let Some(auth) = table.get(auth).map(|member| &member.value) else { return };
        let key = |place: &str| auth.get("api_key").and_then(|k| k.get(place)?.text());
        let fits = match kind {
            Scheme::Header(name) => key("header").is_some_and(|h| h.eq_ignore_ascii_case(name)),
            Scheme::Query(name) => key("query") == Some(name),
            Scheme::Bearer => auth.get("jwt").or_else(|| auth.get("introspect")).is_some(),
            Scheme::Basic => auth.get("basic").is_some(),
            Scheme::Certificate => auth.get("certificate").is_some(),
        };
        if !fits {
            let what = match kind {
                Scheme::Header(name) => format!("an API key in the header `{name}`"),
                Scheme::Query(name) => format!("an API key in the query parameter `{name}`"),
                Scheme::Bearer => "a token (`Authorization: Bearer`)".to_owned(),
                Scheme::Basic => "user name and password (`Authorization: Basic`)".to_owned(),
                Scheme::Certificate => "a client certificate".to_owned(),
            };
            self.report
                .error(codes::UNMAPPED_SECURITY, at, format!("the security scheme requires {what}"))
                .related(scheme.node.at, "the scheme");
        }
    }

    /// The access rule of an operation, or of the document itself.
    pub(super) fn described_access(
        &mut self,
        described: &mut Described<'a>,
        operation: Option<&Operation<'a>>,
    ) -> Access {
        let mut access = Access::default();
        let description = described.description;
        for requirement in description.security(operation, self.report) {
            match requirement.as_slice() {
                [] => access.anonymous = true,
                [required] => {
                    let Some(auth) = self.auth_of(described, required) else { continue };
                    let rule = AccessRule { auth, scopes: required.scopes.clone() };
                    if !access.any_of.contains(&rule) {
                        access.any_of.push(rule);
                    }
                }
                [_, second, ..] => self.unsupported_combination(second, &requirement),
            }
        }
        // An alternative without a scheme: no authentication.
        access.anonymous &= !access.any_of.is_empty();
        access
    }

    fn unsupported_combination(
        &mut self,
        second: &RequiredScheme<'a>,
        requirement: &Requirement<'a>,
    ) {
        let names: Vec<String> = requirement.iter().map(|a| format!("`{}`", a.scheme)).collect();
        let message =
            format!("the combination of {} is not supported: weir checks one", names.join(" and "));
        self.report
            .error(codes::UNMAPPED_SECURITY, second.span, message)
            .help("set `auth` of the route");
    }

    fn auth_of(
        &mut self,
        described: &mut Described<'a>,
        required: &RequiredScheme<'a>,
    ) -> Option<AuthId> {
        let auths = described.auths.as_deref().unwrap_or_default();
        let found =
            auths.iter().find(|(scheme, _)| scheme == required.scheme).map(|(_, auth)| *auth);
        if let Some(auth) = found {
            if !required.scopes.is_empty() && !self.auth_grants_scopes(auth.0) {
                let message = format!("`{}` is mapped to an auth without scopes", required.scheme);
                self.report.error(codes::UNMAPPED_SECURITY, required.span, message);
            }
            return Some(auth);
        }
        if described.missing.contains(&required.scheme) {
            return None;
        }
        described.missing.push(required.scheme);
        let scheme = required.scheme;
        let known = described.schemes.iter().find(|(name, _)| *name == scheme);
        match known {
            Some((_, at)) => self
                .report
                .error(
                    codes::UNMAPPED_SECURITY,
                    at.node.at,
                    format!("the security scheme `{scheme}` has no `auth`"),
                )
                .related(described.at, "the API")
                .help(format!("write `auth: {{{scheme}: NAME}}` in the API")),
            None => self.report.error(
                codes::UNMAPPED_SECURITY,
                required.span,
                format!("unknown security scheme `{scheme}`"),
            ),
        };
        None
    }

    /// The operation that a route is bound to by its `op`, if any.
    ///
    /// # Errors
    /// The operation does not exist and the route has no path: a finding reports it.
    pub(super) fn operation_of(
        &mut self,
        fields: &Fields<'_>,
        described: Option<&mut Described<'a>>,
    ) -> Result<Option<Operation<'a>>, NoOperation> {
        let Some((described, op)) = described.zip(fields.get("op")) else { return Ok(None) };
        let Some(name) = op.text() else { return Ok(None) };
        let found = described.operations.iter().position(|o| o.name == name);
        let path = METHODS.iter().chain(&["methods"]).find_map(|key| fields.get(key));
        match (found, path) {
            (Some(index), None) => {
                described.bound[index] = true;
                Ok(Some(described.operations[index].clone()))
            }
            (Some(index), Some(path)) => {
                let message = format!("the OpenAPI document defines method and path of `{name}`");
                self.report
                    .error(codes::CONFLICT, path.at, message)
                    .related(described.operations[index].span, "here");
                described.bound[index] = true;
                Ok(None)
            }
            (None, Some(_)) => Ok(None),
            (None, None) => {
                self.no_operation(name, op.at, described);
                Err(NoOperation)
            }
        }
    }

    /// Method and path of an operation; `at` is the route of the operation.
    pub(super) fn described_path(
        &mut self,
        operation: &Operation<'a>,
        at: Span,
    ) -> Option<(Vec<String>, PathPattern, Span)> {
        match path_pattern::pattern(operation.path) {
            Ok(pattern) if !pattern.wildcard => Some((vec![operation.method.clone()], pattern, at)),
            Ok(_) => {
                let message = "OpenAPI paths have no wildcards";
                self.report.error(codes::BAD_PATH, operation.path_at, message);
                None
            }
            Err(fault) => {
                self.report
                    .error(fault.code, operation.path_at, fault.message)
                    .related(at, "the route of the operation")
                    .maybe_help(fault.help);
                None
            }
        }
    }

    /// The validation of a route's requests and responses; `body_limit` is the limit of its bodies.
    pub(super) fn validation(
        &mut self,
        fields: &Fields<'_>,
        body_limit: u64,
        bound: Option<Bound<'_, 'a>>,
    ) -> Option<Box<Validation>> {
        let Some((operation, described)) = bound else {
            self.nothing_to_validate(fields);
            return None;
        };
        let modes = modes(fields, Some(described.modes));
        if modes == OFF {
            return None;
        }
        let mut compiler = Compiler {
            description: described.description,
            schemas: &mut described.schemas,
            sources: &mut self.uncompiled.schemas,
            unvalidated: &mut described.unvalidated,
            report: self.report,
        };
        let validation = compiler.validation(operation, modes);
        if validation.reads_bodies() && body_limit > MAX_BODY_BYTES as u64 && !described.over_budget
        {
            described.over_budget = true;
            let message = format!(
                "bodies above {} MiB are within `limits.body`, but cannot be validated and are \
                 rejected",
                MAX_BODY_BYTES >> 20
            );
            self.report.warning(codes::OVER_BUDGET, described.at, message).help(
                "lower `limits.body`, or turn validation off with `validate: {requests: off, \
                 responses: off}`",
            );
        }
        Some(Box::new(validation))
    }

    /// The reply of a route with `mock`.
    pub(super) fn mock(&mut self, node: &Node, bound: Option<Bound<'_, 'a>>) -> Option<Reply> {
        let Some((operation, described)) = bound else {
            self.report
                .error(codes::CONFLICT, node.at, "the API has no `openapi` with examples")
                .help("`mock` needs an API with `openapi` and a route with `op`");
            return None;
        };
        let fields = node.members().map(|_| Fields::new(node, &MOCK));
        if fields.is_none() && !crate::openapi::is_true(node) {
            let message = "`mock` must be `true` or select a response";
            self.report.error(codes::BAD_VALUE, node.at, message);
            return None;
        }
        let status = fields.as_ref().and_then(|f| f.integer("status"));
        let selection = ExampleSelection {
            status: status.and_then(|status| u16::try_from(status).ok()),
            example: fields.as_ref().and_then(|f| f.text("example")),
        };
        let description = described.description;
        description.mock(operation, selection, &described.schemas, node.at, self.report)
    }

    /// Reports operations without a route and returns the document for display and serving.
    pub(super) fn finish_description(
        &mut self,
        described: &Described<'a>,
        base: &str,
    ) -> Option<String> {
        let bound = described.operations.iter().zip(&described.bound);
        let unbound: Vec<&Operation<'a>> = bound
            .filter(|(operation, bound)| !**bound && !described.except.contains(&operation.name))
            .map(|(operation, _)| operation)
            .collect();
        for operation in unbound.iter().take(LISTED) {
            let message = format!("the operation `{}` has no route", operation.name);
            self.report
                .error(codes::UNBOUND_OPERATION, operation.span, message)
                .related(described.at, "the API");
        }
        if unbound.len() > LISTED {
            let more = unbound.len() - LISTED;
            self.report
                .error(
                    codes::UNBOUND_OPERATION,
                    described.at,
                    format!("{more} more operations have no route"),
                )
                .help("`weir import openapi FILE` generates routes");
        }
        if let Some((span, range)) = &described.unvalidated.first {
            let others = match described.unvalidated.count {
                1 => String::new(),
                count => format!(" (and of {} more bodies)", count - 1),
            };
            let message = format!("only the media type is validated for `{range}`{others}");
            self.report.warning(codes::NOT_VALIDATED, *span, message);
        }
        let operations = described.operations.iter();
        let left_out: Vec<(String, &str)> = operations
            .filter(|operation| described.except.contains(&operation.name))
            .map(|operation| (operation.method.to_ascii_lowercase(), operation.path))
            .collect();
        described.description.publish(base, &left_out)
    }

    /// The route that serves the document.
    pub(super) fn serving(
        &mut self,
        described: &Described<'a>,
        (serve, text): (&str, &str),
        inherited: &Inherited<'_>,
    ) -> Option<Route> {
        let body = ReplyBody::Fixed(Representation {
            content_type: "application/json".to_owned(),
            body: text.as_bytes().to_vec(),
        });
        let file = self.draft.texts.path(described.at.file).to_owned();
        Some(Route {
            operation: format!("GET {serve}"),
            methods: vec!["GET".to_owned()],
            path: path_pattern::pattern(serve).ok()?,
            access: inherited.access.clone(),
            path_normalization: inherited.path_normalization,
            clients: inherited.clients.clone(),
            rate_limits: inherited.rate_limits.clone(),
            body_limit: inherited.body_limit,
            response_limit: None,
            timeout: inherited.request_time,
            request_headers: inherited.request_headers.clone(),
            validation: None,
            request_map: None,
            handler: Handler::Reply(Reply { status: 200, headers: Vec::new(), body }),
            response_map: None,
            response_headers: inherited.response_headers.clone(),
            compress: inherited.compress,
            cache: None,
            capture: inherited.capture,
            count: CountRule::default(),
            resubmit: inherited.resubmit.clone(),
            location: Location { file, line: described.at.line as usize },
        })
    }
}

const OFF: Modes = Modes { requests: Enforcement::Off, responses: Enforcement::Off };

/// `validate` of an API or a route; absent values are `inherited`.
fn modes(fields: &Fields<'_>, inherited: Option<Modes>) -> Modes {
    let inherited = inherited.unwrap_or_default();
    match fields.object("validate", Modes::SHAPE) {
        Some(own) => Modes::read_over(inherited, &own),
        None => inherited,
    }
}
