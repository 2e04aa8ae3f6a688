//! Transformations of bodies by maps and scripts.

use super::headers::HEADERS;
use super::script::SCRIPT;
use super::xml::{FROM, XML_KEY, formats_key};
use super::{Fields, Resolver};
use crate::config::{BodyMap, Structure};
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::typed::{Defaulted, texts};
use weir_document::shape::{Group, Key, Kind, Shape};
use weir_expr::map::JsonMap;

const MAP: &str = "Map of the body: a JSON structure whose leaves are RFC 9535 paths into the body (`$.a.b`), `{literal: …}` or `{cel: …}`.";

const REQUEST_AS: Defaulted<Vec<String>> =
    texts("as", Kind::Enum(&["json", "xml"]), "Format of the body that the map yields.")
        .default("json");

/// `request` of a route.
pub(super) static REQUEST: Shape = Shape {
    groups: MAPS,
    ..Shape::new(
        "the request transformation",
        "Transformations before the handler: at most one of `map` and `script`.",
        &[
            Key::new("map", Kind::Json, MAP),
            FROM.key,
            REQUEST_AS.key,
            XML_KEY,
            Key::new(
                "script",
                Kind::Either(&[Kind::Text, Kind::Object(&SCRIPT)]),
                "A script whose default export returns the new body, or `request.with({headers, body})`; a `Response` is sent to the client.",
            ),
            HEADERS,
        ],
    )
};

const RESPONSE_AS: Defaulted<Vec<String>> = formats_key(
    "Formats of the mapped body in order of preference; the Accept header selects one.",
);

/// `response` of a route.
pub(super) static RESPONSE: Shape = Shape {
    groups: MAPS,
    ..Shape::new(
        "the response transformation",
        "Transformations after the handler: at most one of `map`, which applies to responses with a 2xx status in the formats of `from`, and `script`, which applies to all responses.",
        &[
            Key::new("map", Kind::Json, MAP),
            FROM.key,
            RESPONSE_AS.key,
            XML_KEY,
            Key::new(
                "script",
                Kind::Either(&[Kind::Text, Kind::Object(&SCRIPT)]),
                "A script whose default export receives the response and the request, and returns the new body or a complete `Response`.",
            ),
            HEADERS,
        ],
    )
};

const MAPS: &[Group] = &[Group { keys: &["map", "script"], required: false }];

impl Resolver<'_> {
    /// Warns of an expensive path.
    pub(super) fn needs_tree(&mut self, path: &str, node: &Node) {
        let message = format!("`{path}` needs a tree of the entire body");
        self.report
            .warning(codes::TREE_MAP, node.at, message)
            .help("paths of names and indexes (`$.a.b[0]`) need a single pass");
    }

    /// The map in `request` or `response`.
    pub(super) fn body_map(&mut self, fields: &Fields<'_>, root: &str) -> Option<BodyMap> {
        for key in ["from", "as", "xml"] {
            if let (Some(node), None) = (fields.get(key), fields.raw("map")) {
                self.report
                    .error(codes::CONFLICT, node.at, format!("`{key}` needs `map`"))
                    .help("`map: \"$\"` yields the entire body");
            }
        }
        if let Some(node) = fields.get("script") {
            return self.map_script(node).map(|script| BodyMap::Script(Box::new(script)));
        }
        let map = fields.raw("map").and_then(|node| self.map(node))?;
        let (from, formats) = (self.sources(fields), self.formats(fields, 0, root));
        Some(BodyMap::Structure(Box::new(Structure { map, from, formats })))
    }

    /// Compiles a map.
    pub(super) fn map(&mut self, node: &Node) -> Option<JsonMap> {
        let json = node.to_json().ok()?;
        let template = match serde_json::from_str(&json) {
            Ok(template) => template,
            Err(error) => {
                self.report.error(codes::BAD_MAP, node.at, format!("invalid map: {error}"));
                return None;
            }
        };
        match JsonMap::compile(&template) {
            Ok(map) => {
                map.tree_paths().for_each(|path| self.needs_tree(path, node));
                Some(map)
            }
            Err(faults) => {
                for fault in faults {
                    let at = leaf(node, &fault.at).at;
                    self.report.error(codes::BAD_MAP, at, fault.message);
                }
                None
            }
        }
    }
}

/// The node at a path of member names and indexes, as far as the path exists.
fn leaf<'n>(node: &'n Node, path: &[String]) -> &'n Node {
    let mut node = node;
    for step in path {
        let next = match node.items() {
            Some(items) => step.parse().ok().and_then(|i: usize| items.get(i)),
            None => node.get(step),
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    node
}
