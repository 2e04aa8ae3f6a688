//! Files of the console below `/console/`, embedded at build time.
//!
//! A path without a file is a view of the console: it gets the page, which reads the rest of the
//! path. Names below `assets/` contain a hash of the content.

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// A file of the console.
struct File {
    /// Path below `/console/`.
    name: &'static str,
    plain: &'static [u8],
    /// The gzip variant.
    compressed: Option<&'static [u8]>,
}

/// The page of all views.
const PAGE: &str = "index.html";
/// Scripts, styles and requests are restricted to this origin; no inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' blob: data:; connect-src 'self'; font-src 'self'; manifest-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The page if the console was not built.
const NOT_BUILT: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
    <title>weir</title></head><body><main><h1>This weir was built without the console</h1>\
    <p>Run <code>make report console</code>, which needs npm, and build weir again; <code>make run</code> \
    does both.</p><p>The admin API under <code>/v1/</code>, <a href=\"/metrics\">metrics</a> and \
    the commands work without it.</p></main></body></html>\n";

/// `/`, and all paths below `/console/`.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let to_console = get(async || Redirect::temporary("/console/"));
    Router::new()
        .route("/", to_console.clone())
        .route("/console", to_console)
        .route("/console/", get(page))
        .route("/console/{*path}", get(file))
}

async fn page(request: Request) -> Response {
    respond(FILES, "", request.headers())
}

async fn file(Path(path): Path<String>, request: Request) -> Response {
    respond(FILES, &path, request.headers())
}

fn respond(files: &[File], path: &str, headers: &HeaderMap) -> Response {
    let file = files.iter().find(|file| file.name == path);
    let is_asset = path.starts_with("assets/");
    if file.is_none() && is_asset {
        // Probably a file of another version.
        return StatusCode::NOT_FOUND.into_response();
    }
    let Some(file) = file.or_else(|| files.iter().find(|file| file.name == PAGE)) else {
        return with_headers(NOT_BUILT.into_response(), PAGE, false);
    };
    let response = match file.compressed {
        Some(bytes) if takes_gzip(headers) => {
            ([(header::CONTENT_ENCODING, "gzip")], bytes).into_response()
        }
        _ => file.plain.into_response(),
    };
    with_headers(response, file.name, is_asset)
}

fn with_headers(response: Response, name: &str, is_asset: bool) -> Response {
    let kept = if is_asset { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = [
        (header::CONTENT_TYPE, content_type(name)),
        (header::CACHE_CONTROL, kept),
        (header::VARY, "accept-encoding"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    (headers, response).into_response()
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
    lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim().eq_ignore_ascii_case("gzip")
            && !matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        "webmanifest" => "application/manifest+json",
        "json" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const BUILT: [File; 2] = [
        File { name: "assets/a-1.js", plain: b"plain", compressed: Some(b"packed") },
        File { name: "index.html", plain: b"<html>", compressed: None },
    ];

    fn headers(coding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(coding))])
    }

    fn header(response: &Response, name: header::HeaderName) -> &str {
        response.headers().get(name).unwrap().to_str().unwrap()
    }

    #[test]
    fn files_are_kept_and_the_page_is_not() {
        let script = respond(&BUILT, "assets/a-1.js", &headers("br, gzip"));
        assert_eq!(header(&script, header::CONTENT_ENCODING), "gzip");
        assert_eq!(header(&script, header::CONTENT_TYPE), "text/javascript; charset=utf-8");
        assert!(header(&script, header::CACHE_CONTROL).ends_with("immutable"));
        for path in ["", "tracker", "transactions/1"] {
            let page = respond(&BUILT, path, &HeaderMap::new());
            assert_eq!(header(&page, header::CONTENT_TYPE), "text/html; charset=utf-8");
            assert_eq!(header(&page, header::CACHE_CONTROL), "no-cache");
            assert!(!header(&page, header::CONTENT_SECURITY_POLICY).contains("unsafe"));
        }
        assert_eq!(respond(&BUILT, "assets/b-2.js", &headers("gzip")).status(), 404);
    }

    #[test]
    fn only_who_takes_gzip_gets_it() {
        for (coding, taken) in
            [("gzip", true), ("deflate, GZIP;q=0.5", true), ("gzip;q=0", false), ("br", false)]
        {
            let response = respond(&BUILT, "assets/a-1.js", &headers(coding));
            let coded = response.headers().contains_key(header::CONTENT_ENCODING);
            assert_eq!(coded, taken, "{coding}");
        }
    }

    #[test]
    fn a_console_that_was_not_built_says_how_to_build_it() {
        let page = respond(&[], "tracker", &HeaderMap::new());
        assert_eq!(page.status(), 200);
        assert!(NOT_BUILT.contains("make report console"));
    }
}
