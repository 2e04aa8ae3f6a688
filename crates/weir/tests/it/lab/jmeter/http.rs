//! Details of HTTP samplers and their managers, compared with JMeter.

use super::compare_files;
use super::elements::{argument, el, group, item, plan_with, sampler, with_list};

pub(super) fn request(
    name: &str,
    method: &str,
    path: &str,
    more: &[(&str, &str)],
    lists: (&str, &str),
    below: &str,
) -> String {
    let usual = [("HTTPSampler.method", method), ("HTTPSampler.path", path)];
    let properties: Vec<(&str, &str)> = usual.into_iter().chain(more.iter().copied()).collect();
    sampler(name, &properties, lists, below)
}

fn file(path: &str, parameter: &str, kind: &str) -> String {
    item(
        "HTTPFileArg",
        &[("File.path", path), ("File.paramname", parameter), ("File.mimetype", kind)],
    )
}

pub(super) fn header(name: &str, value: &str) -> String {
    let header = item("Header", &[("Header.name", name), ("Header.value", value)]);
    with_list("HeaderManager", &[], ("HeaderManager.headers", &header))
}

#[test]
fn bodies_and_their_types() {
    let keep = [("HTTPSampler.use_keepalive", "true")];
    let form = argument("a", "x y", true)
        + &argument("b", "Test+Fluffy+${n}", false)
        + &argument("c", "%41%20${n}", false)
        + &argument("", "nameless", true);
    let raw = argument("", "<a>${n}</a>", false);
    let mut inside = String::new();
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        inside += &request(&format!("{method} form"), method, "/echo", &keep, (&form, ""), "");
        let one = file("data.bin", "", "application/x-data");
        inside += &request(&format!("{method} file"), method, "/echo", &[], ("", &one), "");
        let none = file("data.bin", "", "");
        inside +=
            &request(&format!("{method} file without type"), method, "/echo", &[], ("", &none), "");
        inside += &request(
            &format!("{method} file and arguments"),
            method,
            "/echo",
            &[],
            (&form, &one),
            "",
        );
        inside +=
            &request(&format!("{method} file and text"), method, "/echo", &[], (&raw, &one), "");
    }
    for method in ["PROPFIND", "REPORT", "MKCOL", "LOCK", "UNLOCK", "COPY", "SEARCH"] {
        inside += &request(&format!("{method} text"), method, "/echo", &[], (&raw, ""), "");
        inside += &request(&format!("{method} nothing"), method, "/echo", &[], ("", ""), "");
    }
    inside += &request("GET text", "GET", "/echo", &[], (&raw, ""), "");
    inside += &request("GET form", "GET", "/echo?x=1", &[], (&form, ""), "");
    let accents = argument("é", "ü €", true);
    for encoding in ["ISO-8859-1", "UTF-8", "windows-1252"] {
        let more = [("HTTPSampler.contentEncoding", encoding)];
        let name = |kind: &str| format!("{kind} in {encoding}");
        inside += &request(&name("form"), "POST", "/echo", &more, (&accents, ""), "");
        inside += &request(&name("query"), "GET", "/echo", &more, (&accents, ""), "");
        let text = argument("", "ü ${n}", false);
        inside += &request(&name("text"), "POST", "/echo", &more, (&text, ""), "");
    }
    let json = header("Content-Type", "application/json");
    inside += &request("own type", "POST", "/echo", &[], (&raw, ""), &json);
    inside += &request("own type of form", "POST", "/echo", &[], (&form, ""), &json);
    let md5 = el("MD5HexAssertion", "md5", &[("MD5HexAssertion.size", "0")], "");
    inside += &request("md5", "GET", "/text", &[("HTTPSampler.md5", "true")], ("", ""), &md5);
    let inside = group("G", "1", "1", &[], &inside);
    compare_files("bodies", &plan_with(&[("n", "7")], &inside), &[("data.bin", b"\x00data\xff")]);
}

