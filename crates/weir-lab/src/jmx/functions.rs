//! JMeter functions. Constant results are computed when the plan is read.

use super::text::TextError;
use super::variables::Variables;
use crate::program::{Counter, Function, Share, Text, TextPart, Variable};

/// Largest file of a function.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Index (from 0) of the argument of a function that names a variable for the result, so that this
/// variable is no constant.
pub(super) fn variable_argument(function: &str) -> Option<usize> {
    match function {
        "__Random" | "__RandomString" | "__FileToString" => Some(2),
        "__time" | "__counter" | "__property" => Some(1),
        _ => None,
    }
}

/// Translates a function call.
pub(super) fn call(
    name: &str,
    arguments: &[Text],
    variables: &mut Variables<'_>,
) -> Result<Text, TextError> {
    let call = Call { name, arguments };
    let store_in = match variable_argument(name) {
        Some(index) => Some(call.fixed(index)?).filter(|variable| !variable.is_empty()),
        None => None,
    };
    let store_in = store_in.map(|variable| variables.variable(&variable));
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
        "__FileToString" => return call.file(store_in, variables),
        "__groovy" | "__jexl2" | "__jexl3" | "__BeanShell" | "__javaScript" => {
            return Err(TextError::unsupported(format!("the Lab does not run scripts: `{name}`")));
        }
        _ => {
            return Err(TextError::unsupported(format!(
                "the Lab does not support the function `{name}`"
            )));
        }
    };
    Ok(Text::from_parts([TextPart::Function { function: Box::new(function), store_in }]))
}

struct Call<'c> {
    name: &'c str,
    arguments: &'c [Text],
}

impl Call<'_> {
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
            other => other,
        };
        let pattern = strftime(java).ok_or_else(|| {
            TextError::unsupported(format!("the Lab does not support this time format: `{java}`"))
        })?;
        Ok(Function::TimeFormat { pattern })
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
            digits: 0,
            prefix: String::new(),
            share,
            reset_each_iteration: false,
        });
        Ok(Function::Counter(id))
    }

    /// The content of a file, read once: JMeter reads the same content each time.
    fn file(
        &self,
        store_in: Option<Variable>,
        variables: &mut Variables<'_>,
    ) -> Result<Text, TextError> {
        let name = self.fixed(0)?;
        let encoding = self.fixed(1)?;
        if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("utf-8") {
            return Err(TextError::unsupported(format!(
                "the Lab supports only UTF-8, not `{encoding}`"
            )));
        }
        let text = crate::bounded_file::read(&variables.folder.join(&name), MAX_FILE_BYTES)
            .map_err(|error| TextError::invalid(error.to_string()))?;
        let text = Text::fixed(String::from_utf8_lossy(&text).into_owned());
        if let Some(variable) = store_in {
            variables.program.initial.push((variable, text.clone()));
        }
        Ok(text)
    }
}

/// Converts a pattern of Java's `SimpleDateFormat` to `strftime`; `None` for unsupported letters.
fn strftime(java: &str) -> Option<String> {
    let mut out = String::new();
    let mut characters = java.chars().peekable();
    while let Some(letter) = characters.next() {
        if letter == '\'' {
            // Two quotation marks are one, inside and outside of a quoted part.
            if characters.next_if_eq(&'\'').is_some() {
                out.push('\'');
                continue;
            }
            while let Some(quoted) = characters.next() {
                if quoted == '\'' && characters.next_if_eq(&'\'').is_none() {
                    break;
                }
                literal(quoted, &mut out);
            }
            continue;
        }
        if !letter.is_ascii_alphabetic() {
            literal(letter, &mut out);
            continue;
        }
        let mut count = 1;
        while characters.next_if_eq(&letter).is_some() {
            count += 1;
        }
        out.push_str(match (letter, count) {
            ('y', 2) => "%y",
            ('y', _) => "%Y",
            ('M', 1) => "%-m",
            ('M', 2) => "%m",
            ('M', 3) => "%b",
            ('M', _) => "%B",
            ('d', 1) => "%-d",
            ('d', 2) => "%d",
            ('D', 3) => "%j",
            ('H', 1) => "%-H",
            ('H', 2) => "%H",
            ('h', 1) => "%-I",
            ('h', 2) => "%I",
            ('m', 1) => "%-M",
            ('m', 2) => "%M",
            ('s', 1) => "%-S",
            ('s', 2) => "%S",
            ('S', 3) => "%3f",
            ('a', _) => "%p",
            ('E', 1..=3) => "%a",
            ('E', _) => "%A",
            ('Z', _) => "%z",
            ('X', 3) => "%:z",
            _ => return None,
        });
    }
    Some(out)
}

fn literal(character: char, out: &mut String) {
    out.push(character);
    if character == '%' {
        out.push('%');
    }
}

#[cfg(test)]
mod tests {
    use super::strftime;

    #[test]
    fn patterns_of_java_become_those_of_strftime() {
        for (java, expected) in [
            ("yyyy-MM-dd'T'HH:mm:ss.SSSZ", Some("%Y-%m-%dT%H:%M:%S.%3f%z")),
            ("d/M/yy h:mm a, EEEE", Some("%-d/%-m/%y %-I:%M %p, %A")),
            ("'o''clock' 100%", Some("o'clock 100%%")),
            ("yyyy''", Some("%Y'")),
            ("YYYY-'W'ww", None),
        ] {
            assert_eq!(strftime(java).as_deref(), expected, "{java}");
        }
    }
}
