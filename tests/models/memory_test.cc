// What nodes say they keep for backward, against what autograd holds.
#include <ATen/ops/randint.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "tests/harness/bound_model.h"
#include "trireme/models/build.h"

namespace trireme::models {
namespace {

std::atomic<std::int64_t> live_bytes = 0;

// Memory that is counted while it lives. LibTorch 2.x has the second allocate, 1.13 the first.
class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const { return make(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return make(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const {
    std::memcpy(to, from, count);
  }

 private:
  static constexpr std::size_t kHead = 64;  // bytes before the memory, which hold its size

  static c10::DataPtr make(std::size_t bytes) {
    char* const head =
        static_cast<char*>(std::aligned_alloc(kHead, (bytes + 2 * kHead - 1) / kHead * kHead));
    std::memcpy(head, &bytes, sizeof bytes);
    live_bytes += static_cast<std::int64_t>(bytes);
    return {head + kHead, head + kHead, &release, c10::Device(c10::DeviceType::CPU)};
  }
  static void release(void* memory) {
    char* const head = static_cast<char*>(memory) - kHead;
    std::size_t bytes = 0;
    std::memcpy(&bytes, head, sizeof bytes);
    live_bytes -= static_cast<std::int64_t>(bytes);
    std::free(head);
  }
};

class CountAllocations {
 public:
  CountAllocations() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(&counting_, 100); }
  ~CountAllocations() { c10::SetCPUAllocator(before_, 100); }

 private:
  CountingAllocator counting_;
  c10::Allocator* before_;
};

TEST(SavedBytes, EveryNodeKeepsWhatItDeclares) {
  for (config::Family family : {config::Family::kGpt, config::Family::kLlama})
    for (DType type : {DType::kF32, DType::kBF16, DType::kF64}) {
      config::Job job;
      job.model = {.family = family,
                   .layers = 1,
                   .hidden = 64,
                   .heads = 4,
                   .kv_heads = family == config::Family::kLlama ? 2 : 4,
                   .ffn = 160,
                   .vocab = 97,
                   .seq_len = 80};
      job.precision.compute = type;
      job.run.micro_batch = 3;
      const at::ScalarType scalar = type == DType::kF64   ? at::kDouble
                                    : type == DType::kF32 ? at::kFloat
                                                          : at::kBFloat16;
      harness::BoundModel bound(build(job), scalar);
      const plan::Program& program = bound.model().spec.program;
      const at::Tensor tokens = at::randint(97, {3, 80}, at::TensorOptions().dtype(at::kLong));
      const CountAllocations count;
      at::Tensor x = tokens;
      for (std::size_t node = 0; node < program.nodes.size(); ++node) {
        std::vector<at::Tensor> inputs = {x};
        if (node > 0) inputs[0].set_requires_grad(true);
        if (program.nodes[node].loss) inputs.push_back(tokens);
        const std::int64_t before = live_bytes;
        at::Tensor y = bound.block(node).forward(inputs, {.training = true})[0];
        const std::int64_t kept = live_bytes - before - static_cast<std::int64_t>(y.nbytes());
        const auto declared = static_cast<double>(program.nodes[node].saved_bytes);
        EXPECT_NEAR(static_cast<double>(kept), declared, 0.01 * declared)
            << program.nodes[node].name << " " << name(type);
        x = y.detach();
      }
    }
}

}  // namespace
}  // namespace trireme::models
