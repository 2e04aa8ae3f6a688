//! API composition: several upstream calls for one request.

use super::proxy::template;
use super::xml::{FROM, XML_KEY};
use super::{Fields, Resolver};
use crate::config::{Call, Handler, ParameterValue};
use crate::formats;
use crate::path_pattern::PathPattern;
use weir_document::draft::{Member, Node};
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::{Key, Kind, Names, format};
use weir_model::UpstreamId;

const CALLS: Kind = Kind::Table(Names::Name, &Kind::Object(&CALL));

/// `calls` of a route.
pub(super) const CALLS_KEY: Key = Key::new(
    "calls",
    CALLS,
    "API composition: at most 16 upstreams are called concurrently. The response is a JSON object with one member per call; `response: {map: …}` may transform it.",
);

settings! {
    /// A request to an upstream. It contains only the values below, the trace context and the
    /// transaction id; nothing else of the client's request is forwarded.
    pub(super) static CALL is "a call" {
        /// Name of the upstream.
        upstream = by_hand(Kind::Format(format::NAME)).required(),
        /// Path, with parameters of the route: `/orders/{id}`.
        path = by_hand(Kind::Text).required(),
        /// Request method.
        method = by_hand(Kind::Format(format::METHOD)).absent("get, or post with a body"),
        /// Query parameters: strings, or `{cel: …}`. A parameter without a value is omitted.
        query = by_hand(Kind::Table(
            Names::Parameter,
            &Kind::Either(&[Kind::Scalar, Kind::Object(&COMPUTED)]),
        )),
        /// Request headers.
        headers = by_hand(Kind::Object(CallHeaders::SHAPE)),
        /// Map of the request body: a JSON structure whose leaves are RFC 9535 paths into the body
        /// of the client's request (`$.a.b`), `{literal: …}` or `{cel: …}`.
        body = by_hand(Kind::Json).absent("no body"),
        /// Time for the entire call.
        timeout = by_hand(Kind::Format(format::POSITIVE_DURATION))
            .absent("that of the upstream, to the first byte"),
        /// Value in place of a failed call: no response, a status other than 2xx, or a body that
        /// cannot be parsed.
        fallback = by_hand(Kind::Json).absent("the request fails"),
        /// Statuses of the upstream whose response is sent to the client unchanged, in place of the
        /// composed one.
        pass = by_hand(Kind::OneOrMany(&Kind::Integer(300, 599))).absent("none"),
        from = same(FROM),
        xml = same(XML_KEY),
    },
    misspellings: &[
        ("url", "write `upstream: NAME` and `path: /path`"),
        ("get", "write `path: /path`"),
        ("post", "write `method: post` and `path: /path`"),
        ("map", "the response of a call is mapped by `response: {map: …}` of the route"),
        ("default", "write `fallback`"),
        ("optional", "write `fallback: null`"),
    ],
}

settings! {
    /// Request headers of a call.
    struct CallHeaders is "the headers of a call" {
        /// Headers of the client's request to forward, such as `authorization`.
        forward: Vec<String> =
            names(Kind::OneOrMany(&Kind::Format(format::EDITABLE_HEADER))).absent("none"),
        /// Headers to set; each replaces a forwarded one of the same name.
        set: Vec<(String, String)> = headers(),
    },
    misspellings: &[("pass", "write `forward`")],
}

settings! {
    /// A string, number or boolean computed by an expression.
    pub(super) static COMPUTED is "a computed value" {
        /// CEL over `request`, `claims` and `consumer`.
        cel = by_hand(Kind::Format(formats::CEL)).required(),
    }
}

/// Maximum number of calls of one request.
const MAX_CALLS: usize = 16;

impl Resolver<'_> {
    pub(super) fn calls(&mut self, node: &Node, pattern: Option<&PathPattern>) -> Option<Handler> {
        let members = node.members()?;
        if members.is_empty() || members.len() > MAX_CALLS {
            let message = format!("`calls` takes 1 to {MAX_CALLS} calls, not {}", members.len());
            self.report.error(codes::BAD_VALUE, node.at, message);
            return None;
        }
        let calls: Vec<_> = members.iter().map(|member| self.call(member, pattern)).collect();
        calls.into_iter().collect::<Option<Vec<_>>>().map(Handler::Calls)
    }

    fn call(&mut self, member: &Member, pattern: Option<&PathPattern>) -> Option<Call> {
        let fields = Fields::new(&member.value, &CALL);
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
        let query =
            fields.members("query").iter().map(|m| Some((m.key.clone(), self.parameter_value(m)?)));
        let query: Option<Vec<_>> = query.collect();
        let sent = CallHeaders::read(&fields.object_or_empty("headers", CallHeaders::SHAPE));
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
            forward: sent.forward,
            headers: sent.set,
            body,
            timeout: fields.duration("timeout"),
            fallback,
            pass: fields.numbers("pass").unwrap_or_default(),
            from: self.sources(&fields),
        })
    }

    fn parameter_value(&mut self, member: &Member) -> Option<ParameterValue> {
        if let Some(text) = member.value.text() {
            return Some(ParameterValue::Text(text.to_owned()));
        }
        let fields = Fields::new(&member.value, &COMPUTED);
        self.expression(fields.get("cel")?, &weir_expr::VARIABLES).map(ParameterValue::Expr)
    }
}
