//! Managers of HTTP samplers: cookies, credentials, caches; compared with JMeter.

use super::compare_files;
use super::elements::{argument, el, get_with, group, item, plan_with, post, with_list};
use super::http::{header, request};

fn cookie(name: &str, value: &str, domain: &str, path: &str) -> String {
    let text = item(
        "Cookie",
        &[("Cookie.value", value), ("Cookie.domain", domain), ("Cookie.path", path)],
    );
    text.replacen("name=\"\"", &format!("name=\"{name}\" testname=\"{name}\""), 1)
}

#[test]
fn cookies_credentials_and_caches() {
    let cookies =
        cookie("preset", "p${n}", "127.0.0.1", "/") + &cookie("other", "o", "x.example", "/");
    let manager = |clear: &str, policy: &str, cookies: &str| {
        with_list(
            "CookieManager",
            &[
                ("CookieManager.clearEachIteration", clear),
                ("CookieManager.policy", policy),
                ("CookieManager.controlledByThreadGroup", "false"),
            ],
            ("CookieManager.cookies", cookies),
        )
    };
    let own = header("Cookie", "own=1");
    let steps = |prefix: &str| {
        get_with(&format!("{prefix} set"), "/cookie/a", "")
            + &get_with(&format!("{prefix} see"), "/headers", "")
            + &get_with(&format!("{prefix} own"), "/headers", &own)
    };
    let mut inside =
        group("kept", "1", "2", &[], &(manager("false", "standard", &cookies) + &steps("kept")));
    inside += &group(
        "cleared",
        "1",
        "2",
        &[],
        &(manager("true", "standard", &cookies) + &steps("cleared")),
    );
    inside += &group(
        "ignored",
        "1",
        "2",
        &[],
        &(manager("false", "ignorecookies", "") + &steps("ignored")),
    );
    inside += &group("none", "1", "2", &[], &steps("none"));
    let within =
        el("GenericController", "c", &[], &(manager("false", "standard", "") + &steps("within")));
    inside += &group("scope", "1", "2", &[], &(within + &get_with("outside", "/headers", &own)));

    let auth = credentials(&[["/headers", "u${n}", "p", "", ""]]);
    inside += &group(
        "auth",
        "1",
        "1",
        &[],
        &(auth + &get_with("signed in", "/headers", "") + &get_with("not", "/text", "")),
    );

    let cache = |expires: &str| {
        el("CacheManager", "cache", &[("clearEachIteration", "false"), ("useExpires", expires)], "")
    };
    let cached = |prefix: &str| {
        get_with(&format!("{prefix} etag"), "/cached/etag", "")
            + &get_with(&format!("{prefix} date"), "/cached/date", "")
            + &get_with(&format!("{prefix} age"), "/cached/age", "")
            + &get_with(&format!("{prefix} age ${{n}}"), "/cached/age?${n}", "")
            + &post(&format!("{prefix} post"), "x", "")
    };
    inside += &group("cache", "1", "3", &[], &(cache("false") + &cached("valid")));
    inside += &group("expires", "1", "3", &[], &(cache("true") + &cached("fresh")));
    compare_files("managers", &plan_with(&[("n", "7")], &inside), &[]);
}

/// A manager of credentials: path, user, password, realm, mechanism.
fn credentials(all: &[[&str; 5]]) -> String {
    let of = |[path, user, password, realm, mechanism]: &[&str; 5]| {
        let url = format!("http://127.0.0.1:${{__P(port)}}{path}");
        let mut properties = vec![
            ("Authorization.url", &*url),
            ("Authorization.username", user),
            ("Authorization.password", password),
            ("Authorization.domain", ""),
            ("Authorization.realm", realm),
        ];
        if !mechanism.is_empty() {
            properties.push(("Authorization.mechanism", mechanism));
        }
        item("Authorization", &properties)
    };
    let list: String = all.iter().map(of).collect();
    with_list("AuthManager", &[], ("AuthManager.auth_list", &list))
}

#[test]
fn answers_to_challenges() {
    let keep = [("HTTPSampler.use_keepalive", "true"), ("HTTPSampler.follow_redirects", "true")];
    let form = argument("a", "x ${n}", true);
    let kinds = ["sha256", "md5", "session", "body", "basic", "both", "unknown", "stale", "never"];
    let mut inside = String::new();
    for mechanism in ["BASIC_DIGEST", "DIGEST", "BASIC"] {
        let mut steps = String::new();
        for kind in kinds {
            for (method, lists) in [("GET", ("", "")), ("POST", (&*form, "")), ("HEAD", ("", ""))] {
                let path = format!("/signed/{kind}?q=${{n}}");
                let name = format!("{mechanism} {kind} {method}");
                steps += &request(&name, method, &path, &keep, lists, "");
            }
        }
        steps += &request("no keep-alive", "GET", "/signed/sha256", &[], ("", ""), "");
        steps += &request("moved", "GET", "/left", &keep, ("", ""), "");
        let own = header("Authorization", "Own x");
        steps += &request("own field", "GET", "/signed/md5?own", &keep, ("", ""), &own);
        let manager = credentials(&[["/", "us\"e\\r", "p\u{e4}ss", "", mechanism]]);
        inside += &group(mechanism, "1", "2", &[], &(manager + &steps));
    }
    // A realm selects.
    for realm in ["lab", "other"] {
        let manager = credentials(&[["/", "user", "pass", realm, "DIGEST"]]);
        let name = format!("realm {realm}");
        let ask = request(&name, "GET", "/signed/sha256", &keep, ("", ""), "");
        inside += &group(&name, "1", "1", &[], &(manager + &ask));
    }
    compare_files("challenges", &plan_with(&[("n", "7")], &inside), &[]);
}
