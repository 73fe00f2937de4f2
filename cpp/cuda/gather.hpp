// Vectors put together from scattered elements, and taken apart, on a GPU.
#pragma once

#include "core/types.hpp"

namespace spmvgpu::cuda {

// to[i] = from[places[i]] for i below count.
template <class T>
void gather(T* to, const T* from, const index_t* places, index_t count, int ordinal, Stream stream);

}  // namespace spmvgpu::cuda
