#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/config/fields.h"
#include "trireme/config/yaml.h"

namespace trireme::config {
namespace {

std::string place_of(const std::string& what, const YamlNode& node) {
  return fmt::format("{}:{}:{}: ", what, node.line, node.column);
}

// A key as messages show it: whatever an unknown one holds, the message stays one readable line.
std::string shown(const std::string& key) {
  constexpr std::size_t kLongest = 64;
  const bool readable = !key.empty() && key.size() <= kLongest && is_printable(key);
  return readable ? key : quote(key);
}

void read_section(Job& job, const std::string& section, const YamlNode& map,
                  const std::string& what) {
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    const YamlNode& name = map.keys[i];
    const YamlNode& value = map.items[i];
    const std::string key = section + "." + name.text;
    const Field* field = find_field(key);
    if (field == nullptr)
      fail(ErrorKind::kUsage, "{}unknown key {}; {}", place_of(what, name), shown(key),
           suggest(key));
    // A missing value has no place of its own.
    const bool missing = value.kind == YamlNode::Kind::kNull;
    field->set(job, read_value(*field, value, place_of(what, missing ? name : value)));
  }
}

}  // namespace

Job parse_job(std::string_view text, const std::string& what) {
  constexpr std::string_view kForm = "a job is a map of sections, such as \"model: {layers: 2}\"";
  const YamlNode root = parse_yaml(text, what);
  if (root.kind == YamlNode::Kind::kNull) fail(ErrorKind::kUsage, "{}:1:1: empty; {}", what, kForm);
  if (root.kind != YamlNode::Kind::kMap)
    fail(ErrorKind::kUsage, "{}{} stands where a map is needed; {}", place_of(what, root),
         root.kind == YamlNode::Kind::kList ? "a list" : quote(root.text), kForm);

  Job job;
  const std::vector<std::string_view> known = sections();
  for (std::size_t i = 0; i < root.keys.size(); ++i) {
    const std::string& section = root.keys[i].text;
    const YamlNode& map = root.items[i];
    if (std::ranges::find(known, section) == known.end())
      fail(ErrorKind::kUsage, "{}unknown section {}; {}", place_of(what, root.keys[i]),
           shown(section), suggest(section));
    if (map.kind == YamlNode::Kind::kNull) continue;  // every line under it is commented out
    if (map.kind != YamlNode::Kind::kMap)
      fail(ErrorKind::kUsage, "{}{}: {} stands where its keys belong; {}", place_of(what, map),
           section, map.kind == YamlNode::Kind::kList ? "a list" : quote(map.text),
           suggest(section + "."));
    read_section(job, section, map, what);
  }
  return job;
}

Job load_job(const Path& path) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  std::string text;
  try {
    text = read_file(path, kMaxBytes);
  } catch (const Error& e) {
    throw Error(ErrorKind::kUsage,
                e.what());  // nothing has started: a job that cannot be read is usage
  }
  return parse_job(text, path.string());
}

void apply_set(Job& job, std::string_view assignment) {
  if (assignment.starts_with("--")) assignment.remove_prefix(2);
  const std::size_t equals = assignment.find('=');
  if (equals == assignment.npos || equals == 0)
    fail(ErrorKind::kUsage, "--set {}: needs section.key=value, such as model.layers=4",
         quote(assignment));
  const std::string key(assignment.substr(0, equals));
  const std::string value(assignment.substr(equals + 1));
  const Field* field = find_field(key);
  if (field == nullptr)
    fail(ErrorKind::kUsage, "--set {}: unknown key; {}", shown(key), suggest(key));

  YamlNode node;
  if (field->kind == Field::Kind::kTwoNumbers) {
    node = parse_yaml(value, "--set " + key);
  } else {
    // The shell has taken its quotes off: what is left is the value, whatever it looks like.
    node.kind = YamlNode::Kind::kScalar;
    node.text = value;
  }
  field->set(job, read_value(*field, node, "--set "));
}

}  // namespace trireme::config
