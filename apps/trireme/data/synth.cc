// trireme data synth.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <string_view>

#include "apps/trireme/commands.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/data/synthetic/make.h"

namespace trireme::app {
namespace {

struct Sides {
  int first = 0;
  int second = 0;
};

// "64", or two of them with `between` in the middle.
Sides parse_sides(std::string_view text, char between, const char* needed) {
  const auto number = [&](std::string_view part) {
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size())
      fail(ErrorKind::kUsage, "--size {}: needed is {}", text, needed);
    return value;
  };
  const std::size_t at = text.find(between);
  const int first = number(text.substr(0, at));
  return {first, at == text.npos ? first : number(text.substr(at + 1))};
}

template <typename Value, typename Given>
void take(Value& value, const Given& given) {
  if (given) value = *given;
}
void take(std::string& value, const std::string& given) {
  if (!given.empty()) value = given;
}

template <typename Options>
void take_frames(Options& options, const SynthOptions& given) {
  if (!given.size.empty()) {
    const Sides sides = parse_sides(given.size, 'x', "WIDTHxHEIGHT, such as 64x48");
    options.width = sides.first;
    options.height = sides.second;
  }
  take(options.frames, given.frames);
  take(options.fps, given.fps);
  take(options.format, given.format);
}

void make(const SynthOptions& given, const synthetic::Common& common) {
  if (given.kind == "text") {
    synthetic::TextOptions options{.common = common};
    take(options.task, given.task);
    take(options.length, given.length);
    return make_text(options);
  }
  if (given.kind == "vlm") {
    synthetic::VlmOptions options{.common = common};
    if (!given.size.empty()) {
      const Sides sides = parse_sides(given.size, ':', "a side or MIN:MAX, such as 48:96");
      options.min_size = sides.first;
      options.max_size = sides.second;
    }
    take(options.aspect, given.aspect);
    take(options.objects, given.objects);
    take(options.questions, given.questions);
    take(options.format, given.format);
    take(options.shard, given.shard);
    return make_vlm(options);
  }
  if (given.kind == "video") {
    synthetic::VideoOptions options{.common = common};
    take_frames(options, given);
    take(options.shard, given.shard);
    return make_video(options);
  }
  synthetic::ArmOptions options{.common = common};
  take_frames(options, given);
  make_arm(options);
}

}  // namespace

int data_synth(const SynthOptions& options) {
  synthetic::Common common{.out = options.out,
                           .count = options.count,
                           .validation = options.validation,
                           .seed = static_cast<std::uint64_t>(options.seed)};
  const bool terminal = ::isatty(1);
  const Stopwatch since_start;
  Stopwatch since_drawn;
  std::int64_t made = 0;
  common.progress = [&](std::int64_t done, std::int64_t of) {
    made = done;
    constexpr double kRedraw = 0.1;
    if (!terminal || since_drawn.seconds() < kRedraw) return;
    since_drawn.restart();
    fmt::print("\r{}/{} samples\x1b[K", done, of);
    std::fflush(stdout);
  };
  make(options, common);
  fmt::print("{}{} samples in {}, {:.1f} s\n", terminal ? "\r\x1b[K" : "", made, options.out,
             since_start.seconds());
  return 0;
}

}  // namespace trireme::app
