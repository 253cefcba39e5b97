#include "trireme/data/file_samples.h"

#include <ATen/ops/stack.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/made_up.h"
#include "trireme/data/balance.h"
#include "trireme/data/read_ahead.h"
#include "trireme/data/sample_order.h"

namespace trireme::data {
namespace {

Inputs stacked(const std::vector<Inputs>& samples) {
  Inputs inputs;
  for (std::size_t input = 0; input < samples[0].size(); ++input) {
    std::vector<at::Tensor> rows;
    for (const Inputs& sample : samples) rows.push_back(sample[input]);
    inputs.push_back(at::stack(rows));
  }
  return inputs;
}

// Samples that cannot be used, by number, with the reason of each.
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
  Files(const config::Job& job, media::Part part, FileReader reader)
      : part_(std::move(part)),
        reader_(std::move(reader)),
        key_(mix(kFiles, static_cast<std::uint64_t>(job.data.seed))) {
    if (reader_.packing) pack(static_cast<std::uint64_t>(job.data.seed));
  }

  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    std::vector<Inputs> samples;
    for (std::int64_t place = first; place < first + count; ++place)
      samples.push_back(sample_at(place));
    return reader_.collate ? reader_.collate(samples) : stacked(samples);
  }
  double weight(std::int64_t first, std::int64_t count) const override {
    double sum = 0;
    for (std::int64_t place = first; place < first + count; ++place) sum += weight_at(place);
    return sum;
  }
  std::vector<std::string> bad() const override { return bad_.reasons(); }

 protected:
  // Rows where samples share these, else samples.
  std::int64_t size() const {
    return reader_.packing ? std::ssize(rows_) : std::ssize(part_.numbers);
  }
  virtual Inputs sample_at(std::int64_t place) const = 0;
  virtual double weight_at(std::int64_t place) const = 0;

  // The index-th row; or the index-th sample of the part, or the next good one.
  Inputs read(std::int64_t index, bool training, std::int64_t epoch) const {
    if (reader_.packing) return read_row(index, training, epoch);
    for (std::int64_t tried = 0; tried < size(); ++tried)
      if (std::optional<Inputs> inputs =
              read_one((index + tried) % size(), {.training = training, .epoch = epoch}, tried))
        return *std::move(inputs);
    none_good();
  }
  double work(std::int64_t index) const {
    double sum = 0;
    if (!reader_.packing) return work_of(index);
    for (const std::int64_t sample : rows_[static_cast<std::size_t>(index)]) sum += work_of(sample);
    return sum;
  }
  const FileReader& reader() const { return reader_; }

 private:
  static constexpr std::uint64_t kFiles = 0x66696c6573;
  struct View {
    bool training;
    std::int64_t epoch;
  };

  std::int64_t number_of(std::int64_t index) const {
    return part_.numbers[static_cast<std::size_t>(index)];
  }
  // Nothing for a bad one.
  std::optional<Inputs> read_one(std::int64_t index, View view, std::int64_t tried) const {
    const std::int64_t number = number_of(index);
    if (bad_.has(number)) return std::nullopt;
    const std::uint64_t key =
        mix(mix(key_, static_cast<std::uint64_t>(view.epoch)), static_cast<std::uint64_t>(tried));
    Draws draws(static_cast<std::int64_t>(key), number);
    return good(number, [&] {
      return reader_.read(*part_.samples, number, view.training ? &draws : nullptr);
    });
  }
  // What `make` gives of a sample; nothing where it is bad, which is noted.
  template <typename Make>
  auto good(std::int64_t number, const Make& make) const
      -> std::optional<std::decay_t<decltype(make())>> {
    try {
      return make();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      bad_.add(number, error.what());
      return std::nullopt;
    }
  }
  [[noreturn]] void none_good() const {
    fail(ErrorKind::kData, "data.path: none of {} samples can be used; the first: {}",
         part_.numbers.size(), bad_.reasons().at(0));
  }

  void pack(std::uint64_t seed) {
    std::vector<Outline> outlines;
    for (const std::int64_t number : part_.numbers)
      outlines.push_back(good(number, [&] {
                           return reader_.packing->outline(*part_.samples, number);
                         }).value_or(Outline{}));
    rows_ = pack_rows(outlines, reader_.packing->room, seed);
    if (rows_.empty() && !outlines.empty()) none_good();
  }
  Inputs read_row(std::int64_t index, bool training, std::int64_t epoch) const {
    std::vector<Inputs> samples;
    for (const std::int64_t sample : rows_[static_cast<std::size_t>(index)])
      if (std::optional<Inputs> inputs =
              read_one(sample, {.training = training, .epoch = epoch}, 0))
        samples.push_back(*std::move(inputs));
    return reader_.packing->join(samples);
  }
  // The same on every rank, whichever samples it knows to be bad by now: 0 of one that has no header to read.
  double work_of(std::int64_t index) const {
    try {
      return reader_.work(*part_.samples, number_of(index));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      return 0;
    }
  }

  media::Part part_;
  FileReader reader_;
  std::uint64_t key_;
  std::vector<PackedRow> rows_;  // of indices
  mutable BadSamples bad_;
};

class TrainFiles final : public Files {
 public:
  TrainFiles(const config::Job& job, media::Part part, FileReader reader)
      : Files(job, std::move(part), std::move(reader)),
        order_(size(), static_cast<std::uint64_t>(job.data.seed)) {
    if (this->reader().work)
      balance_ = Balance(job, [this](std::int64_t place) { return work(order_.at(place).sample); });
  }

  std::int64_t samples() const override { return size(); }

 private:
  Inputs sample_at(std::int64_t place) const override {
    const SampleOrder::Place drawn = order_.at(balance_.at(place));
    Inputs inputs = read(drawn.sample, true, drawn.epoch);
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

  SampleOrder order_;
  Balance balance_;
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, double> weights_;  // by place
};

class HeldOutFiles final : public Files {
 public:
  HeldOutFiles(const config::Job& job, media::Part part, FileReader reader)
      : Files(job, std::move(part), std::move(reader)), batch_(job.run.global_batch) {}

  std::int64_t samples() const override { return (size() + batch_ - 1) / batch_ * batch_; }

 private:
  bool fills_up(std::int64_t place) const { return place >= size() && reader().blank; }
  Inputs sample_at(std::int64_t place) const override {
    Inputs inputs = read(place % size(), false, 0);
    if (fills_up(place)) reader().blank(inputs);
    return inputs;
  }
  double weight_at(std::int64_t place) const override {
    if (fills_up(place)) return 0;
    return reader().weigh ? reader().weigh(sample_at(place)) : 1;
  }

  std::int64_t batch_;
};

}  // namespace

Sources open_files(const config::Job& job, const FileReader& reader, Evaluated evaluated) {
  const std::string_view source = config::files_of(job.data.source);
  const media::Split split = media::open_split(source, job.data.path, job.data.validation);
  return {.train = read_ahead(std::make_unique<TrainFiles>(job, split.train, reader), job),
          .held_out = std::make_unique<HeldOutFiles>(
              job, evaluated == Evaluated::kHeldOut ? split.held_out : split.train, reader),
          .digest = fmt::format("{} {}", source, split.digest)};
}

}  // namespace trireme::data