#[test]
fn parts_of_multipart_bodies() {
    let form = argument("a", "x ${n}", true) + &argument("é\"q", "ü", false);
    let files = file("part.bin", "f", "application/x-data") + &file("part.bin", "g", "text/plain");
    let parts = ("HTTPSampler.DO_MULTIPART_POST", "true");
    let lax = ("HTTPSampler.BROWSER_COMPATIBLE_MULTIPART", "true");
    let latin = ("HTTPSampler.contentEncoding", "ISO-8859-1");
    let mut inside = String::new();
    for method in ["POST", "PUT", "PATCH"] {
        inside +=
            &request(&format!("parts {method}"), method, "/parts", &[parts], (&form, &files), "");
    }
    inside += &request("parts without flag", "POST", "/parts", &[], (&form, &files), "");
    inside += &request("parts of browsers", "POST", "/parts", &[parts, lax], (&form, &files), "");
    inside += &request("parts in latin", "POST", "/parts", &[parts, latin], (&form, ""), "");
    inside += &request("parts: nothing", "POST", "/parts", &[parts], ("", ""), "");
    let own = header("Content-Type", "multipart/form-data");
    inside += &request("parts with type", "POST", "/parts", &[parts], (&form, ""), &own);
    let inside = group("G", "1", "1", &[], &inside);
    compare_files("parts", &plan_with(&[("n", "7")], &inside), &[("part.bin", b"data")]);
}

#[test]
fn redirects_and_urls() {
    let follow = [("HTTPSampler.follow_redirects", "true")];
    let auto = [("HTTPSampler.auto_redirects", "true")];
    let form = argument("a", "b", true);
    let json = header("Content-Type", "application/json");
    let mut inside = String::new();
    for status in [301, 302, 303, 307, 308] {
        let path = format!("/moved/{status}");
        for method in ["GET", "POST", "PUT", "HEAD"] {
            let lists = (if method == "POST" { form.as_str() } else { "" }, "");
            let name = format!("{method} {status}");
            inside += &request(&name, method, &path, &follow, lists, "");
            inside += &request(&format!("{name} ignored"), method, &path, &[], lists, "");
        }
        inside += &request(&format!("typed {status}"), "POST", &path, &follow, (&form, ""), &json);
    }
    for status in [301, 302, 303] {
        let name = format!("GET {status} auto");
        inside += &request(&name, "GET", &format!("/moved/{status}"), &auto, ("", ""), "");
    }
    inside += &request("relative", "GET", "/moved/to/x y", &follow, ("", ""), "");
    for (at, path) in [
        "",
        "/",
        "text",
        "${none}",
        "/${none}",
        "/a|b",
        "/a b",
        "/a%zz",
        "/a?b={c}",
        "${path}",
        "${path}?x=${n}",
        "${url}",
        "/ä",
        "/a#b",
    ]
    .iter()
    .enumerate()
    {
        inside += &request(&format!("path {at}"), "GET", path, &[], ("", ""), "");
    }
    inside +=
        &request("host header", "GET", "/headers", &[], ("", ""), &header("Host", "a.example"));
    inside += &request(
        "host with port",
        "GET",
        "/headers",
        &[],
        ("", ""),
        &header("Host", "a.example:99"),
    );
    inside +=
        &request("host 80", "GET", "/headers", &[], ("", ""), &header("Host", "a.example:80"));
    let other = [("HTTPSampler.domain", "${none}")];
    inside += &request("no host", "GET", "/", &other, ("", ""), "");
    let rich =
        [("HTTPSampler.image_parser", "true"), ("HTTPSampler.embedded_url_exclude_re", ".*skip.*")];
    inside += &request("rich", "GET", "/rich", &rich, ("", ""), "");
    let allowed =
        [("HTTPSampler.image_parser", "true"), ("HTTPSampler.embedded_url_re", ".*rich.*")];
    inside += &request("rich, in part", "GET", "/rich?${n}", &allowed, ("", ""), "");
    let proxy = [
        ("HTTPSampler.proxyHost", "127.0.0.1"),
        ("HTTPSampler.proxyPort", "${__P(port)}"),
        ("HTTPSampler.domain", "a.example"),
        ("HTTPSampler.port", "8080"),
    ];
    inside += &request("proxy", "POST", "/x?y", &proxy, (&form, ""), "");
    inside += &request("proxy ${n}", "GET", "/x?${n}", &proxy, ("", ""), "");
    let source = [("HTTPSampler.ipSource", "127.0.0.1")];
    inside += &request("source", "GET", "/text", &source, ("", ""), "");
    let host = item(
        "StaticHost",
        &[("StaticHost.Name", "static.example"), ("StaticHost.Address", "127.0.0.1")],
    );
    let table = with_list(
        "DNSCacheManager",
        &[("DNSCacheManager.isCustomResolver", "true")],
        ("DNSCacheManager.hosts", &host),
    );
    let named = [("HTTPSampler.domain", "static.example")];
    inside += &request("table", "GET", "/text", &named, ("", ""), &table);
    let inside = group("G", "1", "1", &[], &inside);
    let variables = [("n", "7"), ("path", "text"), ("url", "http://127.0.0.1:${__P(port)}/text?u")];
    compare_files("urls", &plan_with(&variables, &inside), &[]);
}

