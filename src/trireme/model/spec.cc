#include "trireme/model/spec.h"

namespace trireme::model {

std::int64_t ParamSpec::numel() const {
  std::int64_t product = 1;
  for (std::int64_t size : shape) product *= size;
  return product;
}

std::int64_t UnitSpec::numel() const {
  std::int64_t sum = 0;
  for (const ParamSpec& param : params) sum += param.numel();
  return sum;
}

std::vector<plan::Matrix> matrices_of(const UnitSpec& unit) {
  std::vector<plan::Matrix> matrices;
  std::int64_t offset = 0;
  for (const ParamSpec& param : unit.params) {
    if (param.shape.size() == 2)
      matrices.push_back({.offset = offset, .rows = param.shape[0], .cols = param.shape[1]});
    offset += param.numel();
  }
  return matrices;
}

std::int64_t ModelSpec::parameters() const {
  std::int64_t sum = 0;
  for (const UnitSpec& unit : units)
    for (const ParamSpec& param : unit.params)
      sum += param.matrix ? param.matrix->numel() : param.numel();
  return sum;
}

}  // namespace trireme::model
