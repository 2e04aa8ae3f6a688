//! Keys of scripts.

use super::XML_WRITTEN;
use crate::shape::{Form, Key, Kind, Shape};

/// `script` of a route, written out.
pub(crate) static SCRIPT: Shape = Shape {
    short: Some("file"),
    slips: &[
        ("path", "write `file`"),
        ("timeout", "write `limits: {request: …}` for the whole request, or `cpu`"),
        ("upstreams", "write `fetch: [NAME]`"),
        ("memory", "memory is one engine's: write `scripts: {memory: …}` in the main file"),
    ],
    ..Shape::new(
        "a script",
        "A JavaScript module answers.",
        &[
            Key::new("file", Kind::Text, "The module, relative to this file.").required(),
            Key::new(
                "fetch",
                Kind::OneOrMany(&Kind::Form(Form::Name)),
                "Upstreams that its `fetch` reaches, as `http://NAME/path`.",
            )
            .default("none"),
            Key::new("config", Kind::Json, "What `request.config` gives, frozen. Views of the configuration show nothing of it.")
                .default("null")
                .redacted(),
            Key::new(
                "as",
                Kind::OneOrMany(&Kind::Word(&["json", "xml"])),
                "Formats of the values it gives, the preferred one first.",
            )
            .default("json"),
            Key::new("indent", Kind::Integer(0, 10), "Spaces a level, as many as `JSON.stringify` writes; 0 is compact.").default("0"),
            Key::new("xml", Kind::Object(&XML_WRITTEN), "What XML looks like."),
            Key::new(
                "cpu",
                Kind::Form(Form::PositiveDuration),
                "Longest uninterrupted CPU time of a call, at most 1s: it is the most by which a call delays others of its worker.",
            )
            .default("20ms"),
            Key::new(
                "isolation",
                Kind::Word(&["worker", "thread"]),
                "`thread` gives it a thread of its own, so that it delays no worker.",
            )
            .default("worker"),
            Key::new(
                "state",
                Kind::Word(&["call", "shared"]),
                "How long what stands at the top level of its modules lasts: a call, or as long as the engine, for each worker by itself.",
            )
            .default("call"),
        ],
    )
};

/// `scripts`.
pub(crate) static SCRIPTS: Shape = Shape::new(
    "what holds for scripts",
    "Bounds of script engines.",
    &[Key::new(
        "memory",
        Kind::Form(Form::Size),
        "Memory of one engine, from 4MiB to 1GiB; every worker has one, and every script with a thread of its own.",
    )
    .default("32MiB")],
);
