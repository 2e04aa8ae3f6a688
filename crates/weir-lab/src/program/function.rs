//! Functions of JMeter and of its usual plug-ins, evaluated each time.

use super::{Scope, Text};
use crate::budget::{MAX_TEXT_BYTES, cut, replaced};
use crate::charset::Charset;
use crate::escape::{escape_html, escape_xml, unescape_html, unescape_java};
use crate::form::{decode, form_encode};
use crate::java_time::{self, Class, TimePattern};
use crate::jsonpath::java_double;
use crate::pattern::Pattern;
use crate::script::{self, Environment, jexl};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::tz::TimeZone;
use std::ops::RangeInclusive;

/// A call of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function.
    pub function: JmeterFunction,
    /// Its arguments.
    pub arguments: Vec<Text>,
}

/// Most arguments of a function with any number of them.
const MANY: usize = 1000;

macro_rules! functions {
    ($($(#[$doc:meta])* $variant:ident $name:literal $least:literal..$most:tt $kind:ident $variable:expr;)*) => {
        /// A function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
        pub enum JmeterFunction {
            $($(#[$doc])* #[strum(serialize = $name)] $variant,)*
        }

        impl JmeterFunction {
            /// Its number of arguments.
            #[must_use]
            pub fn arity(self) -> RangeInclusive<usize> {
                match self { $(Self::$variant => $least..=$most,)* }
            }

            /// What the result depends on.
            #[must_use]
            pub fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)* }
            }

            /// Index of the argument that names a variable for the result.
            #[must_use]
            pub fn variable_argument(self) -> Option<usize> {
                match self { $(Self::$variant => $variable,)* }
            }
        }
    };
}

/// What the result of a function depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its arguments only: computed when the plan is read if they are constant.
    Pure,
    /// The time, random numbers, or the user.
    Changing,
    /// Variables or properties by their names.
    Named,
}

functions! {
    /// Base64 of a text (plug-in).
    Base64Encode "__base64Encode" 1..2 Pure Some(1);
    /// The text of Base64 (plug-in).
    Base64Decode "__base64Decode" 1..2 Pure Some(1);
    /// Splits a text into variables.
    Split "__split" 2..3 Named None;
    /// A text with the values of its variables.
    Eval "__eval" 1..1 Named None;
    /// The same for the value of a variable.
    EvalVar "__evalVar" 1..1 Named None;
    /// The variable of a name.
    V "__V" 1..2 Named None;
    /// A random day.
    RandomDate "__RandomDate" 3..5 Changing Some(4);
    /// A time plus a duration.
    TimeShift "__timeShift" 4..5 Changing None;
    /// A time in another pattern.
    DateTimeConvert "__dateTimeConvert" 3..4 Changing Some(3);
    /// The digest of a text.
    Digest "__digest" 2..5 Pure Some(4);
    /// MD5 of a text (plug-in).
    Md5 "__MD5" 1..2 Pure Some(1);
    /// Escapes for HTML.
    EscapeHtml "__escapeHtml" 1..1 Pure None;
    /// Reverses them.
    UnescapeHtml "__unescapeHtml" 1..1 Pure None;
    /// Escapes for XML.
    EscapeXml "__escapeXml" 1..1 Pure None;
    /// Escapes for regular expressions.
    EscapeRegex "__escapeOroRegexpChars" 1..2 Pure Some(1);
    /// Encodes for forms.
    UrlEncode "__urlencode" 1..1 Pure None;
    /// Reverses it.
    UrlDecode "__urldecode" 1..1 Pure None;
    /// Resolves escapes of Java.
    Unescape "__unescape" 1..1 Pure None;
    /// Characters of numbers.
    Char "__char" 1..MANY Pure None;
    /// Changes upper and lower case.
    ChangeCase "__changeCase" 1..3 Pure Some(2);
    /// Upper case (plug-in).
    UpperCase "__uppercase" 1..2 Pure Some(1);
    /// The same by its other name.
    ToUpperCase "__toUpperCase" 1..2 Pure Some(1);
    /// Lower case (plug-in).
    LowerCase "__lowercase" 1..2 Pure Some(1);
    /// The same by its other name.
    ToLowerCase "__toLowerCase" 1..2 Pure Some(1);
    /// Length of a text (plug-in).
    Length "__strLen" 1..2 Pure Some(1);
    /// Part of a text (plug-in).
    Substring "__substring" 3..4 Pure Some(3);
    /// Replaces a text (plug-in).
    Replace "__strReplace" 3..4 Pure Some(3);
    /// Replaces by a regular expression (plug-in).
    ReplaceRegex "__strReplaceRegex" 3..4 Pure Some(3);
    /// One of two texts (plug-in).
    If "__if" 4..5 Pure Some(4);
    /// Sum of integers; the last argument may be a variable.
    IntSum "__intSum" 2..MANY Named None;
    /// The same with 64 bits.
    LongSum "__longSum" 2..MANY Named None;
    /// Sum of numbers (plug-in).
    DoubleSum "__doubleSum" 2..MANY Named None;
    /// Whether a variable has a value: `1` or `0` (plug-in).
    IsDefined "__isDefined" 1..1 Named None;
    /// The same: `true` or `false`.
    IsVariableDefined "__isVarDefined" 1..1 Named None;
    /// The same for a property.
    IsPropertyDefined "__isPropDefined" 1..1 Named None;
    /// One of the values of variables.
    RandomFromVariables "__RandomFromMultipleVars" 1..2 Named Some(1);
    /// One of the arguments; the last one is a variable (plug-in).
    ChooseRandom "__chooseRandom" 3..MANY Named None;
    /// A part of a text by a regular expression.
    Regex "__regexFunction" 2..7 Named None;
    /// Name of the group of the user.
    GroupName "__threadGroupName" 0..0 Changing None;
    /// Writes to a log, which the Lab does not have; returns the text.
    Log "__log" 1..4 Pure None;
    /// The same; returns nothing.
    LogNothing "__logn" 1..3 Pure None;
    /// JavaScript.
    JavaScript "__javaScript" 1..2 Named Some(1);
    /// JEXL 2.
    Jexl2 "__jexl2" 1..2 Named Some(1);
    /// JEXL 3.
    Jexl3 "__jexl3" 1..2 Named Some(1);
}

