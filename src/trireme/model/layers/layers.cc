#include "trireme/model/layers/layers.h"

#include <utility>

namespace trireme::model {

LayerList::LayerList(const config::Model& model, const PerRank& rank, std::string prefix)
    : LayerList(model, rank, std::move(prefix), Initial(model)) {}

LayerList::LayerList(const config::Model& model, const PerRank& rank, std::string prefix,
                     Initial initial)
    : model_(model),
      rank_(rank),
      sizes_(model, rank),
      prefix_(std::move(prefix)),
      initial_(std::move(initial)) {
  tensor({.between = true});
}

int LayerList::tensor(BlockTensor tensor) {
  block_.tensors.push_back(tensor);
  return static_cast<int>(block_.tensors.size()) - 1;
}

int LayerList::param(ParamSpec param) {
  block_.params.push_back(std::move(param));
  return static_cast<int>(block_.params.size()) - 1;
}

ParamSpec LayerList::rms_gain(const std::string& name, std::int64_t size, Cut cut,
                              bool from_one) const {
  return vector(prefix_ + name + ".weight", size, from_one ? Init::Kind::kZeros : Init::Kind::kOnes,
                std::move(cut));
}

int LayerList::last_param(ParamSpec param) {
  last_.push_back(std::move(param));
  return -static_cast<int>(last_.size());
}

LayerList::Branch LayerList::norm(Layer layer, std::optional<int> branch) {
  const int x = layer.reads[0];
  if (branch) layer.reads.push_back(*branch);
  // Without a branch the stream is x.
  const Branch result{.stream = branch ? tensor({.between = true}) : x,
                      .normed = tensor({.between = true})};
  layer.writes = {result.stream, result.normed};
  block_.layers.push_back(std::move(layer));
  return result;
}

LayerList::Branch LayerList::layer_norm(const std::string& name, int x, std::optional<int> branch) {
  const Cut& whole = Cuts(model_, rank_).whole;
  Layer layer{.op = Layer::Op::kNorm, .reads = {x}};
  layer.weights = {param(gain(prefix_ + name + ".weight", model_.hidden, whole))};
  layer.biases = {param(bias(prefix_ + name + ".bias", model_.hidden, whole))};
  return norm(std::move(layer), branch);
}

LayerList::Branch LayerList::rms_norm(const std::string& name, int x, std::optional<int> branch,
                                      bool from_one) {
  Layer layer{.op = Layer::Op::kNorm, .reads = {x}, .from_one = from_one};
  layer.weights = {param(rms_gain(name, model_.hidden, Cuts(model_, rank_).whole, from_one))};
  return norm(std::move(layer), branch);
}

std::vector<int> LayerList::columns(int x, const std::vector<Column>& all, Bias biased, bool wide) {
  const auto width = [](const Column& one) {
    std::int64_t all = 0;
    for (const CutSegment& cut : one.outputs) all += cut.granules * cut.size;
    return all;
  };
  Layer layer{.op = Layer::Op::kColumns, .reads = {x}, .wide = wide};
  for (const Column& one : all)
    layer.weights.push_back(param(matrix(prefix_ + one.name + ".weight", width(one), model_.hidden,
                                         initial_.matrix, Cuts::rows(one.outputs))));
  for (const Column& one : all) {
    if (biased == Bias::kNone) break;
    ParamSpec own = bias(prefix_ + one.name + ".bias", width(one), Cuts::rows(one.outputs));
    layer.biases.push_back(biased == Bias::kHere ? param(std::move(own))
                                                 : last_param(std::move(own)));
  }
  for (const Column& one : all)
    for (int part = 0; part < one.parts; ++part)
      layer.writes.push_back(tensor({.features = one.features}));
  block_.layers.push_back(layer);
  return layer.writes;
}

std::vector<int> LayerList::heads(int x, const std::vector<std::string>& names, Bias bias) {
  const Cuts cut(model_, rank_);
  const std::vector<int> qkv = columns(x,
                                       {{names[0], {cut.q}, sizes_.q},
                                        {names[1], {cut.kv}, sizes_.kv},
                                        {names[2], {cut.kv}, sizes_.kv}},
                                       bias, false);
  block_.attention = block_.layers.back().weights;
  return qkv;
}

std::vector<int> LayerList::heads(int x, const std::string& name, Bias bias) {
  const Cuts cut(model_, rank_);
  const std::vector<int> qkv =
      columns(x, {{name, {cut.q, cut.kv, cut.kv}, sizes_.q + 2 * sizes_.kv}}, bias, false);
  block_.attention = block_.layers.back().weights;
  return qkv;
}

int LayerList::attention(const std::vector<int>& qkv, const config::LayerAttention& attends,
                         const HeadNorms& norms, double multiplier, double cap) {
  const Cuts cut(model_, rank_);
  Layer layer{.op = Layer::Op::kAttention,
              .reads = qkv,
              .attends = attends,
              .from_one = norms.from_one,
              .whole_heads = norms.whole,
              .multiplier = multiplier,
              .cap = cap};
  for (std::size_t of = 0; of < norms.names.size(); ++of) {
    const CutSegment& heads = of == 0 ? cut.q : cut.kv;
    // Of each head, a rank's gradient is of its own heads.
    layer.weights.push_back(last_param(
        norms.whole
            ? rms_gain(norms.names[of], heads.granules * heads.size, Cuts::rows({heads}), false)
            : rms_gain(norms.names[of], cut.width, {.partial = rank_.tp > 1}, norms.from_one)));
  }
  const int mixed = tensor({.features = sizes_.q});
  layer.writes = {mixed};
  block_.layers.push_back(std::move(layer));
  return mixed;
}

int LayerList::rows(const std::string& name, Layer layer, CutSegment inputs, Bias biased) {
  layer.op = Layer::Op::kRows;
  layer.weights = {
      param(matrix(prefix_ + name + ".weight", model_.hidden, inputs.granules * inputs.size,
                   initial_.residual, Cuts::columns({inputs})))};
  if (biased != Bias::kNone) {
    ParamSpec own = bias(prefix_ + name + ".bias", model_.hidden, Cuts(model_, rank_).whole);
    layer.biases = {biased == Bias::kHere ? param(std::move(own)) : last_param(std::move(own))};
  }
  const int y = tensor({.between = true});
  layer.writes = {y};
  block_.layers.push_back(std::move(layer));
  return y;
}

int LayerList::attention_output(const std::string& name, int mixed, Bias bias, double multiplier) {
  const int y =
      rows(name, {.reads = {mixed}, .multiplier = multiplier}, Cuts(model_, rank_).q, bias);
  block_.attention.push_back(block_.layers.back().weights[0]);
  return y;
}

int LayerList::widen(const std::string& name, int x) {
  const int wide = columns(x, {{name, {Cuts::each(model_.ffn)}, sizes_.ffn}}, Bias::kHere, true)[0];
  block_.mlp = block_.layers.back().weights;
  return wide;
}

int LayerList::activate(int x, config::Activation activation) {
  const int y = tensor(block_.tensors[x]);
  block_.layers.push_back(
      {.op = Layer::Op::kActivation, .reads = {x}, .writes = {y}, .activation = activation});
  return y;
}

int LayerList::narrow(const std::string& name, int x,
                      std::optional<config::Activation> activation) {
  const int y =
      rows(name, {.reads = {x}, .activation = activation}, Cuts::each(model_.ffn), Bias::kHere);
  block_.mlp.push_back(block_.layers.back().weights[0]);
  return y;
}

std::vector<int> LayerList::widen_gated(const std::vector<std::string>& names, int x, Bias bias) {
  std::vector<Column> both;
  for (const std::string& name : names)
    both.push_back({name, {Cuts::each(model_.ffn)}, sizes_.ffn});
  const std::vector<int> wide = columns(x, both, bias, true);
  block_.mlp = block_.layers.back().weights;
  return wide;
}

std::vector<int> LayerList::widen_together(const std::string& name, int x) {
  const CutSegment each = Cuts::each(model_.ffn);
  const std::vector<int> up_and_gate =
      columns(x, {{name, {each, each}, sizes_.ffn, 2}}, Bias::kNone, true);
  block_.mlp = block_.layers.back().weights;
  return {up_and_gate[1], up_and_gate[0]};
}

int LayerList::narrow_gated(const std::string& name, const std::vector<int>& gate_and_up,
                            config::GateActivation gate, double multiplier, Bias bias) {
  const int y = rows(name, {.reads = gate_and_up, .gate = gate, .multiplier = multiplier},
                     Cuts::each(model_.ffn), bias);
  block_.mlp.push_back(block_.layers.back().weights[0]);
  return y;
}

int LayerList::mix(int x, std::vector<ParamSpec> params) {
  Layer layer{.op = Layer::Op::kMixer, .reads = {x}};
  for (ParamSpec& own : params) {
    own.name = prefix_ + own.name;
    layer.weights.push_back(param(std::move(own)));
  }
  const int y = tensor({.between = true});
  layer.writes = {y};
  block_.layers.push_back(std::move(layer));
  return y;
}

int LayerList::add(int a, int b) {
  const int sum = tensor({.between = true});
  block_.layers.push_back({.reads = {a, b}, .writes = {sum}});
  return sum;
}

BlockLayers LayerList::finish() && {
  const int first = static_cast<int>(block_.params.size());
  for (Layer& layer : block_.layers)
    for (std::vector<int>* params : {&layer.weights, &layer.biases})
      for (int& param : *params)
        if (param < 0) param = first - 1 - param;
  for (ParamSpec& param : last_) block_.params.push_back(std::move(param));
  return std::move(block_);
}

}  // namespace trireme::model
