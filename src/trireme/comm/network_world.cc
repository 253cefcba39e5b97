#include "trireme/comm/network_world.h"

#include <utility>

#include "trireme/comm/composed_group.h"

namespace trireme::comm {
namespace {

class NetworkWorld final : public World {
 public:
  NetworkWorld(int rank, int size, std::shared_ptr<Network> network)
      : World(rank, size), network_(std::move(network)) {}
  std::string_view via() const override { return network_->via(); }
  std::int64_t network_bytes() const override { return network_->bytes_sent(); }
  void abort(const std::string& cause) override { network_->abort(cause); }
  std::optional<std::string> cause() override { return network_->cause(); }
  void check_current() override { network_->check_current(); }

 private:
  std::unique_ptr<Group> open(const std::string& name, const std::string& key,
                              const std::vector<int>& ranks, int rank) override {
    return std::make_unique<ComposedGroup>(name, ranks, rank,
                                           network_->transport(key, ranks.size() - 1), common());
  }

  std::shared_ptr<Network> network_;
};

}  // namespace

std::unique_ptr<World> make_network_world(int rank, int size, std::shared_ptr<Network> network) {
  return std::make_unique<NetworkWorld>(rank, size, std::move(network));
}

}  // namespace trireme::comm
