#include "trireme/launch/faults/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/launch/watch/state.h"

namespace trireme::faults {
namespace {

using Names = std::vector<std::pair<std::string_view, int>>;

template <typename Enum>
constexpr int number(Enum value) {
  return static_cast<int>(value);
}

const Names kCalls = {{"fs", number(DiskCall::kAny)},
                      {"fs.create", number(DiskCall::kCreate)},
                      {"fs.write", number(DiskCall::kWrite)},
                      {"fs.fsync", number(DiskCall::kFsync)},
                      {"fs.close", number(DiskCall::kClose)},
                      {"fs.mkdir", number(DiskCall::kMakeDirectory)},
                      {"fs.sync_dir", number(DiskCall::kSyncDirectory)},
                      {"fs.rename", number(DiskCall::kRename)},
                      {"fs.unlink", number(DiskCall::kUnlink)},
                      {"fs.rmdir", number(DiskCall::kRemoveDirectory)}};
const Names kActions = {{"kill", number(Action::kKill)},   {"stop", number(Action::kStop)},
                        {"term", number(Action::kTerm)},   {"abort", number(Action::kAbort)},
                        {"exit", number(Action::kExit)},   {"delay", number(Action::kDelay)},
                        {"throw", number(Action::kThrow)}, {"error", number(Action::kError)},
                        {"short", number(Action::kShort)}, {"torn", number(Action::kTorn)},
                        {"lie", number(Action::kLie)},     {"flip", number(Action::kFlip)}};
const Names kErrors = {{"EACCES", EACCES}, {"EDQUOT", EDQUOT}, {"EFBIG", EFBIG},
                       {"EINTR", EINTR},   {"EIO", EIO},       {"ENOENT", ENOENT},
                       {"ENOSPC", ENOSPC}, {"EROFS", EROFS}};

std::string_view name_of(const Names& names, int value) {
  return std::ranges::find(names, value, &Names::value_type::second)->first;
}

constexpr std::string_view kDisk = "fs", kMemory = "mem";

// The disk call that "fs.write" or "mem.write" names; nothing where the key is another.
std::optional<DiskCall> call_of(std::string_view key) {
  const bool memory = key.starts_with(kMemory);
  const std::string name =
      memory ? fmt::format("{}{}", kDisk, key.substr(kMemory.size())) : std::string(key);
  const auto found = std::ranges::find(kCalls, name, &Names::value_type::first);
  if (found == kCalls.end()) return std::nullopt;
  return static_cast<DiskCall>(found->second);
}

std::string list(const Names& names) {
  std::string text;
  for (const auto& [name, value] : names) text += (text.empty() ? "" : " ") + std::string(name);
  return text;
}

constexpr std::string_view kBlank = " \t\r\n";

// A part of the whole text that knows its position.
class Piece {
 public:
  explicit Piece(std::string_view whole) : whole_(whole), text_(whole) {}

  std::string_view text() const { return text_; }
  bool empty() const { return text_.empty(); }

  // The text before the first of these characters, which is removed as well, or all.
  Piece take_to(std::string_view ends) {
    Piece part = *this;
    const std::size_t end = std::min(text_.find_first_of(ends), text_.size());
    part.text_ = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return part;
  }
  Piece trimmed() const {
    Piece part = *this;
    part.text_.remove_prefix(std::min(text_.find_first_not_of(kBlank), text_.size()));
    part.text_ = part.text_.substr(0, part.text_.find_last_not_of(kBlank) + 1);
    return part;
  }

  // The text before this ending, if it ends so.
  std::optional<Piece> before(std::string_view ending) const {
    if (!text_.ends_with(ending)) return std::nullopt;
    Piece part = *this;
    part.text_.remove_suffix(ending.size());
    return part;
  }

  [[noreturn]] void refuse(std::string_view needs) const {
    constexpr std::size_t kShown = 60;
    fail(ErrorKind::kUsage, "--faults, character {}: '{}'; {}", text_.data() - whole_.data() + 1,
         text_.substr(0, kShown), needs);
  }

