//! `weir search --facets`: counts by field and over time.

use super::Args;
use crate::table::table;
use crate::{escape, output};
use weir_tracker::document::Nodes;
use weir_tracker::{Counts, Search, Tracker};

/// Characters of the longest bar.
const BAR: u64 = 40;

pub(super) fn run(args: &Args, keys: bool) -> anyhow::Result<()> {
    let parameters = [("keys", Some(keys.to_string()))];
    let of_folder = |tracker: &Tracker, search: &Search| tracker.count(search, keys);
    let counts =
        args.figures("summary", &parameters, |counts: &Counts| &counts.nodes, of_folder)?;
    if counts.cut {
        output::note(
            "timeout: only the newest transactions were counted (raise the timeout with \
             `--timeout 30s`)",
        );
    } else if counts.incomplete && counts.nodes.as_ref().and_then(Nodes::note).is_none() {
        output::note("the index is incomplete: transactions may be missing");
    }
    if args.json {
        return json(&counts);
    }
    output::text(&text(&counts));
    Ok(())
}

/// One object a line, each with `id`.
fn json(counts: &Counts) -> anyhow::Result<()> {
    let matched = serde_json::json!({"id": "matched", "count": counts.matched});
    output::json(&matched)?;
    for facet in &counts.facets {
        for one in &facet.values {
            let id = format!("facet/{}/{}", facet.field, one.value);
            output::json(&serde_json::json!({
                "id": id, "field": facet.field, "value": one.value, "count": one.count,
            }))?;
        }
    }
    for bucket in &counts.histogram {
        output::json(&serde_json::json!({
            "id": format!("time/{}", bucket.time), "time": bucket.time, "count": bucket.count,
            "bucket_ms": counts.bucket_ms,
        }))?;
    }
    Ok(())
}

fn text(counts: &Counts) -> String {
    let mut rows = vec![["".to_owned(), "all".to_owned(), counts.matched.to_string()]];
    for facet in &counts.facets {
        let of_value = |value: &str| match value {
            "" => "-".to_owned(),
            value => escape::line(value),
        };
        rows.extend(
            facet.values.iter().map(|one| {
                [escape::line(&facet.field), of_value(&one.value), one.count.to_string()]
            }),
        );
        if facet.more {
            rows.push([escape::line(&facet.field), "(more)".to_owned(), String::new()]);
        }
    }
    let mut out = table(["FIELD", "VALUE", "COUNT"], &rows);
    let max = counts.histogram.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
    let buckets: Vec<[String; 3]> = (counts.histogram.iter())
        .map(|bucket| {
            let length = (bucket.count * BAR).div_ceil(max) as usize;
            [bucket.time.to_string(), bucket.count.to_string(), "#".repeat(length)]
        })
        .collect();
    if !buckets.is_empty() {
        out.push('\n');
        out.push_str(&table(["TIME", "COUNT", ""], &buckets));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::UnixMicros;
    use weir_tracker::{Bucket, Counted, Facet};

    #[test]
    fn counts_are_shown_as_data() {
        let value = "\u{1b}[2J".to_owned();
        let bucket = |count| Bucket { time: UnixMicros(0), count };
        let facet = Facet {
            field: "key.order".to_owned(),
            values: vec![Counted { value, count: 3 }],
            more: true,
        };
        let (facets, histogram) = (vec![facet], vec![bucket(1), bucket(40)]);
        let shown = text(&Counts { matched: 41, facets, histogram, ..Counts::default() });
        assert!(shown.contains("key.order  \\u{1b}[2J  3") && shown.contains("(more)"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        let bars: Vec<usize> = shown.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(bars[bars.len() - 2..], [1, 40]);
    }
}
