#include "trireme/model/layers/layer_transients.h"

#include <algorithm>

namespace trireme::model {

using Op = Layer::Op;

void LayerTransients::forward(const Layer& layer, Tape& tape, bool keeps) const {
  switch (layer.op) {
    case Op::kNorm:
      tape.take((1 + has_branch(layer)) * tape_.row + tape_.statistics);
      if (!keeps || hidden(layer) == 0) tape.give(tape_.statistics);
      return;
    case Op::kColumns:
      norms(layer, tape);
      if (keeps) tape.take(inner(layer));
      tape_.column_forward(tape, written(layer));
      scale(layer, tape, keeps);
      // Side by side, before each is a tensor.
      if (layer.writes.size() > layer.weights.size()) tape.pass(written(layer));
      return drop(layer, tape, 1);
    case Op::kAttention:
      turn(layer, tape, keeps && flow_.flows(layer));
      attention_.forward(tape);
      if (layer.key_bias) tape.take(bytes(layer.writes[0]));
      if (!keeps || !flow_.flows(layer))
        return tape.give(attention_.made() - (layer.key_bias ? 0 : attention_.result()) +
                         splits_heads(layer) * attention_.input());
      // Backward reads the heads that it has after an exchange.
      if (sizes_.exchanged)
        for (const int t : layer.reads) tape.give(bytes(t));
      return;
    case Op::kActivation: {
      Held gate(tape, gate_bytes(layer));
      tape.take(bytes(layer.writes[0]));
      return keeps && flow_.flows(layer) ? gate.keep() : gate.give();
    }
    case Op::kRows: {
      norms(layer, tape);
      if (keeps) tape.take(inner(layer));
      Held active(tape, activates(layer) ? bytes(layer.reads[0]) : 0);
      drop(layer, tape, 1);
      tape_.row_forward(tape);
      active.give();
      scale(layer, tape, keeps);
      tape.pass(dropped(layer));
      return;
    }
    case Op::kMixer:
      if (keeps && flow_.flows(layer))
        tape.take(block_.mixer.saved_bytes);
      else
        tape.pass(block_.mixer.work_bytes);
      return tape.take(tape_.row);
    case Op::kAdd: return tape.take(tape_.row);
  }
}

void LayerTransients::norms(const Layer& layer, Tape& tape) const {
  for (std::size_t of = 0; of < layer.weights.size(); ++of) {
    const std::int64_t rows = scaled(layer, of), rank = trained_.adapter_rank;
    tape.take(rows * sizes_.statistic);
    const std::int64_t wide = rank * (read(layer) + std::min(rows, kSumRows)) * sizes_.statistic;
    if (rows > 0) tape.pass(some_rows(rows, read(layer)) + (narrow() ? wide : 0));
  }
  if (!layer.biases.empty()) tape.take(scaled(layer) * sizes_.element);
}

void LayerTransients::scale(const Layer& layer, Tape& tape, bool keeps) const {
  const std::int64_t rows = layer.op == Op::kRows ? sizes_.rows : sizes_.tokens;
  for (std::size_t of = 0; of < layer.weights.size(); ++of) {
    Held results(tape, rows * scaled(layer, of) * sizes_.element);
    if (narrow()) tape.pass(some_rows(rows, scaled(layer, of)));
    if (keeps)
      results.keep();
    else
      results.give();
  }
  if (!keeps) tape.give(magnitudes(layer) - rows * scaled(layer) * sizes_.element);
}

void LayerTransients::scale_back(const Layer& layer, Tape& tape) const {
  const std::int64_t rows = layer.op == Op::kRows ? sizes_.rows : sizes_.tokens;
  for (std::size_t of = layer.weights.size(); of-- > 0;) {
    const std::int64_t bytes = rows * scaled(layer, of) * sizes_.element;
    tape.pass(bytes + some_rows(rows, scaled(layer, of)));
    tape.give(bytes);
  }
  tape.give(magnitudes(layer) - rows * scaled(layer) * sizes_.element);
}

// Queries, then keys: each normed, then turned, before what was is gone.
void LayerTransients::turn(const Layer& layer, Tape& tape, bool keeps) const {
  if (splits_heads(layer)) {
    tape.take(bytes(layer.reads[0]));
    // Rotation by channel pairs reads a copy without the others.
    if (layer.angles == 1) tape.pass(sizes_.tokens * sizes_.kv * sizes_.element);
    tape.give(bytes(layer.reads[0]));  // side by side
    if (!layer.key_bias) return;
    // Queries times a number, before they are wider.
    tape.pass(2 * attended() + channels());
    return tape.take(3 * channels());
  }
  if (layer.reads.size() == 1) return;
  for (const int heads : {layer.reads[0], layer.reads[1]}) {
    if (norms_heads(layer)) {
      tape.pass(across(layer, heads, 2) + bytes(heads));
      tape.take(bytes(heads) + head_statistics(layer, heads));
      if (!keeps) tape.give(bytes(heads) + head_statistics(layer, heads));
    }
    if (turns(layer, heads)) tape.pass(bytes(heads));
  }
}

void LayerTransients::turn_back(const Layer& layer, Tape& tape) const {
  if (splits_heads(layer)) return tape.pass(bytes(layer.reads[0]));
  if (layer.reads.size() == 1) return;
  for (const int heads : {layer.reads[0], layer.reads[1]}) {
    if (turns(layer, heads)) tape.pass(bytes(heads));
    if (!norms_heads(layer)) continue;
    tape.pass(bytes(heads) +
              std::max(across(layer, heads, 4),
                       tape_.sums(sizes_.tokens, 2 * block_.tensors[heads].features)));
    tape.give(bytes(heads) + head_statistics(layer, heads));
  }
}

void LayerTransients::forward(Tape& tape, bool keeps) const {
  for (std::size_t i = 0; i < block_.layers.size(); ++i) {
    const Layer& layer = block_.layers[i];
    forward(layer, tape, keeps);
    const bool given = layer.op == Op::kAttention &&
                       (splits_heads(layer) || (keeps && flow_.flows(layer) && sizes_.exchanged));
    for (const int t : layer.reads)
      if (t != 0 && flow_.last_reader(t) == static_cast<int>(i) && !(keeps && flow_.saved(t)) &&
          !given)
        tape.give(bytes(t));
  }
}

void LayerTransients::rows_backward(const Layer& layer, Tape& tape, GradientTape& gradients,
                                    Half half) const {
  const int x = layer.reads[0];
  Held undropped(tape, dropped(layer));
  scale_back(layer, tape);
  undropped.give();
  Held gradient(tape, scaled(layer) > 0 ? tape_.row : dropped(layer));
  if (scaled(layer) > 0) gradients.drop(layer.writes[0]);
  tape_.row_backward(tape, bytes(x), !layer.biases.empty());
  drop(layer, tape, 2);
  for (const int t : layer.reads) gradients.begin(t, bytes(t));
  if (activates(layer)) {
    // The activation again, which weights read, and of gate and up another gradient. Its slope takes the place of its
    // gradient.
    Held active(tape, static_cast<std::int64_t>(layer.reads.size()) * bytes(x));
    if (flow_.trains(layer)) tape.pass(sizes_.added_product);
    drop(layer, tape, 1);
    active.give();
  }
  gradient.give();
  if (!gone(layer, half)) return;
  tape.give(tape_.gathered + inner(layer));
  // Attention reads its result after the layer that closes it.
  if (flow_.saved(x) && !is_attended(x)) tape.give(bytes(x));
}

bool LayerTransients::is_attended(int tensor) const {
  return std::ranges::any_of(block_.layers, [&](const Layer& layer) {
    return layer.op == Op::kAttention && layer.writes[0] == tensor && !layer.key_bias;
  });
}

void LayerTransients::mixer_backward(const Layer& layer, Tape& tape,
                                     GradientTape& gradients) const {
  const int x = layer.reads[0];
  tape.pass(block_.mixer.gradient_bytes);
  if (flow_.reaches(x)) {
    tape.take(bytes(x));
    gradients.begin(x, bytes(x));
  }
  gradients.drop(layer.writes[0]);
  tape.give(block_.mixer.saved_bytes + (flow_.saved(x) ? bytes(x) : 0));
}

// Of a gated one: gradients of x and of the gate, which becomes x's as well.
void LayerTransients::activation_backward(const Layer& layer, Tape& tape,
                                          GradientTape& gradients) const {
  const int x = layer.reads[0];
  Held gate(tape, gate_bytes(layer));
  tape.take(bytes(x));
  gradients.drop(layer.writes[0]);
  tape.give(bytes(x) + gate_bytes(layer));
  gate.give();
  gradients.begin(x, bytes(x));
}

void LayerTransients::columns_backward(const Layer& layer, Tape& tape, GradientTape& gradients,
                                       Half half) const {
  const int x = layer.reads[0];
  const bool goes_on = flow_.reaches(x);
  if (layer.writes.size() > layer.weights.size()) tape.pass(written(layer));
  scale_back(layer, tape);
  tape_.column_backward(tape, biased_features(layer), static_cast<int>(layer.weights.size()), half,
                        flow_.trains(layer), goes_on);
  drop(layer, tape, 2);
  if (goes_on && gradients.has(x)) {  // another reader's, which it is added to
    tape.pass(tape_.row);
    gradients.drop(x);
  }
  if (goes_on) gradients.begin(x, tape_.row);
  if (gone(layer, half)) {
    for (const int t : layer.writes) gradients.drop(t);
    tape.give((flow_.saved(x) ? bytes(x) : 0) + inner(layer));
  } else {
    for (const int t : layer.writes) gradients.forget(t);
  }
}

void LayerTransients::backward(const Layer& layer, Tape& tape, GradientTape& gradients,
                               Half half) const {
  switch (layer.op) {
    case Op::kAdd:
      for (const int t : layer.reads)
        if (flow_.reaches(t)) gradients.share(layer.writes[0], t);
      return gradients.drop(layer.writes[0]);
    case Op::kRows:
      rows_backward(layer, tape, gradients, half);
      return gradients.drop(layer.writes[0]);
    case Op::kAttention:
      gradients.forget(layer.writes[0]);
      if (layer.key_bias) {
        tape.take(bytes(layer.writes[0]) + channels());
        tape.give(bytes(layer.writes[0]));
      }
      attention_.backward(tape);
      if (layer.key_bias) tape.give(3 * channels());
      turn_back(layer, tape);
      for (const int t : layer.reads) gradients.begin(t, bytes(t));
      return;
    case Op::kColumns: return columns_backward(layer, tape, gradients, half);
    case Op::kActivation: return activation_backward(layer, tape, gradients);
    case Op::kMixer: return mixer_backward(layer, tape, gradients);
    case Op::kNorm: {
      // The norm's gradient joins the stream's, in a tensor of its own.
      tape_.norm_gradient(tape);
      gradients.drop(layer.writes[1]);
      if (gradients.has(layer.writes[0])) gradients.drop(layer.writes[0]);
      if (flow_.saved(layer.writes[0])) tape.give(bytes(layer.writes[0]));
      int first = -1;
      for (const int t : layer.reads) {
        if (!flow_.reaches(t)) continue;
        if (first < 0) gradients.begin(first = t, tape_.row);
        gradients.share(first, t);
      }
      if (first < 0) tape.give(tape_.row);
      return;
    }
  }
}

void LayerTransients::backward(Tape& tape, Half half) const {
  tape.take(kept() + tape_.row);
  // The caller holds the output's gradient to the end.
  const int output = static_cast<int>(block_.tensors.size()) - 1, held = output + 1;
  GradientTape gradients(tape, block_.tensors.size() + 1);
  gradients.begin(output, tape_.row);
  gradients.share(output, held);
  for (std::size_t i = block_.layers.size(); i-- > 0;)
    if (flow_.flows(block_.layers[i])) backward(block_.layers[i], tape, gradients, half);
}

plan::NodeWork LayerTransients::transients() const {
  Tape keeping, passing, whole, input;
  forward(keeping, true);
  forward(passing, false);
  backward(whole, Half::kWhole);
  backward(input, Half::kInput);
  // And gradients of output and input.
  const std::int64_t counted = kept() + (1 + trained_.gradients.input) * tape_.row;
  std::int64_t widest = 0;
  bool gathers = false;
  for (const Layer& layer : block_.layers)
    if (layer.op == Op::kColumns) {
      widest = std::max(widest, biased_features(layer));
      gathers = gathers || flow_.trains(layer);
    }
  return {.forward = keeping.most() - kept() - tape_.row,
          .passing = passing.most() - tape_.row,
          .backward = whole.most() - counted,
          .input = input.most() - counted,
          .weight = (gathers ? tape_.gathered : 0) + sizes_.added_product +
                    tape_.sums(sizes_.tokens, widest)};
}

}  // namespace trireme::model
