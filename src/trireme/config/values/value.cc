#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/values/field.h"
#include "trireme/config/values/yaml.h"

namespace trireme::config {
namespace {

// Place and field of a value: every error message starts with both.
struct Context {
  const FieldForm& field;
  const std::string& place;

  [[noreturn]] void refuse(const std::string& seen) const {
    fail(ErrorKind::kUsage, "{}{}: {}; needs {}", place, field.key, seen, describe(field));
  }
};

// "1 to 64" of whole numbers.
std::string whole_range_text(const Range& range) {
  std::string text = std::isfinite(range.max) ? fmt::format("{} to {}", range.min, range.max)
                                              : fmt::format("{} or more", range.min);
  if (range.also) text += fmt::format(", or {}", *range.also);
  return text;
}

// Nothing for a range that every size is in.
std::string size_range_text(const Range& range) {
  const auto text = [](double bytes) { return exact_text({static_cast<std::int64_t>(bytes)}); };
  std::string limits;
  if (range.min > 0 || range.above_min)
    limits += fmt::format(", {} {}", range.above_min ? "above" : "from", text(range.min));
  if (std::isfinite(range.max))
    limits += fmt::format("{} {}", limits.empty() ? ", up to" : " to", text(range.max));
  return limits;
}

std::string units_text(std::span<const Unit> units) {
  std::string names;
  for (const Unit& unit : units) names += fmt::format("{}{}", names.empty() ? "" : ", ", unit.name);
  return names.empty() ? "" : ", alone or in " + names;
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
  double factor = 1;
  for (const Unit& unit : context.field.units) {
    if (!text.ends_with(unit.name)) continue;
    factor = unit.factor;
    text.remove_suffix(unit.name.size());
    if (text.ends_with(' ')) text.remove_suffix(1);
    break;
  }
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
  number *= factor;
  if (!std::isfinite(number)) context.refuse(fmt::format("{} is not finite", quote(node.text)));
  if (!context.field.range.holds(number))
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
    context.refuse(
        fmt::format("{} has control characters or line breaks, or is not UTF-8", quote(node.text)));
  return node.text;
}

std::string read_choice(const YamlNode& node, const Context& context) {
  need_scalar(node, context);
  for (const std::string& option : context.field.choices)
    if (option == node.text) return option;
  if (context.field.is_other && context.field.is_other(node.text)) return read_text(node, context);
  context.refuse(fmt::format("{} is unknown", quote(node.text)));
}

Bytes read_bytes(const YamlNode& node, const Context& context) {
  need_scalar(node, context);
  const std::optional<Bytes> bytes = parse_bytes(node.text);
  if (!bytes) context.refuse(fmt::format("{} is not a size", quote(node.text)));
  if (!context.field.range.holds(static_cast<double>(bytes->count)))
    context.refuse(fmt::format("{} is out of range", node.text));
  return *bytes;
}

std::array<double, 2> read_two_numbers(const YamlNode& node, const Context& context) {
  if (node.kind != YamlNode::Kind::kList)
    context.refuse(fmt::format("has {}", kind_name(node.kind)));
  if (node.items.size() != 2) context.refuse(fmt::format("has {} values", node.items.size()));
  const std::array<double, 2> pair = {read_number(node.items[0], context),
                                      read_number(node.items[1], context)};
  for (std::size_t i = 0; i < pair.size(); ++i)
    if (context.field.whole[i] && pair[i] != std::floor(pair[i]))
      context.refuse(fmt::format("{} is not whole", node.items[i].text));
  return pair;
}

// Entries of a map in the order of the field's.
Maps::value_type read_map(const YamlNode& node, std::size_t number, const Context& context) {
  if (node.kind != YamlNode::Kind::kMap)
    context.refuse(fmt::format("entry {} has {}", number, kind_name(node.kind)));
  std::vector<std::string> names;
  for (const FieldForm& entry : context.field.entries) names.push_back(entry.key);
  for (const YamlNode& key : node.keys)
    if (std::ranges::find(names, key.text) == names.end())
      context.refuse(fmt::format("entry {} has an unknown key {}", number, quote(key.text)));
  Maps::value_type map;
  for (FieldForm entry : context.field.entries) {
    const auto key = std::ranges::find(node.keys, entry.key, &YamlNode::text);
    if (key == node.keys.end()) continue;
    const std::string name =
        std::exchange(entry.key, fmt::format("{}[{}].{}", context.field.key, number, entry.key));
    const Value value = read_value(entry, node.items[key - node.keys.begin()], context.place);
    if (const double* amount = std::get_if<double>(&value))
      map.emplace_back(name, *amount);
    else
      map.emplace_back(name, std::get<std::string>(value));
  }
  if (map.empty() || map.front().first != names.front())
    context.refuse(fmt::format("entry {} has no {}", number, names.front()));
  return map;
}

Maps read_maps(const YamlNode& node, const Context& context) {
  if (node.kind != YamlNode::Kind::kList)
    context.refuse(fmt::format("has {}", kind_name(node.kind)));
  Maps maps;
  for (const YamlNode& item : node.items) maps.push_back(read_map(item, maps.size() + 1, context));
  return maps;
}

std::string describe_entries(const std::vector<FieldForm>& entries) {
  std::string text;
  for (const FieldForm& entry : entries)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", entry.key, describe(entry));
  return text;
}

}  // namespace

bool FieldForm::takes_list() const {
  return kind == Kind::kTwoNumbers || kind == Kind::kMaps || !pair.empty();
}

bool Range::holds(double number) const {
  if (also && number == static_cast<double>(*also)) return true;
  const bool low = above_min ? number > min : number >= min;
  const bool high = below_max ? number < max : number <= max;
  return low && high;
}

std::string describe(const Range& range) {
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

std::string describe(const FieldForm& field) {
  switch (field.kind) {
    case FieldForm::Kind::kBool: return "true or false";
    case FieldForm::Kind::kInteger: return whole_range_text(field.range);
    case FieldForm::Kind::kNumber:
      return "a number " + describe(field.range) + units_text(field.units) +
             (field.pair.empty() ? "" : ", or a list of two: " + field.pair);
    case FieldForm::Kind::kText: return "text";
    case FieldForm::Kind::kTwoNumbers:
      return fmt::format("a list of two {}numbers{} ",
                         field.whole[0] && field.whole[1] ? "whole " : "",
                         field.whole[0] != field.whole[1]
                             ? fmt::format(", the {} whole,", field.whole[0] ? "first" : "second")
                             : "") +
             describe(field.range);
    case FieldForm::Kind::kBytes:
      return "a size such as 20GiB, 512MiB or 1e9" + size_range_text(field.range);
    case FieldForm::Kind::kMaps: return "a list of maps of " + describe_entries(field.entries);
    case FieldForm::Kind::kChoice: break;
  }
  std::string names;
  for (const std::string& option : field.choices) names += (names.empty() ? "" : ", ") + option;
  if (field.choices.size() > 1) names = "one of " + names;
  return field.other.empty() ? names : names + ", or " + field.other;
}

Value read_value(const FieldForm& field, const YamlNode& node, const std::string& place) {
  const Context context{field, place};
  switch (field.kind) {
    case FieldForm::Kind::kBool: return read_bool(node, context);
    case FieldForm::Kind::kNumber:
      if (!field.pair.empty() && node.kind == YamlNode::Kind::kList)
        return read_two_numbers(node, context);
      return read_number(node, context);
    case FieldForm::Kind::kText: return read_text(node, context);
    case FieldForm::Kind::kChoice: return read_choice(node, context);
    case FieldForm::Kind::kTwoNumbers: return read_two_numbers(node, context);
    case FieldForm::Kind::kBytes: return read_bytes(node, context);
    case FieldForm::Kind::kMaps: return read_maps(node, context);
    case FieldForm::Kind::kInteger: break;
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
    std::string operator()(const Maps& maps) const {
      std::string text;
      for (const Maps::value_type& map : maps) {
        text += text.empty() ? "[{" : ", {";
        for (const auto& [key, value] : map)
          text += fmt::format("{}{}: {}", &key == &map.front().first ? "" : ", ", key,
                              std::visit([&](const auto& plain) { return (*this)(plain); }, value));
        text += "}";
      }
      return text.empty() ? "[]" : text + "]";
    }
  };
  return std::visit(Writer{}, value);
}

std::string write_value(const FieldForm& field, const Value& value) {
  if (const double* number = std::get_if<double>(&value))
    for (const Unit& unit : field.units) {
      const double scaled = *number / unit.factor;
      if (scaled >= 1 && scaled * unit.factor == *number)
        return fmt::format("{}{}", scaled, unit.name);
    }
  return write_value(value);
}

}  // namespace trireme::config
