//! Upgrades of connections, such as WebSocket.

use super::{Fields, Resolver};
use crate::config::{Origins, Upgrade};
use weir_document::draft::Node;
use weir_document::finding::codes;

impl Resolver<'_> {
    /// `None` with a finding.
    #[expect(
        clippy::option_option,
        reason = "the outer `None` is an error, the inner one an absent key"
    )]
    pub(super) fn upgrade(&mut self, proxy: &Fields<'_>) -> Option<Option<Upgrade>> {
        let Some(node) = proxy.get("upgrade") else { return Some(None) };
        let name = proxy.text("upstream").unwrap_or_default();
        if self.http2.iter().any(|one| one == name) {
            let message = format!("upgrades need HTTP/1.1, but `{name}` uses HTTP/2");
            self.report
                .error(codes::CONFLICT, node.at, message)
                .help("use an upstream without `protocol: http2`");
            return None;
        }
        let fields = proxy.object_or_empty("upgrade", Upgrade::SHAPE);
        let mut upgrade = Upgrade::read(&fields);
        upgrade.protocols.extend(node.text().map(str::to_ascii_lowercase));
        if upgrade.protocols.is_empty() {
            return None;
        }
        let is_shorter = upgrade.lifetime.is_some_and(|all| all < upgrade.idle);
        if let Some(node) = fields.get("idle").filter(|_| is_shorter) {
            let message = "`idle` has no effect: `lifetime` is shorter";
            self.report.warning(codes::UNUSED, node.at, message);
        }
        let origins = self.upgrade_origins(node, &fields, &upgrade.protocols);
        Some(Some(Upgrade { origins, ..upgrade }))
    }

    /// Origins that may open WebSockets, in addition to the same host.
    fn upgrade_origins(
        &mut self,
        node: &Node,
        fields: &Fields<'_>,
        protocols: &[String],
    ) -> Option<Origins> {
        let origins = fields.texts("origins");
        if origins.is_empty() {
            if protocols.iter().any(|protocol| protocol == "websocket") {
                let message = "WebSockets are accepted from pages of the same host only";
                self.report
                    .warning(codes::WEBSOCKET_ORIGINS, node.at, message)
                    .help("list other origins: `upgrade: {protocols: websocket, origins: …}`; `\"*\"` permits all origins");
            }
            return None;
        }
        let any = origins.iter().any(|origin| *origin == "*");
        if any && origins.len() > 1 {
            let at = fields.get("origins")?.at;
            self.report.error(codes::CONFLICT, at, "`*` cannot be combined with origins");
        }
        Some(match any {
            true => Origins::Any,
            false => Origins::List(origins.iter().map(|o| o.to_ascii_lowercase()).collect()),
        })
    }
}