impl JmeterFunction {
    /// The result for constant arguments; `None` without one.
    pub(crate) fn pure(self, arguments: &[String]) -> Option<String> {
        let argument = |at: usize| arguments.get(at).map_or("", String::as_str);
        let text = argument(0);
        Some(match self {
            Self::Base64Encode => STANDARD.encode(text),
            Self::Base64Decode => {
                String::from_utf8_lossy(&STANDARD.decode(text.trim()).ok()?).into_owned()
            }
            Self::Digest => {
                let digest = digest(text, [argument(1), argument(2)].concat().as_bytes())?;
                match argument(3).trim().eq_ignore_ascii_case("true") {
                    true => digest.to_uppercase(),
                    false => digest,
                }
            }
            Self::Md5 => digest("MD5", text.as_bytes())?,
            Self::EscapeHtml => escape_html(text),
            Self::UnescapeHtml => unescape_html(text),
            Self::EscapeXml => escape_xml(text),
            Self::EscapeRegex => {
                let escape = |character: char| match character.is_alphanumeric() || character == '_'
                {
                    true => character.to_string(),
                    false => format!("\\{character}"),
                };
                text.chars().map(escape).collect()
            }
            Self::UrlEncode => form_encode(text, Charset::UTF_8),
            Self::UrlDecode => decode(text, Charset::UTF_8),
            Self::Unescape => unescape_java(text),
            Self::Char => arguments.iter().filter_map(|number| character(number.trim())).collect(),
            Self::ChangeCase => match argument(1).trim().to_ascii_uppercase().as_str() {
                "" | "UPPER" => text.to_uppercase(),
                "LOWER" => text.to_lowercase(),
                "CAPITALIZE" => {
                    let mut characters = text.chars();
                    let first = characters.next().into_iter().flat_map(char::to_uppercase);
                    first.chain(characters.as_str().chars()).collect()
                }
                _ => text.to_owned(),
            },
            Self::UpperCase | Self::ToUpperCase => text.to_uppercase(),
            Self::LowerCase | Self::ToLowerCase => text.to_lowercase(),
            Self::Length => text.encode_utf16().count().to_string(),
            Self::Substring => {
                let units: Vec<u16> = text.encode_utf16().collect();
                let bound = |at: usize| argument(at).trim().parse::<usize>().ok();
                String::from_utf16_lossy(units.get(bound(1)?..bound(2)?)?)
            }
            Self::Replace => replaced(text, argument(1), argument(2)).ok()?,
            Self::ReplaceRegex => {
                Pattern::cached(argument(1)).ok()?.replace(text, argument(2)).ok()?
            }
            Self::If => argument(if text == argument(1) { 2 } else { 3 }).to_owned(),
            Self::Log => text.to_owned(),
            Self::LogNothing => String::new(),
            _ => return None,
        })
    }
}

