//! Redaction of secrets in what results and reports show of requests, responses and scenarios.
//!
//! Values are replaced by `***` if their names look like those of credentials. Reports are handed
//! around: a harmless value that is hidden costs less than a password that is not.

use regex::{Captures, Regex};
use std::sync::LazyLock;

/// The replacement.
pub const REDACTED: &str = "***";

/// Parts of the names of credentials, in lower case, as a pattern.
const WORDS: &str =
    "pass|pwd|secret|token|key|auth|credential|session|cookie|signature|csrf|xsrf|jwt|saml|bearer";

/// Whole names of credentials, in lower case, as a pattern.
const NAMES: &str = "otp|pin|sig|sid|cvv|cvc";

/// Names that contain a word by chance.
const HARMLESS: [&str; 4] = ["author", "authors", "keyword", "keywords"];

/// Whether a field, parameter or property of this name may be a credential.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_part = WORDS.split('|').any(|word| name.contains(word));
    let is_name = NAMES.split('|').any(|word| name == word);
    (is_part || is_name) && !HARMLESS.contains(&name.as_str())
}

/// A head of a request or response (RFC 9112), without the values of secret fields and parameters.
/// The scheme of credentials stays: `Authorization: Bearer ***`.
#[must_use]
pub fn head(text: &str) -> String {
    let mut redacted = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if !redacted.is_empty() {
            redacted.push('\n');
        }
        // A request line has a space before the first colon, if it has one.
        match line.split_once(':').filter(|(name, _)| !name.contains(' ')) {
            Some((name, value)) if is_secret(name) => {
                redacted.extend([name, ": ", &credentials(value.trim())]);
            }
            Some((name, value)) => redacted.extend([name, ":", &parameters(value)]),
            None => redacted.push_str(&parameters(line)),
        }
    }
    redacted
}

/// A message: a head, an empty line and a body.
#[must_use]
pub fn exchange(text: &str) -> String {
    match text.split_once("\n\n") {
        // Samples without a request have no head.
        Some(("", after)) => body(after),
        Some((before, after)) => format!("{}\n\n{}", head(before), body(after)),
        None => head(text),
    }
}

/// Credentials without all but their scheme.
fn credentials(value: &str) -> String {
    let scheme = value.split_once(' ').map(|(scheme, _)| scheme).filter(|scheme| {
        ["basic", "bearer", "digest", "negotiate"].iter().any(|s| scheme.eq_ignore_ascii_case(s))
    });
    scheme.map_or_else(|| REDACTED.to_owned(), |scheme| format!("{scheme} {REDACTED}"))
}

/// A URL or a form, without the values of secret parameters and without user and password.
#[must_use]
pub fn parameters(text: &str) -> String {
    replace(&PARAMETERS, &replace(&USERS, text))
}

/// A body (JSON, XML, HTML, forms), without the values of secret members, elements and parameters.
#[must_use]
pub fn body(text: &str) -> String {
    let patterns = [&PARTS, &INPUTS, &MEMBERS, &ELEMENTS];
    patterns.iter().fold(parameters(text), |text, pattern| replace(pattern, &text))
}

/// The message of a failed sample, which may have parts of bodies and URLs.
#[must_use]
pub fn message(text: &str) -> String {
    replace(&PATHS, &body(text))
}

/// A scenario file, without the values of secret keys. References such as `${tokens.token}` stay.
#[must_use]
pub fn scenario(text: &str) -> String {
    replace(&KEYS, text)
}

type Pattern = LazyLock<Option<Regex>>;

/// A pattern of text before a secret, and of the secret; `NAME` stands for a secret name.
fn pattern(before: &str, value: &str) -> Option<Regex> {
    let name = format!(r"(?P<name>[\w.\[\]$-]*(?:{WORDS})[\w.\[\]$-]*|{NAMES})");
    let before = before.replace("NAME", &name);
    Regex::new(&format!("(?is)(?P<before>{before}){value}")).ok()
}

