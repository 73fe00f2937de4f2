// Products of a matrix on GPUs with vectors whose entries do not lie next to each other: one by one, through copies of
// which they do.
#pragma once

#include <map>
#include <memory>

#include "core/columns.hpp"
#include "core/mutex.hpp"
#include "gpu/gather.hpp"
#include "matrix/workspaces.hpp"

namespace spmvgpu {

template <class T>
class VectorCopies {
public:
    // Calls multiply(product) with contiguous vectors only; those of `product` are on the device that the stream
    // belongs to, and have as many entries as the matrix has rows and columns.
    template <class Multiply>
    void run(const Product<T>& product, index_t rows, index_t cols, Device device, Stream stream, Multiply&& multiply) {
        if (product.vectors_are_contiguous()) return for_each_vector(product, multiply);
        Workspaces::Space* const space = on(device, rows, cols).of(stream);
        const std::lock_guard turn(space->in_use);
        T* const x = reinterpret_cast<T*>(space->memory.data());
        T* const y = x + cols;
        for (index_t j = 0; j < product.columns; ++j) {
            const Product<T> vector = product.part(j, 1);
            Product<T> own = vector;
            own.x_strides = own.y_strides = {};
            if (vector.x_strides.row != 1) {
                cuda::gather(x, vector.x, nullptr, cols, device.ordinal, stream, vector.x_strides.row);
                own.x = x;
            }
            if (vector.y_strides.row != 1) {
                own.y = y;
                own.beta = T(0);
                own.row_map = nullptr;
            }
            multiply(own);
            if (vector.y_strides.row != 1) {
                cuda::scatter(vector.y, y, vector.row_map, rows, vector.beta, device.ordinal, stream,
                              vector.y_strides.row);
            }
        }
    }

    std::size_t nbytes() const {
        const std::lock_guard lock(mutex_);
        std::size_t bytes = 0;
        for (const auto& [ordinal, spaces] : spaces_) bytes += spaces->nbytes();
        return bytes;
    }

private:
    // Made by the first such product on a device.
    Workspaces& on(Device device, index_t rows, index_t cols) {
        const std::lock_guard lock(mutex_);
        auto& spaces = spaces_[device.ordinal];
        const std::size_t entries = std::size_t(rows) + std::size_t(cols) + 1;  // at least one
        if (!spaces) spaces = std::make_unique<Workspaces>(entries * sizeof(T), device, 0, /*zeroed=*/false);
        return *spaces;
    }

    mutable Mutex mutex_;
    std::map<int, std::unique_ptr<Workspaces>> spaces_;
};

}  // namespace spmvgpu
