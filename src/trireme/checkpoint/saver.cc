#include "trireme/checkpoint/saver.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/checkpoint/on_rank_zero.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/formats/go_back.h"

namespace trireme::checkpoint {

Saver::Saver(Setup setup, const exec::Units& units, const std::vector<model::UnitSpec>& specs,
             comm::World& world)
    : setup_(std::move(setup)),
      units_(units),
      specs_(specs),
      world_(world),
      retention_(*setup_.files, setup_.root, setup_.keep),
      parcels_(world) {}

Saver::~Saver() {
  if (pending_.valid()) pending_.wait();
  if (phase_ == Phase::kWrite && draft_ && outlives_ranks()) draft_->leave();
}

// One rank of all that share a ROOT.
bool Saver::leads() const {
  if (setup_.hosts.empty()) return world_.rank() == 0;
  const auto own = setup_.hosts.begin() + world_.rank();
  return std::find(setup_.hosts.begin(), own, *own) == own;
}

// Slow work runs in another thread even if training waits for it: ranks keep exchanging signs of life.
void Saver::enter(Phase phase, Where where, std::function<Share()> body) {
  phase_ = phase;
  mine_.clear();
  const std::launch how = where == Where::kAside ? std::launch::async : std::launch::deferred;
  pending_ = std::async(how, [body = std::move(body)] {
    try {
      return body();
    } catch (const std::exception& e) {
      return Share{.error = e.what()};
    }
  });
}

void Saver::begin(const Header& header, SaveMode mode) {
  TRIREME_CHECK(!under_way(), "the checkpoint of step {} is under way", header_.step);
  watch_.restart();
  header_ = header;
  mode_ = mode;
  saved_ = {.step = header.step};
  enter(Phase::kMake, Where::kHere, [this] { return make(); });
  advance();
  saved_.standing_s = watch_.seconds();
}

std::optional<Saved> Saver::poll() {
  if (!under_way()) return std::nullopt;
  const Stopwatch standing;
  if (phase_ != Phase::kEnded) advance();
  saved_.standing_s += standing.seconds();
  if (phase_ != Phase::kEnded) return std::nullopt;
  return take();
}

Saved Saver::finish() {
  TRIREME_CHECK(under_way(), "no checkpoint is under way");
  const Stopwatch standing;
  while (phase_ != Phase::kEnded) {
    // A second at a time, so that ranks hear of one another however slow a disk is: a silent peer would count as lost.
    if (mine_.empty()) pending_.wait_for(std::chrono::seconds(1));
    advance();
  }
  saved_.standing_s += standing.seconds();
  return take();
}

void Saver::go_back(const formats::Manifest& manifest) {
  TRIREME_CHECK(!under_way(), "the checkpoint of step {} is under way", header_.step);
  on_rank_zero(world_, [&] {
    formats::go_back(*setup_.files, setup_.root, manifest);
    retention_.forget_after(manifest.step);
    return std::string();
  });
}

Saved Saver::take() {
  phase_ = Phase::kNone;
  return std::exchange(saved_, {});
}

// All ranks learn here whether all have done their part; then they continue together.
void Saver::advance() {
  using std::chrono::seconds;
  if (mine_.empty() && pending_.wait_for(seconds(0)) != std::future_status::timeout)
    mine_ = encode(pending_.get());
  std::vector<Share> shares;
  for (const std::string& text : world_.exchange(mine_)) {
    if (text.empty()) return;
    shares.push_back(decode(text));
  }
  for (std::size_t rank = 0; rank < shares.size() && saved_.problem.empty(); ++rank)
    if (!shares[rank].error.empty())
      saved_.problem =
          fmt::format("{} of step {} not written, those before it are untouched: rank {}: {}",
                      setup_.what, header_.step, rank, shares[rank].error);
  if (saved_.problem.empty())
    next(shares);
  else
    phase_ = Phase::kEnded;
  if (phase_ != Phase::kEnded) return;
  draft_.reset();  // no rank writes there any more
  saved_.seconds = watch_.seconds();
}

void Saver::next(const std::vector<Share>& shares) {
  if (phase_ == Phase::kMake) {
    shares_ = shares;
    next_write();
  } else if (phase_ == Phase::kWrite) {
    for (std::size_t rank = 0; rank < shares.size(); ++rank) shares_[rank].file = shares[rank].file;
    if (setup_.replicas.empty()) return next_commit();
    std::vector<Parcel> parcels = replicas();
    parcels_.open(parcels);
    enter(Phase::kReplicate, Where::kAside, [this, parcels = std::move(parcels)] {
      parcels_.move(parcels, formats::CheckpointDraft::directory(setup_.root, header_.step),
                    *setup_.files);
      return Share{};
    });
  } else if (phase_ == Phase::kReplicate) {
    next_commit();
  } else {
    saved_.path = setup_.root / fmt::format("step-{}", header_.step);
    for (std::size_t rank = 0; rank < shares.size() && saved_.problem.empty(); ++rank)
      if (!shares[rank].warning.empty())
        saved_.problem = fmt::format("rank {}: {}", rank, shares[rank].warning);
    phase_ = Phase::kEnded;
  }
}

// The rank that leads announces first: where files and digests of all ranks are there, the manifest is.
void Saver::next_write() {
  std::optional<formats::Manifest> announced;
  if (leads() && outlives_ranks()) announced = make_manifest(header_, units_, shares_, specs_);
  enter(Phase::kWrite, Where::kAside, [this, announced = std::move(announced)] {
    if (announced) draft_->announce(*announced);
    return write();
  });
}

void Saver::next_commit() {
  if (leads())
    enter(Phase::kCommit, Where::kAside,
          [this, manifest = make_manifest(header_, units_, shares_, specs_)] {
            return commit(manifest);
          });
  else
    enter(Phase::kCommit, Where::kHere, [] { return Share{}; });
}

std::vector<Parcel> Saver::replicas() const {
  std::vector<Parcel> parcels;
  for (std::size_t rank = 0; rank < shares_.size(); ++rank)
    if (setup_.replicas[rank] >= 0 && !shares_[rank].file.name.empty())
      parcels.push_back({.from = static_cast<int>(rank),
                         .to = setup_.replicas[rank],
                         .file = shares_[rank].file});
  return parcels;
}

Share Saver::make() {
  slices_ = units_.owned_slices();  // first: all ranks together end exchanges of islands
  if (world_.rank() == 0 && setup_.before) setup_.before();
  if (leads()) draft_.emplace(*setup_.files, setup_.root, header_.step);
  if (!header_.base.empty())
    std::erase_if(slices_, [&](const auto& slice) { return !units_.trains(slice.unit); });
  if (mode_ == SaveMode::kAsync) snapshot_.take(units_, slices_);
  return make_share(world_.rank(), units_, slices_, specs_);
}

// Its file, with the digest of that.
Share Saver::write() const {
  if (slices_.empty()) return {};
  const Share& own = shares_[world_.rank()];
  std::vector<formats::TensorInfo> tensors;
  for (std::size_t i = 0; i < slices_.size(); ++i)
    tensors.push_back({.name = own.slices[i].second.tensor,
                       .dtype = slices_[i].type,
                       .shape = {slices_[i].count}});
  at::Tensor value;  // the one being written, in host memory
  const auto read = [&](std::size_t index) {
    if (mode_ == SaveMode::kAsync) return snapshot_.bytes(index);
    value = at::Tensor();
    value = units_.read(slices_[index]).cpu();
    return std::span(static_cast<const std::byte*>(value.data_ptr()), value.nbytes());
  };
  const Path directory = formats::CheckpointDraft::directory(setup_.root, header_.step);
  Share share{.file = formats::write_shard(*setup_.files, directory, own.file.name, header_.step,
                                           tensors, read)};
  if (outlives_ranks()) formats::write_digest(*setup_.files, directory, share.file);
  return share;
}

Share Saver::commit(const formats::Manifest& manifest) {
  // Ranks of an older generation, back from a long stop, say, must not write into the run of a newer one.
  draft_->commit(manifest, [this] { world_.check_current(); });
  Share share;
  retention_.trust(header_.step);
  try {
    retention_.apply();
  } catch (const std::exception& error) {
    share.warning = fmt::format("older checkpoints not deleted: {}", error.what());
  }
  return share;
}

Path save(const Path& root, const Header& header, const exec::Units& units,
          const std::vector<model::UnitSpec>& specs, comm::World& world) {
  Saver saver({.root = root}, units, specs, world);
  saver.begin(header, SaveMode::kAtOnce);
  const Saved saved = saver.finish();
  if (saved.path.empty()) fail(ErrorKind::kData, "{}; fix that and resume", saved.problem);
  return saved.path;
}

}  // namespace trireme::checkpoint
