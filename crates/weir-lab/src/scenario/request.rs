//! Requests of a scenario.

use super::body::{self, Bodies, BodyKeys};
use super::checks::{CheckKeys, ExtractKeys};
use super::fields::{ONLY, TIME, count, valid, word};
use super::streams::{MessageKeys, Until};
use super::texts::Known;
use super::{Target, checks, grpc, streams};
use crate::program::Redirects;
use crate::program::{
    ClientOptions, Distribution, Origin, Pause, Program, Request, StatusSet, Step, Stream, Text,
    TextPart, Timeouts, Url,
};
use prost_reflect::DescriptorPool;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_document::draft::{Member, Node};
use weir_document::finding::{Diagnostics, codes};
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Group, Key, Kind, Names, format};

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
        /// Path of a stream of server-sent events.
        sse = by_hand(Kind::Text),
        /// When the stream of `sse` or of a gRPC server ends.
        until = by_hand(Kind::Object(Until::SHAPE)),
        /// Path of a WebSocket.
        websocket = by_hand(Kind::Text),
        /// Messages of the WebSocket, one after the other.
        messages = by_hand(Kind::List(&Kind::Object(MessageKeys::SHAPE))),
        /// How often the messages are exchanged.
        pub(super) repeat: u64 = count().default("1"),
        /// Method of a gRPC call, `package.Service/Method`.
        grpc = by_hand(Kind::Text),
        /// The message of the call in its JSON form, or a list of them for a stream of the client.
        message = by_hand(Kind::Json),
        /// Metadata of the call.
        metadata = by_hand(Kind::Table(Names::Header, &Kind::Scalar)),
        /// Time for the call, which the server gets as `grpc-timeout`.
        pub(super) deadline: Option<Duration> = positive().absent("none"),
        /// Time between the messages of a stream of the client.
        pub(super) interval: Duration = duration().default("0"),
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
        /// Share of the iterations in a weighted mix: each iteration sends one of the requests, or
        /// one of the flows, that have a weight.
        pub(super) weight: Option<u32> = integer(1, 1_000_000).absent("sent in each iteration"),
        /// Name of a flow of a weighted mix; its first request has the weight.
        pub(super) flow: Option<String> = text(Kind::Format(format::NAME)),
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
const METHODS: [&str; 10] =
    ["get", "post", "put", "patch", "delete", "head", "options", "sse", "websocket", "grpc"];
/// Keys that only some methods have.
const OWNERS: [(&str, &[&str]); 7] = [
    ("until", &["sse", "grpc"]),
    ("messages", &["websocket"]),
    ("repeat", &["websocket", "grpc"]),
    ("message", &["grpc"]),
    ("metadata", &["grpc"]),
    ("deadline", &["grpc"]),
    ("interval", &["grpc"]),
];
const METHOD: Key = Key::new("", Kind::Text, "Path at the target's base URL, or an absolute URL.");

settings! {
    /// A pause of random length.
    pub(super) struct Think is "a pause" {
        /// Mean of a normal distribution with `deviation`; negative lengths are 0.
        mean: Option<Duration> = duration(),
        /// Standard deviation.
        deviation: Duration = duration().default("0"),
        /// Minimum of a uniform distribution up to `to`.
        from: Option<Duration> = duration(),
        /// Longest.
        to: Option<Duration> = duration(),
        /// Mean of an exponential distribution.
        exponential: Option<Duration> = positive(),
        /// Median of a log-normal distribution with `p95`.
        median: Option<Duration> = positive(),
        /// Its 95th percentile.
        p95: Option<Duration> = positive(),
    }
}

/// Context of requests.
pub(super) struct Context<'c> {
    pub(super) target: &'c Target,
    pub(super) origin: &'c Origin,
    pub(super) folder: &'c Path,
    pub(super) bodies: &'c Bodies,
    /// The schema of gRPC calls.
    pub(super) schema: Option<DescriptorPool>,
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
    steps.extend(node.get("think").and_then(|node| pause(node, report)).map(Step::Pause));
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
    let known = context.known;
    let written = path.text().unwrap_or_default();
    let method = match key.as_str() {
        "sse" | "websocket" => "GET".to_owned(),
        "grpc" => "POST".to_owned(),
        key => key.to_uppercase(),
    };
    let default_name = || match key.as_str() {
        "grpc" => written.to_owned(),
        _ => format!("{method} {written}"),
    };
    let name = keys.name.unwrap_or_else(default_name);
    let name = label_name(name, node.get("name").unwrap_or(path), known, report);
    let label = program.label(&name);
    check_owners(node, key, report);
    let protocol = protocol((node, key, path), &name, context, program, report)?;
    let Protocol { url, mut headers, success, stream } = protocol;
    let own =
        |member: &Member| (Text::fixed(member.key.as_str()), known.node(&member.value, report));
    headers.extend(fields.members("headers").iter().map(own));
    let (body, content_type) = body::body(node, context, report);
    let typed =
        fields.members("headers").iter().any(|m| m.key.eq_ignore_ascii_case("content-type"));
    if let (Some(content_type), false) = (content_type, typed) {
        headers.push((Text::fixed("Content-Type"), Text::fixed(content_type)));
    }
    let checks = fields.many("checks").iter();
    let checks =
        checks.flat_map(|node| checks::checks(node, (known, context.folder), report)).collect();
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
        label,
        name: None,
        method,
        url,
        headers,
        body,
        keep_alive: keys.keep_alive,
        http2: key == "grpc" || context.target.http2 && key != "websocket",
        timeouts,
        redirects: keys.redirects,
        success,
        expected: match key.as_str() {
            // Those of gRPC are part of the call.
            "grpc" => StatusSet::default(),
            _ => checks::statuses(fields.many("expected"), report),
        },
        checks,
        extractors,
        post_processors: Vec::new(),
        scripts: None,
        client: ClientOptions::default(),
        stream,
        decode: keys.decode,
    })
}

