// Outer steps of islands: the settings of network.outer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trireme/config/job.h"

namespace trireme::config {

struct OuterSettings {
  int islands = 1;
  std::int64_t every = 30;  // steps of a round
  int fragments = 1;
  int delay = 0;             // steps
  bool finds_delay = false;  // delay:auto: prices of the plan decide; until then it is 1
  bool streaming = false;    // the defaults of Streaming DiLoCo
  double blend = 0;
  double lr = 0.7;
  double momentum = 0.9;
  std::string codec{}, back{};      // texts of comm/codec; empty: fp32
  std::optional<DType> residual{};  // "codec:q4:bf16"
  bool direction = false;  // "merge:direction": layers' means get the mean of the islands' norms
};

// Nothing for network.outer=none. A delay without blend or lr has those of streaming: 0.5 and 0.4. Throws Error{kUsage}
// naming a setting that is unknown, set twice or out of range.
std::optional<OuterSettings> outer_settings(const Network& network);

// Whether the delay is still to be found, and network.outer with the one that was.
bool finds_delay(const Network& network);
std::string with_delay(const Network& network, int delay);

// Replaces `streaming` by the settings that it means for the job's layers, as far as the job leaves them out:
// fragments:max(6, layers/3) up to the layers, delay:auto, blend:0.5, lr:0.4, codec:f4, back:q8.
// Sets parallel.dp_replicate, the replicas of all islands, to the number of islands where the job leaves it out, before
// the mesh is resolved.
void resolve_islands(Job& job);

}  // namespace trireme::config
