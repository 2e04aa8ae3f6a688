//! Converts a curl command to the request that it would send.
//!
//! Words are split as in a POSIX shell. Options that affect the request are supported as in the
//! curl manual; a few options without an effect on the request are ignored. Any other option is
//! rejected by name: the explained request must equal the request of curl.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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
enum Says {
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
    Nothing,
    /// An option with a value, without an effect on the request.
    NothingMore,
}

/// Options with their short form.
const OPTIONS: &[(&str, &str, Says)] = &[
    ("--request", "-X", Says::Method),
    ("--header", "-H", Says::Header),
    ("--data", "-d", Says::Data),
    ("--data-ascii", "", Says::Data),
    ("--data-binary", "", Says::Data),
    ("--data-raw", "", Says::Raw),
    ("--data-urlencode", "", Says::Encoded),
    ("--json", "", Says::Json),
    ("--user", "-u", Says::User),
    ("--user-agent", "-A", Says::Agent),
    ("--referer", "-e", Says::Referer),
    ("--cookie", "-b", Says::Cookie),
    ("--url", "", Says::Url),
    ("--get", "-G", Says::Get),
    ("--head", "-I", Says::Head),
    ("--compressed", "", Says::Compressed),
    ("--http1.1", "", Says::Nothing),
    ("--path-as-is", "", Says::Nothing),
    ("--location", "-L", Says::Nothing),
    ("--silent", "-s", Says::Nothing),
    ("--show-error", "-S", Says::Nothing),
    ("--include", "-i", Says::Nothing),
    ("--insecure", "-k", Says::Nothing),
    ("--verbose", "-v", Says::Nothing),
    ("--fail", "-f", Says::Nothing),
    ("--fail-with-body", "", Says::Nothing),
    ("--no-buffer", "-N", Says::Nothing),
    ("--globoff", "-g", Says::Nothing),
    ("--output", "-o", Says::NothingMore),
    ("--write-out", "-w", Says::NothingMore),
    ("--max-time", "-m", Says::NothingMore),
    ("--connect-timeout", "", Says::NothingMore),
    ("--cacert", "", Says::NothingMore),
];

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
    for shell in ["$'", "$(", "`"] {
        // Quoted and unquoted words are not distinguished further.
        if text.contains(shell) {
            return Err(CurlError::Shell(match shell {
                "$'" => "$'…'",
                "$(" => "$(…)",
                _ => "`…`",
            }));
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
            let (name, given) = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word, None),
            };
            let says = find(|(long, ..)| *long == name).ok_or(CurlError::Option(name.clone()))?;
            let value = value(says, &name, given, &mut words)?;
            command.take(says, value)?;
        } else {
            command.short(&word, &mut words)?;
        }
    }
    command.request_text()
}

fn find(is_it: impl Fn(&(&str, &str, Says)) -> bool) -> Option<Says> {
    OPTIONS.iter().find(|option| is_it(option)).map(|(.., says)| *says)
}

fn takes_value(says: Says) -> bool {
    !matches!(says, Says::Get | Says::Head | Says::Compressed | Says::Nothing)
}

fn value(
    says: Says,
    name: &str,
    given: Option<String>,
    words: &mut impl Iterator<Item = String>,
) -> Result<String, CurlError> {
    if !takes_value(says) {
        // curl has no option `--silent=x`.
        return given.map_or(Ok(String::new()), |_| Err(CurlError::Option(format!("{name}=…"))));
    }
    given.or_else(|| words.next()).ok_or_else(|| CurlError::Value(name.to_owned()))
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
            let says = find(|(_, short, _)| *short == name);
            let says = says.ok_or_else(|| CurlError::Option(name.clone()))?;
            if takes_value(says) {
                let rest = &letters[at + letter.len_utf8()..];
                let given = (!rest.is_empty()).then(|| rest.to_owned());
                let value = value(says, &name, given, words)?;
                return self.take(says, value);
            }
            self.take(says, String::new())?;
        }
        Ok(())
    }

    fn take(&mut self, says: Says, value: String) -> Result<(), CurlError> {
        match says {
            Says::Method => self.method = Some(value),
            Says::Header => self.header(&value)?,
            Says::Data | Says::Json if value.starts_with('@') => {
                return Err(CurlError::File(value));
            }
            Says::Data | Says::Raw => self.more(&value, "&"),
            Says::Encoded => self.encoded(&value)?,
            Says::Json => {
                self.json = true;
                self.more(&value, "");
            }
            Says::User => {
                let text = if value.contains(':') { value } else { value + ":" };
                self.set("authorization", format!("Basic {}", STANDARD.encode(text)));
            }
            Says::Agent => self.set("user-agent", value),
            Says::Referer => self.set("referer", value),
            Says::Cookie if value.contains('=') => self.set("cookie", value),
            Says::Cookie => return Err(CurlError::File(value)),
            Says::Url => self.urls.push(value),
            Says::Get => self.get = true,
            Says::Head => self.head = true,
            Says::Compressed => self.set("accept-encoding", "deflate, gzip, br, zstd".to_owned()),
            Says::Nothing | Says::NothingMore => {}
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
        let mut part = String::from(name);
        if !name.is_empty() {
            part.push('=');
        }
        for byte in text.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    part.push(char::from(byte));
                }
                _ => part.push_str(&format!("%{byte:02X}")),
            }
        }
        self.more(&part, "&");
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

    fn header<'a>(ask: &'a RequestText, name: &str) -> Option<&'a str> {
        let found = ask.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_command_as_browsers_copy_it() {
        let ask = parse(
            "curl 'https://shop.example/orders?x=1' \\\n  -X PUT -H 'Accept: a/b' \
             -H 'X-Key: it'\\''s' --data-raw '{\"a\":1}' --compressed -sS",
        )
        .unwrap();
        assert_eq!(
            (ask.method.as_str(), ask.target.as_str()),
            ("PUT", "https://shop.example/orders?x=1")
        );
        assert_eq!(header(&ask, "x-key"), Some("it's"));
        assert_eq!(header(&ask, "accept"), Some("a/b"));
        assert!(header(&ask, "accept-encoding").is_some());
        assert_eq!(ask.body, br#"{"a":1}"#);
    }

    #[test]
    fn what_curl_adds_by_itself_is_added() {
        let ask = parse("curl localhost:8080 -d a=1 -d b=2 -u me:secret -H 'User-Agent:'").unwrap();
        assert_eq!((ask.method.as_str(), ask.target.as_str()), ("POST", "http://localhost:8080"));
        assert_eq!(ask.body, b"a=1&b=2");
        assert_eq!(header(&ask, "content-type"), Some("application/x-www-form-urlencoded"));
        assert_eq!(header(&ask, "authorization"), Some("Basic bWU6c2VjcmV0"));
        assert_eq!(header(&ask, "user-agent"), None);
        let ask = parse("curl -G http://a/x --data-urlencode 'q=a b&c' -d y").unwrap();
        assert_eq!((ask.method.as_str(), ask.target.as_str()), ("GET", "http://a/x?q=a%20b%26c&y"));
        let ask = parse("curl --json '{}' http://a/").unwrap();
        assert_eq!(header(&ask, "content-type"), Some("application/json"));
        assert_eq!(header(&ask, "accept"), Some("application/json"));
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
