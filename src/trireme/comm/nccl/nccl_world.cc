#if defined(USE_C10D_NCCL) && __has_include(<nccl.h>)

#include "trireme/comm/nccl/nccl_world.h"

#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/comm/composed_group.h"
#include "trireme/comm/gloo/link.h"
#include "trireme/comm/tensor_buffer.h"

namespace trireme::comm {
namespace {

c10d::ReduceOp reduce_op(Reduce reduce) {
  if (reduce == Reduce::kMax) return c10d::ReduceOp::MAX;
  return reduce == Reduce::kAvg ? c10d::ReduceOp::AVG : c10d::ReduceOp::SUM;
}

bool even(const std::vector<std::int64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(),
                     [&](std::int64_t count) { return count == counts[0]; });
}

// Operations are issued by the caller, so that they follow its stream; a thread ends their tickets.
class NcclGroup : public Group {
 public:
  using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

  NcclGroup(std::string name, const std::string& key, const std::vector<int>& ranks, int rank,
            int device, double timeout_s, std::shared_ptr<GlooLink> link,
            std::shared_ptr<watch::Recorder> flight)
      : Group(std::move(name), rank, static_cast<int>(ranks.size())),
        device_(device),
        timeout_s_(timeout_s),
        link_(std::move(link)),
        ranks_(ranks),
        flight_(std::move(flight)),
        track_(flight_->make_track(this->name(), ranks)) {
    if (size() == 1) return;
    const auto store = c10::make_intrusive<c10d::PrefixStore>("nccl/" + key, link_->store());
    process_group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size());
    watcher_ = std::thread([this] { watch(); });
  }
  ~NcclGroup() override {
    if (!watcher_.joinable()) return;
    std::unique_lock lock(mutex_);
    closing_ = true;
    if (!pending_.empty())
      link_->abort(fmt::format("group '{}' left with unfinished operations", name()));
    lock.unlock();
    changed_.notify_all();
    watcher_.join();
  }
  void abort(const std::string& cause) override { link_->abort(cause); }

 private:
  struct Pending {
    Works works;
    Verb verb;
    watch::Doing doing;
    Pledge pledge;
    Stopwatch watch{};
  };

