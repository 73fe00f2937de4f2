// Cuts a pattern into the tiles of `tsmv`, as passes on any device; see formats/builder.hpp. tile_work.hpp numbers and
// schedules the tiles.
#pragma once

#include <limits>

#include "formats/tsmv/tile_work.hpp"

namespace spmvgpu {

// Drops blocks from the tiles that would cost much more there than in a general format: the blocks of hubs, whose row
// or column takes a step for each.
template <class Passes>
class TsmvTiler {
public:
    using Lanes = typename Passes::Lanes;

    TsmvTiler(Passes& passes, const NodePattern& pattern, const TsmvLimits& limits)
        : passes_(passes), pattern_(pattern), limits_(limits), work_(passes, pattern, limits) {}

    TsmvLayout lay_out() {
        cut_evenly();
        for (;;) {
            work_.begin_blocks(nullptr);
            work_.number_columns();
            if (cut_what_does_not_fit(false)) continue;
            work_.schedule();
            if (!cut_what_does_not_fit(true)) break;
        }
        if (drop_costly_steps()) {
            work_.number_columns();
            work_.schedule();
        }
        EntryCounts kept = count_entries();
        // A remainder is one more kernel over all rows, which is not worth it for a few entries.
        constexpr std::int64_t kWorthAKernel = 100;  // one entry in 100
        if (kept.remainder > 0 && kept.remainder * kWorthAKernel < kept.entries) {
            take_back();
            kept = count_entries();
        }
        return finish(kept);
    }

    // Public, because nvcc takes no lambdas for the GPU from private functions.
    void cut_evenly() {
        const index_t nodes = pattern_.nodes, most = limits_.tile_nodes;
        index_t* const begins = work_.begin_tiles(nodes / most + (nodes % most != 0));
        passes_.each(std::int64_t(work_.count()) + 1, [=] SPMVGPU_BODY(std::int64_t t) {
            const std::int64_t begin = t * most;
            begins[t] = static_cast<index_t>(begin < nodes ? begin : nodes);
        });
    }

    // Halves the tiles of several nodes that exceed a thread block's shared memory. Returns true if there are any.
    bool cut_what_does_not_fit(bool is_scheduled) {
        const TsmvTiles all = work_.tiles();
        const index_t* const steps = is_scheduled ? work_.slice_steps().data() : nullptr;
        Array<index_t> cuts_before = passes_.template scratch<index_t>(work_.count() + std::size_t(1));
        index_t* const cuts = cuts_before.data();
        passes_.each(work_.count(), [=] SPMVGPU_BODY(std::int64_t t) {
            const std::int64_t local = std::int64_t(all.halo[t]) + all.nodes_of(t);
            cuts[t] = all.nodes_of(t) > 1 &&
                      !all.limits.fits(local, steps ? TsmvTileWork<Passes>::steps_of(all, steps, t) : 0);
        });
        const index_t more = passes_.scan(cuts, work_.count());
        if (more == 0) return false;
        const Array<index_t> begins_before = work_.begins();
        const index_t* const begins = begins_before.data();
        const index_t count = work_.count();
        index_t* const to = work_.begin_tiles(count + more);
        passes_.each(std::int64_t(count) + 1, [=] SPMVGPU_BODY(std::int64_t t) {
            const std::int64_t place = t + cuts[t];
            to[place] = begins[t];
            if (t == count || cuts[t] == cuts[t + 1]) return;
            // A cut is between whole warps, if there are several.
            constexpr index_t kWarp = TsmvLimits::kWarp;
            const index_t nodes = begins[t + 1] - begins[t], half = nodes / 2;
            to[place + 1] = begins[t] + (nodes > kWarp ? (half + kWarp - 1) / kWarp * kWarp : half);
        });
        return true;
    }

