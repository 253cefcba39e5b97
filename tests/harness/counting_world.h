// A world whose groups count what goes through them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/counting_group.h"
#include "trireme/comm/world.h"

namespace trireme::harness {

class CountingWorld : public comm::World {
 public:
  explicit CountingWorld(comm::World& inner) : World(inner.rank(), inner.size()), inner_(inner) {}
  std::string_view via() const override { return inner_.via(); }
  void abort(const std::string& cause) override { inner_.abort(cause); }
  std::optional<std::string> cause() override { return inner_.cause(); }

  // What was submitted since the last call to groups whose names begin so; they must live.
  std::vector<comm::CountingGroup::Entry> take(const std::string& prefix) {
    std::vector<comm::CountingGroup::Entry> all;
    for (auto& [name, group] : groups_) {
      if (!name.starts_with(prefix)) continue;
      const auto entries = group->take();
      all.insert(all.end(), entries.begin(), entries.end());
    }
    return all;
  }

  // Bytes that this rank sent to others through them since the last call.
  std::int64_t take_bytes_sent(const std::string& prefix) {
    std::int64_t bytes = 0;
    for (auto& [name, group] : groups_)
      if (name.starts_with(prefix)) bytes += group->take_bytes_sent();
    return bytes;
  }

 private:
  struct Owning : private std::unique_ptr<comm::Group>, public comm::CountingGroup {
    explicit Owning(std::unique_ptr<comm::Group> inner)
        : std::unique_ptr<comm::Group>(std::move(inner)),
          comm::CountingGroup(**static_cast<std::unique_ptr<comm::Group>*>(this)) {}
  };

  std::unique_ptr<comm::Group> open(const std::string& name, const std::string& key,
                                    const std::vector<int>& ranks, int rank,
                                    const algorithm::Choice& choice) override {
    auto group = std::make_unique<Owning>(inner_.make_group(name, ranks, choice));
    groups_[name] = group.get();
    return group;
  }

  comm::World& inner_;
  std::map<std::string, comm::CountingGroup*> groups_;
};

}  // namespace trireme::harness
