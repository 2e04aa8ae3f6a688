//! Expressions in the texts of JMeter plans: JavaScript on QuickJS, and a part of JEXL.
//!
//! As in JMeter, variables are inserted into the text of an expression before it is evaluated, and
//! each evaluation has a context of its own. Time, memory and stack are limited.

pub(crate) mod jexl;

use rquickjs::{Coerced, Context, Ctx, Runtime, Value};
use std::cell::Cell;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Time limit of an evaluation.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Memory of all evaluations of a thread.
const MAX_MEMORY_BYTES: usize = 16 << 20;
/// Native stack of an evaluation.
const MAX_STACK_BYTES: usize = 256 << 10;
/// Largest expression.
const MAX_SCRIPT_BYTES: usize = 256 << 10;

/// Names of Java and of JMeter's objects that an expression cannot use here.
const UNSUPPORTED_NAMES: [&str; 14] = [
    "java",
    "javax",
    "org",
    "com",
    "Packages",
    "importPackage",
    "importClass",
    "JavaImporter",
    "JavaAdapter",
    "ctx",
    "sampler",
    "sampleResult",
    "prev",
    "Java",
];

/// The variables, properties and thread that an expression sees.
pub(crate) trait Environment {
    /// The value of a variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// Sets or removes a variable.
    fn set_variable(&mut self, name: &str, value: Option<String>);
    /// The value of a property.
    fn property(&self, name: &str) -> Option<String>;
    /// Sets a property.
    fn set_property(&mut self, name: &str, value: String);
    /// All variables with a value.
    fn variables(&self) -> Vec<(String, String)>;
    /// All properties.
    fn properties(&self) -> Vec<(String, String)>;
    /// Name of the thread, as in results.
    fn thread_name(&self) -> String;
}

thread_local! {
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
}

/// A runtime of a thread, with the end of the time of the current evaluation.
struct Engine {
    runtime: Runtime,
    deadline: Rc<Cell<Option<Instant>>>,
}

impl Engine {
    fn new() -> Result<Self, rquickjs::Error> {
        let runtime = Runtime::new()?;
        runtime.set_memory_limit(MAX_MEMORY_BYTES);
        runtime.set_max_stack_size(MAX_STACK_BYTES);
        let deadline = Rc::new(Cell::new(None::<Instant>));
        let watched = deadline.clone();
        let is_over = move || watched.get().is_some_and(|end| Instant::now() >= end);
        runtime.set_interrupt_handler(Some(Box::new(is_over)));
        Ok(Self { runtime, deadline })
    }
}

/// The first name of Java or of an object of JMeter in an expression that cannot be used here.
pub(crate) fn unsupported_name(source: &str) -> Option<&'static str> {
    let words = source.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
    words.into_iter().find_map(|word| UNSUPPORTED_NAMES.iter().find(|name| **name == word).copied())
}

/// Evaluates JavaScript. Returns the text of its value.
///
/// # Errors
/// The exception, or an exceeded limit.
pub(crate) fn javascript(
    source: &str,
    environment: &mut dyn Environment,
) -> Result<String, String> {
    if source.len() > MAX_SCRIPT_BYTES {
        return Err(format!("a script has at most {MAX_SCRIPT_BYTES} bytes"));
    }
    ENGINE.with_borrow_mut(|engine| {
        let result = match engine {
            Some(engine) => engine.evaluate(source, environment),
            None => Engine::new()
                .map_err(|error| error.to_string())
                .and_then(|new| engine.insert(new).evaluate(source, environment)),
        };
        if result.is_err() {
            // After a limit a runtime may be in any state.
            *engine = None;
        }
        result
    })
}

/// The globals of JMeter. Changes are collected, since a script can only call functions that live
/// as long as its context.
const PRELUDE: &str = "(values => {
  const changed = [];
  const map = (kind, known) => {
    known = new Map(known);
    const get = (name, other = null) => known.has(String(name)) ? known.get(String(name)) : other;
    const put = (name, value) => {
      const old = get(name);
      known.set(String(name), String(value));
      changed.push([kind, String(name), String(value)]);
      return old;
    };
    const remove = name => {
      const old = get(name);
      known.delete(String(name));
      changed.push([kind, String(name), null]);
      return old;
    };
    return { get, put, remove, getProperty: get, setProperty: put };
  };
  const given = JSON.parse(values);
  globalThis.vars = map(0, given[0]);
  globalThis.props = map(1, given[1]);
  globalThis.threadName = given[2];
  const none = () => {};
  globalThis.log = { trace: none, debug: none, info: none, warn: none, error: none };
  return () => JSON.stringify(changed);
})";

impl Engine {
    fn evaluate(&self, source: &str, environment: &mut dyn Environment) -> Result<String, String> {
        let mentions = |name: &str| source.contains(name);
        let with_objects = ["vars", "props", "log", "threadName"].into_iter().any(mentions);
        let values = with_objects.then(|| {
            let variables = if mentions("vars") { environment.variables() } else { Vec::new() };
            let properties = if mentions("props") { environment.properties() } else { Vec::new() };
            serde_json::json!([variables, properties, environment.thread_name()]).to_string()
        });
        self.deadline.set(Some(Instant::now() + MAX_TIME));
        let context = Context::full(&self.runtime).map_err(|error| error.to_string())?;
        let result =
            context.with(|ctx| run(&ctx, source, values).map_err(|error| message(&ctx, &error)));
        self.deadline.set(None);
        let (text, changes) = result?;
        let changes: Vec<(u8, String, Option<String>)> =
            serde_json::from_str(&changes).unwrap_or_default();
        for (kind, name, value) in changes {
            match (kind, value) {
                (0, value) => environment.set_variable(&name, value),
                (_, value) => environment.set_property(&name, value.unwrap_or_default()),
            }
        }
        Ok(text)
    }
}

/// Runs a script: its value and its changes of variables and properties, in JSON.
fn run(
    ctx: &Ctx<'_>,
    source: &str,
    values: Option<String>,
) -> Result<(String, String), rquickjs::Error> {
    let options = || {
        let mut options = rquickjs::context::EvalOptions::default();
        options.strict = false;
        options
    };
    let changes = match values {
        Some(values) => {
            let prelude: rquickjs::Function<'_> = ctx.eval_with_options(PRELUDE, options())?;
            Some(prelude.call::<_, rquickjs::Function<'_>>((values,))?)
        }
        None => None,
    };
    let value: Value<'_> = ctx.eval_with_options(source, options())?;
    let text: Coerced<String> = value.get()?;
    let changes = match changes {
        Some(changes) => changes.call(())?,
        None => "[]".to_owned(),
    };
    Ok((text.0, changes))
}

fn message(ctx: &Ctx<'_>, error: &rquickjs::Error) -> String {
    let thrown = ctx.catch();
    let text = thrown.get::<Coerced<String>>().map(|text| text.0);
    match (error.is_exception(), text) {
        (true, Ok(text)) => text,
        _ => error.to_string(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
