#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/value_types.hpp"
#include "solvers/subspaces/krylov_basis_steps.hpp"
#include "solvers/subspaces/place.cuh"

namespace spmvgpu::gpu {

// A block loads this many rows of all vectors into shared memory, and writes the same rows of the combinations, which
// may therefore overlap the vectors.
template <class T>
__global__ void rotate_tiles(index_t n, Basis<T> from, int vectors, const Wide<T>* q, int count, Basis<T> to,
                             int rows) {
    extern __shared__ double of_tile[];
    T* const tile = reinterpret_cast<T*>(of_tile);
    const std::int64_t stride = std::int64_t(gridDim.x) * rows;
    for (std::int64_t begin = std::int64_t(blockIdx.x) * rows; begin < n; begin += stride) {
        for (int k = threadIdx.x; k < vectors * rows; k += blockDim.x) {
            const int j = k / rows, row = k % rows;
            if (begin + row < n) tile[k] = from[j][begin + row];
        }
        __syncthreads();
        for (int k = threadIdx.x; k < count * rows; k += blockDim.x) {
            const int c = k / rows, row = k % rows;
            if (begin + row >= n) continue;
            T sum{};
            for (int j = 0; j < vectors; ++j) sum += T(q[std::size_t(c) * vectors + j]) * tile[j * rows + row];
            to[c][begin + row] = sum;
        }
        __syncthreads();
    }
}

template <class T>
void rotate(OnStream& place, index_t n, Basis<T> from, int vectors, const Wide<T>* q, int count, Basis<T> to) {
    constexpr int kBlockSize = 256, kSharedBytes = 48 << 10;
    int rows = 128;
    while (rows > 1 && std::size_t(vectors) * rows * sizeof(T) > kSharedBytes) rows /= 2;
    const std::size_t bytes = std::size_t(vectors) * rows * sizeof(T);
    if (bytes > kSharedBytes) {
        const std::string most = std::to_string(kSharedBytes / sizeof(T));
        throw std::invalid_argument("ncv is too large for a GPU, where a basis has at most " + most + " vectors");
    }
    const auto most_blocks = static_cast<unsigned>(8 * properties(place.device.ordinal).multiprocessors);
    const unsigned blocks = std::clamp<unsigned>(blocks_for(n, rows), 1u, most_blocks);
    rotate_tiles<<<blocks, kBlockSize, bytes, native(place.stream.get())>>>(n, from, vectors, q, count, to, rows);
    check_launch("rotate_tiles");
}

template <class T>
std::unique_ptr<KrylovBasis<T>> make_krylov_basis(index_t n, int length, std::shared_ptr<SolverMemory> memory,
                                                  RankSums ranks, std::shared_ptr<const LinearMap<T>> inner) {
    if (ranks)
        return std::make_unique<KrylovBasisOn<T, OnGpuOfRank>>(n, length, std::move(memory), std::move(ranks),
                                                               std::move(inner));
    return std::make_unique<KrylovBasisOn<T, OnGpu>>(n, length, std::move(memory), std::move(ranks), std::move(inner));
}

#define INSTANTIATE(T)                                                                                                \
    template std::unique_ptr<KrylovBasis<T>> make_krylov_basis(index_t, int, std::shared_ptr<SolverMemory>, RankSums, \
                                                               std::shared_ptr<const LinearMap<T>>);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::gpu
