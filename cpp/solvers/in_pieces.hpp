// A solve with vectors in pieces on the devices of its matrix: the pieces of the operands are copied there, the solver
// runs, and the pieces of x are copied back.
#pragma once

#include <memory>
#include <vector>

#include "solvers/engines/halo_map.hpp"
#include "solvers/engines/pieces_queue.hpp"
#include "solvers/methods/methods.hpp"
#include "solvers/preconditioners/cycle_steps.hpp"

namespace spmvgpu {

// The vectors of a system, in pieces on its devices; null for a missing vector.
template <class T>
struct SystemPieces {
    T *b, *guess, *x;
    T* diagonal;  // M as a diagonal, or the inverse diagonal of the A that M is a polynomial in
    T *r, *d;     // vectors of the polynomial

    SystemPieces(const System<T>& whole, index_t capacity, Arena& arena) {
        const auto vector = [&](bool exists) { return exists ? arena.take<T>(capacity) : nullptr; };
        b = vector(true), guess = vector(whole.guess != nullptr), x = vector(true);
        diagonal = vector(whole.M != nullptr), r = vector(whole.has_operator()), d = vector(whole.has_operator());
    }
};

template <class T>
struct SystemInPieces {
    const System<T>& whole;
    const Halos<T>& halos;
    PieceLayout<T> layout;

    SystemInPieces(const System<T>& whole, const Halos<T>& halos) : whole(whole), halos(halos), layout({&halos}) {}

    // None if the vectors of a system have to be whole: A is on one device or does not divide them, some of its devices
    // are GPUs and others not, or M is neither a diagonal nor a polynomial in A.
    static const Halos<T>* divides(const System<T>& system) {
        const MultiDeviceMatrix<T>* const matrix = system.A->multi_device();
        if (matrix == nullptr || system.ranks != nullptr || matrix->solver_pieces() < 2) return nullptr;
        return system.has_operator() && polynomial(system) == nullptr ? nullptr : matrix->halos();
    }

    // M, if it is a polynomial in A.
    static const CycleMap<T>* polynomial(const System<T>& system) {
        const auto* const M = dynamic_cast<const CycleMap<T>*>(system.M);
        const Level<T>* const level = M == nullptr ? nullptr : M->polynomial();
        return level != nullptr && level->A.get() == system.A->multi_device() ? M : nullptr;
    }

    // The matrix in the only part with rows, if the vectors are on its device: such a system needs no pieces.
    static std::shared_ptr<const AnyMatrix<T>> undivided(const System<T>& system) {
        const MultiDeviceMatrix<T>* const matrix = system.A->multi_device();
        const Halos<T>* const halos = matrix == nullptr ? nullptr : matrix->halos();
        const bool is_whole = halos != nullptr && halos->lanes().size() == 1;
        return is_whole && halos->lanes()[0].device() == system.device ? halos->lanes()[0].part->matrix : nullptr;
    }

    // For each device.
    Needs needs(std::string_view method, const Limits& limits) const {
        System<T> piece = whole;
        piece.n = layout.capacity();
        Needs needs = needs_of(method, piece, limits);
        Arena arena;
        const SystemPieces<T> given(whole, piece.n, arena);
        needs.bytes += arena.bytes();
        return needs;
    }
};

template <class T, class Queue>
class PolynomialOfPieces : public LinearMap<T> {
public:
    // The level with its inverse diagonal in pieces; r and d are work vectors.
    PolynomialOfPieces(Queue& queue, const HaloMap<T>& A, Level<T> level, T* r, T* d)
        : queue_(queue), A_(A), level_(std::move(level)), r_(r), d_(d) {}

    void apply(const T* x, T* y, Stream) const override {
        const Multiply<T> multiply = [&](T alpha, const T* from, T beta, T* to) { A_.multiply(alpha, from, beta, to); };
        smooth(queue_, level_, multiply, x, y, true, r_, d_);
    }

private:
    Queue& queue_;
    const HaloMap<T>& A_;
    Level<T> level_;
    T *r_, *d_;
};

// `memory` has as many bytes as the system needs, on each of the devices, and `streams` belong to `queues`, which are
// HostPieces or gpu::CudaPieces.
template <class T, class Pieces>
Reports run_in_pieces(std::string_view method, Pieces& queues, const SystemInPieces<T>& system, const Limits& limits,
                      const std::vector<char*>& memory, const std::vector<Stream>& streams, const LookAt& look) {
    const System<T>& whole = system.whole;
    const auto& lanes = system.halos.lanes();
    const std::vector<SymmetricPiece> pieces = system.layout.in(memory);
    const HaloMap<T> A(system.halos, pieces, streams);
    PiecesQueue<Pieces> queue(queues, pieces);

    Arena arena(memory[0]);
    const SystemPieces<T> given(whole, system.layout.capacity(), arena);
    // Complete when it returns.
    const auto copy = [&](const T* from, Device device, T* to) {
        for (std::size_t k = 0; k < lanes.size() && from != nullptr; ++k) {
            copy_bytes(pieces[k].own_vector(to), lanes[k].device(), from + lanes[k].begin(), device,
                       pieces[k].n * sizeof(T));
        }
    };
    copy(whole.b, whole.device, given.b);
    copy(whole.guess, whole.device, given.guess);
    T* const x = given.x;
    std::unique_ptr<const LinearMap<T>> M;
    if (const CycleMap<T>* const polynomial = SystemInPieces<T>::polynomial(whole)) {
        Level<T> level = *polynomial->polynomial();
        copy(level.inverse_diagonal, polynomial->device(), given.diagonal);
        level.inverse_diagonal = given.diagonal;
        M = std::make_unique<PolynomialOfPieces<T, PiecesQueue<Pieces>>>(queue, A, level, given.r, given.d);
    } else if (whole.M != nullptr) {
        copy(whole.M->diagonal(), whole.device, given.diagonal);
        M = std::make_unique<DiagonalMap<T>>(given.diagonal);
    }
    const auto collect_x = [&] {
        queues.synchronize();
        for (std::size_t k = 0; k < lanes.size(); ++k) {
            copy_bytes(whole.x + lanes[k].begin(), whole.device, pieces[k].own_vector(x), lanes[k].device(),
                       pieces[k].n * sizeof(T));
        }
    };
    const LookAt look_at_x = [&](const std::vector<Look>& seen) {
        if (limits.look_each || limits.look_restarts) collect_x();  // the callback may need it
        look(seen);
    };

    const System<T> in_pieces{system.layout.capacity(), lanes[0].device(), &A, M.get(), given.b, given.guess, x};
    Reports reports = run_method(method, queue, in_pieces, limits, memory[0] + arena.bytes(), look_at_x);
    collect_x();
    reports[0].pieces = static_cast<int>(lanes.size());
    return reports;
}

}  // namespace spmvgpu
