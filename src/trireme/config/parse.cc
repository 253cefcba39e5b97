#include "trireme/config/parse.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include "trireme/base/error.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/fields/retired.h"
#include "trireme/config/values/yaml.h"
#include "trireme/config/weights.h"

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

void refuse_retired(const Field& field, const YamlNode& value, const std::string& place) {
  if (const std::optional<std::string> now = retired_value(field.key, value.text))
    fail(ErrorKind::kUsage, "{}{}: {} is an old spelling; {}", place, field.key, value.text, *now);
}

void read_section(Job& job, const std::string& section, const YamlNode& map,
                  const std::string& what) {
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    const YamlNode& name = map.keys[i];
    const YamlNode& value = map.items[i];
    const std::string key = section + "." + name.text;
    const Field* field = find_field(key);
    if (field == nullptr && still_holds(job, key, value)) continue;  // of an older job
    if (field == nullptr)
      fail(ErrorKind::kUsage, "{}unknown key {}; {}", place_of(what, name), shown(key),
           suggest(key));
    // A missing value has no place of its own.
    const bool missing = value.kind == YamlNode::Kind::kNull;
    const std::string place = place_of(what, missing ? name : value);
    refuse_retired(*field, value, place);
    field->set(job, read_value(*field, value, place));
  }
}

constexpr std::string_view kPhases = "phases";

// Sections over those of `job`; `other` keys of the map are somebody else's.
Job read_sections(Job job, const YamlNode& root, const std::string& what,
                  std::initializer_list<std::string_view> other = {}) {
  const std::vector<std::string_view> known = sections();
  for (std::size_t i = 0; i < root.keys.size(); ++i) {
    const std::string& section = root.keys[i].text;
    const YamlNode& map = root.items[i];
    if (std::ranges::find(other, section) != other.end()) continue;
    if (std::ranges::find(known, section) == known.end())
      fail(ErrorKind::kUsage, "{}unknown section {}; {}", place_of(what, root.keys[i]),
           shown(section), suggest(section));
    if (map.kind == YamlNode::Kind::kNull) continue;  // every line under it is commented out
    if (map.kind != YamlNode::Kind::kMap)
      fail(ErrorKind::kUsage, "{}{}: has {} where its keys are needed; {}", place_of(what, map),
           section, map.kind == YamlNode::Kind::kList ? "a list" : quote(map.text),
           suggest(section + "."));
    read_section(job, section, map, what);
  }
  return job;
}

YamlNode read_root(std::string_view text, const std::string& what) {
  constexpr std::string_view kForm = "a job is a map of sections, such as \"model: {layers: 2}\"";
  YamlNode root = parse_yaml(text, what);
  if (root.kind == YamlNode::Kind::kNull) fail(ErrorKind::kUsage, "{}:1:1: empty; {}", what, kForm);
  if (root.kind != YamlNode::Kind::kMap)
    fail(ErrorKind::kUsage, "{}{} where a map is needed; {}", place_of(what, root),
         root.kind == YamlNode::Kind::kList ? "a list" : quote(root.text), kForm);
  return root;
}

const YamlNode* find(const YamlNode& map, std::string_view key) {
  for (std::size_t i = 0; i < map.keys.size(); ++i)
    if (map.keys[i].text == key) return &map.items[i];
  return nullptr;
}

std::string word(const YamlNode& phase, std::string_view key, const std::string& what) {
  const YamlNode* node = find(phase, key);
  if (node == nullptr) return "";
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  };
  if (node->kind != YamlNode::Kind::kScalar || node->text.empty() || node->text.size() > 64 ||
      !std::ranges::all_of(node->text, fits))
    fail(ErrorKind::kUsage, "{}{} of a phase: needs a word of letters, digits, _ and -",
         place_of(what, *node), key);
  return node->text;
}

std::string read_job_file(const Path& path) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  try {
    return read_file(path, kMaxBytes);
  } catch (const Error& e) {
    throw Error(ErrorKind::kUsage,
                e.what());  // nothing has started: a job that cannot be read is usage
  }
}

