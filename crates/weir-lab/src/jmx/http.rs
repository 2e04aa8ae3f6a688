//! HTTP samplers: URL and fields of a request.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::{Element, is_true};
use crate::charset::Charset;
use crate::pattern::Pattern;
use crate::program::{
    CacheOptions, Call, ClientOptions, Credentials, Function, JmeterFunction, Origin, Redirects,
    Request, Resources, StatusSet, Step, Text, TextPart, Timeouts, Url,
};
use std::net::IpAddr;
use std::time::Duration;

/// No limit: JMeter has no timeout by default.
const NO_LIMIT: Duration = Duration::from_secs(86_400);
/// Parallel requests of resources without a valid number, as in JMeter.
const USUAL_POOL: usize = 6;
/// Most parallel requests of resources.
const MAX_POOL: usize = 100;
/// Class of an unsupported element that changes requests.
const UNSUPPORTED: &str = "BoltConnectionElement";

/// The properties of a sampler and of the surrounding defaults.
pub(super) struct Settings<'e> {
    /// The sampler, then defaults from the innermost outwards.
    pub(super) elements: Vec<&'e Element>,
}

impl<'e> Settings<'e> {
    pub(super) fn new(element: &'e Element, scope: &Scope<'e>) -> Self {
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
    pub(super) fn request(
        &mut self,
        element: &Element,
        scope: &Scope<'_>,
        steps: &mut Vec<Step>,
    ) -> Option<Request> {
        let settings = Settings::new(element, scope);
        for found in scope.outer_first() {
            if found.class == UNSUPPORTED {
                self.unsupported(found, "the Lab does not support this element");
            }
        }
        let method = settings.fixed(self, "HTTPSampler.method").trim().to_ascii_uppercase();
        let method = if method.is_empty() { "GET".to_owned() } else { method };
        let encoding = settings.fixed(self, "HTTPSampler.contentEncoding");
        let encoding = Charset::named(&encoding);
        let encoding = self.supported(element, encoding)?;
        let content = self.content(&settings, &method, encoding);
        let url = self.url(&settings, content.query)?;
        let mut headers = self.headers(scope, &url);
        let keep_alive = settings.switch(self, "HTTPSampler.use_keepalive", false);
        let connection = if keep_alive { "keep-alive" } else { "close" };
        add(&mut headers, "Connection", Text::fixed(connection));
        if content.is_multipart {
            // JMeter replaces the type, for only it knows the boundary.
            headers.retain(|(name, _)| !is_named(name, "content-type"));
        }
        let redirects = if settings.switch(self, "HTTPSampler.follow_redirects", false) {
            Redirects::FollowAsGet
        } else if settings.switch(self, "HTTPSampler.auto_redirects", false) {
            Redirects::Follow
        } else {
            Redirects::Ignore
        };
        let client = self.client(&settings, scope, content.content_type, redirects);
        let (label, name) = (self.label(element), self.changing_label(element, false));
        let timeouts = Timeouts {
            connect: settings.limit(self, "HTTPSampler.connect_timeout"),
            response: settings.limit(self, "HTTPSampler.response_timeout"),
        };
        self.run_functions(steps);
        let (post_processors, checks) = (self.post_processors(scope), self.checks(scope));
        let scripts = self.take_after(scope, self.script_sampler(element));
        Some(Request {
            label,
            name,
            method,
            url,
            headers,
            body: content.body,
            keep_alive,
            http2: false,
            timeouts,
            redirects,
            success: StatusSet::success(),
            expected: StatusSet::default(),
            checks,
            extractors: Vec::new(),
            post_processors,
            scripts,
            client,
            stream: None,
            decode: false,
        })
    }

    /// Options of the client, from the sampler and the managers around it.
    fn client(
        &mut self,
        settings: &Settings<'_>,
        scope: &Scope<'_>,
        body_type: Option<String>,
        redirects: Redirects,
    ) -> ClientOptions {
        let element = settings.elements[0];
        // Elements of older plans name it, whatever the property is.
        let implementation = match element.tag.as_str() {
            "HTTPSampler" => "Java".to_owned(),
            "HTTPSampler2" => "HttpClient4".to_owned(),
            _ => settings.fixed(self, "HTTPSampler.implementation"),
        };
        if !matches!(implementation.as_str(), "" | "HttpClient4" | "HttpClient3.1") {
            let message = format!("the Lab does not have the implementation `{implementation}`");
            self.unsupported(element, &message);
        }
        let mut client = ClientOptions {
            body_type,
            strict: true,
            counts_last: redirects == Redirects::Follow,
            md5: settings.switch(self, "HTTPSampler.md5", false),
            without_cookies: !scope.inner_first().any(|found| found.class == "CookieManager"),
            proxy: self.proxy(settings),
            source: self.source_address(settings),
            resources: self.resources(settings),
            ..ClientOptions::default()
        };
        // Of several managers the outermost one counts.
        for found in scope.inner_first() {
            match found.class.as_str() {
                "AuthManager" => client.credentials = self.credentials(found),
                "CacheManager" => {
                    let each = self.switch(found, "clearEachIteration", false);
                    let by_group = self.switch(found, "CacheManager.controlledByThread", false);
                    client.cache = Some(CacheOptions {
                        expires: self.switch(found, "useExpires", false),
                        each_iteration: each && !by_group,
                    });
                }
                "DNSCacheManager" => client.hosts = self.static_hosts(found),
                _ => {}
            }
        }
        client
    }

    fn resources(&mut self, settings: &Settings<'_>) -> Option<Resources> {
        if !settings.switch(self, "HTTPSampler.image_parser", false) {
            return None;
        }
        let parallel = match settings.switch(self, "HTTPSampler.concurrentDwn", false) {
            true => {
                let pool = settings.fixed(self, "HTTPSampler.concurrentPool");
                pool.trim().parse().unwrap_or(USUAL_POOL).clamp(1, MAX_POOL)
            }
            false => 1,
        };
        let mut pattern = |name: &str| {
            let text = settings.fixed(self, name);
            // JMeter ignores an invalid expression.
            Some(text).filter(|text| !text.is_empty()).and_then(|text| Pattern::new(&text).ok())
        };
        Some(Resources {
            allowed: pattern("HTTPSampler.embedded_url_re"),
            excluded: pattern("HTTPSampler.embedded_url_exclude_re"),
            parallel,
        })
    }

    fn proxy(&mut self, settings: &Settings<'_>) -> Option<(String, u16)> {
        let element = settings.elements[0];
        let host = settings.fixed(self, "HTTPSampler.proxyHost").trim().to_owned();
        let port = settings.fixed(self, "HTTPSampler.proxyPort").trim().to_owned();
        // Without both JMeter uses no proxy.
        if host.is_empty() || port.is_empty() {
            return None;
        }
        if !settings.fixed(self, "HTTPSampler.proxyUser").is_empty() {
            self.unsupported(element, "the Lab does not sign in to proxies");
        }
        let scheme = settings.fixed(self, "HTTPSampler.proxyScheme");
        if !matches!(scheme.as_str(), "" | "http") {
            self.unsupported(element, "the Lab connects to proxies without TLS only");
        }
        let port = port.parse().map_err(|_| format!("the proxy's port is invalid: `{port}`"));
        Some((host, self.valid(element, port)?))
    }

    fn source_address(&mut self, settings: &Settings<'_>) -> Option<IpAddr> {
        let element = settings.elements[0];
        let source = settings.fixed(self, "HTTPSampler.ipSource").trim().to_owned();
        if source.is_empty() {
            return None;
        }
        let kind = settings.fixed(self, "HTTPSampler.ipSourceType");
        let address = match kind.as_str() {
            "" | "0" => source.parse().ok(),
            _ => None,
        };
        let address = address
            .ok_or_else(|| format!("the Lab sends only from an IP address, not from `{source}`"));
        self.supported(element, address)
    }

    fn credentials(&mut self, manager: &Element) -> Vec<Credentials> {
        let mut all = Vec::new();
        for found in manager.properties.elements("AuthManager.auth_list") {
            let mechanism = found.text("Authorization.mechanism");
            if !matches!(mechanism, "" | "BASIC" | "BASIC_DIGEST" | "DIGEST") {
                let message = format!("the Lab does not authenticate by `{mechanism}`");
                self.unsupported(manager, &message);
            }
            all.push(Credentials {
                url: self.text(manager, found.text("Authorization.url")),
                user: self.text(manager, found.text("Authorization.username")),
                password: self.text(manager, found.text("Authorization.password")),
                realm: self.text(manager, found.text("Authorization.realm")),
                is_preemptive: mechanism != "DIGEST",
            });
        }
        all
    }

    fn static_hosts(&mut self, manager: &Element) -> Vec<(String, String)> {
        let custom = self.switch(manager, "DNSCacheManager.isCustomResolver", false);
        if custom && !manager.properties.items("DNSCacheManager.servers").is_empty() {
            self.unsupported(manager, "the Lab asks only the DNS servers of the system");
        }
        let mut hosts = Vec::new();
        // JMeter reads its own table only with its own resolver.
        for host in manager.properties.elements("DNSCacheManager.hosts").filter(|_| custom) {
            let name = self.fixed_text(manager, host.text("StaticHost.Name"), "StaticHost.Name");
            let address =
                self.fixed_text(manager, host.text("StaticHost.Address"), "StaticHost.Address");
            hosts.push((name.trim().to_ascii_lowercase(), address.trim().to_owned()));
        }
        hosts
    }

    /// Fields of all header managers. An inner field replaces an outer one.
    fn headers(&mut self, scope: &Scope<'_>, url: &Url) -> Vec<(Text, Text)> {
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
                let value = match is_named(&name, "host") {
                    true => host(value, url),
                    false => value,
                };
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
        let protocol = settings.text(self, "HTTPSampler.protocol");
        let host = settings.text(self, "HTTPSampler.domain");
        let port = settings.text(self, "HTTPSampler.port");
        if host.is_empty() {
            self.invalid(element, "no server name, neither here nor in the defaults");
            return None;
        }
        let base = match (protocol.as_fixed(), host.as_fixed(), port.as_fixed()) {
            (Some(protocol), Some(host), Some(port)) => {
                Ok(self.valid(element, origin(protocol, host, port))?)
            }
            _ => {
                let scheme = if protocol.is_empty() { Text::fixed("http") } else { protocol };
                let colon = if port.is_empty() { "" } else { ":" };
                let host = scheme.into_iter().chain(["://".into()]).chain(host);
                Err(Text::from_parts(host.chain([colon.into()]).chain(port)))
            }
        };
        if !path.is_empty() && start.is_empty() {
            let base = base.map_or_else(|base| base, |origin| Text::fixed(origin.url("")));
            return Some(Url::Path { base, path, query: query.unwrap_or_default() });
        }
        let mut target = Vec::new();
        if !start.starts_with('/') {
            target.push("/".into());
        }
        target.extend(path.into_iter().map(|part| match part {
            TextPart::Literal(text) => text.replace(' ', "%20").as_str().into(),
            other => without_spaces(other),
        }));
        if let Some(query) = query {
            let has =
                |part: &TextPart| matches!(part, TextPart::Literal(text) if text.contains('?'));
            target.push(if target.iter().any(has) { "&" } else { "?" }.into());
            target.extend(query);
        }
        Some(match base {
            Ok(origin) => Url::Parts { origin, target: Text::from_parts(target) },
            Err(base) => Url::Absolute(Text::from_parts(base.into_iter().chain(target))),
        })
    }
}

/// A part of a path, in which JMeter encodes spaces.
fn without_spaces(part: TextPart) -> TextPart {
    let arguments = vec![Text::from_parts([part]), Text::fixed(" "), Text::fixed("%20")];
    Function::Jmeter(Call { function: JmeterFunction::Replace, arguments }).into()
}

/// Whether a field has this name.
fn is_named(name: &Text, expected: &str) -> bool {
    name.as_fixed().is_some_and(|name| name.eq_ignore_ascii_case(expected))
}

/// `Host` with the port of the URL, as JMeter completes it.
fn host(value: Text, url: &Url) -> Text {
    let Url::Parts { origin, .. } = url else { return value };
    let default = Origin::default_port(origin.tls);
    let Some(fixed) = value.as_fixed() else {
        let port = (origin.port != default).then(|| format!(":{}", origin.port));
        return Text::from_parts(
            value.into_iter().chain([port.unwrap_or_default().as_str().into()]),
        );
    };
    let written = fixed.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?)));
    let (name, port) = written.unwrap_or((fixed, origin.port));
    match port == default {
        true => Text::fixed(name),
        false => Text::fixed(format!("{name}:{port}")),
    }
}

/// Adds a field unless a field of this name exists.
fn add(headers: &mut Vec<(Text, Text)>, name: &str, value: Text) {
    if !headers.iter().any(|(known, _)| is_named(known, name)) {
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
