"""Shares of owners by measured links: four hosts, one of them at 10 Mbit/s and three at 100."""
import argparse
import statistics

from hosts import ROOT, TRIREME, Hosts, Launch, inside, run_in_private_namespaces, secret_file
from schemes import JOB, SCHEMES

RATES = ["10mbit", "100mbit", "100mbit", "100mbit"]
BAR = 1.4


def measure_links(hosts, work):
    """`trireme links` on every host; the file that the first one writes."""
    files = [work / f"links.{i}.yaml" for i in range(hosts.count)]
    # The names that Launch gives.
    processes = [hosts.start(i, "env", f"TRIREME_HOST={i}", TRIREME, "links", "--nnodes", hosts.count, "--rdzv-endpoint", f"{hosts.address(0)}:29500",
                             "--node-rank", i, "--token-file", secret_file(work), "--seconds", 5, "--out", file, cwd=ROOT)
                 for i, file in enumerate(files)]
    if any(process.wait(300) for process in processes):
        raise RuntimeError("trireme links failed")
    print(files[0].read_text(), flush=True)
    return files[0]


def main(words):
    parser = argparse.ArgumentParser(prog="bench/network/run shares", description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args(words)
    work = inside()
    if not work:
        return run_in_private_namespaces()
    times = {"equal shares": [], "shares by links": []}
    with Hosts(4) as hosts:
        hosts.set_rate(RATES)
        links = measure_links(hosts, work)
        for name, found in times.items():
            more = ["--links", links] if name == "shares by links" else []
            run = Launch(hosts, JOB, SCHEMES[0].sets(4), options.steps, work, more=more)
            run.wait(1200)
            found += run.step_ms()[1:]
    equal, by_links = (statistics.median(found) / 1e3 for found in times.values())
    print(f"dense fp32: equal shares {equal:.1f} s a step, by links {by_links:.1f} s: {equal / by_links:.2f} (bar {BAR})")
    return equal / by_links < BAR
