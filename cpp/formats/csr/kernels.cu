#include <cuda/atomic>
#include <type_traits>

#include "core/dispatch.hpp"
#include "formats/csr/layout.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/residency.cuh"
#include "gpu/cuda/warp.cuh"
#include "gpu/residency.hpp"

namespace spmvgpu {

namespace {

using namespace gpu;

constexpr int kInFlight = times::kInFlight;

// A group of kLanes lanes per row; products reduced by warp shuffles (Tao and Huang 2015).
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockSize)
    csr_shuffle(index_t rows, const index_t* __restrict__ row_offsets, const index_t* __restrict__ col_indices,
                const T* __restrict__ values, Product<T> product) {
    let_next_kernel_start();
    const auto row = static_cast<index_t>((std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x) / kLanes);
    T sum = 0;
    if (row < rows) {
        sum = sum_strided<kInFlight>(col_indices, values, product, row_offsets[row] + threadIdx.x % kLanes,
                                     row_offsets[row + 1], kLanes);
    }
    sum = sum_lanes(sum, kLanes);
    wait_for_kernel_before();
    if (row < rows && threadIdx.x % kLanes == 0) store_row(product, row, sum);
}

// A kernel like the one above with the reduction in shared memory (Yin 2012: CSR-R with 32 lanes, CSR-O with 16).
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockSize)
    csr_shared(index_t rows, const index_t* __restrict__ row_offsets, const index_t* __restrict__ col_indices,
               const T* __restrict__ values, Product<T> product) {
    let_next_kernel_start();
    __shared__ T sums[kBlockSize];
    const auto row = static_cast<index_t>((std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x) / kLanes);
    const int lane = threadIdx.x % kLanes;
    T sum = 0;
    if (row < rows) {
        sum = sum_strided<kInFlight>(col_indices, values, product, unsigned(row_offsets[row]) + lane,
                                     row_offsets[row + 1], kLanes);
    }
    sum = sum_lanes_shared(sums, sum, kLanes);
    wait_for_kernel_before();
    if (row < rows && lane == 0) store_row(product, row, sum);
}

// A number that a block leaves for another one of the same kernel. The reader learns with one access to the L2 both
// that it is there and what it is: the words are the complements of the number's bits, and zero before and after every
// product. A NaN whose bits are all ones becomes the next one.
template <class T>
class Message {
public:
    __device__ void send(T value) {
        const auto parts = __builtin_bit_cast(Parts, value);
#pragma unroll
        for (int i = 0; i < kParts; ++i) at(i).store(parts.part[i] == ~Word(0) ? 1 : ~parts.part[i], kRelaxed);
    }
    __device__ T receive() {
        Parts parts;
        bool is_there = false;
        while (!is_there) {
            is_there = true;
#pragma unroll
            for (int i = 0; i < kParts; ++i) {
                parts.part[i] = ~at(i).load(kRelaxed);
                is_there = is_there && parts.part[i] != ~Word(0);
            }
        }
#pragma unroll
        for (int i = 0; i < kParts; ++i) at(i).store(0, kRelaxed);
        return __builtin_bit_cast(T, parts);
    }

private:
    using Word = std::conditional_t<sizeof(Real<T>) == 4, unsigned, unsigned long long>;
    static constexpr int kParts = sizeof(T) / sizeof(Word);
    static constexpr auto kRelaxed = ::cuda::memory_order_relaxed;
    struct Parts {
        Word part[kParts];
    };

    __device__ auto at(int i) { return ::cuda::atomic_ref<Word, ::cuda::thread_scope_device>(words_.part[i]); }

    Parts words_;
};

template <class T>
struct BalancedPlan {
    const Tile* tiles;
    const RowSpan* spans;
    const index_t* row_offsets;
    const index_t* col_indices;
    const T* values;
    Message<T>* segment_sums;  // scratch: partial sums of cut rows
};

// The first non-zero of a tile that a thread of its block reads, counted from the begin of the tile. The threads divide
// the numbers in the matrix modulo their count, so that warps read whole sectors wherever the tile begins.
template <int kThreads>
__device__ __forceinline__ unsigned first_of_thread(const Tile& tile) {
    return (threadIdx.x - static_cast<unsigned>(tile.nz_begin)) % kThreads;
}

