"""What TLS costs between hosts, and what a listener on the wire sees."""
import argparse
import statistics

from hosts import CONTROL, TOKEN, Capture, Hosts, Launch, inside, run_in_private_namespaces
from schemes import JOB, SCHEMES

RATE = "1gbit"
BAR = 1.05
ONES = b"\x00\x00\x80\x3f" * 16  # of a norm's weights in fp32 as a run begins


def tls(words):
    """Step time of dense fp32 sums at 1 Gbit/s between two hosts with and without TLS, in alternation."""
    parser = argparse.ArgumentParser(prog="bench/network/run tls", description=tls.__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args(words)
    work = inside()
    if not work:
        return run_in_private_namespaces()
    times = {"tcp": [], "tls": []}
    with Hosts(2) as hosts:
        hosts.set_rate(RATE)
        for _ in range(options.rounds):
            for transport, found in times.items():
                run = Launch(hosts, JOB, SCHEMES[0].sets(2), options.steps + 2, work, transport)
                run.wait(600)
                found += run.step_ms()[2:]
    medians = {transport: statistics.median(found) for transport, found in times.items()}
    ratio = medians["tls"] / medians["tcp"]
    print(f"{RATE}, {SCHEMES[0].name}: TCP {medians['tcp']:.0f} ms, TLS 1.3 {medians['tls']:.0f} ms, {ratio:.3f} (bar {BAR})")
    return ratio > BAR


def is_tls(data):
    """Whether the bytes are records of TLS (RFC 8446, section 5.1), first one of a handshake; the last may be cut."""
    at = 0
    while at + 5 <= len(data):
        if data[at] not in ((20, 21, 22, 23) if at else (22,)) or data[at + 1] != 3:
            return False
        at += 5 + int.from_bytes(data[at + 3 : at + 5], "big")
    return at > 0


def sight(transport, work):
    """What a listener sees of ZeRO-3, which sends parameters: all connections that carry bytes, those of control among
    them."""
    with Hosts(2) as hosts:
        hosts.set_rate(RATE)
        capture = Capture(hosts, 0)
        sets = [one for one in SCHEMES[0].sets(2) if not one.startswith("parallel.zero")] + ["parallel.zero=3"]
        run = Launch(hosts, JOB, sets, 2, work, transport)
        run.wait(600)
        flows, dropped = capture.flows()
    print(f"{transport}: {len(flows)} flows, {sum(map(len, flows.values())) / 1e6:.1f} MB, {dropped} packets not captured")
    words = {"token": TOKEN.encode(), "weights": ONES, "job": b"global_batch", "key of the store": b"net/address"}
    seen = {word: [flow for flow, data in flows.items() if text in data] for word, text in words.items()}
    for word, where in seen.items():
        print(f"  {word}: in {len(where)} flows {' '.join(f'{a}:{p}>{b}:{q}' for a, p, b, q in where[:4])}")
    seen["connections without TLS"], seen["control connections"] = [], []
    for (source, port, target, to), data in sorted(flows.items(), key=lambda item: -len(item[1])):
        encrypted, control = is_tls(data), CONTROL in (port, to)
        if data:
            print(f"  {source}:{port} > {target}:{to} {len(data):>11,} bytes, {'TLS' if encrypted else 'clear'}"
                  f"{', control' if control else ''}")
        seen["control connections"] += [(source, port, target, to)] * (control and encrypted)
        if data and not encrypted:
            seen["connections without TLS"].append((source, port, target, to))
    return seen


def capture(words):
    """Searches all packets between two hosts, of data and control, for the token, parameters, the job and keys of the store:
    with TLS and, to see that parameters are found, without."""
    argparse.ArgumentParser(prog="bench/network/run capture", description=capture.__doc__).parse_args(words)
    work = inside()
    if not work:
        return run_in_private_namespaces()
    clear, hidden = sight("tcp", work), sight("tls", work)
    if not clear["weights"]:
        print("MISSED: without TLS no weights were found either, so the search proves nothing")
    control = clear.pop("control connections"), hidden.pop("control connections")
    if not all(control):
        print("MISSED: no control connection passed, so the search proves nothing about them")
    for word, where in hidden.items():
        if where:
            print(f"MISSED: with TLS, {word} can be read in {len(where)} flows")
    return not clear["weights"] or not all(control) or any(hidden.values())
