// Text as samples for next-token prediction.
#pragma once

#include "trireme/data/loaders/source.h"

namespace trireme::loaders {

// {tokens, targets} and, with data.documents, positions. Throws as TokenLoader.
Sources open_text(const config::Job& job, const Path& dataset, Evaluated evaluated);

}  // namespace trireme::loaders
