// Options of links, relay, reduce-server, islands and replay.
#include "apps/trireme/command_options.h"

namespace trireme::app {
namespace {

constexpr char kRelayExamples[] = R"(
It passes on encrypted bytes of pairs of hosts with the same job. Its key is not the token of a run.

Examples:
  trireme relay --listen 0.0.0.0:29600 --key-file relay.key
  trireme launch --nnodes 2 --rdzv-endpoint head:29500 --token-file token --relay relay:29600 --relay-key-file relay.key --dial-only -- train job.yaml --out runs/big

Exit codes: 0 stopped by a signal, 2 usage.
)";

constexpr char kLinksExamples[] = R"(
Start it on every host; each writes the same table. trireme launch, plan and explain read it with --links.

Examples:
  trireme links --nnodes 4 --rdzv-endpoint head:29500 --token-file token --out links.yaml
  srun --ntasks-per-node=1 trireme links --nnodes 4 --token-file token

Exit codes: those of trireme launch.
)";

constexpr char kReduceServerExamples[] = R"(
Start it before the ranks, or at any time: the next generation uses it (docs/launch.md). Messages number servers after
the ranks.

Examples:
  trireme reduce-server --rdzv-endpoint head:29500 --token-file token --rate 1Gb/s

Exit codes: those of trireme launch.
)";

constexpr char kIslandsExamples[] = R"(
It has no ranks. Each island is a run of trireme train with its own run directory and layout.

Examples:
  trireme islands --listen 0.0.0.0:29600 --token-file token --dir tape
  trireme islands --listen 0.0.0.0:29600 --token-file token --dir tape2 --from runs/a/islands runs/b/islands
  trireme train job.yaml --set network.outer=every:30 --out runs/a --islands head:29600 --island 0/4 --token-file token

Exit codes: those of trireme train.
)";

constexpr char kReplayExamples[] = R"(
Examples:
  trireme replay tape
  trireme replay tape --merges      # on any machine

Exit codes: 0 equal bits, 2 another machine or LibTorch, 3 a merge or an island differs.
)";

void add_relay(CLI::App& root, RelayOptions& o, Run& run) {
  CLI::App& app = add_command(root, "relay", "Join hosts that can only dial out", kRelayExamples);
  app.add_option("--listen", o.listen, "Address HOST:PORT to listen on")->required();
  app.add_option("--key-file", o.key_file, "File with the relay's key, readable by its owner only")
      ->required();
  app.callback([&] { run = [&] { return relay(o); }; });
}

void add_links(CLI::App& root, LinksOptions& o, Run& run) {
  CLI::App& app = add_command(
      root, "links", "Measure rates and latencies of the links between hosts", kLinksExamples);
  add_number(app, "--nnodes", o.hosts, "Number of hosts", 2, 64);
  app.add_option("--rdzv-endpoint", o.endpoint,
                 "Address HOST:PORT of the first host (default: from the environment)");
  app.add_option("--rdzv-id", o.id,
                 "Name of the measurement (default: from the environment, else links)");
  app.add_option("--node-rank", o.node_rank,
                 "Index of this host; 0 leads (default: from the environment, else the host that "
                 "can listen on the endpoint leads)")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--token-file", o.token_file,
                 "File with the secret of the hosts, readable by its owner only")
      ->required();
  app.add_option("--out", o.out, "File for the table of links")->capture_default_str();
  add_number(app, "--seconds", o.seconds, "Seconds that each pair sends", 0.05, 600.0);
  add_number(app, "--join-timeout", o.join_timeout_s, "Seconds to wait for missing hosts", 1.0,
             1e6);
  add_relay_use(app, o.relay);
  app.callback([&] { run = [&] { return links(o); }; });
}

void add_reduce_server(CLI::App& root, ReduceServerOptions& o, Run& run) {
  CLI::App& app = add_command(root, "reduce-server",
                              "Add gradients for the hosts of a run, as a host without ranks",
                              kReduceServerExamples);
  app.add_option("--rdzv-endpoint", o.endpoint, "Address HOST:PORT of the first host's agent")
      ->required();
  app.add_option("--rdzv-id", o.id,
                 "Name of the run (default: from the environment, else trireme)");
  app.add_option("--token-file", o.token_file,
                 "File with the secret of the run, readable by its owner only")
      ->required();
  app.add_option("--rate", o.rate,
                 "Rate of this host's link, such as 500Mb/s, for its share of sums")
      ->capture_default_str();
  add_number(app, "--join-timeout", o.join_timeout_s, "Seconds to wait for the first host", 1.0,
             1e6);
  app.callback([&] { run = [&] { return reduce_server(o); }; });
}

void add_islands(CLI::App& root, IslandsOptions& o, Run& run) {
  CLI::App& app =
      add_command(root, "islands",
                  "Lead islands: runs that merge their weights every few steps and may come and go",
                  kIslandsExamples);
  app.add_option("--listen", o.listen, "Address HOST:PORT to listen on")->required();
  app.add_option("--token-file", o.token_file,
                 "File with the secret of the islands, readable by its owner only")
      ->required();
  app.add_option("--dir", o.directory, "Directory of the tape; an existing one is continued")
      ->capture_default_str();
  app.add_option("--from", o.from,
                 "Copies of a lost tape for a new --dir: RUNDIR/islands of a majority of islands");
  add_number(app, "--quorum", o.quorum, "Islands that a merge needs (default 0: a majority)", 0,
             1 << 20);
  app.add_option("--grace", o.grace_s,
                 "Seconds to wait for further islands (default: half of what network.outer's delay "
                 "leaves)")
      ->check(CLI::Range(0.0, 1e6));
  add_number(app, "--absent", o.absent_s,
             "Seconds without a connection after which an island is left out", 1.0, 1e7);
  app.callback([&] { run = [&] { return lead_islands(o); }; });
}

void add_replay(CLI::App& root, ReplayOptions& o, Run& run) {
  CLI::App& app = add_command(
      root, "replay", "Train the islands of a tape again and compare all bits", kReplayExamples);
  app.add_option("TAPE", o.tape, "Directory of trireme islands")->required();
  app.add_option("--out", o.out, "New directory for the runs (default: TAPE-replay)");
  app.add_flag("--merges", o.merges, "Compare merges with their stored codes, and train nothing");
  app.callback([&] { run = [&] { return replay(o); }; });
}

}  // namespace

void add_relay_use(CLI::App& app, RelayUse& o) {
  app.add_option("--relay", o.relay,
                 "Address HOST:PORT of trireme relay, the same on every host (default: none)");
  app.add_option("--relay-key-file", o.key_file, "File with the relay's key");
  app.add_flag("--dial-only", o.dial_only, "No other host can connect to this one");
}

void add_hosts(CLI::App& root, HostCommands& o, Run& run) {
  add_links(root, o.links, run);
  add_relay(root, o.relay, run);
  add_reduce_server(root, o.reduce_server, run);
  add_islands(root, o.islands, run);
  add_replay(root, o.replay, run);
}

}  // namespace trireme::app
