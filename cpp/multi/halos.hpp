// Halos of a vector in pieces: the elements that the parts of a multi-device matrix read from each other's pieces.
#pragma once

#include <functional>
#include <vector>

#include "multi/device_part.hpp"

namespace spmvgpu {

template <class T>
class Halos {
public:
    // Elements that a part reads from another one's piece.
    struct Pull {
        std::size_t from;
        index_t begin, end;
    };
    // A part with rows, which are its piece of vectors.
    struct Lane {
        const DevicePart<T>* part;
        std::vector<Pull> pulls;
        std::vector<std::size_t> read_by;  // lanes that pull from this one's piece

        Device device() const { return part->device(); }
        index_t begin() const { return part->rows.first; }
        index_t end() const { return part->rows.first + part->matrix->rows(); }

        // Returns true if some of its product needs no pull.
        bool has_interior() const { return part->interior_parts > 0 && !pulls.empty(); }
        // The product on its GPU. The part that needs no pull is queued first; then await_pulls() is called, after
        // which queued work waits for the pulls.
        void multiply(const Product<T>& product, Stream stream, const std::function<void()>& await_pulls) const;
    };

    // Returns true if the matrix is square and its parts hold neighbouring rows, in order.
    static bool suits(const std::vector<DevicePart<T>>& parts, index_t rows, index_t cols);

    // The parts outlive it. Lets GPUs access each other's memory where they pull. Throws std::invalid_argument unless
    // suits() holds.
    Halos(const std::vector<DevicePart<T>>& parts, index_t rows, index_t cols);

    const std::vector<Lane>& lanes() const { return lanes_; }
    index_t size() const { return size_; }
    bool has_gpus() const;
    bool has_cpus() const;

private:
    index_t size_;
    std::vector<Lane> lanes_;
};

}  // namespace spmvgpu
