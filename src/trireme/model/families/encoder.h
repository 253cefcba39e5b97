// Encoders as data: the pre-norm transformer of vision towers and predictors (Dosovitskiy et al. 2021), and how images
// and clips become its tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/graph.h"
#include "trireme/model/layers/layers.h"

namespace trireme::model {

// One transformer within a micro-batch: LayerNorm before each branch, biases, no causal mask unless said.
struct Encoder {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  std::int64_t tokens = 0;  // of a sequence
  std::int64_t sequences = 1;
  // Sequences follow one another in [rows, hidden], rows differing from micro-batch to micro-batch, and at most
  // `sequences` * `tokens`; else activations are [sequences, tokens, hidden].
  bool packed = false;
  bool varies = false;  // `sequences` is the most that a micro-batch can have
  bool causal = false;
  bool replicated = false;  // every tp rank has and computes all of it
  config::Positions positions = config::Positions::kLearned;  // others turn queries and keys
  bool key_bias = false;                                      // scores of a row have a bias
  config::Activation activation = config::Activation::kGelu;
  double init_std = 0.02;

  std::int64_t rows() const { return sequences * tokens; }
};

// The tower of a resolved job's `vision` for a micro-batch of `sequences` clips.
Encoder tower(const config::Vision& vision, std::int64_t sequences);

// Patches of a clip.
struct PatchGrid {
  std::int64_t frames, rows, columns;  // of tokens
  std::int64_t features;               // of a patch: 3 * tubelet * patch * patch
  std::int64_t tokens() const { return frames * rows * columns; }
};
PatchGrid patch_grid(const config::Vision& vision);

// A matrix [out, in] drawn from N(0, std^2), and vectors of ones or zeros.
ParamSpec drawn(std::string name, std::vector<std::int64_t> shape, double std, Cut cut = {});
ParamSpec ones(std::string name, std::int64_t size);
ParamSpec zeros(std::string name, std::int64_t size, Cut cut = {});
// Gain and bias of a LayerNorm: `name`.weight and .bias.
std::vector<ParamSpec> norm_params(const std::string& name, std::int64_t size);
// A linear layer that every tp rank holds whole: `name`.weight [out, in] and .bias.
std::vector<ParamSpec> linear_params(const std::string& name, std::int64_t out, std::int64_t in,
                                     double std);
std::vector<ParamSpec> joined(std::vector<std::vector<ParamSpec>> lists);

// The `layer`-th block (from 0) on a rank of these samples: norm1, attn.qkv, attn.proj, norm2, mlp.fc1, mlp.fc2, each
// with a bias. The layers that write to the residual stream are initialized smaller by sqrt(2 (layer + 1)). Heads and
// features are cut over tp.
BlockLayers encoder_layers(const Encoder& encoder, const PerRank& rank,
                           const std::string& prefix = "", std::int64_t layer = 0);
// Its parameters.
std::vector<ParamSpec> block_params(const Encoder& encoder, const std::string& prefix,
                                    std::int64_t layer);

// Value of a micro-batch's activation [.., hidden].
plan::Value activation(const Graph& graph, const Encoder& encoder, std::string name);

// A block as a node: reads an activation and `more` (a packed one's positions and sequences), writes `writes`.
// A teacher's has no gradient.
plan::ValueId block_node(Graph& graph, const Encoder& encoder, std::string name, plan::UnitId unit,
                         plan::ValueId x, const std::vector<plan::ValueId>& more,
                         std::string writes, bool teacher = false);

// What a block computes, whose unit trains or not.
std::vector<Operation> block_operations(const Graph& graph, const Encoder& encoder,
                                        const std::string& node, bool trains);

// Work of a node of linear layers with `weights` elements in all for `rows` rows, which keeps `kept` numbers.
Work linear_work(const Graph& graph, std::int64_t rows, std::int64_t weights, std::int64_t kept);

}  // namespace trireme::model
