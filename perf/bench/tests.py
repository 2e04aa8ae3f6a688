"""What can be wrong without any server; run by `python3 -m unittest perf/bench/tests.py`."""

import base64
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# The path must be set first.
from bench import compare, corpus, credentials, generators, page, payload, reasons  # noqa: E402
from bench import recording, report, rows  # noqa: E402
from bench.cases import NAMES  # noqa: E402

RESULTS = Path(__file__).resolve().parents[1] / "results"


class Payloads(unittest.TestCase):
    def test_sizes_are_exact_and_the_text_is_json(self):
        for size in [*range(40, 80), 1024, 10 * 1024, 100 * 1024]:
            body = payload.sized(size)
            self.assertEqual(len(body), size)
            self.assertEqual(json.loads(body)["size"], f"{size}B")

    def test_items_follow_the_cycle(self):
        items = json.loads(payload.sized(200))["payload"]
        self.assertEqual(items[:2], ["0123456789", "ABCDEFGHIJ"])

    def test_a_record_has_twenty_members_and_an_exact_size(self):
        body = payload.record(1024)
        self.assertEqual((len(body), len(json.loads(body))), (1024, 20))

    def test_the_hosted_reply_has_52_bytes(self):
        self.assertEqual(len(payload.HELLO), 52)

    def test_the_static_file_has_4481_bytes(self):
        self.assertEqual(len(payload.grid()), 4481)
        self.assertEqual([len(r) for r in json.loads(payload.grid())["records"]], [10] * 10)


