"""Emulated hosts: network namespaces joined by a switch, or by bench/network/slow_path. Everything lives in namespaces of
its own (network, mounts, processes), which the kernel takes away with the last process, however the bench ends."""
import json
import os
import pathlib
import re
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("TRIREME_BIN", ROOT / "build/release/bin"))
TRIREME = BIN / "trireme"
INSIDE = "TRIREME_BENCH_WORK"  # set in the private namespaces: the folder of the bench
ETHERNET = 14  # bytes of a header
ECHO = 7  # port of the echo protocol
CONTROL = 29500  # port of the launcher's leader
TOKEN = "bench-secret-of-the-links-012345678"


def inside():
    return pathlib.Path(os.environ[INSIDE]) if INSIDE in os.environ else None


def run_in_private_namespaces():
    """Runs this program again, with its arguments, as the first process of new namespaces. Returns its exit code."""
    if os.geteuid() != 0:
        sys.exit("emulated hosts need root: run this with sudo")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="trireme-network-") as folder:
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--kill-child", "--mount-proc",
                   sys.executable, *sys.argv]
        child = subprocess.Popen(command, env=os.environ | {INSIDE: folder})
        try:
            return child.wait()
        finally:
            child.kill()
            child.wait()


def call(*words, **how):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **how)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout[-1500:]}{done.stderr}")
    return done.stdout


def bits(rate):
    """Bits a second of a rate of tc."""
    number, unit = re.fullmatch(r"(\d+)([kmg])bit", rate).groups()
    return int(number) * {"k": 1e3, "m": 1e6, "g": 1e9}[unit]


