//! Formats of strings in the configuration.

use crate::algorithm::Algorithm;
use crate::path_pattern;
use jiff::Timestamp;
use weir_document::finding::Fault;
use weir_document::shape::format::Format;
use weir_expr::price::PRICE_DECIMALS;
use weir_expr::xml;
use weir_model::{Amount, NoAmount};

/// `/a/b`.
pub(crate) const BASE: Format =
    Format::new("a base path (`/orders/v1`)", |text| path_pattern::base(text).map(|_| ()))
        .pattern("^/");
/// `/a/{b}`.
pub(crate) const PATH: Format =
    Format::new("a path (`/x/{id}`)", |text| path_pattern::pattern(text).map(|_| ())).pattern("^/");
/// `RS256`.
pub(crate) const ALGORITHM: Format =
    Format::new("an algorithm (`RS256`)", |text| Algorithm::parse(text).map(|_| ()))
        .pattern("^((HS|RS|PS)(256|384|512)|ES256|ES384|EdDSA)$");
/// An XML name.
pub(crate) const XML_NAME: Format = Format::new("an XML name", |text| match text {
    text if xml::is_qualified(text) => Ok(()),
    text => Err(Fault::value(format!("`{text}` is not an XML name"))),
});
/// A CEL expression; compiled later.
pub(crate) const CEL: Format = Format::new("a CEL expression", |_| Ok(()));
/// `0.0004`.
pub(crate) const PRICE: Format =
    Format::new("a price (`\"0.0004\"`)", price).pattern(r"^[0-9]{1,9}(\.[0-9]{1,8})?$");
/// `EUR`.
pub(crate) const CURRENCY: Format =
    Format::new("a currency (`EUR`)", currency).pattern("^[A-Z]{3}$");

/// A day in UTC.
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// `2027-01-31`.
pub(crate) const END: Format =
    Format::new("a date or a time with zone (`2027-01-31`)", |text| end(text).map(|_| ()))
        .pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9:.]+([Zz]|[+-][0-9:]+))?$");

/// The first second after a date in UTC, or the second of a time with zone, since 1970.
///
/// # Errors
/// It is neither, or before 1970.
pub(crate) fn end(text: &str) -> Result<u64, Fault> {
    let time = |text: &str| text.parse::<Timestamp>().map(Timestamp::as_second);
    let end = match text.len() {
        10 => time(&format!("{text}T00:00:00Z")).map(|start| start + DAY_SECONDS),
        _ => time(text),
    };
    end.ok().and_then(|end| u64::try_from(end).ok()).ok_or_else(|| {
        Fault::value(format!("`{text}` is neither a date nor a time with zone")).help(
            "write `2027-01-31` (until the end of this day in UTC), or `2027-01-31T18:00:00Z`",
        )
    })
}

/// Maximum number of integer digits of a price.
const PRICE_DIGITS: usize = 9;

fn price(text: &str) -> Result<(), Fault> {
    let fault = match text.parse::<Amount>() {
        Err(NoAmount::Form) => Fault::value(format!("`{text}` is not a price"))
            .help("use a decimal number: `\"0.0004\"`"),
        Ok(amount) if amount < Amount::ZERO => Fault::value("a price must not be negative"),
        Ok(amount) if amount.decimals() <= PRICE_DECIMALS => {
            let digits = text.split('.').next().map_or(0, str::len);
            if digits <= PRICE_DIGITS {
                return Ok(());
            }
            Fault::value(format!("use at most {PRICE_DIGITS} digits before the point"))
        }
        _ => Fault::value(format!("use at most {PRICE_DECIMALS} decimals")),
    };
    Err(fault)
}

fn currency(text: &str) -> Result<(), Fault> {
    if text.len() == 3 && text.bytes().all(|b| b.is_ascii_uppercase()) {
        return Ok(());
    }
    Err(Fault::value(format!("`{text}` is not a currency"))
        .help("use three capital letters (ISO 4217): `EUR`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_ends_at_its_end_and_a_time_at_its_instant() {
        for (text, seconds) in [
            ("1970-01-01", 86_400),
            ("2027-01-31", 1_801_440_000),
            ("2027-12-31", 1_830_297_600),
            ("2028-02-29", 1_835_481_600),
            ("2027-01-31T18:00:00Z", 1_801_418_400),
            ("2027-01-31T18:00:00+01:00", 1_801_414_800),
            ("2027-01-31 18:00:00.5z", 1_801_418_400),
        ] {
            assert_eq!(end(text).ok(), Some(seconds), "{text}");
        }
        for text in [
            "",
            "2027",
            "2027-1-31",
            "2027-02-29",
            "2027-13-01",
            "31.01.2027",
            "20270131",
            "2027-W05-3",
            "2027-01-31T18:00:00",
            "1969-12-31T00:00:00Z",
            "9999-12-31",
            "tomorrow",
            " 2027-01-3",
        ] {
            assert!(end(text).is_err(), "{text}");
        }
    }
}
