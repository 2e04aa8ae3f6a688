//! Requests of a scenario.

use super::body::{self, Bodies};
use super::fields::Fields;
use super::keys::METHODS;
use super::texts::Known;
use super::{Target, checks};
use crate::program::{
    Origin, Pause, Program, Request, StatusSet, Step, Text, TextPart, Timeouts, Url,
};
use std::path::Path;
use std::time::Duration;
use weir_document::draft::{Member, Node};
use weir_document::finding::{Diagnostics, codes};

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
    let fields = Fields(node);
    let members = node.members().unwrap_or_default();
    let Member { key, value: path, .. } =
        members.iter().find(|member| METHODS.contains(&member.key.as_str()))?;
    let method = key.to_uppercase();
    let known = context.known;
    let written = path.text().unwrap_or_default();
    let url = url(path, context, report)?;
    let name = fields.owned("name").unwrap_or_else(|| format!("{method} {written}"));
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
        response: fields.duration("timeout").unwrap_or(context.target.timeout),
    };
    Some(Request {
        label: program.label(&name),
        method,
        url,
        headers,
        body,
        keep_alive: fields.bool("keep_alive", true),
        http2: context.target.http2,
        timeouts,
        redirects: fields.choice("redirects").unwrap_or_default(),
        success: StatusSet::success(),
        expected: checks::statuses(fields.many("expected"), report),
        checks,
        extractors,
        decode: fields.bool("decode", false),
    })
}

fn url(path: &Node, context: &Context<'_>, report: &mut Diagnostics) -> Option<Url> {
    let target = context.known.node(path, report);
    let start = match target.parts().first() {
        Some(TextPart::Literal(start)) => start.to_string(),
        _ => String::new(),
    };
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
    if start.starts_with("http://") || start.starts_with("https://") {
        let Some(fixed) = target.as_fixed() else { return Some(Url::Absolute(target)) };
        return match Origin::parse(fixed) {
            Ok((origin, target)) => Some(Url::Parts { origin, target: Text::fixed(target) }),
            Err(error) => {
                report.error(codes::BAD_VALUE, path.at, format!("`{fixed}` is not a URL: {error}"));
                None
            }
        };
    }
    if !start.starts_with('/') {
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
        return weir_document::units::duration(text).ok().map(millis).map(Pause::Constant);
    }
    let fields = Fields(node);
    match (fields.duration("mean"), fields.duration("from"), fields.duration("to")) {
        (Some(mean), None, None) => {
            let deviation = millis(fields.duration("deviation").unwrap_or_default());
            Some(Pause::Gaussian { offset: millis(mean), deviation })
        }
        (None, from, Some(to)) if from.unwrap_or_default() <= to => {
            let from = from.unwrap_or_default();
            Some(Pause::Uniform { offset: millis(from), range: millis(to - from) })
        }
        _ => {
            report
                .error(codes::BAD_VALUE, node.at, "not a pause")
                .help("write `{from: 1s, to: 3s}` or `{mean: 2s, deviation: 500ms}`");
            None
        }
    }
}
