//! Content types by extension.

/// The type of a file of this name.
pub(crate) fn content_type(name: &[u8], own: &[(String, String)]) -> String {
    let extension = extension(name);
    if let Some((_, own)) = own.iter().find(|(known, _)| *known == extension) {
        return own.clone();
    }
    let known = mime_guess::from_ext(&extension).first_raw();
    match known.unwrap_or("application/octet-stream") {
        // Texts are taken for UTF-8; other encodings need a configured type.
        text if text.starts_with("text/") => format!("{text}; charset=utf-8"),
        other => other.to_owned(),
    }
}

/// Whether a file of this name has a known type other than HTML: the fallback page must not be
/// served in its place.
pub fn is_asset(name: &[u8], own: &[(String, String)]) -> bool {
    let extension = extension(name);
    let page = matches!(extension.as_str(), "html" | "htm" | "xhtml");
    !page
        && (own.iter().any(|(known, _)| *known == extension)
            || mime_guess::from_ext(&extension).first_raw().is_some())
}

/// The extension of a name in lower case; empty if there is none.
fn extension(name: &[u8]) -> String {
    let start = memchr::memrchr(b'/', name).map_or(0, |at| at + 1);
    let name = &name[start..];
    let dot = memchr::memrchr(b'.', name).map_or(name.len(), |at| at + 1);
    String::from_utf8_lossy(&name[dot..]).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_go_by_extension_and_texts_are_utf_8() {
        let own = [("geojson".to_owned(), "application/geo+json".to_owned())];
        for (name, expected) in [
            ("a.html", "text/html; charset=utf-8"),
            ("deep.d/a.JSON", "application/json"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.svg", "image/svg+xml"),
            ("a.wasm", "application/wasm"),
            ("a.woff2", "font/woff2"),
            ("a.GeoJSON", "application/geo+json"),
            ("a.d/none", "application/octet-stream"),
            ("a.unheard-of", "application/octet-stream"),
            ("none", "application/octet-stream"),
        ] {
            assert_eq!(content_type(name.as_bytes(), &own), expected, "{name}");
        }
    }

    #[test]
    fn parts_of_pages_are_told_from_names_with_a_dot() {
        for (name, part) in [
            ("assets/app.js", true),
            ("logo.PNG", true),
            ("users/jane.doe", false),
            ("users/jane", false),
            ("old.html", false),
            ("v1.2", false),
        ] {
            assert_eq!(is_asset(name.as_bytes(), &[]), part, "{name}");
        }
    }
}
