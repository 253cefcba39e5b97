#include "trireme/launch/watch/recorder.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/launch/watch/witness.h"

namespace trireme::watch {
namespace {

constexpr std::uint32_t kOutOfMemory = ~std::uint32_t{0};

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <std::size_t N>
void write(char (&to)[N], std::string_view text) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), length);
  std::memset(to + length, 0, N - length);
}

// The name, or a form that distinguishes it from others with the same beginning: a reader matches tracks of two ranks
// by name.
std::string fitting(std::string_view name) {
  constexpr std::size_t kMost = sizeof(Track::name) - 1, kDigits = 8;
  if (name.size() <= kMost) return std::string(name);
  return std::string(name.substr(0, kMost - kDigits - 1)) + "~" +
         hex64(hash64(name)).substr(0, kDigits);
}

void* map(int descriptor, int protection, int flags) {
  struct stat facts {};
  if (descriptor >= 0 && (::fstat(descriptor, &facts) != 0 || facts.st_size != sizeof(Area)))
    fail(ErrorKind::kUsage,
         "descriptor {} is not a flight record; only what an agent starts has one", descriptor);
  void* const memory = ::mmap(nullptr, sizeof(Area), protection, flags, descriptor, 0);
  TRIREME_CHECK(memory != MAP_FAILED, "flight record: mmap of {} bytes: {}", sizeof(Area),
                std::strerror(errno));
  return memory;
}

}  // namespace

Recorder::Recorder()
    : area_(static_cast<Area*>(
          map(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE))) {
  identify(0, 1);
}

Recorder::Recorder(int descriptor)
    : area_(static_cast<Area*>(map(descriptor, PROT_READ | PROT_WRITE, MAP_SHARED))) {
  identify(0, 1);
}

Recorder::~Recorder() { ::munmap(area_, sizeof(Area)); }

void Recorder::identify(int rank, int world) {
  area_->version = kVersion;
  area_->rank = rank;
  area_->world = world;
  area_->process = ::getpid();
  area_->line.store(-1);
}

void Recorder::enter(Phase phase, std::int64_t step) {
  // In this order: a reader of the new phase, and then of the moves, does not attribute the old phase's silence to the
  // new one.
  area_->moves.fetch_add(1, std::memory_order_relaxed);
  area_->step.store(step, std::memory_order_release);
  area_->phase.store(static_cast<std::uint8_t>(phase), std::memory_order_release);
  if (witness_ != nullptr) [[unlikely]]
    report(-1, "", 0, false);
}

// Out of line: what every line and operation pays is one branch.
__attribute__((noinline, cold)) void Recorder::report(int track, const char* what,
                                                      std::uint64_t sequence, bool ended,
                                                      std::optional<std::uint64_t> chunk) {
  const auto group = track < 0 ? std::string_view() : std::string_view(area_->track[track].name);
  witness_->see({.phase = static_cast<Phase>(area_->phase.load()),
                 .step = area_->step.load(),
                 .line = area_->line.load(),
                 .what = what,
                 .group = group,
                 .sequence = sequence,
                 .chunk = chunk,
                 .ended = ended});
}

void Recorder::report_chunk(int index) {
  const Track& track = area_->track[index];
  report(index, track.what, track.sequence, false, track.chunks.load());
}

// Words are never given back: what is written stays where a reader has found it.
std::uint32_t Recorder::reserve(std::size_t bytes) {
  const std::size_t size = (bytes + 7) / 8 * 8;
  std::uint32_t used = area_->words_used.load();
  do {
    if (size > kWords - used) return kOutOfMemory;
  } while (!area_->words_used.compare_exchange_weak(used, used + static_cast<std::uint32_t>(size)));
  return used;
}

int Recorder::describe(const std::vector<std::string>& lines) {
  const std::uint32_t number = area_->lists.load();
  const std::uint32_t table = reserve(lines.size() * sizeof(Text));
  if (number >= kLists || table == kOutOfMemory) return static_cast<int>(kLists);
  List& list = area_->described[number];
  list.texts_at = table;
  auto* const texts = reinterpret_cast<Text*>(area_->words + table);
  std::uint32_t count = 0;
  for (const std::string& line : lines) {
    const std::uint32_t at = reserve(line.size());
    if (at == kOutOfMemory) break;
    std::memcpy(area_->words + at, line.data(), line.size());
    texts[count++] = {at, static_cast<std::uint32_t>(line.size())};
  }
  list.lines.store(count, std::memory_order_release);
  area_->lists.store(number + 1);
  return static_cast<int>(number);
}

TRIREME_TORN std::uint64_t Recorder::record(const Record& what) {
  const std::uint64_t number = area_->recorded.fetch_add(1, std::memory_order_relaxed) + 1;
  Record& to = area_->record[number % kRecords];
  to.number.store(0, std::memory_order_relaxed);
  to.begin_ns = what.begin_ns;
  to.end_ns = 0;
  to.bytes = what.bytes;
  to.sequence = what.sequence;
  to.line = what.line;
  to.track = what.track;
  to.peer = what.peer;
  std::memcpy(to.what, what.what, sizeof to.what);
  to.number.store(number, std::memory_order_release);
  area_->moves.fetch_add(1, std::memory_order_release);
  return number;
}