/// The digest in hexadecimal, by Java's name of the algorithm.
pub(crate) fn digest(algorithm: &str, bytes: &[u8]) -> Option<String> {
    use aws_lc_rs::digest;
    use md5::{Digest, Md5};
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let algorithm = match algorithm.trim().to_ascii_uppercase().as_str() {
        "MD5" => return Some(hexadecimal(&Md5::digest(bytes))),
        "SHA-1" | "SHA1" | "SHA" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "SHA-224" => &digest::SHA224,
        "SHA-256" => &digest::SHA256,
        "SHA-384" => &digest::SHA384,
        "SHA-512" => &digest::SHA512,
        _ => return None,
    };
    Some(hexadecimal(digest::digest(algorithm, bytes).as_ref()))
}

/// A character by its number, in decimal, hexadecimal (`0x`, `#`) or octal (`0`).
fn character(number: &str) -> Option<char> {
    let hexadecimal = ["0x", "0X", "#"].iter().find_map(|start| number.strip_prefix(start));
    let code = match (hexadecimal, number.strip_prefix('0')) {
        (Some(digits), _) => u32::from_str_radix(digits, 16),
        (None, Some(digits)) if !digits.is_empty() => u32::from_str_radix(digits, 8),
        _ => number.parse(),
    };
    char::from_u32(code.ok()?)
}

