//! Properties of validation that hold for any schema and any body.
//!
//! An input is a schema (JSON) on its first line and a body behind it. The body is compared as it
//! is, as the items of a long list, as a long text, and at the end of a deep nest of objects and lists:
//! what multiplies work or memory does it there.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};
use weir_config::validation::{BodyCheck, Content};
use weir_gateway::configuration::Configuration;
use weir_validate::Schemas;

/// Most memory that the comparison may take beyond the body, in bytes.
const MEMORY: usize = 64 << 20;
/// Time of the thread that nothing is asked about: 100 ms, with leave for what this build checks.
const TIME: Duration = Duration::from_millis(400);
/// How many times that of [`whole_budget`] a comparison may take.
const TIMES: u32 = 4;
/// A schema and a body that use up the budget by plain work: following references.
const DOUBLING: &str = include_str!("../seeds/validation/doubling");
/// Bytes of a list for which the budget is used up.
const WHOLE: usize = 4 << 20;
/// Longest list and most levels that a body is put into.
const LIST: usize = 256 << 10;
const LEVELS: usize = 40;

/// Counts what a thread has allocated.
struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // Not while a thread ends.
    let _ = NOW.try_with(|now| {
        now.set(now.get().saturating_add(bytes));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now.get())));
    });
}

// SAFETY: all work is the system allocator's; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Compares bodies with the schema: never a panic, and always within the budget.
pub fn validation(bytes: &[u8]) {
    let end = bytes.iter().position(|&b| b == b'\n').unwrap_or(bytes.len());
    let (Ok(schema), body) = (std::str::from_utf8(&bytes[..end]), &bytes[end..]) else { return };
    let body = body.trim_ascii();
    let Some(config) = config(schema) else { return };
    for content in contents(&config) {
        let content = (content, &config.compiled.schemas);
        within_budget(content, body);
        if matches!(content.0.check, BodyCheck::Text(_)) && !body.is_empty() {
            within_budget(content, &body.repeat(LIST / body.len() + 1));
        }
        if matches!(content.0.check, BodyCheck::Json(_)) && !body.is_empty() {
            within_budget(content, &list(body, LIST));
            within_budget(content, &text(body));
            within_budget(content, &nest(body, b"{\"a\":", b"}"));
            within_budget(content, &nest(body, b"[", b"]"));
            within_budget(content, &nest(&list(body, LIST), b"[{\"a\":", b"}]"));
        }
    }
}

fn list(body: &[u8], bytes: usize) -> Vec<u8> {
    let mut list = b"[".to_vec();
    while list.len() + body.len() < bytes {
        list.extend_from_slice(body);
        list.push(b',');
    }
    list.extend_from_slice(body);
    list.push(b']');
    list
}

/// A long text of the characters of a body, as a value and as the name of a member.
fn text(body: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(body).repeat(LIST / body.len() + 1);
    serde_json::json!([text, {&text: text}]).to_string().into_bytes()
}

fn nest(body: &[u8], open: &[u8], close: &[u8]) -> Vec<u8> {
    let levels = LEVELS / open.iter().filter(|b| matches!(b, b'[' | b'{')).count().max(1);
    [open.repeat(levels).as_slice(), body, close.repeat(levels).as_slice()].concat()
}

/// The time that this thread has run while it did some work.
fn ran(work: impl FnOnce()) -> Duration {
    let so_far = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Duration::from_nanos(text.split_ascii_whitespace().next()?.parse().ok()?))
    };
    let (start, before) = (Instant::now(), so_far());
    work();
    match (before, so_far()) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => start.elapsed(),
    }
}

/// How long a comparison takes that uses up the whole budget, on this machine as it is now.
fn whole_budget() -> Duration {
    let (schema, body) = DOUBLING.split_once('\n').expect("two lines");
    let config = config(schema).expect("a configuration");
    let content = contents(&config).next().expect("a schema for JSON");
    let schemas = &config.compiled.schemas;
    let body = list(body.trim().as_bytes(), WHOLE);
    ran(|| drop(schemas.check_body(content, &body)))
}

fn within_budget((content, schemas): (&Content, &Schemas), body: &[u8]) {
    let before = NOW.get();
    PEAK.set(before);
    let took = ran(|| drop(schemas.check_body(content, body)));
    let memory = usize::try_from(PEAK.get() - before).unwrap_or_default();
    assert!(memory <= MEMORY, "{memory} bytes for a body of {}", body.len());
    if took > TIME {
        // Whatever else the machine does slows both down.
        let (again, whole) = (ran(|| drop(schemas.check_body(content, body))), whole_budget());
        let most = whole * TIMES;
        assert!(
            again <= most,
            "{again:?} for a body of {} bytes, {whole:?} for the budget",
            body.len()
        );
    }
}

fn contents(loaded: &Configuration) -> impl Iterator<Item = &Content> {
    let routes = loaded.config.apis.iter().flat_map(|api| &api.routes);
    let bodies = routes.filter_map(|route| route.validation.as_ref()?.body.as_ref());
    bodies.flat_map(|body| &body.contents)
}

/// A configuration with this schema for JSON, forms and texts; `None` if it is none.
fn config(schema: &str) -> Option<Configuration> {
    serde_json::from_str::<serde_json::Value>(schema).ok()?;
    let media = "{schema: {$ref: '#/components/schemas/S'}}";
    let document = format!(
        "openapi: 3.1.0\ninfo: {{title: T, version: '1'}}\ncomponents: {{schemas: {{S: {schema}}}}}\n\
         paths:\n  /a:\n    post:\n      operationId: a\n      requestBody:\n        content:\n          \
         application/json: {media}\n          application/x-www-form-urlencoded: {media}\n          \
         text/plain: {media}\n      responses: {{'200': {{description: d}}}}\n"
    );
    let folder = std::env::temp_dir().join(format!("weir-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).ok()?;
    std::fs::write(folder.join("d.yaml"), document).ok()?;
    std::fs::write(
        folder.join("weir.yaml"),
        "apis: {a: {base: /, openapi: d.yaml, routes: [{op: a, reply: {status: 200}}]}}\n",
    )
    .ok()?;
    let source = weir_config::Source { path: folder.join("weir.yaml"), ..Default::default() };
    weir_gateway::configuration::load(&source).ok()
}
