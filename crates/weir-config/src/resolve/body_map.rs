//! Transformations of bodies by maps and scripts.

use super::script::ScriptKeys;
use super::xml::{FROM, XML_KEY, formats_key};
use super::{Fields, Resolver};
use crate::config::{BodyMap, HeaderEdits, Structure};
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::{Group, Key, Kind};
use weir_expr::map::JsonMap;

const MAP: Key = Key::new(
    "map",
    Kind::Json,
    "Map of the body: a JSON structure whose leaves are RFC 9535 paths into the body (`$.a.b`), `{literal: …}` or `{cel: …}`.",
);

settings! {
    /// Transformations before the handler: at most one of `map` and `script`.
    pub(super) static REQUEST is "the request transformation" {
        map = same(MAP),
        from = same(FROM),
        /// Format of the body that the map yields.
        format = by_hand(Kind::Enum(&["json", "xml"])).name("as").default("json"),
        xml = same(XML_KEY),
        /// A script whose default export returns the new body, or `request.with({headers, body})`;
        /// a `Response` is sent to the client.
        script = by_hand(Kind::Either(&[Kind::Text, Kind::Object(ScriptKeys::SHAPE)])),
        /// Header edits.
        headers = by_hand(Kind::Object(HeaderEdits::SHAPE)),
    },
    groups: MAPS,
}

settings! {
    /// Transformations after the handler: at most one of `map`, which applies to responses with a
    /// 2xx status in the formats of `from`, and `script`, which applies to all responses.
    pub(super) static RESPONSE is "the response transformation" {
        map = same(MAP),
        from = same(FROM),
        formats = same(formats_key(
            "Formats of the mapped body in order of preference; the Accept header selects one.",
        )),
        xml = same(XML_KEY),
        /// A script whose default export receives the response and the request, and returns the new
        /// body or a complete `Response`.
        script = by_hand(Kind::Either(&[Kind::Text, Kind::Object(ScriptKeys::SHAPE)])),
        /// Header edits.
        headers = by_hand(Kind::Object(HeaderEdits::SHAPE)),
    },
    groups: MAPS,
}

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
