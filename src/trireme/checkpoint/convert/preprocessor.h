// preprocessor_config.json: how Hugging Face's classes make the numbers of pixels that a tower reads.
#pragma once

#include <string>

#include "trireme/config/job.h"

namespace trireme::convert {

// Its usual name, and that of classes of clips.
inline constexpr char kPreprocessorName[] = "preprocessor_config.json";
inline constexpr char kVideoPreprocessorName[] = "video_preprocessor_config.json";

// The name of the file of a job's family; null for a family without pixels.
const char* preprocessor_name(const config::Job& job);

// The file of a resolved job: size, mean and standard deviation.
std::string preprocessor_config(const config::Job& job);

// Sets vision.pixels from the text of such a file. Throws Error{kData} for pixels that no job can say.
void read_preprocessor(const std::string& text, const std::string& what, config::Job& job);

}  // namespace trireme::convert
