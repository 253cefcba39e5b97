#include <ATen/Parallel.h>

#include <algorithm>

#include "trireme/base/hash.h"
#include "trireme/optim/adamw_step.h"
#include "trireme/optim/quantise.h"
#include "trireme/optim/rounding.h"

namespace trireme::optim {
namespace {

// Elements that are widened at a time: a block of 8-bit states, or a piece that stays in the first cache.
constexpr std::int64_t kPiece = 256;

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

// Moments in bf16, rounded like parameters.
class ShortMoments {
 public:
  ShortMoments(std::span<at::Tensor> states, const exec::UpdateArgs&, const AdamWOptions& options,
               std::uint64_t key)
      : first_(states[0].data_ptr<c10::BFloat16>()),
        second_(states[1].data_ptr<c10::BFloat16>()),
        first_rounding_{options.stochastic, mix(key, 1)},
        second_rounding_{options.stochastic, mix(key, 2)} {}

  std::int64_t piece() const { return kPiece; }
  void load(std::int64_t begin, std::int64_t count, float* first, float* second) const {
    widen(first_ + begin, first, count);
    widen(second_ + begin, second, count);
  }
  void store_run(std::int64_t begin, std::int64_t place, std::int64_t count, const float* first,
                 const float* second) const {
    store(first_rounding_, place, first, first_ + begin, count);
    store(second_rounding_, place, second, second_ + begin, count);
  }
  void store_piece(std::int64_t, std::int64_t, const float*, const float*) const {}

 private:
  c10::BFloat16* first_;
  c10::BFloat16* second_;
  Rounding first_rounding_, second_rounding_;
};

class CodedMoments {
 public:
  CodedMoments(std::span<at::Tensor> states, const exec::UpdateArgs& args, const AdamWOptions&,
               std::uint64_t)
      : block_(args.state_block),
        first_codes_(states[0].data_ptr<std::uint8_t>()),
        first_scales_(states[1].data_ptr<float>()),
        second_codes_(states[2].data_ptr<std::uint8_t>()),
        second_scales_(states[3].data_ptr<float>()) {}

  std::int64_t piece() const { return block_; }
  void load(std::int64_t begin, std::int64_t count, float* first, float* second) const {
    const std::int64_t block = begin / block_;
    dequantise(Moment::kFirst, first_codes_ + begin, first_scales_[block], first, count);
    dequantise(Moment::kSecond, second_codes_ + begin, second_scales_[block], second, count);
  }
  void store_run(std::int64_t, std::int64_t, std::int64_t, const float*, const float*) const {}
  void store_piece(std::int64_t begin, std::int64_t count, const float* first,
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

template <typename T, typename Gradient, typename Moments>
void update_pieces(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                   std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                   const exec::UpdateArgs& args) {
  const Moments moments(states, args, options, args.noise);
  const Factors<float> decaying = factors<float>(options, args, true);
  const Factors<float> rest = factors<float>(options, args, false);
  const Rounding rounding{options.stochastic, mix(args.noise, 0)};
  T* const params = param.data_ptr<T>();
  const Gradient* const grads = grad.data_ptr<Gradient>();
  const std::int64_t size = moments.piece(), count = param.numel();
  constexpr std::int64_t kGrain = 1 << 15;  // elements worth a thread of their own
  const auto update_piece = [&](std::int64_t begin) {
    float p[kPiece], g[kPiece], m[kPiece], v[kPiece];
    const std::int64_t end = std::min(begin + size, count);
    moments.load(begin, end - begin, m, v);
    auto segment = std::ranges::upper_bound(segments, begin, {}, &exec::UpdateSegment::end);
    for (; segment != segments.end() && segment->begin < end; ++segment) {
      const std::int64_t from = std::max(begin, segment->begin);
      const std::int64_t length = std::min(end, segment->end) - from;
      const std::int64_t place = segment->first + (from - segment->begin);
      const std::int64_t at = from - begin;
      widen(params + from, p, length);
      widen(grads + from, g, length);
      step(segment->decay ? decaying : rest, p, g, m + at, v + at, length);
      store(rounding, place, p, params + from, length);
      moments.store_run(from, place, length, m + at, v + at);
    }
    moments.store_piece(begin, end - begin, m, v);
  };
  at::parallel_for(0, (count + size - 1) / size, std::max<std::int64_t>(1, kGrain / size),
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t piece = first; piece < last; ++piece)
                       update_piece(piece * size);
                   });
}

template <typename T, typename Gradient, typename... Args>
void choose_moments(const AdamWOptions& options, const Args&... args) {
  if (options.int8_states) return update_pieces<T, Gradient, CodedMoments>(options, args...);
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    update_pieces<T, Gradient, ShortMoments>(options, args...);
}

template <typename T, typename... Args>
void choose_gradient(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                     const Args&... args) {
  if (grad.scalar_type() == at::kFloat)
    choose_moments<T, float>(options, param, grad, args...);
  else
    choose_moments<T, c10::BFloat16>(options, param, grad, args...);
}

}  // namespace

void update_narrow(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                   std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                   const exec::UpdateArgs& args) {
  if (param.scalar_type() == at::kFloat)
    choose_gradient<float>(options, param, grad, states, segments, args);
  else
    choose_gradient<c10::BFloat16>(options, param, grad, states, segments, args);
}

}  // namespace trireme::optim
