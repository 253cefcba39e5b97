#include "trireme/config/values/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "trireme/base/error.h"

namespace trireme::config {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 18;
constexpr std::size_t kMaxDepth = 8;
constexpr std::size_t kMaxKeys = 1000;

// Builds the tree from yaml-cpp's events, which carry what its own nodes hide: anchors, tags,
// repeated keys and the place of each key.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& what) : what_(what) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) refuse(mark, "a second document starts; a job is one document");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(node(YamlNode::Kind::kNull, mark, "", anchor));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not supported; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode scalar = node(YamlNode::Kind::kScalar, mark, tag, anchor);
    scalar.text = value;
    scalar.quoted = tag == "!";  // yaml-cpp's mark of a scalar that is not plain
    add(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(node(YamlNode::Kind::kList, mark, tag, anchor));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(node(YamlNode::Kind::kMap, mark, tag, anchor));
  }
  void OnMapEnd() override { close(); }

  YamlNode take() { return std::move(root_); }

 private:
  [[noreturn]] void refuse(int line, int column, std::string_view why) const {
    fail(ErrorKind::kUsage, "{}:{}:{}: {}", what_, line, column, why);
  }
  [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view why) const {
    refuse(mark.line + 1, mark.column + 1, why);
  }

  YamlNode node(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor)
      refuse(mark, "anchors (&name) are not supported; write the value out");
    if (!tag.empty() && tag != "?" && tag != "!")
      refuse(mark, "tags (!!type) are not supported; write the plain value");
    YamlNode made;
    made.kind = kind;
    made.line = mark.line + 1;
    made.column = mark.column + 1;
    return made;
  }

  bool awaits_key() const {
    return !open_.empty() && open_.back().kind == YamlNode::Kind::kMap &&
           open_.back().keys.size() == open_.back().items.size();
  }

  void open(YamlNode started) {
    if (awaits_key())
      refuse(started.line, started.column,
             "found a list or map where a key is needed; is a bracket left open?");
    if (open_.size() == kMaxDepth)
      refuse(started.line, started.column, fmt::format("nested deeper than {} levels", kMaxDepth));
    open_.push_back(std::move(started));
  }

  void close() {
    YamlNode done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done));
  }

  void add(YamlNode done) {
    if (open_.empty()) {
      root_ = std::move(done);
    } else if (awaits_key()) {
      add_key(std::move(done));
    } else {
      open_.back().items.push_back(std::move(done));
    }
  }

  void add_key(YamlNode key) {
    if (key.kind != YamlNode::Kind::kScalar)
      refuse(key.line, key.column, "a key must be a plain word");
    if (key.text == "<<")
      refuse(key.line, key.column, "merge keys (<<) are not supported; write the keys out");
    std::vector<YamlNode>& keys = open_.back().keys;
    if (keys.size() == kMaxKeys)
      refuse(key.line, key.column, fmt::format("more than {} keys in one map", kMaxKeys));
    const auto twin = std::ranges::find(keys, key.text, &YamlNode::text);
    if (twin != keys.end())
      refuse(key.line, key.column,
             fmt::format("key {} appears twice, first on line {}; keep one", quote(key.text),
                         twin->line));
    keys.push_back(std::move(key));
  }

  const std::string& what_;
  std::vector<YamlNode> open_;
  YamlNode root_;
  int documents_ = 0;
};

// Length of the UTF-8 sequence at the start of `text`; 0 when it is not one (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xC2   ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const unsigned char next = byte(1);
  const bool overlong = (lead == 0xE0 && next < 0xA0) || (lead == 0xF0 && next < 0x90);
  const bool beyond = (lead == 0xED && next >= 0xA0) || (lead == 0xF4 && next >= 0x90);
  return overlong || beyond ? 0 : length;
}

// Refuses what yaml-cpp would read in silence or report in a confusing way.
void check_bytes(std::string_view text, const std::string& what) {
  if (text.size() > kMaxBytes)
    fail(ErrorKind::kUsage, "{}:1:1: {} bytes; a job has at most {}", what, text.size(), kMaxBytes);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != text.npos && text[first] == '{';
  int line = 1;
  std::size_t line_begin = 0;
  bool indenting = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    const char c = text[at];
    const bool control =
        static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
    const std::size_t column = at - line_begin + 1;
    if (length == 0 || control || c == 0x7F)
      fail(ErrorKind::kUsage, "{}:{}:{}: byte 0x{:02x} is not UTF-8 text", what, line, column,
           static_cast<unsigned char>(c));
    if (c == '\t' && indenting && !json)
      fail(ErrorKind::kUsage, "{}:{}:{}: a tab indents this line; use spaces", what, line, column);
    if (c == '\n') {
      ++line;
      line_begin = at + 1;
    }
    indenting = c == '\n' || (indenting && c == ' ');
    at += length;
  }
}

}  // namespace

YamlNode parse_yaml(std::string_view text, const std::string& what) {
  check_bytes(text, what);
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(what);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    fail(ErrorKind::kUsage, "{}:{}:{}: not valid YAML: {}", what, e.mark.line + 1,
         e.mark.column + 1, e.msg);
  }
  return builder.take();
}

std::string quote(std::string_view text) {
  constexpr std::size_t kShown = 80;
  std::string shown = "\"";
  for (std::size_t at = 0; at < text.size();) {
    if (at >= kShown) return shown + "...\"";
    const std::size_t length = utf8_length(text.substr(at));
    const unsigned char c = static_cast<unsigned char>(text[at]);
    if (length == 0 || c < 0x20 || c == 0x7F) {
      shown += fmt::format("\\x{:02x}", c);
    } else {
      if (c == '"' || c == '\\') shown += '\\';
      shown += text.substr(at, length);
    }
    at += std::max<std::size_t>(length, 1);
  }
  return shown + '"';
}

std::string yaml_scalar(std::string_view text) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  constexpr std::array<std::string_view, 4> kNull = {"", "null", "Null", "NULL"};
  const bool plain = text.find_first_not_of(kSafe) == text.npos &&
                     std::ranges::find(kNull, text) == kNull.end() && !text.starts_with('-') &&
                     !text.starts_with('.');
  if (plain) return std::string(text);
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

bool is_printable(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const unsigned char c = static_cast<unsigned char>(text.front());
    if (length == 0 || c < 0x20 || c == 0x7F) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace trireme::config
