//! What is salient of a Config, as text for snapshots.

use crate::written::Unwritten;
use std::fmt::{Debug, Write};
use std::path::Path;
use weir_config::*;
use weir_gateway::configuration::Configuration;
use weir_model::pool::AgentSource;

pub(crate) fn summary(loaded: &Configuration, folder: &Path) -> String {
    let Configuration { config, compiled, findings } = loaded;
    let mut out = String::new();
    let unwritten = Unwritten::new();
    for f in &findings.list {
        writeln!(out, "warning {}:{} {}", f.code, f.line, f.message).expect("writes");
    }
    for l in &config.listen {
        let tls = match &l.tls {
            None => "plain".to_owned(),
            Some(Tls::SelfSigned) => "self-signed".to_owned(),
            Some(Tls::Certificates(keys)) => format!("{} certificates", keys.len()),
        };
        let proxy = match &l.proxy_protocol {
            None => "false".to_owned(),
            Some(senders) => format!("{senders:?}"),
        };
        writeln!(out, "listen {} {tls} trust {:?} proxy {proxy}", l.addr, l.trust).expect("writes");
        if !l.trust.is_empty() {
            writeln!(out, "  headers {:?}", l.trust_headers).expect("writes");
        }
        if let Some(clients) = &l.clients {
            let (ca, lists) = (clients.ca.certificates.len(), clients.revoked.len());
            let optional = clients.optional;
            writeln!(out, "  clients by {ca} authorities, {lists} lists, optional {optional}")
                .expect("writes");
        }
    }
    writeln!(out, "admin {} {:?}", config.admin.addr, config.admin.hosts).expect("writes");
    let relative = |path: &Path| path.strip_prefix(folder).unwrap_or(path).display().to_string();
    writeln!(out, "data {}", relative(&config.data)).expect("writes");
    let sections: [&dyn Debug; 6] = [
        &config.limits,
        &config.drain,
        &config.access_log,
        &config.journal,
        &config.tracker,
        &config.monitor,
    ];
    let sections = sections.map(|section| unwritten.shown(section));
    for section in sections.iter().filter(|section| section.contains('{')) {
        writeln!(out, "{section}").expect("writes");
    }
    if let Some(fleet) = &config.fleet {
        writeln!(out, "{}", unwritten.shown(fleet)).expect("writes");
    }
    if let Some(telemetry) = &config.telemetry {
        writeln!(out, "{}", unwritten.shown(telemetry)).expect("writes");
    }
    for u in &config.upstreams {
        writeln!(out, "{}", unwritten.shown(u)).expect("writes");
    }
    for p in &config.pools {
        writeln!(out, "{}", unwritten.shown(p)).expect("writes");
        if let AgentSource::Start(program) = &p.source {
            writeln!(out, "  env {:?}", program.env).expect("writes");
        }
    }
    for (id, a) in config.auths.iter().enumerate() {
        writeln!(out, "{a:?}").expect("writes");
        for k in compiled.verification_keys.of(AuthId(id)) {
            writeln!(out, "  key {:?} {:?} {:?}", k.kid, k.algorithms, k.key.family())
                .expect("writes");
        }
    }
    for p in &config.plans {
        let zone = p.quota.as_ref().and_then(|q| q.zone.iana_name().map(str::to_owned));
        let quota = p.quota.as_ref().map(|q| (q.calls, q.per, q.rolling));
        writeln!(out, "plan {} {:?} {quota:?} {zone:?}", p.name, p.rate).expect("writes");
        if let Some(price) = &p.price {
            writeln!(out, "  {price:?}").expect("writes");
        }
    }
    for c in &config.consumers {
        writeln!(out, "{c:?}").expect("writes");
    }
    for api in &config.apis {
        let cors = api.cors.as_ref().map_or("None".to_owned(), |cors| unwritten.shown(cors));
        writeln!(out, "api {} {:?} {} {cors}", api.name, api.hosts, api.base).expect("writes");
        for r in &api.routes {
            route(&mut out, r, folder, &unwritten);
        }
    }
    for s in &config.sources {
        writeln!(out, "source {}", relative(s)).expect("writes");
    }
    // Where the case stands on this machine is none of it.
    out.replace(&format!("{}/", folder.display()), "").replace(&folder.display().to_string(), "")
}

