//! Jobs: bulk resubmission of the result of a query.

use super::Args;
use crate::admin_client::AdminClient;
use crate::table::{self, table};
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
pub(super) fn list(args: &Args, client: &AdminClient) -> anyhow::Result<()> {
    let jobs: Vec<Job> = client.get(&format!("/v1/jobs?limit={}", args.limit.unwrap_or(50)))?;
    let header = ["JOB", "STATE", "RATE", "LEFT", "DONE", "FAILED", "NOT SENT", "WHO", "QUERY"];
    table::print(&jobs, args.json, header, |job| {
        [
            job.number.to_string(),
            state(job),
            format!("{}/s", job.rate),
            count(job, &["pending", "sending"]).to_string(),
            count(job, &["succeeded"]).to_string(),
            count(job, &["failed", "unknown"]).to_string(),
            count(job, &["cannot", "refused", "cancelled"]).to_string(),
            escape::line(&job.who),
            query(job),
        ]
    })
}

/// The query, or the job that it retries.
fn query(job: &Job) -> String {
    match job.retry_of {
        Some(original) => format!("retry of job {original}"),
        None => escape::line(&job.query),
    }
}

/// The state, and the node of the fleet that runs the job.
fn state(job: &Job) -> String {
    match job.node.as_str() {
        "" => job.state.to_string(),
        node => format!("{} on {}", job.state, escape::line(node)),
    }
}

/// Number of transactions in these states.
fn count(job: &Job, states: &[&str]) -> u64 {
    let selected = job.transactions.iter().filter(|one| states.contains(&one.state.as_str()));
    selected.map(|one| one.count).sum()
}

/// Creates a job, or acts on an existing one.
pub(super) fn run(args: &Args, client: &AdminClient) -> anyhow::Result<()> {
    let action = &args.action;
    let selected = find(args, client)?;
    let options = json!({"rate": args.rate, "again": args.again});
    let path = |job: &Job, action: &str| format!("/v1/jobs/{}/{action}", job.number);
    let job: Job = match selected {
        Some(job) if args.retry => {
            let states =
                if args.state.is_empty() { vec!["failed".to_owned()] } else { args.state.clone() };
            let retry = json!({
                "states": states, "rate": args.rate, "again": args.again, "run": action.run,
            });
            client.post(&path(&job, "retry"), &retry)?
        }
        Some(job) if action.run || action.resume => client.post(&path(&job, "run"), &options)?,
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
        return output::json(&job);
    }
    output::text(&text(&job));
    Ok(())
}

/// The selected job: by its number, or the last unfinished one of the query. A preview is always a
/// new job.
fn find(args: &Args, client: &AdminClient) -> anyhow::Result<Option<Job>> {
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

/// Waits for the end of the preview; with `--wait`, until the job has ended or is paused.
fn wait(args: &Args, client: &AdminClient, mut job: Job) -> anyhow::Result<Job> {
    let mut shown = String::new();
    loop {
        let is_pending = match job.state {
            JobState::Previewing => true,
            JobState::Running => args.wait,
            _ => false,
        };
        if !is_pending {
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
    let left = count(job, &["pending", "sending"]);
    format!("job {}: {}, {} of {all} left", job.number, job.state, left)
}

fn text(job: &Job) -> String {
    let mut out = format!("job {}: {}, {}/s\n", job.number, state(job), job.rate);
    if let Some(original) = job.retry_of {
        out.push_str(&format!("retry of job {original}\n"));
    }
    if !job.retries.is_empty() {
        let numbers: Vec<String> = job.retries.iter().map(ToString::to_string).collect();
        out.push_str(&format!("retried by job {}\n", numbers.join(", ")));
    }
    if !job.waits_for.is_empty() {
        let names = escape::line(&job.waits_for.join(", "));
        out.push_str(&format!("waits for nodes that are down: {names}\n"));
    }
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
