#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/config/families.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/fields/help.h"

namespace trireme::config {
namespace {

// What the head of each section's list says, beyond the keys.
constexpr std::string_view kIntroduction =
    "# Job keys\n\nEvery key of JOB.yaml, as `trireme train --help-config` prints it. A job is "
    "YAML or JSON; a key\nleft out has its default; an unknown key is an error. `--set "
    "section.key=value` overrides a key.\nKeys marked *fixed* cannot change when a run resumes. "
    "Keys marked *inherited* default to the\nvalue with which `model.weights` was trained. Keys "
    "marked *compared* must have that value,\nunless `--allow KEY` is given (docs/lora.md).\n";

std::string help_line(const Field& field) {
  return fmt::format("- `{}` ({}; default `{}`{}{}{}): {}\n", field.key, describe(field),
                     write_value(field.get(Job{})), field.fixed ? "; *fixed*" : "",
                     field.inherited ? "; *inherited*" : "", field.compared ? "; *compared*" : "",
                     field.doc);
}

}  // namespace

std::string print_yaml(const Job& job) {
  std::string text;
  std::string_view section;
  const Job plain;
  for (const Field& field : fields()) {
    // Where the family has no use for a key, only what is wrong is shown.
    if (!uses(job.model.family, field.key) && field.get(job) == field.get(plain)) continue;
    if (field.section() != section) {
      section = field.section();
      text += fmt::format("{}:\n", section);
    }
    text += fmt::format("  {}: {}\n", field.name(), write_value(field.get(job)));
  }
  return text;
}

std::uint64_t digest(const Job& job) { return hash64(print_yaml(job)); }

std::vector<Difference> diff(const Job& before, const Job& after) {
  std::vector<Difference> found;
  for (const Field& field : fields()) {
    const Value left = field.get(before);
    const Value right = field.get(after);
    if (left != right) found.push_back({field.key, write_value(left), write_value(right)});
  }
  return found;
}

void check_resumable(const Job& saved, const Job& now) {
  std::string changed;
  for (const Difference& difference : diff(saved, now)) {
    if (!find_field(difference.key)->fixed) continue;
    if (!changed.empty()) changed += ", ";
    changed += fmt::format("{} was {}, is {}", difference.key, difference.before, difference.after);
  }
  if (!changed.empty())
    fail(ErrorKind::kUsage,
         "cannot resume: {}; these keys are fixed for the life of a run: restore them, or start a "
         "new run",
         changed);
}

std::string help_config() {
  std::string text(kIntroduction);
  std::string_view section;
  for (const Field& field : fields()) {
    if (field.section() != section) {
      section = field.section();
      text += fmt::format("\n## {}\n\n", section);
    }
    text += help_line(field);
  }
  return text;
}

std::string help_of(std::string_view key) {
  std::string text;
  for (const Field& field : fields())
    if (field.key == key || field.section() == key) text += help_line(field);
  if (text.empty())
    fail(ErrorKind::kUsage, "{}: no key or section of a job; {}", key, suggest(key));
  return text;
}

}  // namespace trireme::config