// Multiplies a tile that is one row, or a segment of one. The block of a row's last segment adds up all of them, in
// order. Blocks start in the order of their numbers, so the ones that it waits for are running or done.
template <class T, int kThreads>
__device__ void multiply_long_row(const BalancedPlan<T>& plan, const Tile& tile, const Product<T>& product) {
    const index_t end = tile.nz_begin + tile.nonzeros;
    // The span of a segment is read now, because a read when it is needed would take as long as the message.
    const RowSpan span = tile.rows == 1 ? RowSpan{tile.row_begin, tile.note, tile.note} : plan.spans[tile.row_begin];
    const index_t first = tile.nz_begin + first_of_thread<kThreads>(tile);
    T sum = sum_strided<kInFlight>(plan.col_indices, plan.values, product, first, end, kThreads);
    sum = sum_block<T, kThreads>(sum);
    wait_for_kernel_before();
    if (threadIdx.x >= kWarp) return;
    if (tile.rows == 0) {
        const T own = shuffle_from(sum, 0);
        if (tile.note != span.last) {
            if (threadIdx.x == 0) plan.segment_sums[tile.note].send(own);
            return;
        }
        sum = 0;
        for (index_t i = span.first + threadIdx.x; i <= span.last; i += kWarp) {
            sum += i < span.last ? plan.segment_sums[i].receive() : own;
        }
        sum = sum_lanes(sum, kWarp);
    }
    if (threadIdx.x == 0) store_row(product, span.row, sum);
}

// The sum of one of a power of two of lanes over a row's products in shared memory; it reads several before it adds the
// first.
template <class T>
__device__ __forceinline__ T sum_products(const T* products, int begin, int end, int lane, int lanes) {
    T sum = 0;
#pragma unroll 1
    for (int k = begin + lane; k < end; k += kInFlight * lanes) {
        T read[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) read[i] = k + i * lanes < end ? load(products + k + i * lanes) : T(0);
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) sum += read[i];
    }
    return sum_lanes(sum, lanes);
}

// A block takes a tile. In a tile of several rows the products of all its non-zeros go to shared memory, read from
// global memory without regard to row ends and with kItems loads in flight per thread; then groups of lanes add up the
// rows. Rows that are much longer than their group is wide are left to whole warps, which take them first.
template <class T, int kItems, int kThreads>
__global__ void __launch_bounds__(kThreads, Tile::blocks(kItems* kThreads, sizeof(T)))
    csr_balanced_block_per_tile(BalancedPlan<T> plan, Product<T> product) {
    // With small tiles the next kernel starts once this one has waited: if several waited in a row, blocks would be
    // distributed unevenly. Large tiles fill the processors anyway.
    if constexpr (kItems >= 8) let_next_kernel_start();
    T* const products = shared_array<T, kThreads * kItems>();
    struct LongRow {
        std::uint16_t row, begin, end;
    };
    __shared__ LongRow long_rows[kThreads * kItems / Tile::kMaxPerLane];
    __shared__ int long_row_count;
    const Tile tile = plan.tiles[blockIdx.x];
    if (tile.rows <= 1) return multiply_long_row<T, kThreads>(plan, tile, product);

    const Keeping keeping(product.policy);
    const unsigned first = first_of_thread<kThreads>(tile);
    const index_t* const first_col = computed_once(plan.col_indices + (tile.nz_begin + first));
    const T* const first_value = computed_once(plan.values + (tile.nz_begin + first));
    index_t cols[kItems];
    T factors[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        cols[i] = first + i * kThreads < tile.nonzeros ? keeping.load_once(first_col + i * kThreads) : -1;
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        factors[i] = first + i * kThreads < tile.nonzeros ? keeping.load_once(first_value + i * kThreads) : T(0);
    }
    // Shifts and masks in place of divisions, because the compiler does not know that this is a power of two.
    const int lanes = Features::lanes(tile.rows, kThreads), lane = threadIdx.x & (lanes - 1),
              lane_bits = __ffs(lanes) - 1;
    const int first_row = threadIdx.x >> lane_bits, rows_at_once = kThreads >> lane_bits;
    const index_t* const row_offsets = plan.row_offsets + tile.row_begin;
    int begin = 0, end = 0;  // of the thread's row, within the tile
    const auto read_bounds = [&](int row) {
        begin = row < tile.rows ? row_offsets[row] - tile.nz_begin : 0;
        end = row < tile.rows ? row_offsets[row + 1] - tile.nz_begin : 0;
    };
    const auto is_long = [&] { return tile.note != 0 && end - begin > Tile::kMaxPerLane * lanes; };
    if (tile.note != 0) {
        if (threadIdx.x == 0) long_row_count = 0;
        __syncthreads();
        for (int row = first_row; row < tile.rows; row += rows_at_once) {
            read_bounds(row);
            if (lane == 0 && is_long()) {  // in any order: rows do not meet
                long_rows[atomicAdd(&long_row_count, 1)] = {std::uint16_t(row), std::uint16_t(begin),
                                                            std::uint16_t(end)};
            }
        }
    }
    read_bounds(first_row);
    wait_for_kernel_before();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        const T gathered = cols[i] >= 0 ? load(product.x + cols[i]) : T(0);
        store(products + first + i * kThreads, factors[i] * gathered);
    }
    __syncthreads();

    if (tile.note != 0) {
        for (int i = threadIdx.x / kWarp; i < long_row_count; i += kThreads / kWarp) {
            const LongRow& row = long_rows[i];
            const T sum = sum_products(products, row.begin, row.end, threadIdx.x % kWarp, kWarp);
            if (threadIdx.x % kWarp == 0) store_row(product, tile.row_begin + row.row, sum);
        }
    }
    // One round where every row has a thread; with more rows than threads, a thread per row and round by round.
    for (int row = first_row; row - first_row < tile.rows; row += rows_at_once) {
        if (row > first_row) read_bounds(row);
        const T sum = sum_products(products, begin, is_long() ? begin : end, lane, lanes);
        if (lane == 0 && row < tile.rows && !is_long()) store_row(product, tile.row_begin + row, sum);
    }
}

