// Coded sums of gradients: keys that fit together.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "trireme/config/job.h"

namespace trireme::config {

bool codes_sums(const Job& job);
// Of network.codec: its codec, and the type after the last colon, in which each sender keeps what its codes left out.
std::pair<std::string, std::optional<DType>> codec_and_residual(const Network& network);
// Senders of a resolved job that codes sums.
int senders(const Job& job);

// Throws Error{kUsage} if the layout or precision of a resolved job has no coded sums.
void check_network(const Job& job);

}  // namespace trireme::config
