//! JMeter functions. Constant results are computed when the plan is read.

use super::scripts;
use super::text::{self, TextError};
use super::variables::Variables;
use crate::charset::Charset;
use crate::feeder::CsvFile;
use crate::java_time::{Class, TimePattern};
use crate::program::{
    Call, Counter, Feeder, FeederId, Function, JmeterFunction, Kind, NumberFormat, Share, Text,
    TextPart, Variable,
};
use crate::script;
use std::net::ToSocketAddrs;
use std::sync::Arc;

/// Largest file of a function.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Most columns of a file of a function.
const MAX_COLUMNS: usize = 1000;

/// Functions that the Lab does not have, and why.
const UNSUPPORTED: [(&str, &str); 8] = [
    ("__XPath", "the Lab does not read values of XML files"),
    ("__StringToFile", "the Lab does not write files during a load"),
    ("__iterationNum", "the Lab does not support this function of a plug-in"),
    ("__caseFormat", "the Lab does not support this function of a plug-in"),
    ("__fifoGet", "the Lab does not support queues of a plug-in"),
    ("__fifoPop", "the Lab does not support queues of a plug-in"),
    ("__fifoPut", "the Lab does not support queues of a plug-in"),
    ("__fifoSize", "the Lab does not support queues of a plug-in"),
];

/// Index (from 0) of the argument of a function that names a variable for the result, so that this
/// variable is no constant. `count` is the number of arguments.
pub(super) fn variable_argument(function: &str, count: usize) -> Option<usize> {
    match function {
        "__Random" | "__RandomString" | "__FileToString" => Some(2),
        "__time" | "__counter" | "__property" | "__split" | "__StringFromFile" | "__env" => Some(1),
        "__machineName" | "__machineIP" | "__samplerName" => Some(0),
        "__regexFunction" => Some(5),
        "__intSum" | "__longSum" | "__doubleSum" | "__chooseRandom" | "__timeShift" => {
            count.checked_sub(1)
        }
        other => other.parse::<JmeterFunction>().ok()?.variable_argument(),
    }
}

/// Whether a function reads variables whose names it gets while the plan runs.
pub(super) fn reads_names(function: &str, arguments: &[&str]) -> bool {
    match function {
        "__V"
        | "__eval"
        | "__evalVar"
        | "__RandomFromMultipleVars"
        | "__isDefined"
        | "__isVarDefined" => true,
        "__regexFunction" => arguments.len() > 6,
        "__javaScript" | "__jexl2" | "__jexl3" => {
            arguments.first().is_some_and(|script| script.contains("vars"))
        }
        _ => false,
    }
}

/// Translates a function call.
pub(super) fn call(
    name: &str,
    arguments: &[Text],
    variables: &mut Variables<'_>,
) -> Result<Text, TextError> {
    let call = FunctionCall { name, arguments };
    if let Ok(function) = name.parse::<JmeterFunction>() {
        return call.jmeter(function, variables);
    }
    let store_in = match variable_argument(name, arguments.len()) {
        Some(index) => Some(call.fixed(index)?).filter(|variable| !variable.is_empty()),
        None => None,
    };
    // Without a name `__StringFromFile` takes this one.
    let store_in = match name {
        "__StringFromFile" if arguments.len() < 2 => Some("StringFromFile_".to_owned()),
        _ => store_in,
    };
    let store_in = store_in.map(|variable| variables.variable(&variable));
    let constant = match name {
        "__samplerName" => Some(sampler_name(variables)?),
        _ => call.constant(variables)?,
    };
    if let Some(text) = constant {
        if store_in.is_some() && text.as_fixed().is_none() {
            let message = format!("the Lab does not store a name that changes, in `{name}`");
            return Err(TextError::unsupported(message));
        }
        if let Some(variable) = store_in {
            variables.program.initial.push((variable, text.clone()));
        }
        return Ok(text);
    }
    let function = match name {
        // `__P(name,default)` is 1 without a default, `__property(name,variable,default)` its name.
        "__P" | "__property" => {
            let property = call.required(0)?;
            let default = match name {
                "__P" => arguments.get(1).cloned().unwrap_or_else(|| Text::fixed("1")),
                _ => arguments.get(2).unwrap_or(&property).clone(),
            };
            if let (Some(fixed), None) = (property.as_fixed(), store_in)
                && !variables.property_changes(fixed)
            {
                let value = variables.properties.get(fixed.trim()).cloned();
                return Ok(value.map_or(default, Text::fixed));
            }
            Function::Property { name: property, default }
        }
        "__setProperty" => Function::SetProperty {
            name: call.required(0)?,
            value: call.required(1)?,
            return_old: call.fixed(2)?.eq_ignore_ascii_case("true"),
        },
        "__Random" => Function::Random { min: call.required(0)?, max: call.required(1)? },
        "__RandomString" => Function::RandomString {
            length: call.required(0)?,
            of: arguments.get(1).cloned().unwrap_or_default(),
        },
        "__time" => call.time()?,
        "__threadNum" => Function::UserNumber,
        "__UUID" => Function::Uuid,
        "__counter" => call.counter(variables)?,
        "__StringFromFile" => call.string_from_file(variables)?,
        "__CSVRead" => call.csv_read(variables)?,
        // The place of the languages of the JVM.
        "__groovy" | "__BeanShell" => {
            return Err(TextError::unsupported(format!("{}: `{name}`", scripts::NEEDS_JMETER)));
        }
        _ => {
            let why = UNSUPPORTED.iter().find(|(known, _)| *known == name);
            let why = why.map_or("the Lab does not support the function", |(_, why)| why);
            return Err(TextError::unsupported(format!("{why}: `{name}`")));
        }
    };
    Ok(Text::from_parts([TextPart::Function { function: Box::new(function), store_in }]))
}

