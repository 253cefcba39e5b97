// A capability proven by running it: one line with ok or FAIL and the time it took.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/json.h"

namespace trireme::app {

class Checks {
 public:
  // `body` returns what it found, or throws.
  void run(const std::string& name, const std::function<std::string()>& body) {
    const Stopwatch watch;
    std::string found;
    bool ok = true;
    try {
      found = body();
    } catch (const std::exception& error) {
      found = error.what();
      ok = false;
    }
    found = found.substr(0, found.find('\n'));
    fmt::print("{:<4}  {:<22} {:>7.0f} ms  {}\n", ok ? "ok" : "FAIL", name, 1e3 * watch.seconds(),
               found);
    std::fflush(stdout);
    rows_.push_back({.name = name, .ok = ok, .ms = 1e3 * watch.seconds(), .found = found});
    all_ok_ = all_ok_ && ok;
  }

  bool all_ok() const { return all_ok_; }

  struct Row {
    std::string name;
    bool ok = false;
    double ms = 0;
    std::string found;
  };
  const std::vector<Row>& rows() const { return rows_; }
  Json json() const {
    Json all = Json::array();
    for (const Row& row : rows_)
      all.push_back({{"name", row.name}, {"ok", row.ok}, {"ms", row.ms}, {"found", row.found}});
    return all;
  }

 private:
  std::vector<Row> rows_;
  bool all_ok_ = true;
};

}  // namespace trireme::app
