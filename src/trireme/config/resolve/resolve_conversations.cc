#include "trireme/config/resolve/resolve_conversations.h"

#include <filesystem>

#include "trireme/config/sections/chat.h"

namespace trireme::config {

void resolve_conversations(Job& job) {
  job.data.chat = print(parse_chat(job.data.chat));
  // Rows have several conversations each, which do not see each other.
  job.data.documents = true;
}

void place_reference(Job& job, const Path& run) {
  const bool needed =
      job.data.source == DataSource::kPreferences && uses_reference(job.preference.loss);
  if (needed && job.preference.reference.empty())
    job.preference.reference = std::filesystem::absolute(run / "reference").string();
}

}  // namespace trireme::config
