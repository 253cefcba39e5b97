#include "trireme/comm/fake/fake_world.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

#include "trireme/comm/tree_sum.h"

namespace trireme::comm {
namespace {

struct Fate {
  std::mutex mutex;
  std::optional<std::string> cause;
};

class FakeGroup : public Group {
 public:
  FakeGroup(std::string name, int rank, int size, std::shared_ptr<Fate> fate)
      : Group(std::move(name), rank, size), fate_(std::move(fate)) {}

  void abort(const std::string& cause) override {
    std::lock_guard lock(fate_->mutex);
    if (!fate_->cause) fate_->cause = cause;
  }

 private:
  Ticket start(Operation op) override {
    Pledge pledge;
    std::lock_guard lock(fate_->mutex);
    if (fate_->cause) {
      pledge.fail(
          Error(ErrorKind::kPeerLost, fmt::format("{} of group '{}' not started: {}",
                                                  comm::name(op.verb), name(), *fate_->cause)));
    } else {
      run(op);
      pledge.keep();
    }
    return pledge.ticket();
  }

  void run(const Operation& op) {
    const auto own = static_cast<std::size_t>(rank());
    switch (op.verb) {
      case Verb::kAllReduce: return reduce(op, op.in, op.count());
      case Verb::kReduceScatter: {
        const auto begin = total(std::span(op.in_counts).first(own));
        return reduce(op, at(op.in, begin, op.type), op.in_counts[own]);
      }
      case Verb::kAllGather: {
        // A copy, because the input may be the own slice of the output.
        const std::vector<std::byte> slice(op.in, at(op.in, op.in_counts[0], op.type));
        return repeat(op, slice.data(), op.in_counts[0]);
      }
      case Verb::kAllToAll: {
        const auto begin = total(std::span(op.in_counts).first(own));
        return repeat(op, at(op.in, begin, op.type), op.in_counts[own]);
      }
      case Verb::kRecv: return repeat(op, nullptr, 0);
      case Verb::kBroadcast:
      case Verb::kSend:
      case Verb::kBarrier: return;
    }
  }

  template <typename Byte>
  static Byte* at(Byte* data, std::int64_t count, DType type) {
    return data + static_cast<std::size_t>(count) * size_of(type);
  }

  void reduce(const Operation& op, const std::byte* in, std::int64_t count) {
    // Max and average of equal values are that value.
    const bool sum = op.reduce == Reduce::kSum;
    const std::vector<const void*> leaves(sum ? static_cast<std::size_t>(size()) : 1u, in);
    tree_reduce(op.out, leaves, count, op.type, op.reduce);
  }

  // Fills each slice of the output with `slice`, as far as it goes, and zeros.
  void repeat(const Operation& op, const std::byte* slice, std::int64_t count) {
    std::byte* out = op.out;
    for (const std::int64_t want : op.out_counts) {
      const auto bytes = static_cast<std::size_t>(want) * size_of(op.type);
      const auto copied = static_cast<std::size_t>(std::min(want, count)) * size_of(op.type);
      if (slice && copied > 0) std::memcpy(out, slice, copied);
      if (bytes > copied) std::memset(out + copied, 0, bytes - copied);
      out += bytes;
    }
  }

  std::shared_ptr<Fate> fate_;
};

class FakeWorld : public World {
 public:
  FakeWorld(int rank, int size) : World(rank, size), fate_(std::make_shared<Fate>()) {}
  std::string_view via() const override { return "nothing"; }
  void abort(const std::string& cause) override {
    std::lock_guard lock(fate_->mutex);
    if (!fate_->cause) fate_->cause = cause;
  }
  std::optional<std::string> cause() override {
    std::lock_guard lock(fate_->mutex);
    return fate_->cause;
  }

 private:
  std::unique_ptr<Group> open(const std::string& name, const std::string&,
                              const std::vector<int>& ranks, int rank) override {
    return std::make_unique<FakeGroup>(name, rank, static_cast<int>(ranks.size()), fate_);
  }
  std::shared_ptr<Fate> fate_;
};

}  // namespace

std::unique_ptr<World> make_fake_world(int rank, int size) {
  return std::make_unique<FakeWorld>(rank, size);
}

}  // namespace trireme::comm
