// Segment: memory that processes of one host share, and that is gone with the last of them.
#pragma once

#include <cstddef>
#include <string>

namespace trireme::comm {

// An anonymous file in memory, mapped; new ones hold zeros. It never has a name, so that nothing is left over after any
// end of a process.
class Segment {
 public:
  // Throws Error{kUsage} where the host refuses.
  explicit Segment(std::size_t bytes);
  // Opens another process's (or this one's) by its path: /proc/PROCESS/fd/FILE, as long as the object
  // there lives. Throws Error{kUsage}.
  explicit Segment(const std::string& path);
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  std::byte* data() const { return data_; }
  int file() const { return fd_; }

  // Marks byte `place` as this object's until it or its process ends, however that comes about. Only
  // one object may take a place.
  void take(int place);
  // Whether some other object, of any process, has taken the place.
  bool taken(int place) const;

 private:
  void map();
  int fd_ = -1;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace trireme::comm
