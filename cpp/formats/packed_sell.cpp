#include "formats/packed_sell.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/parallel.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

using namespace packed;

namespace {

// A slot as it lies in the stream.
template <class T>
struct StoredSlot {
    Slot slot;
    std::uint32_t mask;
    T constant;  // where the mode has one
    const Byte* elements;

    int count() const { return std::popcount(mask); }
};

// Calls visit(stored) for the slots of a slice in order.
template <class T, class Visit>
inline void for_each_stored_slot(const PackedSell<T>& matrix, index_t slice, const Visit& visit) {
    const index_t slice_end = matrix.slice_offsets[slice + 1];
    for (index_t header = matrix.slice_offsets[slice]; header < slice_end; header += kGroupWords) {
        const index_t first = header + 1, end = std::min(header + kGroupWords, slice_end);
        const Group group = group_of(matrix.words[header]);
        const Byte* const start = matrix.stream.data() + group.position * kGranule;
        const Byte* mask = start + group.elements * kGranule;
        int ragged = 0;
        for (index_t w = first; w < end; ++w) ragged += slot_of(matrix.words[w]).ragged;
        const Byte* constant = mask + granules_of(ragged * sizeof(std::uint32_t)) * kGranule;
        for (index_t w = first; w < end; ++w) {
            StoredSlot<T> stored{slot_of(matrix.words[w]), kEveryLane, T(0), nullptr};
            stored.elements = start + stored.slot.position * kGranule;
            if (stored.slot.ragged) {
                stored.mask = load_element<std::uint32_t>(mask);
                mask += sizeof(std::uint32_t);
            }
            if (stored.slot.value == ValueMode::kConstant) {
                stored.constant = load_element<T>(constant);
                constant += sizeof(T);
            } else if (stored.slot.value == ValueMode::kKnownConstant) {
                stored.constant = matrix.dictionary[stored.slot.code];
            }
            visit(stored);
        }
    }
}

// The values of a slot, as many as it has lanes.
template <ValueMode kMode, class T>
inline void read_elements(const Byte* from, int count, const T* dictionary, Real<T> scale, T* values) {
    constexpr int kBytes = value_bytes<T>(kMode);
#pragma omp simd
    for (int i = 0; i < count; ++i) {
        values[i] = value_of<T>(kMode, load_bits<T>(from + i * kBytes, kBytes), dictionary, scale);
    }
}

// The same in any mode: where they lie, or in the buffer.
template <class T>
inline const T* values_of(const PackedSell<T>& matrix, const StoredSlot<T>& stored, const Byte* from, int count,
                          T* buffer) {
    const T* const dictionary = matrix.dictionary.data();
    switch (stored.slot.value) {
        case ValueMode::kFull:
            return reinterpret_cast<const T*>(from);
        case ValueMode::kNarrow:
            read_elements<ValueMode::kNarrow>(from, count, dictionary, matrix.scale, buffer);
            break;
        case ValueMode::kInt16:
            read_elements<ValueMode::kInt16>(from, count, dictionary, matrix.scale, buffer);
            break;
        case ValueMode::kDictionary:
            read_elements<ValueMode::kDictionary>(from, count, dictionary, matrix.scale, buffer);
            break;
        default:
            std::fill_n(buffer, count, stored.constant);
    }
    return buffer;
}

template <IndexMode kMode>
inline void read_offsets_of(const Byte* from, int count, std::uint32_t* offsets) {
#pragma omp simd
    for (int i = 0; i < count; ++i) offsets[i] = load_offset(from + i * index_bytes(kMode), kMode);
}

inline void read_offsets(IndexMode mode, const Byte* from, int count, std::uint32_t* offsets) {
    switch (mode) {
        case IndexMode::k8:
            return read_offsets_of<IndexMode::k8>(from, count, offsets);
        case IndexMode::k16:
            return read_offsets_of<IndexMode::k16>(from, count, offsets);
        case IndexMode::k32:
            return read_offsets_of<IndexMode::k32>(from, count, offsets);
        default:
            std::fill_n(offsets, count, 0);
    }
}

// The entries of a slot, unpacked: those of its lanes, side by side.
template <class T>
struct Unpacked {
    const T* values;
    std::uint32_t offsets[kLanes];
    T buffer[kLanes];

