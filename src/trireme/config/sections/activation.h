// Activations of feed-forward layers.
#pragma once

namespace trireme::config {

enum class Activation { kGelu, kGeluTanh, kQuickGelu };

}  // namespace trireme::config
