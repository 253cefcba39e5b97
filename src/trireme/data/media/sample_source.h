// Where samples come from: one class a layout.
#pragma once

#include <functional>
#include <string_view>

#include "trireme/data/media/codecs.h"
#include "trireme/data/media/samples.h"

namespace trireme::media {

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual SampleKind kind() const = 0;
  virtual std::size_t size() const = 0;
  virtual const std::vector<std::string>& classes() const { return no_classes_; }
  virtual std::string name(std::size_t i) const = 0;
  // Name and size of this sample in a digest, without the directory of the whole.
  virtual std::string identity(std::size_t i) const = 0;
  // The files that samples are read from, in any order, some perhaps more than once.
  virtual void add_files(std::vector<Path>& files) const = 0;
  virtual SampleInfo info(std::size_t i) const = 0;
  virtual Sample read(std::size_t i, const ChooseFrames& choose) const = 0;
  // Calls `use` with the bytes of another picture that sample i names, and with its name for messages. Throws
  // Error{kData} if there is no such picture.
  using UsePicture = std::function<void(ByteSpan bytes, const std::string& what)>;
  virtual void with_picture(std::size_t i, const std::string& picture, const UsePicture& use) const;

 private:
  std::vector<std::string> no_classes_;
};

using SourcePtr = std::unique_ptr<SampleSource>;
SourcePtr open_shards(const std::vector<Path>& shards, std::optional<SampleKind> kind);
SourcePtr open_folder(const Path& folder, std::optional<SampleKind> kind);
SourcePtr open_list(const Path& list, const SamplesOptions& options);
// Episodes: directories with trajectory.h5. Names begin below `root`.
SourcePtr open_episodes(const Path& root, std::vector<Path> episodes);
// Episodes at or below `root`, sorted; empty if there are none.
std::vector<Path> find_episodes(const Path& root);

// A clip that is a file by itself.
struct ClipFile {
  Path path;  // empty: missing
  std::string name;
  std::int64_t label = -1;
  std::string text;
};
SourcePtr open_clips(std::vector<ClipFile> clips, std::vector<std::string> classes);

bool is_picture_name(const Path& path);
bool is_video_name(const Path& path);  // .webp is not one by its name alone

// Caption from a .txt, or from "caption" in a .json. Refuses an empty one, but where the .json has "questions" instead.
std::string caption_of(std::string_view txt, std::string_view json, const std::string& what);
// The number in a .cls.
std::int64_t class_number(std::string_view text, const std::string& what);

// Refuses sides beyond kMaxAspect.
void check_aspect(const ImageSize& size, const std::string& what);
ImageSize checked_size(ByteSpan bytes, const std::string& what);
Image checked_image(ByteSpan bytes, const std::string& what);

// Decodes the frames of `choose` into the sample and notes their numbers. No number is `limit` or more.
void read_clip(ByteSpan bytes, const std::string& what, const ChooseFrames& choose, Sample& sample,
               std::int64_t limit = INT64_MAX);

}  // namespace trireme::media
