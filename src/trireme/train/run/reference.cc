#include "trireme/train/run/reference.h"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/checkpoint/on_rank_zero.h"
#include "trireme/data/loaders/tokens/cut_tokens.h"
#include "trireme/data/loaders/tokens/preference_source.h"
#include "trireme/data/loaders/tokens/reference.h"
#include "trireme/model/answers.h"
#include "trireme/train/job_session.h"

namespace trireme::train {
namespace {

using loaders::PreferenceSource;

// Keys that decide what the weights compute, without those that only divide the work.
std::string model_digest(const config::Job& job) {
  config::Job model;
  model.model = job.model;
  static_cast<config::FamilySections&>(model) = job;
  model.model.weights.clear();
  model.model.frozen.clear();
  model.model.seq_len = config::Model{}.seq_len;
  return hex64(config::digest(model));
}

// The reference is computed with the weights that adapters are added to.
std::string_view stored_form(const config::Job& job) {
  switch (job.lora.base) {
    case RowForm::kInt8: return " and lora.base=int8";
    case RowForm::kNf4: return " and lora.base=nf4";
    default: return "";
  }
}

loaders::ReferenceRecord record_of(const config::Job& job, std::string data) {
  const std::string& weights = job.model.weights;
  return {.data = std::move(data),
          .weights = weights.empty() ? fmt::format("random, run.seed={}", job.run.seed)
                                     : convert::identity_of_weights(weights),
          .model = model_digest(job),
          .compute = fmt::format("{}{}", name(job.precision.compute), stored_form(job))};
}

void check_record(const loaders::ReferenceRecord& found, const loaders::ReferenceRecord& needed,
                  const std::string& directory) {
  const auto compare = [&](const char* what, const std::string& has, const std::string& needs) {
    if (has != needs)
      fail(
          ErrorKind::kUsage,
          "preference.reference={}: was computed with {} {}, and this job has {}; name a directory "
          "that does not exist, and it is computed",
          directory, what, has, needs);
  };
  compare("weights", found.weights, needed.weights);
  compare("a model of digest", found.model, needed.model);
  compare("precision.compute", found.compute, needed.compute);
}

struct Number {
  std::int64_t place;
  double value;
};

// Keeps the log-probabilities of a global batch that this rank computes.
class KeepLogProbabilities : public exec::Observer {
 public:
  KeepLogProbabilities(const config::Job& job, const plan::PlanSet& plan, int rank)
      : job_(job),
        cp_rank_(plan.mesh.coordinate(rank, mesh::Axis::kCp)),
        keeps_(plan.mesh.coordinate(rank, mesh::Axis::kTp) == 0) {
    for (std::size_t id = 0; id < plan.program.values.size(); ++id)
      if (plan.program.values[id].name == model::kTokenLosses)
        losses_ = static_cast<plan::ValueId>(id);
    TRIREME_CHECK(losses_ >= 0, "{} writes no losses of tokens", plan.program.name);
  }

  // The micro-batch from a sample on, as the job's layout divides it.
  std::vector<at::Tensor> load(const PreferenceSource& source, std::int64_t first) {
    std::vector<at::Tensor> batch = source.batch(first, job_.run.micro_batch);
    std::vector<at::Tensor> with_places = batch;
    with_places.push_back(source.places(first, job_.run.micro_batch));
    const mesh::BalancedLayout even = loaders::token_layout(job_, batch);
    places_[first % job_.run.global_batch / job_.run.micro_batch] =
        loaders::cut_tokens(job_, with_places, even.layout, cp_rank_)[batch.size()].contiguous();
    return batch;
  }

  void on_activation(plan::ValueId value, std::int64_t micro_batch,
                     const at::Tensor& tensor) override {
    if (value != losses_ || !keeps_) return;
    const at::Tensor losses = tensor.to(at::kCPU, at::kDouble).contiguous();
    const at::Tensor& places = places_.at(micro_batch);
    for (std::int64_t i = 0; i < losses.numel(); ++i)
      if (const std::int64_t place = places.data_ptr<std::int64_t>()[i]; place >= 0)
        numbers_.push_back({place, -losses.data_ptr<double>()[i]});
  }
  void on_gradients(const exec::Units&) override {}

  // As bytes, and forgets them.
  std::string take() {
    std::string bytes(numbers_.size() * sizeof(Number), '\0');
    if (!numbers_.empty()) std::memcpy(bytes.data(), numbers_.data(), bytes.size());
    numbers_.clear();
    places_.clear();
    return bytes;
  }

 private:
  const config::Job& job_;
  int cp_rank_;
  bool keeps_;
  plan::ValueId losses_ = -1;
  std::map<std::int64_t, at::Tensor> places_;  // by micro-batch
  std::vector<Number> numbers_;
};

// Of all tokens of the split; complete on rank 0.
std::vector<double> log_probabilities(const config::Job& job, const PreferenceSource& source,
                                      JobSession& steps, comm::World& world) {
  std::vector<double> all(world.rank() == 0 ? static_cast<std::size_t>(source.tokens_of_split())
                                            : 0);
  KeepLogProbabilities keep(job, steps.session().plan(), world.rank());
  const std::int64_t batch_size = job.run.global_batch;
  for (std::int64_t batch = 0; batch * batch_size < source.samples(); ++batch) {
    steps.evaluate(
        0, batch, [&](std::int64_t first) { return keep.load(source, first); }, &keep);
    for (const std::string& bytes : world.exchange(keep.take())) {
      std::vector<Number> numbers(bytes.size() / sizeof(Number));
      if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
      if (world.rank() == 0)
        for (const Number& number : numbers) all[number.place] = number.value;
    }
  }
  return all;
}

void compute(const TrainSetup& setup, comm::World& world,
             const std::function<void(const std::string&)>& say) {
  const Stopwatch watch;
  config::Job job = setup.job;
  const std::string directory = std::exchange(job.preference.reference, "");
  const loaders::Sources sources =
      loaders::open_preferences(job, setup.dataset, loaders::Evaluated::kHeldOut);
  JobSession steps(job, world, setup.out / "scratch");
  steps.begin_with_weights();
  const auto of = [&](const loaders::Source& source) {
    return log_probabilities(job, dynamic_cast<const PreferenceSource&>(source), steps, world);
  };
  const std::vector<double> train = of(*sources.train), held_out = of(*sources.held_out);
  checkpoint::on_rank_zero(world, [&] {
    loaders::write_reference(directory, record_of(job, sources.digest), train, held_out);
    return std::string();
  });
  if (world.rank() == 0)
    say(fmt::format("reference log-probabilities of {} training and {} held-out rows, {:.1f} s: {}",
                    sources.train->samples(), sources.held_out->samples(), watch.seconds(),
                    directory));
}

}  // namespace

void prepare_reference(const TrainSetup& setup, comm::World& world,
                       const std::function<void(const std::string&)>& say) {
  const config::Job& job = setup.job;
  if (job.data.source != config::DataSource::kPreferences ||
      !loaders::needs_reference(job, setup.dataset))
    return;
  const Path directory = job.preference.reference;
  const std::string found = checkpoint::on_rank_zero(world, [&]() -> std::string {
    if (!loaders::is_reference(directory)) return "";
    // A run that resumes has compared them; its first weights may have gone.
    if (setup.resume.empty()) {
      const loaders::ReferenceRecord record = loaders::Reference(directory).record();
      check_record(record, record_of(job, record.data), directory.string());
    }
    return "found";
  });
  if (found.empty()) compute(setup, world, say);
}

}  // namespace trireme::train