  Ticket start(Operation op) override {
    const bool pair = op.verb == Verb::kSend || op.verb == Verb::kRecv;
    Pending pending{.works = {},
                    .verb = op.verb,
                    .doing = {.what = comm::name(op.verb),
                              .sequence = sequence_++,
                              .bytes = op.bytes(),
                              .peer = pair ? ranks_[op.peer] : watch::kAllMembers,
                              .line = flight_->line(),
                              .awaited = watch::kUnknownRank},
                    .pledge = Pledge(nullptr, flight_)};
    const Ticket ticket = pending.pledge.ticket();
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device_));
    try {
      if (op.count() > 0 || op.verb == Verb::kBarrier) pending.works = issue(op);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& e) {
      fail(ErrorKind::kPeerLost, "{} of group '{}': {}", comm::name(op.verb), name(), e.what());
    }
    std::lock_guard lock(mutex_);
    pending_.push_back(std::move(pending));
    changed_.notify_all();
    return ticket;
  }

  at::Tensor tensor(const std::byte* data, std::int64_t begin, std::int64_t count,
                    DType type) const {
    const auto options = at::TensorOptions()
                             .dtype(scalar_type(type))
                             .device(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device_)));
    return at::from_blob(
        const_cast<std::byte*>(data) + static_cast<std::size_t>(begin) * size_of(type), {count},
        options);
  }

  Works issue(const Operation& op) {
    at::Tensor in = tensor(op.in, 0, total(op.in_counts), op.type);
    at::Tensor out = tensor(op.out, 0, total(op.out_counts), op.type);
    std::vector<at::Tensor> outs = {out}, ins = {in};
    switch (op.verb) {
      case Verb::kAllReduce: {
        c10d::AllreduceOptions options;
        options.reduceOp = reduce_op(op.reduce);
        return {process_group_->allreduce(outs, options)};
      }
      case Verb::kReduceScatter: {
        if (!even(op.in_counts))
          fail(ErrorKind::kUsage,
               "reduce_scatter of uneven slices on group '{}': nccl needs equal ones, pad them",
               name());
        c10d::ReduceScatterOptions options;
        options.reduceOp = reduce_op(op.reduce);
        return {process_group_->_reduce_scatter_base(out, in, options)};
      }
      case Verb::kAllGather:
        return even(op.out_counts) ? Works{process_group_->_allgather_base(out, in)}
                                   : gather_uneven(op, in);
      case Verb::kBroadcast: {
        c10d::BroadcastOptions options;
        options.rootRank = op.peer;
        return {process_group_->broadcast(outs, options)};
      }
      case Verb::kAllToAll: {
        auto to = op.in_counts, from = op.out_counts;
        return {process_group_->alltoall_base(out, in, from, to)};
      }
      case Verb::kSend: return {process_group_->send(ins, op.peer, 0)};
      case Verb::kRecv: return {process_group_->recv(outs, op.peer, 0)};
      case Verb::kBarrier: {
        c10d::BarrierOptions options;
        options.device_ids = {device_};
        return {process_group_->barrier(options)};
      }
    }
    return {};
  }

  void copy(const std::byte* in, std::byte* out, std::int64_t count, DType type) override {
    tensor(out, 0, count, type).copy_(tensor(in, 0, count, type));
  }

  Works gather_uneven(const Operation& op, const at::Tensor& in) {
    Works works;
    std::int64_t begin = 0;
    for (int root = 0; root < size(); ++root) {
      const std::int64_t count = op.out_counts[root];
      std::vector<at::Tensor> slice = {tensor(op.out, begin, count, op.type)};
      begin += count;
      if (count == 0) continue;
      if (root == rank() && slice[0].data_ptr() != in.data_ptr()) slice[0].copy_(in);
      c10d::BroadcastOptions options;
      options.rootRank = root;
      works.push_back(process_group_->broadcast(slice, options));
    }
    return works;
  }

  void watch() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return closing_ || !pending_.empty(); });
      if (pending_.empty()) return;
      Pending& front = pending_.front();
      lock.unlock();
      flight_->begin(track_, front.doing);
      const std::string why = await(front);
      flight_->end(track_);
      lock.lock();
      Pending finished = std::move(pending_.front());
      pending_.pop_front();
      if (why.empty()) {
        finished.pledge.keep();
        continue;
      }
      const auto cause = link_->cause();
      const Error error(ErrorKind::kPeerLost,
                        fmt::format("rank {}: {} #{} of group '{}' failed after {:.1f} s: {}",
                                    rank(), comm::name(finished.verb), finished.doing.sequence,
                                    name(), finished.watch.seconds(), cause.value_or(why)));
      link_->abort(error.what());
      finished.pledge.fail(error);
    }
  }

  // Empty when all works are done on the device, else why they will not be.
  std::string await(const Pending& pending) {
    try {
      for (const auto& work : pending.works) {
        while (!work->isCompleted()) {
          if (link_->cause()) return "the world was aborted";
          if (pending.watch.seconds() > timeout_s_)
            return fmt::format("no answer within the timeout of {} s", timeout_s_);
          std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        if (const auto error = work->exception()) std::rethrow_exception(error);
      }
      return link_->cause() ? "the world was aborted" : "";
    } catch (const std::exception& e) {
      return e.what();
    }
  }

  int device_;
  double timeout_s_;
  std::shared_ptr<GlooLink> link_;
  std::vector<int> ranks_;  // of the world
  std::shared_ptr<watch::Recorder> flight_;
  int track_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> process_group_;
  std::uint64_t sequence_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;  // the front one is awaited
  bool closing_ = false;
  std::thread watcher_;
};

class NcclWorld : public World {
 public:
  NcclWorld(const RendezvousConfig& control, int device)
      : World(control.rank, control.size),
        device_(device),
        timeout_s_(control.timeout_s),
        link_(std::make_shared<GlooLink>(std::make_shared<Rendezvous>(control))),
        network_(make_gloo_network(link_)) {}
  std::string_view via() const override { return "NCCL"; }
  void abort(const std::string& cause) override { link_->abort(cause); }
  std::optional<std::string> cause() override { return link_->cause(); }
  void check_current() override { link_->check_current(); }

 private:
  // NCCL has algorithms of its own.
  std::unique_ptr<Group> open(const std::string& name, const std::string& key,
                              const std::vector<int>& ranks, int rank,
                              const algorithm::Choice&) override {
    return std::make_unique<NcclGroup>(name, key, ranks, rank, device_, timeout_s_, link_,
                                       common()->flight);
  }

  std::unique_ptr<Group> open_host(const std::string& name, const std::string& key,
                                   const std::vector<int>& ranks, int rank) override {
    return std::make_unique<ComposedGroup>(name, ranks, rank,
                                           network_->transport(key, ranks.size() - 1), common());
  }

  int device_;
  double timeout_s_;
  std::shared_ptr<GlooLink> link_;
  std::shared_ptr<Network> network_;  // of buffers in host memory
};

}  // namespace

std::unique_ptr<World> connect_nccl(const NcclConfig& config) {
  const int devices = c10::cuda::device_count();
  const int device = devices == 1 ? 0 : config.local_rank;
  if (device >= devices)
    fail(ErrorKind::kUsage,
         "rank {} is the machine's rank {}, but the machine has {} CUDA devices; start one process "
         "a device: --nproc {}",
         config.control.rank, config.local_rank, devices, devices);
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
  return std::make_unique<NcclWorld>(config.control, device);
}

}  // namespace trireme::comm

#endif
