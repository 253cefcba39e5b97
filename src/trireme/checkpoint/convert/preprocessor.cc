#include "trireme/checkpoint/convert/preprocessor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/config/families.h"
#include "trireme/config/pixels.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {
namespace {

using config::Job;
using formats::JsonFields;

// Numbers of PIL's filters.
constexpr int kPilBilinear = 2, kPilBicubic = 3;

bool sees_clips(const Job& job) {
  const HuggingFaceClass* own = class_of(job);
  return own != nullptr && own->clips;
}

bool sees_tiles(const Job& job) { return config::info(job).pictures == config::Pictures::kTiles; }

// Images of any shape, of which the file limits the area; they are tiles of such an area here.
bool limits_areas(const Job& job) {
  return sees_tiles(job) && job.projector.kind == config::ProjectorKind::kMerger;
}

const char* processor_of(const Job& job) {
  const bool stretched = sees_tiles(job) && !limits_areas(job) && job.vlm.max_tiles == 0 &&
                         job.vlm.fit != config::VlmFit::kPad;
  const HuggingFaceClass* own = class_of(job);
  return own == nullptr || stretched ? HuggingFaceClass{}.processor : own->processor;
}

std::array<double, 3> colours(const JsonFields& fields, const char* key, bool above_zero) {
  std::array<double, 3> values{};
  const Json& list = fields.array(key);
  bool good = list.size() == values.size();
  for (std::size_t i = 0; good && i < values.size(); ++i) {
    good = list[i].is_number();
    if (!good) break;
    values[i] = list[i].get<double>();
    good = values[i] >= 0 && values[i] <= 1 && !(above_zero && values[i] == 0);
  }
  if (!good)
    fail(ErrorKind::kData, "{}: {} is {}; needs three numbers {}", fields.where(), key,
         formats::shown_json(list), above_zero ? "above 0 and up to 1" : "from 0 to 1");
  return values;
}

constexpr std::int64_t kMerge = 2, kMostArea = std::int64_t{1} << 28;

// Patches and limits in pixels of area, of which an image is both here.
void write_areas(const Job& job, Json& json) {
  const std::int64_t area = job.vision.image * job.vision.image;
  json.erase("crop_size");
  json.erase("do_center_crop");
  json.update({{"size", {{"shortest_edge", area}, {"longest_edge", area}}},
               {"patch_size", job.vision.patch},
               {"temporal_patch_size", job.vision.tubelet},
               {"merge_size", kMerge}});
}

// A limit under its key, or under that of older files.
std::int64_t area_of(const JsonFields& fields, const char* key, const char* older,
                     std::int64_t otherwise) {
  if (says(fields, "size")) {
    const JsonFields size(fields.object("size"), fields.where() + ": size");
    if (says(size, key)) return size.integer(key, 1, kMostArea);
  }
  return says(fields, older) ? fields.integer(older, 1, kMostArea) : otherwise;
}

// Side of a square within the limits: that of the table of positions, or the nearest one.
void read_areas(const JsonFields& fields, Job& job) {
  need(fields, "patch_size", job.vision.patch);
  need(fields, "temporal_patch_size", job.vision.tubelet);
  need(fields, "merge_size", kMerge);
  const std::int64_t unit = kMerge * job.vision.patch;
  const std::int64_t least = area_of(fields, "shortest_edge", "min_pixels", 1),
                     most = area_of(fields, "longest_edge", "max_pixels", kMostArea);
  std::int64_t side = std::max<std::int64_t>(unit, job.vision.image / unit * unit);
  while (side * side > most && side > unit) side -= unit;
  while (side * side < least) side += unit;
  if (side * side > most)
    fail(
        ErrorKind::kData,
        "{}: size is {} to {} pixels of area, in which there is no square of {} pixels (patch_size "
        "x merge_size) or a multiple of it a side",
        fields.where(), least, most, unit);
  job.vision.image = side;
}

}  // namespace

const char* preprocessor_name(const Job& job) {
  if (!config::uses(job.model.family, "vision.pixels")) return nullptr;
  return sees_clips(job) ? kVideoPreprocessorName : kPreprocessorName;
}

std::string preprocessor_config(const Job& job) {
  const config::PixelScale scale = config::pixel_scale(job);
  const bool clips = sees_clips(job), tiles = sees_tiles(job);
  const Json size{{"height", job.vision.image}, {"width", job.vision.image}};
  Json json{{clips ? "video_processor_type" : "image_processor_type", processor_of(job)},
            {"do_resize", true},
            {"size", size},
            {"resample", tiles ? kPilBicubic : kPilBilinear},
            {"do_center_crop", false},
            {"crop_size", size},
            {"do_rescale", true},
            {"rescale_factor", 1 / 255.0},
            {"do_normalize", true},
            {"image_mean", scale.mean},
            {"image_std", scale.std}};
  if (limits_areas(job))
    write_areas(job, json);
  else if (tiles)
    json["do_pad"] = job.vlm.max_tiles > 0 || job.vlm.fit == config::VlmFit::kPad;
  return json.dump(2) + "\n";
}

void read_preprocessor(const std::string& text, const std::string& what, Job& job) {
  const Json json = parse_json(text, what);
  const JsonFields fields(json, what);
  need(fields, "do_rescale", true);
  need(fields, "do_normalize", true);
  if (const double factor = number_or(fields, "rescale_factor", 1 / 255.0);
      std::abs(factor * 255 - 1) > 1e-3)
    fail(ErrorKind::kData, "{}: rescale_factor is {}; pixels here are divided by 255", what,
         factor);
  if (limits_areas(job)) read_areas(fields, job);
  config::PixelScale scale = config::pixel_scale(job);
  if (says(fields, "image_mean")) scale.mean = colours(fields, "image_mean", false);
  if (says(fields, "image_std")) scale.std = colours(fields, "image_std", true);
  job.vision.pixels = config::written(scale);
}

}  // namespace trireme::convert
