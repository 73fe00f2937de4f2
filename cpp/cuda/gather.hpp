// Vectors put together from scattered elements, and taken apart, on a GPU.
#pragma once

#include "core/types.hpp"

namespace spmvgpu::cuda {

// to[i] = from[places[i]] for i below count.
template <class T>
void gather(T* to, const T* from, const index_t* places, index_t count, int ordinal, Stream stream);

// to[places[i]] = from[i] + beta * to[places[i]] for i below count, without reading `to` where beta is zero. Without
// places (nullptr) to[i] stands for to[places[i]].
template <class T>
void scatter(T* to, const T* from, const index_t* places, index_t count, T beta, int ordinal, Stream stream);

}  // namespace spmvgpu::cuda
