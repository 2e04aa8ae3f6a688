//! Formats of strings in the configuration.

use crate::algorithm::Algorithm;
use crate::path_pattern;
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
