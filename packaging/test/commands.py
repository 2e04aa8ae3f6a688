"""Commands of the packaging tests: run, wait, skip."""

import subprocess
import time
import unittest

# Limit on each wait for something that happens by itself, in seconds: never the expected time.
PATIENCE = 120


def run(*command, check=True, **options):
    """A finished command with its output; standard error is part of it."""
    command = [str(part) for part in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    return done


def wait_for(condition, what):
    """The first true result of a condition."""
    end = time.monotonic() + PATIENCE
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {PATIENCE} s")
        time.sleep(0.05)
    return result


def skip(test, reason):
    """Skips a test whose tool or privilege is missing, and says so."""
    print(f"SKIPPED {test}: {reason}")
    raise unittest.SkipTest(reason)
