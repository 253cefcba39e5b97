#include "trireme/formats/chrome_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trireme/base/json.h"

namespace trireme::formats {
namespace {

std::string quoted_json(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Microseconds with three decimals, exactly: a double would lose nanoseconds of a long run.
std::string micros(std::int64_t ns) {
  const char* sign = ns < 0 ? "-" : "";
  const std::uint64_t size =
      ns < 0 ? ~static_cast<std::uint64_t>(ns) + 1 : static_cast<std::uint64_t>(ns);
  return fmt::format("{}{}.{:03}", sign, size / 1000, size % 1000);
}

}  // namespace

void ChromeTrace::put(std::string_view event) {
  body_ += events_++ == 0 ? "\n" : ",\n";
  body_ += event;
}

void ChromeTrace::put_metadata(const char* what, const char* key, int process, int thread,
                               const std::string& value) {
  put(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"{}":{}}}}})", what, process,
                  thread, key, value));
}

void ChromeTrace::name_process(int process, std::string_view name, int order) {
  put_metadata("process_name", "name", process, 0, quoted_json(name));
  put_metadata("process_sort_index", "sort_index", process, 0, std::to_string(order));
}

void ChromeTrace::name_thread(int process, int thread, std::string_view name, int order) {
  put_metadata("thread_name", "name", process, thread, quoted_json(name));
  put_metadata("thread_sort_index", "sort_index", process, thread, std::to_string(order));
}

void ChromeTrace::span(const TraceSpan& span) {
  std::string args;
  for (const auto& [key, value] : span.text_args)
    args += fmt::format("{}{}:{}", args.empty() ? "" : ",", quoted_json(key), quoted_json(value));
  for (const auto& [key, value] : span.number_args)
    args += fmt::format("{}{}:{}", args.empty() ? "" : ",", quoted_json(key), value);
  put(fmt::format(
      R"({{"ph":"X","name":{},"cat":{},"ts":{},"dur":{},"pid":{},"tid":{},"args":{{{}}}}})",
      quoted_json(span.name), quoted_json(span.category), micros(span.start_ns),
      micros(std::max<std::int64_t>(span.duration_ns, 0)), span.process, span.thread, args));
}

void ChromeTrace::instant(std::string_view name, std::int64_t at_ns, int process) {
  put(fmt::format(R"({{"ph":"i","name":{},"ts":{},"pid":{},"tid":0,"s":"p"}})", quoted_json(name),
                  micros(at_ns), process));
}

void ChromeTrace::counter(std::string_view name, std::int64_t at_ns, int process,
                          std::int64_t value) {
  put(fmt::format(R"({{"ph":"C","name":{},"ts":{},"pid":{},"args":{{"value":{}}}}})",
                  quoted_json(name), micros(at_ns), process, value));
}

std::string ChromeTrace::text() const {
  return fmt::format(
             "{{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":{},"
             "\"traceEvents\":[",
             base_ns_) +
         body_ + "\n]}\n";
}

void ChromeTrace::write(const Path& path) const { replace_file(path, text()); }

}  // namespace trireme::formats
