#include "trireme/checkpoint/parcels.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/os/durable.h"
#include "trireme/formats/digest.h"

namespace trireme::checkpoint {
namespace {

constexpr std::int64_t kPiece = std::int64_t{4} << 20;  // bytes on their way at a time
constexpr std::chrono::milliseconds kPause(1);          // between looks whether they are there

// One parcel at one of its ends, segment by segment. A failure of its file is kept for later: the other end continues.
class Moving {
 public:
  Moving(const Parcel& parcel, bool sends, comm::Group& lane, const Path& directory,
         os::FileSystem& files)
      : parcel_(parcel),
        sends_(sends),
        lane_(lane),
        path_(directory / parcel.file.name),
        files_(files),
        piece_(static_cast<std::size_t>(std::min(kPiece, parcel.file.size))) {
    guarded([&] {
      if (sends_) {
        contents_ = files_.read(path_);
        if (std::ssize(contents_->bytes()) != parcel_.file.size)
          fail(ErrorKind::kData, "{}: has another size than was announced", path_.string());
      } else {
        os::remove_tree(files_, path_);  // of an earlier try
        written_.emplace(files_, path_);
      }
    });
    next();
  }
  // After a failure elsewhere the lane owns the segment until it has returned it.
  ~Moving() {
    while (under_way_ && !ticket_.done()) std::this_thread::sleep_for(kPause);
  }

  // Continues with received or sent segments. Returns whether there were any.
  bool advance() {
    if (!under_way_ || !ticket_.done()) return false;
    ticket_.wait();  // throws where the world is lost
    if (!sends_) guarded([&] { written_->write(std::span(piece_).first(here())); });
    at_ += static_cast<std::int64_t>(here());
    next();
    return true;
  }
  bool ended() const { return !under_way_; }
  const std::string& problem() const { return problem_; }

 private:
  std::size_t here() const {
    return static_cast<std::size_t>(std::min(kPiece, parcel_.file.size - at_));
  }

  void next() {
    under_way_ = at_ < parcel_.file.size;
    if (!under_way_) return guarded([&] { finish(); });
    const auto count = static_cast<std::int64_t>(here());
    if (!sends_) {
      ticket_ = lane_.recv({piece_.data(), count, DType::kU8}, 0);
      return;
    }
    if (contents_)
      std::ranges::copy(contents_->bytes().subspan(static_cast<std::size_t>(at_), here()),
                        piece_.begin());
    ticket_ = lane_.send({piece_.data(), count, DType::kU8}, 1);
  }

  void finish() {
    if (sends_) return;
    written_->finish();
    written_.reset();
    if (formats::hash_of(*files_.read(path_)) != parcel_.file.hash)
      fail(ErrorKind::kData, "{}: the bytes from rank {} differ from those written there",
           path_.string(), parcel_.from);
  }

  template <typename Body>
  void guarded(const Body& body) {
    if (!problem_.empty()) return;
    try {
      body();
    } catch (const std::exception& error) {
      problem_ = error.what();
      contents_.reset();
      written_.reset();
    }
  }

  const Parcel& parcel_;
  bool sends_;
  comm::Group& lane_;
  Path path_;
  os::FileSystem& files_;
  std::unique_ptr<os::Contents> contents_;
  std::optional<os::NewFile> written_;
  std::vector<std::byte> piece_;
  comm::Ticket ticket_;
  std::int64_t at_ = 0;  // bytes
  bool under_way_ = false;
  std::string problem_;
};

}  // namespace

void Parcels::open(const std::vector<Parcel>& parcels) {
  for (const Parcel& parcel : parcels) {
    if (world_.rank() != parcel.from && world_.rank() != parcel.to) continue;
    std::unique_ptr<comm::Group>& lane = lanes_[{parcel.from, parcel.to}];
    if (!lane) lane = world_.make_host_group("parcels", {parcel.from, parcel.to});
  }
}

void Parcels::move(const std::vector<Parcel>& parcels, const Path& directory,
                   os::FileSystem& files) {
  // Parcels of a lane move one after the other, lanes at the same time: two ranks may send to each other at once.
  std::map<std::pair<int, int>, std::deque<const Parcel*>> waiting;
  for (const Parcel& parcel : parcels)
    if (world_.rank() == parcel.from || world_.rank() == parcel.to)
      waiting[{parcel.from, parcel.to}].push_back(&parcel);
  std::map<std::pair<int, int>, std::unique_ptr<Moving>> moving;
  std::string problem;
  while (!waiting.empty()) {
    bool moved = false;
    for (auto lane = waiting.begin(); lane != waiting.end();) {
      auto& [way, queue] = *lane;
      std::unique_ptr<Moving>& one = moving[way];
      if (!one)
        one = std::make_unique<Moving>(*queue.front(), way.first == world_.rank(), *lanes_.at(way),
                                       directory, files);
      moved = one->advance() || moved;
      if (one->ended()) {
        if (problem.empty()) problem = one->problem();
        one.reset();
        queue.pop_front();
        moved = true;
      }
      lane = queue.empty() ? waiting.erase(lane) : std::next(lane);
    }
    // Asking, unlike waiting, does not count as time in which training waits for others.
    if (!moved) std::this_thread::sleep_for(kPause);
  }
  if (!problem.empty()) fail(ErrorKind::kData, "{}", problem);
}

}  // namespace trireme::checkpoint
