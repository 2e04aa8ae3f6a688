//! OpenID Connect: people sign in to the console with accounts of an identity provider.

use super::tls::{UPSTREAM_TLS, UpstreamTls};
use std::time::Duration;
use strum::{EnumString, IntoStaticStr, VariantNames};
use weir_document::settings;
use weir_document::shape::{Kind, format};

settings! {
    /// Sign-in with the accounts of an identity provider (OpenID Connect): for the console with the
    /// authorization code flow and PKCE, for `weir login` with a device code (RFC 8628). Redirect URI
    /// of the client: `/v1/oidc/callback` of the admin listener; after sign-out: `/console/`.
    #[derive(Clone)]
    pub struct Oidc is "the identity provider" {
        /// Issuer, exactly as the provider names itself: an `https` URL, on this machine also `http`.
        /// Endpoints and keys are read from `/.well-known/openid-configuration` below it.
        issuer = by_hand(Kind::Text).required(),
        /// Name of the provider on the sign-in page.
        pub name: Option<String> = text(Kind::Text).absent("the host of the issuer"),
        /// Client id of weir at the provider.
        client_id = by_hand(Kind::Text).required(),
        /// Client secret: `file:oidc.secret`. A public client has none.
        client_secret = by_hand(Kind::Secret).absent("none"),
        /// Requested scopes; `openid` is always requested.
        pub scopes: Vec<String> = texts(Kind::OneOrMany(&Kind::Text)).default("[profile, email]"),
        /// Claim of the ID token with the groups of an account: a text or an array of texts.
        pub groups_claim: String = text(Kind::Text).default("groups"),
        /// Groups and their roles. The first entry whose group an account has decides; an account
        /// without any of them is rejected.
        roles = by_hand(Kind::List(&Kind::Object(GroupRights::SHAPE))).required(),
        /// URL of the admin listener as browsers reach it, for the redirect URI:
        /// `https://weir.example.com`. Needed behind a proxy that ends TLS.
        url = by_hand(Kind::Text).absent("scheme and Host of the request"),
        /// TLS to an `https` issuer.
        tls = by_hand(Kind::Object(&UPSTREAM_TLS)),
        /// Timeout of a request to the provider; maximum 30s.
        pub timeout: Duration = positive().default("5s"),
        /// `weir login` is possible. Without it, no command signs in with a device code.
        pub device: bool = boolean().default("true"),
        /// Time after which the sign-in of `weir login` ends; from 5m to 24h.
        pub login: Duration = positive().default("12h"),
    } given {
        /// The issuer.
        pub issuer: String,
        /// Client id.
        pub client_id: String,
        /// Client secret; `None`: a public client.
        pub client_secret: Option<String>,
        /// Groups and their rights, the first that matches decides; never empty.
        pub roles: Vec<GroupRights>,
        /// URL of the admin listener as browsers reach it, without a slash at the end.
        pub url: Option<String>,
        /// TLS to the provider; `None`: the issuer is on this machine, with `http`.
        pub tls: Option<UpstreamTls>,
    },
    misspellings: &[
        ("client_secret_file", "write `client_secret: \"file:oidc.secret\"`"),
        ("discovery", "write `issuer`; the discovery document is found below it"),
        ("groups", "write `roles: [{group: NAME, role: viewer}]`"),
        ("redirect_uri", "write `url`; the redirect URI is `/v1/oidc/callback` of it"),
    ],
}

impl std::fmt::Debug for Oidc {
    /// Does not print the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { issuer, client_id, roles, .. } = self;
        let mut shown = f.debug_struct("Oidc");
        shown.field("issuer", issuer).field("client_id", client_id).field("roles", roles);
        shown.finish_non_exhaustive()
    }
}

settings! {
    /// What the accounts of a group may do.
    #[derive(Clone, Debug)]
    pub struct GroupRights is "the rights of a group" {
        /// Name of the group.
        group = by_hand(Kind::Text).required(),
        /// Role.
        pub role: AdminRole = choice().default("viewer"),
        /// Only these APIs: 1 to 64 names.
        pub apis: Vec<String> = texts(Kind::OneOrMany(&Kind::Format(format::NAME))).absent("all"),
        /// How much of a transaction is visible: `counts`, `metadata` or `payloads`.
        pub depth: AdminDepth = choice().default("payloads"),
        /// Transactions may be sent again, if the role permits it.
        pub resubmit: bool = boolean().default("true"),
    } given {
        /// Name of the group.
        pub group: String,
    }
}

/// Role of a caller of the admin API; each includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum AdminRole {
    /// Reads metadata.
    Viewer,
    /// Reads payloads, too.
    PayloadViewer,
    /// Acts on transactions.
    Operator,
    /// Manages access.
    Admin,
}

/// How much of a transaction a caller of the admin API sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum AdminDepth {
    /// Nothing: usage and figures only.
    Counts,
    /// All but headers, bodies and business keys.
    Metadata,
    /// Everything that the role permits.
    Payloads,
}
