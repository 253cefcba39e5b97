#include "trireme/launch/islands/tape.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/os/descriptor.h"
#include "trireme/formats/json_fields.h"

namespace trireme::islands {
namespace {

constexpr std::int64_t kVersion = 2;
constexpr const char* kFormat = "trireme islands";
constexpr const char* kRecipeName = "recipe.json";
constexpr const char* kOwnerName = "island";  // its number
constexpr const char* kRemedy = "read it with the version of Trireme that wrote it";
constexpr std::array<const char*, 4> kKinds = {"term", "join", "leave", "merge"};

Json applied_json(const std::vector<Applied>& applied) {
  Json list = Json::array();
  for (const Applied& one : applied) list.push_back(Json::array({one.entry, one.when}));
  return list;
}

std::vector<Applied> applied_from(const Json& list, const std::string& where) {
  std::vector<Applied> applied;
  for (const Json& one : list) {
    if (!one.is_array() || one.size() != 2)
      fail(ErrorKind::kData, "{}: {}; needs an entry and a time", where, one.dump());
    applied.push_back({.entry = formats::json_integer(one[0], where),
                       .when = formats::json_integer(one[1], where)});
  }
  return applied;
}

constexpr std::int64_t kMostIslands = 1 << 20;

std::vector<Pace> paces_from(const Json& list, const std::string& where) {
  std::vector<Pace> paces;
  for (const Json& one : list) {
    if (!one.is_array() || one.size() != 2)
      fail(ErrorKind::kData, "{}: {}; needs an island and its pace", where, one.dump());
    paces.push_back(
        {.island = static_cast<int>(formats::json_integer(one[0], where, 0, kMostIslands)),
         .thousandths = static_cast<int>(formats::json_integer(one[1], where, 0, 1000))});
  }
  return paces;
}

Contribution contribution_from(const Json& json, const std::string& where) {
  const formats::JsonFields fields(json, where);
  fields.only({"island", "run", "step", "weight", "digest", "applied"});
  return {.island = static_cast<int>(fields.integer("island", 0, kMostIslands)),
          .run = fields.string("run"),
          .step = fields.integer("step"),
          .weight = fields.number("weight"),
          .digest = fields.hex("digest"),
          .applied = applied_from(fields.array("applied"), where)};
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> read_blob(const Path& path, std::uint64_t digest) {
  const MappedFile file(path, Symlinks::kRefuse);
  const std::span<const std::byte> bytes = file.bytes();
  if (hash64(bytes) != digest)
    fail(ErrorKind::kData, "{}: its digest is {}, the tape has {}; restore it from a copy",
         path.string(), hex64(hash64(bytes)), hex64(digest));
  return {bytes.begin(), bytes.end()};
}

// What is there from a merge that was not written down is replaced.
void write_blob(const Path& path, std::span<const std::byte> bytes) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  write_file_synced(path, text_of(bytes));
}

}  // namespace

std::string print(const Entry& entry, std::int64_t index, std::uint64_t before) {
  Json json{{"format", kFormat},
            {"version", kVersion},
            {"entry", index},
            {"kind", kKinds[static_cast<std::size_t>(entry.kind)]},
            {"term", entry.term}};
  if (entry.kind == Entry::Kind::kMerge) {
    json["fragment"] = entry.fragment;
    json["round"] = entry.round;
    json["from"] = Json::array();
    for (const Contribution& one : entry.from)
      json["from"].push_back({{"island", one.island},
                              {"run", one.run},
                              {"step", one.step},
                              {"weight", one.weight},
                              {"digest", hex64(one.digest)},
                              {"applied", applied_json(one.applied)}});
    json["mean"] = hex64(entry.mean);
    json["paces"] = Json::array();
    for (const Pace& one : entry.paces)
      json["paces"].push_back(Json::array({one.island, one.thousandths}));
  } else if (entry.kind != Entry::Kind::kTerm) {
    json["island"] = entry.island;
    json["run"] = entry.run;
    json["step"] = entry.step;
    if (entry.kind == Entry::Kind::kJoin) {
      json["position"] = entry.position;
      json["islands"] = entry.islands;
      json["ranks"] = entry.ranks;
      json["resumes"] = entry.resumes;
      json["state"] = hex64(entry.state);
      json["machine"] = entry.machine;
      json["job"] = entry.job;
    }
    json["applied"] = applied_json(entry.applied);
  }
  json["before"] = hex64(before);
  return json.dump();
}

std::uint64_t before_of(const std::string& line, const std::string& where) {
  const Json json = parse_json(line, where);
  return formats::JsonFields(json, where).hex("before");
}

Entry parse_entry(const std::string& line, std::int64_t index, std::uint64_t before,
                  const std::string& where) {
  const Json json = parse_json(line, where);
  const formats::JsonFields fields(json, where);
  fields.need_format(kFormat, kVersion, kRemedy);
  fields.only({"format",  "version", "entry",   "kind", "term",    "fragment", "round",   "from",
               "mean",    "paces",   "island",  "run",  "step",    "position", "islands", "ranks",
               "resumes", "state",   "machine", "job",  "applied", "before"});
  if (const std::int64_t number = fields.integer("entry"); number != index)
    fail(ErrorKind::kData, "{}: entry {} where {} must follow; restore the tape from a copy", where,
         number, index);
  if (fields.hex("before") != before)
    fail(ErrorKind::kData,
         "{}: entry {} follows another entry than the one before it; restore the tape from a copy",
         where, index);
  const std::string kind = fields.string("kind");
  const auto* const known = std::find(kKinds.begin(), kKinds.end(), kind);
  if (known == kKinds.end())
    fail(ErrorKind::kData, "{}: unknown kind \"{}\"; {}", where, kind, kRemedy);
  Entry entry{.kind = static_cast<Entry::Kind>(known - kKinds.begin()),
              .term = fields.integer("term", 1)};
  if (entry.kind == Entry::Kind::kMerge) {
    entry.fragment = static_cast<int>(fields.integer("fragment", 0, 1023));
    entry.round = fields.integer("round");
    for (const Json& one : fields.array("from"))
      entry.from.push_back(contribution_from(one, where + ": from"));
    entry.mean = fields.hex("mean");
    entry.paces = paces_from(fields.array("paces"), where);
  } else if (entry.kind != Entry::Kind::kTerm) {
    entry.island = static_cast<int>(fields.integer("island", 0, kMostIslands));
    entry.run = fields.string("run");
    entry.step = fields.integer("step");
    if (entry.kind == Entry::Kind::kJoin) {
      entry.position = fields.integer("position");
      entry.islands = static_cast<int>(fields.integer("islands", 1, kMostIslands));
      entry.ranks = static_cast<int>(fields.integer("ranks", 1, kMostIslands));
      entry.resumes = fields.string("resumes");
      entry.state = fields.hex("state");
      entry.machine = fields.string("machine");
      entry.job = fields.string("job");
    }
    entry.applied = applied_from(fields.array("applied"), where);
  }
  return entry;
}

Tape::Tape(Path directory) : directory_(std::move(directory)) {
  make_directories(directory_);
  const Path path = directory_ / kName;
  if (std::filesystem::exists(path)) {
    const std::string text = read_file(path);
    const std::size_t complete = text.rfind('\n') + 1;  // 0 where there is none
    if (complete < text.size()) std::filesystem::resize_file(path, complete);
    read();
  }
  file_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file_ < 0) fail(ErrorKind::kData, "{}: {}", path.string(), std::strerror(errno));
  fsync_directory(directory_);
}

