// Bit operations for the CPU and for the bodies of passes on a GPU.
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

// Position of the lowest set bit of a word that is not zero.
SPMVGPU_IN_BODY int lowest_bit(Word word) {
#ifdef __CUDA_ARCH__
    return __ffs(static_cast<int>(word)) - 1;
#else
    return std::countr_zero(word);
#endif
}

// A hash of some bits and their place. The sums of the hashes of two sets are equal only if the sets are, all but
// certainly (after the finaliser of SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
constexpr std::uint64_t mixed(std::uint64_t bits, std::int64_t place) {
    std::uint64_t word = (bits + static_cast<std::uint64_t>(place) * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 31) * 0x94d049bb133111ebu;
    return word ^ word >> 29;
}

}  // namespace spmvgpu
