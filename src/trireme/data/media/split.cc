#include "trireme/data/media/split.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/held_out.h"

namespace trireme::media {
namespace {

namespace fs = std::filesystem;

bool has_shards(const Path& folder, const std::string& set) {
  return std::ranges::any_of(fs::directory_iterator(folder), [&](const fs::directory_entry& entry) {
    return entry.path().extension() == ".tar" &&
           entry.path().filename().string().starts_with(set + "-");
  });
}

// The part of this name in a directory, however it is stored.
std::optional<Path> find_part(const Path& folder, const std::string& name) {
  if (fs::is_directory(folder / name)) return folder / name;
  if (has_shards(folder, name)) return folder / (name + "-*.tar");
  for (const char* ending : {".json", ".csv"})
    if (fs::is_regular_file(folder / (name + ending))) return folder / (name + ending);
  return std::nullopt;
}

struct Parts {
  Path train, held_out;
};

std::optional<Parts> find_parts(const Path& path) {
  if (!fs::is_directory(path)) return std::nullopt;
  const std::optional<Path> train = find_part(path, "train");
  if (!train) return std::nullopt;
  for (const char* name : {"val", "validation"})
    if (const std::optional<Path> held_out = find_part(path, name))
      return Parts{.train = *train, .held_out = *held_out};
  return std::nullopt;
}

std::shared_ptr<const Samples> open_list(const Path& path, SampleKind kind,
                                         std::string_view source) {
  auto samples = std::make_shared<const Samples>(open_samples({.sources = {path}, .kind = kind}));
  if (samples->kind() != kind)
    fail(ErrorKind::kData, "{}: holds {}, but data.source={} reads {}; name another path or source",
         path.string(), name(samples->kind()), source, name(kind));
  return samples;
}

Part whole(std::shared_ptr<const Samples> samples) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(samples->size()));
  std::iota(numbers.begin(), numbers.end(), 0);
  return {.samples = std::move(samples), .numbers = std::move(numbers)};
}

// In [0, 1).
double place_of(std::int64_t number) {
  constexpr std::uint64_t kHeldOut = 0x68656c64;
  return static_cast<double>(mix(kHeldOut, static_cast<std::uint64_t>(number)) >> 11) * 0x1p-53;
}

// The place below which as many of the samples lie as are asked for.
double limit_of(const Samples& samples, double validation) {
  if (!is_count(validation)) return validation;
  std::vector<double> places;
  for (std::int64_t number = 0; number < samples.size(); ++number)
    places.push_back(place_of(number));
  const auto limit = places.begin() + static_cast<std::ptrdiff_t>(validation);
  std::ranges::nth_element(places, limit);
  return *limit;
}

// A number of samples to hold out needs at least `needed`.
void check_enough(const Path& path, const Samples& samples, double validation, double needed) {
  if (is_count(validation) && static_cast<double>(samples.size()) < needed)
    fail(ErrorKind::kData,
         "data.validation={} samples to hold out of {}, which has {}{}; lower data.validation",
         validation, path.string(), samples.size(),
         needed > validation ? " and needs one to train on" : "");
}

Split divided(const Path& path, const std::shared_ptr<const Samples>& samples, double validation) {
  check_enough(path, *samples, validation, validation + 1);
  Split split{.train = {.samples = samples, .numbers = {}},
              .held_out = {.samples = samples, .numbers = {}},
              .digest = samples->digest()};
  const double limit = limit_of(*samples, validation);
  for (std::int64_t number = 0; number < samples->size(); ++number)
    (place_of(number) < limit ? split.held_out : split.train).numbers.push_back(number);
  // Few samples may all fall on one side.
  if (validation > 0 && split.held_out.numbers.empty() && split.train.numbers.size() > 1) {
    split.held_out.numbers.push_back(split.train.numbers.back());
    split.train.numbers.pop_back();
  }
  return split;
}

Split of_parts(const Parts& parts, SampleKind kind, std::string_view source, double validation) {
  Split split{.train = whole(open_list(parts.train, kind, source)), .held_out = {}, .digest = {}};
  split.digest = split.train.samples->digest();
  if (validation == 0) return split;
  split.held_out = whole(open_list(parts.held_out, kind, source));
  if (split.held_out.samples->classes() != split.train.samples->classes())
    fail(ErrorKind::kData, "{} and {} have different classes", parts.train.string(),
         parts.held_out.string());
  const Samples& held_out = *split.held_out.samples;
  check_enough(parts.held_out, held_out, validation, validation);
  if (is_count(validation) && static_cast<double>(held_out.size()) > validation) {
    const double limit = limit_of(held_out, validation);
    std::erase_if(split.held_out.numbers,
                  [limit](std::int64_t number) { return place_of(number) >= limit; });
  }
  split.digest = hex64(hash64(split.digest + split.held_out.samples->digest()));
  return split;
}

}  // namespace

SampleKind kind_of(std::string_view source) {
  if (source == "images") return SampleKind::kImageLabel;
  if (source == "pairs") return SampleKind::kImageText;
  if (source == "clips") return SampleKind::kClip;
  TRIREME_CHECK(source == "trajectories", "a data source {}", source);
  return SampleKind::kTrajectory;
}

std::vector<Path> parts_of(const Path& path) {
  const std::optional<Parts> parts = find_parts(path);
  return parts ? std::vector{parts->train, parts->held_out} : std::vector{path};
}

Split open_split(std::string_view source, const Path& path, double validation) {
  const SampleKind kind = kind_of(source);
  const std::optional<Parts> parts = find_parts(path);
  Split split = parts ? of_parts(*parts, kind, source, validation)
                      : divided(path, open_list(path, kind, source), validation);
  if (split.train.numbers.empty())
    fail(ErrorKind::kData, "{}: {} samples, of which none is left to train on", path.string(),
         split.train.samples->size());
  return split;
}

Splits open_splits(std::string_view source, const std::vector<Path>& paths, double validation) {
  Splits splits;
  std::string digests;
  for (const Path& path : paths) {
    splits.sets.push_back(open_split(source, path, validation));
    digests += splits.sets.back().digest;
  }
  splits.digest = paths.size() == 1 ? digests : hex64(hash64(digests));
  const std::vector<std::string>& classes = splits.sets[0].train.samples->classes();
  splits.same_classes = std::ranges::all_of(
      splits.sets, [&](const Split& split) { return split.train.samples->classes() == classes; });
  if (splits.same_classes) splits.classes = classes;
  return splits;
}

}  // namespace trireme::media
