#include "trireme/model/families/joint.h"

#include "trireme/config/resolve/resolve.h"
#include "trireme/config/resolve/resolve_towers.h"

namespace trireme::model {

std::int64_t joined_bytes(const Graph& graph, const config::Job& job,
                          const std::vector<plan::ValueId>& reads) {
  const std::int64_t count = config::accumulation(job);
  if (!config::caches_gradients(job) || count == 1) return 0;
  std::int64_t bytes = 0;
  for (const plan::ValueId value : reads) bytes += count * graph.spec().program.values[value].bytes;
  return bytes;
}

}  // namespace trireme::model
