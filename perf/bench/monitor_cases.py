"""What counting costs, with nothing recorded, and how long reports take."""

import json
import subprocess
from pathlib import Path

from .recording import HELLO, OFF, Ground
from .recording_cases import bursts, charge, end, hold, others, warm
from .session import Session

_MONITOR = {"monitor.count": "all"}
_TRACKER = {"tracker.enabled": "true"}
CONTENDERS = {OFF: {}, "monitor": _MONITOR}
#: The four cases of TORO's and Martini's published tests.
FOUR = {OFF: {}, "monitor": _MONITOR, "tracker": _TRACKER, "both": _MONITOR | _TRACKER}
#: Calls that reports are about.
CALLS = 5_000_000


def cost(session: Session) -> dict:
    """CPU a call of the workers, by round, and of all other threads, until all is counted."""
    ground = Ground(session)
    recorders = [ground.start(name, settings=settings) for name, settings in CONTENDERS.items()]
    for recorder in recorders:
        warm(ground, recorder, HELLO, session.pace.seconds)
    before = {r.name: r.spent() for r in recorders}
    counted = recorders[1].metrics()["weir_monitor_counted_total"]
    rounds = []
    for number in range(session.pace.rounds):
        order = recorders[number % 2:] + recorders[:number % 2]
        rounds.append({r.name: charge(ground, r, HELLO, session.pace.seconds) for r in order})
        session.say("monitor-cost " + "  ".join(
            f"{name} {found['worker_us']:.2f}" for name, found in sorted(rounds[-1].items())))
    rest = {r.name: others(r.spent().since(before[r.name]), rounds, r.name) for r in recorders}
    counted = recorders[1].metrics()["weir_monitor_counted_total"] - counted
    session.say(f"monitor-cost {rest}, {counted:.0f} calls counted")
    end(ground, recorders)
    ground.close()
    return {"rounds": rounds, "others_us": rest, "counted": counted}


def four(session: Session) -> dict:
    """Tracker and Monitor, each off and on: bursts as `ab` sends them, and a long window."""
    found = {"bursts": bursts(session, FOUR), "sustained": {}}
    ground = Ground(session)
    for name, settings in FOUR.items():
        recorder = ground.start(name, settings=settings)
        found["sustained"][name] = hold(session, ground, recorder, HELLO)
        session.say(f"tracker-monitor {name} {found['sustained'][name]}")
        end(ground, [recorder])
    ground.close()
    return found


def usage(session: Session) -> dict:
    """Milliseconds of reports on many calls of 30 days, in the process that has the counts."""
    program = session.workshop.weir.parent / "examples" / "usage"
    if not program.exists():
        raise RuntimeError(f"{program} is missing: cargo build --release -p weir-monitor "
                           "--example usage")
    folder = session.workshop.new_folder("usage")
    return {"reports": _reports(session, program, folder)}


def _reports(session: Session, program: Path, folder: Path) -> list[dict]:
    done = subprocess.run([str(program), str(folder / "data"), str(CALLS)], capture_output=True,
                          text=True, timeout=600, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    session.say(f"monitor-usage {found}")
    return [line for line in found if "report" in line]
