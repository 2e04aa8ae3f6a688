//! The price list: prices and the times from which they are in force.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::Range;
use weir_expr::price::{Price, Tier};

/// The prices of a plan that an invoice needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Rule {
    /// Code of the currency.
    pub currency: String,
    /// Decimals of a total.
    pub decimals: u32,
    /// Prices by volume.
    pub tiers: Vec<Tier>,
    /// Gateway errors are billed.
    #[serde(default)]
    pub bill_gateway_errors: bool,
}

/// Records the prices of all plans, which are in force from `now` on, in seconds since 1970.
///
/// # Errors
/// The database cannot be written.
pub fn record_prices<'a>(
    database: &mut Connection,
    plans: impl Iterator<Item = (&'a str, Option<&'a Price>)>,
    now: u64,
) -> rusqlite::Result<()> {
    let transaction = database.transaction()?;
    let mut rules: BTreeMap<&str, String> =
        plans.map(|(plan, price)| (plan, text(price))).collect();
    let known: Vec<String> = transaction
        .prepare("SELECT DISTINCT plan FROM price")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for plan in &known {
        rules.entry(plan).or_insert_with(|| text(None));
    }
    for (plan, rule) in rules {
        let before: Option<String> = transaction
            .prepare_cached("SELECT rule FROM price WHERE plan = ?1 ORDER BY since DESC LIMIT 1")?
            .query_row([plan], |row| row.get(0))
            .optional()?;
        if before.as_ref() != Some(&rule) && (before.is_some() || rule != "null") {
            transaction
                .prepare_cached(
                    "INSERT INTO price VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET rule = ?3",
                )?
                .execute(params![plan, now, rule])?;
        }
    }
    transaction.commit()
}

fn text(price: Option<&Price>) -> String {
    let Some(price) = price else { return "null".to_owned() };
    let mut rule = json!({
        "currency": price.currency,
        "decimals": price.decimals,
        "per_call": price.per_call,
        "per_kib": price.per_kib,
        "cel": price.cel.as_ref().map(weir_expr::Expr::source),
        "tiers": price.tiers,
    });
    // Absent otherwise, as earlier versions wrote it: their prices are no other ones.
    if price.bill_gateway_errors {
        rule["bill_gateway_errors"] = true.into();
    }
    rule.to_string()
}

/// The prices of a period by plan: for each the price in force at the end, and its earlier
/// currencies.
pub(crate) fn in_period(
    connection: &Connection,
    period: &Range<u64>,
) -> rusqlite::Result<BTreeMap<String, (Rule, Vec<String>)>> {
    let mut statement = connection
        .prepare("SELECT plan, since, rule FROM price WHERE since < ?1 ORDER BY since")?;
    let mut rows = statement.query([period.end])?;
    let mut found: BTreeMap<String, (Rule, Vec<String>)> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (plan, since): (String, u64) = (row.get(0)?, row.get(1)?);
        let Ok(rule) = serde_json::from_str::<Rule>(row.get_ref(2)?.as_str()?) else {
            // A plan whose price was removed within the period is billed with it; one without a
            // price in the whole period is not.
            if since <= period.start {
                found.remove(&plan);
            }
            continue;
        };
        let entry = found.entry(plan).or_default();
        let before = std::mem::replace(&mut entry.0, rule);
        if since <= period.start {
            entry.1.clear();
        } else if !before.currency.is_empty() && before.currency != entry.0.currency {
            entry.1.push(before.currency);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::Amount;

    fn price(currency: &str, tiers: Vec<Tier>) -> Price {
        let (per_call, per_kib) = (Amount::ZERO, Amount::ZERO);
        Price {
            per_call,
            per_kib,
            cel: None,
            tiers,
            currency: currency.to_owned(),
            decimals: 2,
            bill_gateway_errors: false,
        }
    }

    #[test]
    fn the_price_at_the_end_of_a_period_holds() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = weir_store::open(folder.path()).unwrap();
        let tier = |up_to| Tier { up_to, per_call: Amount::from_units(1) };
        let eur = price("EUR", vec![tier(Some(5)), tier(None)]);
        let chf = price("CHF", Vec::new());
        let (eur, chf) = (Some(&eur), Some(&chf));
        for (now, price) in [(100, None), (200, eur), (300, eur), (400, chf), (500, None)] {
            record_prices(&mut connection, [("gold", price)].into_iter(), now).unwrap();
        }
        let count = "SELECT count(*) FROM price";
        assert_eq!(connection.query_row(count, [], |row| row.get(0)), Ok(3_u64));
        let at = |from, to| {
            let mut found = in_period(&connection, &(from..to)).unwrap();
            found.remove("gold").map(|(rule, others)| (rule.currency, rule.tiers.len(), others))
        };
        assert_eq!(at(0, 200), None);
        assert_eq!(at(0, 400), Some(("EUR".to_owned(), 2, vec![])));
        assert_eq!(at(250, 450), Some(("CHF".to_owned(), 0, vec!["EUR".to_owned()])));
        assert_eq!(at(400, 600), Some(("CHF".to_owned(), 0, vec![])));
        assert_eq!(at(500, 600), None, "it had no price any more");
    }
}
