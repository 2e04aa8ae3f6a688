//! How requests are forwarded to an upstream, and the state of its targets.

use super::Explained;
use crate::explanation::Part;
use weir_config::{Protocol, Proxy, RetriedMethods, Upstream, UpstreamId};

/// How requests are forwarded, to this upstream `instead` of the proxy's own or not.
pub(super) fn setting(proxy: &Proxy, upstream: &Upstream, instead: bool) -> String {
    let mut text = format!("proxy to upstream {}", upstream.name);
    if instead {
        text.push_str(", by `instead`");
    }
    if upstream.protocol == Protocol::Http2 {
        text.push_str(" over HTTP/2");
    }
    if let Some(upgrade) = &proxy.upgrade {
        text.push_str(&format!("; upgrade to {} allowed", upgrade.protocols.join(" or ")));
    }
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
        // Its query may have a credential.
        let path = check.path.split('?').next().unwrap_or_default();
        text.push_str(&format!("; health check GET {path} every {:?}", check.every));
    }
    text
}

/// The mirrors of this request.
pub(super) fn copies(of: &Explained<'_>, proxy: &Proxy) -> String {
    let copy = |index: &usize| {
        let mirror = &proxy.mirrors[*index];
        let name = &of.request.config.upstreams[mirror.upstream.0].name;
        match mirror.part {
            10_000.. => format!("; mirrored to {name}"),
            part => format!("; {} % mirrored to {name}", f64::from(part) / 100.0),
        }
    };
    of.mirrors.iter().map(copy).collect()
}

/// The state of each target.
pub(super) fn targets(of: &Explained<'_>, upstream: UpstreamId) -> Vec<Part> {
    let upstream = &of.live.upstreams[upstream.0];
    let part = |target: &std::rc::Rc<crate::upstream::Target>| {
        let up = target.health.is_up();
        Part {
            name: target.name.clone(),
            outcome: if up { "in service" } else { "out of service" }.to_owned(),
            why: String::new(),
        }
    };
    upstream.targets.iter().map(part).collect()
}
