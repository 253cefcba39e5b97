#include "trireme/train/recording/recording_parts.h"

#include <cmath>
#include <map>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/families.h"

namespace trireme::train {
namespace {

using mesh::Axis;
using Sizes = std::vector<std::int64_t>;

bool equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::int64_t product(const Sizes& sizes, std::size_t begin, std::size_t end) {
  std::int64_t all = 1;
  for (std::size_t dim = begin; dim < end; ++dim) all *= sizes[dim];
  return all;
}

// The losses of cp ranks are parts of a sum, and so are those of data-parallel ranks if a step has one loss. Returns
// their sums, by the first one's parts.
std::vector<Part> added_losses(std::vector<Observed> seen, const mesh::Mesh& mesh, bool joint) {
  std::map<std::pair<std::int64_t, int>, Part> sums;  // by micro-batch and tp coordinate
  for (Observed& one : seen) {
    const std::int64_t place = joint ? 0 : one.micro_batch;
    const auto [sum, fresh] =
        sums.try_emplace({place, mesh.coordinate(one.rank, Axis::kTp)},
                         Part{.rank = one.rank, .extents = {{.global = place, .count = 1}}});
    if (fresh)
      sum->second.values = one.values;
    else
      sum->second.values.add_(one.values);
  }
  std::vector<Part> parts;
  for (auto& [place, sum] : sums) parts.push_back(std::move(sum));
  return parts;
}

// A decoder's rows are tokens of [samples, tokens] flattened: those of a cp rank, and if tp ranks share rows those of
// one of them (ops/tensor_parallel.h). Places are within the micro-batch.
std::vector<model::Extent> token_extents(const Observed& one, const Contents& contents,
                                         const mesh::TokenLayout& layout) {
  const config::Job& job = contents.job();
  const Sizes positions = layout.positions(contents.mesh().coordinate(one.rank, Axis::kCp));
  const std::int64_t d = job.model.hidden;
  const std::int64_t tokens = std::ssize(positions);
  const std::int64_t per = one.values.numel() / d;
  const bool shared = job.parallel.tp > 1 && job.parallel.sequence_parallel;
  const std::int64_t first = shared ? contents.mesh().coordinate(one.rank, Axis::kTp) * per : 0;
  const std::int64_t end = std::min(first + per, job.run.micro_batch * tokens);
  std::vector<model::Extent> extents;
  for (std::int64_t row = first; row < end; ++row) {
    const std::int64_t global = (row / tokens * job.model.seq_len + positions[row % tokens]) * d;
    if (!extents.empty() && extents.back().global + extents.back().count == global)
      extents.back().count += d;
    else
      extents.push_back({.global = global, .local = (row - first) * d, .count = d});
  }
  return extents;
}

// One micro-batch of a value of any other family: all of it on every rank, or its rows shared by cp ranks.
class MicroBatch {
 public:
  MicroBatch(const std::vector<Observed>& seen, const mesh::Mesh& mesh, bool spread)
      : seen_(seen), mesh_(mesh), spread_(spread) {
    for (const Observed& one : seen_) {
      std::int64_t& all = rows_[tp(one)];
      first_.push_back(spread ? all : 0);
      all = (spread ? all : 0) + one.sizes[row_dim(one)];
    }
    whole_ = whole_of(0);
  }

  const Sizes& whole() const { return whole_; }

  // The places of a rank's part; nothing if its copy has other rows than the first rank's, which is reported.
  std::vector<model::Extent> extents(std::size_t index, std::vector<Miscount>& miscounts) const {
    const Observed& one = seen_[index];
    const Sizes own = whole_of(index);
    const std::size_t dim = row_dim(one);
    if (own != whole_) {
      miscounts.push_back({.micro_batch = one.micro_batch,
                           .rank = one.rank,
                           .rows = own[dim],
                           .peer = seen_[0].rank,
                           .peer_rows = whole_[dim]});
      return {};
    }
    const std::int64_t width = product(own, dim + 1, own.size());
    const std::int64_t count = one.sizes[dim] * width;
    std::vector<model::Extent> all;
    for (std::int64_t outer = 0; outer < product(own, 0, dim); ++outer)
      all.push_back({.global = (outer * own[dim] + first_[index]) * width,
                     .local = outer * count,
                     .count = count});
    return all;
  }

