//! Properties of loading a configuration that hold for any text.

use weir_config::finding::{Finding, codes};
use weir_gateway::route::Router;

/// Loads `bytes` as a configuration: never a panic, always the same outcome, and a refusal says
/// where and why.
pub fn configuration(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let lines = text.split(['\n', '\r']).count();
    let findings = match weir_config::load_text("weir.yaml", text) {
        Ok((config, findings)) => {
            assert!(!findings.has_errors(), "accepted with errors");
            // What the gateway builds of every accepted configuration.
            let router = Router::new(&config);
            for api in 0..config.apis.len() {
                assert!(router.depth(api) <= 64);
            }
            findings
        }
        Err(findings) => {
            assert!(findings.has_errors(), "refused without an error");
            findings
        }
    };
    for finding in &findings.list {
        check(finding, lines);
    }
    let rendered = findings.render(false);
    assert_eq!(rendered.is_empty(), findings.list.is_empty());
    let again = match weir_config::load_text("weir.yaml", text) {
        Ok((_, findings)) | Err(findings) => findings,
    };
    assert_eq!(findings.list, again.list, "found differently the second time");
}

fn check(finding: &Finding, lines: usize) {
    assert!(codes::ALL.iter().any(|known| known.code == finding.code), "{finding:?}");
    assert!(!finding.message.is_empty());
    // The end of the text may be where something is missing.
    assert!(finding.line <= lines + 1, "{finding:?} in {lines} lines");
    for place in &finding.related {
        assert!(place.line <= lines + 1, "{place:?} in {lines} lines");
    }
}
