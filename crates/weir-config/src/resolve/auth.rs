//! Authentication and access rules.

use super::introspect::IntrospectKeys;
use super::jwt::JwtKeys;
use super::{Fields, Resolver};
use crate::config::{Access, AccessRule, ApiKeySource, Auth, AuthId, AuthKind, CertificateName};
use weir_document::draft::{Member, Node};
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::{Group, Key, Kind, Names, format};

pub(super) const AUTH_KEY: Key = Key::new(
    "auth",
    ACCESS,
    "Auths that a request may use: one of them is enough. `anonymous` in the list admits requests without a credential; `none` turns authentication off. In an API with `openapi`: a mapping from security schemes to auths (`{bearerAuth: corp}`).",
);

/// `auth` of an API or a route.
pub(super) const ACCESS: Kind = Kind::OneOrMany(&Kind::Either(&[
    Kind::Format(format::NAME),
    Kind::Table(Names::Name, &Kind::Either(&[Kind::Format(format::NAME), Kind::Object(&SCOPED)])),
]));

settings! {
    /// An auth and the scopes that it must grant.
    pub(super) static SCOPED is "an auth with scopes" {
        /// Additional scopes that the auth must grant.
        scopes = by_hand(Kind::OneOrMany(&Kind::Text)),
    },
    short: Some("scopes"),
}

settings! {
    /// An authentication method: exactly one of these.
    pub(super) static AUTH is "an auth" {
        /// A JSON Web Token in `Authorization: Bearer`.
        jwt = by_hand(Kind::Object(JwtKeys::SHAPE)),
        /// An opaque token in `Authorization: Bearer`, verified by an authorization server (RFC
        /// 7662).
        introspect = by_hand(Kind::Object(IntrospectKeys::SHAPE)),
        /// An API key; the consumer has its hash.
        api_key = by_hand(Kind::Object(&API_KEY)),
        /// `true`: HTTP Basic (RFC 7617). The user name is the name of a consumer, the password one
        /// of its API keys.
        basic = by_hand(Kind::Bool),
        /// The client certificate of a listener with `client_certificates`. The value selects the
        /// field that identifies its owner; the first one if there are several.
        certificate = by_hand(Kind::Enum(&["subject", "common-name", "dns", "uri", "email"])),
    },
    groups: &[Group {
        keys: &["jwt", "introspect", "api_key", "basic", "certificate"],
        required: true,
    }],
    misspellings: &[
        ("bearer", "write `jwt`, or `introspect` for opaque tokens"),
        ("introspection", "write `introspect`"),
        ("mtls", "write `certificate: common-name`"),
    ],
}

settings! {
    /// The part of the request that contains the key: exactly one of these.
    pub(super) static API_KEY is "an API key auth" {
        /// Name of the request header.
        header = by_hand(Kind::Format(format::HEADER)),
        /// Name of the query parameter.
        query = by_hand(Kind::Format(format::PARAMETER)),
    },
    groups: &[Group { keys: &["header", "query"], required: true }],
}

/// Reserved words in the place of auth names.
const RESERVED: [&str; 2] = ["anonymous", "none"];