void Recorder::begin_line(std::string_view what, int list, int line, int micro_batch) {
  Record begun{};
  begun.begin_ns = now_ns();
  begun.sequence = static_cast<std::uint64_t>(area_->step.load(std::memory_order_relaxed));
  begun.line = line;
  begun.track = -1;
  begun.peer = static_cast<std::int16_t>(list);
  write(begun.what, what);
  area_->list.store(list, std::memory_order_relaxed);
  area_->line.store(line, std::memory_order_relaxed);
  area_->micro_batch.store(micro_batch, std::memory_order_relaxed);
  line_record_ = record(begun);
  if (witness_ != nullptr) [[unlikely]]
    report(-1, begun.what, 0, false);
}

TRIREME_TORN void Recorder::end_line() {
  Record& mine = area_->record[line_record_ % kRecords];
  if (mine.number.load(std::memory_order_relaxed) == line_record_) mine.end_ns = now_ns();
  area_->line.store(-1, std::memory_order_relaxed);
  area_->moves.fetch_add(1, std::memory_order_release);
}

int Recorder::make_track(std::string_view name, const std::vector<int>& ranks) {
  const std::uint32_t members = reserve(ranks.size() * sizeof(std::int32_t));
  if (members == kOutOfMemory) return -1;
  std::uint32_t index = area_->tracks.load();
  do {
    if (index >= kTracks) return -1;
  } while (!area_->tracks.compare_exchange_weak(index, index + 1));
  auto* const list = reinterpret_cast<std::int32_t*>(area_->words + members);
  std::copy(ranks.begin(), ranks.end(), list);
  Track& track = area_->track[index];
  write(track.name, fitting(name));
  track.members_at = members;
  track.members = static_cast<std::uint32_t>(ranks.size());
  return static_cast<int>(index);
}

TRIREME_TORN void Recorder::begin(int index, const Doing& what) {
  if (index < 0) return;
  Track& track = area_->track[index];
  Record begun{};
  begun.begin_ns = now_ns();
  begun.bytes = what.bytes;
  begun.sequence = what.sequence;
  begun.line = what.line;
  begun.track = static_cast<std::int16_t>(index);
  begun.peer = static_cast<std::int16_t>(what.peer);
  write(begun.what, what.what);
  track.bytes = what.bytes;
  track.sequence = what.sequence;
  track.peer = what.peer;
  std::memcpy(track.what, begun.what, sizeof track.what);
  track.chunks.store(0, std::memory_order_relaxed);
  track.awaited.store(what.awaited, std::memory_order_relaxed);
  if (what.peer == kAllMembers) track.begun.store(what.sequence + 1, std::memory_order_relaxed);
  track.running.store(record(begun), std::memory_order_release);
  if (witness_ != nullptr) [[unlikely]]
    report(index, begun.what, what.sequence, false);
}

TRIREME_TORN void Recorder::end(int index) {
  if (index < 0) return;
  Track& track = area_->track[index];
  const std::uint64_t number = track.running.load(std::memory_order_relaxed);
  Record& mine = area_->record[number % kRecords];
  if (mine.number.load(std::memory_order_relaxed) == number) mine.end_ns = now_ns();
  track.running.store(0, std::memory_order_release);
  area_->moves.fetch_add(1, std::memory_order_release);
  if (witness_ != nullptr) [[unlikely]]
    report(index, track.what, track.sequence, true);
}

Waiting::Waiting(Recorder* recorder) : recorder_(recorder) {
  if (recorder_ == nullptr) return;
  since_ns_ = now_ns();
  recorder_->area_->waiting.fetch_add(1, std::memory_order_relaxed);
}

Waiting::~Waiting() {
  if (recorder_ == nullptr) return;
  recorder_->area_->waiting.fetch_sub(1, std::memory_order_relaxed);
  recorder_->waited_ns_.fetch_add(now_ns() - since_ns_, std::memory_order_relaxed);
}

os::Descriptor shared_area() {
  os::Descriptor memory(::memfd_create("trireme-flight", MFD_CLOEXEC));
  if (!memory.open() || ::ftruncate(memory.get(), sizeof(Area)) != 0)
    fail(ErrorKind::kUsage, "no memory for a rank's flight record: {}", std::strerror(errno));
  return memory;
}

void claim_area(int descriptor) {
  auto* const area = static_cast<Area*>(map(descriptor, PROT_READ | PROT_WRITE, MAP_SHARED));
  area->process = ::getpid();
  ::munmap(area, sizeof(Area));
}

std::shared_ptr<const Area> map_area(int descriptor) {
  return {static_cast<const Area*>(map(descriptor, PROT_READ, MAP_SHARED)),
          [](const Area* area) { ::munmap(const_cast<Area*>(area), sizeof(Area)); }};
}

}  // namespace trireme::watch
