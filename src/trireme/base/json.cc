#include "trireme/base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/git_lfs.h"
#include "trireme/base/json_events.h"

namespace trireme {
namespace {

// In quotes, with escapes for all but printable ASCII, and cut if it is long.
std::string on_one_line(std::string_view name) {
  constexpr std::size_t kMost = 120;
  return Json(name.substr(0, kMost)).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Builds the tree from events. The library's own builder looks through all keys of an object for every new one.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::string_view text, const std::string& what) : text_(text), what_(what) {}

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
      fail(ErrorKind::kData, "{}: key {} appears twice in one object", what_, on_one_line(name));
    next_ = &open_.back()->get_ref<Json::object_t&>().emplace_back(std::move(name), nullptr).second;
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return close();
  }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  // `at` counts what has been read.
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception&) override {
    refuse_pointer(text_, what_);
    if (text_.empty()) fail(ErrorKind::kData, "{}: not valid JSON: it is empty", what_);
    if (at > text_.size())
      fail(ErrorKind::kData, "{}: not valid JSON: it ends inside a value, after {} bytes", what_,
           text_.size());
    const std::string_view before = text_.substr(0, at > 0 ? at - 1 : 0);
    fail(ErrorKind::kData, "{}: not valid JSON at line {}, column {}", what_,
         std::ranges::count(before, '\n') + 1, before.size() - before.rfind('\n'));  // npos is -1
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

  std::string_view text_;
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
  TreeBuilder builder(text, what);
  read_json(text, builder);
  return builder.take();
}

}  // namespace trireme