impl Resolver<'_> {
    pub(super) fn auth(&mut self, id: AuthId, member: &Member) -> Option<Auth> {
        if RESERVED.contains(&member.key.as_str()) {
            self.report
                .error(
                    codes::BAD_VALUE,
                    member.at,
                    format!("`{}` is not allowed as the name of an auth", member.key),
                )
                .help("`none` and `anonymous` are reserved");
        }
        let fields = Fields::new(&member.value, &AUTH);
        let kind = if let Some(jwt) = fields.object("jwt", JwtKeys::SHAPE) {
            AuthKind::Jwt(Box::new(self.jwt(id, &jwt)?))
        } else if let Some(introspect) = fields.object("introspect", IntrospectKeys::SHAPE) {
            AuthKind::Introspect(Box::new(self.introspect(&introspect)?))
        } else if let Some(name) = fields.text("certificate") {
            AuthKind::Certificate(certificate_name(name)?)
        } else if let Some(basic) = fields.bool("basic") {
            if !basic {
                let at = fields.get("basic")?.at;
                self.report.error(codes::BAD_VALUE, at, "`basic` must be `true` or absent");
            }
            AuthKind::ApiKey(ApiKeySource::Basic)
        } else {
            let source = fields.object("api_key", &API_KEY)?;
            AuthKind::ApiKey(match (source.text("header"), source.text("query")) {
                (Some(header), None) => ApiKeySource::Header(header.to_ascii_lowercase()),
                (None, Some(query)) => ApiKeySource::Query(query.to_owned()),
                _ => return None,
            })
        };
        Some(Auth { name: member.key.clone(), kind })
    }

    /// Whether an auth has one of these kinds.
    pub(super) fn auth_has(&self, index: usize, kinds: &[&str]) -> bool {
        let table = self.draft.table("auth");
        table.get(index).is_some_and(|m| kinds.iter().any(|kind| m.value.get(kind).is_some()))
    }

    /// Whether credentials of an auth grant scopes.
    pub(super) fn auth_grants_scopes(&self, index: usize) -> bool {
        self.auth_has(index, &["jwt", "introspect"])
    }

    /// `auth` of an API or a route; `None` if it is absent.
    pub(super) fn access(&mut self, fields: &Fields<'_>) -> Option<Access> {
        let node = fields.get("auth")?;
        let mut access = Access::default();
        let mut none = false;
        for item in fields.many("auth") {
            match item.text() {
                Some("none") => none = true,
                Some("anonymous") => access.anonymous = true,
                Some(name) => self.rule(name, item, Vec::new(), &mut access),
                None => {
                    for member in item.members().unwrap_or_default() {
                        if member.value.text().is_some() {
                            self.no_scheme(member);
                            continue;
                        }
                        let scopes = Fields::new(&member.value, &SCOPED).texts("scopes");
                        let at = Node { at: member.at, ..item.clone() };
                        self.rule(&member.key, &at, scopes, &mut access);
                    }
                }
            }
        }
        if none && (access.anonymous || !access.any_of.is_empty()) {
            self.report
                .error(codes::CONFLICT, node.at, "`none` cannot be combined")
                .help("use `anonymous` to accept requests without a credential");
        }
        if access.anonymous && access.any_of.is_empty() {
            self.report
                .error(codes::CONFLICT, node.at, "`anonymous` alone accepts every request")
                .help("add an auth, or write `auth: none`");
        }
        Some(access)
    }

    /// A mapping from security schemes in an API without any.
    fn no_scheme(&mut self, member: &Member) {
        let message = format!("`{}` is not a security scheme here", member.key);
        self.report.error(codes::CONFLICT, member.at, message).help(
            "only APIs with `openapi` map schemes to auths; otherwise write `NAME: {scopes: […]}`",
        );
    }

    fn rule(&mut self, name: &str, at: &Node, scopes: Vec<String>, access: &mut Access) {
        let Some(index) = self.auths.find(name, at.at, self.report) else { return };
        let auth = AuthId(index);
        if access.any_of.iter().any(|r| r.auth == auth) {
            let message = format!("`{name}` is listed twice");
            self.report.error(codes::DUPLICATE_NAME, at.at, message);
            return;
        }
        if !scopes.is_empty() && !self.auth_grants_scopes(index) {
            self.report
                .error(codes::CONFLICT, at.at, "only tokens grant scopes")
                .help("`scopes` needs an auth with `jwt` or `introspect`");
        }
        access.any_of.push(AccessRule { auth, scopes });
    }
}

fn certificate_name(word: &str) -> Option<CertificateName> {
    Some(match word {
        "subject" => CertificateName::Subject,
        "common-name" => CertificateName::CommonName,
        "dns" => CertificateName::Dns,
        "uri" => CertificateName::Uri,
        "email" => CertificateName::Email,
        _ => return None,
    })
}