  std::uint64_t whole_number(std::uint64_t least, std::uint64_t most) const {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || end != text_.data() + text_.size() || value < least || value > most)
      refuse(fmt::format("needs a whole number from {} to {}", least, most));
    return value;
  }
  int one_of(const Names& names) const {
    const auto found = std::ranges::find(names, text_, &Names::value_type::first);
    if (found == names.end()) refuse("needs one of: " + list(names));
    return found->second;
  }
  std::string word() const {
    if (text_.empty() || text_.find_first_of(kBlank) != std::string_view::npos)
      refuse("needs a name");
    return std::string(text_);
  }

 private:
  std::string_view whole_, text_;
};

constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMostLines = std::numeric_limits<int>::max(), kMostRanks = 1 << 20;

Names phases() {
  Names names;
  for (int i = 0; i < watch::kPhases; ++i)
    names.emplace_back(watch::name(static_cast<watch::Phase>(i)), i);
  return names;
}
const Names kStages = {{"process", 0}, {"store", 0}, {"ranks", 0}, {"links", 0}, {"mesh", 0}};

// All conditions but disk calls, in the order of the text: at.number(key, member, least, most), at.word(key, member,
// names that are accepted, or any), at.phase and at.generation.
template <typename Given, typename At>
void each_condition(Given& fault, At& at) {
  at.number("rank", fault.rank, 0, kMostRanks);
  at.generation("generation", fault.each_generation, fault.generation);
  at.word("start", fault.start, &kStages);
  at.phase("phase", fault.phase);
  at.number("step", fault.step, 0, kLargest);
  at.number("line", fault.line, 0, kMostLines);
  at.word("what", fault.what, nullptr);
  at.word("group", fault.group, nullptr);
  at.number("op", fault.op, 0, kLargest);
  at.number("op-end", fault.ended, 0, kLargest);
  at.number("chunk", fault.chunk, 0, kLargest);
}

// Reads the one condition that the text names.
struct ReadCondition {
  std::string_view key;
  const Piece& value;
  std::string keys{};  // seen on the way
  bool found = false;

  bool is(std::string_view name) {
    keys += fmt::format("{}{}", keys.empty() ? "" : " ", name);
    found = found || name == key;
    return name == key;
  }
  template <typename T>
  void number(std::string_view name, std::optional<T>& member, std::uint64_t least,
              std::uint64_t most) {
    if (is(name)) member = static_cast<T>(value.whole_number(least, most));
  }
  void generation(std::string_view name, bool& each, std::optional<std::uint64_t>& member) {
    if (!is(name)) return;
    each = value.text() == "each";
    if (!each) member = value.whole_number(1, kLargest);
  }
  void word(std::string_view name, std::string& member, const Names* names) {
    if (!is(name)) return;
    if (names) value.one_of(*names);
    member = value.word();
  }
  void phase(std::string_view name, std::optional<watch::Phase>& member) {
    if (is(name)) member = static_cast<watch::Phase>(value.one_of(phases()));
  }
};

struct PrintConditions {
  std::string text{};

