//! Converts a curl command to the request that it would send.
//!
//! Words are split as in a POSIX shell. Options that affect the request are supported as in the
//! curl manual; a few options without an effect on the request are ignored. Any other option is
//! rejected by name: the explained request must equal the request of curl.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use weir_gateway::request_text::RequestText;

/// Why a curl command is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CurlError {
    /// Both a curl command and parts of a request are given.
    #[error("both a curl command and a request are given: use one of them")]
    Both,
    /// A quotation mark is not closed.
    #[error("a quotation mark is not closed, or the command ends with a backslash")]
    Words,
    /// It needs a shell.
    #[error("{0} needs a shell and is not supported; write the text itself")]
    Shell(&'static str),
    /// It is another command.
    #[error("the command does not begin with `curl`")]
    NotCurl,
    /// An option is not supported.
    #[error("the option {0} is not supported")]
    Option(String),
    /// An option has no value.
    #[error("the option {0} has no value")]
    Value(String),
    /// Data are to be read from a file.
    #[error("{0} reads a file: put the text itself in its place")]
    File(String),
    /// A header has no colon.
    #[error("a header is not NAME: VALUE")]
    Header,
    /// There is no URL, or more than one.
    #[error("expected one URL, found {0}")]
    Urls(usize),
}

/// The effect of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Method,
    Header,
    Data,
    /// Literal data, `@` included.
    Raw,
    Encoded,
    Json,
    User,
    Agent,
    Referer,
    Cookie,
    Url,
    Get,
    Head,
    Compressed,
    /// An option without an effect on the request.
    Ignored,
    /// An option with a value, without an effect on the request.
    IgnoredValue,
}

/// Options with their short form.
const OPTIONS: &[(&str, &str, Effect)] = &[
    ("--request", "-X", Effect::Method),
    ("--header", "-H", Effect::Header),
    ("--data", "-d", Effect::Data),
    ("--data-ascii", "", Effect::Data),
    ("--data-binary", "", Effect::Data),
    ("--data-raw", "", Effect::Raw),
    ("--data-urlencode", "", Effect::Encoded),
    ("--json", "", Effect::Json),
    ("--user", "-u", Effect::User),
    ("--user-agent", "-A", Effect::Agent),
    ("--referer", "-e", Effect::Referer),
    ("--cookie", "-b", Effect::Cookie),
    ("--url", "", Effect::Url),
    ("--get", "-G", Effect::Get),
    ("--head", "-I", Effect::Head),
    ("--compressed", "", Effect::Compressed),
    ("--http1.1", "", Effect::Ignored),
    ("--path-as-is", "", Effect::Ignored),
    ("--location", "-L", Effect::Ignored),
    ("--silent", "-s", Effect::Ignored),
    ("--show-error", "-S", Effect::Ignored),
    ("--include", "-i", Effect::Ignored),
    ("--insecure", "-k", Effect::Ignored),
    ("--verbose", "-v", Effect::Ignored),
    ("--fail", "-f", Effect::Ignored),
    ("--fail-with-body", "", Effect::Ignored),
    ("--no-buffer", "-N", Effect::Ignored),
    ("--globoff", "-g", Effect::Ignored),
    ("--output", "-o", Effect::IgnoredValue),
    ("--write-out", "-w", Effect::IgnoredValue),
    ("--max-time", "-m", Effect::IgnoredValue),
    ("--connect-timeout", "", Effect::IgnoredValue),
    ("--cacert", "", Effect::IgnoredValue),
];

/// Characters that `--data-urlencode` does not encode.
const UNRESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Default)]
struct Command {
    method: Option<String>,
    headers: Vec<(String, String)>,
    /// Headers that the command removes.
    without: Vec<String>,
    data: Option<String>,
    json: bool,
    get: bool,
    head: bool,
    urls: Vec<String>,
}

/// Parses a command.
///
/// # Errors
/// [`CurlError`].
pub fn parse(text: &str) -> Result<RequestText, CurlError> {
    for (shell, name) in [("$'", "$'…'"), ("$(", "$(…)"), ("`", "`…`")] {
        // Quoted and unquoted words are not distinguished further.
        if text.contains(shell) {
            return Err(CurlError::Shell(name));
        }
    }
    let words = shell_words::split(text).map_err(|_| CurlError::Words)?;
    let mut words = words.into_iter();
    match words.next() {
        Some(word) if word == "curl" || word.ends_with("/curl") => {}
        _ => return Err(CurlError::NotCurl),
    }
    let mut command = Command::default();
    let mut plain = false;
    while let Some(word) = words.next() {
        if plain || word == "-" || !word.starts_with('-') {
            command.urls.push(word);
        } else if word == "--" {
            plain = true;
        } else if word.starts_with("--") {
            let (name, inline) = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word, None),
            };
            let effect = find(|(long, ..)| *long == name).ok_or(CurlError::Option(name.clone()))?;
            let value = value(effect, &name, inline, &mut words)?;
            command.take(effect, value)?;
        } else {
            command.short(&word, &mut words)?;
        }
    }
    command.request_text()
}