fn cookies() -> String {
    with_list(
        "CookieManager",
        &[("CookieManager.clearEachIteration", "false"), ("CookieManager.policy", "standard")],
        ("CookieManager.cookies", ""),
    )
}

/// Pages whose resources set cookies, one after the other and in parallel.
fn cookies_of_resources() -> String {
    let mut inside = String::new();
    for (pool, prefix) in [("none", ""), ("3", "parallel "), ("2", "parallel "), ("1", "")] {
        for kind in ["first", "last", "ended-first", "ended-last", "new", "redirect", "framed"] {
            let more = [
                ("HTTPSampler.image_parser", "true"),
                ("HTTPSampler.use_keepalive", "true"),
                ("HTTPSampler.follow_redirects", "true"),
                ("HTTPSampler.concurrentDwn", if pool == "none" { "false" } else { "true" }),
                ("HTTPSampler.concurrentPool", pool),
            ];
            let name = |step: &str| format!("{prefix}{step} {kind} by {pool}");
            let get =
                |step: &str, path: &str| request(&name(step), "GET", path, &more, ("", ""), "");
            let steps = [
                cookies(),
                get("one", "/set/old=page"),
                get("two", "/set/other=page"),
                get("page", &format!("/crumbs/{kind}")),
                get("after", &format!("/headers?{kind}-{pool}")),
            ];
            inside += &group(&name("G"), "2", "2", &[], &steps.concat());
        }
    }
    inside
}

#[test]
fn resources_of_a_page_in_parallel() {
    // One plan: threads that load resources for JMeter fail in the next plan of a process.
    let mut inside = cookies();
    for (path, pool) in [("/pool", "3"), ("/rich", "2"), ("/rich?one", "1"), ("/rich?none", "x")] {
        let more = [
            ("HTTPSampler.image_parser", "true"),
            ("HTTPSampler.use_keepalive", "true"),
            ("HTTPSampler.concurrentDwn", "true"),
            ("HTTPSampler.concurrentPool", pool),
            ("HTTPSampler.embedded_url_exclude_re", ".*skip.*"),
        ];
        inside += &request(&format!("parallel {path} by {pool}"), "GET", path, &more, ("", ""), "");
    }
    inside += &request("after", "GET", "/headers", &[], ("", ""), "");
    let groups = group("G", "1", "2", &[], &inside) + &cookies_of_resources();
    compare_files("parallel", &plan_with(&[], &groups), &[]);
}
