//! A JMeter plan.

use super::{Args, SEED};
use crate::commands::lab::load::{Load, Loaded};
use crate::commands::lab::plan_file;
use crate::commands::lab::result::Report;
use crate::exit::Exit;
use crate::output;
use crate::table::aligned;
use std::collections::BTreeSet;
use std::time::SystemTime;
use weir_lab::jmx::{JmxError, Plan};
use weir_lab::measure::{Case, Measurement, Method, Settings};
use weir_lab::program::{Program, Step, Url};
use weir_lab::protocol::CaseOrder;
use weir_lab::results::{Folder, jmeter};
use weir_lab::runner::now_text;
use weir_lab::tables;

/// Runs it.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let plan = match args.plan.load(&args.what) {
        Ok(plan) => plan,
        Err(JmxError::Problems(problems)) => {
            plan_file::print_problems(&args.what, &problems);
            return Ok(Exit::Findings);
        }
        Err(error) => return Err(error.into()),
    };
    plan_file::print_skipped(&args.what, &plan.skipped);
    load(args, plan)
}

/// Runs the load of the plan.
fn load(args: &Args, plan: Plan) -> anyhow::Result<Exit> {
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
    let mut measurement = Measurement::new(settings, vec![case], written);
    let load = Load {
        ports: &local_ports(&program),
        program,
        loops: args.loops,
        jtl: args.jtl.as_deref(),
        json: args.json,
        open: false,
    };
    let loaded = load.run(Some(&mut measurement))?;
    run.ended = now_text();
    let (judged, folder) = measurement.finish(&run, args.baseline.as_deref())?;
    if !args.json {
        let Loaded { total, names, .. } = &loaded;
        let report = tables::Report::Aggregate;
        let rows = jmeter::rows(&total.figures(names), total.window(), report);
        output::text(&format!("\n{}", aligned(&report.columns(), &rows)));
    }
    let mut report = Report::new(None, &loaded);
    report.set_verdict(&judged);
    report.print(args.json, Some(&folder));
    Ok(Exit::Lab(report.exit_code()))
}

/// Target ports of the program on this machine, whose servers can be observed.
fn local_ports(program: &Program) -> Vec<u16> {
    let port = |step: &Step| match step {
        Step::Request(request) => match &request.url {
            Url::Parts { origin, .. } if origin.is_loopback() => Some(origin.port),
            _ => None,
        },
        _ => None,
    };
    let ports: BTreeSet<u16> = program.steps().into_iter().filter_map(port).collect();
    ports.into_iter().collect()
}