    // Drops the blocks in the last steps of each slice if that saves much memory and most of the steps: the blocks of a
    // hub, which are nearly alone in their steps. Returns true if there are any.
    bool drop_costly_steps() {
        constexpr std::int64_t kWorthDropping = 3;  // a third of the tile
        const TsmvTiles all = work_.tiles();
        const index_t* const steps = work_.slice_steps().data();
        const std::int64_t* const uses_before = work_.uses_before();
        const StepUse* const uses = work_.uses();
        Array<index_t> kept_steps = passes_.template scratch<index_t>(work_.slice_count());
        Array<Mark> marks = passes_.template scratch<Mark>(work_.count() + std::size_t(1));
        index_t* const kept = kept_steps.data();
        Mark *const mark = marks.data(), *const any = mark + work_.count();
        passes_.fill(any, 1, Mark(0));
        const std::int64_t slot = limits_.slot_bytes();
        const std::int64_t twice_in_csr =
            2 * std::int64_t(limits_.block) * limits_.block * (limits_.value_bytes + sizeof(index_t));
        passes_.each(
            work_.count(),
            [=] SPMVGPU_BODY(std::int64_t t) {
                std::int64_t before = 0, after = 0, steps_before = 0, steps_after = 0;
                for (index_t s = all.slices[t]; s < all.slices[t + 1]; ++s) {
                    const StepUse* const own = uses + uses_before[s];
                    const index_t threads = all.threads_of(s);
                    std::int64_t bytes = 0;
                    for (index_t k = 0; k < steps[s]; ++k) bytes += all.limits.slots(own[k], threads) * slot;
                    before += bytes;
                    // From the last step on: the bytes left when this step and all after it are dropped.
                    std::int64_t best = bytes;
                    kept[s] = steps[s];
                    for (index_t k = steps[s] - 1; k >= 0; --k) {
                        bytes += own[k].blocks * twice_in_csr - all.limits.slots(own[k], threads) * slot;
                        if (bytes >= best) continue;
                        best = bytes;
                        kept[s] = k;
                    }
                    after += best;
                    steps_before += steps[s];
                    steps_after += kept[s];
                }
                mark[t] = (before - after) * kWorthDropping > before && 2 * steps_after <= steps_before;
                if (mark[t] != 0) set_mark(any);
            },
            work_.work_per_tile());
        if (passes_.read(any) == 0) return false;
        passes_.each_in_step(
            work_.count(),
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
                if (mark[t] == 0) return;
                const index_t begin = all.begins[t];
                lanes.share(all.nodes_of(t), [&](index_t n) {
                    const std::uint16_t position = all.positions[begin + n];
                    if (position == TsmvLayout::kNone) return;
                    const index_t most = kept[all.slices[t] + position / all.limits.threads];
                    for (index_t k = all.offsets[begin + n]; k < all.offsets[begin + n + 1]; ++k) {
                        if (all.blocks[k].step >= most) all.blocks[k].step = Placement::kDropped;
                    }
                });
            },
            work_.work_per_tile());
        return true;
    }

