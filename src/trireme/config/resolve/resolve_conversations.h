// Sources chat and preferences: values that follow from them.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

// Writes data.chat out and keeps conversations of a row apart. Throws Error{kUsage} if data.chat is not well written.
void resolve_conversations(Job& job);

// Sets preference.reference of a job that needs it and does not name it: RUN/reference.
void place_reference(Job& job, const Path& run);

}  // namespace trireme::config
