"""Compares the pick of `trireme plan --links` with measured rows of the table, on each link that they have.

    ./dev bench network table --rows rows.jsonl ..
    ./dev bench network pick --rows rows.jsonl [--cores cores.json]

On each link two questions are asked: with every measured scheme allowed, and with none, where the pick must be exact. The first
pick must be at most 5 % slower than the best measured row, and ways of which no row was measured are not allowed.
"""
import argparse
import json
import pathlib
import tempfile

from hosts import ROOT, TRIREME, bits, call
from schemes import ALONE, JOB, SCHEMES, TOKENS
from table import PAYLOAD, plan_of, seconds_of, slower

BAR = 1.05
WAYS = {"dense": "dense fp32", "bf16": "bf16", "q8": "q8", "q4": "q4, q8 back", "q4_residual": "q4, residual",
        "diloco_30": "DiLoCo f4, q8 back", "streaming": "Streaming"}


def plan(count, rate, factor, cores, allow, work):
    """Ways of communication that the planner compares, on hosts of one core."""
    cores = json.loads(json.dumps(cores))
    slower(cores["core"], factor)
    cores["core"]["crowding"], cores["cores"] = 1, 1
    (work / "cores.json").write_text(json.dumps(cores))
    link = f"{{up: {bits(rate) / 1e6 * PAYLOAD:.3f}Mb/s, down: {bits(rate) / 1e6 * PAYLOAD:.3f}Mb/s, latency_s: 0.0001}}"
    (work / "links.yaml").write_text("hosts:\n" + "".join(f"  host{i}: {link}\n" for i in range(count)))
    sets = [one for one in SCHEMES[0].sets(count) if not one.startswith("network.")]
    call(TRIREME, "plan", JOB, "--cluster", work / "cores.json", "--links", work / "links.yaml", "--keep", "--json",
         work / "plan.json", *(["--allow", ",".join(allow)] if allow else []), "--set", *sets, cwd=ROOT)
    return json.loads((work / "plan.json").read_text())["communications"]


def places(rows):
    """Rows by place, the newest of each scheme."""
    found = {}
    for row in rows:
        if row["kind"] == "trireme" and not row["far"]:
            found.setdefault((row["hosts"], bits(row["rate"]), row["rate"]), {})[row["name"]] = row
    return sorted(found.items())


def main(words):
    parser = argparse.ArgumentParser(prog="bench/network/run pick", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=pathlib.Path, required=True, help="rows of ./dev bench network table")
    parser.add_argument("--cores", type=pathlib.Path, help="constants of trireme bench calibrate; default: measures them")
    options = parser.parse_args(words)
    rows = [json.loads(line) for line in options.rows.open(encoding="utf8")]
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        if not options.cores:
            options.cores = work / "measured.json"
            call(TRIREME, "bench", "calibrate", "--out", options.cores)
        cores = json.loads(options.cores.read_text())
        print("| hosts, rate | rows | pick | forecast | measured | best row | measured | pick/best | without leave |")
        print("|---|---|---|---|---|---|---|---|---|")
        for (count, _, rate), at in places(rows):
            allow = [way for way, name in WAYS.items() if name in at and way != "dense"]
            best = min((row for row in at.values() if row["name"] in WAYS.values()), key=lambda row: row["step_s"])
            # As slow as the cores were when the best row was measured.
            factor = best["alone_s"] / seconds_of(plan_of(ALONE, count, work, cores)[0])[0]
            chosen = next(way for way in plan(count, rate, factor, cores, allow, work) if way["chosen"])
            exact = next(way for way in plan(count, rate, factor, cores, [], work) if way["chosen"])
            row = at[WAYS[chosen["name"]]]
            ratio = row["step_s"] / best["step_s"]
            missed |= ratio > BAR or not exact["exact"]
            print(f"| {count}, {rate} | {len(at)} | {row['name']} | {TOKENS / chosen['step_s']:,.0f} | {TOKENS / row['step_s']:,.0f} | "
                  f"{best['name']} | {TOKENS / best['step_s']:,.0f} | {ratio:.2f}{', MISSED' if ratio > BAR else ''} | "
                  f"{exact['name']} |", flush=True)
    return missed
