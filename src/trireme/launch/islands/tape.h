// Tape: the record of all that islands merged, append-only and on a disk before it counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/launch/islands/recipe.h"

namespace trireme::islands {

// When an island applies an entry: after a step, before the step's differences are sent or after that.
constexpr std::int64_t before_sending(std::int64_t step) { return 2 * step; }
constexpr std::int64_t after_sending(std::int64_t step) { return 2 * step + 1; }
constexpr std::int64_t step_at(std::int64_t when) { return when / 2; }

struct Applied {
  std::int64_t entry = 0;
  std::int64_t when = 0;
  bool operator==(const Applied&) const = default;
};

struct Contribution {
  int island = 0;
  std::string run{};  // of the island: a new one after every start
  std::int64_t step = 0;
  double weight = 0;
  std::uint64_t digest = 0;        // of its codes
  std::vector<Applied> applied{};  // since its last contribution that was merged, at least
  bool operator==(const Contribution&) const = default;
};

// Speed of an island that is slower than the median: thousandths of it.
struct Pace {
  int island = 0;
  int thousandths = 1000;
  bool operator==(const Pace&) const = default;
};

struct Entry {
  enum class Kind {
    kTerm,   // a leader starts
    kJoin,   // an island starts, from a checkpoint after `step` steps and `position` entries
    kLeave,  // an island has left or was left out
    kMerge,
  };
  Kind kind = Kind::kTerm;
  std::int64_t term = 0;
  // Of a merge: one round of one fragment.
  int fragment = 0;
  std::int64_t round = 0;
  std::vector<Contribution> from{};  // in order of islands
  std::uint64_t mean = 0;            // digest
  std::vector<Pace> paces{};         // of slow islands, in order
  // Of a join or a leave.
  int island = 0;
  std::string run{};
  std::int64_t step = 0;
  std::int64_t position = 0;
  int islands = 1, ranks = 1;      // of a join: islands at most, ranks of this one
  std::vector<Applied> applied{};  // by the run that leaves, or before the one that joins
  std::string resumes{};           // of a join: the run, of any island, that wrote the checkpoint
  std::uint64_t state = 0;         // and the digest of the checkpoint's tensors; 0: none
  std::string machine{}, job{};    // of a join: what computes, and the job as YAML
  bool operator==(const Entry&) const = default;
};

// A line of a tape, which names the digest of the line before. parse_entry() throws Error{kData} naming `where`.
std::string print(const Entry& entry, std::int64_t index, std::uint64_t before);
Entry parse_entry(const std::string& line, std::int64_t index, std::uint64_t before,
                  const std::string& where);
// The digest that a line names.
std::uint64_t before_of(const std::string& line, const std::string& where);

// A directory: tape.jsonl, recipe.json, and the codes and means of merges. The copy of an island has a file that names the
// island, and of merges its own codes and the means that it got.
class Tape {
 public:
  static constexpr const char* kName = "tape.jsonl";

  // Opens the tape of the directory, or begins one. A last line that is not complete was never applied: it is removed.
  // Throws Error{kData} for other damage.
  explicit Tape(Path directory);
  // For reading: what is not there is refused, and nothing is changed.
  static Tape open(const Path& directory);
  ~Tape();
  Tape(Tape&& other) noexcept;

  const Path& directory() const { return directory_; }
  const std::vector<Entry>& entries() const { return entries_; }
  std::int64_t size() const { return std::ssize(entries_); }
  const std::string& line(std::int64_t index) const { return lines_.at(index); }
  std::uint64_t digest(std::int64_t index) const;  // of the line
  // On the disk when it returns.
  void append(const Entry& entry);
  // A line of another tape that comes next.
  void append_line(const std::string& line);
  // Removes the entries from this one on, which no island has applied.
  void cut(std::int64_t entries);

  const std::optional<Recipe>& recipe() const { return recipe_; }
  void keep(const Recipe& recipe);
  // The island whose copy this is; none: it is a leader's.
  const std::optional<int>& owner() const { return owner_; }
  void keep_owner(int island);

  // Bytes of the merge that will be, or is, entry `index`. Reading compares the digest: Error{kData}.
  void keep_codes(std::int64_t index, int island, std::span<const std::byte> bytes) const;
  void keep_mean(std::int64_t index, std::span<const std::byte> bytes) const;
  std::vector<std::byte> codes(std::int64_t index, const Contribution& from) const;
  std::vector<std::byte> mean(std::int64_t index) const;
  static std::string mean_name() { return "mean"; }
  static std::string codes_name(int island);
  static Path blob(const Path& directory, std::int64_t index, const std::string& of);

 private:
  Tape() = default;
  void read();

  Path directory_{};
  int file_ = -1;
  std::uint64_t last_ = 0;  // digest of the last line
  std::vector<Entry> entries_{};
  std::vector<std::string> lines_{};
  std::optional<Recipe> recipe_{};
  std::optional<int> owner_{};
};

// Writes a rank's parts of codes or of a mean into the file of the `whole` bytes, which several ranks fill.
void write_parts(const Path& path, std::int64_t whole, std::span<const Place> places,
                 std::span<const std::byte> bytes);

// The mean of a merge, from its stored codes.
std::vector<std::byte> merge_again(const Tape& tape, std::int64_t index);

// Recomputes every merge of the tape from its stored codes. Throws Error{kData} naming the first that differs. Returns
// the number of merges.
std::int64_t verify(const Tape& tape);

}  // namespace trireme::islands
