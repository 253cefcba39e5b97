// How context-parallel ranks share the tokens of a decoder's samples.
#pragma once

#include <cstdint>
#include <span>

#include "trireme/config/job.h"
#include "trireme/plan/mesh/token_layout.h"

namespace trireme::model {

// Balanced by the attention scores of each position, added over samples and layers. `places` are the positions of
// tokens within their documents, [samples, model.seq_len]. A layer with a window counts the scores inside of it.
mesh::BalancedLayout token_layout(const config::Job& job, std::span<const std::int64_t> places);
// The same for samples of one document: the zigzag, unless windows unbalance it.
mesh::BalancedLayout token_layout(const config::Job& job);

}  // namespace trireme::model
