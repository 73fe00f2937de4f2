// The part of a matrix that stays in the L2 from one product to the next.
//
// A product reads its matrix once, from begin to end. If the matrix is larger than the L2, nothing useful is left for
// the next product, because the last reads evict the first ones. Loads with an evict-first hint, such as __ldcs, evict
// each other even if there is room. So a share of the matrix stays, as large as the room beside the vectors, and the
// rest is evicted first.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "core/types.hpp"

namespace spmvgpu::gpu {

// A pointer for loads of Keeping, computed here: the compiler would compute it anew for each conditional load. Other
// loads through it are slow, because the compiler no longer knows that they are from global memory.
template <class T>
__device__ __forceinline__ const T* computed_once(const T* pointer) {
    asm("" : "+l"(pointer));
    return pointer;
}

class Keeping {
public:
    __device__ __forceinline__ explicit Keeping(std::uint64_t policy) : policy_(policy) {}  // Product::policy

    // A load of matrix data, which a product reads once: it leaves the L1 to x.
    template <class T>
    __device__ __forceinline__ T load_once(const T* pointer) const {
#if __CUDA_ARCH__ >= 800
        using Bits = BitsOf<T>;
        Bits bits;
        if constexpr (sizeof(T) == 16) {
            asm("ld.global.L1::evict_first.L2::cache_hint.v2.b64 {%0, %1}, [%2], %3;"
                : "=l"(bits.x), "=l"(bits.y)
                : "l"(pointer), "l"(policy_));
        } else if constexpr (sizeof(T) == 8) {
            asm("ld.global.L1::evict_first.L2::cache_hint.b64 %0, [%1], %2;" : "=l"(bits) : "l"(pointer), "l"(policy_));
        } else if constexpr (sizeof(T) == 4) {
            asm("ld.global.L1::evict_first.L2::cache_hint.b32 %0, [%1], %2;" : "=r"(bits) : "l"(pointer), "l"(policy_));
        } else {
            std::uint32_t wide;
            if constexpr (sizeof(T) == 2) {
                asm("ld.global.L1::evict_first.L2::cache_hint.u16 %0, [%1], %2;"
                    : "=r"(wide)
                    : "l"(pointer), "l"(policy_));
            } else {
                asm("ld.global.L1::evict_first.L2::cache_hint.u8 %0, [%1], %2;"
                    : "=r"(wide)
                    : "l"(pointer), "l"(policy_));
            }
            bits = static_cast<Bits>(wide);
        }
        return __builtin_bit_cast(T, bits);
#else
        return __builtin_bit_cast(T, __ldcs(reinterpret_cast<const BitsOf<T>*>(pointer)));
#endif
    }

private:
    template <class T>
    using BitsOf = std::conditional_t<
        sizeof(T) == 16, ulonglong2,
        std::conditional_t<sizeof(T) == 8, unsigned long long,
                           std::conditional_t<sizeof(T) == 4, unsigned,
                                              std::conditional_t<sizeof(T) == 2, unsigned short, unsigned char>>>>;

    std::uint64_t policy_;
};

}  // namespace spmvgpu::gpu