    // Restores the dropped blocks of tiles if that costs only some more steps.
    void take_back() {
        constexpr std::int64_t kFewSteps = 64;
        const index_t blocks = pattern_.blocks;
        Array<Mark> drops = passes_.template scratch<Mark>(blocks),
                    marks = passes_.template scratch<Mark>(work_.count());
        Mark *const dropped = drops.data(), *const mark = marks.data();
        {
            const TsmvTiles all = work_.tiles();
            passes_.each(blocks,
                         [=] SPMVGPU_BODY(std::int64_t k) { dropped[k] = !all.is_kept(static_cast<index_t>(k)); });
            passes_.each_in_step(
                work_.count(),
                [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
                    const index_t first = all.first_block(t);
                    const index_t any = lanes.largest_of(
                        all.blocks_of(t), [&](index_t i) { return index_t(dropped[first + i]); }, 0);
                    lanes.once([&] { mark[t] = any != 0; });
                },
                work_.work_per_tile());
        }
        work_.begin_blocks(mark);
        work_.number_columns();
        work_.schedule();
        const TsmvTiles all = work_.tiles();
        const index_t* const steps = work_.slice_steps().data();
        const auto too_many = passes_.template reduce<std::int64_t>(work_.count(), [=] SPMVGPU_BODY(std::int64_t t) {
            const std::int64_t count = TsmvTileWork<Passes>::steps_of(all, steps, t);
            const bool is_worse = mark[t] != 0 && (count > kFewSteps || !all.limits.fits(all.local_nodes(t), count));
            mark[t] = is_worse;
            return std::int64_t(is_worse);
        });
        if (too_many == 0) return;
        passes_.each_in_step(
            work_.count(),
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
                if (mark[t] == 0) return;
                const index_t first = all.first_block(t);
                lanes.share(all.blocks_of(t), [&](index_t i) {
                    if (dropped[first + i] != 0) all.blocks[first + i].step = Placement::kDropped;
                });
            },
            work_.work_per_tile());
        work_.number_columns();
        work_.schedule();
    }

    struct EntryCounts {
        std::int64_t entries = 0, remainder = 0;

        constexpr EntryCounts& operator+=(const EntryCounts& other) {
            entries += other.entries;
            remainder += other.remainder;
            return *this;
        }
    };
    EntryCounts count_entries() {
        const TsmvTiles all = work_.tiles();
        const index_t* const first_rows = pattern_.rows.data();
        return passes_.template reduce<EntryCounts>(
            pattern_.nodes,
            [=] SPMVGPU_BODY(std::int64_t node) {
                EntryCounts kept;
                const std::int64_t rows = first_rows[node + 1] - first_rows[node];
                for (index_t k = all.offsets[node]; k < all.offsets[node + 1]; ++k) {
                    const index_t column = all.columns[k];
                    const std::int64_t entries = rows * (first_rows[column + 1] - first_rows[column]);
                    if (all.is_kept(k)) {
                        kept.entries += entries;
                    } else {
                        kept.remainder += column < node ? 2 * entries : entries;
                    }
                }
                return kept;
            },
            TsmvTileWork<Passes>::kNanosecondsPerBlock);
    }

    // The highest demand of a thread block.
    struct Demand {
        std::int64_t shared_bytes = 0, steps = 0;

        constexpr Demand& operator+=(const Demand& other) {
            if (other.shared_bytes > shared_bytes) shared_bytes = other.shared_bytes;
            if (other.steps > steps) steps = other.steps;
            return *this;
        }
    };

    TsmvLayout finish(const EntryCounts& kept) {
        TsmvLayout layout;
        layout.limits = limits_;
        layout.pattern = pattern_;
        layout.blocks = work_.blocks();
        layout.positions = work_.positions();
        layout.tile_count = work_.count();
        layout.slices = work_.slice_count();
        layout.entries = kept.entries;
        layout.remainder = kept.remainder;
        const TsmvTiles all = work_.tiles();
        const index_t* const counts = work_.slice_steps().data();
        const auto most = passes_.template reduce<Demand>(work_.count(), [=] SPMVGPU_BODY(std::int64_t t) {
            const std::int64_t steps = TsmvTileWork<Passes>::steps_of(all, counts, t);
            return Demand{all.limits.shared_bytes(all.local_nodes(t), steps), steps};
        });
        layout.shared_bytes = most.shared_bytes;
        layout.most_steps = most.steps;
        list_halos(layout);
        list_steps(layout);
        return layout;
    }

    void list_halos(TsmvLayout& layout) {
        const TsmvTiles all = work_.tiles();
        const index_t count = work_.count();
        Array<index_t> halos = passes_.template scratch<index_t>(count + std::size_t(1));
        index_t* const before = halos.data();
        passes_.each(count, [=] SPMVGPU_BODY(std::int64_t t) { before[t] = all.halo[t]; });
        layout.halo = passes_.scan(before, count);
        layout.halo_nodes = passes_.template make<index_t>(layout.halo);
        layout.tiles = passes_.template make<TsmvTile>(count + std::size_t(1));
        index_t* const halo_nodes = layout.halo_nodes.data();
        TsmvTile* const to = layout.tiles.data();
        passes_.each(std::int64_t(count) + 1, [=] SPMVGPU_BODY(std::int64_t t) {
            to[t] = {all.begins[t], before[t], all.slices[t]};
        });
        passes_.each_in_step(
            count,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
                const index_t first = all.first_block(t);
                lanes.share(all.blocks_of(t), [&](index_t i) {
                    const index_t k = first + i;
                    if (all.is_in_halo(k, t)) halo_nodes[before[t] + all.blocks[k].column] = all.columns[k];
                });
            },
            work_.work_per_tile());
    }

    void list_steps(TsmvLayout& layout) {
        const TsmvTiles all = work_.tiles();
        const StepUse* const uses = work_.uses();
        const std::int64_t* const uses_before = work_.uses_before();
        layout.slice_steps = work_.slice_steps();
        index_t* const steps = layout.slice_steps.data();
        layout.slots = passes_.template reduce<std::int64_t>(work_.slice_count(), [=] SPMVGPU_BODY(std::int64_t slice) {
            const auto s = static_cast<index_t>(slice);
            std::int64_t slots = 0;
            for (index_t k = 0; k < steps[s]; ++k) {
                slots += all.limits.slots(uses[uses_before[s] + k], all.threads_of(s));
            }
            return slots;
        });
        layout.steps = passes_.scan(steps, work_.slice_count());
        layout.step_offsets = passes_.template make<index_t>(layout.steps + std::size_t(1));
        index_t* const slots = layout.step_offsets.data();
        passes_.each_in_step(
            work_.slice_count(),
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t slice) {
                const auto s = static_cast<index_t>(slice);
                const index_t threads = all.threads_of(s);
                lanes.share(steps[s + 1] - steps[s], [&](index_t k) {
                    slots[steps[s] + k] = all.limits.slots(uses[uses_before[s] + k], threads);
                });
            },
            TsmvTileWork<Passes>::kNanosecondsPerBlock);
        if (layout.slots <= std::numeric_limits<index_t>::max()) passes_.scan(slots, layout.steps);
    }

private:
    Passes& passes_;
    const NodePattern& pattern_;
    TsmvLimits limits_;
    TsmvTileWork<Passes> work_;
};

}  // namespace spmvgpu
