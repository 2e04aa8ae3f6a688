//! Sections of runs in a page that is written by hand around them.

use super::markdown::{Charts, counts, section};
use super::{Run, Summary};
use std::collections::BTreeMap;

/// Start of the generated part of a page.
pub const BEGIN: &str = "<!-- lab:begin -->";
/// End of the generated part of a page.
pub const END: &str = "<!-- lab:end -->";
/// Starts the section of a run; the name follows.
const RUN: &str = "<!-- lab:run ";
const RUN_END: &str = " -->\n";
const OVERVIEW: &str = "![All scenarios](";

/// The page with the sections of these runs between its marks, in the order of their names. A run replaces that of
/// the same name; other ones stay, and so does the chart of all of them, unless there is a new one. `None` without
/// both marks.
#[must_use]
pub fn updated(page: &str, runs: &[(&Run, &Summary)], charts: &Charts) -> Option<String> {
    let (before, old, after) = parts(page)?;
    let mut sections: BTreeMap<&str, String> =
        sections(old).map(|(name, text)| (name, text.to_owned())).collect();
    for (run, summary) in runs {
        sections.insert(&run.name, section(run, summary, charts.runs.get(&run.name)));
    }
    let kept = old.lines().find(|line| line.starts_with(OVERVIEW)).map(str::to_owned);
    let new = charts.overview.as_ref().map(|chart| format!("{OVERVIEW}{chart})"));
    let all = sections.values().map(String::as_str).collect::<Vec<_>>().join("\n");
    let head = counts(&all).into_iter().chain(new.or(kept));
    let sections = sections.iter().map(|(name, text)| format!("{RUN}{name}{RUN_END}\n{text}"));
    let text = head.chain(sections).collect::<Vec<_>>().join("\n\n");
    Some(format!("{before}{BEGIN}\n{text}\n{END}{after}"))
}

/// Whether the page has sections of other runs.
#[must_use]
pub fn has_others(page: &str, runs: &[(&Run, &Summary)]) -> bool {
    let old = parts(page).map_or("", |(_, old, _)| old);
    sections(old).any(|(name, _)| runs.iter().all(|(run, _)| run.name != name))
}

/// What is before, between and behind the marks.
fn parts(page: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (old, after) = rest.split_once(END)?;
    Some((before, old, after))
}

/// Names and texts of sections.
fn sections(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let sections = text.split(RUN).skip(1).filter_map(|section| section.split_once(RUN_END));
    sections.map(|(name, text)| (name, text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{BarOutcome, BarResult};

    fn run(name: &str, outcome: BarOutcome) -> (Run, Summary) {
        let bar = BarResult { bar: format!("cpu of {name}"), outcome, ..BarResult::default() };
        let run = Run { name: name.to_owned(), ..Run::default() };
        (run, Summary { bars: vec![bar], ..Summary::default() })
    }

    fn with(page: &str, runs: &[(Run, Summary)], overview: Option<&str>) -> String {
        let runs: Vec<_> = runs.iter().map(|(run, summary)| (run, summary)).collect();
        let charts = Charts { overview: overview.map(str::to_owned), ..Charts::default() };
        updated(page, &runs, &charts).expect("both marks")
    }

    #[test]
    fn runs_replace_their_own_sections_only() {
        let page = format!("above\n{BEGIN}\nby hand\n{END}\nbelow\n");
        let both = [run("tls", BarOutcome::Missed), run("get", BarOutcome::Met)];
        let first = with(&page, &both, Some("all.svg"));
        let head = format!(
            "above\n{BEGIN}\n1 bars met, 1 missed, 0 inconclusive.\n\n![All scenarios](all.svg)\n\n\
             <!-- lab:run get -->\n\n## get\n"
        );
        assert!(first.starts_with(&head), "{first}");
        assert!(first.ends_with(&format!("\n{END}\nbelow\n")) && !first.contains("by hand"));
        assert_eq!(with(&first, &both, Some("all.svg")), first, "the same again");

        let again = [run("tls", BarOutcome::Met)];
        let second = with(&first, &again, None);
        assert!(second.contains("\n2 bars met, 0 missed, 0 inconclusive.\n"), "{second}");
        assert!(second.contains("(all.svg)") && second.contains("| cpu of get |"), "{second}");
        let given = [(&again[0].0, &again[0].1)];
        assert!(has_others(&first, &given) && !has_others(&page, &given));
        assert_eq!(updated("no marks", &given, &Charts::default()), None);
    }
}
