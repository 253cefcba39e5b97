#include "trireme/comm/shm/shm_world.h"

#include <utility>

#include "trireme/comm/composed_group.h"

namespace trireme::comm {
namespace {

class ShmWorld : public World {
 public:
  explicit ShmWorld(std::shared_ptr<ShmLink> link)
      : World(link->config().rank, link->config().size), link_(std::move(link)) {}
  std::string_view via() const override { return "shared memory"; }
  void abort(const std::string& cause) override { link_->abort(cause); }
  std::optional<std::string> cause() override { return link_->cause(); }
  void check_current() override { link_->check_current(); }

 private:
  std::unique_ptr<Group> open(const std::string& name, const std::string& key,
                              const std::vector<int>& ranks, int rank) override {
    return std::make_unique<ComposedGroup>(name, ranks, rank,
                                           make_shm_transport(link_, key, ranks, rank), common());
  }

  std::shared_ptr<ShmLink> link_;
};

}  // namespace

std::unique_ptr<World> make_shm_world(std::shared_ptr<ShmLink> link) {
  return std::make_unique<ShmWorld>(std::move(link));
}

}  // namespace trireme::comm
