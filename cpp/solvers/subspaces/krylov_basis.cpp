#include "solvers/subspaces/krylov_basis.hpp"

#include <algorithm>
#include <vector>

#include "solvers/subspaces/krylov_basis_steps.hpp"
#include "solvers/subspaces/place.hpp"

namespace spmvgpu {

inline constexpr std::int64_t kRotatedRows = 128;  // rows of several vectors that stay in the nearest caches

template <class T>
SPMVGPU_SIMD_CLONES static void rotate_rows(Basis<T> from, int vectors, const Wide<T>* q, int count, Basis<T> to,
                                            T* tile, std::int64_t begin, std::int64_t rows) {
    for (int j = 0; j < vectors; ++j) std::copy_n(from[j] + begin, rows, tile + j * kRotatedRows);
    for (int c = 0; c < count; ++c) {
        T* const target = to[c] + begin;
        std::fill_n(target, rows, T{});
        for (int j = 0; j < vectors; ++j) {
            const T factor = T(q[std::size_t(c) * vectors + j]);
            const T* const source = tile + j * kRotatedRows;
#pragma omp simd
            for (std::int64_t i = 0; i < rows; ++i) target[i] += factor * source[i];
        }
    }
}

template <class T>
void rotate(OnHost&, index_t n, Basis<T> from, int vectors, const Wide<T>* q, int count, Basis<T> to) {
    const std::int64_t nanoseconds = std::int64_t(n) * (1 + vectors * std::int64_t(count) / 4);
    parallel_ranges(n, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
        std::vector<T> tile(std::size_t(vectors) * kRotatedRows);
        for (std::int64_t i = begin; i < end; i += kRotatedRows) {
            rotate_rows(from, vectors, q, count, to, tile.data(), i, std::min(kRotatedRows, end - i));
        }
    });
}

template <class T>
std::unique_ptr<KrylovBasis<T>> make_krylov_basis(index_t n, int length, std::shared_ptr<SolverMemory> memory,
                                                  RankSums ranks, std::shared_ptr<const LinearMap<T>> inner) {
#ifdef SPMVGPU_CUDA
    if (memory->device().is_gpu())
        return gpu::make_krylov_basis<T>(n, length, std::move(memory), std::move(ranks), std::move(inner));
#endif
    return std::make_unique<KrylovBasisOn<T, OnHost>>(n, length, std::move(memory), std::move(ranks), std::move(inner));
}

#define INSTANTIATE(T)                                                                                                \
    template std::unique_ptr<KrylovBasis<T>> make_krylov_basis(index_t, int, std::shared_ptr<SolverMemory>, RankSums, \
                                                               std::shared_ptr<const LinearMap<T>>);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
