#include "trireme/comm/connect/reduction_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/comm/connect/join.h"
#include "trireme/comm/rendezvous/served_groups.h"
#include "trireme/comm/tree_sum.h"

namespace trireme::comm {
namespace {

using Messages = std::vector<std::unique_ptr<Incoming>>;

// Adds one message of every rank, chunk by chunk, over what they sent.
void add_chunks(const Messages& messages, const Stamp& stamp) {
  const auto whole = Reduction::whole(stamp.type, stamp.reduce, messages.size());
  const std::size_t step = messages.front()->chunk();
  std::vector<void*> chunks(messages.size());
  for (const auto& message : messages) message->stream();
  for (std::size_t begin = 0; begin < stamp.bytes; begin += step) {
    for (std::size_t i = 0; i < messages.size(); ++i) chunks[i] = messages[i]->lend();
    const std::size_t bytes = std::min<std::size_t>(step, stamp.bytes - begin);
    const std::vector<const void*> leaves(chunks.begin(), chunks.end());
    tree_reduce(chunks, leaves, static_cast<std::int64_t>(bytes / size_of(stamp.type)), whole);
    for (const auto& message : messages) message->release();
  }
  for (const auto& message : messages) message->finish();
}

// Serves a group until its first rank has left. Throws Lost where one leaves half way, Error{kInternal} where ranks
// disagree.
void serve(Transport& transport, const ServedGroup& group) {
  for (;;) {
    Messages messages;
    for (const int rank : group.ranks) messages.push_back(transport.recv(rank));
    Stamp stamp;
    try {
      stamp = messages.front()->stamp();
    } catch (const Lost&) {
      return;
    }
    for (std::size_t i = 1; i < messages.size(); ++i)
      if (!(messages[i]->stamp() == stamp))
        fail(
            ErrorKind::kInternal,
            "group '{}': ranks {} and {} sent this server different parts of sums; every rank must "
            "submit the same operations in the same order",
            group.key, group.ranks[0], group.ranks[i]);
    add_chunks(messages, stamp);
  }
}

}  // namespace

void serve_reductions(const RendezvousConfig& given, Route route) {
  RendezvousConfig config = given;
  config.timeout_s = 1e8;  // it waits for as long as ranks compute; agents judge them
  const Joined joined = join_world(config, route);
  Network& network = *joined.network;
  std::atomic<bool> over = false;
  std::mutex mutex;
  std::optional<std::string> failure;
  const auto fails = [&](const std::string& why) {
    std::lock_guard lock(mutex);
    if (!failure) failure = why;
  };
  const auto run = [&](const ServedGroup& group, const std::shared_ptr<Transport>& transport) {
    try {
      serve(*transport, group);
    } catch (const Lost& lost) {
      fails(network.cause().value_or(
          fmt::format("a reduction server lost rank {} half way: {}", lost.rank, lost.why)));
    } catch (const std::exception& error) {
      fails(error.what());
      network.abort(error.what());
    }
  };
  std::vector<std::jthread> threads;
  // Rank 0 informs it when all is done, or has ended.
  threads.emplace_back([&, last = std::shared_ptr(network.transport(kLastChannel, 1))] {
    try {
      last->recv(0)->stamp();
    } catch (const Lost&) {
      if (const auto cause = network.cause()) fails(*cause);
    }
    over = true;
  });
  // Groups are made as a generation starts; later the first host's store is asked less often.
  constexpr std::chrono::milliseconds kShortest(20), kLongest(1000);
  std::chrono::milliseconds pause = kShortest;
  for (std::int64_t number = 0; !over;) {
    std::optional<ServedGroup> group;
    try {
      group = served_group(*joined.rendezvous, number);
    } catch (const Error&) {
      break;  // the generation is over; its ranks are about to leave, or to be killed
    }
    if (group) {
      threads.emplace_back(run, *group,
                           std::shared_ptr(network.transport(group->key, group->ranks.size())));
      ++number;
      pause = kShortest;
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongest);
    }
  }
  threads.clear();
  if (failure) fail(ErrorKind::kPeerLost, "{}", *failure);
}

}  // namespace trireme::comm
