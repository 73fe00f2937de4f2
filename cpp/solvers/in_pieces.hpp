// A solve with vectors in pieces on the devices of its matrix: the pieces of the operands are copied there, the solver
// runs, and the pieces of x are copied back.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "solvers/cycle_in_pieces.hpp"
#include "solvers/methods/methods.hpp"

namespace spmvgpu {

// The vectors of a system, in pieces on its devices; null for a missing vector.
template <class T>
struct SystemPieces {
    T *b, *guess, *x;
    T* diagonal;  // M as a diagonal

    SystemPieces(const System<T>& whole, index_t capacity, Arena& arena) {
        const auto vector = [&](bool exists) { return exists ? arena.take<T>(capacity) : nullptr; };
        b = vector(true), guess = vector(whole.guess != nullptr), x = vector(true);
        diagonal = vector(whole.diagonal() != nullptr);
    }
};

template <class T>
struct SystemInPieces {
    const System<T>& whole;
    const Halos<T>& halos;
    std::optional<DividedLevels<T>> cycle;  // M, unless it is a diagonal
    PieceLayout<T> layout;

    SystemInPieces(const System<T>& whole, const Halos<T>& halos)
        : whole(whole),
          halos(halos),
          cycle(cycle_of(whole, halos)),
          layout(cycle ? cycle->layout(0) : PieceLayout<T>({&halos})) {}

    // None if the vectors of a system have to be whole: A is on one device or does not divide them, some of its devices
    // are GPUs and others not, or M is neither a diagonal nor a cycle whose finest matrix is A.
    static const Halos<T>* divides(const System<T>& system) {
        const MultiDeviceMatrix<T>* const matrix = system.A->multi_device();
        if (matrix == nullptr || system.ranks != nullptr || matrix->solver_pieces() < 2) return nullptr;
        const auto* const M = dynamic_cast<const CycleMap<T>*>(system.M);
        const bool suits = !system.has_operator() || (M != nullptr && DividedLevels<T>::suits(*M, *matrix));
        return suits ? matrix->halos() : nullptr;
    }

    // The matrix in the only part with rows, if the vectors are on its device: such a system needs no pieces.
    static std::shared_ptr<const AnyMatrix<T>> undivided(const System<T>& system) {
        const MultiDeviceMatrix<T>* const matrix = system.A->multi_device();
        const Halos<T>* const halos = matrix == nullptr ? nullptr : matrix->halos();
        const bool is_whole = halos != nullptr && halos->lanes().size() == 1;
        return is_whole && halos->lanes()[0].device == system.device ? halos->lanes()[0].part->matrix : nullptr;
    }

    // For each device.
    Needs needs(std::string_view method, const Limits& limits) const {
        System<T> piece = whole;
        piece.n = layout.capacity();
        const HaloMap<T> sizes(halos, {}, {}, {});
        piece.A = &sizes;
        piece.is_divided = true;
        Needs needs = needs_of(method, piece, limits);
        Arena arena;
        const SystemPieces<T> given(whole, piece.n, arena);
        if (cycle) DividedVectors<T>(*cycle, arena);
        needs.bytes += arena.bytes();
        return needs;
    }

private:
    static std::optional<DividedLevels<T>> cycle_of(const System<T>& whole, const Halos<T>& halos) {
        std::optional<DividedLevels<T>> levels;
        if (whole.has_operator()) levels.emplace(dynamic_cast<const CycleMap<T>&>(*whole.M), halos);
        return levels;
    }
};

// `memory` has as many bytes as the system needs, on each of the devices, and `streams` belong to `queues`, which are
// HostPieces or gpu::CudaPieces.
template <class T, class Pieces>
Reports run_in_pieces(std::string_view method, Pieces& queues, const SystemInPieces<T>& system, const Limits& limits,
                      const std::vector<char*>& memory, const std::vector<Stream>& streams, const LookAt& look) {
    const System<T>& whole = system.whole;
    const auto& lanes = system.halos.lanes();
    const std::vector<SymmetricPiece> pieces = system.layout.in(memory);
    const HaloMap<T> A(system.halos, pieces, pieces, streams);
    PiecesQueue<Pieces> queue(queues, pieces);

    Arena arena(memory[0]);
    const SystemPieces<T> given(whole, system.layout.capacity(), arena);
    // Complete when it returns.
    const auto copy = [&](const T* from, Device device, const std::vector<SymmetricPiece>& into, T* to) {
        std::ptrdiff_t begin = 0;
        for (std::size_t k = 0; k < lanes.size() && from != nullptr; ++k) {
            copy_bytes(into[k].own_vector(to), lanes[k].device, from + begin, device, into[k].n * sizeof(T));
            begin += into[k].n;
        }
    };
    copy(whole.b, whole.device, pieces, given.b);
    copy(whole.guess, whole.device, pieces, given.guess);
    T* const x = given.x;
    std::unique_ptr<const LinearMap<T>> M;
    if (system.cycle) {
        auto cycle = std::make_unique<PiecesOfCycle<T, Pieces>>(
            queues, *system.cycle, DividedVectors<T>(*system.cycle, arena), memory, streams);
        cycle->copy_diagonals([&](const T* from, const std::vector<SymmetricPiece>& into, T* to) {
            copy(from, system.cycle->cycle().device(), into, to);
        });
        M = std::move(cycle);
    } else if (whole.M != nullptr) {
        copy(whole.M->diagonal(), whole.device, pieces, given.diagonal);
        M = std::make_unique<DiagonalMap<T>>(given.diagonal);
    }
    const auto collect_x = [&] {
        queues.synchronize();
        for (std::size_t k = 0; k < lanes.size(); ++k) {
            copy_bytes(whole.x + lanes[k].begin, whole.device, pieces[k].own_vector(x), lanes[k].device,
                       pieces[k].n * sizeof(T));
        }
    };
    const LookAt look_at_x = [&](const std::vector<Look>& seen) {
        if (limits.look_each || limits.look_restarts) collect_x();  // the callback may need it
        return look(seen);
    };

    System<T> in_pieces{system.layout.capacity(), lanes[0].device, &A, M.get(), given.b, given.guess, x};
    in_pieces.is_divided = true;
    Reports reports = run_method(method, queue, in_pieces, limits, memory[0] + arena.bytes(), look_at_x);
    collect_x();
    reports[0].pieces = static_cast<int>(lanes.size());
    return reports;
}

}  // namespace spmvgpu
