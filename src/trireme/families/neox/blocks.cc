#include "trireme/families/neox/blocks.h"

#include "trireme/config/rope.h"
#include "trireme/families/gpt/blocks.h"
#include "trireme/families/llama/blocks.h"
#include "trireme/model/blocks/decoder.h"
#include "trireme/model/blocks/mrope.h"

namespace trireme::blocks {

Blocks neox_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks) {
  const ops::RotaryTable rotary =
      decoder_rotary(job, config::rope_of(job.model, job.neox.rotary_fraction), ranks->device());
  const std::vector<plan::Node>& nodes = spec.program.nodes;
  Blocks blocks;
  blocks.push_back(std::make_unique<LlamaEmbed>(ranks));
  for (std::size_t node = 1; node + 1 < nodes.size(); ++node)
    blocks.push_back(std::make_unique<DecoderBlock>(job, spec.layers[node], nodes[node], rotary,
                                                    spec.adapted[node], ranks));
  blocks.push_back(std::make_unique<GptHead>(job.model, nodes.back(), ranks));
  return blocks;
}

}  // namespace trireme::blocks
