#include "trireme/train/watch/step_trace.h"

#include <cstring>

#include "trireme/base/error.h"
#include "trireme/plan/simulate/pictures/overlay.h"

namespace trireme::train {

void write_step_trace(const Path& out, const plan::PlanSet& plan,
                      const simulate::Forecast& forecast, const std::vector<exec::LineTime>& mine,
                      std::int64_t step, comm::World& world) {
  std::vector<simulate::LineTime> own;
  for (const exec::LineTime& line : mine)
    own.push_back({.start = line.start, .end = line.end, .waited = line.waited});
  const std::vector<std::string> all = world.exchange(std::string(
      reinterpret_cast<const char*>(own.data()), own.size() * sizeof(simulate::LineTime)));
  if (world.rank() != 0) return;
  simulate::RankTimes times;
  for (const std::string& bytes : all) {
    times.emplace_back(bytes.size() / sizeof(simulate::LineTime));
    TRIREME_CHECK(bytes.size() % sizeof(simulate::LineTime) == 0, "{} bytes of times",
                  bytes.size());
    std::memcpy(times.back().data(), bytes.data(), bytes.size());
  }
  simulate::pictures::write_timeline(out, plan, forecast, times, step);
}

}  // namespace trireme::train
