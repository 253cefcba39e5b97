#include <algorithm>
#include <deque>

#include "trireme/plan/check/list_check.h"
#include "trireme/plan/check/meeting.h"

namespace trireme::plan {
namespace {

using mesh::Axis;

// Where the ranks of every stage share a list they are interchangeable: from a run of one representative a stage follows
// a run of all, in which the ranks of a stage move together. Where lists of some stage differ, every rank walks. Queues
// that run in order complete the same lines in whatever order steps are taken, so one run decides.
//
// A lane of collectives holds one line that has started and not completed; a list stops at a line whose lane is
// busy or whose `after` has not completed. More room in the lanes can only help. Transfers wait in their queues
// and hold up nobody until a line names them: a rank may send ahead of what others have asked for. A node that
// exchanges something in its line holds its list up until the others have come to theirs.
class Rendezvous {
 public:
  explicit Rendezvous(const PlanSet& plan)
      : plan_(plan), members_(walk(plan)), meetings_(plan, members_) {}

  // Whether all lists run to the end.
  bool run() {
    std::vector<int> awake;
    for (int w = 0; w < static_cast<int>(walkers_.size()); ++w) awake.push_back(w);
    while (!awake.empty()) {
      const int walker = awake.back();
      awake.pop_back();
      while (advance(walker, awake)) continue;
    }
    return std::ranges::all_of(walkers_, &Walker::done);
  }

 private:
  struct Waiting {
    Queue queue;
    std::deque<int> lines{};
  };
  struct Walker {
    int rank = 0;
    int stage = 0;
    const List* list = nullptr;
    int next = 0;               // the line it stands before
    std::vector<bool> ended{};  // by line
    std::vector<Waiting> waiting{};

    const Instr& line(int index) const { return (*list)[static_cast<std::size_t>(index)]; }
    bool complete(int index) const { return ended[static_cast<std::size_t>(index)]; }
    std::deque<int>& lines(const Queue& queue) {
      for (Waiting& one : waiting)
        if (one.queue == queue) return one.lines;
      return waiting.emplace_back(Waiting{.queue = queue}).lines;
    }
    int head(const Queue& queue) const {
      for (const Waiting& one : waiting)
        if (one.queue == queue) return one.lines.empty() ? -1 : one.lines.front();
      return -1;
    }
    bool done() const {
      return next == static_cast<int>(list->size()) &&
             std::ranges::all_of(waiting, [](const Waiting& one) { return one.lines.empty(); });
    }
  };

  // Makes the walkers, and says which is each rank's.
  std::vector<int> walk(const PlanSet& plan) {
    const auto world = static_cast<int>(plan.list_of_rank.size());
    const auto first = [&](int rank) {  // of its stage
      mesh::Coordinates at;
      at.at(Axis::kPp) = plan.mesh.coordinate(rank, Axis::kPp);
      return plan.mesh.rank(at);
    };
    bool alike = true;
    for (int rank = 0; rank < world && alike; ++rank)
      alike = &plan.list(rank) == &plan.list(first(rank));
    std::vector<int> members(plan.list_of_rank.size(), -1);
    for (int rank = 0; rank < world; ++rank) {
      int& member = members[static_cast<std::size_t>(rank)];
      if (alike) member = members[static_cast<std::size_t>(first(rank))];
      if (member >= 0) continue;
      member = static_cast<int>(walkers_.size());
      walkers_.push_back({.rank = rank,
                          .stage = plan.mesh.coordinate(rank, Axis::kPp),
                          .list = &plan.list(rank),
                          .ended = std::vector<bool>(plan.list(rank).size())});
    }
    return members;
  }

