//! Trees of path segments.

use super::Map;
use weir_config::{PathPattern, Segment};
use weir_http::path::{self, Segments};

/// Base paths, and the API under each.
#[derive(Debug, Default)]
pub(super) struct Bases {
    api: Option<usize>,
    below: Map<String, Bases>,
}

impl Bases {
    /// `base` is decoded already.
    pub(super) fn add(&mut self, base: &str, api: usize) {
        let mut node = self;
        for segment in path::segments(base) {
            node = node.below.entry(segment.to_owned()).or_default();
        }
        node.api = Some(api);
    }

    /// The API with the longest base that is a prefix of `path`.
    pub(super) fn longest<'p>(&self, path: &'p str) -> Option<Under<'p>> {
        let mut node = self;
        let mut below = path::segments(path);
        let mut depth = 0;
        let mut best = self.api.map(|api| Under { api, depth, below: below.clone() });
        while !node.below.is_empty()
            && let Some(segment) = below.next()
            && let Some(next) = node.below.get(path::decode(segment).as_ref())
        {
            node = next;
            depth += 1;
            if let Some(api) = node.api {
                best = Some(Under { api, depth, below: below.clone() });
            }
        }
        best
    }
}

/// A path under the base of an API.
#[derive(Debug)]
pub(super) struct Under<'p> {
    pub(super) api: usize,
    /// Segments of the base.
    pub(super) depth: usize,
    /// Segments after the base.
    pub(super) below: Segments<'p>,
}

/// The routes of one API, below its base.
#[derive(Debug, Default)]
pub(super) struct Routes {
    literal: Map<String, Routes>,
    template: Option<Box<Routes>>,
    /// Routes that end here.
    here: Vec<Entry>,
    /// Routes with a wildcard at this node.
    rest: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Empty: every method.
    methods: Vec<String>,
    route: usize,
}

impl Entry {
    fn names(&self, method: &str) -> bool {
        self.methods.iter().any(|m| m == method)
    }
}

impl Routes {
    pub(super) fn add(&mut self, pattern: &PathPattern, methods: &[String], route: usize) {
        let mut node = self;
        for segment in &pattern.segments {
            node = match segment {
                Segment::Literal(text) => node.literal.entry(text.clone()).or_default(),
                Segment::Template(_) => node.template.get_or_insert_default(),
            };
        }
        let entries = if pattern.wildcard { &mut node.rest } else { &mut node.here };
        entries.push(Entry { methods: methods.to_vec(), route });
    }

    /// The best route that matches path and method. Of routes with the same path, one that names
    /// the method precedes one for every method. HEAD matches routes for GET, unless a route of the
    /// same path names HEAD.
    pub(super) fn find<'a>(
        &self,
        segments: impl Iterator<Item = &'a str> + Clone,
        method: &str,
    ) -> Option<usize> {
        self.visit(segments, &mut |entries| {
            let first = |fits: &dyn Fn(&Entry) -> bool| entries.iter().find(|e| fits(e));
            first(&|e| e.names(method))
                .or_else(|| first(&|e| method == "HEAD" && e.names("GET")))
                .or_else(|| first(&|e| e.methods.is_empty()))
                .map(|e| e.route)
        })
    }

    /// Methods of all routes that match the path; empty if none matches.
    pub(super) fn methods<'a>(
        &self,
        segments: impl Iterator<Item = &'a str> + Clone,
    ) -> Vec<String> {
        let mut methods: Vec<String> = Vec::new();
        self.visit(segments, &mut |entries| -> Option<()> {
            methods.extend(entries.iter().flat_map(|e| e.methods.iter().cloned()));
            None
        });
        if methods.is_empty() {
            return methods;
        }
        if methods.iter().any(|m| m == "GET") {
            methods.push("HEAD".to_owned());
        }
        methods.push("OPTIONS".to_owned());
        methods.sort();
        methods.dedup();
        methods
    }

    /// Visits the entries of all matches, the most specific first, until `visit` returns a value.
    /// The work is bounded by the number of nodes, for every path.
    fn visit<'a, T>(
        &self,
        mut segments: impl Iterator<Item = &'a str> + Clone,
        visit: &mut dyn FnMut(&[Entry]) -> Option<T>,
    ) -> Option<T> {
        let at_rest = &self.rest;
        let found = match segments.next().map(path::decode) {
            None => visit(&self.here),
            Some(segment) => self.visit_below(&segment, segments, visit),
        };
        found.or_else(|| if at_rest.is_empty() { None } else { visit(at_rest) })
    }

    fn visit_below<'a, T>(
        &self,
        segment: &str,
        segments: impl Iterator<Item = &'a str> + Clone,
        visit: &mut dyn FnMut(&[Entry]) -> Option<T>,
    ) -> Option<T> {
        if let Some(below) = self.literal.get(segment)
            && let Some(found) = below.visit(segments.clone(), visit)
        {
            return Some(found);
        }
        match &self.template {
            Some(below) if !segment.is_empty() => below.visit(segments, visit),
            _ => None,
        }
    }
}
