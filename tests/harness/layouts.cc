#include "tests/harness/layouts.h"

#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "tests/harness/recompute_whole.h"
#include "tests/harness/scratch.h"
#include "trireme/base/hash.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/plan/compile/microbatch.h"
#include "trireme/plan/outer_steps.h"

namespace trireme::harness {
namespace {

// All slices of all ranks, gathered through the world's text exchange and put in place.
std::vector<std::vector<double>> gather_states(exec::Session& session, comm::World& world) {
  std::string mine;
  const auto append = [&](const void* data, std::size_t size) {
    mine.append(static_cast<const char*>(data), size);
  };
  for (const exec::StateSlice& slice : session.units().owned_slices()) {
    const at::Tensor values = session.units().read(slice).to(at::kDouble).contiguous();
    const std::int64_t head[3] = {slice.unit, static_cast<std::int64_t>(hash64(slice.kind)),
                                  slice.offset};
    const std::int64_t count = values.numel();
    append(head, sizeof head);
    append(&count, sizeof count);
    append(values.data_ptr(), values.nbytes());
  }
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> states;
  for (const std::string& text : world.exchange(mine)) {
    for (std::size_t at = 0; at < text.size();) {
      std::int64_t head[4];
      std::memcpy(head, text.data() + at, sizeof head);
      at += sizeof head;
      auto& state = states[{head[0], head[1]}];
      state.resize(std::max(state.size(), static_cast<std::size_t>(head[2] + head[3])), NAN);
      std::memcpy(state.data() + head[2], text.data() + at, static_cast<std::size_t>(head[3]) * 8);
      at += static_cast<std::size_t>(head[3]) * 8;
    }
  }
  std::vector<std::vector<double>> result;
  for (auto& [key, state] : states) result.push_back(std::move(state));
  return result;
}

double relative(double a, double b) {
  const double scale = std::max(std::abs(a), std::abs(b));
  return scale == 0 ? 0 : std::abs(a - b) / scale;
}

}  // namespace

std::string Layout::name() const {
  return mesh::print(mesh::Mesh(degrees)) +
         fmt::format(" zero {} mb {} segments {}", recipe.zero, recipe.micro_batches, segments) +
         (recipe.offload.any()
              ? fmt::format(
                    " optimizer {} params {} grads {} activations {} ratio {} ahead {}",
                    trireme::name(recipe.offload.optimizer), trireme::name(recipe.offload.params),
                    trireme::name(recipe.offload.grads), trireme::name(recipe.offload.activations),
                    recipe.offload.ratio, recipe.offload.prefetch)
              : "");
}

Trace run_rank(const Subject& subject, const Layout& layout, int steps, comm::World& world) {
  std::unique_ptr<exec::Optimizer> optimizer = subject.optimizer();
  exec::Model model = subject.model();
  if (layout.segments > 0)
    model.spec.program = plan::recompute_whole(std::move(model.spec.program), layout.segments);
  exec::Session session(std::move(model),
                        {.mesh = mesh::Mesh(layout.degrees),
                         .recipe = layout.recipe,
                         .seed = subject.seed,
                         .scratch = open_scratch},
                        world, *optimizer);
  Trace trace;
  const std::optional<plan::OuterSteps>& outer = layout.recipe.outer;
  std::optional<optim::LossScaler> scaler;
  if (subject.loss_scaler) scaler.emplace(*subject.loss_scaler);
  int updates = 0;
  for (int step = 0; step < steps; ++step) {
    const exec::StepResult result = session.step(
        {.step = step,
         .loss_scale = subject.loss_scale,
         .island_share = outer ? 1.0 / outer->islands : 1,
         .gradient_scale = scaler ? scaler->scale() : 1,
         .skip_overflow = scaler.has_value(),
         .update = {.lr = 1e-2, .step = updates + 1, .noise = subject.seed},
         .clip = subject.clip,
         .outer = outer ? plan::outer_work(*outer, step + 1, step + 1 == steps) : plan::OuterWork(),
         .load = [&](int mb) {
           return subject.batch(
               step,
               plan::micro_batch_id(session.plan().mesh, session.plan().recipe, world.rank(), mb));
         }});
    trace.losses.push_back(result.loss);
    trace.grad_norms.push_back(result.grad_norm);
    updates += !result.skipped;
    if (!scaler) continue;
    trace.scales.push_back(scaler->scale());
    trace.skipped.push_back(result.skipped);
    scaler->update(result.skipped, step);
  }
  trace.states = gather_states(session, world);
  return trace;
}

Trace run_layout(const Subject& subject, const Layout& layout, int steps) {
  const int world = mesh::Mesh(layout.degrees).world();
  Trace trace;
  comm::run_local_ranks(world, 60, [&](comm::World& rank) {
    Trace mine = run_rank(subject, layout, steps, rank);
    if (rank.rank() == 0) trace = std::move(mine);
  });
  return trace;
}

double distance(const Trace& a, const Trace& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    largest = std::max(largest, relative(a.losses[i], b.losses[i]));
    largest = std::max(largest, relative(a.grad_norms[i], b.grad_norms[i]));
  }
  for (std::size_t s = 0; s < a.states.size(); ++s) {
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < a.states[s].size(); ++i) {
      difference += (a.states[s][i] - b.states[s][i]) * (a.states[s][i] - b.states[s][i]);
      norm += a.states[s][i] * a.states[s][i];
    }
    if (norm > 0) largest = std::max(largest, std::sqrt(difference / norm));
  }
  return largest;
}

}  // namespace trireme::harness
