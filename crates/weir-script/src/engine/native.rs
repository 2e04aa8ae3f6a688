//! Native functions of the prelude.

mod addresses;
mod hashes;

use super::host::{Call, Host};
use crate::call::{Fetch, OpKind};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use rquickjs::prelude::{Func, Opt};
use rquickjs::{Ctx, Error, Exception, IntoJs, Object, TypedArray, Value};
use std::rc::Rc;
use std::time::Duration;
use weir_model::Annotation;

/// Decodes bytes that the prelude encoded.
pub(super) fn unpacked(text: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(text).unwrap_or_default()
}

fn array<'js>(ctx: Ctx<'js>, bytes: &[u8]) -> Result<Value<'js>, Error> {
    Ok(TypedArray::<u8>::new_copy(ctx, bytes)?.into_value())
}

fn over(ctx: &Ctx<'_>) -> Error {
    Exception::throw_type(ctx, "the call this belongs to is over, or there is none")
}

/// The prelude's object.
pub(super) fn object<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>, Error> {
    let object = Object::new(ctx.clone())?;
    request(&object, host)?;
    ends(&object, host)?;
    operations(&object, host)?;
    texts(&object)?;
    hashes::add(&object)?;
    addresses::add(&object)?;
    Ok(object)
}

/// Request data and bodies.
fn request(object: &Object<'_>, host: &Rc<Host>) -> Result<(), Error> {
    object.set("fact", Func::from(reader(host, fact)))?;
    object.set("headers", Func::from(facts(host, |call| fields(&call.request.head))))?;
    object.set("parameters", Func::from(facts(host, |call| flat(&call.request.parameters))))?;
    object.set("principal", Func::from(facts(host, principal)))?;
    let answered = |_: &Ctx<'_>, call: &Call, number| Ok(flat(call.headers(number)));
    object.set("answered", Func::from(reader(host, answered)))?;
    object.set("text", Func::from(reader(host, text)))?;
    object.set("json", Func::from(reader(host, json)))?;
    object.set("bytes", Func::from(reader(host, bytes)))
}

/// A function that reads a running call by its number.
fn facts<'js, T, F: Fn(&Call) -> T>(
    host: &Rc<Host>,
    read: F,
) -> impl Fn(Ctx<'js>, u32) -> Result<T, Error> + use<'js, T, F> {
    let host = Rc::clone(host);
    move |ctx, call| host.with(call, &read).ok_or_else(|| over(&ctx))
}

/// A function that reads a part of a running call by two numbers.
fn reader<'js, T, N, F: Fn(&Ctx<'js>, &Call, N) -> Result<T, Error>>(
    host: &Rc<Host>,
    read: F,
) -> impl Fn(Ctx<'js>, u32, N) -> Result<T, Error> + use<'js, T, N, F> {
    let host = Rc::clone(host);
    move |ctx, call, number| {
        host.with(call, |call| read(&ctx, call, number)).unwrap_or_else(|| Err(over(&ctx)))
    }
}

fn fact(_: &Ctx<'_>, call: &Call, which: u8) -> Result<String, Error> {
    let request = &call.request;
    Ok(match which {
        0 => request.id.clone(),
        1 => request.method.clone(),
        2 => request.path.clone(),
        3 => request.query.clone(),
        4 => request.host.clone(),
        _ => request.client.map(|address| address.to_string()).unwrap_or_default(),
    })
}

fn principal(call: &Call) -> String {
    let principal = call.request.principal.as_ref().map(|principal| {
        serde_json::json!({
            "subject": principal.subject,
            "consumer": principal.consumer,
            "claims": principal.claims,
            "scopes": principal.scopes.split_ascii_whitespace().collect::<Vec<_>>(),
        })
    });
    principal.unwrap_or_default().to_string()
}

fn text<'js>(ctx: &Ctx<'js>, call: &Call, number: u32) -> Result<rquickjs::String<'js>, Error> {
    rquickjs::String::from_str(ctx.clone(), &String::from_utf8_lossy(call.body(number)))
}

fn json<'js>(ctx: &Ctx<'js>, call: &Call, number: u32) -> Result<Value<'js>, Error> {
    ctx.json_parse(call.body(number))
}

fn bytes<'js>(ctx: &Ctx<'js>, call: &Call, number: u32) -> Result<Value<'js>, Error> {
    array(ctx.clone(), call.body(number))
}

/// Names and values in turn.
fn flat(pairs: &[(String, String)]) -> Vec<String> {
    pairs.iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect()
}

/// Names, in lower case, and values of header lines.
fn fields(head: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(head);
    let mut fields = Vec::new();
    for line in text.split("\r\n") {
        if let Some((name, value)) = line.split_once(':') {
            fields.push(name.to_ascii_lowercase());
            fields.push(value.trim_matches([' ', '\t']).to_owned());
        }
    }
    fields
}

