//! Retries, hedging.

use super::{Fields, Resolver};
use crate::config::Retries;
use std::time::Duration;
use weir_document::finding::codes;

impl Resolver<'_> {
    /// `timeout` is that of the upstream; `several` means that it has more than one target.
    pub(super) fn retries(
        &mut self,
        fields: &Fields<'_>,
        timeout: Duration,
        several: bool,
    ) -> Retries {
        let retries = Retries::read(fields);
        if let Some(node) = fields.get("timeout").filter(|_| retries.timeout > Some(timeout)) {
            let message = "`timeout` has no effect: the `timeout` of the upstream is shorter";
            self.report.warning(codes::UNUSED, node.at, message);
        }
        let attempt = retries.timeout.map_or(timeout, |own| own.min(timeout));
        if let Some((node, hedge)) = fields.get("hedge").zip(retries.hedge) {
            let message = if !several {
                Some("`hedge` has no effect: the upstream has one target")
            } else if hedge >= attempt {
                Some("`hedge` has no effect: the timeout of an attempt is not longer")
            } else {
                None
            };
            if let Some(message) = message {
                self.report.warning(codes::UNUSED, node.at, message);
            }
        }
        if retries.budget == 0 && retries.minimum == 0 {
            let message = "retries are off: the retry budget is 0";
            let at = fields.node().at;
            self.report.warning(codes::UNUSED, at, message).help("remove `retries`");
        }
        retries
    }
}
