//! Properties of the configuration that hold for any text.
//!
//! - Loading never panics, and reads nothing but the text.
//! - There is a Config exactly if there is no error, and every finding has a listed code and a place
//!   inside the text.
//! - What is resolved keeps the promises of its types.

use weir_config::finding::{Findings, codes};
use weir_config::{Config, load_text};

/// Checks every property on `bytes` as a configuration.
pub fn configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match load_text("fuzzed.yaml", &text) {
        Ok((config, findings)) => {
            assert!(!findings.has_errors());
            check_findings(&findings, &text);
            check_config(&config);
        }
        Err(findings) => {
            assert!(findings.has_errors());
            check_findings(&findings, &text);
        }
    }
}

fn check_findings(findings: &Findings, text: &str) {
    // YAML has more line breaks than `lines` counts, never fewer; one more for the end.
    let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count() + 1;
    for finding in &findings.list {
        assert!(codes::ALL.iter().any(|c| c.code == finding.code), "{}", finding.code);
        assert!(finding.line <= lines, "line {} of {lines}", finding.line);
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
    for api in &config.apis {
        assert!(api.base.starts_with('/') && (api.base == "/" || !api.base.ends_with('/')));
        for route in &api.routes {
            assert!(route.methods.iter().all(|m| !m.is_empty()));
            assert!(route.access.any_of.iter().all(|rule| rule.auth.0 < config.auths.len()));
        }
    }
}
