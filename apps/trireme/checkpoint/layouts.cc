#include "layouts.h"

#include <string>

#include "trireme/base/error.h"

namespace trireme::app {
namespace {

// Whether layouts may differ in a key and still compute the same.
bool is_layout_key(std::string_view key) {
  return key.starts_with("parallel.") || key.starts_with("recompute.") ||
         key.starts_with("offload.") || key == "precision.numerics" || key == "precision.group" ||
         key == "run.micro_batch";
}

void apply_item(config::Job& job, std::string_view item) {
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos || equals == 0)
    fail(ErrorKind::kUsage, "'{}' is not key=value, such as tp=2 or run.micro_batch=2", item);
  std::string key(item.substr(0, equals));
  if (key.find('.') == std::string::npos) key = "parallel." + key;
  if (!is_layout_key(key))
    fail(ErrorKind::kUsage,
         "{} is not a part of a layout, which sets keys of parallel, recompute and offload, "
         "precision.numerics, precision.group and run.micro_batch; --set {} sets it on both sides",
         key, item);
  config::apply_set(job, key + std::string(item.substr(equals)));
}

}  // namespace

config::Job with_layout(config::Job job, std::string_view layout) {
  config::Parallel& parallel = job.parallel;
  parallel.pp = parallel.dp_replicate = parallel.dp_shard = parallel.cp = parallel.tp = 1;
  while (!layout.empty()) {
    const std::size_t comma = layout.find(',');
    apply_item(job, layout.substr(0, comma));
    if (comma + 1 == layout.size()) fail(ErrorKind::kUsage, "nothing follows the last comma");
    layout.remove_prefix(comma == std::string_view::npos ? layout.size() : comma + 1);
  }
  if (parallel.dp_shard < 1)
    fail(ErrorKind::kUsage,
         "parallel.dp_shard={}: needs the number of ranks, as a layout decides "
         "how many there are",
         parallel.dp_shard);
  return job;
}

double ranks_of(const config::Parallel& parallel) {
  double product = 1;
  for (const int degree :
       {parallel.pp, parallel.dp_replicate, parallel.dp_shard, parallel.cp, parallel.tp})
    product *= degree;
  return product;
}

}  // namespace trireme::app
