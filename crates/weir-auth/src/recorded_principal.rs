//! The recorded principal of a resubmission takes the place of a credential, which is never replayed.
//! The requirements are those of the current configuration.

use super::Principal;
use std::rc::Rc;
use weir_config::config::Config;
use weir_config::{Access, AuthId, AuthKind, ConsumerId};

/// The principal of a request as it was recorded; all empty if it was anonymous.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedPrincipal<'a> {
    /// Name of the auth that proved it.
    pub auth: &'a str,
    /// Subject of the recorded principal, or the id of its API key.
    pub subject: &'a str,
    /// Name of the consumer.
    pub consumer: &'a str,
    /// Scopes with spaces between.
    pub scopes: &'a str,
}

/// Why the recorded principal is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The consumer does not exist any more.
    ConsumerGone,
    /// A required scope was not granted.
    ScopeMissing,
    /// The route does not accept the auth method of the principal any more.
    NoWayIn,
}

/// The principal of a resubmission. The claims of a token are not recorded, so expressions do not have
/// them.
///
/// # Errors
/// The route would not admit the principal now.
pub fn recorded_principal(
    config: &Config,
    access: &Access,
    stored: &RecordedPrincipal<'_>,
) -> Result<Rc<Principal>, NotAdmitted> {
    let mut principal = Principal {
        subject: (!stored.subject.is_empty()).then(|| stored.subject.to_owned()),
        scopes: stored.scopes.split_ascii_whitespace().map(str::to_owned).collect(),
        granted: stored.scopes.to_owned(),
        ..Principal::default()
    };
    if !stored.consumer.is_empty() {
        let found = config.consumers.iter().position(|c| c.name == stored.consumer);
        principal.consumer = Some(ConsumerId(found.ok_or(NotAdmitted::ConsumerGone)?));
    }
    if !stored.auth.is_empty() {
        principal.auth = config.auths.iter().position(|a| a.name == stored.auth).map(AuthId);
    }
    if let Some(id) = principal.auth
        && let AuthKind::ApiKey(_) = config.auths[id.0].kind
    {
        // A key has no subject; scripts must not see one.
        principal.key = principal.subject.take().map(Into::into);
    }
    if access.any_of.is_empty() {
        return Ok(Rc::new(principal));
    }
    let mut why = NotAdmitted::NoWayIn;
    for rule in access.any_of.iter().filter(|rule| Some(rule.auth) == principal.auth) {
        if !principal.lacks(rule.required_scopes(&config.auths[rule.auth.0].kind)) {
            return Ok(Rc::new(principal));
        }
        why = NotAdmitted::ScopeMissing;
    }
    let nobody = stored.auth.is_empty() && stored.consumer.is_empty();
    if access.anonymous && nobody { Ok(Rc::new(principal)) } else { Err(why) }
}
