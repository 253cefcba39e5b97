#include "trireme/data/media/samples.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/json.h"
#include "trireme/base/patterns.h"
#include "trireme/data/media/sample_source.h"

namespace trireme::media {
namespace {

namespace fs = std::filesystem;

// "a-{008..010}.tar" as three names.
std::vector<Path> expand_range(const Path& path) {
  const std::string text = path.string();
  const std::size_t open = text.find('{'), dots = text.find("..", open),
                    close = text.find('}', open);
  if (open == text.npos || dots == text.npos || close == text.npos || dots > close) return {path};
  const auto number = [&](std::size_t from, std::size_t to) {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + to, value);
    if (error != std::errc() || end != text.data() + to || value < 0)
      fail(ErrorKind::kUsage, "{}: a range is {{000..127}}", text);
    return value;
  };
  const std::int64_t first = number(open + 1, dots), last = number(dots + 2, close);
  constexpr std::int64_t kMost = 1'000'000;
  if (last < first || last - first >= kMost)
    fail(ErrorKind::kUsage, "{}: a range of {} to {}", text, first, last);
  std::vector<Path> all;
  for (std::int64_t i = first; i <= last; ++i)
    all.push_back(fmt::format("{}{:0{}}{}", text.substr(0, open), i, dots - open - 1,
                              text.substr(close + 1)));
  return all;
}

// "train-*.tar": the files of that directory, sorted.
std::vector<Path> expand_pattern(const Path& path) {
  const std::string pattern = path.filename().string();
  if (pattern.find_first_of("*?") == pattern.npos) return {path};
  std::vector<Path> all;
  std::error_code cause;
  fs::directory_iterator at(path.has_parent_path() ? path.parent_path() : Path("."), cause), end;
  for (; !cause && at != end; at.increment(cause))
    if (matches(pattern, at->path().filename().string())) all.push_back(at->path());
  if (all.empty()) fail(ErrorKind::kData, "{}: no such file", path.string());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<Path> expand(const Path& given) {
  std::vector<Path> all;
  for (const Path& path : expand_range(given))
    for (Path& each : expand_pattern(path)) all.push_back(std::move(each));
  return all;
}

// "train" of "train-000012.tar".
std::string set_of(const Path& shard) {
  const std::string stem = shard.stem().string();
  const std::size_t dash = stem.rfind('-');
  return dash == stem.npos ? std::string() : stem.substr(0, dash);
}

std::vector<Path> tars_in(const Path& folder) {
  std::vector<Path> tars;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".tar") tars.push_back(entry.path());
  std::sort(tars.begin(), tars.end());
  for (const Path& tar : tars)
    if (set_of(tar) != set_of(tars[0]))
      fail(ErrorKind::kUsage, "{} holds shards of several sets; name one, such as {}",
           folder.string(), (folder / (set_of(tars[0]) + "-*.tar")).string());
  return tars;
}

SourcePtr open_directory(const Path& folder, const SamplesOptions& options) {
  if (std::vector<Path> tars = tars_in(folder); !tars.empty())
    return open_shards(tars, options.kind);
  for (const char* list : {"train.json", "train.csv"})
    if (fs::exists(folder / list))
      fail(ErrorKind::kUsage, "{} has lists that divide it; name one, such as {}", folder.string(),
           (folder / list).string());
  if (std::vector<Path> episodes = find_episodes(folder); !episodes.empty())
    return open_episodes(folder, std::move(episodes));
  return open_folder(folder, options.kind);
}

std::vector<SourcePtr> open_sources(const SamplesOptions& options) {
  if (options.sources.empty()) fail(ErrorKind::kUsage, "no data set is named");
  std::vector<SourcePtr> sources;
  std::vector<Path> shards;
  for (const Path& given : options.sources)
    for (const Path& path : expand(given)) {
      std::error_code cause;
      const fs::file_status status = fs::status(path, cause);
      if (!fs::exists(status))
        fail(ErrorKind::kData, "{}: no such file or directory", path.string());
      if (fs::is_directory(status))
        sources.push_back(open_directory(path, options));
      else if (path.extension() == ".tar")
        shards.push_back(path);
      else
        sources.push_back(open_list(path, options));
    }
  if (!shards.empty()) sources.push_back(open_shards(shards, options.kind));
  return sources;
}

}  // namespace