impl Scope<'_> {
    /// The result of a function; empty after an error, as in JMeter.
    pub(super) fn jmeter(&mut self, call: &Call) -> String {
        let arguments = call.arguments.iter().map(|text| text.render(self).into_owned());
        let arguments: Vec<String> = arguments.collect();
        self.evaluate(call.function, &arguments).unwrap_or_default()
    }

    fn evaluate(&mut self, function: JmeterFunction, arguments: &[String]) -> Option<String> {
        use JmeterFunction as Is;
        let argument = |at: usize| arguments.get(at).map_or("", String::as_str);
        Some(match function {
            Is::Split => self.split(argument(0), argument(1).trim(), argument(2)),
            Is::Eval => self.expand(argument(0)),
            Is::EvalVar => {
                let value = self.named(argument(0))?.to_owned();
                self.expand(&value)
            }
            Is::V => {
                let default = argument(usize::from(arguments.len() > 1));
                self.named(argument(0)).unwrap_or(default).to_owned()
            }
            Is::RandomDate => self.random_date(arguments)?,
            Is::TimeShift => self.time_shift(arguments)?,
            Is::DateTimeConvert => date_time_convert(argument(0), argument(1), argument(2))?,
            Is::IntSum | Is::LongSum | Is::DoubleSum => self.sum(function, arguments)?,
            Is::IsDefined => u8::from(self.named(argument(0)).is_some()).to_string(),
            Is::IsVariableDefined => self.named(argument(0)).is_some().to_string(),
            Is::IsPropertyDefined => self.state.property(argument(0)).is_some().to_string(),
            Is::RandomFromVariables => self.random_from_variables(argument(0))?,
            Is::ChooseRandom => {
                let (variable, choices) = arguments.split_last()?;
                let chosen = choices.get(self.values.random().usize(..choices.len().max(1)))?;
                self.store(variable, chosen.clone());
                chosen.clone()
            }
            Is::Regex => self.regex_function(arguments)?,
            Is::GroupName => self.program.groups.get(self.values.group())?.name.clone(),
            Is::JavaScript => self.javascript(argument(0)).ok()?,
            Is::Jexl2 => self.jexl(argument(0), jexl::Dialect::Two).ok()?,
            Is::Jexl3 => self.jexl(argument(0), jexl::Dialect::Three).ok()?,
            pure => pure.pure(arguments)?,
        })
    }

    /// Evaluates JavaScript, for `__javaScript` and for conditions, which hold if the result is
    /// `true`.
    ///
    /// # Errors
    /// The exception, or an exceeded limit.
    pub fn javascript(&mut self, source: &str) -> Result<String, String> {
        script::javascript(source, self)
    }

    fn jexl(&mut self, source: &str, dialect: jexl::Dialect) -> Result<String, String> {
        jexl::evaluate(source, dialect, self)
    }

    /// Sets a variable, unless its name is empty.
    fn store(&mut self, name: &str, value: String) {
        let name = name.trim();
        if !name.is_empty() {
            self.set_named(name, Some(value));
        }
    }

    /// A text with the values of its variables, and without escapes. Functions stay as they are.
    fn expand(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['\\', '$']) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let Some(behind) = rest.strip_prefix("${") else {
                let mut characters = rest.chars();
                let first = characters.next();
                match characters.clone().next() {
                    Some(escaped @ ('$' | ',' | '\\')) if first == Some('\\') => {
                        characters.next();
                        out.push(escaped);
                    }
                    _ => out.extend(first),
                }
                rest = characters.as_str();
                continue;
            };
            let found = behind
                .split_once('}')
                .and_then(|(name, behind)| Some((self.named(name.trim())?, behind)));
            match found {
                Some((value, behind)) => {
                    out.push_str(value);
                    if out.len() > MAX_TEXT_BYTES {
                        cut(&mut out, MAX_TEXT_BYTES);
                        return out;
                    }
                    rest = behind;
                }
                None => {
                    out.push_str("${");
                    rest = behind;
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// Splits at a text; an empty part is `?`, as in JMeter.
    fn split(&mut self, text: &str, name: &str, separator: &str) -> String {
        let separator = if separator.is_empty() { "," } else { separator };
        let parts: Vec<&str> = text.split(separator).collect();
        self.set_named(name, Some(text.to_owned()));
        self.set_named(&format!("{name}_n"), Some(parts.len().to_string()));
        for (at, part) in parts.iter().enumerate() {
            let part = if part.is_empty() { "?" } else { part };
            self.set_named(&format!("{name}_{}", at + 1), Some(part.to_owned()));
        }
        self.set_named(&format!("{name}_{}", parts.len() + 1), None);
        text.to_owned()
    }

    /// The last argument is a number, or the variable of the sum.
    fn sum(&mut self, function: JmeterFunction, arguments: &[String]) -> Option<String> {
        let sum = |numbers: &[String]| -> Option<String> {
            let trimmed = numbers.iter().map(|number| number.trim());
            Some(match function {
                JmeterFunction::IntSum => {
                    let numbers: Result<Vec<i32>, _> = trimmed.map(str::parse).collect();
                    numbers.ok()?.into_iter().fold(0, i32::wrapping_add).to_string()
                }
                JmeterFunction::LongSum => {
                    let numbers: Result<Vec<i64>, _> = trimmed.map(str::parse).collect();
                    numbers.ok()?.into_iter().fold(0, i64::wrapping_add).to_string()
                }
                _ => {
                    let numbers: Result<Vec<f64>, _> = trimmed.map(str::parse).collect();
                    java_double(numbers.ok()?.into_iter().sum())
                }
            })
        };
        if let Some(sum) = sum(arguments) {
            return Some(sum);
        }
        let (variable, numbers) = arguments.split_last()?;
        let sum = sum(numbers)?;
        self.store(variable, sum.clone());
        Some(sum)
    }

    fn random_from_variables(&mut self, names: &str) -> Option<String> {
        let mut choices: Vec<String> = Vec::new();
        for name in names.split('|') {
            let number = self.named(&format!("{name}_matchNr")).and_then(|n| n.parse::<u32>().ok());
            match number {
                Some(number) => choices.extend(
                    (1..=number)
                        .filter_map(|at| self.named(&format!("{name}_{at}")).map(str::to_owned)),
                ),
                None => choices.extend(self.named(name).map(str::to_owned)),
            }
        }
        if choices.is_empty() {
            return None;
        }
        let chosen = self.values.random().usize(..choices.len());
        Some(choices.swap_remove(chosen))
    }

    /// A part of a variable, or of the last response.
    fn regex_function(&mut self, arguments: &[String]) -> Option<String> {
        let argument = |at: usize| arguments.get(at).map_or("", String::as_str);
        let (default, name) = (argument(4).to_owned(), argument(5));
        self.store(name, default.clone());
        let text = match argument(6) {
            "" => self.values.response(),
            variable => self.named(variable),
        };
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Some(default) };
        let found = Pattern::cached(argument(0)).ok()?.find(text.as_bytes(), MAX_MATCHES).ok()?;
        let count = found.len();
        if !name.trim().is_empty() {
            self.set_named(&format!("{}_matchNr", name.trim()), Some(count.to_string()));
        }
        let (chosen, between) = match argument(2).trim() {
            _ if count == 0 => return Some(default),
            "ALL" => (found, argument(3)),
            "RAND" => {
                let at = self.values.random().usize(..count);
                (found.into_iter().skip(at).take(1).collect(), "")
            }
            "" => (found.into_iter().take(1).collect(), ""),
            number => {
                let at = match number.parse::<usize>() {
                    Ok(number) => number.checked_sub(1)?,
                    Err(_) => {
                        let ratio: f64 = number.parse().ok()?;
                        ((count as f64 * ratio + 0.5) as usize).checked_sub(1)?
                    }
                };
                let Some(groups) = found.into_iter().nth(at) else { return Some(default) };
                (vec![groups], "")
            }
        };
        let template = argument(1);
        let texts = chosen.iter().map(|groups| super::post_processor::fill(template, groups));
        let text = texts.collect::<Vec<_>>().join(between);
        if let Some(groups) = chosen.last()
            && !name.trim().is_empty()
        {
            for (at, group) in groups.iter().enumerate() {
                self.set_named(&format!("{}_g{at}", name.trim()), group.clone());
            }
        }
        self.store(name, text.clone());
        Some(text)
    }

    fn random_date(&mut self, arguments: &[String]) -> Option<String> {
        let argument = |at: usize| arguments.get(at).map_or("", |text| text.trim());
        let pattern = match argument(0) {
            "" => "yyyy-MM-dd",
            pattern => pattern,
        };
        let pattern = TimePattern::new(pattern, Class::Formatter).ok()?;
        let zone = TimeZone::UTC;
        let first_of_1970 = || jiff::Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC).date();
        let read = |text: &str| {
            pattern.parse(text, &zone).map_or_else(first_of_1970, |parsed| parsed.time.date())
        };
        let start = match argument(1) {
            "" => java_time::now().date(),
            text => read(text),
        };
        let days = (read(argument(2)) - start).get_days();
        if days <= 0 {
            return None;
        }
        let day = start.checked_add(jiff::Span::new().days(self.values.random().i32(0..days)));
        Some(pattern.format(&day.ok()?.to_zoned(zone).ok()?))
    }

    /// Arguments: pattern, time, duration, locale (if there are five), variable.
    fn time_shift(&mut self, arguments: &[String]) -> Option<String> {
        let argument = |at: usize| arguments.get(at).map_or("", |text| text.trim());
        let pattern = match argument(0) {
            "" => None,
            pattern => Some(TimePattern::new(pattern, Class::Formatter).ok()?),
        };
        let now = java_time::now();
        let given = match (argument(1), &pattern) {
            ("", _) => None,
            (text, Some(pattern)) => {
                let zone = TimeZone::fixed(now.offset());
                let parsed = pattern.parse(text, &zone).map(|parsed| parsed.time);
                // Java's defaults contradict hours of half days and fractions of seconds.
                parsed.filter(|time| {
                    time.subsec_nanosecond() == 0 && (time.hour() == 0 || !pattern.has_half_days())
                })
            }
            (text, None) => text.parse().ok().and_then(java_time::from_millis),
        };
        let mut time = given.unwrap_or(now);
        if let Some(shift) = java_time::duration(argument(2)) {
            time = time.checked_add(shift).ok()?;
        }
        let text = match pattern {
            Some(pattern) => pattern.format(&time),
            None => time.timestamp().as_millisecond().to_string(),
        };
        self.store(arguments.last().map_or("", String::as_str), text.clone());
        Some(text)
    }
}