Phase read_phase(const Job& common, const YamlNode& map, const std::vector<Phase>& earlier,
                 const std::string& what) {
  constexpr std::string_view kNothing = "nothing";
  if (map.kind != YamlNode::Kind::kMap)
    fail(ErrorKind::kUsage, "{}a phase is a map: name, from and sections", place_of(what, map));
  Phase phase{.name = word(map, "name", what)};
  if (phase.name.empty())
    fail(ErrorKind::kUsage, "{}a phase needs a name, which is also that of its directory",
         place_of(what, map));
  if (std::ranges::find(earlier, phase.name, &Phase::name) != earlier.end())
    fail(ErrorKind::kUsage, "{}two phases have the name {}; rename one", place_of(what, map),
         phase.name);
  phase.job = read_sections(common, map, what, {"name", "from"});
  const std::string from = word(map, "from", what);
  const bool given = !phase.job.model.weights.empty();
  if (given && !from.empty())
    fail(ErrorKind::kUsage, "{}phase {} has from and model.weights; leave one out",
         place_of(what, map), phase.name);
  if (given || from == kNothing || (from.empty() && earlier.empty())) {
    if (!given && phase.job.optim.from_weights)
      fail(ErrorKind::kUsage,
           "{}phase {} has optim.from_weights=true, but begins with random weights; set from to an "
           "earlier phase, or optim.from_weights=false",
           place_of(what, map), phase.name);
    return phase;
  }
  const auto source =
      from.empty() ? earlier.end() - 1 : std::ranges::find(earlier, from, &Phase::name);
  if (source == earlier.end())
    fail(ErrorKind::kUsage, "{}phase {} begins from {}, which is not an earlier phase; {}",
         place_of(what, map), phase.name, from,
         earlier.empty() ? "there is none" : "these are: " + phase_names(earlier));
  phase.from = static_cast<int>(source - earlier.begin());
  return phase;
}

}  // namespace

Job parse_job(std::string_view text, const std::string& what) {
  return parse_job_over({}, text, what);
}

Job parse_job_over(const Job& base, std::string_view text, const std::string& what) {
  const YamlNode root = read_root(text, what);
  if (find(root, kPhases) != nullptr)
    fail(ErrorKind::kUsage, "{}: a job in phases; choose one of {} with --phase", what,
         phase_names(parse_phases(text, what)));
  return read_sections(base, root, what);
}

Job load_job(const Path& path) { return load_job_over({}, path); }

Job load_job_over(const Job& base, const Path& path) {
  return parse_job_over(base, read_job_file(path), path.string());
}

std::vector<Phase> parse_phases(std::string_view text, const std::string& what, const Job& base) {
  const YamlNode root = read_root(text, what);
  const Job common = read_sections(base, root, what, {kPhases});
  const YamlNode* list = find(root, kPhases);
  std::vector<Phase> phases;
  if (list == nullptr) {
    phases.push_back({.name = "", .job = common});
    return phases;
  }
  if (list->kind != YamlNode::Kind::kList || list->items.empty())
    fail(ErrorKind::kUsage, "{}phases: needs a list of maps, such as \"- {{name: pretrain}}\"",
         place_of(what, *list));
  for (const YamlNode& map : list->items) phases.push_back(read_phase(common, map, phases, what));
  return phases;
}

std::vector<Phase> load_phases(const Path& path, const Job& base) {
  return parse_phases(read_job_file(path), path.string(), base);
}

std::string phase_names(const std::vector<Phase>& phases) {
  std::string names;
  for (const Phase& phase : phases) names += (names.empty() ? "" : ", ") + phase.name;
  return names;
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
  YamlNode node;
  if (field == nullptr) {
    node.text = value;
    if (still_holds(job, key, node)) return;
    fail(ErrorKind::kUsage, "--set {}: unknown key; {}", shown(key), suggest(key));
  }
  if (field->takes_list()) {
    node = parse_yaml(value, "--set " + key);
  } else {
    // The shell has taken its quotes off: what is left is the value, whatever it looks like.
    node.kind = YamlNode::Kind::kScalar;
    node.text = value;
  }
  refuse_retired(*field, node, "--set ");
  field->set(job, read_value(*field, node, "--set "));
}

}  // namespace trireme::config