/// The end of a call that did not end at once, and its annotations.
fn ends(object: &Object<'_>, host: &Rc<Host>) -> Result<(), Error> {
    let of = Rc::clone(host);
    object.set("done", Func::from(move |call, value| done(&of, call, value)))?;
    let of = Rc::clone(host);
    object.set("failed", Func::from(move |call, value| failed(&of, call, value)))?;
    let of = Rc::clone(host);
    let log = move |level: String, text: String| {
        let known = ["debug", "warn", "error"].into_iter().find(|known| *known == level);
        of.log(known.unwrap_or("info"), &text);
    };
    object.set("log", Func::from(log))?;
    let of = Rc::clone(host);
    let note = move |ctx: Ctx<'_>, kind: String, name: String, text: String| {
        let kind = match kind.as_str() {
            "state" => Annotation::State,
            "key" => Annotation::Key,
            "property" => Annotation::Property,
            _ => Annotation::Log,
        };
        match of.annotate(kind, &name, &text) {
            true => Ok(()),
            false => Err(Exception::throw_range(&ctx, "a call has at most 64 of each")),
        }
    };
    object.set("note", Func::from(note))
}

fn done(host: &Host, call: u32, value: Value<'_>) {
    if host.is_current(call) {
        host.end(Some(host.response_or_error(value)));
    }
}

fn failed(host: &Host, call: u32, value: Value<'_>) {
    if host.is_current(call) {
        host.end(Some(host.failure(value)));
    }
}

/// Operations of a call.
fn operations(object: &Object<'_>, host: &Rc<Host>) -> Result<(), Error> {
    let of = Rc::clone(host);
    let timer = move |milliseconds: f64| {
        let time = Duration::from_secs_f64((milliseconds / 1000.0).clamp(0.0, 86_400.0));
        of.start(OpKind::Timer(time)).map_or(-1, |(_, op)| i64::from(op))
    };
    object.set("timer", Func::from(timer))?;
    let of = Rc::clone(host);
    object.set("drop", Func::from(move |op: f64| of.drop_op(op as u32)))?;
    let of = Rc::clone(host);
    object.set(
        "fetch",
        Func::from(move |ctx, url, method, fields, kind, body, time| {
            fetch(&of, ctx, url, method, fields, kind, body, time)
        }),
    )
}

#[expect(clippy::too_many_arguments, reason = "they come one by one from the prelude")]
fn fetch<'js>(
    host: &Host,
    ctx: Ctx<'js>,
    url: String,
    method: String,
    fields: Vec<String>,
    kind: u8,
    body: String,
    milliseconds: f64,
) -> Result<Value<'js>, Error> {
    let body = match kind {
        0 => None,
        1 => Some(body.into_bytes()),
        _ => Some(unpacked(&body)),
    };
    let timeout = (milliseconds > 0.0)
        .then(|| Duration::from_secs_f64((milliseconds / 1000.0).min(86_400.0)));
    match addresses::request(&url, method, fields, body, timeout) {
        Err(why) => why.into_js(&ctx),
        Ok(request) => match host.start(OpKind::Fetch(Box::new(request))) {
            Some((call, op)) => vec![call, op].into_js(&ctx),
            None => "there is no call, or it waits for too much".into_js(&ctx),
        },
    }
}

/// Conversions between text and bytes.
fn texts(object: &Object<'_>) -> Result<(), Error> {
    object.set("encode", Func::from(|ctx, text| encode(ctx, text)))?;
    let decode = |packed: String, fatal: bool| {
        let bytes = unpacked(&packed);
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        match std::str::from_utf8(bytes) {
            Ok(text) => Some(text.to_owned()),
            Err(_) if fatal => None,
            Err(_) => Some(String::from_utf8_lossy(bytes).into_owned()),
        }
    };
    object.set("decode", Func::from(decode))
}

fn encode<'js>(ctx: Ctx<'js>, text: rquickjs::String<'js>) -> Result<Value<'js>, Error> {
    array(ctx, text.to_string()?.as_bytes())
}

/// A value, or null.
fn maybe<'js, T: IntoJs<'js>>(ctx: &Ctx<'js>, value: Option<T>) -> Result<Value<'js>, Error> {
    match value {
        Some(value) => value.into_js(ctx),
        None => Ok(Value::new_undefined(ctx.clone())),
    }
}

/// An optional argument.
type Maybe<T> = Opt<Option<T>>;

impl Fetch {
    /// Headers for framing, the connection or the identity of the client.
    const OWN: [&str; 15] = [
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "weir-transaction-id",
        "http2-settings",
    ];
}
