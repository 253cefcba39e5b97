// Synthetic questions about images of coloured blocks, with exact answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/data/media/image.h"
#include "trireme/formats/tiling.h"

namespace trireme::loaders {

// One or two rows and columns of blocks, or three in a line, all shapes with equal probability. One sample in eight has
// no image, and of those with two blocks one in eight has an image for each. Colours are letters: r g b y c m.
struct Question {
  std::int64_t columns = 0, rows = 0;  // of an image's blocks; 0: no image
  bool apart = false;                  // two images of one block each
  std::vector<std::int64_t> colours;   // of blocks, by images and rows
  std::string before;                  // text in front of the image
  std::string question;                // after it
  std::string answer;                  // letters
  bool has_image() const { return columns > 0; }
  std::int64_t images() const { return has_image() ? 1 + apart : 0; }
};

// Question `number` of this seed. One in two asks for all blocks by rows ("code?"), the others for one ("block 2?"), or
// without an image for the colour that follows another ("after r?").
Question question(std::int64_t seed, std::int64_t number);

// Pixels of each of its images where a tile has `side`: blocks of 3/8 to 5/8 of that.
formats::ImageSize image_size(const Question& question, std::int64_t side, std::int64_t seed,
                              std::int64_t number);

// Its images: squares whose red, green and blue are near 0 or 255 between lines of 128, with noise of 6.
std::vector<media::Image> draw(const Question& question, std::int64_t side, std::int64_t seed,
                               std::int64_t number);

}  // namespace trireme::loaders
