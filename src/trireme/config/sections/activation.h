// Activations of feed-forward layers.
#pragma once

namespace trireme::config {

enum class Activation { kGelu, kGeluTanh, kQuickGelu };

// Of the gate in feed-forward layers.
enum class GateActivation { kSilu, kGeluTanh };

}  // namespace trireme::config
