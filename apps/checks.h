// A capability proven by running it: one line with ok or FAIL and the time it took.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "trireme/base/clock.h"

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
    all_ok_ = all_ok_ && ok;
  }

  bool all_ok() const { return all_ok_; }

 private:
  bool all_ok_ = true;
};

}  // namespace trireme::app
