use super::*;
use crate::call::{Console, FetchedResponse, OpKind, Principal};
use std::sync::Arc;

fn program(text: &str) -> Program {
    program_with(text, false, "null")
}

fn program_with(text: &str, shared: bool, config: &str) -> Program {
    let cpu = Duration::from_millis(200);
    let settings = Settings { shared, config: config.to_owned(), cpu, indent: 0 };
    let mut read = |_: &str| Ok(text.to_owned());
    Program::load("a.js", settings, &mut read).unwrap_or_else(|fault| panic!("{fault}"))
}

fn engine(text: &str) -> Engine {
    Engine::new(&[Arc::new(program(text))], DEFAULT_MEMORY).unwrap()
}

fn end(engine: &mut Engine) -> End {
    engine.start(0, 0, Request::default()).end.expect("an end")
}

fn value(end: End) -> String {
    match end {
        End::Response(answer) => match answer.body {
            ScriptBody::Value(json) => String::from_utf8(json).unwrap(),
            ScriptBody::Text(text) => text,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn result(text: &str) -> String {
    value(end(&mut engine(text)))
}

/// What an expression gives.
fn evaluate(expression: &str) -> String {
    result(&format!("export default () => ({expression})"))
}

#[test]
fn a_value_is_rendered_as_json_and_a_response_as_it_says() {
    assert_eq!(evaluate("{a: [1, 'x', null, true]}"), r#"{"a":[1,"x",null,true]}"#);
    assert_eq!(evaluate("'text'"), "\"text\"");
    let mut engine = engine(
        "export default async () => new Response('hi', {status: 201, headers: {'X-A': 'b'}})",
    );
    let headers = vec![("x-a".to_owned(), "b".to_owned())];
    let body = ScriptBody::Text("hi".to_owned());
    assert_eq!(
        end(&mut engine),
        End::Response(Box::new(ScriptResponse { status: 201, headers, body }))
    );
}

#[test]
fn nothing_bytes_and_thrown_responses_are_answers() {
    let answer = |text: &str| match end(&mut engine(text)) {
        End::Response(answer) => (answer.status, answer.body),
        other => panic!("{other:?}"),
    };
    assert_eq!(answer("export default () => {}"), (204, ScriptBody::Empty));
    let bytes = ScriptBody::Bytes(vec![0, 255]);
    assert_eq!(answer("export default () => new Uint8Array([0, 255])"), (200, bytes));
    let text = ScriptBody::Text("no".to_owned());
    let thrown = "export default async () => { throw new Response('no', {status: 409}) }";
    assert_eq!(answer(thrown), (409, text));
}

#[test]
fn a_request_gives_what_is_asked_for() {
    let text = "export function POST(r) { return [r.id, r.method, r.path, r.query.get('q'), r.host,
        r.client, r.headers.get('X-One'), r.params.id, r.principal, r.config, r.json().a, r.text(),
        [...r.bytes()].length, r.json() === r.json()] }";
    let program = program_with(text, false, r#"{"k":[1]}"#);
    let mut engine = Engine::new(&[Arc::new(program)], DEFAULT_MEMORY).unwrap();
    let request = Request {
        id: "id".into(),
        method: "POST".into(),
        path: "/x/1".into(),
        query: "q=a%20b".into(),
        host: "h".into(),
        client: "::1".parse().ok(),
        head: b"X-One: 1\r\nx-one:2\r\n".to_vec(),
        parameters: vec![("id".into(), "1".into())],
        principal: Some(Principal { subject: Some("s".into()), ..Principal::default() }),
        body: br#"{"a":1}"#.to_vec(),
        role: Role::Handler,
    };
    let end = engine.start(0, 0, request).end.unwrap();
    let principal = r#"{"claims":null,"consumer":null,"scopes":[],"subject":"s"}"#;
    let head = r#"["id","POST","/x/1","a b","h","::1","1, 2","1","#;
    let got = value(end);
    assert!(got.starts_with(head), "{got}");
    let got: serde_json::Value = serde_json::from_str(&got).unwrap();
    assert_eq!(got[8], serde_json::from_str::<serde_json::Value>(principal).unwrap());
    assert_eq!(got[9], serde_json::json!({"k": [1]}));
    assert_eq!(got[10], 1);
    assert_eq!((&got[11], &got[12]), (&r#"{"a":1}"#.into(), &7.into()));
}

#[test]
fn module_state_starts_afresh_unless_it_is_shared() {
    let text = "let n = 0; const seen = []; export default () => [++n, seen.push(1)]";
    let mut fresh = engine(text);
    assert_eq!((value(end(&mut fresh)), value(end(&mut fresh))), ("[1,1]".into(), "[1,1]".into()));
    let program = Arc::new(program_with(text, true, "null"));
    let mut shared = Engine::new(&[program], DEFAULT_MEMORY).unwrap();
    assert_eq!(
        (value(end(&mut shared)), value(end(&mut shared))),
        ("[1,1]".into(), "[2,2]".into())
    );
}

#[test]
fn built_ins_are_frozen_and_yet_can_be_overridden() {
    for change in [
        "Object.prototype.x = 1",
        "Array.prototype.push = 1",
        "globalThis.x = 1",
        "JSON.parse = 1",
        "Object.setPrototypeOf(Array.prototype, {})",
        "[][Symbol.iterator]().__proto__.next = 1",
        "(async () => {}).constructor.prototype.x = 1",
        "Response.json = 1",
        "console.log.x = 1",
        "tracker.x = 1",
        "delete Math.max",
        "Object.prototype.toString = 1",
        "(() => {}).__proto__.call = 1",
        "crypto.subtle.digest = 1",
        "new URL('http://a').__proto__.x = 1",
    ] {
        let text = format!(
            "export default () => {{ try {{ {change}; return 'done' }} catch (e) {{ return e.name }} }}"
        );
        assert_eq!(result(&text), "\"TypeError\"", "{change}");
    }
    let polluted = "export default () => { JSON.parse('{\"__proto__\":{\"x\":1}}'); const o = {};
        Object.assign(o, JSON.parse('{\"__proto__\":{\"x\":1}}')); return [({}).x ?? 'clean'] }";
    assert_eq!(result(polluted), "[\"clean\"]");
    let own = "class Mine extends Error { constructor() { super('m'); this.name = 'Mine' } }
        export default () => { const o = {}; o.toString = () => 'own'; o.constructor = 1;
        function F() {} F.prototype.toString = () => 'f';
        return [`${o}`, `${new F()}`, new Mine().name, `${new Mine()}`] }";
    assert_eq!(result(own), r#"["own","f","Mine","Mine: m"]"#);
}

#[test]
fn a_call_that_does_not_end_is_stopped_and_the_engine_goes_on() {
    for text in [
        "for (;;) {}",
        "async function f() { for (;;) await null } return f()",
        "try { for (;;) {} } catch { for (;;) {} } finally { for (;;) {} }",
        "return /^(a+)+$/.test('a'.repeat(40) + 'b')",
        "return { toJSON() { for (;;) {} } }",
        "throw { get message() { for (;;) {} }, toJSON() { for (;;) {} } }",
        "return { then(done) { for (;;) {} } }",
        "return new Promise(() => { queueMicrotask(() => { for (;;) {} }) })",
    ] {
        let mut engine = Engine::new(
            &[
                Arc::new(program(&format!("export default () => {{ {text} }}"))),
                Arc::new(program("export default () => 'fine'")),
            ],
            DEFAULT_MEMORY,
        )
        .unwrap();
        assert_eq!(end(&mut engine), End::CpuLimit, "{text}");
        assert!(!engine.is_dead(), "{text}");
        let after = engine.start(1, 0, Request::default()).end.unwrap();
        assert_eq!(value(after), "\"fine\"", "{text}");
    }
}

#[test]
fn a_call_that_uses_up_memory_ends_the_engine() {
    for text in [
        "const a = []; for (;;) a.push(new Array(10000).fill(1))",
        "return 'x'.repeat((1 << 29) - 1)",
    ] {
        let mut engine = engine(&format!("export default () => {{ {text} }}"));
        assert_eq!(end(&mut engine), End::OutOfMemory, "{text}");
        assert!(engine.is_dead());
    }
}

#[test]
fn recursion_without_an_end_is_an_error_of_the_script() {
    for text in [
        "const f = () => f() + 1; return f()",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a",
        "const p = new Proxy({}, { get(t, k, r) { return r[k] } }); return p.x",
        "return JSON.parse('['.repeat(1e5))",
        "let s = 'x'; for (;;) s += s",
    ] {
        let mut engine = engine(&format!("export default () => {{ {text} }}"));
        let end = end(&mut engine);
        assert!(matches!(end, End::Threw(_)), "{text}: {end:?}");
    }
}

#[test]
fn whatever_is_thrown_is_described() {
    for (thrown, described) in [
        ("new TypeError('t')", "TypeError: t"),
        ("null", "thrown: null"),
        ("undefined", "thrown: undefined"),
        ("'text'", "thrown: text"),
        ("Symbol('s')", "thrown: Symbol(s)"),
        ("10n", "thrown: 10"),
        ("{ a: 1 }", r#"thrown: {"a":1}"#),
        ("{ toJSON() { throw 1 }, get [Symbol.toStringTag]() { throw 2 } }", "thrown: something"),
        ("new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 } })", "thrown: something"),
        ("Object.create(null)", "thrown: {}"),
    ] {
        for body in ["", "async "] {
            let mut engine = engine(&format!("export default {body}() => {{ throw ({thrown}) }}"));
            let end = end(&mut engine);
            let matches = matches!(&end, End::Threw(text) if text.starts_with(described));
            assert!(matches, "{thrown}: {end:?}");
        }
    }
    for value in ["() => 1", "Symbol()", "10n", "(() => { const a = {}; a.a = a; return a })()"] {
        let mut engine = engine(&format!("export default () => ({value})"));
        assert!(matches!(end(&mut engine), End::Threw(_)), "{value}");
    }
}

#[test]
fn a_call_waits_for_what_it_asked_for() {
    let mut engine = engine(
        "export default async (r) => {
            const [a, b] = await Promise.all([
                fetch('http://One/x?y=1', { method: 'post', body: { k: 1 } }),
                new Promise((done) => setTimeout(done, 5, 'time')),
            ]);
            console.log('got', a.status, a.headers.get('x'));
            tracker.key('order', 7); tracker.state('done'); tracker.log('l', [1]);
            return [a.json(), b, r.path];
        }",
    );
    let request = Request { path: "/p".into(), ..Request::default() };
    let step = engine.start(0, 0, request);
    assert_eq!(step.end, None);
    let OpKind::Fetch(fetch) = &step.ops[0].kind else { panic!("{step:?}") };
    assert_eq!((fetch.upstream.as_str(), fetch.target.as_str()), ("One", "/x?y=1"));
    assert_eq!((fetch.method.as_str(), fetch.body.as_deref()), ("POST", Some(&br#"{"k":1}"#[..])));
    assert_eq!(fetch.headers, [("content-type".to_owned(), "application/json".to_owned())]);
    // Another call between its turns.
    assert_eq!(engine.start(0, 0, Request::default()).end, None);
    let timer = engine.resume(step.call, step.ops[1].id, Outcome::Elapsed).unwrap();
    assert_eq!(timer.end, None);
    let headers = vec![("x".to_owned(), "v".to_owned())];
    let fetched = FetchedResponse { status: 418, headers, body: b"{\"z\":2}".to_vec() };
    let last = engine.resume(step.call, step.ops[0].id, Outcome::Fetched(fetched)).unwrap();
    assert_eq!(value(last.end.unwrap()), r#"[{"z":2},"time","/p"]"#);
    assert_eq!(last.console, [Console { level: "info", text: "got 418 v".to_owned() }]);
    let annotations = last.annotations.unwrap();
    assert_eq!(annotations.keys, [("order".to_owned(), "7".to_owned())]);
    assert_eq!(annotations.properties, [("state".to_owned(), "done".to_owned())]);
    assert_eq!(annotations.logs, ["l [1]"]);
    assert!(engine.resume(step.call, step.ops[0].id, Outcome::Elapsed).is_none());
}

#[test]
fn a_fetch_that_fails_is_an_error_the_script_can_catch() {
    let text = "export default async () => {
        try { return (await fetch('http://one/')).status } catch (e) { return `${e}` } }";
    let mut engine = engine(text);
    let step = engine.start(0, 0, Request::default());
    let failed = Outcome::Failed("no".to_owned());
    let last = engine.resume(step.call, step.ops[0].id, failed).unwrap();
    assert_eq!(value(last.end.unwrap()), "\"TypeError: no\"");
    for (call, why) in [
        ("fetch('/path')", "is no URL"),
        ("fetch('ftp://one/')", "names no upstream"),
        ("fetch('http://one/', {method: 'CONNECT'})", "no method"),
        ("fetch('http://one/', {headers: {host: 'x'}})", "weir itself decides"),
        ("fetch('http://one/', {headers: {'x': 'a\\r\\nb'}})", "invalid in HTTP"),
    ] {
        let text = format!("export default () => {call}.catch((e) => e.message)");
        let message = result(&text);
        assert!(message.contains(why), "{call}: {message}");
    }
}

#[test]
fn a_call_that_waits_for_nothing_ends_and_a_cancelled_one_is_gone() {
    let mut stuck = engine("export default () => new Promise(() => {})");
    assert_eq!(end(&mut stuck), End::Deadlocked);
    let mut engine = engine("export default () => new Promise((done) => setTimeout(done, 1))");
    let step = engine.start(0, 0, Request::default());
    engine.cancel(step.call);
    assert!(engine.resume(step.call, step.ops[0].id, Outcome::Elapsed).is_none());
    assert!(engine.waiting.is_empty());
}

#[test]
fn a_timer_can_be_cleared_and_what_it_throws_ends_the_call() {
    let text = "export default () => new Promise((done) => {
        clearTimeout(setTimeout(() => done('wrong'), 1));
        setTimeout(() => { throw 1 }, 1); setTimeout(() => done('right'), 2) })";
    let mut engine = engine(text);
    let step = engine.start(0, 0, Request::default());
    assert_eq!((step.ops.len(), step.dropped.len()), (2, 1));
    let last = engine.resume(step.call, step.ops[1].id, Outcome::Elapsed).unwrap();
    assert_eq!(value(last.end.unwrap()), "\"right\"");
    let step = engine.start(0, 0, Request::default());
    let threw = engine.resume(step.call, step.ops[0].id, Outcome::Elapsed).unwrap();
    assert_eq!(threw.end, Some(End::Threw("thrown: 1".to_owned())));
}

#[test]
fn a_request_is_of_no_use_to_another_call() {
    let text =
        "let kept; export default (r) => { const before = kept; kept = r; return before?.path }";
    let program = Arc::new(program_with(text, true, "null"));
    let mut engine = Engine::new(&[program], DEFAULT_MEMORY).unwrap();
    end(&mut engine);
    assert!(matches!(end(&mut engine), End::Threw(text) if text.contains("is over")));
}

#[test]
fn rejections_that_nobody_handles_are_told() {
    let mut engine = engine("export default () => { Promise.reject(new Error('x')); return 1 }");
    let step = engine.start(0, 0, Request::default());
    assert_eq!(value(step.end.unwrap()), "1");
    assert!(step.console[0].text.contains("not handled"), "{:?}", step.console);
}

#[test]
fn texts_addresses_and_hashes() {
    for (expression, expected) in [
        ("[...new TextEncoder().encode('aé')]", "[97,195,169]"),
        ("new TextDecoder().decode(new Uint8Array([97, 195, 169]))", "\"aé\""),
        (
            "new TextDecoder('utf-8', {fatal: true}).decode(new TextEncoder().encode('x').buffer)",
            "\"x\"",
        ),
        ("new URL('../b?x=1#f', 'http://H:80/a/c').href", "\"http://h/b?x=1#f\""),
        (
            "(() => { const u = new URL('http://h/a'); u.searchParams.append('x', 'a b'); return u })()",
            "\"http://h/a?x=a+b\"",
        ),
        (
            "(() => { const u = new URL('http://h/a?q=1'); u.pathname = '/z'; u.port = '81'; return [u.href, u.searchParams.get('q')] })()",
            "[\"http://h:81/z?q=1\",\"1\"]",
        ),
        ("URL.canParse('x')", "false"),
        ("[...new URLSearchParams({a: 1, b: 'c d'})].join()", "\"a,1,b,c d\""),
        ("crypto.randomUUID().length", "36"),
        ("crypto.getRandomValues(new Uint8Array(8)).some((b) => b > 0)", "true"),
        (
            "crypto.subtle.digest('SHA-256', new TextEncoder().encode('abc')).then((d) => new Uint8Array(d).toHex())",
            "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"",
        ),
        (
            "crypto.subtle.importKey('raw', new TextEncoder().encode('key'), {name: 'HMAC', hash: 'SHA-256'}).then((k) => crypto.subtle.sign('HMAC', k, new TextEncoder().encode('The quick brown fox jumps over the lazy dog'))).then((s) => new Uint8Array(s).toHex())",
            "\"f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8\"",
        ),
        ("new Headers([['A', 1], ['a', '2']]).get('a')", "\"1, 2\""),
    ] {
        assert_eq!(evaluate(expression), expected, "{expression}");
    }
}

#[test]
fn an_idle_engine_is_small() {
    let engine = engine("export default () => ({ hello: 'world' })");
    assert!(engine.memory() < 3 << 20, "{}", engine.memory());
}

fn mapped(text: &str, role: Role) -> End {
    let mut engine = engine(text);
    let request = Request { body: br#"{"a":1}"#.to_vec(), role, ..Request::default() };
    engine.start(0, 0, request).end.expect("an end")
}

#[test]
fn a_request_map_gives_a_body_a_change_an_answer_or_nothing() {
    let map = |text: &str| mapped(text, Role::RequestMap);
    let changed = |set: &[(&str, &str)], remove: &[&str], body| {
        let set = set.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let remove = remove.iter().map(|name| (*name).to_owned()).collect();
        End::Changes(Box::new(Changes { set, remove, body }))
    };
    let json = |text: &str| Some(ScriptBody::Value(text.as_bytes().to_vec()));
    assert_eq!(
        map("export default (r) => ({b: r.json().a})"),
        changed(&[], &[], json("{\"b\":1}"))
    );
    assert_eq!(map("export default async (r) => 'x'"), changed(&[], &[], json("\"x\"")));
    assert_eq!(map("export default () => {}"), changed(&[], &[], None));
    let bytes = Some(ScriptBody::Bytes(vec![7]));
    assert_eq!(map("export default () => new Uint8Array([7])"), changed(&[], &[], bytes));
    let text = "export default (r) => r.with({headers: {'X-A': 1, 'X-B': null}, body: 'hi'})";
    let body = Some(ScriptBody::Text("hi".to_owned()));
    assert_eq!(map(text), changed(&[("x-a", "1")], &["x-b"], body));
    assert_eq!(
        map("export default (r) => r.with({body: null})"),
        changed(&[], &[], Some(ScriptBody::Empty))
    );
    for text in [
        "export default () => new Response('no', {status: 403})",
        "export default () => { throw new Response('no', {status: 403}) }",
    ] {
        match map(text) {
            End::Response(answer) => assert_eq!(answer.status, 403),
            other => panic!("{other:?}"),
        }
    }
    let handler = "export default (r) => r.with({})";
    let thrown = mapped(handler, Role::Handler);
    assert!(matches!(&thrown, End::Threw(why) if why.contains("request map")), "{thrown:?}");
}

#[test]
fn a_response_map_is_given_the_answer_and_the_request() {
    let answer = || FetchedResponse {
        status: 404,
        headers: vec![("x-from".to_owned(), "handler".to_owned())],
        body: br#"{"b":2}"#.to_vec(),
    };
    let map = |text: &str| mapped(text, Role::ResponseMap(answer()));
    let both = "export default (answer, request) =>
        [answer.status, answer.headers.get('x-from'), answer.json().b, request.json().a]";
    match map(both) {
        End::Changes(changed) => {
            let body = Some(ScriptBody::Value(br#"[404,"handler",2,1]"#.to_vec()));
            assert_eq!(changed.body, body);
        }
        other => panic!("{other:?}"),
    }
    // The very answer, with another header.
    let same = "export default (answer) => { answer.headers.set('x-a', 'b'); return answer; }";
    let headers = [("x-from", "handler"), ("x-a", "b")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let body = ScriptBody::Bytes(answer().body);
    assert_eq!(map(same), End::Response(Box::new(ScriptResponse { status: 404, headers, body })));
}

#[test]
fn values_are_indented_as_the_program_says_and_thrown_ones_too() {
    let settings = Settings {
        shared: false,
        config: "null".to_owned(),
        cpu: Duration::from_millis(200),
        indent: 2,
    };
    for text in [
        "export default () => ({ a: [1] })",
        "export default async () => ({ a: [1] })",
        "export default () => Response.value({ a: [1] })",
        "export default () => { throw Response.value({ a: [1] }) }",
    ] {
        let mut read = |_: &str| Ok(text.to_owned());
        let program = Program::load("a.js", settings.clone(), &mut read).unwrap();
        let mut engine = Engine::new(&[Arc::new(program)], DEFAULT_MEMORY).unwrap();
        assert_eq!(value(end(&mut engine)), "{\n  \"a\": [\n    1\n  ]\n}", "{text}");
    }
}

/// Loads and compiles the first file.
fn load(files: &[(&str, &str)]) -> Result<Program, LoadError> {
    let mut read = |name: &str| {
        let found = files.iter().find(|(file, _)| *file == name);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "there is no such file".into())
    };
    let cpu = Duration::from_secs(1);
    let settings = Settings { shared: false, config: "null".to_owned(), cpu, indent: 0 };
    let program = Program::load(files[0].0, settings, &mut read)?;
    check(&program)?;
    Ok(program)
}

#[test]
fn a_fault_has_its_module_and_line() {
    type Files = &'static [(&'static str, &'static str)];
    let cases: [(Files, &str, usize); 8] = [
        (&[("a.js", "\n\nexport default () => }")], "a.js", 3),
        (&[("a.js", "\nexport default () => 1 +;\n")], "a.js", 2),
        (
            &[("a.js", "import './b.js'\nexport default 1"), ("b.js", "\n\nlet a = 1; let a;")],
            "b.js",
            3,
        ),
        (&[("a.js", "\nimport './b.js'\nexport default 1")], "a.js", 2),
        (&[("a.js", "export default () => 1;\n\nnull.x")], "a.js", 3),
        (
            &[("a.js", "\nimport { x } from './b.js'\nexport default () => x"), ("b.js", "")],
            "a.js",
            2,
        ),
        (&[("a.js", "export default 1")], "a.js", 0),
        (&[("a.js", "const a = 1")], "a.js", 0),
    ];
    for (files, module, line) in cases {
        let fault = load(files).expect_err(files[0].1);
        assert_eq!((fault.module.as_str(), fault.line), (module, line), "{}", fault.message);
    }
    let circle = [("a.js", "import './b.js'\nexport default () => 1"), ("b.js", "import './a.js'")];
    assert!(load(&circle).unwrap_err().message.contains("circle"));
    let endless = load(&[("a.js", "export default () => 1; for (;;) {}")]).unwrap_err();
    assert!(endless.message.contains("top level"), "{}", endless.message);
}
