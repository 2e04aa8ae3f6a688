//! The journal and the Tracker.

use super::{Fields, Resolver};
use crate::config::tracker::{KEY_EXPRESSION, Mask, TrackerKeys};
use crate::config::{Capture, CaptureLevel, CaptureWhen, Tracker};
use std::sync::Arc;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::settings::choice_of;
use weir_expr::body_mask::{BodyMask, PathCost};
use weir_expr::business_keys::{BusinessKeys, KEYS, Source};

impl Resolver<'_> {
    /// The value of `capture`, if present.
    pub(super) fn capture(&mut self, fields: &Fields<'_>) -> Option<Capture> {
        let Some(whole) = fields.object("capture", Capture::SHAPE) else {
            let level = choice_of(fields.get("capture")?).unwrap_or_default();
            return Some(Capture { level, when: None });
        };
        let Capture { level, .. } = Capture::read(&whole);
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
                slow: if slow { whole.duration("slow") } else { None },
            }
        });
        Some(Capture { level, when })
    }

    pub(super) fn tracker(&mut self, root: &Fields<'_>) -> Tracker {
        let fields = root.object_or_empty("tracker", TrackerKeys::SHAPE);
        let TrackerKeys { enabled, body_limit, budget, index, keep, mask } =
            TrackerKeys::read(&fields);
        Tracker {
            enabled,
            body_limit,
            index,
            masked_headers: mask.headers,
            masked_parameters: mask.query,
            masked_bodies: Arc::new(self.body_mask(&fields)),
            budget,
            keys: Arc::new(self.business_keys(&fields)),
            triggers: Vec::new(),
            sinks: Vec::new(),
            kafka: Vec::new(),
            keep_completed: keep.completed,
            keep_failed: keep.failed,
        }
    }

    fn body_mask(&mut self, tracker: &Fields<'_>) -> BodyMask {
        let mask = tracker.object_or_empty("mask", Mask::SHAPE);
        let mut found = BodyMask::default();
        for node in mask.many("body") {
            // The check has reported malformed paths.
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
            // The check has reported malformed paths.
            return Some((text, Source::path(text).ok()?));
        }
        let cel = Fields::new(node, &KEY_EXPRESSION).get("cel")?;
        match Source::expression(cel.text()?) {
            Ok(source) => Some((cel.text()?, source)),
            Err(message) => {
                self.report.error(codes::BAD_EXPRESSION, cel.at, message);
                None
            }
        }
    }
}
