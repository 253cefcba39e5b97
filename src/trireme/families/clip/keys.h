// Keys of towers whose features meet in one space.
#pragma once

#include <cstdint>

namespace trireme::config {

enum class ContrastiveLoss { kClip, kSiglip };

struct Contrastive {
  ContrastiveLoss loss = ContrastiveLoss::kClip;
  std::int64_t width = 64;  // of the space that both towers project to
  bool operator==(const Contrastive&) const = default;
};

struct ClipSections {
  Contrastive contrastive;
  bool operator==(const ClipSections&) const = default;
};

}  // namespace trireme::config
