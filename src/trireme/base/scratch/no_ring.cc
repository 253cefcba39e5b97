#ifndef TRIREME_IO_URING

#include <cerrno>

#include "trireme/base/scratch/mover.h"

namespace trireme::scratch {

int Kernel::open_ring(unsigned, ::io_uring*) { return -ENOSYS; }

std::unique_ptr<Mover> make_ring(Kernel& kernel, int, Place, int, int& cause) {
  cause = -kernel.open_ring(0, nullptr);
  return nullptr;
}

}  // namespace trireme::scratch

#endif
