//! Consumers of the configuration, and the credentials that identify them.

use super::Call;
use crate::api_keys::{self, ApiKeyInfo, Revocations};
use crate::problem::{Problem, Result};
use axum::Json;
use axum::extract::Path;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_config::{AuthKind, Config, Consumer};

/// A consumer of the configuration in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct ConsumerInfo {
    /// Its name.
    name: String,
    /// Its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    /// What identifies it.
    credentials: Vec<CredentialInfo>,
}

/// Credentials of a consumer, without a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct CredentialInfo {
    /// `api-key`, `jwt`, `introspect` or `certificate`. Tokens and certificates are all those that the rule of
    /// the consumer matches, and expire by themselves.
    kind: String,
    /// Auth methods that accept it.
    auth: Vec<String>,
    /// The API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<ApiKeyInfo>,
}

/// Show a consumer and its credentials
#[utoipa::path(get, path = "/v1/consumers/{consumer}", tag = "configuration",
    params(("consumer" = String, Path, description = "Name of the consumer.")),
    responses(
        (status = 200, description = "The consumer, without secrets.", body = ConsumerInfo),
        (status = 404, description = "The configuration in force has no such consumer.")))]
pub(super) async fn show(call: Call, Path(name): Path<String>) -> Result<Json<ConsumerInfo>> {
    let config = call.api.sources.gateway.config();
    let revocations = Revocations::of(&call.api.access()?.revoked_keys);
    let found = config.consumers.iter().find(|consumer| consumer.name == name);
    found.map(|consumer| Json(info(&config, consumer, &revocations))).ok_or_else(|| {
        Problem::not_found("Unknown consumer", "The configuration in force has no such consumer.")
    })
}

fn info(config: &Config, consumer: &Consumer, revocations: &Revocations) -> ConsumerInfo {
    let auth = api_keys::auths(config);
    let keys = consumer.api_keys.iter().map(|key| CredentialInfo {
        kind: "api-key".to_owned(),
        auth: auth.clone(),
        key: Some(revocations.describe(&consumer.name, key)),
    });
    let matched = consumer.matches.as_ref().map(|(id, _)| {
        let auth = &config.auths[id.0];
        let kind = match auth.kind {
            AuthKind::Jwt(_) => "jwt",
            AuthKind::ApiKey(_) => "api-key",
            AuthKind::Introspect(_) => "introspect",
            AuthKind::Certificate(_) => "certificate",
        };
        CredentialInfo { kind: kind.to_owned(), auth: vec![auth.name.clone()], key: None }
    });
    ConsumerInfo {
        name: consumer.name.clone(),
        plan: consumer.plan.map(|plan| config.plans[plan.0].name.clone()),
        credentials: keys.chain(matched).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_store::revoked_keys::RevokedKeys;

    #[test]
    fn credentials_are_named_and_not_shown() {
        let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        let text = format!(
            "auth: {{keys: {{api_key: {{header: x-key}}}}, more: {{api_key: {{query: key}}}}}}\n\
             plans: {{gold: {{rate: 1/s}}}}\n\
             consumers: {{acme: {{plan: gold, api_keys: [\"sha256:{hash}\"]}}}}\n\
             apis: {{orders: {{base: /, auth: keys, routes: [{{get: /, reply: {{text: hi}}}}]}}}}\n"
        );
        let loaded = weir_gateway::configuration::load_text("test", &text).unwrap();
        let none = Revocations::of(&RevokedKeys::in_memory().unwrap());
        let found = info(&loaded.config, &loaded.config.consumers[0], &none);
        assert_eq!((found.name.as_str(), found.plan.as_deref()), ("acme", Some("gold")));
        let [key] = &found.credentials[..] else { panic!("{found:?}") };
        let id = key.key.as_ref().map(|key| key.id.as_str());
        assert_eq!((key.kind.as_str(), id), ("api-key", Some("sha256:9f86d081")));
        assert_eq!(key.auth, ["keys", "more"]);
        assert!(!serde_json::to_string(&found).unwrap().contains(&hash[..12]));
    }
}
