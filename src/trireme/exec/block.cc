#include "trireme/exec/block.h"

#include <ATen/CPUGeneratorImpl.h>

#include "trireme/base/hash.h"

namespace trireme::exec {

at::Generator BlockContext::generator(int op) const {
  std::uint64_t key = mix(seed, static_cast<std::uint64_t>(step));
  key = mix(key, static_cast<std::uint64_t>(micro_batch));
  key = mix(key, static_cast<std::uint64_t>(node));
  key = mix(key, static_cast<std::uint64_t>(op));
  return at::make_generator<at::CPUGeneratorImpl>(key);
}

}  // namespace trireme::exec