template <class T, int kLanes>
void launch_shuffle(const Csr<T>& csr, const Product<T>& product, Stream stream) {
    launch_early(csr_shuffle<T, kLanes>, {blocks_for(std::int64_t(csr.rows) * kLanes, kBlockSize), kBlockSize}, stream,
                 csr.rows, csr.row_offsets.data(), csr.col_indices.data(), csr.values.data(), product);
}

template <class T, int kLanes>
void launch_shared(const Csr<T>& csr, const Product<T>& product, Stream stream) {
    launch_early(csr_shared<T, kLanes>, {blocks_for(std::int64_t(csr.rows) * kLanes, kBlockSize), kBlockSize}, stream,
                 csr.rows, csr.row_offsets.data(), csr.col_indices.data(), csr.values.data(), product);
}

template <class T, int kTile>
void launch_balanced(const Csr<T>& csr, index_t tiles, const Product<T>& product, Stream stream) {
    auto* const column_sums = static_cast<T*>(product.scratch);
    auto* const segment_sums = reinterpret_cast<Message<T>*>(column_sums + std::size_t(csr.segments) * kMaxColumns);
    const BalancedPlan<T> plan{csr.tiles.data(),       csr.spans.data(),  csr.row_offsets.data(),
                               csr.col_indices.data(), csr.values.data(), segment_sums};
    constexpr int kThreads = Tile::threads(kTile);
    const auto kernel = csr_balanced_block_per_tile<T, kTile / kThreads, kThreads>;
    constexpr int kBytes = dynamic_bytes<T, kTile>();
    if constexpr (kBytes > 0) allow_shared_bytes(kernel, kBytes);
    launch_early(kernel, {static_cast<unsigned>(tiles), kThreads, kBytes}, stream, plan, product);
}

}  // namespace

template <class T>
void Csr<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    const auto multiply_tiles = [&](index_t count) {
        dispatch<256, 512, 1024, 2048, 4096>(
            "tile", tuning.tile, [&]<int kTile>() { launch_balanced<T, kTile>(*this, count, product, stream); });
    };
    dispatch<CsrKernel::kBalanced, CsrKernel::kShuffle, CsrKernel::kShared, CsrKernel::kHalfWarp, CsrKernel::kNodes>(
        "kernel", tuning.kernel, [&]<CsrKernel kKernel>() {
            if constexpr (kKernel == CsrKernel::kShared) {
                launch_shared<T, 32>(*this, product, stream);
            } else if constexpr (kKernel == CsrKernel::kHalfWarp) {
                launch_shared<T, 16>(*this, product, stream);
            } else if constexpr (kKernel == CsrKernel::kShuffle) {
                dispatch<1, 2, 4, 8, 16, 32>("lanes_per_row", tuning.lanes_per_row,
                                             [&]<int kLanes>() { launch_shuffle<T, kLanes>(*this, product, stream); });
            } else if constexpr (kKernel == CsrKernel::kNodes) {
                if (segments > 0) multiply_tiles(segments);
                multiply_nodes_cuda(product, stream);
            } else {
                multiply_tiles(static_cast<index_t>(tiles.size()));
            }
        });
}

template <class T>
gpu::Residency gpu::csr_vector_residency(int ordinal) {
    return residency(csr_shared<T, kWarp>, kBlockSize, ordinal);
}

#define INSTANTIATE(T)                                         \
    template gpu::Residency gpu::csr_vector_residency<T>(int); \
    template void Csr<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
