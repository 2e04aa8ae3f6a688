//! Resources that pages and style sheets refer to, as JMeter finds them.

use super::scan::check_html;
use regex::Regex;
use scraper::Html;
use std::collections::HashSet;
use std::sync::OnceLock;
use url::Url;

/// Most resources of a page.
const MAX_LINKS: usize = 1000;
/// Longest URL of a resource.
const MAX_URL_BYTES: usize = 8 * 1024;

/// URLs of the resources of a page, each once; none of a page that is too large.
pub(crate) fn of_html(html: &str, url: &str) -> Vec<String> {
    let Ok(mut base) = Url::parse(url) else { return Vec::new() };
    if check_html(html).is_err() {
        return Vec::new();
    }
    let document = Html::parse_document(html);
    let mut links = Links::default();
    for element in document.tree.nodes().filter_map(|node| node.value().as_element()) {
        let attribute = |name: &str| element.attr(name).unwrap_or_default();
        let is = |name: &str, value: &str| attribute(name).eq_ignore_ascii_case(value);
        match element.name() {
            "base" => {
                if let Ok(other) = base.join(attribute("href")) {
                    base = other;
                }
            }
            "img" | "script" | "frame" | "iframe" | "embed" | "bgsound" => {
                links.add(&base, attribute("src"));
            }
            "input" if is("type", "image") => links.add(&base, attribute("src")),
            "object" => {
                links.add(&base, attribute("codebase"));
                links.add(&base, attribute("data"));
            }
            "applet" if attribute("codebase").is_empty() => links.add(&base, attribute("code")),
            "applet" => {
                let file = match attribute("archive") {
                    "" => attribute("code"),
                    archive => archive,
                };
                links.add(&base, &format!("{}/{file}", attribute("codebase")));
            }
            "link" => {
                if ["stylesheet", "icon", "shortcut icon"].into_iter().any(|rel| is("rel", rel)) {
                    links.add(&base, attribute("href"));
                }
            }
            _ => links.add(&base, attribute("background")),
        }
        links.of_style(&base, attribute("style"));
    }
    links.urls
}

/// URLs of the style sheets that a style sheet imports, each once. JMeter does not load its images.
pub(crate) fn of_css(css: &str, url: &str) -> Vec<String> {
    static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
    let import = r#"(?i)@import\s+(?:url\(\s*)?['"]?([^'")\s;]+)"#;
    let mut links = Links::default();
    if let Ok(base) = Url::parse(url) {
        links.add_found(&base, css, PATTERN.get_or_init(|| Regex::new(import).ok()));
    }
    links.urls
}

#[derive(Default)]
struct Links {
    urls: Vec<String>,
    known: HashSet<String>,
}

impl Links {
    fn add(&mut self, base: &Url, reference: &str) {
        let reference = reference.trim();
        let fits = reference.len() <= MAX_URL_BYTES && self.urls.len() < MAX_LINKS;
        if reference.is_empty() || !fits {
            return;
        }
        let Ok(mut url) = base.join(reference) else { return };
        url.set_fragment(None);
        let fits = url.as_str().len() <= MAX_URL_BYTES;
        if fits && matches!(url.scheme(), "http" | "https") && self.known.insert(url.to_string()) {
            self.urls.push(url.into());
        }
    }

    /// URLs in quotation marks of an attribute `style`.
    fn of_style(&mut self, base: &Url, style: &str) {
        static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
        let quoted = r#"(?i)\burl\(\s*['"]([^'"]*)['"]\s*\)"#;
        if !style.is_empty() {
            self.add_found(base, style, PATTERN.get_or_init(|| Regex::new(quoted).ok()));
        }
    }

    fn add_found(&mut self, base: &Url, text: &str, pattern: &Option<Regex>) {
        let found = pattern.iter().flat_map(|pattern| pattern.captures_iter(text));
        for reference in found.filter_map(|found| found.get(1)) {
            self.add(base, reference.as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_found_once() {
        let page = "<html><head><link rel=stylesheet href='/s.css'><link rel=canonical href=/no>\
                    <script src=a.js></script><base href='/sub/'></head><body background=bg.png \
                    style=\"x: url('st.png')\"><img src='i.png'><img src=i.png><img src='data:,x'>\
                    <iframe src='f.html'></iframe><input type=image src=b.png><a href=/l>l</a>";
        assert_eq!(
            of_html(page, "http://h/p/page"),
            ["s.css", "p/a.js", "sub/bg.png", "sub/st.png", "sub/i.png", "sub/f.html", "sub/b.png"]
                .map(|path| format!("http://h/{path}"))
        );
        let css = "@import \"o.css\"; @import url('p.css'); a { background: url('x.png') }";
        let long = format!("<img src='{}'><img src=i>", "x".repeat(9_000));
        assert_eq!(of_html(&long, "http://h/"), ["http://h/i"]);
        let far = format!("http://h/{}/", "x".repeat(9_000));
        assert!(of_html("<img src=i>", &far).is_empty());
        assert_eq!(of_css(css, "http://h/s.css"), ["http://h/o.css", "http://h/p.css"]);
    }
}
