#if !defined(USE_C10D_NCCL) || !__has_include(<nccl.h>)

#include "trireme/base/error.h"
#include "trireme/comm/nccl/nccl_world.h"

namespace trireme::comm {

std::unique_ptr<World> connect_nccl(const NcclConfig&) {
  fail(ErrorKind::kUsage,
       "this LibTorch was built without NCCL: use gloo, or build Trireme with a CUDA LibTorch");
}

}  // namespace trireme::comm

#endif
