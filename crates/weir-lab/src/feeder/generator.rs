//! Generated rows: sequences, random numbers, names, dates, UUIDs and choices.

use super::{FeederError, MAX_ROWS, Table};
use jiff::ToSpan;
use jiff::civil::Date;

/// Options of a column.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Step of a sequence.
    pub step: u64,
    /// Distribution of random numbers.
    pub distribution: Distribution,
    /// Digits after the decimal point of random numbers.
    pub decimals: u32,
    /// Values of a choice.
    pub of: Vec<String>,
    /// Text before the value.
    pub prefix: Option<String>,
}

/// Distribution of random numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Distribution {
    /// Each number with the same probability.
    #[default]
    Uniform,
    /// Around the middle; a third of the half range is the standard deviation.
    Normal,
    /// From the first number on, with the middle as the mean.
    Exponential,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    kind: Kind,
    options: Options,
}

#[derive(Clone, Debug)]
enum Kind {
    Sequence(i64),
    Number(f64, f64),
    Name,
    Date(Date, i64),
    Uuid,
    Choice,
}

impl Column {
    /// A column of this kind: `sequence`, `number`, `name`, `date`, `uuid` or `choice`.
    ///
    /// # Errors
    /// The limits are not those of the kind, or a choice has no values.
    pub fn new(
        kind: &str,
        (from, to): (Option<&str>, Option<&str>),
        options: Options,
    ) -> Result<Self, String> {
        let kind = match kind {
            "sequence" => {
                let from = from.unwrap_or("1");
                let first = from.parse().map_err(|_| format!("`from: {from}` is not a number"))?;
                Kind::Sequence(first)
            }
            "number" => {
                let (from, to) = (from.unwrap_or("1"), to.ok_or("`to` is missing")?);
                let number = |text: &str| {
                    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                    number.ok_or_else(|| format!("`{text}` is not a number"))
                };
                let (first, last) = (number(from)?, number(to)?);
                if first > last {
                    return Err(format!("`from: {from}` is larger than `to: {to}`"));
                }
                Kind::Number(first, last)
            }
            "date" => {
                let limit = |text: Option<&str>, key: &str| {
                    let text = text.ok_or_else(|| format!("`{key}` is missing"))?;
                    text.parse::<Date>().map_err(|_| format!("`{text}` is not a date: 2026-01-31"))
                };
                let (first, last) = (limit(from, "from")?, limit(to, "to")?);
                let days = (last - first).get_days();
                if days < 0 {
                    return Err(format!("{first} is after {last}"));
                }
                Kind::Date(first, i64::from(days))
            }
            "choice" if options.of.is_empty() => return Err("`of` is missing".to_owned()),
            "choice" => Kind::Choice,
            "uuid" => Kind::Uuid,
            _ => Kind::Name,
        };
        Ok(Self { kind, options })
    }

    fn value(&self, row: u32, random: &mut fastrand::Rng) -> String {
        match &self.kind {
            Kind::Sequence(first) => {
                let passed = u64::from(row).saturating_mul(self.options.step);
                first.saturating_add_unsigned(passed).to_string()
            }
            Kind::Number(first, last) => self.number((*first, *last), random),
            Kind::Name => {
                let given = GIVEN_NAMES[random.usize(..GIVEN_NAMES.len())];
                format!("{given} {}", FAMILY_NAMES[random.usize(..FAMILY_NAMES.len())])
            }
            Kind::Date(first, days) => {
                let day = first.checked_add(random.i64(0..=*days).days());
                day.unwrap_or(*first).to_string()
            }
            Kind::Uuid => uuid::Builder::from_random_bytes(random.u128(..).to_ne_bytes())
                .into_uuid()
                .to_string(),
            Kind::Choice => self.options.of[random.usize(..self.options.of.len())].clone(),
        }
    }

    fn number(&self, (first, last): (f64, f64), random: &mut fastrand::Rng) -> String {
        let decimals = self.options.decimals as usize;
        let middle = f64::midpoint(first, last);
        let number = match self.options.distribution {
            // Each whole number has the same share, the limits included.
            Distribution::Uniform if decimals == 0 => {
                (first + (last - first + 1.0) * random.f64()).floor()
            }
            Distribution::Uniform => first + (last - first) * random.f64(),
            Distribution::Normal => {
                let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
                middle + normal * (last - first) / 6.0
            }
            Distribution::Exponential => first - (middle - first) * (1.0 - random.f64()).ln(),
        };
        format!("{:.decimals$}", number.clamp(first, last))
    }
}

/// The rows of these columns; the same for the same seed.
///
/// # Errors
/// More than [`MAX_ROWS`].
pub fn table(columns: &[(String, Column)], rows: u32, seed: u64) -> Result<Table, FeederError> {
    if rows as usize > MAX_ROWS {
        return Err(FeederError::TooMany);
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut row = |number: u32| {
        let values = columns.iter().map(|(_, column)| {
            let prefix = column.options.prefix.as_deref().unwrap_or_default();
            format!("{prefix}{}", column.value(number, &mut random)).into()
        });
        values.collect()
    };
    let rows = (0..rows).map(&mut row).collect();
    Ok(Table { columns: columns.iter().map(|(name, _)| name.clone()).collect(), rows })
}

const GIVEN_NAMES: [&str; 24] = [
    "Ada", "Amara", "Ana", "Chen", "Daniel", "Emma", "Fatima", "Grace", "Hugo", "Ivan", "Jonas",
    "Kofi", "Lena", "Luca", "Maria", "Mei", "Noah", "Olga", "Priya", "Ravi", "Sofia", "Tomás",
    "Yuki", "Zoë",
];
const FAMILY_NAMES: [&str; 24] = [
    "Adeyemi",
    "Andersson",
    "Brown",
    "Costa",
    "Dubois",
    "Fischer",
    "García",
    "Hansen",
    "Ito",
    "Jensen",
    "Kowalski",
    "Kumar",
    "Lee",
    "Martin",
    "Mensah",
    "Müller",
    "Nguyen",
    "O'Brien",
    "Petrov",
    "Rossi",
    "Santos",
    "Smith",
    "Wang",
    "Yilmaz",
];
