//! Requests of a scenario.

use super::body::{self, Bodies, BodyKeys};
use super::checks::{CheckKeys, ExtractKeys};
use super::fields::{ONLY, TIME, valid, word};
use super::texts::Known;
use super::{Target, checks};
use crate::program::Redirects;
use crate::program::{
    ClientOptions, Distribution, Origin, Pause, Program, Request, StatusSet, Step, Text, TextPart,
    Timeouts, Url,
};
use std::path::Path;
use std::time::Duration;
use weir_document::draft::{Member, Node};
use weir_document::finding::{Diagnostics, codes};
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Group, Key, Kind, Names};

settings! {
    /// A request. Its texts may contain `${…}`.
    pub(super) struct RequestKeys is "a request" {
        /// Label of its samples.
        name: Option<String> = text(Kind::Text).absent("method and path"),
        get = same(METHOD).name("get"),
        post = same(METHOD).name("post"),
        put = same(METHOD).name("put"),
        patch = same(METHOD).name("patch"),
        delete = same(METHOD).name("delete"),
        head = same(METHOD).name("head"),
        options = same(METHOD).name("options"),
        /// Header fields.
        headers = by_hand(Kind::Table(Names::Header, &Kind::Scalar)),
        /// The body as a text, or generated.
        body = by_hand(Kind::Either(&[Kind::Text, Kind::Object(BodyKeys::SHAPE)])),
        /// The body as a JSON value, sent as `application/json`.
        json = by_hand(Kind::Json),
        /// Checks of the response.
        checks = by_hand(Kind::List(&Kind::Object(CheckKeys::SHAPE))),
        /// Expected statuses, counted separately from errors: `503`, `5xx`.
        expected = by_hand(Kind::OneOrMany(&Kind::Scalar)),
        /// Values extracted from the response: `${name}` in later requests.
        extract = by_hand(Kind::Table(Names::Name, &Kind::Object(ExtractKeys::SHAPE))),
        only = same(ONLY),
        /// Pause after the request.
        think = by_hand(Kind::Either(&[TIME, Kind::Object(Think::SHAPE)])),
        /// Behaviour after a redirect.
        redirects: Redirects = word().default("ignore"),
        /// Reuse the connection.
        keep_alive: bool = boolean().default("true"),
        /// Timeout to the end of the response.
        timeout: Option<Duration> = positive().absent("the target's"),
        /// Decode the body (gzip, deflate) and count its decoded length.
        decode: bool = boolean().default("false"),
    },
    groups: &[Group { keys: &METHODS, required: true }],
    misspellings: &[
        ("method", "write `get: /path`"),
        ("path", "write `get: /path`"),
        ("url", "write `get: /path`"),
        ("query", "write it in the path: `get: /path?a=1`"),
        ("auth", "write `headers: {authorization: …}`"),
    ],
}

/// The keys that are methods.
const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];
const METHOD: Key = Key::new("", Kind::Text, "Path at the target's base URL, or an absolute URL.");

settings! {
    /// A pause of random length.
    struct Think is "a pause" {
        /// Mean of a normal distribution with `deviation`.
        mean: Option<Duration> = duration(),
        /// Standard deviation.
        deviation: Duration = duration().default("0"),
        /// Minimum of a uniform distribution up to `to`.
        from: Option<Duration> = duration(),
        /// Longest.
        to: Option<Duration> = duration(),
    }
}

/// Context of requests.
pub(super) struct Context<'c> {
    pub(super) target: &'c Target,
    pub(super) origin: &'c Origin,
    pub(super) folder: &'c Path,
    pub(super) bodies: &'c Bodies,
    pub(super) known: &'c Known,
}

/// The request and the pause after it.
pub(super) fn steps(
    node: &Node,
    context: &Context<'_>,
    program: &mut Program,
    report: &mut Diagnostics,
) -> Option<Vec<Step>> {
    let request = request(node, context, program, report)?;
    let mut steps = vec![Step::Request(request.into())];
    steps.extend(node.get("think").and_then(|node| think(node, report)).map(Step::Pause));
    Some(steps)
}

