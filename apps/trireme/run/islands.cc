// trireme islands: the leader of runs that merge their weights. trireme replay: training of these runs from its tape.
#include "islands.h"

#include <charconv>
#include <csignal>
#include <filesystem>

#include "apps/trireme/output.h"
#include "apps/trireme/workers.h"
#include "child_runs.h"
#include "trireme/base/error.h"
#include "trireme/base/os/address.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/launch/elastic/secret.h"
#include "trireme/launch/islands/copies.h"
#include "trireme/launch/islands/source.h"

namespace trireme::app {
namespace {

std::vector<std::string> replay_command(const islands::Segment& segment, const Path& tape,
                                        const Path& out, const Path& from) {
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                      "train",
                                      (out / "job.yaml").string(),
                                      "--out",
                                      (out / "run").string(),
                                      "--islands",
                                      tape.string(),
                                      "--island",
                                      fmt::format("{}/{}", segment.island, segment.islands),
                                      "--replay-run",
                                      segment.run,
                                      "--replay-last",
                                      std::to_string(segment.last),
                                      "--no-calibrate",
                                      "--quiet"};
  if (segment.ranks > 1) command.insert(command.end(), {"--ranks", std::to_string(segment.ranks)});
  if (!from.empty()) command.insert(command.end(), {"--resume", from.string()});
  return command;
}

}  // namespace

void check_island(const IslandOptions& options, const config::Job& job) {
  if (options.leader.empty()) {
    if (!options.number.empty())
      fail(ErrorKind::kUsage, "--island {} needs --islands HOST:PORT of trireme islands",
           options.number);
    return;
  }
  const bool replays = !options.replay_run.empty();
  const auto address = os::parse_address(options.leader);
  if (!replays && (!address || address->local))
    fail(ErrorKind::kUsage, "--islands {}; needs HOST:PORT of trireme islands", options.leader);
  if (!replays && options.token_file.empty())
    fail(ErrorKind::kUsage,
         "--islands {} needs --token-file with the secret of the islands, such as one made by "
         "openssl rand -hex 32",
         options.leader);
  if (!replays) elastic::read_token(options.token_file);
  const std::string& text = options.number;
  int island = -1, islands = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, island);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '/') {
    const auto second = std::from_chars(first.ptr + 1, end, islands);
    if (second.ec != std::errc() || second.ptr != end) islands = 0;
  }
  if (island < 0 || islands <= island || islands > 1 << 16)
    fail(ErrorKind::kUsage,
         "--island \"{}\"; needs the number of this island and the most there will be, such as 0/4",
         text);
  const auto outer = config::outer_settings(job.network);
  if (!outer)
    fail(ErrorKind::kUsage, "--islands {} needs outer steps; set network.outer, such as every:30",
         options.leader);
  if (outer->islands != 1)
    fail(
        ErrorKind::kUsage,
        "network.outer={} has islands:{} inside the job, but with --islands the job is one island; "
        "leave islands out",
        job.network.outer, outer->islands);
  if (outer->finds_delay || outer->direction)
    fail(ErrorKind::kUsage, "network.outer={}: islands that are runs of their own need {}",
         job.network.outer, outer->direction ? "merge:mean" : "one delay for all, such as delay:3");
}

// Says what came out of the copies, and what did not.
void restore_tape(const IslandsOptions& options) {
  const islands::Restored restored =
      islands::restore({options.from.begin(), options.from.end()}, options.directory);
  fmt::print("tape      {} entries of {}, copies of {} of {} islands\n", restored.entries,
             restored.from.string(), restored.islands.size(), restored.members);
  std::fflush(stdout);
  for (const auto& [island, merges] : restored.no_codes)
    print_note(fmt::format(
        "no copy has the codes of island {} in {} merge{}: trireme replay of this tape fails there",
        island, merges, merges == 1 ? "" : "s"));
  if (restored.no_means > 0)
    print_note(
        fmt::format("no copy has the mean of {} merge{}: islands that join take a state of "
                    "later ones",
                    restored.no_means, restored.no_means == 1 ? "" : "s"));
}

int lead_islands(const IslandsOptions& options) {
  const auto address = os::parse_address(options.listen);
  if (!address || address->local)
    fail(ErrorKind::kUsage, "--listen {}; needs HOST:PORT of this host, such as 0.0.0.0:29600",
         options.listen);
  elastic::read_token(options.token_file);
  if (!options.from.empty()) restore_tape(options);
  std::vector<std::string> words = {"islands",
                                    "--listen",
                                    options.listen,
                                    "--token-file",
                                    options.token_file,
                                    "--dir",
                                    options.directory,
                                    "--quorum",
                                    std::to_string(options.quorum),
                                    "--absent",
                                    fmt::format("{}", options.absent_s)};
  if (options.grace_s) words.insert(words.end(), {"--grace", fmt::format("{}", *options.grace_s)});
  become_worker(words, {});
}

int replay(const ReplayOptions& options) {
  const Path directory = std::filesystem::absolute(options.tape).lexically_normal();
  if (!std::filesystem::exists(directory / islands::Tape::kName))
    fail(ErrorKind::kUsage, "{} has no {}; give the directory of trireme islands", options.tape,
         islands::Tape::kName);
  const islands::Tape tape = islands::Tape::open(directory);
  const std::int64_t merges = islands::verify(tape);
  fmt::print("merges    {} have the bits of their codes\n", merges);
  if (options.merges) return 0;
  const std::vector<islands::Segment> segments = islands::segments_of(tape.entries());
  Path out = options.out.empty() ? Path(directory.string() + "-replay") : Path(options.out);
  out = std::filesystem::absolute(out).lexically_normal();
  if (std::filesystem::exists(out))
    fail(ErrorKind::kUsage, "{} is there already; give a new directory by --out", out.string());
  const auto directory_of = [&](std::size_t index) {
    return out / fmt::format("island{}-{}", segments[index].island, index);
  };
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const islands::Segment& segment = segments[i];
    make_directories(directory_of(i));
    write_file_synced(directory_of(i) / "job.yaml", segment.job);
    const Path from = segment.resumes < 0
                          ? Path()
                          : directory_of(static_cast<std::size_t>(segment.resumes)) / "run" /
                                "checkpoints" / fmt::format("step-{}", segment.first);
    fmt::print("island {}  steps {} to {}\n", segment.island, segment.first + 1, segment.last);
    std::fflush(stdout);
    const int code = run_child(replay_command(segment, directory, directory_of(i), from));
    if (code != 0 && code != 128 + SIGTERM) return code;  // it has said why
  }
  fmt::print("islands   {} have sent the codes of the tape\n", segments.size());
  return 0;
}

}  // namespace trireme::app
