//! Sign-in with accounts of an identity provider (OpenID Connect Core 1.0, PKCE of RFC 7636, device codes of
//! RFC 8628).
//!
//! The state of a sign-in in a browser is in a sealed cookie of that browser, so anonymous requests displace
//! nobody. Each state works once, and each client has its own budget of requests to the provider. Requests to the
//! provider are made on behalf of a sign-in only; no other request waits for them, and neither the start of
//! weir nor tokens need the provider.

mod code;
mod device;
mod limits;
mod provider;
mod sealed;

pub(crate) use code::{Codes, TIMEOUT as CODE_TIMEOUT};
pub(crate) use device::{DeviceLogins, DeviceOrigin, DeviceStart, Polled};
pub(crate) use provider::{Exchange, Provider, ProviderError, browser_url};
pub(crate) use sealed::{MAX_AGE_SECONDS, Sealer, SignIn};

use crate::account::Account;
use crate::session::Person;
use crate::tokens::{self, TokenError};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use limits::{ClientBudgets, Once};
use serde_json::{Map, Value};
use std::time::{Duration, Instant};
use weir_config::Oidc;

/// Longest name of an account in bytes.
const MAX_NAME_BYTES: usize = 128;

/// All that sign-ins share.
pub(crate) struct OidcState {
    pub(crate) sealer: Sealer,
    pub(crate) codes: Codes,
    pub(crate) devices: DeviceLogins,
    pub(crate) provider: Provider,
    /// Starts in browsers, returns to them, and starts of command lines: each of a client.
    pub(crate) starts: ClientBudgets,
    pub(crate) returns: ClientBudgets,
    pub(crate) device_starts: ClientBudgets,
    used: Once,
}

impl OidcState {
    /// No sign-ins.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn new() -> Result<Self, TokenError> {
        Ok(Self {
            sealer: Sealer::new()?,
            codes: Codes::default(),
            devices: DeviceLogins::default(),
            provider: Provider::default(),
            starts: ClientBudgets::default(),
            returns: ClientBudgets::default(),
            device_starts: ClientBudgets::default(),
            used: Once::new(Duration::from_secs(MAX_AGE_SECONDS)),
        })
    }

    /// Uses the state of a sign-in; false if it was used before.
    pub(crate) fn use_state(&self, sign_in: &SignIn) -> bool {
        self.used.take(tokens::hash(&sign_in.state), Instant::now())
    }
}

/// Whether two secrets are the same, in constant time.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

/// Name of the provider, for people.
pub(crate) fn name(settings: &Oidc) -> String {
    let host = || url::Url::parse(&settings.issuer).ok()?.host_str().map(str::to_owned);
    settings.name.clone().or_else(host).unwrap_or_default()
}

/// The account of verified claims, with the rights of its groups.
///
/// # Errors
/// It has no group with a role; the id and the name of the account.
pub(crate) fn person(
    settings: &Oidc,
    claims: &Map<String, Value>,
    id_token: String,
) -> Result<Person, (String, String)> {
    let text =
        |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let subject = text("sub").unwrap_or_default();
    let names = ["name", "preferred_username", "email"].iter().find_map(|name| text(name));
    let (id, name) = (format!("oidc:{subject}"), shown(names.unwrap_or(subject)));
    let account = Account::of(settings, claims);
    let Some((role, scope)) = account.rights(settings) else { return Err((id, name)) };
    Ok(Person { id, name, role, scope, account, id_token })
}

/// A name as one line of limited length.
fn shown(name: &str) -> String {
    let line = name.chars().filter(|c| !c.is_control());
    let mut cut = String::new();
    for c in line {
        if cut.len() + c.len_utf8() > MAX_NAME_BYTES {
            break;
        }
        cut.push(c);
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Role;
    use serde_json::json;

    fn settings(roles: &str) -> Oidc {
        let text = format!(
            "admin: {{oidc: {{issuer: \"http://127.0.0.1:1\", client_id: weir, roles: {roles}}}}}\n\
             apis: {{orders: {{base: /, routes: [{{get: /, reply: {{text: hi}}}}]}}}}\n"
        );
        let loaded = weir_gateway::configuration::load_text("weir.yaml", &text);
        *loaded.map_err(|found| format!("{found:?}")).unwrap().config.admin.oidc.unwrap()
    }

    fn person_of(settings: &Oidc, claims: Value) -> Result<Person, (String, String)> {
        let Value::Object(claims) = claims else { panic!() };
        person(settings, &claims, String::new())
    }

    #[test]
    fn the_first_entry_that_matches_decides_and_no_group_is_no_access() {
        let settings = settings(
            "[{group: ops, role: admin}, {group: support, role: payload-viewer, apis: [orders], depth: metadata, resubmit: false}]",
        );
        let ann = json!({"sub": "1", "name": "Ann\n", "groups": ["support", "ops"]});
        let ann = person_of(&settings, ann).unwrap();
        assert_eq!((ann.id.as_str(), ann.name.as_str(), ann.role), ("oidc:1", "Ann", Role::Admin));
        let bob = json!({"sub": "2", "email": "b@x", "groups": "support"});
        let bob = person_of(&settings, bob).unwrap();
        assert_eq!((bob.name.as_str(), bob.role), ("b@x", Role::PayloadViewer));
        assert_eq!(bob.scope.words(), "orders; metadata, no resubmission");
        for groups in [json!([]), json!(null), json!(["Ops", 1]), json!({"ops": true})] {
            let other = json!({"sub": "3", "groups": groups});
            assert_eq!(person_of(&settings, other), Err(("oidc:3".to_owned(), "3".to_owned())));
        }
    }
    #[test]
    fn rights_are_those_of_the_configuration_in_force() {
        let ops = settings("[{group: ops, role: admin}]");
        let ann = person_of(&ops, json!({"sub": "1", "groups": ["staff", "ops"]})).unwrap();
        let rights = |roles: &str| ann.account.rights(&settings(roles));
        assert_eq!(rights("[{group: ops, role: admin}]").unwrap().0, Role::Admin);
        let (role, scope) = rights("[{group: ops, role: viewer, apis: [orders]}]").unwrap();
        assert_eq!((role, scope.words().as_str()), (Role::Viewer, "orders; payloads"));
        let before = "[{group: staff, role: viewer}, {group: ops, role: admin}]";
        assert_eq!(rights(before).unwrap().0, Role::Viewer, "the first entry decides");
        assert_eq!(rights("[{group: others, role: admin}]"), None);
        let elsewhere = Oidc { issuer: "http://127.0.0.1:2".to_owned(), ..ops };
        assert_eq!(ann.account.rights(&elsewhere), None, "another provider");
    }
}
