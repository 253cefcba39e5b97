"""What is sent between hosts: schemes of training GPT-S, the bytes that they send, and PyTorch's nearest."""
import dataclasses
import math

JOB = "recipes/gpt_s.yaml"
TOKENS = 16 * 256  # a step
# Elements of GPT-S's units and elements of a block of codes (unit: count, elements, block); smaller units travel as they are.
UNITS = [(1, 196608, 32), (6, 1774464, 256), (1, 768, 0)]
SIDES, VECTORS = 38144, 30720  # rows and columns of all matrices; elements of biases and norms
CODES = {"none": lambda block: 4, "bf16": lambda block: 2, "q8": lambda block: 1 + 2 / block,
         "q4": lambda block: 1 / 2 + 2 / block, "f4": lambda block: 1 / 2 + 4 / block, "sign": lambda block: 1 / 8 + 2 / block,
         "i8x": lambda block: 1 + 2 / block, "i4x": lambda block: 1 / 2 + 2 / block,
         "int8": lambda block: 1, "int16": lambda block: 2}
INTEGERS = {"i8x": 127, "i4x": 7}  # largest code; what comes back is the sum of all hosts' codes


@dataclasses.dataclass(frozen=True)
class Scheme:
    name: str
    key: str  # setting of the job; HOSTS is the number of hosts
    anchor: str = ""  # PyTorch's hook that comes nearest
    every: int = 0  # steps of a round, for islands

    def sets(self, hosts):
        return [self.key.replace("HOSTS", str(hosts)), "run.global_batch=16", f"run.micro_batch={16 // hosts}",
                "run.log_every=1", "run.eval_every=-1", "checkpoint.every=0", "precision.compute=fp32", "parallel.zero=0"]

    def formula(self, hosts):
        """Bytes that a host sends in a step (in a round of islands), or None where it is not of codes of whole blocks."""
        value = self.key.partition("=")[2]
        if self.every:
            keys = dict(part.partition(":")[::2] for part in value.split(","))
            codec, back = ("f4", "q8") if "streaming" in keys else (keys.get("codec", "none"), keys.get("back", "none"))
        else:
            codec, _, back = value.partition("/")
        if codec.startswith("lowrank:"):
            return 8 * (int(codec.split(":")[1]) * SIDES + VECTORS) * (hosts - 1) / hosts
        ways = [one.partition(":")[0] or "none" for one in (codec, back)]
        if ways[0] in INTEGERS and not back:
            ways[1] = "int8" if hosts * INTEGERS[ways[0]] <= 127 else "int16"
        if not all(way in CODES for way in ways):
            return None
        total = 0
        for count, elements, block in UNITS:
            whole = math.ceil(elements / block) * block if block else elements
            total += count * sum(whole * CODES[way](block) if block else 4 * elements for way in ways)
        return total * (hosts - 1) / hosts


def islands(every, *more):
    return "network.outer=" + ",".join(["islands:HOSTS", f"every:{every}", *more])


ALONE = Scheme("no exchange", islands(1000), every=1000)  # the speed without a network
SCHEMES = [
    Scheme("dense fp32", "network.codec=none", "ddp"),
    Scheme("bf16", "network.codec=bf16/bf16", "bf16"),
    Scheme("q8", "network.codec=q8/q8", "bf16"),
    Scheme("i8x", "network.codec=i8x", "bf16"),
    Scheme("q4, q8 back", "network.codec=q4/q8"),
    Scheme("q4, residual", "network.codec=q4:bf16/q4"),
    Scheme("sign, q4 back", "network.codec=sign:bf16/q4"),
    Scheme("PowerSGD 1", "network.codec=lowrank:1:0", "powersgd:1"),
    Scheme("PowerSGD 4", "network.codec=lowrank:4:0", "powersgd:4"),
    Scheme("top-k 4/256, q4 back", "network.codec=topk:0.015625:2:bf16/q4"),
    Scheme("DiLoCo fp32", islands(30), every=30),
    Scheme("DiLoCo f4, q8 back", islands(30, "codec:f4", "back:q8"), every=30),
    Scheme("DiLoCo q4", islands(30, "codec:q4", "back:q4"), every=30),
    Scheme("Streaming", islands(30, "streaming"), every=30),
]
PEERS = ["ddp", "bf16", "powersgd:1", "powersgd:4"]