class Tokens(unittest.TestCase):
    def test_openssl_verifies_a_token(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            head, claims, signature = credentials.Signer(folder).tokens(2)[1].split(".")
            (folder / "text").write_text(f"{head}.{claims}")
            (folder / "signature").write_bytes(base64.urlsafe_b64decode(signature + "=="))
            subprocess.run(["openssl", "dgst", "-sha256", "-prverify", folder / "issuer.key",
                            "-signature", folder / "signature", folder / "text"],
                           check=True, capture_output=True)


class Verdicts(unittest.TestCase):
    @staticmethod
    def result(ratios, reasons=()):
        def measured(cpu):
            return {"cpu_us": cpu, "rate": 1e6 / cpu, "p50_us": 1, "p99_us": 2, "idle": 0.5,
                    "load_busy": 0.5, "upstream_busy": 0, "foreign": 0}
        rounds = [{"weir": measured(10 * ratio), "nginx": measured(10), "haproxy": measured(12)}
                  for ratio in ratios]
        cell = {"load": "saturated", "rate": None, "rounds": rounds, "disturbed": 0,
                "reasons": list(reasons)}
        return {"hello": {"cells": [cell]}}

    def test_the_median_ratio_decides_and_the_spread_is_told(self):
        told = {ratios: rows.verdicts(self.result(ratios))[0].result for ratios in
                [(0.7, 0.75, 0.79), (0.86, 0.87, 0.89), (0.75, 0.79, 0.87), (0.75, 0.86, 0.87)]}
        self.assertEqual(list(told.values()), [
            "met", "MISSED", "met, rounds on both sides", "MISSED, rounds on both sides"])

    def test_a_cell_without_valid_rounds_is_invalid_and_says_why(self):
        row = rows.verdicts(self.result((), ["errors: 3 status"]))[0]
        self.assertEqual(row.result, "INVALID: errors: 3 status")

    def test_too_much_memory_is_missed(self):
        found = {kind: {"idle": 26 << 20, "connections": 90 << 20, "open": 10_000}
                 for kind in ("weir", "nginx", "haproxy")}
        verdicts = [row.result for row in rows.verdicts({"memory": {"servers": found}})]
        self.assertEqual(verdicts, ["MISSED", "met"])

    def test_an_engine_is_what_workers_with_a_script_have_more(self):
        found = [{"workers": 1, "script": 12 << 20, "reply": 10 << 20},
                 {"workers": 9, "script": 46 << 20, "reply": 20 << 20}]
        row, = rows.verdicts({"script-memory": {"workers": found}})
        self.assertEqual((row.weir, row.result), ("3.00 MiB", "met"))

    def test_a_server_that_closed_connections_has_no_verdict_on_them(self):
        found = {kind: {"idle": 1, "connections": 1, "open": 9_000}
                 for kind in ("weir", "nginx", "haproxy")}
        verdicts = [row.result for row in rows.verdicts({"memory": {"servers": found}})]
        self.assertEqual(verdicts, ["met", "INVALID: only 9,000 stayed open"])


class Recording(unittest.TestCase):
    def test_bodies_are_exact_json_and_an_id_of_their_own_fits_in(self):
        requests, answers = corpus.bodies("request"), corpus.bodies("answer")
        for number in (0, 4711, corpus.BODIES - 1):
            self.assertEqual(len(requests[number]), corpus.SIZE)
            self.assertTrue(requests[number].startswith(b'{"id":"%012d",' % number))
            self.assertEqual(json.loads(answers[number])["id"], f"{number:012}")
            self.assertNotEqual(requests[number], answers[number])

    def test_what_is_left_to_seal_is_charged_at_the_price_of_the_rest(self):
        spent = recording.Spent(10.0, {"journal-seal": 2.0}, 0, 4 * (16 << 20), 2)
        self.assertEqual(spent.charged(), 12.0)

    def test_workers_are_compared_by_round_and_other_threads_over_all(self):
        rounds = [{name: {"worker_us": us + n} for name, us in
                   (("off", 9.0), ("keys", 9.5), ("payload", 10.0))} for n in range(3)]
        others = {"off": {"all": 0.0}, "keys": {"all": 1.0}, "payload": {"all": 3.5}}
        result = {"kinds": {"hello": {"rounds": rounds, "others_us": others}}}
        found = [(row.weir, row.result) for row in rows.verdicts({"recording-cost": result})]
        self.assertEqual(found, [
            ("+1.50 µs", "met"), ("+0.50 µs", "met"),
            ("+4.50 µs", "MISSED"), ("+1.00 µs", "MISSED")])

    def test_counting_and_reports_are_held_against_their_bars(self):
        rounds = [{"off": {"worker_us": 5.0 + n}, "monitor": {"worker_us": 5.3 + n}} for n in range(3)]
        others = {"off": {"all": 0.1}, "monitor": {"all": 0.9, "monitor": 0.7}}
        reports = [{"report": "a", "ms": 20.0, "rows": 1}, {"report": "b", "ms": 250.0, "rows": 9}]
        found = rows.verdicts({"monitor-cost": {"rounds": rounds, "others_us": others},
                               "monitor-usage": {"reports": reports}})
        self.assertEqual([(row.weir, row.result) for row in found],
                         [("+1.10 µs", "MISSED"), ("250 ms", "MISSED")])

    def test_a_burst_that_lags_is_missed(self):
        burst = {name: {"rate": 100.0, "lag_s": 6.0 if name == "payload" else 0.1}
                 for name in ("off", "keys", "payload")}
        found = rows.verdicts({"recording-burst": {"bursts": [burst]}})
        self.assertEqual([row.result for row in found], ["met", "MISSED"])


class Generators(unittest.TestCase):
    def test_what_each_says_is_understood(self):
        said = {
            "wrk": "  68000 requests in 2.01s, 12.00MB read\n"
                   "  Socket errors: connect 0, read 1, write 0, timeout 2\n"
                   "  Non-2xx or 3xx responses: 4\n",
            "ab": "Time taken for tests:   2.010 seconds\nComplete requests:      68000\n"
                  "Failed requests:        7\n",
            "hey": "Summary:\n  Total:\t2.0100 secs\n\nStatus code distribution:\n"
                   "  [200]\t67993 responses\n  [503]\t7 responses\n",
            "oha": json.dumps({"summary": {"total": 2.01}, "statusCodeDistribution":
                               {"200": 67993, "503": 7},
                               "errorDistribution": {"aborted due to deadline": 50}}),
            "h2load": "finished in 2.01s, 33830.00 req/s, 3.21MB/s\nrequests: 68007 total, 68007 "
                      "started, 68000 done, 67993 succeeded, 7 failed, 0 errored, 0 timeout\n",
        }
        for name, text in said.items():
            told = generators._OTHERS[name].parse(text)
            self.assertEqual((told.requests, told.seconds, told.errors), (68000, 2.01, 7), name)

    def test_the_lab_is_held_against_its_bars(self):
        rounds = [{"weir": {"cpu_us": us, "rate": 1.0}, "wrk": {"cpu_us": 5.0, "rate": 1.0}}
                  for us in (3.5, 3.6, 4.0)]
        cell = {"connections": 50, "rate": None, "missing": [], "rounds": rounds}
        memory = {"users": 10_000, "once": {"memory": 100 << 20, "requests": 1},
                  "longer": {"memory": 120 << 20, "requests": 2}}
        found = rows.verdicts({"lab-closed": {"cells": [cell]}, "lab-users": memory})
        self.assertEqual([row.result for row in found], ["met, rounds on both sides", "MISSED"])


class Reports(unittest.TestCase):
    @staticmethod
    def results(ratios):
        environment = dict.fromkeys(
            ("cpu", "cores", "kernel", "date", "commit", "versions"), "x")
        return {"hello": {"case": "hello", "quick": False, "pace": {"rounds": 3, "seconds": 1},
                          "environment": environment, "tls": {},
                          **Verdicts.result(ratios)["hello"]}}

    def test_only_what_is_between_the_markers_is_replaced(self):
        result = self.results((0.75,))["hello"]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            report.save(folder, "hello", result)
            page = folder / "performance.md"
            page.write_text("before\n<!-- perf:begin -->\nold\n<!-- perf:end -->\nafter\n")
            self.assertEqual(report.write(folder, page), "")
            text = page.read_text()
        self.assertTrue(text.startswith("before\n<!-- perf:begin -->\n"))
        self.assertTrue(text.endswith("\n<!-- perf:end -->\nafter\n"))
        self.assertIn("| ✓ ", text)
        self.assertNotIn("old", text)

    def test_each_case_is_in_one_group_and_a_missed_bar_is_named_once_with_its_reason(self):
        grouped = [name for group in page.GROUPS for name in group.cases]
        self.assertEqual(sorted(grouped), sorted(NAMES))
        text = page.page(self.results((0.97, 0.98, 0.99)), lambda head, body: str(body), {})
        self.assertIn("0 bars met, 1 missed.", text)
        entry = "- **hello (`reply`, 52 bytes)**: 0.98, bar ≤ 0.80 × nginx; 100 con"
        self.assertEqual(text.count(entry), 1)
        self.assertIn(reasons.REASONS["hello (`reply`, 52 bytes)"], text)
        self.assertNotIn("Missed bars", page.page(self.results((0.75,)), lambda *_: "", {}))

    def test_reasons_belong_to_cases_that_are_missed(self):
        missed = {row.case for row in rows.verdicts(report.load(RESULTS))
                  if row.result.startswith("MISSED")}
        self.assertEqual(set(reasons.REASONS) - missed, set())


class Builds(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        rounds = [{"weir old": {"cpu_us": old}, "weir new": {"cpu_us": new}}
                  for old, new in ((10.0, 11.0), (20.0, 20.0), (30.0, 27.0))]
        line = compare.row("get", {"load": "fixed", "rounds": rounds}, "weir")
        self.assertIn("20.00 µs ->   20.00 µs  1.000 (0.900–1.100) in 3 rounds", line)
        self.assertIn("no valid round", compare.row("get", {"load": "fixed", "rounds": []}, "weir"))


if __name__ == "__main__":
    unittest.main()
