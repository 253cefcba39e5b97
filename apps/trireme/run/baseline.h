// The baseline a language model has to beat: an interpolated byte n-gram on the same text.
#pragma once

#include <functional>
#include <string>

#include "trireme/data/text/dataset.h"

namespace trireme::app {

// Bits per byte of an order-3 model (three bytes of context) fitted on the training split and evaluated on the
// validation split. Takes a few seconds the first time; the result is kept in the cache under the dataset's digest.
double baseline_bits(const text::Dataset& dataset,
                     const std::function<void(const std::string&)>& say);

}  // namespace trireme::app
