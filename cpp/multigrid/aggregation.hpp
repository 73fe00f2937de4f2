// Aggregates of nodes: a maximal independent set of distance 2 (Bell, Dalton and Olson, SIAM J. Sci. Comput. 34, 2012)
// gives their roots. As passes on any device; see core/passes/passes.hpp.
//
// clang-format off
//     nodes of a grid, roots marked *      neighbours join       the others join the nearest aggregate
//         o---o---*---o---o                .   a   a   a   .         c   a   a   a   b
//         |   |   |   |   |
//         o---o---o---o---*                c   .   a   b   b         c   c   a   b   b
//         |   |   |   |   |
//         o---*---o---o---o                c   c   c   .   b         c   c   c   c   b
// clang-format on
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "core/array.hpp"
#include "core/passes/passes.hpp"

namespace spmvgpu::multigrid {

// The strength of a connection between two nodes, from 1 to kStrongest; 0 if it is missing or weak, and for a node with
// itself. Sums of these integers do not depend on their order.
using Strength = std::uint8_t;
constexpr int kStrongest = std::numeric_limits<Strength>::max();

// Nodes and their neighbours, with a strength for each entry. A connection may be strong for one of its nodes only,
// which then may join the other one, and not the reverse.
struct Graph {
    index_t nodes;
    const index_t *row_offsets, *neighbours;
    const Strength* strengths;
    const Mark* outer = nullptr;  // marks nodes with connections that the graph lacks; null: none has any
};

constexpr index_t kNone = -1;

struct Aggregates {
    index_t count = 0;
    Array<index_t> of_node;  // kNone for a node without strong connections that is not outer
};

// The rank by which nodes are selected: a pseudorandom number from 1 to 2^31 that belongs to this node alone; kOut,
// once the node cannot be a root, and kRoot, once it is one.
using Rank = std::uint32_t;
constexpr Rank kOut = 0, kRoot = std::numeric_limits<Rank>::max();

// Multiplications by odd numbers and shifts to the right permute the numbers with this many bits.
constexpr Rank rank_of(index_t node, int bits) {
    const Rank mask = static_cast<Rank>((std::uint64_t(1) << bits) - 1);
    auto number = static_cast<Rank>(node);
    constexpr Rank kFactors[] = {0x9e3779b1u, 0x85ebca6bu, 0xc2b2ae35u};
    for (const Rank factor : kFactors) {
        number = (number * factor) & mask;
        number ^= number >> (bits / 2 + 1);
    }
    return number + 1;
}

constexpr bool is_decided(Rank rank) { return rank == kOut || rank == kRoot; }

// The best rank of a node and of its neighbours.
struct BestNear {
    Rank rank;
    bool is_last;  // all nodes are decided, so the rank is final
};

constexpr BestNear best_near(const Graph& graph, const Rank* ranks, index_t node) {
    BestNear best{ranks[node], is_decided(ranks[node])};
    for (index_t k = graph.row_offsets[node]; k < graph.row_offsets[node + 1]; ++k) {
        if (graph.strengths[k] == 0) continue;
        const Rank other = ranks[graph.neighbours[k]];
        if (other > best.rank) best.rank = other;
        best.is_last = best.is_last && is_decided(other);
    }
    return best;
}

constexpr std::int64_t kNanosecondsPerNode = 15;

// Numbers the roots of new aggregates, from `count` on, in `aggregates`, and returns the new number of aggregates. The
// roots are a maximal set of nodes in which no two are nearer than 3 steps of strong connections. Only nodes without an
// aggregate are candidates, and only if enough of their neighbours have none either.
template <class Passes>
index_t add_roots(Passes& passes, const Graph& graph, index_t* aggregates, index_t count) {
    constexpr index_t kShare = 2;  // one half
    const index_t nodes = graph.nodes;
    const int bits = std::bit_width(static_cast<unsigned>(nodes > 1 ? nodes - 1 : 1));
    Array<Rank> own_ranks = passes.template scratch<Rank>(nodes), near_ranks = passes.template scratch<Rank>(nodes);
    Array<Mark> last_ones = passes.template scratch<Mark>(nodes);
    Rank *const ranks = own_ranks.data(), *const near = near_ranks.data();
    Mark* const is_last = last_ones.data();
    auto undecided = passes.template reduce<std::int64_t>(
        nodes,
        [=] SPMVGPU_BODY(std::int64_t i) {
            const auto node = static_cast<index_t>(i);
            index_t neighbours = 0, free_neighbours = 0;
            for (index_t k = graph.row_offsets[node]; k < graph.row_offsets[node + 1]; ++k) {
                if (graph.strengths[k] == 0) continue;
                ++neighbours;
                free_neighbours += aggregates[graph.neighbours[k]] == kNone;
            }
            const bool is_candidate =
                aggregates[node] == kNone && neighbours > 0 && kShare * free_neighbours >= neighbours;
            ranks[node] = is_candidate ? rank_of(node, bits) : kOut;
            near[node] = kOut;
            is_last[node] = aggregates[node] != kNone;
            return std::int64_t(is_candidate);
        },
        kNanosecondsPerNode);
    const auto decide = [=] SPMVGPU_BODY(std::int64_t node) {
        const Rank own = ranks[node];
        if (is_decided(own)) return std::int64_t(0);
        const Rank best = best_near(graph, near, static_cast<index_t>(node)).rank;
        if (best != own && best != kRoot) return std::int64_t(1);
        ranks[node] = best == own ? kRoot : kOut;
        return std::int64_t(0);
    };
    while (undecided > 0) {
        constexpr int kRoundsAtOnce = 4;  // checking after each round takes longer
        for (int round = 1; round <= kRoundsAtOnce; ++round) {
            passes.each(
                nodes,
                [=] SPMVGPU_BODY(std::int64_t node) {
                    if (is_last[node] != 0) return;
                    const BestNear best = best_near(graph, ranks, static_cast<index_t>(node));
                    near[node] = best.rank;
                    is_last[node] = best.is_last;
                },
                kNanosecondsPerNode);
            if (round < kRoundsAtOnce) {
                passes.each(nodes, decide, kNanosecondsPerNode);
            } else {
                undecided = passes.template reduce<std::int64_t>(nodes, decide, kNanosecondsPerNode);
            }
        }
    }
    Array<index_t> numbers = passes.template scratch<index_t>(nodes + std::size_t(1));
    index_t* const number = numbers.data();
    passes.each(nodes, [=] SPMVGPU_BODY(std::int64_t node) { number[node] = ranks[node] == kRoot; });
    const index_t added = passes.scan(number, nodes);
    passes.each(nodes, [=] SPMVGPU_BODY(std::int64_t node) {
        if (ranks[node] == kRoot) aggregates[node] = count + number[node];
    });
    return count + added;
}

// The aggregate of `least` nodes or more that receives most of a node's strong connections, the smallest one if there
// are several; kNone if there are none.
constexpr index_t nearest_aggregate(const Graph& graph, const index_t* aggregates, const index_t* sizes, index_t least,
                                    index_t node) {
    constexpr index_t kMostNeighbours = 64;  // each neighbour is compared with all others
    const index_t begin = graph.row_offsets[node], length = graph.row_offsets[node + 1] - begin;
    const index_t end = begin + (length < kMostNeighbours ? length : kMostNeighbours);
    index_t nearest = kNone, most = 0;
    for (index_t k = begin; k < begin + length; ++k) {
        if (graph.strengths[k] == 0) continue;
        const index_t candidate = aggregates[graph.neighbours[k]];
        if (candidate == kNone || candidate == nearest || sizes[candidate] < least) continue;
        index_t sum = graph.strengths[k];
        for (index_t other = k + 1; other < end; ++other) {
            if (aggregates[graph.neighbours[other]] == candidate) sum += graph.strengths[other];
        }
        const bool is_smaller = sum == most && sizes[candidate] < sizes[nearest];
        if (sum > most || is_smaller) {
            nearest = candidate;
            most = sum;
        }
    }
    return nearest;
}

template <class Passes>
void count_members(Passes& passes, const Aggregates& found, index_t nodes, index_t* sizes) {
    const index_t* const of_node = found.of_node.data();
    passes.fill(sizes, found.count, index_t(0));
    passes.each(nodes, [=] SPMVGPU_BODY(std::int64_t node) {
        if (of_node[node] != kNone) count_one(sizes + of_node[node]);
    });
}

// A root to which no other node has a strong connection joins the aggregate that it is connected with, or none.
template <class Passes>
void dissolve_lone_roots(Passes& passes, const Graph& graph, Aggregates& found) {
    const index_t nodes = graph.nodes, count = found.count;
    Array<index_t> sizes = passes.template scratch<index_t>(count), before = passes.template scratch<index_t>(nodes);
    Array<index_t> numbers = passes.template scratch<index_t>(count + std::size_t(1));
    index_t *const size = sizes.data(), *const of_node = found.of_node.data(), *const place = before.data(),
                   *const number = numbers.data();
    count_members(passes, found, nodes, size);
    auto lone = passes.template reduce<std::int64_t>(
        count, [=] SPMVGPU_BODY(std::int64_t a) { return std::int64_t(size[a] == 1); });
    if (lone == 0) return;
    while (lone > 0) {
        passes.each(nodes, [=] SPMVGPU_BODY(std::int64_t node) { place[node] = of_node[node]; });
        lone = passes.template reduce<std::int64_t>(
            nodes,
            [=] SPMVGPU_BODY(std::int64_t node) {
                if (place[node] == kNone || size[place[node]] > 1) return std::int64_t(0);
                constexpr index_t kLeast = 2;
                const index_t nearest = nearest_aggregate(graph, place, size, kLeast, static_cast<index_t>(node));
                if (nearest != kNone) of_node[node] = nearest;
                return std::int64_t(nearest != kNone);
            },
            kNanosecondsPerNode);
        count_members(passes, found, nodes, size);
    }
    passes.each(count, [=] SPMVGPU_BODY(std::int64_t a) { number[a] = size[a] > 1; });
    found.count = passes.scan(number, count);
    passes.each(nodes, [=] SPMVGPU_BODY(std::int64_t node) {
        const index_t own = of_node[node];
        if (own != kNone) of_node[node] = size[own] > 1 ? number[own] : kNone;
    });
}

// Outer nodes without an aggregate become one of their own each.
template <class Passes>
void add_outer_nodes(Passes& passes, const Graph& graph, Aggregates& found) {
    if (graph.outer == nullptr) return;
    const Mark* const outer = graph.outer;
    const index_t nodes = graph.nodes, count = found.count;
    Array<index_t> numbers = passes.template scratch<index_t>(nodes + std::size_t(1));
    index_t *const number = numbers.data(), *const of_node = found.of_node.data();
    passes.each(nodes, [=] SPMVGPU_BODY(std::int64_t node) { number[node] = of_node[node] == kNone && outer[node]; });
    found.count += passes.scan(number, nodes);
    passes.each(nodes, [=] SPMVGPU_BODY(std::int64_t node) {
        if (of_node[node] == kNone && outer[node]) of_node[node] = count + number[node];
    });
}

// Aggregates from rounds of roots and their neighbours; a second one fills gaps of the first (Kelley and Rajamanickam,
// arXiv:2204.02934), and leaves more aggregates. Other nodes join the aggregate that they are connected with most
// strongly.
template <class Passes>
Aggregates aggregate(Passes& passes, const Graph& graph, int rounds) {
    const index_t nodes = graph.nodes;
    Array<index_t> places_before = passes.template scratch<index_t>(nodes);
    Aggregates found{0, passes.template make<index_t>(nodes)};
    index_t *const before = places_before.data(), *const of_node = found.of_node.data();
    passes.fill(of_node, nodes, kNone);
    for (int round = 0; round < rounds; ++round) {
        const index_t count = found.count;
        found.count = add_roots(passes, graph, of_node, count);
        passes.each(nodes, [=] SPMVGPU_BODY(std::int64_t node) { before[node] = of_node[node]; });
        passes.each(
            nodes,
            [=] SPMVGPU_BODY(std::int64_t node) {
                if (before[node] != kNone) return;
                for (index_t k = graph.row_offsets[node]; k < graph.row_offsets[node + 1]; ++k) {
                    const index_t other = graph.strengths[k] == 0 ? kNone : before[graph.neighbours[k]];
                    if (other < count) continue;  // the neighbour is no new root
                    of_node[node] = other;
                    return;
                }
            },
            kNanosecondsPerNode);
    }
    Array<index_t> sizes = passes.template scratch<index_t>(found.count);
    index_t* const size = sizes.data();
    count_members(passes, found, nodes, size);
    passes.each(nodes, [=] SPMVGPU_BODY(std::int64_t node) { before[node] = of_node[node]; });
    passes.each(
        nodes,
        [=] SPMVGPU_BODY(std::int64_t node) {
            if (before[node] == kNone)
                of_node[node] = nearest_aggregate(graph, before, size, 1, static_cast<index_t>(node));
        },
        kNanosecondsPerNode);
    dissolve_lone_roots(passes, graph, found);
    add_outer_nodes(passes, graph, found);
    return found;
}

}  // namespace spmvgpu::multigrid
