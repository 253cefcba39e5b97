#include "trireme/data/loaders/samples/file_samples.h"

#include <ATen/ops/stack.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/data_sets.h"
#include "trireme/config/synthetic.h"
#include "trireme/data/loaders/balance.h"
#include "trireme/data/loaders/parts.h"
#include "trireme/data/loaders/read_ahead.h"
#include "trireme/data/loaders/sample_order.h"
#include "trireme/data/loaders/tokens/words.h"
#include "trireme/data/loaders/weighted_order.h"

namespace trireme::loaders {
namespace {

// Samples that cannot be used, by index, with the reason of each.
class BadSamples {
 public:
  bool has(std::int64_t number) const {
    const std::lock_guard lock(mutex_);
    return reasons_.contains(number);
  }
  void add(std::int64_t number, const char* reason) {
    const std::lock_guard lock(mutex_);
    reasons_.emplace(number, reason);
  }
  std::string reason(std::int64_t number) const {
    const std::lock_guard lock(mutex_);
    return reasons_.at(number);
  }
  std::vector<std::string> reasons() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const auto& [number, reason] : reasons_) all.push_back(reason);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::string> reasons_;
};

// What both parts do with a place in the order.
class Files : public Source {
 public:
  Files(const config::Job& job, Parts parts, FileReader reader)
      : parts_(std::move(parts)),
        reader_(std::move(reader)),
        key_(mix(kFiles, static_cast<std::uint64_t>(job.data.seed))) {
    if (reader_.packing) pack(static_cast<std::uint64_t>(job.data.seed));
  }

  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    if (reader_.collate) {
      std::vector<Inputs> samples;
      for (std::int64_t place = first; place < first + count; ++place)
        samples.push_back(sample_at(place));
      return reader_.collate(samples);
    }
    // One sample at a time in addition to the batch.
    Inputs batch;
    for (std::int64_t row = 0; row < count; ++row) {
      const Inputs sample = sample_at(first + row);
      for (std::size_t input = 0; input < sample.size(); ++input) {
        if (row == 0) {
          std::vector<std::int64_t> shape = {count};
          shape.insert(shape.end(), sample[input].sizes().begin(), sample[input].sizes().end());
          batch.push_back(at::empty(shape, sample[input].options()));
        }
        batch[input].select(0, row).copy_(sample[input]);
      }
    }
    return batch;
  }
  double weight(std::int64_t first, std::int64_t count) const override {
    double sum = 0;
    for (std::int64_t place = first; place < first + count; ++place) sum += weight_at(place);
    return sum;
  }
  std::vector<std::string> bad() const override { return bad_.reasons(); }

 protected:
  // How a sample is seen.
  struct View {
    bool training = false;
    std::int64_t epoch = 0;
    std::int64_t crop = 0;  // held out, of FileReader::views
  };

  // Rows where samples share these, else samples.
  std::int64_t size() const { return reader_.packing ? std::ssize(rows_) : parts_.size(); }
  virtual Inputs sample_at(std::int64_t place) const = 0;
  virtual double weight_at(std::int64_t place) const = 0;

  // The index-th row; or the index-th sample, or the next good one of its data set.
  Inputs read(std::int64_t index, const View& view) const {
    if (reader_.packing) return read_row(index, view);
    const std::int64_t count = parts_.size_around(index);
    for (std::int64_t tried = 0; tried < count; ++tried)
      if (std::optional<Inputs> inputs = read_one(parts_.next(index, tried), view, tried))
        return *std::move(inputs);
    none_good(index, count);
  }
  double work(std::int64_t index) const {
    double sum = 0;
    if (!reader_.packing) return work_of(index);
    for (const std::int64_t sample : rows_[index]) sum += work_of(sample);
    return sum;
  }
  const FileReader& reader() const { return reader_; }
  const Parts& parts() const { return parts_; }

 private:
  static constexpr std::uint64_t kFiles = 0x66696c6573;
  // Nothing for a bad one.
  std::optional<Inputs> read_one(std::int64_t index, const View& view, std::int64_t tried) const {
    if (bad_.has(index)) return std::nullopt;
    const auto [samples, number, set] = parts_.at(index);
    const std::uint64_t own = set == 0 ? key_ : mix(key_, static_cast<std::uint64_t>(set));
    const std::uint64_t key =
        mix(mix(own, static_cast<std::uint64_t>(view.epoch)), static_cast<std::uint64_t>(tried));
    Draws draws(static_cast<std::int64_t>(key), number);
    return good(index, [&] {
      if (view.crop > 0) return reader_.view(*samples, number, view.crop);
      return reader_.read(*samples, number, view.training ? &draws : nullptr);
    });
  }
  // Result of `make` for a sample; nothing for a bad one, which is noted.
  template <typename Make>
  auto good(std::int64_t index, const Make& make) const
      -> std::optional<std::decay_t<decltype(make())>> {
    try {
      return make();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      bad_.add(index, error.what());
      return std::nullopt;
    }
  }
  [[noreturn]] void none_good(std::int64_t index, std::int64_t count) const {
    fail(ErrorKind::kData, "data.path: none of {} samples can be used; the first: {}", count,
         bad_.reason(index));
  }

