// A collective back end: messages through boxes in memory. docs/extending.md quotes it.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "tests/extending/own_loop.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/composed_group.h"
#include "trireme/train/job_session.h"

namespace trireme::extending::transport_test {
namespace {

using comm::Stamp;
using comm::World;

// [boxes]
struct Message {
  Stamp stamp;
  std::vector<std::byte> bytes;  // a copy, so that the sender's memory is free at once
  bool read = false;             // and overwritten, if it goes there and back
};

// What all ranks of the world share: a box for each group, sender and receiver, with messages by number.
struct Boxes {
  explicit Boxes(double timeout) : timeout_s(timeout) {}

  // Waits for rank `peer` until ready(). Throws Lost after an abort or the timeout.
  template <typename Ready>
  void wait(std::unique_lock<std::mutex>& lock, int peer, Ready ready) {
    const Stopwatch watch;
    changed.wait_for(lock, std::chrono::duration<double>(timeout_s),
                     [&] { return ready() || cause; });
    if (ready()) return;
    throw comm::Lost{peer, watch.seconds(),
                     cause ? "the world was aborted"
                           : fmt::format("no answer within the timeout of {} s", timeout_s)};
  }
  void abort(const std::string& why) {
    const std::lock_guard lock(mutex);
    if (!cause) cause = why;  // the first cause stays
    changed.notify_all();
  }

  double timeout_s;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> cause;
  using Box = std::map<std::uint64_t, std::shared_ptr<Message>>;
  std::map<std::tuple<std::string, int, int>, Box> boxes;
};
// [end]

// [transport]
class Sent final : public comm::Outgoing {
 public:
  Sent(Boxes& boxes, int to, std::shared_ptr<Message> message, std::byte* data)
      : boxes_(boxes), to_(to), message_(std::move(message)), data_(data) {}
  void finish() override {
    if (message_->stamp.way != comm::Way::kThereAndBack) return;
    std::unique_lock lock(boxes_.mutex);
    boxes_.wait(lock, to_, [&] { return message_->read; });
    std::memcpy(data_, message_->bytes.data(), message_->bytes.size());
  }

 private:
  Boxes& boxes_;
  int to_;
  std::shared_ptr<Message> message_;
  std::byte* data_;
};

class Received final : public comm::Incoming {
 public:
  Received(comm::Transport& transport, Boxes& boxes, Boxes::Box& box, std::uint64_t number,
           int from)
      : transport_(transport), boxes_(boxes), box_(box), number_(number), from_(from) {}

  const Stamp& stamp() override {
    if (message_) return message_->stamp;
    std::unique_lock lock(boxes_.mutex);
    transport_.awaits(from_);  // for the detection of hangs
    boxes_.wait(lock, from_, [&] { return box_.contains(number_); });
    transport_.awaits(watch::kNoRank);
    message_ = box_.extract(number_).mapped();
    return message_->stamp;
  }
  void land(std::byte* into) override {
    std::memcpy(into, message_->bytes.data(), message_->bytes.size());
    transport_.moved();
  }
  void stream() override {}
  std::size_t chunk() const override { return std::size_t{1} << 18; }
  std::byte* lend() override { return message_->bytes.data() + lent_; }
  void release() override {
    lent_ += chunk();
    transport_.moved();
  }
  void finish() override {
    const std::lock_guard lock(boxes_.mutex);
    message_->read = true;
    boxes_.changed.notify_all();
  }

 private:
  comm::Transport& transport_;
  Boxes& boxes_;
  Boxes::Box& box_;
  std::uint64_t number_;
  int from_;
  std::shared_ptr<Message> message_;
  std::size_t lent_ = 0;
};

// Of one rank in one group.
class BoxTransport final : public comm::Transport {
 public:
  BoxTransport(std::shared_ptr<Boxes> boxes, std::string group, int rank)
      : boxes_(std::move(boxes)), group_(std::move(group)), rank_(rank) {}

  std::unique_ptr<comm::Outgoing> send(int to, const Stamp& stamp, std::byte* data) override {
    const auto message =
        std::make_shared<Message>(Message{stamp, {data, data + stamp.bytes}, false});
    const std::lock_guard lock(boxes_->mutex);
    boxes_->boxes[{group_, rank_, to}][sent_[to]++] = message;
    boxes_->changed.notify_all();
    return std::make_unique<Sent>(*boxes_, to, message, data);
  }
  std::unique_ptr<comm::Incoming> recv(int from) override {
    const std::lock_guard lock(boxes_->mutex);
    return std::make_unique<Received>(*this, *boxes_, boxes_->boxes[{group_, from, rank_}],
                                      received_[from]++, from);
  }
  void abort(const std::string& cause) override { boxes_->abort(cause); }
  std::optional<std::string> cause() override {
    const std::lock_guard lock(boxes_->mutex);
    return boxes_->cause;
  }

