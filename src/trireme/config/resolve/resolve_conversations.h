// Sources chat and preferences: what a model and a job need for them.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

// Throws Error{kUsage} naming the key.
void resolve_conversations(Job& job);

// Throws Error{kUsage} for keys of conversations and preferences that the source of samples does not use.
void check_idle_conversations(const Job& job);

// Sets preference.reference of a job that needs it and does not name it: RUN/reference.
void place_reference(Job& job, const Path& run);

}  // namespace trireme::config
