// Tables of the names and forms of a family's parameters in published files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/spec.h"

namespace trireme::convert {

// Difference between their tensor and our parameter, apart from the name. Elements and order are the same, except in a
// transposed one.
enum class Form {
  kSame,
  kTurned,  // [in, out] for [out, in]
  // A convolution's [hidden, 3, patch, patch], over several frames [hidden, 3, tubelet, patch, patch], for [hidden, all].
  kPatches,
  kWithoutOne,  // [n] for [1, n], [] for [1]
  kWithOne,     // [1, m, n] for [m, n]
  kStacked,     // [several, ..] for [..]: the one whose number ends our name
  // Rows of all queries, keys and values, or of all gates and what they gate: one of these. Channels of queries and keys
  // are as of the next three.
  kFused,
  // Rows of each head's queries, keys and values, one after the other: one of the three. Of queries and keys channels
  // [0, turned) turn in pairs (i, i + turned / 2) there, (i, i + head width / 2) here.
  kQueries,
  kKeys,
  kValues,
  kNumbered,  // as here, but one of several, whose number ends both names
  // Rows of queries, keys and values of one attention: the first third, or the rest.
  kQueryRows,
  kKeyValueRows,
};

// Names are segments between dots. `*` matches one segment, and a last `**` the rest; the matched segments of our name
// take the same places in theirs. `{a,b}` in a name of theirs: our parameter is these tensors, concatenated along its
// first dimension.
struct Rule {
  std::string_view ours;
  std::string_view theirs;
  Form form = Form::kSame;
};

// One way of naming a family's parameters.
struct Names {
  std::string_view name;          // of the model's class, or whose names these are
  std::span<const Rule> rules{};  // the first that fits
  // Prefixes of the names of a CLIP tower, ours and theirs; the rest of such a name follows the tower's own rules.
  std::string_view tower{}, tower_there{};
  std::string_view decoder{};  // their module of the decoder, if the model has others
  bool reads_early = false;    // the tower's output is read before its last blocks (vlm.layer)
  std::string_view bare{};     // how names begin, and do not in files of a model without its head
  std::string_view idle{};  // patterns of tensors that are no parameters, with commas between them
  std::string_view left_out{};   // of our names, how those begin that theirs have no place for ...
  std::string_view stand_ins{};  // ... and how those begin that are read in their stead
  std::string_view zeros{};  // a pattern of ours that theirs have no place for and that begin at 0
  // A tensor that distinguishes these names from others of the family; after "!", one that these lack.
  std::string_view sign{};
  bool (*fits)(const config::Job&) =
      nullptr;  // which jobs have these names; null: all of the family
};

// Names of a model's parameters, first those that are written; empty for a family that cannot be converted.
std::vector<const Names*> names_of(const config::Job& job);
// Patterns of tensors that may be there and are no parameters of this model.
std::string idle_tensors(const Names& names, const config::Job& job);

// Elements [offset, offset + count) of a tensor of theirs, which follow one another in a parameter of ours.
struct Part {
  std::string name;
  std::vector<std::int64_t> shape;  // of all of it
  Form form = Form::kSame;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int64_t copies = 1;  // one after the other, of what is written
};

// Parts of a parameter; empty for one that begins at 0. No name is empty.
std::vector<Part> parts_of(const Names& names, const config::Job& job,
                           const model::ParamSpec& param);

// Whether theirs have a place for it.
bool has_place(const Names& names, const model::ParamSpec& param);

}  // namespace trireme::convert
