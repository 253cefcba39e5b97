#include "trireme/plan/simulate/pictures/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "trireme/plan/text/text.h"

namespace trireme::simulate::pictures {
namespace {

using plan::Instr;
using plan::Queue;

constexpr int kMostTogether = 64;  // rows of one kind of queue

// Rows appear in this order.
int kind_of(const Instr& line) {
  if (line.lane == plan::Lane::kComp) return 0;
  if (line.lane == plan::Lane::kH2d) return 6;
  if (line.lane == plan::Lane::kD2h) return 7;
  if (!plan::is_transfer(line)) return 1;
  const bool send = line.verb == plan::Verb::kSend;
  return (line.lane == plan::Lane::kDown ? 2 : 4) + (send ? 0 : 1);
}

std::string row_name(const Instr& line, int slot) {
  std::string text(name(line.lane));
  if (plan::is_transfer(line)) text += fmt::format(" {}", name(line.verb));
  return slot == 0 ? text : fmt::format("{} {}", text, slot + 1);
}

std::int64_t nanoseconds(double seconds) { return std::llround(1e9 * seconds); }

std::string short_name(const plan::Program& program, Instr line) {
  line.after.clear();
  line.axes = {};
  line.keep = line.scatter = false;
  return plan::line_text(program, line);
}

// Which of a kind's rows have ended when; a span takes the first that is free.
class Slots {
 public:
  int take(int kind, std::int64_t start, std::int64_t end) {
    std::vector<std::int64_t>& rows = ends_[kind];
    auto row = std::ranges::find_if(rows, [&](std::int64_t last) { return last <= start; });
    if (row == rows.end() && rows.size() < kMostTogether) row = rows.insert(rows.end(), end);
    if (row == rows.end()) row = rows.end() - 1;
    *row = std::max(*row, end);
    return static_cast<int>(row - rows.begin());
  }

 private:
  std::array<std::vector<std::int64_t>, 8> ends_;
};

}  // namespace

void add_process(formats::ChromeTrace& trace, const plan::PlanSet& plan, const Timeline& timeline,
                 int process) {
  const plan::List& list = plan.list(timeline.rank);
  trace.name_process(process, timeline.label, process);
  Slots slots;
  std::set<int> named;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Instr& line = list[i];
    const std::int64_t start = nanoseconds(timeline.times[i].start);
    const std::int64_t end = nanoseconds(timeline.times[i].end);
    if (end <= start) continue;
    const int kind = kind_of(line);
    const int slot = slots.take(kind, start, end);
    const int thread = kind * kMostTogether + slot;
    if (named.insert(thread).second)
      trace.name_thread(process, thread, row_name(line, slot), thread);
    trace.span({.name = short_name(plan.program, line),
                .category = name(line.verb),
                .start_ns = start,
                .duration_ns = end - start,
                .process = process,
                .thread = thread,
                .text_args = {{"text", plan::line_text(plan.program, line)}},
                .number_args = {{"line", static_cast<std::int64_t>(i)}}});
  }
  for (const MemoryPointInTime& point : memory_curve(plan, timeline))
    trace.counter("memory", nanoseconds(point.at), process, point.bytes);
}

formats::ChromeTrace trace(const plan::PlanSet& plan, const std::vector<Timeline>& timelines) {
  formats::ChromeTrace result;
  std::set<int> taken;
  for (const Timeline& one : timelines) {
    int process = one.rank;
    while (!taken.insert(process).second) process += plan.mesh.world();
    add_process(result, plan, one, process);
  }
  return result;
}

}  // namespace trireme::simulate::pictures
