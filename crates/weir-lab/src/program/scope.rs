//! Evaluation scope of texts: the values of a user, and the state shared by all users.

use super::files::{Files, OpenRows};
use super::{
    Counter, CounterId, Feeder, FeederId, Function, Program, ScriptId, Share, Text, Variable,
    condition,
};
use crate::bounded_file::FileError;
use crate::budget::{MAX_VALUE_BYTES, cut};
use crate::feeder::FeederError;
use crate::form::{decode, form_encode};
use crate::java_time;
use bytes::Bytes;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

/// Largest text of `RandomString`.
const MAX_RANDOM_CHARS: i64 = 1024 * 1024;
/// Most variables of a user beside those of the program.
const MAX_OTHER_VARIABLES: usize = 100_000;

/// Names with their new values; `None` is removed.
pub(crate) type Changes = Vec<(String, Option<String>)>;

/// State shared by the users of a run: positions in feeders, counters, properties.
#[derive(Debug, Default)]
pub struct State {
    properties: RwLock<HashMap<String, String>>,
    /// Properties that the helper JVM does not know yet, if there is one.
    changed: Option<Mutex<Changes>>,
    /// Calls of each counter: of all users, then of each group.
    counters: Vec<Vec<AtomicU64>>,
    /// Consumed rows of each feeder, likewise.
    feeders: Vec<Vec<AtomicU64>>,
    /// Initial values of variables.
    initial: Vec<Option<String>>,
    /// Variables of the program by their names.
    names: HashMap<String, Variable>,
    /// Files whose names are known while the program runs.
    files: Files,
}

/// State of one user.
#[derive(Clone, Debug)]
pub struct Values {
    /// Values of the program's variables.
    variables: Vec<Option<String>>,
    /// Values of other variables, for programs with names that change.
    others: HashMap<String, String>,
    /// The last response, for programs that read it.
    response: Option<String>,
    /// Index of its group.
    group: usize,
    /// Number in the group, from 0.
    number: u32,
    random: fastrand::Rng,
    /// Calls of each counter with the scope of a user.
    counters: Vec<u64>,
    /// Consumed rows of each feeder with the scope of a user.
    feeders: Vec<u64>,
    /// Rows of files whose names the user has evaluated.
    open: Vec<(FeederId, Arc<OpenRows>)>,
}

/// Evaluation scope of one user.
#[derive(Debug)]
pub struct Scope<'a> {
    /// The program.
    pub program: &'a Program,
    /// The shared state.
    pub state: &'a State,
    /// The user.
    pub values: &'a mut Values,
}

impl State {
    /// The state at the start of a run, without functions of the helper JVM.
    pub fn new(program: &Program) -> Self {
        // Without a helper no function fails.
        Self::evaluated(program, &mut |_, _| Ok(String::new())).unwrap_or_default()
    }

    /// The state at the start of a run. `function` evaluates a function of the helper JVM with the variables
    /// that have a value.
    ///
    /// # Errors
    /// Those of `function`.
    pub(crate) fn evaluated(
        program: &Program,
        function: &mut dyn FnMut(ScriptId, &Changes) -> Result<String, String>,
    ) -> Result<Self, String> {
        let shares = program.groups.len() + 1;
        let zeros = |things: usize| {
            let row = || (0..shares).map(|_| AtomicU64::new(0)).collect();
            (0..things).map(|_| row()).collect()
        };
        let mut state = Self {
            properties: RwLock::new(program.properties.iter().cloned().collect()),
            changed: program.scripts.is_some().then(Mutex::default),
            counters: zeros(program.counters.len()),
            feeders: zeros(program.feeders.len()),
            initial: vec![None; program.variables.len()],
            names: (0..).zip(&program.variables).map(|(at, n)| (n.clone(), Variable(at))).collect(),
            files: Files::default(),
        };
        let mut values = Values::new(program, &state, 0, 0, 0);
        let result_of = |script| program.scripts.as_ref()?.results.get(&script).copied();
        for (at, (variable, text)) in program.initial.iter().enumerate() {
            for (_, script) in program.initial_functions.iter().filter(|(before, _)| *before == at)
            {
                let scope = Scope { program, state: &state, values: &mut values };
                let known = scope.all_named().into_iter().map(|(name, value)| (name, Some(value)));
                let result = function(*script, &known.collect())?;
                if let Some(variable) = result_of(*script) {
                    values.set(variable, Some(result));
                }
            }
            let text = {
                let mut scope = Scope { program, state: &state, values: &mut values };
                text.render(&mut scope).into_owned()
            };
            values.set(*variable, Some(text));
        }
        state.initial = values.variables;
        Ok(state)
    }

