// Vectors packed from scattered elements, and unpacked, on any device: on a GPU in the order of a stream, on the CPU by
// several threads, and done on return.
#pragma once

#include <cstdint>

#include "core/array.hpp"
#include "core/columns.hpp"

namespace spmvgpu::gpu {

// to[i * from.count + j] = element map[i] of vector j, for i below length, of up to kMaxColumns vectors. Without a map
// (nullptr), i stands for map[i], here and below.
template <class T>
void gather(T* to, const Columns<const T>& from, const index_t* map, index_t length, Device device, Stream stream);

// Element map[i] of vector j = from[i * to.count + j] + beta times itself, without reading it where beta is zero.
template <class T>
void scatter(const Columns<T>& to, const T* from, const index_t* map, index_t length, T beta, Device device,
             Stream stream);

// gather() and scatter() for one vector with elements `stride` apart.
template <class T>
void gather(T* to, const T* from, const index_t* map, index_t length, Device device, Stream stream,
            std::int64_t stride = 1) {
    gather(to, Columns<const T>{from, 1, stride, 0}, map, length, device, stream);
}
template <class T>
void scatter(T* to, const T* from, const index_t* map, index_t length, T beta, Device device, Stream stream,
             std::int64_t stride = 1) {
    scatter(Columns<T>{to, 1, stride, 0}, from, map, length, beta, device, stream);
}

// gather() and scatter() for all of a map, which lies on the device of the vectors.
template <class T>
void gather(T* to, const T* from, const Array<index_t>& map, Stream stream) {
    gather(to, from, map.data(), static_cast<index_t>(map.size()), map.device(), stream);
}
template <class T>
void scatter(T* to, const T* from, const Array<index_t>& map, T beta, Stream stream) {
    scatter(to, from, map.data(), static_cast<index_t>(map.size()), beta, map.device(), stream);
}

// Implemented by gpu/cuda.
template <class T>
void gather_on_gpu(T* to, const Columns<const T>& from, const index_t* map, index_t length, int ordinal, Stream stream);
template <class T>
void scatter_on_gpu(const Columns<T>& to, const T* from, const index_t* map, index_t length, T beta, int ordinal,
                    Stream stream);

}  // namespace spmvgpu::gpu
