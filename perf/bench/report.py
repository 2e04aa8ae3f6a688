"""Results on disk, the summary made of them, and the table in the README."""

import json
from pathlib import Path

from . import rows, verdict
from .cases import NAMES

_BEGIN, _END = "<!-- perf:begin -->", "<!-- perf:end -->"


def save(folder: Path, name: str, result: dict) -> None:
    """Writes one case's measurements as `<name>.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")


def load(folder: Path) -> dict[str, dict]:
    """The results there are, by case; those of a case that no longer exists are left out."""
    paths = {name: folder / f"{name}.json" for name in NAMES}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def verdict_table(results: dict[str, dict]) -> str:
    return _table(verdict.VERDICT_HEAD, [row.cells() for row in rows.verdicts(results)])


def summary(results: dict[str, dict]) -> str:
    """The whole of what was found, as Markdown."""
    parts = ["# What `make perf` measured",
             "Made by `perf/run`; how to read it stands in `perf/README.md`.",
             _environment(results), "## Bars", verdict_table(results)]
    figures = rows.figures(results)
    if figures:
        parts += ["## Figures", _table(rows.FIGURE_HEAD, figures)]
    agreed = {f"{server}: {tls}" for result in results.values()
              for server, tls in result.get("tls", {}).items()}
    if agreed:
        parts.append("TLS agreed on: " + "; ".join(sorted(agreed)) + ".")
    return "\n\n".join(parts) + "\n"


def write(folder: Path, readme: Path | None) -> str:
    """Writes `summary.md` from all results in the folder, and the table between the README's
    markers; returns a line about what could not be done, or nothing."""
    results = load(folder)
    (folder / "summary.md").write_text(summary(results))
    if readme is None:
        return ""
    text = readme.read_text() if readme.exists() else ""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        return f"{readme.name} has no {_BEGIN} … {_END}; its table was not written"
    table = f"{_environment(results)}\n\n{verdict_table(results)}"
    readme.write_text(f"{before}{begin}\n{table}\n{end}{after}")
    return ""


def _environment(results: dict[str, dict]) -> str:
    """Where and when, once for all cases that agree; a case measured apart is named."""
    lines: dict[str, list[str]] = {}
    for name, result in results.items():
        said = result["environment"]
        pace = "{rounds} rounds of {seconds} s".format(**result["pace"])
        quick = "QUICK: not for comparison. " if result["quick"] else ""
        line = (f"{quick}{said['cpu']}, {said['cores']} cores, Linux {said['kernel']}; "
                f"{said['versions']}; commit {said['commit']}; {said['date']}; {pace}.")
        lines.setdefault(line, []).append(name)
    if len(lines) == 1:
        return next(iter(lines))
    return "\n".join(f"- {', '.join(names)}: {line}" for line, names in lines.items())


def _table(head: list[str], body: list[list[str]]) -> str:
    """Markdown, padded so that it reads as text, too."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in [head, *body]]
    widths = [max(len(row[at]) for row in escaped) for at in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
             for row in escaped]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