fn request(
    node: &Node,
    context: &Context<'_>,
    program: &mut Program,
    report: &mut Diagnostics,
) -> Option<Request> {
    let fields = Fields::new(node, RequestKeys::SHAPE);
    let keys = RequestKeys::read(&fields);
    let members = node.members().unwrap_or_default();
    let Member { key, value: path, .. } =
        members.iter().find(|member| METHODS.contains(&member.key.as_str()))?;
    let method = key.to_uppercase();
    let known = context.known;
    let written = path.text().unwrap_or_default();
    let url = url(path, context, report)?;
    let name = keys.name.unwrap_or_else(|| format!("{method} {written}"));
    let name = match known.text(&name, node.get("name").unwrap_or(path), report).as_fixed() {
        Some(fixed) => fixed.to_owned(),
        // A label without variables: one for each value would be useless.
        None => name,
    };
    let mut headers: Vec<(Text, Text)> = fields
        .members("headers")
        .iter()
        .map(|member| (Text::fixed(member.key.as_str()), known.node(&member.value, report)))
        .collect();
    let (body, content_type) = body::body(node, context, report);
    let typed =
        fields.members("headers").iter().any(|m| m.key.eq_ignore_ascii_case("content-type"));
    if let (Some(content_type), false) = (content_type, typed) {
        headers.push((Text::fixed("Content-Type"), Text::fixed(content_type)));
    }
    let checks = fields.many("checks").iter();
    let checks = checks.filter_map(|node| checks::check(node, known, report)).collect();
    let extractors = fields.members("extract").iter();
    let extractors = extractors
        .filter_map(|m| {
            let variable = known.changing.get(&m.key).copied()?;
            checks::extractor(&m.value, variable, known, report)
        })
        .collect();
    let timeouts = Timeouts {
        connect: context.target.connect_timeout,
        response: keys.timeout.unwrap_or(context.target.timeout),
    };
    Some(Request {
        label: program.label(&name),
        name: None,
        method,
        url,
        headers,
        body,
        keep_alive: keys.keep_alive,
        http2: context.target.http2,
        timeouts,
        redirects: keys.redirects,
        success: StatusSet::success(),
        expected: checks::statuses(fields.many("expected"), report),
        checks,
        extractors,
        post_processors: Vec::new(),
        client: ClientOptions::default(),
        decode: keys.decode,
    })
}

fn url(path: &Node, context: &Context<'_>, report: &mut Diagnostics) -> Option<Url> {
    let target = context.known.node(path, report);
    let wrong = |part: &TextPart| {
        matches!(part, TextPart::Literal(text)
            if text.contains(|c: char| c.is_ascii_control() || c == ' ' || c == '#'))
    };
    if target.parts().iter().any(wrong) {
        report
            .error(codes::BAD_PATH, path.at, "a path has no spaces, control characters or `#`")
            .help("write `%20` for a space and `%23` for `#`");
        return None;
    }
    if target.start().starts_with("http://") || target.start().starts_with("https://") {
        return valid(Url::absolute(target), path, report);
    }
    if !target.start().starts_with('/') {
        report
            .error(codes::BAD_PATH, path.at, "a path starts with `/`")
            .help("start with `/`, or write an absolute URL");
        return None;
    }
    Some(Url::Parts { origin: context.origin.clone(), target })
}

/// A pause of constant or random length.
fn think(node: &Node, report: &mut Diagnostics) -> Option<Pause> {
    let millis = |time: Duration| Text::fixed((time.as_secs_f64() * 1000.0).to_string());
    if let Some(text) = node.text() {
        return weir_document::units::duration(text).ok().map(millis).map(Pause::constant);
    }
    let Think { mean, deviation, from, to } = Think::read(&Fields::new(node, Think::SHAPE));
    match (mean, from, to) {
        (Some(mean), None, None) => Some(Pause {
            offset: millis(mean),
            distribution: Distribution::Normal,
            spread: millis(deviation),
        }),
        (None, from, Some(to)) if from.unwrap_or_default() <= to => Some(Pause {
            offset: millis(from.unwrap_or_default()),
            distribution: Distribution::Uniform,
            spread: millis(to - from.unwrap_or_default()),
        }),
        _ => {
            report
                .error(codes::BAD_VALUE, node.at, "not a pause")
                .help("write `{from: 1s, to: 3s}` or `{mean: 2s, deviation: 500ms}`");
            None
        }
    }
}
