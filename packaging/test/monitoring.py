"""Dashboards and rules name only what weir exports: `python3 packaging/test/monitoring.py`.

Every metric, label and label value in them is looked up in a scrape of the real binary. With promtool installed, the
rules, their unit tests and the scrape are checked by it, too.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import promql  # noqa: E402 (the path must be set first)
import server  # noqa: E402

ROOT = server.ROOT
RULES = ROOT / "packaging/prometheus"
DASHBOARDS = sorted((ROOT / "packaging/grafana").glob("*.json"))
# Labels that Prometheus adds, and its own metrics.
SCRAPED = {"job", "instance"}
OWN = {"up": SCRAPED, "ALERTS": {"alertname"}}
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ")
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


class Exported:
    """Names, labels and label values of a scrape."""

    def __init__(self, text):
        self.labels, self.values = {}, set()
        for line in text.splitlines():
            if line.startswith("# TYPE"):
                name, kind = line.split()[2:4]
                # A family without a sample, such as gRPC without a call.
                for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
                    self.labels.setdefault(name + suffix, set())
            elif match := SAMPLE.match(line):
                pairs = LABEL.findall(match.group(2) or "")
                self.labels[match.group(1)].update(label for label, _ in pairs)
                self.values.update(pairs)


def problems(expression, exported, recorded=()):
    """What an expression names that does not exist."""
    names = promql.read(expression)
    known = {**OWN, **exported.labels}
    found = []
    available = set(SCRAPED)
    for metric, labels in names.metrics.items():
        if metric in recorded:
            available |= recorded[metric]
            continue
        if metric not in known:
            found.append(f"{metric} is not exported")
            continue
        available |= known[metric]
        # Families without a sample have no labels to compare.
        if known[metric] or metric not in EMPTY:
            found += [f"{metric} has no label {label}" for label in sorted(labels - known[metric] - SCRAPED)]
        else:
            available |= EMPTY[metric]
    found += [f"no metric has the label {label}" for label in sorted(names.labels - available)]
    for label, value in sorted(names.values):
        if label == "error_type":
            if f"`{value}`" not in PROBLEMS:
                found.append(f"{value} is no problem")
        elif (label, value) not in exported.values:
            found.append(f'no series has {label}="{value}"')
    return found


# Metrics without a sample in the scrape: they need a peer of their own.
EMPTY = {"weir_upstream_grpc_total": {"weir_upstream", "server_address", "server_port", "rpc_grpc_status_code"}}
PROBLEMS = (ROOT / "docs/reference/problems.md").read_text(encoding="utf-8")


def rules(path):
    """The rules of a file: kind, name, expression. It reads the layout of these files, not any YAML."""
    kind = name = None
    lines = path.read_text(encoding="utf-8").splitlines()
    for index, line in enumerate(lines):
        if match := re.match(r"      - (alert|record): (\S+)$", line):
            kind, name = match.groups()
        elif match := re.match(r"        expr: (.*)$", line):
            expression = match.group(1)
            if expression == ">-":
                rest = lines[index + 1 :]
                end = next((i for i, one in enumerate(rest) if not one.startswith(" " * 10)), len(rest))
                expression = " ".join(one.strip() for one in rest[:end])
            yield kind, name, expression


def all_rules():
    return [rule for path in (RULES / "weir-recording.yaml", RULES / "weir-alerts.yaml") for rule in rules(path)]


class Reading(unittest.TestCase):
    def test_names_of_an_expression(self):
        names = promql.read(
            'sum by (a, le) (rate(m_bucket{b="x", c=~"$c", d=~"u|v"}[5m])) / on (e) group_left () n > 0'
        )
        self.assertEqual(names.metrics, {"m_bucket": {"b", "c", "d"}, "n": set()})
        self.assertEqual(names.labels, {"a", "le", "e"})
        self.assertEqual(names.values, {("b", "x"), ("d", "u"), ("d", "v")})

    def test_what_does_not_exist_is_reported(self):
        exported = Exported('# TYPE m_total counter\nm_total{result="good"} 1\n')
        self.assertEqual(problems('sum by (result) (rate(m_total{job="$job"}[1m]))', exported), [])
        for wrong in ("n_total", 'm_total{reason="x"}', "sum by (reason) (m_total)", 'm_total{result="taken"}'):
            self.assertEqual(len(problems(wrong, exported)), 2 if "reason=" in wrong else 1, wrong)


class Monitoring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = server.scrape()
        cls.exported = Exported(cls.text)
        cls.recorded = {}
        for kind, name, expression in all_rules():
            if kind == "record":
                cls.recorded[name] = promql.read(expression).labels | {"weir_api", "weir_upstream"}

    def test_the_scrape_is_complete(self):
        empty = {name for name, labels in self.exported.labels.items() if not labels and f"\n{name} " not in self.text}
        self.assertEqual(empty, set(EMPTY), "packaging/test/scrape/weir.yaml does not use these")

    def test_rules_name_what_is_exported(self):
        found = [
            f"{name}: {problem}"
            for _, name, expression in all_rules()
            for problem in problems(expression, self.exported, self.recorded)
        ]
        self.assertEqual(found, [])

    def test_dashboards_name_what_is_exported(self):
        found = []
        for path in DASHBOARDS:
            for title, expression in expressions(json.loads(path.read_text(encoding="utf-8"))):
                found += [
                    f"{path.name}, {title}: {problem}" for problem in problems(expression, self.exported, self.recorded)
                ]
        self.assertEqual(found, [])

    def test_every_exported_metric_is_on_a_dashboard(self):
        text = "".join(path.read_text(encoding="utf-8") for path in DASHBOARDS)
        families = {line.split()[2] for line in self.text.splitlines() if line.startswith("# TYPE")}
        missing = {name for name in families if name not in text}
        # Beside those in seconds and bytes.
        self.assertEqual(missing, set())

    def test_promtool_accepts_rules_and_scrape(self):
        promtool = shutil.which("promtool")
        if not promtool:
            self.skipTest("promtool is not installed (Debian: prometheus)")
        for arguments in (
            ["check", "rules", "weir-recording.yaml", "weir-alerts.yaml"],
            ["test", "rules", "weir-tests.yaml"],
        ):
            done = subprocess.run([promtool, *arguments], cwd=RULES, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = subprocess.run([promtool, "check", "metrics"], input=self.text, capture_output=True, text=True)
        remarks = set((done.stdout + done.stderr).split("\n")) - {""}
        self.assertEqual({one for one in remarks if not any(name in one for name in KNOWN)}, set())


# Gauges with a percentile each; promtool expects the label `quantile` in summaries only.
KNOWN = ("weir_pool_request_duration_seconds", "weir_pool_request_wait_seconds")


def expressions(dashboard):
    """Titles and queries of a dashboard; functions of Grafana are reduced to their metric."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m").replace("$__range", "1h")
    for variable in dashboard["templating"]["list"]:
        if match := re.match(r"label_values\((.*), (\w+)\)$", str(variable.get("definition", ""))):
            yield variable["label"], f"sum by ({match.group(2)}) ({match.group(1)})"
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


