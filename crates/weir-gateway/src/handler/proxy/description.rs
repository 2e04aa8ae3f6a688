//! The description of a proxy: its forwarding settings.

use weir_config::{Config, Protocol, Proxy, RetriedMethods, Upstream};
use weir_model::UpstreamId;

/// Forwarding settings: the upstream, its policies, and the mirrors of this request.
pub(in crate::handler) fn describe(
    proxy: &Proxy,
    config: &Config,
    split: Option<UpstreamId>,
    mirrors: &[usize],
) -> String {
    let upstream = &config.upstreams[split.unwrap_or(proxy.upstream).0];
    let mut text = format!("proxy to upstream {}", upstream.name);
    if split.is_some() {
        text.push_str(", by `instead`");
    }
    if upstream.protocol == Protocol::Http2 {
        text.push_str(" over HTTP/2");
    }
    if let Some(upgrade) = &proxy.upgrade {
        text.push_str(&format!("; upgrade to {} allowed", upgrade.protocols.join(" or ")));
    }
    push_policies(&mut text, upstream);
    for index in mirrors {
        let mirror = &proxy.mirrors[*index];
        let name = &config.upstreams[mirror.upstream.0].name;
        text.push_str(&match mirror.part {
            10_000.. => format!("; mirrored to {name}"),
            part => format!("; {} % mirrored to {name}", f64::from(part) / 100.0),
        });
    }
    text
}

/// Retries, hedging, ejection and health checks.
fn push_policies(text: &mut String, upstream: &Upstream) {
    match &upstream.retries {
        Some(retries) => {
            let whose = match retries.methods {
                RetriedMethods::Any => "",
                RetriedMethods::Idempotent => " for idempotent requests",
            };
            let share = f64::from(retries.budget) / 100.0;
            text.push_str(&format!("; {} attempts{whose}, retry budget {share} %", retries.tries));
            if let Some(hedge) = retries.hedge {
                text.push_str(&format!("; hedged after {hedge:?}"));
            }
        }
        None => text.push_str("; retried only before anything is sent"),
    }
    let health = &upstream.health;
    if health.failures > 0 {
        let pause = health.pause;
        text.push_str(&format!(
            "; ejection after {} consecutive failures for {pause:?}",
            health.failures
        ));
    }
    if let Some(errors) = &health.errors {
        text.push_str(&format!("; ejection at {} % of 5xx", f64::from(errors.share) / 100.0));
    }
    if let Some(check) = &health.check {
        // The query may contain a credential.
        let path = check.path.split('?').next().unwrap_or_default();
        text.push_str(&format!("; health check GET {path} every {:?}", check.every));
    }
}