 private:
  std::shared_ptr<Boxes> boxes_;
  std::string group_;
  int rank_;
  std::map<int, std::uint64_t> sent_, received_;  // messages, by peer
};
// [end]

// [world]
class BoxWorld final : public World {
 public:
  BoxWorld(std::shared_ptr<Boxes> boxes, int rank, int size)
      : World(rank, size), boxes_(std::move(boxes)) {}
  std::string_view via() const override { return "boxes in memory"; }
  void abort(const std::string& cause) override { boxes_->abort(cause); }
  std::optional<std::string> cause() override {
    const std::lock_guard lock(boxes_->mutex);
    return boxes_->cause;
  }

 private:
  std::unique_ptr<comm::Group> open(const std::string& name, const std::string& key,
                                    const std::vector<int>& ranks, int position,
                                    const algorithm::Choice& choice) override {
    return std::make_unique<comm::ComposedGroup>(
        name, ranks, position, std::make_unique<BoxTransport>(boxes_, key, rank()), common(),
        std::nullopt, choice);
  }

  std::shared_ptr<Boxes> boxes_;
};

void run_box_ranks(int size, double timeout_s, const std::function<void(World&)>& body) {
  const auto boxes = std::make_shared<Boxes>(timeout_s);
  comm::run_ranks(size, body,
                  [&](int rank) { return std::make_unique<BoxWorld>(boxes, rank, size); });
}
// [end]

using RunRanks = void (*)(int, double, const std::function<void(World&)>&);

std::vector<float> numbers(int rank, std::int64_t count) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < count; ++i)
    all.push_back(
        static_cast<float>(
            mix(static_cast<std::uint64_t>(rank) + 1, static_cast<std::uint64_t>(i)) % 10'007) /
        977);
  return all;
}

// What each rank of three has after operations of every kind on `count` numbers a rank.
std::vector<std::vector<float>> results(RunRanks run, std::int64_t count) {
  std::vector<std::vector<float>> all(3);
  run(3, 30, [&](World& world) {
    const auto group = world.make_group("all", {0, 1, 2});
    const int r = world.rank();
    std::vector<float>& out = all[r];
    const auto keep = [&](const std::vector<float>& x) {
      out.insert(out.end(), x.begin(), x.end());
    };
    const auto buffer = [](std::vector<float>& x) {
      return comm::Buffer{x.data(), static_cast<std::int64_t>(x.size()), DType::kF32};
    };
    std::vector<float> x = numbers(r, count), wide(3 * count), own(count);
    group->all_reduce(buffer(x), comm::Reduce::kAvg).wait();
    keep(x);
    x = numbers(r, count);
    group->all_gather(buffer(x), buffer(wide)).wait();
    keep(wide);
    group->reduce_scatter(buffer(wide), buffer(own)).wait();
    keep(own);
    group->broadcast(buffer(x), 1).wait();
    keep(x);
    if (r == 0) group->send(buffer(x), 2).wait();
    if (r == 2) group->recv(buffer(own), 0).wait();
    keep(own);
    group->barrier().wait();
  });
  return all;
}

TEST(OwnTransport, HasTheBitsOfEveryBackEnd) {
  for (const std::int64_t count : {1, 1'000, 200'001})
    EXPECT_EQ(results(run_box_ranks, count), results(comm::run_local_ranks, count)) << count;
}

std::vector<double> trained(RunRanks run) {
  const config::Job job = loop_job(4, {"parallel.dp_shard=4", "parallel.zero=3"});
  std::vector<double> all;
  run(4, 60, [&](World& world) {
    train::JobSession session(job, world);
    for (int step = 0; step < 3; ++step) {
      const double loss = session
                              .train(step, false, train::JobSession::Load([&](std::int64_t first) {
                                       return loaders::random_tokens(first, 1, 16, 64);
                                     }))
                              .loss;
      if (world.rank() == 0) all.push_back(loss);
    }
  });
  return all;
}

TEST(OwnTransport, TrainsWithTheBitsOfEveryBackEnd) {
  EXPECT_EQ(trained(run_box_ranks), trained(comm::run_local_ranks));
}

// The message of the error that a body throws.
std::string message_of(ErrorKind kind, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(OwnTransport, NamesASilentRankWithinTheTimeout) {
  run_box_ranks(2, 0.5, [](World& world) {
    const auto group = world.make_group("dp", {0, 1});
    if (world.rank() == 1) {
      while (!world.cause()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    EXPECT_NE(message_of(ErrorKind::kPeerLost, [&] { group->barrier().wait(); })
                  .find("lost rank 1 after"),
              std::string::npos);
  });
}

TEST(OwnTransport, RanksThatDisagreeAreNamed) {
  run_box_ranks(2, 30, [](World& world) {
    const auto group = world.make_group("dp", {0, 1});
    std::vector<float> x(4);
    const std::string said = [&] {
      try {
        group->all_reduce({x.data(), world.rank() == 0 ? 4 : 3, DType::kF32}).wait();
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    }();
    EXPECT_NE(said.find("group 'dp'"), std::string::npos) << said;
  });
}

}  // namespace
}  // namespace trireme::extending::transport_test
