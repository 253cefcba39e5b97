// Parts of a sample that the readers of all samples share.
#pragma once

#include <initializer_list>

#include "trireme/data/chat/conversation.h"
#include "trireme/formats/json_fields.h"

namespace trireme::chat {

// Appends a prompt or completion: a string, which `role` says, or messages. Answers of the assistant are trained. Throws
// Error{kData} naming the key.
void add_side(const formats::JsonFields& sample, const char* key, Role role, Conversation& all);

// Throws Error{kData} for keys that have a meaning which no template here can render, unless they are empty.
void refuse_keys(const formats::JsonFields& fields, std::initializer_list<const char*> keys);

}  // namespace trireme::chat
