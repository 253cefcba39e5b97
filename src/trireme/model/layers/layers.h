// Layers: a transformer's block as a list of operations, each declared once. The block that runs them
// (model/blocks/layered.h) and the accounts of its data, exchanges and operations (account.h) read this list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/config/sections/model.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/layers/decoder_params.h"
#include "trireme/model/layers/layer.h"
#include "trireme/model/layers/operation.h"
#include "trireme/model/spec.h"

namespace trireme::model {

// Size of a block's tensor on a rank.
struct BlockTensor {
  bool between = false;  // rows of the residual stream's width, between tensor-parallel regions
  std::int64_t features = 0;  // of all tokens, inside a region
};

// A family's own mixer of rows, on a rank.
struct Mixer {
  double flops = 0;
  std::vector<Operation> operations;  // whether products train is their layer's
  std::int64_t saved_bytes = 0;       // in addition to what it reads
  std::int64_t work_bytes = 0;        // of a forward that keeps nothing
  std::int64_t gradient_bytes = 0;    // at most, before what is kept is given back
};

struct BlockLayers {
  std::vector<ParamSpec> params;
  std::vector<Layer> layers;
  std::vector<BlockTensor> tensors;
  // Weights of linear layers, in the order in which adapters are listed: queries, keys, values and the output
  // projection of attention; those of the feed-forward part.
  std::vector<int> attention, mlp;
  Mixer mixer;
};

// RMS norms of queries and keys, by their names: of each head, or of all heads of a token.
struct HeadNorms {
  std::vector<std::string> names{};
  bool whole = false;
  bool from_one = false;
};

// Declares a block's layers one after the other. Parameters stand in the order of these calls, of one call weights before
// biases.
class LayerList {
 public:
  // Names of parameters begin with `prefix`.
  LayerList(const config::Model& model, const PerRank& rank, std::string prefix);
  LayerList(const config::Model& model, const PerRank& rank, std::string prefix, Initial initial);

  // Of linear layers. Llama's files of checkpoints have biases and gains of heads after all other parameters of a block.
  enum class Bias { kNone, kHere, kLast };

  struct Branch {
    int stream = 0, normed = 0;
  };
  // The norm of x, or of x + branch.
  Branch layer_norm(const std::string& name, int x, std::optional<int> branch = {});
  // `from_one`: it multiplies by 1 + gain.
  Branch rms_norm(const std::string& name, int x, std::optional<int> branch = {},
                  bool from_one = false);

  // Queries, keys and values.
  std::vector<int> heads(int x, const std::vector<std::string>& names, Bias bias);
  // The same side by side, of one layer.
  std::vector<int> heads(int x, const std::string& name, Bias bias = Bias::kHere);
  // Scores are multiplied by `multiplier` / sqrt(width of a head); then z becomes cap tanh(z / cap), unless cap is 0.
  int attention(const std::vector<int>& qkv, const config::LayerAttention& attends,
                const HeadNorms& norms = {}, double multiplier = 1, double cap = 0);
  // What it writes, times the multiplier, joins the residual stream.
  int attention_output(const std::string& name, int mixed, Bias bias, double multiplier = 1);
  int widen(const std::string& name, int x);
  int activate(int x, config::Activation activation);
  // After an activation, if it has one of its own.
  int narrow(const std::string& name, int x, std::optional<config::Activation> activation = {});
  // Gate and up, then down.
  std::vector<int> widen_gated(const std::vector<std::string>& names, int x,
                               Bias bias = Bias::kNone);
  // The same of one layer, up before gate.
  std::vector<int> widen_together(const std::string& name, int x);
  int narrow_gated(const std::string& name, const std::vector<int>& gate_and_up,
                   config::GateActivation gate, double multiplier, Bias bias = Bias::kNone);
  // A family's own way to mix rows, with these parameters.
  int mix(int x, std::vector<ParamSpec> params);
  int add(int a, int b);
  // In the layer declared last: dropout; attention to tokens after a token; angles of each channel; biases of keys.
  void drop(int draw) { block_.layers.back().draw = draw; }
  void attend_to_all() { block_.layers.back().causal = false; }
  void turn_each_channel() { block_.layers.back().angles = 2; }
  void bias_keys() { block_.layers.back().key_bias = true; }

  // The last tensor is what the node writes.
  BlockLayers finish() &&;

 private:
  // A linear layer: its name, how its outputs are cut, and how many of them are here.
  struct Column {
    std::string name;
    std::vector<CutSegment> outputs;
    std::int64_t features = 0;  // of each of its parts
    int parts = 1;
  };

  int tensor(BlockTensor tensor);
  int param(ParamSpec param);
  // Its number until finish(), which gives it a place after all others.
  int last_param(ParamSpec param);
  ParamSpec rms_gain(const std::string& name, std::int64_t size, Cut cut, bool from_one) const;
  Branch norm(Layer layer, std::optional<int> branch);
  std::vector<int> columns(int x, const std::vector<Column>& all, Bias bias, bool wide);
  int rows(const std::string& name, Layer layer, CutSegment inputs, Bias bias);

  const config::Model& model_;
  const PerRank& rank_;
  Sizes sizes_;
  std::string prefix_;
  Initial initial_;
  BlockLayers block_;
  std::vector<ParamSpec> last_;
};

}  // namespace trireme::model
