// A multigrid cycle, or a Chebyshev polynomial, with the vectors of its finer levels in pieces on several devices. From
// the first level that is on one device on, the vectors are whole on the first device.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "multi/multi_device_matrix.hpp"
#include "solvers/engines/halo_map.hpp"
#include "solvers/engines/pieces_queue.hpp"
#include "solvers/preconditioners/cycle_steps.hpp"

namespace spmvgpu {

// Which levels have vectors in pieces, and how these are divided.
template <class T>
class DividedLevels {
public:
    struct Divided {
        const Halos<T>* A;                     // null on the first whole level
        std::unique_ptr<const Halos<T>> R, P;  // null without a coarser level
    };

    // `finest` are the halos of the finest matrix.
    DividedLevels(const CycleMap<T>& cycle, const Halos<T>& finest) : cycle_(cycle) {
        levels_.push_back({&finest, nullptr, nullptr});
        const std::vector<Device> devices = finest.devices();
        for (std::size_t k = 0; levels_[k].A != nullptr && cycle.levels()[k].R; ++k) {
            const Level<T>&level = cycle.levels()[k], &next = cycle.levels()[k + 1];
            const MultiDeviceMatrix<T>* const coarser = divided(next.A);
            const Halos<T>* const halos = coarser == nullptr ? nullptr : coarser->halos();
            const std::vector<index_t> whole(devices.size(), level.P->cols());
            levels_[k].R = std::make_unique<Halos<T>>(divided(level.R)->parts(), devices, levels_[k].A->ends());
            levels_[k].P = std::make_unique<Halos<T>>(divided(level.P)->parts(), devices,
                                                      halos == nullptr ? whole : halos->ends());
            levels_.push_back({halos, nullptr, nullptr});
        }
    }

    // Returns true if vectors can be in pieces: the finest matrix is the one that divides them, and matrices between
    // levels in pieces, and to the first level that is not, are divided.
    static bool suits(const CycleMap<T>& cycle, const MultiDeviceMatrix<T>& finest) {
        const std::vector<Level<T>>& levels = cycle.levels();
        if (levels[0].inverse || divided(levels[0].A) != &finest) return false;
        const std::vector<Device> devices = finest.halos()->devices();
        if (levels.size() > 1 && cycle.device() != devices[0]) return false;
        for (std::size_t k = 0; k + 1 < levels.size(); ++k) {
            const MultiDeviceMatrix<T>* const A = divided(levels[k].A);
            if (A == nullptr) break;
            if (A->halos() == nullptr || A->halos()->devices() != devices) return false;
            if (divided(levels[k].R) == nullptr || divided(levels[k].P) == nullptr) return false;
        }
        return true;
    }

    const CycleMap<T>& cycle() const { return cycle_; }
    const Divided& operator[](std::size_t level) const { return levels_[level]; }
    std::size_t size() const { return levels_.size(); }  // with the first whole level

    // The layout of the vectors of a level, with room for the halos of all matrices that multiply them.
    PieceLayout<T> layout(std::size_t level) const {
        std::vector<const Halos<T>*> matrices;
        const Divided& own = levels_[level];
        if (own.A != nullptr) matrices.push_back(own.A);
        if (own.R) matrices.push_back(own.R.get());
        if (level > 0) matrices.push_back(levels_[level - 1].P.get());
        return PieceLayout<T>(matrices);
    }

private:
    static const MultiDeviceMatrix<T>* divided(const typename Level<T>::Matrix& matrix) {
        return dynamic_cast<const MultiDeviceMatrix<T>*>(matrix.get());
    }

    const CycleMap<T>& cycle_;
    std::vector<Divided> levels_;
};

// The vectors of the levels in pieces, in the memory of the first piece.
template <class T>
struct DividedVectors {
    std::vector<GridVectors<T>> of_level;
    std::vector<T*> inverse_diagonals;

