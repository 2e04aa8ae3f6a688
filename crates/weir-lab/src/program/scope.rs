//! Evaluation scope of texts: the values of a user, and the state shared by all users.

use super::{Counter, CounterId, FeederId, Function, Program, Share, Text, Variable, condition};
use crate::form::{decode, form_encode};
use crate::java_time;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::SystemTime;

/// Largest text of `RandomString`.
const MAX_RANDOM_CHARS: i64 = 1024 * 1024;
/// Most variables of a user beside those of the program.
const MAX_OTHER_VARIABLES: usize = 100_000;

/// State shared by the users of a run: positions in feeders, counters, properties.
#[derive(Debug, Default)]
pub struct State {
    properties: RwLock<HashMap<String, String>>,
    /// Calls of each counter: of all users, then of each group.
    counters: Vec<Vec<AtomicU64>>,
    /// Consumed rows of each feeder, likewise.
    feeders: Vec<Vec<AtomicU64>>,
    /// Initial values of variables.
    initial: Vec<Option<String>>,
    /// Variables of the program by their names.
    names: HashMap<String, Variable>,
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
    /// The state at the start of a run.
    pub fn new(program: &Program) -> Self {
        let shares = program.groups.len() + 1;
        let zeros = |things: usize| {
            let row = || (0..shares).map(|_| AtomicU64::new(0)).collect();
            (0..things).map(|_| row()).collect()
        };
        let mut state = Self {
            properties: RwLock::new(program.properties.iter().cloned().collect()),
            counters: zeros(program.counters.len()),
            feeders: zeros(program.feeders.len()),
            initial: vec![None; program.variables.len()],
            names: (0..).zip(&program.variables).map(|(at, n)| (n.clone(), Variable(at))).collect(),
        };
        let mut values = Values::new(program, &state, 0, 0, 0);
        for (variable, text) in &program.initial {
            let text = {
                let mut scope = Scope { program, state: &state, values: &mut values };
                text.render(&mut scope).into_owned()
            };
            values.set(*variable, Some(text));
        }
        state.initial = values.variables;
        state
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

    /// Sets a property and returns its previous value.
    pub fn set_property(&self, name: String, value: String) -> Option<String> {
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
        }
    }

    /// A variable's value.
    pub fn get(&self, variable: Variable) -> Option<&str> {
        self.variables.get(variable.0 as usize)?.as_deref()
    }

    /// Sets a variable.
    pub fn set(&mut self, variable: Variable, value: Option<String>) {
        if let Some(slot) = self.variables.get_mut(variable.0 as usize) {
            *slot = value;
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
                    others.insert(name.to_owned(), value);
                }
            }
            _ => drop(others.remove(name)),
        }
    }

    /// All variables with a value.
    pub(super) fn all_named(&self) -> Vec<(String, String)> {
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
                let random = self.values.random.u128(..).to_ne_bytes();
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
            Function::Row { feeder, column, advance } => {
                out.push_str(&self.row(*feeder, *column, *advance));
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
            self.feed(feeder);
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
            Ok(maximum) if step > 0 && maximum >= start => {
                calls % (maximum.abs_diff(start) / step.unsigned_abs() + 1)
            }
            _ => calls,
        };
        let value = start.wrapping_add((calls as i64).wrapping_mul(step));
        format!("{}{value:0width$}", counter.prefix, width = usize::from(counter.digits))
    }

    /// Sets the variables of the next row of a feeder; `false` if the user has to end.
    pub fn feed(&mut self, id: FeederId) -> bool {
        let at = id.0 as usize;
        let program = self.program;
        let Some(feeder) = program.feeders.get(at) else { return true };
        let rows = feeder.rows.len() as u64;
        let next = if feeder.random && rows > 0 {
            self.values.random.u64(..rows)
        } else {
            let (own, group) = (&mut self.values.feeders[at], self.values.group);
            advance(feeder.share, own, &self.state.feeders[at], group)
        };
        let next = if feeder.recycle && rows > 0 { next % rows } else { next };
        let row = usize::try_from(next).ok().and_then(|next| feeder.rows.get(next));
        if row.is_none() && feeder.stop_user {
            return false;
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
        true
    }
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
