//! Warnings about unintended exposure, each with a remedy.

use super::upstream::{is_local, weighted_target};
use super::{Fields, Resolver};
use crate::config::{Admin, Listener, Scheme, Upstream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use weir_document::draft::{Draft, Node};
use weir_document::finding::codes;
use weir_document::source_map::Span;

impl Resolver<'_> {
    /// Warns of listeners, auths and folders that are exposed.
    pub(super) fn warn_of_exposure(
        &mut self,
        root: &Fields<'_>,
        listen: &[Listener],
        admin: &Admin,
        data: &Path,
    ) {
        // With other errors in the configuration the warnings could be wrong.
        if self.report.has_errors() {
            return;
        }
        self.warn_of_admin(root, admin);
        self.warn_of_trust(root, listen);
        self.warn_of_tokens();
        self.warn_of_basic(listen);
        self.warn_of_data(root, data);
    }

    fn warn_of_admin(&mut self, root: &Fields<'_>, admin: &Admin) {
        let Some(node) = root.get("admin") else { return };
        if admin.tls.is_some() || admin.addr.ip().to_canonical().is_loopback() {
            return;
        }
        let message = format!(
            "the admin listener on `{}` is reachable from other machines without TLS: tokens and \
             recorded data can be intercepted",
            admin.addr,
        );
        self.report.warning_if_valid(codes::ADMIN_WITHOUT_TLS, node.at, message).help(
            "write `admin: {addr: …, tls: {cert: \"file:tls.crt\", key: \"file:tls.key\"}}` (or \
             `tls: self-signed`), or listen on `127.0.0.1`",
        );
    }

    fn warn_of_trust(&mut self, root: &Fields<'_>, listen: &[Listener]) {
        for (node, listener) in root.many("listen").iter().zip(listen) {
            // Half of all addresses is what people list if all addresses are rejected elsewhere.
            let Some(wide) = listener.trust.iter().find(|network| network.prefix_len() <= 1) else {
                continue;
            };
            let at = node.get("trust").map_or(node.at, |trust| trust.at);
            let message =
                format!("`trust: {wide}` lets any client forge its address, host and scheme");
            self.report.warning_if_valid(codes::TRUSTS_EVERYBODY, at, message).help(
                "list the addresses of the proxies in front: `trust: [10.0.0.0/24]`. Limits, \
                 `clients` and records rely on the address",
            );
        }
    }

    fn warn_of_tokens(&mut self) {
        let draft: &Draft = self.draft;
        for member in draft.table("auth") {
            if let Some(introspect) = member.value.get("introspect")
                && introspect.get("audience").is_none()
                && introspect.get("scopes").is_none()
            {
                // The issuer is known: the authorization server that verifies the tokens.
                let message = format!(
                    "`{}` accepts every active token of the authorization server, including \
                     tokens for other services",
                    member.key,
                );
                self.report.warning_if_valid(codes::INTROSPECTION_FOR_ANYBODY, introspect.at, message).help(
                    "set `audience: NAME`, if the server returns `aud`; otherwise require a scope \
                     of this API: `scopes: …`",
                );
            }
            let Some(jwt) = member.value.get("jwt") else { continue };
            let has = |key: &str| jwt.get(key).is_some();
            let (what, help) = match (has("issuer"), has("audience")) {
                (true, true) => continue,
                (false, true) => ("of any issuer", "`issuer: https://…`"),
                (true, false) => ("for any audience", "`audience: NAME`"),
                (false, false) => ("of any issuer and for any audience", "`issuer` and `audience`"),
            };
            let message = format!(
                "`{}` accepts tokens {what} with a valid signature, including tokens for other \
                 services",
                member.key,
            );
            self.report
                .warning_if_valid(codes::JWT_FOR_ANYBODY, jwt.at, message)
                .help(format!("set {help}"));
        }
    }

    fn warn_of_basic(&mut self, listen: &[Listener]) {
        let draft: &Draft = self.draft;
        let open = listen.iter().find(|listener| {
            let is_remote = !listener.addr.ip().to_canonical().is_loopback();
            // With trusted proxies in front, the proxies terminate TLS for this listener.
            let has_proxy = !listener.trust.is_empty() || listener.proxy_protocol.is_some();
            is_remote && listener.tls.is_none() && !has_proxy
        });
        if let Some(open) = open {
            for member in draft.table("auth") {
                if let Some(basic) = member.value.get("basic") {
                    let message = format!(
                        "`{}` accepts passwords on `{}` without TLS: they can be intercepted",
                        member.key, open.addr,
                    );
                    self.basic_warning(
                        basic.at,
                        message,
                        "set `tls` of the listener, or list the \
                        TLS proxy in front of it under `trust`",
                    );
                }
            }
        }
        for member in draft.table("upstreams") {
            let fields = Fields::new(&member.value, Upstream::SHAPE);
            let credential = member.value.get("auth").and_then(|auth| auth.get("basic"));
            let Some(basic) = credential else { continue };
            let targets = fields.many("targets").iter().filter_map(weighted_target);
            let is_open = |target: &crate::config::Target| {
                target.scheme == Scheme::Http && !is_local(&target.host)
            };
            if let Some(target) = targets.into_iter().find(is_open) {
                let message = format!(
                    "the password of `{}` is sent to `{}` without TLS: it can be intercepted",
                    member.key,
                    target.name(),
                );
                self.basic_warning(basic.at, message, "use an `https://…` target");
            }
        }
    }

    fn basic_warning(&mut self, at: Span, message: String, help: &str) {
        self.report.warning_if_valid(codes::BASIC_WITHOUT_TLS, at, message).help(help);
    }

    /// Any user with write permission can add admin tokens to the data folder.
    fn warn_of_data(&mut self, root: &Fields<'_>, data: &Path) {
        if self.draft.sealed {
            return;
        }
        let Ok(found) = data.metadata() else { return };
        let mode = found.permissions().mode() & 0o777;
        let at = root.get("data").map_or(root.node().at, |node: &Node| node.at);
        let folder = data.display();
        let help = format!("run `chmod 700 {folder}`; weir creates a missing folder with mode 700");
        if mode & 0o002 != 0 {
            let message = format!(
                "all users of this machine can write to the data folder {folder} (mode \
                 {mode:03o}), including admin tokens"
            );
            self.report.error(codes::OPEN_DATA_FOLDER, at, message).help(help);
        } else if mode & 0o027 != 0 {
            let message =
                format!("other users can read the data folder {folder} (mode {mode:03o})");
            self.report.warning_if_valid(codes::OPEN_DATA_FOLDER, at, message).help(help);
        }
    }
}
