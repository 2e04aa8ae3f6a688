//! Jobs: all that a query finds.

use super::Args;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::table::table;
use crate::{escape, output};
use anyhow::{Context, bail};
use serde_json::json;
use std::time::Duration;
use weir_store::ledger::{Job, JobState};

/// Interval of polling a job.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Action on a job.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(super) struct Action {
    /// Print which transactions would be sent, and rejection reasons
    #[arg(long)]
    preview: bool,
    /// Start sending
    #[arg(long)]
    run: bool,
    /// Pause the job
    #[arg(long)]
    pause: bool,
    /// Resume the job
    #[arg(long)]
    resume: bool,
    /// Cancel the job
    #[arg(long)]
    cancel: bool,
}

impl Action {
    pub(super) fn is_any(&self) -> bool {
        self.preview || self.run || self.pause || self.resume || self.cancel
    }
}

/// Lists the jobs.
pub(super) fn list(args: &Args, client: &AdminClient) -> anyhow::Result<Exit> {
    let jobs: Vec<Job> = client.get(&format!("/v1/jobs?limit={}", args.limit.unwrap_or(50)))?;
    if args.json {
        output::json_lines(jobs)?;
        return Ok(Exit::Success);
    }
    let count = |job: &Job, states: &[&str]| {
        let of = job.transactions.iter().filter(|one| states.contains(&one.state.as_str()));
        of.map(|one| one.count).sum::<u64>().to_string()
    };
    let row = |job: &Job| {
        [
            job.number.to_string(),
            job.state.name().to_owned(),
            format!("{}/s", job.rate),
            count(job, &["pending", "sending"]),
            count(job, &["succeeded"]),
            count(job, &["failed", "unknown"]),
            count(job, &["cannot", "refused", "cancelled"]),
            escape::line(&job.who),
            escape::line(&job.query),
        ]
    };
    let header = ["JOB", "STATE", "RATE", "LEFT", "DONE", "FAILED", "NOT SENT", "WHO", "QUERY"];
    let rows: Vec<_> = jobs.iter().map(row).collect();
    output::text(&table(header, &rows));
    Ok(Exit::Success)
}

/// Makes a job, or does something with one.
pub(super) fn run(args: &Args, client: &AdminClient) -> anyhow::Result<Exit> {
    let action = &args.action;
    let before = found(args, client)?;
    let how = json!({"rate": args.rate, "again": args.again});
    let path = |job: &Job, what: &str| format!("/v1/jobs/{}/{what}", job.number);
    let job: Job = match before {
        Some(job) if action.run || action.resume => client.post(&path(&job, "run"), &how)?,
        Some(job) if action.pause => client.post(&path(&job, "pause"), &json!({}))?,
        Some(job) if action.cancel => client.post(&path(&job, "cancel"), &json!({}))?,
        Some(job) if args.job.is_some() => job,
        None if action.pause || action.resume || action.cancel => {
            bail!("no unfinished job has this query")
        }
        _ => {
            let new = json!({
                "query": args.query, "rate": args.rate, "to": args.to, "again": args.again,
                "run": action.run,
            });
            client.post("/v1/jobs", &new)?
        }
    };
    let job = wait(args, client, job)?;
    if args.json {
        output::json(&job)?;
    } else {
        output::text(&text(&job));
    }
    Ok(Exit::Success)
}

/// The job that is meant, if there is one: by its number; or the last one for the query that can
/// still be dealt with. A preview is always a new one.
fn found(args: &Args, client: &AdminClient) -> anyhow::Result<Option<Job>> {
    if let Some(number) = args.job {
        return client.get(&format!("/v1/jobs/{number}")).map(Some);
    }
    if args.action.preview || !args.action.is_any() {
        return Ok(None);
    }
    let query = args.query.as_deref().context("--query is required")?;
    let jobs: Vec<Job> = client.get("/v1/jobs?limit=1000")?;
    let open = |job: &Job| !matches!(job.state, JobState::Finished | JobState::Cancelled);
    let to = args.to.as_deref().unwrap_or_default();
    Ok(jobs.into_iter().find(|job| job.query == query && job.destination == to && open(job)))
}

/// Waits until it is known what it sends; or, if that is wanted, until it has ended or is paused.
fn wait(args: &Args, client: &AdminClient, mut job: Job) -> anyhow::Result<Job> {
    let mut shown = String::new();
    loop {
        let goes_on = match job.state {
            JobState::Previewing => true,
            JobState::Running => args.wait,
            _ => false,
        };
        if !goes_on {
            return Ok(job);
        }
        let now = progress(&job);
        if args.wait && !args.json && now != shown {
            output::note(&now);
            shown = now;
        }
        std::thread::sleep(POLL_INTERVAL);
        job = client.get(&format!("/v1/jobs/{}", job.number))?;
    }
}

fn progress(job: &Job) -> String {
    let all: u64 = job.transactions.iter().map(|one| one.count).sum();
    let of = |states: [&str; 2]| -> u64 {
        let of = job.transactions.iter().filter(|one| states.contains(&one.state.as_str()));
        of.map(|one| one.count).sum()
    };
    let left = of(["pending", "sending"]);
    format!("job {}: {}, {} of {all} left", job.number, job.state.name(), left)
}

fn text(job: &Job) -> String {
    let state = job.state.name();
    let mut out = format!("job {}: {state}, {}/s\n", job.number, job.rate);
    if job.incomplete {
        out.push_str(
            "transactions may be missing: the index was incomplete, or the result too large\n",
        );
    }
    let mut rows = Vec::new();
    for one in &job.transactions {
        let why = match (one.reason.as_str(), one.words.as_str()) {
            ("", _) => String::new(),
            (code, "") => code.to_owned(),
            (code, words) => format!("{code}: {words}"),
        };
        rows.push([escape::line(&one.state), one.count.to_string(), escape::line(&why)]);
    }
    out.push_str(&table(["STATE", "COUNT", "WHY"], &rows));
    out
}