/// Most matches of a regular expression.
const MAX_MATCHES: usize = 10_000;

fn date_time_convert(text: &str, from: &str, to: &str) -> Option<String> {
    let to = TimePattern::new(to, Class::Formatter).ok()?;
    let time = match from {
        "" => java_time::from_millis(text.trim().parse().ok()?)?,
        from => {
            let from = TimePattern::new(from, Class::Formatter).ok()?;
            let parsed = from.parse(text, &TimeZone::system())?;
            // A time of day cannot be made of a date, and no date of a time.
            let needs = to.parts();
            if needs.0 && !parsed.has.0 || needs.1 && !parsed.has.1 {
                return None;
            }
            parsed.time
        }
    };
    Some(to.format(&time))
}

impl Environment for Scope<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.named(name).map(str::to_owned)
    }

    fn set_variable(&mut self, name: &str, value: Option<String>) {
        self.set_named(name, value);
    }

    fn property(&self, name: &str) -> Option<String> {
        self.state.property(name)
    }

    fn set_property(&mut self, name: &str, value: String) {
        self.state.set_property(name.to_owned(), value);
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.all_named()
    }

    fn properties(&self) -> Vec<(String, String)> {
        self.state.properties()
    }

    fn thread_name(&self) -> String {
        let group = self.values.group();
        let name = self.program.groups.get(group).map_or("", |group| group.name.as_str());
        format!("{name} {}-{}", group + 1, u64::from(self.values.number()) + 1)
    }
}

#[cfg(test)]
mod tests;
