// Sources of synthetic samples: facts that are known before any sample exists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {

struct SyntheticSource {
  DataSource source;
  std::string_view name;  // as data.source spells it
  int version;            // another one makes up other samples
  DatasetFacts facts{};
  std::int64_t tokens = 0;  // of the longest text of a sample, with its end; 0: samples have none
};

// Null for a source that reads.
const SyntheticSource* synthetic_source(DataSource source);

// As data.source spells one that reads a user's pictures, clips or trajectories: "images"; empty for the others.
std::string_view files_of(DataSource source);

// Whether samples are conversations of a user, with marked answers.
bool reads_conversations(DataSource source);
// Whether samples are tokens of a user's text, with a vocabulary.
bool reads_text(DataSource source);
// Whether samples are tokens and nothing else.
bool is_text(DataSource source);

// Identity of the samples in checkpoints.
std::string digest(const SyntheticSource& source);

}  // namespace trireme::config
