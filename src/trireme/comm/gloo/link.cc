#include "trireme/comm/gloo/link.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/gloo/meeting.h"
#include "trireme/comm/rendezvous/sockets.h"

namespace trireme::comm {
namespace {

at::Tensor bytes_tensor(const std::byte* data, std::size_t bytes) {
  return at::from_blob(const_cast<std::byte*>(data), {static_cast<std::int64_t>(bytes)}, at::kByte);
}

}  // namespace

GlooLink::GlooLink(std::shared_ptr<Rendezvous> rendezvous)
    : rendezvous_(std::move(rendezvous)), config_(rendezvous_->config()) {
  check_sigpipe();
  process_group_ = meet(*rendezvous_);
  rendezvous_->watch([this] { wake_all(); });
}

GlooLink::~GlooLink() { rendezvous_->leave(); }

GlooLink::Work GlooLink::send(int rank, int tag, const std::byte* data, std::size_t bytes) {
  std::vector<at::Tensor> tensors = {bytes_tensor(data, bytes)};
  std::unique_lock lock(post_mutex_);
  try {
    bytes_sent_ += static_cast<std::int64_t>(bytes);
    return process_group_->send(tensors, rank, tag);
  } catch (const std::exception& e) {
    lock.unlock();
    rendezvous_->lost(rank, 0.0, gist(e));
  }
}

GlooLink::Work GlooLink::recv(int rank, int tag, std::byte* data, std::size_t bytes) {
  std::vector<at::Tensor> tensors = {bytes_tensor(data, bytes)};
  std::unique_lock lock(post_mutex_);
  try {
    return process_group_->recv(tensors, rank, tag);
  } catch (const std::exception& e) {
    lock.unlock();
    rendezvous_->lost(rank, 0.0, gist(e));
  }
}

void GlooLink::wait(const Work& work, int rank) {
  const Stopwatch watch;
  {
    std::lock_guard lock(waiting_mutex_);
    waiting_.insert(work.get());
  }
  // After it is registered: a cause that is set from now on wakes this wait.
  std::string why = cause() ? "the world was aborted" : "";
  try {
    if (why.empty() && !work->wait(milliseconds(config_.timeout_s))) why = "the world was aborted";
  } catch (const std::exception& e) {
    why = gist(e);
  }
  {
    std::lock_guard lock(waiting_mutex_);
    waiting_.erase(work.get());
  }
  if (why.empty()) return;
  if (watch.seconds() >= config_.timeout_s) rendezvous_->lost_in_silence(rank, watch.seconds());
  rendezvous_->lost(rank, watch.seconds(), why);
}

int GlooLink::claim_tag(const std::string& key) {
  const int tag = static_cast<int>(hash64(key) & 0x1FFFFFFF) << 2;
  TRIREME_CHECK(tags_.insert(tag).second,
                "group '{}' hashes like another group of this rank: rename it", key);
  return tag;
}

void GlooLink::wake_all() {
  std::lock_guard lock(waiting_mutex_);
  for (c10d::Work* work : waiting_) work->abort();
}

}  // namespace trireme::comm
