#include "trireme/base/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/json_events.h"

namespace trireme {
namespace {

// Builds the tree from events. The library's own builder looks through all keys of an object for every new one.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit TreeBuilder(const std::string& what) : what_(what) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return open(Json::object());
  }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second)
      fail(ErrorKind::kData, "{}: key \"{}\" appears twice in one object", what_, name);
    next_ = &open_.back()->get_ref<Json::object_t&>().emplace_back(std::move(name), nullptr).second;
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return close();
  }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    fail(ErrorKind::kData, "{}: not valid JSON ({})", what_, error.what());
  }

 private:
  // Where the value goes that comes now.
  Json& place() {
    if (open_.empty()) return root_;
    if (open_.back()->is_object()) return *next_;
    return open_.back()->get_ref<Json::array_t&>().emplace_back();
  }
  template <typename Value>
  bool add(Value&& value) {
    place() = std::forward<Value>(value);
    return true;
  }
  bool open(Json empty) {
    constexpr std::size_t kMaxDepth = 64;
    if (open_.size() == kMaxDepth)
      fail(ErrorKind::kData, "{}: nested deeper than {} levels", what_, kMaxDepth);
    Json& at = place();
    at = std::move(empty);
    open_.push_back(&at);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& what_;
  Json root_;
  std::vector<Json*>
      open_;              // each the last of the one before it, which therefore stays where it is
  Json* next_ = nullptr;  // of the key that was read last
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

void read_json(std::string_view text, nlohmann::json_sax<Json>& reader) {
  Json::sax_parse(text.begin(), text.end(), &reader);
}

Json parse_json(std::string_view text, const std::string& what) {
  TreeBuilder builder(what);
  read_json(text, builder);
  return builder.take();
}

}  // namespace trireme
