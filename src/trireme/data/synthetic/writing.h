// Functions shared by the kinds of data that are written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/os/durable.h"
#include "trireme/base/os/staging.h"
#include "trireme/data/media/image.h"
#include "trireme/data/media/tar.h"
#include "trireme/data/synthetic/make.h"

namespace trireme::synthetic {

enum class Split { kTrain, kValidation };
inline constexpr Split kSplits[] = {Split::kTrain, Split::kValidation};
inline constexpr const char* name(Split split) {
  return split == Split::kTrain ? "train" : "validation";
}

// The directory under its temporary name, and how far it is.
class Writing {
 public:
  // With `validation` held-out samples. Throws Error{kUsage} for counts that cannot be and a directory that is in use.
  Writing(const Common& common, std::int64_t validation)
      : common_(common),
        validation_(validation),
        staging_((check(common, validation), os::check_new_directory(common.out))) {}

  const Path& path() const { return staging_.path(); }
  std::int64_t count(Split split) const {
    return split == Split::kTrain ? common_.count : validation_;
  }
  void step() {
    ++done_;
    if (common_.progress) common_.progress(done_, common_.count + validation_);
  }
  void write(const Path& name, std::string_view bytes) { write_file_synced(path() / name, bytes); }
  void publish() { staging_.publish(); }

 private:
  static void check(const Common& common, std::int64_t validation);

  const Common& common_;
  std::int64_t validation_;
  std::int64_t done_ = 0;
  os::Staging staging_;
};

// A tenth where nothing is said.
std::int64_t validation_of(const Common& common);

// Tars of `per_shard` samples each: SPLIT-000000.tar, ...
class Shards {
 public:
  Shards(const Path& directory, Split split, std::int64_t per_shard)
      : directory_(directory), split_(split), per_shard_(per_shard) {}

  // Before the parts of sample i, which ascend.
  media::TarWriter& at(std::int64_t i) {
    if (i % per_shard_ == 0) {
      finish();
      tar_ = std::make_unique<media::TarWriter>(
          directory_ / fmt::format("{}-{:06}.tar", name(split_), i / per_shard_));
    }
    return *tar_;
  }
  void finish() {
    if (tar_) tar_->finish();
    tar_.reset();
  }

 private:
  Path directory_;
  Split split_;
  std::int64_t per_shard_;
  std::unique_ptr<media::TarWriter> tar_;
};

// Names of samples: of a width that sorts.
inline std::string sample_name(Split split, std::int64_t i) {
  return fmt::format("{}{:06}", split == Split::kTrain ? "" : "v", i);
}

// Throws Error{kUsage} where frames cannot be so, or where this format cannot be written here.
void check_frames(int width, int height, int frames, double fps);
void check_clip_format(const std::string& format);

// By the ending of its name, .webp or .mp4.
void write_clip(const Path& path, const std::vector<media::Image>& frames, double fps);

}  // namespace trireme::synthetic