class Hosts:
    """Host i has the address 10.213.0.(i + 1) on its device `wire`.

    far: None, or (milliseconds one way, share lost, seed): TUN devices joined by slow_path instead of a switch.
    behind: by host, the router that masquerades its address 192.168.(i + 1).2. Router r is 10.213.0.(r + 1) outside; hosts
    of one router share this address and differ by ports.
    """

    def __init__(self, count, far=None, behind=()):
        self.count, self.far, self.path, self.routers = count, far, None, {}
        self.behind = behind if isinstance(behind, dict) else {host: host for host in behind}
        if not os.path.ismount("/run/netns"):
            os.makedirs("/run/netns", exist_ok=True)
            call("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        self.names = [f"host{i}" for i in range(count)]
        for name in self.names:
            self.add(name)
        if far:
            self.join_by_path()
        else:
            self.join_by_switch()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.path:
            print(f"the path: {self.path.communicate()[0].strip()}", flush=True)
        for name in os.listdir("/run/netns"):
            call("ip", "netns", "del", name)

    def add(self, name):
        call("ip", "netns", "add", name)
        call("ip", "-n", name, "link", "set", "lo", "up")

    def address(self, host):
        return f"10.213.0.{host + 1}"

    def join_by_switch(self):
        self.add("switch")
        call("ip", "-n", "switch", "link", "add", "bridge", "type", "bridge")
        call("ip", "-n", "switch", "link", "set", "bridge", "up")
        for router in sorted(set(self.behind.values())):
            self.add_router(router)
        for i, name in enumerate(self.names):
            if i in self.behind:
                self.join_router(i)
            else:
                self.join(name, i)

    def join(self, name, number):
        call("ip", "link", "add", "wire", "netns", name, "type", "veth", "peer", "name", f"port{number}", "netns", "switch")
        call("ip", "-n", "switch", "link", "set", f"port{number}", "master", "bridge", "up")
        self.bring_up(name, number)

    def add_router(self, number):
        """A router that hides hosts: connections leave with the router's address, none come in."""
        router = self.routers[number] = f"router{number}"
        self.add(router)
        self.join(router, number)
        inside_router = ["ip", "netns", "exec", router]
        call(*inside_router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        call(*inside_router, "nft", "add table ip nat; add chain ip nat out { type nat hook postrouting priority 100; }; "
             "add rule ip nat out oifname wire masquerade; add table ip inner; "
             "add chain ip inner pass { type filter hook forward priority 0; policy drop; }; "
             "add rule ip inner pass oifname wire accept; add rule ip inner pass ct state established,related accept")

    def join_router(self, host):
        router, name, inner = self.routers[self.behind[host]], self.names[host], f"inner{host}"
        call("ip", "link", "add", "wire", "netns", name, "type", "veth", "peer", "name", inner, "netns", router)
        for where, device, last in ((name, "wire", 2), (router, inner, 1)):
            call("ip", "-n", where, "address", "add", f"192.168.{host + 1}.{last}/24", "dev", device)
            call("ip", "-n", where, "link", "set", device, "up")
        call("ip", "-n", name, "route", "add", "default", "via", f"192.168.{host + 1}.1")

    def bring_up(self, name, host):
        call("ip", "-n", name, "address", "add", f"{self.address(host)}/24", "dev", "wire")
        call("ip", "-n", name, "link", "set", "wire", "up")

    def join_by_path(self):
        delay, loss, seed = self.far
        ends = [f"{name}={self.address(i)}" for i, name in enumerate(self.names)]
        # Before computing processes: a packet that leaves late would be a slower path.
        command = ["nice", "-n", "-15", BIN / "slow_path", "--delay-ms", delay, "--loss", loss, "--seed", seed, *ends]
        self.path = subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.path.stdout.readline() != "ready\n":
            raise RuntimeError("slow_path did not start")
        for i, name in enumerate(self.names):
            call("ip", "-n", name, "link", "set", "wire", "txqueuelen", "10000")
            self.bring_up(name, i)

    def set_rate(self, up, down=None):
        """Rates of tc of every host, or lists of them. A burst passes without limit: small on slow wires, above a packet of
        64 KiB, and above what passes between two ticks of the clock."""
        down = down or up
        for i, name in enumerate(self.names):
            place = self.behind.get(i, i)
            ends = [(self.routers.get(place, name), "wire", up), ("switch", f"port{place}", down)]
            for where, device, rate in ends[: 1 if self.far else 2]:
                rate = rate if isinstance(rate, str) else rate[i]
                burst = max(65536, int(bits(rate) / 8 / 250))
                call("tc", "-n", where, "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", burst,
                     "latency", "100ms")

    def set_congestion(self, algorithm):
        for i in range(self.count):
            call(*self.on(i), "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={algorithm}")

    def on(self, host):
        """Words before a command that run it on the host, under the host's own name."""
        return ["ip", "netns", "exec", self.names[host], "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"',
                self.names[host]]

    def start(self, host, *command, **how):
        return subprocess.Popen([*self.on(host), *map(str, command)], **how)

    def sent_by(self, host):
        return int(call(*self.on(host), "cat", "/sys/class/net/wire/statistics/tx_bytes"))

    def pull(self, host, seconds):
        """Pulls the host's, or its router's, cable out of the switch for so long: its device loses its carrier."""
        port = f"port{self.behind.get(host, host)}"
        call("ip", "-n", "switch", "link", "set", port, "down")
        time.sleep(seconds)
        call("ip", "-n", "switch", "link", "set", port, "up")

    def check(self):
        """Median round trip in milliseconds and share of lost messages, of 500 datagrams from host 0 to host 1."""
        echo = self.start(1, sys.executable, __file__, "echo", self.address(1), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        echo.stdout.readline()
        median, lost = json.loads(call(*self.on(0), sys.executable, __file__, "probe", self.address(1)))
        echo.kill()
        echo.wait()
        return median, lost


class Capture:
    """All packets that pass a host's device, from construction until packets()."""

    def __init__(self, hosts, host):
        self.process = hosts.start(host, sys.executable, __file__, "record", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def flows(self):
        """The bytes of each TCP connection and direction, by (source, port, destination, port), with those that were sent
        again once, and how many packets the kernel dropped."""
        out, _ = self.process.communicate()
        first, _, rest = out.partition(b"\n")
        found, at = {}, 0
        while at < len(rest):
            size = int.from_bytes(rest[at : at + 4], "little")
            packet = rest[at + 4 + ETHERNET : at + 4 + size]
            at += 4 + size
            if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
                continue
            header = 4 * (packet[0] & 15)
            length = int.from_bytes(packet[2:4], "big")
            data = packet[header + 4 * (packet[header + 12] >> 4) : length or None]
            number, begins = int.from_bytes(packet[header + 4 : header + 8], "big"), packet[header + 13] & 2
            ports = [int.from_bytes(packet[header + i : header + i + 2], "big") for i in (0, 2)]
            addresses = [socket.inet_ntoa(packet[i : i + 4]) for i in (12, 16)]
            base, bytes_ = found.setdefault((addresses[0], ports[0], addresses[1], ports[1]), (number + bool(begins), bytearray()))
            place = (number - base) % (1 << 32)
            if data and place < 1 << 31:
                bytes_.extend(bytes(max(0, place + len(data) - len(bytes_))))
                bytes_[place : place + len(data)] = data
        return {flow: bytes(bytes_) for flow, (_, bytes_) in found.items()}, int(first)


def say(line):
    print(line, flush=True)


def record():
    everything, packets, counts, force = 3, 263, 6, 33  # ETH_P_ALL, SOL_PACKET, PACKET_STATISTICS, SO_RCVBUFFORCE
    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(everything))
    sniffer.setsockopt(socket.SOL_SOCKET, force, 1 << 28)
    sniffer.bind(("wire", everything))
    say("ready")
    kept = []
    while True:
        readable, _, _ = select.select([sniffer, sys.stdin], [], [])
        if sniffer in readable:
            packet = sniffer.recv(1 << 17)
            kept.append(len(packet).to_bytes(4, "little") + packet)
        else:
            break
    dropped = int.from_bytes(sniffer.getsockopt(packets, counts, 8)[4:], "little")
    sys.stdout.buffer.write(b"%d\n" % dropped + b"".join(kept))


def echo(address):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, ECHO))
    say("ready")
    while True:
        message, sender = server.recvfrom(64)
        server.sendto(message, sender)


def probe(address):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect((address, ECHO))
    count, trips = 500, []
    end = time.monotonic() + count * 0.005 + 1
    sent = []
    while time.monotonic() < end:
        if len(sent) < count and time.monotonic() > end - 1 - (count - len(sent)) * 0.005:
            sent.append(time.monotonic())
            client.send(b"%d" % (len(sent) - 1))
        if select.select([client], [], [], 0.001)[0]:
            trips.append(time.monotonic() - sent[int(client.recv(64))])
    say(json.dumps([1e3 * statistics.median(trips), 1 - len(trips) / count]))


def secret_file(work, name="token"):
    file = work / name
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(TOKEN if name == "token" else f"{name} of the bench, 0123456789")
    return file


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


def slowest(links):
    """Bytes a second of the slowest end in a file of `trireme links`."""
    rates = re.findall(r"(?:up|down): ([\d.]+)(M|G)b/s", links.read_text())
    return min(float(rate) * {"M": 1e6, "G": 1e9}[unit] for rate, unit in rates) / 8


def steps_of(run):
    """Records of a run's steps; the last line of a run that was killed may be torn."""
    file = run / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}") and '"step_ms"' in line]


