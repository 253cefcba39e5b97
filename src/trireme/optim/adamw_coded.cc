#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "trireme/base/hash.h"
#include "trireme/optim/adamw_step.h"
#include "trireme/optim/quantise.h"
#include "trireme/optim/rounding.h"

namespace trireme::optim {
namespace {

constexpr std::int64_t kLargestBlock = 256;

TRIREME_SIMD_CLONES void step(const Factors<float>& f, float* param, const float* grad,
                              float* first, float* second, std::int64_t count) {
  step_inline(f, param, grad, first, second, count);
}

void widen(const float* from, float* to, std::int64_t count) { std::copy_n(from, count, to); }
void widen(const c10::BFloat16* from, float* to, std::int64_t count) {
  widen_bf16(from, to, count);
}
void store(const Rounding&, std::int64_t, const float* from, float* to, std::int64_t count) {
  std::copy_n(from, count, to);
}
void store(const Rounding& rounding, std::int64_t place, const float* from, c10::BFloat16* to,
           std::int64_t count) {
  round_to_bf16(rounding, place, from, to, count);
}

class CodedMoments {
 public:
  CodedMoments(std::span<at::Tensor> states, const exec::UpdateArgs& args)
      : block_(args.state_block),
        first_codes_(states[0].data_ptr<std::uint8_t>()),
        first_scales_(states[1].data_ptr<float>()),
        second_codes_(states[2].data_ptr<std::uint8_t>()),
        second_scales_(states[3].data_ptr<float>()) {}

  // Of one block.
  void load(std::int64_t begin, std::int64_t count, float* first, float* second) const {
    const std::int64_t block = begin / block_;
    dequantise(Moment::kFirst, first_codes_ + begin, first_scales_[block], first, count);
    dequantise(Moment::kSecond, second_codes_ + begin, second_scales_[block], second, count);
  }
  void store(std::int64_t begin, std::int64_t count, const float* first,
             const float* second) const {
    const std::int64_t block = begin / block_;
    quantise(Moment::kFirst, first, count, first_codes_ + begin, first_scales_[block]);
    quantise(Moment::kSecond, second, count, second_codes_ + begin, second_scales_[block]);
  }

 private:
  std::int64_t block_;
  std::uint8_t* first_codes_;
  float* first_scales_;
  std::uint8_t* second_codes_;
  float* second_scales_;
};

template <typename T, typename Gradient>
void update_blocks(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                   std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                   const exec::UpdateArgs& args) {
  const CodedMoments moments(states, args);
  std::vector<Factors<float>> all;  // parallel to segments
  for (const exec::UpdateSegment& segment : segments)
    all.push_back(factors<float>(options, args, segment));
  const Rounding rounding{options.stochastic, mix(args.noise, 0)};
  T* const params = param.data_ptr<T>();
  const Gradient* const grads = grad.data_ptr<Gradient>();
  const std::int64_t size = args.state_block, count = param.numel();
  constexpr std::int64_t kGrain = 1 << 15;  // elements worth a thread of their own
  const auto update_block = [&](std::int64_t begin) {
    // What is in no segment is padding: its moments are 0, whatever its codes say.
    float p[kLargestBlock], g[kLargestBlock], m[kLargestBlock] = {}, v[kLargestBlock] = {};
    const std::int64_t end = std::min(begin + size, count);
    auto segment = std::ranges::upper_bound(segments, begin, {}, &exec::UpdateSegment::end);
    for (; segment != segments.end() && segment->begin < end; ++segment) {
      const std::int64_t from = std::max(begin, segment->begin);
      const std::int64_t length = std::min(end, segment->end) - from;
      const std::int64_t place = segment->first + (from - segment->begin);
      const std::int64_t at = from - begin;
      moments.load(from, length, m + at, v + at);
      widen(params + from, p, length);
      widen(grads + from, g, length);
      step(all[segment - segments.begin()], p, g, m + at, v + at, length);
      store(rounding, place, p, params + from, length);
    }
    moments.store(begin, end - begin, m, v);
  };
  at::parallel_for(0, (count + size - 1) / size, std::max<std::int64_t>(1, kGrain / size),
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t block = first; block < last; ++block)
                       update_block(block * size);
                   });
}

template <typename T, typename... Args>
void choose_gradient(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                     const Args&... args) {
  if (grad.scalar_type() == at::kFloat)
    update_blocks<T, float>(options, param, grad, args...);
  else
    update_blocks<T, c10::BFloat16>(options, param, grad, args...);
}

}  // namespace

void update_coded(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                  std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                  const exec::UpdateArgs& args) {
  if (param.scalar_type() == at::kFloat)
    choose_gradient<float>(options, param, grad, states, segments, args);
  else
    choose_gradient<c10::BFloat16>(options, param, grad, states, segments, args);
}

}  // namespace trireme::optim
