//! Who was verified once stands in for a credential, which is never replayed; what is asked of him is
//! what is asked now.

use super::Principal;
use std::rc::Rc;
use weir_config::config::Config;
use weir_config::{Access, AuthId, ConsumerId};

/// Who sent a request, as it was recorded. Empty text means nobody in particular.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedPrincipal<'a> {
    /// Name of the auth that proved it.
    pub auth: &'a str,
    /// Subject of the recorded principal.
    pub subject: &'a str,
    /// Name of the consumer.
    pub consumer: &'a str,
    /// Scopes with spaces between.
    pub scopes: &'a str,
}

/// Why nobody stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The consumer is none any more.
    ConsumerGone,
    /// A scope is asked for that was not granted.
    ScopeMissing,
    /// Whoever it was proved it in a way that does not open this route now.
    NoWayIn,
}

/// The principal that a request has which is sent again. The claims of a token are not recorded, so
/// expressions do not have them.
///
/// # Errors
/// The route would not let him in now, whatever it did then.
pub fn recorded_principal(
    config: &Config,
    access: &Access,
    stored: &RecordedPrincipal<'_>,
) -> Result<Rc<Principal>, NotAdmitted> {
    let mut principal = Principal {
        subject: (!stored.subject.is_empty()).then(|| stored.subject.to_owned()),
        scopes: stored.scopes.split_ascii_whitespace().map(str::to_owned).collect(),
        granted: stored.scopes.to_owned(),
        ..Principal::anonymous()
    };
    if !stored.consumer.is_empty() {
        let found = config.consumers.iter().position(|c| c.name == stored.consumer);
        principal.consumer = Some(ConsumerId(found.ok_or(NotAdmitted::ConsumerGone)?));
    }
    if !stored.auth.is_empty() {
        principal.auth = config.auths.iter().position(|a| a.name == stored.auth).map(AuthId);
    }
    if access.any_of.is_empty() {
        return Ok(Rc::new(principal));
    }
    let mut why = NotAdmitted::NoWayIn;
    for rule in access.any_of.iter().filter(|rule| Some(rule.auth) == principal.auth) {
        let of_token = config.auths[rule.auth.0].kind.token();
        let of_token = of_token.map_or(&[][..], |token| token.scopes.as_slice());
        if !principal.lacks(of_token.iter().chain(&rule.scopes)) {
            return Ok(Rc::new(principal));
        }
        why = NotAdmitted::ScopeMissing;
    }
    let nobody = stored.auth.is_empty() && stored.consumer.is_empty();
    if access.anonymous && nobody { Ok(Rc::new(principal)) } else { Err(why) }
}