Tape Tape::open(const Path& directory) {
  Tape tape;
  tape.directory_ = directory;
  tape.read();
  return tape;
}

Tape::~Tape() {
  if (file_ >= 0) ::close(file_);
}

Tape::Tape(Tape&& other) noexcept
    : directory_(std::move(other.directory_)),
      file_(std::exchange(other.file_, -1)),
      last_(other.last_),
      entries_(std::move(other.entries_)),
      lines_(std::move(other.lines_)),
      recipe_(std::move(other.recipe_)),
      owner_(other.owner_) {}

void Tape::read() {
  const Path path = directory_ / kName;
  const std::string text = read_file(path);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin);
    entries_.push_back(parse_entry(line, size(), last_, path.string()));
    last_ = hash64(line);
    lines_.push_back(line);
    begin = end + 1;
  }
  const Path recipe = directory_ / kRecipeName;
  if (std::filesystem::exists(recipe))
    recipe_ = recipe_from(parse_json(read_file(recipe), recipe.string()), recipe.string());
  const Path owner = directory_ / kOwnerName;
  if (std::filesystem::exists(owner))
    owner_ = static_cast<int>(formats::json_integer(parse_json(read_file(owner), owner.string()),
                                                    owner.string(), 0, kMostIslands));
}

void Tape::append(const Entry& entry) { append_line(print(entry, size(), last_)); }

void Tape::append_line(const std::string& line) {
  const Path path = directory_ / kName;
  TRIREME_CHECK(file_ >= 0, "{} is open for reading", path.string());
  Entry entry = parse_entry(line, size(), last_, path.string());
  std::string_view rest = line;
  const std::string whole = line + "\n";
  rest = whole;
  while (!rest.empty()) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(ErrorKind::kData, "{}: {}", path.string(), std::strerror(errno));
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(file_) != 0) fail(ErrorKind::kData, "{}: {}", path.string(), std::strerror(errno));
  last_ = hash64(line);
  lines_.push_back(line);
  entries_.push_back(std::move(entry));
}

