//! The report in a browser: charts are drawn, and scripts report no error, in both themes.
//!
//! Pages and screenshots stay in the build's folder for temporary files, for inspection.

use crate::sample_run;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_lab::report::has_charts;
use weir_lab::results::StoredRun;
use weir_lab::verdict::Verdict;

/// Reports whether each canvas has a drawing, and the errors of scripts.
const PROBE: &str = r#"<script>
setTimeout(() => {
  const drawn = [...document.querySelectorAll("canvas")].map((canvas) => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return new Set(new Uint32Array(pixels.buffer)).size > 3;
  });
  const wide = document.documentElement.scrollWidth > innerWidth;
  document.body.dataset.probe = drawn.join(",") + ";wide=" + wide;
}, 300);
</script></body>"#;

/// Reports folded parts before, while and after the page is printed, and whether examples of failures are visible then.
const PRINT_PROBE: &str = r#"<script>
setTimeout(() => {
  const folded = () => document.querySelectorAll(":is(#failures, #details) details:not([open])").length;
  const examples = [...document.querySelectorAll(".exchange pre")];
  const visible = () => examples.filter((found) => found.checkVisibility()).length;
  const before = [folded(), visible()];
  dispatchEvent(new Event("beforeprint"));
  const printed = [folded(), visible() === examples.length, document.documentElement.dataset.theme];
  dispatchEvent(new Event("afterprint"));
  const after = [folded(), document.documentElement.dataset.theme];
  document.body.dataset.probe = [...before, ...printed, ...after].join(",");
}, 300);
</script></body>"#;

/// Reports the titles of the charts.
const TITLES_PROBE: &str = r#"<script>
setTimeout(() => {
  const titles = [...document.querySelectorAll("figcaption")].map((found) => found.firstChild.textContent.trim());
  document.body.dataset.probe = titles.join(",");
}, 300);
</script></body>"#;