    DividedVectors(const DividedLevels<T>& levels, Arena& arena) {
        for (std::size_t k = 0; k < levels.size(); ++k) {
            const index_t capacity = levels.layout(k).capacity();
            const auto take = [&] { return arena.take<T>(capacity); };
            of_level.push_back(GridVectors<T>::of(k == 0, levels.cycle().levels()[k].twice, take));
            inverse_diagonals.push_back(take());
        }
    }
};

// The grids of a cycle, see run_cycle(), as a map of vectors in pieces.
template <class T, class Pieces>
class PiecesOfCycle : public LinearMap<T> {
public:
    // There are a memory and a stream for each piece. The inverse diagonals are not initialised.
    PiecesOfCycle(Pieces& queues, const DividedLevels<T>& levels, DividedVectors<T> vectors,
                  const std::vector<char*>& memory, const std::vector<Stream>& streams)
        : queues_(queues), levels_(levels), vectors_(std::move(vectors)), first_stream_(streams[0]) {
        const std::vector<Level<T>>& given = levels.cycle().levels();
        for (std::size_t k = 0; k < levels.size(); ++k) {
            std::vector<SymmetricPiece> pieces = levels.layout(k).in(memory);
            grids_.push_back({given[k], PiecesQueue<Pieces>(queues, pieces), std::move(pieces), {}, {}, {}});
            grids_[k].level.inverse_diagonal = vectors_.inverse_diagonals[k];
        }
        for (std::size_t k = 0; k < levels.size(); ++k) {
            const auto map = [&](const Halos<T>* halos, std::size_t of_x, std::size_t of_y) {
                return halos == nullptr ? nullptr
                                        : std::make_unique<HaloMap<T>>(*halos, grids_[of_x].pieces, grids_[of_y].pieces,
                                                                       streams, !is_divided(of_y));
            };
            grids_[k].A = map(levels[k].A, k, k);
            grids_[k].R = map(levels[k].R.get(), k, k + 1);
            grids_[k].P = map(levels[k].P.get(), k + 1, k);
        }
        if (!is_divided(grids_.size() - 1)) levels.cycle().take_vectors(grids_.size() - 1, 1);
    }

    // Calls copy(from, to) with the inverse diagonals of the levels in pieces.
    template <class Copy>
    void copy_diagonals(const Copy& copy) {
        for (std::size_t k = 0; k < grids_.size(); ++k) {
            if (!is_divided(k)) continue;
            copy(levels_.cycle().levels()[k].inverse_diagonal, grids_[k].pieces, vectors_.inverse_diagonals[k]);
        }
    }

    void apply(const T* x, T* y, Stream) const override { run(0, x, y); }
    bool can_be_recorded() const override {
        const auto can_be = [](const auto& map) { return map == nullptr || map->can_be_recorded(); };
        return std::all_of(grids_.begin(), grids_.end(),
                           [&](const Grid& grid) { return can_be(grid.A) && can_be(grid.R) && can_be(grid.P); }) &&
               levels_.cycle().can_be_recorded_from(grids_.size() - 1);
    }

    const Level<T>& level(std::size_t number) const { return grids_[number].level; }
    const GridVectors<T>& vectors(std::size_t number) const { return vectors_.of_level[number]; }
    PiecesQueue<Pieces>& queue(std::size_t number) const { return grids_[number].queue; }
    void multiply(std::size_t number, T alpha, const T* x, T beta, T* y) const {
        const Grid& grid = grids_[number];
        if (is_divided(number)) return grid.A->multiply(alpha, x, beta, y);
        queues_.on(0, [&](auto&) {
            grid.level.A->spmv({first(number, x), first(number, y), alpha, beta}, first_stream_);
        });
    }
    void restrict_to_coarser(std::size_t number, const T* x, T* y) const {
        grids_[number].R->multiply(T(1), x, T(0), y);
    }
    void add_prolonged(std::size_t number, const T* x, T* y) const { grids_[number].P->multiply(T(1), x, T(1), y); }
    void run(std::size_t number, const T* b, T* x) const {
        if (is_divided(number)) return run_cycle(*this, number, b, x);
        levels_.cycle().run_from(number, first(number, b), first(number, x), 1, first_stream_);
    }

private:
    struct Grid {
        Level<T> level;
        mutable PiecesQueue<Pieces> queue;
        std::vector<SymmetricPiece> pieces;
        std::unique_ptr<const HaloMap<T>> A, R, P;
    };
    bool is_divided(std::size_t number) const { return levels_[number].A != nullptr; }
    // A whole vector, on the first device.
    T* first(std::size_t number, const T* vector) const {
        return grids_[number].pieces[0].own_vector(const_cast<T*>(vector));
    }

    Pieces& queues_;
    const DividedLevels<T>& levels_;
    DividedVectors<T> vectors_;
    Stream first_stream_;
    std::vector<Grid> grids_;
};

}  // namespace spmvgpu
