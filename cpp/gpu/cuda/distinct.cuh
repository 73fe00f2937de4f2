// Distinct numbers of groups on a GPU, by a hash set for each group; see core/passes/passes.hpp. The result does not
// depend on the order in which numbers arrive: exactly one of the threads that add a number finds that it is new.
#pragma once

#include <type_traits>
#include <utility>

#include "core/passes/passes.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu::gpu {

constexpr int kPassThreads = 256;
constexpr int kPassEntries = 4;      // per thread
constexpr int kRowsPassEntries = 8;  // if the rows of entries are needed as well

// The type of a number of a group for atomic operations.
template <class Group>
using NumberOf = decltype(std::declval<const Group&>().number(std::declval<const Group&>().run(0), index_t{}));
template <class Group>
using SlotOf = std::conditional_t<sizeof(NumberOf<Group>) == 4, unsigned, unsigned long long>;
template <class Slot>
constexpr Slot kFreeSlot = ~Slot(0);  // not a number, for none is negative

// Returns true if the number is new. An occupied slot never changes, so only a free one may have changed since it was
// read, which atomicCAS() reports.
template <class Slot>
__device__ __forceinline__ bool add_number(Slot* slots, int slot_bits, Slot number) {
    const unsigned mask = (1u << slot_bits) - 1;
    for (unsigned at = first_slot(number, slot_bits);; at = (at + 1) & mask) {
        Slot found = *static_cast<volatile Slot*>(slots + at);
        if (found == kFreeSlot<Slot>) found = atomicCAS(slots + at, kFreeSlot<Slot>, number);
        if (found == kFreeSlot<Slot>) return true;
        if (found == number) return false;
    }
}

// The numbers found by thread `thread` of `threads`, a power of two. Some consecutive threads share a run, the more the
// fewer runs there are; each reads several numbers before it looks for the first in the set.
template <class Group, class Slot>
__device__ __forceinline__ Tally add_numbers(const Group& group, Slot* slots, int slot_bits, std::int64_t thread,
                                             std::int64_t threads) {
    Tally found;
    std::int64_t lanes = 8;
    while (lanes < threads && 2 * lanes * group.runs <= threads) lanes *= 2;
    for (std::int64_t i = thread / lanes; i < group.runs; i += threads / lanes) {
        const auto run = group.run(static_cast<index_t>(i));
        for (std::int64_t first = run.begin + thread % lanes; first < run.end; first += kPassEntries * lanes) {
            Slot numbers[kPassEntries];
#pragma unroll
            for (int j = 0; j < kPassEntries; ++j) {
                const std::int64_t k = first + j * lanes;
                numbers[j] =
                    k < run.end ? static_cast<Slot>(group.number(run, static_cast<index_t>(k))) : kFreeSlot<Slot>;
            }
#pragma unroll
            for (int j = 0; j < kPassEntries; ++j) {
                if (numbers[j] == kFreeSlot<Slot>) continue;
                ++found.all;
                found.different += add_number(slots, slot_bits, numbers[j]);
            }
        }
    }
    return found;
}

// Reads a group that one thread of the block has made. All threads must call.
template <class Group, class Body>
__device__ __forceinline__ Group share_group(std::int64_t g, const Body& body) {
    static_assert(std::is_trivially_copyable_v<Group>);
    __shared__ alignas(Group) unsigned char memory[sizeof(Group)];  // Group has initialisers
    Group* const shared = reinterpret_cast<Group*>(memory);
    if (threadIdx.x == 0) *shared = body(g);
    __syncthreads();
    return *shared;
}

__device__ __forceinline__ void add_block_to_tally(Tally* tally, Tally found) {
    found.different = sum_block<std::int64_t, kPassThreads>(found.different);
    __syncthreads();  // both sums are made in the same memory
    found.all = sum_block<std::int64_t, kPassThreads>(found.all);
    if (threadIdx.x == 0) add_to_tally(tally, found);
}

// A block for each group.
template <class Group, class Body>
__global__ void __launch_bounds__(kPassThreads) distinct_in_shared_memory(int slot_bits, Body body) {
    using Slot = SlotOf<Group>;
    extern __shared__ double2 dynamic_memory[];
    Slot* const slots = reinterpret_cast<Slot*>(dynamic_memory);
    for (int i = threadIdx.x; i < 1 << slot_bits; i += kPassThreads) slots[i] = kFreeSlot<Slot>;
    const auto group = share_group<Group>(blockIdx.x, body);
    add_block_to_tally(group.tally, add_numbers(group, slots, slot_bits, threadIdx.x, kPassThreads));
}

// The slots of a group, a row of the grid, are free at first.
template <class Group, class Body>
__global__ void __launch_bounds__(kPassThreads)
    distinct_in_global_memory(SlotOf<Group>* all_slots, int slot_bits, Body body) {
    SlotOf<Group>* const slots = all_slots + (std::size_t(blockIdx.y) << slot_bits);
    const auto group = share_group<Group>(blockIdx.y, body);
    add_block_to_tally(group.tally,
                       add_numbers(group, slots, slot_bits, std::int64_t(blockIdx.x) * kPassThreads + threadIdx.x,
                                   std::int64_t(gridDim.x) * kPassThreads));
}

}  // namespace spmvgpu::gpu
