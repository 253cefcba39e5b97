#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/config/families.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/fields/help.h"
#include "trireme/config/resolve/coded_sums.h"
#include "trireme/families/vlm/keys_checks.h"

namespace trireme::config {
namespace {

// What the head of each section's list says, beyond the keys.
constexpr std::string_view kIntroduction =
    "# Job keys\n"
    "\n"
    "Every key of JOB.yaml, as `trireme train --help-config` prints it. A job is YAML or JSON; a "
    "key\n"
    "left out has its default; an unknown key is an error. `--set section.key=value` overrides a "
    "key.\n"
    "Ranges such as 1 to 64 are of whole numbers.\n"
    "Marked keys (*fixed*, *inherited*, *compared*) cannot change when a run resumes. With "
    "`model.weights`, an\n"
    "*inherited* key that the job leaves out has the value of those weights, and another value of "
    "a\n"
    "*compared* key is refused, unless `--allow KEY` is given (docs/lora.md).\n";

// What a key's mark says, beyond its description. Inherited and compared keys are fixed too.
std::string marks(const Field& field) {
  if (!field.inherited && !field.compared) return field.fixed ? "; *fixed*" : "";
  return fmt::format("{}{}", field.inherited ? "; *inherited*" : "",
                     field.compared ? "; *compared*" : "");
}

std::string help_line(const Field& field) {
  return fmt::format("- `{}` ({}; default `{}`{}): {}\n", field.key, describe(field),
                     write_value(field.get(Job{})), marks(field), field.doc);
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

namespace {

std::vector<std::pair<std::string, Optimizer>> named_optimizers(const Optim& optim) {
  std::vector<std::pair<std::string, Optimizer>> all;
  for (const ParamGroup& group : optim.groups)
    if (group.name) all.emplace_back(group.match, *group.name);
  return all;
}

}  // namespace

void check_resumable(const Job& saved, const Job& now) {
  std::string changed;
  Job before = saved;
  spell_tokens(before);
  for (const Difference& difference : diff(before, now)) {
    if (!find_field(difference.key)->fixed) continue;
    if (!changed.empty()) changed += ", ";
    changed += fmt::format("{} was {}, is {}", difference.key, difference.before, difference.after);
  }
  if (!changed.empty())
    fail(ErrorKind::kUsage,
         "cannot resume: {}; these keys are fixed for the life of a run: restore them, or start a "
         "new run",
         changed);
  if (named_optimizers(saved.optim) != named_optimizers(now.optim))
    fail(ErrorKind::kUsage,
         "cannot resume: optim.groups names optimizers of other parameters than before, and a "
         "checkpoint has the states of one; restore the names, or start a new run with "
         "model.weights");
  if (sum_codecs(saved.network).residual && !sum_codecs(now.network).residual)
    fail(ErrorKind::kUsage,
         "cannot resume: network.codec was {}, is {}, which drops the residuals of the checkpoint; "
         "set a codec with residuals, or start a new run with model.weights",
         saved.network.codec, now.network.codec);
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
