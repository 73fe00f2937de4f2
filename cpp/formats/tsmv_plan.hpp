// The layout of a symmetric matrix as `tsmv` stores it, decided from its pattern before any value is moved.
#pragma once

#include <cstddef>

#include "core/host_vector.hpp"
#include "core/types.hpp"
#include "formats/node_pattern.hpp"
#include "formats/tsmv_schedule.hpp"

namespace spmvgpu {

enum class TsmvVariant { kHalo, kPoster };

// What the layout is to keep to.
struct TsmvLimits {
    TsmvVariant variant;
    int threads;     // of a thread block
    int tile_nodes;  // at most
    int block;       // rows of a node, at most
    int value_bytes;

    int slot_bytes() const { return block * block * value_bytes + (variant == TsmvVariant::kHalo ? 2 : 4); }
};

// One tile, with everything but its values. Its numbering has the nodes of its halo first, then its own.
struct TsmvTilePlan {
    index_t node_begin = 0, nodes = 0;
    HostVector<index_t> halo_nodes;       // ascending
    HostVector<Placement> blocks;         // of its nodes, in the order of the pattern
    HostVector<std::uint16_t> positions;  // of each node: slice times threads plus thread, or NodeTask::kNone
    HostVector<StepUse> steps;            // of all slices, one after the other
    HostVector<index_t> slice_steps;      // how many of them each slice has
    HostVector<index_t> slice_nodes;      // nodes in each slice
    std::size_t kept = 0;                 // entries of the matrix that have a slot
    std::size_t remainder = 0;            // entries of the matrix that are left to the remainder

    int local_nodes() const { return static_cast<int>(halo_nodes.size()) + nodes; }
    // Slots of a step: whole warps up to the last thread with a block, but no more than the slice has nodes.
    index_t slots(std::size_t slice, const StepUse& use) const;
    std::size_t count_slots() const;
    // What a thread block needs: x and y in the tile's numbering, and where its steps begin.
    std::size_t shared_bytes(const TsmvLimits& limits) const {
        return 2 * std::size_t(local_nodes()) * limits.block * limits.value_bytes +
               (steps.size() + 1) * sizeof(index_t);
    }
};

// Tiles of at most limits.tile_nodes nodes each, fewer where a thread block's shared memory would not hold them. Blocks
// that would cost much more in the tiles than in a general format are dropped from them: those of hubs, whose row or
// column takes a step for each. The same plan whatever the number of CPU threads.
HostVector<TsmvTilePlan> plan_tiles(const NodePattern& pattern, const TsmvLimits& limits);

// The tiles of a matrix, and how long the arrays get.
struct TsmvLayout {
    TsmvLimits limits;
    NodePattern pattern;
    HostVector<TsmvTilePlan> tiles;
    HostVector<index_t> contributions;  // for each node, how many tiles have it in their halo; empty without halos
    std::size_t halo = 0, slices = 0, steps = 0, slots = 0, entries = 0, merge_nodes = 0, remainder = 0;
    std::size_t shared_bytes = 0;
};

}  // namespace spmvgpu
