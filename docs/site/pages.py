"""Pages of the site: links of documents, files as pages, generated references."""

import os
import re
import subprocess

LINK = re.compile(r"(\]\()([^)\s]+)(\))")
LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".js": "js", ".py": "python", ".xml": "xml", ".conf": "nginx",
             ".groovy": "groovy", ".php": "php", ".rs": "rust", ".sh": "sh", ".toml": "toml", ".properties": "properties"}


def parts(text):
    """The parts of a document: text, and code that is left alone (blocks and spans), with whether it is code."""
    for block in re.split(r"(^ *```.*?^ *```[^\n]*$)", text, flags=re.MULTILINE | re.DOTALL):
        if block.lstrip().startswith("```"):
            yield True, block
        else:
            for index, span in enumerate(re.split(r"((?<!`)`[^`\n]+`(?!`))", block)):
                yield index % 2 == 1, span


def outside_code(text):
    """A document without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)


def link_targets(text):
    return [match[2] for match in LINK.finditer(text)]


def rewrite(text, page, resolve):
    """A document with links to pages of the site. `resolve` returns the page of a link to a file, or None."""

    def replaced(match):
        link, _, anchor = match[2].partition("#")
        if not link or "://" in link or link.startswith("mailto:"):
            return match[0]
        target = resolve(link)
        if target is None:
            return match[0]
        relative = os.path.relpath(target, page.parent)
        return f"{match[1]}{relative}{'#' + anchor if anchor else ''}{match[3]}"

    # A link may enclose a span of code, so spans are put aside first.
    codes = []

    def aside(is_code, part):
        if not is_code:
            return part
        codes.append(part)
        return f"\0{len(codes) - 1}\0"

    joined = "".join(aside(*part) for part in parts(text))
    return re.sub("\0(\\d+)\0", lambda match: codes[int(match[1])], LINK.sub(replaced, joined))


def file_page(path, text):
    """A file of the repository as a page; not found by the search, which would show it before the documents."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    language = LANGUAGES.get(path.suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def cell(text):
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def admin_api(document):
    """The endpoints of the admin API, from its OpenAPI document."""
    lines = ["# Admin API", "", "Endpoints of the admin listener, generated from the document that it serves at "
             "`/v1/openapi.json`. All need `Authorization: Bearer` with a token of the role or a higher one: "
             "`viewer`, `payload-viewer`, `operator`, `admin` ([roles](../guide/search.md#roles-audit)).", ""]
    groups = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            groups.setdefault((operation.get("tags") or ["other"])[0], []).append((path, method, operation))
    for tag in sorted(groups):
        lines += [f"## {tag.capitalize()}", "", "| endpoint | role | |", "|---|---|---|"]
        for path, method, operation in groups[tag]:
            text = ". ".join(filter(None, (operation.get("summary", "").rstrip("."), operation.get("description", ""))))
            lines.append(f"| `{method.upper()} {path}` | `{operation.get('x-weir-role', '–')}` | {cell(text)} |")
        lines.append("")
    return "\n".join(lines)


def commands(weir):
    """The help of every command, from the binary."""
    lines = ["# Commands", "", "Generated from `weir help`.", ""]

    def add(names):
        environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
        text = subprocess.run([weir, *names, "--help"], capture_output=True, text=True, check=True, env=environment).stdout
        text = text.replace(os.path.basename(weir), "weir") if os.path.basename(weir) != "weir" else text
        lines.extend([f"{'#' * min(2 + max(len(names) - 1, 0), 4)} weir{''.join(' ' + name for name in names)}", "",
                      "```text", text.rstrip(), "```", ""])
        section = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
        for name in re.findall(r"^  ([a-z][a-z0-9-]*)", section[1] if section else "", re.MULTILINE):
            if name != "help":
                add([*names, name])

    add([])
    return "\n".join(lines)
