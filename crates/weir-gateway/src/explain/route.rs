//! The nearest routes and the reasons for the mismatch, evaluated by the router that serves.

use crate::explanation::Other;
use crate::route::{Found, Router};
use weir_config::{Api, Config, Route, Segment};

/// Maximum number of routes reported.
const MOST: usize = 5;

/// The routes nearest to a request, except the matched one.
pub(super) fn others(
    config: &Config,
    host: &str,
    path: &str,
    method: &str,
    matched: Option<(usize, usize)>,
) -> Vec<Other> {
    let mut near = Vec::new();
    for (api_index, api) in config.apis.iter().enumerate() {
        for (index, route) in api.routes.iter().enumerate() {
            if matched != Some((api_index, index)) {
                let (nearness, why) = compare(api, route, (host, path, method), matched.is_some());
                near.push((nearness, api, route, why));
            }
        }
    }
    near.sort_by_key(|(nearness, ..)| std::cmp::Reverse(*nearness));
    near.truncate(MOST);
    let others = near.into_iter().map(|(_, api, route, why)| Other {
        api: api.name.clone(),
        operation: route.operation.clone(),
        methods: route.methods.clone(),
        path: api.path_of(route),
        why,
    });
    others.collect()
}

/// Similarity of a route: host, base, path, method, and number of common segments.
type Nearness = (bool, bool, bool, bool, usize);

fn compare(
    api: &Api,
    route: &Route,
    (host, path, method): (&str, &str, &str),
    matched: bool,
) -> (Nearness, String) {
    let alone = Router::of_one(api, route);
    let knows_host = alone.knows_host(host);
    let found = alone.find(host, path, method);
    let below = alone.below(host, path);
    let (shared, segments) = below.as_ref().map_or((0, 0), |below| {
        let fits = route
            .path
            .segments
            .iter()
            .zip(below)
            .take_while(|(pattern, segment)| takes(pattern, segment));
        (fits.count(), below.len())
    });
    let takes_path = matches!(found, Found::Route { .. } | Found::OtherMethods { .. });
    let takes_method = matches!(found, Found::Route { .. });
    let why = if !knows_host {
        format!("the API has the hosts {}, not {host}", api.hosts.join(", "))
    } else if below.is_none() {
        format!("the path is not below the API's base {}", api.base)
    } else if takes_method && matched {
        "also matches, with a lower priority".to_owned()
    } else if takes_method {
        "also matches, but another API owns the path".to_owned()
    } else if takes_path {
        format!("accepts {}, not {method}", route.methods.join(", "))
    } else if shared < route.path.segments.len() && shared < segments {
        format!("segment {} below {} differs", shared + 1, api.base)
    } else if shared < route.path.segments.len() {
        "the path is shorter".to_owned()
    } else {
        "the path is longer".to_owned()
    };
    ((knows_host, below.is_some(), takes_path, takes_method, shared), why)
}

/// Whether a segment of a pattern matches a segment of a path.
fn takes(pattern: &Segment, segment: &str) -> bool {
    match pattern {
        Segment::Literal(text) => *text == weir_http::path::decode(segment),
        Segment::Template(_) => !segment.is_empty(),
    }
}