  void pack(std::uint64_t seed) {
    std::vector<Outline> outlines;
    for (std::int64_t index = 0; index < parts_.size(); ++index)
      outlines.push_back(good(index, [&] {
                           const Parts::Place place = parts_.at(index);
                           return reader_.packing->outline(*place.samples, place.number);
                         }).value_or(Outline{}));
    rows_ = pack_rows(outlines, reader_.packing->room, seed);
    if (rows_.empty() && !outlines.empty()) none_good(0, parts_.size());
  }
  Inputs read_row(std::int64_t index, const View& view) const {
    std::vector<Inputs> samples;
    for (const std::int64_t sample : rows_[index])
      if (std::optional<Inputs> inputs = read_one(sample, view, 0))
        samples.push_back(*std::move(inputs));
    return reader_.packing->join(samples);
  }
  // The same on every rank, whichever samples it knows to be bad by now: 0 of one that has no header to read.
  double work_of(std::int64_t index) const {
    try {
      const Parts::Place place = parts_.at(index);
      return reader_.work(*place.samples, place.number);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      return 0;
    }
  }

  Parts parts_;
  FileReader reader_;
  std::uint64_t key_;
  std::vector<PackedRow> rows_;  // of indices
  mutable BadSamples bad_;
};

class TrainFiles final : public Files {
 public:
  using Order = std::function<SampleOrder::Place(std::int64_t place)>;

  TrainFiles(const config::Job& job, Parts parts, FileReader reader)
      : Files(job, std::move(parts), std::move(reader)), order_(order_of(job)) {
    if (this->reader().work)
      balance_ = Balance(job, [this](std::int64_t place) { return work(order_(place).sample); });
  }

  std::int64_t samples() const override { return size(); }

 private:
  Order order_of(const config::Job& job) const {
    const auto seed = static_cast<std::uint64_t>(job.data.seed);
    if (job.data.weights.empty())
      return [order = SampleOrder(size(), seed)](std::int64_t place) { return order.at(place); };
    std::vector<double> shares;
    for (const config::DataSet& set : config::data_sets(job.data)) shares.push_back(set.share);
    return [order = WeightedOrder(parts().sizes(), std::move(shares), seed)](std::int64_t place) {
      return order.at(place);
    };
  }
  Inputs sample_at(std::int64_t place) const override {
    const SampleOrder::Place drawn = order_(balance_.at(place));
    Inputs inputs = read(drawn.sample, {.training = true, .epoch = drawn.epoch});
    if (reader().weigh) note(place, reader().weigh(inputs));
    return inputs;
  }
  // Samples of other ranks are read for it.
  double weight_at(std::int64_t place) const override {
    if (!reader().weigh) return 1;
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = weights_.find(place); known != weights_.end()) return known->second;
    }
    return reader().weigh(sample_at(place));
  }
  void note(std::int64_t place, double weight) const {
    const std::lock_guard lock(mutex_);
    weights_[place] = weight;
    constexpr std::size_t kKept = 1 << 16;
    if (weights_.size() > kKept) weights_.erase(weights_.begin());
  }

  Order order_;
  Balance balance_;
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, double> weights_;  // by place
};

class HeldOutFiles final : public Files {
 public:
  HeldOutFiles(const config::Job& job, Parts parts, FileReader reader)
      : Files(job, std::move(parts), std::move(reader)), batch_(job.run.global_batch) {}

  std::int64_t samples() const override { return (rows() + batch_ - 1) / batch_ * batch_; }

 private:
  std::int64_t rows() const { return size() * reader().views; }
  bool fills_up(std::int64_t place) const { return place >= rows() && reader().blank; }
  Inputs sample_at(std::int64_t place) const override {
    const std::int64_t views = reader().views;
    Inputs inputs = read(place / views % size(), {.crop = place % views});
    if (fills_up(place)) reader().blank(inputs);
    return inputs;
  }
  double weight_at(std::int64_t place) const override {
    if (fills_up(place) || place % reader().views != 0) return 0;
    return reader().weigh ? reader().weigh(sample_at(place)) : 1;
  }

  std::int64_t batch_;
};

}  // namespace

Inputs stacked(const std::vector<Inputs>& samples) {
  Inputs inputs;
  for (std::size_t input = 0; input < samples[0].size(); ++input) {
    std::vector<at::Tensor> rows;
    for (const Inputs& sample : samples) rows.push_back(sample[input]);
    inputs.push_back(at::stack(rows));
  }
  return inputs;
}

Sources open_files(const config::Job& job, const FileReader& reader, Evaluated evaluated) {
  const std::string_view source = config::files_of(job.data.source);
  std::vector<Path> paths;
  for (const config::DataSet& set : config::data_sets(job.data)) paths.emplace_back(set.path);
  const media::Splits splits = media::open_splits(source, paths, job.data.validation);
  if (reader.labelled && !splits.same_classes)
    fail(ErrorKind::kData,
         "data.path={}: the data sets have different classes, so a class has no one number. Name "
         "data sets with the same class names.",
         job.data.path);
  std::vector<media::Part> train, held_out;
  for (const media::Split& split : splits.sets) {
    train.push_back(split.train);
    held_out.push_back(evaluated == Evaluated::kHeldOut ? split.held_out : split.train);
  }
  Sources sources{
      .train = read_ahead(std::make_unique<TrainFiles>(job, Parts(std::move(train)), reader), job),
      .held_out = std::make_unique<HeldOutFiles>(job, Parts(std::move(held_out)), reader),
      .digest = fmt::format("{} {}", source, splits.digest)};
  add_vocabulary(reader.vocabulary, sources);
  return sources;
}

}  // namespace trireme::loaders
