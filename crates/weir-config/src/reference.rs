//! The reference document of the configuration, from the description of its keys.

use crate::resolve::{INCLUDED, ROOT};
use std::fmt::Write;
use weir_document::reference::{cell, section};

const HEAD: &str = "\
# Configuration reference

All keys, generated from the descriptions that also validate configurations and yield the JSON Schema
(`weir schema`). A test compares this file with the program.

A configuration is YAML 1.2 or JSON: one file, or a folder with `weir.yaml`. Units are part of
a value: times `500ms`, `15s`, `5m`, `1h`, `7d` (also `1m30s`), sizes `512B`, `64KiB`, `10MiB`,
`1GiB` (also `kB`, `MB`, `GB`), rates `100/s`, `30/min`, `1000/h`, `10/d`. In every string,
`${env:NAME}` is replaced by an environment variable (`$${` is a literal `${`). A string that begins
with `file:` is replaced by the content of the file, relative to the configuration file; the line
break at the end of a single line is removed.

Maps are JSON structures whose leaves are paths (RFC 9535) such as `$.a.b[0]`, literals
(`{literal: \"$5\"}`) or CEL (`{cel: \"request.path.id\"}`). Numbers, booleans and null stand for
themselves. Members with an absent path are omitted; in a list they are null. A path with several possible
values yields a list. Paths of names and indexes are copied in one pass; others need a tree of the
entire body, and `weir check` reports them.

CEL variables are `request` (`method`, `target`, `host`, `address`, `path.NAME`, `query.NAME`,
`headers['name']`), `claims` of the verified token, and `consumer`; the `when` of a consumer has
`claims` only. An expression that fails, for example because a claim is missing, is false.
";

/// Every key with type, default and meaning, as Markdown.
pub fn reference() -> String {
    let mut out = HEAD.to_owned();
    for shape in ROOT.all() {
        section(&mut out, shape);
    }
    section(&mut out, &INCLUDED);
    out
}

/// Every finding code and its meaning, as Markdown.
pub fn findings() -> String {
    let mut out = "\
# Findings

What `weir check`, start and reload can find in a configuration. Codes are stable. This file is
generated; a test compares it with the program.

| code | meaning |
|---|---|
"
    .to_owned();
    for code in weir_document::finding::codes::ALL {
        let _ = writeln!(out, "| `{}` | {} |", code.code, cell(code.meaning));
    }
    out
}
