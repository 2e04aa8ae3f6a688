//! Properties of the configuration that hold for any text.
//!
//! - Loading never panics, and reads nothing but the text.
//! - There is a Config exactly if there is no error, and every finding has a listed code and a place
//!   inside the text.
//! - What is resolved keeps the promises of its types, and the same text gives the same findings.

use weir_config::Config;
use weir_document::finding::{Findings, codes};
use weir_gateway::configuration::load_text;
use weir_gateway::route::Router;

/// Checks every property on `bytes` as a configuration.
pub fn configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let findings = match load_text("fuzzed.yaml", &text) {
        Ok(loaded) => {
            assert!(!loaded.findings.has_errors());
            check_config(&loaded.config);
            loaded.findings
        }
        Err(findings) => {
            assert!(findings.has_errors());
            findings
        }
    };
    check_findings(&findings, &text);
    let again = load_text("fuzzed.yaml", &text);
    let again = again.map_or_else(|found| found, |loaded| loaded.findings);
    assert_eq!(findings.list, again.list, "found differently the second time");
}

fn check_findings(findings: &Findings, text: &str) {
    // One more for the end, where something may be missing.
    let lines = text.split(['\n', '\r']).count() + 1;
    for finding in &findings.list {
        assert!(codes::ALL.iter().any(|c| c.code == finding.code), "{}", finding.code);
        assert!(finding.line <= lines, "line {} of {lines}", finding.line);
        assert!(finding.related.iter().all(|place| place.line <= lines));
        assert!(!finding.message.is_empty() && !finding.message.contains('\n'));
    }
    findings.render(true);
}

fn check_config(config: &Config) {
    assert!(!config.listen.is_empty() && config.workers > 0 && config.sources.is_empty());
    for upstream in &config.upstreams {
        assert!(!upstream.targets.is_empty());
        assert!(upstream.targets.iter().all(|t| t.scheme == upstream.targets[0].scheme));
    }
    let router = Router::new(config);
    for (index, api) in config.apis.iter().enumerate() {
        assert_eq!(router.depth(index), api.base.split('/').filter(|s| !s.is_empty()).count());
        assert!(api.base.starts_with('/') && (api.base == "/" || !api.base.ends_with('/')));
        for route in &api.routes {
            assert!(route.methods.iter().all(|m| !m.is_empty()));
            assert!(route.access.any_of.iter().all(|rule| rule.auth.0 < config.auths.len()));
        }
    }
}
