// Work of 32 lanes in step, written once. On a GPU the lanes are the threads of a warp, which run the text each for its
// own lane; on the CPU one thread goes through them. A PerLane<T> holds a value for each lane and is indexed by the
// lane; all other variables are the same for all lanes.
//
// clang-format off
//
//     lanes.each(body)        body(lane)
//     lanes.those(holds)      a set of bits, of the lanes for which holds(lane)
//     lanes.least(value)      the least index_t value(lane); and the largest
//     lanes.of(lane, value)   value(lane) of one lane
//     lanes.sum(own)          the sum of what every thread has, of all its lanes
//     lanes.once(body)        body(), by one lane
//     lanes.share(n, body)    body(i) for every i below n, each by one lane
//     lanes.any_of(n, holds)  whether holds(i) for any i below n
//     lanes.least_of(n, value, none)      the least index_t value(i) of all i below n, or `none` if none is less
//     lanes.largest_of(n, value, none)    and the largest, or `none` if none is larger
//     lanes.add_up(n, value, body)        body(i, sum of the value(j) of all j below i) for every i below n; returns
//                                         the sum of all
//     lanes.sort(n, from, spare, to)      to[0] to to[n - 1] become the index_t from[0] to from[n - 1], ascending, if
//                                         they are different or no more than few lanes have in registers; what is in
//                                         `from`, and in as many of `spare`, is lost
//     lanes.total<V>(n, value)            the sum of the V value(i) of all i below n, for few lanes: each adds every
//                                         eighth number first, and so does a single one, for the same bits
//     lanes.meet()            what lanes wrote before is there for all of them afterwards
//
//     lanes.each_of_runs(runs, run_of, read, body)     body(read(i, k)) for every entry k of every Run run_of(i), for i
//                                         below `runs`, in any order. A lane reads some before the first body
//     lanes.each_of_runs_until(runs, run_of, is_over, read, body)  the same until is_over() holds for a lane
//     lanes.list_runs(runs, run_of, read, to)      to[t] = read(i, k) for the t-th of those entries, an index_t; returns
//                                         how many there are
//     lanes.each_of_runs_in_turn(runs, run_of, turns, read, place_of, body)     body(item, place) for the item read(i, k)
//                                         of every entry, unless its place, place_of(item), is negative. Items of one
//                                         place come in the order of the runs, of which each has a place once. Every
//                                         place has one in `turns`, a Lanes::Turn, which is Lanes::kNoTurn
//
// clang-format on
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/passes/passes.hpp"
#include "core/types.hpp"

namespace spmvgpu {

constexpr int kFewLanes = 8;
constexpr int kReadAtOnce = 4;  // entries of runs that a lane reads before it uses the first

struct OneLane {
    SPMVGPU_IN_BODY std::uint64_t sum(std::uint64_t own) const { return own; }
    template <class Body>
    SPMVGPU_IN_BODY void once(const Body& body) const {
        body();
    }
    template <class Body>
    SPMVGPU_IN_BODY void share(index_t n, const Body& body) const {
        for (index_t i = 0; i < n; ++i) body(i);
    }
    template <class Holds>
    SPMVGPU_IN_BODY bool any_of(index_t n, const Holds& holds) const {
        for (index_t i = 0; i < n; ++i) {
            if (holds(i)) return true;
        }
        return false;
    }
    template <class Value, class Body>
    SPMVGPU_IN_BODY index_t add_up(index_t n, const Value& value, const Body& body) const {
        index_t sum = 0;
        for (index_t i = 0; i < n; ++i) {
            const index_t own = value(i);
            body(i, sum);
            sum += own;
        }
        return sum;
    }

    using Turn = index_t;
    static constexpr Turn kNoTurn = 0;
    template <class RunOf, class IsOver, class Read, class Body>
    SPMVGPU_IN_BODY void each_of_runs_until(index_t runs, const RunOf& run_of, const IsOver& is_over, const Read& read,
                                            const Body& body) const {
        for (index_t i = 0; i < runs; ++i) {
            const Run run = run_of(i);
            for (index_t k = run.begin; k < run.end && !is_over(); ++k) body(read(i, k));
        }
    }
    template <class RunOf, class Read>
    SPMVGPU_IN_BODY index_t list_runs(index_t runs, const RunOf& run_of, const Read& read, index_t* to) const {
        index_t listed = 0;
        each_of_runs(runs, run_of, read, [&](index_t item) { to[listed++] = item; });
        return listed;
    }
    template <class RunOf, class Read, class Body>
    SPMVGPU_IN_BODY void each_of_runs(index_t runs, const RunOf& run_of, const Read& read, const Body& body) const {
        each_of_runs_until(
            runs, run_of, [] { return false; }, read, body);
    }
    template <class RunOf, class Read, class PlaceOf, class Body>
    SPMVGPU_IN_BODY void each_of_runs_in_turn(index_t runs, const RunOf& run_of, const Turn* /*turns*/,
                                              const Read& read, const PlaceOf& place_of, const Body& body) const {
        each_of_runs(runs, run_of, read, [&](const auto& item) {
            const index_t place = place_of(item);
            if (place >= 0) body(item, place);
        });
    }
};

struct HostLanes : OneLane {
    static constexpr int kCount = 32;

    template <class T>
    struct PerLane {
        T values[kCount];
        T& operator[](int lane) { return values[lane]; }
        const T& operator[](int lane) const { return values[lane]; }
    };

    template <class Body>
    void each(const Body& body) const {
        for (int lane = 0; lane < kCount; ++lane) body(lane);
    }
    template <class Holds>
    Word those(const Holds& holds) const {
        Word set = 0;
        for (int lane = 0; lane < kCount; ++lane) set |= Word(bool(holds(lane))) << lane;
        return set;
    }
    template <class Value>
    index_t least(const Value& value) const {
        index_t found = value(0);
        for (int lane = 1; lane < kCount; ++lane) found = std::min<index_t>(found, value(lane));
        return found;
    }
    template <class Value>
    index_t largest(const Value& value) const {
        index_t found = value(0);
        for (int lane = 1; lane < kCount; ++lane) found = std::max<index_t>(found, value(lane));
        return found;
    }
    template <class Value>
    auto of(int lane, const Value& value) const {
        return value(lane);
    }
    template <class Value>
    index_t least_of(index_t n, const Value& value, index_t none) const {
        index_t found = none;
        for (index_t i = 0; i < n; ++i) found = std::min<index_t>(found, value(i));
        return found;
    }
    template <class Value>
    index_t largest_of(index_t n, const Value& value, index_t none) const {
        index_t found = none;
        for (index_t i = 0; i < n; ++i) found = std::max<index_t>(found, value(i));
        return found;
    }
    template <class V, class Value>
    V total(index_t n, const Value& value) const {
        V sums[kFewLanes];
        std::fill_n(sums, kFewLanes, V(0));
        for (index_t i = 0; i < n; ++i) sums[i % kFewLanes] += value(i);
        for (int half = kFewLanes / 2; half > 0; half /= 2) {
            for (int k = 0; k < half; ++k) sums[k] += sums[k + half];
        }
        return sums[0];
    }
    void sort(index_t n, const index_t* from, index_t* /*spare*/, index_t* to) const {
        std::copy_n(from, n, to);
        std::sort(to, to + n);
    }
    void meet() const {}
};

}  // namespace spmvgpu