    /// A property's value.
    pub fn property(&self, name: &str) -> Option<String> {
        self.properties.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All properties.
    pub(crate) fn properties(&self) -> Vec<(String, String)> {
        let properties = self.properties.read().unwrap_or_else(PoisonError::into_inner);
        properties.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The content of a file, which is read once.
    pub(crate) fn file(&self, path: &Path) -> Result<Bytes, FileError> {
        self.files.read(path)
    }

    /// Takes the properties that have changed since the last call.
    pub(crate) fn take_changed(&self) -> Changes {
        let changed = self.changed.as_ref().map(|all| all.lock());
        changed.map_or_else(Vec::new, |all| {
            std::mem::take(&mut *all.unwrap_or_else(PoisonError::into_inner))
        })
    }

    /// Takes over a property that a script has changed.
    pub(crate) fn take_over(&self, name: String, value: Option<String>) {
        let mut known = self.properties.write().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => drop(known.insert(name, value)),
            None => drop(known.remove(&name)),
        }
    }

    /// Sets a property and returns its previous value.
    pub fn set_property(&self, name: String, value: String) -> Option<String> {
        if let Some(changed) = &self.changed {
            let mut changed = changed.lock().unwrap_or_else(PoisonError::into_inner);
            changed.push((name.clone(), Some(value.clone())));
        }
        self.properties.write().unwrap_or_else(PoisonError::into_inner).insert(name, value)
    }
}

impl Values {
    /// Values of a new user; `seed` is the seed of its random numbers.
    pub fn new(program: &Program, state: &State, group: usize, number: u32, seed: u64) -> Self {
        Self {
            variables: state.initial.clone(),
            others: HashMap::new(),
            response: None,
            group,
            number,
            random: fastrand::Rng::with_seed(seed),
            counters: vec![0; program.counters.len()],
            feeders: vec![0; program.feeders.len()],
            open: Vec::new(),
        }
    }

    /// A variable's value.
    pub fn get(&self, variable: Variable) -> Option<&str> {
        self.variables.get(variable.0 as usize)?.as_deref()
    }

    /// Sets a variable.
    pub fn set(&mut self, variable: Variable, value: Option<String>) {
        if let Some(slot) = self.variables.get_mut(variable.0 as usize) {
            *slot = value.map(bounded);
        }
    }

    /// Number of the user in its group, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Index of its group.
    pub(super) fn group(&self) -> usize {
        self.group
    }

    /// The text of the last response.
    pub(super) fn response(&self) -> Option<&str> {
        self.response.as_deref()
    }

    /// Keeps the text of a response for [`Program::reads_responses`].
    pub(crate) fn set_response(&mut self, text: String) {
        self.response = Some(text);
    }

    /// Random numbers of this user.
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    /// Resets the counters that restart at each iteration.
    pub(crate) fn start_iteration(&mut self, program: &Program) {
        for (count, counter) in self.counters.iter_mut().zip(&program.counters) {
            if counter.reset_each_iteration && counter.share == Share::User {
                *count = 0;
            }
        }
    }
}

impl Scope<'_> {
    /// The value of a variable by its name.
    pub fn named(&self, name: &str) -> Option<&str> {
        match self.state.names.get(name) {
            Some(variable) => self.values.get(*variable),
            None => self.values.others.get(name).map(String::as_str),
        }
    }

    /// Sets or removes a variable by its name. A variable that the program does not have is kept
    /// only if texts may name it while the program runs: [`Program::dynamic_names`].
    pub fn set_named(&mut self, name: &str, value: Option<String>) {
        if let Some(variable) = self.state.names.get(name) {
            return self.values.set(*variable, value);
        }
        let others = &mut self.values.others;
        match value {
            Some(value) if self.program.dynamic_names => {
                if others.len() < MAX_OTHER_VARIABLES || others.contains_key(name) {
                    others.insert(name.to_owned(), bounded(value));
                }
            }
            _ => drop(others.remove(name)),
        }
    }

