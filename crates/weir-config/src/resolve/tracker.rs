//! The journal and the Tracker.

use super::{Fields, Resolver};
use crate::config::{CaptureLevel, IndexDepth, JournalSettings, Tracker, WhenFull};
use crate::keys;

const GIB: u64 = 1024 * 1024 * 1024;

/// What `capture` says, if it is there.
pub(super) fn capture(fields: &Fields<'_>) -> Option<CaptureLevel> {
    Some(match fields.text("capture")? {
        "none" => CaptureLevel::None,
        "meta" => CaptureLevel::Meta,
        "headers" => CaptureLevel::Headers,
        _ => CaptureLevel::Body,
    })
}

impl Resolver<'_> {
    pub(super) fn journal(&mut self, root: &Fields<'_>) -> JournalSettings {
        let fields = root.object("journal", &keys::JOURNAL);
        JournalSettings {
            disk: fields.and_then(|f| f.size("disk")).unwrap_or(10 * GIB),
            when_full: match fields.and_then(|f| f.text("when_full")) {
                Some("refuse") => WhenFull::Refuse,
                _ => WhenFull::Shed,
            },
        }
    }

    pub(super) fn tracker(&mut self, root: &Fields<'_>) -> Tracker {
        let fields = root.object("tracker", &keys::TRACKER);
        let mask = fields.and_then(|f| f.object("mask", &keys::MASK));
        let lower = |names: Vec<String>| names.iter().map(|n| n.to_ascii_lowercase()).collect();
        Tracker {
            enabled: fields.and_then(|f| f.bool("enabled")).unwrap_or(false),
            body_limit: fields.and_then(|f| f.size("body_limit")).unwrap_or(64 * 1024),
            index: match fields.and_then(|f| f.text("index")) {
                Some("none") => IndexDepth::None,
                Some("keys") => IndexDepth::Keys,
                _ => IndexDepth::Payload,
            },
            masked_headers: mask.map(|m| lower(m.texts("headers"))).unwrap_or_default(),
            masked_parameters: mask.map(|m| m.texts("query")).unwrap_or_default(),
        }
    }
}