fn find(is_match: impl Fn(&(&str, &str, Effect)) -> bool) -> Option<Effect> {
    OPTIONS.iter().find(|option| is_match(option)).map(|(.., effect)| *effect)
}

fn takes_value(effect: Effect) -> bool {
    !matches!(effect, Effect::Get | Effect::Head | Effect::Compressed | Effect::Ignored)
}

fn value(
    effect: Effect,
    name: &str,
    inline: Option<String>,
    words: &mut impl Iterator<Item = String>,
) -> Result<String, CurlError> {
    if !takes_value(effect) {
        // curl has no option `--silent=x`.
        return inline.map_or(Ok(String::new()), |_| Err(CurlError::Option(format!("{name}=…"))));
    }
    inline.or_else(|| words.next()).ok_or_else(|| CurlError::Value(name.to_owned()))
}

impl Command {
    /// Short options, several in one word; a value may follow its option directly.
    fn short(
        &mut self,
        word: &str,
        words: &mut impl Iterator<Item = String>,
    ) -> Result<(), CurlError> {
        let letters = &word[1..];
        for (at, letter) in letters.char_indices() {
            let name = format!("-{letter}");
            let effect = find(|(_, short, _)| *short == name);
            let effect = effect.ok_or_else(|| CurlError::Option(name.clone()))?;
            if takes_value(effect) {
                let rest = &letters[at + letter.len_utf8()..];
                let inline = (!rest.is_empty()).then(|| rest.to_owned());
                let value = value(effect, &name, inline, words)?;
                return self.take(effect, value);
            }
            self.take(effect, String::new())?;
        }
        Ok(())
    }

    fn take(&mut self, effect: Effect, value: String) -> Result<(), CurlError> {
        match effect {
            Effect::Method => self.method = Some(value),
            Effect::Header => self.header(&value)?,
            Effect::Data | Effect::Json if value.starts_with('@') => {
                return Err(CurlError::File(value));
            }
            Effect::Data | Effect::Raw => self.more(&value, "&"),
            Effect::Encoded => self.encoded(&value)?,
            Effect::Json => {
                self.json = true;
                self.more(&value, "");
            }
            Effect::User => {
                let text = if value.contains(':') { value } else { value + ":" };
                self.set("authorization", format!("Basic {}", STANDARD.encode(text)));
            }
            Effect::Agent => self.set("user-agent", value),
            Effect::Referer => self.set("referer", value),
            Effect::Cookie if value.contains('=') => self.set("cookie", value),
            Effect::Cookie => return Err(CurlError::File(value)),
            Effect::Url => self.urls.push(value),
            Effect::Get => self.get = true,
            Effect::Head => self.head = true,
            Effect::Compressed => self.set("accept-encoding", "deflate, gzip, br, zstd".to_owned()),
            Effect::Ignored | Effect::IgnoredValue => {}
        }
        Ok(())
    }

