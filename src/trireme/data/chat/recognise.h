// Which template a published model uses.
#pragma once

#include <string_view>

#include "trireme/base/fs.h"

namespace trireme::chat {

// Name of the template that a model has as Jinja source; empty if it is not built in.
std::string_view recognised(std::string_view jinja);

// The same of the model that `vocabulary` belongs to, a directory or a file in it: its chat_template.jinja, or
// chat_template in tokenizer_config.json. Throws Error{kUsage} that begins with `key` and lists the templates where none is
// recognised.
std::string_view template_of_model(const Path& vocabulary, std::string_view key);

}  // namespace trireme::chat
