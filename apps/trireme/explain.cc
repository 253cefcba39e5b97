// trireme explain: the plan of a job, proven and priced, without running it.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "dataset.h"
#include "place.h"
#include "planned.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/json.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/text.h"

namespace trireme::app {
namespace {

// One line of the list for each run of equal verbs, so that a step fits a screen.
std::string folded(const Planned& planned, int rank) {
  const plan::List& list = planned.plan.list(rank);
  std::string text;
  for (std::size_t begin = 0; begin < list.size();) {
    std::size_t end = begin + 1;
    while (end < list.size() && list[end].verb == list[begin].verb) ++end;
    const std::string first = plan::line_text(planned.plan.program, list[begin]);
    text += end == begin + 1 ? fmt::format("{:>5}  {}\n", begin, first)
                             : fmt::format("{:>5}  {}  ... {} more\n", begin, first, end - begin - 1);
    begin = end;
  }
  return text;
}

Json memory_json(const plan::MemoryPoint& point) {
  Json json;
  for (int kind = 0; kind < plan::kMemoryKinds; ++kind)
    json[std::string(plan::name(static_cast<plan::MemoryKind>(kind)))] = point[static_cast<std::size_t>(kind)];
  return json;
}

std::string as_json(const Planned& planned, int rank) {
  const plan::MemoryAccount memory = plan::memory_account(planned.plan, rank);
  Json json = {{"digest", hex64(plan::digest(planned.plan))},
               {"world", planned.plan.mesh.world()},
               {"parameters", planned.model.parameters()},
               {"flops_per_token", planned.model.flops_per_token},
               {"flops_convention", planned.model.flops_convention},
               {"rank", rank}};
  json["memory"] = {{"peak_bytes", memory.peak_total},
                    {"peak_line", memory.peak_line},
                    {"model_states_bytes", memory.model_states},
                    {"persistent", memory_json(memory.persistent)},
                    {"peak", memory_json(memory.peak)}};
  Json& lines = json["lines"] = Json::array();
  for (const plan::Instr& line : planned.plan.list(rank)) lines.push_back(plan::line_text(planned.plan.program, line));
  return json.dump(1) + "\n";
}

}  // namespace

int explain(const ExplainOptions& options) {
  const config::Job job = read_job(options.job);
  const Place place = find_place(options.job.ranks, options.job.nproc);
  const Planned planned = plan_job(job, place.world, known_vocabulary(job.data));
  if (options.rank < 0 || options.rank >= place.world)
    fail(ErrorKind::kUsage, "--rank {}: the world has ranks 0 to {}", options.rank, place.world - 1);
  if (options.format == "plan") fmt::print("{}", plan::print(planned.plan));
  if (options.format == "json") fmt::print("{}", as_json(planned, options.rank));
  if (options.format == "text")
    fmt::print("{}\nrank {} of {}, one step:\n{}", short_summary(planned), options.rank, place.world, folded(planned, options.rank));
  return 0;
}

}  // namespace trireme::app
