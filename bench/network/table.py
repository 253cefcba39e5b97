"""Tokens/s of GPT-S in fp32 between emulated hosts of one rank each, by rate of the links and by scheme of communication; PyTorch
2.6's DDP with its hooks on the same links; the simulator's forecast; bytes by formula, by plan and by interface counter.

    ./dev bench network table [--hosts 2 4] [--rates 10mbit 100mbit 1gbit] [--schemes 'q8' 'Streaming' ..] [--rows FILE]
    ./dev bench network table --hosts 2 --rates 100mbit --delay 50 --loss 0.01 --congestion bbr reno

Rows are appended to FILE as they are measured; the table has all rows of FILE, so that it can be made in parts.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import re
import statistics
import subprocess

from hosts import ROOT, TRIREME, Hosts, Launch, bits, call, inside, measure_links, run_in_private_namespaces, slowest
from schemes import ALONE, JOB, PEERS, SCHEMES, TOKENS

PAYLOAD = 1448 / 1514  # data in a packet on the wire
MEASURED_S = 20  # at least, where a burst passes without limit
BAR = {"forecast": 0.15, "q4": 6.5, "streaming": 0.9, "headers": 1.075, "header_bytes": 64e3}


# ---- forecasts ----------------------------------------------------------------------------------------

def slower(node, factor):
    """Constants of a core on which everything takes `factor` times as long."""
    for key, value in node.items():
        if isinstance(value, dict):
            slower(value, factor)
        elif key.endswith("rate") or key == "attention":
            node[key] = value / factor
        elif key.endswith("_s") or key in ("left", "right", "result"):
            node[key] = value * factor


def plan_of(scheme, hosts, work, cores, bytes_s=1e15, latency_s=1e-4, factor=1.0):
    """`trireme explain` of a scheme on links of that rate (without one, of sums that take no time), and the scheme with the
    delay that the forecast has found for it."""
    cores = json.loads(json.dumps(cores))
    slower(cores["core"], factor)
    # Ranks are on hosts of their own: what they send does not slow the others' cores.
    cores["core"]["crowding"] = 1
    cores["cores"] = max(cores["cores"], hosts)
    cores["tiers"] = dict.fromkeys(cores["tiers"], {"rate": bytes_s, "latency_s": latency_s, "efficiency": 1})
    (work / "cluster.json").write_text(json.dumps(cores))
    text = call(TRIREME, "explain", JOB, "--nproc", hosts, "--cluster", work / "cluster.json", "--json", work / "plan.json", "--set",
         *scheme.sets(hosts), cwd=ROOT)
    found = re.search(r"network\.outer (delay:\d+)", text)
    if found:
        scheme = dataclasses.replace(scheme, key=f"{scheme.key},{found.group(1)}")
    return json.loads((work / "plan.json").read_text()), scheme


def seconds_of(plan):
    """Forecast of a step, with the step's share of a round, and bytes of a step or a round."""
    round_ = plan.get("islands")
    if not round_:
        return plan["forecast"]["step_s"], plan["forecast"]["sent_bytes"]
    return plan["forecast"]["step_s"] + round_["merging_s"] / round_["steps"], round_["sent_bytes"]


# ---- measurements -------------------------------------------------------------------------------------

def timed_steps(scheme, expected_s):
    """Steps of a run, and which of them count: of islands one whole round after the first."""
    if scheme.every:
        return (2 * scheme.every + 6, scheme.every, 2 * scheme.every) if scheme is not ALONE else (12, 3, 11)
    counted = min(12, max(2 if expected_s > MEASURED_S else 3, math.ceil(MEASURED_S / expected_s)))
    return counted + 1, 1, counted + 1


def ours(hosts, scheme, work, expected_s):
    steps, begin, end = timed_steps(scheme, expected_s)
    before = hosts.sent_by(0)
    run = Launch(hosts, JOB, scheme.sets(hosts.count), steps, work)
    run.wait(120 + 8 * steps * (expected_s + 1))
    times = run.step_ms()[begin:end]
    ms = statistics.mean(times) if scheme.every else statistics.median(times)
    return {"step_s": ms / 1e3, "sent": (hosts.sent_by(0) - before) / steps, "steps": steps}


