#include "trireme/model/account/costs.h"

#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/json.h"

namespace trireme::model {

void read_costs(std::string_view text, const std::string& what, plan::Program& program) {
  constexpr double kLongest = 1e6;
  const Json json = parse_json(text, what);
  const auto seconds = [&](const plan::Node& node, const char* part) {
    const auto pointer = Json::json_pointer("/nodes") / node.name / part;
    if (!json.contains(pointer) || !json.at(pointer).is_number() ||
        !(json.at(pointer).get<double>() >= 0 && json.at(pointer).get<double>() <= kLongest))
      fail(ErrorKind::kData,
           "{}: has no {} of node {} in seconds, from 0 to {}; record it with a run of this model",
           what, part, node.name, kLongest);
    return json.at(pointer).get<double>();
  };
  for (plan::Node& node : program.nodes)
    node.seconds = {.forward = seconds(node, "forward"),
                    .input = seconds(node, "input"),
                    .weight = seconds(node, "weight")};
}

}  // namespace trireme::model
