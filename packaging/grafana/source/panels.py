"""Parts of a Grafana dashboard as JSON values: panels, variables, the dashboard itself.

In a query, `§` stands for the selection of the dashboard's job and instances.
"""

# Format of dashboards since Grafana 11.
SCHEMA_VERSION = 41
SELECTED = 'job=~"$job", instance=~"$instance"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
FULL, HALF, THIRD, QUARTER = 24, 12, 8, 6
RED, YELLOW, GREEN = "red", "yellow", "green"


def query(expression, legend=""):
    return {"expr": expression.replace("§", SELECTED), "legendFormat": legend}


def targets(queries, instant=False):
    return [
        {
            "refId": chr(ord("A") + index),
            "datasource": SOURCE,
            "editorMode": "code",
            "range": not instant,
            "instant": instant,
            **({"format": "table"} if instant == "table" else {}),
            **one,
        }
        for index, one in enumerate(queries)
    ]


def thresholds(*steps):
    colours = [{"color": GREEN, "value": None}]
    return {"mode": "absolute", "steps": colours + [{"color": c, "value": v} for v, c in steps]}


def panel(kind, title, description, queries, unit, width, height, **rest):
    defaults = {"unit": unit, "thresholds": thresholds(), **rest.pop("defaults", {})}
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": SOURCE,
        "gridPos": {"h": height, "w": width, "x": 0, "y": 0},
        "fieldConfig": {"defaults": defaults, "overrides": rest.pop("overrides", [])},
        "options": rest.pop("options"),
        "targets": targets(queries, rest.pop("instant", False)),
        **rest,
    }


def graph(title, description, *queries, unit="short", width=HALF, stack=False, most=None):
    custom = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 30 if stack else 8,
        "showPoints": "never",
        "stacking": {"mode": "normal" if stack else "none", "group": "A"},
    }
    defaults = {"custom": custom, "min": 0, **({"max": most} if most else {})}
    options = {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["mean", "max"], "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel("timeseries", title, description, queries, unit, width, 8, defaults=defaults, options=options)


def number(title, description, *queries, unit="short", width=QUARTER, steps=(), decimals=None):
    defaults = {"thresholds": thresholds(*steps), "noValue": "none"}
    if decimals is not None:
        defaults["decimals"] = decimals
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value" if steps else "none",
        "graphMode": "area",
        "textMode": "auto",
        "orientation": "auto",
        "justifyMode": "auto",
    }
    return panel("stat", title, description, queries, unit, width, 4, defaults=defaults, options=options)


def table(title, description, columns, hidden=(), width=FULL, height=9):
    """`columns`: heading, query and unit of each. A row is a combination of labels."""
    overrides = [
        {
            "matcher": {"id": "byName", "options": heading},
            "properties": [{"id": "unit", "value": unit}],
        }
        for heading, _, unit in columns
    ]
    letters = [chr(ord("A") + index) for index in range(len(columns))]
    names = {f"Value #{letter}": heading for letter, (heading, _, _) in zip(letters, columns)}
    # Of a single query the column has no letter.
    names["Value"] = columns[0][0]
    excluded = {name: True for name in ("Time", "__name__", *hidden)}
    change = {"excludeByName": excluded, "indexByName": {}, "renameByName": names}
    return panel(
        "table",
        title,
        description,
        [query(expression) for _, expression, _ in columns],
        "short",
        width,
        height,
        instant="table",
        overrides=overrides,
        options={"showHeader": True, "cellHeight": "sm", "footer": {"show": False}},
        transformations=[{"id": "merge", "options": {}}, {"id": "organize", "options": change}],
    )


def row(title):
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "panels": [],
        "gridPos": {"h": 1, "w": FULL, "x": 0, "y": 0},
    }


def variable(name, title, label, metric, selected=SELECTED, all_of=".*"):
    """A choice among the values of a label; requests without a route have an empty one."""
    series = f"{metric}{{{selected}}}" if selected else metric
    definition = f"label_values({series}, {label})"
    return {
        "name": name,
        "label": title,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": definition, "refId": name},
        "definition": definition,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": all_of,
        "current": {"text": "All", "value": "$__all"},
        "hide": 0,
        "regex": "",
        "options": [],
    }


def placed(panels):
    """Panels from left to right, as many in a line as fit; a row title begins a line."""
    x = y = height = 0
    for index, one in enumerate(panels):
        place = one["gridPos"]
        if x + place["w"] > FULL or one["type"] == "row":
            x, y, height = 0, y + height, 0
        place.update(x=x, y=y)
        x, height = x + place["w"], max(height, place["h"])
        yield {"id": index + 1, **one}


def dashboard(title, description, panels, variables=()):
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "refresh": 1,
        "regex": "",
    }
    common = [
        source,
        variable("job", "Job", "job", "weir_build_info", None, ".+"),
        variable("instance", "Instance", "instance", "weir_build_info", 'job=~"$job"', ".+"),
    ]
    reloads = {
        "name": "Configuration loaded",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": "blue",
        "expr": f"changes(weir_config_loaded_timestamp_seconds{{{SELECTED}}}[2m]) > 0",
        "titleFormat": "Configuration loaded",
        "textFormat": "{{instance}}",
        "step": "1m",
    }
    others = {
        "type": "dashboards",
        "title": "weir",
        "tags": ["weir"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }
    return {
        "title": f"weir / {title}",
        "description": description,
        "tags": ["weir"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "fiscalYearStartMonth": 0,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "weekStart": "",
        "annotations": {"list": [reloads]},
        "links": [others],
        "templating": {"list": [*common, *variables]},
        "panels": list(placed(panels)),
    }


def selection(more=""):
    return f"§, {more}" if more else "§"


def grouped(labels):
    return f" by ({', '.join(labels)})" if labels else ""


def rate(metric, labels=(), more=""):
    return f"sum{grouped(labels)} (rate({metric}{{{selection(more)}}}[$__rate_interval]))"


def quantile(q, metric, labels=(), more=""):
    return f"histogram_quantile({q}, {rate(f'{metric}_bucket', ('le', *labels), more)})"
