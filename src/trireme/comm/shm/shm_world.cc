#include "trireme/comm/shm/shm_world.h"

#include <utility>

#include "trireme/comm/composed_group.h"
#include "trireme/comm/shm/link.h"

namespace trireme::comm {
namespace {

class ShmWorld : public World {
 public:
  ShmWorld(int rank, int size, std::shared_ptr<ShmLink> link)
      : World(rank, size), link_(std::move(link)) {}
  std::string_view via() const override { return "shared memory"; }
  void abort(const std::string& cause) override { link_->abort(cause); }
  std::optional<std::string> cause() override { return link_->cause(); }

 private:
  std::unique_ptr<Group> open(const std::string& name, const std::string& key,
                              const std::vector<int>& ranks, int rank) override {
    return std::make_unique<ComposedGroup>(
        name, ranks, rank, make_shm_transport(link_, key, ranks, rank), postponed());
  }

  std::shared_ptr<ShmLink> link_;
};

}  // namespace

std::unique_ptr<World> connect_shm(std::unique_ptr<Rendezvous>& rendezvous) {
  const int rank = rendezvous->config().rank, size = rendezvous->config().size;
  auto link = ShmLink::join(rendezvous);
  return link ? std::make_unique<ShmWorld>(rank, size, std::move(link)) : nullptr;
}

}  // namespace trireme::comm
