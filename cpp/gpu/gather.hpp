// Vectors put together from scattered elements, and taken apart, on a GPU.
#pragma once

#include "core/types.hpp"

namespace spmvgpu::cuda {

// to[i] = from[map[i] * stride] for i below count. Without a map (nullptr), i stands for map[i].
template <class T>
void gather(T* to, const T* from, const index_t* map, index_t count, int ordinal, Stream stream,
            std::int64_t stride = 1);

// to[map[i] * stride] = from[i] + beta * to[map[i] * stride] for i below count, without reading `to` where beta is
// zero. Without a map (nullptr), i stands for map[i].
template <class T>
void scatter(T* to, const T* from, const index_t* map, index_t count, T beta, int ordinal, Stream stream,
             std::int64_t stride = 1);

}  // namespace spmvgpu::cuda
