//! `weir search`: searches recorded transactions.

use super::print_table;
use crate::admin_client::{AdminClient, Rejected, with_query};
use crate::commands::cli::Cli;
use crate::commands::data_source::{DataSource, DataSourceArgs};
use crate::exit::Exit;
use crate::{duration, escape, output};
use clap::CommandFactory;
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};
use weir_tracker::document::{Hit, Nodes, Page, Summary};
use weir_tracker::{
    Highlight, MAX_PAGE_HITS, MAX_SEARCH_TIMEOUT, SEARCH_TIMEOUT, Search, SearchError, Tracker,
};

mod count;
mod difference;
mod export;

/// Default number of transactions.
const PAGE: usize = 50;

/// Arguments of `weir search`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Newest first. Query language: docs/guide/search.md.\n\n\
    Examples:\n  weir search 'status:>=500 api:orders'\n  \
    weir search 'key.order:A-17' --json\n  weir search refund --data /var/lib/weir --limit 10\n  \
    weir search 'state:failed since:1d' --facets\n  \
    weir search 'took:>1s since:1h' --difference=since:1h\n  \
    weir search 'api:orders since:1d' --export > orders.ndjson")]
pub(crate) struct Args {
    /// Query; an empty query matches everything
    #[arg(default_value = "", allow_hyphen_values = true, value_parser = query)]
    query: String,
    /// Maximum number of transactions
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Time limit of the search [default: 5s, and 2s to wait for other nodes of a fleet]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Count transactions by field and time; `keys` also counts business keys
    #[arg(long, value_name = "keys", num_args = 0..=1, require_equals = true,
        default_missing_value = "fields", value_parser = ["fields", "keys"],
        conflicts_with_all = ["export", "limit"])]
    facets: Option<String>,
    /// Compare what is found with the rest of what this query finds: which values are more or less frequent
    /// [default: all transactions]
    #[arg(long, value_name = "QUERY", num_args = 0..=1, require_equals = true,
        default_missing_value = "", value_parser = query,
        conflicts_with_all = ["export", "limit", "facets"])]
    difference: Option<String>,
    /// Compare business keys, too
    #[arg(long, requires = "difference")]
    keys: bool,
    /// Export complete transactions as JSON lines, with headers and bodies if permitted
    /// [default limit: 10000]
    #[arg(long)]
    export: bool,
    /// Position where the previous export was cut
    #[arg(long, value_name = "CURSOR", requires = "export")]
    cursor: Option<String>,
    /// Name or id of the node of the fleet to search, or `here` for the one that is asked
    /// [default: all nodes]
    #[arg(long, value_name = "NODE", conflicts_with = "data")]
    node: Option<String>,
    #[command(flatten)]
    source: DataSourceArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let done = match (&args.facets, &args.difference) {
        (Some(facets), _) => count::run(args, facets == "keys").map(Exit::from),
        (None, Some(among)) => difference::run(args, among).map(Exit::from),
        (None, None) if args.export => export::run(args),
        (None, None) => list(args).map(Exit::from),
    };
    done.inspect_err(|error| note_place(&args.query, error))
}

impl Args {
    /// Figures of the result: those of the endpoint with this name, or `of_folder`. Nodes that are missing are
    /// noted.
    fn figures<T: DeserializeOwned>(
        &self,
        name: &str,
        parameters: &[(&str, Option<String>)],
        nodes: impl FnOnce(&T) -> &Option<Nodes>,
        of_folder: impl FnOnce(&Tracker, &Search) -> Result<T, SearchError>,
    ) -> anyhow::Result<T> {
        match self.source.open()? {
            DataSource::Server(client) => {
                let own = [
                    ("q", Some(self.query.clone())),
                    ("timeout", self.timeout.map(seconds)),
                    ("node", self.node.clone()),
                ];
                let path = format!("/v1/transactions/{name}");
                let figures = client.get(&with_query(&path, &[&own[..], parameters].concat())?)?;
                let silent = nodes(&figures).as_ref().and_then(Nodes::note);
                silent.iter().for_each(|note| output::note(&escape::line(note)));
                Ok(figures)
            }
            DataSource::Folder(tracker) => {
                let timeout = self.timeout.map(|timeout| timeout.min(MAX_SEARCH_TIMEOUT));
                let timeout = timeout.unwrap_or_else(|| tracker.search_timeout());
                let query = self.query.clone();
                let search = Search {
                    query,
                    limit: 0,
                    cursor: None,
                    payload: true,
                    apis: Vec::new(),
                    keys: false,
                    timeout,
                };
                Ok(of_folder(&tracker, &search)?)
            }
        }
    }
}

