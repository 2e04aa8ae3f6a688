"""The dashboards by the name of their file."""

from fleet import FLEET
from operation import LIMITS, PROCESS
from records import RECORDING, TRACKER
from traffic import OVERVIEW, POOLS, UPSTREAMS

DASHBOARDS = {
    "weir-overview": OVERVIEW,
    "weir-upstreams": UPSTREAMS,
    "weir-recording": RECORDING,
    "weir-tracker-monitor": TRACKER,
    "weir-limits-auth": LIMITS,
    "weir-pools": POOLS,
    "weir-fleet": FLEET,
    "weir-process": PROCESS,
}
