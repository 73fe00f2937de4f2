// The largest eigenvalue of a Hermitian matrix, by a few steps of Lanczos' method (Saad, Numerical Methods for Large
// Eigenvalue Problems, section 6.3). As passes on any device; see core/passes/passes.hpp.
//
// Inner products are sums of integers, which do not depend on the order, and so the estimate has the same bits on every
// device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/array.hpp"
#include "core/csr_matrix.hpp"
#include "core/passes/passes.hpp"
#include "core/passes/random.hpp"
#include "core/wide.hpp"

namespace spmvgpu::multigrid {

// The fixed-point representation of 1. Sums of numbers from -1 to 1 are exact as long as they are in this range, too.
constexpr double kFixedOne = 0x1p61;
constexpr std::int64_t to_fixed(double number) {
    const double bounded = number > 1 ? 1 : number < -1 ? -1 : number;
    return bounded == bounded ? static_cast<std::int64_t>(bounded * kFixedOne) : 0;
}

constexpr double from_fixed(std::int64_t number) { return static_cast<double>(number) / kFixedOne; }

SPMVGPU_IN_BODY double square_root(double value) { return ::sqrt(value); }
SPMVGPU_IN_BODY double norm_of(std::int64_t sum_of_squares, double unit) {
    return square_root(from_fixed(sum_of_squares)) * unit;
}

constexpr double squared(double number) { return number * number; }
constexpr double squared(Complex<double> number) { return number.real * number.real + number.imag * number.imag; }
constexpr double real_product(double a, double b) { return a * b; }
constexpr double real_product(Complex<double> a, Complex<double> b) { return a.real * b.real + a.imag * b.imag; }

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

constexpr double kNegligible = 1e-7;  // relative to a vector: only rounding errors are left

// The largest Ritz value of the steps whose sums are known, as largest_eigenvalue() makes them.
inline double largest_ritz_value(const std::vector<std::int64_t>& sums, int steps, double bound) {
    std::vector<double> diagonal, beside;
    for (int step = 0; step < steps; ++step) {
        diagonal.push_back(from_fixed(sums[2 * step + 1]) * bound);
        const double norm = norm_of(sums[2 * step + 2], bound);
        if (!(norm > kNegligible * bound)) break;
        beside.push_back(norm);
    }
    return std::min(bound, largest_of_tridiagonal(diagonal, beside));
}

// Estimates the largest eigenvalue of S A S with the numbers `root` on the diagonal of S. No eigenvalue is larger than
// `bound` in size. The sums stay on the device, which is waited for at the end, where steps after an exact one are left
// out, and once before that: the bound itself is the estimate if a few steps come close to it, as they do if the
// entries beside the diagonal are negative and all rows alike.
template <class T, class Passes>
double largest_eigenvalue(Passes& passes, const CsrPattern& A, const T* values, const double* root, double bound,
                          int steps, std::int64_t work) {
    using V = Wide<T>;
    const index_t n = A.rows;
    if (n == 0 || !(bound > 0)) return bound;
    Array<V> vectors[3], scaled_vector = passes.template scratch<V>(n);
    for (auto& vector : vectors) vector = passes.template scratch<V>(n);
    V* const scaled = scaled_vector.data();
    // For each step the square of the norm of its vector and the inner product of that with its product, relative to
    // the squares of their bounds.
    Array<std::int64_t> sums_of_steps = passes.template scratch<std::int64_t>(2 * steps + 1);
    std::int64_t* const sums = sums_of_steps.data();
    passes.fill(sums, 2 * steps + 1, std::int64_t(0));
    const double first_unit = square_root(kIsComplex<V> ? 2.0 * n : 1.0 * n);
    {
        V* const to = vectors[2].data();
        passes.add(sums, n, [=] SPMVGPU_BODY(std::int64_t i) {
            to[i] = random_entry<V>(1, i);
            return to_fixed(squared(to[i]) / (first_unit * first_unit));
        });
    }
    for (int step = 0; step < steps; ++step) {
        constexpr int kFew = 4;
        constexpr double kClose = 0.8;
        if (step == kFew) {
            if (largest_ritz_value(passes.read_all(sums_of_steps), step, bound) >= kClose * bound) return bound;
        }
        std::swap(vectors[0], vectors[1]);
        std::swap(vectors[1], vectors[2]);  // the one before, this one, the next one
        V *const v = vectors[1].data(), *const next = vectors[2].data();
        const V* const before = vectors[0].data();
        const bool is_first = step == 0;
        const double unit = is_first ? first_unit : bound;
        std::int64_t *const of_norm = sums + 2 * step, *const along = of_norm + 1, *const of_next = along + 1;
        passes.each(n, [=] SPMVGPU_BODY(std::int64_t i) {
            const double norm = norm_of(*of_norm, unit);
            v[i] = norm > kNegligible * unit ? v[i] / norm : V(0);
            scaled[i] = root[i] * v[i];
        });
        passes.template add_rows<V>(
            along, n, A.row_offsets, A.nnz,
            [=] SPMVGPU_BODY(index_t k) { return V(values[k]) * scaled[A.col_indices[k]]; },
            [=] SPMVGPU_BODY(index_t row, const V& sum) {
                next[row] = root[row] * sum;
                return to_fixed(real_product(v[row], next[row]) / bound);
            },
            work);
        passes.add(of_next, n, [=] SPMVGPU_BODY(std::int64_t i) {
            V own = next[i] - from_fixed(*along) * bound * v[i];
            if (!is_first) own = own - norm_of(*of_norm, unit) * before[i];
            next[i] = own;
            return to_fixed(squared(own) / (bound * bound));
        });
    }
    return largest_ritz_value(passes.read_all(sums_of_steps), steps, bound);
}

}  // namespace spmvgpu::multigrid
