// Parcels: files that travel between ranks during training, over lanes of their own.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/os/file_system.h"
#include "trireme/comm/world.h"
#include "trireme/formats/manifest.h"

namespace trireme::checkpoint {

struct Parcel {
  int from = 0, to = 0;  // ranks
  formats::ManifestFile file{};
};

// One rank's part in them.
class Parcels {
 public:
  explicit Parcels(comm::World& world) : world_(world) {}

  // Opens the lanes that are not open yet. By each rank's main thread; every rank gives the same parcels.
  void open(const std::vector<Parcel>& parcels);
  // Sends this rank's files from DIRECTORY and writes received ones there; returns when all transfers have ended. Any
  // thread may call it, and all ranks of a parcel do so at about the same time. A failure of this rank's files does not
  // delay the others: it is thrown at the end, Error{kData}. A received file that differs from the manifest counts as a
  // failure.
  void move(const std::vector<Parcel>& parcels, const Path& directory, os::FileSystem& files);

 private:
  comm::World& world_;
  std::map<std::pair<int, int>, std::unique_ptr<comm::Group>> lanes_;  // by ranks from and to
};

}  // namespace trireme::checkpoint
