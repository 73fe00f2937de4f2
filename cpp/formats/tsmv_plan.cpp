#include "formats/tsmv_plan.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

constexpr index_t kWarp = 32;
constexpr std::size_t kMaxSharedBytes = 96 << 10;  // two blocks fit a multiprocessor of an H200, one that of any other
// Blocks of a node; a longer one is a hub. With this a tile of one node always fits.
constexpr index_t max_blocks(int value_bytes) { return value_bytes > 8 ? 768 : 1536; }
constexpr int kBankBytes = 128;  // that shared memory serves at once

// The halo of a tile: the columns that it has blocks in and that are not its own nodes. A bit for each node of the
// matrix, of which only the words between the first and the last column of the tile are looked at.
class Halo {
public:
    explicit Halo(index_t columns) : bits_(columns / kBits + 1, 0), before_(columns / kBits + 1) {}

    void begin() { first_ = bits_.size(), last_ = 0; }

    void add(index_t column) {
        const std::size_t word = column / kBits;
        bits_[word] |= bit(column);
        first_ = std::min(first_, word);
        last_ = std::max(last_, word + 1);
    }

    // Numbers the columns in ascending order.
    HostVector<index_t> number() {
        index_t count = 0;
        for (std::size_t w = first_; w < last_; ++w) {
            before_[w] = count;
            count += std::popcount(bits_[w]);
        }
        HostVector<index_t> columns(count);
        auto column = columns.begin();
        for (std::size_t w = first_; w < last_; ++w) {
            for (std::uint64_t left = bits_[w]; left != 0; left &= left - 1) {
                *column++ = static_cast<index_t>(w * kBits + std::countr_zero(left));
            }
        }
        return columns;
    }

    index_t number_of(index_t column) const {
        const std::size_t word = column / kBits;
        return before_[word] + std::popcount(bits_[word] & (bit(column) - 1));
    }

    void clear() {
        if (first_ < last_) std::fill(bits_.begin() + first_, bits_.begin() + last_, 0);
    }

private:
    static constexpr index_t kBits = 64;
    static std::uint64_t bit(index_t column) { return std::uint64_t(1) << column % kBits; }

    HostVector<std::uint64_t> bits_;
    HostVector<index_t> before_;  // columns in the words before this one
    std::size_t first_ = 0, last_ = 0;
};

// Plans tiles one after the other; each CPU thread has one.
class Planner {
public:
    Planner(const NodePattern& pattern, const TsmvLimits& limits)
        : pattern_(pattern),
          limits_(limits),
          halo_(pattern.nodes()),
          scheduler_(kBankBytes / limits.value_bytes, limits.block) {}

    void plan(index_t begin, index_t end, HostVector<TsmvTilePlan>& tiles) {
        TsmvTilePlan tile = begin_tile(begin, end);
        bool fits = number_columns(tile);
        if (fits) {
            schedule(tile);
            fits = tile.shared_bytes(limits_) <= kMaxSharedBytes;
        }
        if (!fits && tile.nodes > 1) {
            // In whole warps, if there are several.
            const index_t half = tile.nodes > kWarp ? (tile.nodes / 2 + kWarp - 1) / kWarp * kWarp : tile.nodes / 2;
            plan(begin, begin + half, tiles);
            plan(begin + half, end, tiles);
            return;
        }
        if (drop_costly_steps(tile)) {
            number_columns(tile);
            schedule(tile);
        }
        count_entries(tile);
        tiles.push_back(std::move(tile));
    }

    // Takes the dropped blocks back in, at the price of some more steps.
    void take_back(TsmvTilePlan& tile) {
        constexpr std::size_t kFewSteps = 64;
        TsmvTilePlan whole = begin_tile(tile.node_begin, tile.node_begin + tile.nodes);
        if (!number_columns(whole)) return;
        schedule(whole);
        if (whole.steps.size() > kFewSteps || whole.shared_bytes(limits_) > kMaxSharedBytes) return;
        count_entries(whole);
        tile = std::move(whole);
    }

private:
    // Dropped from the outset: all but the last blocks of a very long node, and, as the poster has square blocks on the
    // diagonal, what lies left of that.
    TsmvTilePlan begin_tile(index_t begin, index_t end) const {
        TsmvTilePlan tile;
        tile.node_begin = begin;
        tile.nodes = end - begin;
        tile.blocks.resize(pattern_.offsets[end] - pattern_.offsets[begin]);
        for (index_t n = 0; n < tile.nodes; ++n) {
            const std::span<Placement> blocks = blocks_of(tile, n);
            std::size_t dropped = blocks.size() - std::min<std::size_t>(blocks.size(), max_blocks(limits_.value_bytes));
            if (limits_.variant == TsmvVariant::kPoster) {
                const index_t* const columns = columns_of(tile, n);
                dropped =
                    std::max<std::size_t>(dropped, std::lower_bound(columns, columns + blocks.size(), begin) - columns);
            }
            for (Placement& block : blocks.first(dropped)) block.step = Placement::kDropped;
        }
        return tile;
    }

