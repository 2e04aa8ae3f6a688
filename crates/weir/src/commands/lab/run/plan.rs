//! A JMeter plan.

use super::{Args, SEED, outcome};
use crate::commands::lab::export;
use crate::commands::lab::load::{Load, Loaded};
use crate::commands::lab::plan_file;
use crate::commands::lab::result::Report;
use crate::exit::Exit;
use crate::output;
use crate::table::aligned;
use anyhow::ensure;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;
use weir_lab::agents::Agents;
use weir_lab::bounded_file;
use weir_lab::history;
use weir_lab::jmx::{JmxError, Plan};
use weir_lab::measure::{Case, Measurement, Method, Settings};
use weir_lab::program::{Program, Step, Url};
use weir_lab::protocol::CaseOrder;
use weir_lab::results::{Folder, jmeter};
use weir_lab::runner::now_text;
use weir_lab::tables;

/// Runs it.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (loaded, files) = bounded_file::recorded(|| args.plan.load(&args.what));
    let plan = match loaded {
        Ok(plan) => plan,
        Err(JmxError::Problems(problems)) => {
            plan_file::print_problems(&args.what, &problems);
            return Ok(Exit::Findings);
        }
        Err(error) => return Err(error.into()),
    };
    plan_file::print_skipped(&args.what, &plan.skipped);
    ensure!(
        !args.agents.is_used() || args.jtl.is_none(),
        "--jtl is not possible with --agents, which send sums of samples"
    );
    let source = args.plan.source(&args.what)?;
    let agents = args.agents.connect(&args.what, &files, source, [&plan.program])?;
    load(args, plan, agents.as_ref())
}

/// Runs the load of the plan.
fn load(args: &Args, plan: Plan, agents: Option<&Agents>) -> anyhow::Result<Exit> {
    let mut program = plan.program;
    let destinations = args.export.destinations()?;
    let folder = args.folder()?;
    if let Some(scripts) = &mut program.scripts {
        Arc::make_mut(scripts).log = Some(folder.join("scripts.log"));
    }
    let name = args.what.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut run = args.described(&args.what, name)?;
    let settings = Settings {
        method: Method::Once,
        case_order: CaseOrder::default(),
        seed: SEED,
        thresholds: Vec::new(),
        stop: Vec::new(),
        bars: Vec::new(),
        quick: false,
    };
    let mut export = args.export.start(destinations, &run, args.agents.addresses())?;
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
        agents,
        export: export.as_mut(),
    };
    let loaded = load.run(Some(&mut measurement))?;
    run.ended = now_text();
    let (judged, folder) = measurement.finish(&run, args.baseline.as_deref())?;
    export::finish(export, &folder)?;
    let history = history::add(&folder, &args.history(&folder))?;
    if !args.json {
        let Loaded { total, names, .. } = &loaded;
        let report = tables::Report::Aggregate;
        let rows = jmeter::rows(&total.figures(names), total.window(), report);
        output::text(&format!("\n{}", aligned(&report.columns(), &rows)));
    }
    let mut report = Report::new(None, &loaded);
    report.set_verdict(&judged);
    if !args.json {
        outcome::print_history(history.as_ref());
    }
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