  template <typename T>
  void add(std::string_view key, const T& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  }
  template <typename T>
  void number(std::string_view key, const std::optional<T>& member, std::uint64_t, std::uint64_t) {
    if (member) add(key, *member);
  }
  void generation(std::string_view key, bool each, const std::optional<std::uint64_t>& member) {
    if (each) add(key, "each");
    if (member) add(key, *member);
  }
  void word(std::string_view key, const std::string& member, const Names*) {
    if (!member.empty()) add(key, member);
  }
  void phase(std::string_view key, const std::optional<watch::Phase>& member) {
    if (member) add(key, watch::name(*member));
  }
};

void read_condition(const Piece& condition, Fault& fault) {
  Piece value = condition;
  const std::string_view key = value.take_to("=").text();
  if (const std::optional<DiskCall> call = call_of(key)) {
    if (fault.call) condition.refuse("a fault is at one disk call");
    fault.call = call;
    fault.in_memory = key.starts_with(kMemory);
    fault.nth = value.whole_number(1, kLargest);
    return;
  }
  ReadCondition read{.key = key, .value = value};
  each_condition(fault, read);
  if (!read.found)
    condition.refuse(
        fmt::format("no such condition; needs one of: {} fs fs.CALL mem mem.CALL, each with =VALUE",
                    read.keys));
}

void read_action(const Piece& action, Fault& fault) {
  constexpr std::uint64_t kLongest = 3'600'000;  // ms
  Piece value = action;
  fault.action = static_cast<Action>(value.take_to("=").one_of(kActions));
  switch (fault.action) {
    case Action::kExit: fault.amount = static_cast<std::int64_t>(value.whole_number(0, 255)); break;
    case Action::kDelay: {
      const auto number = value.before("ms");
      if (!number) value.refuse("needs milliseconds, as in delay=300ms");
      fault.amount = static_cast<std::int64_t>(number->whole_number(0, kLongest));
      break;
    }
    case Action::kError: fault.amount = value.one_of(kErrors); break;
    case Action::kShort:
      fault.amount = static_cast<std::int64_t>(value.whole_number(1, kLargest));
      break;
    case Action::kTorn:
      fault.amount = static_cast<std::int64_t>(value.whole_number(0, kLargest));
      break;
    default:
      if (!value.empty()) action.refuse("this action takes no value");
  }
}

// What can never hold together is a mistake.
void check(const Piece& all, const Fault& fault) {
  const bool in_group = fault.op || fault.ended || fault.chunk || !fault.group.empty();
  const bool in_step = in_group || fault.line || !fault.what.empty();
  const bool in_run = in_step || fault.step || fault.phase || fault.call;
  if (fault.start.empty() && !in_run)
    all.refuse("says where by none of: start phase step line what group op op-end chunk fs mem");
  if (!fault.start.empty() && in_run)
    all.refuse("at the start there is no step, line, operation or checkpoint yet");
  if (fault.call && in_step) all.refuse("a disk call has no line and no operation");
  if (fault.op && fault.ended) all.refuse("op is as it begins, op-end as it ends: give one");
  if (fault.chunk && fault.ended) all.refuse("an operation that has ended is at no chunk: give op");
  if (fault.action >= Action::kError && !fault.call)
    all.refuse("error, short, torn, lie and flip happen at a disk call: give fs, fs.CALL or mem");
  if (fault.action > Action::kError && fault.call != DiskCall::kWrite)
    all.refuse("short, torn, lie and flip happen to a write: give fs.write or mem.write");
}

}  // namespace

std::vector<Fault> parse(std::string_view text) {
  std::vector<Fault> faults;
  for (Piece rest(text); !rest.empty();) {
    const Piece all = rest.take_to(";").trimmed();
    if (all.empty()) continue;
    Piece action = all;
    Piece conditions = action.take_to(":").trimmed();
    if (action.empty()) all.refuse("needs CONDITIONS: ACTION");
    Fault fault;
    while (!conditions.empty()) {
      const Piece condition = conditions.take_to(kBlank);
      conditions = conditions.trimmed();
      if (!condition.empty()) read_condition(condition, fault);
    }
    read_action(action.trimmed(), fault);
    check(all, fault);
    faults.push_back(std::move(fault));
  }
  return faults;
}

std::string print(const Fault& fault) {
  PrintConditions all;
  each_condition(fault, all);
  if (fault.call) {
    const std::string_view name = name_of(kCalls, number(*fault.call));
    all.add(fmt::format("{}{}", fault.in_memory ? kMemory : kDisk, name.substr(kDisk.size())),
            fault.nth);
  }
  std::string text = std::move(all.text);
  text += fmt::format(": {}", name_of(kActions, number(fault.action)));
  if (fault.action == Action::kError)
    text += fmt::format("={}", name_of(kErrors, static_cast<int>(fault.amount)));
  else if (fault.action == Action::kDelay)
    text += fmt::format("={}ms", fault.amount);
  else if (fault.action == Action::kExit || fault.action == Action::kShort ||
           fault.action == Action::kTorn)
    text += fmt::format("={}", fault.amount);
  return text;
}

}  // namespace trireme::faults
