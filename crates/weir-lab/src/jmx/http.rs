//! HTTP samplers: URL and fields of a request.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::{Element, Lookup as _, Property};
use super::{assertions, extractors, http_body};
use crate::program::{Origin, Redirects, Request, StatusSet, Text, TextPart, Timeouts, Url};
use std::time::Duration;

/// No limit: JMeter has no timeout by default.
const NO_LIMIT: Duration = Duration::from_secs(86_400);
/// Classes of unsupported elements that change requests.
const UNSUPPORTED: [&str; 5] =
    ["AuthManager", "CacheManager", "DNSCacheManager", "KeystoreConfig", "BoltConnectionElement"];

/// The properties of a sampler and of the surrounding defaults.
pub(super) struct Settings<'e> {
    /// The sampler, then defaults from the innermost outwards.
    pub(super) elements: Vec<&'e Element>,
}

impl<'e> Settings<'e> {
    fn new(element: &'e Element, scope: &Scope<'e>) -> Self {
        let defaults = scope.inner_first().filter(|found| found.class == "ConfigTestElement");
        Self { elements: std::iter::once(element).chain(defaults).collect() }
    }

    /// The first non-empty value; empty without one.
    pub(super) fn raw(&self, name: &str) -> &'e str {
        let texts = self.elements.iter().map(|element| element.text(name));
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
    }

    pub(super) fn text(&self, translation: &mut Translation<'_>, name: &str) -> Text {
        translation.text(self.elements[0], self.raw(name))
    }

    pub(super) fn fixed(&self, translation: &mut Translation<'_>, name: &str) -> String {
        translation.fixed_text(self.elements[0], self.raw(name), name)
    }

    pub(super) fn switch(
        &self,
        translation: &mut Translation<'_>,
        name: &str,
        default: bool,
    ) -> bool {
        match self.fixed(translation, name).trim() {
            "" => default,
            text => text.eq_ignore_ascii_case("true"),
        }
    }

    fn limit(&self, translation: &mut Translation<'_>, name: &str) -> Duration {
        let text = self.fixed(translation, name);
        match text.trim().parse::<u64>() {
            Ok(0) => NO_LIMIT,
            Ok(millis) => Duration::from_millis(millis),
            Err(_) if text.trim().is_empty() => NO_LIMIT,
            Err(_) => {
                let message = format!("`{name}` is not a number of milliseconds: `{text}`");
                translation.invalid(self.elements[0], &message);
                NO_LIMIT
            }
        }
    }
}

/// Translates a sampler. The innermost level of `scope` has its children.
pub(super) fn request(
    translation: &mut Translation<'_>,
    element: &Element,
    scope: &Scope<'_>,
) -> Option<Request> {
    let settings = Settings::new(element, scope);
    for found in scope.outer_first() {
        if UNSUPPORTED.contains(&found.class.as_str()) {
            translation.unsupported(found, "the Lab does not support this element");
        }
    }
    if settings.switch(translation, "HTTPSampler.image_parser", false) {
        translation.unsupported(element, "the Lab does not load embedded resources");
    }
    let method = settings.fixed(translation, "HTTPSampler.method").trim().to_ascii_uppercase();
    let method = if method.is_empty() { "GET".to_owned() } else { method };
    let encoding = settings.fixed(translation, "HTTPSampler.contentEncoding");
    if !matches!(encoding.to_ascii_lowercase().as_str(), "" | "utf-8" | "utf8") {
        translation.unsupported(element, &format!("the Lab sends only UTF-8, not `{encoding}`"));
    }
    let content = http_body::content(translation, &settings, &method);
    let url = url(translation, &settings, content.query)?;
    let mut headers = headers(translation, scope);
    let keep_alive = settings.switch(translation, "HTTPSampler.use_keepalive", true);
    let connection = if keep_alive { "keep-alive" } else { "close" };
    add(&mut headers, "Connection", Text::fixed(connection));
    if let Some(content_type) = content.content_type {
        add(&mut headers, "Content-Type", Text::fixed(content_type));
    }
    let follow = settings.switch(translation, "HTTPSampler.follow_redirects", false)
        || settings.switch(translation, "HTTPSampler.auto_redirects", false);
    let request = Request {
        label: translation.label(element),
        method,
        url,
        headers,
        body: content.body,
        keep_alive,
        http2: false,
        timeouts: Timeouts {
            connect: settings.limit(translation, "HTTPSampler.connect_timeout"),
            response: settings.limit(translation, "HTTPSampler.response_timeout"),
        },
        redirects: if follow { Redirects::Follow } else { Redirects::Ignore },
        success: StatusSet::success(),
        expected: StatusSet::none(),
        checks: assertions::checks(translation, scope),
        extractors: extractors::extractors(translation, scope),
        decode: false,
    };
    Some(request)
}

/// Adds a field unless a field of this name exists.
fn add(headers: &mut Vec<(Text, Text)>, name: &str, value: Text) {
    let is_named = |known: &Text| known.as_fixed().is_some_and(|k| k.eq_ignore_ascii_case(name));
    if !headers.iter().any(|(known, _)| is_named(known)) {
        headers.push((Text::fixed(name), value));
    }
}

