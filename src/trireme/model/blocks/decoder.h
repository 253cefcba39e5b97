// A decoder's block: layers whose attention is causal.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/blocks/layered.h"
#include "trireme/model/blocks/mrope.h"

namespace trireme::blocks {

// A second input is the positions of tokens: within documents, [samples, tokens], or of M-RoPE, [samples, tokens, 3], or
// both, [samples, tokens, 4].
class DecoderBlock : public LayeredBlock {
 public:
  // `tables` serve at least model.seq_len positions; `adapted` as AdaptedBlock's.
  DecoderBlock(const config::Job& job, std::vector<model::Layer> layers, const plan::Node& node,
               DecoderTables tables, std::vector<int> adapted,
               const std::shared_ptr<const Across>& across);
};

}  // namespace trireme::blocks
