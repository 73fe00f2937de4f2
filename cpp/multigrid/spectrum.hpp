// The largest eigenvalue of a Hermitian matrix, by a few steps of Lanczos' method (Saad, Numerical Methods for Large
// Eigenvalue Problems, section 6.3). As passes on any device; see core/passes/passes.hpp.
//
// Inner products are sums of integers: those are the same in any order, and so the estimate has the same bits on every
// device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/array.hpp"
#include "core/passes/bits.hpp"
#include "core/passes/passes.hpp"
#include "core/wide.hpp"

namespace spmvgpu::multigrid {

// A number from -1 to 1 as an integer, which the sum of many is exact in, as long as that is from -1 to 1, too.
constexpr double kFixedOne = 0x1p61;
constexpr std::int64_t to_fixed(double number) {
    const double bounded = number > 1 ? 1 : number < -1 ? -1 : number;
    return bounded == bounded ? static_cast<std::int64_t>(bounded * kFixedOne) : 0;
}

constexpr double squared(double number) { return number * number; }
constexpr double squared(Complex<double> number) { return number.real * number.real + number.imag * number.imag; }
constexpr double real_product(double a, double b) { return a * b; }
constexpr double real_product(Complex<double> a, Complex<double> b) { return a.real * b.real + a.imag * b.imag; }

// A number from -1 to 1 that belongs to an index, as if by chance.
constexpr double random_number(std::int64_t index) { return static_cast<double>(mixed(1, index) >> 11) * 0x1p-52 - 1; }
template <class V>
constexpr V random_entry(std::int64_t index) {
    if constexpr (kIsComplex<V>) {
        return V(random_number(2 * index), random_number(2 * index + 1));
    } else {
        return random_number(index);
    }
}

// The largest eigenvalue of the symmetric tridiagonal matrix with this diagonal and these numbers beside it, by
// bisection: the pivots of a matrix less a number above all its eigenvalues are negative.
inline double largest_of_tridiagonal(const std::vector<double>& diagonal, const std::vector<double>& beside) {
    double low = diagonal[0], high = diagonal[0];
    for (std::size_t i = 0; i < diagonal.size(); ++i) {
        const double radius = (i > 0 ? beside[i - 1] : 0) + (i + 1 < diagonal.size() ? beside[i] : 0);
        low = std::max(low, diagonal[i]);
        high = std::max(high, diagonal[i] + radius);
    }
    constexpr int kSteps = 60;
    for (int step = 0; step < kSteps; ++step) {
        const double middle = low + (high - low) / 2;
        bool is_above = true;
        double pivot = 1;
        for (std::size_t i = 0; i < diagonal.size() && is_above; ++i) {
            pivot = diagonal[i] - middle - (i > 0 ? squared(beside[i - 1]) / pivot : 0);
            is_above = pivot < 0;
        }
        (is_above ? high : low) = middle;
    }
    return high;
}

// Of the matrix whose product with a vector of V has multiply(vector, i) as entry i. No eigenvalue is larger than
// `bound` in size.
template <class V, class Passes, class Multiply>
double largest_eigenvalue(Passes& passes, index_t n, double bound, int steps, const Multiply& multiply,
                          std::int64_t work) {
    if (n == 0 || !(bound > 0)) return bound;
    Array<V> vectors[3];
    for (auto& vector : vectors) vector = passes.template scratch<V>(n);
    {
        V* const to = vectors[2].data();
        passes.each(n, [=] SPMVGPU_BODY(std::int64_t i) { to[i] = random_entry<V>(i); });
    }
    const double most = kIsComplex<V> ? 2.0 * n : 1.0 * n;
    const auto sum = passes.template reduce<std::int64_t>(
        n, [=] SPMVGPU_BODY(std::int64_t i) { return to_fixed(squared(random_entry<V>(i)) / most); });
    double norm = std::sqrt(static_cast<double>(sum) / kFixedOne * most);
    std::vector<double> diagonal, beside;
    for (int step = 0; step < steps; ++step) {
        std::swap(vectors[0], vectors[1]);
        std::swap(vectors[1], vectors[2]);  // the one before, this one, the next one
        V *const v = vectors[1].data(), *const next = vectors[2].data();
        const V* const before = vectors[0].data();
        const bool is_first = step == 0;
        const double last = norm;
        passes.each(n, [=] SPMVGPU_BODY(std::int64_t i) { v[i] = v[i] / last; });
        const auto along = passes.template reduce<std::int64_t>(
            n,
            [=] SPMVGPU_BODY(std::int64_t i) {
                next[i] = multiply(v, static_cast<index_t>(i));
                return to_fixed(real_product(v[i], next[i]) / bound);
            },
            work);
        const double alpha = static_cast<double>(along) / kFixedOne * bound;
        const auto rest = passes.template reduce<std::int64_t>(n, [=] SPMVGPU_BODY(std::int64_t i) {
            V own = next[i] - alpha * v[i];
            if (!is_first) own = own - last * before[i];
            next[i] = own;
            return to_fixed(squared(own) / (bound * bound));
        });
        norm = std::sqrt(static_cast<double>(rest) / kFixedOne) * bound;
        diagonal.push_back(alpha);
        constexpr double kNothing = 1e-7;  // nothing but rounding errors is left
        if (!(norm > kNothing * bound)) break;
        beside.push_back(norm);
    }
    return std::min(bound, largest_of_tridiagonal(diagonal, beside));
}

}  // namespace spmvgpu::multigrid
