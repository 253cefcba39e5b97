#include "trireme/train/run/non_finite.h"

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <vector>

#include "trireme/base/host_name.h"

namespace trireme::train {
namespace {

// The first element that is not finite, or -1.
std::int64_t first_non_finite(const at::Tensor& flat) {
  // A sum is finite if all elements are, except for elements that overflow only together.
  if (at::isfinite(flat.sum(at::kDouble)).item<bool>()) return -1;
  const at::Tensor finite = at::isfinite(flat);
  return finite.all().item<bool>() ? -1 : finite.to(at::kByte).argmin().item<std::int64_t>();
}

}  // namespace

void NonFiniteFinder::on_activation(plan::ValueId value, std::int64_t micro_batch,
                                    const at::Tensor& tensor) {
  if (!found_.empty() || !tensor.is_floating_point()) return;
  const at::Tensor flat = tensor.detach().reshape({-1});
  const std::int64_t element = first_non_finite(flat);
  if (element < 0) return;
  found_ = fmt::format("{}[{}] of micro-batch {} is {}", program_.values[value].name, element,
                       micro_batch, flat[element].item<double>());
}

void NonFiniteFinder::on_micro_batch_gradient(const exec::Units& units, plan::UnitId unit,
                                              std::int64_t micro_batch, const at::Tensor& flat) {
  if (!found_.empty()) return;
  const std::int64_t element = first_non_finite(flat);
  if (element < 0) return;
  found_ =
      fmt::format("the gradient of {} in micro-batch {} is {}", units.element_name(unit, element),
                  micro_batch, flat[element].item<double>());
}

void NonFiniteFinder::on_gradients(const exec::Units& /*units*/) {}

NonFinite find_non_finite(JobSession& session, std::int64_t step, const JobSession::Load& load,
                          comm::World& world) {
  NonFiniteFinder finder(session.session().model().spec.program);
  session.look_at(step, load, finder);
  const std::vector<std::string> found = world.exchange(finder.found());
  const std::vector<std::string> hosts = world.exchange(host_name());
  for (std::size_t rank = 0; rank < found.size(); ++rank)
    if (!found[rank].empty())
      return {.rank = static_cast<int>(rank), .host = hosts[rank], .what = found[rank]};
  return {};
}

}  // namespace trireme::train
