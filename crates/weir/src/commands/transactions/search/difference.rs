//! `weir search --difference`: what distinguishes the result from the rest.

use super::Args;
use crate::table::table;
use crate::{escape, output};
use weir_tracker::document::Nodes;
use weir_tracker::{Attribute, Difference, Search, Share, Tracker};

/// Attributes that are printed as text, and values of each.
const ATTRIBUTES: usize = 5;
const VALUES: usize = 3;

pub(super) fn run(args: &Args, among: &str) -> anyhow::Result<()> {
    let parameters = [("among", Some(among.to_owned())), ("keys", Some(args.keys.to_string()))];
    let of_folder =
        |tracker: &Tracker, search: &Search| tracker.difference(search, among, args.keys);
    let found =
        args.figures("difference", &parameters, |found: &Difference| &found.nodes, of_folder)?;
    if found.cut {
        output::note("only the newest transactions were compared");
    } else if found.incomplete && found.nodes.as_ref().and_then(Nodes::note).is_none() {
        output::note("the index is incomplete: transactions may be missing");
    }
    if args.json {
        return json(&found);
    }
    output::text(&text(&found));
    Ok(())
}

/// One object a line, each with `id`.
fn json(found: &Difference) -> anyhow::Result<()> {
    output::json(&serde_json::json!({"id": "compared", "group": found.group, "rest": found.rest}))?;
    for Attribute { field, difference, values, .. } in &found.attributes {
        for Share { value, group, rest } in values {
            output::json(&serde_json::json!({
                "id": format!("attribute/{field}/{value}"), "field": field,
                "difference": difference, "value": value, "group": group, "rest": rest,
            }))?;
        }
    }
    Ok(())
}

fn text(found: &Difference) -> String {
    let mut out = format!("{} transactions, compared with {} others\n", found.group, found.rest);
    let percent = |count: u64, of: u64| format!("{:.1} %", 100.0 * count as f64 / of.max(1) as f64);
    let differing = found.attributes.iter().filter(|one| one.difference > 0.0);
    let rows: Vec<[String; 4]> = differing
        .take(ATTRIBUTES)
        .flat_map(|one| one.values.iter().take(VALUES).map(|share| (&one.field, share)))
        .map(|(field, Share { value, group, rest })| {
            let value = if value.is_empty() { "-".to_owned() } else { escape::line(value) };
            let (group, rest) = (percent(*group, found.group), percent(*rest, found.rest));
            [escape::line(field), value, group, rest]
        })
        .collect();
    match rows.is_empty() {
        true => out.push_str("nothing differs more than chance would explain\n"),
        false => out.push_str(&table(["FIELD", "VALUE", "FOUND", "OTHERS"], &rows)),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_shown_as_data() {
        let value = "\u{1b}[2J".to_owned();
        let values = vec![Share { value, group: 9, rest: 5 }];
        let attribute = |difference| Attribute {
            field: "consumer".to_owned(),
            difference,
            values: values.clone(),
            more: false,
        };
        let found = |difference| {
            let attributes = vec![attribute(difference)];
            text(&Difference { group: 10, rest: 100, attributes, ..Difference::default() })
        };
        let shown = found(0.85);
        assert!(shown.contains("consumer  \\u{1b}[2J  90.0 %  5.0 %"), "{shown}");
        assert!(found(0.0).contains("nothing differs"));
    }
}
