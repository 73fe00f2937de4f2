// Vectors put together from scattered elements, and taken apart, on a GPU.
#pragma once

#include "core/types.hpp"

namespace spmvgpu::cuda {

// to[i] = from[map[i]] for i below count.
template <class T>
void gather(T* to, const T* from, const index_t* map, index_t count, int ordinal, Stream stream);

// to[map[i]] = from[i] + beta * to[map[i]] for i below count, without reading `to` where beta is zero. Without
// a map (nullptr) to[i] stands for to[map[i]].
template <class T>
void scatter(T* to, const T* from, const index_t* map, index_t count, T beta, int ordinal, Stream stream);

}  // namespace spmvgpu::cuda
