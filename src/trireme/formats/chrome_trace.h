// Traces in Chrome's JSON format, as chrome://tracing, Perfetto and PyTorch's tools read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/base/fs.h"

namespace trireme::formats {

// A span on one row. Times are nanoseconds since the trace's base; a negative duration counts as 0.
struct TraceSpan {
  std::string_view name;
  std::string_view category;
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  int process = 0;  // a rank
  int thread = 0;   // a lane
  // Shown on selection; values that are whole numbers are given as such.
  std::vector<std::pair<std::string_view, std::string>> text_args{};
  std::vector<std::pair<std::string_view, std::int64_t>> number_args{};
};

// Collects events as text. Names may hold any bytes: invalid UTF-8 is replaced.
class ChromeTrace {
 public:
  // `base_ns`: what the events' times are relative to, nanoseconds since 1970.
  explicit ChromeTrace(std::int64_t base_ns = 0) : base_ns_(base_ns) {}

  // Rows appear in ascending `order`.
  void name_process(int process, std::string_view name, int order);
  void name_thread(int process, int thread, std::string_view name, int order);
  void span(const TraceSpan& span);
  // A point in time; it crosses all rows of the process.
  void instant(std::string_view name, std::int64_t at_ns, int process);
  // A value over time, drawn as a graph, one per process and name.
  void counter(std::string_view name, std::int64_t at_ns, int process, std::int64_t value);

  std::size_t events() const { return events_; }
  // The whole trace as one JSON object.
  std::string text() const;
  // Replaces the file atomically. Throws Error{kData}.
  void write(const Path& path) const;

 private:
  void put(std::string_view event);
  void put_metadata(const char* what, const char* key, int process, int thread,
                    const std::string& value);

  std::int64_t base_ns_;
  std::size_t events_ = 0;
  std::string body_;
};

}  // namespace trireme::formats
