// The dictionary of packed_sell, from a sample of the values; on the host.
#pragma once

#include <vector>

#include "formats/packed_sell/modes.hpp"

namespace spmvgpu::packed {

// The values that occur more than once, the most frequent ones if they are too many; none if they are a small share.
template <class T>
std::vector<T> find_dictionary(const std::vector<T>& sample);

}  // namespace spmvgpu::packed
