// Random numbers that belong to their places: the same on every device, in any order.
#pragma once

#include <cstdint>
#include <variant>

#include "core/complex.hpp"
#include "core/passes/bits.hpp"
#include "core/passes/passes.hpp"
#include "core/types.hpp"

namespace spmvgpu {

// A number from -1 to 1 that belongs to a place, as if by chance; each seed has its own.
constexpr double random_number(std::uint64_t seed, std::int64_t place) {
    return static_cast<double>(mixed(seed, place) >> 11) * 0x1p-52 - 1;
}

template <class V>
constexpr V random_entry(std::uint64_t seed, std::int64_t place) {
    if constexpr (kIsComplex<V>) {
        using R = Real<V>;
        return V(static_cast<R>(random_number(seed, 2 * place)), static_cast<R>(random_number(seed, 2 * place + 1)));
    } else {
        return static_cast<V>(random_number(seed, place));
    }
}

// An operation for gpu/run.hpp: fills a vector at an address on the device, or the piece of one from an entry on.
template <class T>
struct DrawVector {
    using Result = std::monostate;
    std::int64_t n, first;
    std::uint64_t seed;
    T* to;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const std::uint64_t from = seed;
        const std::int64_t begin = first;
        T* const vector = to;
        passes.each(n, [=] SPMVGPU_BODY(std::int64_t i) { vector[i] = random_entry<T>(from, begin + i); });
        return {};
    }
};

}  // namespace spmvgpu
