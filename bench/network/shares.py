"""Shares of owners by measured links: four hosts, one of them at 10 Mbit/s and three at 100."""
import argparse
import statistics

from hosts import Hosts, Launch, inside, measure_links, run_in_private_namespaces
from schemes import JOB, SCHEMES

RATES = ["10mbit", "100mbit", "100mbit", "100mbit"]
BAR = 1.4


def main(words):
    parser = argparse.ArgumentParser(prog="bench/network/run shares", description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--congestion", nargs="+", default=["reno", "bbr"])
    options = parser.parse_args(words)
    work = inside()
    if not work:
        return run_in_private_namespaces()
    missed = False
    with Hosts(4) as hosts:
        hosts.set_rate(RATES)
        for congestion in options.congestion:
            hosts.set_congestion(congestion)
            links = measure_links(hosts, work)
            seconds = []
            for more in ([], ["--links", links]):
                run = Launch(hosts, JOB, SCHEMES[0].sets(4), options.steps, work, more=more)
                run.wait(1200)
                seconds.append(statistics.median(run.step_ms()[1:]) / 1e3)
            equal, by_links = seconds
            print(f"dense fp32, {congestion}: equal shares {equal:.1f} s a step, by links {by_links:.1f} s: {equal / by_links:.2f} (bar {BAR})",
                  flush=True)
            missed |= equal / by_links < BAR
    return missed
