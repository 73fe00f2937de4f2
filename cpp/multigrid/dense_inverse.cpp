#include "multigrid/dense_inverse.hpp"

#include "core/parallel.hpp"
#include "core/wide.hpp"

namespace spmvgpu::multigrid {

namespace {

// Subtracts a multiple of the pivot's row from rows first to last, so that their entries in the pivot's column become
// the ones of the inverse.
template <class V>
SPMVGPU_SIMD_CLONES static void eliminate(index_t n, V* matrix, index_t pivot, std::int64_t first, std::int64_t last) {
    const V* const from = matrix + std::int64_t(pivot) * n;
    for (std::int64_t i = first; i < last; ++i) {
        if (i == pivot) continue;
        V* const row = matrix + i * n;
        const V factor = row[pivot];
        row[pivot] = V(0);
#pragma omp simd
        for (index_t j = 0; j < n; ++j) row[j] = row[j] - factor * from[j];
    }
}

}  // namespace

template <class V>
bool invert_definite(index_t n, V* matrix, double least) {
    for (index_t pivot = 0; pivot < n; ++pivot) {
        V* const row = matrix + std::int64_t(pivot) * n;
        const double size = real_part(row[pivot]);
        if (!(size >= least)) return false;
        row[pivot] = V(1);
        for (index_t j = 0; j < n; ++j) row[j] = row[j] / size;
        const std::int64_t nanoseconds_per_row = n / 2;
        parallel_ranges(n, n * nanoseconds_per_row,
                        [&](std::int64_t first, std::int64_t last) { eliminate(n, matrix, pivot, first, last); });
    }
    return true;
}

template bool invert_definite(index_t, double*, double);
template bool invert_definite(index_t, Complex<double>*, double);

}  // namespace spmvgpu::multigrid