 private:
  int tp(const Observed& one) const { return mesh_.coordinate(one.rank, Axis::kTp); }
  std::size_t row_dim(const Observed& one) const { return spread_ ? one.sizes.size() - 2 : 0; }
  Sizes whole_of(std::size_t index) const {
    const Observed& one = seen_[index];
    Sizes sizes = one.sizes;
    if (spread_) sizes[row_dim(one)] = rows_.at(tp(one));
    return sizes;
  }

  const std::vector<Observed>& seen_;
  const mesh::Mesh& mesh_;
  bool spread_;
  std::map<int, std::int64_t> rows_;  // of spread ones, of all cp ranks, by tp coordinate
  std::vector<std::int64_t> first_;   // of each part
  Sizes whole_;
};

// By micro-batch, each by rank.
std::vector<std::vector<Observed>> by_micro_batch(std::vector<Observed> seen, std::int64_t count,
                                                  const std::string& name) {
  std::vector<std::vector<Observed>> all(static_cast<std::size_t>(count));
  for (Observed& one : seen)
    all.at(static_cast<std::size_t>(one.micro_batch)).push_back(std::move(one));
  for (std::size_t id = 0; id < all.size(); ++id)
    TRIREME_CHECK(!all[id].empty(), "micro-batch {} of {} is not recorded", id, name);
  return all;
}

}  // namespace

void merge(std::vector<Part> parts, RecordedTensor& whole) {
  if (parts.empty()) return;
  whole.values.resize(static_cast<std::size_t>(whole.numel()));
  std::vector<bool> held(whole.values.size());
  std::size_t count = 0;
  for (Part& part : parts) {
    const double* const values = part.values.data_ptr<double>();
    bool stray = false;
    for (const model::Extent& extent : part.extents)
      for (std::int64_t i = 0; i < extent.count; ++i) {
        const auto global = static_cast<std::size_t>(extent.global + i);
        const double value = values[extent.local + i];
        if (held.at(global)) {
          stray = stray || !equal(whole.values[global], value);
          continue;
        }
        whole.values[global] = value;
        held[global] = true;
        ++count;
      }
    whole.holders.push_back({.rank = part.rank, .extents = part.extents});
    if (stray) whole.strays.push_back(std::move(part));
  }
  TRIREME_CHECK(count == held.size(), "{} of {} elements of {} are recorded", count, held.size(),
                whole.name);
}

void merge_activation(std::vector<Observed> seen, const Contents& contents,
                      std::span<const mesh::TokenLayout> layouts, std::size_t tensor,
                      RecordedTensor& whole) {
  if (seen.empty()) return;
  whole.type = seen[0].type;
  const SharedValue& shared = contents.shared(tensor);
  if (whole.loss) return merge(added_losses(std::move(seen), contents.mesh(), shared.joint), whole);
  const config::Job& job = contents.job();
  const bool decoder = config::info(job).chain;
  std::vector<Part> parts;
  std::int64_t before = 0;  // elements of earlier micro-batches
  for (std::vector<Observed>& batch :
       by_micro_batch(std::move(seen), contents.micro_batches(), whole.name)) {
    const MicroBatch micro_batch(batch, contents.mesh(), shared.spread);
    const Sizes sizes = decoder ? Sizes{job.run.micro_batch, job.model.seq_len, job.model.hidden}
                                : micro_batch.whole();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Part part{.rank = batch[i].rank, .values = std::move(batch[i].values)};
      part.extents = decoder ? token_extents({.rank = part.rank, .values = part.values}, contents,
                                             layouts[batch[i].micro_batch])
                             : micro_batch.extents(i, whole.miscounts);
      for (model::Extent& extent : part.extents) extent.global += before;
      parts.push_back(std::move(part));
    }
    whole.rows.push_back(sizes[0]);
    TRIREME_CHECK(whole.shape.size() == sizes.size(), "{} has {} dimensions, declared are {}",
                  whole.name, sizes.size(), whole.shape.size());
    std::ranges::copy(sizes.begin() + 1, sizes.end(), whole.shape.begin() + 1);
    before += product(sizes, 0, sizes.size());
  }
  whole.shape[0] = 0;
  for (const std::int64_t rows : whole.rows) whole.shape[0] += rows;
  TRIREME_CHECK(whole.numel() == before, "rows of {} have several widths", whole.name);
  merge(std::move(parts), whole);
}

}  // namespace trireme::train
