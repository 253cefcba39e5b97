"""Times training steps of a GPT in PyTorch on random tokens and prints one JSON line.

python3 train.py --size S --mode ddp --ranks 2 [--dtype bf16|fp32] [--as-installed] [--steps N] [--warmup N]
python3 train.py --mode ddp --hook powersgd:4 --ranks 2 --rank 0 --master 10.213.0.1 --interface wire     # on each host
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from gpt import GPT, SIZES, loss_of

MODES = ["single", "ddp", "fsdp2", "fsdp2_zero2", "tp", "gpipe", "1f1b"]
PORT = 29631  # of rank 0, where ranks have hosts of their own
LR, BETAS, DECAY, CLIP = 1e-3, (0.9, 0.95), 0.1, 1.0


def memory_mb(key):
    """VmRSS (now) or VmHWM (the peak) of this process in 10^6 bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key)) * 1024 / 1e6


def adamw(parameters, **how):
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": DECAY},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=LR, betas=BETAS, **how)


class Weights:
    """fp32 masters and fused AdamW behind the model's parameters of any type. `norm` makes a global norm of a local
    one where ranks hold different parameters."""

    def __init__(self, parameters, norm=None, **how):
        self.model = [p for p in parameters if p.requires_grad]
        self.apart = self.model[0].dtype != torch.float32
        self.masters = [p.detach().float().requires_grad_() for p in self.model] if self.apart else self.model
        self.optimizer, self.norm = adamw(self.masters, **how), norm

    def step(self):
        if self.apart:
            for master in self.masters:
                if master.grad is None:
                    master.grad = torch.empty_like(master)
            torch._foreach_copy_([m.grad for m in self.masters], [p.grad for p in self.model])
        if self.norm is None:
            nn.utils.clip_grad_norm_(self.masters, CLIP)
        else:
            grads = [m.grad for m in self.masters]
            total = self.norm(torch.stack(torch._foreach_norm(grads)).square().sum()).sqrt()
            torch._foreach_mul_(grads, (CLIP / (total + 1e-6)).clamp(max=1.0))
        self.optimizer.step()
        if self.apart:
            with torch.no_grad():
                torch._foreach_copy_(self.model, self.masters)
        for p in self.model:
            p.grad = None


def whole(args, size, rank, ranks):
    """One rank, or data parallel: DDP with bf16 weights and fp32 masters."""
    model = GPT(size, args.attention).to(args.type)
    weights = Weights(model.parameters(), fused=True)
    if args.mode == "ddp":
        # PowerSGD sums from callbacks, whose order differs between ranks where several buckets are under way.
        cap = {"bucket_cap_mb": 1000} if args.hook.startswith("powersgd") else {}
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True, **cap)
        hook(model, args.hook)
    return simple_step(model, weights)


def hook(model, text):
    """PyTorch's own compression of DDP's buckets: bf16 or powersgd:RANK."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    name, _, rank = text.partition(":")
    if name == "bf16":  # DDP refuses this hook by its name on CPUs, where it works
        model.register_comm_hook(None, lambda state, bucket: default_hooks.bf16_compress_hook(state, bucket))
    elif name == "powersgd":  # the hook needs two steps as they are
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=int(rank), start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif name:
        raise SystemExit(f"--hook {text}: needs bf16 or powersgd:RANK")


def simple_step(model, weights, context=contextlib.nullcontext):
    def step(tokens, targets):
        with context():
            loss = loss_of(model(tokens), targets)
        loss.backward()
        weights.step()
        return loss.item()

    return step


def installed(args, size, rank, ranks):
    """What a newcomer writes: fp32 weights, autocast, the defaults of everything."""
    model = GPT(size, "sdpa")
    if ranks > 1:
        model = nn.parallel.DistributedDataParallel(model)
    autocast = lambda: torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16")
    return simple_step(model, Weights(model.parameters()), autocast)


def sharded(args, size, rank, ranks):
    """FSDP2 over blocks; ZeRO-2 when parameters stay after the forward. Gloo gives sums where FSDP2 asks for means, which
    the clipping hides: the time is the same."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mend_fsdp2_on_cpu()
    model = GPT(size, args.attention)
    mesh = dist.device_mesh.init_device_mesh("cpu", (ranks,))
    how = {"mesh": mesh, "reshard_after_forward": args.mode == "fsdp2",
           "mp_policy": MixedPrecisionPolicy(param_dtype=args.type, reduce_dtype=args.type)}
    for block in model.blocks:
        fully_shard(block, **how)
    fully_shard(model, **how)
    return simple_step(model, Weights(model.parameters(), sum_over_ranks, fused=True))


