#include "trireme/base/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "trireme/base/error.h"

namespace trireme {

Json parse_json(std::string_view text, const std::string& what) {
  constexpr int kMaxDepth = 64;
  std::vector<std::set<std::string>> keys;
  auto guard = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth)
      fail(ErrorKind::kData, "{}: nested deeper than {} levels", what, kMaxDepth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      fail(ErrorKind::kData, "{}: key \"{}\" stands twice in one object", what,
           parsed.get<std::string>());
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), guard);
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::kData, "{}: not valid JSON ({})", what, e.what());
  }
}

}  // namespace trireme
