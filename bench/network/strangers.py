"""A third host that is no part of the run, at every port on which two hosts listen: 2,000 connections with random bytes, with
nothing, with bytes of real connections sent again, and under TLS with another key. It comes and goes every eight steps; in
between it knocks as often at a listener of its own host, because its own work takes the cores of the two hosts too. Exit code 1 if
a loss differs from that of a run without it, or if steps take more than 5 % longer while it is at the ports of training.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import resource
import select
import socket
import statistics
import subprocess
import sys
import time

from hosts import Capture, Hosts, Launch, call, inside, run_in_private_namespaces, say, steps_of
from schemes import JOB

CONNECTIONS = 2000  # at least, in all
HELD, LATER = 200, 20  # open at a time, and those that have not sent yet
PERIOD = 8  # steps
OWN_PORT = 7007  # of the stranger's host
BAR = 1.05
SETS = ["parallel.zero=3", "run.global_batch=8", "run.micro_batch=4", "run.log_every=1", "run.eval_every=-1", "checkpoint.every=0"]


def stranger(recorded, *ports):
    """Knocks until standard input ends; prints how many connections it made, how many were answered with bytes, and the
    share of this machine's cores that it took itself, TLS programs included."""
    begun = time.monotonic()
    os.setsid()  # a group of the scheduler of its own, which takes from the ranks' cores what they leave
    pathlib.Path("/proc/self/autogroup").write_text("19")
    openings = [bytes.fromhex(text) for text in json.loads(pathlib.Path(recorded).read_text())]
    draw = random.Random(len(ports))
    held, made, answered = [], 0, 0
    while not select.select([sys.stdin], [], [], 0.005)[0]:
        host, port = draw.choice(ports).split(":")
        if made % 100 == 99:
            subprocess.run(["openssl", "s_client", "-connect", f"{host}:{port}", "-psk", "00" * 32, "-psk_identity", "stranger", "-tls1_3"],
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False)
        made += 1
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex((host, int(port)))
        held.append(one)
        if len(held) > LATER:  # connected by now, if it was accepted
            words = [draw.randbytes(draw.choice([1, 64, 4096])), b"", draw.choice(openings or [b"?"])][made % 3]
            with contextlib.suppress(OSError):
                held[-LATER].send(words)
        if len(held) > HELD:
            with contextlib.suppress(OSError):
                answered += bool(held[0].recv(1 << 16))
            held.pop(0).close()
    used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    say(json.dumps([made, answered, used / (time.monotonic() - begun) / os.cpu_count()]))


def listener(port):
    """Takes connections and what they send, until standard input ends."""
    server = socket.create_server(("0.0.0.0", int(port)), backlog=512)
    server.setblocking(False)
    taken = []
    while not select.select([sys.stdin, server], [], [], 1)[0].count(sys.stdin):
        with contextlib.suppress(OSError):
            taken.append(server.accept()[0])
            taken[-1].setblocking(False)
        if len(taken) > HELD:
            with contextlib.suppress(OSError):
                taken[0].recv(1 << 16)
            taken.pop(0).close()


def listening(hosts):
    ports = []
    for host in (0, 1):
        for line in call(*hosts.on(host), "ss", "-tlnH").splitlines():
            port = re.search(r":(\d+)\s", line).group(1)
            ports.append(f"{hosts.address(host)}:{port}")
    return sorted(set(ports))


def next_steps(run):
    """Median milliseconds of the next steps, but for the one under way."""
    first = len(steps_of(run.out)) + 2
    run.wait_for_step(first + PERIOD - 1)
    return statistics.median(line["step_ms"] for line in steps_of(run.out) if line["step"] >= first)


def knocked(hosts, work, steps):
    """Losses of a run in which the stranger comes and goes, times by which steps are longer than while it knocks elsewhere and
    than without it, its counts, and ports."""
    capture = Capture(hosts, 0)
    run = Launch(hosts, JOB, SETS, steps, work, ranks=2)
    run.wait_for_step(2)
    flows, _ = capture.flows()
    ports = listening(hosts)
    # What came to the port of a listener, or left for one, is what a stranger may have recorded.
    to_listeners = [data[:4096] for (source, _, target, port), data in flows.items() if f"{target}:{port}" in ports]
    recorded = work / "recorded.json"
    recorded.write_text(json.dumps([data.hex() for data in to_listeners if data]))
    elsewhere = f"{hosts.address(2)}:{OWN_PORT}"
    own = hosts.start(2, sys.executable, __file__, "listener", OWN_PORT, stdin=subprocess.PIPE)
    ratios, counts, others = [], [], []

    def while_at(*places):
        there = hosts.start(2, sys.executable, __file__, "stranger", recorded, *places, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
        time.sleep(0.2)
        taken_ms = next_steps(run)
        return taken_ms, json.loads(there.communicate("")[0])

    while all(process.poll() is None for process in run.processes):
        done = len(steps_of(run.out))
        if done >= steps - 3 * PERIOD - 3:
            break
        with_it, count = while_at(*ports)
        without = next_steps(run)
        counts.append(count)
        with_others, other = while_at(elsewhere)
        others.append(other[0])
        ratios.append((with_it / with_others, with_it / without))
    own.communicate(b"")
    run.wait(600)
    if not ratios:
        sys.exit(f"{steps} steps are too few for a turn of {3 * PERIOD + 3}; give --steps")
    return run.losses(), ratios, counts, sum(others), ports


def main(words):
    parser = argparse.ArgumentParser(prog="bench/network/run strangers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args(words)
    work = inside()
    if not work:
        return run_in_private_namespaces()
    with Hosts(3) as hosts:
        hosts.set_rate("1gbit")
        alone = Launch(hosts, JOB, SETS, options.steps, work, ranks=2)
        alone.wait(600)
        expected = alone.losses()
        losses, ratios, counts, others, ports = knocked(hosts, work, options.steps)
    slower, slower_in_all = (statistics.median(column) for column in zip(*ratios))
    made, answered, took = map(sum, zip(*counts))
    equal = losses == expected
    print(f"{len(ports)} ports, {made} connections and {others} elsewhere, {answered} of them answered with bytes; losses {'equal' if equal else 'DIFFER'}; "
          f"steps take {slower:.3f} times as long as while strangers knock elsewhere (bar {BAR}), in turns "
          f"{min(ratios)[0]:.2f} to {max(ratios)[0]:.2f}, and {slower_in_all:.3f} times as long as without them; strangers took "
          f"{took / len(counts):.1%} of the cores themselves")
    return not equal or slower > BAR or made < CONNECTIONS


if __name__ == "__main__" and sys.argv[1:2] == ["stranger"]:
    stranger(*sys.argv[2:])
if __name__ == "__main__" and sys.argv[1:2] == ["listener"]:
    listener(*sys.argv[2:])