    const index_t* columns_of(const TsmvTilePlan& tile, index_t n) const {
        return pattern_.columns.data() + pattern_.offsets[tile.node_begin + n];
    }

    std::span<Placement> blocks_of(TsmvTilePlan& tile, index_t n) const {
        const index_t* const offsets = pattern_.offsets.data() + tile.node_begin;
        return std::span(tile.blocks).subspan(offsets[n] - offsets[0], offsets[n + 1] - offsets[n]);
    }

    template <class Visit>
    void for_each_kept(TsmvTilePlan& tile, Visit visit) const {
        const index_t* column = columns_of(tile, 0);
        for (Placement& block : tile.blocks) {
            if (block.step != Placement::kDropped) visit(block, *column);
            ++column;
        }
    }

    // Finds the halo and numbers the columns of all blocks. False if they are too many.
    bool number_columns(TsmvTilePlan& tile) {
        halo_.begin();
        for_each_kept(tile, [&](Placement&, index_t column) {
            if (column < tile.node_begin) halo_.add(column);
        });
        tile.halo_nodes = halo_.number();
        const bool fits = tile.shared_bytes(limits_) <= kMaxSharedBytes;
        if (fits) {
            const index_t own = static_cast<index_t>(tile.halo_nodes.size()) - tile.node_begin;
            for_each_kept(tile, [&](Placement& block, index_t column) {
                block.column =
                    static_cast<std::uint16_t>(column < tile.node_begin ? halo_.number_of(column) : own + column);
            });
        }
        halo_.clear();
        return fits;
    }

    void schedule(TsmvTilePlan& tile) {
        sort_nodes(tile);
        tile.steps.clear();
        tile.slice_steps.clear();
        tile.slice_nodes.clear();
        const std::span<NodeTask> tasks(tasks_);
        if (limits_.variant == TsmvVariant::kPoster) {
            schedule_list(tasks, limits_.threads, tile.local_nodes(), tile.steps);
            tile.slice_steps.push_back(static_cast<index_t>(tile.steps.size()));
            tile.slice_nodes.push_back(limits_.threads);
        } else {
            for (std::size_t first = 0; first < tasks.size(); first += limits_.threads) {
                const std::size_t count = std::min<std::size_t>(limits_.threads, tasks.size() - first);
                const std::size_t steps = tile.steps.size();
                scheduler_.schedule(tasks.subspan(first, count), tile.local_nodes(), tile.steps);
                tile.slice_steps.push_back(static_cast<index_t>(tile.steps.size() - steps));
                tile.slice_nodes.push_back(static_cast<index_t>(count));
            }
        }
        tile.positions.assign(tile.nodes, NodeTask::kNone);
        const std::size_t halo = tile.halo_nodes.size();
        for (const NodeTask& task : tasks_) tile.positions[task.node - halo] = task.position;
    }

    // The nodes that have blocks, longest first, those of equal length in order: a counting sort.
    void sort_nodes(TsmvTilePlan& tile) {
        const index_t longest = max_blocks(limits_.value_bytes);
        std::vector<index_t> positions(longest + 1, 0);
        lengths_.assign(tile.nodes, 0);
        for (index_t n = 0; n < tile.nodes; ++n) {
            for (const Placement& block : blocks_of(tile, n)) lengths_[n] += block.step != Placement::kDropped;
            ++positions[lengths_[n]];
        }
        // Then, how many nodes are longer, which is where those of a length begin.
        index_t longer = 0;
        for (index_t length = longest; length >= 0; --length) longer += std::exchange(positions[length], longer);
        tasks_.resize(positions[0]);
        const auto halo = static_cast<index_t>(tile.halo_nodes.size());
        for (index_t n = 0; n < tile.nodes; ++n) {
            if (lengths_[n] == 0) continue;
            const index_t position = positions[lengths_[n]]++;
            tasks_[position] = {blocks_of(tile, n), static_cast<std::uint16_t>(halo + n),
                                static_cast<std::uint16_t>(lengths_[n]), static_cast<std::uint16_t>(position)};
        }
    }