/// `&name=value`, also percent-encoded within another value.
static PARAMETERS: Pattern =
    LazyLock::new(|| pattern(r#"(?:^|[?&;#\s"']|%3f|%26|%23)NAME(?:=|%3d)"#, r#"[^&\s"'<>]+"#));

/// `//user:password@`.
static USERS: Pattern =
    LazyLock::new(|| Regex::new(r#"(?P<before>//)[^/@\s:"']+:[^/@\s"']+(?P<after>@)"#).ok());

/// `"name": value`, whose end may be cut off; also in JSON within a text of JSON.
static MEMBERS: Pattern = LazyLock::new(|| {
    let value = r#"(?:\\+"[^"]*"?|"(?:[^"\\]|\\.)*"?|\[[^\]]*\]?|\{[^}]*\}?|[^\s,\]}"]+)"#;
    pattern(r#"\\*"NAME\\*"\s*:\s*"#, value)
});

/// `<name>value<`.
static ELEMENTS: Pattern = LazyLock::new(|| {
    pattern(r"<(?:\w+:)?NAME(?:\s[^<>]*)?>", r"(?:<!\[CDATA\[.*?(?:\]\]>|$)|[^<]+)")
});

/// `name="name" value="value"`.
static INPUTS: Pattern =
    LazyLock::new(|| pattern(r#"name=["']NAME["'][^<>]*?\bvalue=["']"#, r#"[^"']+"#));

/// A part of a form with several parts (RFC 7578).
static PARTS: Pattern =
    LazyLock::new(|| pattern(r#"name="NAME"[^\r\n]*(?:\r?\n[^\r\n]+)*\r?\n\r?\n"#, r"[^\r\n]+"));

/// The values in the message of a check of a path.
static PATHS: Pattern = LazyLock::new(|| pattern("path '[^']*?NAME[^']*'[^']*'", ".*"));

/// `name: value` of YAML.
static KEYS: Pattern = LazyLock::new(|| {
    pattern(r#"["']?NAME["']?:[ \t]+"#, r#"(?:"[^"$]*"|'[^'$]*'|[^\s{}\[\],$"'|>&*][^\n{},$]*)"#)
});

fn replace(pattern: &Pattern, text: &str) -> String {
    // The patterns are constants that compile; the tests use each of them.
    let Some(pattern) = &**pattern else { return REDACTED.to_owned() };
    let redacted = |found: &Captures<'_>| {
        if found.name("name").is_none_or(|name| is_secret(name.as_str())) {
            let after = found.name("after").map_or("", |after| after.as_str());
            format!("{}{REDACTED}{after}", &found["before"])
        } else {
            found[0].to_owned()
        }
    };
    pattern.replace_all(text, redacted).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_keep_names_and_schemes() {
        let text = "GET /a?user=ann&access_token=t0p&x=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \
                    abc.def\r\nX-Api-Key: k\r\nCookie: a=b; c=d\r\nReferer: http://a/?password=p\r\n\r\n";
        assert_eq!(
            head(text),
            "GET /a?user=ann&access_token=***&x=1 HTTP/1.1\nHost: a\nAuthorization: Bearer ***\n\
             X-Api-Key: ***\nCookie: ***\nReferer: http://a/?password=***"
        );
        assert_eq!(
            head("HTTP/1.1 200 OK\r\nSet-Cookie: id=1\r\n"),
            "HTTP/1.1 200 OK\nSet-Cookie: ***"
        );
        assert_eq!(head("Authorization: Basic YTpi\nHost: a"), "Authorization: Basic ***\nHost: a");
    }

    #[test]
    fn urls_keep_what_is_not_secret() {
        for (text, redacted) in [
            ("/a?next=/cb?token=abc", "/a?next=/cb?token=***"),
            ("/a?next=%2Fcb%3Ftoken%3Dabc&x=1", "/a?next=%2Fcb%3Ftoken%3D***&x=1"),
            ("https://app/#access_token=abc", "https://app/#access_token=***"),
            ("https://ann:s3cret@host/a", "https://***@host/a"),
            ("/a?author=ann&pin=1234&pinned=yes", "/a?author=ann&pin=***&pinned=yes"),
            ("http://127.0.0.1:8080/orders?page=3", "http://127.0.0.1:8080/orders?page=3"),
        ] {
            assert_eq!(parameters(text), redacted);
        }
    }

    #[test]
    fn bodies_keep_their_form() {
        for (text, redacted) in [
            (
                r#"{"user": "ann", "password": "a\"b", "n": 7, "token": 12, "apiKey":"cut of"#,
                r#"{"user": "ann", "password": ***, "n": 7, "token": ***, "apiKey":***"#,
            ),
            (
                r#"{"body": "{\"password\": \"p\", \"a\": 1}"}"#,
                r#"{"body": "{\"password\": ***, \"a\": 1}"}"#,
            ),
            (r#"{"tokens": ["abc", "d"], "a": 1}"#, r#"{"tokens": ***, "a": 1}"#),
            (r#"{"credentials": {"value": "x"}, "a": 1}"#, r#"{"credentials": ***, "a": 1}"#),
            (r#"{"author": "ann", "code": 404}"#, r#"{"author": "ann", "code": 404}"#),
            ("user=ann&password=x%20y;z", "user=ann&password=***"),
            (
                "<a:login><user>ann</user><a:password>x</a:password></a:login>",
                "<a:login><user>ann</user><a:password>***</a:password></a:login>",
            ),
            ("<password><![CDATA[x]]></password>", "<password>***</password>"),
            (
                r#"<input name="csrf" type="hidden" value="abc">"#,
                r#"<input name="csrf" type="hidden" value="***">"#,
            ),
            (
                "Content-Disposition: form-data; name=\"password\"\r\n\r\nsecret\r\n--b",
                "Content-Disposition: form-data; name=\"password\"\r\n\r\n***\r\n--b",
            ),
        ] {
            assert_eq!(body(text), redacted);
        }
    }

    #[test]
    fn messages_and_scenarios_have_no_secrets() {
        assert_eq!(
            message("Value in json path '$.token' expected to be 'x', but found 'eyJ'"),
            "Value in json path '$.token' expected to be '***"
        );
        let plain = "Value in json path '$.id' expected to be 'x', but found 'y'";
        assert_eq!(message(plain), plain);
        assert_eq!(
            scenario("headers: {Authorization: \"Bearer abc\", A: b}\nkey: k.pem\nbody: x\n"),
            "headers: {Authorization: ***, A: b}\nkey: ***\nbody: x\n"
        );
        let reference =
            "headers: {Authorization: \"Bearer ${tokens.token}\"}\nfeeders: {tokens: {jwt: {}}}";
        assert_eq!(scenario(reference), reference);
    }
}