/// The name of a label, if it is constant.
fn label_name(name: String, at: &Node, known: &Known, report: &mut Diagnostics) -> String {
    match known.text(&name, at, report).as_fixed() {
        Some(fixed) => fixed.to_owned(),
        // A label without variables: one for each value would be useless.
        None => name,
    }
}

/// What the protocol of a request determines.
struct Protocol {
    url: Url,
    headers: Vec<(Text, Text)>,
    success: StatusSet,
    stream: Option<Arc<Stream>>,
}

fn protocol(
    (node, key, path): (&Node, &str, &Node),
    name: &str,
    context: &Context<'_>,
    program: &mut Program,
    report: &mut Diagnostics,
) -> Option<Protocol> {
    if key == "grpc" {
        let stream = grpc::call(node, (path, name), context, program, report)?;
        let target = Text::fixed(format!("/{}", path.text()?));
        return Some(Protocol {
            url: Url::Parts { origin: context.origin.clone(), target },
            headers: grpc::headers(node, context.known, report),
            success: StatusSet { ranges: vec![(200, 200)] },
            stream: Some(stream),
        });
    }
    let url = url(path, context, report)?;
    let stream = streams::stream(node, name, context.known, program, report);
    let handshake = stream.as_deref().map(streams::handshake);
    let (headers, success) = handshake.unwrap_or_else(|| (Vec::new(), StatusSet::success()));
    Some(Protocol { url, headers, success, stream })
}

/// Reports keys that belong to other methods.
fn check_owners(node: &Node, method: &str, report: &mut Diagnostics) {
    for (key, owners) in OWNERS {
        if let (Some(found), false) = (node.get(key), owners.contains(&method)) {
            let owners = owners.join("` and `");
            report.error(codes::CONFLICT, found.at, format!("`{key}` belongs to `{owners}`"));
        }
    }
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
        return with_origin(&target).or_else(|| valid(Url::absolute(target), path, report));
    }
    if !target.start().starts_with('/') {
        report
            .error(codes::BAD_PATH, path.at, "a path starts with `/`")
            .help("start with `/`, or write an absolute URL");
        return None;
    }
    Some(Url::Parts { origin: context.origin.clone(), target })
}

/// A URL with variables only in its path and query.
fn with_origin(url: &Text) -> Option<Url> {
    let [TextPart::Literal(first), rest @ ..] = url.parts() else { return None };
    let host = first.find("://")? + "://".len();
    let (origin, path) = first.split_at(host + first[host..].find('/')?);
    let (origin, _) = Origin::parse(origin).ok()?;
    let path = TextPart::Literal(path.into());
    let target = Text::from_parts(std::iter::once(path).chain(rest.iter().cloned()));
    Some(Url::Parts { origin, target })
}

/// A pause of constant or random length.
pub(super) fn pause(node: &Node, report: &mut Diagnostics) -> Option<Pause> {
    let millis = |time: Duration| Text::fixed((time.as_secs_f64() * 1000.0).to_string());
    if let Some(text) = node.text() {
        return weir_document::units::duration(text).ok().map(millis).map(Pause::constant);
    }
    let Think { mean, deviation, from, to, exponential, median, p95 } =
        Think::read(&Fields::new(node, Think::SHAPE));
    if let (Some(median), Some(p95)) = (median, p95)
        && (mean, from, to, exponential) == (None, None, None, None)
        && median <= p95
    {
        // The 95th percentile of the normal distribution is 1.645 standard deviations above its mean.
        let sigma = (p95.as_secs_f64() / median.as_secs_f64()).ln() / 1.644_853_626_951_472_2;
        return Some(Pause {
            offset: millis(median),
            distribution: Distribution::LogNormal,
            spread: Text::fixed(sigma.to_string()),
        });
    }
    if median.or(p95).is_some() {
        let text =
            "a log-normal pause has `median` and `p95`, which is not below it, and nothing else";
        report.error(codes::BAD_VALUE, node.at, text).help("write `{median: 2s, p95: 8s}`");
        return None;
    }
    match (mean, from, to, exponential) {
        (None, None, None, Some(mean)) => Some(Pause {
            offset: Text::fixed("0"),
            distribution: Distribution::Exponential,
            spread: millis(mean),
        }),
        (Some(mean), None, None, None) => Some(Pause {
            offset: millis(mean),
            distribution: Distribution::Normal,
            spread: millis(deviation),
        }),
        (None, from, Some(to), None) if from.unwrap_or_default() <= to => Some(Pause {
            offset: millis(from.unwrap_or_default()),
            distribution: Distribution::Uniform,
            spread: millis(to - from.unwrap_or_default()),
        }),
        _ => {
            report.error(codes::BAD_VALUE, node.at, "not a pause").help(
                "write `{from: 1s, to: 3s}`, `{mean: 2s, deviation: 500ms}`, `{exponential: 2s}` or \
                 `{median: 2s, p95: 8s}`",
            );
            None
        }
    }
}
