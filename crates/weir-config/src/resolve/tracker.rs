//! The journal and the Tracker.

use super::keys;
use super::{Fields, Resolver};
use crate::body_mask::{BodyMask, PathCost};
use crate::business_keys::{BusinessKeys, KEYS, Source};
use crate::config::{
    Capture, CaptureLevel, CaptureWhen, Durability, IndexDepth, JournalSettings, Tracker, WhenFull,
};
use crate::draft::Node;
use crate::finding::codes;
use std::sync::Arc;
use std::time::Duration;

/// How long a transaction takes that is slow, unless said otherwise.
const SLOW: Duration = Duration::from_secs(1);

/// The level that a text names.
fn level(text: Option<&str>) -> CaptureLevel {
    match text {
        Some("none") => CaptureLevel::None,
        Some("meta") => CaptureLevel::Meta,
        Some("headers") => CaptureLevel::Headers,
        _ => CaptureLevel::Body,
    }
}

impl Resolver<'_> {
    /// What `capture` says, if it is there.
    pub(super) fn capture(&mut self, fields: &Fields<'_>) -> Option<Capture> {
        let Some(whole) = fields.object("capture", &keys::CAPTURE) else {
            let text = fields.text("capture")?;
            return Some(Capture { level: level(Some(text)), when: None });
        };
        let level = level(whole.text("level"));
        let words = whole.texts("when");
        let slow = words.iter().any(|word| word == "slow");
        if let Some(node) = whole.get("slow").filter(|_| !slow) {
            self.report
                .error(codes::CONFLICT, node.at, "`slow` has no effect")
                .help("add `when: slow` or `when: [error, slow]`");
        }
        let when = whole.get("when").map(|node| {
            if level < CaptureLevel::Headers {
                self.report
                    .error(
                        codes::CONFLICT,
                        node.at,
                        "`when` has no effect without headers or bodies",
                    )
                    .help("use `level: headers` or `level: body`");
            }
            CaptureWhen {
                error: words.iter().any(|word| word == "error"),
                slow: slow.then(|| whole.duration("slow").unwrap_or(SLOW)),
            }
        });
        Some(Capture { level, when })
    }

    pub(super) fn journal(&mut self, root: &Fields<'_>) -> JournalSettings {
        let default = JournalSettings::default();
        let Some(fields) = root.object("journal", &keys::JOURNAL) else { return default };
        JournalSettings {
            durability: match fields.text("durability") {
                Some("disk") => Durability::Disk,
                _ => Durability::Process,
            },
            disk: fields.size("disk").unwrap_or(default.disk),
            when_full: match fields.text("when_full") {
                Some("refuse") => WhenFull::Refuse,
                _ => WhenFull::Shed,
            },
        }
    }

    pub(super) fn tracker(&mut self, root: &Fields<'_>) -> Tracker {
        let default = Tracker::default();
        let Some(fields) = root.object("tracker", &keys::TRACKER) else { return default };
        let mask = fields.object("mask", &keys::MASK);
        let keep = fields.object("keep", &keys::KEEP);
        let keep = |key| keep.and_then(|k| k.duration(key));
        let lower = |names: Vec<String>| names.iter().map(|n| n.to_ascii_lowercase()).collect();
        Tracker {
            enabled: fields.bool("enabled").unwrap_or(default.enabled),
            body_limit: fields.size("body_limit").unwrap_or(default.body_limit),
            index: match fields.text("index") {
                Some("none") => IndexDepth::None,
                Some("keys") => IndexDepth::Keys,
                _ => IndexDepth::Payload,
            },
            masked_headers: mask.map(|m| lower(m.texts("headers"))).unwrap_or_default(),
            masked_parameters: mask.map(|m| m.texts("query")).unwrap_or_default(),
            masked_bodies: mask.map(|m| Arc::new(self.body_mask(&m))).unwrap_or_default(),
            budget: fields.size("budget").unwrap_or(default.budget),
            keys: Arc::new(self.business_keys(&fields)),
            triggers: Vec::new(),
            keep_completed: keep("completed").unwrap_or(default.keep_completed),
            keep_failed: keep("failed").unwrap_or(default.keep_failed),
        }
    }

    fn body_mask(&mut self, mask: &Fields<'_>) -> BodyMask {
        let mut found = BodyMask::default();
        for node in mask.many("body") {
            // What is no path has been reported by the check.
            if let Some(text) = node.text()
                && found.add(text) == Ok(PathCost::Tree)
            {
                self.needs_tree(text, node);
            }
        }
        found
    }

    fn business_keys(&mut self, tracker: &Fields<'_>) -> BusinessKeys {
        let mut found = BusinessKeys::default();
        for (count, member) in tracker.members("keys").iter().enumerate() {
            if count == KEYS {
                let message = format!("more than {KEYS} business keys");
                self.report.error(codes::TOO_MANY, member.at, message);
                break;
            }
            let Some((text, source)) = self.key_source(&member.value) else { continue };
            if source.needs_tree() {
                self.needs_tree(text, &member.value);
            }
            found.add(&member.key, text, source);
        }
        found
    }

    fn key_source<'n>(&mut self, node: &'n Node) -> Option<(&'n str, Source)> {
        if let Some(text) = node.text() {
            // What is no path has been reported by the check.
            return Some((text, Source::path(text).ok()?));
        }
        let cel = Fields::new(node, &keys::KEY_EXPRESSION).get("cel")?;
        match Source::expression(cel.text()?) {
            Ok(source) => Some((cel.text()?, source)),
            Err(message) => {
                self.report.error(codes::BAD_EXPRESSION, cel.at, message);
                None
            }
        }
    }
}
