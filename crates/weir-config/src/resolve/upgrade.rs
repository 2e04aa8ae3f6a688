//! Upgrades of connections, such as WebSocket.

use super::{Fields, Resolver};
use crate::config::{Origins, Upgrade};
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::typed::{Defaulted, positive};
use weir_document::shape::{Key, Kind, Shape, format};

const IDLE: Defaulted<Duration> =
    positive("idle", "Idle time without a byte in either direction.").default("5m");
const RELOAD: Defaulted<Duration> = positive("reload", "Time for which a connection continues with its old configuration after a reload. Connections end at random times in the second half of it.").default("10m");

/// `upgrade` of a proxy.
pub(super) static UPGRADE: Shape = Shape {
    misspellings: &[
        ("idle_timeout", "write `idle`"),
        ("timeout", "write `idle`, or `lifetime` for the entire connection"),
        ("websocket", "write `protocols: websocket`"),
    ],
    ..Shape::new(
        "a connection upgrade",
        "Protocol upgrades: after client and upstream agree, bytes are forwarded in both directions, without policies.",
        &[
            Key::new("protocols", Kind::OneOrMany(&Kind::Format(format::PROTOCOL)), "Accepted protocols.").required(),
            Key::new("origins", Kind::OneOrMany(&Kind::Format(format::ORIGIN)), "Origins whose pages may open WebSockets (the `Origin` header of browsers), in addition to the host of the request; `*` for all.").absent("pages of the same host"),
            IDLE.key,
            Key::new("lifetime", Kind::Format(format::POSITIVE_DURATION), "Maximum duration of an upgraded connection.").absent("unlimited"),
            RELOAD.key,
        ],
    )
};

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
        let fields = proxy.object_or_empty("upgrade", &UPGRADE);
        let protocols = match node.text() {
            Some(one) => vec![one.to_ascii_lowercase()],
            None => fields.texts("protocols").iter().map(|p| p.to_ascii_lowercase()).collect(),
        };
        if protocols.is_empty() {
            return None;
        }
        let (idle, lifetime) = (fields.read(&IDLE), fields.duration("lifetime"));
        if let Some(node) = fields.get("idle").filter(|_| lifetime.is_some_and(|all| all < idle)) {
            let message = "`idle` has no effect: `lifetime` is shorter";
            self.report.warning(codes::UNUSED, node.at, message);
        }
        let origins = self.upgrade_origins(node, &fields, &protocols);
        let reload = fields.read(&RELOAD);
        Some(Some(Upgrade { protocols, origins, idle, lifetime, reload }))
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
