// Products of a matrix with several vectors on its device, and with vectors that are not contiguous. A matrix takes
// them in one of two ways: several at once, best with contiguous rows, or one by one, each contiguous. Other layouts
// are copied, some columns at a time:
//
// clang-format off
//
//      given               packed                                     given
//
//      x x x               x x                   y y                  y y y
//      x x x   gather -->  x x   A's product --> y y   scatter -->    y y y
//      x x x               x x                   y y                  y y y
//
// clang-format on
//
// All of it lies on one device, and the copies are queued like the product. If the vectors are in host memory and the
// matrix is on a GPU, they are packed and unpacked as they cross the bus: see host_vectors.hpp.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/columns.hpp"
#include "core/errors.hpp"
#include "core/mutex.hpp"
#include "gpu/gather.hpp"
#include "gpu/runtime.hpp"
#include "matrix/workspaces.hpp"

namespace spmvgpu {

struct MatrixSize {
    index_t rows, cols;
    std::int64_t nnz;
};

// Decides whether vectors in device memory had better be packed into rows before a product, and the results unpacked
// after it.
//
// The cost: every copied element crosses the memory twice, and two kernels more run. The gain: an entry of the matrix
// reads elements of a row of x from as many cache sectors as there are columns, 32 bytes each, if they lie column by
// column, of which a quarter is used in the worst case (float64, scattered columns of the matrix). A contiguous row has
// no unused bytes. If neighbouring entries and rows use neighbouring elements, the sectors are shared, and only the
// number of accesses falls. With memory at 4.2 TB/s, the L2 at 5.5, and one entry in six alone in its sector, the
// copies are worth it from five entries for every copied element: ten in a row of a square matrix. The stencils of
// finite differences are therefore multiplied in place. If rows lie close together, an entry and column gains some 0.35
// picoseconds on an H200; two more kernels, which take 7 microseconds, are worth it from 20 million of them.
template <class T>
bool rows_are_worth_copies(const Product<T>& product, const MatrixSize& matrix) {
    constexpr std::int64_t kEntriesPerElement = 5, kLeastGathers = 20'000'000;
    if (product.columns < 2 || product.x_strides.column == 1) return false;
    const std::int64_t copied = matrix.cols + std::int64_t(product.y_strides.column == 1 ? 0 : matrix.rows);
    return matrix.nnz >= kEntriesPerElement * copied && matrix.nnz * product.columns >= kLeastGathers;
}

// Each way calls multiply(product) for products that make up the given one. Its memory is never freed: a graph may use
// it as long as the matrix lives.
template <class T>
class ColumnCopies {
public:
    // Products with one contiguous vector each.
    template <class Multiply>
    void one_by_one(const Product<T>& product, const MatrixSize& matrix, Device device, Stream stream,
                    Multiply&& multiply) {
        if (product.vectors_are_contiguous()) return for_each_vector(product, multiply);
        Workspaces& spaces = [&]() -> Workspaces& {
            const std::lock_guard lock(mutex_);
            return make(device, matrix, 1);
        }();
        run({spaces.of(stream), 1}, product, matrix, nullptr, device, stream, multiply);
    }

    // Products with several vectors in contiguous rows or, if copies are not worth it or there is no memory for them,
    // with all in place: a product has the same bits either way.
    template <class Multiply>
    void at_once(const Product<T>& product, const MatrixSize& matrix, Device device, Stream stream,
                 Multiply&& multiply) {
        if (!rows_are_worth_copies(product, matrix) || !permuted(product, matrix, nullptr, device, stream, multiply)) {
            multiply(product);
        }
    }

    // Products with several vectors in contiguous rows, where row i is row x_map[i] of the given x. Does nothing and
    // returns false if there is no memory for copies.
    template <class Multiply>
    bool permuted(const Product<T>& product, const MatrixSize& matrix, const index_t* x_map, Device device,
                  Stream stream, Multiply&& multiply) {
        const Lease lease = take(product, matrix, device, stream);
        if (lease.space != nullptr) run(lease, product, matrix, x_map, device, stream, multiply);
        return lease.space != nullptr;
    }

