// Which elements of a vector in pieces the shards of a spread matrix read of each other's pieces: its halos.
#pragma once

#include <functional>
#include <vector>

#include "multi/shard.hpp"

namespace spmvgpu {

template <class T>
class Halos {
public:
    // What a shard reads of another one's piece.
    struct Pull {
        std::size_t from;
        index_t begin, end;
    };
    // A shard with rows, which are its piece of vectors.
    struct Lane {
        const Shard<T>* shard;
        std::vector<Pull> pulls;
        std::vector<std::size_t> read_by;  // lanes that pull from this one's piece

        Device device() const { return shard->device(); }
        index_t begin() const { return shard->rows.first; }
        index_t end() const { return shard->rows.first + shard->matrix->rows(); }

        // Whether some of its product needs no pull.
        bool has_interior() const { return shard->interior_parts > 0 && !pulls.empty(); }
        // The product on its GPU. What needs no pull is queued first, then await_pulls() called, which has what is
        // queued afterwards wait for them.
        void multiply(const Product<T>& product, Stream stream, const std::function<void()>& await_pulls) const;
    };

    // Whether the matrix is square and its shards hold neighbouring rows, in order.
    static bool suits(const std::vector<Shard<T>>& shards, index_t rows, index_t cols);

    // The shards outlive it. Lets GPUs read each other's memory where they pull. Throws std::invalid_argument unless it
    // suits them.
    Halos(const std::vector<Shard<T>>& shards, index_t rows, index_t cols);

    const std::vector<Lane>& lanes() const { return lanes_; }
    index_t size() const { return size_; }  // of vectors
    bool has_gpus() const;
    bool has_cpus() const;

private:
    index_t size_;
    std::vector<Lane> lanes_;
};

}  // namespace spmvgpu
