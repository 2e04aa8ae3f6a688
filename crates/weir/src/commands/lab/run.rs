//! `weir lab run`: a JMeter plan.

use super::progress::Progress;
use super::result::{Report, SERVER};
use super::signals;
use crate::exit::Exit;
use crate::{descriptors, output, table};
use anyhow::{Context, bail};
use std::fs::File;
use std::path::PathBuf;
use weir_lab::engine::{self, Control, Event, Options};
use weir_lab::jmx::{self, JmxError, Plan};
use weir_lab::jtl::Writer;
use weir_lab::observe::{Observer, listening_on};
use weir_lab::program::{Program, Step, Url};
use weir_lab::record::Clock;
use weir_lab::results::{LabelFigures, Total};

/// Arguments of `weir lab run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A plan that runs does what JMeter 5.6 does with it; what the Lab does not \
    have is said with element and line, all of it at once. Files that the plan names are looked \
    for beside it.\n\n\
    Exit codes: 0 PASS, 2 the plan has errors, 3 INVALID (standard output says why)\n\n\
    Examples:\n  weir lab run plan.jmx\n  \
    weir lab run -Jusers=100 -Jduration=60 --jtl results.jtl plan.jmx"
)]
pub(crate) struct Args {
    /// The plan (.jmx)
    file: PathBuf,
    /// Property of the plan, `name=value`; may be repeated
    #[arg(short = 'J', value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// Skip what the Lab does not have, and say so
    #[arg(long)]
    lenient: bool,
    /// Write a row for each sample into this file, as JMeter does
    #[arg(short = 'l', long, value_name = "FILE")]
    jtl: Option<PathBuf>,
    /// Threads [default: half of the cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Print a line a second and the result as the last line, as JSON
    #[arg(long)]
    json: bool,
}

fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write name=value".to_owned()),
    }
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.file.extension().is_none_or(|extension| extension != "jmx") {
        bail!("{} is no JMeter plan (.jmx)", args.file.display());
    }
    let options = jmx::Options { properties: args.properties.clone(), lenient: args.lenient };
    let plan = match jmx::load(&args.file, &options) {
        Ok(plan) => plan,
        Err(JmxError::Problems(problems)) => {
            for problem in &problems {
                output::note(&format!("{}: {problem}", args.file.display()));
            }
            return Ok(Exit::Findings);
        }
        Err(error) => return Err(error.into()),
    };
    for skipped in &plan.skipped {
        output::note(&format!("{}: skipped: {skipped}", args.file.display()));
    }
    let report = load(args, plan)?;
    Ok(Exit::Lab(report.exit_code()))
}

/// Puts the plan's load on its servers.
fn load(args: &Args, plan: Plan) -> anyhow::Result<Report> {
    let program = plan.program;
    descriptors::raise_limit();
    let control = Control::default();
    signals::stop(&control).context("cannot listen for signals")?;
    let clock = Clock::start();
    let writer = match &args.jtl {
        Some(path) => {
            let file = File::create(path).with_context(|| path.display().to_string())?;
            let writer = Writer::new(Box::new(file), &program, clock);
            Some(writer.with_context(|| path.display().to_string())?)
        }
        None => None,
    };
    let sinks = writer.clone();
    let options = Options {
        loops: args.threads.unwrap_or(0),
        sinks: sinks.map(|writer| Box::new(move || writer.sink()) as _),
        clock,
        ..Options::default()
    };
    let names = program.labels.clone();
    let mut observer = Observer::new();
    for port in local_ports(&program) {
        observer.add_processes(SERVER, &listening_on(port));
    }
    observer.sample(0.0);
    let mut rows = Vec::new();
    let mut total = Total::new(names.len(), false);
    let mut progress = Progress::new(args.json);
    let summary = engine::run(program, &options, &control, &mut |event| {
        if let Event::Second(second) = event {
            total.add(second);
            rows.extend(observer.sample(second.second as f64 + 1.0));
        }
        progress.show(event);
    })?;
    progress.end();
    total.end_round(0);
    if let (Some(writer), Some(path)) = (&writer, &args.jtl) {
        writer.finish().with_context(|| path.display().to_string())?;
    }
    if !args.json {
        output::text(&aggregate(&total.figures(&names)));
    }
    let report = Report::new(None, &summary, &total, &names, &rows);
    report.print(args.json);
    Ok(report)
}

/// Ports of this machine that the program's requests go to: the servers there can be watched.
fn local_ports(program: &Program) -> Vec<u16> {
    fn visit(steps: &[Step], ports: &mut Vec<u16>) {
        for step in steps {
            match step {
                Step::Request(request) => {
                    if let Url::Parts { origin, .. } = &request.url
                        && super::is_local(&origin.host)
                        && !ports.contains(&origin.port)
                    {
                        ports.push(origin.port);
                    }
                }
                Step::Loop { steps, .. } | Step::Once(steps) | Step::Transaction { steps, .. } => {
                    visit(steps, ports);
                }
                _ => {}
            }
        }
    }
    let mut ports = Vec::new();
    program.groups.iter().for_each(|group| visit(&group.steps, &mut ports));
    ports
}

/// JMeter's Aggregate Report, of histograms; times in milliseconds.
fn aggregate(labels: &[LabelFigures]) -> String {
    let row = |figures: &LabelFigures| {
        let times = &figures.service;
        let per_second = |bytes: u64| {
            let each = bytes as f64 / figures.samples.max(1) as f64;
            format!("{:.2}", each * figures.throughput / 1024.0)
        };
        let errors = 100.0 * figures.failed() as f64 / figures.samples.max(1) as f64;
        let ms = |value: f64| format!("{value:.1}");
        [
            figures.label.clone(),
            figures.samples.to_string(),
            ms(times.mean),
            ms(times.p50),
            ms(times.p90),
            ms(times.p95),
            ms(times.p99),
            ms(times.min),
            ms(times.max),
            format!("{errors:.3}%"),
            format!("{:.3}", figures.throughput),
            per_second(figures.received),
            per_second(figures.sent),
        ]
    };
    // All together come last, as in JMeter.
    let rows: Vec<[String; 13]> = labels.iter().skip(1).chain(labels.first()).map(row).collect();
    let header = [
        "LABEL",
        "SAMPLES",
        "AVERAGE",
        "MEDIAN",
        "90%",
        "95%",
        "99%",
        "MIN",
        "MAX",
        "ERROR",
        "PER SECOND",
        "RECEIVED KB/S",
        "SENT KB/S",
    ];
    format!("\n{}", table::table(header, &rows))
}
