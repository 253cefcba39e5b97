// LayerOperations: what a list of layers computes.
#pragma once

#include <vector>

#include "trireme/model/layers/layer_bytes.h"
#include "trireme/model/layers/operation.h"

namespace trireme::model {

class LayerOperations : public LayerBytes {
 public:
  using LayerBytes::LayerBytes;
  // In the order of the layers. Norms of heads and multipliers are left out.
  std::vector<Operation> operations() const;

 private:
  using All = std::vector<Operation>;
  void norm(const Layer& layer, All& all) const;
  void columns(const Layer& layer, All& all) const;
  void attention(const Layer& layer, All& all) const;
  void rows(const Layer& layer, All& all) const;
  void mixer(const Layer& layer, All& all) const;
  void adapters(const Layer& layer, All& all) const;
  // Of the stream and a branch, which may be dropped in part.
  Operation sum(const Layer& layer) const;
  Operation pass(Operation::What what, std::int64_t rows, std::int64_t width) const;
};

}  // namespace trireme::model
