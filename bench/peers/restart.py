"""A rank of a data-parallel GPT that torchrun starts again, with PyTorch's asynchronous distributed checkpoints.

torchrun --nproc-per-node 4 --max-restarts 1000 restart.py --out DIR     # rank 0 prints "step N" after each
python3 restart.py --stall --size M                                       # prints what a checkpoint costs, as JSON
"""

import argparse
import json
import os
import shutil
import statistics
import time
from pathlib import Path

import no_libuv  # noqa: F401
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from gpt import GPT, SIZES, loss_of

EVERY = 10
CYCLES = 5
BETWEEN = 4  # steps


def batch(size, samples, step, rank):
    draw = torch.Generator().manual_seed(step * 1000 + rank)
    tokens = torch.randint(size.vocab, (samples, size.context + 1), generator=draw)
    return tokens[:, :-1], tokens[:, 1:]


def newest(out):
    steps = [int(path.parent.name) for path in out.glob("*/.metadata") if path.parent.name.isdigit()]
    return max(steps, default=0)


def state_of(model, optimizer):
    parameters, states = get_state_dict(model, optimizer)
    return {"model": parameters, "optimizer": states}


def step_of(model, optimizer, size, samples, step, rank):
    tokens, targets = batch(size, samples, step, rank)
    optimizer.zero_grad()
    loss_of(model(tokens), targets).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def train(size, out):
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(GPT(size, "math"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    apart = dist.new_group(backend="gloo")
    step = newest(out)
    if step > 0:
        state = state_of(model, optimizer)
        dcp.load(state, checkpoint_id=out / str(step))
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    saving = None
    while True:
        step_of(model, optimizer, size, max(1, size.batch // ranks), step, rank)
        step += 1
        if rank == 0:
            print(f"step {step}", flush=True)
        if step % EVERY == 0:
            if saving is not None:
                saving.result()
                if rank == 0 and step > 2 * EVERY:
                    shutil.rmtree(out / str(step - 3 * EVERY), ignore_errors=True)
            saving = dcp.async_save(state_of(model, optimizer), checkpoint_id=out / str(step), process_group=apart)


def stall(size, out):
    """Seconds of a step beside which nothing is written, for which training stands still at a checkpoint, and that a
    checkpoint takes from training in all, with what steps beside which it is written take longer."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29631")
    dist.init_process_group("gloo", rank=0, world_size=1)
    torch.manual_seed(1)
    model = GPT(size, "math")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def timed(step):
        begin = time.perf_counter()
        step_of(model, optimizer, size, size.batch, step, 0)
        return time.perf_counter() - begin

    timed(0)
    alone, standing, beside = [timed(1), timed(2)], [], []
    for cycle in range(CYCLES):
        begin = time.perf_counter()
        saving = dcp.async_save(state_of(model, optimizer), checkpoint_id=out / str(cycle))
        standing.append(time.perf_counter() - begin)
        beside.append([])
        for step in range(BETWEEN):
            (alone if saving.done() else beside[-1]).append(timed(3 + BETWEEN * cycle + step))
        saving.result()
        shutil.rmtree(out / str(cycle), ignore_errors=True)
    step_s = statistics.median(alone)
    more = [still + sum(took - step_s for took in steps) for still, steps in zip(standing, beside)]
    print(json.dumps({"step_s": step_s, "standing_s": standing, "more_s": more}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--out", type=Path, default=Path("/tmp/dcp"))
    parser.add_argument("--stall", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (stall if arguments.stall else train)(SIZES[arguments.size], arguments.out)


main()