const char* name(SampleKind kind) {
  switch (kind) {
    case SampleKind::kImageLabel: return "pictures with classes";
    case SampleKind::kImageText: return "pictures with captions";
    case SampleKind::kClip: return "clips";
    case SampleKind::kTrajectory: break;
  }
  return "trajectories";
}

bool is_picture_name(const Path& path) {
  const std::string ending = path.extension().string();
  for (const char* known : {".jpg", ".jpeg", ".JPG", ".JPEG", ".png", ".PNG", ".webp"})
    if (ending == known) return true;
  return false;
}

bool is_video_name(const Path& path) {
  const std::string ending = path.extension().string();
  for (const char* known : {".mp4", ".webm", ".mkv", ".avi", ".mov", ".m4v", ".MP4"})
    if (ending == known) return true;
  return false;
}

std::string caption_of(std::string_view txt, std::string_view json, const std::string& what) {
  std::string text(txt);
  bool asks = false;
  if (txt.empty() && !json.empty()) {
    const Json document = parse_json(json, what);
    if (document.is_object() && document.contains("caption") && document["caption"].is_string())
      text = document["caption"].get<std::string>();
    asks = document.is_object() && document.contains("questions");
  }
  if (text.find_first_not_of(" \t\r\n") != text.npos) return text;
  if (asks) return {};
  fail(ErrorKind::kData, "{} has no caption, neither in .txt nor as \"caption\" in .json", what);
}

std::int64_t class_number(std::string_view text, const std::string& what) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.remove_suffix(1);
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    fail(ErrorKind::kData, "{}: a class that is not a number", what);
  return value;
}

void check_aspect(const ImageSize& size, const std::string& what) {
  const auto [shorter, longer] = std::minmax({size.width, size.height});
  if (longer > std::int64_t{kMaxAspect} * shorter)
    fail(ErrorKind::kData, "{}: {} x {} pixels, one side more than {} times the other", what,
         size.width, size.height, kMaxAspect);
}

ImageSize checked_size(ByteSpan bytes, const std::string& what) {
  const ImageSize size = image_size(bytes, what);
  check_aspect(size, what);
  return size;
}

void SampleSource::with_picture(std::size_t i, const std::string& picture,
                                const UsePicture&) const {
  fail(ErrorKind::kData,
       "{}: its pictures have names, such as {}, which only a folder of pictures and shards can "
       "read",
       name(i), picture);
}

Image checked_image(ByteSpan bytes, const std::string& what) {
  checked_size(bytes, what);
  return decode_image(bytes, what);
}

void read_clip(ByteSpan bytes, const std::string& what, const ChooseFrames& choose, Sample& sample,
               std::int64_t limit) {
  sample.clip = decode_video(bytes, what, [&](VideoInfo info) {
    check_aspect({info.width, info.height}, what);
    info.frames = std::min(info.frames, limit);
    if (choose) {
      sample.frames = choose(info);
    } else {
      sample.frames.resize(static_cast<std::size_t>(info.frames));
      for (std::size_t k = 0; k < sample.frames.size(); ++k)
        sample.frames[k] = static_cast<std::int64_t>(k);
    }
    for (const std::int64_t frame : sample.frames)
      if (frame >= info.frames)
        fail(ErrorKind::kData, "{}: frame {} of {}", what, frame, info.frames);
    return sample.frames;
  });
}

struct Samples::State {
  struct Place {
    const SampleSource& source;
    std::size_t index;
  };

