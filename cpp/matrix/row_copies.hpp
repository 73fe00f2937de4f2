// Products of a matrix on a GPU with several vectors that lie column by column: through copies in which a row of x, and
// of y, is contiguous, where they are worth it.
#pragma once

#include <algorithm>
#include <map>
#include <memory>

#include "core/columns.hpp"
#include "core/errors.hpp"
#include "core/mutex.hpp"
#include "gpu/runtime.hpp"
#include "gpu/transpose.hpp"
#include "matrix/workspaces.hpp"

namespace spmvgpu {

struct MatrixSize {
    index_t rows, cols;
    std::int64_t nnz;
};

// Whether vectors in device memory had better be transposed before a product, and the results after it.
//
// What it costs: every element copied crosses the memory twice, and two kernels more run. What it saves: an entry of
// the matrix reads elements of a row of x from as many cache sectors as there are columns, 32 bytes each, where they
// lie column by column, of which a quarter is used in the worst case (float64, scattered columns of the matrix). From a
// contiguous row it reads no more than it uses. Where neighbouring entries and rows use neighbouring elements, the
// sectors are shared, and all that is saved are the number of accesses. With memory at 4.2 TB/s, the L2 at 5.5, and one
// entry in six alone in its sector, the copies are worth it from five entries for every element copied: ten in a row of
// a square matrix. So the stencils of finite differences are multiplied as they lie. Where rows lie close together, an
// entry and column gains some 0.35 picoseconds on an H200; two more kernels, which take 7 microseconds, are worth it
// from 20 million of them.
template <class T>
bool rows_are_worth_copies(const Product<T>& product, const MatrixSize& matrix) {
    constexpr std::int64_t kEntriesPerElement = 5, kLeastGathers = 20'000'000;
    if (product.columns < 2 || product.x_strides.column == 1) return false;
    const std::int64_t copied = matrix.cols + std::int64_t(product.y_strides.column == 1 ? 0 : matrix.rows);
    return matrix.nnz >= kEntriesPerElement * copied && matrix.nnz * product.columns >= kLeastGathers;
}

template <class T>
class RowCopies {
public:
    // Calls multiply(product) for products that make up the one given, with rows that are contiguous, or, where copies
    // are not worth it or there is no memory for them, just as it is: a product has the same bits either way.
    template <class Multiply>
    void run(const Product<T>& product, const MatrixSize& matrix, Device device, Stream stream, Multiply&& multiply) {
        if (rows_are_worth_copies(product, matrix) &&
            run_permuted(product, matrix, nullptr, device, stream, multiply)) {
            return;
        }
        multiply(product);
    }

    // The same with copies in any case, in which row i is row x_map[i] of the given x. Does nothing and returns false
    // where there is no memory for them.
    template <class Multiply>
    bool run_permuted(const Product<T>& product, const MatrixSize& matrix, const index_t* x_map, Device device,
                      Stream stream, Multiply&& multiply) {
        const Lease lease = take(product, matrix, device, stream);
        if (lease.space == nullptr) return false;
        const std::lock_guard turn(lease.space->in_use);
        T* const x = reinterpret_cast<T*>(lease.space->memory.data());
        T* const y = reinterpret_cast<T*>(lease.space->memory.data() + x_bytes(matrix, lease.width));
        const bool copy_y = product.y_strides.column != 1;
        for (index_t first = 0, count = 0; first < product.columns; first += count) {
            count = next_columns(product.columns - first, lease.width);
            const Product<T> part = product.part(first, count);
            Product<T> own = part;
            cuda::columns_to_rows(x, columns_of_x(part), x_map, matrix.cols, device.ordinal, stream);
            own.x = x;
            own.x_strides = {count, 1};
            if (copy_y) {
                own.y = y;
                own.y_strides = {count, 1};
                own.beta = T(0);
                own.row_map = nullptr;
            }
            multiply(own);
            if (copy_y) {
                cuda::rows_to_columns(columns_of_y(part), y, part.row_map, matrix.rows, part.beta, device.ordinal,
                                      stream);
            }
        }
        return true;
    }

    std::size_t nbytes() const {
        const std::lock_guard lock(mutex_);
        std::size_t bytes = 0;
        for (const auto& [width, spaces] : spaces_) bytes += spaces->nbytes();
        return bytes;
    }

private:
    struct Lease {
        Workspaces::Space* space = nullptr;
        index_t width = 0;  // columns that it has room for
    };

    static std::size_t x_bytes(const MatrixSize& matrix, index_t width) {
        constexpr std::size_t kAligned = 16;  // for vector loads from y
        return (std::size_t(matrix.cols) * width * sizeof(T) + kAligned - 1) / kAligned * kAligned;
    }
    static std::size_t bytes_for(const MatrixSize& matrix, index_t width) {
        return x_bytes(matrix, width) + std::size_t(matrix.rows) * width * sizeof(T);
    }

    // Room for as many columns as are multiplied at once; for none while the stream is captured into a graph and none
    // was set aside before. Never given back: a graph may use it as long as the matrix lives.
    Lease take(const Product<T>& product, const MatrixSize& matrix, Device device, Stream stream) {
        constexpr std::size_t kMostBytes = std::size_t(1) << 30;
        constexpr index_t kLeastColumns = 4;  // fewer use but a part of a sector
        index_t width = kLeastColumns;
        while (width < std::min(product.columns, kMaxColumns)) width *= 2;
        while (width > kLeastColumns && bytes_for(matrix, width) > kMostBytes) width /= 2;
        if (bytes_for(matrix, width) > kMostBytes) return {};
        const std::lock_guard lock(mutex_);
        auto found = spaces_.lower_bound(width);
        if (found == spaces_.end()) {
            if (cuda::is_capturing(stream)) return {};
            try {
                auto spaces = std::make_unique<Workspaces>(bytes_for(matrix, width), device, 0, /*zeroed=*/false);
                found = spaces_.try_emplace(width, std::move(spaces)).first;
            } catch (const OutOfMemory&) {
                return {};
            }
        }
        return {found->second->of_if_possible(stream), found->first};
    }

    mutable Mutex mutex_;
    std::map<index_t, std::unique_ptr<Workspaces>> spaces_;  // by their width
};

}  // namespace spmvgpu
