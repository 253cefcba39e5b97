#include "trireme/optim/adamw.h"

#include <ATen/Parallel.h>

#include "trireme/base/error.h"
#include "trireme/exec/units/flat.h"
#include "trireme/optim/adamw_operators.h"
#include "trireme/optim/adamw_step.h"

namespace trireme::optim {
namespace {

template <typename T, typename Gradient>
TRIREME_SIMD_CLONES void step(const Factors<T>& f, T* __restrict param,
                              const Gradient* __restrict grad, T* __restrict first,
                              T* __restrict second, std::int64_t count) {
  step_inline(f, param, grad, first, second, count);
}

template <typename T, typename Gradient>
void update_segment(const Factors<T>& f, const exec::UpdateSegment& segment,
                    const at::Tensor& param, const at::Tensor& grad, std::span<at::Tensor> states) {
  constexpr std::int64_t kGrain = 1 << 15;  // elements worth a thread of their own
  at::parallel_for(segment.begin, segment.end, kGrain, [&](std::int64_t begin, std::int64_t end) {
    step(f, param.data_ptr<T>() + begin, grad.data_ptr<Gradient>() + begin,
         states[0].data_ptr<T>() + begin, states[1].data_ptr<T>() + begin, end - begin);
  });
}

template <typename T, typename Gradient>
void update_shard(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                  std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                  const exec::UpdateArgs& args) {
  for (std::size_t i = 0; i < segments.size();) {
    // Where a parameter is cut across its rows, they are segments each.
    exec::UpdateSegment run = segments[i];
    for (++i; i < segments.size() && segments[i].begin == run.end &&
              segments[i].decay == run.decay && segments[i].lr == run.lr;
         ++i)
      run.end = segments[i].end;
    update_segment<T, Gradient>(factors<T>(options, args, run), run, param, grad, states);
  }
}

std::vector<exec::StateSpec> states_of(const AdamWOptions& options) {
  if (!options.int8_states) return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}};
  return {{.name = "exp_avg", .type = DType::kU8},
          {.name = "exp_avg_scale", .type = DType::kF32, .per_block = true},
          {.name = "exp_avg_sq", .type = DType::kU8},
          {.name = "exp_avg_sq_scale", .type = DType::kF32, .per_block = true}};
}

}  // namespace

AdamW::AdamW(const AdamWOptions& options) : options_(options), states_(states_of(options)) {}

void AdamW::update(at::Tensor param, const at::Tensor& grad, std::span<at::Tensor> states,
                   std::span<const exec::UpdateSegment> segments, const exec::UpdateArgs& args) {
  TRIREME_CHECK(args.step >= 1 && states.size() == states_.size(),
                "AdamW: update {} with {} states", args.step, states.size());
  const at::ScalarType type = param.scalar_type(), grads = grad.scalar_type();
  TRIREME_CHECK((type == at::kDouble && grads == at::kDouble && !options_.int8_states) ||
                    ((type == at::kFloat || type == at::kBFloat16) &&
                     (grads == at::kFloat || grads == at::kBFloat16)),
                "AdamW: masters of {} with gradients of {}", c10::toString(type),
                c10::toString(grads));
  TRIREME_CHECK(options_.int8_states || states[0].scalar_type() == type,
                "AdamW: states have the type of masters");
  TRIREME_CHECK(param.is_contiguous() && grad.is_contiguous(), "AdamW: shards are contiguous");
  if (!exec::on_host(param.device()))
    return update_by_operators(options_, param, grad, states, segments, args);
  if (options_.int8_states) return update_coded(options_, param, grad, states, segments, args);
  if (type == at::kBFloat16) return update_short(options_, param, grad, states, segments, args);
  if (type == at::kDouble)
    update_shard<double, double>(options_, param, grad, states, segments, args);
  else if (grads == at::kFloat)
    update_shard<float, float>(options_, param, grad, states, segments, args);
  else
    update_shard<float, c10::BFloat16>(options_, param, grad, states, segments, args);
}

}  // namespace trireme::optim
