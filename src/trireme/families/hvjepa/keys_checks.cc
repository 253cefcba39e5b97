#include "trireme/families/hvjepa/keys_checks.h"

#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"

namespace trireme::config {

std::vector<Rule> chunk_rules() {
  const Number row("{vision.image} / {vision.patch} = {} tokens of a row", [](const Job& job) {
    return static_cast<double>(job.vision.image / job.vision.patch);
  });
  return {
      {"chunk-heads", turned_heads("chunk.hidden", "chunk.heads", kTurnsClips),
       [](const Job& job) { return job.chunk.layers > 0; }},
      {"chunk-rows", multiple_of(row, "chunk.ratio", "as chunk.mode=fixed needs"),
       [](const Job& job) { return job.chunk.mode == ChunkMode::kFixed; }},
  };
}

std::vector<Rule> frozen_tower_rules() {
  return joined({{rotary_tower(),
                  {"chunks-off", refused("chunk.* with vision.chunked=false",
                                         "the tower of {model.family} makes no chunks",
                                         "leave it out, or set vision.chunked=true")}},
                 only_for([](const Job& job) { return job.vision.chunked; }, chunk_rules())});
}

}  // namespace trireme::config
