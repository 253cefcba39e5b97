#include "trireme/config/weights.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/head_width.h"
#include "trireme/config/pixels.h"
#include "trireme/families/vlm/keys_checks.h"

namespace trireme::config {
namespace {

// Whether section `model` is a decoder's; that of clip is a text tower's, which no other family has.
bool has_decoder(Family family) { return info(family).decoder.has_value(); }

// Whether a key says the same of both families.
bool shared(Family a, Family b, const Field& field) {
  if (!uses(a, field.key) || !uses(b, field.key)) return false;
  return a == b || field.section() != "model" || (has_decoder(a) && has_decoder(b));
}

// Mean and deviation of pixels in one form, whatever `of` leaves to its family.
void spell_pixels(const Job& of, Job& job) { job.vision.pixels = written(pixel_scale(of)); }

// Without values that a resolved job may leave to its family.
Job spelled_out(Job job) {
  if (has_decoder(job.model.family)) job.model.head_dim = head_width(job.model);
  if (uses(job.model.family, "vision.pixels")) spell_pixels(job, job);
  spell_tokens(job);
  return job;
}

}  // namespace

Job defaults_from(const Job& weights, Family family) {
  Job job;
  for (const Field& field : fields())
    if (field.inherited && shared(weights.model.family, family, field))
      field.set(job, field.get(weights));
  job.model.family = family;
  // Families see pixels differently where a job says nothing of them; these weights stay with theirs.
  if (uses(family, "vision.pixels") && uses(weights.model.family, "vision.pixels") &&
      pixel_scale(job) != pixel_scale(weights))
    spell_pixels(weights, job);
  job.model.family = weights.model.family;
  return job;
}

std::vector<Difference> other_meaning(const Job& weights, const Job& job,
                                      const std::vector<std::string>& allowed) {
  const Job there = spelled_out(weights), here = spelled_out(job);
  std::vector<Difference> found;
  for (const Field& field : fields()) {
    if (!field.compared || !shared(weights.model.family, job.model.family, field) ||
        std::ranges::find(allowed, field.key) != allowed.end())
      continue;
    // Adapters that one of them has not are no other adapters.
    if (field.section() == "lora" && (there.lora.rank == 0 || here.lora.rank == 0)) continue;
    const Value before = field.get(there), after = field.get(here);
    if (before != after) found.push_back({field.key, write_value(before), write_value(after)});
  }
  return found;
}

std::string print_job_for(const Job& job, const Path& weights) {
  Job next = job;
  next.model.weights = weights.string();
  std::string text;
  std::string_view section;
  for (const Field& field : fields()) {
    const bool adapters = job.lora.rank > 0 && field.section() == "lora";
    const bool written =
        field.inherited || adapters || field.key == "model.weights" || field.key == "data.source";
    if (!written || !uses(job.model.family, field.key)) continue;
    if (field.section() != section) {
      section = field.section();
      text += fmt::format("{}:\n", section);
    }
    text += fmt::format("  {}: {}\n", field.name(), write_value(field.get(next)));
  }
  return text;
}

std::string print_over(const Job& base, const Job& job) {
  std::string text, section;
  for (const Difference& key : diff(base, job)) {
    const std::size_t dot = key.key.find('.');
    if (key.key.substr(0, dot) != section) {
      section = key.key.substr(0, dot);
      text += fmt::format("{}:\n", section);
    }
    text += fmt::format("  {}: {}\n", key.key.substr(dot + 1), key.after);
  }
  return text;
}

void check_allowed(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const Field* field = find_field(key);
    if (field == nullptr) fail(ErrorKind::kUsage, "--allow {}: unknown key; {}", key, suggest(key));
    if (!field->compared && key != kVocabularyKey)
      fail(ErrorKind::kUsage,
           "--allow {}: this key is not compared with that of model.weights; leave it out", key);
  }
}

}  // namespace trireme::config