    std::size_t nbytes() const {
        const std::lock_guard lock(mutex_);
        std::size_t bytes = 0;
        for (const auto& [key, spaces] : spaces_) bytes += spaces->nbytes();
        return bytes;
    }

private:
    struct Lease {
        Workspaces::Space* space = nullptr;
        index_t width = 0;  // columns that fit
    };

    template <class Multiply>
    static void run(const Lease& lease, const Product<T>& product, const MatrixSize& matrix, const index_t* x_map,
                    Device device, Stream stream, Multiply& multiply) {
        const std::lock_guard turn(lease.space->in_use);
        T* const x = reinterpret_cast<T*>(lease.space->memory.data());
        T* const y = reinterpret_cast<T*>(lease.space->memory.data() + x_bytes(matrix, lease.width));
        const auto fits = [&](const Strides& strides) {
            return (lease.width == 1 ? strides.row : strides.column) == 1;
        };
        const bool copy_x = x_map != nullptr || !fits(product.x_strides), copy_y = !fits(product.y_strides);
        for (index_t first = 0, count = 0; first < product.columns; first += count) {
            count = next_columns(product.columns - first, lease.width);
            const Product<T> given = product.part(first, count);
            Product<T> own = given;
            if (copy_x) {
                gpu::gather(x, columns_of_x(given), x_map, matrix.cols, device, stream);
                set_x(own, Columns<const T>::packed(x, matrix.cols, count, true));
            }
            if (copy_y) {
                set_y(own, Columns<T>::packed(y, matrix.rows, count, true));
                own.beta = T(0);
                own.row_map = nullptr;
            }
            multiply(own);
            if (copy_y) {
                gpu::scatter(columns_of_y(given), y, given.row_map, matrix.rows, given.beta, device, stream);
            }
        }
    }

    static std::size_t x_bytes(const MatrixSize& matrix, index_t width) {
        constexpr std::size_t kAligned = 16;  // for vector loads from y
        return (std::size_t(matrix.cols) * width * sizeof(T) + kAligned - 1) / kAligned * kAligned;
    }
    static std::size_t bytes_for(const MatrixSize& matrix, index_t width) {
        return x_bytes(matrix, width) + std::max<std::size_t>(1, std::size_t(matrix.rows) * width * sizeof(T));
    }

    Workspaces& make(Device device, const MatrixSize& matrix, index_t width) {
        const std::pair key{device.ordinal, width};
        auto found = spaces_.find(key);
        if (found == spaces_.end()) {
            auto made = std::make_unique<Workspaces>(bytes_for(matrix, width), device, 0, /*zeroed=*/false);
            found = spaces_.try_emplace(key, std::move(made)).first;
        }
        return *found->second;
    }

    // Memory for as many columns as are multiplied at once; none while the stream is captured into a graph and none was
    // set aside before.
    Lease take(const Product<T>& product, const MatrixSize& matrix, Device device, Stream stream) {
        constexpr std::size_t kMostBytes = std::size_t(1) << 30;
        constexpr index_t kLeastColumns = 4;  // fewer columns use only a part of a sector
        index_t width = kLeastColumns;
        while (width < std::min(product.columns, kMaxColumns)) width *= 2;
        while (width > kLeastColumns && bytes_for(matrix, width) > kMostBytes) width /= 2;
        if (bytes_for(matrix, width) > kMostBytes) return {};
        const std::lock_guard lock(mutex_);
        const auto found = spaces_.lower_bound({device.ordinal, width});
        if (found != spaces_.end() && found->first.first == device.ordinal) {
            return {found->second->of_if_possible(stream), found->first.second};
        }
        if (gpu::is_capturing(stream, device)) return {};
        try {
            return {make(device, matrix, width).of_if_possible(stream), width};
        } catch (const OutOfMemory&) {
            return {};
        }
    }

    mutable Mutex mutex_;
    std::map<std::pair<int, index_t>, std::unique_ptr<Workspaces>> spaces_;  // by their GPU and width
};

}  // namespace spmvgpu
