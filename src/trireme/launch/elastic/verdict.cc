#include "trireme/launch/elastic/verdict.h"

#include <fmt/core.h>
#include <signal.h>
#include <string.h>

#include <algorithm>

#include "trireme/base/os/stop.h"

namespace trireme::elastic {
namespace {

std::string describe_signal(int signal) {
  const char* text = ::sigdescr_np(signal);
  return fmt::format("signal {} ({})", signal, text ? text : "unknown");
}

Outcome decided_by(const RankEnd& end) {
  if (!end.cause.empty()) return {end.code, end.rank, end.cause, end.signal, end.doing};
  if (end.starved)
    return {
        exit_code(ErrorKind::kOutOfMemory), end.rank,
        fmt::format("the kernel killed rank {} for lack of memory (signal 9) {:.1f} s after the "
                    "start; lower run.micro_batch, shard more (parallel.zero), or raise the "
                    "memory limit",
                    end.rank, end.at_s),
        end.signal, end.doing};
  if (end.signal != 0)
    return {kLost, end.rank,
            fmt::format("rank {} was killed by {} {:.1f} s after the start", end.rank,
                        describe_signal(end.signal), end.at_s),
            end.signal, end.doing};
  if (end.code == kLost && end.lost >= 0)
    return {kLost, end.lost,
            fmt::format("rank {} did not answer rank {}, which ended with exit code {} {:.1f} s "
                        "after the start",
                        end.lost, end.rank, end.code, end.at_s),
            0, end.doing};
  if (end.early != RankEnd::Early::kNot)
    return {kLost, end.rank,
            fmt::format("rank {} ended with exit code 0 {}, {:.1f} s after the start", end.rank,
                        end.early == RankEnd::Early::kAtWork ? "in the midst of its work"
                                                             : "before it had met the others",
                        end.at_s),
            0, end.doing};
  return {end.code, end.rank,
          end.rank == 0 ? ""
                        : fmt::format("rank {} ended with exit code {}, {:.1f} s after the start",
                                      end.rank, end.code, end.at_s),
          0, end.doing};
}

// Whether all was saved that an interrupt could save.
Outcome without_failure(const std::vector<RankEnd>& ends, int interrupt) {
  const auto find = [&](const auto& wanted) { return std::ranges::find_if(ends, wanted); };
  if (interrupt == 0) {
    const auto killed = find([](const RankEnd& end) { return end.code != 0 || end.signal != 0; });
    if (killed == ends.end()) return {};
    return {kLost, killed->rank, fmt::format("rank {} was killed by its agent", killed->rank)};
  }
  const auto unbegun = find([&](const RankEnd& end) { return end.signal == interrupt; });
  if (unbegun != ends.end())
    return {kSignalled + interrupt, unbegun->rank,
            fmt::format("rank {} had not begun when {} came; nothing new was saved", unbegun->rank,
                        os::signal_name(interrupt))};
  const auto killed = find([](const RankEnd& end) { return end.signal != 0; });
  if (killed != ends.end())
    return {os::kEndedUnsaved, killed->rank,
            fmt::format("rank {} was killed before it had saved", killed->rank)};
  const auto ended = find([](const RankEnd& end) { return end.code != 0; });
  return ended == ends.end() ? Outcome{} : Outcome{kSignalled + interrupt, ended->rank, ""};
}

}  // namespace

bool is_failure(const RankEnd& end, int interrupt) {
  if (end.by_us) return false;
  if (end.early != RankEnd::Early::kNot) return true;
  if (end.signal != 0) return end.signal != interrupt;
  return end.code != 0 && !(interrupt != 0 && end.code == 128 + interrupt);
}

Outcome judge(const std::vector<RankEnd>& ends, int interrupt) {
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ends) {
    if (!is_failure(end, interrupt)) continue;
    if (end.code != kLost || end.signal != 0) return decided_by(end);
    if (first == nullptr) first = &end;
  }
  if (first != nullptr) return decided_by(*first);
  return without_failure(ends, interrupt);
}

}  // namespace trireme::elastic
