// Conversations packed into rows, with loss on the assistant's tokens.
#pragma once

#include "trireme/data/loaders/source.h"

namespace trireme::loaders {

// {tokens, targets, positions} of source chat. Positions begin at 0 with each conversation, and the rest of a row is one
// without loss. Weights count trained tokens. Throws as chat::packed_documents, and Error{kData} for another data set.
Sources open_chat(const config::Job& job, const Path& dataset, Evaluated evaluated);

}  // namespace trireme::loaders
