//! Debug text without the fields that are as they are when nothing is written.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use weir_config::{Config, Handler};
use weir_gateway::configuration::load_text;

/// Fields that are not written, by the name of their struct: `timeout: 30s` of `Upstream`.
pub(crate) struct Unwritten(Fields);

type Fields = HashMap<String, HashSet<String>>;

/// No section that can be left out.
const LEAST: &str = "
upstreams: {FIRST NAME: {targets: ['http://NAME']}}
pools: {POOL NAME: {command: NAME}}
apis: {NAME: {base: /NAME, routes: [{get: /, proxy: NAME}, {get: /p, pool: NAME}]}}
";

/// Every section that has defaults, with its required keys only.
const BARE: &str = "
tracker: {enabled: true}
monitor: {count: all}
telemetry: {to: NAME, plain: true, traces: {}, metrics: {}}
upstreams: {FIRST NAME: {targets: ['http://NAME'], retries: {}, health: {errors: {}, check: {path: /NAME}}}}
pools: {POOL NAME: {command: NAME}}
apis:
  NAME:
    base: /NAME
    cors: {origins: 'http://NAME'}
    routes:
      - {get: /, proxy: {upstream: NAME, mirror: {upstream: NAME}, upgrade: {protocols: NAME}}}
      - {get: /f/*, files: NAME}
      - {get: /p, cache: true, compress: true, pool: NAME}
";

impl Unwritten {
    /// What two configurations have in common that differ in names only.
    pub(crate) fn new() -> Self {
        let mut all = Fields::new();
        for bare in [LEAST, BARE] {
            let mut fields = Fields::new();
            let (upstream, pool) = ("cc: {targets: ['http://dd']}, ", "cc: {command: dd}, ");
            for (name, upstream, pool) in [("a", "", ""), ("bb", upstream, pool)] {
                let text =
                    bare.replace("NAME", name).replace("FIRST ", upstream).replace("POOL ", pool);
                let config = load_text(name, &text).map_err(|f| f.render(false));
                collect_all(&mut fields, &config.expect("a bare configuration").config);
            }
            for (name, fields) in fields {
                all.entry(name).or_default().extend(fields);
            }
        }
        Self(all)
    }

    /// The Debug text of a value, without what is not written.
    pub(crate) fn shown(&self, value: &dyn Debug) -> String {
        self.reduced(&format!("{value:?}"))
    }

    fn reduced(&self, text: &str) -> String {
        let Some((name, open, mut parts)) = cut(text) else { return text.to_owned() };
        if let Some(unwritten) = self.0.get(name).filter(|_| open == '{') {
            parts.retain(|part| !unwritten.contains(*part));
        }
        let parts = parts.iter().map(|part| {
            let value = value_of(part);
            format!("{}{}", &part[..part.len() - value.len()], self.reduced(value))
        });
        let parts: Vec<String> = parts.collect();
        match open {
            '{' if parts.is_empty() => name.to_owned(),
            '{' => format!("{name} {{ {} }}", parts.join(", ")),
            '[' => format!("{name}[{}]", parts.join(", ")),
            _ => format!("{name}({})", parts.join(", ")),
        }
    }
}

/// The value of `field: value`, or all of it.
fn value_of(part: &str) -> &str {
    match part.split_once(": ") {
        Some((field, value)) if field.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') => value,
        _ => part,
    }
}

/// `Name { a, b }`, `Name(a, b)` or `[a, b]` as name, bracket and parts.
fn cut(text: &str) -> Option<(&str, char, Vec<&str>)> {
    let at = text.find(['{', '[', '(', '"'])?;
    let open = text[at..].chars().next().filter(|c| *c != '"')?;
    let inner = &text[at + 1..text.len() - 1];
    let (mut depth, mut quoted, mut escaped, mut start) = (0, false, false, 0);
    let mut parts = Vec::new();
    for (at, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(inner[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(inner[start..].trim());
    parts.retain(|part| !part.is_empty());
    Some((text[..at].trim(), open, parts))
}

fn collect_all(fields: &mut Fields, config: &Config) {
    let sections: [&dyn Debug; 9] = [
        &config.limits,
        &config.drain,
        &config.access_log,
        &config.journal,
        &config.tracker,
        &config.monitor,
        &config.telemetry,
        &config.upstreams,
        &config.pools,
    ];
    sections.iter().for_each(|section| collect(fields, &format!("{section:?}")));
    for api in &config.apis {
        collect(fields, &format!("{:?}", api.cors));
        for route in &api.routes {
            collect(fields, &format!("{:?}", route.compress));
            match &route.handler {
                Handler::Proxy(proxy) => collect(fields, &format!("{proxy:?}")),
                Handler::Files(files) => collect(fields, &format!("{files:?}")),
                Handler::Pool(pool) => collect(fields, &format!("{pool:?}")),
                _ => {}
            }
        }
    }
}

/// Keeps of each struct the fields that are the same wherever it is shown.
fn collect(fields: &mut Fields, text: &str) {
    let Some((name, open, parts)) = cut(text) else { return };
    if open == '{' {
        let shown: HashSet<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        let known = fields.entry(name.to_owned()).or_insert_with(|| shown.clone());
        known.retain(|field| shown.contains(field));
    }
    parts.iter().for_each(|part| collect(fields, value_of(part)));
}