/// Shows the invalid part of a query, if that is the error.
pub(super) fn note_place(query: &str, error: &anyhow::Error) {
    let span = error.downcast_ref::<Rejected>().and_then(|rejected| rejected.span);
    let span = span.or_else(|| match error.downcast_ref::<SearchError>() {
        Some(SearchError::Query(invalid)) => Some([invalid.at, invalid.end]),
        _ => None,
    });
    if let Some(span) = span {
        output::note(&pointed(query, span));
    }
}

/// A query for clap. It may begin with a hyphen (`-method:GET`), but two of them are a misspelt
/// option.
pub(super) fn query(text: &str) -> Result<String, String> {
    if !text.starts_with("--") {
        return Ok(text.to_owned());
    }
    let command = Cli::command();
    let options = command.get_subcommands().flat_map(clap::Command::get_arguments);
    let names: Vec<&str> = options.filter_map(clap::Arg::get_long).collect();
    let name = text.trim_start_matches('-');
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    Err(match weir_document::finding::nearest(name, names.into_iter()) {
        Some(near) => format!("unexpected option; did you mean `--{near}`?"),
        None => "unexpected option; `NOT` negates a term".to_owned(),
    })
}

/// The query on a line, with carets below its invalid part.
fn pointed(query: &str, [from, to]: [usize; 2]) -> String {
    let shown = |from: usize, to: usize| {
        let (from, to) = (query.floor_char_boundary(from), query.floor_char_boundary(to));
        escape::line(&query[from.min(to)..to])
    };
    let width = |from, to| shown(from, to).chars().count();
    let (before, wrong) = (width(0, from), width(from, to).max(1));
    format!("  {}\n  {}{}", shown(0, query.len()), " ".repeat(before), "^".repeat(wrong))
}

fn list(args: &Args) -> anyhow::Result<()> {
    let source = args.source.open()?;
    let default = match &source {
        DataSource::Server(_) => SEARCH_TIMEOUT,
        DataSource::Folder(tracker) => tracker.search_timeout(),
    };
    let ends = Instant::now() + args.timeout.unwrap_or(default);
    let (mut left, mut cursor) = (args.limit.unwrap_or(PAGE), None);
    let mut hits = Vec::new();
    while left > 0 {
        let rest = ends.saturating_duration_since(Instant::now());
        let request = PageRequest {
            query: &args.query,
            limit: left.min(MAX_PAGE_HITS),
            cursor: cursor.clone(),
            // The default of the server depends on the number of nodes.
            timeout: args.timeout.map(|_| rest),
            node: args.node.as_deref(),
        };
        let found = page(&source, &request)?;
        left = left.saturating_sub(found.transactions.len());
        for hit in found.transactions {
            if args.json { output::json(&hit)? } else { hits.push(hit) }
        }
        if let (true, Some(missing)) = (cursor.is_none(), found.missing.record_note()) {
            output::note(&missing);
        }
        let silent = found.nodes.as_ref().and_then(Nodes::note);
        match &silent {
            Some(note) => output::note(&escape::line(note)),
            None if found.incomplete && !found.cut => {
                output::note("the index is incomplete: transactions may be missing");
            }
            None => {}
        }
        cursor = found.next;
        if cursor.is_none() {
            break;
        }
        if found.cut && Instant::now() >= ends {
            output::note(
                "timeout: the result is incomplete; narrow the interval (`since:1h`) or raise the \
                 timeout (`--timeout 30s`)",
            );
            break;
        }
    }
    if !args.json {
        print(hits);
    }
    Ok(())
}

