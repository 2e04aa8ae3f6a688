//! `weir lab check`: findings of a scenario or of a JMeter plan.

use super::plan_file::{PlanArgs, is_plan, print_problems, print_skipped};
use crate::exit::Exit;
use crate::{findings, output};
use anyhow::ensure;
use serde_json::{Value, json};
use std::path::PathBuf;
use weir_lab::jmx::{JmxError, Problem};
use weir_lab::scenario;

/// Arguments of `weir lab check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Reads the files of the scenario and creates its tokens; opens no socket. \
    Of a plan (.jmx) all unsupported elements are reported with their line.\n\n\
    Exit codes:\n  0  valid (warnings are printed)\n  2  errors found\n\n\
    Examples:\n  weir lab check scenario.yaml\n  weir lab check --json scenario.yaml\n  \
    weir lab check -Jhost=10.0.0.7 plan.jmx")]
pub(crate) struct Args {
    /// Scenario file or JMeter plan (.jmx)
    file: PathBuf,
    #[command(flatten)]
    plan: PlanArgs,
    /// Print one JSON object: {"ok": …, "findings": […]}
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if is_plan(&args.file) {
        return check_plan(args);
    }
    ensure!(args.plan.is_empty(), "-J, -D, --lenient and --jmeter are for JMeter plans (.jmx)");
    let loaded = scenario::load(&args.file, &scenario::Overrides::default());
    let (scenario, found) = match &loaded {
        Ok((scenario, found)) => (Some(scenario), found),
        Err(found) => (None, found),
    };
    if args.json {
        let ok = scenario.is_some();
        output::line(&json!({"ok": ok, "findings": findings::to_json(found)}).to_string());
    } else {
        findings::print(found);
        let path = args.file.display();
        match scenario {
            Some(scenario) => {
                output::line(&format!(
                    "{path}: valid, {}",
                    findings::count(scenario.cells.len(), "cell")
                ));
                for name in scenario.cells.iter().map(scenario::Cell::name) {
                    if !name.is_empty() {
                        output::line(&format!("  {name}"));
                    }
                }
            }
            None => output::note(&format!("{path}: {}", findings::summary(found))),
        }
    }
    Ok(if scenario.is_some() { Exit::Success } else { Exit::Findings })
}

/// Checks a JMeter plan.
fn check_plan(args: &Args) -> anyhow::Result<Exit> {
    let (plan, problems) = match args.plan.load(&args.file) {
        Ok(plan) => (Some(plan.program), plan.skipped),
        Err(JmxError::Problems(problems)) => (None, problems),
        Err(error) => return Err(error.into()),
    };
    if args.json {
        let severity = if plan.is_some() { "warning" } else { "error" };
        let found: Vec<Value> = problems.iter().map(|problem| finding(problem, severity)).collect();
        let jvm = plan.as_ref().is_some_and(|program| program.scripts.is_some());
        let result = json!({"ok": plan.is_some(), "jvm": jvm, "findings": found});
        output::line(&result.to_string());
    } else if let Some(program) = &plan {
        print_skipped(&args.file, &problems);
        let groups = findings::count(program.groups.len(), "thread group");
        let jvm = if program.scripts.is_some() { ", scripts in a helper JVM" } else { "" };
        output::line(&format!("{}: valid, {groups}{jvm}", args.file.display()));
    } else {
        print_problems(&args.file, &problems);
        let errors = findings::count(problems.len(), "error");
        output::note(&format!("{}: {errors}", args.file.display()));
    }
    Ok(if plan.is_some() { Exit::Success } else { Exit::Findings })
}

fn finding(problem: &Problem, severity: &str) -> Value {
    let Problem { line, element, message, skippable } = problem;
    json!({"severity": severity, "line": line, "element": element, "message": message,
        "skippable": skippable})
}