class Launch:
    """`trireme train` on one rank a host, through `trireme launch`: on the first `ranks` hosts (default: all), with `more`
    options of the launcher and `own(host)` of one host."""

    def __init__(self, hosts, job, sets, steps, work, transport=None, more=(), ranks=None, own=lambda host: ()):
        ranks = ranks or hosts.count
        self.work, self.logs = work, [open(work / f"log.{i}", "w") for i in range(ranks)]
        token = secret_file(work)
        self.out = work / "run"
        subprocess.run(["rm", "-rf", self.out], check=True)
        self.processes = []
        for i in range(ranks):
            variables = [f"TRIREME_HOST={i}"] + ([f"TRIREME_TRANSPORT={transport}"] if transport else [])
            self.processes.append(hosts.start(
                i, "env", *variables, TRIREME, "launch", "--nnodes", ranks, "--nproc-per-node", 1, "--rdzv-endpoint",
                f"{hosts.address(0)}:{CONTROL}", "--token-file", token, *more, *own(i), "--", "train", job, "--out", self.out, "--no-calibrate",
                "--steps", steps, "--set", *sets, stdout=self.logs[i], stderr=subprocess.STDOUT, cwd=ROOT))

    def wait(self, seconds):
        end = time.monotonic() + seconds
        for i, process in enumerate(self.processes):
            code = process.wait(max(1, end - time.monotonic()))
            if code:
                raise RuntimeError(f"host {i}: exit code {code}\n{(self.work / f'log.{i}').read_text()[-1500:]}")

    def wait_for_step(self, step):
        while len(steps_of(self.out)) < step and all(process.poll() is None for process in self.processes):
            time.sleep(0.1)

    def losses(self):
        return [(line["step"], line["loss"]) for line in steps_of(self.out)]

    def restarts(self):
        return int((self.out / ".generation").read_text()) - 1

    def troubles(self):
        """What the launchers and ranks say about them."""
        return [f"host {i}: {line}" for i in range(len(self.logs)) for line in (self.work / f"log.{i}").read_text().splitlines()
                if "trireme: " in line]

    def step_ms(self):
        return [line["step_ms"] for line in steps_of(self.out)]


