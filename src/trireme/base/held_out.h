// Meaning of data.validation: how much of a data set is held out.
#pragma once

namespace trireme {

// A value of 1 and more is a number of samples or documents, a smaller one a fraction of them.
inline bool is_count(double validation) { return validation >= 1; }

}  // namespace trireme
