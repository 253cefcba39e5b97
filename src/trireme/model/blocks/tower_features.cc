// Suffixes: n tile, t token, d width.
#include "trireme/model/blocks/tower_features.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "trireme/base/hash.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/formats/feature_store.h"

namespace trireme::blocks {
namespace {

using formats::ContentHash;
using formats::FeatureStore;

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.data_ptr()), contiguous.nbytes()};
}

at::Tensor on_cpu(const at::Tensor& values) { return values.detach().cpu().contiguous(); }

// What the blocks of one rank's tower share. A stage's nodes run one after the other, so that there is one micro-batch
// between the first and the last.
class Features {
 public:
  // The results of these nodes of the tower are kept, those of the last in any case.
  Features(const config::Job& job, Ranks ranks, std::size_t nodes,
           const std::vector<std::int64_t>& earlier)
      : directory_(job.vlm.features), ranks_(std::move(ranks)), hashes_(nodes), kept_(nodes) {
    for (const std::int64_t node : earlier) kept_[node].emplace();
    kept_.back().emplace();
    config::Job plain;  // of the whole job only what says how the tower computes
    plain.vision = job.vision;
    plain.precision.compute = job.precision.compute;
    plain.precision.nodes = job.precision.nodes;
    described_ = mix(config::digest(plain), static_cast<std::uint64_t>(job.run.device));
  }

  // The node's weights, at its first forward.
  void see(std::size_t node, const std::vector<at::Tensor>& params) {
    if (hashes_[node]) return;
    std::uint64_t hash = node;
    for (const at::Tensor& param : params) hash = mix(hash, hash64(bytes_of(on_cpu(param))));
    hashes_[node] = hash;
    if (std::ranges::all_of(hashes_, [](const auto& one) { return one.has_value(); })) open();
  }

  // Of tiles [n, 3, side, side] those to compute.
  at::Tensor missing(const at::Tensor& tiles) {
    const at::Tensor pixels = on_cpu(tiles);
    const std::int64_t count = pixels.size(0);
    inputs_.clear();
    for (auto& kept : kept_)
      if (kept) kept->found.clear();
    at::Tensor absent = at::ones({count}, at::kFloat);
    for (std::int64_t n = 0; n < count; ++n) {
      inputs_.push_back(formats::content_hash(bytes_of(pixels[n])));
      if (find(inputs_.back())) absent.data_ptr<float>()[n] = 0;
    }
    if (tp().size() > 1) {
      const at::Tensor all = absent.to(ranks_->device());
      tp().group->all_reduce(comm::buffer(all), comm::Reduce::kMax).wait();
      absent = all.cpu();
    }
    computed_ = absent.nonzero().squeeze(1);
    new_ = computed_.numel();
    // Every rank runs the same lines and meets the same collectives.
    if (new_ == 0) computed_ = at::zeros({1}, at::kLong);
    return tiles.index_select(0, computed_.to(tiles.device()));
  }

  // Input of a node, which has all tiles if the node before it is kept.
  at::Tensor still_computed(std::size_t node, const at::Tensor& read) const {
    return kept_[node - 1] ? read.index_select(0, computed_.to(read.device())) : read;
  }

  // Of what a node made of the tiles to compute, [.., t, d], the same of all tiles, if it is kept.
  at::Tensor complete(std::size_t node, const at::Tensor& computed) {
    if (!kept_[node]) return computed;
    Kept& kept = *kept_[node];
    kept.shape = computed.sizes().slice(1).vec();
    kept.type = computed.scalar_type();
    kept.made = computed.detach();
    if (node + 1 == kept_.size()) keep_new();  // stores are open by now
    const auto count = static_cast<std::int64_t>(inputs_.size());
    if (new_ == count) return computed;
    return filled_in(kept, computed, count);
  }

  std::vector<std::string> damaged() const {
    std::vector<std::string> all;
    for (const auto& kept : kept_)
      if (kept && kept->store) {
        const std::vector<std::string> more = kept->store->damaged();
        all.insert(all.end(), more.begin(), more.end());
      }
    return all;
  }

 private:
  using Entry = std::optional<std::vector<std::byte>>;
  // Of a node whose output is kept.
  struct Kept {
    std::optional<FeatureStore> store;
    std::vector<std::int64_t> shape;  // of a tile's features
    at::ScalarType type = at::kFloat;
    at::Tensor made;           // of the tiles that were computed
    std::vector<Entry> found;  // of the tiles of the micro-batch that is in the tower

    std::size_t entry_bytes() const {
      std::size_t bytes = c10::elementSize(type);
      for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
      return bytes;
    }
  };

  const ops::TensorParallel& tp() const { return ranks_->tp(); }

  // Whether all that is kept of a tile is there.
  bool find(const ContentHash& input) {
    bool all = true;
    for (auto& kept : kept_) {
      if (!kept) continue;
      const bool opened = kept->store && !kept->shape.empty();
      kept->found.push_back(opened ? kept->store->find(input, kept->entry_bytes()) : Entry());
      all = all && kept->found.back();
    }
    return all;
  }