    // Drops the blocks in the last steps of each slice where that saves much memory and most of the steps: those of a
    // hub, which hold hardly anything but its own blocks. Whether it did.
    bool drop_costly_steps(TsmvTilePlan& tile) const {
        constexpr std::size_t kWorthDropping = 3;  // a third of the tile
        const std::size_t slot = limits_.slot_bytes();
        const std::size_t twice_in_csr = 2 * limits_.block * limits_.block * (limits_.value_bytes + sizeof(index_t));
        std::vector<index_t> kept_steps;
        std::size_t before = 0, after = 0, first = 0, steps_after = 0;
        for (std::size_t s = 0; s < tile.slice_steps.size(); ++s) {
            const std::span<const StepUse> steps(tile.steps.data() + first, tile.slice_steps[s]);
            first += steps.size();
            std::size_t bytes = 0;
            for (const StepUse& use : steps) bytes += tile.slots(s, use) * slot;
            before += bytes;
            // From the last step on: what is left when this step and all after it are dropped.
            std::size_t best = bytes;
            auto kept = static_cast<index_t>(steps.size());
            for (index_t k = kept - 1; k >= 0; --k) {
                bytes = bytes - tile.slots(s, steps[k]) * slot + steps[k].blocks * twice_in_csr;
                if (bytes < best) best = bytes, kept = k;
            }
            after += best;
            steps_after += kept;
            kept_steps.push_back(kept);
        }
        if ((before - after) * kWorthDropping <= before || 2 * steps_after > tile.steps.size()) return false;
        for (index_t n = 0; n < tile.nodes; ++n) {
            if (tile.positions[n] == NodeTask::kNone) continue;
            const index_t kept = kept_steps[tile.positions[n] / limits_.threads];
            for (Placement& block : blocks_of(tile, n)) {
                if (block.step >= kept) block.step = Placement::kDropped;
            }
        }
        return true;
    }

    void count_entries(TsmvTilePlan& tile) const {
        const index_t* column = columns_of(tile, 0);
        for (index_t n = 0; n < tile.nodes; ++n) {
            const index_t node = tile.node_begin + n;
            for (const Placement& block : blocks_of(tile, n)) {
                const std::size_t entries = std::size_t(pattern_.rows_of(node)) * pattern_.rows_of(*column);
                if (block.step != Placement::kDropped) {
                    tile.kept += entries;
                } else {
                    tile.remainder += *column < node ? 2 * entries : entries;
                }
                ++column;
            }
        }
    }

    const NodePattern& pattern_;
    const TsmvLimits& limits_;
    Halo halo_;
    SliceScheduler scheduler_;
    HostVector<NodeTask> tasks_;
    HostVector<index_t> lengths_;
};

}  // namespace

index_t TsmvTilePlan::slots(std::size_t slice, const StepUse& use) const {
    return std::min((use.threads + kWarp - 1) / kWarp * kWarp, slice_nodes[slice]);
}

std::size_t TsmvTilePlan::count_slots() const {
    std::size_t count = 0, step = 0;
    for (std::size_t s = 0; s < slice_steps.size(); ++s) {
        for (index_t k = 0; k < slice_steps[s]; ++k) count += slots(s, steps[step++]);
    }
    return count;
}

HostVector<TsmvTilePlan> plan_tiles(const NodePattern& pattern, const TsmvLimits& limits) {
    const index_t nodes = pattern.nodes();
    const index_t chunks = nodes / limits.tile_nodes + (nodes % limits.tile_nodes != 0);
    HostVector<HostVector<TsmvTilePlan>> planned(chunks);
    constexpr std::int64_t kNanosecondsPerBlock = 20;
    // Few pieces: each has a planner of its own, with memory for all nodes.
    const std::int64_t pieces = std::clamp<std::int64_t>(piece_count(kNanosecondsPerBlock * pattern.offsets[nodes]), 1,
                                                         std::max<index_t>(1, std::min(chunks, 4 * max_threads())));
    for_each_piece(pieces, [&](std::int64_t p) {
        Planner planner(pattern, limits);
        for (auto c = static_cast<index_t>(part_begin(chunks, pieces, p)); c < part_begin(chunks, pieces, p + 1); ++c) {
            const index_t begin = c * limits.tile_nodes;
            check_interrupt();
            planner.plan(begin, begin + std::min(limits.tile_nodes, nodes - begin), planned[c]);
        }
    });
    HostVector<TsmvTilePlan> tiles;
    std::size_t kept = 0, remainder = 0;
    for (auto& chunk : planned) {
        for (TsmvTilePlan& tile : chunk) {
            kept += tile.kept;
            remainder += tile.remainder;
            tiles.push_back(std::move(tile));
        }
    }
    // A remainder is one more kernel over all rows: not for a few entries.
    constexpr std::size_t kWorthAKernel = 100;  // one in so many
    if (remainder > 0 && remainder * kWorthAKernel < kept) {
        Planner planner(pattern, limits);
        for (TsmvTilePlan& tile : tiles) {
            check_interrupt();
            if (tile.remainder > 0) planner.take_back(tile);
        }
    }
    return tiles;
}

}  // namespace spmvgpu
