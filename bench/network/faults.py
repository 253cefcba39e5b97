"""Faults of training between hosts.

    cable      two ranks; the cable of one is pulled for 30 s in a transfer. Losses must be those of a run without faults
    islands    three islands and a leader on a fourth host. Island 1 is killed while it sends and started again, its cable is
               pulled for 30 s, and island 2 is stopped half of the time. Island 0 has a core of its own: it must lose no step,
               and no more than 3 % of its speed; island 2 does fewer steps of a round and is at most two rounds late. Then the
               tape is trained again
"""
import argparse
import json
import signal
import threading
import time

from hosts import ROOT, TRIREME, Hosts, Islands, Launch, call, inside, run_in_private_namespaces, steps_of
from nat import PULLED_S, SETS

JOB = "recipes/gpt_tiny.yaml"
CABLE = {"rate": "10mbit", "steps": 12}
# A step of 0.1 to 0.2 s, so that a merge passes within the delay.
EVERY = 20
ISLANDS = [f"network.outer=every:{EVERY},codec:f4,back:q8,delay:4", "model.hidden=256", "model.seq_len=128", "run.log_every=1",
           "run.eval_every=-1", "checkpoint.every=20", "precision.compute=fp32"]
LEADER, RATE = 3, "100mbit"
SPEED_BAR, MOST_LATE = 0.97, 2  # of the speed; rounds
STEPS = 5000  # of a run, which is ended sooner
SLICE_S = 0.05  # that island 2 runs, and is stopped


def wait_until_it_sends(hosts, host, bytes_):
    """Until more than `bytes_` have left since the last quiet fiftieth of a second."""
    quiet = before = hosts.sent_by(host)
    while before - quiet < bytes_:
        time.sleep(0.02)
        now = hosts.sent_by(host)
        quiet, before = (now, now) if now - before < 1000 else (quiet, now)


def cable(work, _):
    found = []
    for pulls in (False, True):
        with Hosts(2) as hosts:
            hosts.set_rate(CABLE["rate"])
            run = Launch(hosts, JOB, SETS, CABLE["steps"], work, more=["--lost-after", 2 * PULLED_S])
            if pulls:
                run.wait_for_step(3)
                wait_until_it_sends(hosts, 1, 65536)
                hosts.pull(1, PULLED_S)
            run.wait(600)
        found.append(run.losses())
    equal = found[0] == found[1] and len(found[0]) == CABLE["steps"]
    print(f"cable: pulled for {PULLED_S} s in a transfer: {run.restarts()} restarts, longest step {max(run.step_ms()) / 1e3:.1f} s; "
          f"losses of an undisturbed run: {'equal' if equal else 'DIFFER'}", flush=True)
    return not equal or run.restarts() > 0


def at_half_speed(island, until):
    while not until.is_set():
        for one in (signal.SIGSTOP, signal.SIGCONT):
            island.signal(one)
            time.sleep(SLICE_S)


def entries(tape):
    return [json.loads(line) for line in (tape / "tape.jsonl").read_text().splitlines()]


def steps_until_back(tape, island):
    """Steps that the island does from its second start until a merge holds its work."""
    join = [entry for entry in tape if entry["kind"] == "join" and entry["island"] == island][1]
    own = [one["step"] for entry in tape if entry["kind"] == "merge" for one in entry["from"]
           if one["island"] == island and one["run"] == join["run"]]
    return own[0] - join["step"] if own else STEPS


def rounds_without(tape, island, first, last):
    """Most rounds, one after another, that an island is not in while island 0 trains these steps."""
    late = most = 0
    for merge in tape:
        steps = {one["island"]: one["step"] for one in merge.get("from", [])}
        if first < steps.get(0, 0) <= last:
            late = 0 if island in steps else late + 1
            most = max(most, late)
    return most


def islands(work, phase):
    with Hosts(4) as hosts:
        hosts.set_rate(RATE)
        run = Islands(hosts, work, JOB, ISLANDS, STEPS, LEADER, (0, 1, 2), leads=["--absent", 60])
        first, killed, slow = run.islands
        run.wait_for(0, phase)
        wait_until_it_sends(hosts, 1, 65536)
        killed.signal(signal.SIGKILL)
        killed.process.wait()
        killed_at = killed.step()
        print(f"island 1 killed at step {killed_at}, island 0 at {first.step()}", flush=True)
        killed.start()
        run.wait_for(1, killed_at + 40)
        pulled_at = first.step()
        hosts.pull(1, PULLED_S)
        print(f"island 1 without its cable from step {pulled_at} to {first.step()} of island 0", flush=True)
        again = killed.step()
        run.wait_for(1, again + 40)
        begin = first.step()
        run.wait_for(0, begin + phase)
        ended = threading.Event()
        half = first.step()
        slowing = threading.Thread(target=at_half_speed, args=(slow, ended))
        slowing.start()
        run.wait_for(0, half + phase)
        ended.set()
        slowing.join()
        run.end()
    tape = entries(run.tape)
    back = steps_until_back(tape, 1)
    copies = [(island.out / "islands" / "tape.jsonl").read_text().splitlines() for island in run.islands]
    lines = (run.tape / "tape.jsonl").read_text().splitlines()
    same = all(copy == lines[: len(copy)] for copy in copies)
    numbers = [line["step"] for line in steps_of(first.out)]
    lost = len(numbers) - len(set(numbers)) + (max(numbers) - len(set(numbers)))
    pauses = first.pauses()

    def speed(from_, to):
        return (to - from_) / sum(pauses[from_ - 1 : to - 1])

    quiet, beside = speed(begin, begin + phase), speed(half, half + phase)
    pulled = speed(pulled_at, again) if again > pulled_at else 0
    late = rounds_without(tape, 2, half, half + phase)
    print(f"islands: island 0 did {max(numbers)} steps, {lost} lost or repeated; {beside / quiet:.1%} of its speed "
          f"({beside:.2f} of {quiet:.2f} steps/s) next to an island at half speed, longest pause of all {max(pauses):.1f} s; the "
          f"slow one is at most {late} rounds late\n"
          f"islands: work of the killed one was merged {back} steps after its second start; copies of the tape: "
          f"{'equal' if same else 'DIFFER'}; "
          f"{len(tape)} entries; next to the pulled one {pulled:.2f} steps/s", flush=True)
    print(call(TRIREME, "replay", run.tape, "--out", work / "again", cwd=ROOT))
    return lost > 0 or beside / quiet < SPEED_BAR or back > EVERY or late > MOST_LATE or not same


CASES = {"cable": cable, "islands": islands}


def main(words):
    parser = argparse.ArgumentParser(prog="bench/network/run faults", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="default: all")
    parser.add_argument("--phase", type=int, default=120, help="steps of island 0 in each phase")
    options = parser.parse_args(words)
    work = inside()
    if not work:
        return run_in_private_namespaces()
    return any([case(work, options.phase) for name, case in CASES.items() if name in (options.cases or CASES)])
