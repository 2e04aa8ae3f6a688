//! URLs (WHATWG), queries, and targets of `fetch`.

use super::{Maybe, maybe};
use crate::call::Fetch;
use rquickjs::prelude::Func;
use rquickjs::{Ctx, Error, Object, Value};
use std::time::Duration;
use url::{Url, form_urlencoded, quirks};

pub(super) fn add(object: &Object<'_>) -> Result<(), Error> {
    object.set("url", Func::from(|ctx, input, base| parse(ctx, input, base)))?;
    object.set("urlSet", Func::from(|ctx, href, part, value| set(ctx, href, part, value)))?;
    let query = |text: String| {
        let pairs = form_urlencoded::parse(text.as_bytes());
        pairs.flat_map(|(name, value)| [name.into_owned(), value.into_owned()]).collect::<Vec<_>>()
    };
    object.set("query", Func::from(query))?;
    let text = |flat: Vec<String>| {
        let pairs = flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1]));
        form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    };
    object.set("queryText", Func::from(text))
}

/// The parts of a URL, in the order of the prelude.
fn parts(url: &Url) -> Vec<String> {
    [
        quirks::href(url),
        &quirks::origin(url),
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
    ]
    .map(str::to_owned)
    .to_vec()
}

fn parse<'js>(ctx: Ctx<'js>, input: String, base: Maybe<String>) -> Result<Value<'js>, Error> {
    let url = match base.0.flatten() {
        Some(base) => Url::parse(&base).and_then(|base| base.join(&input)),
        None => Url::parse(&input),
    };
    maybe(&ctx, url.ok().map(|url| parts(&url)))
}

fn set(ctx: Ctx<'_>, href: String, part: String, value: String) -> Result<Value<'_>, Error> {
    let Ok(mut url) = Url::parse(&href) else { return maybe::<()>(&ctx, None) };
    let always = |set: fn(&mut Url, &str), url: &mut Url| {
        set(url, &value);
        Ok(())
    };
    let done = match part.as_str() {
        "href" => quirks::set_href(&mut url, &value).map_err(|_| ()),
        "protocol" => quirks::set_protocol(&mut url, &value),
        "username" => quirks::set_username(&mut url, &value),
        "password" => quirks::set_password(&mut url, &value),
        "host" => quirks::set_host(&mut url, &value),
        "hostname" => quirks::set_hostname(&mut url, &value),
        "port" => quirks::set_port(&mut url, &value),
        "pathname" => always(quirks::set_pathname, &mut url),
        "search" => always(quirks::set_search, &mut url),
        "hash" => always(quirks::set_hash, &mut url),
        _ => Err(()),
    };
    maybe(&ctx, done.ok().map(|()| parts(&url)))
}

/// A request to an upstream, or why it is invalid. The caller checks whether the script may use the
/// upstream.
pub(super) fn request(
    url: &str,
    method: String,
    fields: Vec<String>,
    body: Option<Vec<u8>>,
    timeout: Option<Duration>,
) -> Result<Fetch, String> {
    let method = method.to_ascii_uppercase();
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    if !known.contains(&method.as_str()) {
        return Err(format!("`{method}` is no method of fetch"));
    }
    let parsed = Url::parse(url).map_err(|_| format!("`{url}` is no URL"))?;
    // The name as written: the host of a URL is in lower case, the name of an upstream may not be.
    let name = url.trim().get("http://".len()..).filter(|_| parsed.scheme() == "http");
    let name = name.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    if name.is_empty() {
        return Err(format!("`{url}` names no upstream: write `http://NAME/path`"));
    }
    let mut headers = Vec::with_capacity(fields.len() / 2);
    for pair in fields.chunks_exact(2) {
        let (name, value) = (pair[0].clone(), pair[1].clone());
        if Fetch::OWN.contains(&name.as_str()) {
            return Err(format!("weir itself decides about the header `{name}`"));
        }
        if !is_field(&name, &value) {
            return Err(format!(
                "the header `{name}` contains characters that are invalid in HTTP"
            ));
        }
        headers.push((name, value));
    }
    let target = match parsed.query() {
        Some(query) => format!("{}?{query}", parsed.path()),
        None => parsed.path().to_owned(),
    };
    Ok(Fetch { upstream: name.to_owned(), method, target, headers, body, timeout })
}

/// Whether name and value are valid in a head (RFC 9110 sections 5.1 and 5.5).
fn is_field(name: &str, value: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let text = |b: u8| b == b'\t' || (b >= b' ' && b != 0x7f);
    !name.is_empty() && name.bytes().all(token) && value.bytes().all(text)
}
