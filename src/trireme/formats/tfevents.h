// TensorBoard event files: scalars, appended record by record.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trireme/base/append_file.h"
#include "trireme/base/fs.h"

namespace trireme::formats {

// CRC-32C (Castagnoli) of bytes; crc32c("123456789") = 0xE3069283.
std::uint32_t crc32c(std::string_view bytes);

// Parts of the name of an event file; TensorBoard finds files by this name.
struct EventFileName {
  std::int64_t unix_seconds = 0;
  std::string host;
  std::int64_t process = 0;

  // "events.out.tfevents.<seconds>.<host>.<process>.0"
  std::string str() const;
};

// One writer of one new file. Records reach the file at flush() and at destruction.
class EventFileWriter {
 public:
  // Creates the file in `directory`; it must not exist. Throws Error{kData} naming path and cause.
  EventFileWriter(const Path& directory, const EventFileName& name);
  ~EventFileWriter() { flush(); }
  EventFileWriter(const EventFileWriter&) = delete;
  EventFileWriter& operator=(const EventFileWriter&) = delete;

  // `wall_time` in seconds since 1970. Tags are spelled "train/loss". TensorBoard shows the description that the first
  // scalar of a tag has.
  void add_scalar(std::string_view tag, double value, std::int64_t step, double wall_time,
                  std::string_view description = {});

  // Scalars of this step and later ones that were added before are no longer shown.
  void forget_from(std::int64_t step, double wall_time);

  // On a full disk records wait in memory (base/append_file.h).
  void flush();

  const Path& path() const { return path_; }

 private:
  void put(std::string_view event);

  Path path_;
  std::string unwritten_;
  std::optional<AppendFile> file_;
};

}  // namespace trireme::formats
