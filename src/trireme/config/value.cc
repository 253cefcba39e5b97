#include <charconv>
#include <cmath>
#include <system_error>

#include "trireme/base/error.h"
#include "trireme/config/fields.h"
#include "trireme/config/yaml.h"

namespace trireme::config {
namespace {

// Where a value stands and which field it is for: every complaint starts with both.
struct Context {
  const Field& field;
  const std::string& place;

  [[noreturn]] void refuse(const std::string& seen) const {
    fail(ErrorKind::kUsage, "{}{}: {}; needs {}", place, field.key, seen, describe(field));
  }
};

bool in_range(const Range& range, double number) {
  if (range.also && number == static_cast<double>(*range.also)) return true;
  const bool low = range.above_min ? number > range.min : number >= range.min;
  const bool high = range.below_max ? number < range.max : number <= range.max;
  return low && high;
}

std::string range_text(const Range& range) {
  std::string text = fmt::format("{} {}", range.above_min ? "above" : "from", range.min);
  if (std::isfinite(range.max))
    text += fmt::format("{} {}",
                        range.below_max   ? " to below"
                        : range.above_min ? " up to"
                                          : " to",
                        range.max);
  if (range.also) text += fmt::format(", or {}", *range.also);
  return text;
}

const char* kind_name(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::kNull: return "no value";
    case YamlNode::Kind::kScalar: return "a single value";
    case YamlNode::Kind::kList: return "a list";
    case YamlNode::Kind::kMap: return "a map";
  }
  return "";
}

void need_scalar(const YamlNode& node, const Context& context) {
  if (node.kind != YamlNode::Kind::kScalar)
    context.refuse(fmt::format("has {}", kind_name(node.kind)));
}

// Decimal numbers as JSON and YAML 1.2 share them: 5, -1, 0.1, 1e-4, 5e8, +3. No hex, no 1_000.
double read_number(const YamlNode& node, const Context& context) {
  need_scalar(node, context);
  if (node.quoted)
    context.refuse(fmt::format("{} is quoted text; remove the quotes", quote(node.text)));
  std::string_view text = node.text;
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const std::string_view bare = text.substr(text.starts_with('-') ? 1 : 0);
  if (bare.starts_with(".inf") || bare.starts_with(".Inf") || bare.starts_with(".nan") ||
      bare.starts_with(".NaN"))
    context.refuse(fmt::format("{} is not finite", node.text));
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument)
    context.refuse(fmt::format("{} is not a number", quote(node.text)));
  if (error == std::errc::result_out_of_range)
    context.refuse(fmt::format("{} is beyond what a number can hold", quote(node.text)));
  if (!std::isfinite(number)) context.refuse(fmt::format("{} is not finite", quote(node.text)));
  if (!in_range(context.field.range, number))
    context.refuse(fmt::format("{} is out of range", node.text));
  return number;
}

bool read_bool(const YamlNode& node, const Context& context) {
  need_scalar(node, context);
  if (!node.quoted && node.text == "true") return true;
  if (!node.quoted && node.text == "false") return false;
  context.refuse(fmt::format("{} is neither", quote(node.text)));
}

std::string read_text(const YamlNode& node, const Context& context) {
  need_scalar(node, context);
  if (!is_printable(node.text))
    context.refuse(fmt::format("{} has control characters or is not UTF-8", quote(node.text)));
  return node.text;
}

std::string read_choice(const YamlNode& node, const Context& context) {
  need_scalar(node, context);
  for (const std::string& option : context.field.choices)
    if (option == node.text) return option;
  context.refuse(fmt::format("{} is unknown", quote(node.text)));
}

Bytes read_bytes(const YamlNode& node, const Context& context) {
  need_scalar(node, context);
  if (const std::optional<Bytes> bytes = parse_bytes(node.text)) return *bytes;
  context.refuse(fmt::format("{} is no size", quote(node.text)));
}

std::array<double, 2> read_two_numbers(const YamlNode& node, const Context& context) {
  if (node.kind != YamlNode::Kind::kList)
    context.refuse(fmt::format("has {}", kind_name(node.kind)));
  if (node.items.size() != 2) context.refuse(fmt::format("has {} values", node.items.size()));
  return {read_number(node.items[0], context), read_number(node.items[1], context)};
}

}  // namespace

std::string describe(const Field& field) {
  switch (field.kind) {
    case Field::Kind::kBool: return "true or false";
    case Field::Kind::kInteger: return "a whole number " + range_text(field.range);
    case Field::Kind::kNumber: return "a number " + range_text(field.range);
    case Field::Kind::kText: return "text in one line";
    case Field::Kind::kTwoNumbers: return "a list of two numbers " + range_text(field.range);
    case Field::Kind::kBytes: return "a size such as 20GiB, 512MiB or 1e9";
    case Field::Kind::kChoice: break;
  }
  std::string names;
  for (const std::string& option : field.choices) names += (names.empty() ? "" : ", ") + option;
  return field.choices.size() == 1 ? names : "one of " + names;
}

Value read_value(const Field& field, const YamlNode& node, const std::string& place) {
  const Context context{field, place};
  switch (field.kind) {
    case Field::Kind::kBool: return read_bool(node, context);
    case Field::Kind::kNumber: return read_number(node, context);
    case Field::Kind::kText: return read_text(node, context);
    case Field::Kind::kChoice: return read_choice(node, context);
    case Field::Kind::kTwoNumbers: return read_two_numbers(node, context);
    case Field::Kind::kBytes: return read_bytes(node, context);
    case Field::Kind::kInteger: break;
  }
  const double number = read_number(node, context);
  if (number != std::floor(number)) context.refuse(fmt::format("{} is not whole", node.text));
  return static_cast<std::int64_t>(number);
}

std::string write_value(const Value& value) {
  struct Writer {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
    std::string operator()(const std::string& text) const { return yaml_scalar(text); }
    std::string operator()(const std::array<double, 2>& pair) const {
      return fmt::format("[{}, {}]", pair[0], pair[1]);
    }
    std::string operator()(Bytes bytes) const { return exact_text(bytes); }
  };
  return std::visit(Writer{}, value);
}

}  // namespace trireme::config