/// Fields of all header managers. An inner field replaces an outer one.
fn headers(translation: &mut Translation<'_>, scope: &Scope<'_>) -> Vec<(Text, Text)> {
    let mut headers: Vec<(Text, Text)> = Vec::new();
    for manager in scope.inner_first().filter(|element| element.class == "HeaderManager") {
        let inner: Vec<Text> = headers.iter().map(|(name, _)| name.clone()).collect();
        for header in manager.properties.items("HeaderManager.headers") {
            let Property::Element(header) = header else { continue };
            let name = translation.text(manager, header.text("Header.name"));
            let value = translation.text(manager, header.text("Header.value"));
            let same = |known: &Text| match (known.as_fixed(), name.as_fixed()) {
                (Some(known), Some(name)) => known.eq_ignore_ascii_case(name),
                _ => *known == name,
            };
            // JMeter computes the length itself.
            let length = name.as_fixed().is_some_and(|n| n.eq_ignore_ascii_case("content-length"));
            if !inner.iter().any(same) && !length && name.as_fixed() != Some("") {
                headers.push((name, value));
            }
        }
    }
    headers
}

/// The URL. A path with an absolute URL replaces everything else, as in JMeter.
fn url(
    translation: &mut Translation<'_>,
    settings: &Settings<'_>,
    query: Option<Text>,
) -> Option<Url> {
    let path = settings.text(translation, "HTTPSampler.path");
    let is_absolute = match path.parts().first() {
        Some(TextPart::Literal(start)) => {
            start.starts_with("http://") || start.starts_with("https://")
        }
        _ => false,
    };
    let element = settings.elements[0];
    if is_absolute {
        return match path.as_fixed() {
            Some(url) => parts(translation, element, url),
            None => Some(Url::Absolute(path)),
        };
    }
    let mut target = Vec::new();
    if path.as_fixed() == Some("") || !starts_with_slash(&path) {
        target.push(TextPart::Literal("/".into()));
    }
    target.extend(path.parts().iter().map(|part| match part {
        TextPart::Literal(text) => TextPart::Literal(text.replace(' ', "%20").into()),
        other => other.clone(),
    }));
    if let Some(query) = query {
        let has = |part: &TextPart| matches!(part, TextPart::Literal(text) if text.contains('?'));
        let sign = if target.iter().any(has) { "&" } else { "?" };
        target.push(TextPart::Literal(sign.into()));
        target.extend(query.parts().iter().cloned());
    }
    let target = Text::from_parts(target);
    let protocol = settings.text(translation, "HTTPSampler.protocol");
    let host = settings.text(translation, "HTTPSampler.domain");
    let port = settings.text(translation, "HTTPSampler.port");
    if host.as_fixed() == Some("") {
        translation.invalid(element, "no server name, neither here nor in the defaults");
        return None;
    }
    match (protocol.as_fixed(), host.as_fixed(), port.as_fixed()) {
        (Some(protocol), Some(host), Some(port)) => {
            let origin = origin(protocol, host, port);
            match origin {
                Ok(origin) => Some(Url::Parts { origin, target }),
                Err(problem) => {
                    translation.invalid(element, &problem);
                    None
                }
            }
        }
        _ => {
            let scheme =
                if protocol.as_fixed() == Some("") { Text::fixed("http") } else { protocol };
            let mut url: Vec<TextPart> = scheme.parts().to_vec();
            url.push(TextPart::Literal("://".into()));
            url.extend(host.parts().iter().cloned());
            if port.as_fixed() != Some("") {
                url.push(TextPart::Literal(":".into()));
                url.extend(port.parts().iter().cloned());
            }
            url.extend(target.parts().iter().cloned());
            Some(Url::Absolute(Text::from_parts(url)))
        }
    }
}

fn starts_with_slash(path: &Text) -> bool {
    match path.parts().first() {
        Some(TextPart::Literal(start)) => start.starts_with('/'),
        // The value of a variable is unknown here; plans usually include the slash.
        _ => true,
    }
}

fn origin(protocol: &str, host: &str, port: &str) -> Result<Origin, String> {
    let tls = match protocol.trim().to_ascii_lowercase().as_str() {
        "" | "http" => false,
        "https" => true,
        other => return Err(format!("the Lab does not support the protocol `{other}`")),
    };
    let port = match port.trim() {
        "" | "0" | "-1" => {
            if tls {
                443
            } else {
                80
            }
        }
        port => port.parse().map_err(|_| format!("`{port}` is not a port"))?,
    };
    let host = host.trim().trim_start_matches('[').trim_end_matches(']');
    if host.contains(['/', ' ', '@', '?', '#']) {
        return Err(format!("`{host}` is not a host name"));
    }
    Ok(Origin { tls, host: host.to_owned(), port })
}

/// An absolute URL without variables.
fn parts(translation: &mut Translation<'_>, element: &Element, url: &str) -> Option<Url> {
    match Origin::parse(url) {
        Ok((origin, target)) => Some(Url::Parts { origin, target: Text::fixed(target) }),
        Err(error) => {
            translation.invalid(element, &format!("`{url}` is not a URL: {error}"));
            None
        }
    }
}
