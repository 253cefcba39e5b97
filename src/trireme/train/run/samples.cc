#include "trireme/train/run/samples.h"

#include <memory>

#include "trireme/config/synthetic.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/loaders/tokens/random_tokens.h"

namespace trireme::train {

JobSession::Load load_of(const config::Job& job, std::int64_t count, const Path& dataset) {
  if (dataset.empty() && config::reads_text(job.data.source))
    return [count, job](std::int64_t first) {
      const config::Model& model = job.model;
      std::vector<at::Tensor> batch =
          loaders::random_tokens(first, count, model.seq_len, model.vocab, job.data.documents);
      if (job.data.source == config::DataSource::kPreferences)
        loaders::add_answers(batch, config::rewards_answers(job.preference.loss));
      return batch;
    };
  config::Job unreferenced = job;  // what it compares with may not be computed yet
  unreferenced.preference.reference.clear();
  const std::shared_ptr<loaders::Source> source =
      loaders::open_sources(unreferenced, dataset).train;
  return {[source, count](std::int64_t first) { return source->batch(first, count); },
          [source](std::int64_t first, std::int64_t all) { return source->weight(first, all); }};
}

}  // namespace trireme::train
