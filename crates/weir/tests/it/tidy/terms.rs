//! What an operator searches for is found: in a heading of a guide, in the glossary, and in the docs of
//! the module that implements it.

use super::{assert_none, root};
use std::fs;

/// A term, its guide, and its module.
const TERMS: [(&str, &str, &str); 25] = [
    ("retry", "proxy", "weir-upstream/src/retry.rs"),
    ("failover", "proxy", "weir-upstream/src/pick.rs"),
    ("ejection", "proxy", "weir-upstream/src/health.rs"),
    ("circuit breaker", "scripts", "weir-gateway/src/script_engine/circuit_breaker.rs"),
    ("eviction", "proxy", "weir-cache/src/store.rs"),
    ("stale", "proxy", "weir-cache/src/rules.rs"),
    ("replay", "resubmit", "weir-gateway/src/replay.rs"),
    ("redaction", "record", "weir-record/src/redaction.rs"),
    ("canary", "proxy", "weir-upstream/src/weights.rs"),
    ("sticky session", "proxy", "weir-upstream/src/hash.rs"),
    ("hedging", "proxy", "weir-upstream/src/send/hedge.rs"),
    ("mirroring", "proxy", "weir-gateway/src/handler/proxy/mirror.rs"),
    ("backpressure", "proxy", "weir-http/src/body.rs"),
    ("dead letter", "billing", "weir-events/src/delivery.rs"),
    ("idempotency", "resubmit", "weir-gateway/src/replay.rs"),
    ("quota", "limits", "weir-limit/src/quota.rs"),
    ("burst", "limits", "weir-limit/src/gcra.rs"),
    ("drain", "operate", "weir-server/src/gateway.rs"),
    ("hot reload", "operate", "weir-server/src/gateway.rs"),
    ("mTLS", "auth", "weir-auth/src/certificate.rs"),
    ("CRL", "auth", "weir-net/src/tls.rs"),
    ("introspection", "auth", "weir-auth/src/introspect.rs"),
    ("cold start", "scripts", "weir-gateway/src/script_engine/plan.rs"),
    ("keep-alive", "proxy", "weir-upstream/src/connection.rs"),
    ("fleet", "fleet", "weir-fleet/src/lib.rs"),
];

/// Whether a line that starts with `prefix` has the term, in any case, also as the start of its plural
/// (`retry`, `Retries`).
fn has(text: &str, prefix: &str, term: &str) -> bool {
    let term = term.to_lowercase();
    let stem = term.strip_suffix('y').unwrap_or(&term);
    text.lines().any(|line| line.starts_with(prefix) && line.to_lowercase().contains(stem))
}

#[test]
fn terms_lead_to_a_guide_and_a_module() {
    let read = |path: String| fs::read_to_string(root().join(path)).unwrap_or_default();
    let glossary = read("docs/glossary.md".to_owned());
    let mut problems = Vec::new();
    for (term, guide, module) in TERMS {
        if !has(&read(format!("docs/guide/{guide}.md")), "#", term) {
            problems.push(format!("docs/guide/{guide}.md: no heading with `{term}`"));
        }
        if !has(&glossary, "|", term) {
            problems.push(format!("docs/glossary.md: no row with `{term}`"));
        }
        if !has(&read(format!("crates/{module}")), "//!", term) {
            problems.push(format!("crates/{module}: no module docs with `{term}`"));
        }
    }
    assert_none(&problems);
}

#[test]
fn terms_are_found_in_headings_only() {
    assert!(has("# A\n## Retries, hedging\n", "#", "retry"));
    assert!(has("//! The CRL.\n", "//!", "CRL"));
    assert!(!has("# A\nA retry.\n", "#", "retry"));
}
