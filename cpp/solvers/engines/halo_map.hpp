// The products of a matrix over several devices with the vectors in pieces of a solve.
#pragma once

#include <vector>

#include "gpu/stream.hpp"
#include "multi/halos.hpp"
#include "solvers/engines/pieces_queue.hpp"
#include "solvers/system/linear_map.hpp"

namespace spmvgpu {

// The layout of vectors in pieces, equal on all devices. Around its own elements every piece has room for its halo.
template <class T>
class PieceLayout {
public:
    // The matrices must have equal pieces of x.
    explicit PieceLayout(const std::vector<const Halos<T>*>& halos);

    index_t capacity() const { return capacity_; }  // elements of a vector on every device

    // The pieces in memory that begins at these addresses.
    std::vector<SymmetricPiece> in(const std::vector<char*>& memory) const;

private:
    struct Window {
        index_t own;     // elements of the piece
        index_t before;  // elements before them in the room of a vector
    };
    std::vector<Window> windows_;
    index_t capacity_ = 0;
};

template <class T>
class HaloMap : public LinearMap<T> {
public:
    // The pieces of x and of y, and the stream of every piece, null on the CPU. All pieces are on GPUs, or all on the
    // CPU. A map without pieces knows its sizes and multiplies nothing. If y is whole, the first piece is all of it,
    // and gets what others compute, who have room for it; beta is zero then.
    HaloMap(const Halos<T>& halos, std::vector<SymmetricPiece> of_x, std::vector<SymmetricPiece> of_y,
            std::vector<Stream> streams, bool is_y_whole = false);

    // y = alpha A x + beta y, both by their address in the first piece's memory. On GPUs it is queued on the streams of
    // the pieces, and work that is queued there afterwards may change x and y.
    void multiply(T alpha, const T* x, T beta, T* y) const { multiply({x, y, alpha, beta}); }
    void apply(const T* x, T* y, Stream) const override { multiply({x, y}); }

    index_t dot_parts() const override;
    void apply_and_dot(const T* x, T* y, const T* w, Wide<T>* dots, Stream) const override;
    DotsLeft dots_left(int piece) const override { return halos_.lanes()[piece].dots_left(); }

    bool can_be_recorded() const override { return halos_.can_be_recorded(); }

private:
    using Lane = typename Halos<T>::Lane;
    T* own_x(const T* x, std::size_t lane) const { return of_x_[lane].own_vector(const_cast<T*>(x)); }
    T* own_y(T* y, std::size_t lane) const {
        return is_y_whole_ ? of_y_[lane].own(y) + halos_.lanes()[lane].part->rows.first : of_y_[lane].own_vector(y);
    }
    // With all pointers into the first piece's memory.
    void multiply(const Product<T>& product) const;
    void multiply_on_gpus(const Product<T>& product) const;
    void deliver_on_gpus(T* y, std::size_t lane) const;
    void multiply_on_cpu(const Product<T>& product) const;
    // The product of a piece, with x as if it began with the first element of the whole vector.
    Product<T> of_piece(const Product<T>& product, std::size_t lane) const;
    // The address of a piece as if it began with the first element of the whole vector.
    static T* from_zero(T* own, const Lane& lane) { return const_cast<T*>(as_whole(own, lane.begin)); }
    const T* pulled_from(const T* x, const typename Halos<T>::Pull& pull) const {
        return own_x(x, pull.from) + (pull.begin - halos_.lanes()[pull.from].begin);
    }
    static std::size_t bytes_of(const typename Halos<T>::Pull& pull) {
        return std::size_t(pull.end - pull.begin) * sizeof(T);
    }
    // Where the rows of a piece are in the whole y.
    T* in_whole_y(T* y, std::size_t lane) const { return of_y_[0].own(y) + halos_.lanes()[lane].part->rows.first; }

    const Halos<T>& halos_;
    std::vector<SymmetricPiece> of_x_, of_y_;
    std::vector<Stream> streams_;
    bool is_y_whole_;
    std::vector<std::shared_ptr<void>> pulling_;  // for every GPU with an interior: a stream for its pulls
    // For every GPU: its piece of x is complete, its halo has arrived, and the whole y has its rows.
    mutable std::vector<gpu::Event> made_, pulled_, delivered_;
};

}  // namespace spmvgpu
