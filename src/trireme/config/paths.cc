#include "trireme/config/paths.h"

namespace trireme::config {

std::array<std::string*, 6> paths_of(Job& job) {
  return {&job.data.path,    &job.parallel.schedule_file, &job.parallel.costs,
          &job.offload.path, &job.vlm.features,           &job.preference.reference};
}

}  // namespace trireme::config
