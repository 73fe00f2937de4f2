// Memory of GPUs for work that is soon over, and the sorts and scans that need it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/types.hpp"

namespace spmvgpu::cuda {

// Memory in the order of a stream: it may be used by what is queued there after this call, and is given back, with its
// last owner, after what is queued there by then. It comes from a pool that keeps what is given back for the next one
// to ask, until drop_scratch(). Throws OutOfMemory.
std::shared_ptr<void> allocate_scratch(std::size_t bytes, int ordinal, Stream stream);

// Lets a device have back what its pool keeps. Never throws.
void drop_scratch(int ordinal) noexcept;

// counts[i] becomes the sum of the counts before i, for i from 0 to n; counts[n] need not be anything before.
template <class T>
void scan_counts(T* counts, std::int64_t n, int ordinal, Stream stream);

// Sorts pairs by the lowest `bits` bits of their keys; equal ones keep their order. Returns whether the sorted pairs
// are in the other two arrays, which are of the same lengths.
template <class Key>
bool sort_pairs(Key* keys, Key* other_keys, index_t* values, index_t* other_values, index_t n, int bits, int ordinal,
                Stream stream);

}  // namespace spmvgpu::cuda
