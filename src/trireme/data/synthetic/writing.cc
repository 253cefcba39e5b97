#include "trireme/data/synthetic/writing.h"

#include "trireme/base/error.h"

namespace trireme::synthetic {

void Writing::check(const Common& common, std::int64_t validation) {
  constexpr std::int64_t kMost = 100'000'000;
  if (common.count < 1 || common.count > kMost)
    fail(ErrorKind::kUsage, "--count {}; it is 1 to {}", common.count, kMost);
  if (validation < 0 || validation > kMost)
    fail(ErrorKind::kUsage, "--validation {}; it is 0 to {}", validation, kMost);
}

std::int64_t validation_of(const Common& common) {
  return common.validation >= 0 ? common.validation : std::max<std::int64_t>(1, common.count / 10);
}

}  // namespace trireme::synthetic
