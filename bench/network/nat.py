"""Hosts with masqueraded addresses, next to open ones, on links of 10 Mbit/s. Losses must be those of open hosts in each case:

    ranks      four ranks. Hosts 1 and 2 can only dial out and meet at a relay on a fifth host; the others connect directly.
               The cable of host 1 is pulled for 30 s
    shared     the same with hosts 1 and 2 at one router: one address, different ports
    islands    two islands at one router and their leader on an open host; the router's cable is pulled for 30 s
"""
import argparse
import json

from hosts import ROOT, TRIREME, Hosts, Islands, Launch, call, inside, run_in_private_namespaces, secret_file

JOB = "recipes/gpt_tiny.yaml"
SETS = ["model.hidden=256", "run.log_every=1", "run.eval_every=-1", "checkpoint.every=0", "precision.compute=fp32",
        "parallel.zero=0", "run.micro_batch=2"]
RATE, STEPS, RANKS, RELAY, PORT = "10mbit", 12, 4, 4, 29600
PULLED_S = 30
RELAYED = 1.15  # bytes that leave the relay, of those that the two ranks send each other: headers, and what is sent twice
ISLAND_STEPS = 120
LEADER = 0


def ranks(name, work, behind):
    with Hosts(RANKS) as hosts:
        hosts.set_rate(RATE)
        run = Launch(hosts, JOB, SETS, STEPS, work)
        run.wait(600)
        expected = run.losses()
    call(TRIREME, "explain", JOB, "--nproc", RANKS, "--json", work / "plan.json", "--set", *SETS, cwd=ROOT)
    # A rank sends each of the others as much.
    between = 2 * json.loads((work / "plan.json").read_text())["forecast"]["sent_bytes"] / (RANKS - 1) * STEPS
    with Hosts(RANKS + 1, behind=behind) as hosts:
        hosts.set_rate(RATE)
        key = secret_file(work, "relay.key")
        relay = hosts.start(RELAY, TRIREME, "relay", "--listen", f"{hosts.address(RELAY)}:{PORT}", "--key-file", key, cwd=ROOT)
        more = ["--relay", f"{hosts.address(RELAY)}:{PORT}", "--relay-key-file", key, "--lost-after", 2 * PULLED_S]
        before = hosts.sent_by(RELAY)
        run = Launch(hosts, JOB, SETS, STEPS, work, more=more, ranks=RANKS,
                     own=lambda host: ["--dial-only"] if host in behind else [])
        run.wait_for_step(3)
        hosts.pull(min(behind), PULLED_S)
        run.wait(600)
        relayed = hosts.sent_by(RELAY) - before
        relay.terminate()
        relay.wait()
    equal = run.losses() == expected and len(expected) == STEPS
    print(f"{name}: {STEPS} steps; the relay sent {relayed / 1e6:.1f} MB, {relayed / between:.3f} of what the two ranks send each "
          f"other (bars 1 and {RELAYED}); a cable pulled for {PULLED_S} s: {run.restarts()} restarts, longest step "
          f"{max(run.step_ms()) / 1e3:.1f} s; losses of open hosts: {'equal' if equal else 'DIFFER'}", flush=True)
    if run.restarts():
        print("\n".join(run.troubles()), flush=True)
    return not equal or run.restarts() > 0 or not 1 <= relayed / between <= RELAYED


def islands(name, work, behind):
    found = []
    for routers in ({}, behind):
        folder = work / f"islands{len(found)}"
        folder.mkdir()
        with Hosts(3, behind=routers) as hosts:
            hosts.set_rate(RATE)
            # With this quorum every merge holds both islands, however late one is.
            run = Islands(hosts, folder, JOB, SETS + ["network.outer=every:20,codec:f4,back:q8"], ISLAND_STEPS, LEADER, (1, 2),
                          leads=["--quorum", 2, "--absent", 300])
            if routers:
                run.wait_for(0, 30)
                hosts.pull(1, PULLED_S)
            run.wait(600)
        found.append([island.losses() for island in run.islands])
    equal = found[0] == found[1] and all(len(losses) == ISLAND_STEPS for losses in found[0])
    longest = max(line for island in run.islands for line in island.pauses())
    print(f"{name}: {ISLAND_STEPS} steps of each; a cable pulled for {PULLED_S} s, longest pause {longest:.1f} s; losses of open "
          f"hosts: {'equal' if equal else 'DIFFER'}", flush=True)
    return not equal


CASES = {"ranks": (ranks, {1: 1, 2: 2}), "shared": (ranks, {1: 1, 2: 1}), "islands": (islands, {1: 1, 2: 1})}


def main(words):
    parser = argparse.ArgumentParser(prog="bench/network/run nat", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="default: all")
    options = parser.parse_args(words)
    work = inside()
    if not work:
        return run_in_private_namespaces()
    return any([case(name, work, behind) for name, (case, behind) in CASES.items() if name in (options.cases or CASES)])
