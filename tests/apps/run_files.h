// What a run leaves in its directory, read back.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/base/json.h"

namespace trireme::app {

inline std::vector<Json> lines_of(const Path& file) {
  std::vector<Json> lines;
  std::istringstream text(read_file(file));
  for (std::string line; std::getline(text, line);)
    lines.push_back(parse_json(line, file.string()));
  return lines;
}

// Loss and gradient norm of every step.
inline std::vector<std::string> trace(const Path& run) {
  std::vector<std::string> lines;
  for (const Json& line : lines_of(run / "metrics.jsonl"))
    if (line.contains("loss"))
      lines.push_back(line["step"].dump() + " " + line["loss"].dump() + " " +
                      line["grad_norm"].dump());
  return lines;
}

}  // namespace trireme::app