class Files(unittest.TestCase):
    def test_dashboards_are_those_of_their_source(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "packaging/grafana/generate", folder], check=True)
            fresh = {path.name: path.read_text(encoding="utf-8") for path in Path(folder).glob("*.json")}
        committed = {path.name: path.read_text(encoding="utf-8") for path in DASHBOARDS}
        self.assertEqual(fresh.keys(), committed.keys())
        for name, text in fresh.items():
            self.assertTrue(text == committed[name], f"{name} is old: run packaging/grafana/generate")

    def test_dashboards_work_with_any_data_source(self):
        for path in DASHBOARDS:
            dashboard = json.loads(path.read_text(encoding="utf-8"))
            self.assertNotIn("uid", dashboard, path.name)
            self.assertNotIn("id", dashboard, path.name)
            sources = set(re.findall(r'"uid": "([^"]*)"', path.read_text(encoding="utf-8")))
            self.assertEqual(sources, {"${datasource}"}, path.name)
            ids = [panel["id"] for panel in dashboard["panels"]]
            self.assertEqual(len(ids), len(set(ids)), path.name)
            for panel in dashboard["panels"]:
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
                if panel["type"] != "row":
                    self.assertTrue(panel["description"].endswith("."), panel["title"])
                for target in panel.get("targets", []):
                    self.assertIn('job=~"$job", instance=~"$instance"', target["expr"], panel["title"])

    def test_every_alert_is_explained(self):
        guide = (ROOT / "docs/guide/prometheus.md").read_text(encoding="utf-8")
        names = {name for kind, name, _ in all_rules() if kind == "alert"}
        explained = set(re.findall(r"^\| `(Weir\w+)` \|", guide, re.MULTILINE))
        self.assertEqual(names - explained, set(), "docs/guide/prometheus.md does not explain them")
        self.assertEqual(explained - names, set(), "docs/guide/prometheus.md explains alerts that do not exist")


if __name__ == "__main__":
    unittest.main()
