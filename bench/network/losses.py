"""Loss under each codec of gradient sums and with merged islands: a GPT trained from the same seeds, compared with sums
that travel as they are.

    ./dev bench network losses [--steps 500] [--seeds 3] [--text FILE] [--recipe recipes/gpt_s.yaml] [--set KEY=VALUE] [CODEC[/BACK][+GATHER] | islands:N,.. ..]

The default is a GPT with 0.8 million parameters on the C++ headers of this machine, two senders. A run computes both
senders on one core, which gives the bits of two ranks; islands are ranks as threads. With +GATHER, blocks compute with
parameters in that codec: q4+q8 is ZeRO++. Bytes a step are those of a rank of two, with +GATHER under ZeRO-3 whose ranks
have a host each. Exit code 1 if the mean
over seeds of a row's validation loss exceeds its bar; with fewer than 500 steps bars are printed only.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from hosts import ROOT, TRIREME

STEPS = 500  # from which on bars are held
SMALL = """model: {family: gpt, layers: 4, hidden: 128, heads: 4, seq_len: 128}
optim: {lr: 1e-3, min_lr: 1e-4, warmup_steps: 50, betas: [0.9, 0.99]}
run: {global_batch: 8, micro_batch: 4}
"""
BARS = {"bf16": 0.1, "q8": 0.1, "q8/q8": 0.1, "q4:bf16": 0.3, "q4:fp32": 0.3, "q4:bf16/q8": 0.3, "lowrank:4": 1.0,
        "none+q8": 0.1, "q8+q8": 0.1, "q4+q8": 0.3, "q4:bf16+q8": 0.3,
        "islands:2,every:30": 1.5, "islands:2,every:30,fragments:4,delay:3": 1.5}  # percent
REPORTED = ["q4", "q4:stochastic", "f4", "topk:0.01:16:fp32", "sign:fp32", "randk:0.1:32"]


def merges(row):
    return row.startswith("islands:")


def sets_of(row):
    if merges(row):
        return [f"network.outer={row}"]
    codec, _, gather = row.partition("+")
    return ([f"network.gather={gather}"] if gather else []) + (
        [f"network.codec={codec}", "network.senders=2"] if codec != "none" else [])


def call(*words):
    done = subprocess.run([TRIREME, *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"trireme {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr}")


def loss_of(job, row, seed, options, out):
    sets = options.set + sets_of(row) + [f"run.seed={seed}", f"data.seed={seed}", f"run.steps={options.steps}", "checkpoint.every=0",
                           f"run.log_every={options.steps}", f"run.eval_every={options.steps}", "run.eval_batches=64"]
    if options.text:
        sets.append(f"data.path={pathlib.Path(options.text).resolve()}")
    ranks = row.partition(",")[0].removeprefix("islands:") if merges(row) else 1
    call("train", job, "--ranks", ranks, "--quiet", "--no-calibrate", "--out", out, "--set", *sets)
    lines = [json.loads(line) for line in open(out / "metrics.jsonl", encoding="utf8")]
    loss = [line["val_loss"] for line in lines if "val_loss" in line][-1]
    print(f"{row}, seed {seed}: {loss:.6f}", flush=True)
    return loss


def bytes_of(job, row, options, out):
    sets = options.set + (sets_of(row) or ["network.codec=none"])
    if "+" in row:  # one micro-batch a rank, whose first gather each rank keeps
        sets = [one.replace("gather=q8", "gather=q8:1") for one in sets] + ["parallel.zero=3"]
    call("explain", job, "--ranks", 2, "--json", out, "--set", *sets)
    plan = json.loads(out.read_text())
    if merges(row):
        return plan["islands"]["sent_bytes"] / plan["islands"]["steps"]
    return plan["forecast"]["sent_bytes"]


def main(words):
    parser = argparse.ArgumentParser(prog="bench/network/run losses", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--text")
    parser.add_argument("--recipe")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the job; may be repeated")
    parser.add_argument("rows", nargs="*", metavar="ROW", default=[*BARS, *REPORTED])
    options = parser.parse_args(words)
    rows = ["none"] + options.rows
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        job = pathlib.Path(options.recipe).resolve() if options.recipe else work / "job.yaml"
        if not options.recipe:
            job.write_text(SMALL)
        sent = {row: bytes_of(job, row, options, work / "plan.json") for row in rows}
        pairs = [(row, seed) for seed in range(1, options.seeds + 1) for row in rows]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            runs = [pool.submit(loss_of, job, row, seed, options, work / f"run-{i}") for i, (row, seed) in enumerate(pairs)]
            losses = {pair: run.result() for pair, run in zip(pairs, runs)}
    exact = [losses["none", seed] for seed in range(1, options.seeds + 1)]
    print(f"{options.steps} steps, {options.seeds} seeds; change: mean over seeds, and its standard error")
    print("| codec/back+gather | bytes a step | share | validation loss | change | bar |\n|---|---|---|---|---|---|")
    missed = False
    for row in rows:
        own = [losses[row, seed] for seed in range(1, options.seeds + 1)]
        changes = [100 * (a / b - 1) for a, b in zip(own, exact)]
        change = statistics.mean(changes)
        error = statistics.stdev(changes) / len(changes) ** 0.5 if len(changes) > 1 else 0
        over = change > BARS.get(row, float("inf"))
        missed |= over
        text = "-" if row == "none" else f"{change:+.2f} ± {error:.2f} %"
        bar = f"{BARS[row]} %" if row in BARS else "-"
        print(f"| {row} | {sent[row]:,.0f} | {sent[row] / sent['none']:.3f} | {statistics.mean(own):.4f} | {text} | "
              f"{bar}{', MISSED' if over else ''} |")
    return missed and options.steps >= STEPS
