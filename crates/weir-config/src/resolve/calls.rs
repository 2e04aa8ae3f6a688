//! API composition: several upstream calls for one request.

use super::proxy::template;
use super::xml::{FROM, XML_KEY};
use super::{Fields, Resolver, headers};
use crate::config::{Call, Handler, ParameterValue, PathPattern};
use crate::formats;
use weir_document::draft::{Member, Node};
use weir_document::finding::codes;
use weir_document::shape::{Key, Kind, Names, Shape, format};
use weir_model::UpstreamId;

const CALLS: Kind = Kind::Table(Names::Name, &Kind::Object(&CALL));

/// `calls` of a route.
pub(super) const CALLS_KEY: Key = Key::new(
    "calls",
    CALLS,
    "API composition: at most 16 upstreams are called concurrently. The response is a JSON object with one member per call; `response: {map: …}` may transform it.",
);

/// A value of `calls`.
pub(super) static CALL: Shape = Shape {
    misspellings: &[
        ("url", "write `upstream: NAME` and `path: /path`"),
        ("get", "write `path: /path`"),
        ("post", "write `method: post` and `path: /path`"),
        ("map", "the response of a call is mapped by `response: {map: …}` of the route"),
        ("default", "write `fallback`"),
        ("optional", "write `fallback: null`"),
    ],
    ..Shape::new(
        "a call",
        "A request to an upstream. It contains only the values below, the trace context and the transaction id; nothing else of the client's request is forwarded.",
        &[
            Key::new("upstream", Kind::Format(format::NAME), "Name of the upstream.").required(),
            Key::new("path", Kind::Text, "Path, with parameters of the route: `/orders/{id}`.").required(),
            Key::new("method", Kind::Format(format::METHOD), "Request method.").absent("get, or post with a body"),
            Key::new("query", Kind::Table(Names::Parameter, &Kind::Either(&[Kind::Scalar, Kind::Object(&COMPUTED)])), "Query parameters: strings, or `{cel: …}`. A parameter without a value is omitted."),
            Key::new("headers", Kind::Object(&CALL_HEADERS), "Request headers."),
            Key::new("body", Kind::Json, "Map of the request body: a JSON structure whose leaves are RFC 9535 paths into the body of the client's request (`$.a.b`), `{literal: …}` or `{cel: …}`.").absent("no body"),
            Key::new("timeout", Kind::Format(format::POSITIVE_DURATION), "Time for the entire call.").absent("that of the upstream, to the first byte"),
            Key::new("fallback", Kind::Json, "Value in place of a failed call: no response, a status other than 2xx, or a body that cannot be parsed.").absent("the request fails"),
            Key::new("pass", Kind::OneOrMany(&Kind::Integer(300, 599)), "Statuses of the upstream whose response is sent to the client unchanged, in place of the composed one.").absent("none"),
            FROM.key,
            XML_KEY,
        ],
    )
};

/// `headers` of a call.
pub(super) static CALL_HEADERS: Shape = Shape {
    misspellings: &[("pass", "write `forward`")],
    ..Shape::new(
        "the headers of a call",
        "Request headers of a call.",
        &[
            Key::new(
                "forward",
                Kind::OneOrMany(&Kind::Format(format::EDITABLE_HEADER)),
                "Headers of the client's request to forward, such as `authorization`.",
            )
            .absent("none"),
            Key::new(
                "set",
                Kind::Table(Names::Header, &Kind::Scalar),
                "Headers to set; each replaces a forwarded one of the same name.",
            ),
        ],
    )
};

/// A computed value of `query`.
pub(super) static COMPUTED: Shape = Shape::new(
    "a computed value",
    "A string, number or boolean computed by an expression.",
    &[Key::new("cel", Kind::Format(formats::CEL), "CEL over `request`, `claims` and `consumer`.")
        .required()],
);

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
        let sent = fields.object("headers", &CALL_HEADERS);
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

    fn parameter_value(&mut self, member: &Member) -> Option<ParameterValue> {
        if let Some(text) = member.value.text() {
            return Some(ParameterValue::Text(text.to_owned()));
        }
        let fields = Fields::new(&member.value, &COMPUTED);
        self.expression(fields.get("cel")?, &weir_expr::VARIABLES).map(ParameterValue::Expr)
    }
}