fn print(hits: Vec<Hit>) {
    let (summaries, highlights): (Vec<Summary>, Vec<_>) =
        hits.into_iter().map(|hit| (hit.summary, hit.highlights)).unzip();
    print_table(&summaries);
    let marks = if output::styled() { ["\u{1b}[1m", "\u{1b}[0m"] } else { ["«", "»"] };
    for (summary, highlights) in summaries.iter().zip(highlights) {
        for highlight in highlights {
            let (field, text) = (escape::line(&highlight.location), marked(&highlight, marks));
            output::line(&format!("{} {field}: {text}", summary.id));
        }
    }
}

/// The text of a highlight with its words between marks.
fn marked(highlight: &Highlight, [begin, end]: [&str; 2]) -> String {
    let mut out = String::new();
    let mut done = 0;
    for [from, to] in &highlight.marks {
        let between = highlight.text.get(done..*from);
        let (Some(before), Some(words)) = (between, highlight.text.get(*from..*to)) else { break };
        out.push_str(&escape::line(before));
        out.push_str(begin);
        out.push_str(&escape::line(words));
        out.push_str(end);
        done = *to;
    }
    out.push_str(&escape::line(&highlight.text[done..]));
    out
}

/// A timeout in whole seconds, within the limits of the admin API.
fn seconds(timeout: Duration) -> String {
    timeout.min(MAX_SEARCH_TIMEOUT).as_secs_f64().ceil().max(1.0).to_string()
}

/// A page to be requested.
pub(super) struct PageRequest<'a> {
    /// The query.
    pub(super) query: &'a str,
    /// Most transactions.
    pub(super) limit: usize,
    /// The cursor of the previous page.
    pub(super) cursor: Option<String>,
    /// Time limit; `None`: the default of the server.
    pub(super) timeout: Option<Duration>,
    /// The node of the fleet; `None`: all.
    pub(super) node: Option<&'a str>,
}

impl<'a> PageRequest<'a> {
    /// The first page of a query over all nodes.
    pub(super) fn first(query: &'a str, limit: usize) -> Self {
        Self { query, limit, cursor: None, timeout: None, node: None }
    }
}

/// A page of the result of a query.
pub(super) fn page(source: &DataSource, request: &PageRequest<'_>) -> anyhow::Result<Page> {
    match source {
        DataSource::Server(client) => request_page(client, request),
        DataSource::Folder(tracker) => {
            let (limit, cursor) = (request.limit, request.cursor.clone());
            let timeout = request.timeout.unwrap_or_else(|| tracker.search_timeout());
            let query = request.query.to_owned();
            Ok(tracker.search(&Search {
                query,
                limit,
                cursor,
                payload: true,
                keys: false,
                apis: Vec::new(),
                timeout,
            })?)
        }
    }
}

/// A page of the result of a query in a running server.
pub(super) fn request_page(
    client: &AdminClient,
    request: &PageRequest<'_>,
) -> anyhow::Result<Page> {
    let parameters = [
        ("q", Some(request.query.to_owned())),
        ("limit", Some(request.limit.to_string())),
        ("timeout", request.timeout.map(seconds)),
        ("cursor", request.cursor.clone()),
        ("node", request.node.map(str::to_owned)),
    ];
    client.get(&with_query("/v1/transactions", &parameters)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_under_what_is_wrong() {
        assert_eq!(pointed("a stauts:5", [2, 8]), "  a stauts:5\n    ^^^^^^");
        assert_eq!(pointed("é\u{1b} (", [4, 4]), "  é\\u{1b} (\n          ^");
        assert_eq!(pointed("a OR", [9, 99]), "  a OR\n      ^");
        assert_eq!(pointed("a", [1, 0]), "  a\n   ^");
    }

    #[test]
    fn words_that_were_found_are_marked_and_still_data() {
        let text = "a \u{1b}[1m ref\u{202e}und b".to_owned();
        let at = text.find("ref").unwrap();
        let highlight =
            |marks| Highlight { location: "body".to_owned(), text: text.clone(), marks };
        let shown = marked(&highlight(vec![[at, at + 9]]), ["<", ">"]);
        assert_eq!(shown, "a \\u{1b}[1m <ref\\u{202e}und> b");
        let wrong = marked(&highlight(vec![[9, 3]]), ["<", ">"]);
        assert_eq!(wrong, "a \\u{1b}[1m ref\\u{202e}und b");
    }
}