    void read(const PackedSell<T>& matrix, const StoredSlot<T>& stored) {
        const int count = stored.count(), indices = indices_behind_values(stored.slot.value_bytes, count);
        values = values_of(matrix, stored, stored.elements, count, buffer);
        read_offsets(stored.slot.index, stored.elements + indices, count, offsets);
    }
};

// Calls visit(lane, i, length) for the runs of neighbouring lanes in a mask, the first of which has entry i.
template <class Visit>
inline void for_each_run(std::uint32_t mask, const Visit& visit) {
    for (int lane = 0, i = 0; mask != 0;) {
        const int gap = std::countr_zero(mask), length = std::countr_one(mask >> gap);
        visit(lane + gap, i, length);
        lane += gap + length;
        i += length;
        mask = lane < kLanes ? mask >> gap >> length : 0;
    }
}

// The sums of the rows of a slice. Static, for a function with clones cannot be merged between object files.
template <class T>
SPMVGPU_SIMD_CLONES static void sum_packed_slice(const PackedSell<T>& matrix, index_t slice, const T* x, T* sums) {
    const index_t first = slice * kLanes, lanes = slice_end(slice, matrix.rows) - first;
    const bool in_order = matrix.permutation.size() == 0;
    index_t rows[kLanes] = {};
    for (index_t lane = 0; lane < lanes; ++lane) rows[lane] = matrix.row_at(first + lane);
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] = T(0);
    Unpacked<T> entries;
    for_each_stored_slot(matrix, slice, [&](const StoredSlot<T>& stored) {
        const std::int32_t base = stored.slot.base;
        entries.read(matrix, stored);
        const bool side_by_side = in_order && stored.slot.index == IndexMode::kShared;
        for_each_run(stored.mask, [&](int lane, int i, int length) {
            const T* const values = entries.values + i;
            T* const run = sums + lane;
            if (side_by_side) {
                const T* const from = x + column_of(base, first + lane, 0);
#pragma omp simd
                for (int j = 0; j < length; ++j) run[j] += values[j] * from[j];
            } else {
#pragma omp simd
                for (int j = 0; j < length; ++j) {
                    run[j] += values[j] * x[column_of(base, rows[lane + j], entries.offsets[i + j])];
                }
            }
        });
    });
}

}  // namespace

template <class T>
CsrMatrix<T> PackedSell<T>::to_csr() const {
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    csr.row_offsets[0] = 0;
    const std::int64_t nanoseconds = std::int64_t(rows) + nnz;
    parallel_for(slices, nanoseconds, [&](index_t s) {
        const index_t first = s * kLanes, lanes = slice_end(s, rows) - first;
        index_t lengths[kLanes] = {};
        for_each_stored_slot(*this, s, [&](const StoredSlot<T>& stored) {
            for (index_t lane = 0; lane < lanes; ++lane) lengths[lane] += stored.mask >> lane & 1;
        });
        for (index_t lane = 0; lane < lanes; ++lane) csr.row_offsets[row_at(first + lane) + 1] = lengths[lane];
    });
    std::partial_sum(csr.row_offsets.begin(), csr.row_offsets.end(), csr.row_offsets.begin());
    parallel_for(slices, nanoseconds, [&](index_t s) {
        const index_t first = s * kLanes, lanes = slice_end(s, rows) - first;
        index_t next[kLanes] = {};
        for (index_t lane = 0; lane < lanes; ++lane) next[lane] = csr.row_offsets[row_at(first + lane)];
        Unpacked<T> entries;
        for_each_stored_slot(*this, s, [&](const StoredSlot<T>& stored) {
            entries.read(*this, stored);
            int i = 0;
            for (std::uint32_t left = stored.mask; left != 0; left &= left - 1, ++i) {
                const int lane = std::countr_zero(left);
                const index_t k = next[lane]++;
                csr.col_indices[k] = column_of(stored.slot.base, row_at(first + lane), entries.offsets[i]);
                csr.values[k] = entries.values[i];
            }
        });
    });
    return csr;
}

template <class T>
void PackedSell<T>::spmv(const Product<T>& product) const {
    parallel_for(slices, std::int64_t(rows) + nnz, [&](index_t s) {
        T sums[kLanes];
        sum_packed_slice(*this, s, product.x, sums);
        for (index_t i = s * kLanes; i < slice_end(s, rows); ++i) store_row(product, row_at(i), sums[i % kLanes]);
    });
}

#define INSTANTIATE(T)                                   \
    template CsrMatrix<T> PackedSell<T>::to_csr() const; \
    template void PackedSell<T>::spmv(const Product<T>&) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