def mend_fsdp2_on_cpu():
    """What FSDP2 of PyTorch 2.6 lacks on a CPU: two methods of the stand-in for a stream, where work is in order
    anyway, and a copy-out that leaves version counters alone, as CUDA's does, so that gathering parameters again for
    the backward is no in-place change."""
    torch.cpu.Stream.record_event = lambda stream, event=None: event or torch.cpu.Event()
    torch.cpu.Stream.wait_event = lambda stream, event: None

    def copy_out(gathered, sizes, dim, out):
        versions = [t._version for t in out]
        torch.split_with_sizes_copy(gathered, sizes, dim=dim, out=out)
        for t, version in zip(out, versions):
            torch._C._autograd._unsafe_set_version_counter(t, version)

    torch.ops.fsdp.split_with_sizes_copy = copy_out


class Together:
    """Operations that PyTorch's pipelines wait for as one. They keep only the last of them, which suits NCCL; Gloo's
    other messages are then lost."""

    def __init__(self, works):
        self.works = works

    def wait(self):
        for work in self.works:
            work.wait()


def sum_over_ranks(square):
    square = square.to_local() if hasattr(square, "to_local") else square
    dist.all_reduce(square)
    return square


def tensor_parallel(args, size, rank, ranks):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = GPT(size, args.attention).to(args.type)
    mesh = dist.device_mesh.init_device_mesh("cpu", (ranks,))
    for block in model.blocks:
        parallelize_module(block, mesh, {"c_attn": ColwiseParallel(), "c_proj": RowwiseParallel(),
                                         "c_fc": ColwiseParallel(), "c_out": RowwiseParallel()})
    return simple_step(model, LocalWeights(model, ranks))


class LocalWeights(Weights):
    """The local parts of DTensors: every rank steps its own; parameters that all ranks hold count once."""

    def __init__(self, model, ranks):
        self.parts = list(model.parameters())
        local = [p.to_local() if hasattr(p, "to_local") else p for p in self.parts]
        super().__init__([p.detach().requires_grad_() for p in local], None, fused=True)

    def step(self):
        for mine, part in zip(self.model, self.parts):
            mine.grad = part.grad.to_local() if hasattr(part.grad, "to_local") else part.grad
            part.grad = None
        super().step()


def pipeline(args, size, rank, ranks):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, schedules

    schedules._batch_p2p = lambda ops, desc=None: Together(dist.batch_isend_irecv(ops)) if ops else None
    per_rank = size.layers // ranks
    model = GPT(size, args.attention, range(rank * per_rank, (rank + 1) * per_rank)).to(args.type)
    weights = Weights(model.parameters(), sum_over_ranks, fused=True)
    stage = PipelineStage(model, rank, ranks, torch.device("cpu"))
    schedule = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[args.mode](stage, args.micro_batches, loss_of)
    ends = dist.new_group([0, ranks - 1])

    def step(tokens, targets):
        losses = []
        if rank == 0:
            schedule.step(tokens)
        elif rank == ranks - 1:
            schedule.step(target=targets, losses=losses)
        else:
            schedule.step()
        if model.first or model.last:
            dist.all_reduce(model.wte.weight.grad, group=ends)  # tied
        weights.step()
        return torch.stack(losses).mean().item() if losses else 0.0

    return step