fn route(out: &mut String, r: &Route, folder: &Path, unwritten: &Unwritten) {
    writeln!(
        out,
        "  {:?} {:?} {:?} wildcard {} line {}",
        r.operation, r.methods, r.path.segments, r.path.wildcard, r.location.line
    )
    .expect("writes");
    if r.path_normalization != weir_config::PathNormalization::default() {
        writeln!(out, "    {:?}", r.path_normalization).expect("writes");
    }
    if !r.clients.is_empty() {
        writeln!(out, "    {:?}", r.clients).expect("writes");
    }
    writeln!(out, "    {:?} body {} timeout {:?}", r.access, r.body_limit, r.timeout)
        .expect("writes");
    if r.count != CountRule::default() {
        writeln!(out, "    count {:?}", r.count).expect("writes");
    }
    if r.capture != Capture::default() {
        writeln!(out, "    {:?}", r.capture).expect("writes");
    }
    if r.resubmit != Resubmit::default() {
        writeln!(out, "    {:?}", r.resubmit).expect("writes");
    }
    for l in &r.rate_limits {
        writeln!(out, "    {l:?}").expect("writes");
    }
    if r.compress.enabled {
        writeln!(out, "    {}", unwritten.shown(&r.compress)).expect("writes");
    }
    if let Some(v) = &r.validation {
        validation(out, v);
    }
    if !r.request_headers.is_empty() || !r.response_headers.is_empty() {
        writeln!(out, "    {:?} {:?}", r.request_headers, r.response_headers).expect("writes");
    }
    for (what, map) in [("request", &r.request_map), ("response", &r.response_map)] {
        match map {
            None => {}
            Some(BodyMap::Structure(one)) => structure(out, what, one),
            Some(BodyMap::Script(called)) => script(out, &format!("{what} script"), called),
        }
    }
    match &r.handler {
        Handler::Script(called) => script(out, "script", called),
        Handler::Proxy(proxy) => writeln!(out, "    {}", unwritten.shown(proxy)).expect("writes"),
        Handler::Calls(calls) => {
            calls.iter().for_each(|call| writeln!(out, "    {call:?}").expect("writes"));
        }
        Handler::Pool(pool) => writeln!(out, "    {}", unwritten.shown(pool)).expect("writes"),
        Handler::Files(files) => {
            let text = unwritten.shown(files).replace(&format!("{}/", folder.display()), "");
            writeln!(out, "    {text}").expect("writes");
        }
        Handler::Reply(reply) => {
            writeln!(out, "    reply {} {:?}", reply.status, reply.headers).expect("writes");
            match &reply.body {
                ReplyBody::Empty => {}
                ReplyBody::Fixed(one) => representation(out, one),
                ReplyBody::Negotiated(many) => many.iter().for_each(|r| representation(out, r)),
                ReplyBody::Mapped(one) => structure(out, "reply", one),
            }
        }
    }
}

fn validation(out: &mut String, v: &weir_config::validation::Validation) {
    writeln!(out, "    validate {:?} {:?}", v.requests, v.responses).expect("writes");
    for p in &v.parameters {
        writeln!(
            out,
            "      {:?} {} {:?} explode {} required {}",
            p.place, p.name, p.style, p.explode, p.required
        )
        .expect("writes");
    }
    if let Some(body) = &v.body {
        let ranges: Vec<&str> = body.contents.iter().map(|c| c.range.as_str()).collect();
        writeln!(out, "      body {ranges:?} required {}", body.required).expect("writes");
    }
    for answer in &v.answers {
        let ranges: Vec<&str> = answer.contents.iter().map(|c| c.range.as_str()).collect();
        writeln!(out, "      {:?} {ranges:?}", answer.status).expect("writes");
    }
}

fn representation(out: &mut String, r: &Representation) {
    let body = String::from_utf8_lossy(&r.body);
    writeln!(out, "      {} {} bytes {body:?}", r.content_type, r.body.len()).expect("writes");
}

fn script(out: &mut String, what: &str, script: &Script) {
    let Script { program, formats, fetch, isolated } = script;
    let exports = &program.exports;
    writeln!(out, "    {what} {exports:?} {formats:?} {fetch:?} {isolated}").expect("writes");
}

fn structure(out: &mut String, what: &str, one: &Structure) {
    let Structure { map, from, formats } = one;
    writeln!(
        out,
        "    {what} map: body {} request {} tree {} from {from:?} as {formats:?}",
        map.reads_body(),
        map.reads_request(),
        map.needs_tree()
    )
    .expect("writes");
}
