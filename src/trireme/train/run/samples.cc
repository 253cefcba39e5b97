#include "trireme/train/run/samples.h"

#include <memory>

#include "trireme/config/synthetic.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/loaders/tokens/random_tokens.h"

namespace trireme::train {

JobSession::Load load_of(const config::Job& job, std::int64_t count, const Path& dataset) {
  if (dataset.empty() && config::reads_text(job.data.source))
    return [count, model = job.model, documents = job.data.documents](std::int64_t first) {
      return loaders::random_tokens(first, count, model.seq_len, model.vocab, documents);
    };
  const std::shared_ptr<loaders::Source> source = loaders::open_sources(job, dataset).train;
  return {[source, count](std::int64_t first) { return source->batch(first, count); },
          [source](std::int64_t first, std::int64_t all) { return source->weight(first, all); }};
}

}  // namespace trireme::train
