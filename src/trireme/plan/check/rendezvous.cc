#include <algorithm>

#include "trireme/plan/check/list_check.h"
#include "trireme/plan/check/list_walk.h"

namespace trireme::plan {
namespace {

using Walker = ListWalk::Walker;
using Waiting = ListWalk::Waiting;

// What a walk says that did not come to its end.
class Stuck {
 public:
  Stuck(const PlanSet& plan, const ListWalk& walk) : plan_(plan), walk_(walk) {}

  [[noreturn]] void report() const;

 private:
  std::string describe(const Walker& walker) const {
    std::string text;
    const auto add = [&](int line, const char* how) {
      text += fmt::format("{}rank {} {} line {} `{}`", text.empty() ? "" : ", ", walker.rank, how,
                          line, line_text(plan_.program, walker.line(line)));
    };
    for (const Waiting& one : walker.waiting)
      if (!one.lines.empty()) add(one.lines.front(), "waits in");
    if (walker.next < static_cast<int>(walker.list->size())) add(walker.next, "is before");
    return text;
  }

  // Reason why a transfer at the head of its queue will never meet, if the other side alone shows it.
  std::string unmet(const Walker& walker, const Queue& queue, int head) const {
    const Instr& line = walker.line(head);
    if (!is_transfer(line)) return "";
    const Walker& peer = walk_.peer_of(walker, line.peer);
    const auto met_by = [&](const Instr& theirs) {
      return meets(line, walker.stage, theirs, peer.stage);
    };
    const char* verb = line.verb == Verb::kRecv ? "sends" : "receives";
    if (std::ranges::none_of(*peer.list, met_by))
      return fmt::format("rank {} waits in line {} `{}`, which rank {} never {}; ", walker.rank,
                         head, line_text(plan_.program, line), peer.rank, verb);
    const int standing = peer.head(counterpart(queue, walker.stage));
    if (line.verb != Verb::kRecv || standing < 0 || met_by(peer.line(standing))) return "";
    return fmt::format("rank {} waits in line {} `{}`, where rank {} sends line {} `{}`; ",
                       walker.rank, head, line_text(plan_.program, line), peer.rank, standing,
                       line_text(plan_.program, peer.line(standing)));
  }

  // Position of the walker: before a line that waits, or at the end with transfers without a partner.
  int place(const Walker& walker) const {
    if (walker.next < static_cast<int>(walker.list->size())) return walker.next;
    for (const Waiting& one : walker.waiting)
      if (!one.lines.empty()) return one.lines.front();
    return walker.next - 1;
  }

  const PlanSet& plan_;
  const ListWalk& walk_;
};

void Stuck::report() const {
  constexpr int kShown = 4;
  std::string why, text;
  std::vector<Mark> first, others;
  int stuck = 0;
  for (const Walker& walker : walk_.walkers()) {
    if (walker.done()) continue;
    if (++stuck <= kShown) text += (stuck > 1 ? "; " : "") + describe(walker);
    std::string reason;
    int line = place(walker);
    for (const Waiting& one : walker.waiting)
      if (reason.empty() && !one.lines.empty()) {
        reason = unmet(walker, one.queue, one.lines.front());
        if (!reason.empty()) line = one.lines.front();
      }
    if (why.empty()) why = reason;
    (reason.empty() ? others : first).push_back({.rank = walker.rank, .line = line});
  }
  if (stuck > kShown) text += fmt::format("; and {} more", stuck - kShown);
  first.insert(first.end(), others.begin(), others.end());
  if (first.size() > kShown) first.resize(kShown);
  std::ranges::sort(first, {}, &Mark::rank);
  fail(ErrorKind::kInternal, "plan {} deadlocks: {}{}{}", plan_.program.name, why, text,
       marked_rows(plan_, first));
}

}  // namespace

bool runs_to_the_end(const PlanSet& plan) {
  return ListWalk(plan, LaneRoom::kOneLine, nullptr).run();
}

void check_rendezvous(const PlanSet& plan) {
  ListWalk walk(plan, LaneRoom::kOneLine, nullptr);
  if (!walk.run()) Stuck(plan, walk).report();
}

}  // namespace trireme::plan
