// Tensors of forward that backward recomputes, instead of finding them kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace torch::autograd {
struct AutogradContext;
}

namespace trireme::ops {

// Whether backward finds an op's result kept by its readers, or recomputes it from what the op itself keeps.
enum class Keep { kYes, kNo };

// A recomputable tensor, with the same bits. Its users in one backward share it: the first computes it, the last frees
// its memory. One thread at a time.
class Recomputed {
 public:
  using Compute = std::function<std::vector<at::Tensor>()>;
  explicit Recomputed(Compute compute) : compute_(std::move(compute)) {}
  const at::Tensor& get(std::size_t index);

 private:
  Compute compute_;
  std::vector<at::Tensor> tensors_;
};

// One of these tensors. Without `recomputed`: a tensor that is kept.
struct Source {
  std::shared_ptr<Recomputed> recomputed{};
  std::size_t index = 0;
};

// A tensor as an op reads it: forward takes the value, backward has it from the source.
struct Operand {
  Operand() = default;
  Operand(at::Tensor x) : value(std::move(x)) {}
  Operand(at::Tensor x, Source from) : value(std::move(x)), source(std::move(from)) {}
  operator const at::Tensor&() const { return value; }

  // The value without its graph, later.
  std::function<at::Tensor()> reader() const;

  at::Tensor value;
  Source source;
};

// For save_for_backward: the value, or nothing where it is recomputed.
at::Tensor kept(const at::Tensor& value, const Source& source);

// Passes tensors from forward to backward, under a name of the op's own. `restored` is `saved` or, with the last use of
// the source by this op, recomputed.
void save(torch::autograd::AutogradContext* context, const char* name, const Source& source);
at::Tensor restored(torch::autograd::AutogradContext* context, const char* name,
                    const at::Tensor& saved);

}  // namespace trireme::ops
