// World: all ranks of a run and how they come together; makes groups and exchanges small texts.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/algorithm/algorithm.h"
#include "trireme/comm/group.h"
#include "trireme/comm/rank_common.h"

namespace trireme::comm {

// One rank's handle on the world. Used by one thread; abort() and cause() by any.
class World {
 public:
  virtual ~World() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }
  // Carrier of the data: "shared memory".
  virtual std::string_view via() const = 0;
  // That of a group of these ranks, and how sums go where some of them share a host.
  virtual std::string_view via(const std::vector<int>& ranks) const { return via(); }
  // Bytes that this rank has handed to the network so far.
  virtual std::int64_t network_bytes() const { return 0; }

  // This rank's handle on the group of `ranks` (world ranks; their order is the group's rank order).
  // Every rank of the group calls it with the same name and list, in the same order among the groups
  // they share. Groups go before their world. Throws Error{kInternal} on a bad list, Error{kUsage} where the ranks and
  // their hosts do not allow the chosen algorithm.
  std::unique_ptr<Group> make_group(const std::string& name, const std::vector<int>& ranks,
                                    const algorithm::Choice& choice = {});
  // The same for buffers in host memory, wherever make_group()'s are.
  std::unique_ptr<Group> make_host_group(const std::string& name, const std::vector<int>& ranks);

  // Activity of this rank. record_in() moves the record elsewhere, before any group is made.
  watch::Recorder& flight() const { return *common_->flight; }
  void record_in(std::shared_ptr<watch::Recorder> recorder);

  // Every rank's text, by rank; every rank must call it (plan digests, config digests).
  std::vector<std::string> exchange(const std::string& mine);

  // As Group::abort.
  virtual void abort(const std::string& cause) = 0;
  // Why the world was aborted; empty while it is healthy.
  virtual std::optional<std::string> cause() = 0;
  // Asks the agent that started this world; throws Error{kPeerLost} if it has started another since. Any thread may
  // call it.
  virtual void check_current() {}

 protected:
  World(int rank, int size);
  const std::shared_ptr<RankCommon>& common() const { return common_; }
  // `key` is unique to the group among all groups of the world and equal on all its ranks; `rank` is
  // this rank's position.
  virtual std::unique_ptr<Group> open(const std::string& name, const std::string& key,
                                      const std::vector<int>& ranks, int rank,
                                      const algorithm::Choice& choice) = 0;
  // As open(), for buffers in host memory where open()'s are elsewhere.
  virtual std::unique_ptr<Group> open_host(const std::string& name, const std::string& key,
                                           const std::vector<int>& ranks, int rank) {
    return open(name, key, ranks, rank, {});
  }

 private:
  // This rank's position in a checked list of ranks.
  int position_in(const std::string& name, const std::vector<int>& ranks) const;
  std::string new_key(const std::string& name, const std::vector<int>& ranks);

  int rank_;
  int size_;
  std::shared_ptr<RankCommon> common_ = std::make_shared<RankCommon>();
  std::map<std::string, int> made_;
  std::unique_ptr<Group> exchange_;
};

}  // namespace trireme::comm
