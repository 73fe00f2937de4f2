// Bits of words, and what functions begin with that are for the CPU and for the bodies of passes on a GPU.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define SPMVGPU_IN_BODY __host__ __device__ __forceinline__
#else
#define SPMVGPU_IN_BODY inline
#endif

namespace spmvgpu {

using Word = std::uint32_t;
constexpr std::int64_t kWordBits = 32;
constexpr std::int64_t words_for(std::int64_t bits) { return (bits + kWordBits - 1) / kWordBits; }

SPMVGPU_IN_BODY int count_bits(Word word) {
#ifdef __CUDA_ARCH__
    return __popc(word);
#else
    return std::popcount(word);
#endif
}

// Of a word that has one.
SPMVGPU_IN_BODY int lowest_bit(Word word) {
#ifdef __CUDA_ARCH__
    return __ffs(static_cast<int>(word)) - 1;
#else
    return std::countr_zero(word);
#endif
}

}  // namespace spmvgpu