  explicit State(SamplesOptions given) : options(std::move(given)), sources(open_sources(options)) {
    for (const SourcePtr& source : sources) {
      if (source->kind() != sources[0]->kind())
        fail(ErrorKind::kData, "{} and {} hold {} and {}; give data sets of one kind",
             options.sources.front().string(), options.sources.back().string(),
             media::name(sources[0]->kind()), media::name(source->kind()));
      if (source->classes() != sources[0]->classes())
        fail(ErrorKind::kData, "{} and {} have different classes", options.sources.front().string(),
             options.sources.back().string());
      count += source->size();
      ends.push_back(count);
    }
    if (count == 0) fail(ErrorKind::kData, "{}: no samples in it", options.sources[0].string());
  }

  Place place(std::int64_t i) const {
    TRIREME_CHECK(i >= 0 && static_cast<std::size_t>(i) < count, "sample {} of {}", i, count);
    const auto index = static_cast<std::size_t>(i);
    const auto at =
        static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), index) - ends.begin());
    return {*sources[at], index - (at == 0 ? 0 : ends[at - 1])};
  }

  void note(std::int64_t i, const char* reason) {
    const std::lock_guard lock(mutex);
    if (!skipped.insert(i).second) return;
    if (reasons.size() < BadReport::kMaxReasons) reasons.emplace_back(reason);
  }

  SamplesOptions options;
  std::vector<SourcePtr> sources;
  std::vector<std::size_t> ends;  // of each source in the list
  std::size_t count = 0;

  std::mutex mutex;  // of what is below; taken for bad samples only
  std::set<std::int64_t> skipped;
  std::vector<std::string> reasons;
};

Samples::Samples(SamplesOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Samples::~Samples() = default;
Samples::Samples(Samples&&) noexcept = default;

SampleKind Samples::kind() const { return state_->sources[0]->kind(); }
std::int64_t Samples::size() const { return static_cast<std::int64_t>(state_->count); }
const std::vector<std::string>& Samples::classes() const { return state_->sources[0]->classes(); }

std::string Samples::name(std::int64_t i) const {
  const State::Place place = state_->place(i);
  return place.source.name(place.index);
}

std::string Samples::digest() const {
  std::uint64_t digest = hash64(media::name(kind()));
  for (const std::string& each : classes()) digest = hash64(each, digest);
  for (const SourcePtr& source : state_->sources)
    for (std::size_t i = 0; i < source->size(); ++i) digest = hash64(source->identity(i), digest);
  return hex64(digest);
}

std::vector<Path> Samples::files() const {
  std::vector<Path> files;
  for (const SourcePtr& source : state_->sources) source->add_files(files);
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

SampleInfo Samples::info(std::int64_t i) const {
  const State::Place place = state_->place(i);
  return place.source.info(place.index);
}

Image Samples::picture(std::int64_t i, const std::string& name) const {
  const State::Place place = state_->place(i);
  Image image;
  place.source.with_picture(place.index, name, [&](ByteSpan bytes, const std::string& what) {
    image = checked_image(bytes, what);
  });
  return image;
}

ImageSize Samples::picture_size(std::int64_t i, const std::string& name) const {
  const State::Place place = state_->place(i);
  ImageSize size;
  place.source.with_picture(place.index, name, [&](ByteSpan bytes, const std::string& what) {
    size = checked_size(bytes, what);
  });
  return size;
}

Sample Samples::read(std::int64_t i, const ChooseFrames& choose) const {
  const State::Place place = state_->place(i);
  Sample sample = place.source.read(place.index, choose);
  sample.index = i;
  sample.name = place.source.name(place.index);
  return sample;
}

std::optional<Sample> Samples::take(std::int64_t i, const ChooseFrames& choose) const {
  try {
    return read(i, choose);
  } catch (const Error& error) {
    if (state_->options.bad == BadSamples::kRefuse || error.kind() != ErrorKind::kData) throw;
    state_->note(i, error.what());
    return std::nullopt;
  }
}

BadReport Samples::bad() const {
  const std::lock_guard lock(state_->mutex);
  return {.count = static_cast<std::int64_t>(state_->skipped.size()), .reasons = state_->reasons};
}

Samples open_samples(SamplesOptions options) { return Samples(std::move(options)); }

}  // namespace trireme::media
