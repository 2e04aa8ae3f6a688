use super::*;
use proptest::prelude::*;
use weir_config::*;

fn pattern(text: &str) -> PathPattern {
    let wildcard = text.ends_with("/*");
    let text_segments = text.strip_suffix("/*").unwrap_or(text);
    let segments = path::segments(text_segments)
        .map(|s| match s.strip_prefix('{').and_then(|s| s.strip_suffix('}')) {
            Some(name) => Segment::Template(name.to_owned()),
            None => Segment::Literal(path::decode(s).into_owned()),
        })
        .collect();
    PathPattern { text: text.to_owned(), segments, wildcard }
}

fn route(methods: &[&str], path: &str) -> Route {
    Route {
        operation: path.to_owned(),
        methods: methods.iter().map(|m| (*m).to_owned()).collect(),
        path: pattern(path),
        access: Access::default(),
        path_normalization: PathNormalization::default(),
        clients: vec![],
        rate_limits: Vec::new(),
        body_limit: 0,
        response_limit: None,
        timeout: None,
        request_headers: HeaderEdits::default(),
        validation: None,
        request_map: None,
        handler: Handler::Reply(Reply { status: 204, headers: Vec::new(), body: ReplyBody::Empty }),
        response_map: None,
        response_headers: HeaderEdits::default(),
        cache: None,
        compress: Compression { enabled: false, min_size: 0, level: 1, codings: [None; 3] },
        capture: Capture::default(),
        count: weir_config::CountRule::default(),
        resubmit: weir_config::Resubmit::default(),
        location: Location::default(),
    }
}

fn api(hosts: &[&str], base: &str, routes: Vec<Route>) -> Api {
    Api {
        name: base.to_owned(),
        hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
        base: base.to_owned(),
        cors: None,
        routes,
        openapi: None,
        location: Location::default(),
    }
}

fn router(apis: Vec<Api>) -> Router {
    Router::new(&config(apis))
}

fn config(apis: Vec<Api>) -> Config {
    let (config, _) =
        load_text("weir.yaml", "listen: 127.0.0.1:0\n").finish().expect("a configuration");
    Config { apis, ..config }
}

#[test]
fn literal_goes_before_template_before_wildcard() {
    let router = router(vec![api(
        &[],
        "/",
        vec![
            route(&[], "/*"),
            route(&["GET"], "/x/{id}"),
            route(&["GET"], "/x/me"),
            route(&["GET"], "/x/{id}/y"),
            route(&["POST"], "/x/{id}"),
            route(&["GET"], "/"),
            route(&["GET"], "/x/a%2Fb"),
        ],
    )]);
    let find = |path, method| match router.find("h", path, method) {
        Found::Route { route, .. } => Some(route),
        _ => None,
    };
    assert_eq!(find("/x/me", "GET"), Some(2));
    assert_eq!(find("/x/me", "POST"), Some(4));
    assert_eq!(find("/x/7", "GET"), Some(1));
    assert_eq!(find("/x/me/y", "GET"), Some(3));
    assert_eq!(find("/x/me/z", "GET"), Some(0));
    assert_eq!(find("/x/", "GET"), Some(0), "a template takes no empty segment");
    assert_eq!(find("/", "GET"), Some(5));
    assert_eq!(find("/x/a%2Fb", "GET"), Some(6));
    assert_eq!(find("/x/a/b", "GET"), Some(0));
    assert_eq!(find("/x/7", "HEAD"), Some(1), "HEAD goes where GET does");
}

#[test]
fn a_route_that_says_head_wins_over_one_of_the_same_path_that_says_get() {
    let routes = vec![route(&["GET"], "/x"), route(&["HEAD"], "/x"), route(&["HEAD"], "/*")];
    let router = router(vec![api(&[], "/", routes)]);
    assert_eq!(router.find("h", "/x", "HEAD"), Found::Route { api: 0, route: 1 });
    assert_eq!(router.find("h", "/x", "GET"), Found::Route { api: 0, route: 0 });
    assert_eq!(router.find("h", "/y", "HEAD"), Found::Route { api: 0, route: 2 });
    let routes = vec![route(&[], "/x"), route(&["GET"], "/x")];
    let router = self::router(vec![api(&[], "/", routes)]);
    assert_eq!(router.find("h", "/x", "HEAD"), Found::Route { api: 0, route: 1 }, "as GET");
    assert_eq!(router.find("h", "/x", "POST"), Found::Route { api: 0, route: 0 });
}