/// The name of the current sampler, evaluated.
fn sampler_name(variables: &mut Variables<'_>) -> Result<Text, TextError> {
    // Taken, so that the name does not refer to itself.
    let name = variables.sampler.take().ok_or_else(|| {
        TextError::unsupported("the Lab supports `__samplerName` only in samplers")
    })?;
    let text = text::parse(&name, variables);
    variables.sampler = Some(name);
    text
}

struct FunctionCall<'c> {
    name: &'c str,
    arguments: &'c [Text],
}

impl FunctionCall<'_> {
    fn required(&self, index: usize) -> Result<Text, TextError> {
        let found = self.arguments.get(index).filter(|text| text.as_fixed() != Some(""));
        found.cloned().ok_or_else(|| {
            TextError::invalid(format!("`{}` needs argument {}", self.name, index + 1))
        })
    }

    /// An argument that must be constant; empty if missing.
    fn fixed(&self, index: usize) -> Result<String, TextError> {
        let Some(text) = self.arguments.get(index) else { return Ok(String::new()) };
        let fixed = text.as_fixed().map(|text| text.trim().to_owned());
        fixed.ok_or_else(|| {
            TextError::unsupported(format!(
                "argument {} of `{}` changes while the plan runs, which the Lab does not support",
                index + 1,
                self.name
            ))
        })
    }

    /// The result of a function that is the same for the entire run.
    fn constant(&self, variables: &Variables<'_>) -> Result<Option<Text>, TextError> {
        Ok(Some(Text::fixed(match self.name {
            "__FileToString" => self.file(variables)?,
            "__machineName" => machine_name(),
            "__machineIP" => machine_address(),
            "__env" => {
                let default = self.fixed(2)?;
                std::env::var(self.fixed(0)?).unwrap_or(default)
            }
            "__TestPlanName" if !variables.plan.is_empty() => variables.plan.clone(),
            _ => return Ok(None),
        })))
    }

    /// A function without a place of its own in the program.
    fn jmeter(
        &self,
        function: JmeterFunction,
        variables: &mut Variables<'_>,
    ) -> Result<Text, TextError> {
        let count = self.arguments.len();
        // JMeter gives a function without brackets one empty argument.
        let arity = function.arity();
        if !arity.contains(&count) {
            let (least, most) = arity.into_inner();
            return Err(TextError::invalid(format!(
                "`{}` has {count} arguments instead of {least} to {most}",
                self.name
            )));
        }
        self.check(function)?;
        // Variables with names that are known get their places.
        if let Some(index) = variable_argument(self.name, count)
            && let Some(name) = self.arguments.get(index).and_then(Text::as_fixed)
            && !name.trim().is_empty()
            && name.trim().parse::<f64>().is_err()
        {
            variables.variable(name.trim());
        }
        let store_in = match function.variable_argument() {
            Some(index) => Some(self.fixed(index)?).filter(|variable| !variable.is_empty()),
            None => None,
        };
        let store_in = store_in.map(|variable| variables.variable(&variable));
        if function == JmeterFunction::Regex && count <= 6 {
            variables.program.reads_responses = true;
        }
        let fixed: Option<Vec<String>> =
            self.arguments.iter().map(|text| text.as_fixed().map(str::to_owned)).collect();
        if let (Kind::Pure, Some(fixed), None) = (function.kind(), fixed, store_in) {
            let result = function.pure(&fixed);
            return result.map(Text::fixed).ok_or_else(|| {
                TextError::invalid(format!("the arguments of `{}` are invalid", self.name))
            });
        }
        let call = Call { function, arguments: self.arguments.to_vec() };
        let function = Box::new(Function::Jmeter(call));
        Ok(Text::from_parts([TextPart::Function { function, store_in }]))
    }

    /// Checks scripts, patterns and locales as far as they are known.
    fn check(&self, function: JmeterFunction) -> Result<(), TextError> {
        let unsupported =
            |why: String| TextError::unsupported(format!("{why}, in `{}`", self.name));
        // A number stands for each variable.
        let example = |text: &Text| -> String {
            let part = |part: &TextPart| match part {
                TextPart::Literal(text) => text.to_string(),
                _ => "1".to_owned(),
            };
            text.parts().iter().map(part).collect()
        };
        let first = || self.arguments.first().map(example).unwrap_or_default();
        let pattern = |index: usize| match self.arguments.get(index).and_then(Text::as_fixed) {
            Some(text) if !text.trim().is_empty() => {
                TimePattern::new(text.trim(), Class::Formatter)
                    .map(drop)
                    .map_err(|why| unsupported(format!("the Lab does not support `{text}`: {why}")))
            }
            _ => Ok(()),
        };
        let locale = |index: usize| match self.fixed(index)? {
            locale if locale.is_empty() || locale.to_ascii_lowercase().starts_with("en") => Ok(()),
            locale => Err(unsupported(format!("the Lab has only English names, not `{locale}`"))),
        };
        match function {
            JmeterFunction::Eval if first().contains("${__") => {
                Err(unsupported("the Lab evaluates variables of a text, no functions".to_owned()))
            }
            JmeterFunction::JavaScript => match script::unsupported_name(&first()) {
                Some(name) => Err(unsupported(format!("scripts cannot use `{name}`"))),
                None => Ok(()),
            },
            JmeterFunction::Jexl2 | JmeterFunction::Jexl3 => {
                let only_variable = matches!(self.arguments.first().map(Text::parts), Some([_]))
                    && self.arguments[0].as_fixed().is_none();
                match script::jexl::check(&first()) {
                    Err(why) if !only_variable => {
                        Err(unsupported(format!("the Lab does not support this expression: {why}")))
                    }
                    _ => Ok(()),
                }
            }
            JmeterFunction::TimeShift => {
                pattern(0)?;
                if self.arguments.len() == 5 { locale(3) } else { Ok(()) }
            }
            JmeterFunction::RandomDate => {
                pattern(0)?;
                locale(3)
            }
            JmeterFunction::DateTimeConvert => {
                pattern(1)?;
                pattern(2)
            }
            JmeterFunction::Regex => match self.arguments[0].as_fixed() {
                Some(text) => crate::pattern::Pattern::new(text).map(drop).map_err(|why| {
                    unsupported(format!("the Lab does not support `{text}`: {why}"))
                }),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn time(&self) -> Result<Function, TextError> {
        let format = self.fixed(0)?;
        if format.is_empty() {
            return Ok(Function::Time { divisor: 1 });
        }
        if let Some(divisor) = format.strip_prefix('/') {
            let divisor = divisor.parse().ok().filter(|divisor| *divisor > 0);
            let divisor = divisor.ok_or_else(|| {
                TextError::invalid(format!("the divisor of `{format}` is not a number"))
            })?;
            return Ok(Function::Time { divisor });
        }
        // JMeter's properties `time.YMD` and so on.
        let java = match format.as_str() {
            "YMD" => "yyyyMMdd",
            "HMS" => "HHmmss",
            "YMDHMS" => "yyyyMMdd-HHmmss",
            "USER1" | "USER2" => "",
            other => other,
        };
        let pattern = TimePattern::new(java, Class::Simple).map_err(|why| {
            TextError::unsupported(format!(
                "the Lab does not support this time format: `{java}`: {why}"
            ))
        })?;
        Ok(Function::TimeFormat(pattern))
    }

    fn counter(&self, variables: &mut Variables<'_>) -> Result<Function, TextError> {
        let share = match self.fixed(0)?.to_ascii_uppercase().as_str() {
            "TRUE" => Share::User,
            _ => Share::All,
        };
        let program = &mut *variables.program;
        let variable = program.variable(&format!("__counter {}", program.counters.len()));
        let id = program.add_counter(Counter {
            variable,
            start: Text::fixed("1"),
            increment: Text::fixed("1"),
            maximum: Text::default(),
            format: NumberFormat::default(),
            share,
            reset_each_iteration: false,
        });
        Ok(Function::Counter(id))
    }

    /// The lines of a file, one after the other for all users.
    fn string_from_file(&self, variables: &mut Variables<'_>) -> Result<Function, TextError> {
        if self.arguments.len() > 2 {
            return Err(TextError::unsupported(
                "the Lab does not support numbered files of `__StringFromFile`",
            ));
        }
        let file = self.fixed(0)?;
        // No line has this character, so that a line is a value.
        let key = format!("__StringFromFile {file}");
        let (feeder, columns) = self.feeder(&key, &file, '\0', variables)?;
        Ok(Function::Row { feeder, column: columns.first().copied(), advance: true })
    }

    /// A column of the row of a user, or the next row.
    fn csv_read(&self, variables: &mut Variables<'_>) -> Result<Function, TextError> {
        let file = self.fixed(0)?;
        let column = self.fixed(1)?;
        if file.starts_with('*') || column.starts_with('*') {
            return Err(TextError::unsupported("the Lab does not support aliases of `__CSVRead`"));
        }
        let (feeder, columns) = self.feeder(&format!("__CSVRead {file}"), &file, ',', variables)?;
        if column.eq_ignore_ascii_case("next") {
            return Ok(Function::Row { feeder, column: None, advance: true });
        }
        let index: usize = column.parse().map_err(|_| {
            TextError::invalid(format!("the column of `__CSVRead` is no number: `{column}`"))
        })?;
        let column = columns.get(index).copied().ok_or_else(|| {
            TextError::invalid(format!("`{file}` has {} columns, not {index} + 1", columns.len()))
        })?;
        Ok(Function::Row { feeder, column: Some(column), advance: false })
    }

    /// The feeder of a file, made once, and the variables of its columns.
    fn feeder(
        &self,
        key: &str,
        file: &str,
        delimiter: char,
        variables: &mut Variables<'_>,
    ) -> Result<(FeederId, Vec<Variable>), TextError> {
        let known = variables.program.feeders.iter().position(|feeder| feeder.name == key);
        if let Some(at) = known {
            let columns = variables.program.feeders[at].variables.clone();
            return Ok((FeederId(u32::try_from(at).unwrap_or(u32::MAX)), columns));
        }
        let csv = CsvFile {
            columns: vec![String::new(); MAX_COLUMNS],
            delimiter: delimiter.to_string(),
            quoted: false,
            ..CsvFile::new(variables.folder.join(file))
        };
        let table = csv.read_rows(Charset::UTF_8);
        let mut table = table.map_err(|error| TextError::invalid(error.to_string()))?;
        // `__CSVRead` skips empty lines.
        let is_empty = |row: &Vec<Box<str>>| row.iter().all(|value| value.trim().is_empty());
        table.rows.retain(|row| delimiter == '\0' || !is_empty(row));
        let width = table.rows.iter().map(Vec::len).max().unwrap_or(0);
        let columns: Vec<Variable> =
            (0..width).map(|at| variables.program.variable(&format!("{key} {at}"))).collect();
        let feeders = &mut variables.program.feeders;
        feeders.push(Arc::new(Feeder {
            name: key.to_owned(),
            variables: columns.clone(),
            rows: table.rows,
            recycle: true,
            ..Feeder::default()
        }));
        Ok((FeederId(u32::try_from(feeders.len() - 1).unwrap_or(u32::MAX)), columns))
    }

    /// The content of a file, read once: JMeter reads the same content each time.
    fn file(&self, variables: &Variables<'_>) -> Result<String, TextError> {
        let name = self.fixed(0)?;
        let encoding = self.fixed(1)?;
        let encoding = Charset::named(&encoding).map_err(TextError::unsupported)?;
        let bytes = crate::bounded_file::read(&variables.folder.join(&name), MAX_FILE_BYTES)
            .map_err(|error| TextError::invalid(error.to_string()))?;
        Ok(encoding.decode(&bytes).into_owned())
    }
}

/// Name of this machine.
fn machine_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// The address of its name.
fn machine_address() -> String {
    let address =
        (machine_name().as_str(), 0).to_socket_addrs().ok().and_then(|mut all| all.next());
    address.map_or_else(|| "127.0.0.1".to_owned(), |address| address.ip().to_string())
}
