//! Units in text: `15s`, `64KiB`, `100/s`.

use std::time::Duration;

/// Maximum duration (about 30 years, which fits every timer).
const MAX_DURATION: Duration = Duration::from_secs(30 * 366 * 86_400);

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A number without a unit.
    NoUnit,
    /// An unknown unit.
    Unit,
    /// No number, or a number that is too large.
    Number,
}

/// Splits a number from its unit.
fn split(text: &str) -> Result<(&str, &str), Fault> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    match (number.is_empty(), unit.is_empty()) {
        (true, _) => Err(Fault::Number),
        (false, true) => Err(Fault::NoUnit),
        (false, false) => Ok((number, unit)),
    }
}

/// `15s`, `500ms`, `5m` or `5min`, `1h`, `7d`; also combined (`1m30s`) and with decimals (`1.5s`).
pub fn duration(text: &str) -> Result<Duration, Fault> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, tail) = split(rest)?;
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let unit = match tail[..end].trim() {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return Err(Fault::Unit),
        };
        let number: f64 = number.parse().map_err(|_| Fault::Number)?;
        let part = Duration::try_from_secs_f64(number * unit).map_err(|_| Fault::Number)?;
        total = total.checked_add(part).filter(|t| *t <= MAX_DURATION).ok_or(Fault::Number)?;
        rest = &tail[end..];
    }
    if text.is_empty() { Err(Fault::Number) } else { Ok(total) }
}

/// `5%` or `0.25%`, in hundredths of a percent, at most 100 %.
pub fn percent(text: &str) -> Result<u32, Fault> {
    let (number, unit) = split(text)?;
    if unit != "%" {
        return Err(Fault::Unit);
    }
    let number: f64 = number.parse().map_err(|_| Fault::Number)?;
    let hundredths = (number * 100.0).round();
    if !(0.0..=10_000.0).contains(&hundredths) || (number * 100.0 - hundredths).abs() > 1e-6 {
        return Err(Fault::Number);
    }
    Ok(hundredths as u32)
}

/// `64KiB`, `10MiB`, `1GiB`, `512B`, and decimal `kB`, `MB`, `GB`, in bytes.
pub fn size(text: &str) -> Result<u64, Fault> {
    let (number, unit) = split(text)?;
    let unit: u64 = match unit {
        "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(Fault::Unit),
    };
    match number.parse::<u64>() {
        Ok(number) => number.checked_mul(unit).ok_or(Fault::Number),
        Err(_) => {
            let bytes = number.parse::<f64>().map_err(|_| Fault::Number)? * unit as f64;
            if bytes <= 1e15 { Ok(bytes as u64) } else { Err(Fault::Number) }
        }
    }
}

/// `100/s`, `30/m` or `/min`, `1000/h`, `10/d`: requests and the duration.
pub fn rate(text: &str) -> Result<(u64, Duration), Fault> {
    let (number, unit) = text.split_once('/').ok_or(Fault::NoUnit)?;
    let per = match unit.trim() {
        "s" | "sec" | "second" => 1,
        "m" | "min" | "minute" => 60,
        "h" | "hour" => 3_600,
        "d" | "day" => 86_400,
        _ => return Err(Fault::Unit),
    };
    match number.trim().parse::<u64>() {
        Ok(requests) if (1..=1_000_000_000).contains(&requests) => {
            Ok((requests, Duration::from_secs(per)))
        }
        _ => Err(Fault::Number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("5 min"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("5"), Err(Fault::NoUnit));
        assert_eq!(duration("5x"), Err(Fault::Unit));
        assert_eq!(duration("s"), Err(Fault::Number));
        assert_eq!(duration(""), Err(Fault::Number));
        assert_eq!(duration("99999999999999999999d"), Err(Fault::Number));
    }

    #[test]
    fn sizes() {
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("1.5 MiB"), Ok(1_572_864));
        assert_eq!(size("10MB"), Ok(10_000_000));
        assert_eq!(size("0B"), Ok(0));
        assert_eq!(size("64"), Err(Fault::NoUnit));
        assert_eq!(size("64k"), Err(Fault::Unit));
        assert_eq!(size("99999999999999999999B"), Err(Fault::Number));
        assert_eq!(size("18446744073709551615KiB"), Err(Fault::Number));
    }

    #[test]
    fn rates() {
        assert_eq!(rate("100/s"), Ok((100, Duration::from_secs(1))));
        assert_eq!(rate("30/min"), Ok((30, Duration::from_secs(60))));
        assert_eq!(rate("0/s"), Err(Fault::Number));
        assert_eq!(rate("100"), Err(Fault::NoUnit));
        assert_eq!(rate("100/w"), Err(Fault::Unit));
    }
}