#[test]
fn a_base_is_decoded_once() {
    // Spellings in the request: /50%25 and /a%252Fb.
    let routes = || vec![route(&["GET"], "/x")];
    let router = router(vec![api(&[], "/50%", routes()), api(&[], "/a%2Fb", routes())]);
    assert_eq!(router.find("h", "/50%25/x", "GET"), Found::Route { api: 0, route: 0 });
    assert_eq!(router.find("h", "/a%252Fb/x", "GET"), Found::Route { api: 1, route: 0 });
    assert_eq!(router.find("h", "/a%2Fb/x", "GET"), Found::NoApi);
}

#[test]
fn a_route_that_names_the_method_goes_before_one_for_every_method() {
    let router = router(vec![api(&[], "/", vec![route(&[], "/x"), route(&["GET"], "/x")])]);
    assert_eq!(router.find("h", "/x", "GET"), Found::Route { api: 0, route: 1 });
    assert_eq!(router.find("h", "/x", "POST"), Found::Route { api: 0, route: 0 });
}

#[test]
fn methods_that_are_missing_are_named() {
    let router = router(vec![api(
        &[],
        "/api",
        vec![route(&["GET"], "/x/me"), route(&["PUT"], "/x/{id}"), route(&["GET"], "/y")],
    )]);
    let allow = |path: &str| match router.find("h", path, "DELETE") {
        Found::OtherMethods { allow, .. } => allow.join(", "),
        other => format!("{other:?}"),
    };
    assert_eq!(allow("/api/x/me"), "GET, HEAD, OPTIONS, PUT");
    assert_eq!(allow("/api/x/7"), "OPTIONS, PUT");
    assert_eq!(router.find("h", "/api/y", "HEAD"), Found::Route { api: 0, route: 2 });
    assert_eq!(router.find("h", "/api/z", "GET"), Found::NoRoute { api: 0 });
    assert_eq!(router.find("h", "/apis", "GET"), Found::NoApi);
}

#[test]
fn the_longest_base_wins_and_nothing_falls_through() {
    let router = router(vec![
        api(&[], "/", vec![route(&[], "/*")]),
        api(&[], "/a/b", vec![route(&["GET"], "/x")]),
        api(&["one.example"], "/a", vec![route(&[], "/*")]),
        api(&["*.example"], "/a", vec![route(&[], "/*")]),
    ]);
    let api = |host: &str, path: &str| match router.find(host, path, "GET") {
        Found::Route { api, .. } | Found::NoRoute { api } => Some(api),
        _ => None,
    };
    assert_eq!(api("h", "/a"), Some(0));
    assert_eq!(router.find("h", "/a/b/y", "GET"), Found::NoRoute { api: 1 });
    assert_eq!(api("one.example", "/a/q"), Some(2));
    assert_eq!(api("two.example", "/a/q"), Some(3));
    assert_eq!(api("one.example", "/a/b/x"), Some(1), "the longest base, whatever the host");
    assert_eq!(api("example", "/a"), Some(0));
}

proptest! {
    /// The tree finds the same route as a comparison with every route.
    #[test]
    fn the_tree_agrees_with_a_list(
        patterns in proptest::collection::vec("(/([ab]|\\{x\\})){1,4}(/\\*)?", 1..12),
        path in "(/[abc]?){1,5}",
    ) {
        let mut unique: Vec<String> = Vec::new();
        for text in patterns {
            if !unique.contains(&text) {
                unique.push(text);
            }
        }
        let router = router(vec![api(&[], "/", unique.iter().map(|p| route(&[], p)).collect())]);
        let matches = |text: &str| {
            let p = pattern(text);
            let have: Vec<&str> = path::segments(&path).collect();
            let fits = p.segments.iter().zip(&have).all(|(want, have)| match want {
                Segment::Literal(text) => text == have,
                Segment::Template(_) => !have.is_empty(),
            });
            let long_enough = have.len() >= p.segments.len();
            fits && long_enough && (p.wildcard || have.len() == p.segments.len())
        };
        // Segment by segment: literal 0, template 1, wildcard 2.
        let rank = |text: &str| -> Vec<u8> {
            let p = pattern(text);
            let mut ranks: Vec<u8> =
                p.segments.iter().map(|s| u8::from(matches!(s, Segment::Template(_)))).collect();
            ranks.push(if p.wildcard { 2 } else { 0 });
            ranks
        };
        let best = unique.iter().enumerate().filter(|(_, t)| matches(t)).min_by_key(|(_, t)| rank(t));
        let found = match router.find("h", &path, "GET") {
            Found::Route { route, .. } => Some(route),
            _ => None,
        };
        prop_assert_eq!(found, best.map(|(index, _)| index));
    }
}
