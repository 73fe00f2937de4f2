// Sorts and scans on GPUs, by CUB.
#pragma once

#include <cstdint>

#include "core/types.hpp"

namespace spmvgpu::gpu {

// counts[i] becomes the sum of the counts before i, for i from 0 to n; counts[n] need not be anything before.
template <class T>
void scan_counts(T* counts, std::int64_t n, int ordinal, Stream stream);

// Sorts pairs by the lowest `bits` bits of their keys; equal ones keep their order. Returns true if the sorted pairs
// are in the other two arrays, which have the same lengths.
template <class Key>
bool sort_pairs(Key* keys, Key* other_keys, index_t* values, index_t* other_values, index_t n, int bits, int ordinal,
                Stream stream);

}  // namespace spmvgpu::gpu
