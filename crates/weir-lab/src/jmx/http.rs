//! HTTP samplers: URL and fields of a request.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::{Element, is_true};
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
        is_true(&self.fixed(translation, name), default)
    }

    fn limit(&self, translation: &mut Translation<'_>, name: &str) -> Duration {
        let text = self.fixed(translation, name);
        let millis = if text.trim().is_empty() { Ok(0) } else { text.trim().parse() };
        let millis =
            millis.map_err(|_| format!("`{name}` is not a number of milliseconds: `{text}`"));
        match translation.valid(self.elements[0], millis) {
            None | Some(0) => NO_LIMIT,
            Some(millis) => Duration::from_millis(millis),
        }
    }
}

impl Translation<'_> {
    /// Translates a sampler. The innermost level of `scope` has its children.
    pub(super) fn request(&mut self, element: &Element, scope: &Scope<'_>) -> Option<Request> {
        let settings = Settings::new(element, scope);
        for found in scope.outer_first() {
            if UNSUPPORTED.contains(&found.class.as_str()) {
                self.unsupported(found, "the Lab does not support this element");
            }
        }
        if settings.switch(self, "HTTPSampler.image_parser", false) {
            self.unsupported(element, "the Lab does not load embedded resources");
        }
        let method = settings.fixed(self, "HTTPSampler.method").trim().to_ascii_uppercase();
        let method = if method.is_empty() { "GET".to_owned() } else { method };
        let encoding = settings.fixed(self, "HTTPSampler.contentEncoding");
        if !matches!(encoding.to_ascii_lowercase().as_str(), "" | "utf-8" | "utf8") {
            self.unsupported(element, &format!("the Lab sends only UTF-8, not `{encoding}`"));
        }
        let content = self.content(&settings, &method);
        let url = self.url(&settings, content.query)?;
        let mut headers = self.headers(scope);
        let keep_alive = settings.switch(self, "HTTPSampler.use_keepalive", true);
        let connection = if keep_alive { "keep-alive" } else { "close" };
        add(&mut headers, "Connection", Text::fixed(connection));
        if let Some(content_type) = content.content_type {
            add(&mut headers, "Content-Type", Text::fixed(content_type));
        }
        let follow = settings.switch(self, "HTTPSampler.follow_redirects", false)
            || settings.switch(self, "HTTPSampler.auto_redirects", false);
        Some(Request {
            label: self.label(element),
            method,
            url,
            headers,
            body: content.body,
            keep_alive,
            http2: false,
            timeouts: Timeouts {
                connect: settings.limit(self, "HTTPSampler.connect_timeout"),
                response: settings.limit(self, "HTTPSampler.response_timeout"),
            },
            redirects: if follow { Redirects::Follow } else { Redirects::Ignore },
            success: StatusSet::success(),
            expected: StatusSet::default(),
            checks: self.checks(scope),
            extractors: Vec::new(),
            post_processors: self.post_processors(scope),
            decode: false,
        })
    }

    /// Fields of all header managers. An inner field replaces an outer one.
    fn headers(&mut self, scope: &Scope<'_>) -> Vec<(Text, Text)> {
        let mut headers: Vec<(Text, Text)> = Vec::new();
        for manager in scope.inner_first().filter(|element| element.class == "HeaderManager") {
            let inner: Vec<Text> = headers.iter().map(|(name, _)| name.clone()).collect();
            for header in manager.properties.elements("HeaderManager.headers") {
                let name = self.text(manager, header.text("Header.name"));
                let value = self.text(manager, header.text("Header.value"));
                let same = |known: &Text| match (known.as_fixed(), name.as_fixed()) {
                    (Some(known), Some(name)) => known.eq_ignore_ascii_case(name),
                    _ => *known == name,
                };
                // JMeter computes the length itself.
                let length =
                    name.as_fixed().is_some_and(|n| n.eq_ignore_ascii_case("content-length"));
                if !inner.iter().any(same) && !length && !name.is_empty() {
                    headers.push((name, value));
                }
            }
        }
        headers
    }

    /// The URL. A path with an absolute URL replaces everything else, as in JMeter.
    fn url(&mut self, settings: &Settings<'_>, query: Option<Text>) -> Option<Url> {
        let path = settings.text(self, "HTTPSampler.path");
        let element = settings.elements[0];
        let start = path.start();
        if start.starts_with("http://") || start.starts_with("https://") {
            return self.valid(element, Url::absolute(path));
        }
        let mut target = Vec::new();
        // The value of a variable is unknown here; plans usually include the slash.
        if path.is_empty() || !start.is_empty() && !start.starts_with('/') {
            target.push("/".into());
        }
        target.extend(path.into_iter().map(|part| match part {
            TextPart::Literal(text) => text.replace(' ', "%20").as_str().into(),
            other => other,
        }));
        if let Some(query) = query {
            let has =
                |part: &TextPart| matches!(part, TextPart::Literal(text) if text.contains('?'));
            target.push(if target.iter().any(has) { "&" } else { "?" }.into());
            target.extend(query);
        }
        let target = Text::from_parts(target);
        let protocol = settings.text(self, "HTTPSampler.protocol");
        let host = settings.text(self, "HTTPSampler.domain");
        let port = settings.text(self, "HTTPSampler.port");
        if host.is_empty() {
            self.invalid(element, "no server name, neither here nor in the defaults");
            return None;
        }
        match (protocol.as_fixed(), host.as_fixed(), port.as_fixed()) {
            (Some(protocol), Some(host), Some(port)) => {
                let origin = self.valid(element, origin(protocol, host, port))?;
                Some(Url::Parts { origin, target })
            }
            _ => {
                let scheme = if protocol.is_empty() { Text::fixed("http") } else { protocol };
                let colon = if port.is_empty() { "" } else { ":" };
                let host = scheme.into_iter().chain(["://".into()]).chain(host);
                let authority = host.chain([colon.into()]).chain(port);
                Some(Url::Absolute(Text::from_parts(authority.chain(target))))
            }
        }
    }
}

/// Adds a field unless a field of this name exists.
fn add(headers: &mut Vec<(Text, Text)>, name: &str, value: Text) {
    let is_named = |known: &Text| known.as_fixed().is_some_and(|k| k.eq_ignore_ascii_case(name));
    if !headers.iter().any(|(known, _)| is_named(known)) {
        headers.push((Text::fixed(name), value));
    }
}

fn origin(protocol: &str, host: &str, port: &str) -> Result<Origin, String> {
    let tls = match protocol.trim().to_ascii_lowercase().as_str() {
        "" | "http" => false,
        "https" => true,
        other => return Err(format!("the Lab does not support the protocol `{other}`")),
    };
    let port = match port.trim() {
        "" | "0" | "-1" => Origin::default_port(tls),
        port => port.parse().map_err(|_| format!("`{port}` is not a port"))?,
    };
    let host = host.trim().trim_start_matches('[').trim_end_matches(']');
    if host.contains(['/', ' ', '@', '?', '#']) {
        return Err(format!("`{host}` is not a host name"));
    }
    Ok(Origin { tls, host: host.to_owned(), port })
}
