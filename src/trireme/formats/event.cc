#include "trireme/formats/event.h"

#include <fmt/chrono.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "trireme/base/json.h"

namespace trireme::formats {

std::string event_line(const Event& event, std::chrono::system_clock::time_point time) {
  Json line = {{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                    fmt::gmtime(std::chrono::system_clock::to_time_t(time)))},
               {"class", event.kind},
               {"rank", event.rank},
               {"host", event.host},
               {"step", event.step},
               {"op", event.op},
               {"cause", event.cause},
               {"action", event.action},
               {"lost_s", std::round(1000 * event.lost_s) / 1000}};
  if (event.generation) line["generation"] = *event.generation;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trireme::formats