BUILD = {"single": whole, "ddp": whole, "fsdp2": sharded, "fsdp2_zero2": sharded, "tp": tensor_parallel,
         "gpipe": pipeline, "1f1b": pipeline}


def run(rank, args, port):
    base_mb = memory_mb("VmRSS")
    if args.ranks > 1:
        os.environ.update(MASTER_ADDR=args.master, MASTER_PORT=str(port), GLOO_SOCKET_IFNAME=args.interface,
                          USE_LIBUV="0")  # Debian builds without it
        dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    if args.threads:
        torch.set_num_threads(args.threads)
    size = SIZES[args.size]
    torch.manual_seed(1)
    args.type = torch.bfloat16 if args.dtype == "bf16" else torch.float32
    step = (installed if args.as_installed else BUILD[args.mode])(args, size, rank, args.ranks)
    # Data-parallel ranks share the batch; the other modes see all of it on every rank.
    data_parallel = args.mode in ("ddp", "fsdp2", "fsdp2_zero2")
    samples = size.batch // args.ranks if data_parallel else size.batch
    torch.manual_seed(2 + (rank if data_parallel else 0))
    seconds, cpu, loss = [], [], 0.0
    for _ in range(args.warmup + args.steps):
        tokens = torch.randint(size.vocab, (samples, size.context + 1))
        if args.ranks > 1:
            dist.barrier()
        begin, cpu_begin = time.perf_counter(), time.process_time()
        loss = step(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        seconds.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - cpu_begin)
    mine = {"rank": rank, "base_mb": round(base_mb, 1), "peak_mb": round(memory_mb("VmHWM"), 1), "loss": loss,
            "seconds": seconds[args.warmup:], "cpu": statistics.median(cpu[args.warmup:])}
    everyone = [mine]
    if args.ranks > 1:
        everyone = [None] * args.ranks
        dist.all_gather_object(everyone, mine)
    if rank == 0:
        report(args, size, everyone)
    if args.ranks > 1:
        dist.destroy_process_group()


def report(args, size, everyone):
    # A step has ended when its last rank has.
    steps = [max(at) for at in zip(*(one["seconds"] for one in everyone))]
    median = statistics.median(steps)
    print(json.dumps({
        "side": "pytorch", "version": torch.__version__, "size": args.size, "mode": args.mode, "ranks": args.ranks,
        "hook": args.hook,
        "dtype": args.dtype, "as_installed": args.as_installed, "attention": args.attention,
        "threads": torch.get_num_threads(), "step_ms": round(1e3 * median, 3),
        "cpu_ms": round(1e3 * sum(one["cpu"] for one in everyone), 3),
        "tokens_per_s": round(size.batch * size.context / median, 1), "loss": everyone[-1]["loss"],
        "base_mb": [one["base_mb"] for one in everyone], "peak_mb": [one["peak_mb"] for one in everyone]}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, default="S")
    parser.add_argument("--mode", choices=MODES, default="single")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's default")
    parser.add_argument("--dtype", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--attention", choices=["math", "sdpa"], default="math")
    parser.add_argument("--micro-batches", type=int, default=4, help="of a pipeline")
    parser.add_argument("--as-installed", action="store_true")
    parser.add_argument("--hook", default="", help="of ddp: bf16 or powersgd:RANK")
    parser.add_argument("--rank", type=int, help="this process is that rank, others run elsewhere")
    parser.add_argument("--master", default="127.0.0.1", help="address of rank 0")
    parser.add_argument("--interface", default="lo", help="network device of the messages")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    args = parser.parse_args()
    if args.ranks == 1:
        return run(0, args, 0)
    if args.rank is not None:
        return run(args.rank, args, PORT)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(run, (args, port), nprocs=args.ranks)


if __name__ == "__main__":
    main()
