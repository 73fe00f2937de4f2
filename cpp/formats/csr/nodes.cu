#include "core/dispatch.hpp"
#include "formats/csr/layout.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu {

namespace {

using namespace gpu;

constexpr int kNodesBlockSize = 128;

template <class T>
struct Entries {
    const index_t* __restrict__ cols;
    const T* __restrict__ values;
};

// The sums of kRows rows over kLanes lanes. In each step a lane gives half of its rows to its partner and gets the
// other half's sums, until it has one row, whose number it returns in `row`; the sum is then that of all lanes.
template <int kLanes, class T, int kRows>
__device__ __forceinline__ T sum_rows(T (&sums)[kRows], int& row) {
    const int lane = threadIdx.x % kLanes;
    int offset = kLanes / 2;
    row = 0;
#pragma unroll
    for (int left = kRows / 2; left > 0; left /= 2) {
        const bool is_upper = (lane & offset) != 0;
#pragma unroll
        for (int r = 0; r < left; ++r) {
            const T given = is_upper ? sums[r] : sums[r + left], kept = is_upper ? sums[r + left] : sums[r];
            sums[r] = kept + shuffle_xor(given, offset);
        }
        row += is_upper ? left : 0;
        offset /= 2;
    }
    for (; offset > 0; offset /= 2) sums[0] += shuffle_xor(sums[0], offset);
    return sums[0];
}

// Up to kRows rows of a node by kLanes lanes, each of which reads a column and x once for all rows.
template <class T, int kRows, int kLanes>
__device__ __forceinline__ void multiply_node(const Node& node, const Entries<T>& entries, const Product<T>& product) {
    constexpr int kSums = kRows > 4 ? 8 : kRows > 2 ? 4 : kRows, kInFlight = sizeof(T) > 8 ? 1 : kRows > 2 ? 2 : 4;
    static_assert(kSums <= Node::kLeastLanes);
    const Keeping keeping(product.policy);
    const int lane = threadIdx.x % kLanes;
    // Nodes of a warp may have different numbers of rows.
    const auto has = [&](int row) { return kLanes == kWarp || row < node.rows; };
    const index_t* const col = entries.cols + node.begin;
    const T* const value = entries.values + node.begin;
    T sums[kSums] = {};
    for (index_t k = lane; k < node.length; k += kInFlight * kLanes) {
        index_t cols[kInFlight];
        T factors[kInFlight][kRows], gathered[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            cols[i] = k + i * kLanes < node.length ? keeping.load_once(col + k + i * kLanes) : -1;
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const T* const from = value + (std::int64_t(r) * node.length + k + i * kLanes);
                factors[i][r] = has(r) && k + i * kLanes < node.length ? keeping.load_once(from) : T(0);
            }
        }
        if (k == lane) wait_for_kernel_before();
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) gathered[i] = cols[i] >= 0 ? load(product.x + cols[i]) : T(0);
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) sums[r] += factors[i][r] * gathered[i];
        }
    }
    int row = 0;
    const T sum = sum_rows<kLanes>(sums, row);
    wait_for_kernel_before();
    if (lane % (kLanes / kSums) == 0 && row < node.rows) store_row(product, node.row + row, sum);
}

template <class T, int kLanes>
__global__ void __launch_bounds__(kNodesBlockSize, sizeof(T) > 8 ? 4 : 6)
    csr_nodes(const Node* __restrict__ nodes, index_t count, Entries<T> entries, Product<T> product) {
    let_next_kernel_start();
    const auto i = static_cast<index_t>((std::int64_t(blockIdx.x) * kNodesBlockSize + threadIdx.x) / kLanes);
    const Node node = i < count ? nodes[i] : Node{};
    index_t most = node.rows;  // the largest number of rows that a node of the warp has
    for (int offset = kWarp / 2; offset >= kLanes; offset /= 2) most = max(most, shuffle_xor(most, offset));
    switch (most) {
        case 0:
            return wait_for_kernel_before();
        case 1:
            return multiply_node<T, 1, kLanes>(node, entries, product);
        case 2:
            return multiply_node<T, 2, kLanes>(node, entries, product);
        case 3:
            return multiply_node<T, 3, kLanes>(node, entries, product);
        case 4:
            return multiply_node<T, 4, kLanes>(node, entries, product);
        case 5:
            return multiply_node<T, 5, kLanes>(node, entries, product);
        case 6:
            return multiply_node<T, 6, kLanes>(node, entries, product);
        case 7:
            return multiply_node<T, 7, kLanes>(node, entries, product);
        default:
            return multiply_node<T, 8, kLanes>(node, entries, product);
    }
}

}  // namespace

template <class T>
void Csr<T>::multiply_nodes_cuda(const Product<T>& product, Stream stream) const {
    static_assert(Node::kMostRows == 8);
    const auto count = static_cast<index_t>(nodes.size());
    dispatch<8, 16, 32>("lanes_per_row", tuning.lanes_per_row, [&]<int kLanes>() {
        launch_early(csr_nodes<T, kLanes>, {blocks_for(std::int64_t(count) * kLanes, kNodesBlockSize), kNodesBlockSize},
                     stream, nodes.data(), count, Entries<T>{col_indices.data(), values.data()}, product);
    });
}

#define INSTANTIATE(T) template void Csr<T>::multiply_nodes_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
