//! Names that indicate secrets: keys of a configuration, headers, query parameters.

/// Parts of the names of keys whose value may be a secret.
const SECRETS: [&str; 10] = [
    "authorization",
    "cookie",
    "key",
    "token",
    "secret",
    "passw",
    "bearer",
    "credential",
    "jwks",
    "signature",
];

/// Whether a header or a query parameter of this name may contain a secret: in addition to
/// `names_secret`, abbreviations that are too short for keys.
#[must_use]
pub fn names_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    names_secret(&name.replace("keyword", ""))
        || words.any(|word| {
            matches!(word, "sig" | "sign" | "hmac" | "mac" | "pwd" | "sas")
                || (word.contains("auth") && !word.starts_with("author"))
        })
}

/// Whether a text is a URL with a password, or a URL or a path with a query parameter that may be a
/// secret.
pub(crate) fn is_url_with_secret(text: &str) -> bool {
    let (authority, rest) = match text.split_once("://") {
        Some((_, rest)) => (&rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())], rest),
        None if text.starts_with('/') => ("", text),
        None => return false,
    };
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let named = |pair: &str| names_credential(pair.split('=').next().unwrap_or_default());
    authority.contains('@') || query.split(['&', ';', '#']).any(named)
}

/// Whether a key of this name, known or not, may contain a secret.
pub(crate) fn names_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    // `value` is a member of `header`.
    key == "value" || SECRETS.iter().any(|part| key.contains(part))
}

#[cfg(test)]
mod tests {
    use super::{is_url_with_secret, names_credential};

    #[test]
    fn what_may_be_a_credential_is_known_by_its_name() {
        for name in ["X-Api-Key", "sig", "x-amz-signature", "X-Auth", "oauth_verifier", "api_sig"] {
            assert!(names_credential(name), "{name}");
        }
        for name in ["format", "keyword", "author", "design", "signal", "page", ""] {
            assert!(!names_credential(name), "{name}");
        }
        let secret = ["https://u:p@a/", "https://a/hook?x=1&sig=abc", "srv+https://a?api_key=b#c"];
        for url in secret.into_iter().chain(["/alive?token=a"]) {
            assert!(is_url_with_secret(url), "{url}");
        }
        for url in ["https://a/u:p@b?page=1", "a?sig=b", "https://a/?q=sig", "/a/b@c?page=1"] {
            assert!(!is_url_with_secret(url), "{url}");
        }
    }
}