    /// All variables with a value.
    pub(crate) fn all_named(&self) -> Vec<(String, String)> {
        let values = self.program.variables.iter().zip(&self.values.variables);
        let known = values.filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        let others = self.values.others.iter().map(|(name, value)| (name.clone(), value.clone()));
        known.chain(others).collect()
    }

    pub(super) fn write_variable(&self, variable: Variable, out: &mut String) {
        if let Some(value) = self.values.get(variable) {
            return out.push_str(value);
        }
        let name = self.program.variables.get(variable.0 as usize).map_or("", String::as_str);
        // Writing to a string cannot fail.
        let _ = write!(out, "${{{name}}}");
    }

    /// Appends the result of a function.
    pub(super) fn call(
        &mut self,
        function: &Function,
        store_in: Option<Variable>,
        out: &mut String,
    ) {
        let start = out.len();
        match function {
            Function::Random { min, max } => {
                let (min, max) = (min.integer(self), max.integer(self));
                let number = self.values.random.i64(min.min(max)..=max.max(min));
                let _ = write!(out, "{number}");
            }
            Function::Formatted(text, format) => out.push_str(&format.apply(text.integer(self))),
            Function::RandomString { length, of } => self.random_string(length, of, out),
            Function::Time { divisor } => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let millis = now.unwrap_or_default().as_millis() as u64;
                let _ = write!(out, "{}", millis / (*divisor).max(1));
            }
            Function::TimeFormat(pattern) => out.push_str(&pattern.format(&java_time::now())),
            Function::UserNumber => {
                let _ = write!(out, "{}", u64::from(self.values.number) + 1);
            }
            Function::Counter(id) => out.push_str(&self.count(*id)),
            Function::Uuid => {
                // Unique in all rounds, runs and generators, unlike the user's own random numbers.
                let random = fastrand::u128(..).to_ne_bytes();
                let _ = write!(out, "{}", uuid::Builder::from_random_bytes(random).into_uuid());
            }
            Function::Property { name, default } => {
                let name = name.render(self);
                match self.state.property(&name) {
                    Some(value) => out.push_str(&value),
                    None => default.write(self, out),
                }
            }
            Function::FormEncode { text, again, encoding } => {
                let text = text.render(self);
                match again {
                    true => out.push_str(&form_encode(&decode(&text, *encoding), *encoding)),
                    false => out.push_str(&form_encode(&text, *encoding)),
                }
            }
            Function::Escape { text, escape } => out.push_str(&escape.apply(&text.render(self))),
            Function::Row { feeder, column, advance } => {
                out.push_str(&self.row(*feeder, *column, *advance));
            }
            Function::Weighted(weights) => {
                let total = weights.iter().map(|weight| u64::from(*weight)).sum::<u64>().max(1);
                let mut left = self.values.random.u64(..total);
                let chosen = weights.iter().position(|weight| {
                    let weight = u64::from(*weight);
                    let is_chosen = left < weight;
                    left = left.saturating_sub(weight);
                    is_chosen
                });
                out.push_str(&chosen.unwrap_or_default().to_string());
            }
            Function::Jmeter(call) => out.push_str(&self.jmeter(call)),
            Function::Condition(text) => {
                // As in JMeter: a script that cannot be evaluated is not true.
                let text = text.render(self).into_owned();
                let script = |_| self.javascript(&text).map(|value| value.trim() == "true");
                let is_true = condition(&text).or_else(script).unwrap_or(false);
                let _ = write!(out, "{is_true}");
            }
            Function::SetProperty { name, value, return_old } => {
                let name = name.render(self).into_owned();
                let value = value.render(self).into_owned();
                let old = self.state.set_property(name, value);
                if *return_old {
                    out.push_str(old.as_deref().unwrap_or_default());
                }
            }
        }
        if let Some(variable) = store_in {
            self.values.set(variable, Some(out[start..].to_owned()));
        }
    }

    /// A value of a user's row of a feeder, which has one from the first call on.
    fn row(&mut self, feeder: FeederId, column: Option<Variable>, advance: bool) -> String {
        let value =
            |values: &Values| column.and_then(|column| values.get(column)).map(str::to_owned);
        if advance || value(self.values).is_none() {
            // Its rows are known: the file was read with the plan.
            let _ = self.feed(feeder);
        }
        value(self.values).unwrap_or_default()
    }

    fn random_string(&mut self, length: &Text, of: &Text, out: &mut String) {
        let length = length.integer(self).clamp(0, MAX_RANDOM_CHARS);
        let of: Vec<char> = of.render(self).chars().collect();
        for _ in 0..length {
            let random = &mut self.values.random;
            let character = match of.get(random.usize(..of.len().max(1))) {
                Some(character) => *character,
                None => char::from(random.u8(b' '..=b'~')),
            };
            out.push(character);
        }
    }

    /// All variables with a value.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let all = self.program.variables.iter().zip(&self.values.variables);
        all.filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect()
    }

    /// Item `number` of the list `name`: the value of the variable `name_number`, or `namenumber`
    /// without separator.
    pub fn item(&self, name: &str, separator: bool, number: u64) -> Option<&str> {
        let between = if separator { "_" } else { "" };
        self.named(&format!("{name}{between}{number}"))
    }

    /// Returns the next value of a counter and sets its variable.
    pub fn count(&mut self, id: CounterId) -> String {
        let at = id.0 as usize;
        let program = self.program;
        let Some(counter) = program.counters.get(at) else { return String::new() };
        let (own, group) = (&mut self.values.counters[at], self.values.group);
        let calls = advance(counter.share, own, &self.state.counters[at], group);
        let value = self.counter_value(counter, calls);
        self.values.set(counter.variable, Some(value.clone()));
        value
    }

    /// Value of a counter after a number of calls.
    fn counter_value(&mut self, counter: &Counter, calls: u64) -> String {
        let (start, step) = (counter.start.integer(self), counter.increment.integer(self));
        let maximum = counter.maximum.render(self);
        let calls = match maximum.trim().parse::<i64>() {
            Ok(maximum) if maximum < start => 0,
            Ok(maximum) if step > 0 => calls % (maximum.abs_diff(start) / step.unsigned_abs() + 1),
            _ => calls,
        };
        let value = start.wrapping_add((calls as i64).wrapping_mul(step));
        counter.format.apply(value)
    }

    /// Sets the variables of the next row of a feeder; `false` if the user has to end.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn feed(&mut self, id: FeederId) -> Result<bool, FeederError> {
        let at = id.0 as usize;
        let (program, state) = (self.program, self.state);
        let Some(feeder) = program.feeders.get(at) else { return Ok(true) };
        let open = self.open(id, feeder)?;
        let (rows_of, shared) = match &open {
            Some(open) => (&open.rows, &open.consumed),
            None => (&feeder.rows, &state.feeders[at]),
        };
        let rows = rows_of.len() as u64;
        let next = if feeder.random && rows > 0 {
            self.values.random.u64(..rows)
        } else {
            advance(feeder.share, &mut self.values.feeders[at], shared, self.values.group)
        };
        let next = if feeder.recycle && rows > 0 { next % rows } else { next };
        let row = usize::try_from(next).ok().and_then(|next| rows_of.get(next));
        if row.is_none() && feeder.stop_user {
            return Ok(false);
        }
        for (column, variable) in feeder.variables.iter().enumerate() {
            let value = match row {
                // A short row leaves the remaining variables as they are.
                Some(row) => match row.get(column) {
                    Some(value) => value.to_string(),
                    None => continue,
                },
                None => "<EOF>".to_owned(),
            };
            self.values.set(*variable, Some(value));
        }
        Ok(true)
    }

    /// The rows of a feeder whose file is known while the program runs.
    fn open(
        &mut self,
        id: FeederId,
        feeder: &Feeder,
    ) -> Result<Option<Arc<OpenRows>>, FeederError> {
        let Some(file) = &feeder.file else { return Ok(None) };
        if let Some((_, rows)) = self.values.open.iter().find(|(known, _)| *known == id) {
            return Ok(Some(rows.clone()));
        }
        let path = file.name.path(self);
        let rows = self.state.files.rows(id, (path, file), self.program.groups.len())?;
        self.values.open.push((id, rows.clone()));
        Ok(Some(rows))
    }
}

/// A value that is not too large: texts of variables could double each time.
fn bounded(mut value: String) -> String {
    cut(&mut value, MAX_VALUE_BYTES);
    value
}

/// Advances a position of a user, of all users or of a group. Returns the previous position.
fn advance(share: Share, own: &mut u64, shared: &[AtomicU64], group: usize) -> u64 {
    let shared = match share {
        Share::User => return std::mem::replace(own, *own + 1),
        Share::All => &shared[0],
        Share::Group => &shared[group + 1],
    };
    shared.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