  at::Tensor filled_in(const Kept& kept, const at::Tensor& computed, std::int64_t count) const {
    std::vector<std::int64_t> all = {count};
    all.insert(all.end(), kept.shape.begin(), kept.shape.end());
    const at::Tensor features = at::empty(all, at::TensorOptions().dtype(kept.type));
    for (std::int64_t n = 0; n < count; ++n)
      if (const Entry& found = kept.found[n])
        std::memcpy(features[n].data_ptr(), found->data(), found->size());
    const at::Tensor whole = features.to(computed.device());
    return new_ == 0 ? whole
                     : whole.index_copy_(0, computed_.to(computed.device()), computed.detach());
  }

  // All of the tower has been seen: by every tp rank at the same node.
  void open() {
    std::uint64_t network = described_;
    for (const auto& hash : hashes_) network = mix(network, *hash);
    if (tp().size() > 1) network = of_all(network);
    for (std::size_t node = 0; node < kept_.size(); ++node)
      if (kept_[node])
        kept_[node]->store.emplace(directory_,
                                   node + 1 == kept_.size() ? network : mix(network, node));
  }
  // Of the parts that tp ranks hold. 16 bits at a time, which every type of float sums exactly.
  std::uint64_t of_all(std::uint64_t own) const {
    constexpr int kPieces = 4, kBits = 16;
    const at::Tensor pieces = at::zeros({tp().size(), kPieces}, at::kFloat);
    for (int i = 0; i < kPieces; ++i)
      pieces.data_ptr<float>()[kPieces * tp().rank() + i] =
          static_cast<float>((own >> (kBits * i)) & 0xFFFF);
    const at::Tensor all = pieces.to(ranks_->device());
    tp().group->all_reduce(comm::buffer(all), comm::Reduce::kSum).wait();
    return mix(static_cast<std::uint64_t>(tp().size()), hash64(bytes_of(on_cpu(all))));
  }

  void keep_new() {
    const auto* const places = computed_.data_ptr<std::int64_t>();
    for (auto& kept : kept_) {
      if (!kept) continue;
      const at::Tensor made = std::exchange(kept->made, {});
      if (new_ == 0 || tp().rank() > 0) continue;
      const at::Tensor here = on_cpu(made);
      for (std::int64_t i = 0; i < new_; ++i)
        kept->store->keep(inputs_[places[i]], bytes_of(here[i]));
    }
  }

  Path directory_;
  Ranks ranks_;
  std::uint64_t described_ = 0;
  std::vector<std::optional<std::uint64_t>> hashes_;  // of each node's weights
  std::vector<std::optional<Kept>> kept_;             // of each node
  // Of the micro-batch that is in the tower.
  std::vector<ContentHash> inputs_;
  at::Tensor computed_;  // which tiles
  std::int64_t new_ = 0;
};

class FeaturesBlock : public exec::Block {
 public:
  FeaturesBlock(std::unique_ptr<exec::Block> inner, std::shared_ptr<Features> features,
                std::size_t node)
      : inner_(std::move(inner)), features_(std::move(features)), node_(node) {}

  void bind(std::vector<at::Tensor> params) override {
    params_ = params;
    inner_->bind(std::move(params));
  }
  at::Tensor initial_value(std::size_t index) const override {
    return inner_->initial_value(index);
  }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    features_->see(node_, params_);
    std::vector<at::Tensor> own = inputs;
    own[0] = node_ == 0 ? features_->missing(own[0]) : features_->still_computed(node_, own[0]);
    std::vector<at::Tensor> outputs = tile_by_tile(own, context);
    outputs[0] = features_->complete(node_, outputs[0]);
    return outputs;
  }
  const Features& features() const { return *features_; }

 private:
  // A product's last bits depend on its number of rows: a tile's features must not on which others are there.
  std::vector<at::Tensor> tile_by_tile(const std::vector<at::Tensor>& inputs,
                                       const exec::BlockContext& context) {
    std::vector<std::vector<at::Tensor>> outputs;  // of each output its tiles
    for (std::int64_t n = 0; n < inputs[0].size(0); ++n) {
      std::vector<at::Tensor> tile;
      for (const at::Tensor& input : inputs) tile.push_back(input.narrow(0, n, 1));
      const std::vector<at::Tensor> made = inner_->forward(tile, context);
      outputs.resize(made.size());
      for (std::size_t i = 0; i < made.size(); ++i) outputs[i].push_back(made[i]);
    }
    std::vector<at::Tensor> whole;
    for (const std::vector<at::Tensor>& tiles : outputs) whole.push_back(at::cat(tiles));
    return whole;
  }

  std::unique_ptr<exec::Block> inner_;
  std::shared_ptr<Features> features_;
  std::size_t node_;
  std::vector<at::Tensor> params_;
};

}  // namespace

void keep_features(const config::Job& job, std::size_t count, const Ranks& ranks, Blocks& blocks) {
  if (job.vlm.features.empty()) return;
  std::vector<std::int64_t> earlier = config::deepstack_layers(job);
  for (std::int64_t& node : earlier) ++node;  // after the node that embeds
  const auto features = std::make_shared<Features>(job, ranks, count, earlier);
  for (std::size_t node = 0; node < count; ++node)
    blocks[node] = std::make_unique<FeaturesBlock>(std::move(blocks[node]), features, node);
}

std::vector<std::string> damaged_features(const exec::Model& model) {
  const auto* block = dynamic_cast<const FeaturesBlock*>(&model.blocks.front()->innermost());
  return block != nullptr ? block->features().damaged() : std::vector<std::string>();
}

}  // namespace trireme::blocks
