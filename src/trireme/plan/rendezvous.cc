#include <algorithm>
#include <array>

#include "trireme/plan/list_check.h"

namespace trireme::plan {
namespace {

using mesh::Axis;

// Ranks of a stage that share a list and a mesh are interchangeable: from a run of one representative a
// stage follows a run of all, in which the ranks of a stage move together. Queues that run in order
// complete the same lines in whatever order steps are taken, so one run decides.
//
// A lane holds one line that has started and not completed; a list stops at a line whose lane is busy
// or whose `after` has not completed. More room in the lanes can only help.
class Rendezvous {
 public:
  explicit Rendezvous(const PlanSet& plan) : plan_(plan), members_(plan.list_of_rank.size(), -1) {
    const mesh::Mesh& mesh = plan.mesh;
    for (int stage = 0; stage < mesh.degree(Axis::kPp); ++stage) {
      const std::vector<int> ranks = ranks_of(stage);
      const bool alike = std::ranges::all_of(ranks, [&](int rank) {
        return plan.list_of_rank[rank] == plan.list_of_rank[ranks.front()];
      });
      for (int rank : ranks) {
        if (!alike || rank == ranks.front())
          walkers_.push_back({.rank = rank, .stage = stage, .list = &plan.list(rank)});
        members_[rank] = static_cast<int>(walkers_.size()) - 1;
      }
    }
  }

  void run() {
    std::vector<int> awake;
    for (int w = 0; w < static_cast<int>(walkers_.size()); ++w) awake.push_back(w);
    while (!awake.empty()) {
      const int walker = awake.back();
      awake.pop_back();
      while (advance(walker, awake)) continue;
    }
    report_stuck();
  }

 private:
  struct Walker {
    int rank = 0;
    int stage = 0;
    const List* list = nullptr;
    int next = 0;  // the line it stands before
    std::array<int, kLanes> busy = {-1, -1, -1, -1, -1, -1};

    const Instr& line(int index) const { return (*list)[static_cast<std::size_t>(index)]; }
    bool complete(int index) const {
      return index < next && std::ranges::find(busy, index) == busy.end();
    }
    bool done() const {
      return next == static_cast<int>(list->size()) &&
             std::ranges::all_of(busy, [](int line) { return line < 0; });
    }
  };

  std::vector<int> ranks_of(int stage) const {
    mesh::Coordinates at;
    at.at(Axis::kPp) = stage;
    return plan_.mesh.group(plan_.mesh.rank(at), mesh::kWorld - mesh::AxisSet(Axis::kPp));
  }

  // Starts the walker's next line if it can; wakes those whose lines complete with it.
  bool advance(int index, std::vector<int>& awake) {
    Walker& walker = walkers_[index];
    if (walker.next == static_cast<int>(walker.list->size())) return false;
    const Instr& line = walker.line(walker.next);
    int& slot = walker.busy[static_cast<std::size_t>(line.lane)];
    if (slot >= 0) return false;
    for (int earlier : line.after)
      if (!walker.complete(earlier)) return false;
    if (line.lane != Lane::kComp) slot = walker.next;
    ++walker.next;
    if (line.lane == Lane::kComp) return true;
    const std::vector<int> met = meeting(index, line);
    for (int other : met) {
      walkers_[other].busy[static_cast<std::size_t>(line.lane)] = -1;
      if (other != index) awake.push_back(other);
    }
    return true;
  }

  // Everyone who takes part in the line, if all of them stand in it now; else nobody.
  std::vector<int> meeting(int index, const Instr& line) const {
    std::vector<int> all = participants(index, line);
    for (int other : all) {
      const Walker& walker = walkers_[other];
      const int standing = walker.busy[static_cast<std::size_t>(line.lane)];
      if (standing < 0 || !matches(walkers_[index], line, walker, walker.line(standing))) return {};
    }
    return all;
  }

  static bool matches(const Walker& walker, const Instr& line, const Walker& other,
                      const Instr& theirs) {
    if (line.verb != Verb::kSend && line.verb != Verb::kRecv)
      return line.verb == theirs.verb && line.unit == theirs.unit && line.mb == theirs.mb &&
             line.axes == theirs.axes && line.scatter == theirs.scatter;
    if (&walker == &other) return true;
    return theirs.verb == (line.verb == Verb::kSend ? Verb::kRecv : Verb::kSend) &&
           line.value == theirs.value && line.mb == theirs.mb && line.gradient == theirs.gradient &&
           line.peer == other.stage && theirs.peer == walker.stage;
  }

  std::vector<int> participants(int index, const Instr& line) const {
    const Walker& walker = walkers_[index];
    std::vector<int> all;
    if (line.verb == Verb::kSend || line.verb == Verb::kRecv) {
      all = {index, members_[plan_.mesh.peer(walker.rank, Axis::kPp, line.peer)]};
    } else if (line.verb == Verb::kGradNorm) {
      for (int w = 0; w < static_cast<int>(walkers_.size()); ++w) all.push_back(w);
    } else {
      const std::vector<int> stages = stages_of_unit(plan_.program, line.unit);
      for (int rank : plan_.mesh.group(walker.rank, line.axes))
        if (std::ranges::binary_search(stages, walkers_[members_[rank]].stage))
          all.push_back(members_[rank]);
    }
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    return all;
  }

  std::string describe(const Walker& walker) const {
    std::string text;
    const auto add = [&](int line, const char* how) {
      text += fmt::format("{}rank {} {} line {} `{}`", text.empty() ? "" : ", ", walker.rank, how,
                          line, line_text(plan_.program, walker.line(line)));
    };
    for (int line : walker.busy)
      if (line >= 0) add(line, "waits in");
    if (text.empty()) add(walker.next, "stands before");
    return text;
  }

  void report_stuck() const {
    constexpr int kShown = 4;
    std::string text;
    int stuck = 0;
    for (const Walker& walker : walkers_)
      if (!walker.done() && ++stuck <= kShown) text += (stuck > 1 ? "; " : "") + describe(walker);
    if (stuck == 0) return;
    if (stuck > kShown) text += fmt::format("; and {} more", stuck - kShown);
    fail(ErrorKind::kInternal, "plan {} deadlocks: {}", plan_.program.name, text);
  }

  const PlanSet& plan_;
  std::vector<int> members_;  // rank to its walker
  std::vector<Walker> walkers_;
};

}  // namespace

void check_rendezvous(const PlanSet& plan) { Rendezvous(plan).run(); }

}  // namespace trireme::plan