def theirs(hosts, hook, root, expected_s):
    """PyTorch's DDP, whose PowerSGD begins after two steps."""
    steps, warmup = max(2, min(8, math.ceil(MEASURED_S / expected_s))), 3 if hook.startswith("powersgd") else 1
    library = next((root / "usr/lib").glob("*/openblas-pthread")).relative_to(root)
    processes = []
    before = hosts.sent_by(0)
    for i in range(hosts.count):
        command = ["env", f"LD_LIBRARY_PATH=/{library}", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "python3", "-W",
                   "ignore", "/root/peers/train.py", "--threads", 1, "--mode", "ddp", "--dtype", "fp32", "--ranks",
                   hosts.count, "--rank", i, "--master", hosts.address(0), "--interface", "wire", "--steps", steps,
                   "--warmup", warmup] + ([] if hook == "ddp" else ["--hook", hook])
        processes.append(hosts.start(i, "bash", "-c", '. tools/rootfs.sh; inside "$@"', "peers", root, *command, cwd=ROOT,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    texts = [process.communicate(timeout=1800) for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("PyTorch: " + " ".join(errors[-600:] for _, errors in texts))
    result = json.loads([line for line in texts[0][0].splitlines() if line.startswith("{")][-1])
    return {"step_s": result["step_ms"] / 1e3, "sent": (hosts.sent_by(0) - before) / (steps + warmup), "steps": steps}


def measure(options, work, rows):
    cores = json.loads(options.cores.read_text())
    chosen = [scheme for scheme in SCHEMES if not options.schemes or scheme.name in options.schemes]
    run = chosen if options.trireme else []
    peers = [hook for hook in PEERS if options.peers and (not options.schemes or any(s.anchor == hook for s in chosen))]
    far = (options.delay, options.loss, options.seed) if options.delay or options.loss else None
    latency_s = options.delay / 1e3 if far else 1e-4

    def add(**row):
        rows.append(row)
        print(json.dumps(row), flush=True)
        if options.rows:
            with options.rows.open("a", encoding="utf8") as file:
                print(json.dumps(row), file=file)

    for count in options.hosts:
        with Hosts(count, far=far) as hosts:
            if far:
                print("the path: round trip {:.1f} ms, {:.1%} of echoes lost".format(*hosts.check()), flush=True)
            hosts.set_rate("10gbit")
            alone = ours(hosts, ALONE, work, 1)["step_s"]
            factor = alone / seconds_of(plan_of(ALONE, count, work, cores)[0])[0]
            add(kind="alone", hosts=count, step_s=alone, factor=factor)
            for congestion in options.congestion:
                hosts.set_congestion(congestion)
                for rate in options.rates:
                    hosts.set_rate(rate)
                    at = {"hosts": count, "rate": rate, "congestion": congestion, "far": far, "alone_s": alone}
                    # What streams get where packets are lost is known by measurement only.
                    bytes_s = slowest(measure_links(hosts, work)) if far else bits(rate) / 8 * PAYLOAD
                    for scheme in run:
                        try:
                            plan, scheme = plan_of(scheme, count, work, cores, bytes_s, latency_s, factor)
                        except RuntimeError as error:  # a key that this build does not have
                            add(kind="refused", name=scheme.name, why=str(error).strip().splitlines()[-1], **at)
                            continue
                        expected, planned = seconds_of(plan)
                        add(kind="trireme", name=scheme.name, key=scheme.key, every=scheme.every, forecast_s=expected, planned=planned,
                            formula=scheme.formula(count), anchor=scheme.anchor, **at,
                            **ours(hosts, scheme, work, expected))
                    for hook in peers:
                        expected = alone + (43.4e6 if hook == "ddp" else 21.7e6) * 8 / bits(rate)
                        add(kind="pytorch", name=f"PyTorch {hook}", **at, **theirs(hosts, hook, options.root, expected))


# ---- the table ----------------------------------------------------------------------------------------

def place(row):
    return row["hosts"], row["rate"], row["congestion"], tuple(row["far"] or ())


def anchor_of(row, at):
    return at.get(f"PyTorch {row['anchor']}")


def judge(row, at):
    """What misses its bar in a row, given the rows at its place."""
    speed = 1 / row["step_s"]
    missed = []
    if row["formula"] and row["formula"] != row["planned"]:
        missed.append(f"plan has {row['planned']:,.0f} bytes, formula {row['formula']:,.0f}")
    if not row["every"] and row["sent"] > BAR["headers"] * row["planned"] + BAR["header_bytes"]:
        missed.append("bytes of the interface")
    if not row["far"] and abs(row["step_s"] / row["forecast_s"] - 1) > BAR["forecast"]:
        missed.append("forecast")
    anchor = anchor_of(row, at)
    if anchor and speed * anchor["step_s"] < 1:
        missed.append("PyTorch")
    dense = at.get("dense fp32")
    if dense and row["rate"] == "10mbit" and row["name"] == "q4, residual" and dense["step_s"] * speed < BAR["q4"]:
        missed.append(f"{BAR['q4']} times dense")
    if dense and row["rate"] == "1gbit" and dense["step_s"] * speed < 0.95:
        missed.append("slower than dense")
    if row["name"] == "Streaming" and (row["rate"] == "10mbit" or row["far"]) and row["alone_s"] * speed < BAR["streaming"]:
        missed.append("90 % of no network")
    return missed


def show(rows):
    """Prints the newest row of each place and scheme; returns whether a bar was missed."""
    places = {}
    for row in rows:
        if row["kind"] != "alone":
            places.setdefault(place(row), {})[row["name"]] = row
    any_missed = False
    print("| hosts, rate | scheme | MB a step: plan | interface | s/step | tokens/s | forecast | PyTorch | of no exchange | missed |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (hosts, rate, congestion, far), at in sorted(places.items()):
        where = f"{hosts}, {rate}" + (f", {2 * far[0]:g} ms, {far[1]:.0%} lost, {congestion}" if far else "")
        for row in at.values():
            if row["kind"] == "refused":
                print(f"| {where} | {row['name']} | not measured: {row['why']} |")
            if row["kind"] == "pytorch":
                print(f"| {where} | {row['name']} | | {row['sent'] / 1e6:.2f} | {row['step_s']:.2f} | "
                      f"{TOKENS / row['step_s']:,.0f} | | | {row['alone_s'] / row['step_s']:.0%} | |")
            if row["kind"] != "trireme":
                continue
            missed = judge(row, at)
            any_missed |= bool(missed)
            planned = row["planned"] / (row["every"] or 1) / 1e6
            anchor = anchor_of(row, at)
            print(f"| {where} | {row['name']} | {planned:.2f} | {row['sent'] / 1e6:.2f} | {row['step_s']:.2f} | "
                  f"{TOKENS / row['step_s']:,.0f} | {row['step_s'] / row['forecast_s']:.2f} | "
                  f"{'' if not anchor else format(anchor['step_s'] / row['step_s'], '.2f')} | "
                  f"{row['alone_s'] / row['step_s']:.0%} | {'; '.join(missed)} |")
    return any_missed


def main(words):
    parser = argparse.ArgumentParser(prog="bench/network/run table", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rates", nargs="+", default=["10mbit", "100mbit", "1gbit"])
    parser.add_argument("--schemes", nargs="+", choices=[scheme.name for scheme in SCHEMES], default=[])
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without PyTorch")
    parser.add_argument("--only-peers", dest="trireme", action="store_false", help="PyTorch alone")
    parser.add_argument("--congestion", nargs="+", default=["bbr"])
    parser.add_argument("--delay", type=float, default=0, help="milliseconds, one way")
    parser.add_argument("--loss", type=float, default=0, help="share of packets, one way")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=pathlib.Path, help="file of measured rows, which grows")
    parser.add_argument("--cores", type=pathlib.Path, help="constants of trireme bench calibrate; default: measures them")
    parser.add_argument("--show", action="store_true", help="prints the table of --rows without measuring")
    options = parser.parse_args(words)
    rows = [json.loads(line) for line in options.rows.open(encoding="utf8")] if options.rows and options.rows.exists() else []
    if options.show:
        return show(rows)
    work = inside()
    if not work:
        if options.peers:
            call("bash", "-c", 'die() { echo "$*" >&2; exit 1; }; . tools/rootfs.sh; need_peers; cp bench/peers/*.py '
                 '"$root/root/peers"', cwd=ROOT)
        return run_in_private_namespaces()
    options.root = pathlib.Path(call("bash", "-c", '. tools/rootfs.sh; echo "$rootfs/trixie"', cwd=ROOT).strip())
    if not options.cores:
        options.cores = work / "cores.json"
        call(TRIREME, "bench", "calibrate", "--out", options.cores)
    measure(options, work, rows)
    return show(rows)
