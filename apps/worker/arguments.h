// The arguments of trireme-worker: it is called by `trireme`, which has checked them.
#pragma once

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/fs.h"

namespace trireme::app {

// "--name value" pairs and "--flag"s.
class Arguments {
 public:
  // `argv` after the subcommand.
  Arguments(int argc, char** argv) {
    for (int i = 0; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (!word.starts_with("--"))
        fail(ErrorKind::kUsage, "unexpected argument {}; trireme calls this program", word);
      const bool flag = word == "--quiet";
      if (!flag && i + 1 == argc)
        fail(ErrorKind::kUsage, "{} needs a value; trireme calls this program", word);
      given_[std::string(word.substr(2))] = flag ? "" : argv[++i];
    }
  }

  bool has(const std::string& name) const { return given_.contains(name); }

  std::string text(const std::string& name, std::optional<std::string> missing = {}) const {
    const auto found = given_.find(name);
    if (found != given_.end()) return found->second;
    if (!missing) fail(ErrorKind::kUsage, "--{} is missing; trireme calls this program", name);
    return *missing;
  }

  // The request of `trireme` as one object.
  template <typename Request>
  Request request() const {
    return nlohmann::json::parse(read_file(text("request"))).template get<Request>();
  }

  template <typename Number>
  Number number(const std::string& name, std::optional<Number> missing = {}) const {
    if (missing && !has(name)) return *missing;
    const std::string word = text(name);
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size())
      fail(ErrorKind::kUsage, "--{} {} is not a number of that kind", name, word);
    return value;
  }

 private:
  std::map<std::string, std::string> given_;
};

}  // namespace trireme::app
