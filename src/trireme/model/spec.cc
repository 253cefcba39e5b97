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

std::int64_t ModelSpec::parameters() const {
  std::int64_t sum = 0;
  for (const UnitSpec& unit : units) sum += unit.numel();
  return sum;
}

}  // namespace trireme::model
