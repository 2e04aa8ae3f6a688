//! A JMeter plan.

use super::{Args, SEED};
use crate::commands::lab::is_local;
use crate::commands::lab::load::{Load, Loaded};
use crate::commands::lab::result::Report;
use crate::exit::Exit;
use crate::output;
use std::time::SystemTime;
use weir_lab::jmx::{self, JmxError, Plan};
use weir_lab::measure::{Case, Measurement, Method, Settings};
use weir_lab::program::{Program, Step, Url};
use weir_lab::protocol::CaseOrder;
use weir_lab::results::{Folder, jmeter};
use weir_lab::runner::now_text;
use weir_lab::tables::{self, AGGREGATE};

/// Runs it.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let options = jmx::Options { properties: args.properties.clone(), lenient: args.lenient };
    let plan = match jmx::load(&args.what, &options) {
        Ok(plan) => plan,
        Err(JmxError::Problems(problems)) => {
            for problem in &problems {
                output::note(&format!("{}: {problem}", args.what.display()));
            }
            return Ok(Exit::Findings);
        }
        Err(error) => return Err(error.into()),
    };
    for skipped in &plan.skipped {
        output::note(&format!("{}: skipped: {skipped}", args.what.display()));
    }
    let report = load(args, plan)?;
    Ok(Exit::Lab(report.exit_code()))
}

/// Runs the load of the plan.
fn load(args: &Args, plan: Plan) -> anyhow::Result<Report> {
    let program = plan.program;
    let folder = args.folder()?;
    let name = args.what.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut run = args.described(&args.what, name)?;
    let settings = Settings {
        method: Method::Once,
        case_order: CaseOrder::default(),
        seed: SEED,
        thresholds: Vec::new(),
        quick: false,
    };
    let case = Case::new("", &program);
    let written = Folder::create(&folder, &run, SystemTime::now())?;
    let mut measurement = Measurement::new(settings, vec![case], Some(written));
    let load = Load {
        ports: &local_ports(&program),
        program,
        threads: args.threads,
        jtl: args.jtl.as_deref(),
        json: args.json,
        open: false,
    };
    let Loaded { summary, total, names, seen } = load.run(Some(&mut measurement))?;
    run.ended = now_text();
    let (judged, folder) = measurement.finish(&run, args.before())?;
    if !args.json {
        let columns: Vec<String> = AGGREGATE.iter().map(|&name| name.to_owned()).collect();
        let lines = jmeter::rows(&total.figures(&names), total.window(), tables::Report::Aggregate);
        output::text(&format!("\n{}", tables::aligned(&columns, &lines)));
    }
    let mut report = Report::new(None, &summary, &total, &names, &seen);
    report.take_verdict(&judged);
    report.print(args.json, folder.as_deref());
    Ok(report)
}

/// Target ports of the program on this machine, whose servers can be observed.
fn local_ports(program: &Program) -> Vec<u16> {
    fn visit(steps: &[Step], ports: &mut Vec<u16>) {
        for step in steps {
            match step {
                Step::Request(request) => {
                    if let Url::Parts { origin, .. } = &request.url
                        && is_local(&origin.host)
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
