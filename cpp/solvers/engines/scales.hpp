// Powers of two that bring a system with numbers near the limits of their type into the middle of it:
//
//     (2^A A) (2^(b - A) x) = 2^b b,  with 2^M M for M
//
// so that |b|, |M b| / |b| and |A M b| / |M b| are near 1, and no square in a solver over- or underflows.
// Multiplication by a power of two is exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "solvers/engines/sweep.hpp"

namespace spmvgpu {

struct Scales {
    int b = 0, A = 0, M = 0;

    int x() const { return b - A; }
};

// Two sums of the elements' sizes, at least one of which is neither zero nor infinite.
struct Magnitude {
    std::int32_t stopped = 0;
    double raised = 0, lowered = 0;
    static constexpr int kShift = 100;

    template <class Visit>
    void visit_pointers(Visit&&) {}

    bool is_zero() const { return raised == 0; }

    // The exponent of the sum; none for zeros, and for infinite numbers or NaN.
    std::optional<int> exponent() const {
        if (finite(raised) && raised > 0) return std::ilogb(raised) - kShift;
        if (finite(lowered) && lowered > 0) return std::ilogb(lowered) + kShift;
        return std::nullopt;
    }
};

// The sizes of the columns of a vector, measured with scalars at `memory`.
template <class T, class Queue>
std::vector<Magnitude> magnitudes_of(Queue& queue, Magnitude* memory, index_t n, const T* v) {
    queue.put_scalars(memory, Magnitude{});
    queue.sweep(
        memory, n, read(v), Writes<T, 0>{},
        [=] SPMVGPU_DEVICE(const Magnitude&, T v) {
            constexpr double kUp = 0x1p100, kDown = 0x1p-100;
            const double size = size_of(Wide<T>(v));
            return sum<T>(size * kUp, size * kDown);
        },
        [=] SPMVGPU_DEVICE(Magnitude & m, const Sums<T, 2>& sums) {
            m.raised = sums.real(0);
            m.lowered = sums.real(1);
        });
    return queue.read_columns(memory);
}

// The exponent of |v|, or of one of its columns.
template <class T, class Queue>
std::optional<int> exponent_of(Queue& queue, Magnitude* memory, index_t n, const T* v, int column = 0) {
    return magnitudes_of(queue, memory, n, v)[column].exponent();
}

// to = 2^exponent from, in two steps, because the factor may be out of range where the result is not.
template <class T, class Queue>
void scale_by_power(Queue& queue, index_t n, const T* from, T* to, int exponent) {
    const int most = std::numeric_limits<Real<T>>::max_exponent - 1;
    const int half = std::clamp(exponent / 2, -most, most), rest = std::clamp(exponent - half, -most, most);
    const Real<T> first = std::ldexp(Real<T>(1), half), second = std::ldexp(Real<T>(1), rest);
    queue.each(n, read(from), write(to), [=] SPMVGPU_DEVICE(T v) { return put(first * (second * v)); });
}

}  // namespace spmvgpu