  // Starts the walker's next line if it can, and ends what has met; wakes those whose lines end with it.
  bool advance(int index, std::vector<int>& awake) {
    Walker& walker = walkers_[static_cast<std::size_t>(index)];
    if (walker.next == static_cast<int>(walker.list->size())) return false;
    const Instr& line = walker.line(walker.next);
    for (int earlier : line.after)
      if (!walker.complete(earlier)) return false;
    const Queue queue = queue_of(line);
    if (walker.head({.lane = Lane::kComp}) >= 0) return false;  // its thread is in that line
    if (line.lane == Lane::kComp && meeting_axes(plan_.program, line).empty()) {
      walker.ended[static_cast<std::size_t>(walker.next++)] = true;
      return true;
    }
    if (!is_transfer(line) && walker.head(queue) >= 0) return false;
    walker.lines(queue).push_back(walker.next++);
    while (meet(index, queue, awake)) continue;
    return true;
  }

  // Ends the head of the walker's queue for everyone who takes part in it, if all of them stand in it now.
  bool meet(int index, const Queue& queue, std::vector<int>& awake) {
    const Walker& walker = walkers_[static_cast<std::size_t>(index)];
    const int head = walker.head(queue);
    if (head < 0) return false;
    const Instr& line = walker.line(head);
    const std::vector<int> all = meetings_.participants(index, line);
    std::vector<Queue> queues;
    for (int other : all) {
      const Walker& one = walkers_[static_cast<std::size_t>(other)];
      queues.push_back(other == index ? queue : counterpart(queue, walker.stage));
      if (other == index) continue;
      const int standing = one.head(queues.back());
      if (standing < 0 || !meets(line, walker.stage, one.line(standing), one.stage)) return false;
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      Walker& one = walkers_[static_cast<std::size_t>(all[i])];
      std::deque<int>& lines = one.lines(queues[i]);
      one.ended[static_cast<std::size_t>(lines.front())] = true;
      lines.pop_front();
      if (all[i] != index) awake.push_back(all[i]);
    }
    return true;
  }

  std::string describe(const Walker& walker) const {
    std::string text;
    const auto add = [&](int line, const char* how) {
      text += fmt::format("{}rank {} {} line {} `{}`", text.empty() ? "" : ", ", walker.rank, how,
                          line, line_text(plan_.program, walker.line(line)));
    };
    for (const Waiting& one : walker.waiting)
      if (!one.lines.empty()) add(one.lines.front(), "waits in");
    if (walker.next < static_cast<int>(walker.list->size())) add(walker.next, "stands before");
    return text;
  }

  // Why a transfer at the head of its queue will never meet, if that can be told from the other side alone.
  std::string unmet(const Walker& walker, const Queue& queue, int head) const {
    const Instr& line = walker.line(head);
    if (!is_transfer(line)) return "";
    const int own = members_[static_cast<std::size_t>(walker.rank)];
    const Walker& peer = walkers_[static_cast<std::size_t>(meetings_.peer_of(own, line.peer))];
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

  // Where the walker stands: before a line that waits, or at the end with transfers that nobody takes.
  int place(const Walker& walker) const {
    if (walker.next < static_cast<int>(walker.list->size())) return walker.next;
    for (const Waiting& one : walker.waiting)
      if (!one.lines.empty()) return one.lines.front();
    return walker.next - 1;
  }

 public:
  void report_stuck() const {
    constexpr int kShown = 4;
    std::string why, text;
    std::vector<Mark> first, others;
    int stuck = 0;
    for (const Walker& walker : walkers_) {
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
    if (stuck == 0) return;
    if (stuck > kShown) text += fmt::format("; and {} more", stuck - kShown);
    first.insert(first.end(), others.begin(), others.end());
    if (first.size() > kShown) first.resize(kShown);
    std::ranges::sort(first, {}, &Mark::rank);
    fail(ErrorKind::kInternal, "plan {} deadlocks: {}{}{}", plan_.program.name, why, text,
         marked_rows(plan_, first));
  }

 private:
  const PlanSet& plan_;
  std::vector<Walker> walkers_;
  std::vector<int> members_;  // rank to its walker
  Meetings meetings_;
};

}  // namespace

bool runs_to_the_end(const PlanSet& plan) { return Rendezvous(plan).run(); }

void check_rendezvous(const PlanSet& plan) {
  Rendezvous rendezvous(plan);
  if (!rendezvous.run()) rendezvous.report_stuck();
}

}  // namespace trireme::plan