    /// `NAME: VALUE`; `NAME;` is a header without a value, and `NAME:` removes the header.
    fn header(&mut self, line: &str) -> Result<(), CurlError> {
        if line.starts_with('@') {
            return Err(CurlError::File(line.to_owned()));
        }
        match (line.split_once(':'), line.strip_suffix(';')) {
            (Some((name, value)), _) if value.trim().is_empty() => {
                self.without.push(name.to_owned())
            }
            (Some((name, value)), _) => {
                self.headers.push((name.to_owned(), value.trim().to_owned()));
            }
            (None, Some(name)) => self.headers.push((name.to_owned(), String::new())),
            (None, None) => return Err(CurlError::Header),
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
            || self.without.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Sets the default header of an option, unless a header sets it.
    fn set(&mut self, name: &str, value: String) {
        if !self.has(name) {
            self.headers.push((name.to_owned(), value));
        }
    }

    fn more(&mut self, value: &str, between: &str) {
        match &mut self.data {
            Some(data) => {
                data.push_str(between);
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
    }

    /// `TEXT`, `=TEXT` or `NAME=TEXT`.
    fn encoded(&mut self, value: &str) -> Result<(), CurlError> {
        let (name, text) = match value.split_once('=') {
            Some((name, text)) => (name, text),
            None if value.contains('@') => return Err(CurlError::File(value.to_owned())),
            None => ("", value),
        };
        let equals = if name.is_empty() { "" } else { "=" };
        self.more(&format!("{name}{equals}{}", utf8_percent_encode(text, &UNRESERVED)), "&");
        Ok(())
    }

    /// Adds the headers that curl sends by default.
    fn request_text(mut self) -> Result<RequestText, CurlError> {
        let [url] = self.urls.as_slice() else { return Err(CurlError::Urls(self.urls.len())) };
        // Without a scheme curl uses http.
        let mut target = if url.contains("://") { url.clone() } else { format!("http://{url}") };
        let mut data = self.data.take();
        if let Some(query) = data.take_if(|_| self.get) {
            target.push(if target.contains('?') { '&' } else { '?' });
            target.push_str(&query);
        }
        if data.is_some() {
            let form = "application/x-www-form-urlencoded";
            let kind = if self.json { "application/json" } else { form };
            self.set("content-type", kind.to_owned());
        }
        if self.json {
            self.set("accept", "application/json".to_owned());
        }
        self.set("accept", "*/*".to_owned());
        self.set("user-agent", "curl".to_owned());
        let usual = match (&data, self.head) {
            (_, true) => "HEAD",
            (Some(_), false) => "POST",
            (None, false) => "GET",
        };
        let method = self.method.unwrap_or_else(|| usual.to_owned());
        let body = data.unwrap_or_default().into_bytes();
        Ok(RequestText { method, target, headers: self.headers, body, ..RequestText::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header<'a>(request: &'a RequestText, name: &str) -> Option<&'a str> {
        let found = request.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_command_as_browsers_copy_it() {
        let request = parse(
            "curl 'https://shop.example/orders?x=1' \\\n  -X PUT -H 'Accept: a/b' \
             -H 'X-Key: it'\\''s' --data-raw '{\"a\":1}' --compressed -sS",
        )
        .unwrap();
        assert_eq!(
            (request.method.as_str(), request.target.as_str()),
            ("PUT", "https://shop.example/orders?x=1")
        );
        assert_eq!(header(&request, "x-key"), Some("it's"));
        assert_eq!(header(&request, "accept"), Some("a/b"));
        assert!(header(&request, "accept-encoding").is_some());
        assert_eq!(request.body, br#"{"a":1}"#);
    }

    #[test]
    fn what_curl_adds_by_itself_is_added() {
        let request =
            parse("curl localhost:8080 -d a=1 -d b=2 -u me:secret -H 'User-Agent:'").unwrap();
        assert_eq!(
            (request.method.as_str(), request.target.as_str()),
            ("POST", "http://localhost:8080")
        );
        assert_eq!(request.body, b"a=1&b=2");
        assert_eq!(header(&request, "content-type"), Some("application/x-www-form-urlencoded"));
        assert_eq!(header(&request, "authorization"), Some("Basic bWU6c2VjcmV0"));
        assert_eq!(header(&request, "user-agent"), None);
        let request = parse("curl -G http://a/x --data-urlencode 'q=a b&c' -d y").unwrap();
        assert_eq!(
            (request.method.as_str(), request.target.as_str()),
            ("GET", "http://a/x?q=a%20b%26c&y")
        );
        let request = parse("curl --json '{}' http://a/").unwrap();
        assert_eq!(header(&request, "content-type"), Some("application/json"));
        assert_eq!(header(&request, "accept"), Some("application/json"));
        assert_eq!(parse("curl -XPATCH -sI http://a/").unwrap().method, "PATCH");
        assert_eq!(parse("curl -I --url=http://a/").unwrap().method, "HEAD");
    }

    #[test]
    fn what_is_not_understood_is_refused_by_its_name() {
        for (command, expected) in [
            ("curl --proxy http://p http://a/", CurlError::Option("--proxy".to_owned())),
            ("curl -sx p http://a/", CurlError::Option("-x".to_owned())),
            ("curl -F a=b http://a/", CurlError::Option("-F".to_owned())),
            ("curl --silent=yes http://a/", CurlError::Option("--silent=…".to_owned())),
            ("curl http://a/ -H", CurlError::Value("-H".to_owned())),
            ("curl http://a/ -d @file", CurlError::File("@file".to_owned())),
            ("curl http://a/ -b jar.txt", CurlError::File("jar.txt".to_owned())),
            ("curl http://a/ -H nonsense", CurlError::Header),
            ("curl", CurlError::Urls(0)),
            ("curl http://a/ http://b/", CurlError::Urls(2)),
            ("wget http://a/", CurlError::NotCurl),
            ("curl 'http://a/", CurlError::Words),
            ("curl http://a/ --data-raw $'a\\n'", CurlError::Shell("$'…'")),
        ] {
            assert_eq!(parse(command), Err(expected), "{command}");
        }
    }
}
