#include "trireme/config/resolve/resolve_conversations.h"

#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/config/chat.h"
#include "trireme/config/families.h"
#include "trireme/config/synthetic.h"

namespace trireme::config {
namespace {

constexpr auto kPacks = [](const FamilyInfo& one) { return one.packs_conversations; };

// Keys that another loss uses.
void check_idle(const Preference& preference) {
  const Preference plain;
  const auto refuse = [&](std::string_view key, const auto& value, std::string_view users) {
    fail(ErrorKind::kUsage, "preference.{}={}: only {} it, and preference.loss={}; leave it out",
         key, value, users, name(preference.loss));
  };
  if (preference.gamma != plain.gamma && preference.loss != PreferenceLoss::kSimpo)
    refuse("gamma", preference.gamma, "simpo uses");
  if (preference.label_smoothing != 0 && preference.loss != PreferenceLoss::kDpo)
    refuse("label_smoothing", preference.label_smoothing, "dpo uses");
  if (preference.label_weights != plain.label_weights && !labels_answers(preference.loss))
    refuse("label_weights",
           fmt::format("[{}, {}]", preference.label_weights[0], preference.label_weights[1]),
           "kto uses");
}

void check_preference(const Job& job) {
  const Preference& preference = job.preference;
  check_idle(preference);
  if (parse_chat(job.data.chat).longer == Chat::Long::kSplit)
    fail(ErrorKind::kUsage,
         "data.chat={}: long=split divides answers, which are compared as a whole; use long=cut, "
         "or raise model.seq_len",
         job.data.chat);
  if (!uses_reference(preference.loss) && !preference.reference.empty())
    fail(ErrorKind::kUsage,
         "preference.reference={}: preference.loss={} has no reference; leave it out",
         preference.reference, name(preference.loss));
  if (uses_reference(preference.loss) && job.model.dropout > 0)
    fail(ErrorKind::kUsage,
         "model.dropout={}: preference.loss={} compares the model with itself without noise; set "
         "model.dropout=0",
         job.model.dropout, name(preference.loss));
}

}  // namespace

void resolve_conversations(Job& job) {
  const bool compares = job.data.source == DataSource::kPreferences;
  const std::string_view source = compares ? "preferences" : "chat";
  if (!kPacks(info(job)))
    fail(ErrorKind::kUsage, "data.source={}: family {} does not pack conversations; {} do", source,
         name(job.model.family), names_where(kPacks));
  if (job.data.path.empty())
    fail(ErrorKind::kUsage,
         "data.source={} needs data.path: a .jsonl file of conversations, or a directory of them",
         source);
  job.data.chat = print(parse_chat(job.data.chat));
  // Rows have several conversations each, which do not see each other.
  job.data.documents = true;
  if (compares) check_preference(job);
}

void check_idle_conversations(const Job& job) {
  if (!reads_conversations(job.data.source) && !job.data.chat.empty())
    fail(ErrorKind::kUsage,
         "data.chat={}: only data.source=chat and data.source=preferences use it; leave it out",
         job.data.chat);
  if (job.data.source == DataSource::kPreferences) return;
  for (const Difference& key : diff(Job(), job))
    if (key.key.starts_with("preference."))
      fail(ErrorKind::kUsage,
           "{}={}: only data.source=preferences uses it; leave it out, or set "
           "data.source=preferences",
           key.key, key.after);
}

void place_reference(Job& job, const Path& run) {
  const bool needed =
      job.data.source == DataSource::kPreferences && uses_reference(job.preference.loss);
  if (needed && job.preference.reference.empty())
    job.preference.reference = std::filesystem::absolute(run / "reference").string();
}

}  // namespace trireme::config