void Tape::cut(std::int64_t entries) {
  const Path path = directory_ / kName;
  TRIREME_CHECK(file_ >= 0 && entries >= 0 && entries <= size(), "{}: no {} entries", path.string(),
                entries);
  std::uintmax_t bytes = 0;
  for (std::int64_t i = 0; i < entries; ++i) bytes += line(i).size() + 1;
  std::filesystem::resize_file(path, bytes);
  if (::fsync(file_) != 0) fail(ErrorKind::kData, "{}: {}", path.string(), std::strerror(errno));
  lines_.resize(static_cast<std::size_t>(entries));
  entries_.resize(static_cast<std::size_t>(entries));
  last_ = lines_.empty() ? 0 : hash64(lines_.back());
}

std::uint64_t Tape::digest(std::int64_t index) const {
  return hash64(lines_.at(static_cast<std::size_t>(index)));
}

void Tape::keep(const Recipe& recipe) {
  if (recipe_) return;
  replace_file(directory_ / kRecipeName, to_json(recipe).dump());
  recipe_ = recipe;
}

void Tape::keep_owner(int island) {
  if (owner_ == island) return;
  replace_file(directory_ / kOwnerName, std::to_string(island));
  owner_ = island;
}

std::string Tape::codes_name(int island) { return fmt::format("island{}", island); }

Path Tape::blob(const Path& directory, std::int64_t index, const std::string& of) {
  return directory / fmt::format("{}.{}", index, of);
}

void Tape::keep_codes(std::int64_t index, int island, std::span<const std::byte> bytes) const {
  write_blob(blob(directory_, index, codes_name(island)), bytes);
}

void Tape::keep_mean(std::int64_t index, std::span<const std::byte> bytes) const {
  write_blob(blob(directory_, index, mean_name()), bytes);
  fsync_directory(directory_);
}

std::vector<std::byte> Tape::codes(std::int64_t index, const Contribution& from) const {
  return read_blob(blob(directory_, index, codes_name(from.island)), from.digest);
}

std::vector<std::byte> Tape::mean(std::int64_t index) const {
  return read_blob(blob(directory_, index, mean_name()),
                   entries_.at(static_cast<std::size_t>(index)).mean);
}

void write_parts(const Path& path, std::int64_t whole, std::span<const Place> places,
                 std::span<const std::byte> bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0) fail(ErrorKind::kData, "{}: {}", path.string(), std::strerror(errno));
  const os::Descriptor closes(file);
  // One of an entry that was cut may have been longer.
  if (::ftruncate(file, whole) != 0)
    fail(ErrorKind::kData, "{}: {}", path.string(), std::strerror(errno));
  for (const Place& place : places) {
    std::span<const std::byte> part = bytes.first(static_cast<std::size_t>(place.bytes));
    bytes = bytes.subspan(part.size());
    for (off_t at = place.offset; !part.empty();) {
      const ssize_t written = ::pwrite(file, part.data(), part.size(), at);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(ErrorKind::kData, "{}: {}", path.string(), std::strerror(errno));
      part = part.subspan(static_cast<std::size_t>(written));
      at += written;
    }
  }
}

std::vector<std::byte> merge_again(const Tape& tape, std::int64_t index) {
  if (!tape.recipe())
    fail(ErrorKind::kData, "{}: {} is missing; restore it from a copy", tape.directory().string(),
         kRecipeName);
  const Entry& entry = tape.entries().at(static_cast<std::size_t>(index));
  std::vector<std::vector<std::byte>> bytes;
  std::vector<Codes> codes;
  for (const Contribution& one : entry.from) bytes.push_back(tape.codes(index, one));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    codes.push_back(
        {.island = entry.from[i].island, .weight = entry.from[i].weight, .bytes = bytes[i]});
  return merge(*tape.recipe(), entry.fragment, entry.round, codes);
}

std::int64_t verify(const Tape& tape) {
  std::int64_t merges = 0;
  for (std::int64_t index = 0; index < tape.size(); ++index) {
    const Entry& entry = tape.entries()[static_cast<std::size_t>(index)];
    if (entry.kind != Entry::Kind::kMerge) continue;
    const std::vector<std::byte> mean = merge_again(tape, index);
    if (hash64(mean) != entry.mean)
      fail(ErrorKind::kData,
           "{}: entry {} merges fragment {} of round {} to digest {}, its codes to {}",
           tape.directory().string(), index, entry.fragment, entry.round, hex64(entry.mean),
           hex64(hash64(mean)));
    ++merges;
  }
  return merges;
}

}  // namespace trireme::islands
