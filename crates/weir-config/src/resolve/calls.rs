//! Calls that are made to answer one request.

use super::keys;
use super::proxy::template;
use super::{Fields, Resolver, headers};
use crate::config::{Call, Given, Handler, PathPattern, UpstreamId};
use crate::draft::{Member, Node};
use crate::finding::codes;

/// Most calls of one request.
const MOST: usize = 16;

impl Resolver<'_> {
    pub(super) fn calls(&mut self, node: &Node, pattern: Option<&PathPattern>) -> Option<Handler> {
        let members = node.members()?;
        if members.is_empty() || members.len() > MOST {
            let message = format!("`calls` takes 1 to {MOST} calls, not {}", members.len());
            self.report.error(codes::BAD_VALUE, node.at, message);
            return None;
        }
        let calls: Vec<_> = members.iter().map(|member| self.call(member, pattern)).collect();
        calls.into_iter().collect::<Option<Vec<_>>>().map(Handler::Calls)
    }

    fn call(&mut self, member: &Member, pattern: Option<&PathPattern>) -> Option<Call> {
        let fields = Fields::new(&member.value, &keys::CALL);
        member.value.members()?;
        let upstream = fields
            .get("upstream")
            .and_then(|n| self.upstreams.find(n.text()?, n.at, self.report))
            .map(UpstreamId);
        let path = fields.get("path").and_then(|node| match template(node.text()?, pattern?) {
            Ok(parts) => Some(parts),
            Err(fault) => {
                self.fault(node, fault);
                None
            }
        });
        let body = match fields.raw("body") {
            Some(node) => Some(self.map(node)?),
            None => None,
        };
        let method = match (fields.text("method"), &body) {
            (Some(method), _) => method.to_ascii_uppercase(),
            (None, Some(_)) => "POST".to_owned(),
            (None, None) => "GET".to_owned(),
        };
        let query = fields.members("query").iter().map(|m| Some((m.key.clone(), self.given(m)?)));
        let query: Option<Vec<_>> = query.collect();
        let sent = fields.object("headers", &keys::CALL_HEADERS);
        let forward = sent.map(|sent| sent.texts("forward")).unwrap_or_default();
        let fallback = match fields.raw("fallback") {
            Some(node) => Some(node.to_json().ok()?),
            None => None,
        };
        Some(Call {
            name: member.key.clone(),
            upstream: upstream?,
            method,
            path: path?,
            query: query?,
            forward: forward.iter().map(|name| name.to_ascii_lowercase()).collect(),
            headers: sent.map(|sent| headers::pairs(sent.members("set"))).unwrap_or_default(),
            body,
            timeout: fields.duration("timeout"),
            fallback,
            pass: fields.numbers("pass").unwrap_or_default(),
            from: self.sources(&fields),
        })
    }

    fn given(&mut self, member: &Member) -> Option<Given> {
        if let Some(text) = member.value.text() {
            return Some(Given::Text(text.to_owned()));
        }
        let fields = Fields::new(&member.value, &keys::COMPUTED);
        self.expression(fields.get("cel")?, &crate::expr::VARIABLES).map(Given::Expr)
    }
}
