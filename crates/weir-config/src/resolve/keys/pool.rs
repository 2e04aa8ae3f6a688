//! Keys of pools.

use crate::shape::{Form, Group, Key, Kind, Names, Shape};

const POSITIVE: Kind = Kind::Form(Form::PositiveDuration);
/// Most agents and most waiting requests of one pool.
const MOST: u64 = 100_000;

/// A value of `pools`.
pub(crate) static POOL: Shape = Shape {
    short: Some("connect"),
    groups: &[Group { keys: &["script", "root"], required: false }],
    slips: &[
        ("cmd", "write `command: [program, argument]`"),
        ("socket", "write `connect: \"unix:/path\"`"),
        ("cwd", "write `folder`"),
        ("workers", "write `agents: {max: …}`"),
        ("processes", "write `agents: {max: …}`"),
    ],
    ..Shape::new(
        "a pool",
        "Agents, which are processes that answer one request at a time: started by weir (`command`), or by somebody else (`connect`).",
        &[
            Key::new("protocol", Kind::Word(&["fastcgi", "http", "cgi"]), "What agents speak: FastCGI 1.0, HTTP/1.1, or CGI, which starts a process for each request.").default("fastcgi"),
            Key::new("command", Kind::OneOrMany(&Kind::Text), "The program and its arguments, not read by a shell; a path with a slash is relative to this file. It gets its listening socket as standard input, unless an argument has `{socket}`: then it is to listen at that path itself. Of `cgi` it is the interpreter of scripts.").default("with `cgi`: the script itself"),
            Key::new("connect", Kind::Text, "Where agents are listening that weir does not start: `unix:/run/php/php-fpm.sock` or `tcp:127.0.0.1:9000`."),
            Key::new("folder", Kind::Text, "Working folder, relative to this file.").default("that of this file"),
            Key::new("user", Kind::Loose, "User that agents run as, by name or number; only root can start them as another.").default("weir's own"),
            Key::new("no_new_privileges", Kind::Bool, "Agents and what they start gain no privileges by set-user-ID and set-group-ID programs (`PR_SET_NO_NEW_PRIVS`); `false` for agents that need `sudo`, or a mail program that is set-group-ID.").default("true"),
            Key::new("env", Kind::Table(Names::Name, &Kind::Secret), "Environment; besides, agents have only `PATH` and `LANG` of weir's."),
            Key::new("limits", Kind::Object(&POOL_LIMITS), "What one agent may use."),
            Key::new("agents", Kind::Object(&AGENTS), "How many there are."),
            Key::new("queue", Kind::Object(&QUEUE), "Requests that wait for an agent."),
            Key::new("recycle", Kind::Object(&RECYCLE), "When an agent is replaced."),
            Key::new("timeout", POSITIVE, "Time from the request's last byte to the first byte of the answer; an agent that takes longer is killed, with the processes it has started.").default("30s"),
            Key::new("idle_timeout", POSITIVE, "How long a body may make no progress in either direction.").default("60s"),
            Key::new("start_timeout", POSITIVE, "Time until a new agent answers for the first time.").default("30s"),
            Key::new("stop_timeout", POSITIVE, "Time that an agent has to end by itself when it is to stop.").default("5s"),
            Key::new("script", Kind::Text, "The file that answers, as `SCRIPT_FILENAME`, relative to this file."),
            Key::new("root", Kind::Text, "Folder, relative to this file, in which the rest of the path names the file that answers."),
            Key::new("extensions", Kind::OneOrMany(&Kind::Form(Form::Name)), "Endings of the files in `root` that may answer.").default("php; with `cgi` every file that may be executed"),
            Key::new("index", Kind::Form(Form::Name), "The file that answers for a folder."),
            Key::new("headers", Kind::OneOrMany(&Kind::Form(Form::Header)), "Request headers that agents get although they carry credentials (`authorization`, `cookie`) or have an underscore or a dot in their names."),
            Key::new("params", Kind::Table(Names::Name, &Kind::Loose), "Variables that every request has besides those of CGI."),
        ],
    )
};

/// `agents` of a pool.
pub(crate) static AGENTS: Shape = Shape {
    slips: &[("maximum", "write `max`")],
    ..Shape::new(
        "the agents of a pool",
        "How many there are.",
        &[
            Key::new("min", Kind::Integer(0, MOST), "Never fewer, as far as they can be started.")
                .default("1"),
            Key::new("initial", Kind::Integer(0, MOST), "So many from the start.").default("`min`"),
            Key::new("max", Kind::Integer(1, MOST), "Never more. Of agents that weir does not start: connections to them, which must not be more than the processes behind.").default("10"),
            Key::new("starting", Kind::Integer(1, MOST), "Most that are starting at once.")
                .default("2"),
        ],
    )
};

/// `queue` of a pool.
pub(crate) static QUEUE: Shape = Shape {
    slips: &[("maximum", "write `max`")],
    ..Shape::new(
        "the queue of a pool",
        "Requests that wait for an agent; one more, or one that waits longer, is answered 503 with Retry-After.",
        &[
            Key::new("max", Kind::Integer(0, MOST), "Most of them.").default("100"),
            Key::new("wait", POSITIVE, "How long one waits at most.").default("15s"),
        ],
    )
};

/// `recycle` of a pool.
pub(crate) static RECYCLE: Shape = Shape::new(
    "the recycling of agents",
    "When an agent is replaced, after the request it has.",
    &[
        Key::new("requests", Kind::Integer(1, u64::MAX), "After so many requests.")
            .default("never"),
        Key::new("memory", Kind::Form(Form::Size), "When it holds so much in memory.")
            .default("never"),
        Key::new("age", POSITIVE, "When it is so old.").default("never"),
        Key::new("idle", POSITIVE, "When it has had nothing to do for so long, and there are more than `min`: it is not replaced then.")
            .default("never; connections 50s"),
    ],
);

/// `limits` of a pool.
pub(crate) static POOL_LIMITS: Shape = Shape::new(
    "the limits of an agent",
    "What one agent may use (setrlimit).",
    &[
        Key::new("memory", Kind::Form(Form::Size), "Address space.").default("weir's own"),
        Key::new("files", Kind::Integer(3, 1_000_000_000), "Open files.").default("1024"),
        Key::new("processes", Kind::Integer(1, 1_000_000_000), "Processes of its user.")
            .default("weir's own"),
        Key::new("cpu", POSITIVE, "Processor time, in whole seconds.").default("weir's own"),
    ],
);

/// `pool` of a route written out.
pub(crate) static POOL_HANDLER: Shape = Shape::new(
    "a pool that answers",
    "An agent of a pool answers.",
    &[
        Key::new("name", Kind::Form(Form::Name), "Which pool.").required(),
        Key::new(
            "script",
            Kind::Text,
            "The file that answers, relative to this file, instead of the pool's.",
        ),
        Key::new(
            "timeout",
            POSITIVE,
            "Time to the first byte of the answer, instead of the pool's.",
        ),
    ],
);
