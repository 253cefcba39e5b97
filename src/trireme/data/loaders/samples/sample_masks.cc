#include "trireme/data/loaders/samples/sample_masks.h"

#include "trireme/base/hash.h"
#include "trireme/families/jepa/keys_masks.h"

namespace trireme::loaders {
namespace {

BlockRule rule_of(const config::MaskRule& rule) {
  return {.blocks = rule.blocks, .scale = rule.scale};
}

}  // namespace

SampleMasks::SampleMasks(const config::Job& job, std::uint64_t key)
    : grid_{.frames = job.vision.frames / job.vision.tubelet,
            .rows = job.vision.image / job.vision.patch,
            .columns = job.vision.image / job.vision.patch},
      rules_{rule_of(config::mask_rules(job.jepa)[0]), rule_of(config::mask_rules(job.jepa)[1])},
      group_size_(job.jepa.cut_batch),
      key_(key) {}

std::uint64_t SampleMasks::key_of(std::int64_t sample, std::uint64_t rule) const {
  return mix(mix(key_, static_cast<std::uint64_t>(sample)), rule);
}

std::vector<Mask> SampleMasks::of(std::int64_t sample) {
  std::vector<Mask> masks;
  const bool cut = group_size_ > 0;
  if (cut) cut_group(sample / group_size_);
  for (std::uint64_t rule = 0; rule < rules_.size(); ++rule)
    masks.push_back(cut ? cut_masks_[rule][sample % group_size_]
                        : draw_mask(grid_, rules_[rule], key_of(sample, rule)));
  return masks;
}

void SampleMasks::cut_group(std::int64_t group) {
  if (group == group_) return;
  group_ = group;
  cut_masks_.clear();
  for (std::uint64_t rule = 0; rule < rules_.size(); ++rule) {
    std::vector<std::uint64_t> samples;
    for (std::int64_t place = 0; place < group_size_; ++place)
      samples.push_back(key_of(group * group_size_ + place, rule));
    // Keys of groups differ from those of samples.
    cut_masks_.push_back(
        draw_cut_masks(grid_, rules_[rule], key_of(group, rules_.size() + rule), samples));
  }
}

}  // namespace trireme::loaders