class Island:
    """A run that merges with others, on one host and core. Starts; start() again continues it from its checkpoint."""

    def __init__(self, hosts, host, core, out, words):
        self.hosts, self.host, self.core, self.out, self.words = hosts, host, core, out, words
        self.log = out.with_suffix(".log")
        self.start()

    def start(self):
        with self.log.open("a") as log:
            self.process = self.hosts.start(self.host, "taskset", "-c", self.core, TRIREME, "train", *self.words, stdout=log,
                                            stderr=subprocess.STDOUT, cwd=ROOT, process_group=0)

    def steps(self):
        return steps_of(self.out)

    def step(self):
        return max((line["step"] for line in self.steps()), default=0)

    def losses(self):
        return [(line["step"], line["loss"]) for line in self.steps()]

    def pauses(self):
        """Seconds from the end of a step to the end of the next."""
        times = [line["time"] for line in self.steps()]
        return [b - a for a, b in zip(times, times[1:])]

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def check(self):
        if self.process.poll() not in (None, 0):
            raise RuntimeError(f"{self.out.name}: exit code {self.process.returncode}\n{self.log.read_text()[-1500:]}")


class Islands:
    """Islands on `places`, and their leader on the host `leader`. The first island has a core of its own."""

    def __init__(self, hosts, work, job, sets, steps, leader, places, leads=()):
        self.tape, token, last = work / "tape", secret_file(work), (os.cpu_count() or 1) - 1
        at = f"{hosts.address(leader)}:29600"
        self.leader = hosts.start(leader, "taskset", "-c", last, TRIREME, "islands", "--listen", at, "--token-file", token, "--dir",
                                  self.tape, *leads, cwd=ROOT)
        self.islands = [
            Island(hosts, place, 0 if i == 0 else last, work / f"island{i}",
                   [job, "--out", work / f"island{i}", "--steps", steps, "--quiet", "--no-calibrate", "--islands", at, "--island",
                    f"{i}/{len(places)}", "--token-file", token, "--set", *sets]) for i, place in enumerate(places)]

    def wait_for(self, number, step, seconds=900):
        """Until an island has done so many steps."""
        end = time.monotonic() + seconds
        while self.islands[number].step() < step:
            for one in self.islands:
                one.check()
            if time.monotonic() > end or self.islands[number].process.poll() is not None:
                raise RuntimeError(f"island {number} has {self.islands[number].step()} of {step} steps")
            time.sleep(0.2)

    def end(self):
        for island in self.islands:
            if island.process.poll() is None:
                island.signal(signal.SIGTERM)
        for island in self.islands:
            island.process.wait()
        self.end_leader()

    def end_leader(self):
        self.leader.terminate()
        self.leader.wait()

    def wait(self, seconds):
        end = time.monotonic() + seconds
        for island in self.islands:
            island.process.wait(max(1, end - time.monotonic()))
            island.check()
        self.end_leader()


if __name__ == "__main__":
    {"record": record, "echo": echo, "probe": probe}[sys.argv[1]](*sys.argv[2:])