/// A folder of its own for a test's files.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// Opens a page in a browser of its own; gives the page as it is after its scripts, and what was
/// logged.
fn browse(page: &Path, width: u32, screenshot: Option<&Path>) -> (String, String) {
    let profile = tempfile::tempdir().expect("a profile");
    let mut command = Command::new("chromium");
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=4000"])
        .arg(format!("--window-size={width},5200"))
        .arg(format!("--user-data-dir={}", profile.path().display()));
    match screenshot {
        Some(path) => command.arg(format!("--screenshot={}", path.display())),
        None => command.arg("--dump-dom"),
    };
    let output = command
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium is installed (make setup)");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}

/// Opens the report in a window of this width; gives what the probe found.
fn open(folder: &Path, theme: &str, width: u32) -> String {
    let probed = folder.join(format!("{theme}.html"));
    let found = probe(folder, &probed, theme, PROBE, width);
    let picture = folder.join(format!("{theme}-{width}.png"));
    browse(&probed, width, Some(&picture));
    assert!(fs::metadata(&picture).is_ok_and(|file| file.len() > 50_000), "{}", picture.display());
    found
}

/// Writes the report with a theme and the script of a probe, and opens it; gives what the probe found.
fn probe(folder: &Path, probed: &Path, theme: &str, script: &str, width: u32) -> String {
    let page = fs::read_to_string(folder.join("report.html")).expect("a report");
    let themed =
        page.replacen("<html lang=\"en\"", &format!("<html lang=\"en\" data-theme=\"{theme}\""), 1);
    fs::write(probed, themed.replace("</body>", script)).expect("written");
    let (dom, log) = browse(probed, width, None);
    let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(complaints, Vec::<&str>::new());
    let probe = dom.split("data-probe=\"").nth(1).and_then(|rest| rest.split('"').next());
    probe.unwrap_or_default().to_owned()
}

#[test]
fn charts_are_drawn_in_both_themes() {
    let folder = folder("cases");
    sample_run::write(&folder, 5);
    // A window of a browser is at least 500 pixels wide.
    for (theme, width) in [("light", 1240), ("dark", 500)] {
        let probe = open(&folder, theme, width);
        if !has_charts() {
            assert_eq!(probe, ";wide=false", "no chart without the library");
            continue;
        }
        let (drawn, wide) = probe.split_once(';').expect("probed");
        let drawn: Vec<&str> = drawn.split(',').collect();
        assert!(
            drawn.len() >= 10 && drawn.iter().all(|drawn| *drawn == "true"),
            "{theme}: {probe}"
        );
        assert_eq!(wide, "wide=false", "the page does not scroll sideways");
    }
}

#[test]
fn paper_shows_failures_and_all_cases() {
    let folder = folder("print");
    sample_run::write(&folder, 5);
    let found = probe(&folder, &folder.join("print.html"), "dark", PRINT_PROBE, 1240);
    // Three cases that pass, and the failures with one message.
    assert_eq!(found, "4,0,0,true,light,4,dark");
}

#[test]
fn the_server_is_on_the_time_axis_of_the_load() {
    let folder = folder("observed");
    sample_run::write(&folder, 1);
    let found = probe(&folder, &folder.join("titles.html"), "light", TITLES_PROBE, 1240);
    let titles: Vec<&str> = found.split(',').collect();
    for title in ["Throughput", "CPU", "Memory", "Descriptors", "Sockets", "queue depth"] {
        assert!(titles.contains(&title) || !has_charts(), "{title}: {found}");
    }
}

#[test]
fn a_single_case_has_its_figures_on_top() {
    let folder = folder("single");
    sample_run::write(&folder, 1);
    let page = fs::read_to_string(folder.join("report.html")).expect("a report");
    assert!(page.contains("class=\"tiles\""));
    assert!(page.contains("12.7 : 1"), "compressed bodies are compared with decoded ones");
    let probe = open(&folder, "light", 1240);
    assert!(!probe.contains("false,") && probe.ends_with("wide=false"), "{probe}");
}

#[test]
fn a_report_is_small_and_counts_are_counts() {
    let folder = folder("size");
    sample_run::write(&folder, 5);
    let page = fs::read_to_string(folder.join("report.html")).expect("a report");
    let (before, data) = page.split_once("id=\"data\">").unwrap_or((&page, "</script>"));
    let (_, after) = data.split_once("</script>").expect("the end of the data");
    assert!(before.len() + after.len() < 400 * 1024, "{} bytes", before.len() + after.len());
    assert!(page.contains("<strong>150</strong> × <code>http_503</code> Service Unavailable"));
    assert!(page.contains("class=\"verdict fail\"><p>Valid, but tracker=true monitor=broken: "));
    let samples = StoredRun::read(&folder).expect("a run").summary.cells[0].labels[0].samples;
    let grouped = format!("{}\u{202f}{:03}", samples / 1000, samples % 1000);
    assert!(page.contains(&format!("<td class=\"n\">{grouped}</td>")), "{samples}");
}

#[test]
fn a_folder_has_the_complete_result() {
    let folder = folder("files");
    sample_run::write(&folder, 5);
    let stored = StoredRun::read(&folder).expect("a finished run");
    let verdicts: Vec<Verdict> = stored.summary.cells.iter().map(|cell| cell.verdict).collect();
    assert_eq!(verdicts[..4], [Verdict::Pass; 4], "{:?}", stored.summary.reasons);
    assert_eq!(verdicts[4], Verdict::Fail, "a threshold on errors is not met");
    assert_eq!(stored.summary.verdict, Verdict::Fail);
    let line = stored.summary.line();
    assert!(line["errors"]["http_503"].as_u64() > Some(0) && line["errors"]["refused"] == 0);
    assert_eq!(line["cells"].as_array().map(Vec::len), Some(5));

    let log = fs::read(folder.join("hist.hlog")).expect("a log");
    let sums = weir_lab::results::hlog::by_tag(&weir_lab::results::hlog::read(&log).expect("read"));
    assert!(sums.contains_key("tracker=true monitor=true/say hello/response"), "{:?}", sums.keys());
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    let mut add = |known: &[String], second| {
        columns = known.to_vec();
        rows.push(second);
    };
    weir_lab::results::series::each(&folder.join("series.csv"), &mut add).expect("read");
    let ok = |label: &str| -> f64 {
        rows.iter()
            .filter(|row| row.label == label)
            .filter_map(|row| row.value(&columns, "ok"))
            .sum()
    };
    let logged: u64 = sums.iter().filter(|s| s.0.ends_with("service")).map(|s| s.1.len()).sum();
    let failed: f64 = rows
        .iter()
        .filter(|row| row.label == "TOTAL")
        .filter_map(|row| Some(row.value(&columns, "http_503")? + row.value(&columns, "timeout")?))
        .sum();
    assert_eq!(ok("TOTAL"), ok("say hello"));
    assert_eq!(logged as f64, ok("TOTAL") + failed, "every sample is in the log");

    let files = ["summary.csv", "summary-report.csv", "aggregate-report.csv", "junit.xml"];
    for file in files {
        assert!(fs::metadata(folder.join(file)).is_ok_and(|file| file.len() > 300), "{file}");
    }
    let page = fs::read_to_string(folder.join("report.html")).expect("a report");
    assert!(!page.contains("</script><b>busy") && !page.contains("toro <Tracker"), "escaped");
    assert!(page.contains("weir lab run toro --out 'it'\\''s here'"));
}

#[test]
fn a_two_by_two_design_has_effects() {
    let folder = folder("effects");
    sample_run::write(&folder, 4);
    let stored = StoredRun::read(&folder).expect("a finished run");
    assert_eq!(stored.summary.verdict, Verdict::Pass, "{:?}", stored.summary.reasons);
    let effects = stored.summary.effects.as_ref().expect("2 by 2");
    assert_eq!((effects.first.as_str(), effects.second.as_str()), ("tracker", "monitor"));
    assert!(effects.effects.first.interval.high < 1.0, "{effects:?}");
    assert!(stored.events().len() > 60, "every round, every decision");
}
