// Where the rows or the columns of a part lie in the whole.
#pragma once

#include <vector>

#include "core/array.hpp"
#include "core/host_vector.hpp"

namespace spmvgpu {

// Next to each other from `first` on, or at map[i].
struct Places {
    index_t first = 0;
    Array<index_t> map;  // empty: next to each other

    static Places from(const HostVector<index_t>& places);  // a map where one is needed, in host memory

    bool scattered() const { return map.size() > 0; }
    index_t operator[](index_t i) const { return scattered() ? map[i] : first + i; }  // the map in host memory
};

// Throws std::invalid_argument unless `count` places of rows or columns (`what`) all lie below `limit`.
void check_places(const char* what, const Places& places, index_t count, index_t limit);

// Every row must lie in exactly one part.
class RowCheck {
public:
    explicit RowCheck(index_t rows) : taken_(rows) {}
    void add(const Places& places, index_t count);  // throws std::invalid_argument for a row that is there already
    void finish() const;                            // or for one that is missing

private:
    HostVector<bool> taken_;
};

// to[i] = from[places[i]] for the places of a map; device memory on a GPU, where it is queued on the stream.
template <class T>
void gather(T* to, const T* from, const Array<index_t>& places, Stream stream);

// y = from + beta * y at the places of `count` elements, in host memory; y is not read where beta is zero.
template <class T>
void scatter_on_host(T* y, const T* from, const Places& places, index_t count, T beta);

}  // namespace spmvgpu
